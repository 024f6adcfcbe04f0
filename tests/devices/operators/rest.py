"""Recurrences, gradients and training; and graphs of several nodes that other devices fuse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ..cases import ROUNDED, Case
from ..ggml import F16, F32, I32, Graph, Tensor
from .family import NAMES, given, label, operators, tensor, within


@operators("SSM_CONV")
def ssm_conv() -> Iterator[Case]:
    for taps, tokens, sequences in product((3, 4, 9), (1, 5), (1, 4)):
        yield Case(
            label(taps, tokens, sequences),
            given(
                lambda g, ne, taps: g.op("ssm_conv", tensor(g, F32, ne), tensor(g, F32, (taps, 64))),
                (taps - 1 + tokens, 64, sequences),
                taps,
            ),
        )


@operators("SSM_SCAN")
def ssm_scan() -> Iterator[Case]:
    for state, width, heads, groups in ((16, 1, 64, 1), (128, 64, 4, 2)):

        def build(g: Graph, state: int = state, width: int = width, heads: int = heads, groups: int = groups) -> Tensor:
            tokens, sequences = 4, 2
            return g.op(
                "ssm_scan",
                tensor(g, F32, (state, width, heads, sequences)),
                tensor(g, F32, (width, heads, tokens, sequences)),
                tensor(g, F32, (heads, tokens, sequences)),
                tensor(g, F32, (state if width == 1 else 1, heads)),
                tensor(g, F32, (state, groups, tokens, sequences)),
                tensor(g, F32, (state, groups, tokens, sequences)),
                tensor(g, I32, (sequences,), data=range(sequences)),
                1,
            )

        yield Case(label(state, width, heads, groups), build)


@operators("RWKV_WKV6", "RWKV_WKV7", "GATED_LINEAR_ATTN")
def linear_attention(name: str) -> Iterator[Case]:
    heads, size, tokens = 4, 64, 6

    def build(g: Graph) -> Tensor:
        count = {"RWKV_WKV6": 3, "RWKV_WKV7": 6, "GATED_LINEAR_ATTN": 4}[name]
        given = [tensor(g, F32, (size, heads, tokens)) for _ in range(count)]
        if name == "RWKV_WKV6":
            given += [tensor(g, F32, (size, heads)), tensor(g, F32, (size, heads, tokens))]
        state = tensor(g, F32, (size * size * heads, 2))
        return g.op(name.lower(), *given, state, *((size**-0.5,) if name == "GATED_LINEAR_ATTN" else ()))

    yield Case(label(heads, size, tokens), build)


@operators("SILU_BACK", "RMS_NORM_BACK", "SOFT_MAX_BACK")
def gradient(name: str) -> Iterator[Case]:
    function = {"SOFT_MAX_BACK": "soft_max_ext_back"}.get(name, name.lower())
    tail = {"RMS_NORM_BACK": (1e-6,), "SOFT_MAX_BACK": (0.1, 0.0)}.get(name, ())
    for ne in ((64, 5, 4, 3), (65, 3, 1, 1)):
        yield Case(label(ne), given(lambda g, ne: g.op(function, *(tensor(g, F32, ne) for _ in range(2)), *tail), ne))


@operators("CROSS_ENTROPY_LOSS")
def loss() -> Iterator[Case]:
    for ne in ((10, 5, 4, 3), (3000, 1)):
        yield Case(
            label(ne),
            given(
                lambda g, ne: g.op(
                    "cross_entropy_loss", tensor(g, F32, ne), tensor(g, F32, ne, data=np.arange(np.prod(ne)) % 3 / 10)
                ),
                ne,
            ),
        )


@operators("CROSS_ENTROPY_LOSS_BACK")
def loss_back() -> Iterator[Case]:
    ne = (10, 5, 4, 3)
    yield Case(
        label(ne),
        lambda g: g.op("cross_entropy_loss_back", tensor(g, F32, (1,)), tensor(g, F32, ne), tensor(g, F32, ne)),
    )


@operators("OPT_STEP_SGD")
def sgd() -> Iterator[Case]:
    def build(g: Graph) -> Tensor:
        ne = (10, 5, 4, 3)
        return g.op("opt_step_sgd", _parameter(g, ne), tensor(g, F32, ne), tensor(g, F32, (2,), data=[1e-3, 1e-2]))

    yield Case("f32", build)


@operators("OPT_STEP_ADAMW")
def adamw() -> Iterator[Case]:
    def build(g: Graph) -> Tensor:
        ne = (10, 5, 4, 3)
        rest = [tensor(g, F32, ne, data=np.arange(600) % 7 / 8) for _ in range(3)]
        values = tensor(g, F32, (7,), data=[1e-3, 0.9, 0.99, 1e-8, 1e-2, 0.5, 0.5])
        return g.op("opt_step_adamw", _parameter(g, ne), *rest, values)

    yield Case("f32", build)


def _parameter(g: Graph, ne: tuple[int, ...]) -> Tensor:
    from ..ggml import call

    made = tensor(g, F32, ne)
    call("ggml_set_param", made, result=None)
    return made


@operators("WIN_PART")
def windows() -> Iterator[Case]:
    yield Case("f32", lambda g: g.op("win_part", tensor(g, F32, (8, 9, 7, 1)), 4))


@operators("(experts)")
def experts() -> Iterator[Case]:
    """Which experts a token goes to, and with which weights."""
    for (count, tokens), used, normed in product(((8, 22), (31, 5)), (2, 4), (False, True)):

        def build(
            g: Graph, count: int = count, tokens: int = tokens, used: int = used, normed: bool = normed
        ) -> Tensor:
            data = np.random.default_rng(1).permutation(count * tokens) / 64
            probs = g.op("soft_max", tensor(g, F32, (count, tokens), data=data))
            chosen = g.op("argsort_top_k", probs, used)
            weights = g.op("get_rows", g.op("reshape_3d", probs, 1, count, tokens), chosen)
            weights = g.op("reshape_2d", weights, used, tokens)
            return g.op("div", weights, g.op("sum_rows", weights)) if normed else g.op("cont", weights)

        yield Case(label(count, tokens, used, "normed" if normed else ""), build)


@operators("(gated product)")
def gated_product() -> Iterator[Case]:
    for type, biased, name in product((F32, F16, 8, 2), (False, True), ("swiglu", "geglu")):

        def build(g: Graph, type: int = type, biased: bool = biased, name: str = name) -> Tensor:
            x = tensor(g, F32, (256, 1))
            gate, up = (g.op("mul_mat", tensor(g, type, (256, 32)), x) for _ in range(2))
            if biased:
                gate, up = (g.op("add", each, tensor(g, F32, (32,))) for each in (gate, up))
            return g.op(f"{name}_split", gate, up)

        yield Case(label(NAMES[type], "biased" if biased else "", name), build, 2 * max(within(type), ROUNDED))


@operators("(snake)")
def snake() -> Iterator[Case]:
    for type, ne in product((F32, F16), ((5, 7), (33, 32), (64, 32, 2, 3))):

        def build(g: Graph, type: int = type, ne: tuple[int, ...] = ne) -> Tensor:
            x = tensor(g, type, ne)
            turned = g.op("sin", g.op("mul", x, tensor(g, type, (1, ne[1]))))
            return g.op("add", x, g.op("mul", g.op("sqr", turned), tensor(g, type, (1, ne[1]))))

        yield Case(label(NAMES[type], ne), build, 2 * within(type))


@operators("(squared relu)")
def squared_relu() -> Iterator[Case]:
    for type in (F32, F16):
        yield Case(
            NAMES[type],
            given(lambda g, type: g.op("sqr", g.op("relu", tensor(g, type, (5, 7, 3, 2)))), type),
            within(type),
        )
