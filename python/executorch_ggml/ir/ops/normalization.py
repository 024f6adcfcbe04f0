"""Row normalizations and softmax: all work along ``ne[0]``."""

from __future__ import annotations

from .._lazy import torch
from ..formulas import divides, formula
from ..op import Dim, Empty, Operand, op


@formula
def masks_rows(a: Operand, mask: Operand | None) -> bool:
    """Expects `mask` to have rows as long as `a`'s, as many or more, and batch dims that divide `a`'s."""
    return mask is None or (
        mask.ne[0] == a.ne[0]
        and mask.ne[1] >= a.ne[1]
        and divides(mask.ne[2], a.ne[2])
        and divides(mask.ne[3], a.ne[3])
    )


@formula
def is_zero(number: float) -> bool:
    """Expects `number` to be 0."""
    return number == 0


@formula
def is_small(number: Dim) -> bool:
    """Expects `number` to be 0 or more, and to fit in 31 bits."""
    return 0 <= number < 2**31


@formula
def is_row_of(row: Operand | None, a: Operand) -> bool:
    """Expects `row` to be one row, as long as `a`'s."""
    return row is None or (row.ne[0] == a.ne[0] and row.ne[1] == row.ne[2] == row.ne[3] == 1)


@formula
def comes_with(bias: Operand | None, weight: Operand | None) -> bool:
    """Expects `weight` to be there where `bias` is."""
    return bias is None or weight is not None


@op(
    60,
    inputs={"a": "f32 rows", "weight": "f32? cont", "bias": "f32? cont"},
    result="a",
    checks=("not_negative(eps)", "is_row_of(weight, a)", "is_row_of(bias, a)", "comes_with(bias, weight)"),
    call="ggml_norm(ctx, a, eps)",
    kernel="norm",
    stock="weight is None",
)
def norm(a: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, *, eps: float) -> torch.Tensor:
    """Each row minus its mean over its standard deviation, times a weight and plus a bias if given (``ggml_norm``)."""
    w, b = (None if row is None else row.reshape(-1) for row in (weight, bias))
    return torch.nn.functional.layer_norm(a, a.shape[-1:], w, b, eps)


@op(
    61,
    inputs={"a": "f32 rows", "weight": "f32? cont"},
    result="a",
    checks=("not_negative(eps)", "is_row_of(weight, a)"),
    call="ggml_rms_norm(ctx, a, eps)",
    kernel="rms_norm",
    stock="weight is None",
)
def rms_norm(a: torch.Tensor, weight: torch.Tensor | None, *, eps: float) -> torch.Tensor:
    """Each row over its root mean square, times a weight if given (``ggml_rms_norm``)."""
    normed = a * torch.rsqrt(a.square().mean(-1, keepdim=True) + eps)
    return normed if weight is None else normed * weight


@op(
    62,
    inputs={"a": "f32 cont", "mask": "f32? cont"},
    result="a",
    checks=("masks_rows(a, mask)", "is_zero(max_bias)"),
    call="ggml_soft_max_ext(ctx, a, mask, scale, max_bias)",
)
def soft_max_ext(a: torch.Tensor, mask: torch.Tensor | None, *, scale: float, max_bias: float) -> torch.Tensor:
    """Row softmax of ``a * scale + mask`` (``ggml_soft_max_ext``; ``max_bias`` is ALiBi's and must be 0)."""
    if max_bias != 0.0:
        raise ValueError(f"soft_max_ext: max_bias must be 0, got {max_bias}")
    scores = a * scale
    if mask is not None:
        scores = scores + mask[..., : a.shape[-2], :]
    return torch.softmax(scores, -1)


@op(
    63,
    inputs={"a": "f32 cont"},
    result="a",
    checks=("is_small(n_past)",),
    call="ggml_diag_mask_inf(ctx, a, narrow(n_past))",
)
def diag_mask_inf(a: torch.Tensor, *, n_past: Dim) -> torch.Tensor:
    """-inf above the diagonal shifted right by ``n_past`` (``ggml_diag_mask_inf``)."""
    above = torch.ones(a.shape[-2:], dtype=torch.bool).triu(1 + int(n_past))
    return a.masked_fill(above, float("-inf"))


@op(64, inputs={"a": "f32 rows"}, result="a.dtype, (1, a.ne[1], a.ne[2], a.ne[3])")
def sum_rows(a: torch.Tensor) -> torch.Tensor:
    """Sum of each row (``ggml_sum_rows``)."""
    return a.sum(-1, keepdim=True)


@op(65, inputs={"a": "f32 rows"}, result="a.dtype, (1, a.ne[1], a.ne[2], a.ne[3])", empty=Empty.NAN)
def mean(a: torch.Tensor) -> torch.Tensor:
    """Mean of each row (``ggml_mean``)."""
    return a.mean(-1, keepdim=True)


@op(66, inputs={"a": "number cont"}, result="a", kernel="cumsum", stock="is_f32(a)")
def cumsum(a: torch.Tensor) -> torch.Tensor:
    """Running sum along each row (``ggml_cumsum``)."""
    return a.cumsum(-1, dtype=a.dtype)
