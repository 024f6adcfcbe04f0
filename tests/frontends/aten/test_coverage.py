"""No lowering without a test: every overload of the registry has a case that is run, not refused."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from tests.helpers import Case
from torch._ops import OpOverload

from executorch_ggml.frontends.aten import LOWERINGS, lowers
from executorch_ggml.frontends.aten.registry import PRESERVED

FAMILIES = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py") if path.stem != "test_coverage")


def _cases(family: str) -> list[Case]:
    """A family's table; tests of fusions and the like have none."""
    cases: list[Case] = getattr(importlib.import_module(f"tests.frontends.aten.{family}"), "CASES", [])
    return cases


def test_every_overload_has_a_case() -> None:
    covered: set[OpOverload] = {case.overload for family in FAMILIES for case in _cases(family) if case.refused is None}
    missing = sorted(str(overload) for overload in LOWERINGS if overload not in covered)
    assert not missing, f"no test calls {missing}"


def test_every_family_has_its_tests() -> None:
    modules = {function.__module__.rsplit(".", 1)[-1] for function in LOWERINGS.values()}
    assert {f"test_{name}" for name in modules} <= set(FAMILIES)


def test_an_overload_is_registered_once() -> None:
    known = next(iter(LOWERINGS))
    before = LOWERINGS[known]
    with pytest.raises(ValueError, match="has a lowering already"):
        lowers(known)(lambda cx: None)
    lowers(known, override=True)(before)
    assert LOWERINGS[known] is before


def test_what_is_preserved_is_lowered() -> None:
    assert set(LOWERINGS) >= PRESERVED
