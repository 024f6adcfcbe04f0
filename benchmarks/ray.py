"""Offline batch inference with Ray Data: images and tokens a second, by actors and threads.

Each case is a run of a local cluster. The throughput counts what was computed while all of its actors were at work,
from the last one's first batch to the first one's last; the start of the cluster and of the actors is left out. The
calculator (`executorch_ggml.ray.sizing`) is given the case of one actor with one thread and the memory's bandwidth, as
measured here, and its figures for the other cases stand beside those that were measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch

import executorch_ggml
from benchmarks import results
from executorch_ggml.benchmark.system import anonymous_bytes
from executorch_ggml.ray import Predictor, TextGenerator, map_batches
from executorch_ggml.ray.sizing import Node, Workload, estimate

CASES = ((1, 1), (1, 2), (2, 1))
SERIAL = 0.05


@dataclass
class Task:
    """What is measured: an actor class, its program, and rows."""

    unit: str
    actor: type[Any]
    path: Path
    row: Callable[[int], dict[str, Any]]
    rows: int
    batch_size: int
    items_per_row: int
    options: dict[str, Any] = field(default_factory=dict)


def images(folder: Path, rows: int) -> Task:
    """ResNet-18 on 224x224 pixels, eight images a call."""
    from tests import zoo

    model = zoo.load("resnet18")
    path = folder / "resnet18.pte"
    executorch_ggml.export(model.module, (torch.randn(8, 3, 224, 224),)).save(str(path))
    pixels = np.random.default_rng(0).standard_normal((3, 224, 224), np.float32)
    options = {"inputs": "x", "keep": ()}
    return Task("images", Predictor, path, lambda _: {"x": pixels}, rows, 8, 1, options)


def tokens(folder: Path, rows: int) -> Task:
    """A Llama of 42 million weights in float32, 24 tokens after a prompt."""
    from tests.llm import models
    from transformers import LlamaConfig, LlamaForCausalLM

    from executorch_ggml import llm

    config = LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=6,
        num_attention_heads=12,
        vocab_size=101,
        eos_token_id=None,
    )
    path = folder / "llama.pte"
    llm.export(LlamaForCausalLM(config).eval(), max_seq_len=128, tokenizer=models.tokenizer()).save(str(path))
    options = {"max_new_tokens": 24, "keep": ()}
    return Task("tokens", TextGenerator, path, lambda row: {"prompt": f"A text {row}"}, rows, 2, 24, options)


def timed(actor: type[Any]) -> type[Any]:
    """The class with the process, the times and the memory of each batch as columns."""

    class Timed(actor):
        def __call__(self, batch: Any) -> Any:
            began = time.time()
            size = len(next(iter(super().__call__(batch).values())))
            row = {"pid": os.getpid(), "began": began, "ended": time.time(), "rows": size}
            memory = anonymous_bytes(os.getpid())
            return {name: np.array([value]) for name, value in {**row, "memory": memory}.items()}

    return Timed


def measured(task: Task, actors: int, threads: int) -> tuple[float, float]:
    """Items a second while all actors are at work, and the memory of an actor's own."""
    rows = ray.data.range(task.rows, override_num_blocks=max(8, task.rows // 64)).map(lambda row: task.row(row["id"]))
    mapped = map_batches(
        rows,
        timed(task.actor),
        task.path,
        actors=actors,
        num_threads=threads,
        batch_size=task.batch_size,
        **task.options,
    )
    calls = mapped.take_all()
    pids = {call["pid"] for call in calls}
    if len(pids) != actors:
        raise SystemExit(f"{len(pids)} of {actors} actors had work: give it more rows")
    start = max(min(call["began"] for call in calls if call["pid"] == pid) for pid in pids)
    end = min(max(call["ended"] for call in calls if call["pid"] == pid) for pid in pids)
    inside = [call for call in calls if call["began"] >= start and call["ended"] <= end]
    if not inside:
        raise SystemExit("no batch was computed while all actors were at work: give it more rows")
    done = sum(call["rows"] for call in inside) * task.items_per_row
    return done / (end - start), max(call["memory"] for call in calls)


def bandwidth(threads: int, rounds: int = 10) -> float:
    """Bytes a second that some threads together read from memory: the best of some rounds."""
    blocks = [np.ones(1 << 25, np.int64) for _ in range(threads)]
    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(rounds):
            start = time.perf_counter()
            list(pool.map(np.max, blocks))
            rates.append(sum(block.nbytes for block in blocks) / (time.perf_counter() - start))
    return max(rates)


def table(task: Task, rounds: int, read: float) -> str:
    """The cases of a task, measured and calculated."""
    runs = [[measured(task, *case) for case in CASES] for _ in range(rounds)]
    rates = [statistics.median(run[index][0] for run in runs) for index in range(len(CASES))]
    memory = [max(run[index][1] for run in runs) for index in range(len(CASES))]
    size = task.path.stat().st_size
    calls = task.batch_size if task.unit == "images" else 1
    workload = Workload(rates[0], size / calls, size, memory[0], SERIAL)
    rows = []
    for (actors, threads), rate, own in zip(CASES, rates, memory, strict=True):
        expected = estimate(workload, Node(actors * threads, read), actors, threads)
        cells = f"{rate:.1f}", f"{expected.rate:.1f}", f"{expected.rate / rate:.2f}", expected.limit, f"{own / 1e6:.0f}"
        rows.append([f"{actors} x {threads}", *cells])
    headers = ["actors x threads", f"{task.unit}/s", "calculated", "ratio", "bound by", "MB of an actor's own"]
    return f"{task.unit.capitalize()} (a program of {size / 1e6:.0f} MB):\n\n{results.markdown_table(headers, rows)}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ray", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="file of results")
    arguments = parser.parse_args()
    cores = os.cpu_count() or 1
    read = bandwidth(cores)
    ray.init(num_cpus=max(cores, 2) + 1, include_dashboard=False, logging_level="ERROR")  # one for what reads rows
    ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory() as folder:
        tasks = images(Path(folder), arguments.images), tokens(Path(folder), arguments.prompts)
        tables = [table(task, arguments.rounds, read) for task in tasks]
    body = f"{cores} cores, which read {read / 1e9:.1f} GB/s from memory together.\n\n" + "\n\n".join(tables)
    print(body)
    results.write_section("ray", "Batch inference with Ray Data", body, arguments.out)


if __name__ == "__main__":
    main()
