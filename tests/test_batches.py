"""Cases that share a program answer for themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests import batches
from tests.batches import Batch, check_case
from tests.helpers import Case, having, op, rand

aten = torch.ops.aten

ADD = op(aten.add.Tensor, rand(2, 3), rand(3))
COPY = op(aten.add.Tensor, *ADD.inputs)  # the same tensors
TANH = having(op(aten.tanh.default, rand(4)), layouts=False, others=((rand(4) * 9,),))
REFUSED = op(aten.erfinv.default, rand(3))
NO_CALL = op(aten.mm.default, rand(2, 3), rand(2, 3))


def _failures(monkeypatch: pytest.MonkeyPatch, *cases: Case) -> dict[int, str]:
    """Which of the cases of one batch fail, and how."""
    batch = Batch(cases)
    monkeypatch.setattr(batches, "_batches", {id(case): batch for case in cases})
    found = {}
    for place, case in enumerate(cases):
        try:
            check_case(case)
        except Exception as error:
            found[place] = str(error)
    return found


def test_a_case_that_has_no_program_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = _failures(monkeypatch, ADD, REFUSED, TANH, NO_CALL, COPY)
    assert failures.keys() == {1, 3}
    assert "no lowering" in failures[1]


@pytest.mark.parametrize("executor", ["run_session", "run_interpreter"])
@pytest.mark.parametrize("wrong", range(4))
def test_a_wrong_output_fails_its_case_alone(monkeypatch: pytest.MonkeyPatch, executor: str, wrong: int) -> None:
    run = getattr(batches, executor)

    def off(*args: Any) -> Any:
        outputs = run(*args)
        outputs[wrong] = outputs[wrong] + 1
        return outputs

    monkeypatch.setattr(batches, executor, off)
    assert _failures(monkeypatch, ADD, TANH).keys() == {wrong // 3}  # the first has an output for each of its layouts


def test_a_refusal_must_be_expected_and_have_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, otherwise = having(REFUSED, refused="no lowering"), having(REFUSED, refused="for another reason")
    failures = _failures(monkeypatch, expected, otherwise, having(ADD, refused="no lowering"))
    assert failures.keys() == {1, 2}
