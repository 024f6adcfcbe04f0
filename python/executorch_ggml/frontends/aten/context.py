"""What a lowering works with: the builder, the node at hand, and tensors that know their torch shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

from ...ir.builder import Builder
from ...ir.dims import as_dim, ne_of, same_dims
from ...ir.dtypes import DType
from ...ir.graph import IRError, Value
from ...ir.op import Dim
from .weights import StoredWeight

Data = Callable[[], torch.Tensor]

FLOATS = frozenset({DType.F32, DType.F16, DType.BF16})
NARROW = frozenset({DType.I8, DType.U8, DType.I16})


def compute_type(dtype: DType) -> DType:
    """The type that a type's functions are computed in: half types in f32, narrow integers in i32."""
    if dtype == DType.F64:
        raise IRError("float64 is left to ExecuTorch: ggml computes in float32")
    return DType.F32 if dtype in FLOATS else DType.I32 if dtype in NARROW else dtype


@dataclass(frozen=True)
class Tensor:
    """A value with the shape that torch sees (outermost first); ``data`` gives a constant's contents when asked.

    ``stored`` is how the program is to store a parameter, for the ops that can read it so.
    """

    value: Value
    shape: tuple[Dim, ...]
    data: Data | None = None
    key: str = ""
    stored: StoredWeight | None = None

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.value.dtype

    @property
    def number(self) -> float | int | bool | None:
        """The number that a constant scalar is, where its contents are at hand (they are not while partitioning)."""
        if self.data is None or self.rank > 0:
            return None
        contents = self.data()
        if isinstance(contents, FakeTensor):
            return None
        item = contents.item()
        return item if isinstance(item, (float, int)) else None

    @property
    def rank(self) -> int:
        """Number of torch dims."""
        return len(self.shape)

    def axis(self, dim: int) -> int:
        """The ggml dim of a torch dim (negative ones counted from the end)."""
        if self.rank > 4:
            raise IRError(f"a tensor of {self.rank} dims: at most 4 are supported here")
        return self.rank - 1 - dim % max(self.rank, 1)


@dataclass
class Context:
    """One node being lowered."""

    builder: Builder
    node: Node
    integer_weights: bool = True  # as blocks of a ggml type that holds them exactly
    notes: dict[str, None] = field(default_factory=dict)  # what is worth knowing of how nodes were lowered

    def note(self, text: str) -> None:
        """Say something of this node for ``explain``."""
        self.notes[text] = None

    # ------------------------------------------------------------------------------------------ the trace's word

    @property
    def meta(self) -> Any:
        """The traced result: a fake tensor, or a tuple of them."""
        return self.node.meta["val"]

    def shape(self, index: int | None = None) -> tuple[Dim, ...]:
        """The traced result's shape."""
        return tuple(as_dim(size) for size in self._fake(index).shape)

    def dtype(self, index: int | None = None) -> DType:
        """The traced result's element type."""
        dtype = DType.from_torch(self._fake(index).dtype)
        if dtype is None:
            raise IRError(f"the IR has no element type {self._fake(index).dtype}")
        return dtype

    def _fake(self, index: int | None) -> torch.Tensor:
        fake = self.meta if index is None else self.meta[index]
        assert isinstance(fake, torch.Tensor)
        return fake

    def out(self, value: Value, index: int | None = None) -> Tensor:
        """A value as the node's result, reshaped to the traced shape."""
        shape = self.shape(index)
        if not same_dims(value.ne, ne_of(shape)):
            value = self.builder.reshape(value, ne_of(shape))
        return Tensor(value, shape)

    def rounded(self, value: Value, index: int | None = None) -> Tensor:
        """What was computed in f32 as the node's result, in the traced type and shape."""
        return self.out(self.builder.convert(value, self.dtype(index)), index)

    # ------------------------------------------------------------------------------------------------- constants

    def derived(
        self,
        key: str,
        source: Sequence[Tensor],
        shape: Sequence[int],
        data: Callable[..., torch.Tensor],
        dtype: DType | None = None,
    ) -> Tensor:
        """A constant computed ahead of time from constants: ``data`` maps their contents to the new one's.

        Its type is the first one's unless ``dtype`` says otherwise.
        """
        result_dtype = source[0].dtype if dtype is None else dtype
        sources = [tensor.data for tensor in source]
        assert all(item is not None for item in sources)

        def contents() -> torch.Tensor:
            return data(*(item() for item in sources if item is not None)).to(result_dtype.torch).contiguous()

        ne = ne_of(shape)
        name = f"{source[0].key}.{key}"
        if len(source) > 1:
            name += "~" + hashlib.sha256("\0".join(tensor.key for tensor in source).encode()).hexdigest()[:8]
        value = self.builder.constant(name, result_dtype, ne, contents)
        constant, origin = self.builder.constant_of(value), self.builder.constant_of(source[0].value)
        if constant is not None and origin is not None and result_dtype == origin.value.dtype:
            constant.kept_in = origin.kept_in
        return Tensor(value, tuple(shape), contents, name)

    def as_stored(self, weight: Tensor) -> Value | None:
        """A parameter in the type that it is to be stored in, where that is another than its own."""
        found = self.as_stored_rows(weight)
        return None if found is None or found[1] is not None else found[0]

    def as_stored_rows(self, weight: Tensor) -> tuple[Value, Value | None] | None:
        """The same for what reads rows one by one, with the factors that they have yet to be multiplied by, if any."""
        stored = weight.stored
        if stored is None or stored.dtype == weight.dtype or not _in_blocks(weight, stored):
            return None
        key = stored.key or f"{weight.key}.{stored.dtype.name.lower()}"
        outside = stored.key is not None
        made = self.builder.constant(key, stored.dtype, weight.value.ne, stored.contents, outside=outside)
        if stored.factor is None:
            return made, None
        rows = ne_of(weight.shape[:-1])
        return made, self.builder.constant(f"{key}.factor", DType.F32, rows, stored.factor)

    # ------------------------------------------------------------------------------------------------- operands

    def tensor(self, operand: Any, dtype: DType) -> Tensor:
        """A tensor or a Python number as a tensor of one type; a constant is converted ahead of time."""
        if not isinstance(operand, Tensor):
            return Tensor(self.builder.scalar(operand, dtype), ())
        if operand.dtype == dtype:
            return operand
        if operand.data is not None:
            return self.derived(dtype.name.lower(), [operand], operand.shape, lambda w: w, dtype)
        return Tensor(self.builder.convert(operand.value, dtype), operand.shape)

    def f32(self, tensor: Tensor) -> Tensor:
        """A tensor as f32; 64-bit floats are refused, since computing in 32 bits would lose what they hold."""
        if tensor.dtype == DType.F64:
            raise IRError("float64 is left to ExecuTorch: ggml computes in float32")
        return self.tensor(tensor, DType.F32)


def _in_blocks(weight: Tensor, stored: StoredWeight) -> bool:
    """Whether rows are whole blocks of the stored type."""
    return weight.rank > 0 and isinstance(weight.shape[-1], int) and weight.shape[-1] % stored.dtype.block == 0
