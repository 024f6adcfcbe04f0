"""Recipes of ``executorch.export``: each makes a program that gives eager's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.export import ExportRecipe, export, recipe_registry
from torch import Tensor, nn

import executorch_ggml
from executorch_ggml import GgmlRecipeType

AT_MOST = {
    GgmlRecipeType.GGML_F32: 1e-5,
    GgmlRecipeType.GGML_F16: 2e-3,
    GgmlRecipeType.GGML_BF16: 2e-2,
    GgmlRecipeType.GGML_Q8_0: 2e-2,
    GgmlRecipeType.GGML_INT8_DYNAMIC: 3e-2,
    GgmlRecipeType.GGML_PT2E_INT8_DYNAMIC: 3e-2,
    GgmlRecipeType.GGML_Q6_K: 4e-2,
    GgmlRecipeType.GGML_PT2E_INT8: 4e-2,
    GgmlRecipeType.GGML_PT2E_INT8_SYMMETRIC: 4e-2,
    GgmlRecipeType.GGML_PT2E_INT8_PER_TENSOR: 5e-2,
    GgmlRecipeType.GGML_Q5_K: 8e-2,
    GgmlRecipeType.GGML_Q4_K: 0.15,
    GgmlRecipeType.GGML_Q4_0: 0.2,
    GgmlRecipeType.GGML_TORCHAO_8DA4W: 0.25,
}


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64)).eval()


def inputs(count: int = 1) -> list[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(4, 256, generator=generator),) for _ in range(count)]


def program(recipe: Any, path: Path, **options: Any) -> executorch_ggml.Module:
    session = export(model(), inputs(4), ExportRecipe.get_recipe(recipe, **options))
    session.save_to_pte(str(path / "model.pte"))
    return executorch_ggml.load(path / "model.pte")


def error(program: executorch_ggml.Module) -> float:
    (x,) = inputs()[0]
    expected = model()(x)
    return float((program(x) - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("recipe", AT_MOST, ids=lambda recipe: recipe.value)
def test_recipe(recipe: GgmlRecipeType, tmp_path: Path) -> None:
    assert error(program(recipe, tmp_path)) <= AT_MOST[recipe]


def test_quantized_programs_are_smaller(tmp_path: Path) -> None:
    sizes = {}
    for recipe in (GgmlRecipeType.GGML_F32, GgmlRecipeType.GGML_Q8_0, GgmlRecipeType.GGML_Q4_K):
        program(recipe, tmp_path, targets=("cpu",))
        sizes[recipe] = (tmp_path / "model.pte").stat().st_size
    assert sizes[GgmlRecipeType.GGML_Q8_0] < 0.4 * sizes[GgmlRecipeType.GGML_F32]
    assert sizes[GgmlRecipeType.GGML_Q4_K] < 0.65 * sizes[GgmlRecipeType.GGML_Q8_0]


@pytest.mark.slow  # torchao traces some hundred patterns of batch norms
def test_training_aware_recipe_trains(tmp_path: Path) -> None:
    steps = []

    def train(prepared: torch.fx.GraphModule) -> None:
        for args in inputs(3):
            prepared(*args)
            steps.append(args)

    loaded = program(GgmlRecipeType.GGML_PT2E_INT8_QAT, tmp_path, train_fn=train)
    assert len(steps) == 3
    assert error(loaded) <= 5e-2


def test_all_recipes_are_known_and_tested() -> None:
    assert set(recipe_registry.get_supported_recipes("ggml")) == set(GgmlRecipeType)
    assert set(AT_MOST) == set(GgmlRecipeType) - {GgmlRecipeType.GGML_PT2E_INT8_QAT}


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ValueError, match="ggml_f32 has no option group_size; its options are layout"):
        ExportRecipe.get_recipe(GgmlRecipeType.GGML_F32, group_size=32)
