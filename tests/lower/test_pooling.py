from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from tests.helpers import DYNAMIC, Case, check_case, check_program, exported, having, inf, ints, nan, op, rand
from torch import Tensor

from executorch_ggml.lower import Lowering

aten = torch.ops.aten

MAX, MAX_INDICES = aten.max_pool2d.default, aten.max_pool2d_with_indices.default
AVERAGE, ADAPTIVE = aten.avg_pool2d.default, aten._adaptive_avg_pool2d.default
NEAREST, BILINEAR = aten.upsample_nearest2d.vec, aten.upsample_bilinear2d.vec


def _windows() -> list[Case]:
    x = rand(2, 5, 9, 11)
    windows: list[tuple[Any, ...]] = [
        ([2, 2],),
        ([3, 2], [2, 1]),
        ([3, 3], [2, 2], [1, 1]),
        ([2],),
        ([3], [2], [1]),
        ([9, 11],),
        ([1, 1],),
        ([2, 3], [3, 2], [1, 0]),
        ([3, 3], [2, 2], [1, 1]),
        ([4, 4], [3, 3], [2, 2]),
        ([2, 2], []),
    ]
    cases = [op(f, x, *w) for f in (MAX, AVERAGE) for w in windows]
    cases += [having(op(MAX_INDICES, x, *w), keep=(0,)) for w in windows[:4]]
    cases += [
        op(MAX, x, [3, 3], [2, 2], [1, 1], [2, 2]),
        op(MAX, x, [2, 2], [1, 1], [1, 1], [3, 4]),
        *(
            op(MAX, x, k, s, p, [1, 1], True)
            for k, s, p in (([2, 2], [2, 2], [0, 0]), ([3, 3], [2, 2], [1, 1]), ([2, 2], [3, 3], [1, 1]))
        ),
        *(
            op(AVERAGE, x, k, s, p, True)
            for k, s, p in (([2, 2], [2, 2], [0, 0]), ([3, 3], [2, 2], [1, 1]), ([2, 2], [3, 3], [1, 1]))
        ),
        *(
            op(AVERAGE, x, k, s, p, c, False)
            for k, s, p in (([3, 3], [2, 2], [1, 1]), ([2, 2], [3, 3], [1, 1]))
            for c in (False, True)
        ),
        op(AVERAGE, x, [3, 3], [2, 2], [1, 1], True, True, 5),
        op(AVERAGE, x, [2, 2], [2, 2], [0, 0], False, True, -3),
        having(op(MAX_INDICES, x, [2, 2]), keep=(0, 1), refused="indices"),
        having(op(MAX, x.half(), [2, 2]), refused="float32"),
        having(op(AVERAGE, x.double(), [2, 2]), refused="float32"),
        having(op(MAX, ints(1, 1, 4, 4), [2, 2]), refused="float32"),
        *(op(f, rand(3, 7, 8), [2, 3], [2, 2]) for f in (MAX, AVERAGE)),
        *(op(f, rand(1, 33, 6, 6), [2, 2], [2, 2]) for f in (MAX, AVERAGE)),
        *(op(f, rand(0, 3, 6, 6), [2, 2], [2, 2]) for f in (MAX, AVERAGE)),
    ]
    special = rand(1, 2, 4, 4)
    special[0, 0, 0, 0], special[0, 0, 2, 2], special[0, 1] = nan, inf, -inf
    cases += [having(op(f, special, [2, 2], [1, 1]), name="special") for f in (MAX, AVERAGE)]
    cases.append(having(op(MAX, special, [3, 3], [2, 2], [1, 1]), name="special-padded"))
    return cases


def _adaptive() -> list[Case]:
    return [
        op(ADAPTIVE, rand(2, 5, 8, 12), [1, 1]),
        op(ADAPTIVE, rand(2, 5, 8, 12), [4, 3]),
        op(ADAPTIVE, rand(2, 5, 8, 12), [8, 12]),
        op(ADAPTIVE, rand(5, 8, 12), [2, 2]),
        op(ADAPTIVE, rand(5, 7, 3), [1, 1]),
        having(op(ADAPTIVE, rand(2, 5, 7, 7), [3, 3]), refused="windows of different sizes"),
        having(op(ADAPTIVE, rand(2, 5, 7, 7), [14, 14]), refused="windows of different sizes"),
        having(op(ADAPTIVE, rand(2, 5, 8, 8).half(), [1, 1]), refused="float32"),
    ]


def _resizing() -> list[Case]:
    x = rand(2, 3, 5, 7)
    sizes = [[10, 14], [5, 7], [7, 5], [1, 1], [13, 3], [2, 20]]
    cases = [op(NEAREST, x, s, None) for s in sizes]
    cases += [having(op(BILINEAR, x, s, a, None), name=f"{s}-{a}") for s in sizes for a in (False, True)]
    cases += [op(NEAREST, x, None, s) for s in ([2.0, 2.0], [3.0, 1.0])]
    cases += [op(BILINEAR, x, None, a, s) for a in (False, True) for s in ([2.0, 2.0], [1.0, 4.0])]
    cases += [
        having(op(NEAREST, rand(1, 2, 4, 6), None, s), name=f"half{s}") for s in ([0.5, 0.5], [1.5, 1.5], [2.5, 0.5])
    ]
    cases += [
        having(op(BILINEAR, rand(1, 2, 4, 6), None, a, s), name=f"half{s}{a}")
        for s in ([0.5, 0.5], [1.5, 2.5])
        for a in (False, True)
    ]
    cases += [
        having(op(NEAREST, x, None, [1.3, 1.7]), refused="other pixels"),
        having(op(BILINEAR, x, None, False, [1.3, 1.7]), refused="do not say exactly"),
        having(op(NEAREST, x.half(), [10, 14], None), refused="float32"),
    ]
    return cases


def _symbolic() -> list[Case]:
    sizes = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC},)
    others = ((rand(1, 4, 12, 9),), (rand(5, 4, 7, 30),))
    x = rand(2, 4, 8, 10)
    return [
        having(op(MAX, x, [3, 3], [2, 2], [1, 1]), name="symbolic", dynamic=sizes, others=others),
        having(op(AVERAGE, x, [3, 3], [2, 2], [1, 1]), name="symbolic", dynamic=sizes, others=others),
        having(op(MAX, x, [2, 2], [2, 2], [0, 0], [1, 1], True), name="symbolic-ceil", dynamic=sizes, others=others),
        having(op(ADAPTIVE, x, [1, 1]), name="symbolic", dynamic=sizes, others=others),
        having(op(ADAPTIVE, x, [2, 2]), name="symbolic", dynamic=sizes, refused="symbolic"),
        having(op(NEAREST, x, None, [2.0, 2.0]), name="symbolic", dynamic=sizes, others=others),
        having(op(BILINEAR, x, None, False, [2.0, 2.0]), name="symbolic", dynamic=sizes, others=others),
        having(op(BILINEAR, x, None, True, [2.0, 2.0]), name="symbolic-corners", dynamic=sizes, others=others),
    ]


CASES = _windows() + _adaptive() + _resizing() + _symbolic()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("source", [3, 7, 28, 33])
def test_nearest_picks_the_same_pixels_between_many_sizes(source: int) -> None:
    """torch and ggml round the place of the source in their own ways: where they differ, the node is refused."""
    targets = [1, 2, 3, 5, 7, 9, 11, 14, 17, 22, 28, 31, 33, 41, 49, 57, 61, 64, 97, 127]
    x = torch.arange(float(source)).repeat(2, 1)[None, None].contiguous()

    def resized(sizes: list[int], a: Tensor) -> list[Tensor]:
        return [torch.nn.functional.interpolate(a, (2, n), mode="nearest") for n in sizes]

    program = exported(partial(resized, targets), (x,))
    lowering = Lowering(program)
    nodes = [node for node in program.graph.nodes if node.target == NEAREST]
    fitting = [n for n, node in zip(targets, nodes, strict=True) if lowering.refusal(node) is None]
    assert len(fitting) > len(targets) // 2
    check_program(partial(resized, fitting), x)
