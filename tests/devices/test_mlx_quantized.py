"""Quantized weights in MLX's form: the same numbers, bit for bit, and products as exact as those of f32."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("mlx.core")

import mlx.core as mx
import torch

from executorch_ggml.devices.mlx.quantized import FORMATS, Packed, pack
from executorch_ggml.ir.codec import dequantize, quantize
from executorch_ggml.ir.dtypes import DType

# Where the f16 scales of a block lie.
SCALES = {DType.Q4_1: (0, 2), DType.Q5_1: (0, 2), DType.Q4_K: (0, 2), DType.Q5_K: (0, 2), DType.TQ2_0: (64,)}


def values(packed: Packed) -> torch.Tensor:
    """What MLX reads the weights as."""
    return torch.from_numpy(np.array(packed.dequantized(*packed[:3])))


@pytest.mark.parametrize("dtype", FORMATS, ids=lambda dtype: dtype.name.lower())
@pytest.mark.parametrize("shape", [(7, 512), (2, 3, 256)], ids=["matrix", "experts"])
def test_repacking_loses_nothing(dtype: DType, shape: tuple[int, ...]) -> None:
    rows = torch.randn(shape) * torch.logspace(-3, 3, shape[-2])[:, None] + 0.3
    rows[..., 0, :32] = 0.0
    data = quantize(rows, dtype)
    packed = pack(data.numpy(), dtype, shape)
    assert packed is not None
    assert torch.equal(values(packed), dequantize(data, dtype, shape))


@pytest.mark.parametrize("dtype", FORMATS, ids=lambda dtype: dtype.name.lower())
def test_every_bit_is_read(dtype: DType) -> None:
    """Random bytes with sane scales: quantizers leave some codes out."""
    generator = torch.Generator().manual_seed(0)
    count = 64 * 256
    data = torch.randint(0, 256, (dtype.nbytes(count),), dtype=torch.uint8, generator=generator)
    blocks = data.view(count // dtype.block, -1)
    for at in SCALES.get(dtype, (0,)):
        blocks[:, at + 1] = blocks[:, at + 1] & 0x83 | 0x30
    if dtype == DType.TQ2_0:  # the code 3 is never written
        low = blocks[:, :64] & 0x55
        blocks[:, :64] = low | (blocks[:, :64] & 0xAA & ~(low << 1))
    packed = pack(data.numpy(), dtype, (64, 256))
    assert packed is not None
    assert torch.equal(values(packed), dequantize(data, dtype, (64, 256)))


@pytest.mark.parametrize("dtype", FORMATS, ids=lambda dtype: dtype.name.lower())
def test_products(dtype: DType) -> None:
    weight, x = quantize(torch.randn(33, 512), dtype), torch.randn(5, 512)
    packed = pack(weight.numpy(), dtype, (33, 512))
    assert packed is not None
    made = mx.quantized_matmul(
        mx.array(x.numpy()), *packed[:3], transpose=True, group_size=packed.group, bits=packed.bits
    )
    expected = x.double() @ dequantize(weight, dtype, (33, 512)).double().T
    error = (torch.tensor(made.tolist()) - expected).abs().max() / expected.abs().max()
    assert error < 1e-5


def test_scales_that_are_not_finite_stay_ggmls() -> None:
    data = quantize(torch.randn(2, 64), DType.Q4_0)
    data[1] = 0x7C  # an infinite f16
    assert pack(data.numpy(), DType.Q4_0, (2, 64)) is None


def test_types_without_an_exact_form() -> None:
    for dtype in (DType.Q2_K, DType.Q6_K, DType.IQ4_NL):
        assert pack(quantize(torch.randn(2, 256), dtype).numpy(), dtype, (2, 256)) is None
