from __future__ import annotations

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, SPECIAL, Case, Const, bools, having, ints, nan, op, rand
from torch import Tensor

aten = torch.ops.aten

DTYPES = (
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
)


def distinct(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """No two elements equal, so that every place is the only right one."""
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    return (order if dtype == torch.uint8 else order - count // 2).reshape(shape).to(dtype)


LARGE = torch.tensor([2**40, -(2**40), 2**40 + 1, 2**62, -(2**62), 0, 7, 2**40 - 1])
TIES = torch.tensor([[3.0, 1.0, 3.0, 1.0, nan, 2.0, nan, 3.0], [0.0, -0.0, 0.0, -0.0, 1.0, 0.0, 1.0, -1.0]])


def _sorts() -> list[Case]:
    x = distinct(4, 5, 6)
    return [
        *(op(aten.sort.default, x, d, down) for d in (0, 1, -1) for down in (False, True)),
        *(op(aten.sort.stable, TIES, stable=True, dim=1, descending=down) for down in (False, True)),
        *(
            having(op(aten.sort.stable, torch.tensor(SPECIAL), stable=True, descending=down), name=f"special{down}")
            for down in (False, True)
        ),
        *(having(op(aten.sort.default, distinct(5, 7, dtype=d)), name=str(d)) for d in DTYPES),
        *(having(op(aten.sort.default, distinct(5, 7, dtype=d), 0, True), name=f"{d}-down") for d in DTYPES),
        having(op(aten.sort.stable, bools(3, 9), stable=True), name="bool"),
        having(op(aten.sort.stable, ints(3, 9), stable=True, descending=True), name="i64-ties"),
        having(op(aten.sort.default, LARGE), name="large"),
        op(aten.sort.default, distinct(2, 3, 4, 5), 1),
        op(aten.sort.default, distinct(2, 3, 2, 3, 2), 2),
        op(aten.sort.default, distinct(2, 1, 2, 3, 2, 2), -1),
        op(aten.sort.default, rand()),
        op(aten.sort.default, rand(1, 3), 0),
        op(aten.sort.default, rand(0, 3), 0),
        op(aten.sort.default, distinct(1000)),
        having(
            op(aten.sort.default, distinct(4, 6), 1),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC},),
            others=((distinct(3, 9),), (distinct(1, 1),)),
        ),
        having(op(aten.sort.default, rand(3).double()), name="f64", refused="float64"),
    ]


def repeated(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Four different numbers, so that most elements have equals."""
    return (ints(*shape) % 4).to(dtype)


def _topk() -> list[Case]:
    x = distinct(4, 5, 6)
    return [
        # Of equals torch takes neither the first nor the last ones: models pick their queries or experts by them.
        *(op(aten.topk.default, repeated(3, 84), k, -1, large) for k in (1, 10, 84) for large in (True, False)),
        *(having(op(aten.topk.default, repeated(2, 700, dtype=d), 10), name=f"{d}-ties") for d in DTYPES),
        having(op(aten.topk.default, repeated(3, 84), 30, -1, True, False), name="ties-unsorted"),
        op(aten.topk.default, TIES, 4, -1, True),
        op(aten.topk.default, TIES, 4, -1, False),
        *(op(aten.topk.default, x, 3, d, large) for d in (0, 1, -1) for large in (True, False)),
        op(aten.topk.default, x, 5, 1),
        op(aten.topk.default, x, 1),
        op(aten.topk.default, x, 0),
        op(aten.topk.default, distinct(2, 3, 2, 3, 2), 2, 1),
        op(aten.topk.default, distinct(3, 500), 40),
        having(op(aten.topk.default, LARGE, 3, -1, False), name="large"),
        having(op(aten.topk.default, torch.tensor([1.0, nan, 3.0, 2.0]), 2), name="nan"),
        *(having(op(aten.topk.default, distinct(5, 7, dtype=d), 3), name=str(d)) for d in DTYPES),
        having(
            op(aten.topk.default, distinct(4, 6), 2, 1),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC},),
            others=((distinct(3, 9),),),
        ),
    ]


def _extremes() -> list[Case]:
    cases = []
    for overload in (aten.max.dim, aten.min.dim):
        x = ints(4, 5, 6)
        cases += [op(overload, x, d, keep) for d in (0, 1, -1) for keep in (False, True)]
        cases += [
            op(overload, TIES, 1),
            op(overload, TIES, 0),
            op(overload, rand(2, 3, 2, 3, 2), 2),
            op(overload, rand(), 0),
            having(op(overload, LARGE, 0), name="large"),
            having(op(overload, bools(3, 9), 1), name="bool"),
            *(having(op(overload, rand(5, 7, dtype=d), 1), name=str(d)) for d in DTYPES),
            having(
                op(overload, rand(4, 6), 1),
                name="symbolic",
                dynamic=({0: DYNAMIC, 1: DYNAMIC},),
                others=((rand(3, 9),),),
            ),
            having(op(overload, rand(3).double(), 0), name="f64", refused="float64"),
        ]
    return cases


def _medians() -> list[Case]:
    holes = torch.tensor([[1.0, nan, 3.0, 0.5], [4.0, 5.0, nan, nan], [nan, nan, nan, nan], [7.0, 1.0, 2.0, 5.0]])
    cases = []
    for whole, along in ((aten.median.default, aten.median.dim), (aten.nanmedian.default, aten.nanmedian.dim)):
        x = distinct(4, 5, 6)
        cases += [op(along, x, d, keep) for d in (0, 1, -2) for keep in (False, True)]
        cases += [op(whole, distinct(*shape)) for shape in ((20,), (5, 9), (2, 3, 4, 5), (2, 2, 3, 2, 2), ())]
        cases += [
            having(op(whole, holes), name="nan"),
            having(op(along, holes, 0), name="nan-0", keep=(0,)),
            having(op(along, holes, 1), name="nan-1", keep=(0,)),
            *(having(op(along, distinct(5, 7, dtype=d), 1), name=str(d)) for d in DTYPES),
            *(having(op(whole, distinct(5, 7, dtype=d)), name=str(d)) for d in DTYPES),
            op(along, distinct(2, 3, 2, 3, 2), 1),
            op(along, rand(), 0),
            having(
                op(along, distinct(4, 6), 1),
                name="symbolic",
                dynamic=({0: DYNAMIC, 1: DYNAMIC},),
                others=((distinct(3, 9),), (distinct(5, 8),)),
            ),
            having(op(along, rand(3).double(), 0), name="f64", refused="float64"),
            having(op(whole, rand(3).double()), name="f64", refused="float64"),
        ]
    return cases


def _kth() -> list[Case]:
    x = distinct(4, 5, 6)
    return [
        *(op(aten.kthvalue.default, x, k, d) for d in (0, 1, -1) for k in (1, 3, 4)),
        op(aten.kthvalue.default, x, 2, 1, True),
        having(op(aten.kthvalue.default, rand(3).double(), 1), name="f64", refused="float64"),
    ]


EDGES = torch.tensor([-1.0, -0.5, 0.0, 0.0, 0.25, 1.0])


def _places() -> list[Case]:
    x = torch.tensor([[-2.0, -1.0, -0.5, -0.0], [0.0, 0.3, 1.0, nan], [5.0, -0.2, torch.inf, -torch.inf]])
    rows = distinct(3, 5).sort().values
    numbers = ints(2, 3, 4)
    order = torch.tensor([2, 0, 1])
    return [
        *(op(aten.bucketize.Tensor, x, Const(EDGES), right=right) for right in (False, True)),
        *(having(op(aten.bucketize.Tensor, x, EDGES, right=right), name=f"input-{right}") for right in (False, True)),
        *(
            having(op(aten.bucketize.Tensor, x.to(d), EDGES.to(d), out_int32=True), name=str(d))
            for d in (torch.float16, torch.bfloat16)
        ),
        *(
            having(op(aten.bucketize.Tensor, numbers.to(d), torch.arange(-3, 4, 2).to(d), right=True), name=str(d))
            for d in (torch.int8, torch.int16, torch.int32, torch.int64)
        ),
        having(op(aten.bucketize.Tensor, LARGE, LARGE.sort().values), name="large"),
        op(aten.bucketize.Tensor, rand(), EDGES),
        op(aten.bucketize.Tensor, rand(2, 1, 2, 3, 2), EDGES),
        op(aten.bucketize.Tensor, rand(3), torch.empty(0)),
        op(aten.bucketize.Scalar, 0.25, EDGES, right=True),
        having(op(aten.bucketize.Tensor, rand(3).double(), EDGES.double()), name="f64", refused="float64"),
        having(
            op(aten.bucketize.Tensor, rand(4, 6), EDGES),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC}, None),
            others=((rand(3, 9), EDGES),),
        ),
        op(aten.searchsorted.Tensor, EDGES, x),
        op(aten.searchsorted.Tensor, rows, rand(3, 4) * 8),
        op(aten.searchsorted.Tensor, rows, rows, right=True),
        op(aten.searchsorted.Tensor, distinct(2, 2, 2, 5).sort().values, rand(2, 2, 2, 3) * 20, side="right"),
        having(op(aten.searchsorted.Tensor, torch.tensor([0.5, 1.0, -1.0]), rand(4), sorter=order), name="sorter"),
        op(aten.searchsorted.Scalar, EDGES, 0.0, side="right"),
    ]


CASES = _sorts() + _topk() + _extremes() + _medians() + _kth() + _places()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)
