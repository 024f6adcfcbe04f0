from __future__ import annotations

import pytest
import torch
from tests.batches import check_case
from tests.helpers import (
    DYNAMIC,
    Case,
    Const,
    check_program,
    check_refused,
    const,
    having,
    inf,
    nan,
    op,
    rand,
    special,
)
from torch import Tensor, nn

aten = torch.ops.aten

F16, BF16 = torch.float16, torch.bfloat16
LAYER, NATIVE_LAYER = aten.layer_norm.default, aten.native_layer_norm.default
GROUP, NATIVE_GROUP = aten.group_norm.default, aten.native_group_norm.default
BATCH = aten._native_batch_norm_legit_no_training.default
SOFTMAXES = [aten._softmax.default, aten._log_softmax.default]


def _layer() -> list[Case]:
    x = rand(3, 5, 8) * 3 + 1
    cases = [
        op(LAYER, x, [8], const(8), const(8)),
        op(LAYER, x, [8]),
        op(LAYER, x, [8], const(8)),
        op(LAYER, x, [8], None, const(8)),
        op(LAYER, x, [5, 8], const(5, 8), const(5, 8)),
        op(LAYER, x, [3, 5, 8]),
        op(LAYER, x, [8], const(8), const(8), 0.1),
        op(LAYER, rand(7), [7]),
        op(LAYER, rand(3, 1), [1]),
        op(LAYER, rand(2, 3, 2, 2, 5), [5], const(5), const(5)),
        op(LAYER, rand(0, 4), [4]),
        op(LAYER, rand(4, 6), [6], rand(6), rand(6)),
        having(op(LAYER, rand(2, 300) + 50, [300]), tolerance=1e-4),
        *(having(op(LAYER, x.to(d), [8]), name=str(d)) for d in (F16, BF16)),
        having(op(LAYER, x, [8], None, None, -0.5), refused="expected eps to be 0 or more"),
    ]
    cases.append(having(op(NATIVE_LAYER, x, [8], const(8), const(8), 1e-5), keep=(0,)))
    cases.append(having(op(NATIVE_LAYER, x, [5, 8], None, None, 1e-3), keep=(0,)))
    cases.append(having(op(NATIVE_LAYER, x, [8], None, None, 1e-5), refused="statistics", keep=(0, 1)))
    return cases


def _rms() -> list[Case]:
    f = aten.rms_norm.default
    return [
        op(f, rand(3, 5, 8), [8], const(8)),
        op(f, rand(3, 5, 8), [8], const(8), 1e-2),
        op(f, rand(3, 5, 8), [5, 8]),
        op(f, rand(3, 8), [8], rand(8)),
        op(f, rand(2, 2, 2, 2, 8), [8], const(8)),
        having(op(f, torch.zeros(2, 4), [4]), name="zeros"),
        *(having(op(f, rand(3, 8, dtype=d), [8]), name=str(d)) for d in (F16, BF16)),
        *(having(op(f, 1e-3 * rand(3, 8, dtype=d), [8]), name=f"small{d}") for d in (F16, BF16)),
    ]


def _group() -> list[Case]:
    x = rand(2, 6, 4, 5) + 2
    cases = [op(GROUP, x, g, const(6), const(6)) for g in (1, 2, 3, 6)]
    cases += [
        op(GROUP, x, 2),
        op(GROUP, x, 2, const(6), None, 0.1),
        op(GROUP, rand(3, 4), 2, const(4), const(4)),
        op(GROUP, rand(3, 4, 7), 2, const(4), const(4)),
        op(GROUP, rand(2, 4, 2, 3, 2), 2, const(4), const(4)),
        *(having(op(GROUP, x.to(d), 2), name=str(d)) for d in (F16, BF16)),
        having(op(NATIVE_GROUP, x, const(6), const(6), 2, 6, 20, 3, 1e-5), keep=(0,), layouts=False),
        having(op(NATIVE_GROUP, x, None, None, 2, 6, 20, 3, 1e-5), refused="statistics", keep=(1,)),
    ]
    return cases


def _batch() -> list[Case]:
    def statistics(channels: int) -> tuple[Const, Const, Const, Const]:
        return const(channels), const(channels, low=-3), const(channels), const(channels, low=0.1, high=3)

    cases = [
        having(op(BATCH, rand(*s), *statistics(s[1]), 0.1, 1e-5), keep=(0,))
        for s in ((2, 3), (2, 3, 7), (2, 3, 4, 5), (1, 17, 3, 3), (0, 3, 2, 2))
    ]
    weight, bias, mean, variance = statistics(3)
    cases += [
        having(op(BATCH, rand(2, 3, 4, 5), None, None, mean, variance, 0.1, 1e-3), keep=(0,)),
        having(op(BATCH, rand(2, 3, 4, 5), weight, None, mean, variance, 0.1, 1e-3), keep=(0,)),
        having(op(BATCH, rand(2, 3, 4, 5), None, bias, mean, variance, 0.1, 1e-3), keep=(0,)),
        having(
            op(BATCH, rand(2, 3, 4), None, None, rand(3), rand(3).abs(), 0.1, 1e-5), name="computed-moments", keep=(0,)
        ),
        having(
            op(BATCH, rand(2, 3, 4), rand(3), rand(3), rand(3), rand(3).abs(), 0.1, 1e-5),
            name="all-computed",
            keep=(0,),
        ),
        having(op(BATCH, rand(2, 3, 2, 4, 2), *statistics(3), 0.1, 1e-5), keep=(0,)),
        having(op(BATCH, rand(1, 3, 2, 4, 2), *statistics(3), 0.1, 1e-5), keep=(0,)),
    ]
    return cases


def _softmax() -> list[Case]:
    shapes = [
        ((5,), 0),
        ((3, 4), 0),
        ((3, 4), 1),
        ((2, 3, 4), -2),
        ((2, 3, 4, 5), 1),
        ((2, 3, 4, 5), -1),
        ((), 0),
        ((3, 1), 1),
    ]
    cases = [op(f, rand(*s), d, False) for f in SOFTMAXES for s, d in shapes]
    rows = torch.tensor(
        [[1.0, -inf, 2.0], [-inf, -inf, 3.0], [nan, 1.0, 2.0], [200.0, -200.0, 0.0], [1e30, 1e30, -1e30]]
    )
    cases += [having(op(f, rows, 1, False), name="special") for f in SOFTMAXES]
    cases += [having(op(f, torch.full((2, 3), -inf), 1, False), name="all-hidden") for f in SOFTMAXES]
    cases += [having(op(f, torch.tensor([[inf, 1.0]]), 1, False), name="infinite") for f in SOFTMAXES]
    cases += [having(op(f, rand(3, 7, dtype=d), 1, False), name=str(d)) for f in SOFTMAXES for d in (F16, BF16)]
    cases += [having(op(f, rand(3, 300) * 8, 1, False), name="wide") for f in SOFTMAXES]
    cases += [op(f, rand(*s), d, False) for f in SOFTMAXES for s, d in (((0, 3), 1), ((3, 0), 0), ((5, 0, 0), -1))]
    cases += [op(f, rand(2, 3, 2, 4, 2), d, False) for f in SOFTMAXES for d in (0, 1, -1)]
    cases += [having(op(f, special().double(), 0, False), refused="float64") for f in SOFTMAXES]
    return cases


def _by_batch() -> list[Case]:
    own, functional = aten._native_batch_norm_legit.no_stats, aten._native_batch_norm_legit_functional.default
    shapes = ((4, 3), (2, 3, 7), (2, 3, 4, 5), (1, 6, 3, 3), (2, 3, 2, 4, 2))
    cases = [op(own, rand(*s), rand(s[1]), rand(s[1]), True, 0.1, 1e-5) for s in shapes]
    cases += [op(own, rand(2, 3, 4, 5) + 7, w, None, True, 0.0, 1e-3) for w in (None, rand(3))]
    cases += [having(op(own, rand(2, 3, 4, dtype=F16), None, None, True, 0.1, 1e-5), keep=(0,), name="f16")]
    running = (rand(3), rand(3).abs() + 1)
    cases += [op(functional, rand(2, 3, 4, 5), rand(3), rand(3), *running, True, 0.3, 1e-5)]
    cases += [op(functional, rand(5, 3), None, None, *running, True, 0.1, 1e-5)]
    cases += [having(op(functional, rand(5, 3), None, None, *running, False, 0.1, 1e-5), refused="unchanged")]
    cases += [
        having(
            op(own, rand(2, 3, 4, 5), rand(3), None, True, 0.1, 1e-5),
            dynamic=({0: DYNAMIC, 2: DYNAMIC}, {}),
            others=((rand(5, 3, 2, 5), rand(3)),),
            name="symbolic",
        )
    ]
    return cases


def _symbolic() -> list[Case]:
    dynamic = ({0: DYNAMIC, 1: DYNAMIC},)
    others = ((rand(1, 9, 8),), (rand(7, 2, 8),))
    image_others = ((rand(5, 6, 4, 3),), (rand(1, 6, 4, 7),))
    return [
        having(op(LAYER, rand(3, 5, 8), [8], const(8), const(8)), name="symbolic", dynamic=dynamic, others=others),
        having(
            op(aten.rms_norm.default, rand(3, 5, 8), [8], const(8)), name="symbolic", dynamic=dynamic, others=others
        ),
        *(
            having(op(f, rand(3, 5, 8), d, False), name=f"symbolic{d}", dynamic=dynamic, others=others)
            for f in SOFTMAXES
            for d in (1, 2)
        ),
        having(
            op(GROUP, rand(2, 6, 4, 5), 3, const(6), const(6)),
            name="symbolic",
            dynamic=({0: DYNAMIC, 3: DYNAMIC},),
            others=image_others,
        ),
        having(
            op(BATCH, rand(2, 6, 4, 5), None, None, const(6), const(6, low=0.5), 0.1, 1e-5),
            name="symbolic",
            keep=(0,),
            dynamic=({0: DYNAMIC, 3: DYNAMIC},),
            others=image_others,
        ),
    ]


CASES = _layer() + _rms() + _group() + _batch() + _by_batch() + _softmax() + _symbolic()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    check_case(case)


def test_symbolic_channels_of_a_group_norm_are_refused() -> None:
    """No weight fixes the number of channels here."""
    program = lambda x: torch.nn.functional.group_norm(x, 2)
    check_refused(program, rand(2, 6, 3), dynamic=({1: 2 * torch.export.Dim("half", min=1, max=9)},), reason="symbolic")


class WrittenOutNorm(nn.Module):
    def __init__(self, variant: str) -> None:
        super().__init__()
        self.variant = variant
        self.weight = nn.Parameter(rand(8))

    def forward(self, x: Tensor) -> Tensor:
        if self.variant == "llama":
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        if self.variant == "reversed":
            return torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-2) * x * self.weight
        if self.variant == "other-tensor":
            return (x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.variant == "other-dim":
            return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) * 2 + 1e-6)


@pytest.mark.parametrize("variant", ["llama", "reversed", "other-tensor", "other-dim", "scaled"])
def test_rms_norm_written_out(variant: str) -> None:
    """Found and fused where it is one, and only there."""
    module = WrittenOutNorm(variant)
    fused = check_program(module, rand(3, 5, 8))
    check_program(module, rand(3, 5, 8), fusions=frozenset())
    assert ("rms_norm" in {node.op for node in fused.nodes}) == (variant == "llama")


def test_layer_norm_of_a_permuted_image() -> None:
    """ConvNeXt's: normalized over channels."""
    norm = nn.LayerNorm(6)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            return made

    check_program(Block(), rand(2, 6, 4, 5))
