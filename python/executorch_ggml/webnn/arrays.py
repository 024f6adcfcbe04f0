"""What callers give as a tensor's contents, as an array of just that tensor's type and shape."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from .data_types import FOUR_BITS, byte_length, element_count, numpy_type, unpack
from .graph_info import Array, Operand
from .operators.spec import described, fault

_HELD_BY = {"int4": ("int8", "int4", -8, 7), "uint4": ("uint8", "uint4", 0, 15)}


def array_of(caller: str, argument: str, value: Any, operand: Operand, *, copy: bool = False) -> Array:
    """``value`` as a dense array; raises TypeError where its type or shape is another.

    It may be an array, something that numpy makes one of, or bytes. It is copied where ``copy`` asks for what can't
    change any more, or it is not dense.
    """
    dtype = numpy_type(operand.data_type)
    if isinstance(value, (bytes, bytearray, memoryview)):
        if isinstance(value, memoryview) and not value.c_contiguous:
            raise TypeError(fault(caller, argument, "a memoryview with strides", "one of dense memory"))
        value = np.frombuffer(value, np.uint8)
        raw = True
    else:
        raw = False
        if not isinstance(value, np.ndarray):
            value = _converted(caller, argument, value, operand)
    if raw or _is_raw(value, operand):
        if value.nbytes != byte_length(operand.data_type, operand.shape):
            given = f"{value.nbytes} bytes"
            wanted = f"{byte_length(operand.data_type, operand.shape)}, for {operand}"
            raise TypeError(fault(caller, argument, given, wanted))
        value = unpack(operand.data_type, np.ascontiguousarray(value).data, operand.shape)
    elif operand.data_type in FOUR_BITS:
        value = _four_bits(caller, argument, value, operand)
    if value.dtype != dtype or value.shape != operand.shape:
        raise TypeError(fault(caller, argument, f"{value.dtype.name}{list(value.shape)}", str(operand)))
    dense: Array = np.ascontiguousarray(value).reshape(operand.shape)
    if copy:
        dense = dense if _is_immutable(dense) else dense.copy()
        dense.flags.writeable = False
    return dense


def _converted(caller: str, argument: str, value: Any, operand: Operand) -> Array:
    """What is no array as one: another's array as it is, numbers in the operand's type if it has them."""
    dtype = numpy_type(operand.data_type)
    wanted = f"an array or numbers of {operand}"
    if value is None or isinstance(value, (str, Mapping, Set)):
        raise TypeError(fault(caller, argument, described(value), wanted))
    try:
        if hasattr(value, "__array__"):
            return np.asarray(value)
        plain = np.asarray(value)
        if plain.dtype.kind not in "biuf" or (plain.dtype.kind == "f" and dtype.kind != "f" and plain.size):
            raise TypeError(fault(caller, argument, described(value), wanted))
        return np.asarray(value, dtype)
    except (ValueError, OverflowError) as error:  # lists of different lengths, integers that the type lacks
        raise TypeError(f"{fault(caller, argument, described(value), wanted)}: {error}") from None


def _is_immutable(array: Array) -> bool:
    """Whether nobody can write to an array's memory: it is bytes, or a file that was mapped for reading.

    A read-only array may show one that is not, and who owns an array may make it writable again.
    """
    owner: Any = array
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, np.ndarray) and owner.flags.writeable:
            return False
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return isinstance(owner, bytes) or (isinstance(owner, mmap.mmap) and memoryview(owner).readonly)


def _is_raw(value: Array, operand: Operand) -> bool:
    """Whether an array is of bytes that stand for another type's values."""
    return (
        value.dtype == np.uint8
        and operand.data_type != "uint8"
        and value.ndim <= 1
        and value.shape != operand.shape
        and value.size == byte_length(operand.data_type, operand.shape)
        and (operand.data_type in FOUR_BITS or value.size != element_count(operand.shape))
    )


def _four_bits(caller: str, argument: str, value: Array, operand: Operand) -> Array:
    held, own, low, high = _HELD_BY[operand.data_type]
    if value.dtype.name not in (held, own):
        raise TypeError(fault(caller, argument, f"{value.dtype.name}{list(value.shape)}", f"{held} or packed uint8"))
    value = value.astype(held)
    if value.size and not (low <= value.min() and value.max() <= high):
        raise TypeError(fault(caller, argument, f"values from {value.min()} to {value.max()}", f"{low} to {high}"))
    return value
