"""Small programs as data: run by eager PyTorch, as a graph to lower, as a module, and as text that reproduces them.

A program is a list of calls of overloads. Its graph is built without tracing, a call at a time, which takes a
millisecond where `torch.export` takes fifty.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import sympy
import torch
from torch import Tensor, nn
from torch._dynamo.source import ConstantSource
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from executorch_ggml.ir.dims import as_dim

aten = torch.ops.aten

LITERAL = 64  # a tensor of more elements is printed as the call that makes it

inf, nan = math.inf, math.nan
ODD = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 6.0, 1e-38, -1e-40, 30.0, -80.0, 6e4, inf, -inf, nan]


@dataclass(frozen=True)
class Ref:
    """A value of a program: ``x0`` is its first input, ``y0`` the result of its first step."""

    name: str
    item: int | None = None  # of a step with several results

    def __repr__(self) -> str:
        return self.name if self.item is None else f"{self.name}[{self.item}]"


@dataclass(frozen=True)
class Size:
    """The size of a value's dim, as an argument."""

    of: Ref
    dim: int

    def __repr__(self) -> str:
        return f"{self.of}.size({self.dim})"


@dataclass(frozen=True)
class Fill:
    """How an input's elements are made, so that they can be made again for another size."""

    kind: str = "coarse"
    seed: int = 0
    low: int = -9
    high: int = 9


def values(
    shape: Sequence[int], dtype: torch.dtype, kind: str = "coarse", seed: int = 0, low: int = -9, high: int = 9
) -> Tensor:
    """Elements of a kind: coarse (eighths), fine, or odd (zeros, NaN, infinities, denormals); integers in a range."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(tuple(shape), generator=generator) > 0.5
    if not dtype.is_floating_point:
        made = torch.randint(max(low, torch.iinfo(dtype).min), high + 1, tuple(shape), generator=generator)
        if kind == "odd":
            extremes = [torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0, 1]
            chosen = torch.tensor(extremes)[torch.randint(4, tuple(shape), generator=generator)]
            made = torch.where(torch.rand(tuple(shape), generator=generator) < 0.3, chosen, made)
        return made.clamp(min=torch.iinfo(dtype).min).to(dtype)
    made = torch.randn(tuple(shape), generator=generator) * 2
    if kind == "coarse":
        made = (made * 8).round() / 8
    if kind == "odd":
        chosen = torch.tensor(ODD)[torch.randint(len(ODD), tuple(shape), generator=generator)]
        made = torch.where(torch.rand(tuple(shape), generator=generator) < 0.5, chosen, made)
    return made.to(dtype)


@dataclass(frozen=True)
class Input:
    """An input: its tensor, the symbols among its sizes, and where it has some, how to fill it at other sizes."""

    tensor: Tensor
    sizes: tuple[int | str, ...]
    fill: Fill | None = None
    constant: bool = False

    def at(self, symbols: Mapping[str, int]) -> Tensor:
        """The tensor for some values of the symbols."""
        shape = [symbols[size] if isinstance(size, str) else size for size in self.sizes]
        if tuple(shape) == tuple(self.tensor.shape) or self.fill is None:
            return self.tensor
        return values(shape, self.tensor.dtype, **vars(self.fill))

    @property
    def source(self) -> str:
        """Python that makes it."""
        symbolic = any(isinstance(size, str) for size in self.sizes)
        if self.fill is not None and (symbolic or self.tensor.numel() > LITERAL):
            fill = self.fill
            shape = "(" + "".join(f"{size}, " for size in self.sizes) + ")"
            return f"values({shape}, {self.tensor.dtype}, {fill.kind!r}, {fill.seed}, {fill.low}, {fill.high})"
        text = f"torch.tensor({self.tensor.tolist()}, dtype={self.tensor.dtype})"
        return f"{text}.reshape({tuple(self.tensor.shape)})" if self.tensor.numel() == 0 else text


@dataclass(frozen=True)
class Step:
    """One call; its arguments have `Ref` for tensors and `Size` for sizes."""

    overload: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def operands(self) -> list[Ref]:
        """Its tensors, in order."""
        return [leaf for leaf in tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Ref)]


Perturb = Callable[[Step, list[Any], bool], list[Any]]


@dataclass(frozen=True)
class Program:
    """Inputs, steps, and which values are the outputs; `symbols` has their sizes when traced, `others` more to run."""

    inputs: tuple[Input, ...] = ()
    steps: tuple[Step, ...] = ()
    outputs: tuple[Ref, ...] = ()
    symbols: dict[str, int] = field(default_factory=dict)
    others: tuple[dict[str, int], ...] = ()

    # ----------------------------------------------------------------------------------------------- eager PyTorch

    def run(self, given: Sequence[Tensor], through: Perturb | None = None) -> list[Tensor]:
        """The outputs by eager PyTorch; `through` may change what goes into a step, and what comes out."""
        found = self.start(given)
        for number, step in enumerate(self.steps):
            found[f"y{number}"] = self.call(step, found, through)
        return [pick(found, ref) for ref in self.outputs]

    @staticmethod
    def start(given: Sequence[Tensor]) -> dict[str, Any]:
        """The values that are there before the first step."""
        return {f"x{number}": tensor for number, tensor in enumerate(given)}

    @staticmethod
    def call(step: Step, found: Mapping[str, Any], through: Perturb | None = None) -> Any:
        """One step's result."""
        operands = [pick(found, ref) for ref in step.operands]
        given = iter(operands if through is None else through(step, operands, False))
        args, kwargs = arguments(step, lambda _: next(given), lambda size: pick(found, size.of).size(size.dim))
        made = step.overload(*args, **kwargs)
        if through is None:
            return made
        changed = through(step, list(made) if isinstance(made, (tuple, list)) else [made], True)
        return changed if isinstance(made, (tuple, list)) else changed[0]

    def given(self, symbols: Mapping[str, int]) -> list[Tensor]:
        """The inputs for some values of the symbols, constants among them."""
        return [item.at(symbols) for item in self.inputs]

    def user(self, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Those that are no constants."""
        return tuple(tensor for tensor, item in zip(given, self.inputs, strict=True) if not item.constant)

    def module(self) -> Model:
        """The program as a module of its user inputs."""
        return Model(self)

    @property
    def overloads(self) -> frozenset[OpOverload]:
        """What it calls."""
        return frozenset(step.overload for step in self.steps)

    # ---------------------------------------------------------------------------------------------- a graph to lower

    def graph(self) -> Traced:
        """What an export would give: a graph of the calls, every node with what it was traced to be."""
        return _Tracer(self).traced()

    # ------------------------------------------------------------------------------------------------------- as text

    def source(self, why: str = "") -> str:
        """A module and its inputs, to be run as they stand."""
        users = [f"x{i}" for i, item in enumerate(self.inputs) if not item.constant]
        constants = [f"x{i}" for i, item in enumerate(self.inputs) if item.constant]
        lines = [*(f"# {line}" for line in why.splitlines()), "import torch", "from math import inf, nan"]
        if any("values(" in item.source for item in self.inputs):
            lines.append("from tests.fuzz.program import values")
        helpers = (
            "check_program, DYNAMIC" if any("DYNAMIC" in line for line in self._inputs_text()) else "check_program"
        )
        lines += [f"from tests.helpers import {helpers}", "", "aten = torch.ops.aten", "", ""]
        lines.append("class Model(torch.nn.Module):")
        if constants:
            lines += ["    def __init__(self):", "        super().__init__()"]
            lines += [f'        self.register_buffer("{x}", {self.inputs[int(x[1:])].source})' for x in constants]
            lines.append("")
        lines.append(f"    def forward({', '.join(['self', *users])}):")
        lines += [f"        {x} = self.{x}" for x in constants]
        lines += [f"        y{number} = {_call_text(step)}" for number, step in enumerate(self.steps)]
        lines.append(f"        return {', '.join(map(str, self.outputs))}")
        lines += ["", "", *self._inputs_text(), ""]
        return "\n".join(lines)

    def _inputs_text(self) -> list[str]:
        user = [item for item in self.inputs if not item.constant]
        lines = [f"def inputs({', '.join(self.symbols)}):"]
        lines += ["    return (", *(f"        {item.source}," for item in user), "    )", "", ""]
        dims = [{dim: "DYNAMIC" for dim, size in enumerate(item.sizes) if isinstance(size, str)} for item in user]
        traced = ", ".join(f"{name}={hint}" for name, hint in self.symbols.items())
        checks = f"check_program(Model(), *inputs({traced})"
        if any(dims):
            sizes = [", ".join(f"{name}={size}" for name, size in other.items()) for other in self.others]
            checks += f", dynamic={dims}, others=[{', '.join(f'inputs({size})' for size in sizes)}]".replace("'", "")
        return [*lines, checks + ")"]


def _call_text(step: Step) -> str:
    parts = [repr(arg) for arg in step.args] + [f"{name}={value!r}" for name, value in step.kwargs.items()]
    namespace = step.overload.namespace
    prefix = "aten" if namespace == "aten" else f"torch.ops.{namespace}"
    name = f"{prefix}.{step.overload._schema.name.split('::')[1]}.{step.overload._overloadname}"
    return f"{name}({', '.join(parts)})"


class Model(nn.Module):
    """A program's module."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        for index, item in enumerate(program.inputs):
            if item.constant:
                self.register_buffer(f"constant_{index}", item.tensor)

    def forward(self, *user: Tensor) -> Any:
        source = iter(user)
        given = [
            getattr(self, f"constant_{index}") if item.constant else next(source)
            for index, item in enumerate(self.program.inputs)
        ]
        return tuple(self.program.run(given))


def pick(found: Mapping[str, Any], ref: Ref) -> Any:
    """A value by its name."""
    value = found[ref.name]
    return value if ref.item is None else value[ref.item]


def arguments(
    step: Step, fetch: Callable[[Ref], Any], size: Callable[[Size], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A step's arguments with its references replaced."""

    def leaf(value: Any) -> Any:
        return fetch(value) if isinstance(value, Ref) else size(value) if isinstance(value, Size) else value

    args, kwargs = tree_map(leaf, (step.args, step.kwargs))
    return args, kwargs


def single(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], constants: bool = False) -> Program:
    """A program of one call: the tensors among its arguments become inputs, all but the first constant if asked."""
    inputs: list[Input] = []

    def lift(tensor: Tensor) -> Ref:
        own = tensor.detach().contiguous()
        inputs.append(Input(own, tuple(own.shape), constant=constants and len(inputs) > 0))
        return Ref(f"x{len(inputs) - 1}")

    args, kwargs = tree_map_only(Tensor, lift, (args, kwargs))
    program = Program(tuple(inputs), (Step(overload, args, kwargs),))
    made = program.call(program.steps[0], program.start(program.given({})))
    return replace(program, outputs=tensors("y0", made))


def tensors(name: str, made: Any) -> tuple[Ref, ...]:
    """References to the tensors of a value."""
    if isinstance(made, Tensor):
        return (Ref(name),)
    return tuple(Ref(name, place) for place, item in enumerate(made) if isinstance(item, Tensor))


def smallest(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The program with no more than its failure needs: one output, fewer steps, their operands given as inputs."""
    trying = True
    while trying:
        trying = False
        for smaller in _smaller(program):
            if fails(smaller):
                program, trying = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    if program.symbols:
        fixed = tuple(replace(item, sizes=tuple(item.tensor.shape)) for item in program.inputs)
        yield replace(program, inputs=fixed, symbols={}, others=())
    elif len(program.others) > 1:
        yield from (replace(program, others=(other,)) for other in program.others)
    if len(program.outputs) > 1:
        yield from (_needed(replace(program, outputs=(ref,))) for ref in program.outputs)
    for ref in program.outputs:
        last = program.steps[int(ref.name[1:])]
        before = tuple(dict.fromkeys(operand for operand in last.operands if operand.name.startswith("y")))
        if before:
            yield _needed(replace(program, outputs=before))
    if program.symbols:
        return
    found = Program.start(program.given({}))
    for number, step in enumerate(program.steps):
        found[f"y{number}"] = Program.call(step, found)
        if isinstance(found[f"y{number}"], Tensor) and Ref(f"y{number}") not in program.outputs:
            yield _needed(_given_as_input(program, number, found[f"y{number}"]))


def _given_as_input(program: Program, number: int, made: Tensor) -> Program:
    """A step's result as one more input instead."""
    name = f"x{len(program.inputs)}"
    names = {f"y{number}": name} | {f"y{n}": f"y{n - 1}" for n in range(number + 1, len(program.steps))}
    item = Input(made.detach().clone().contiguous(), tuple(made.shape))
    return _renamed(program, names, (*program.inputs, item), program.steps[:number] + program.steps[number + 1 :])


def _needed(program: Program) -> Program:
    """Without the steps and inputs that no output comes from."""
    wanted = {ref.name for ref in program.outputs}
    for number, step in reversed(list(enumerate(program.steps))):
        if f"y{number}" in wanted:
            wanted |= read_by(step)
    inputs = [n for n in range(len(program.inputs)) if f"x{n}" in wanted]
    steps = [n for n in range(len(program.steps)) if f"y{n}" in wanted]
    names = {f"x{old}": f"x{new}" for new, old in enumerate(inputs)}
    names |= {f"y{old}": f"y{new}" for new, old in enumerate(steps)}
    return _renamed(program, names, tuple(program.inputs[n] for n in inputs), tuple(program.steps[n] for n in steps))


def read_by(step: Step) -> set[str]:
    """The names of the values that a step reads."""
    leaves = tree_leaves((step.args, step.kwargs))
    return {leaf.of.name if isinstance(leaf, Size) else leaf.name for leaf in leaves if isinstance(leaf, (Ref, Size))}


def _renamed(program: Program, names: Mapping[str, str], inputs: tuple[Input, ...], steps: tuple[Step, ...]) -> Program:
    def moved(ref: Ref) -> Ref:
        return Ref(names.get(ref.name, ref.name), ref.item)

    made = []
    for step in steps:
        args, kwargs = arguments(step, moved, lambda size: Size(moved(size.of), size.dim))
        made.append(Step(step.overload, args, kwargs))
    return replace(program, inputs=inputs, steps=tuple(made), outputs=tuple(moved(ref) for ref in program.outputs))


# ----------------------------------------------------------------------------------------------------------- building


@dataclass(frozen=True)
class Traced:
    """A program as `Lowering` takes it, its guards, and its symbols' names."""

    program: Any
    environment: ShapeEnv | None
    names: dict[Any, str]

    def holds(self, symbols: Mapping[str, int]) -> bool:
        """Whether the trace is right for these sizes."""
        if self.environment is None:
            return True
        given = {symbol: symbols[name] for symbol, name in self.names.items()}
        return all(bool(guard.expr.xreplace(given)) for guard in self.environment.guards)

    def shape(self, fake: Tensor, symbols: Mapping[str, int]) -> tuple[int, ...]:
        """A traced shape at some sizes."""
        given = {symbol: symbols[name] for symbol, name in self.names.items()}
        return tuple(int(sympy.sympify(as_dim(size)).xreplace(given)) for size in fake.shape)


class _Tracer:
    """Builds the graph: with the eager results as what was traced, or where there are symbols, with fake tensors."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.symbolic = any(isinstance(size, str) for item in program.inputs for size in item.sizes)
        self.environment = ShapeEnv() if self.symbolic else None
        self.mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True) if self.symbolic else None
        self.fx = Graph()
        self.nodes: dict[str, Node] = {}
        self.found: dict[str, Any] = {}
        self.names: dict[Any, str] = {}

    def traced(self) -> Traced:
        symbols = (
            {name: self._symbol(name, hint) for name, hint in self.program.symbols.items()} if self.symbolic else {}
        )
        specs = [self._input(index, item, symbols) for index, item in enumerate(self.program.inputs)]
        for number, step in enumerate(self.program.steps):
            self._step(f"y{number}", step)
        outputs = [self._picked(ref) for ref in self.program.outputs]
        self.fx.output(tuple(outputs))
        signature = ExportGraphSignature(
            specs, [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in outputs]
        )
        environment = self.environment
        made = SimpleNamespace(
            graph=self.fx,
            graph_signature=signature,
            state_dict={f"x{i}": item.tensor for i, item in enumerate(self.program.inputs) if item.constant},
            constants={},
            range_constraints={} if environment is None else {s: environment.var_to_range[s] for s in self.names},
            outputs=[node.meta["val"] for node in outputs],
        )
        return Traced(made, environment, self.names)

    def _symbol(self, name: str, hint: int) -> torch.SymInt:
        assert self.environment is not None
        source = ConstantSource(name)
        symbol = self.environment.create_symbol(
            hint, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None
        )
        self.names[symbol] = name
        made = self.environment.create_symintnode(symbol, hint=hint)
        assert isinstance(made, torch.SymInt)
        return made

    def _input(self, index: int, item: Input, symbols: Mapping[str, torch.SymInt]) -> InputSpec:
        name = f"x{index}"
        node = self.fx.placeholder(name)
        value = item.tensor
        if self.mode is not None and not item.constant:
            shape = [symbols[size] if isinstance(size, str) else size for size in item.sizes]
            with self.mode:
                value = torch.empty(shape, dtype=item.tensor.dtype)
        elif self.mode is not None:
            value = self.mode.from_tensor(item.tensor, static_shapes=True)
        self._add(name, node, value)
        kind = InputKind.BUFFER if item.constant else InputKind.USER_INPUT
        return InputSpec(kind, TensorArgument(node.name), name if item.constant else None, persistent=True)

    def _step(self, name: str, step: Step) -> None:
        if self.mode is None:
            made = self.program.call(step, self.found)
        else:
            with self.mode:
                made = self.program.call(step, self.found)
        args, kwargs = arguments(step, self._picked, self._size)
        self._add(name, self.fx.call_function(step.overload, args, kwargs), made)

    def _add(self, name: str, node: Node, value: Any) -> None:
        node.meta["val"] = tuple(value) if isinstance(value, list) else value
        self.nodes[name] = node
        self.found[name] = value

    def _picked(self, ref: Ref) -> Node:
        node = self.nodes[ref.name]
        if ref.item is None:
            return node
        item = self.fx.call_function(operator.getitem, (node, ref.item))
        item.meta["val"] = self.found[ref.name][ref.item]
        return item

    def _size(self, size: Size) -> Any:
        value = pick(self.found, size.of).size(size.dim)
        if not isinstance(value, torch.SymInt):
            return value
        node = self.fx.call_function(aten.sym_size.int, (self._picked(size.of), size.dim))
        node.meta["val"] = value
        return node
