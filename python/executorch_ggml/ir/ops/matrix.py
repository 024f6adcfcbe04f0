"""Matrix products and attention."""

from __future__ import annotations

from .._lazy import F, torch
from ..dtypes import DType
from ..formulas import divides, formula, is_one, known
from ..op import Operand, op
from .spatial import Epilogue, activate


@formula
def multiplies(a: Operand, b: Operand) -> bool:
    """Expects `b` to have rows as long as `a`'s, and batch dims that `a`'s divide."""
    return a.ne[0] == b.ne[0] and divides(a.ne[2], b.ne[2]) and divides(a.ne[3], b.ne[3])


@formula
def f32_or_same_type(b: Operand, a: Operand) -> bool:
    """Expects `b` to be of float32, or of `a`'s element type."""
    return b.dtype == DType.F32 or b.dtype == a.dtype  # noqa: PLR1714 - for C++


@formula
def attends(q: Operand, k: Operand, v: Operand) -> bool:
    """Expects `k` to have rows as long as `q`'s, heads that divide `q`'s, and the type, rows and heads of `v`."""
    return (
        q.ne[0] == k.ne[0]
        and k.ne[1] == v.ne[1]
        and k.ne[2] == v.ne[2]
        and k.dtype == v.dtype
        and divides(k.ne[2], q.ne[2])
        and k.ne[3] == q.ne[3]
        and v.ne[3] == q.ne[3]
    )


@formula
def masks_scores(q: Operand, k: Operand, mask: Operand | None) -> bool:
    """Expects `mask` to have a row of `k`'s positions for each of `q`'s, or one, and batch dims that divide `q`'s."""
    return mask is None or (
        mask.ne[0] == k.ne[1]
        and (mask.ne[1] == 1 or mask.ne[1] >= q.ne[1])
        and divides(mask.ne[2], q.ne[2])
        and divides(mask.ne[3], q.ne[3])
    )


@formula
def attends_within_limits(q: Operand, v: Operand) -> bool:
    """Expects `q` and `v` to have rows of 65536 elements at most, and `q` fewer than 2^31 rows.

    ggml's scratch memory grows with the head's size, and it counts query rows in an int.
    """
    return q.ne[0] <= 2**16 and v.ne[0] <= 2**16 and q.ne[1] * q.ne[2] * q.ne[3] < 2**31


@formula
def multiplies_chosen(a: Operand, b: Operand, ids: Operand) -> bool:
    """Expects `b` to have rows as long as `a`'s, for each token of `ids` one row, or one an id."""
    return (
        is_one(a.ne[3])
        and is_one(b.ne[3])
        and is_one(ids.ne[2])
        and is_one(ids.ne[3])
        and a.ne[0] == b.ne[0]
        and b.ne[2] == ids.ne[1]
        and (is_one(b.ne[1]) or b.ne[1] == ids.ne[0])
    )


@op(
    70,
    inputs={"a": "float|quantized rows", "b": "float rows"},
    result="DType.F32, (a.ne[1], b.ne[1], b.ne[2], b.ne[3])",
    checks=("multiplies(a, b)", "f32_or_same_type(b, a)"),
    work="count(result.ne) * a.ne[0]",
    reads_packed=True,
    call="compositions::mul_mat(self, a, b)",
    kernel="wide_product",
    when="is_wide_product(a, b)",
)
def mul_mat(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``b @ a.T`` per matrix, ``a`` repeated over ``b``'s batch dims in blocks (``ggml_mul_mat``).

    Where ``b`` is f32 and ``a`` of a half type, ``b`` is rounded to that type first: ggml multiplies in it. Where ``a``
    is quantized, ggml rounds ``b`` to blocks of 8-bit integers, and so does the own kernel where the CPU has AVX-512
    VNNI and the type is q4_0 to q8_0 or q4_K to q6_K. For other types and CPUs it keeps ``b``, as this reference does;
    then it is used for many rows alone, of types that ggml is slow with.
    """
    a, b = a.float(), b.to(a.dtype).float()
    for dim in (0, 1):
        a = a.repeat_interleave(b.shape[dim] // max(a.shape[dim], 1), dim)
    return b @ a.mT


@formula
def is_layer(x: Operand, weight: Operand) -> bool:
    """Expects `weight` to be one matrix of 1 to 2^26 rows, as long as `x`'s."""
    return (
        weight.ne[0] == x.ne[0]
        and is_one(weight.ne[2])
        and is_one(weight.ne[3])
        and known(weight.ne[1])
        and 1 <= weight.ne[1] <= 2**26
    )


@op(
    73,
    inputs={"x": "f32 cont", "weight": "float cont", "bias": "f32? cont"},
    result="DType.F32, (weight.ne[1], x.ne[1], x.ne[2], x.ne[3])",
    checks=("is_layer(x, weight)", "is_bias(bias, weight.ne[1])"),
    work="count(x.ne) * weight.ne[1]",
    call="self.linear(x, weight, bias, epilogue)",
    kernel="conv_2d",
)
def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, epilogue: Epilogue) -> torch.Tensor:
    """``x @ weight.T + bias``, computed in f32 (custom): a layer with one matrix. ``bias`` has a number a row of it."""
    flat = None if bias is None else bias.reshape(-1)
    return activate(F.linear(x, weight.float()[0, 0], flat), epilogue)


@op(
    71,
    inputs={"q": "f32 rows", "k": "f32|f16|bf16|q8_0 rows", "v": "f32|f16|bf16|q8_0 rows", "mask": "f16? cont"},
    result="DType.F32, (v.ne[0], q.ne[2], q.ne[1], q.ne[3])",
    checks=("attends(q, k, v)", "masks_scores(q, k, mask)", "attends_within_limits(q, v)"),
    work="q.ne[1] * q.ne[2] * q.ne[3] * k.ne[1] * (q.ne[0] + v.ne[0])",
    call="compositions::attention(self, q, k, v, mask, scale, logit_softcap)",
    kernel="attention",
)
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scale: float,
    logit_softcap: float,
) -> torch.Tensor:
    """``softmax(q k^T * scale + mask) v`` with heads moved inside the positions; one row of ``mask`` holds for all.

    ggml has ``ggml_flash_attn_ext`` for it; a device that lacks that for these types and sizes computes its products
    and the softmax (``compositions::attention``). With ``k`` and ``v`` of bf16 ``q`` is rounded to it, as by ggml, and
    so is e^(score - highest score), which multiplies ``v``.
    """
    in_bfloats = k.dtype == torch.bfloat16
    groups = q.shape[1] // max(k.shape[1], 1)
    k, v = (t.float().repeat_interleave(groups, 1) for t in (k, v))
    scores = (q.bfloat16().float() if in_bfloats else q) @ k.mT * scale
    if logit_softcap:
        scores = logit_softcap * torch.tanh(scores / logit_softcap)
    if mask is not None:
        scores = scores + mask[..., : q.shape[-2], :].float()
    weights = softmax_of_bfloats(scores) if in_bfloats else torch.softmax(scores, -1)
    if mask is not None:
        hidden = (scores == float("-inf")).all(-1, keepdim=True)
        weights = weights.masked_fill(hidden, 0.0)  # a fully masked row is 0, as in ggml
    return (weights @ v).transpose(1, 2)


def softmax_of_bfloats(scores: torch.Tensor) -> torch.Tensor:
    """The softmax of rows, whose numerators alone are rounded to bf16."""
    if scores.shape[-1] == 0:
        return scores
    numerators = torch.exp(scores - scores.amax(-1, keepdim=True))
    return numerators.bfloat16().float() / numerators.sum(-1, keepdim=True)


@op(
    72,
    inputs={"a": "float|quantized cont", "b": "f32 cont", "ids": "i32 cont"},
    result="DType.F32, (a.ne[1], ids.ne[0], ids.ne[1], 1)",
    checks=("multiplies_chosen(a, b, ids)", "is_below(ids, a.ne[2])"),
    work="count(result.ne) * a.ne[0]",
)
def mul_mat_id(a: torch.Tensor, b: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """``a[ids[t, j]] @ b[t, j]`` for each of a token's choices of matrices (``ggml_mul_mat_id``).

    ``b`` has a row for each choice, or one row for all of a token's. ``ids`` must come from ``to_index``.
    """
    chosen = a[0][ids[0, 0].long()].float()
    rows = b[0].to(a.dtype).float().expand(-1, ids.shape[-1], -1)
    return (chosen @ rows.unsqueeze(-1)).squeeze(-1).unsqueeze(0)
