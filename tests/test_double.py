"""float64 is left to ExecuTorch, or kept to the last bit: never computed in float32."""

import importlib
from dataclasses import replace

import pytest
import torch
from tests.batches import check_case, outcome
from tests.helpers import Case, of_type

from executorch_ggml.frontends.aten import LOWERINGS

EXACT = 1e-14


def _cases() -> list[Case]:
    """A f32 case of each overload, in f64, but where eager itself takes no f64."""
    families = sorted({function.__module__.rsplit(".", 1)[-1] for function in LOWERINGS.values()})
    found: dict[object, Case] = {}
    for family in families:
        for case in importlib.import_module(f"tests.frontends.aten.test_{family}").CASES:
            double = of_type(case, torch.float64) if case.refused is None and case.dynamic is None else None
            if double is not None:
                found.setdefault(case.overload, replace(double, tolerance=EXACT))
    return [case for case in found.values() if _takes_double(case)]


def _takes_double(case: Case) -> bool:
    try:
        case.module()(*case.inputs)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("case", _cases(), ids=lambda case: str(case.overload))
def test_overload(case: Case) -> None:
    if not outcome(case).refusals:
        check_case(case)
