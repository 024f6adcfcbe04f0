"""Softmax, attention and rotary embeddings."""

from __future__ import annotations

import math

import numpy as np

from ....ir.dtypes import DType
from ....ir.graph import Value
from ....ir.ops.custom import BinaryKind, ReduceKind
from ..translate import Node, tile, translates
from ..words import UnsupportedError

_NEOX, _MROPE, _VISION, _IMROPE = 2, 8, 24, 40


@translates("SOFT_MAX")
def soft_max(n: Node) -> Value:
    """Of rows, with a mask (which ALiBi scales by head) and sinks."""
    sinks = n.f32(2) if n.has(2) else None
    return _soft_max(n, n.f32(0), n.f32(1) if n.has(1) else None, sinks, n.f32_param(0), n.f32_param(1))


def _soft_max(n: Node, a: Value, mask: Value | None, sinks: Value | None, scale: float, max_bias: float) -> Value:
    if mask is not None:
        mask = n.b.view(mask, (0, 0, 0, 0), (mask.ne[0], a.ne[1], *mask.ne[2:]))
        if max_bias > 0.0:
            slopes = n.constant(np.array(_slopes(a.ne[2], max_bias)).reshape(-1, 1, 1))
            heads = tile(n.b, mask, (*mask.ne[:2], a.ne[2], mask.ne[3]))
            mask = n.emit("mul", heads, slopes)
        if any(size not in (1, whole) for size, whole in zip(mask.ne[2:], a.ne[2:], strict=True)):
            mask = tile(n.b, mask, a.ne)
    if sinks is None and (mask is None or mask.ne[2:] == (1, 1)):
        return n.emit("soft_max_ext", a, mask, scale=scale, max_bias=0.0)
    if scale != 1.0:
        a = n.emit("scale_bias", a, s=scale, b=0.0)
    if mask is not None:
        a = n.emit("add", a, mask)
    if sinks is None:
        return n.emit("soft_max_ext", a, None, scale=1.0, max_bias=0.0)
    sink = n.b.broadcast(n.b.reshape(sinks, (1, 1, a.ne[2], 1)), (1, *a.ne[1:]))
    whole = n.emit("soft_max_ext", n.emit("concat", a, sink, dim=0), None, scale=1.0, max_bias=0.0)
    return n.b.view(whole, (0, 0, 0, 0), a.ne)


def _slopes(heads: int, max_bias: float) -> list[float]:
    """ALiBi's, by head."""
    power = 1 << int(math.log2(heads))
    first, second = 2.0 ** (-max_bias / power), 2.0 ** (-max_bias / 2.0 / power)
    return [first ** (h + 1) if h < power else second ** (2 * (h - power) + 1) for h in range(heads)]


@translates("FLASH_ATTN_EXT")
def flash_attn_ext(n: Node) -> Value:
    """Attention in one op; with ALiBi, sinks or other types in several."""
    q, k, v = n.f32(0), n.plain(1), n.plain(2)
    mask = n.plain(3) if n.has(3) else None
    scale, max_bias, softcap = n.f32_param(0), n.f32_param(1), n.f32_param(2)
    known = k.dtype == v.dtype and k.dtype in (DType.F32, DType.F16, DType.BF16)
    simple_mask = mask is None or (mask.dtype == DType.F16 and mask.ne[2:] == (1, 1))
    if known and simple_mask and max_bias == 0.0 and not n.has(4):
        return n.emit("attention", q, k, v, mask, scale=scale, logit_softcap=softcap)
    scores = n.emit("mul_mat", n.b.convert(k, DType.F32), q)
    if softcap:
        bent = n.emit("tanh", n.emit("scale_bias", scores, s=scale / softcap, b=0.0))
        scores = n.emit("scale_bias", bent, s=softcap, b=0.0)
        scale = 1.0
    weights = _soft_max(
        n,
        scores,
        None if mask is None else n.b.convert(mask, DType.F32),
        n.f32(4) if n.has(4) else None,
        scale,
        max_bias,
    )
    if mask is not None and not n.has(4):
        weights = _zero_where_hidden(n, weights, mask)
    values = n.b.cont(n.b.transpose(n.b.convert(v, DType.F32)))
    return n.b.permute(n.emit("mul_mat", values, weights), (0, 2, 1, 3))


def _zero_where_hidden(n: Node, weights: Value, mask: Value) -> Value:
    """Rows of which the mask leaves nothing see nothing."""
    mask = n.b.convert(n.b.view(mask, (0, 0, 0, 0), (mask.ne[0], weights.ne[1], *mask.ne[2:])), DType.F32)
    nothing = n.emit("binary", mask, n.b.scalar(-math.inf, DType.F32), kind=BinaryKind.EQ)
    count = n.emit("reduce", n.b.convert(nothing, DType.F32), kind=ReduceKind.SUM, axes=(0,))
    hidden = n.emit("binary", count, n.b.scalar(float(mask.ne[0]), DType.F32), kind=BinaryKind.EQ)
    hidden = n.b.convert(tile(n.b, n.b.convert(hidden, DType.I32), (1, *weights.ne[1:])), DType.BOOL)
    return n.emit("select", hidden, n.b.scalar(0.0, DType.F32), weights)


@translates("ROPE")
def rope(n: Node) -> Value:
    """Rotary embeddings in all of ggml's modes, with factors of the frequencies and YaRN's corrections."""
    x, dims, mode = n.f32(0), n.i32(1), n.i32(2)
    if mode not in (0, _NEOX, _MROPE, _VISION, _IMROPE):
        raise UnsupportedError(f"rope mode {mode}")
    width = x.ne[0]
    turned = width if mode == _VISION else dims
    cos, sin = _cos_sin(n, turned // 2, mode)
    part = x if turned == width else n.b.view(x, (0, 0, 0, 0), (turned, *x.ne[1:]))
    made = n.emit("rotary", part, cos, sin, interleaved=mode == 0)
    if turned == width:
        return made
    rest = n.b.view(x, (turned, 0, 0, 0), (width - turned, *x.ne[1:]))
    return n.emit("concat", made, rest, dim=0)


def _cos_sin(n: Node, pairs: int, mode: int) -> tuple[Value, Value]:
    """Of the angles, ``[2 * pairs, 1, positions, 1]``, as the mode lays them out."""
    tokens = n.ne[2]
    position = n.b.convert(n.plain(1), DType.F32)
    dims = n.i32(1)
    base, freq_scale = n.f32_param(5), n.f32_param(6)
    ext_factor, attn_factor = n.f32_param(7), n.f32_param(8)
    index = np.arange(pairs)
    if mode in (_MROPE, _VISION, _IMROPE):
        theta = _sectioned(n, position, pairs, tokens, mode)
    else:
        frequency = base ** (-2.0 * index.astype(np.float64) / dims)
        rows = n.b.reshape(position, (1, 1, tokens, 1))
        wide = n.b.broadcast(rows, (pairs, 1, tokens, 1))
        theta = n.emit("mul", wide, n.constant(frequency))
    if n.has(2):
        factors = n.b.view(n.b.reshape(n.b.cont(n.f32(2)), (n.source(2).count,)), (0, 0, 0, 0), (pairs, 1, 1, 1))
        theta = n.emit("div", theta, factors)
    angle = n.emit("scale_bias", theta, s=freq_scale, b=0.0) if freq_scale != 1.0 else theta
    scale = attn_factor
    if ext_factor != 0.0:
        mix = n.constant(_ramp(index, n, dims, base) * ext_factor)
        angle = n.emit("add", angle, n.emit("mul", n.emit("sub", theta, angle), mix))
        scale *= 1.0 + 0.1 * math.log(1.0 / freq_scale)
    made = []
    for op in ("cos", "sin"):
        half = n.emit(op, angle)
        half = n.emit("scale_bias", half, s=scale, b=0.0) if scale != 1.0 else half
        if mode == 0:  # pairs of neighbours
            both = n.b.broadcast(n.b.reshape(half, (1, pairs, tokens, 1)), (2, pairs, tokens, 1))
            made.append(n.b.reshape(both, (2 * pairs, 1, tokens, 1)))
        else:
            made.append(n.emit("concat", half, half, dim=0))
    return made[0], made[1]


def _ramp(index: np.ndarray, n: Node, dims: int, base: float) -> np.ndarray:
    """Where YaRN extrapolates: 1 for the fast dims, 0 for the slow."""
    original, beta_fast, beta_slow = n.i32(4), n.f32_param(9), n.f32_param(10)

    def at(rotations: float) -> float:
        return dims * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(0.0, math.floor(at(beta_fast))), min(dims - 1.0, math.ceil(at(beta_slow)))
    place = (index - low) / max(0.001, high - low)
    return 1.0 - np.clip(place, 0.0, 1.0)


def _sectioned(n: Node, position: Value, pairs: int, tokens: int, mode: int) -> Value:
    """Angles by time, height, width and another axis: each pair takes the axis that its section says."""
    sections = [n.i32(11 + i) for i in range(4)]
    total, dims = sum(sections), n.i32(1)
    if total == 0:
        raise UnsupportedError("rope without sections")
    base = n.f32_param(5)
    axes, exponents = [], []
    for pair in range(pairs):
        sector = pair % total
        axis = _axis(sector, sections, mode)
        axes.append(axis)
        # Vision's axes each begin anew.
        exponents.append(sector - sum(sections[:axis]) if mode == _VISION else pair)
    frequency = base ** (-2.0 * np.array(exponents, dtype=np.float64) / dims)
    wide = n.b.reshape(n.b.cont(position), (1, tokens, 4, 1))
    picked = n.emit("take", n.b.permute(wide, (1, 2, 0, 3)), n.constant(np.array(axes), DType.I64), axis=0, wrap=False)
    theta = n.b.reshape(picked, (pairs, 1, tokens, 1))
    return n.emit("mul", theta, n.constant(frequency))


def _axis(sector: int, sections: list[int], mode: int) -> int:
    if mode == _IMROPE:
        for axis, third in ((1, 1), (2, 2), (0, 0)):
            if sector % 3 == third and sector < 3 * sections[axis]:
                return axis
        return 3
    ends = np.cumsum(sections)
    return int(np.searchsorted(ends, sector, side="right"))
