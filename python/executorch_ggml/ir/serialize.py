"""Graphs to and from bytes: a FlatBuffer of ``schema/ggml_ir.fbs`` behind a 16-byte header.

Header: ``EGGM``, CRC-32 of the FlatBuffer (u32), its size in bytes (u64), little-endian.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from typing import Any

import flatbuffers

from ._generated import ggml_ir_generated as fb
from ._lazy import sympy
from .builder import _strides, hashable
from .dims import binary_exprs, expr_kind
from .dtypes import DType
from .graph import Constant, Graph, IRError, Node, Port, State, Symbol, TracedForm, Value, dense_strides
from .op import IR_VERSION, AttrSpec, Dim, Dims
from .ops import OPS
from .storage import Storage, StorageLayout
from .target import Target
from .verify import verify

MAGIC = b"EGGM"
_HEADER = struct.Struct("<4sIQ")


def serialize(graph: Graph, *others: Graph) -> bytes:
    """A program of the graphs as bytes, after verifying them: one a target, with the same inputs and outputs."""
    graphs = (graph, *others)
    targets = [each.target for each in graphs]
    if len(set(targets)) != len(targets):
        raise IRError(f"graphs for targets {', '.join(each.name for each in targets)}: expected one a target")
    for each in graphs:
        verify(each)
        _check_ports(graph, each)
    packed = fb.ProgramT()
    packed.version = IR_VERSION
    packed.graphs = [_Writer(each).write() for each in graphs]
    builder = _FlatBuilder(1 << 16)
    if any(_is_negative_zero(value) for each in graphs for node in each.nodes for value in node.attrs.values()):
        builder.ForceDefaults(True)  # else it is left out as equal to the default of 0.0
    builder.Finish(packed.Pack(builder), b"GGIR")
    body = bytes(builder.Output())
    return _HEADER.pack(MAGIC, zlib.crc32(body), len(body)) + body


def _check_ports(graph: Graph, other: Graph) -> None:
    """Both graphs take and give the same."""
    for what, ours, theirs in (("inputs", graph.inputs, other.inputs), ("outputs", graph.outputs, other.outputs)):
        described = [[(port.name, port.value.dtype.name, port.shape) for port in ports] for ports in (ours, theirs)]
        if described[0] != described[1]:
            raise IRError(
                f"{what} of the graph for {other.target.name} are {described[1]}, expected those of the graph for "
                f"{graph.target.name}: {described[0]}"
            )


def _is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) < 0


def deserialize(data: bytes, target: Target = Target.CPU) -> Graph:
    """A graph that :func:`serialize` wrote: the one for a target, or where there is none the one for the CPU.

    Its constants carry no data. For trusted programs: inspection, tests.
    """
    return _Reader(graph_of(_program(data), target)).read()


def targets_of(data: bytes) -> list[Target]:
    """What the graphs of a program are made for."""
    return [Target(graph.target) for graph in _program(data).graphs]


def graph_of(program: Any, target: Target) -> Any:
    """The unpacked graph for a target, else the one for the CPU, else the first: as the runtime chooses."""
    by_target = {graph.target: graph for graph in program.graphs}
    return by_target.get(target) or by_target.get(Target.CPU) or program.graphs[0]


def _program(data: bytes) -> Any:
    body = payload(data)
    version = fb.Program.GetRootAs(body, 0).Version()  # before all that another version may have otherwise
    if version != IR_VERSION:
        raise IRError(f"IR version {version}: this build reads version {IR_VERSION}; export the model again")
    return fb.ProgramT.InitFromPackedBuf(body, 0)


def payload(data: bytes) -> bytes:
    """The FlatBuffer inside, its checksum verified."""
    if len(data) < _HEADER.size:
        raise IRError(f"IR of {len(data)} bytes: shorter than its header of {_HEADER.size}")
    magic, checksum, size = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise IRError(f"IR starts with {magic!r}, expected {MAGIC!r}: not an executorch-ggml program")
    body = data[_HEADER.size : _HEADER.size + size]
    if len(body) != size or zlib.crc32(body) != checksum:
        raise IRError("IR is truncated or damaged: its checksum does not match; export the model again")
    return body


def _camel(name: str) -> str:
    """The generated Python's spelling of a field."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


class _FlatBuilder(flatbuffers.Builder):
    """Writes equal texts once: flatbuffers' own tables do not ask for it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._texts: dict[str, int] = {}

    def CreateString(self, text: str) -> int:  # noqa: N802 - flatbuffers' spelling
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = super().CreateString(text)
        return known


class _Once:
    """A table written once, however many refer to it."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._offset: int | None = None

    def Pack(self, builder: flatbuffers.Builder) -> int:  # noqa: N802 - flatbuffers' spelling
        if self._offset is None:
            self._offset = self._table.Pack(builder)
        return self._offset


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops: dict[Any, _Once] = {}
        self.forms: dict[TracedForm, _Once] = {}
        self.values = {value: index for index, value in enumerate(graph.values())}
        self.symbols = {entry.symbol: index for index, entry in enumerate(graph.symbols)}
        self.exprs: list[Any] = []
        self.known: dict[Any, int] = {}

    def write(self) -> Any:
        graph = self.graph
        packed = fb.GraphT()
        packed.target = int(graph.target)
        packed.symbols = [self._symbol(entry) for entry in graph.symbols]
        packed.values = [self._value(value) for value in self.values]
        packed.inputs = [self._port(port) for port in graph.inputs]
        packed.outputs = [self._port(port) for port in graph.outputs]
        packed.constants = [self._constant(entry) for entry in graph.constants]
        packed.states = [self._state(entry) for entry in graph.states]
        packed.nodes = [self._node(node) for node in graph.nodes]
        packed.exprs = self.exprs
        return packed

    def sdim(self, size: Dim) -> int:
        """A dim as the wire has it: a size, or minus one minus the number of an expression."""
        if isinstance(size, int) and size >= 0:
            return size
        key = size
        if key not in self.known:
            self.known[key] = self._expr(sympy.sympify(size))
        return -1 - self.known[key]

    def _expr(self, expr: sympy.Expr) -> int:
        if expr.is_Integer:
            return self._append("Const", int(expr), 0)
        if expr.is_Symbol:
            return self._append("Symbol", self.symbols[expr], 0)
        kind, args = expr_kind(expr), list(expr.args)
        if expr.is_Pow:
            kind, args = "Mul", [expr.base] * int(expr.exp)
        if kind is None:
            raise IRError(f"the IR has no way to say {expr}")
        left = self.sdim(_int(args[0]))
        for argument in args[1:]:
            right = self.sdim(_int(argument))
            left = -1 - self._append(kind, left, right)
        return -1 - left

    def _append(self, kind: str, a: int, b: int) -> int:
        entry = fb.ExprT()
        entry.op, entry.a, entry.b = getattr(fb.ExprOp, kind), a, b
        self.exprs.append(entry)
        return len(self.exprs) - 1

    def _ne(self, sizes: Dims) -> Any:
        packed = fb.NeT()
        packed.n0, packed.n1, packed.n2, packed.n3 = (self.sdim(size) for size in sizes)
        return packed

    def _value(self, value: Value) -> Any:
        packed = fb.ValueT()
        packed.dtype, packed.ne = int(value.dtype), self._ne(value.ne)
        return packed

    def _port(self, port: Port) -> Any:
        packed = fb.PortT()
        packed.name, packed.value = port.name, self.values[port.value]
        packed.shape = [self.sdim(size) for size in port.shape]
        return packed

    def _symbol(self, entry: Symbol) -> Any:
        packed = fb.SymbolT()
        packed.name, packed.input, packed.dim = str(entry.symbol), entry.input, entry.dim
        packed.scale, packed.offset, packed.min, packed.max = entry.scale, entry.offset, entry.min, entry.max
        packed.batch = entry.batch
        return packed

    def _constant(self, entry: Constant) -> Any:
        packed = fb.ConstantT()
        packed.key, packed.value = entry.key, self.values[entry.value]
        packed.storage, packed.groups = int(entry.storage.kind), entry.storage.groups
        return packed

    def _state(self, entry: State) -> Any:
        packed = fb.StateT()
        packed.key, packed.value = entry.key, self.values[entry.value]
        packed.initial = entry.init.key if entry.init else ""
        return packed

    def _node(self, node: Node) -> Any:
        packed = fb.NodeT()
        packed.name, packed.output = node.name, self.values[node.output]
        packed.inputs = [-1 if value is None else self.values[value] for value in node.inputs]
        packed.opType = node.spec.number
        packed.host = node.host
        packed.op = self._op(node)
        packed.traced = None if node.traced is None else self._traced(node.traced)
        return packed

    def _traced(self, form: TracedForm) -> _Once:
        known = self.forms.get(form)
        if known is not None:
            return known
        packed = fb.TracedFormT()
        packed.ne, packed.axes = self._ne(form.ne), list(form.axes)
        packed.shape = [self.sdim(size) for size in form.shape]
        return self.forms.setdefault(form, _Once(packed))

    def _op(self, node: Node) -> _Once:
        key = (node.spec.number, *(hashable(node.attrs[attr.name]) for attr in node.spec.attrs))
        known = self.ops.get(key)
        if known is not None:
            return known
        packed = getattr(fb, f"{node.spec.class_name}T")()
        for attr in node.spec.attrs:
            setattr(packed, _camel(attr.name), self._attr(attr, node.attrs[attr.name]))
        return self.ops.setdefault(key, _Once(packed))

    def _attr(self, attr: AttrSpec, value: Any) -> Any:
        if attr.kind == "dims":
            return self._ne(value)
        if attr.kind == "dim":
            return self.sdim(value)
        if attr.struct is not None:
            packed = getattr(fb, f"{attr.kind}T")()
            for field, part in attr.parts(value):
                setattr(packed, _camel(field.name), self._attr(field, part))
            return packed
        return [int(n) for n in value] if attr.kind == "ints" else value


def _int(expr: Any) -> Dim:
    return int(expr) if expr.is_Integer else expr


class _Reader:
    def __init__(self, packed: Any) -> None:
        self.packed = packed
        self.symbols = [sympy.Symbol(_text(s.name), integer=True) for s in packed.symbols or []]
        self.exprs: list[Dim] = []
        for entry in packed.exprs or []:
            self.exprs.append(self._expr(entry))
        self.values = [self._value(value) for value in packed.values or []]

    def read(self) -> Graph:
        packed = self.packed
        graph = Graph(target=Target(packed.target))
        for symbol, s in zip(self.symbols, packed.symbols or [], strict=True):
            graph.symbols.append(Symbol(symbol, s.input, s.dim, s.scale, s.offset, s.min, s.max, s.batch))
        graph.inputs = [self._port(port) for port in packed.inputs or []]
        graph.outputs = [self._port(port) for port in packed.outputs or []]
        graph.constants = [
            Constant(_text(c.key), self.values[c.value], storage=StorageLayout(Storage(c.storage), c.groups))
            for c in packed.constants or []
        ]
        for s in packed.states or []:
            init = Constant(_text(s.initial), self.values[s.value]) if s.initial else None
            graph.states.append(State(_text(s.key), self.values[s.value], init))
        graph.nodes = [self._node(node) for node in packed.nodes or []]
        return graph

    def dim(self, wire: int) -> Dim:
        return wire if wire >= 0 else self.exprs[-1 - wire]

    def _expr(self, entry: Any) -> Dim:
        name = next(name for name, number in vars(fb.ExprOp).items() if number == entry.op)
        if name == "Const":
            return int(entry.a)
        if name == "Symbol":
            return self.symbols[entry.a]
        expr = binary_exprs()[name][0](self.dim(entry.a), self.dim(entry.b))
        return int(expr) if expr.is_Integer else expr

    def _ne(self, ne: Any) -> Dims:
        return self.dim(ne.n0), self.dim(ne.n1), self.dim(ne.n2), self.dim(ne.n3)

    def _value(self, value: Any) -> Value:
        ne = self._ne(value.ne)
        return Value(DType(value.dtype), ne, dense_strides(ne))

    def _port(self, port: Any) -> Port:
        shape = [] if port.shape is None else port.shape
        return Port(_text(port.name), self.values[port.value], tuple(self.dim(int(n)) for n in shape))

    def _traced(self, form: Any) -> TracedForm:
        a, b, c, d = (int(axis) for axis in form.axes)
        shape = [] if form.shape is None else form.shape
        return TracedForm(self._ne(form.ne), (a, b, c, d), tuple(self.dim(int(n)) for n in shape))

    def _node(self, node: Any) -> Node:
        spec = OPS.by_number(node.opType)
        if spec is None:
            raise IRError(f"node {_text(node.name)}: unknown op #{node.opType}; update executorch-ggml")
        inputs = tuple(
            None if index < 0 else self.values[index] for index in ([] if node.inputs is None else node.inputs)
        )
        attrs = {attr.name: unpacked_attr(node.op, attr, self.dim) for attr in spec.attrs}
        traced = None if node.traced is None else self._traced(node.traced)
        made = Node(spec, inputs, attrs, self.values[node.output], _text(node.name), bool(node.host), traced)
        made.output.producer = made
        made.output.strides = _strides(spec.name, inputs, attrs, made.output.ne)
        return made


def unpacked_attr(packed: Any, attr: AttrSpec, dim: Callable[[int], Dim]) -> Any:
    """An attribute of an op, or a field of a struct, as :class:`Node` has it; ``dim`` gives what a wire dim is."""
    value = getattr(packed, _camel(attr.name))
    if attr.kind == "dims":
        return dim(value.n0), dim(value.n1), dim(value.n2), dim(value.n3)
    if attr.kind == "dim":
        return dim(value)
    if attr.kind == "ints":
        return tuple(int(n) for n in value)
    if attr.struct is not None:
        return attr.struct.cls(*(unpacked_attr(value, field, dim) for field in attr.struct.fields))
    return value if attr.enum is None else attr.enum(value)


def _text(raw: bytes | str | None) -> str:
    return raw.decode() if isinstance(raw, bytes) else (raw or "")
