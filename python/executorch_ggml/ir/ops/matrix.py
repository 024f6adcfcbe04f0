"""Matrix products and attention."""

from __future__ import annotations

from .._lazy import torch
from ..dtypes import DType
from ..op import Dim, Operand, Rule, op


def _product(a: Operand, b: Operand) -> tuple[DType, tuple[Dim, Dim, Dim, Dim]]:
    return DType.F32, (a.ne[1], b.ne[1], b.ne[2], b.ne[3])


@op(
    70,
    inputs={"a": "float|quantized rows", "b": "float rows"},
    result=Rule(_product, "multiplied({0}, {1})"),
    checks=("multiplies(a, b)", "f32_or_same_type(b, a)"),
    call="ggml_mul_mat(ctx, a, b)",
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


def _attended(q: Operand, k: Operand, v: Operand, mask: Operand | None, **_: float) -> tuple[DType, tuple[Dim, ...]]:
    return DType.F32, (v.ne[0], q.ne[2], q.ne[1], q.ne[3])


@op(
    71,
    inputs={"q": "f32 rows", "k": "f32|f16|q8_0 rows", "v": "f32|f16|q8_0 rows", "mask": "f16? cont"},
    result=Rule(_attended, "attended({0}, {2})"),
    checks=("attends(q, k, v, mask)",),
    call="ggml_flash_attn_ext(ctx, q, k, v, mask, scale, 0.0f, logit_softcap)",
    kernel="attention",
)
def flash_attn_ext(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scale: float,
    logit_softcap: float,
) -> torch.Tensor:
    """``softmax(q k^T * scale + mask) v`` with heads moved inside the positions (``ggml_flash_attn_ext``)."""
    groups = q.shape[1] // max(k.shape[1], 1)
    k, v = (t.float().repeat_interleave(groups, 1) for t in (k, v))
    scores = q @ k.mT * scale
    if logit_softcap:
        scores = logit_softcap * torch.tanh(scores / logit_softcap)
    if mask is None:
        return (torch.softmax(scores, -1) @ v).transpose(1, 2)
    scores = scores + mask[..., : q.shape[-2], :].float()
    hidden = (scores == float("-inf")).all(-1, keepdim=True)
    weights = torch.softmax(scores, -1).masked_fill(hidden, 0.0)  # ggml gives 0 for a row that is hidden whole
    return (weights @ v).transpose(1, 2)


def _chosen_product(a: Operand, b: Operand, ids: Operand) -> tuple[DType, tuple[Dim, Dim, Dim, Dim]]:
    return DType.F32, (a.ne[1], ids.ne[0], ids.ne[1], 1)


@op(
    72,
    inputs={"a": "float|quantized cont", "b": "f32 cont", "ids": "i32 cont"},
    result=_chosen_product,
    checks=("multiplies_chosen(a, b, ids)", "chooses(a, ids)"),
)
def mul_mat_id(a: torch.Tensor, b: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """``a[ids[t, j]] @ b[t, j]`` for each of a token's choices of matrices (``ggml_mul_mat_id``).

    ``b`` has a row for each choice, or one row for all of a token's. ``ids`` must come from ``to_index``.
    """
    chosen = a[0][ids[0, 0].long()].float()
    rows = b[0].to(a.dtype).float().expand(-1, ids.shape[-1], -1)
    return (chosen @ rows.unsqueeze(-1)).squeeze(-1).unsqueeze(0)
