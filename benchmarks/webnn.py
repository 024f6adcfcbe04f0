"""Networks built through WebNN: ggml beside ONNX Runtime, each behind the same call; and what building costs.

Both take all processors, each in a process of its own. They take turns, in rounds; of each the median of its rounds'
medians counts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from examples.demo_support.webnn_networks import encoder, mobilenet

from benchmarks import results
from executorch_ggml import webnn
from executorch_ggml.benchmark.worker import Worker

BACKENDS = ("ggml", "onnx")
Array = np.ndarray[Any, Any]


def _mobilenet(builder: webnn.MLGraphBuilder) -> tuple[webnn.MLOperand, dict[str, Array]]:
    image = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
    return mobilenet(builder, builder.input("image", list(image.shape))), {"image": image}


def _encoder(builder: webnn.MLGraphBuilder) -> tuple[webnn.MLOperand, dict[str, Array]]:
    tokens = np.random.default_rng(1).integers(0, 1000, (1, 128)).astype(np.int32)
    operand = builder.input("tokens", list(tokens.shape), "int32")
    return encoder(builder, operand, layers=12, width=384, heads=12, words=1000), {"tokens": tokens}


Network = Callable[[webnn.MLGraphBuilder], tuple[webnn.MLOperand, dict[str, Array]]]
NETWORKS: dict[str, Network] = {"MobileNetV2, 224 x 224": _mobilenet, "encoder, 12 x 384, 128 tokens": _encoder}


class Server:
    """What a backend's process does, see :class:`executorch_ggml.benchmark.worker.Worker`."""

    def __init__(self, backend: str, threads: int, folder: Path) -> None:
        del threads, folder
        self._context = webnn.ML().create_context(backend=backend)
        self._call: Callable[[], Array]

    def prepare(self, name: str) -> Array:
        """Build a network; what it computes."""
        builder = self._context.create_graph_builder()
        operand, inputs = NETWORKS[name](builder)
        graph = builder.build({"y": operand})
        self._call = lambda: self._context.compute(graph, inputs)["y"]
        return self._call()

    def time(self, seconds: float, warm_up: int) -> list[float]:
        """How long each call takes, for some seconds, after a few that don't count."""
        return timed(self._call, seconds, warm_up)


def timed(call: Callable[[], Any], seconds: float, warm_up: int = 3) -> list[float]:
    """How long each call takes, for some seconds, after a few that don't count."""
    for _ in range(warm_up):
        call()
    times: list[float] = []
    while sum(times) < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def network(workers: Mapping[str, Worker], name: str, rounds: int, seconds: float) -> tuple[dict[str, float], float]:
    """Seconds a call on each backend, and how far the results are apart."""
    first, second = (worker.ask("prepare", name) for worker in workers.values())
    apart = float(np.abs(first - second).max() / np.abs(second).max())
    medians: dict[str, list[float]] = {backend: [] for backend in workers}
    for _ in range(rounds):
        for backend, worker in workers.items():
            medians[backend].append(statistics.median(worker.time(seconds, warm_up=3)))
    return {backend: statistics.median(of_rounds) for backend, of_rounds in medians.items()}, apart


def overhead() -> str:
    """What a call adds to the engine's own time, and building to the graph's size."""
    context = webnn.ML().create_context(backend="ggml")
    builder = context.create_graph_builder()
    graph = builder.build({"y": builder.relu(builder.input("x", [4]))})
    x = np.ones(4, np.float32)
    program = graph._program_for(context)
    whole = statistics.median(timed(lambda: context.compute(graph, {"x": x}), 1))
    engine = statistics.median(timed(lambda: program([x]), 1))
    builder = context.create_graph_builder()
    start = time.perf_counter()
    y, one = builder.input("x", [4, 4]), builder.constant(np.ones((4, 4), np.float32))
    for _ in range(10_000):
        y = builder.add(y, one)
    builder.build({"y": y})
    built = time.perf_counter() - start
    return (
        f"A call adds {(whole - engine) * 1e6:.1f} µs to the engine's {engine * 1e6:.1f} µs. "
        f"A graph of 10,000 operations is built, converted and loaded in {built:.2f} s."
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="WebNN: ggml beside ONNX Runtime.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each backend, in each round")
    args = parser.parse_args()
    rows = []
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(name, os.cpu_count() or 1, Server)) for name in BACKENDS}
        for name in NETWORKS:
            times, apart = network(workers, name, args.rounds, args.seconds)
            ratio = times["onnx"] / times["ggml"]
            rows.append([name, *(f"{times[b] * 1e3:.1f}" for b in BACKENDS), f"{ratio:.2f}x", f"{apart:.1e}"])
    header = ["network", *(f"{b}, ms" for b in BACKENDS), "ggml's speed over onnx's", "apart"]
    results.write_section("webnn", "WebNN", f"{results.markdown_table(header, rows)}\n\n{overhead()}")


if __name__ == "__main__":
    main()
