"""States that are changed in a few rows are changed where they lie, and may be quantized, as a KV cache is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from ...ir.dtypes import DType
from ...ir.graph import Graph, IRError, Node, State, Value
from ...ir.ops import OPS
from ...ir.ops.indexing import ScatterKind


def update_in_place(graph: Graph) -> None:
    """Write rows into a state instead of a copy of it, wherever nothing else reads what the state was before.

    Given::

        a = scatter(state, index, src, kind=ASSIGN)    # reshapes may stand between
        write_state(a, state)

    Result::

        a = update_state(state, index, src)
    """
    reads = _reads(graph)
    done = set()
    for write in graph.nodes:
        if write.op != "write_state":
            continue
        made, state = write.inputs
        path = _path(made, state)
        rows = [node for node in path if node.op == "scatter"]
        if not rows:
            continue
        reads[state] -= 1  # as what this write goes to
        before = [state, *(node.output for node in path[: path.index(rows[-1])])]
        if all(reads[value] == 1 for value in before):
            for node in rows:
                node.spec = OPS["update_state"]
                node.attrs = {attr.name: node.attrs[attr.name] for attr in node.spec.attrs}
            done.add(write)
        else:
            reads[state] += 1
    graph.nodes = [node for node in graph.nodes if node not in done]


def _path(made: Value | None, state: Value | None) -> list[Node]:
    """The nodes from a state to what is written to it, in order, if all of them reshape it or write rows into it."""
    path: list[Node] = []
    while made is not state and made is not None and made.producer is not None:
        node = made.producer
        if node.op != "reshape" and not (node.op == "scatter" and node.attrs["kind"] == ScatterKind.ASSIGN):
            break
        path.insert(0, node)
        made = node.inputs[0]
    return path if made is state else []


def round_when_written(graph: Graph) -> None:
    """Leave it to the write to round rows to f16, wherever nothing else reads the rounded ones.

    Given::

        update_state(state, index, convert(src, F16))

    Result::

        update_state(state, index, src)
    """
    reads = _reads(graph)
    done = set()
    for node in graph.nodes:
        rows = node.inputs[2].producer if node.op == "update_state" and node.inputs[2] is not None else None
        if rows is None or rows.op != "convert" or reads[rows.output] != 1 or node.attrs["axis"] == 0:
            continue
        source = rows.inputs[0]
        if (node.output.dtype, source.dtype if source is not None else None) == (DType.F16, DType.F32):
            node.inputs = (*node.inputs[:2], source)
            done.add(rows)
    graph.nodes = [node for node in graph.nodes if node not in done]


def _reads(graph: Graph) -> Counter[Value | None]:
    """How often each value is read."""
    reads: Counter[Value | None] = Counter(value for node in graph.nodes for value in node.inputs)
    reads.update(port.value for port in graph.outputs)
    return reads


def quantize_states(graph: Graph, types: Mapping[str, DType]) -> None:
    """Keep the states of some names (glob patterns) in a quantized type.

    Given::

        update_state(state, index, src)     # f32 rows
        flash_attn_ext(q, view(state), …)   # read through views and permutations that keep rows

    Result: the same nodes, the state and what shows it in the type. Raises :class:`IRError` where a state starts with
    other than zeros, or is read in another way.
    """
    for state in graph.states:
        dtype = next((dtype for pattern, dtype in types.items() if fnmatchcase(state.key, pattern)), state.value.dtype)
        if dtype != state.value.dtype:
            _quantize(graph, state, dtype)


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
        elif not (node.op == "flash_attn_ext" and set(places) <= {1, 2}):
            raise IRError(f"state {state.key} in {dtype.name.lower()}: {node.op} ({node.name}) cannot read it so")
