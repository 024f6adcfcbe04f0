"""MLX as a device of ggml's: the native runtime gives it what it supports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("mlx.core")

import numpy as np
import torch
from tests.devices.cases import CASES, Case
from tests.devices.ggml import backend, compute
from tests.helpers import assert_all_same, lowered
from torch import nn

from executorch_ggml import devices
from executorch_ggml.devices.mlx import MlxDevice
from executorch_ggml.ir.graph import Graph
from executorch_ggml.ir.serialize import serialize
from executorch_ggml.runtime import Session


class Watched(MlxDevice):
    """Keeps what it was asked to plan."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.name = "mlx-watched"
        self.graphs: list[Graph] = []

    def plan(self, graph: Graph) -> Callable[..., Any]:
        self.graphs.append(graph)
        return super().plan(graph)


class Attention(nn.Module):
    """A normalized block with attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(2, 5, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 32)
        return x + nn.functional.gelu(self.out(y))


def test_a_session_on_mlx() -> None:
    device, x = Watched(), torch.randn(2, 5, 32)
    devices.register(device, override=True)
    devices.load()
    model = Attention().eval()
    graph = lowered(model, (x,))
    constants = {constant.key: constant.stored() for constant in graph.named_constants()}
    session = Session(serialize(graph), constants, device=device.name)
    for _ in range(2):
        outputs = [torch.as_tensor(output) for output in session.run(x)]
        assert_all_same(outputs, model(x).detach())
    planned = {node.op for graph in device.graphs for node in graph.nodes}
    assert {"norm", "attention"} <= planned
    assert len(device.graphs) <= 3, "a plan is kept for the next run"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_op(case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    """Each of ggml's ops beside its CPU."""
    devices.load("mlx")
    expected, _ = compute(case.build, backend("CPU"))
    made, supported = compute(case.build, backend("mlx"))
    log = capfd.readouterr().err
    assert supported <= case.supported
    assert ("failed" in log) <= (not case.supported), log
    for ours, theirs in zip(made, expected, strict=True):
        largest = np.abs(np.nan_to_num(theirs.astype(np.float64), posinf=0, neginf=0)).max(initial=1e-6)
        np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), 0, case.tolerance * largest)
