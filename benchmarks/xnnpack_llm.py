"""Language models the way that ExecuTorch itself runs them on processors: XNNPACK, 8-bit activations, 4-bit weights.

This is the recipe of its examples (``examples/models/qwen3/config/qwen3_xnnpack_q8da4w.yaml``) for a model of
transformers: torchao quantizes linear layers in groups of 32 and embeddings to 8 bits, ExecuTorch's custom ops update
the cache and attend to its filled part, and XNNPACK gets the quantized layers first and then what else it takes.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401 - registers them
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, CacheLayerMixin

NAME = "executorch_custom_sdpa"
GROUP = 32

# These have no types.
_ops: Any = torch.ops.llama
_check: Any = torch._check
_int4: Any = vars(torch)["int4"]


class _Rows(nn.Module):
    """One layer's keys and values, in the type and layout that the custom ops want."""

    keys: Tensor
    values: Tensor

    def __init__(self, length: int, heads: int, head_dim: int) -> None:
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, length, heads, head_dim), persistent=False)


class _Layer(CacheLayerMixin):
    """What transformers sees of one layer's rows; its attention is :func:`_attention`."""

    is_sliding = False

    def __init__(self, rows: _Rows, first: Any) -> None:
        super().__init__()
        self.rows = rows
        self.first = first
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the buffers are there from the start."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Write the new rows. What is returned goes to :func:`_attention` alone."""
        del args, kwargs
        _ops.update_cache(key_states.transpose(1, 2), self.rows.keys, self.first)
        _ops.update_cache(value_states.transpose(1, 2), self.rows.values, self.first)
        return self, None

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Of a mask that is never made."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """The positions are given."""
        return 0

    def get_max_length(self) -> int:
        """How many positions there are."""
        return self.rows.keys.shape[1]


def _attention(
    module: nn.Module, query: Tensor, layer: _Layer, _: None, attention_mask: None, *, scaling: float, **kwargs: Any
) -> tuple[Tensor, None]:
    del module, attention_mask, kwargs
    rows = layer.rows
    made = _ops.custom_sdpa(query.transpose(1, 2), rows.keys, rows.values, layer.first, None, 0.0, True, scaling)
    return made, None


def _no_mask(*args: Any, **kwargs: Any) -> None:
    del args, kwargs


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, _no_mask)


class _Cached(nn.Module):
    """``(tokens int64 [1, n], position int64 [1]) -> logits`` of the last token."""

    def __init__(self, model: Any, length: int) -> None:
        super().__init__()
        config = model.config
        self.model = model
        self.length = length
        self.rows = nn.ModuleList(
            _Rows(length, config.num_key_value_heads, config.head_dim) for _ in range(config.num_hidden_layers)
        )

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Read tokens that come at a position."""
        first: Any = position.item()
        count: Any = tokens.shape[1]
        _check(first >= 0)
        _check(first + count <= self.length)
        cache = Cache(layers=[_Layer(rows, first) for rows in self.rows])  # type: ignore[arg-type] # a ModuleList
        positions = position + torch.arange(tokens.shape[1])
        made = self.model(input_ids=tokens, position_ids=positions[None], past_key_values=cache, logits_to_keep=1)
        logits: Tensor = made.logits[:, -1]
        return logits


def quantize(model: Any) -> None:
    """Quantize a model in place."""
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    linear = Int8DynamicActivationIntxWeightConfig(weight_dtype=_int4, weight_granularity=PerGroup(GROUP))
    embedding = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0))
    quantize_(model, linear, lambda module, _: isinstance(module, nn.Linear))
    quantize_(model, embedding, lambda module, _: isinstance(module, nn.Embedding))


def lower(model: Any, length: int, chunk: int) -> Any:
    """The program of a model in f32, which is changed."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
        XnnpackDynamicallyQuantizedPartitioner,
        XnnpackPartitioner,
    )
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.sym_shape_eval_pass import ConstraintBasedSymShapeEvalPass
    from torchao.utils import unwrap_tensor_subclass

    quantize(model)
    model.config._attn_implementation = NAME
    module = unwrap_tensor_subclass(_Cached(model, length)).eval()
    example = (torch.zeros(1, chunk, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))
    shapes = ({1: torch.export.Dim("count", min=1, max=chunk)}, None)
    with torch.no_grad():
        program = torch.export.export(module, example, dynamic_shapes=shapes, strict=False)
    edge = to_edge_transform_and_lower(
        program,
        partitioner=[XnnpackDynamicallyQuantizedPartitioner(), XnnpackPartitioner()],
        compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
    )
    return edge.to_executorch(
        ExecutorchBackendConfig(
            extract_delegate_segments=True,
            do_quant_fusion_and_const_prop=True,
            memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False),
            sym_shape_eval_pass=ConstraintBasedSymShapeEvalPass(),
        )
    )
