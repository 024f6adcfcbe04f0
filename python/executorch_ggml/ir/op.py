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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from .dtypes import DType

IR_VERSION = 2  # of the wire format

Dim = Any  # int | sympy.Expr; kept loose so that the table imports without sympy
Dims = tuple[Dim, Dim, Dim, Dim]


class Layout(enum.Enum):
    """What an op demands of an input's strides."""

    ANY = "any"
    ROWS = "rows"  # elements of dim 0 are adjacent
    CONT = "cont"  # dense, in order


class Operand(Protocol):
    """What a result rule may know of an input: a :class:`~.graph.Value` is one."""

    @property
    def dtype(self) -> DType:
        """The element type."""

    @property
    def ne(self) -> Dims:
        """The dims in ggml order."""


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


ResultRule = Callable[..., "tuple[DType, Dims]"]


@dataclass(frozen=True)
class Rule:
    """A result rule with its counterpart in ``native/runtime/results.h``, which rows that run as kernels need.

    ``cpp`` is a C++ expression over the attributes and, as ``{0}`` and so on, the inputs.
    """

    function: ResultRule
    cpp: str

    def __call__(self, *operands: Operand | None, **attrs: Any) -> tuple[DType, Dims]:
        """The result's dtype and dims."""
        return self.function(*operands, **attrs)


@dataclass(frozen=True)
class OpSpec:
    """One row of the op table."""

    number: int
    name: str
    inputs: tuple[InputSpec, ...]
    attrs: tuple[AttrSpec, ...]
    result: ResultRule
    checks: tuple[str, ...]
    call: str | None
    kernel: str | None
    when: str | None
    reference: Callable[..., Any]
    doc: str

    @cached_property
    def attr_names(self) -> frozenset[str]:
        """The attributes that a call has."""
        return frozenset(attr.name for attr in self.attrs)

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
    result: ResultRule,
    checks: tuple[str, ...] = (),
    call: str | None = None,
    kernel: str | None = None,
    when: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the op that the decorated torch function is the reference of.

    ``inputs`` maps each input to ``"<types>[?] <layout>"``, types being names or sets joined by ``|`` and ``?`` marking
    it optional. ``checks`` are predicates of ``native/runtime/checks.h`` and ``ir/checks.py``, by the same names.
    ``call`` is the C++ expression where it is not ``ggml_<name>(ctx, <inputs>, <attributes>)``; ``kernel`` names the
    custom CPU kernel that runs the node (alone where ``call`` is ``"custom"``, else instead of ggml's on the CPU, or
    only where the predicate ``when`` of ``native/runtime/checks.h`` says so).
    """

    def declare(reference: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(reference).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        if names != list(inputs):
            raise TypeError(f"op {reference.__name__}: inputs {list(inputs)} do not match its parameters {names}")
        attrs = [_attr(p, reference) for p in parameters if p.kind is p.KEYWORD_ONLY]
        OPS.add(
            OpSpec(
                number=number,
                name=reference.__name__,
                inputs=tuple(_input(name, text) for name, text in inputs.items()),
                attrs=tuple(attrs),
                result=result,
                checks=checks,
                call=call,
                kernel=kernel,
                when=when,
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


def same_as(index: int) -> ResultRule:
    """Result rule: dtype and shape of input ``index``."""

    def rule(*operands: Operand, **_: Any) -> tuple[DType, Dims]:
        return operands[index].dtype, operands[index].ne

    return Rule(rule, f"{{{index}}}")


def shaped() -> ResultRule:
    """Result rule: dtype of input 0, shape from the attribute ``ne``."""

    def rule(*operands: Operand, ne: Dims, **_: Any) -> tuple[DType, Dims]:
        return operands[0].dtype, ne

    return Rule(rule, "with_dims({0}, ne)")
