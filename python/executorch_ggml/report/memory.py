"""Memory over time as a program plans it: ExecuTorch's arenas for values outside, and each delegate's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy
from executorch.exir.schema import DelegateCall, KernelCall, Tensor, TensorList

from ..ir.dims import evaluate
from ..ir.graph import Graph
from ..ir.serialize import deserialize
from ..partition.placement import blank_constants, inputs_of_sizes, smallest_sizes
from ..runtime.session import Session
from .method import delegate_name, node_id, outside_id, tensor_bytes
from .model import Arena, Block

MOST_BYTES = 1 << 30  # of inputs that are made to plan with


def outside_arenas(plan: Any) -> Iterator[Arena]:
    """ExecuTorch's arenas of a method, with the values that pass between its calls."""
    steps = [
        (chain, i, c.instr_args) for chain, rows in enumerate(plan.chains) for i, c in enumerate(rows.instructions)
    ]
    lives = _lives(plan, [call for _, _, call in steps])
    for memory, size in enumerate(plan.non_const_buffer_sizes):
        blocks = []
        for index, (first, last) in lives.items():
            tensor = plan.values[index].val
            where = tensor.allocation_info
            if where.memory_id != memory:
                continue
            offset = (where.memory_offset_high << 32) + where.memory_offset_low
            writer = outside_id(steps[first][1], steps[first][0]) if steps else ""
            label = f"value {index} {list(tensor.sizes)}"
            blocks.append(Block(writer, label, offset, tensor_bytes(tensor), first, last))
        if size > 0:
            names = tuple(_call_name(plan, call) for _, _, call in steps)
            name = f"ExecuTorch, memory {memory}"
            yield Arena(name, "the largest sizes", int(size), names, tuple(blocks))


def _lives(plan: Any, calls: list[Any]) -> dict[int, tuple[int, int]]:
    """From which call to which each planned tensor is needed: inputs from the first on, outputs until the last."""
    lives: dict[int, tuple[int, int]] = {}

    def needed(index: int, step: int) -> None:
        value = plan.values[index].val
        if isinstance(value, TensorList):
            for item in value.items:
                needed(item, step)
        elif isinstance(value, Tensor) and value.allocation_info is not None:
            first, last = lives.get(index, (step, step))
            lives[index] = min(first, step), max(last, step)

    for step, call in enumerate(calls):
        for index in getattr(call, "args", ()):
            needed(index, step)
    for index in plan.inputs:
        needed(index, 0)
    for index in plan.outputs:
        needed(index, max(len(calls) - 1, 0))
    return lives


def _call_name(plan: Any, call: Any) -> str:
    match call:
        case KernelCall():
            operator = plan.operators[call.op_index]
            return f"{operator.name}.{operator.overload}" if operator.overload else str(operator.name)
        case DelegateCall():
            return delegate_name(call.delegate_index)
    return type(call).__name__


def delegate_arena(payload: bytes, index: int) -> Arena:
    """The working memory of a delegate of ggml's on the CPU."""
    graph = deserialize(payload)
    sizes = _sizes(graph)
    session = Session(payload, blank_constants(graph), threads=1)
    use = session.memory_use(*inputs_of_sizes(graph, sizes))

    def op_of(node: int) -> str:
        return "copy" if node < 0 else graph.nodes[node].op  # of no node: an input or output that is copied

    blocks = [
        Block(node_id(index, node) if node >= 0 else "", op_of(node), offset, size, first, last)
        for node, offset, size, first, last in use.blocks
    ]
    text = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items()) or "its only sizes"
    steps = tuple(op_of(node) for node in use.steps)
    return Arena(f"ggml, {delegate_name(index)}", text, use.bytes, steps, tuple(blocks))


def _sizes(graph: Graph) -> dict[sympy.Symbol, int]:
    """The largest sizes of inputs, as ExecuTorch plans for; where those are too large to make, the smallest."""
    largest = {entry.symbol: entry.max for entry in graph.symbols}
    return largest if _input_bytes(graph, largest) <= MOST_BYTES else smallest_sizes(graph)


def _input_bytes(graph: Graph, sizes: Mapping[sympy.Symbol, int]) -> int:
    counts = [(port.value.dtype, [evaluate(n, sizes) for n in port.shape]) for port in graph.inputs]
    total = 0
    for dtype, shape in counts:
        count = 1
        for size in shape:
            count *= size
        total += dtype.itemsize * count
    return total
