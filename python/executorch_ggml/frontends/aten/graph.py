"""Lowers the nodes of an exported (or Edge) program, one by one or as a whole graph."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils._sympy.numbers import int_oo

from ...ir.builder import Builder
from ...ir.dims import as_dim, free_symbols, ne_of, same_dims, unsupported_part
from ...ir.dtypes import DType
from ...ir.graph import Graph, IRError
from ...ir.op import Dim
from .context import Context, Tensor
from .registry import FOLDED, LOWERINGS, REASONS, Refused, overload_of
from .source import source_line
from .weights import StoredWeight, WeightSource

MAX_SIZE = 2**31 - 1
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_size_node(node: Node) -> bool:
    """Whether a node computes a size: those have no data and are carried as expressions."""
    return (
        node.op == "call_function"
        and isinstance(node.meta.get("val"), (torch.SymInt, int))
        and not isinstance(node.meta.get("val"), bool)
    )


class Lowering:
    """Lowers one program.

    With ``integer_weights``, weights that torch quantized become blocks of a ggml type that holds them exactly.

    Buffers that it mutates become states, and so do those that ``states`` names: other methods mutate them. ``weights``
    says which parameters are stored in another way than the module has them.
    """

    def __init__(
        self,
        program: ExportedProgram,
        *,
        integer_weights: bool = True,
        states: frozenset[str] = frozenset(),
        weights: WeightSource | None = None,
    ) -> None:
        self.program = program
        self.integer_weights = integer_weights
        self.notes: dict[str, None] = {}
        self._weights = weights
        self._constants = constant_sources(program)
        self._mutated = mutated_buffers(program, states)

    # ---------------------------------------------------------------------------------------- one node, as a check

    def refusal(self, node: Node) -> str | None:
        """Why a node cannot run in ggml, or None: its real lowering is run on stand-ins for its inputs."""
        if is_size_node(node):
            return self._size_refusal(node)
        if node.target is operator.getitem:
            return self.refusal(node.args[0]) if isinstance(node.args[0], Node) else "its source is no node"
        builder = Builder()
        env: dict[Node, Any] = {}
        try:
            for source in node.all_input_nodes:
                env[source] = self._stand_in(builder, source)
            result = self.lower_node(builder, node, env)
        except IRError as error:
            return str(error)
        return result.reason if isinstance(result, Refused) else None

    def _size_refusal(self, node: Node) -> str | None:
        if overload_of(node) is torch.ops.aten._local_scalar_dense.default:
            return "a number that is read from a tensor: sizes come from shapes, or as inputs of their own"
        part = unsupported_part(as_dim(node.meta["val"]))
        return None if part is None else f"the IR has no way to say {part}"

    def _stand_in(self, builder: Builder, node: Node) -> Any:
        fake = node.meta.get("val")
        if isinstance(fake, (torch.SymInt, int)):
            return as_dim(fake)
        if isinstance(fake, (tuple, list)):
            return tuple(self._placeholder(builder, f"{node.name}.{i}", item) for i, item in enumerate(fake))
        if node.op == "get_attr":
            return self._attribute(builder, node)
        if node.graph is not self.program.graph:  # a body of control flow: all that it is given is an input
            return self._placeholder(builder, node.name, fake)
        if self._is_constant(node):
            return self._constant(builder, node)
        folded = self._folded(builder, node)
        return self._placeholder(builder, node.name, fake) if folded is None else folded

    def _folded(self, builder: Builder, node: Node) -> Tensor | None:
        """A node that is computed ahead of time, as what reads it sees it; None for other nodes."""
        sources = node.all_input_nodes
        if overload_of(node) not in FOLDED or not all(map(self._is_constant, sources)):
            return None
        made = self.lower_node(builder, node, {source: self._constant(builder, source) for source in sources})
        return made if isinstance(made, Tensor) else None

    def _is_constant(self, node: Node) -> bool:
        returned = any(user.op == "output" for user in node.users)  # then it is an input of the delegate
        return node.name in self._constants and node.name not in self._mutated and not returned

    def _placeholder(self, builder: Builder, name: str, fake: Any) -> Tensor:
        dtype, shape = _typed(name, fake)
        return Tensor(builder.input(name, dtype, shape, ne_of(shape)), shape)

    def _constant(self, builder: Builder, node: Node) -> Tensor:
        key, data = self._constants[node.name]
        dtype, shape = _typed(node.name, node.meta["val"])
        stored = None if self._weights is None else self._weights.find(key, data())
        if stored is not None and stored.replaces:
            data = functools.partial(_replaced, stored, shape, dtype)
        outside = stored is not None and stored.dtype == dtype and stored.key is not None
        name = stored.key if stored is not None and stored.key is not None and outside else key
        return Tensor(builder.constant(name, dtype, ne_of(shape), data, outside=outside), shape, data, key, stored)

    def _attribute(self, builder: Builder, node: Node) -> Tensor:
        """A constant inside a body of control flow."""
        data = attribute_of(node)
        dtype, shape = _typed(node.name, data)
        return Tensor(builder.constant(str(node.target), dtype, ne_of(shape), lambda: data), shape, lambda: data)

    def notes_on_integers(self, contents: Mapping[str, torch.Tensor]) -> list[str]:
        """What becomes of weights that torch quantized; ``contents`` has the constants where the program's are fake."""
        known = {name: key for name, (key, _) in self._constants.items() if key in contents}
        self._constants |= {name: (key, functools.partial(contents.__getitem__, key)) for name, key in known.items()}
        constant: set[Node] = set()
        for node in self.program.graph.nodes:
            inputs = node.all_input_nodes
            if self._is_constant(node) or (node.op == "call_function" and inputs and constant.issuperset(inputs)):
                constant.add(node)
            if overload_of(node) in FOLDED or overload_of(node) is torch.ops.aten.mm.default:
                with contextlib.suppress(IRError):  # a refusal, which is said elsewhere
                    self._with_constants(Builder(), node, constant)
        return list(self.notes)

    def _with_constants(self, builder: Builder, node: Node, constant: AbstractSet[Node]) -> Any:
        """A node's result where those of the nodes before it that nothing but constants goes into are lowered too."""
        if node.op != "call_function":
            return self._constant(builder, node)
        env = {
            source: self._with_constants(builder, source, constant)
            if source in constant
            else self._stand_in(builder, source)
            for source in node.all_input_nodes
        }
        return self.lower_node(builder, node, env)

    # ----------------------------------------------------------------------------------------------- a whole graph

    def graph(self) -> Graph:
        """The whole program as one IR graph; raises :class:`IRError` naming the first node that cannot be lowered."""
        builder = Builder()
        env: dict[Node, Any] = {}
        signature = self.program.graph_signature
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                if node.name in self._mutated:
                    env[node] = self._state(builder, node)
                elif node.name in self._constants:
                    env[node] = self._constant(builder, node)
                else:
                    env[node] = self._input(builder, node)
            elif node.op == "get_attr":
                env[node] = self._attribute(builder, node)
            elif node.op == "call_function":
                env[node] = self._lowered(builder, node, env)
            elif node.op == "output":
                self._outputs(builder, node, env, signature)
        bind_symbols(builder, self.program)
        return builder.finish()

    def _input(self, builder: Builder, node: Node) -> Any:
        fake = node.meta["val"]
        if isinstance(fake, (torch.SymInt, int)):
            value = builder.input(node.name, DType.I64, (), (1, 1, 1, 1))
            builder.graph.inputs[-1].value = value
            return as_dim(fake)
        return self._placeholder(builder, node.name, fake)

    def _state(self, builder: Builder, node: Node) -> Tensor:
        key, data = self._constants[node.name]
        dtype, shape = _typed(node.name, node.meta["val"])
        return Tensor(builder.state(key, dtype, ne_of(shape), data), shape)

    def _lowered(self, builder: Builder, node: Node, env: Mapping[Node, Any]) -> Any:
        if is_size_node(node):
            return as_dim(node.meta["val"])
        if node.target is operator.getitem:
            source, index = node.args
            assert isinstance(source, Node)
            return env[source][index]
        result = self.lower_node(builder, node, env)
        if isinstance(result, Refused):
            raise IRError(f"{node.name} ({overload_of(node)}): {result.reason}")
        first = result[0] if isinstance(result, tuple) and result else result
        if isinstance(first, Tensor):
            builder.trace(node.name, first.value, first.shape)
        return result

    def _outputs(self, builder: Builder, node: Node, env: Mapping[Node, Any], signature: Any) -> None:
        returned = node.args[0]
        assert isinstance(returned, (tuple, list))
        for source, spec in zip(returned, signature.output_specs, strict=True):
            if spec.kind == OutputKind.BUFFER_MUTATION:
                target = next(n for n, name in signature.inputs_to_buffers.items() if name == spec.target)
                state = env[next(n for n in self.program.graph.nodes if n.name == target)]
                builder.emit("write_state", env[source].value, state.value)
                continue
            tensor = env[source]
            if not isinstance(tensor, Tensor):
                tensor = Tensor(builder.scalar(tensor, DType.I64), ())
            builder.output(source.name, tensor.value, tensor.shape)

    # ------------------------------------------------------------------------------------------------- one lowering

    def lower_node(self, builder: Builder, node: Node, env: Mapping[Node, Any]) -> Any:
        """A node's Tensor (or tuple of them), or :class:`Refused`; checked against the trace."""
        function = LOWERINGS.get(overload_of(node))
        if function is None:
            return Refused(REASONS.get(overload_of(node), "no lowering for this overload"))
        builder.origin = node.name
        context = Context(builder, node, self.integer_weights, self.notes)
        args = torch.fx.map_arg(node.args, lambda n: env[n])
        kwargs = torch.fx.map_arg(node.kwargs, lambda n: env[n])
        result = function(context, *args, **kwargs)
        if not isinstance(result, Refused):
            check_against_trace(node, result)
        return result


def check_against_trace(node: Node, result: Any) -> None:
    """Raise :class:`IRError`, with the model's source line, where a lowering's result is not what was traced."""
    fakes = node.meta["val"]
    pairs = [(fakes, result)] if isinstance(fakes, torch.Tensor) else list(zip(fakes, result, strict=False))
    for fake, made in pairs:
        if made is None or not isinstance(fake, torch.Tensor):
            continue
        dtype, shape = _typed(node.name, fake)
        if made.dtype != dtype or not same_dims(made.shape, shape) or not same_dims(made.value.ne, ne_of(shape)):
            where = source_line(node)
            raise IRError(
                f"{overload_of(node)} lowered to {made.value} as {list(made.shape)}, traced {fake.dtype} {list(shape)}"
                + (f" at {where}" if where else "")
            )


def _typed(name: str, fake: Any) -> tuple[DType, tuple[Dim, ...]]:
    if not isinstance(fake, torch.Tensor):
        raise IRError(f"{name} is {type(fake).__name__}, not a tensor")
    dtype = DType.from_torch(fake.dtype)
    if dtype is None:
        raise IRError(f"{name}: the IR has no element type {fake.dtype}")
    shape = tuple(as_dim(size) for size in fake.shape)
    for size in shape:
        if (part := unsupported_part(size)) is not None:
            raise IRError(f"{name}: the IR has no way to say {part}")
    return dtype, shape


def mutated_buffers(program: ExportedProgram, states: frozenset[str] = frozenset()) -> set[str]:
    """Names of the placeholders of buffers that the program writes, or other methods do (``states``)."""
    signature = program.graph_signature
    written = {spec.target for spec in signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION} | states
    return {name for name, buffer in signature.inputs_to_buffers.items() if buffer in written}


def constant_sources(program: ExportedProgram) -> dict[str, tuple[str, Callable[[], torch.Tensor]]]:
    """Each constant placeholder's name, with the key and the data of its parameter, buffer or lifted tensor."""
    sources: dict[str, tuple[str, Callable[[], torch.Tensor]]] = {}
    for spec in program.graph_signature.input_specs:
        name, target = getattr(spec.arg, "name", None), spec.target
        if name is None or target is None or spec.kind in (InputKind.USER_INPUT, InputKind.CUSTOM_OBJ):
            continue
        sources[name] = (target, _reader(program, target))
    return sources


def attribute_of(node: Node) -> torch.Tensor:
    """The tensor that a ``get_attr`` node reads."""
    module = node.graph.owning_module
    tensor = getattr(module, str(node.target), None)
    if not isinstance(tensor, torch.Tensor):
        raise IRError(f"{node.target} is {type(tensor).__name__}, not a tensor")
    return tensor.detach()


def buffer_of(program: ExportedProgram, target: str) -> torch.Tensor:
    """A parameter, buffer or lifted tensor of a program."""
    tensor = program.state_dict.get(target)
    if tensor is None:
        tensor = program.constants[target]
    assert isinstance(tensor, torch.Tensor)
    return tensor


def _replaced(stored: StoredWeight, shape: Sequence[int], dtype: DType) -> torch.Tensor:
    return stored.values(shape).to(dtype.torch)


def _reader(program: ExportedProgram, target: str) -> Callable[[], torch.Tensor]:
    return lambda: buffer_of(program, target).detach()


# -------------------------------------------------------------------------------------------------------- symbols


def bind_symbols(builder: Builder, program: ExportedProgram) -> None:
    """Say of every symbol where the runtime reads it: an input dim that is ``scale * symbol + offset``, or a scalar."""
    bound: set[sympy.Symbol] = set()
    scalars = {n.name: n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"}
    candidates: list[tuple[int, int, Dim]] = []
    for index, port in enumerate(builder.graph.inputs):
        fake = scalars.get(port.name)
        if isinstance(fake, torch.SymInt):
            candidates.append((index, -1, as_dim(fake)))
        candidates += [(index, dim, size) for dim, size in enumerate(port.shape)]
    for index, dim, size in sorted(candidates, key=lambda c: 0 if getattr(c[2], "is_Symbol", False) else 1):
        unbound = free_symbols([size]) - bound
        if len(unbound) != 1 or len(free_symbols([size])) != 1:
            continue
        symbol = unbound.pop()
        scale, offset = sympy.Wild("scale", exclude=[symbol]), sympy.Wild("offset", exclude=[symbol])
        match = size.match(scale * symbol + offset)
        if match and match[scale].is_Integer and match[scale] > 0 and match[offset].is_Integer:
            low, high = _bounds(program, symbol, is_size=dim >= 0)
            how = {"scale": int(match[scale]), "offset": int(match[offset]), "min": low, "max": high}
            builder.symbol(symbol, index, dim, **how)
            bound.add(symbol)


def _bounds(program: ExportedProgram, symbol: sympy.Symbol, *, is_size: bool) -> tuple[int, int]:
    constraint: Any = program.range_constraints.get(symbol)
    low = 0 if constraint is None or constraint.lower in (-int_oo, -sympy.oo) else int(constraint.lower)
    high = upper_bound(program, symbol)
    # Export assumes sizes of inputs to be 2 and more unless told otherwise; 0 and 1 run just as well here.
    return (0 if is_size and low <= 2 else low), MAX_SIZE if high is None else min(high, MAX_SIZE)


def upper_bound(program: ExportedProgram, symbol: sympy.Symbol) -> int | None:
    """The largest value that a program's symbol may take, or None where there is no bound."""
    constraint: Any = program.range_constraints.get(symbol)
    bounded = constraint is not None and constraint.upper not in (int_oo, sympy.oo)
    return int(constraint.upper) if bounded else None
