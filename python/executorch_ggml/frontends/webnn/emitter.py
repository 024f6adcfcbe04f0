"""What an operator's function works with: the lowerings' context, its results known from the graph."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from ...ir.builder import Builder
from ...ir.dims import ne_of, same_dims
from ...ir.dtypes import DType
from ...ir.graph import IRError
from ...ir.ops.custom import BinaryKind
from ...webnn.graph_info import Array, Operand
from ..aten.context import FLOATS, Context, Tensor, compute_type
from ..aten.ops.elementwise import combine
from ..aten.ops.shape import expanded
from ..aten.registry import LOWERINGS, Refused

Shape = tuple[int, ...]
Function = Callable[..., Any]

CARRIERS = {
    "float32": DType.F32,
    "float16": DType.F16,
    "int32": DType.I32,
    "uint32": DType.I64,
    "int64": DType.I64,
    "uint64": DType.I64,
    "int8": DType.I8,
    "uint8": DType.U8,
    "int4": DType.I8,
    "uint4": DType.U8,
}
SIGN = -(2**63)  # flips the order of signed integers to that of unsigned ones, and back
EMITTERS: dict[str, Function] = {}


def emits(*names: str) -> Callable[[Function], Function]:
    """Register the function of operators: it takes the context, and operands and options by name.

    It gives a Tensor (or a list of them) of the result's shape, in any type, or Refused.
    """

    def add(function: Function) -> Function:
        for name in names:
            EMITTERS[name] = function
        return function

    return add


def constant(builder: Builder, key: str, array: Array, data_type: str) -> Tensor:
    """A constant of the graph."""

    @cache
    def contents() -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the array must not be written to: nobody does
            if data_type == "uint32":
                return torch.from_numpy(array.astype(np.int64))
            return torch.from_numpy(array.view(np.int64) if data_type == "uint64" else array)

    value = builder.constant(key, CARRIERS[data_type], ne_of(array.shape), contents)
    return Tensor(value, array.shape, contents, key)


class Emitter(Context):
    """One operation being converted."""

    def __init__(
        self,
        builder: Builder,
        results: Sequence[Operand],
        data_type: str,
    ) -> None:
        super().__init__(builder, None)  # type: ignore[arg-type] # there is no traced node
        self.data_type = data_type  # of the first operand
        self._results = [(result.shape, CARRIERS[result.data_type]) for result in results]
        self._types = [result.data_type for result in results]

    # ------------------------------------------------------------------------------------------ the graph's word

    @property
    def meta(self) -> Any:
        """There is no trace."""
        return None

    def shape(self, index: int | None = None) -> tuple[Any, ...]:
        """A result's shape."""
        return self._results[index or 0][0]

    def dtype(self, index: int | None = None) -> DType:
        """A result's element type."""
        return self._results[index or 0][1]

    @property
    def result_type(self) -> str:
        """The first result's data type."""
        return self._types[0]

    def to(self, shape: Sequence[int], dtype: DType) -> Emitter:
        """The context of a step on the way, with a result of its own."""
        made: Emitter = Emitter.__new__(Emitter)
        made.__dict__.update(self.__dict__)
        made._results = [(tuple(shape), dtype)]
        return made

    def finished(self, tensor: Tensor, index: int) -> Tensor:
        """A result in its shape and carrier, cut to the type's bits."""
        shape, dtype = self._results[index]
        value = tensor.value
        if not same_dims(value.ne, ne_of(shape)):
            value = self.builder.reshape(value, ne_of(shape))
        value = self.builder.convert(value, dtype)
        if value is tensor.value and tensor.shape == shape:
            return tensor
        return Tensor(value, shape)

    def placeholder(self, index: int) -> Tensor:
        """Something in the place of a result that could not be made, so that all reasons are found at once."""
        shape, dtype = self._results[index]
        return Tensor(self.builder.fill(ne_of(shape), 0, dtype), shape)

    # ------------------------------------------------------------------------------------------------------ steps

    def aten(self, overload: Any, *args: Any, **kwargs: Any) -> Tensor:
        """What the lowering of an ATen op makes; raises IRError where it refuses."""
        made = LOWERINGS[overload](self, *args, **kwargs)
        if isinstance(made, Refused):
            raise IRError(made.reason)
        tensor: Tensor = made[0] if isinstance(made, tuple) else made
        return tensor

    def wide(self, tensor: Tensor) -> Tensor:
        """A tensor in the type that its own is computed in."""
        return self.tensor(tensor, compute_type(tensor.dtype))

    def ordered(self, tensor: Tensor) -> Tensor:
        """The same, uint64 being put in the order of int64."""
        return self.flipped(tensor) if self.data_type == "uint64" else self.wide(tensor)

    def flipped(self, tensor: Tensor) -> Tensor:
        """Bits with the sign's turned round."""
        return self.with_number(BinaryKind.BITWISE_XOR, tensor, SIGN)

    def unsigned(self, tensor: Tensor) -> Tensor:
        """A result of uint32 cut to its bits."""
        if self._types[0] != "uint32" or tensor.dtype != DType.I64:
            return tensor
        return self.with_number(BinaryKind.BITWISE_AND, tensor, 0xFFFFFFFF)

    def both(self, kind: BinaryKind, a: Tensor, b: Tensor) -> Tensor:
        """A function of two tensors of one type, broadcast: comparisons give bool."""
        shape = tuple(np.broadcast_shapes(a.shape, b.shape))
        value = combine(self.to(shape, a.dtype), kind, a, b)
        if not same_dims(value.ne, ne_of(shape)):
            value = self.builder.reshape(value, ne_of(shape))
        return Tensor(value, shape)

    def greater(self, a: Tensor, b: Tensor) -> Tensor:
        """The greater of two of one type and shape."""
        return self.both(BinaryKind.MAXIMUM, a, b)

    def with_number(self, kind: BinaryKind, a: Tensor, number: float) -> Tensor:
        """A function of a tensor and a number of its type."""
        return Tensor(self.builder.emit("binary", a.value, self.builder.scalar(number, a.dtype), kind=kind), a.shape)

    def chosen(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """``a`` where a bool holds, else ``b``, all of one shape or broadcast."""
        shape = tuple(np.broadcast_shapes(condition.shape, a.shape, b.shape))
        return self.to(shape, a.dtype).aten(torch.ops.aten.where.self, condition, a, b)

    def number(self, number: float, dtype: DType) -> Tensor:
        """A number as a tensor."""
        return Tensor(self.builder.scalar(number, dtype), ())

    def affine(self, tensor: Tensor, s: float, b: float) -> Tensor:
        """``tensor * s + b`` in float32."""
        return Tensor(self.builder.emit("scale_bias", self.f32(tensor).value, s=float(s), b=float(b)), tensor.shape)

    def unary(self, op: str, tensor: Tensor, **attrs: Any) -> Tensor:
        """A float function."""
        return Tensor(self.builder.emit(op, self.f32(tensor).value, **attrs), tensor.shape)

    def reshaped(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """The same elements in another shape."""
        return Tensor(self.builder.reshape(tensor.value, ne_of(shape)), tuple(shape))

    def spread(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """A tensor broadcast to a shape."""
        return expanded(self, tensor, tuple(shape))

    def list(self, numbers: Sequence[float], dtype: DType, shape: Sequence[int]) -> Tensor:
        """Numbers known now as a constant."""
        contents = torch.tensor(list(numbers), dtype=dtype.torch)
        key = f"list.{hashlib.sha256(repr((dtype.name, list(numbers))).encode()).hexdigest()[:16]}"
        value = self.builder.constant(key, dtype, ne_of([len(numbers)]), lambda: contents)
        return self.reshaped(Tensor(value, (len(numbers),)), shape)


def is_float(tensor: Tensor) -> bool:
    """Whether a tensor is of floats."""
    return tensor.dtype in FLOATS


__all__ = ["CARRIERS", "EMITTERS", "SIGN", "Emitter", "Tensor", "constant", "emits", "is_float"]
