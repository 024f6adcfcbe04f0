"""What the MLX device costs and gives: the same graphs on it, in plain MLX code, and on ggml's CPU.

- one node: two vectors of four added; what a plan itself costs is the difference to plain MLX.
- chain: 64 functions of small vectors one after the other; a 64th of the difference is what a node costs.
- mlp, block, cnn: three linear layers, a decoder block of Llama's kind, and a small CNN.

Plain MLX code takes the same numpy arrays, and gives one. It and the device, as it is and through ``mx.compile``, share
a process and take turns call by call: what is over plain is the median of neighbours' differences, in which the
machine's drift cancels. ggml has its own process. On Linux MLX's own CPU functions are slow, so the last column says
little there.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from tests.helpers import lowered, session
from torch import Tensor, nn

from benchmarks import results
from executorch_ggml.benchmark.worker import EngineError, Worker

DEVICE, COMPILED, PLAIN, GGML = "MLX device", "compiled", "plain MLX", "ggml CPU"
ENGINES = (DEVICE, COMPILED, PLAIN, GGML)
CHAIN = 64
WIDTH, HEADS, TOKENS = 256, 4, 64

Array = np.ndarray[Any, Any]
Run = Callable[[list[Array]], list[Array]]


class Workload(NamedTuple):
    """A module with its inputs, and what makes the same function in MLX of its parameters by name."""

    module: nn.Module
    inputs: tuple[Tensor, ...]
    plain: Callable[[dict[str, Any]], Callable[..., Any]]


# ---------------------------------------------------------------------------------------------------------- workloads


class Add(nn.Module):
    """One node."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


def one_node() -> Workload:
    return Workload(Add(), (torch.randn(4), torch.randn(4)), lambda w: lambda a, b: a + b)


class Chain(nn.Module):
    """Many small nodes."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(CHAIN // 2):
            x = torch.sin(torch.tanh(x))
        return x


def chain() -> Workload:
    import mlx.core as mx

    def plain(x: Any) -> Any:
        for _ in range(CHAIN // 2):
            x = mx.sin(mx.tanh(x))
        return x

    return Workload(Chain(), (torch.randn(1, 32),), lambda w: plain)


class Mlp(nn.Module):
    """Three linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


def mlp() -> Workload:
    import mlx.core as mx

    def make(w: dict[str, Any]) -> Callable[..., Any]:
        layers = [(w[f"layers.{i}.weight"].T, w[f"layers.{i}.bias"]) for i in range(3)]

        def run(x: Any) -> Any:
            for weight, bias in layers:
                x = mx.maximum(mx.addmm(bias, x, weight), 0)
            return x

        return run

    return Workload(Mlp(), (torch.randn(TOKENS, WIDTH),), make)


class Block(nn.Module):
    """A decoder block without positions: RMS norm, attention, SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        q, k, v = (layer(y).view(1, TOKENS, HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(1, TOKENS, WIDTH))
        y = self.after(x)
        down: Tensor = self.down(F.silu(self.gate(y)) * self.up(y))
        return x + down


def block() -> Workload:
    import mlx.core as mx

    def make(w: dict[str, Any]) -> Callable[..., Any]:
        t = {name: array.T for name, array in w.items()}
        scale = (WIDTH // HEADS) ** -0.5

        def run(x: Any) -> Any:
            y = mx.fast.rms_norm(x, w["before.weight"], 1e-5)
            heads = ((y @ t[f"{name}.weight"]).reshape(1, TOKENS, HEADS, -1) for name in "qkv")
            q, k, v = (part.transpose(0, 2, 1, 3) for part in heads)
            attended = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale)
            x = x + attended.transpose(0, 2, 1, 3).reshape(1, TOKENS, WIDTH) @ t["out.weight"]
            y = mx.fast.rms_norm(x, w["after.weight"], 1e-5)
            gate = y @ t["gate.weight"]
            return x + (gate * mx.sigmoid(gate) * (y @ t["up.weight"])) @ t["down.weight"]

        return run

    return Workload(Block().eval(), (torch.randn(1, TOKENS, WIDTH),), make)


class Cnn(nn.Module):
    """Two convolutions, a pooling, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.second(F.max_pool2d(F.relu(self.first(x)), 2)))
        y: Tensor = self.head(x.mean((2, 3)))
        return y


def cnn() -> Workload:
    import mlx.core as mx

    def make(w: dict[str, Any]) -> Callable[..., Any]:
        kernels = [mx.contiguous(w[f"{name}.weight"].transpose(0, 2, 3, 1)) for name in ("first", "second")]

        def run(x: Any) -> Any:
            x = mx.maximum(mx.conv2d(x.transpose(0, 2, 3, 1), kernels[0], padding=1) + w["first.bias"], 0)
            n, h, wide, c = x.shape
            x = mx.max(x.reshape(n, h // 2, 2, wide // 2, 2, c), axis=(2, 4))
            x = mx.maximum(mx.conv2d(x, kernels[1], stride=2, padding=1) + w["second.bias"], 0)
            return mx.addmm(w["head.bias"], mx.mean(x, axis=(1, 2)), w["head.weight"].T)

        return run

    return Workload(Cnn().eval(), (torch.randn(1, 3, 32, 32),), make)


WORKLOADS = {"one node": one_node, "chain": chain, "mlp": mlp, "block": block, "cnn": cnn}


# ------------------------------------------------------------------------------------------------------------ engines


def _mlx_device(load: Workload, threads: int, *, compile: bool = False) -> Run:
    from executorch_ggml.devices.mlx import MlxDevice

    plan = MlxDevice(compile=compile).plan(lowered(load.module, load.inputs))
    return lambda arrays: list(plan(arrays))


def _plain_mlx(load: Workload, threads: int) -> Run:
    import mlx.core as mx

    function = load.plain({name: mx.array(value.numpy()) for name, value in load.module.state_dict().items()})

    def run(arrays: list[Array]) -> list[Array]:
        result = function(*(mx.array(array) for array in arrays))
        mx.eval(result)
        return [np.asarray(result)]

    return run


def _ggml(load: Workload, threads: int) -> Run:
    ready = session(lowered(load.module, load.inputs), threads=threads)
    return lambda arrays: ready.run(*arrays)


_PREPARE: dict[str, Callable[[Workload, int], Run]] = {
    DEVICE: _mlx_device,
    COMPILED: functools.partial(_mlx_device, compile=True),
    PLAIN: _plain_mlx,
    GGML: _ggml,
}
_PROCESSES = {"MLX": (DEVICE, PLAIN, COMPILED), "ggml": (GGML,)}


class _Server:
    """What a process does for its engines."""

    def __init__(self, process: str, threads: int, folder: Path) -> None:
        torch.set_num_threads(threads)
        self.engines, self.threads = _PROCESSES[process], threads
        self.runs: list[Callable[[], list[Array]]] = []

    def prepare(self, workload: str) -> float:
        """Make a workload ready in each engine; the largest difference from eager, relative to eager's largest."""
        torch.manual_seed(0)
        load = WORKLOADS[workload]()
        arrays = [tensor.numpy() for tensor in load.inputs]
        with torch.no_grad():
            expected = load.module(*load.inputs)
            runs = [_PREPARE[engine](load, self.threads) for engine in self.engines]
        self.runs = [functools.partial(run, arrays) for run in runs]
        results = [torch.from_numpy(np.array(run()[0])).reshape(expected.shape) for run in self.runs]
        error = max((result - expected).abs().max() for result in results)
        return float(error / expected.abs().max())

    def time(self, seconds: float, warm_up: int) -> list[list[float]]:
        """The microseconds of each engine's calls, of which the engines take turns."""
        for _ in range(warm_up):
            for run in self.runs:
                run()
        durations: list[list[float]] = [[] for _ in self.runs]
        turns = list(zip(self.runs, durations, strict=True))
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            turns.reverse()  # who comes second may find its data in the cache
            for run, its in turns:
                start = time.perf_counter()
                run()
                its.append((time.perf_counter() - start) * 1e6)
        return durations


def _row(name: str, workers: dict[str, Worker], rounds: int, seconds: float) -> list[str]:
    for process, worker in workers.items():
        error = worker.ask("prepare", name)
        if error > 1e-4:
            raise EngineError(f"{process} is wrong by {error:.1e} on {name}")
    calls: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    of_ggml = []
    for _ in range(rounds):
        turn: dict[str, list[float]] = {}
        for process, worker in workers.items():
            turn |= zip(_PROCESSES[process], worker.ask("time", seconds, 5), strict=True)
        of_ggml.append(statistics.median(turn[DEVICE]) / statistics.median(turn[GGML]))
        for engine, its in turn.items():
            calls[engine] += its
    medians = {engine: statistics.median(its) for engine, its in calls.items()}

    def over_plain(engine: str) -> float:
        return statistics.median(ours - theirs for ours, theirs in zip(calls[engine], calls[PLAIN], strict=True))

    return [
        name,
        *(f"{medians[engine]:.0f}" for engine in ENGINES),
        *(f"{over_plain(engine):+.0f}" for engine in (DEVICE, COMPILED)),
        f"{1 + over_plain(DEVICE) / medians[PLAIN]:.2f}",
        f"{statistics.median(of_ggml):.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mlx_device",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each turn")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="file of results (default: RESULTS.md)")
    arguments = parser.parse_args()
    from executorch_ggml.devices.mlx import available

    there, what = available()
    if not there:
        raise SystemExit(f"mlx_device: {what}")
    try:
        with ExitStack() as stack:
            workers = {p: stack.enter_context(Worker(p, arguments.threads, server=_Server)) for p in _PROCESSES}
            rows = [_row(name, workers, arguments.rounds, arguments.seconds) for name in arguments.workloads]
    except EngineError as error:
        raise SystemExit(f"mlx_device: {error}") from error
    header = ["graph, µs a call", *ENGINES, "over plain", "compiled over plain", "of plain", "of ggml"]
    table = results.markdown_table(header, rows)
    body = f"{what}, threads: {arguments.threads}. numpy arrays in and out, medians of calls.\n\n{table}"
    print(body)
    results.write_section("mlx-device", "The MLX device", body, arguments.out)


if __name__ == "__main__":
    main()
