"""States in a quantized type, as a KV cache may be: by the user's choice, so that it is no pass of every graph.

Given::

    state $cache: f32[64, 8, 4, 1]
    %0 = update_state($cache, %index, %src)
    %1 = attention(%q, %0, ...)                 # views and permutations that keep rows may stand between

Result::

    state $cache: q8_0[64, 8, 4, 1]
    %0 = update_state($cache, %index, %src)
    %1 = attention(%q, %0, ...)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from ..ir.dtypes import DType
from ..ir.graph import Graph, IRError, State, Value


def run(graph: Graph, types: Mapping[str, DType]) -> Graph:
    """The graph with the states of some names (glob patterns) in a quantized type.

    Raises :class:`IRError` where a state starts with other than zeros, or is read in another way.
    """
    for state in graph.states:
        dtype = next((dtype for pattern, dtype in types.items() if fnmatchcase(state.key, pattern)), state.value.dtype)
        if dtype != state.value.dtype:
            _quantize(graph, state, dtype)
    return graph


def _quantize(graph: Graph, state: State, dtype: DType) -> None:
    if state.init is not None and state.init.data is not None and bool(state.init.data().any()):
        raise IRError(f"state {state.key} in {dtype.name.lower()}: it must start with zeros")
    if not isinstance(state.value.ne[0], int) or state.value.ne[0] % dtype.block:
        raise IRError(
            f"state {state.key} in {dtype.name.lower()}: its rows must be multiples of {dtype.block} elements"
        )
    shown = list(_shown(graph, state, dtype))
    state.init = None
    for value in shown:
        value.dtype = dtype


def _shown(graph: Graph, state: State, dtype: DType) -> Iterator[Value]:
    """A state, and the values that show it or parts of it."""
    seen = {state.value}
    yield state.value
    for node in graph.nodes:
        places = [index for index, value in enumerate(node.inputs) if value in seen]
        if not places:
            continue
        if node.op in ("view", "permute", "update_state") and places == [0]:
            seen.add(node.output)
            yield node.output
        elif not (node.op == "attention" and set(places) <= {1, 2}):
            raise IRError(f"state {state.key} in {dtype.name.lower()}: {node.op} ({node.name}) cannot read it so")
