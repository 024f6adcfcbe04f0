"""Recipes for ``executorch.export``: ``export(model, [inputs], ExportRecipe.get_recipe(GgmlRecipeType.GGML_Q8_0))``.

Importing this module, or naming ``executorch_ggml.GgmlRecipeType``, makes them known to ExecuTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig
from executorch.export import (
    AOQuantizationConfig,
    BackendRecipeProvider,
    ExportRecipe,
    LoweringRecipe,
    QuantizationRecipe,
    RecipeType,
    recipe_registry,
)
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerGroup

from ._export import executorch_config
from .partition import GgmlPartitioner
from .quant import GgmlQuantConfig
from .quant.pt2e import GgmlQuantizer, int8_config

BACKEND = "ggml"


class GgmlRecipeType(RecipeType):
    """What a program's weights are stored in and what its layers are computed in."""

    GGML_F32 = "ggml_f32"
    # Weights in one of ggml's types.
    GGML_F16 = "ggml_f16"
    GGML_Q8_0 = "ggml_q8_0"
    GGML_Q6_K = "ggml_q6_k"
    GGML_Q5_K = "ggml_q5_k"
    GGML_Q4_K = "ggml_q4_k"
    GGML_Q4_0 = "ggml_q4_0"
    # Layers computed in less than float32, without calibration.
    GGML_BF16 = "ggml_bf16"
    GGML_INT8_DYNAMIC = "ggml_int8_dynamic"
    # PT2E with GgmlQuantizer: static scales take calibration inputs, QAT takes `train_fn`.
    GGML_PT2E_INT8 = "ggml_pt2e_int8"
    GGML_PT2E_INT8_PER_TENSOR = "ggml_pt2e_int8_per_tensor"
    GGML_PT2E_INT8_SYMMETRIC = "ggml_pt2e_int8_symmetric"
    GGML_PT2E_INT8_DYNAMIC = "ggml_pt2e_int8_dynamic"
    GGML_PT2E_INT8_QAT = "ggml_pt2e_int8_qat"
    # torchao: 8-bit activations, 4-bit weights in groups of `group_size` (32).
    GGML_TORCHAO_8DA4W = "ggml_torchao_8da4w"

    @classmethod
    def get_backend_name(cls) -> str:
        return BACKEND


_PARTITIONER_OPTIONS = {"layout", "own_kernels", "targets", "weights_file", "states_by_name"}


@dataclass(frozen=True)
class _Recipe:
    """How a recipe quantizes, what it gives the partitioner, and the options that it takes of its own."""

    quantization: Callable[[dict[str, Any]], QuantizationRecipe | None] = lambda options: None
    partitioner: Callable[[], dict[str, Any]] = dict
    options: frozenset[str] = frozenset()


def _stored(dtype: str) -> _Recipe:
    return _Recipe(partitioner=lambda: {"weights": GgmlQuantConfig(dtype)})


def _computed(precision: str) -> _Recipe:
    return _Recipe(partitioner=lambda: {"precision": precision})


def _pt2e(**config: bool) -> _Recipe:
    def quantization(options: dict[str, Any]) -> QuantizationRecipe:
        return QuantizationRecipe(
            quantizers=[GgmlQuantizer(int8_config(**config))], is_qat=config.get("qat", False), **options
        )

    own = {"train_fn"} if config.get("qat") else {"calibration_inputs_fn"}
    return _Recipe(quantization, options=frozenset({"dynamic_batch_size", *own}))


def _torchao_8da4w(options: dict[str, Any]) -> QuantizationRecipe:
    config = Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4,  # type: ignore[attr-defined] # torch's types lack it
        weight_granularity=PerGroup(options.get("group_size", 32)),
        weight_scale_dtype=torch.bfloat16,  # which ggml's blocks hold exactly
    )
    return QuantizationRecipe(ao_quantization_configs=[AOQuantizationConfig(config)])


_RECIPES = {
    GgmlRecipeType.GGML_F32: _Recipe(),
    GgmlRecipeType.GGML_F16: _stored("f16"),
    GgmlRecipeType.GGML_Q8_0: _stored("q8_0"),
    GgmlRecipeType.GGML_Q6_K: _stored("q6_k"),
    GgmlRecipeType.GGML_Q5_K: _stored("q5_k"),
    GgmlRecipeType.GGML_Q4_K: _stored("q4_k"),
    GgmlRecipeType.GGML_Q4_0: _stored("q4_0"),
    GgmlRecipeType.GGML_BF16: _computed("bf16"),
    GgmlRecipeType.GGML_INT8_DYNAMIC: _computed("int8-dynamic"),
    GgmlRecipeType.GGML_PT2E_INT8: _pt2e(),
    GgmlRecipeType.GGML_PT2E_INT8_PER_TENSOR: _pt2e(per_channel=False),
    GgmlRecipeType.GGML_PT2E_INT8_SYMMETRIC: _pt2e(symmetric=True),
    GgmlRecipeType.GGML_PT2E_INT8_DYNAMIC: _pt2e(dynamic=True),
    GgmlRecipeType.GGML_PT2E_INT8_QAT: _pt2e(qat=True),
    GgmlRecipeType.GGML_TORCHAO_8DA4W: _Recipe(_torchao_8da4w, options=frozenset({"group_size"})),
}


class GgmlRecipeProvider(BackendRecipeProvider):
    """Makes the recipes of :class:`GgmlRecipeType`.

    All take options of :class:`GgmlPartitioner` (``layout``, ``own_kernels``, ``targets``, ``weights_file``,
    ``states_by_name``). Those of PT2E take ``dynamic_batch_size`` and ``calibration_inputs_fn``, or ``train_fn``;
    torchao's take ``group_size``. Any other option is a ValueError.
    """

    @property
    def backend_name(self) -> str:
        return BACKEND

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        return list(_RECIPES)

    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        if not isinstance(recipe_type, GgmlRecipeType):
            return None
        recipe = _RECIPES[recipe_type]
        if unknown := sorted(kwargs.keys() - recipe.options - _PARTITIONER_OPTIONS):
            known = ", ".join(sorted(recipe.options | _PARTITIONER_OPTIONS))
            raise ValueError(f"{recipe_type.value} has no option {', '.join(unknown)}; its options are {known}")
        own = {name: value for name, value in kwargs.items() if name in recipe.options}
        lowering = {name: value for name, value in kwargs.items() if name not in recipe.options}
        return ExportRecipe(
            name=recipe_type.value,
            quantization_recipe=recipe.quantization(own),
            lowering_recipe=LoweringRecipe(
                partitioners=[GgmlPartitioner(**recipe.partitioner(), **lowering)],
                # ExecuTorch's check makes a symbolic batch constant where an op gives a list (split, in a GRU).
                edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
            ),
            executorch_backend_config=executorch_config(),
            strict=False,
        )


recipe_registry.register_backend_recipe_provider(GgmlRecipeProvider())
