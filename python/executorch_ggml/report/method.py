"""A method's graph as its program has it: the calls outside, the nodes inside ggml's delegates, and what passes."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from executorch.exir.schema import DelegateCall, FreeCall, JumpFalseCall, KernelCall, MoveCall, Tensor, TensorList
from executorch.exir.tensor import get_scalar_type

from ..ir.graph import Constant, Graph, Value
from ..ir.graph import Node as IRNode
from ..ir.printer import attributes_text
from ..ir.serialize import deserialize
from ..ir.storage import PLAIN
from ..partition.partitioner import REFUSED_KEY
from ..pte import inputs_of
from .model import Edge, Kind, Method, Node, Weight
from .origins import Origin, Origins

GGML = "GgmlBackend"


def method_of(plan: Any, payloads: Callable[[Any], bytes], origins: Origins) -> Method:
    """A method without times, errors, memory and refusals."""
    return _Reader(plan, payloads, origins).read()


def delegate_name(index: int) -> str:
    """What the page calls a delegate of a method, by its number in the program."""
    return f"delegate {index}"


def node_id(delegate: int, node: int) -> str:
    """The id of a node inside of a delegate."""
    return f"d{delegate}.{node}"


def outside_id(instruction: int, chain: int = 0) -> str:
    """The id of an instruction of a method's chain."""
    return f"c{chain}.{instruction}"


class Refused:
    """What the partitioner said of the nodes that it left, in their order."""

    def __init__(self, plan: Any) -> None:
        specs = [spec for delegate in plan.delegates for spec in delegate.compile_specs if spec.key == REFUSED_KEY]
        self.rows: list[dict[str, str]] = json.loads(bytes(specs[0].value)) if specs else []
        self._left: defaultdict[str, deque[dict[str, str]]] = defaultdict(deque)
        for row in self.rows:
            self._left[_base(row["op"])].append(row)

    def next(self, kernel: str) -> tuple[str, str]:
        """The name and the reason of the next node that a kernel computes; "" where none is recorded."""
        rows = self._left[_base(kernel)]
        row = rows.popleft() if rows else {"node": "", "reason": ""}
        return row["node"], row["reason"]


def _base(op: str) -> str:
    """``aten::view_copy.out`` and ``aten.view.default`` are one op."""
    return re.sub(r"[:.]+", ".", op).split(".")[1].removeprefix("_").removesuffix("_copy")


def written_by(plan: Any, args: Sequence[int]) -> list[int]:
    """The values that a kernel's last argument names: what it returns."""
    return _items(plan, args[-1]) if args else []


def _items(plan: Any, index: int) -> list[int]:
    value = plan.values[index].val
    return [item for item in value.items if item >= 0] if isinstance(value, TensorList) else [index]


class _Reader:
    def __init__(self, plan: Any, payloads: Callable[[Any], bytes], origins: Origins) -> None:
        self.plan = plan
        self.payloads = payloads
        self.origins = origins
        self.refused = Refused(plan)
        self.method = Method(plan.name, [str(port) for port in inputs_of(plan)], [], [], [], [], [])
        self.producers: dict[int, tuple[str, str]] = {}  # by value: the id of its node ("": a constant's), and its text

    def read(self) -> Method:
        for number, index in enumerate(self.plan.inputs):
            node = Node(f"in{number}", Kind.INPUT, "input", f"input {number}", result=self._text(index))
            self.method.nodes.append(node)
            self.producers[index] = (node.id, node.result)
        for chain, contents in enumerate(self.plan.chains):
            for number, instruction in enumerate(contents.instructions):
                self._instruction(outside_id(number, chain), instruction.instr_args)
        for number, index in enumerate(self.plan.outputs):
            node = Node(f"out{number}", Kind.OUTPUT, "output", f"output {number}", result=self._text(index))
            self.method.nodes.append(node)
            self._reads(node.id, [index])
        self._sum_boundaries()
        return self.method

    def _instruction(self, id_: str, call: Any) -> None:
        match call:
            case KernelCall():
                self._kernel(id_, call)
            case DelegateCall():
                delegate = self.plan.delegates[call.delegate_index]
                reads = self._ggml if delegate.id == GGML else self._other
                reads(id_, call, delegate)
            case MoveCall():
                if call.move_from in self.producers:
                    self.producers[call.move_to] = self.producers[call.move_from]
            case JumpFalseCall():
                self.method.nodes.append(Node(id_, Kind.OUTSIDE, "jump if false", ""))
                self._reads(id_, [call.cond_value_index])
            case FreeCall():
                pass

    def _kernel(self, id_: str, call: Any) -> None:
        operator = self.plan.operators[call.op_index]
        op = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        name, reason = self.refused.next(op)
        reads, writes = self._arguments(call.args)
        node = Node(id_, Kind.OUTSIDE, op, name, reason=reason, result=", ".join(map(self._text, writes)))
        node.result_bytes = sum(map(self._bytes, writes))
        self._add(node, reads, writes)
        self._outside_weights(node, reads)
        self._place(node, "")

    def _other(self, id_: str, call: Any, delegate: Any) -> None:
        reads, writes = self._arguments(call.args)
        part = delegate_name(call.delegate_index)
        node = Node(id_, Kind.OTHER, delegate.id, "", part, result=", ".join(map(self._text, writes)))
        self._add(node, reads, writes)

    def _add(self, node: Node, reads: Sequence[int], writes: Sequence[int]) -> None:
        self.method.nodes.append(node)
        self._reads(node.id, reads)
        for index in writes:
            self.producers[index] = (node.id, self._text(index))

    def _arguments(self, args: Sequence[int]) -> tuple[list[int], list[int]]:
        """The values that a call reads and those that it writes: the last argument, and what nobody computed before."""
        last = set(written_by(self.plan, args))
        reads: list[int] = []
        writes: list[int] = []
        for index in dict.fromkeys(value for argument in args for value in _items(self.plan, argument)):
            value = self.plan.values[index].val
            fresh = isinstance(value, Tensor) and value.allocation_info is not None and index not in self.producers
            (writes if index in last or fresh else reads).append(index)
        return reads, writes

    def _reads(self, id_: str, values: Sequence[int]) -> None:
        for index in values:
            source, text = self.producers.get(index, ("", ""))
            if source:
                self.method.edges.append(Edge(source, id_, text))

    def _outside_weights(self, node: Node, reads: Sequence[int]) -> None:
        for index in reads:
            value = self.plan.values[index].val
            if isinstance(value, Tensor) and value.allocation_info is None and value.data_buffer_idx > 0:
                extra = value.extra_tensor_info
                key = (extra.fully_qualified_name if extra else None) or f"constant {index}"
                if all(weight.key != key or weight.part for weight in self.method.weights):
                    dtype = str(get_scalar_type(value.scalar_type)).removeprefix("torch.")
                    size = self._bytes(index)
                    self.method.weights.append(
                        Weight(key, "", key.rpartition(".")[0], dtype, tuple(value.sizes), "", size)
                    )
                node.weights.append(key)
                node.weight_bytes += self._bytes(index)

    def _ggml(self, _: str, call: Any, delegate: Any) -> None:
        index = call.delegate_index
        graph = deserialize(self.payloads(delegate))
        sources: dict[Value, str] = {}
        for port, argument in zip(graph.inputs, call.args, strict=False):
            if self.producers.get(argument, ("", ""))[0]:
                sources[port.value] = self.producers[argument][0]
        constants = {constant.value: constant for constant in graph.constants}
        self._constants(index, graph)
        for number, ir_node in enumerate(graph.nodes):
            node = self._inner(index, number, ir_node, constants)
            self.method.nodes.append(node)
            sources[ir_node.output] = node.id
            for value in dict.fromkeys(ir_node.inputs):
                if value is not None and value in sources:
                    self.method.edges.append(Edge(sources[value], node.id, text_of(value)))
        for port, argument in zip(graph.outputs, call.args[len(graph.inputs) :], strict=False):
            self.producers[argument] = (sources.get(port.value, ""), self._text(argument))

    def _constants(self, index: int, graph: Graph) -> None:
        for constant in graph.named_constants():
            storage = "" if constant.storage == PLAIN else constant.storage.kind.name.lower()
            dtype = constant.value.dtype.name.lower()
            key = key_of(constant)
            shape = constant.shape
            first = next((i for i, size in enumerate(shape) if size != 1), len(shape) - 1)
            module = key.removesuffix(f".{storage}").rpartition(".")[0]
            weight = Weight(key, delegate_name(index), module, dtype, shape[first:], storage, constant.stored_bytes)
            self.method.weights.append(weight)

    def _inner(self, index: int, number: int, ir_node: IRNode, constants: dict[Value, Constant]) -> Node:
        read = [constants[value] for value in ir_node.inputs if value is not None and value in constants]
        node = Node(node_id(index, number), Kind.GGML, ir_node.op, ir_node.name, delegate_name(index))
        node.result = text_of(ir_node.output)
        node.result_bytes = _least_bytes(ir_node.output)
        node.attributes = attributes_text(ir_node)
        node.weights = [key_of(constant) for constant in read]
        node.weight_bytes = sum(constant.stored_bytes for constant in read)
        paths = {weight.module for weight in self.method.weights if weight.key in node.weights}
        self._place(node, max(paths, key=len, default=""))
        return node

    def _place(self, node: Node, module_of_weights: str) -> None:
        """Say which module a node is of: its weights' where that is within the node's own, as a fused layer's is."""
        origin = self.origins.get(node.name, Origin())
        node.module, node.module_type, node.source = origin
        if module_of_weights.startswith(origin.module) and module_of_weights != origin.module:
            node.module = module_of_weights
            inner = next((other for other in self.origins.values() if other.module == module_of_weights), None)
            node.module_type = inner.module_type if inner else ""

    def _sum_boundaries(self) -> None:
        """What outside nodes read from delegates, and delegates from them."""
        nodes = {node.id: node for node in self.method.nodes}
        for edge in self.method.edges:
            ends = nodes[edge.source], nodes[edge.target]
            kinds = {end.kind for end in ends}
            if kinds == {Kind.GGML, Kind.OUTSIDE}:
                outside = next(end for end in ends if end.kind == Kind.OUTSIDE)
                outside.boundary_bytes += ends[0].result_bytes

    def _text(self, index: int) -> str:
        value = self.plan.values[index].val
        if not isinstance(value, Tensor):
            return type(value).__name__.lower()
        dtype = str(get_scalar_type(value.scalar_type)).removeprefix("torch.")
        return f"{dtype}[{', '.join(map(str, value.sizes))}]"

    def _bytes(self, index: int) -> int:
        value = self.plan.values[index].val
        return tensor_bytes(value) if isinstance(value, Tensor) else 0


def tensor_bytes(tensor: Any) -> int:
    """The size of a tensor of a program, at its largest."""
    count: int = math.prod(tensor.sizes)
    return count * int(get_scalar_type(tensor.scalar_type).itemsize)


def key_of(constant: Constant) -> str:
    """A constant's name, without the digest of its contents."""
    return constant.key.rpartition("#")[0] or constant.key


def text_of(value: Value) -> str:
    """A type and dims, outermost first, without the leading ones of size 1."""
    sizes = [str(size) for size in reversed(value.ne)]
    while len(sizes) > 1 and sizes[0] == "1":
        sizes.pop(0)
    return f"{value.dtype.name.lower()}[{', '.join(sizes)}]"


def _least_bytes(value: Value) -> int:
    """The size of a result; 0 where it depends on the inputs' sizes."""
    sizes = list(_integers(value))
    return value.dtype.nbytes(math.prod(sizes)) if len(sizes) == len(value.ne) else 0


def _integers(value: Value) -> Iterator[int]:
    for size in value.ne:
        if isinstance(size, int) or getattr(size, "is_Integer", False):
            yield int(size)
