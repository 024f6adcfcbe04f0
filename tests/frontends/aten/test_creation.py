from __future__ import annotations

import executorch.exir.passes.dim_order_ops_registry  # noqa: F401 - declares the dim_order_ops
import pytest
import torch
from tests.batches import check_case
from tests.helpers import (
    DYNAMIC,
    Case,
    assert_same,
    check_program,
    having,
    inf,
    ints,
    lowered,
    nan,
    op,
    rand,
    run_interpreter,
    run_session,
    session,
)
from torch import Tensor

aten = torch.ops.aten
dim_order_ops = torch.ops.dim_order_ops

F16, BF16, I32, I64 = torch.float16, torch.bfloat16, torch.int32, torch.int64
FILLS = [aten.zeros.default, aten.ones.default]
LIKE = [aten.zeros_like.default, aten.ones_like.default]
NEW = [aten.new_zeros.default, aten.new_ones.default]


def _fills() -> list[Case]:
    x = rand(2, 3)
    cases = [op(aten.full.default, [2, 3], v, dtype=torch.float32) for v in (1.5, -0.0, inf, nan, 3)]
    cases += [op(aten.full.default, [4], -7, dtype=d) for d in (I32, I64, F16, BF16, torch.int8)]
    cases += [
        op(aten.full.default, [2, 2], True, dtype=torch.bool),
        *(op(aten.full.default, [2], v, dtype=torch.bool) for v in (0.5, nan, 3, 0.0)),
        op(aten.full.default, [], 2.5),
        op(aten.full.default, [0, 3], 2.5),
        op(aten.full.default, [2, 1, 2, 1, 3], 2.5),
        op(aten.full.default, [3], 2**40, dtype=I64),
        op(aten.full_like.default, x, 0.1),
        op(aten.full_like.default, x, 7, dtype=I64),
        op(aten.scalar_tensor.default, 2.5),
        op(aten.scalar_tensor.default, 3, dtype=I64),
        op(aten.scalar_tensor.default, True, dtype=torch.bool),
        having(op(aten.full.default, [2], 1.0, dtype=torch.float64), refused="float64"),
        having(op(aten.zeros_like.default, x.double()), refused="float64"),
    ]
    cases += [op(f, [2, 3]) for f in FILLS] + [op(f, [3], dtype=d) for f in FILLS for d in (I64, torch.bool, F16)]
    cases += [op(f, x) for f in LIKE] + [op(f, x, dtype=I32) for f in LIKE]
    cases += [op(f, x, [4, 2]) for f in NEW] + [op(f, x, [3], dtype=torch.bool) for f in NEW]
    cases += [
        op(aten.new_full.default, x, [4, 2], 1.5),
        op(aten.new_full.default, x, [3], -2, dtype=I64),
        op(aten.fill.Scalar, x, 2.5),
        op(aten.fill.Scalar, ints(3, 4), 7),
        op(aten.fill.Tensor, x, torch.tensor(2.5)),
        op(aten.fill.Tensor, ints(3, 4), torch.tensor(7.9)),
        op(aten.copy.default, x, rand(3)),
        op(aten.copy.default, ints(2, 3, 2, 2, 2), rand(3, 1, 1, 2) * 9),
    ]
    # Nothing can be said of what empty tensors hold, unless they hold nothing.
    cases += [op(aten.empty.memory_format, [0, 3]), op(aten.empty_permuted.default, [2, 0], [1, 0])]
    cases += [op(aten.empty_strided.default, [0, 3], [1, 7])]
    cases += [op(aten.empty_like.default, rand(0, 3)), op(aten.new_empty.default, x, [3, 0], dtype=I64)]
    cases += [op(dim_order_ops._empty_dim_order.default, [0, 3], dim_order=[0, 1])]
    return cases


def _ranges() -> list[Case]:
    f = aten.arange.start_step
    cases = [op(f, *r) for r in ((0, 5), (2, 9, 3), (7, 1, -2), (-3, 3), (0, 0), (5, 4, -1))]
    cases += [op(f, *r, dtype=I32) for r in ((0, 5), (2, 9, 3), (7, -1, -2))]
    cases += [op(f, *r) for r in ((0.0, 1.0, 0.1), (0.5, 5), (3.0, -1.0, -0.7), (0.0, 300.0, 1.0))]
    cases += [op(f, 0, 6, dtype=torch.float32), op(f, 1.5, 4.6, dtype=I64)]
    cases += [
        having(op(f, 0, 5, dtype=torch.float64), refused="f64"),
    ]
    return cases


CASES = _fills() + _ranges()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


def test_symbolic_sizes() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        rows, columns = x.shape
        positions = torch.arange(columns)
        return (
            torch.zeros(rows, columns) + x,
            torch.full((rows, 2), 3),
            x.new_ones(columns),
            positions,
            torch.arange(rows, rows + columns),
            torch.arange(1, columns, 2),
            (positions[None] <= torch.arange(rows)[:, None]).float(),
            torch.full((2,), rows),
        )

    others = ((rand(6, 4),), (rand(2, 7),), (rand(1, 9),))
    check_program(program, rand(3, 5), dynamic=({0: DYNAMIC, 1: DYNAMIC},), others=others)


def test_a_program_without_inputs() -> None:
    program = lambda: (torch.arange(4) * 2, torch.full((2,), 1.5) + torch.ones(2))
    graph = lowered(program, ())
    for made in (run_interpreter(graph, ()), run_session(session(graph), ())):
        for actual, expected in zip(made, program(), strict=True):
            assert_same(actual, expected)
