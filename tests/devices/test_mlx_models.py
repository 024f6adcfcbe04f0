"""Whole models, lowered by the project and run by MLX: the answers of eager, the interpreter and the native runtime."""

from __future__ import annotations

import pytest

pytest.importorskip("mlx.core")

import torch
from tests import zoo
from tests.devices.mlx_check import check_graph
from tests.helpers import lowered, run_session, session

slow = pytest.mark.slow
MODELS = ["bert", "llama", "resnet18", "unet"]
SLOW = ["llama_masked", "llama_packed", "vit", "mobilenet_v2", "lstm", "gru"]


def test_every_model_is_tested() -> None:
    assert {*MODELS, *SLOW} == set(zoo.MODELS)


@pytest.mark.parametrize("name", [*MODELS, *(pytest.param(name, marks=slow) for name in SLOW)])
def test_model(name: str) -> None:
    model = zoo.load(name, small=True)
    graph = lowered(model.module, model.args)
    with torch.no_grad():
        expected = model.module(*model.args)
    outputs = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    # Sums are in another order from layer to layer, so whole models are held to what the project holds ggml to.
    check_graph(graph, model.args, tolerance=1e-4, expected=outputs)
    check_graph(graph, model.args, tolerance=1e-4, expected=run_session(session(graph), model.args))
