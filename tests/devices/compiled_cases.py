"""Graphs with a case of everything that compiled devices export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from tests.native.corpus_program import Program
from tests.native.make_corpus import programs
from torch import Tensor

from executorch_ggml.devices.compiled import translations
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.ir.graph import Graph, IRError, Node, Value
from executorch_ggml.ir.ops.custom import BinaryKind, ReduceKind, UnaryKind
from executorch_ggml.ir.ops.indexing import ScatterKind

LARGE = frozenset({"deep", "long_lived", "symbolic"})  # many of the same nodes, or sizes that are not known
TYPES = (
    DType.F32, DType.I32, DType.I64, DType.BOOL, DType.F16, DType.BF16, DType.I8, DType.U8, DType.I16,
)  # fmt: skip


@dataclass
class Cases:
    """A graph and what it is run on; each output's name says what it is a case of."""

    graph: Graph
    inputs: list[Tensor]

    def supported(self, supports: Callable[[Node], bool]) -> Cases:
        """The outputs that are computed from supported nodes alone."""
        graph = self.graph
        good = {port.value for port in graph.inputs} | {constant.value for constant in graph.constants}
        for node in graph.nodes:
            if all(value is None or value in good for value in node.inputs) and supports(node):
                good.add(node.output)
        return self.having([port.name for port in graph.outputs if port.value in good])

    def having(self, names: Sequence[str]) -> Cases:
        """The outputs of these names, and what they need."""
        wanted, graph = set(names), self.graph
        outputs = [port for port in graph.outputs if port.name in wanted]
        needed: set[Value] = {port.value for port in outputs}
        nodes = []
        for node in reversed(graph.nodes):
            if node.output in needed:
                nodes.append(node)
                needed.update(value for value in node.inputs if value is not None)
        kept = [at for at, port in enumerate(graph.inputs) if port.value in needed]
        part = Graph(
            inputs=[graph.inputs[at] for at in kept],
            outputs=outputs,
            constants=[constant for constant in graph.constants if constant.value in needed],
            nodes=nodes[::-1],
        )
        return Cases(part, [self.inputs[at] for at in kept])


def corpus() -> Cases:
    """The programs that the native tests damage: a case of each op."""
    graph, inputs = Graph(), []
    for name, p in programs().items():
        if name not in LARGE:
            part = p.build.finish()
            graph.inputs += part.inputs
            graph.constants += [replace(constant, key=f"{name}/{constant.key}") for constant in part.constants]
            graph.nodes += part.nodes
            graph.outputs += [replace(port, name=f"{name}/{port.name}") for port in part.outputs]
            inputs += p.inputs
    return Cases(graph, inputs)


def kinds() -> Cases:
    """The functions of the custom nodes, in every type."""
    p = Program()
    make = _Maker(p)
    near_zero = p.input(torch.tensor([0.0, 1e-8, -1e-8, 1e-4, -1e-4, 0.5, -0.5, 3.0, 20.0, 80.0]))
    for op in ("expm1", "softplus"):
        make(f"{op}/near_zero", op, near_zero)
    make("unary/LOG1P/near_zero", "unary", near_zero, kind=UnaryKind.LOG1P)
    for dtype in TYPES:
        a, b = p.input(_data(dtype, 2, 3, 5)), p.input(_divisors(dtype))
        _elementwise(make, dtype, a, b)
        _movement(make, dtype, a, b)
        _indexing(make, dtype, a)
        for other in (DType.F32, DType.F16, DType.BF16):
            weight, x = p.constant(_data(dtype, 6, 5)), p.input(_data(other, 2, 3, 5))
            make(f"mul_mat/{dtype.name}/{other.name}", "mul_mat", weight, x)
    return Cases(p.build.finish(), p.inputs)


def _elementwise(make: _Maker, dtype: DType, a: Value, b: Value) -> None:
    label = dtype.name
    positive = make.p.input(torch.rand(2, 3, 5) * 0.8 + 0.1)
    for unary in UnaryKind:
        narrow = dtype == DType.F32 and unary in _NARROW
        make(f"unary/{unary.name}/{label}", "unary", positive if narrow else a, kind=unary)
    for binary in BinaryKind:
        make(f"binary/{binary.name}/{label}", "binary", a, b, kind=binary)
    for reduce in ReduceKind:
        for axes in ((1,), (0, 2)):
            make(f"reduce/{reduce.name}/{axes}/{label}", "reduce", a, kind=reduce, axes=axes)
    for op in ("add", "sub", "mul"):
        make(f"{op}/{label}", op, a, b)
    make(f"cumsum/{label}", "cumsum", a)


def _movement(make: _Maker, dtype: DType, a: Value, b: Value) -> None:
    label = dtype.name
    for other in TYPES:
        make(f"convert/{label}/{other.name}", "convert", a, dtype=other)
    condition = make.p.input(_data(DType.BOOL, 2, 3, 5))
    make(f"select/{label}", "select", condition, a, b)
    make(f"concat/{label}", "concat", a, a, dim=1)
    make(f"cont/{label}", "cont", make.p.build.permute(a, (1, 2, 0, 3)))
    make(f"view/{label}", "view", a, start=(1, 0, 0, 0), step=(2, 2, 1, 1), ne=(2, 2, 2, 1))
    make(f"broadcast/{label}", "broadcast", b, ne=(5, 3, 2, 2))
    make(f"fill/{label}", "fill", ne=(3, 2, 1, 1), value=1.5, integer=1, dtype=dtype)
    make(f"iota/{label}", "iota", ne=(5, 2, 1, 1), start=3, step=-2, dtype=dtype)


def _indexing(make: _Maker, dtype: DType, a: Value) -> None:
    p, label = make.p, dtype.name
    make(f"sort/{label}", "sort", a, count=4, descending=True)
    table, rows = p.constant(_data(dtype, 7, 4)), p.input(torch.tensor([0, 6, 3]).int())
    make(f"take_rows/{label}", "take_rows", table, rows)
    make(f"get_rows/{label}", "get_rows", table, rows)
    each = p.input(torch.randint(0, 3, (2, 4, 5)).int())
    along = p.build.reshape(p.input(torch.tensor([2, 0, -2, 2])), (1, 4))
    make(f"take/along/{label}", "take", a, along, axis=1, wrap=True)
    make(f"take/each/{label}", "take", a, each, axis=1, wrap=False)
    source = p.input(_data(dtype, 2, 4, 5))
    for kind, include, (where, index) in product(ScatterKind, (True, False), (("along", along), ("each", each))):
        attrs = {"ne": (5, 4, 2, 1), "axis": 1, "kind": kind, "include_self": include, "wrap": True}
        make(f"scatter/{kind.name}/{include}/{where}/{label}", "scatter", a, index, source, **attrs)


_NARROW = frozenset(
    {UnaryKind.ACOS, UnaryKind.ASIN, UnaryKind.ATANH, UnaryKind.LOG1P, UnaryKind.LOG2, UnaryKind.LOG10, UnaryKind.RSQRT}
)


class _Maker:
    """Adds a case where the op takes its type."""

    def __init__(self, p: Program) -> None:
        self.p = p

    def __call__(self, name: str, op: str, *inputs: Value, **attrs: object) -> None:
        try:
            made = self.p.emit(op, *inputs, **attrs)
        except IRError:
            return
        self.p.build.output(name, made, tuple(reversed(made.ne)))


def _data(dtype: DType, *shape: int) -> Tensor:
    if dtype.is_floating:
        return (torch.randn(shape) * 2).to(dtype.torch)
    if dtype == DType.BOOL:
        return torch.randint(0, 2, shape).bool()
    return torch.randint(0 if dtype == DType.U8 else -9, 10, shape).to(dtype.torch)


def _divisors(dtype: DType) -> Tensor:
    low = 3 if dtype in (DType.BOOL, DType.U8) else -3
    return torch.tensor([[2], [low], [1]]).to(dtype.torch)


def covered(cases: Cases) -> set[str]:
    """The ops that are in a graph."""
    return {node.op for node in cases.graph.nodes}


def exported(node: Node) -> bool:
    """Whether a node is exported."""
    return translations.refusal(node) is None
