"""Tensors that live between computations."""

from __future__ import annotations

import numpy as np

from .data_types import element_count, numpy_type
from .errors import InvalidStateError
from .graph_info import Array, Operand


class MLTensor:
    """Contents of one type and shape, of one context. Made by :meth:`MLContext.create_tensor`."""

    def __init__(
        self, context: object, info: Operand, *, readable: bool, writable: bool, constant: Array | None = None
    ) -> None:
        self._context = context
        self._info = info
        self._readable = readable
        self._writable = writable
        self._is_constant = constant is not None
        made = np.zeros(info.shape, numpy_type(info.data_type)) if constant is None else constant
        self._data: Array | None = made

    @property
    def data_type(self) -> str:
        """Its data type."""
        return self._info.data_type

    @property
    def shape(self) -> list[int]:
        """Its dimensions, outermost first."""
        return list(self._info.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return element_count(self._info.shape)

    @property
    def readable(self) -> bool:
        """Whether ``read_tensor`` may read it."""
        return self._readable

    @property
    def writable(self) -> bool:
        """Whether ``write_tensor`` may write it."""
        return self._writable

    @property
    def constant(self) -> bool:
        """Whether it is for :meth:`MLGraphBuilder.constant`."""
        return self._is_constant

    def destroy(self) -> None:
        """Let go of its memory. What is made of it already stays."""
        self._data = None

    def _contents(self, context: object, caller: str) -> Array:
        if self._context is not context:
            raise TypeError(f"{caller}: tensor is of another context")
        if self._data is None:
            raise InvalidTensorError(f"{caller}: tensor is destroyed")
        return self._data

    def _constant_for(self, context: object) -> tuple[Array, Operand]:
        array = self._contents(context, "constant")
        if not self._is_constant:
            raise TypeError("constant: tensor is no constant one, make it with create_constant_tensor()")
        return array, self._info

    def __repr__(self) -> str:
        return f"MLTensor({self._info})"


class InvalidTensorError(InvalidStateError, TypeError):
    """A destroyed tensor: TypeError by the specification."""
