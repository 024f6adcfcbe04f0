"""Rows of models that are kept: written once by the same code, measured once under the same conditions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.kept_rows import KeptRows
from benchmarks.workloads import ADD, load

from benchmarks import kept_rows
from executorch_ggml.benchmark.comparison import Comparison, Turns
from executorch_ggml.benchmark.engines import EAGER
from executorch_ggml.benchmark.worker import EngineError, Worker, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENGINES = (EAGER,)


class CountingWorker(Worker):
    """A worker that counts requests to write a file."""

    asked = 0

    def ask(self, *request: object) -> object:
        self.asked += request[0] == "write"
        return super().ask(*request)


@pytest.fixture(scope="module")
def process() -> Iterator[CountingWorker]:
    worker = CountingWorker("writer", 1, partial(Writer, load=load))
    with worker:
        yield worker


@pytest.fixture
def writer(process: CountingWorker) -> CountingWorker:
    process.asked = 0
    return process


def comparison(writer: Worker, kept: KeptRows, rounds: int = 2) -> Comparison:
    small = kept.written(ADD, ENGINES, writer).columns
    return Comparison(ENGINES, 1, Turns(rounds, 0.01), writer, small)


def files_of(folder: Path) -> Sequence[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def test_files_are_written_once_for_the_same_code(
    tmp_path: Path, writer: CountingWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptRows(tmp_path)
    first = kept.written(ADD, ENGINES, writer)
    assert writer.asked == len(ENGINES)
    assert kept.written(ADD, ENGINES, writer) == first
    assert writer.asked == len(ENGINES)
    for column in first.columns.values():
        assert column.written is not None
        assert column.written.path.is_file()
    assert {path.parts[0] for path in files_of(tmp_path)} == {ADD}  # nothing unfinished is left

    monkeypatch.setattr(kept_rows, "_files_version", lambda _: "other code")
    kept.written(ADD, ENGINES, writer)
    assert writer.asked == 2 * len(ENGINES)


def test_files_move_with_their_folder(tmp_path: Path, writer: CountingWorker) -> None:
    KeptRows(tmp_path / "here").written(ADD, ENGINES, writer)
    (tmp_path / "here").rename(tmp_path / "there")
    row = KeptRows(tmp_path / "there").written(ADD, ENGINES, writer)
    assert writer.asked == len(ENGINES)
    assert all(column.written and column.written.path.is_file() for column in row.columns.values())


def test_rows_are_measured_once_under_the_same_conditions(tmp_path: Path, writer: CountingWorker) -> None:
    kept = KeptRows(tmp_path)
    before = comparison(writer, kept)
    row = kept.measured(ADD, before)
    assert [len(column.rounds) for column in row.columns.values()] == [2]
    assert before.noise.elapsed > 0

    again = comparison(writer, kept)
    assert kept.measured(ADD, again) == row
    assert again.noise == before.noise

    longer = kept.measured(ADD, comparison(writer, kept, rounds=3))
    assert [len(column.rounds) for column in longer.columns.values()] == [3]
    assert writer.asked == len(ENGINES)


def test_what_failed_is_kept(tmp_path: Path, writer: CountingWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptRows(tmp_path)
    measuring = comparison(writer, kept)

    def broken(*_: object, **__: object) -> None:
        raise EngineError("no memory")

    monkeypatch.setattr(Worker, "time", broken)
    failed = kept.measured(ADD, measuring)
    assert [column.failure for column in failed.columns.values()] == ["no memory"]
    monkeypatch.undo()
    assert kept.measured(ADD, measuring) == failed
