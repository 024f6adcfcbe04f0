"""The data types of operands: names, numpy types, 4-bit packing, and how a number becomes one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

DataType = Literal[
    "float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8", "int4", "uint4"
]  # fmt: skip
DATA_TYPES: tuple[str, ...] = get_args(DataType)

FLOATS = frozenset({"float32", "float16"})
FOUR_BITS = frozenset({"int4", "uint4"})
INTEGERS = frozenset(DATA_TYPES) - FLOATS

_BITS = {name: int(name.lstrip("uintfloa")) for name in DATA_TYPES}
_RANGES = {
    name: (0, 2 ** _BITS[name] - 1) if name[0] == "u" else (-(2 ** (_BITS[name] - 1)), 2 ** (_BITS[name] - 1) - 1)
    for name in INTEGERS
}


def integer_range(data_type: str) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    return _RANGES[data_type]


def numpy_type(data_type: str) -> np.dtype[Any]:
    """The numpy type whose arrays hold such values: 4-bit ones are held in 8 bits each."""
    return np.dtype({"int4": "int8", "uint4": "uint8"}.get(data_type, data_type))


def element_count(shape: Sequence[int]) -> int:
    """Number of elements."""
    return math.prod(shape)


def byte_length(data_type: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor as buffers and files have it: two 4-bit values a byte."""
    return (element_count(shape) * _BITS[data_type] + 7) // 8


def pack(data_type: str, values: np.ndarray[Any, Any]) -> bytes:
    """An array's values as bytes: little-endian, of two 4-bit values the first in the low half."""
    if data_type not in FOUR_BITS:
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    nibbles = values.astype(np.uint8).ravel() & 15
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    return bytes(nibbles[0::2] | nibbles[1::2] << 4)


def unpack(data_type: str, data: Any, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """The array that :func:`pack` made bytes of, without a copy where the type has whole bytes."""
    if data_type not in FOUR_BITS:
        return np.frombuffer(data, numpy_type(data_type).newbyteorder("<")).reshape(shape)
    packed = np.frombuffer(data, np.uint8)
    nibbles = np.stack([packed & 15, packed >> 4], -1).ravel()[: element_count(shape)]
    if data_type == "int4":
        nibbles = (nibbles ^ 8).astype(np.int8) - np.int8(8)
    return nibbles.reshape(shape)


def cast_number(number: float, data_type: str) -> int | float:
    """The specification's cast of a number: floats are rounded or infinite, integers are clamped and rounded."""
    if data_type in FLOATS:
        try:
            with np.errstate(over="ignore"):
                return float(np.dtype(data_type).type(number))
        except OverflowError:  # an integer that no float holds
            return math.inf if number > 0 else -math.inf
    if math.isnan(number):
        return 0
    low, high = integer_range(data_type)
    return round(min(max(number, low), high))
