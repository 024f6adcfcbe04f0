"""Every op of ggml's on every device beside its CPU: some cases, and with `-m slow` all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from executorch_ggml import devices
from executorch_ggml.devices.torch_device import TorchDevice

from . import support
from .cases import Case

EACH = 29  # cases apart, of those that are always run: on the devices that need no compiler


def run(name: str, each: int) -> list[str]:
    """What is wrong of some cases."""
    if not support.installed(name):
        pytest.skip(f"{support.PACKAGES[name]} is missing")
    devices.load("torch")
    return support.measure([name], lambda op: True, each)[1]


@pytest.mark.parametrize("name", ["torch", "mlx"])
def test_some_ops(name: str) -> None:
    assert run(name, EACH) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", support.NAMES)
def test_every_op(name: str) -> None:
    assert run(name, 1) == []


def test_the_page_is_of_these_cases() -> None:
    assert support.is_current(), "write it anew: python -m tests.devices.support"


def test_a_wrong_answer_is_found() -> None:
    devices.load("torch")
    op, case = next(entry for entry in support.cases() if entry[0] == "SCALE")
    (outcome,) = support.outcomes([case], "torch")
    assert outcome == support.Outcome(taken=True), op
    (outcome,) = support.outcomes([replace(case, tolerance=-1.0)], "torch")
    assert outcome is not None
    assert "apart" in outcome.fault


class Unasked(TorchDevice):
    name = "unasked"  # a device is asked once for nodes of a kind, and says its reason then


def test_a_refusal_has_its_reason() -> None:
    devices.register(Unasked())
    devices.load("torch")
    group = [case for op, case in support.cases() if op == "CONV_3D"]
    for outcome in support.outcomes(group[:1], "unasked"):
        assert outcome == support.Outcome(taken=False, reasons=["CONV_3D has no translation"])


def test_names_are_of_one_case() -> None:
    names: set[tuple[str, str]] = set()
    for op, case in support.cases():
        assert isinstance(case, Case)
        assert (op, case.name) not in names, f"{op}, {case.name}: there are two"
        names.add((op, case.name))
