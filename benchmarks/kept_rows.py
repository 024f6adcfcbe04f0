"""A cache of rows of :mod:`benchmarks.models`: the engines' files, and what was measured with them.

A section can so be written on one day and measured on another, in pieces, or several rows side by side.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import zoo

from benchmarks import workloads
from benchmarks.code_versions import digest, installed, our_files
from benchmarks.results import PACKAGES
from executorch_ggml.benchmark.comparison import Column, Noise, Row, write
from executorch_ggml.benchmark.engines import Written
from executorch_ggml.benchmark.worker import FirstCall, Loaded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from executorch_ggml.benchmark.comparison import Comparison
    from executorch_ggml.benchmark.engines import Engine
    from executorch_ggml.benchmark.worker import Worker

FILE = "row.json"


def _column(kept: dict[str, Any], folder: Path) -> Column:
    written, loaded, call = kept["written"], kept["loaded"], kept["call"]
    parts = {
        "written": written and Written(**{**written, "path": folder / written["path"]}),
        "loaded": loaded and Loaded(**loaded),
        "call": call and FirstCall(**call),
    }
    return Column(**{**kept, **parts})


def _files_version(engines: Sequence[Engine]) -> str:
    """Stands for the code that writes the engines' files: ours, that of the workloads, and the packages."""
    files = [*our_files(".py"), *Path(workloads.__file__).parent.glob("*.py"), Path(zoo.__file__)]
    return digest(files, [engine.name for engine in engines], [installed(package) for package in PACKAGES])


@dataclass(frozen=True)
class KeptRows:
    """The rows of a section, each in a folder of its own with the files of all engines.

    What failed is kept too: an engine that can't run a model fails again.
    """

    folder: Path

    def written(self, workload: str, engines: Sequence[Engine], writer: Worker) -> Row:
        """A row whose files were written before by the same code, or are written now."""
        kept = self._read(workload)
        if kept is None or kept["files"] != _files_version(engines):
            kept = self._write(workload, engines, writer)
        row = self._row(workload, kept)
        return Row({name: Column(column.failure, column.written) for name, column in row.columns.items()}, row.step)

    def measured(self, workload: str, comparison: Comparison) -> Row:
        """A row that was measured before with the same code and the same turns, or is measured now."""
        kept = self._read(workload)
        conditions = [digest([*our_files(".py"), *our_files(".so")]), comparison.threads, asdict(comparison.turns)]
        if kept is not None and kept["measured"] == conditions and kept["files"] == _files_version(comparison.engines):
            comparison.noise.add(Noise(**kept["noise"]))
            return self._row(workload, kept)
        row = self.written(workload, comparison.engines, comparison.writer)
        noise = comparison.measure(row)
        self._keep(self.folder / workload, row, comparison.engines, conditions, noise)
        return row

    def _row(self, workload: str, kept: dict[str, Any]) -> Row:
        columns = kept["row"]["columns"].items()
        return Row({name: _column(column, self.folder / workload) for name, column in columns}, kept["row"]["step"])

    def _read(self, workload: str) -> Any:
        path = self.folder / workload / FILE
        return json.loads(path.read_text("utf-8")) if path.exists() else None

    def _write(self, workload: str, engines: Sequence[Engine], writer: Worker) -> Any:
        """Write to a temporary folder, and rename that: of processes that write the same row the first one wins."""
        folder = self.folder / workload
        shutil.rmtree(folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as unfinished:
            own = Path(unfinished) / workload
            own.mkdir()
            self._keep(own, write(workload, engines, writer, str(own)), engines)
            with suppress(OSError):
                own.rename(folder)
        return self._read(workload)

    @staticmethod
    def _keep(
        folder: Path, row: Row, engines: Sequence[Engine], conditions: Any = None, noise: Noise | None = None
    ) -> None:
        kept = asdict(row)
        for column in kept["columns"].values():
            if column["written"]:
                column["written"]["path"] = str(column["written"]["path"].relative_to(folder))
        whole = {
            "files": _files_version(engines),
            "row": kept,
            "measured": conditions,
            "noise": asdict(noise or Noise()),
        }
        unfinished = folder / f"unfinished.{FILE}"
        unfinished.write_text(json.dumps(whole), "utf-8")
        unfinished.rename(folder / FILE)
