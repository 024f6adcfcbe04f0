"""The op table's machinery: one decorated function declares an op, everything else is derived from it.

A row is a torch reference function. Its positional parameters are the node's inputs, its keyword-only parameters
are the typed attributes, and the decorator adds the wire number, what each input may be, the result rule and how the
native runtime makes the call. The schema, the serializer, the printer, the interpreter, the C++ decoder and
dispatcher and the docs are all generated from these rows.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .dtypes import DType
from .formulas import Check, Dim, Dims, Expression, Operand, seen

IR_VERSION = 6  # of the wire format

__all__ = [
    "IR_VERSION",
    "OPS",
    "AttrSpec",
    "Dim",
    "Dims",
    "Empty",
    "InputSpec",
    "Layout",
    "Moves",
    "OpSpec",
    "Operand",
    "Registry",
    "StructSpec",
    "Writes",
    "op",
]


class Layout(enum.Enum):
    """What an op demands of an input's strides."""

    ANY = "any"
    ROWS = "rows"  # elements of dim 0 are adjacent
    CONT = "cont"  # dense, in order


class Moves(enum.Enum):
    """Whether an op's result has the elements of its first input, and nothing is computed."""

    NO = "no"
    VIEW = "view"  # where they lie
    COPY = "copy"


class Writes(enum.Enum):
    """Whether an op changes a state, and is there though nothing may read its result."""

    NO = "no"
    WHOLE = "whole"  # all of it, after everything that reads it has run
    ROWS = "rows"  # some of it, in place


class Empty(enum.Enum):
    """What an op gives where an input has no elements and its result has some."""

    ZERO = "zero"  # a sum over nothing
    NAN = "nan"  # a mean over nothing
    COMPUTED = "computed"  # its kernel says


@dataclass(frozen=True)
class InputSpec:
    """One input of an op: its allowed element types and layout."""

    name: str
    dtypes: frozenset[DType]
    layout: Layout
    optional: bool = False


@dataclass(frozen=True)
class StructSpec:
    """The fields of an attribute that is a frozen dataclass; each may be an i64, f32, bool, enum or struct."""

    cls: type[Any]
    fields: tuple[AttrSpec, ...]


@dataclass(frozen=True)
class AttrSpec:
    """One typed attribute, or a field of one: ``kind`` is f32, i64, bool, dim, dims, ints or a class's name."""

    name: str
    kind: str
    enum: type[enum.IntEnum] | None = None
    struct: StructSpec | None = None

    def parts(self, value: Any) -> Iterator[tuple[AttrSpec, Any]]:
        """A struct's fields with their values."""
        assert self.struct is not None
        return ((field, getattr(value, field.name)) for field in self.struct.fields)


@dataclass(frozen=True)
class OpSpec:
    """One row of the op table."""

    number: int
    name: str
    inputs: tuple[InputSpec, ...]
    attrs: tuple[AttrSpec, ...]
    result: Expression
    checks: tuple[Check, ...]
    work: Expression | None
    empty: Empty
    moves: Moves
    writes: Writes
    bound: str | None
    reads_packed: bool
    call: str | None
    kernel: str | None
    when: str | None
    stock: Expression | None
    along: tuple[str | int, ...] | None
    families: Mapping[str, Expression]
    reference: Callable[..., Any]
    doc: str

    @cached_property
    def attr_names(self) -> frozenset[str]:
        """The attributes that a call has."""
        return frozenset(attr.name for attr in self.attrs)

    def result_of(self, operands: Mapping[str, Any]) -> tuple[DType, Dims]:
        """The result's dtype and dims, for these inputs and attributes."""
        given = self.result(operands)
        return (given.dtype, given.ne) if hasattr(given, "ne") else (DType(given[0]), given[1])

    def has_stock_form(self, inputs: Sequence[Operand | None], attrs: Mapping[str, Any]) -> bool:
        """Whether ggml's own ops compute a call for these inputs and attributes, on whatever device."""
        without_ggml = self.call in ("custom", "replaced") or (self.call or "").startswith("self.")
        if without_ggml and self.moves is not Moves.VIEW:
            return False
        return self.stock is None or bool(self.stock(self.operands([seen(value) for value in inputs], attrs)))

    def has_form(self, inputs: Sequence[Operand | None], attrs: Mapping[str, Any]) -> bool:
        """Whether a kernel or ggml computes a call; targets replace all others."""
        if self.call == "replaced":
            return False
        return self.kernel is not None or self.stock is None or self.has_stock_form(inputs, attrs)

    def operands(self, inputs: Sequence[Operand | None], attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs and attributes by name, as the row's formulas take them."""
        return {wanted.name: value for wanted, value in zip(self.inputs, inputs, strict=True)} | dict(attrs)

    def families_of(self, inputs: Sequence[Operand | None], attrs: Mapping[str, Any]) -> set[str]:
        """The families of kernels that may compute a call, symbolic dims being given the benefit of the doubt."""
        operands = self.operands([seen(value) for value in inputs], attrs)
        return {name for name, condition in self.families.items() if condition(operands)}

    @property
    def may_run_in_ggml(self) -> bool:
        """Whether ggml's kernels compute some calls on the CPU, where this runtime's own take what they can."""
        without_ggml = self.call in ("custom", "replaced") or (self.call or "").startswith("self.")
        own = without_ggml or (self.kernel is not None and self.when is None)
        return not own and self.moves is not Moves.VIEW

    @cached_property
    def class_name(self) -> str:
        """Name of the schema table, e.g. ``soft_max_ext`` -> ``SoftMaxExt``."""
        return "".join(part.capitalize() for part in self.name.split("_"))


_KINDS = {"float": "f32", "int": "i64", "bool": "bool", "Dim": "dim", "Dims": "dims", "tuple[int, ...]": "ints"}
_TYPE_SETS: dict[str, frozenset[DType]] = {
    "any": frozenset(dtype for dtype in DType if not dtype.is_quantized),
    "quantized": frozenset(dtype for dtype in DType if dtype.is_quantized),
    "float": frozenset({DType.F32, DType.F16, DType.BF16}),
    "number": frozenset({DType.F32, DType.I32, DType.I64}),
    "index": frozenset({DType.I32, DType.I64}),
}


class Registry(Mapping[str, OpSpec]):
    """All ops by name; refuses a name or a number that is taken."""

    def __init__(self) -> None:
        self._by_name: dict[str, OpSpec] = {}
        self._numbers: dict[int, str] = {}

    def __getitem__(self, name: str) -> OpSpec:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._by_name, key=lambda name: self._by_name[name].number))

    def __len__(self) -> int:
        return len(self._by_name)

    def by_number(self, number: int) -> OpSpec | None:
        """The op with this wire number, or None."""
        name = self._numbers.get(number)
        return None if name is None else self._by_name[name]

    def add(self, spec: OpSpec) -> None:
        """Add a row."""
        if spec.name in self._by_name or spec.number in self._numbers:
            raise ValueError(f"op {spec.name} (#{spec.number}) is declared twice")
        self._by_name[spec.name] = spec
        self._numbers[spec.number] = spec.name


OPS = Registry()


def op(
    number: int,
    *,
    inputs: Mapping[str, str],
    result: str,
    checks: tuple[str, ...] = (),
    work: str | None = None,
    empty: Empty = Empty.ZERO,
    moves: Moves = Moves.NO,
    writes: Writes = Writes.NO,
    bound: str | None = None,
    reads_packed: bool = False,
    call: str | None = None,
    kernel: str | None = None,
    when: str | None = None,
    stock: str | None = None,
    along: tuple[str | int, ...] | None = None,
    families: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the op that the decorated torch function is the reference of.

    ``inputs`` maps each input to ``"<types>[?] <layout>"``, types being names or sets joined by ``|`` and ``?`` marking
    it optional. The other columns are formulas (see ``formulas.py``) over inputs and attributes: ``result`` is the
    result's dtype and dims, or an input that it is like; ``checks`` say what a call must be; ``work`` is how many
    multiply-adds it takes where these are more than the elements it touches, ``result`` being the result. ``bound``
    names the attribute that the result's values are below, and ``reads_packed`` says that the op takes its first input
    packed too. ``call`` is the C++ expression where it is not ``ggml_<name>(ctx, <inputs>, <attributes>)``; ``kernel``
    names the custom CPU kernel that runs the node (alone where ``call`` is ``"custom"``, else instead of ggml's on the
    CPU, or only where the predicate ``when`` of ``native/runtime/kernel_choice.h`` says so). ``stock`` is a formula
    that says which calls ggml's own ops compute on other devices; the kernel, on the CPU, has the rest. Without a
    kernel targets replace the rest, and all calls where ``call`` is ``"replaced"``. ``along`` is there where an op
    computes the same in whatever order its inputs' dims are: it has the dims, or the attributes that name dims, along
    which elements depend on each other, and is empty for an elementwise op. ``families`` names kernels that compute
    some of the calls faster, with a formula that says which: a runtime for given programs has those that they use.
    """

    def declare(reference: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(reference).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        if names != list(inputs):
            raise TypeError(f"op {reference.__name__}: inputs {list(inputs)} do not match its parameters {names}")
        attrs = [_attr(p, reference) for p in parameters if p.kind is p.KEYWORD_ONLY]
        given, scope = (*names, *(attr.name for attr in attrs)), reference.__globals__
        OPS.add(
            OpSpec(
                number=number,
                name=reference.__name__,
                inputs=tuple(_input(name, text) for name, text in inputs.items()),
                attrs=tuple(attrs),
                result=Expression(result, given, scope),
                checks=tuple(Check(text, given, scope) for text in checks),
                work=None if work is None else Expression(work, (*given, "result"), scope),
                empty=empty,
                moves=moves,
                writes=writes,
                bound=bound,
                reads_packed=reads_packed,
                call=call,
                kernel=kernel,
                when=when,
                stock=None if stock is None else Expression(stock, given, scope),
                along=along,
                families={name: Expression(text, given, scope) for name, text in (families or {}).items()},
                reference=reference,
                doc=inspect.cleandoc(reference.__doc__ or ""),
            )
        )
        return reference

    return declare


def _input(name: str, text: str) -> InputSpec:
    types, _, layout = text.partition(" ")
    optional = types.endswith("?")
    dtypes: set[DType] = set()
    for part in types.removesuffix("?").split("|"):
        dtypes |= _TYPE_SETS.get(part) or {DType[part.upper()]}
    return InputSpec(name, frozenset(dtypes), Layout(layout or "any"), optional)


def _attr(parameter: inspect.Parameter, reference: Callable[..., Any]) -> AttrSpec:
    annotation = str(parameter.annotation)
    if annotation in _KINDS:
        return AttrSpec(parameter.name, _KINDS[annotation])
    return _of_class(parameter.name, reference.__globals__.get(annotation), f"op {reference.__name__}")


def _of_class(name: str, cls: Any, owner: str) -> AttrSpec:
    """An attribute or field of an enum, a struct, or inside a struct a plain number."""
    if isinstance(cls, type):
        if cls in (int, float, bool):
            return AttrSpec(name, _KINDS[cls.__name__])
        if issubclass(cls, enum.IntEnum):
            return AttrSpec(name, cls.__name__, enum=cls)
        if dataclasses.is_dataclass(cls):
            types = typing.get_type_hints(cls)
            fields = [_of_class(field.name, types[field.name], cls.__name__) for field in dataclasses.fields(cls)]
            return AttrSpec(name, cls.__name__, struct=StructSpec(cls, tuple(fields)))
    raise TypeError(f"{owner}: attribute {name} has no wire type for {cls!r}")
