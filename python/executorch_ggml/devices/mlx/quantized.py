"""ggml's block types as MLX's affine quantization, bit for bit.

A weight is ``q * scale + bias``, q unsigned, with a scale and a bias for each 32 or more of a row. Types whose blocks
are that, with products that f32 holds exactly, keep their bits: only their order changes. Scales are f32, so that
nothing is rounded that ggml does not round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from ...ir.dtypes import DType

Bytes = np.ndarray[Any, Any]  # of uint8
Floats = np.ndarray[Any, Any]  # of f32
Parts = tuple[Bytes, Floats, Floats]


class Packed(NamedTuple):
    """Matrices in MLX's affine quantization: ``[..., rows, columns * bits / 32]`` of uint32, and a scale a group."""

    weight: mx.array
    scales: mx.array
    biases: mx.array
    bits: int
    group: int

    def matrix(self) -> Packed:
        """The one matrix, in two dims."""
        return self._replace(weight=self.weight[0, 0], scales=self.scales[0, 0], biases=self.biases[0, 0])

    def stack(self) -> Packed:
        """Matrices in three dims."""
        return self._replace(weight=self.weight[0], scales=self.scales[0], biases=self.biases[0])

    def dequantized(self, weight: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
        """Rows that were taken of the three, as f32."""
        return mx.dequantize(weight, scales, biases, group_size=self.group, bits=self.bits)


class _Format(NamedTuple):
    bits: int
    group: int
    split: Callable[[Bytes], Parts]  # blocks' bytes to q of each element, and the groups' scales and biases


def _half(blocks: Bytes, at: int) -> Floats:
    """The f16 at a byte of each block, as f32, in a column."""
    return blocks[:, at : at + 2].copy().view(np.float16).astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """The low halves of the bytes, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _fifth_bits(packed: Bytes) -> Bytes:
    """Bit i of four bytes, as 16 at element i."""
    return np.unpackbits(packed, axis=-1, bitorder="little") << 4


def _q4_0(blocks: Bytes) -> Parts:
    d = _half(blocks, 0)
    return _nibbles(blocks[:, 2:]), d, -8 * d


def _q4_1(blocks: Bytes) -> Parts:
    return _nibbles(blocks[:, 4:]), _half(blocks, 0), _half(blocks, 2)


def _q5_0(blocks: Bytes) -> Parts:
    d = _half(blocks, 0)
    return _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6]), d, -16 * d


def _q5_1(blocks: Bytes) -> Parts:
    return _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8]), _half(blocks, 0), _half(blocks, 2)


def _q8_0(blocks: Bytes) -> Parts:
    d = _half(blocks, 0)
    return blocks[:, 2:] ^ 128, d, -128 * d


def _k_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scales and biases of the eight groups of q4_k and q5_k: 6-bit multiples of two f16."""
    s = blocks[:, 4:16]
    low, high = s[:, :8] & 63, s[:, 8:]
    scale = np.concatenate([low[:, :4], (high & 15) | (s[:, :4] >> 6 << 4)], axis=1)
    least = np.concatenate([low[:, 4:], (high >> 4) | (s[:, 4:8] >> 6 << 4)], axis=1)
    return _half(blocks, 0) * scale, -(_half(blocks, 2) * least)


def _k_nibbles(packed: Bytes) -> Bytes:
    """Four times 32 bytes, each of two groups."""
    return _nibbles(packed.reshape(len(packed), 4, 32)).reshape(len(packed), 256)


def _q4_k(blocks: Bytes) -> Parts:
    return _k_nibbles(blocks[:, 16:]), *_k_scales(blocks)


def _q5_k(blocks: Bytes) -> Parts:
    fifth = np.unpackbits(blocks[:, 16:48, None], axis=-1, bitorder="little")  # 32 bytes, a bit of each a group
    high = fifth.transpose(0, 2, 1).reshape(len(blocks), 256) << 4
    return _k_nibbles(blocks[:, 48:]) | high, *_k_scales(blocks)


def _tq2_0(blocks: Bytes) -> Parts:
    two = blocks[:, :64].reshape(len(blocks), 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    d = np.repeat(_half(blocks, 64), 2, axis=1)
    return two.reshape(len(blocks), 256), d, -d


FORMATS: dict[DType, _Format] = {
    DType.Q4_0: _Format(4, 32, _q4_0),
    DType.Q4_1: _Format(4, 32, _q4_1),
    DType.Q5_0: _Format(5, 32, _q5_0),
    DType.Q5_1: _Format(5, 32, _q5_1),
    DType.Q8_0: _Format(8, 32, _q8_0),
    DType.Q4_K: _Format(4, 32, _q4_k),
    DType.Q5_K: _Format(5, 32, _q5_k),
    DType.TQ2_0: _Format(2, 128, _tq2_0),
}


def pack(data: Bytes, dtype: DType, shape: tuple[int, ...]) -> Packed | None:
    """A constant's bytes in MLX's form; None where the type has none, or a scale is not finite."""
    form = FORMATS.get(dtype)
    count = int(np.prod(shape))
    if form is None or count == 0:
        return None
    blocks = data.reshape(count // dtype.block, -1)
    with np.errstate(invalid="ignore", over="ignore"):
        q, scales, biases = form.split(blocks)
    if not (np.isfinite(scales).all() and np.isfinite(biases).all()):
        return None
    words = _words(q.reshape(-1, shape[-1]), form.bits).reshape(*shape[:-1], -1)
    groups = (*shape[:-1], shape[-1] // form.group)
    arrays = mx.array(words), mx.array(scales.reshape(groups)), mx.array(biases.reshape(groups))
    mx.eval(arrays)
    return Packed(*arrays, form.bits, form.group)


def _words(q: Bytes, bits: int) -> np.ndarray[Any, Any]:
    """Numbers of ``bits`` bits, the first lowest, in words of 32."""
    if bits == 8:
        return q.view(np.uint32)
    if bits == 4:
        pairs: Bytes = q[:, ::2] | q[:, 1::2] << 4
        return pairs.view(np.uint32)
    ones = np.unpackbits(q[..., None], axis=-1, count=bits, bitorder="little")
    return np.packbits(ones.reshape(len(q), -1), axis=-1, bitorder="little").view(np.uint32)
