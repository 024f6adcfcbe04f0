"""What cases are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..cases import EXACT, QUANTIZED, ROUNDED, Case
from ..ggml import BF16, F16, F32, Build, Graph, Tensor, element_size

Family = Callable[[], Iterator[Case]]
FAMILIES: dict[str, Family] = {}  # by ggml's name for the op

QUANTIZED_TYPES = {
    "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12, "q5_k": 13, "q6_k": 14,
    "iq2_xxs": 16, "iq2_xs": 17, "iq3_xxs": 18, "iq1_s": 19, "iq4_nl": 20, "iq3_s": 21, "iq2_s": 22, "iq4_xs": 23,
    "iq1_m": 29, "tq1_0": 34, "tq2_0": 35, "mxfp4": 39,
}  # fmt: skip
FLOATS = (F32, F16, BF16)
BASE = (F32, F16, 8, 2, 3, 12, 16)  # q8_0, q4_0, q4_1, q4_k, iq2_xxs
ALL = (*FLOATS, *QUANTIZED_TYPES.values())
NAMES = {0: "f32", 1: "f16", 30: "bf16", 24: "i8", 25: "i16", 26: "i32", 27: "i64"} | {
    number: name for name, number in QUANTIZED_TYPES.items()
}


def operators(*names: str) -> Callable[[Callable[..., Iterator[Case]]], Callable[..., Iterator[Case]]]:
    """Declare the decorated generator that of these ops; for several it is called with each one's name."""

    def add(function: Callable[..., Iterator[Case]]) -> Callable[..., Iterator[Case]]:
        for name in names:
            if name in FAMILIES:
                raise ValueError(f"{name} has cases already")
            FAMILIES[name] = function if len(names) == 1 else functools.partial(function, name)
        return function

    return add


def given(build: Callable[..., Tensor], *values: object) -> Build:
    """A case's graph, made of these values."""
    return lambda g: build(g, *values)


def within(type: int) -> float:
    """How far apart results of this type of operand may be."""
    return {F32: EXACT, F16: ROUNDED, BF16: 1e-2}.get(type, QUANTIZED if type in QUANTIZED_TYPES.values() else EXACT)


def tensor(g: Graph, type: int, ne: Sequence[int], *, view: bool = False, data: Any = None) -> Tensor:
    """A leaf; a quantized one is a weight. As a view it is a part of a larger one, with gaps in all dims."""
    sizes = [*ne, 1, 1, 1][:4]
    if not view:
        return g.leaf(type, *sizes, data=data, weight=type in QUANTIZED_TYPES.values())
    whole = [2 * sizes[0], 2 * sizes[1], sizes[2] + 1, sizes[3] + 1]
    numbers = None
    if data is not None:
        numbers = np.zeros(whole[::-1])
        numbers[: sizes[3], : sizes[2], : sizes[1], : sizes[0]] = np.asarray(data).reshape(sizes[::-1])
    return part(g, g.leaf(type, *whole, data=numbers), sizes)


def part(g: Graph, whole: Tensor, ne: Sequence[int], offset: int = 0) -> Tensor:
    """The first elements of each dim of a tensor."""
    strides = [element_size(whole.type)]
    for size in whole.ne[:3]:
        strides.append(strides[-1] * size)
    return g.op("view_4d", whole, *ne, *strides[1:], offset * strides[0])


def label(*parts: object) -> str:
    """A case's name."""
    return " ".join(str(each) for each in parts)
