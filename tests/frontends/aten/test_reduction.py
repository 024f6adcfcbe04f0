from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given as with_examples
from hypothesis import strategies as st
from tests.batches import check_case
from tests.helpers import (
    DYNAMIC,
    TOLERANCE,
    Case,
    bools,
    check_program,
    having,
    inf,
    ints,
    nan,
    op,
    rand,
    special,
)
from torch import Tensor

aten = torch.ops.aten

F16, BF16, I32, I64 = torch.float16, torch.bfloat16, torch.int32, torch.int64

WITH_DIMS = [aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default]
WITH_DIM = [aten.prod.dim_int, aten.any.dim, aten.all.dim, aten.argmax.default, aten.argmin.default]
WHOLE = [
    aten.sum.default,
    aten.mean.default,
    aten.prod.default,
    aten.max.default,
    aten.min.default,
    aten.any.default,
    aten.all.default,
    aten.argmax.default,
    aten.argmin.default,
]
BOOLEAN = [aten.any.dims, aten.all.dims]


def _over_dims() -> list[Case]:
    x = rand(2, 3, 4, 5)
    dims: list[list[int]] = [[0], [-1], [1, 2], [-1, 0], [0, 1, 2, 3], [2], [3, 1]]
    cases = [op(f, x, d, keep) for f in WITH_DIMS + BOOLEAN for d in dims for keep in (False, True)]
    cases += [op(f, x, d, keep) for f in WITH_DIM for d in (0, 1, -1, -2) for keep in (False, True)]
    cases += [op(f, rand(7), 0) for f in WITH_DIM]
    cases += [op(f, rand(7), [0]) for f in WITH_DIMS]
    cases += [op(f, rand(), 0) for f in WITH_DIM if f != aten.prod.dim_int]
    cases += [op(f, rand(), [-1]) for f in WITH_DIMS]
    cases += [op(f, rand(3, 1, 2), [1]) for f in WITH_DIMS]
    cases += [having(op(f, rand(3, 4), []), name="no-dims") for f in WITH_DIMS]
    six = rand(2, 3, 2, 4, 2, 3)
    cases += [op(f, rand(2, 3, 2, 2, 3), d) for f in WITH_DIMS for d in ([0], [1, -1], [0, 2, 4])]
    cases += [op(f, six, d, True) for f in WITH_DIMS + BOOLEAN for d in ([0, 2, 4], [5, 3, 1])]
    cases += [op(f, six, d) for f in WITH_DIM for d in (0, 2, -1)]
    return cases


def _whole() -> list[Case]:
    cases = [op(f, rand(*shape)) for f in WHOLE for shape in ((), (1,), (5,), (3, 4), (2, 3, 4, 5), (33, 65))]
    whole = [f for f in WHOLE if f not in (aten.argmax.default, aten.argmin.default)]
    cases += [op(f, rand(2, 1, 3, 2, 1, 2)) for f in whole]
    cases += [op(f, rand(2, 3, 2, 2, 2)) for f in (aten.argmax.default, aten.argmin.default)]
    return cases


def _values() -> list[Case]:
    rows = torch.stack([special().roll(n)[:7] for n in range(19)])
    finite = special().clamp(-3, 3).nan_to_num(0.5).view(1, 19)
    cases = [having(op(f, rows, [1]), name="special") for f in WITH_DIMS + BOOLEAN]
    cases += [having(op(f, rows, 1), name="special") for f in WITH_DIM if f != aten.prod.dim_int]
    cases.append(
        having(
            op(aten.prod.dim_int, torch.tensor([[2.0, -3.0, 0.5], [inf, 2.0, 0.0], [1.0, nan, 3.0]]), 1), name="special"
        )
    )
    cases += [having(op(f, rows, [0]), name="special-columns") for f in WITH_DIMS]
    cases += [having(op(f, finite, 1), name="ties") for f in (aten.argmax.default, aten.argmin.default)]
    cases.append(having(op(aten.argmax.default, torch.tensor([[1.0, nan, 3.0], [-inf, -inf, -inf]]), 1), name="nan"))
    return cases


def _dtypes() -> list[Case]:
    cases: list[Case] = []
    for dtype in (F16, BF16, I32, I64, torch.int8, torch.uint8, torch.int16):
        x = rand(3, 5, dtype=dtype)
        whole = [f for f in WHOLE if f != aten.mean.default or dtype.is_floating_point]
        some = [f for f in WITH_DIMS if f != aten.mean.dim or dtype.is_floating_point]
        # Eager multiplies half types in themselves.
        rough = 0.02 if dtype in (F16, BF16) else TOLERANCE
        cases += [having(op(f, x), name=str(dtype), tolerance=rough) for f in whole]
        cases += [having(op(f, x, [0]), name=str(dtype)) for f in some + BOOLEAN]
        cases += [having(op(f, x, -1), name=str(dtype), tolerance=rough) for f in WITH_DIM]
    flags = bools(4, 5)
    cases += [having(op(f, flags), name="bool") for f in (aten.sum.default, aten.any.default, aten.all.default)]
    cases += [op(aten.prod.default, flags), op(aten.sum.dim_IntList, flags, [0]), op(aten.any.dim, flags, 1)]
    cases += [having(op(f, flags), name="bool") for f in (aten.max.default, aten.min.default)]
    cases += [having(op(f, flags, [1]), name="bool") for f in (aten.amax.default, aten.amin.default)]
    ends = torch.tensor([[-128, 127, 127], [3, -2, 100]], dtype=torch.int8)
    cases += [having(op(aten.sum.dim_IntList, ends, [1], dtype=d), name=f"i8-to-{d}") for d in (torch.int8, I32, I64)]
    cases += [having(op(aten.prod.dim_int, ends, 1, dtype=torch.int8), name="i8-to-i8")]
    cases += [having(op(aten.sum.default, flags, dtype=torch.bool), refused="bool")]
    cases += [
        having(op(aten.sum.dim_IntList, ints(3, 4), [1], dtype=torch.float32), name="to-float"),
        having(op(aten.sum.dim_IntList, rand(3, 4), [1], dtype=F16), name="to-half"),
        having(op(aten.mean.dim, ints(3, 4), [1], dtype=torch.float32), name="to-float"),
        having(op(aten.sum.default, ints(3, 4, dtype=I32), dtype=I32), name="i32"),
        *(op(aten.mean.dim, rand(3, 40), [d], dtype=torch.float64) for d in (0, 1)),
        op(aten.sum.default, rand(3, dtype=F16), dtype=torch.float64),
        having(op(aten.prod.dim_int, rand(3, 4), 1, dtype=F16), name="to-half"),
        having(op(aten.sum.default, torch.full((3000,), 1.0, dtype=F16)), name="accumulates-in-float"),
    ]
    return cases


def _empty() -> list[Case]:
    cases = [
        op(f, rand(0))
        for f in (aten.sum.default, aten.mean.default, aten.prod.default, aten.any.default, aten.all.default)
    ]
    cases += [op(f, rand(3, 0), [1]) for f in (aten.sum.dim_IntList, aten.mean.dim)]
    cases += [op(f, rand(0, 3), [1]) for f in WITH_DIMS]
    cases += [op(f, rand(3, 0), 1) for f in (aten.prod.dim_int, aten.any.dim, aten.all.dim)]
    return cases


def _variance() -> list[Case]:
    x = rand(2, 3, 4, 5) + 10
    cases = [op(aten.var.correction, x, d, correction=c) for d in ([2], [1, 3], [-1], None) for c in (None, 0, 2)]
    return [
        *cases,
        op(aten.var.correction, rand(5), [0], keepdim=True),
        op(aten.var.correction, rand(4, 6), [1], correction=1.5, keepdim=True),
        *(op(aten.var.correction, rand(3, 1), [1], correction=c) for c in (0, 1, 2)),
        *(op(aten.var.correction, rand(3, 4), [1], correction=c) for c in (4, 5, 3.5)),
        op(aten.var.correction, rand(3, 0), [1]),
        op(aten.var.correction, rand(), [0], correction=0),
        *(having(op(aten.var.correction, rand(3, 4, dtype=d), [1]), name=str(d)) for d in (F16, BF16)),
        *(op(aten.var.correction, rand(2, 3, 2, 2, 2), d) for d in ([1], [0, 2, 4], [-1], None)),
        op(aten.var.correction, rand(2, 3, 2, 2, 2, 3), [5, 3, 1], keepdim=True),
        *(op(aten.var.dim, x, d, u, k) for d in ([2], [1, 3], None) for u in (True, False) for k in (True, False)),
        *(op(aten.var_mean.correction, x, d, correction=c) for d in ([2], [1, 3], None) for c in (None, 0)),
        op(aten.var_mean.correction, rand(2, 3, 2, 2, 2, 3), [5, 3, 1], keepdim=True),
        having(op(aten.var.correction, rand(3).double(), [0]), refused="f64"),
    ]


def _symbolic() -> list[Case]:
    dynamic = ({0: DYNAMIC, 1: DYNAMIC},)
    others = ((rand(7, 2, 5),), (rand(1, 9, 5),))
    cases = [having(op(f, rand(3, 4, 5), [1]), dynamic=dynamic, others=others, name="symbolic") for f in WITH_DIMS]
    cases += [having(op(f, rand(3, 4, 5), 0), dynamic=dynamic, others=others, name="symbolic") for f in WITH_DIM]
    cases += [having(op(f, rand(3, 4, 5)), dynamic=dynamic, others=others, name="symbolic") for f in WHOLE]
    cases.append(having(op(aten.var.correction, rand(3, 4, 5), [2]), dynamic=dynamic, others=others, name="symbolic"))
    cases += [
        having(op(aten.var.correction, rand(3, 4, 5), d, correction=c), dynamic=dynamic, others=others, name="symbolic")
        for d in ([1], [0, 2], None)
        for c in (None, 0, 1.5)
    ]
    return cases


CASES = _over_dims() + _whole() + _values() + _dtypes() + _empty() + _variance() + _symbolic()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


def test_sum_of_int64_is_exact() -> None:
    x = torch.tensor([[2**53, 1, 1], [-(2**60), 3, 2**60]])
    check_program(lambda a: (a.sum(1), a.sum(), a.amax(1), a.argmax(1), a.prod(0)), x)


def test_float64_is_reduced_in_itself() -> None:
    x = rand(3, 20).double() / 3 + 1e8
    x[1, 3], x[2, 5] = nan, inf
    functions = (torch.sum, torch.mean, torch.amax, torch.amin, torch.argmax, torch.argmin)
    check_program(lambda a: [f(a, dim) for f in functions for dim in (0, 1)] + [a[0].prod()], x, tolerance=1e-15)


@with_examples(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.sets(st.integers(0, 5)),
    st.sampled_from(["sum", "mean", "amax", "amin"]),
    st.booleans(),
    st.booleans(),
)
def test_any_dims_property(shape: list[int], dims: set[int], name: str, keep: bool, permute: bool) -> None:
    axes = [d - (len(shape) if d % 2 else 0) for d in dims if d < len(shape)]

    def program(x: Tensor) -> Any:
        x = x.transpose(0, -1) if permute else x
        return getattr(x, name)(axes, keepdim=keep) if axes else getattr(torch, name)(x, (), keepdim=keep)

    check_program(program, rand(*shape))
