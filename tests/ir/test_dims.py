from __future__ import annotations

import pytest
import sympy
from hypothesis import given as with_examples
from hypothesis import strategies as st
from torch.utils._sympy.functions import FloorDiv, Max, Mod

from executorch_ggml.ir.dims import (
    as_dim,
    evaluate,
    floor_div,
    free_symbols,
    is_one,
    maximum,
    minimum,
    ne_of,
    product,
    same,
    same_dims,
    unsupported_part,
)

n, m = sympy.symbols("n m", integer=True, positive=True)


def test_numbers_stay_numbers() -> None:
    assert as_dim(3) == 3
    assert as_dim(sympy.Integer(4)) == 4
    assert isinstance(as_dim(n * 2 - n * 2 + 5), int)
    assert isinstance(product([2, 3, 4]), int)
    assert product([]) == 1


def test_equality_is_proven() -> None:
    assert same(n * (m + 1), n * m + n)
    assert not same(n, m)
    assert same_dims([n, 2], [n, 2])
    assert not same_dims([n], [n, 1])
    assert is_one(1)
    assert not is_one(n)


def test_ggml_order() -> None:
    assert ne_of((2, 3)) == (3, 2, 1, 1)
    assert ne_of(()) == (1, 1, 1, 1)
    assert ne_of((2, 3, 4, 5, 6, 7)) == (7, 6, 5, 24)
    assert ne_of((n, 2, m, 4, 5)) == (5, 4, m, 2 * n)


def test_arithmetic() -> None:
    assert (floor_div(7, 2), minimum(2, 3), maximum(2, 3)) == (3, 2, 3)
    assert evaluate(floor_div(n, 2), {n: 7}) == 3
    assert evaluate(minimum(n, 4), {n: 7}) == 4
    assert evaluate(maximum(n - 4, 0), {n: 1}) == 0
    assert evaluate(5, {}) == 5
    assert free_symbols([n * m, 3, n + 1]) == {n, m}


@pytest.mark.parametrize(
    "fine", [3, n, n + m * 2 - 1, FloorDiv(n + 1, 2), Mod(n, 3), Max(n, m), n**2, FloorDiv(n, 2) * m]
)
def test_what_the_wire_can_say(fine: object) -> None:
    assert unsupported_part(fine) is None


@pytest.mark.parametrize("odd", [sympy.sqrt(n), n / 2, sympy.log(n), 2 + sympy.sqrt(n) * m])
def test_what_the_wire_cannot_say(odd: object) -> None:
    assert unsupported_part(odd)


@with_examples(st.lists(st.integers(0, 9), max_size=7), st.integers(1, 30))
def test_no_element_is_lost(sizes: list[int], value: int) -> None:
    concrete = product(ne_of(sizes))
    assert concrete == product(sizes)
    symbolic = [n, *sizes]
    assert evaluate(product(ne_of(symbolic)), {n: value}) == value * concrete
