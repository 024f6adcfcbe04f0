"""Ours beside XNNPACK, eager PyTorch, ONNX Runtime and OpenVINO on the models of the zoo.

The rows are in four sections: in f32 at batch 1, in bf16, in int8, and in f32 at larger batches and longer sequences.

Each engine lives in a process of its own with the same number of threads. They take turns in rounds, so that whatever
else happens on the machine hits all of them; a ratio is the median of the ratios of each round.

With ``--resume`` the engines' files and the measured rows are kept, so that a section can be done in pieces.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import model_tables, results, workloads
from benchmarks.kept_rows import KeptRows
from executorch_ggml.benchmark.comparison import Comparison, Turns, available_engines, write
from executorch_ggml.benchmark.engines import (
    COMPARED,
    EAGER,
    GGML,
    GGML_BF16,
    ONNXRUNTIME,
    OPENVINO,
    OPENVINO_DEFAULT,
    XNNPACK,
    Engine,
)
from executorch_ggml.benchmark.worker import Runner, Worker, Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from executorch_ggml.benchmark.comparison import Row


@dataclass(frozen=True)
class Rows:
    """Rows of one section of the results."""

    title: str
    conditions: str
    workloads: tuple[str, ...]
    engines: tuple[Engine, ...]
    peers: tuple[Engine, ...]
    """Those that ours is held against."""
    rounds: int
    tiny: tuple[str, ...] = ()
    """Others of the kind, for a quick try."""


SHAPES = """\
Transformers run on 128 tokens, image models on 224x224 pixels (the U-Net on 128x128), recurrent networks on 16 steps.
Ours is exported with symbolic shapes, the others with those of the input."""
MODELS = (
    *("bert", "llama", "vit", "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small"),
    *("unet", "lstm", "gru"),
)

ROWS = {
    "models": Rows(
        "Models",
        f"Batch 1, f32. {SHAPES}",
        MODELS,
        COMPARED,
        (XNNPACK, EAGER, ONNXRUNTIME, OPENVINO),
        rounds=9,
        tiny=("tiny-bert", "tiny-mobilenet_v2"),
    ),
    "bf16": Rows(
        "Models in bf16",
        f"""\
Batch 1. Ours exports the f32 model with `precision="bf16"`; OpenVINO gets it as it is and chooses bf16 by itself where
the CPU has it. Beside them ours in f32. {SHAPES}""",
        MODELS,
        (GGML_BF16, GGML, OPENVINO_DEFAULT),
        (OPENVINO_DEFAULT,),
        rounds=9,
        tiny=("tiny-bert", "tiny-mobilenet_v2"),
    ),
    "int8": Rows(
        "Models in int8",
        """\
Batch 1, 128 tokens or 224x224 pixels. Ours and XNNPACK run one graph: what PT2E makes with ExecuTorch's
XNNPACKQuantizer (symmetric, static, weights per channel), exported with the shapes of the input. ONNX Runtime quantizes
the f32 model itself (static QDQ, per channel, after its own preprocessing, calibrated with the same inputs), and
OpenVINO reads that model: their errors are those of another quantization of the same weights.""",
        ("resnet18-int8", "mobilenet_v2-int8", "mobilenet_v3_small-int8", "bert-int8", "vit-int8"),
        (GGML, XNNPACK, ONNXRUNTIME, OPENVINO_DEFAULT),
        (XNNPACK, ONNXRUNTIME, OPENVINO_DEFAULT),
        rounds=9,
        tiny=("tiny-bert-int8", "tiny-mobilenet_v2-int8"),
    ),
    "sizes": Rows(
        "Batches and sequences",
        f"""\
f32; ours is exported with symbolic shapes, the others with those of the input. "bert-sentences" is a batch of sentences
of {", ".join(map(str, workloads.SENTENCES))} tokens, padded and masked.""",
        (
            *(f"{name}-batch{batch}" for name in workloads.VISION for batch in workloads.BATCHES),
            "bert-sentences",
            *(f"{name}-tokens{tokens}" for name in ("bert", "llama") for tokens in workloads.SEQUENCES),
        ),
        (GGML, XNNPACK, ONNXRUNTIME, OPENVINO),
        (XNNPACK, ONNXRUNTIME, OPENVINO),
        rounds=3,
    ),
}
FOLDER = Path("build/bench-models")
DEFAULT_ROWS = ("models", "bf16", "int8")
"""Not the larger sizes: they take half an hour more."""


def _writer(threads: int) -> Worker:
    return Worker("writer", threads, partial(Writer, load=workloads.load))


def write_files(names: Sequence[str], engines: Sequence[Engine], threads: int, kept: KeptRows) -> None:
    """Write the engines' files of some workloads, to be measured later."""
    with _writer(threads) as writer:
        for name in (workloads.ADD, *names):
            kept.written(name, engines, writer)
            print(f"{name}: written to {kept.folder / name}", flush=True)


def measure(
    rows: Rows, names: Sequence[str], engines: Sequence[Engine], threads: int, turns: Turns, kept: KeptRows | None
) -> str:
    """The tables of some workloads, in Markdown."""
    table: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as folder, _writer(threads) as writer:
        small = kept.written(workloads.ADD, engines, writer) if kept else write(workloads.ADD, engines, writer, folder)
        comparison = Comparison(
            engines, threads, turns, writer, small.columns, partial(Runner, prepare=workloads.prepare)
        )
        for name in names:
            row = table[name] = kept.measured(name, comparison) if kept else comparison.row(name)
            base = row.columns.get(model_tables.base_of(engines).name)
            cells = [f"{e.title} {model_tables.time_cell(row.columns[e.name], base)}" for e in engines]
            print(f"{name}: {', '.join(cells)}", flush=True)
            for engine in engines:
                if failure := row.columns[engine.name].failure:
                    print(f"    {name}: {engine.title} failed: {failure}", file=sys.stderr)
    body = model_tables.report(table, engines, rows.peers, threads, turns.busy, comparison.noise)
    return f"{rows.conditions}\n\n{body}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument(
        "--rows", nargs="+", choices=ROWS, help=f"sections (default: {' '.join(DEFAULT_ROWS)}, or where the models are)"
    )
    every = dict.fromkeys(name for rows in ROWS.values() for name in (*rows.workloads, *rows.tiny))
    parser.add_argument(
        "--models", nargs="+", choices=every, metavar="MODEL", help=f"these rows alone, of: {', '.join(every)}"
    )
    cpus = len(os.sched_getaffinity(0))
    names = [engine.name for engine in (*COMPARED, GGML_BF16)]
    parser.add_argument("--engines", nargs="+", default=names, choices=names, metavar="ENGINE")
    parser.add_argument("--threads", type=int, default=min(2, cpus), help="threads of each engine")
    parser.add_argument("--rounds", type=int, help="how often each engine gets its turn (default: 9, sizes 3)")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a turn")
    parser.add_argument("--busy", type=int, default=cpus, help="processes that load these CPUs; 0: none")
    parser.add_argument(
        "--resume", action="store_true", help=f"keep files and measurements in {FOLDER}, those of the same code"
    )
    parser.add_argument("--write-files", action="store_true", help="write the files for --resume, and measure nothing")
    parser.add_argument("--out", type=Path, help="file of results (default: RESULTS.md for whole sections, else none)")
    return parser.parse_args()


def chosen(sections: Sequence[str] | None, models: Sequence[str] | None) -> dict[str, list[str]]:
    """The workloads of each section: all of those sections, or the ones that are named, in the first that has them."""
    if models is None:
        return {section: list(ROWS[section].workloads) for section in sections or DEFAULT_ROWS}
    found: dict[str, list[str]] = {}
    for name in models:
        of = [s for s in sections or ROWS if name in (*ROWS[s].workloads, *ROWS[s].tiny)]
        if of:
            found.setdefault(of[0], []).append(name)
    return found


def main() -> None:
    arguments = _arguments()
    for section, names in chosen(arguments.rows, arguments.models).items():
        rows = ROWS[section]
        engines = available_engines([engine.name for engine in rows.engines if engine.name in arguments.engines])
        turns = Turns(arguments.rounds or rows.rounds, arguments.seconds, arguments.busy)
        kept = KeptRows(FOLDER / section)
        if arguments.write_files:
            write_files(names, engines, arguments.threads, kept)
            continue
        body = measure(rows, names, engines, arguments.threads, turns, kept if arguments.resume else None)
        print(f"\n{body}\n")
        complete = set(names) >= set(rows.workloads) and len(engines) == len(rows.engines)
        out = arguments.out or (results.RESULTS if complete else None)
        if out:
            results.write_section(section, rows.title, body, out)


if __name__ == "__main__":
    main()
