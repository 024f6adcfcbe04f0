"""Builds graphs: one method a node, shapes and layouts worked out on the way, every call checked against its row."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .dims import as_dim, as_dims, is_one, product, same_dims
from .dtypes import DType
from .graph import Constant, Graph, IRError, Node, Port, State, Symbol, Traced, TracedForm, Value, dense_strides
from .op import AttrSpec, Dim, Dims, Layout, OpSpec, Writes
from .ops import OPS
from .ops.custom import ReduceKind

if TYPE_CHECKING:
    import sympy
    import torch

IDENTITY = (0, 1, 2, 3)
# Conversions after which the way back gives the same values.
_WIDENINGS = frozenset({(DType.F16, DType.F32), (DType.BF16, DType.F32), (DType.I32, DType.I64)})


class Builder:
    """Appends nodes to a :class:`Graph`. Equal calls give the same value."""

    def __init__(self) -> None:
        self.graph = Graph()
        self._made: dict[Any, Value] = {}
        self._constants: dict[str, Constant] = {}
        self._constant_of: dict[Value, Constant] = {}
        self.origin = ""  # what the nodes being built come from: becomes their name

    @classmethod
    def over(cls, graph: Graph) -> Builder:
        """A builder of another graph over the same symbols, inputs, constants and states, still without nodes."""
        builder = cls()
        builder.graph = Graph(
            symbols=list(graph.symbols),
            inputs=list(graph.inputs),
            constants=list(graph.constants),
            states=list(graph.states),
        )
        builder._constants = {constant.key: constant for constant in graph.constants}
        builder._constant_of = {constant.value: constant for constant in graph.constants}
        return builder

    # ------------------------------------------------------------------------------------------------- leaves

    def input(self, name: str, dtype: DType, shape: Sequence[Dim], ne: Dims) -> Value:
        """A tensor that the caller gives; ``shape`` is as the caller sees it."""
        value = Value(dtype, ne, dense_strides(ne))
        self.graph.inputs.append(Port(name, value, tuple(shape)))
        return value

    def output(self, name: str, value: Value, shape: Sequence[Dim]) -> None:
        """Give a value to the caller."""
        self.graph.outputs.append(Port(name, self.cont(value), tuple(shape)))

    def constant(
        self,
        key: str,
        dtype: DType,
        ne: Dims,
        data: Callable[[], torch.Tensor] | None = None,
        *,
        outside: bool = False,
    ) -> Value:
        """Data by name (see :class:`Constant`), asked for when the program is written. One key is one constant."""
        known = self._constants.get(key)
        if known is None:
            known = Constant(key, Value(dtype, ne, dense_strides(ne)), data, outside)
            self._constants[key] = self._constant_of[known.value] = known
            self.graph.constants.append(known)
        elif known.value.dtype != dtype or not same_dims(known.value.ne, ne):
            raise IRError(f"constant {key!r}: declared as {known.value} and again as {Value(dtype, ne, ne)}")
        return known.value

    def constant_of(self, value: Value) -> Constant | None:
        """The constant whose value it is, or None."""
        return self._constant_of.get(value)

    def keep_in(self, value: Value, dtype: DType) -> None:
        """Round a constant to a half type when the program is written (see :class:`Constant`)."""
        self._constant_of[value].kept_in = dtype

    def state(self, key: str, dtype: DType, ne: Dims, init: Callable[[], torch.Tensor] | None = None) -> Value:
        """A tensor that keeps its contents; ``init`` gives the first ones (zeros without it)."""
        value = Value(dtype, ne, dense_strides(ne))
        first = None if init is None else Constant(key, Value(dtype, ne, dense_strides(ne)), init)
        self.graph.states.append(State(key, value, first))
        return value

    def symbol(self, symbol: sympy.Symbol, input: int, dim: int, **how: Any) -> None:
        """Say where a symbol's value is read (see :class:`Symbol`)."""
        self.graph.symbols.append(Symbol(symbol, input, dim, **how))

    # -------------------------------------------------------------------------------------------------- nodes

    def emit(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """Call ``op``. Inputs are made dense where its row demands it; optional last ones may be left out."""
        spec = OPS[op]
        _verify_names(spec, attrs)
        inputs += (None,) * (len(spec.inputs) - len(inputs))
        attrs = {attr.name: _as_stored(attr, attrs[attr.name]) for attr in spec.attrs}
        ready = tuple(self._laid_out(value, wanted.layout) for value, wanted in zip(inputs, spec.inputs, strict=True))
        key = _key(op, ready, attrs)
        if key in self._made:
            return self._made[key]
        _verify_call(op, ready, attrs)
        dtype, ne = spec.result_of(spec.operands(ready, attrs))
        output = Value(dtype, ne, _strides(op, ready, attrs, ne))
        return self._append(Node(spec, ready, attrs, output, self.origin), key)

    def copy(self, node: Node, inputs: tuple[Value | None, ...]) -> Value:
        """A call of another graph over copies of its inputs: it was checked there, with the same dims and strides."""
        key = _key(node.op, inputs, node.attrs)
        if key in self._made:
            return self._made[key]
        return self._append(Node(node.spec, inputs, dict(node.attrs), copy.copy(node.output), self.origin), key)

    def _append(self, node: Node, key: Any) -> Value:
        node.output.producer = node
        self.graph.nodes.append(node)
        if node.spec.writes is Writes.NO:
            self._made[key] = node.output
        return node.output

    def _laid_out(self, value: Value | None, layout: Layout) -> Value | None:
        if value is None or layout is Layout.ANY or value.is_contiguous:
            return value
        return value if layout is Layout.ROWS and value.has_dense_rows else self.emit("cont", value)

    def cont(self, value: Value) -> Value:
        """The value, dense."""
        return value if value.is_contiguous else self.emit("cont", value)

    def reshape(self, value: Value, ne: Sequence[Dim]) -> Value:
        """The value in another shape: free when it is dense."""
        dims = _four(ne)
        if same_dims(value.ne, dims):
            return value
        source = value.producer
        if source is not None and source.op == "reshape":
            value = _given(source.inputs[0])
            if same_dims(value.ne, dims):
                return value
        return self.emit("reshape", value, ne=dims)

    def permute(self, value: Value, axes: Sequence[int]) -> Value:
        """A view with dim ``i`` at place ``axes[i]``; permutations of permutations are composed."""
        source = value.producer
        if source is not None and source.op == "permute":
            value = _given(source.inputs[0])
            axes = [axes[at] for at in source.attrs["axes"]]
        return value if tuple(axes) == IDENTITY else self.emit("permute", value, axes=tuple(axes))

    def transpose(self, value: Value) -> Value:
        """A view with the two inner dims swapped."""
        return self.permute(value, (1, 0, 2, 3))

    def view(self, value: Value, start: Sequence[Dim], ne: Sequence[Dim], step: Sequence[int] = (1, 1, 1, 1)) -> Value:
        """A strided window of a value: free."""
        window = _four(ne)
        if same_dims(value.ne, window) and all(s == 1 for s in step):
            return value
        return self.emit("view", value, start=_four(start), step=tuple(step), ne=window)

    def broadcast(self, value: Value, ne: Sequence[Dim]) -> Value:
        """The value with dims of size 1 repeated to ``ne``."""
        dims = _four(ne)
        return value if same_dims(value.ne, dims) else self.emit("broadcast", value, ne=dims)

    def convert(self, value: Value, dtype: DType) -> Value:
        """The value as another type. What it is a view or a repetition of is converted; a round trip is none."""
        if value.dtype == dtype:
            return value
        node = value.producer
        source = None if node is None or not node.inputs else node.inputs[0]
        if node is None or source is None:
            return self.emit("convert", value, dtype=dtype)
        if node.op == "permute" and source.is_contiguous:
            return self.permute(self.convert(source, dtype), node.attrs["axes"])
        if node.op == "broadcast":
            return self.broadcast(self.convert(source, dtype), value.ne)
        if node.op == "convert" and source.dtype == dtype and (dtype, value.dtype) in _WIDENINGS:
            return source
        return self.emit("convert", value, dtype=dtype)

    def reduce(self, value: Value, kind: ReduceKind, axes: Sequence[int]) -> Value:
        """The value with these dims reduced to size 1; sums and means along rows by ggml's own ops."""
        wide = [axis for axis in axes if not is_one(value.ne[axis])] or list(axes[:1])
        if wide == [0] and value.dtype == DType.F32 and kind in (ReduceKind.SUM, ReduceKind.MEAN):
            return self.emit("sum_rows" if kind == ReduceKind.SUM else "mean", value)
        return self.emit("reduce", value, kind=kind, axes=tuple(wide))

    def fill(self, ne: Sequence[Dim], number: Any, dtype: DType) -> Value:
        """One number everywhere: a Python number, or a size where the type is an integer one."""
        if dtype in (DType.F32, DType.F16, DType.BF16, DType.F64):
            if not isinstance(number, (bool, int, float)):
                return self.convert(self.fill(ne, number, DType.I64), dtype)
            return self.emit("fill", ne=_four(ne), value=float(number), integer=0, dtype=dtype)
        if dtype == DType.BOOL and isinstance(number, (int, float)):
            number = bool(number)  # half is true, and so is NaN
        integer = int(number) if isinstance(number, (bool, float)) else as_dim(number)
        return self.emit("fill", ne=_four(ne), value=0.0, integer=integer, dtype=dtype)

    def scalar(self, number: Any, dtype: DType) -> Value:
        """One number as a tensor of one element."""
        return self.fill((), number, dtype)

    def trace(self, name: str, value: Value, shape: Sequence[Dim]) -> None:
        """Say that a node of the traced program gives a value, in a shape (outermost first)."""
        self.graph.traced[name] = Traced(value, TracedForm(value.ne, IDENTITY, tuple(shape)))

    # ---------------------------------------------------------------------------------------------- finishing

    def finish(self) -> Graph:
        """The graph, without the nodes, constants and states that nothing needs."""
        graph = self.graph
        graph.nodes, needed = needed_nodes(graph)
        graph.constants = [constant for constant in graph.constants if constant.value in needed]
        graph.states = [state for state in graph.states if state.value in needed]
        computed = {node.output for node in graph.nodes}
        forms = {name: _without_views(traced) for name, traced in graph.traced.items()}
        graph.traced = {name: traced for name, traced in forms.items() if traced.value in computed}
        return graph


def _without_views(traced: Traced) -> Traced:
    """The same from the value that it is a reshape or a permutation of, which need not be computed."""
    value, form = traced.value, traced.form
    if (form.ne, form.axes) != (value.ne, IDENTITY):
        return traced
    axes = IDENTITY
    if (node := _made_by(value, "reshape")) is not None:
        value = _given(node.inputs[0])
    if (node := _made_by(value, "permute")) is not None:
        value, axes = _given(node.inputs[0]), node.attrs["axes"]
    ne = value.ne
    if (node := _made_by(value, "reshape")) is not None:
        value = _given(node.inputs[0])
    return Traced(value, TracedForm(ne, axes, form.shape))


def _made_by(value: Value, op: str) -> Node | None:
    return value.producer if value.producer is not None and value.producer.op == op else None


def needed_nodes(graph: Graph) -> tuple[list[Node], set[Value]]:
    """The nodes that outputs depend on or that write to states, and the values that they and the outputs read."""
    read: set[Value] = {port.value for port in graph.outputs}
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output in read or node.spec.writes is not Writes.NO:
            nodes.append(node)
            read.update(value for value in node.inputs if value is not None)
    return nodes[::-1], read


def _given(value: Value | None) -> Value:
    assert value is not None
    return value


def _four(sizes: Sequence[Dim]) -> Dims:
    dims = as_dims(sizes)
    dims += [1] * (4 - len(dims))
    return dims[0], dims[1], dims[2], dims[3]


def _as_stored(attr: AttrSpec, value: Any) -> Any:
    """An attribute as the wire has it: numbers rounded to float32, infinite beyond its range."""
    if attr.kind == "f32":
        return ctypes.c_float(value).value
    if attr.struct is None:
        return value
    if not isinstance(value, attr.struct.cls):
        raise IRError(f"attribute {attr.name} is {value!r}, expected a {attr.kind}")
    return attr.struct.cls(*(_as_stored(field, part) for field, part in attr.parts(value)))


def _key(op: str, inputs: tuple[Value | None, ...], attrs: dict[str, Any]) -> Any:
    return op, inputs, tuple(map(hashable, attrs.values()))


def hashable(value: Any) -> Any:
    """An attribute as a key: equal for equal attributes alone."""
    if isinstance(value, float):
        return struct.pack("d", value)  # keeps 0.0 and -0.0 apart, and NaN equal to itself
    if dataclasses.is_dataclass(value):
        return tuple(hashable(getattr(value, field.name)) for field in dataclasses.fields(value))
    return tuple(value) if isinstance(value, list) else value


def _strides(op: str, inputs: tuple[Value | None, ...], attrs: dict[str, Any], ne: Dims) -> Dims:
    if op == "permute":
        source = _given(inputs[0]).strides
        places = [attrs["axes"].index(i) for i in range(4)]
        return source[places[0]], source[places[1]], source[places[2]], source[places[3]]
    if op == "view":
        s = [product([stride, step]) for stride, step in zip(_given(inputs[0]).strides, attrs["step"], strict=True)]
        return s[0], s[1], s[2], s[3]
    return dense_strides(ne)


def _verify_call(op: str, inputs: tuple[Value | None, ...], attrs: dict[str, Any]) -> None:
    spec = OPS[op]
    for value, wanted in zip(inputs, spec.inputs, strict=True):
        if value is None:
            if not wanted.optional:
                raise IRError(f"{op}: input {wanted.name} is missing")
        elif value.dtype not in wanted.dtypes:
            allowed = ", ".join(sorted(t.name.lower() for t in wanted.dtypes))
            raise IRError(f"{op}: input {wanted.name} is {value}, expected one of {allowed}")
        elif not _layout_holds(value, wanted.layout):
            raise IRError(
                f"{op}: input {wanted.name} is {value} with strides {value.strides}, not {wanted.layout.value}"
            )
    _verify_names(spec, attrs)
    operands = spec.operands(inputs, attrs)
    for check in spec.checks:
        if not check.holds(operands):
            given = ", ".join(f"{name} is {operands[name]}" for name in check.used)
            raise IRError(f"{op}: {given}; {check.expected}")


def _verify_names(spec: OpSpec, attrs: dict[str, Any]) -> None:
    if attrs.keys() != spec.attr_names:
        raise IRError(f"{spec.name}: attributes {sorted(attrs)}, expected {[attr.name for attr in spec.attrs]}")


def _layout_holds(value: Value, layout: Layout) -> bool:
    if layout is Layout.ANY or value.is_contiguous:
        return True
    return layout is Layout.ROWS and is_one(value.strides[0])
