"""Tests of ``ir.codec``: ggml's quantizer, and what it is kept from."""

import pytest
import torch

from executorch_ggml.ir.codec import dequantize, needs_importance, quantize
from executorch_ggml.ir.dtypes import DType

QUANTIZED = [dtype for dtype in DType if dtype.is_quantized]
# The rms error that a type may have on normally distributed numbers, relative to their magnitude.
ERROR = {
    DType.Q4_0: 0.1, DType.Q4_1: 0.1, DType.Q5_0: 0.05, DType.Q5_1: 0.05, DType.Q8_0: 0.01, DType.Q2_K: 0.4,
    DType.Q3_K: 0.2, DType.Q4_K: 0.1, DType.Q5_K: 0.05, DType.Q6_K: 0.03, DType.IQ2_XXS: 0.5, DType.IQ2_XS: 0.5,
    DType.IQ3_XXS: 0.3, DType.IQ1_S: 0.7, DType.IQ4_NL: 0.1, DType.IQ3_S: 0.25, DType.IQ2_S: 0.4, DType.IQ4_XS: 0.1,
    DType.IQ1_M: 0.7, DType.TQ1_0: 0.9, DType.TQ2_0: 0.9, DType.MXFP4: 0.15,
}  # fmt: skip


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", QUANTIZED, ids=lambda dtype: dtype.name)
def test_there_and_back_is_near(dtype: DType) -> None:
    values = rows(6, 512)
    importance = torch.ones(512) if needs_importance(dtype) else None
    data = quantize(values, dtype, importance)
    assert data.dtype == torch.uint8
    assert data.shape == (dtype.nbytes(6 * 512),)
    back = dequantize(data, dtype, values.shape)
    error = (back - values).square().mean().sqrt()
    assert error < ERROR[dtype]


def test_many_rows_are_quantized_like_few() -> None:
    values = rows(3000, 512)  # more than a thread takes at once
    whole = quantize(values, DType.Q4_K)
    assert torch.equal(whole[: DType.Q4_K.nbytes(512)], quantize(values[:1], DType.Q4_K))
    assert torch.equal(whole[-DType.Q4_K.nbytes(512) :], quantize(values[-1:], DType.Q4_K))


def test_importance_counts() -> None:
    values, importance = rows(8, 256), torch.ones(256)
    importance[:16] = 1e4
    plain, weighted = (
        dequantize(quantize(values, DType.Q2_K, w), DType.Q2_K, values.shape) - values
        for w in (torch.ones(256), importance)
    )
    assert weighted[:, :16].abs().mean() < plain[:, :16].abs().mean()


def test_importance_of_experts_is_theirs() -> None:
    values, importance = rows(2, 4, 256), rows(2, 256).square()
    both = quantize(values, DType.Q3_K, importance)
    alone = [quantize(values[i], DType.Q3_K, importance[i]) for i in (0, 1)]
    assert torch.equal(both, torch.cat(alone))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16], ids=lambda dtype: dtype.name)
def test_plain_types_are_cast(dtype: DType) -> None:
    values = rows(3, 5)
    back = dequantize(quantize(values, dtype), dtype, (3, 5))
    assert torch.equal(back, values.to(dtype.torch).float())


@pytest.mark.parametrize(
    ("values", "dtype", "importance", "message"),
    [
        (rows(2, 48), DType.Q4_0, None, "multiple of 32"),
        (torch.tensor(1.0), DType.Q4_0, None, "multiple of 32"),
        (rows(2, 32).log(), DType.Q8_0, None, "must be finite"),
        (rows(2, 256), DType.IQ2_XXS, None, "needs an importance matrix"),
        (rows(2, 256), DType.Q4_K, torch.ones(255), "does not fit"),
        (rows(2, 256), DType.Q4_K, -torch.ones(256), "not negative"),
        (rows(2, 256), DType.IQ2_XXS, torch.full((256,), 3e38), "up to 3e\\+38, too large"),
        (rows(2, 256), DType.Q4_K, torch.full((256,), 3e38), "too large"),
        (rows(2, 256), DType.I32, None, "no type that weights are stored in"),
    ],
    ids=["width", "scalar", "nan", "importance", "importance-shape", "importance-sign", "large", "larger", "type"],
)
def test_what_ggml_would_abort_on_is_refused(
    values: torch.Tensor, dtype: DType, importance: torch.Tensor | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        quantize(values, dtype, importance)


def test_bytes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 18 bytes of q4_0"):
        dequantize(torch.zeros(17, dtype=torch.uint8), DType.Q4_0, (32,))
    with pytest.raises(ValueError, match="multiple of 32"):
        dequantize(torch.zeros(18, dtype=torch.uint8), DType.Q4_0, (31,))


@pytest.mark.parametrize("dtype", QUANTIZED, ids=lambda dtype: dtype.name)
def test_no_rows_are_no_bytes(dtype: DType) -> None:
    importance = torch.ones(256) if needs_importance(dtype) else None
    assert quantize(torch.empty(0, 256), dtype, importance).numel() == 0
    assert dequantize(torch.empty(0, dtype=torch.uint8), dtype, (0, 256)).shape == (0, 256)
