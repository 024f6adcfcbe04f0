"""Row normalizations and softmax, along the innermost dim."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np

from ....ir.graph import Node
from ..registry import Function, direct, planned, shape_of


@direct()
def norm(a: mx.array, weight: mx.array | None, bias: mx.array | None, *, eps: float) -> mx.array:
    """Each row minus its mean over its standard deviation, ``* weight + bias``."""
    return mx.fast.layer_norm(a, _flat(weight), _flat(bias), eps)


@direct()
def rms_norm(a: mx.array, weight: mx.array | None, *, eps: float) -> mx.array:
    """Each row over its root mean square, ``* weight``."""
    return mx.fast.rms_norm(a, _flat(weight), eps)


def _flat(row: mx.array | None) -> mx.array | None:
    return None if row is None else row.reshape(-1)


def alibi_slopes(heads: int, max_bias: float) -> list[float]:
    """ALiBi's factor of each head's mask, as ggml has it."""
    if max_bias <= 0:
        return [1.0] * heads
    power = 1 << int(math.log2(heads))
    base, half = 2 ** (-max_bias / power), 2 ** (-max_bias / 2 / power)
    return [base ** (h + 1) if h < power else half ** (2 * (h - power) + 1) for h in range(heads)]


def repeated(mask: mx.array, shape: tuple[int, ...]) -> mx.array:
    """A mask in f32 for all rows of scores, its batch dims repeated in turn where broadcasting does not do it."""
    outer, heads, rows, _ = shape
    mask = mask[..., :rows, :].astype(mx.float32)
    if mask.shape[1] in (1, heads) and mask.shape[0] in (1, outer):
        return mask
    return mx.tile(mask, (outer // mask.shape[0], heads // mask.shape[1], 1, 1))


@planned()
def soft_max_ext(node: Node) -> Function:
    """Row softmax of ``a * scale + mask``, the mask times ALiBi's slopes where there is a ``max_bias``."""
    scale, max_bias = node.attrs["scale"], node.attrs["max_bias"]
    shape = shape_of(node.output)
    slopes = mx.array(np.array(alibi_slopes(shape[1], max_bias), dtype=np.float32).reshape(-1, 1, 1))

    def softmax(a: mx.array, mask: mx.array | None) -> mx.array:
        scores = a * scale if scale != 1.0 else a
        if mask is not None:
            mask = repeated(mask, shape)
            scores = scores + (mask * slopes if max_bias > 0 else mask)
        return mx.softmax(scores, axis=-1)

    return softmax


@planned()
def diag_mask_inf(node: Node) -> Function:
    """-inf above the diagonal shifted right by ``n_past``."""
    rows, columns = shape_of(node.output)[2:]
    above = mx.array(np.triu(np.ones((rows, columns), dtype=np.bool_), 1 + node.attrs["n_past"]))
    return lambda a: mx.where(above, -mx.inf, a)


@direct()
def sum_rows(a: mx.array) -> mx.array:
    """Sum of each row."""
    return mx.sum(a, axis=-1, keepdims=True)


@direct()
def mean(a: mx.array) -> mx.array:
    """Mean of each row."""
    return mx.sum(a, axis=-1, keepdims=True) / a.shape[-1]


@direct()
def cumsum(a: mx.array) -> mx.array:
    """Running sum along each row."""
    return mx.cumsum(a, axis=-1)
