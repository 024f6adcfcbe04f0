from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, having, inf, ints, nan, op, rand

aten = torch.ops.aten

MAX, MAX_INDICES = aten.max_pool2d.default, aten.max_pool2d_with_indices.default
MAX_3D = aten.max_pool3d_with_indices.default
AVERAGE, AVERAGE_1D, AVERAGE_3D = aten.avg_pool2d.default, aten.avg_pool1d.default, aten.avg_pool3d.default
ADAPTIVE, ADAPTIVE_3D = aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default
ADAPTIVE_MAX_1D, ADAPTIVE_MAX = aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default
ADAPTIVE_MAX_3D = aten.adaptive_max_pool3d.default


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
        op(MAX, x.half(), [2, 2]),
        op(AVERAGE, x.bfloat16(), [3, 3], [2, 2]),
        having(op(AVERAGE, x.double(), [2, 2]), refused="f64"),
        having(op(MAX, ints(1, 1, 4, 4), [2, 2]), refused="i64"),
        op(AVERAGE_1D, rand(2, 3, 11), [3], [2], [1], True, False),
        op(AVERAGE_1D, rand(3, 11), [4]),
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
        op(ADAPTIVE, rand(2, 5, 7, 7), [3, 3]),
        op(ADAPTIVE, rand(2, 5, 7, 7), [14, 10]),
        op(ADAPTIVE, rand(2, 5, 8, 8).half(), [1, 1]),
        op(ADAPTIVE, rand(2, 5, 8, 8).half(), [3, 1]),
        having(op(ADAPTIVE, rand(2, 5, 8, 8).double(), [1, 1]), refused="f64"),
        op(ADAPTIVE_MAX_1D, rand(2, 5, 11), [4]),
        op(ADAPTIVE_MAX_1D, rand(5, 11), [13]),
        op(ADAPTIVE_MAX, rand(2, 5, 8, 12).half(), [4, 5]),
    ]


def _volumes() -> list[Case]:
    windows: list[tuple[Any, ...]] = [
        ([2, 2, 2],),
        ([3], [2], [1]),
        ([3, 2, 1], [1, 2, 1], [1, 0, 0]),
        ([1, 3, 2], [1, 1, 1]),
        ([2, 1, 1], [1, 1, 1]),
        ([3, 3, 3], [2, 2, 2], [1, 1, 1], True),
    ]
    cases = []
    for x in (rand(2, 5, 5, 6, 7), rand(1, 3, 4, 5, 6), rand(5, 5, 6, 7)):
        for window in windows:
            cases.append(op(AVERAGE_3D, x, *window))
            dilated = (*window[:3], [1], True) if len(window) == 4 else window
            cases.append(op(MAX_3D, x, *dilated))
        cases += [
            op(AVERAGE_3D, x, [3, 3, 3], [2, 2, 2], [1, 1, 1], True, False),
            op(AVERAGE_3D, x, [3, 3, 3], [2, 1, 2], [1, 1, 0], False, True, 7),
            op(AVERAGE_3D, x, [1, 2, 2], [1, 2, 2], [0, 0, 0], False, True, 3),
            op(MAX_3D, x, [2, 3, 2], [1, 1, 2], [1, 1, 1], [2, 1, 2]),
        ]
        cases += [op(ADAPTIVE_3D, x, [a, 3, 4]) for a in (1, 2, 5, 7)]
        cases += [op(ADAPTIVE_MAX_3D, x, [a, 3, 1]) for a in (1, 2, 5, 7)]
    return cases


def _places() -> list[Case]:
    few = ints(2, 5, 9, 11).float()  # with many equals
    special = few.clone()
    special[:, :, ::3, ::2], special[:, 1], special[0, 2] = nan, -inf, nan
    cases: list[Case] = []
    for x in (rand(2, 5, 9, 11), rand(5, 9, 11), few, special, rand(1, 70, 3, 3)):
        cases += [
            having(op(MAX_INDICES, x, [2, 2]), name=f"{len(cases)}-2x2"),
            having(op(MAX_INDICES, x, [3, 2], [2, 1], [1, 1], [1, 1], True), name=f"{len(cases)}-3x2"),
            having(op(ADAPTIVE_MAX, x, [4, 3]), name=f"{len(cases)}-adaptive"),
        ]
    return [*cases, having(op(MAX_3D, special, [2, 2, 2], [1, 1, 1], [1, 1, 1]), name="special")]


def _symbolic() -> list[Case]:
    sizes = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC},)
    others = ((rand(1, 4, 12, 9),), (rand(5, 4, 7, 30),))
    x = rand(2, 4, 8, 10)
    flat = [
        having(op(MAX, x, [3, 3], [2, 2], [1, 1]), name="symbolic"),
        having(op(AVERAGE, x, [3, 3], [2, 2], [1, 1]), name="symbolic"),
        having(op(MAX, x, [2, 2], [2, 2], [0, 0], [1, 1], True), name="symbolic-ceil"),
        having(op(MAX_INDICES, x, [3, 3], [2, 2], [1, 1], [1, 1], True), name="symbolic-ceil"),
        having(op(ADAPTIVE, x, [1, 1]), name="symbolic-1"),
        having(op(ADAPTIVE, x, [3, 7]), name="symbolic-3"),
        having(op(ADAPTIVE_MAX, x, [3, 7]), name="symbolic-3"),
    ]
    volumes = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC, 4: DYNAMIC},)
    deep = [
        having(op(MAX_3D, rand(2, 4, 5, 6, 7), [3, 3, 3], [2, 2, 2], [1, 1, 1]), name="symbolic"),
        having(op(AVERAGE_3D, rand(2, 4, 5, 6, 7), [4, 3, 3], [2, 2, 2], [1, 1, 1], True), name="symbolic"),
        having(op(ADAPTIVE_3D, rand(2, 4, 5, 6, 7), [2, 4, 7]), name="symbolic"),
        having(op(ADAPTIVE_MAX_3D, rand(2, 4, 5, 6, 7), [2, 4, 7]), name="symbolic"),
    ]
    deeper = ((rand(1, 4, 6, 5, 9),), (rand(3, 4, 9, 8, 4),))
    outside = having(op(AVERAGE, x, [2, 2], [2, 2], [1, 1], True), dynamic=sizes, refused="traced for some sizes")
    return [
        outside,
        *(having(case, dynamic=sizes, others=others) for case in flat),
        *(having(case, dynamic=volumes, others=deeper) for case in deep),
    ]


CASES = _windows() + _adaptive() + _volumes() + _places() + _symbolic()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)
