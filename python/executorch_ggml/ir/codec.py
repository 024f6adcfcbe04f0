"""ggml's own quantizer: float rows to the bytes of any ggml type, and back."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ._lazy import session, torch
from .dtypes import DType

_LARGEST_SUM = 1e18  # of weighted squares within a block, which ggml squares once more
_CHUNK = 1 << 20  # elements that a thread takes at once


def needs_importance(dtype: DType) -> bool:
    """Whether ggml quantizes to the type only with an importance matrix (``ggml_quantize_requires_imatrix``)."""
    return dtype.is_quantized and session.quantize_requires_importance(dtype.ggml_type)


def quantize(values: torch.Tensor, dtype: DType, importance: torch.Tensor | None = None) -> torch.Tensor:
    """The bytes of ``values`` in a ggml type, uint8 in one dim (``ggml_quantize_chunk``).

    ``values`` are floats ``[..., n]``, n a multiple of the type's block; ``importance`` has the weight of each column,
    ``[n]`` (or ``[k, n]`` for the k matrices of ``[k, m, n]``), not negative. Raises ValueError where a shape does not
    fit, a number is not finite, or the type needs an importance matrix and none is given.
    """
    name = dtype.name.lower()
    if dtype in (DType.F32, DType.F16, DType.BF16):
        return values.detach().to(dtype.torch).contiguous().reshape(-1).view(torch.uint8)
    if not dtype.is_quantized:
        raise ValueError(f"quantize: {name} is no type that weights are stored in")
    if values.dim() == 0 or values.shape[-1] % dtype.block:
        raise ValueError(f"quantize: {list(values.shape)} in {name}: the last dim must be a multiple of {dtype.block}")
    rows = values.detach().to(torch.float32).contiguous().reshape(-1, values.shape[-1])
    if not bool(torch.isfinite(rows).all()):
        raise ValueError(f"quantize: values for {name} must be finite, there are infinities or NaN among them")
    if importance is None:
        if needs_importance(dtype):
            raise ValueError(f"quantize: {name} needs an importance matrix; collect one from calibration inputs")
        return _quantize_rows(rows, dtype, None)
    columns = _checked_importance(importance, values)
    largest = float(rows.abs().max()) if rows.numel() else 0.0
    if float(columns.max()) * max(largest, largest**2) * dtype.block > _LARGEST_SUM:
        raise ValueError(f"quantize: the importance matrix has numbers up to {float(columns.max()):.3g}, too large")
    parts = rows.reshape(len(columns), -1, rows.shape[1])
    return torch.cat([_quantize_rows(part, dtype, column) for part, column in zip(parts, columns, strict=True)])


def dequantize(data: torch.Tensor, dtype: DType, shape: Sequence[int]) -> torch.Tensor:
    """Bytes of a ggml type as float32 of a shape (the type's ``to_float``). Raises ValueError where they do not fit."""
    count = 1
    for size in shape:
        count *= int(size)
    expected = dtype.nbytes(count)
    if data.dtype != torch.uint8 or data.numel() != expected:
        raise ValueError(
            f"dequantize: {data.numel()} elements of {data.dtype}, expected {expected} bytes of {dtype.name.lower()} "
            f"for {list(shape)}"
        )
    flat = data.contiguous().reshape(-1)
    if not dtype.is_quantized:
        return flat.view(dtype.torch).float().reshape(tuple(shape))
    values = torch.empty(count, dtype=torch.float32)
    session.dequantize(dtype.ggml_type, flat.numpy(), values.numpy())
    return values.reshape(tuple(shape))


def _checked_importance(importance: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    columns = importance.detach().to(torch.float32).contiguous()
    matrices = values.shape[0] if values.dim() == 3 and columns.dim() == 2 else 1
    columns = columns.reshape(-1, columns.shape[-1]) if columns.dim() else columns.reshape(1, 1)
    if columns.shape != (matrices, values.shape[-1]):
        raise ValueError(
            f"quantize: an importance matrix of {list(importance.shape)} does not fit values of {list(values.shape)}"
        )
    if not bool((torch.isfinite(columns) & (columns >= 0)).all()):
        raise ValueError("quantize: an importance matrix must be finite and not negative")
    return columns


def _quantize_rows(rows: torch.Tensor, dtype: DType, importance: torch.Tensor | None) -> torch.Tensor:
    """Rows, a share of them a thread: ggml quantizes each by itself."""
    encoded = torch.empty(dtype.nbytes(rows.numel()), dtype=torch.uint8)
    if rows.numel() == 0:
        return encoded
    weights = None if importance is None else importance.numpy()
    step = max(1, _CHUNK // rows.shape[1])
    row_bytes = dtype.nbytes(rows.shape[1])

    def share(start: int) -> None:
        part = rows[start : start + step]
        into = encoded[start * row_bytes : (start + len(part)) * row_bytes]
        session.quantize(dtype.ggml_type, part.numpy(), into.numpy(), weights)

    with ThreadPoolExecutor() as pool:
        list(pool.map(share, range(0, len(rows), step)))
    return encoded
