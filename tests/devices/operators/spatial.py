"""Images and signals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ..cases import EXACT, ROUNDED, Case
from ..ggml import BF16, F16, F32, Graph, Tensor
from .family import NAMES, given, label, operators, tensor, within

AVERAGE, NAME = 1, {0: "max", 1: "avg"}


@operators("POOL_2D")
def pool_2d() -> Iterator[Case]:
    for kind, k0, k1, s0, s1, p0, p1 in product((1, 0), (1, 3), (1, 3), (1, 2), (1, 2), (0, 1), (0, 1)):
        if p0 < k0 and p1 < k1:
            how = (kind, k0, k1, s0, s1, float(p0), float(p1))
            yield Case(
                label(NAME[kind], *how[1:]),
                given(lambda g, how: g.op("pool_2d", tensor(g, F32, (10, 10, 3, 1)), *how), how),
            )


@operators("POOL_1D")
def pool_1d() -> Iterator[Case]:
    for kind, k, s, p, ne in product((1, 0), (1, 3), (1, 2), (0, 1), ((10, 3, 2, 1), (11, 1, 3, 2))):
        if p < k:
            yield Case(
                label(NAME[kind], k, s, p, ne),
                given(lambda g, how, ne: g.op("pool_1d", tensor(g, F32, ne), *how), (kind, k, s, p), ne),
            )


@operators("IM2COL")
def im2col() -> Iterator[Case]:
    def case(kernel: int, made: int, image: tuple[int, ...], window: tuple[int, ...], *how: int, flat: bool) -> Case:
        def build(g: Graph) -> Tensor:
            return g.op("im2col", tensor(g, kernel, window), tensor(g, F32, image), *how, flat, made)

        return Case(label(NAMES[kernel], NAMES[made], image, window, how), build, within(made))

    for kernel, made in ((F32, F32), (F16, F32), (F16, F16)):
        yield case(kernel, made, (300, 32, 1, 1), (3, 32, 12, 1), 1, 0, 1, 0, 1, 0, flat=False)
        yield case(kernel, made, (10, 10, 3, 10), (3, 3, 3, 1), 1, 1, 1, 1, 1, 1, flat=True)
    for s, p, d in product((1, 3), (0, 3), (1, 3)):
        yield case(F32, F32, (20, 2, 2, 1), (3, 2, 2, 1), s, 0, p, 0, d, 0, flat=False)
    for s0, s1, p0, p1, d0, d1 in product((1, 3), (1, 3), (0, 3), (0, 3), (1, 3), (1, 3)):
        yield case(F32, F32, (20, 20, 2, 2), (3, 3, 2, 2), s0, s1, p0, p1, d0, d1, flat=True)
    yield case(F16, F16, (12, 12, 2, 32), (3, 3, 2, 32), 1, 1, 1, 1, 1, 1, flat=True)
    yield case(F16, F16, (5, 5, 1, 32), (3, 4, 1, 32), 1, 1, 0, 0, 1, 1, flat=True)


@operators("IM2COL_3D")
def im2col_3d() -> Iterator[Case]:
    yield Case(
        "f32",
        lambda g: g.op(
            "im2col_3d", tensor(g, F32, (3, 3, 3, 3)), tensor(g, F32, (10, 9, 8, 3)), 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, F32
        ),
    )


@operators("CONV_2D")
def conv_2d() -> Iterator[Case]:
    for s0, p1, channels, filters, kh, kw, type in product(
        (1, 3), (2, 5), (1, 5), (1, 12), (1, 3), (2, 11), (F32, F16)
    ):
        for height, width in ((13, 41), (6, 13)):
            if (width + 10 - 2 * (kw - 1) - 1) // s0 < 0 or height + 2 * p1 - 4 * (kh - 1) - 1 < 0:
                continue

            def build(
                g: Graph,
                image: tuple[int, ...] = (width, height, channels, 2),
                kernel: tuple[int, ...] = (kw, kh, channels, filters),
                type: int = type,
                how: tuple[int, ...] = (s0, 5, 5, p1, 2, 4),
            ) -> Tensor:
                return g.op("conv_2d_direct", tensor(g, type, kernel), tensor(g, F32, image), *how)

            yield Case(label(NAMES[type], (width, height, channels), (kw, kh, filters), s0, p1), build, within(type))
    yield Case(
        "a weight",
        lambda g: g.op(
            "conv_2d_direct", g.leaf(F32, 3, 3, 16, 20, weight=True), tensor(g, F32, (16, 16, 16, 1)), 1, 1, 1, 1, 1, 1
        ),
    )


@operators("CONV_2D_DW")
def conv_2d_dw() -> Iterator[Case]:
    for image, kernel, how, inside in product(
        ((17, 34, 9, 1), (32, 8, 24, 1)), ((3, 3), (2, 5)), ((1, 0, 1), (2, 1, 1)), (False, True)
    ):

        def build(
            g: Graph,
            image: tuple[int, ...] = image,
            kernel: tuple[int, ...] = kernel,
            how: tuple[int, ...] = how,
            inside: bool = inside,
        ) -> Tensor:
            width, height, channels, images = image
            weights = tensor(g, F32, (*kernel, 1, channels))
            x = tensor(g, F32, image)
            if inside:  # channels inside the pixels, as the views that ggml knows it by
                x = g.op("permute", tensor(g, F32, (channels, width, height, images)), 2, 0, 1, 3)
                weights = g.op("permute", tensor(g, F32, (1, channels, *kernel)), 2, 3, 0, 1)
            stride, pad, step = how
            return g.op("conv_2d_dw_direct", weights, x, stride, stride, pad, pad, step, step)

        yield Case(label(image, kernel, how, "channels inside" if inside else ""), build)


@operators("CONV_3D")
def conv_3d() -> Iterator[Case]:
    for type in (F32, F16):
        yield Case(
            NAMES[type],
            given(
                lambda g, type: g.op(
                    "conv_3d_direct",
                    tensor(g, type, (3, 3, 3, 12)),
                    tensor(g, F32, (10, 11, 9, 3)),
                    *(1, 1, 1, 1, 1, 1, 1, 1, 1),
                    *(3, 1, 4),
                ),
                type,
            ),
            within(type),
        )


@operators("CONV_TRANSPOSE_1D")
def conv_transpose_1d() -> Iterator[Case]:
    for length, channels, size, filters, stride in product((1, 13), (1, 7), (1, 3), (1, 9), (1, 2, 3)):

        def build(
            g: Graph,
            image: tuple[int, ...] = (length, channels),
            kernel: tuple[int, ...] = (size, filters, channels),
            stride: int = stride,
        ) -> Tensor:
            return g.op("conv_transpose_1d", tensor(g, F32, kernel), tensor(g, F32, image), stride, 0, 1)

        yield Case(label((length, channels), (size, filters), stride), build)


@operators("CONV_TRANSPOSE_2D")
def conv_transpose_2d() -> Iterator[Case]:
    for type, (image, kernel, stride) in product(
        (F16, F32),
        (((3, 2, 3, 1), (2, 2, 1, 3), 1), ((10, 10, 9, 1), (3, 3, 1, 9), 2), ((13, 7, 5, 1), (3, 3, 8, 5), 1)),
    ):
        yield Case(
            label(NAMES[type], image, kernel, stride),
            given(
                lambda g, type, image, kernel, stride: g.op(
                    "conv_transpose_2d_p0", tensor(g, type, kernel), tensor(g, F32, image), stride
                ),
                type,
                image,
                kernel,
                stride,
            ),
            ROUNDED,
        )


@operators("COL2IM_1D")
def col2im_1d() -> Iterator[Case]:
    sizes = ((16, 32, 20, 8, 0), (4, 3, 7, 2, 0), (1, 5, 13, 1, 0), (6, 4, 11, 3, 1), (5, 4, 11, 2, 0), (4, 3, 1, 2, 0))
    for type, (size, filters, length, stride, pad) in product((F32, F16, BF16), sizes):
        yield Case(
            label(NAMES[type], size, filters, length, stride, pad),
            given(
                lambda g, type, ne, how: g.op("col2im_1d", tensor(g, type, ne), *how),
                type,
                (size * filters, length),
                (stride, filters, pad),
            ),
            max(within(type), EXACT),
        )


@operators("UPSCALE")
def upscale() -> Iterator[Case]:
    nearest, bilinear, bicubic, corners, antialias = 0, 1, 2, 256, 512
    for mode in (nearest, bilinear, bicubic, bilinear | antialias):
        for permuted in (False, True):

            def scaled(g: Graph, mode: int = mode, permuted: bool = permuted) -> Tensor:
                a = tensor(g, F32, (16, 12, 3, 2))
                return g.op("upscale", g.op("transpose", a) if permuted else a, 2, mode)

            yield Case(label("by 2", mode, "permuted" if permuted else ""), scaled)
    resized = [
        (nearest, 0),
        (bilinear, 0),
        (bicubic, 0),
        (bilinear, antialias),
        (bilinear, corners),
        (bicubic, corners),
    ]
    pairs = (((2, 5, 3, 2), (5, 7, 3, 2)), ((1, 4, 3, 2), (2, 8, 3, 2)), ((4, 1, 3, 2), (1, 1, 3, 2)))
    for (mode, flag), (small, large) in product(resized, pairs):
        for source, target in ((small, large), (large, small)):
            yield Case(
                label(mode | flag, source, target),
                given(
                    lambda g, mode, source, target: g.op(
                        "interpolate", tensor(g, F32, source, data=np.arange(np.prod(source)) * 7 % 11), *target, mode
                    ),
                    mode | flag,
                    source,
                    target,
                ),
            )
    for mode in (nearest, bilinear):
        yield Case(
            label(mode, "all dims"),
            given(lambda g, mode: g.op("interpolate", tensor(g, F32, (2, 5, 7, 11)), 5, 7, 11, 13, mode), mode),
        )
