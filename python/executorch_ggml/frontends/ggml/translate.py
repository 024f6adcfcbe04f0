"""ggml graphs as IR graphs.

ggml's tensors are memory: views of it, operations in place, copies into a cache. The IR's are values. So each tensor
with memory of its own has a value, the newest of its contents; a view is a window of it, and a write makes a new one.
What was written is an effect: an output of the graph with the place that it is copied to when all is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.arrays import Contents
from ...ir.builder import Builder
from ...ir.dtypes import DType
from ...ir.graph import Constant, Graph, Value
from ...ir.ops.indexing import ScatterKind
from . import linear, memory, windows
from .custom import CustomNodes
from .words import CONSTANT, NODE, Tensor, UnsupportedError


@dataclass(frozen=True)
class Scattered:
    """Which output has the numbers of the places along ``axis``; with ``wrap`` negative ones count from the end."""

    output: int
    axis: int
    wrap: bool


@dataclass(frozen=True)
class Effect:
    """Output ``output`` goes where tensor ``tensor`` is: whole, or to the places that another output numbers."""

    output: int
    tensor: int
    at: Scattered | None = None


@dataclass
class Translation:
    """A graph, the tensors that its inputs are, and what becomes of its outputs."""

    graph: Graph
    inputs: list[int]
    effects: list[Effect]


@dataclass(frozen=True)
class Names:
    """ggml's names of what it numbers, which are other numbers in each ggml."""

    op: Callable[[int], str]
    unary: Callable[[int], str]
    glu: Callable[[int], str]


class Node:
    """A ggml node being translated: what its function in :mod:`.ops` works with."""

    def __init__(self, translator: Translator, tensor: Tensor) -> None:
        self.translator = translator
        self.tensor = tensor
        self.b = translator.builder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)

    def has(self, at: int) -> bool:
        """Whether there is a source."""
        return self.tensor.sources[at] >= 0

    def source(self, at: int) -> Tensor:
        """A source as ggml has it."""
        return self.translator.tensors[self.tensor.sources[at]]

    def src(self, at: int) -> Value:
        """A source's value."""
        return self.translator.value(self.tensor.sources[at])

    def dtype(self) -> DType:
        """The result's type."""
        return self.translator.dtype(self.tensor)

    def plain(self, at: int) -> Value:
        """A source's value, which must not be quantized."""
        value = self.src(at)
        if value.dtype.is_quantized:
            raise UnsupportedError(f"source {at} is {value.dtype.name.lower()}")
        return value

    def f32_param(self, at: int) -> float:
        """A parameter."""
        return self.tensor.f32(at)

    def f32(self, at: int) -> Value:
        """A source's value as f32."""
        return self.b.convert(self.plain(at), DType.F32)

    def emit(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        """A node of the IR."""
        return self.b.emit(op, *inputs, **attrs)

    def constant_of(self, value: Value) -> Constant | None:
        """The weight that a value is."""
        return next((each for each in self.b.graph.constants if each.value is value), None)

    def constant(self, numbers: Any, dtype: DType = DType.F32) -> Value:
        """Numbers that are known."""
        array = np.asarray(numbers, dtype=np.float32 if dtype == DType.F32 else np.int64)
        return windows.constant(self.b, array, dtype)


@dataclass(frozen=True)
class _At:
    """The places of what is written: their numbers along an axis."""

    index: Value
    axis: int
    wrap: bool


Function = Callable[[Node], Value]
FUNCTIONS: dict[str, Function] = {}


def translates(*names: str) -> Callable[[Function], Function]:
    """Declare the decorated function the translation of ggml ops, by the names that ggml gives them."""

    def add(function: Function) -> Function:
        for name in names:
            if name in FUNCTIONS:
                raise ValueError(f"{name} is translated twice")
            FUNCTIONS[name] = function
        return function

    return add


class Translator:
    """Translates one graph. ``addresses`` are its tensors', or None where only the nodes are asked about.

    The data of constants are ggml's memory, or with ``copies`` copies of it.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        names: Names,
        custom: CustomNodes | None = None,
        addresses: Sequence[int] | None = None,
        *,
        copies: bool = False,
    ) -> None:
        self.tensors = tensors
        self.names = names
        self.builder = Builder()
        self._custom = custom
        self._addresses = addresses
        self._copies = copies
        self._contents: dict[int, Value] = {}
        self._views: dict[int, Value] = {}
        self._inputs: list[int] = []
        self._effects: list[tuple[Value, int, _At | None]] = []
        self._dtypes = {} if custom is None else custom.leaf_dtypes(tensors)

    def translate(self) -> Translation:
        """The graph."""
        for tensor in self.tensors:
            if tensor.role == NODE:
                self.builder.origin = self._custom.label(tensor) if self._custom else f"{tensor.op}_{tensor.index}"
                self._translate(tensor)
        # Writes in place to what a node has made keep its memory live as well.
        live = {tensor.root for tensor in self.tensors if tensor.role == NODE and tensor.live}
        for tensor in self.tensors:
            if tensor.role == NODE and tensor.index in live:
                self._effects.append((self._contents[tensor.index], tensor.index, None))
        effects = []
        for number, (value, index, _) in enumerate(self._effects):
            self.builder.output(f"output_{number}", value, tuple(reversed(value.ne)))
            effects.append(Effect(number, index))
        for number, (_, index, at) in enumerate(self._effects):
            if at is not None:
                places = Scattered(len(self.builder.graph.outputs), at.axis, at.wrap)
                effects[number] = Effect(number, index, places)
                self.builder.output(f"places_{number}", at.index, tuple(reversed(at.index.ne)))
        graph = self.builder.finish()
        read = {value for node in graph.nodes for value in node.inputs} | {port.value for port in graph.outputs}
        inputs = [index for index, port in zip(self._inputs, graph.inputs, strict=True) if port.value in read]
        graph.inputs = [port for port in graph.inputs if port.value in read]
        return Translation(graph, inputs, effects)

    def _translate(self, tensor: Tensor) -> None:
        if tensor.count == 0:
            self._contents[tensor.index] = self.builder.fill(tensor.ne, 0, self.dtype(tensor))
            return
        node = Node(self, tensor)
        if tensor.op == "SET_ROWS":
            self._set_rows(node)
            return
        if tensor.op == "CUSTOM":
            made = self._translate_custom(tensor)
            if made is None:
                return
            value = made
        elif tensor.op in FUNCTIONS:
            value = FUNCTIONS[tensor.op](node)
        else:
            raise UnsupportedError(f"{tensor.op} has no translation")
        if tuple(value.ne) != tensor.ne:
            value = self.builder.reshape(self.builder.cont(value), tensor.ne)
        value = self.builder.convert(value, self.dtype(tensor))
        self._write(tensor, value)
        if tensor.root != tensor.index and self._is_leaf(tensor.root):
            self._effects.append((value, tensor.index, None))

    def _is_leaf(self, index: int) -> bool:
        return self.tensors[index].role < NODE

    def _translate_custom(self, tensor: Tensor) -> Value | None:
        """A node of this project's own; None where it is a write, which is done."""
        if self._custom is None:
            raise UnsupportedError("a custom node")
        op, inputs, attrs = self._custom.call(tensor, [self.value(at) for at in tensor.sources if at >= 0])
        if op in ("linear", "conv_2d_nhwc"):
            x, weight, bias = inputs
            assert x is not None
            assert weight is not None
            product = linear.as_product(self.builder, op, x, weight, bias, attrs)
            if product is not None:
                return product
        if op != "update_state":
            return self.builder.emit(op, *inputs, **attrs)
        state, index, src = inputs
        assert state is not None
        assert index is not None
        assert src is not None
        if state.dtype.is_quantized:
            raise UnsupportedError("a quantized state")
        rows = self.builder.broadcast(self.builder.convert(src, state.dtype), attrs["ne"])
        self._scatter(tensor, state, rows, _At(index, attrs["axis"], attrs["wrap"]))
        return None

    def _set_rows(self, node: Node) -> None:
        """Rows written into a table, by number."""
        tensor, table = node.tensor, self.value(node.tensor.sources[2]) if node.has(2) else None
        if table is None or self.tensors[node.tensor.sources[2]].offset != tensor.offset:
            table = self.window(tensor)
        if table.dtype.is_quantized:
            raise UnsupportedError(f"rows written to {table.dtype.name.lower()}")
        rows = self.builder.convert(node.plain(0), table.dtype)
        index = self.builder.permute(self.builder.convert(node.plain(1), DType.I64), (1, 2, 3, 0))
        if index.ne != (1, rows.ne[1], 1, 1):
            index = tile(self.builder, index, (1, *rows.ne[1:]))
        self._scatter(tensor, table, rows, _At(index, 1, wrap=False))

    def _scatter(self, tensor: Tensor, base: Value, rows: Value, at: _At) -> None:
        """Write a part of a tensor: what leaves the graph is that part alone."""
        how = {"axis": at.axis, "kind": ScatterKind.ASSIGN, "include_self": True, "wrap": at.wrap}
        self._write(tensor, self.builder.emit("scatter", base, at.index, rows, ne=rows.ne, **how))
        if self._is_leaf(tensor.root):
            self._effects.append((rows, tensor.index, at))

    # ------------------------------------------------------------------------------------------------ contents

    def dtype(self, tensor: Tensor) -> DType:
        """A tensor's type; of ggml's 8-bit integers, what the IR has in them."""
        if tensor.index in self._dtypes:
            return self._dtypes[tensor.index]
        if tensor.root in self._dtypes and self.tensors[tensor.root].type == tensor.type:
            return self._dtypes[tensor.root]
        if tensor.dtype is None:
            raise UnsupportedError(f"ggml type #{tensor.type}")
        return tensor.dtype

    def value(self, index: int) -> Value:
        """What is in a tensor now."""
        tensor = self.tensors[index]
        if tensor.root == index:
            return self._content(index)
        if index not in self._views:
            self._views[index] = self._constant_view(tensor) or self.window(tensor)
        return self._views[index]

    def window(self, tensor: Tensor) -> Value:
        """What a view shows."""
        base = self._content(tensor.root)
        dtype = self.dtype(tensor)
        if not self.tensors[tensor.root].is_dense:  # such leaves are copies that ggml's scheduler makes of views
            raise UnsupportedError("a view of what is not dense")
        if base.dtype != dtype:
            raise UnsupportedError(f"a view of {base.dtype.name.lower()} as {dtype.name.lower()}")
        if dtype.is_quantized:
            if tensor.ne != base.ne or tensor.offset != 0 or not tensor.is_dense:
                raise UnsupportedError(f"a view of a part of {dtype.name.lower()}")
            return base
        if tensor.offset % dtype.itemsize:
            raise UnsupportedError(f"a view at byte {tensor.offset} of {dtype.name.lower()}")
        return windows.window(self.builder, base, tensor.ne, tensor.steps(), tensor.offset // dtype.itemsize)

    def _content(self, root: int) -> Value:
        if root not in self._contents:
            self._contents[root] = self._leaf(self.tensors[root])
        return self._contents[root]

    def _leaf(self, tensor: Tensor) -> Value:
        dtype = self.dtype(tensor)
        if tensor.role == CONSTANT:
            return self._constant(tensor)
        if dtype.is_quantized:
            raise UnsupportedError(f"{dtype.name.lower()} that is no weight in the device's memory")
        self._inputs.append(tensor.index)
        return self.builder.input(f"input_{len(self._inputs) - 1}", dtype, tuple(reversed(tensor.ne)), tensor.ne)

    def _constant(self, tensor: Tensor) -> Value:
        dtype, root = self.dtype(tensor), self.tensors[tensor.root]
        buffer, version, place = root.place
        key = f"buffer-{buffer}.{version}+{place + tensor.offset}:{dtype.name.lower()}{list(tensor.ne)}"
        address = None if self._addresses is None else self._addresses[tensor.index]

        def data() -> np.ndarray[Any, Any]:
            if address is None:
                raise RuntimeError("the data of a weight is there when its graph is planned, not before")
            array = memory.elements(address, dtype, tensor.count)
            return array.copy() if self._copies else array

        return self.builder.constant(key, dtype, tensor.ne, Contents(data, dtype, key))

    def _constant_view(self, tensor: Tensor) -> Value | None:
        """A dense part of a weight is a weight."""
        root = self.tensors[tensor.root]
        if root.role != CONSTANT or not tensor.is_dense:
            return None
        return self._constant(tensor)

    def _write(self, tensor: Tensor, value: Value) -> None:
        if tensor.root == tensor.index:
            self._contents[tensor.index] = self.builder.cont(value)
            return
        base, dtype = self._content(tensor.root), self.dtype(tensor)
        if base.dtype != dtype:
            raise UnsupportedError(f"{dtype.name.lower()} written over {base.dtype.name.lower()}")
        if not self.tensors[tensor.root].is_dense:
            raise UnsupportedError("a write to a part of what is not dense")
        at = tensor.offset // dtype.itemsize
        self._contents[tensor.root] = windows.updated(self.builder, base, tensor.ne, tensor.steps(), at, value)
        for index in [view for view in self._views if self.tensors[view].root == tensor.root]:
            del self._views[index]


def tile(b: Builder, value: Value, ne: Sequence[int]) -> Value:
    """A value repeated to larger dims, each a multiple of its own."""
    if any(n == 0 or big % n for big, n in zip(ne, value.ne, strict=True)):
        raise UnsupportedError(f"{list(value.ne)} does not repeat to {list(ne)}")
    for dim in range(4):
        size = value.ne[dim]
        if size in (1, ne[dim]):
            continue
        inner, outer = int(np.prod(value.ne[:dim])), int(np.prod(value.ne[dim + 1 :]))
        parts = b.reshape(b.cont(value), (inner, size, 1, outer))
        times = ne[dim] // size
        whole = [*value.ne]
        whole[dim] = ne[dim]
        value = b.reshape(b.broadcast(parts, (inner, size, times, outer)), whole)
    return b.broadcast(value, ne)
