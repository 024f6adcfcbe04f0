"""What an operator's function works with: its operands' and results' types, and MIL's constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types

from ...graph_info import Array, Operand

Var = Any
Function = Callable[..., Any]
EMITTERS: dict[str, Function] = {}
MAX_RANK = 5
_TYPES = {"float32": "fp32", "float16": "fp16", "int32": "int32", "int8": "int32", "uint8": "int32"}
_TYPES |= {"int4": "int32", "uint4": "int32"}
_BITS = {"int8": 8, "uint8": 8, "int4": 4, "uint4": 4}


class CannotError(Exception):
    """Why an operation cannot be had."""


def emits(*names: str) -> Callable[[Function], Function]:
    """Register the function of operators: it takes the emitter, and operands and options by name."""

    def add(function: Function) -> Function:
        for name in names:
            EMITTERS[name] = function
        return function

    return add


def mil_type(data_type: str) -> str:
    """The type that carries a data type."""
    if data_type not in _TYPES:
        raise CannotError(f"Core ML has no {data_type}")
    return _TYPES[data_type]


def placeholder_of(operand: Operand) -> Any:
    """An input."""
    if len(operand.shape) > MAX_RANK:
        raise CannotError(f"Core ML has tensors of at most {MAX_RANK} dimensions, not of {len(operand.shape)}")
    return mb.placeholder(shape=operand.shape or (1,), dtype=types.string_to_builtin(mil_type(operand.data_type)))


def constant_of(array: Array) -> Var:
    """A constant; integers as int32 where they fit."""
    if array.dtype.kind != "f":
        if array.size and not (int(array.min()) >= -(2**31) and int(array.max()) < 2**31):
            raise CannotError(f"Core ML has no integers beyond 32 bits, such as {array.max()}")
        array = array.astype(np.int32)
    return mb.const(val=np.array(array))


class Emitter:
    """One operation being converted."""

    def __init__(self, first: Operand, results: Sequence[Operand]) -> None:
        self.data_type = first.data_type
        self.results = results

    @property
    def shape(self) -> tuple[int, ...]:
        """The first result's shape."""
        return self.results[0].shape

    @property
    def is_float(self) -> bool:
        """Whether the first operand is of floats."""
        return self.data_type.startswith("float")

    def finished(self, value: Var, index: int) -> Var:
        """A result in its carrier, cut to the type's bits."""
        operand = self.results[index]
        if len(operand.shape) > MAX_RANK:
            raise CannotError(f"Core ML has tensors of at most {MAX_RANK} dimensions, not of {len(operand.shape)}")
        return self.cast(value, mil_type(operand.data_type))

    @staticmethod
    def cast(value: Var, kind: str) -> Var:
        """A value as another type of MIL."""
        return value if types.builtin_to_string(value.dtype) == kind else mb.cast(x=value, dtype=kind)

    def wrapped(self, value: Var) -> Var:
        """An integer cut to the bits of the first result's type."""
        bits = _BITS.get(self.results[0].data_type)
        if bits is None:
            return value
        if self.results[0].data_type.startswith("u"):
            return mb.mod(x=value, y=np.int32(2**bits))
        half = np.int32(2 ** (bits - 1))
        return mb.sub(x=mb.mod(x=mb.add(x=value, y=half), y=np.int32(2**bits)), y=half)

    def number(self, number: float, like: Var) -> Any:
        """A number of a value's type."""
        return np.dtype(types.nptype_from_builtin(like.dtype)).type(number)
