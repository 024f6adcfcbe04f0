"""Progress: what the library tells a listener, and the command line's bars."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from torch import nn

import executorch_ggml
from executorch_ggml.benchmark.comparison import Column, Noise, Turns, take_turns
from executorch_ggml.cli import main, options, progress
from executorch_ggml.progress import counted, listening, stage
from executorch_ggml.quant import Importance, report


class Recorder:
    """Keeps what it is told: by stage its total, and what was done of it."""

    def __init__(self) -> None:
        self.stages: list[list[Any]] = []
        self.open: list[int] = []

    def begin(self, what: str, total: float | None) -> int:
        self.stages.append([what, total, 0.0])
        self.open.append(len(self.stages) - 1)
        return self.open[-1]

    def advance(self, stage: int, amount: float) -> None:
        assert stage in self.open
        self.stages[stage][2] += amount

    def end(self, stage: int) -> None:
        self.open.remove(stage)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    with listening(recorder):
        yield recorder
    assert not recorder.open


def test_an_export_traces_lowers_and_quantizes(recorder: Recorder) -> None:
    model = nn.Sequential(nn.Linear(64, 32, bias=False), nn.Linear(32, 32, bias=False)).eval()
    executorch_ggml.export(model, (torch.randn(1, 64),), quantize="q8_0")
    assert [what for what, *_ in recorder.stages] == ["tracing", "lowering", "quantizing and packing weights"]
    block = 34  # bytes of 32 weights
    assert recorder.stages[2][1:] == [block * (64 + 32), block * (64 + 32)]


def test_calibrating_and_reports_count(recorder: Recorder) -> None:
    model, batches = nn.Linear(32, 8), [(torch.randn(2, 32),) for _ in range(3)]
    Importance.collect(model, batches)
    assert recorder.stages == [["calibrating", 3, 3]]
    Importance.collect(model, iter(batches))  # nobody knows how many
    assert recorder.stages[1] == ["calibrating", None, 3]
    report(model, "q8_0")
    assert recorder.stages[2] == ["quantizing", 1, 1]


def test_run_and_compare_tell_of_all_that_they_do(recorder: Recorder, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\ndef model():\n    return torch.nn.Linear(4, 4), (torch.zeros(1, 4),)\n"
    )
    model, program = f"{tmp_path}/model.py:model", tmp_path / "m.pte"
    assert main(["export", model, "-o", str(program)]) == 0
    recorder.stages.clear()
    assert main(["run", str(program)]) == 0
    assert [what for what, *_ in recorder.stages] == ["reading inputs", f"loading {program}", "running"]
    recorder.stages.clear()
    assert main(["compare", str(program), model, "--layers"]) == 0
    stages = {what: (total, done) for what, total, done in recorder.stages}
    assert list(stages) == [
        *("reading inputs", f"running {program}", f"loading {model}", f"running {model} in eager PyTorch"),
        *("tracing", "lowering", "running eager PyTorch by layers"),
        *("quantizing and packing weights", "running layer by layer"),
    ]
    for name in ("running eager PyTorch by layers", "running layer by layer"):
        total, done = stages[name]
        assert total == done > 0


def test_rounds_count_every_turn(recorder: Recorder) -> None:
    class Worker:
        def time(self, seconds: float, warm_up: int) -> list[float]:
            return [0.1]

        def cpu_seconds(self) -> float:
            return 0.0

    columns = {"a": Column(), "b": Column(), "c": Column("it failed")}
    workers: Any = {name: Worker() for name in columns}
    take_turns(workers, columns, Turns(3, 0.0), Noise())
    assert recorder.stages[0] == ["timing in rounds", 6, 6]


def test_a_stage_that_fails_or_is_left_ends() -> None:
    recorder = Recorder()
    with listening(recorder):
        with pytest.raises(ValueError, match="no"), stage("outer"), stage("inner", 2):
            raise ValueError("no")
        for _ in counted("left", [1, 2, 3]):
            break
    assert recorder.open == []
    assert recorder.stages == [["outer", None, 0.0], ["inner", 2, 0.0], ["left", 3, 0.0]]
    with stage("unheard", 1) as advance:
        advance(1)
    assert len(recorder.stages) == 3


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@click.command
@options.as_json
@progress.shown
def slow(as_json: bool) -> None:
    """A command with a stage."""
    del as_json
    with stage("quantizing", 4) as advance:
        advance(1)
        with stage("inner"):  # draws
            pass
    click.echo("the result")


@pytest.mark.parametrize(
    ("arguments", "terminal", "bars"),
    [([], True, True), (["--quiet"], True, False), (["--json"], True, False), ([], False, False)],
)
def test_bars_are_for_terminals(
    arguments: list[str],
    terminal: bool,
    bars: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stderr = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    slow.main(arguments, standalone_mode=False)
    assert capsys.readouterr().out == "the result\n"
    assert ("quantizing" in stderr.getvalue() and "25%" in stderr.getvalue()) == bars
    assert bool(stderr.getvalue()) == bars


def test_the_library_knows_nothing_of_bars() -> None:
    package = Path(executorch_ggml.__file__).parent
    users = {path.parent.name for path in package.rglob("*.py") if "from rich" in path.read_text("utf-8")}
    assert users == {"cli"}
