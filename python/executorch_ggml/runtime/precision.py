"""A program's layers in low precision, for sessions: what is done at export, with the constants that are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..ir._lazy import torch
from ..ir.dtypes import DType
from ..ir.graph import Constant, Graph, Node, Value
from ..ir.serialize import deserialize, serialize
from ..ir.storage import PLAIN, unpack
from ..passes import PRECISIONS, check_precision, run_passes
from ..passes.layers import LAYERS
from ..passes.rewrite import Rewriter
from ..targets import cpu
from ..targets.images import planar

_PASSES = ("half_weights", "blocked_weights")


def in_precision(program: bytes, constants: Mapping[str, Any], precision: str) -> tuple[bytes, dict[str, Any]]:
    """The program for the CPU with its layers of float32 in a precision, and its constants.

    Weights that layers no longer read are left out, and converted ones take memory of their own. Raises ValueError for
    a precision that there is none of, for a program that was exported with one, and for one without layers whose
    float32 weights are among ``constants``.
    """
    check_precision(precision, _PASSES)
    graph = deserialize(program)
    if any(known.applies(graph) for known in PRECISIONS.values()):
        raise ValueError(f"precision {precision!r}: the program was exported with one, which it keeps; leave it out")
    graph = run_passes(_with_plain_weights(graph, constants), _PASSES, precision)
    if not PRECISIONS[precision].applies(graph):
        raise ValueError(f"precision {precision!r}: no layer has float32 weights among the constants; leave it out")
    graph = cpu.run(graph)
    converted = {entry.key: _stored(entry) for entry in graph.named_constants() if entry.key not in constants}
    return serialize(graph), {**_named(graph, constants), **converted}


def _named(graph: Graph, constants: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a graph reads."""
    return {entry.key: constants[entry.key] for entry in graph.named_constants() if entry.key in constants}


def _stored(constant: Constant) -> torch.Tensor:
    return constant.stored().to(constant.value.dtype.torch)


def _with_plain_weights(graph: Graph, constants: Mapping[str, Any]) -> Graph:
    """The graph with layers over images in ggml's order, and over weights in float32 that are plain and at hand."""
    rules = dict.fromkeys(LAYERS, partial(_over_plain, constants))
    return Rewriter(Rewriter(graph).run({"conv_2d_nhwc": planar})).run(rules)


def _over_plain(
    constants: Mapping[str, Any], rewriter: Rewriter, node: Node, inputs: tuple[Value | None, ...]
) -> Value | None:
    x, weight, bias = inputs
    stored = None if weight is None else rewriter.constant(weight)
    if weight is None or stored is None or stored.value.dtype != DType.F32 or stored.key not in constants:
        return None
    contents = partial(_plain, stored, constants[stored.key])
    plain = rewriter.builder.constant(f"{stored.key}.plain", DType.F32, weight.ne, contents)
    return rewriter.builder.emit(node.op, x, plain, bias, **node.attrs)


def _plain(constant: Constant, array: Any) -> torch.Tensor:
    """An array, of elements or bytes, as the contents of the constant that it is stored for."""
    packed = torch.as_tensor(array).contiguous().reshape(-1).view(torch.uint8).view(torch.float32)
    return packed if constant.storage == PLAIN else unpack(packed, constant.shape, constant.storage).contiguous()
