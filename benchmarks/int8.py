"""Models in int8 by PT2E and ExecuTorch's own recipe for XNNPACK: symmetric, static, weights per channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCHES = 4
"""Inputs that the ranges of activations are taken from."""
DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor"


def calibration(args: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    """Calibration inputs: the given ones, and random permutations of their elements."""
    generator = torch.Generator().manual_seed(0)

    def shuffled(arg: Tensor) -> Tensor:
        return arg.flatten()[torch.randperm(arg.numel(), generator=generator)].reshape(arg.shape)

    return [args, *(tuple(shuffled(arg) for arg in args) for _ in range(BATCHES - 1))]


def quantized(module: nn.Module, batches: Sequence[tuple[Tensor, ...]]) -> nn.Module:
    """The module as PT2E's `convert_pt2e` leaves it, for the shapes of `batches` alone."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e import allow_exported_model_train_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    graph: Any = torch.export.export(module, batches[0]).module()
    _drop_added_zeros(graph)
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(graph, quantizer)
    with torch.no_grad():
        for batch in batches:
            prepared(*batch)
    converted: nn.Module = convert_pt2e(prepared)
    allow_exported_model_train_eval(converted)  # in place
    return converted


def _drop_added_zeros(module: torch.fx.GraphModule) -> None:
    """Drop `x + 0` on integers: the quantizer makes a float of the zero, and an index of `x` can then not be one."""
    for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        if node.args[1:] == (0,) and not node.meta["val"].is_floating_point():
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.recompile()


def last_step(module: nn.Module) -> float | None:
    """The scale of the output, if that is quantized: how far apart two neighbouring numbers of it are."""
    assert isinstance(module, torch.fx.GraphModule)
    (output,) = module.graph.find_nodes(op="output")
    last = output.all_input_nodes[0]
    return float(last.args[1]) if DEQUANTIZE in str(last.target) else None
