"""Our bytes beside those of llama.cpp's converter (the ``gguf`` package), and of ggml's own library."""

from __future__ import annotations

import ctypes
import importlib.metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from executorch_ggml.ir.codec import needs_importance
from executorch_ggml.ir.dtypes import DType
from executorch_ggml.quant import dequantize, quantize
from gguf import GGMLQuantizationType, quants

QUANTIZED = [dtype for dtype in DType if dtype.is_quantized]
# Those that the converter can write.
WRITTEN = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"]


def rows(seed: int, *shape: int, spread: float = 1.0) -> torch.Tensor:
    """Numbers of some spread, with a row of zeros and one of equal numbers."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * spread
    values[0], values[-1] = 0.0, 0.25
    return values


def written(values: torch.Tensor, dtype: DType) -> torch.Tensor:
    """By the converter."""
    data = quants.quantize(values.numpy(), GGMLQuantizationType[dtype.name])
    return torch.from_numpy(np.ascontiguousarray(data).view(np.uint8).reshape(-1))


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), spread=st.sampled_from([1e-3, 1.0, 100.0]))
def test_bytes_are_the_converters(name: str, seed: int, spread: float) -> None:
    dtype, values = DType[name], rows(seed, 5, 512, spread=spread)
    assert torch.equal(quantize(values, dtype), written(values, dtype))


@pytest.mark.parametrize("dtype", QUANTIZED, ids=lambda dtype: dtype.name)
def test_values_are_the_converters(dtype: DType) -> None:
    values = rows(1, 5, 512)
    data = quantize(values, dtype, torch.ones(512) if needs_importance(dtype) else None)
    blocks = data.numpy().reshape(5, dtype.nbytes(512))
    wanted = torch.from_numpy(quants.dequantize(blocks, GGMLQuantizationType[dtype.name]))
    assert torch.equal(dequantize(data, dtype, (5, 512)), wanted.reshape(5, 512))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", QUANTIZED, ids=lambda dtype: dtype.name)
def test_bytes_are_ggmls(dtype: DType, weighted: bool) -> None:
    values = rows(2, 5, 512)
    weighted = weighted or needs_importance(dtype)
    importance = rows(3, 2, 512)[1].square() + 0.1 if weighted else None
    assert torch.equal(quantize(values, dtype, importance), by_ggml(values, dtype, importance))


def by_ggml(values: torch.Tensor, dtype: DType, importance: torch.Tensor | None) -> torch.Tensor:
    """By ``ggml_quantize_chunk`` of the installed library."""
    package = importlib.metadata.distribution("libggml-python").locate_file("libggml")
    (folder,) = Path(str(package)).glob("lib*")
    library = ctypes.CDLL(str(folder / "libggml-base.so.0"))  # as ours links it: tables of grids take seconds to make
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    made = torch.empty(dtype.nbytes(values.numel()), dtype=torch.uint8)
    weights = ctypes.c_void_p(None if importance is None else importance.data_ptr())
    size = library.ggml_quantize_chunk(
        ctypes.c_int(dtype.ggml_type),
        ctypes.c_void_p(values.data_ptr()),
        ctypes.c_void_p(made.data_ptr()),
        ctypes.c_int64(0),
        ctypes.c_int64(values.shape[0]),
        ctypes.c_int64(values.shape[1]),
        weights,
    )
    assert size == made.numel()
    return made
