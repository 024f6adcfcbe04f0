"""Matrix products and attention: sums are in f32, and operands in the types that ggml rounds them to."""

from __future__ import annotations

import mlx.core as mx

from ....ir.dtypes import DType
from ....ir.graph import Node, Value
from ..quantized import Packed
from ..registry import MLX_TYPES, Function, in_range, planned, shape_of
from .normalization import repeated


def _as_f32(a: mx.array, node: Node) -> mx.array:
    return a.astype(mx.float32)


def _rounded(b: mx.array, dtype: DType) -> mx.array:
    """As a half type has it, in f32."""
    if dtype in (DType.F16, DType.BF16):
        b = b.astype(MLX_TYPES[dtype])
    return b.astype(mx.float32)


def _is_one(matrices: Value) -> bool:
    return matrices.ne[2:] == (1, 1)


def _operand(a: mx.array, node: Node) -> mx.array:
    """The matrices in f32; one alone as the second factor that it is."""
    matrices = node.inputs[0]
    assert matrices is not None
    a = a.astype(mx.float32)
    return a[0, 0].T if _is_one(matrices) else a


@planned(prepare={0: _operand}, packed=(0,))
def mul_mat(node: Node) -> Function:
    """``b @ a.T`` per matrix, ``a`` repeated over ``b``'s batch dims in blocks."""
    first, second = node.inputs
    assert first is not None
    assert second is not None
    dtype = first.dtype
    (outer, heads, rows, width), (a_outer, a_heads, columns, _) = shape_of(second), shape_of(first)

    def one(a: mx.array | Packed, b: mx.array) -> mx.array:
        b = _rounded(b, dtype)
        if isinstance(a, Packed):
            weight, scales, biases, bits, group = a.matrix()
            return mx.quantized_matmul(b, weight, scales, biases, transpose=True, group_size=group, bits=bits)
        return b @ a

    def many(a: mx.array | Packed, b: mx.array) -> mx.array:
        if isinstance(a, Packed):
            a = a.dequantized(*a[:3])
        b = _rounded(b, dtype)
        if (a_outer, a_heads) == (outer, heads):
            return b @ a.swapaxes(-1, -2)
        b = b.reshape(a_outer, outer // a_outer, a_heads, heads // a_heads * rows, width)
        return (b @ a[:, None].swapaxes(-1, -2)).reshape(outer, heads, rows, columns)

    return one if _is_one(first) else many


@planned(prepare={0: _as_f32}, packed=(0,), checks=True)
def mul_mat_id(node: Node) -> Function:
    """A token's rows by each of its choices of matrices."""
    matrices = node.inputs[0]
    assert matrices is not None
    dtype = matrices.dtype

    def chosen(a: mx.array | Packed, b: mx.array, ids: mx.array) -> mx.array:
        tokens, choices = ids.shape[-2:]
        rows = mx.broadcast_to(_rounded(b[0], dtype), (tokens, choices, b.shape[-1]))[:, :, None]
        if isinstance(a, Packed):
            weight, scales, biases, bits, group = a.stack()
            index = in_range(ids[0, 0], weight.shape[0], wrap=False).astype(mx.uint32)
            y = mx.gather_qmm(
                rows, weight, scales, biases, rhs_indices=index, transpose=True, group_size=group, bits=bits
            )
        else:
            index = in_range(ids[0, 0], a.shape[1], wrap=False).astype(mx.uint32)
            y = mx.gather_mm(rows, a[0].swapaxes(-1, -2), rhs_indices=index)
        return y.reshape(1, tokens, choices, -1)

    return chosen


@planned()
def attention(node: Node) -> Function:
    """``softmax(q k^T * scale + mask) v``, heads inside the positions; 0 for a row that is hidden whole."""
    scale, softcap = node.attrs["scale"], node.attrs["logit_softcap"]
    query, keys = node.inputs[:2]
    assert query is not None
    assert keys is not None
    outer, heads, rows, _ = shape_of(query)

    in_bfloats = keys.dtype == DType.BF16

    def softmax(scores: mx.array) -> mx.array:
        if not in_bfloats:
            return mx.softmax(scores, axis=-1)
        numerators = mx.exp(scores - mx.max(scores, axis=-1, keepdims=True))
        return _rounded(numerators, DType.BF16) / mx.sum(numerators, axis=-1, keepdims=True)

    def computed(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None) -> mx.array:
        groups = heads // k.shape[1]
        q = q.reshape(outer, k.shape[1], groups, rows, -1)
        scores = (q @ k[:, :, None].swapaxes(-1, -2)).reshape(outer, heads, rows, -1) * scale
        if softcap:
            scores = softcap * mx.tanh(scores / softcap)
        weights = softmax(scores if mask is None else scores + mask)
        weights = weights.reshape(outer, k.shape[1], groups, rows, -1)
        return (weights @ v[:, :, None]).reshape(outer, heads, rows, -1)

    def attend(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | None) -> mx.array:
        q = _rounded(q, DType.BF16) if in_bfloats else q
        k, v = k.astype(mx.float32), v.astype(mx.float32)
        mask = None if mask is None else repeated(mask, (outer, heads, rows, 0))
        fused = mx.fast.scaled_dot_product_attention
        y = computed(q, k, v, mask) if softcap or in_bfloats else fused(q, k, v, scale=scale, mask=mask)
        if mask is not None:
            y = mx.where(mx.all(mask == -mx.inf, axis=-1, keepdims=True), 0.0, y)
        return y.swapaxes(1, 2)

    return attend
