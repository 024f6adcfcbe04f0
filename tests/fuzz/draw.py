"""Hypothesis strategies: programs of a few calls, with arguments that fit what is there already.

`Grower` runs every call at once in eager PyTorch, so that the next can look at its result. Calls that eager
rejects, and those that the lowering refuses, are left out. What a call's arguments are is in `rules`, by their names.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from hypothesis import strategies as st
from tests.fuzz.check import MOVES
from tests.fuzz.differences import kills_eager
from tests.fuzz.program import (
    Fill,
    Input,
    Program,
    Ref,
    Size,
    Step,
    arguments,
    inf,
    nan,
    pick,
    read_by,
    tensors,
    values,
)
from tests.fuzz.samples import samples
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from executorch_ggml.frontends.aten import LOWERINGS, Lowering

aten = torch.ops.aten

MAX_STEPS = 6
MAX_INPUTS = 6
MAX_ELEMENTS = 20_000
SIZES = (2, 3, 1, 5, 0, 4, 7)
RANKS = (2, 1, 3, 4, 0, 5, 6)
# Symbols are traced at sizes that nothing else has, so that a size of 11 is known to be one.
SYMBOLS = {"a": 11, "b": 13}
RUN_AT = (1, 2, 0, 3, 5, 8, 16)
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
DTYPES = (F32, F32, F32, F32, torch.int64, torch.int32, torch.bool, F16, BF16, torch.uint8, torch.int8, torch.int16)
FLOATS = (F32, F32, F32, F16, BF16)
INDICES = (torch.int64, torch.int64, torch.int32)
NUMBERS = (2, 1, 0, -1, 3, 0.5, -2.0, 1.5, 0.0, -0.0, 1e-3, 100, True, inf, -inf, nan)

T = TypeVar("T")


class Unfit(Exception):  # noqa: N818 - no error
    """There is no such call on what is there."""


class Grower:
    """A program being drawn."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw
        count = self.one_of((0, 0, 1, 2))
        self.program = Program(symbols=dict(list(SYMBOLS.items())[:count]))
        self.found: dict[str, Any] = {}
        self.unread: frozenset[Ref] = frozenset()  # results that the lowering does not give

    # ----------------------------------------------------------------------------------------------------- drawing

    def one_of(self, choices: Sequence[T]) -> T:
        """One of some things, the first being the simplest."""
        if not choices:
            raise Unfit
        made: T = self._draw(st.sampled_from(choices))
        return made

    def between(self, low: int, high: int) -> int:
        """A number of a range."""
        if low > high:
            raise Unfit
        made: int = self._draw(st.integers(low, high))
        return made

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases; False is the simpler."""
        return self.between(0, 99) >= 100 - percent

    def flip(self) -> bool:
        """One or the other."""
        return self.one_of((False, True))

    def number(self) -> float:
        """A Python number."""
        return self.one_of(NUMBERS)

    def order(self, count: int) -> list[int]:
        """A permutation."""
        made: list[int] = self._draw(st.permutations(range(count)))
        return made

    # ------------------------------------------------------------------------------------------------------- sizes

    def shape(self, ranks: Sequence[int] = RANKS, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        """Sizes, some of them those of the symbols."""
        traced = tuple(self.program.symbols.values())
        choices = (*sizes[:2], *traced, *traced, *sizes[2:])
        return tuple(self.one_of(choices) for _ in range(self.one_of(ranks)))

    def labels(self, shape: Sequence[int]) -> tuple[int | str, ...]:
        """A shape with the names of its symbols."""
        names = {size: name for name, size in self.program.symbols.items()}
        return tuple(names.get(size, size) for size in shape)

    def said(self, size: int) -> int | Size:
        """A size as an argument: that of a value's dim where it is a symbol's."""
        if size not in self.program.symbols.values():
            return size
        for name, made in self.found.items():
            for ref in tensors(name, made):
                shape = self.value(ref).shape
                if size in shape:
                    return Size(ref, list(shape).index(size))
        raise Unfit

    def dim(self, x: Ref, extra: int = 0) -> int:
        """A dim of a value, counted from either end."""
        rank = max(self.value(x).dim() + extra, 1)
        return self.between(0, rank - 1) - (rank if self.flip() else 0)

    def dims(self, x: Ref, least: int = 0) -> list[int]:
        """Some dims of a value."""
        rank = self.value(x).dim()
        chosen = self.order(rank)[: self.between(min(least, rank), rank)]
        return [dim - (rank if self.chance(30) else 0) for dim in chosen]

    # ----------------------------------------------------------------------------------------------------- tensors

    def value(self, ref: Ref) -> Tensor:
        """A value's contents."""
        made = pick(self.found, ref)
        assert isinstance(made, Tensor)
        return made

    def size(self, ref: Ref, dim: int) -> int:
        """One of a value's sizes."""
        return int(self.value(ref).shape[dim])

    def values(self, dtypes: Sequence[torch.dtype], ranks: Sequence[int] = RANKS) -> list[Ref]:
        """What is there of some types and ranks, the newest first."""
        every = [ref for name, made in reversed(self.found.items()) for ref in tensors(name, made)]
        return [
            ref
            for ref in every
            if ref not in self.unread and self.value(ref).dtype in dtypes and self.value(ref).dim() in ranks
        ]

    def tensor(self, dtypes: Sequence[torch.dtype] = DTYPES, ranks: Sequence[int] = RANKS) -> Ref:
        """A value, a view of one, or a new input."""
        there = self.values(dtypes, ranks)
        if not there or (len(self.program.inputs) < MAX_INPUTS and self.chance(25)):
            return self.shaped(self.shape(ranks), dtypes)
        return self.one_of(there)

    def shaped(self, shape: Sequence[int], dtypes: Sequence[torch.dtype] = DTYPES, **how: Any) -> Ref:
        """A value of a shape, or a new input of it: as it is, or as a view of another one."""
        there = [ref for ref in self.values(dtypes) if tuple(self.value(ref).shape) == tuple(shape)]
        if there and not how and self.chance(60):
            return self.one_of(there)
        shape = list(shape)
        layout = "plain" if how.get("constant") else self.one_of(("plain", "plain", "turned", "strided", "repeated"))
        if layout == "turned" and len(shape) > 1:
            a, b = self.order(len(shape))[:2]
            shape[a], shape[b] = shape[b], shape[a]
            return self.call(aten.transpose.int, self.input(shape, dtypes, **how), a, b)
        if layout == "strided" and shape and shape[-1] not in SYMBOLS.values():
            wide = self.input([*shape[:-1], 2 * shape[-1] + 1], dtypes, **how)
            return self.call(aten.slice.Tensor, wide, len(shape) - 1, 1, 2 * shape[-1] + 1, 2)
        if layout == "repeated" and shape:
            at = self.between(0, len(shape) - 1)
            sizes = [self.said(size) for size in shape] if not self.program.symbols else [*shape]
            if any(size in SYMBOLS.values() for size in shape):
                return self.input(shape, dtypes, **how)
            thin = self.input([1 if dim == at else size for dim, size in enumerate(shape)], dtypes, **how)
            return self.call(aten.expand.default, thin, sizes)
        return self.input(shape, dtypes, **how)

    def input(
        self,
        shape: Sequence[int],
        dtypes: Sequence[torch.dtype] = DTYPES,
        low: int = -9,
        high: int = 9,
        odd: bool = True,
        constant: bool = False,
    ) -> Ref:
        """One more input, its integers in a range."""
        kind = self.one_of(("coarse", "fine", "odd") if odd else ("coarse", "fine"))
        fill = Fill(kind, self.between(0, 99), low, high)
        dtype = self.one_of(dtypes)
        if torch.Size(shape).numel() > MAX_ELEMENTS:
            raise Unfit
        sizes = tuple(shape) if constant else self.labels(shape)
        return self.add_input(Input(values(shape, dtype, **vars(fill)), sizes, fill, constant))

    def add_input(self, item: Input) -> Ref:
        """One more input, as it is."""
        name = f"x{len(self.program.inputs)}"
        if len(self.program.inputs) >= MAX_INPUTS + 2:
            raise Unfit
        self.program = replace(self.program, inputs=(*self.program.inputs, item))
        self.found[name] = item.tensor
        return Ref(name)

    # ------------------------------------------------------------------------------------------------------- calls

    def call(self, overload: OpOverload, *args: Any, **kwargs: Any) -> Ref:
        """One more step, whose result is one tensor."""
        (made,) = self.add(Step(overload, args, kwargs))
        return made

    def add(self, step: Step) -> tuple[Ref, ...]:
        """One more step; `Unfit` where eager rejects it, or the lowering refuses it."""
        if kills_eager(step, [self.value(ref) for ref in step.operands]):
            raise Unfit
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = Program.call(step, self.found)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, AssertionError) as error:
            raise Unfit from error
        name = f"y{len(self.program.steps)}"
        results = tensors(name, made)
        if not results or sum(pick({name: made}, ref).numel() for ref in results) > MAX_ELEMENTS:
            raise Unfit
        read = self._accepted(step, results)
        self.unread |= set(results) - set(read)
        self.program = replace(self.program, steps=(*self.program.steps, step))
        self.found[name] = made
        return read

    def _accepted(self, step: Step, results: tuple[Ref, ...]) -> tuple[Ref, ...]:
        """Ask the lowering, as the partitioner does, whether it takes this one call, and if only the first is read."""
        inputs: list[Input] = []
        named: dict[Ref, Ref] = {}
        constants = {f"x{i}" for i, item in enumerate(self.program.inputs) if item.constant}

        def lift(ref: Ref) -> Ref:
            if ref not in named:
                tensor = self.value(ref)
                named[ref] = Ref(f"x{len(inputs)}")
                inputs.append(Input(tensor, tuple(tensor.shape), constant=ref.name in constants))
            return named[ref]

        args, kwargs = arguments(step, lift, lambda size: self.value(size.of).shape[size.dim])
        for read in (results, results[:1]):
            outputs = tuple(Ref("y0", ref.item) for ref in read)
            if refusal(Program(tuple(inputs), (Step(step.overload, args, kwargs),), outputs)) is None:
                return read
        raise Unfit

    def grow(self, overload: OpOverload) -> None:
        """A call of an overload, with arguments by rules or from OpInfo; nothing changes where none fits."""
        before = self.program, dict(self.found), self.unread
        try:
            step = self._sampled(overload) if self.chance(35) else self._ruled(overload)
            self.add(step)
        except (Unfit, IndexError):
            self.program, self.found, self.unread = before

    def _ruled(self, overload: OpOverload) -> Step:
        import tests.fuzz.quantized_rules  # noqa: F401 - registers more
        from tests.fuzz.rules import arguments_of

        args, kwargs = arguments_of(self, overload)
        return Step(overload, args, kwargs)

    def _sampled(self, overload: OpOverload) -> Step:
        dtype = self.one_of(DTYPES)
        found = samples(overload, dtype)
        if not found:
            return self._ruled(overload)
        sample = self.one_of(found)
        constant = self.chance(30)
        inputs: list[Ref] = []

        def place(tensor: Tensor) -> Ref:
            shape = tuple(tensor.shape)
            there = [ref for ref in self.values((tensor.dtype,)) if tuple(self.value(ref).shape) == shape]
            if there and tensor.dtype.is_floating_point and not (constant and inputs):
                inputs.append(self.one_of(there))
            else:
                inputs.append(self.add_input(Input(tensor, shape, constant=constant and bool(inputs))))
            return inputs[-1]

        args, kwargs = tree_map_only(Tensor, place, tuple(sample))
        return Step(overload, args, kwargs)

    def finish(self) -> Program:
        """The program, with the results that nothing reads as its outputs, and perhaps others."""
        read = set().union(*map(read_by, self.program.steps)) if self.program.steps else set()
        every = [ref for name, made in self.found.items() if name.startswith("y") for ref in tensors(name, made)]
        every = [ref for ref in every if ref not in self.unread]
        outputs = [ref for ref in every if ref.name not in read or self.chance(10)]
        named = {size for item in self.program.inputs for size in item.sizes}
        symbols = {name: size for name, size in self.program.symbols.items() if name in named}
        others = [{name: self.one_of(RUN_AT) for name in symbols} for _ in range(3 if symbols else 0)]
        return replace(self.program, outputs=tuple(outputs), symbols=symbols, others=tuple(others))


def refusal(program: Program) -> str | None:
    """Why a program of one call would not be delegated, or None: also where asking fails, as the checks will then."""
    traced = program.graph().program
    call = next(node for node in traced.graph.nodes if node.op == "call_function")
    try:
        return Lowering(traced).refusal(call)
    except Exception:
        return None


OVERLOADS = sorted(LOWERINGS, key=str)
MOVERS = [overload for overload in OVERLOADS if MOVES.fullmatch(overload._schema.name.split("::")[1])]


@st.composite
def programs(draw: Any, first: OpOverload | None = None) -> Program:
    """Programs of a few calls, every third or so one that moves elements; or of one call of an overload."""
    grower = Grower(draw)
    if first is not None:
        grower.grow(first)
        return grower.finish()
    for _ in range(grower.between(1, MAX_STEPS)):
        grower.grow(grower.one_of(MOVERS if grower.chance(30) else OVERLOADS))
    return grower.finish()
