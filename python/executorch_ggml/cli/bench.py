"""``executorch-ggml bench``: a model's time, memory and error on ggml beside other engines."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options, progress
from .compare import DIFFERENT
from .output import show

if TYPE_CHECKING:
    from ..benchmark.comparison import Column, Comparison, Row, Turns
    from ..benchmark.engines import Engine
    from ..benchmark.workload import Workload
    from .models import Model

OURS = "ggml"
PEERS = ("eager", "xnnpack", "onnxruntime", "openvino")
_ADD, _MODEL = "add", "model"
"""Names of workloads: what starts an engine, and what is timed."""
_HEADER = ("engine", "p50 ms", "p90 ms", "times ours", "load ms", "loaded MB", "peak MB", "file MB", "error")


@dataclass(frozen=True)
class _Source:
    """What is timed, as the engines' processes get it."""

    model: str
    against: str | None
    input_shape: tuple[str, ...]
    random_weights: bool
    options: Mapping[str, Any]

    @property
    def is_program(self) -> bool:
        return self.model.endswith(".pte")

    @property
    def module(self) -> str | None:
        """The argument that names the module."""
        return self.against if self.is_program else self.model

    def load(self, name: str) -> Workload:
        """The workload of a name."""
        from ..benchmark.workload import one_node

        if name == _ADD:
            return one_node()
        return self._program() if self.is_program else self._model()

    def prepare(self) -> None:
        """Make the module's classes importable."""
        from .models import import_code_of

        if self.module is not None:
            import_code_of(self.module)

    def _model(self) -> Workload:
        from ..benchmark.workload import Workload, flat
        from .models import with_inputs

        model = with_inputs(self._named(self.model), self.input_shape)
        module, args = flat(model.module, model.args, model.kwargs)
        return Workload(module, args, options=self.options)

    def _named(self, name: str) -> Model:
        """The model that an argument names, which can be pickled."""
        from ..benchmark.workload import Exported
        from .models import model_of

        model = model_of(name, random_weights=self.random_weights)
        return model if model.exported is None else replace(model, module=Exported(Path(name).read_bytes()))

    def _program(self) -> Workload:
        from ..benchmark.workload import Workload, flat
        from .run import inputs_for

        path = Path(self.model)
        inputs = tuple(inputs_for(path, "forward", (), seed=0))
        if self.against is None:
            return Workload(None, inputs, program=path)
        model = self._named(self.against)
        module, args = flat(model.module, model.args, model.kwargs)
        if len(args) != len(inputs):
            raise ValueError(f"{self.model} takes {len(inputs)} tensors, {self.against} {len(args)}")
        return Workload(module, inputs, program=path)


@click.command("bench", short_help="Time a model beside other engines.")
@click.argument("model", metavar="MODEL_OR_PTE")
@click.option("--against", metavar="MODEL", help="With a .pte file: the model that it was made of.")
@click.option("--engines", metavar="NAME,NAME", help=f"Of {', '.join((OURS, *PEERS))} (those installed).")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Turns of each engine.")
@click.option("--seconds", type=click.FloatRange(min=0), default=0.3, show_default=True, help="Of a turn.")
@click.option("--quantize", metavar="TYPE|FILE", help="How ours stores weights: q8_0, q4_k ..., or a JSON file.")
@click.option("--precision", type=click.Choice(options.PRECISIONS), help="What ours computes in.")
@options.of_example
@click.option("--at-most", type=float, metavar="X", help=f"Fail with {DIFFERENT} where an error is larger.")
@options.threads
@options.as_json
@progress.shown
def command(
    model: str,
    against: str | None,
    engines: str | None,
    rounds: int,
    seconds: float,
    threads: int,
    as_json: bool,
    **choice: Any,
) -> int:
    """Time a model on ggml beside eager PyTorch and, where installed, XNNPACK, ONNX Runtime and OpenVINO.

    MODEL_OR_PTE is a model as `export` takes it, language models apart (`generate` says their speed), or a .pte file,
    which is timed alone, or with --against beside the others. All get the same model, inputs and number of threads.
    Each engine runs in a process of its own, and they take turns; "times ours" is the median over the rounds of its
    time divided by ours. Memory is what loading adds to the process, and the most that it had until the last call. The
    error is the largest difference from eager, relative to the largest magnitude of the output.
    """
    from ..runtime import get_num_threads

    source = _source(model, against, choice)
    names = _names(engines, source)
    from ..benchmark.comparison import Turns
    from ..benchmark.engines import ENGINES

    missing = {name: ENGINES[name].missing() for name in names}
    if engines is not None and (absent := [p for packages in missing.values() for p in packages]):
        raise ValueError(f"--engines {engines}: not installed: pip install {' '.join(dict.fromkeys(absent))}")
    chosen = [ENGINES[name] for name in names if not missing[name]]
    threads = threads or get_num_threads()
    row, noise = _measure(source, chosen, threads, Turns(rounds, seconds))
    if all(column.failure for column in row.columns.values()):
        raise ValueError(next(iter(row.columns.values())).failure)
    found = {name: _facts(name, row) for name in row.columns}
    facts = {
        "model": model,
        "against": against,
        "threads": threads,
        "rounds": rounds,
        "seconds": seconds,
        "engines": found,
        "missing": {name: packages for name, packages in missing.items() if packages},
        "time_of_others": noise,
    }
    show(facts, as_json, _lines(facts))
    limit = choice["at_most"]
    return DIFFERENT if limit is not None and not all(_within(each, limit) for each in found.values()) else 0


def _within(facts: Mapping[str, Any], limit: float) -> bool:
    """Whether an engine's answer is right; True for one that gave none."""
    return facts.get("error") is None or facts["error"] <= limit


def _source(model: str, against: str | None, choice: Mapping[str, Any]) -> _Source:
    """What is timed. Raises for options that would be ignored."""
    if model.endswith(".gguf"):
        raise ValueError(f"{model}: export it, and `executorch-ggml generate --json` says how fast the program is")
    exported = {name: choice[name] for name in ("quantize", "precision") if choice[name] is not None}
    source = _Source(model, against, choice["input_shape"], choice["random_weights"], exported)
    if source.is_program and (exported or source.input_shape):
        raise click.UsageError(f"--quantize, --precision and --input-shape are for models, and {model} is a program")
    if not source.is_program and against is not None:
        raise click.UsageError(f"--against is for a .pte file, and {model} is none")
    if source.is_program and against is None and choice["at_most"] is not None:
        raise click.UsageError("--at-most needs a model to compare with: --against")
    if source.is_program and not Path(model).is_file():
        raise FileNotFoundError(f"{model}: no such file")
    return source


def _names(engines: str | None, source: _Source) -> list[str]:
    """The engines to time: ours first."""
    possible = (OURS,) if source.module is None else (OURS, *PEERS)
    names = list(possible) if engines is None else engines.split(",")
    for name in names:
        if name not in (OURS, *PEERS):
            raise click.UsageError(f"--engines {name}: expected some of {', '.join((OURS, *PEERS))}")
        if name not in possible:
            raise click.UsageError(f"--engines {name}: only {OURS} runs a .pte file; name its model with --against")
    return sorted(dict.fromkeys(names), key=(OURS, *PEERS).index)


def _measure(source: _Source, engines: Sequence[Engine], threads: int, turns: Turns) -> tuple[Row, float]:
    """What the engines did, and the share of the processors that other processes took meanwhile."""
    from ..benchmark.comparison import Comparison, write
    from ..benchmark.worker import Runner, Worker, Writer

    load = partial(Writer, load=source.load)
    with tempfile.TemporaryDirectory() as folder, Worker("writer", threads, load) as writer:
        small = write(_ADD, engines, writer, folder).columns
        runner = partial(Runner, prepare=source.prepare)
        comparison: Comparison = Comparison(engines, threads, turns, writer, small, runner)
        row = comparison.row(_MODEL)
    return row, comparison.noise.share


def _facts(name: str, row: Row) -> dict[str, Any]:
    """What is known of an engine."""
    from ..benchmark.comparison import percentile
    from ..benchmark.engines import ENGINES

    column = row.columns[name]
    facts: dict[str, Any] = {"title": ENGINES[name].title}
    if column.written is not None:
        written = column.written
        facts |= {"file_bytes": written.size, "delegates": written.delegates, "outside": written.outside}
    if column.loaded is not None and column.call is not None:
        facts |= {"load_seconds": column.loaded.seconds, "first_call_seconds": column.call.seconds}
        facts |= {"loaded_bytes": column.loaded.resident, "error": column.call.error}
    if column.failure:
        return facts | {"failure": column.failure}
    ours = row.columns.get(OURS)
    return facts | {
        "p50_seconds": column.median,
        "p90_seconds": percentile(column.rounds, 90),
        "times_ours": _times(column, ours),
        "peak_bytes": column.peak,
    }


def _times(column: Column, ours: Column | None) -> float | None:
    """The engine's time as a multiple of ours."""
    return None if ours is None or ours.failure else ours.speed(column)


def _lines(facts: Mapping[str, Any]) -> list[str]:
    engines = facts["engines"].values()
    rows = [_HEADER, *(_cells(each) for each in engines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return [
        f"{facts['model']}, {facts['threads']} threads, {facts['rounds']} rounds of {facts['seconds']:g} s",
        *lines,
        *(f"{each['title']} failed: {each['failure']}" for each in engines if "failure" in each),
        *(f"{name} is not installed: pip install {' '.join(p)}" for name, p in facts["missing"].items()),
        f"other processes took {facts['time_of_others']:.0%} of the processors meanwhile",
    ]


def _cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    if "failure" in facts:
        return (facts["title"], "failed", *([""] * (len(_HEADER) - 2)))
    times, error = facts["times_ours"], facts["error"]
    return (
        facts["title"],
        f"{1e3 * facts['p50_seconds']:.3g}",
        f"{1e3 * facts['p90_seconds']:.3g}",
        "-" if times is None else f"{times:.2f}",
        f"{1e3 * facts['load_seconds']:.3g}",
        f"{facts['loaded_bytes'] / 1e6:.1f}",
        f"{facts['peak_bytes'] / 1e6:.1f}",
        f"{facts['file_bytes'] / 1e6:.1f}",
        "-" if error is None else f"{error:.1g}",
    )
