from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given as with_examples
from hypothesis import strategies as st
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, Const, check_program, const, having, ints, nan, op, rand
from torch import Tensor

aten = torch.ops.aten

HALVES = (torch.float16, torch.bfloat16)


def half_const(dtype: torch.dtype, *shape: int) -> Const:
    """A random constant of a half type."""
    return Const(rand(*shape, dtype=dtype))


def _linear() -> list[Case]:
    shapes = [(4,), (3, 4), (2, 3, 4), (2, 3, 2, 4), (2, 1, 3, 2, 4), (0, 4), (1, 4), (33, 4)]
    cases = [op(aten.linear.default, rand(*s), const(5, 4), const(5)) for s in shapes]
    cases += [
        op(aten.linear.default, rand(3, 4), const(5, 4)),
        op(aten.linear.default, rand(3, 4), const(1, 4), const(1)),
    ]
    cases += [
        op(aten.linear.default, rand(7, 4), rand(5, 4), rand(5)),
        op(aten.linear.default, rand(65, 300), const(70, 300), const(70)),
        op(aten.linear.default, rand(1, 257), const(17, 257)),
        op(aten.linear.default, rand(2, 3), const(0, 3)),
        having(op(aten.linear.default, rand(3, 4), const(4)), refused="not a matrix"),
        *(op(aten.linear.default, rand(3, 4, dtype=d), rand(5, 4, dtype=d), rand(5, dtype=d)) for d in HALVES),
        *(op(aten.linear.default, rand(65, 300, dtype=d), half_const(d, 70, 300), half_const(d, 70)) for d in HALVES),
        *(op(aten.linear.default, rand(1, 257, dtype=d), half_const(d, 17, 257)) for d in HALVES),
        having(op(aten.linear.default, ints(3, 4), ints(5, 4)), refused="i64"),
        having(op(aten.linear.default, rand(3, 4).double(), rand(5, 4).double()), refused="f64"),
        having(op(aten.linear.default, torch.tensor([[1.0, nan], [float("inf"), 1.0]]), const(3, 2)), name="special"),
    ]
    return cases


def _addmm(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    return rand(5, dtype=dtype), rand(3, 4, dtype=dtype), rand(4, 5, dtype=dtype)


def _products() -> list[Case]:
    return [
        op(aten.mm.default, rand(3, 4), rand(4, 5)),
        op(aten.mm.default, rand(3, 4), const(4, 5)),
        op(aten.mm.default, rand(1, 7), rand(7, 1)),
        op(aten.mm.default, rand(64, 65), rand(65, 66)),
        op(aten.mm.default, rand(3, 0), rand(0, 5)),
        op(aten.mm.default, rand(0, 3), rand(3, 5)),
        having(op(aten.mm.default, ints(3, 4), ints(4, 5)), refused="i64"),
        op(aten.bmm.default, rand(2, 3, 4), rand(2, 4, 5)),
        op(aten.bmm.default, rand(5, 1, 4), rand(5, 4, 1)),
        op(aten.bmm.default, rand(2, 3, 4), const(2, 4, 5)),
        *(op(aten.bmm.default, rand(2, 3, 4, dtype=d), rand(2, 4, 5, dtype=d)) for d in HALVES),
        *(op(aten.mm.default, rand(3, 4, dtype=d), half_const(d, 4, 5)) for d in HALVES),
        *(op(aten.mm.default, rand(2, 0, dtype=d), rand(0, 3, dtype=d)) for d in HALVES),
        *(op(aten.addmm.default, *(rand(*s, dtype=d) for s in ((5,), (3, 4), (4, 5)))) for d in HALVES),
        *(
            op(aten.addmm.default, *(rand(*s, dtype=d) for s in ((5,), (3, 4), (4, 5))), beta=2, alpha=0.3)
            for d in HALVES
        ),
        op(aten.addmm.default, rand(5), rand(3, 4), rand(4, 5)),
        op(aten.addmm.default, const(5), rand(3, 4), const(4, 5)),
        op(aten.addmm.default, rand(3, 5), rand(3, 4), rand(4, 5)),
        op(aten.addmm.default, rand(3, 1), rand(3, 4), rand(4, 5)),
        op(aten.addmm.default, rand(1), rand(3, 4), rand(4, 5)),
        op(aten.addmm.default, rand(5), rand(3, 4), rand(4, 5), beta=0.5, alpha=-2.0),
        having(op(aten.addmm.default, torch.full((5,), nan), rand(3, 4), rand(4, 5), beta=0), name="beta=0"),
        op(aten._int_mm.default, bytes_(3, 40), bytes_(40, 5)),
        op(aten._int_mm.default, bytes_(3, 1300), Const(bytes_(1300, 5))),
        op(aten._int_mm.default, torch.full((2, 2000), -128).char(), torch.full((2000, 2), -128).char()),
    ]


def bytes_(*shape: int) -> Tensor:
    """Integers over the whole range of int8."""
    return (rand(*shape) * 60).round().clamp(-128, 127).char()


def _symbolic() -> list[Case]:
    rows = ({0: DYNAMIC, 1: DYNAMIC},)
    return [
        having(
            op(aten.linear.default, rand(2, 3, 4), const(5, 4), const(5)),
            name="symbolic",
            dynamic=rows,
            others=((rand(1, 7, 4),), (rand(8, 2, 4),)),
        ),
        having(
            op(aten.mm.default, rand(3, 4), rand(4, 5)),
            name="symbolic",
            dynamic=({0: DYNAMIC}, {1: DYNAMIC}),
            others=((rand(7, 4), rand(4, 2)), (rand(1, 4), rand(4, 9))),
        ),
        having(
            op(aten.bmm.default, rand(2, 3, 4), rand(2, 4, 5)),
            name="symbolic",
            dynamic=({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 2: DYNAMIC}),
            others=((rand(5, 2, 4), rand(5, 4, 7)),),
        ),
        having(
            op(aten.mm.default, rand(3, 4), rand(4, 5)),
            name="symbolic-inner",
            dynamic=({1: DYNAMIC}, {0: DYNAMIC}),
            others=((rand(3, 9), rand(9, 5)), (rand(3, 1), rand(1, 5))),
        ),
    ]


CASES = _linear() + _products() + _symbolic()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (3, 4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((2, 2, 3, 4), (2, 2, 4, 3)),
        ((1, 3, 4), (5, 4, 2)),
    ],
)
def test_matmul_of_any_ranks(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check_program(torch.matmul, rand(*left), rand(*right))


def test_einsum() -> None:
    x, y = rand(2, 3, 4), rand(2, 5, 4)
    check_program(lambda a, b: (torch.einsum("bij,bkj->bik", a, b), torch.einsum("bij->bji", a).contiguous()), x, y)


@pytest.mark.parametrize("activation", [F.relu, F.silu, F.gelu, F.hardswish, F.relu6, lambda x: x.clamp(-0.2, 0.4)])
def test_activation_after_a_linear_layer(activation: object) -> None:
    """With and without the activation inside the product."""
    layer = torch.nn.Linear(6, 37)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = activation(self.layer(x))  # type: ignore[operator] # a function or a module
            return made

    x = rand(2, 5, 6)
    check_program(Block(), x)
    check_program(Block(), x, fusions=frozenset())


@with_examples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans())
def test_sizes_property(m: int, k: int, n: int, left: bool, right: bool) -> None:
    def program(a: Tensor, b: Tensor) -> Tensor:
        return torch.mm(a.t() if left else a, b.t() if right else b)

    a, b = rand(m, k), rand(k, n)
    check_program(program, a.t().contiguous() if left else a, b.t().contiguous() if right else b)


def test_a_bias_that_is_added_is_the_layer_s() -> None:
    weight, bias = rand(8, 5), rand(5)

    def program(x: Tensor) -> Tensor:
        return torch.relu(x @ weight + bias)

    graph = check_program(program, rand(2, 3, 8))
    assert [node.op for node in graph.nodes if node.op not in ("reshape", "view")] == ["linear"]


def test_a_product_that_is_read_twice_keeps_its_sum() -> None:
    weight, bias = rand(8, 5), rand(5)

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        made = x @ weight
        return made + bias, made

    assert "add" in [node.op for node in check_program(program, rand(3, 8)).nodes]
