"""The language of the op table's columns: what a row expects of a call, what it gives, and how much work it is.

A formula is an expression, or a function whose body is one ``return``, in a part of Python that ``ir/cpp.py``
translates to C++: numbers, comparisons, ``and``/``or``/``not``, conditional expressions, ``all`` and ``any`` over
``range``, ``zip`` or dims, and calls of other formulas. Python runs it as it stands, and the native runtime the
translation, with sums and products that stop at the largest number. What is said once is checked twice: where a graph
is built, and with the sizes at hand.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from .dtypes import DType

Dim = Any  # int | sympy.Expr; kept loose so that the table imports without sympy
Dims = tuple[Dim, Dim, Dim, Dim]


class Operand(Protocol):
    """What a formula may know of an input: a :class:`~.graph.Value` is one."""

    @property
    def dtype(self) -> DType:
        """The element type."""

    @property
    def ne(self) -> Dims:
        """The dims in ggml order."""


class Unknown:
    """A size that depends on the program's inputs: all that is asked of it may hold, and all computed of it too."""

    def __repr__(self) -> str:
        return "unknown"

    __hash__ = None  # type: ignore[assignment] # it may equal anything

    def _may(self, *_: Any) -> bool:
        return True

    def _unknown(self, *_: Any) -> Unknown:
        return self

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _may
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __abs__ = __neg__ = _unknown
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _unknown


UNKNOWN = Unknown()


class _Seen(NamedTuple):
    """A value whose symbolic dims are unknown."""

    dtype: DType
    ne: Dims
    producer: Any


def seen(value: Any) -> Any:
    """An operand, dims or a dim as formulas see it: with the benefit of the doubt for what is symbolic."""
    if isinstance(value, tuple):
        return tuple(map(seen, value))
    if hasattr(value, "ne"):
        concrete = all(type(n) is int for n in value.ne)
        return value if concrete else _Seen(value.dtype, seen(value.ne), getattr(value, "producer", None))
    return UNKNOWN if hasattr(value, "free_symbols") else value


@dataclass(frozen=True)
class Formula:
    """A function of the language, by its name. ``primitive`` ones are written in ``native/runtime/formulas.h`` too."""

    function: Callable[..., Any]
    primitive: bool = False
    fact: bool = False  # a primitive that needs the node builder: a method of it in C++

    @property
    def name(self) -> str:
        """What it is called in formulas, and in C++."""
        return self.function.__name__

    @property
    def expected(self) -> str:
        """The docstring of a check: what is expected, its parameters in backticks."""
        paragraph = inspect.cleandoc(self.function.__doc__ or "").partition("\n\n")[0]
        return " ".join(paragraph.removesuffix(".").split())

    @cached_property
    def definition(self) -> ast.FunctionDef:
        """Its source."""
        module = ast.parse(textwrap.dedent(inspect.getsource(self.function)))
        assert isinstance(module.body[0], ast.FunctionDef)
        return module.body[0]


FORMULAS: dict[str, Formula] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def formula(function: _Function) -> _Function:
    """Declare a function of the language. A check's docstring says what it expects of its parameters."""
    return _declared(function, Formula(function))


def primitive(function: _Function) -> _Function:
    """Declare a function of the language that is written in C++ by hand too."""
    return _declared(function, Formula(function, primitive=True))


def fact(function: _Function) -> _Function:
    """Declare what is known of an operand besides its type and dims: in C++ a method of the node builder."""
    return _declared(function, Formula(function, primitive=True, fact=True))


def _declared(function: _Function, entry: Formula) -> _Function:
    if entry.name in FORMULAS:
        raise ValueError(f"formula {entry.name} is declared twice")
    FORMULAS[entry.name] = entry
    return function


@dataclass(frozen=True, eq=False)
class Expression:
    """One column of a row: an expression over the row's inputs and attributes."""

    text: str
    names: tuple[str, ...]  # that it may use
    module: Mapping[str, Any]  # where enums and constants are found

    @cached_property
    def tree(self) -> ast.expr:
        """Its source."""
        return ast.parse(self.text, mode="eval").body

    @cached_property
    def used(self) -> list[str]:
        """The inputs and attributes in it, in order."""
        found = [node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and node.id in self.names]
        return list(dict.fromkeys(found))

    @cached_property
    def scope(self) -> dict[str, Any]:
        """What the other names in it mean: formulas, element types, and what the row's module has."""
        meanings = {**self.module, "DType": DType} | {name: entry.function for name, entry in FORMULAS.items()}
        found = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)} - set(self.names)
        return {name: meanings[name] for name in found if name in meanings}

    @cached_property
    def _function(self) -> Callable[..., Any]:
        source = f"lambda {', '.join(self.names)}: ({self.text})"
        return cast("Callable[..., Any]", eval(source, self.scope))

    def __call__(self, operands: Mapping[str, Any]) -> Any:
        """Its value for these inputs and attributes."""
        return self._function(*[operands.get(name) for name in self.names])


@dataclass(frozen=True, eq=False)
class Check(Expression):
    """A call of a formula whose docstring says what it expects."""

    def __post_init__(self) -> None:
        if not isinstance(self.tree, ast.Call) or not isinstance(self.tree.func, ast.Name):
            raise TypeError(f"a check is a call of a formula, not {self.text!r}")
        documented = self.formula.function.__doc__ is not None  # `python -OO` has no docstrings
        if documented and not self.formula.expected.startswith("Expects "):
            raise TypeError(f"check {self.formula.name}: its docstring must say what it 'Expects'")

    @cached_property
    def formula(self) -> Formula:
        """The formula that it calls."""
        return FORMULAS[cast("ast.Name", cast("ast.Call", self.tree).func).id]

    @cached_property
    def expected(self) -> str:
        """What it expects, in the words of the row: its inputs and attributes for the formula's parameters."""
        text = self.formula.expected.replace("Expects ", "expected ", 1) or f"expected {self.text} to hold"
        parameters = inspect.signature(self.formula.function).parameters
        for name, argument in zip(parameters, cast("ast.Call", self.tree).args, strict=True):
            text = text.replace(f"`{name}`", re.sub(r"\.ne\b(?!\[)", "", ast.unparse(argument)))
        return text

    def holds(self, operands: Mapping[str, Any]) -> bool:
        """Whether it holds for these inputs and attributes, symbolic dims being given the benefit of the doubt."""
        return bool(self({name: seen(operands[name]) for name in self.used}))


def holds(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a formula holds, symbolic dims being given the benefit of the doubt."""
    return bool(function(*map(seen, arguments)))


# ------------------------------------------------------------------------------------------------ the language's own


@primitive
def known(n: Dim) -> bool:
    """Whether a size is a number: in the runtime all are."""
    return isinstance(n, int)


@primitive
def is_one(n: Dim) -> bool:
    """Whether a size is known to be 1."""
    return isinstance(n, int) and n == 1


@primitive
def divides(a: Dim, b: Dim) -> bool:
    """Whether ``b`` is a multiple of ``a``, of 0 only 0."""
    return b == 0 if isinstance(a, int) and a == 0 else b % a == 0


@primitive
def count(ne: Dims) -> Dim:
    """Number of elements."""
    return math.prod(ne)


@primitive
def ceil_div(a: Dim, b: Dim) -> Dim:
    """``a / b`` rounded up, ``b`` being positive."""
    return -(-a // b)


@primitive
def dims(sizes: Iterable[Dim]) -> Dims:
    """Four dims, each of an expression over ``range(4)``."""
    a, b, c, d = sizes
    return a, b, c, d


@primitive
def broadcast_dims(*shapes: Dims) -> Dims:
    """The common shape: per dim, the one size that is not 1."""
    ne = []
    for sizes in zip(*shapes, strict=True):
        wide = [n for n in sizes if not is_one(n)]
        ne.append(wide[0] if wide else 1)
    return ne[0], ne[1], ne[2], ne[3]


@primitive
def place_of(n: int, numbers: Sequence[int]) -> int:
    """Where a number is among some."""
    return numbers.index(n)


# ---------------------------------------------------------------------------------------------- what many rows expect


@formula
def same_type(a: Operand, b: Operand) -> bool:
    """Expects `a` and `b` to have one element type."""
    return a.dtype == b.dtype


@formula
def is_f32(a: Operand) -> bool:
    """Expects `a` to be of float32."""
    return a.dtype == DType.F32


@formula
def is_float(dtype: DType) -> bool:
    """Expects `dtype` to be float32, float16 or bfloat16."""
    return dtype == DType.F32 or dtype == DType.F16 or dtype == DType.BF16  # noqa: PLR1714 - for C++


@formula
def same_dims(a: Dims, b: Dims) -> bool:
    """Expects `a` and `b` to have one shape."""
    return all(m == n for m, n in zip(a, b))  # noqa: B905 - the language's zip is over dims


@formula
def broadcasts_to(a: Dims, b: Dims) -> bool:
    """Expects each dim of `a` to be that of `b` or 1."""
    return all(m == 1 or m == n for m, n in zip(a, b))  # noqa: B905, PLR1714 - one at a time


@formula
def is_axis(axis: int) -> bool:
    """Expects `axis` to be the number of a dim, 0 to 3."""
    return 0 <= axis < 4


@formula
def not_negative(number: float) -> bool:
    """Expects `number` to be 0 or more."""
    return number >= 0
