from __future__ import annotations

from functools import partial

import pytest
import torch
from tests.batches import check_case
from tests.helpers import DYNAMIC, Case, check_program, exported, having, op, rand
from torch import Tensor

from executorch_ggml.frontends.aten import Lowering

aten = torch.ops.aten

SAMPLE = aten.grid_sampler_2d.default
NEAREST, BILINEAR = aten.upsample_nearest2d.vec, aten.upsample_bilinear2d.vec


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
        *(having(op(NEAREST, x.to(d), [10, 14], None), name=str(d)) for d in (torch.float16, torch.bfloat16)),
        *(having(op(BILINEAR, x.to(d), [10, 14], False, None), name=str(d)) for d in (torch.float16, torch.bfloat16)),
        having(op(NEAREST, x.double(), [10, 14], None), refused="of floats"),
    ]
    return cases


def _sampling() -> list[Case]:
    x, grid = rand(2, 3, 5, 7), rand(2, 4, 6, 2) * 1.2
    odd = grid.clone()
    odd[0, 0, 0], odd[0, 0, 1], odd[0, 0, 2, 0] = 1.0, -1.0, 1e9
    odd[0, 1, :, 0], odd[0, 2, :, 1] = torch.linspace(-3, 3, 6), torch.linspace(-30, 30, 6)
    cases = [
        having(op(SAMPLE, x, g, mode, padding, corners), name=f"{which}-{mode}-{padding}-{corners}")
        for which, g in (("random", grid), ("odd", odd))
        for mode in range(3)
        for padding in range(3)
        for corners in (False, True)
    ]
    thin = [op(SAMPLE, rand(1, 20, 1, 1), rand(1, 2, 2, 2), mode, 2, c) for mode in range(3) for c in (False, True)]
    none = torch.full((1, 1, 1, 2), float("nan"))
    nans = [having(op(SAMPLE, rand(1, 2, 3, 3), none, 0, p, False), name=f"nan-{p}") for p in range(2)]
    sizes = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC})
    others = ((rand(3, 3, 9, 4), rand(3, 5, 6, 2)),)
    symbolic = having(op(SAMPLE, x, grid, 0, 0, False), name="symbolic", dynamic=sizes, others=others)
    return [
        *cases,
        *thin,
        *nans,
        symbolic,
        having(op(SAMPLE, x.half(), grid.half(), 0, 0, False), refused="f16"),
    ]


def _symbolic() -> list[Case]:
    sizes = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC},)
    others = ((rand(1, 4, 12, 9),), (rand(5, 4, 7, 30),))
    x = rand(2, 4, 8, 10)
    return [
        having(op(NEAREST, x, None, [2.0, 2.0]), name="symbolic", dynamic=sizes, others=others),
        having(op(BILINEAR, x, None, False, [2.0, 2.0]), name="symbolic", dynamic=sizes, others=others),
        having(op(BILINEAR, x, None, True, [2.0, 2.0]), name="symbolic-corners", dynamic=sizes, others=others),
    ]


CASES = _resizing() + _sampling() + _symbolic()


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
