"""A small fixed budget of what ``make fuzz`` does for long, and that every lowering is reached by it."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import tests.fuzz.__main__ as search
import torch
from hypothesis import Phase, given, settings
from tests.fuzz.check import Expected, Skipped, Wrong, check, check_delegate, failure
from tests.fuzz.differences import UNDEFINED
from tests.fuzz.draw import OVERLOADS, programs, refusal
from tests.fuzz.program import Fill, Input, Program, Ref, Size, Step, single, smallest, values
from tests.fuzz.samples import plain, samples, spread
from tests.helpers import inf, nan
from torch._ops import OpOverload

aten = torch.ops.aten

SAMPLES = 2  # of each overload and type
DTYPES = (torch.float32, torch.int64)
# What neither OpInfo's samples nor the rules make a call of, and why.
UNREACHED: dict[OpOverload, str] = {}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def sampled(overload: OpOverload) -> int:
    """Check calls from OpInfo; how many were not refused."""
    judged = 0
    for dtype in DTYPES:
        for sample in spread(samples(overload, dtype), SAMPLES):
            made = single(overload, *sample)
            constants = single(overload, *sample, constants=True)
            firsts = [Program(p.inputs, p.steps, p.outputs[:1]) for p in (made, constants)]
            for program in (made, constants, *firsts):
                if refusal(program) is None:
                    judged += _judged(program)
                    break
    return judged


def drawn(overload: OpOverload, examples: int = 3) -> int:
    """Check calls with arguments by the rules; how many were not refused."""
    judged = 0

    @settings(max_examples=examples, phases=[Phase.generate], database=None)
    @given(programs(overload))
    def property_(program: Program) -> None:
        nonlocal judged
        if overload in program.overloads:
            judged += _judged(program)

    property_()
    return judged


def _judged(program: Program) -> bool:
    try:
        check(program)
    except Skipped:
        return False
    except Exception:
        found = failure(program, check)
        if found is not None:
            raise Wrong(found[0].source(found[1])) from None
    return True


@pytest.mark.parametrize("overload", OVERLOADS, ids=str)
def test_calls(overload: OpOverload) -> None:
    found = sampled(overload)
    found += drawn(overload) or (not found and drawn(overload, 200))
    unreached = overload in UNREACHED or UNDEFINED.fullmatch(plain(overload)) is not None
    assert (found == 0) == unreached, "no call: give its arguments rules, or say in UNREACHED why not"


@settings(max_examples=120, phases=[Phase.generate], database=None)
@given(programs())
def test_programs(program: Program) -> None:
    _judged(program)


@settings(max_examples=6, phases=[Phase.generate], database=None)
@given(programs())
def test_delegates(program: Program) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Skipped):
        check_delegate(program, Path(folder))


# ------------------------------------------------------------------------------------------------- the checks' checks


def _wrong(program: Program, *actual: torch.Tensor) -> bool:
    try:
        Expected(program, program.given({})).check(actual, "test")
    except Wrong:
        return True
    return False


def test_a_wrong_result_is_seen() -> None:
    x = torch.tensor([1.0, -0.0, nan, inf])
    moved = single(aten.flip.default, (x, [0]), {})
    assert not _wrong(moved, x.flip(0))
    assert _wrong(moved, x)
    assert _wrong(moved, x.flip(0).nan_to_num())
    assert _wrong(moved, torch.where(x == 0, 0.0, x).flip(0))  # the sign of zero
    counted = single(aten.add.Tensor, (torch.tensor([1, 2]), 1), {})
    assert not _wrong(counted, torch.tensor([2, 3]))
    assert _wrong(counted, torch.tensor([2, 4]))
    assert _wrong(counted, torch.tensor([2.0, 3.0]))
    rounded = single(aten.exp.default, (torch.tensor([1.0, 2.0]),), {})
    exact = torch.tensor([1.0, 2.0]).exp()
    assert not _wrong(rounded, exact * (1 + 1e-6))
    assert _wrong(rounded, exact * (1 + 1e-3))


def test_what_rounding_alone_changes_is_not_wrong() -> None:
    x = Input(torch.tensor([1.0, 0.1]), (2,))
    step = Step(aten.sum.default, (Ref("x0"),), {})
    less = Step(aten.sub.Scalar, (Ref("y0"), 1.1), {})
    cancelled = Program((x,), (step, less), (Ref("y1"),))
    assert not _wrong(cancelled, torch.tensor(1e-7))
    assert _wrong(cancelled, torch.tensor(1e-4))


def test_undefined_results_are_not_judged() -> None:
    cast = single(aten._to_copy.default, (torch.tensor([1e30]),), {"dtype": torch.int32})
    with pytest.raises(Skipped, match="undefined"):
        check(cast)


@pytest.mark.parametrize("divisor", [torch.full((16,), 1e-40), torch.full((16, 1), 1e-40)])
def test_only_quotients_beyond_f32_are_not_judged(divisor: torch.Tensor) -> None:
    with pytest.raises(Skipped, match="quotient"):
        check(single(aten.fmod.Tensor, (torch.full((16,), 3.0), divisor), {}))
    check(single(aten.fmod.Tensor, (torch.full((16,), 1e-39), divisor), {}))
    check(single(aten.remainder.Scalar_Tensor, (3, torch.tensor([inf, 0.0, 1e-30, nan] * 4)), {}))


def test_a_failure_is_made_small() -> None:
    steps = (
        Step(aten.abs.default, (Ref("x0"),), {}),
        Step(aten.neg.default, (Ref("y0"),), {}),
        Step(aten.sub.Tensor, (Ref("y1"), Ref("y0")), {}),
    )
    program = Program((Input(torch.ones(2), (2,)),), steps, (Ref("y2"),))
    made = smallest(program, lambda smaller: aten.neg.default in smaller.overloads)
    assert [step.overload for step in made.steps] == [aten.neg.default]


def test_a_program_is_printed_as_code_that_runs() -> None:
    fill = Fill("odd", 5)
    x = Input(values((4, 3), torch.float32, "odd", 5), ("a", 3), fill)
    y = Input(torch.tensor([[1, -2, 3]]), (1, 3), constant=True)
    steps = (
        Step(aten.mul.Tensor, (Ref("x0"), Ref("x1")), {}),
        Step(aten.split.Tensor, (Ref("y0"), 2, 1), {}),
        Step(aten.expand.default, (Ref("y1", 1), [2, Size(Ref("x0"), 0), 1]), {}),
    )
    program = Program((x, y), steps, (Ref("y0"), Ref("y2")), {"a": 4}, ({"a": 1}, {"a": 0}))
    check(program)
    source = program.source("why")
    assert "y2 = aten.expand.default(y1[1], [2, x0.size(0), 1])" in source
    exec(compile(source, "printed", "exec"), {})  # which ends in check_program
    wrong = source.replace("y0, y2", "y0, y2 + torch.rand(2, 1, 1)")
    with pytest.raises(Exception, match=r"lowering|refused|rand"):
        exec(compile(wrong, "printed", "exec"), {})


def test_a_guard_of_the_trace_is_kept() -> None:
    x = Input(values((4, 3), torch.float32), ("a", 3), Fill())
    step = Step(aten.view.default, (Ref("x0"), [2, 6]), {})
    program = Program((x,), (step,), (Ref("y0"),), {"a": 4}, ({"a": 5},))
    traced = program.graph()
    assert traced.holds({"a": 4})
    assert not traced.holds({"a": 5})


def test_the_search_writes_failures_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Program) -> None:
        if aten.neg.default in program.overloads:
            raise Wrong("neg")

    monkeypatch.setattr(search, "check", broken)
    monkeypatch.setattr(search, "EXAMPLES", 60)
    monkeypatch.setattr("tests.fuzz.draw.OVERLOADS", [aten.neg.default, aten.abs.default])
    worker = search.Worker(tmp_path)
    worker.search(1)
    (found,) = tmp_path.glob("001-*.py")
    assert found.name == "001-neg.py"
    assert "# Wrong: neg" in found.read_text()
    assert "y1 =" not in found.read_text()
    worker.search(2)  # is known now
    assert len(list(tmp_path.glob("0*.py"))) == 1
