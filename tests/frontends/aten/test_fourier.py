"""Rows times the cosines and sines of a Fourier transform. Whole transforms: ``tests/partition/test_fourier.py``."""

from __future__ import annotations

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, having, inf, nan, op, rand

from executorch_ggml.frontends.aten.ops.fourier import MAX_POINTS

dft = torch.ops.executorch_ggml.dft.default

# sine, bins, period, one_sided, scale
SETTINGS = (
    (False, 6, 6, False, 1.0),
    (True, 6, 6, False, -1.0),
    (False, 4, 6, False, 0.5),
    (False, 10, 10, True, 0.1),
    (True, 11, 11, True, 1.0),
    (False, 1, 1, False, 1.0),
)

CASES = [
    *(op(dft, rand(2, 3, 6), *settings) for settings in SETTINGS),
    *(op(dft, rand(*shape), True, 5, 5, False, 1.0) for shape in ((5,), (1, 5), (4, 1), (2, 3, 2, 3, 5), (0, 5))),
    having(op(dft, torch.tensor([[1.0, nan, 2.0], [3.0, 4.0, 5.0]]), False, 3, 3, False, 1.0), name="nan"),
    having(op(dft, torch.tensor([[1.0, inf, 2.0], [3.0, 4.0, 5.0]]), True, 3, 3, False, 1.0), name="inf"),
    having(
        op(dft, rand(3, 6), False, 6, 6, False, 1.0),
        name="symbolic-rows",
        dynamic=({0: DYNAMIC},),
        others=((rand(1, 6),), (rand(8, 6),)),
    ),
    having(
        op(dft, rand(3, 6), False, 6, 6, False, 1.0),
        name="symbolic-points",
        dynamic=({1: DYNAMIC},),
        refused="symbolic number of points",
    ),
    having(
        op(dft, rand(1, 1), False, MAX_POINTS + 1, MAX_POINTS + 1, False, 1.0),
        name="many",
        refused="more points than a matrix is made for",
    ),
    *(
        having(op(dft, rand(2, 6, dtype=d), False, 6, 6, False, 1.0), name=str(d), refused="another type than float32")
        for d in (torch.float64, torch.float16)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)
