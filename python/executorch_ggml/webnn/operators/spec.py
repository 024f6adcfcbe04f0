"""The operator table's machinery: a row says what an operator takes, a function what shape it gives.

A row's parameters are its arguments in order. Those with a default are keyword-only options. From the rows come the
builder's methods, the checks of calls and of graph files, ``op_support_limits()`` and the documentation.
"""

from __future__ import annotations

import operator as op
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

from ..data_types import DATA_TYPES, FLOATS, FOUR_BITS, cast_number, element_count
from .shapes import MAX_RANK, Shape, is_dimension

UINT32_MAX = 2**32 - 1
REQUIRED: Final = object()
"""The default of what has none."""

ANY = frozenset(DATA_TYPES) - FOUR_BITS
ANY_WITH_4_BITS = frozenset(DATA_TYPES)
SIGNED = frozenset({"float32", "float16", "int64", "int32", "int8"})
WIDE = frozenset({"float32", "float16", "int32", "uint32", "int64", "uint64"})
INDEX = frozenset({"int32", "uint32", "int64"})
UINT8 = frozenset({"uint8"})


class Descriptor(Protocol):
    """What is known of an operand while a graph is built."""

    @property
    def data_type(self) -> str:
        """Its data type."""

    @property
    def shape(self) -> Shape:
        """Its dimensions."""


class MismatchError(Exception):
    """What an argument should have been."""


@dataclass(frozen=True)
class Same:
    """The data type or rank of another of the operator's tensors."""

    tensor: str


@dataclass(frozen=True)
class Chosen:
    """The data type that an option names."""

    option: str


@dataclass(frozen=True)
class Tensor:
    """An operand, or a result: its data types and ranks."""

    name: str
    types: frozenset[str] | Same | Chosen
    ranks: tuple[int, int] | Same = (0, MAX_RANK)
    optional: bool = False
    many: bool = False  # a list of operands of one type and rank

    @property
    def annotation(self) -> str:
        """Its Python type."""
        return "Sequence[MLOperand]" if self.many else "MLOperand"


@dataclass(frozen=True)
class Option:
    """An argument that is no operand. ``default`` None: it follows from the operands."""

    name: str
    default: Any = REQUIRED

    annotation = "Any"

    def check(self, value: Any, data_type: str) -> Any:
        """The value in its plain form; raises MismatchError with what it should have been.

        ``data_type`` is that of the operator's first operand.
        """
        raise NotImplementedError


def _integer(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not low <= (number := op.index(value)) <= high:
        raise ValueError
    return number


@dataclass(frozen=True)
class Integer(Option):
    """A whole number."""

    low: int = 0
    high: int = UINT32_MAX

    annotation = "int"

    def check(self, value: Any, data_type: str) -> int:
        del data_type
        try:
            return _integer(value, self.low, self.high)
        except (TypeError, ValueError):
            raise MismatchError(f"an integer from {self.low} to {self.high}") from None


@dataclass(frozen=True)
class Integers(Option):
    """A list of whole numbers."""

    length: int | None = None
    low: int = 0

    annotation = "Sequence[int]"

    def check(self, value: Any, data_type: str) -> tuple[int, ...]:
        del data_type
        try:
            if isinstance(value, (str, bytes, Mapping)):
                raise TypeError
            numbers = tuple(_integer(item, self.low, UINT32_MAX) for item in value)
        except (TypeError, ValueError):
            numbers = None
        if numbers is None or (self.length is not None and len(numbers) != self.length):
            count = "a list of" if self.length is None else f"{self.length}"
            raise MismatchError(f"{count} integers from {self.low} to {UINT32_MAX}")
        return numbers


@dataclass(frozen=True)
class CountOrSizes(Integers):
    """A number, or a list of numbers."""

    annotation = "int | Sequence[int]"

    def check(self, value: Any, data_type: str) -> Any:
        if hasattr(value, "__index__") and not getattr(value, "shape", None):
            try:
                return _integer(value, self.low, UINT32_MAX)
            except (TypeError, ValueError):
                raise MismatchError(f"an integer from {self.low} to {UINT32_MAX}, or a list of them") from None
        return super().check(value, data_type)


def _real(value: Any) -> float:
    if isinstance(value, (bool, str, bytes)) or bool(getattr(value, "shape", None)):
        raise TypeError
    return float(value)


@dataclass(frozen=True)
class Real(Option):
    """A finite number, rounded to the first operand's data type."""

    annotation = "float"

    def check(self, value: Any, data_type: str) -> float:
        try:
            number = _real(value)
            if not abs(number) <= 1.7976931348623157e308:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            raise MismatchError("a finite number") from None
        return float(cast_number(number, data_type)) if data_type in FLOATS else number


@dataclass(frozen=True)
class Reals(Option):
    """A list of positive numbers."""

    length: int | None = None

    annotation = "Sequence[float]"

    def check(self, value: Any, data_type: str) -> tuple[float, ...]:
        del data_type
        try:
            numbers = tuple(float(cast_number(_real(item), "float32")) for item in value)
        except (TypeError, ValueError, OverflowError):
            numbers = ()
        if len(numbers) != (self.length or len(numbers)) or not numbers or not all(0 < n < 2**128 for n in numbers):
            raise MismatchError(f"{self.length} positive numbers")
        return numbers


@dataclass(frozen=True)
class Number(Option):
    """A number of the first operand's data type, infinities included: integers keep all their digits."""

    annotation = "float"

    def check(self, value: Any, data_type: str) -> int | float:
        try:
            exact = op.index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else _real(value)
        except (TypeError, ValueError, OverflowError):
            raise MismatchError("a number") from None
        return cast_number(exact, data_type)


@dataclass(frozen=True)
class Flag(Option):
    """True or False; 1 and 0 will do."""

    annotation = "bool"

    def check(self, value: Any, data_type: str) -> bool:
        del data_type
        if type(value).__name__ not in ("bool", "bool_", "int") or value not in (0, 1):
            raise MismatchError("True or False")
        return bool(value)


@dataclass(frozen=True)
class Choice(Option):
    """One of some words."""

    words: tuple[str, ...] = ()

    @property
    def annotation(self) -> str:  # type: ignore[override] # of others a constant
        """A Literal."""
        return f"Literal[{', '.join(repr(word) for word in self.words)}]".replace("'", '"')

    def check(self, value: Any, data_type: str) -> str:
        del data_type
        if not isinstance(value, str) or value not in self.words:
            raise MismatchError(f"one of {', '.join(map(repr, self.words))}")
        return value


@dataclass(frozen=True)
class Choices(Choice):
    """A list of some words."""

    length: int = 0

    @property
    def annotation(self) -> str:  # type: ignore[override] # of others a constant
        """A sequence of a Literal."""
        return f"Sequence[{super().annotation}]"

    def check(self, value: Any, data_type: str) -> Any:
        del data_type
        words = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
        if len(words) != self.length or not all(isinstance(word, str) and word in self.words for word in words):
            raise MismatchError(f"{self.length} of {', '.join(map(repr, self.words))}")
        return words


@dataclass(frozen=True)
class TypeName(Option):
    """A data type."""

    types: frozenset[str] = ANY

    annotation = "DataType"

    def check(self, value: Any, data_type: str) -> str:
        del data_type
        if not isinstance(value, str) or value not in self.types:
            raise MismatchError(f"one of {', '.join(repr(name) for name in DATA_TYPES if name in self.types)}")
        return value


Operands = Mapping[str, "Descriptor | list[Descriptor] | tuple[Descriptor, ...]"]


@dataclass
class Call:
    """A call being checked: operands by parameter name (those given), options in plain form."""

    operator: OperatorSpec
    operands: Operands
    options: dict[str, Any]
    label: str = ""

    def __getitem__(self, option: str) -> Any:
        return self.options[option]

    def shape(self, tensor: str) -> Shape:
        """An operand's shape."""
        operand = self.operands[tensor]
        assert not isinstance(operand, (list, tuple))
        return operand.shape

    def type(self, tensor: str) -> str:
        """An operand's data type."""
        operand = self.operands[tensor]
        return (operand[0] if isinstance(operand, (list, tuple)) else operand).data_type

    def has(self, tensor: str) -> bool:
        """Whether an optional operand is given."""
        return tensor in self.operands

    def fail(self, argument: str, expected: str) -> NoReturn:
        """Raise TypeError for an argument: the operator, the argument, what it is, and what it should be."""
        given = self.operands.get(argument, self.options.get(argument))
        raise TypeError(fault(self.operator.name, argument, described(given), expected, self.label))

    def expect_shape(self, tensor: str, shape: Shape) -> None:
        """Demand a shape of an operand, where it is given."""
        if tensor in self.operands and self.shape(tensor) != shape:
            self.fail(tensor, f"shape {list(shape)}")

    def axis(self, option: str, rank: int) -> int:
        """An option that names a dimension."""
        axis: int = self.options[option]
        if axis >= rank:
            self.fail(option, f"below the rank, {rank}")
        return axis

    def axes(self, option: str, rank: int) -> tuple[int, ...]:
        """An option that names different dimensions."""
        axes: tuple[int, ...] = self.options[option]
        if len(set(axes)) != len(axes) or any(axis >= rank for axis in axes):
            self.fail(option, f"different integers below the rank, {rank}")
        return axes


def fault(operator: str, argument: str, received: str, expected: str, label: str = "") -> str:
    """The message of a wrong argument."""
    labelled = f" {label!a}" if label else ""
    return f"{operator}{labelled}: {argument} is {received}, expected {expected}"


def described(value: Any) -> str:
    """A value, or an operand, in a message."""
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "data_type"):
        return "[" + ", ".join(described(item) for item in value) + "]"
    if hasattr(value, "data_type"):
        return f"{value.data_type}{list(value.shape)}"
    try:
        text = repr(list(value) if isinstance(value, tuple) else value)
    except ValueError:  # Python writes no integers of thousands of digits
        text = f"a {type(value).__name__} too long to write"
    return text if len(text) <= 100 else f"{text[:100]}..."


Infer = Callable[[Call], "Shape | list[Shape]"]


@dataclass(frozen=True)
class OperatorSpec:
    """A row: an operator of the specification. ``infer`` gives the results' shapes and may complete the options."""

    spec_name: str
    parameters: tuple[Tensor | Option, ...]
    outputs: tuple[Tensor, ...]
    infer: Infer
    family: str
    returns_list: bool = False
    name: str = field(default="")
    tensors: tuple[Tensor, ...] = ()
    options: tuple[Option, ...] = ()
    option_by_name: Mapping[str, Option] = field(default_factory=dict)

    @property
    def doc(self) -> str:
        """What it does."""
        return (self.infer.__doc__ or "").strip()

    def check(
        self, operands: Operands, options: Mapping[str, Any], label: str = ""
    ) -> tuple[list[Any], dict[str, Any]]:
        """Check a call; the results' types and shapes, and all the options in plain form. Raises TypeError."""
        call = Call(self, operands, {}, label)
        for tensor in self.tensors:
            if tensor.name in operands:
                self._check_tensor(call, tensor)
            elif not tensor.optional:
                raise TypeError(f"{self.name}: {tensor.name} is missing")
        self._check_options(call, options)
        made = self.infer(call)
        shapes = [made] if isinstance(made, tuple) else made
        results = [(self._output_type(call, i), shape) for i, shape in enumerate(shapes)]
        for _, shape in results:
            if len(shape) > MAX_RANK or not all(map(is_dimension, shape)) or not is_dimension(element_count(shape)):
                wanted = f"at most {MAX_RANK} dimensions from 1 to 2**31 - 1, and elements to as many"
                raise TypeError(fault(self.name, "the result's shape", described(shape), wanted, label))
        return results, call.options

    def _check_options(self, call: Call, options: Mapping[str, Any]) -> None:
        first = call.type(self.tensors[0].name)
        for option in self.options:
            value = options.get(option.name)
            if value is None:
                value = option.default
            if value is REQUIRED:
                raise TypeError(f"{self.name}: {option.name} is missing")
            try:
                call.options[option.name] = None if value is None else option.check(value, first)
            except MismatchError as mismatch:
                raise TypeError(fault(self.name, option.name, described(value), str(mismatch), call.label)) from None

    def _check_tensor(self, call: Call, tensor: Tensor) -> None:
        operand = call.operands[tensor.name]
        if isinstance(operand, (list, tuple)) != tensor.many:
            raise TypeError(f"{self.name}: {tensor.name} is {'not ' * tensor.many}a list")
        if isinstance(operand, (list, tuple)) and not operand:
            raise TypeError(fault(self.name, tensor.name, "[]", "a list of operands", call.label))
        for item in operand if isinstance(operand, (list, tuple)) else (operand,):
            types, ranks = tensor.types, tensor.ranks
            if isinstance(types, Same):
                types = frozenset({call.type(types.tensor)})
            if not isinstance(types, Chosen) and item.data_type not in types:
                wanted = " or ".join(name for name in DATA_TYPES if name in types)
                raise TypeError(fault(self.name, tensor.name, described(item), f"data type {wanted}", call.label))
            if isinstance(ranks, Same):
                ranks = (len(call.shape(ranks.tensor)),) * 2
            if not ranks[0] <= len(item.shape) <= ranks[1]:
                wanted = f"rank {ranks[0]}" if ranks[0] == ranks[1] else f"a rank from {ranks[0]} to {ranks[1]}"
                raise TypeError(fault(self.name, tensor.name, described(item), wanted, call.label))

    def _output_type(self, call: Call, index: int) -> str:
        types = self.outputs[min(index, len(self.outputs) - 1)].types
        if isinstance(types, Same):
            return call.type(types.tensor)
        if isinstance(types, Chosen):
            name: str = call[types.option]
            return name
        (name,) = types
        return name


OPERATORS: dict[str, OperatorSpec] = {}
"""The table, by Python name."""


def snake_case(name: str) -> str:
    """A name of the specification as Python has it."""
    return "is_nan" if name == "isNaN" else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def camel_case(name: str) -> str:
    """An option's or operand's Python name as the specification has it."""
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def operator(
    spec_name: str, *parameters: Tensor | Option, outputs: Tensor | Sequence[Tensor], returns_list: bool = False
) -> Callable[[Infer], Infer]:
    """Add a row to the table: the decorated function gives the shapes of its results."""

    def add(infer: Infer) -> Infer:
        name = snake_case(spec_name)
        if name in OPERATORS:
            raise ValueError(f"operator {name} is in the table already")
        options = tuple(p for p in parameters if isinstance(p, Option))
        OPERATORS[name] = OperatorSpec(
            spec_name,
            parameters,
            (outputs,) if isinstance(outputs, Tensor) else tuple(outputs),
            infer,
            infer.__module__.rpartition(".")[2],
            returns_list,
            name,
            tuple(p for p in parameters if isinstance(p, Tensor)),
            options,
            {option.name: option for option in options},
        )
        return infer

    return add
