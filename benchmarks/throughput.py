"""Independent programs in threads of their own: how calls per second grow with the number of programs.

Each program runs on one thread; one Python thread calls each. One program and several take turns, and the ratio is the
median of the turns'. On a machine of as many cores as programs the ratio should come near their number.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

import torch
from torch import nn

import executorch_ggml
from benchmarks import results


def calls_per_second(modules: list[executorch_ggml.Module], inputs: torch.Tensor, seconds: float) -> float:
    """Calls of all modules together, each from a thread of its own."""
    counts = [0] * len(modules)
    end = time.perf_counter() + seconds

    def call(index: int) -> None:
        while time.perf_counter() < end:
            modules[index](inputs)
            counts[index] += 1

    threads = [threading.Thread(target=call, args=(index,)) for index in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def measured(programs: int, rounds: int, seconds: float) -> str:
    """A table of one program beside several."""
    inputs = torch.randn(32, 512)
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mlp.pte"
        executorch_ggml.export(model, (inputs,)).save(str(path))
        executorch_ggml.set_num_threads(1)
        modules = [executorch_ggml.load(path) for _ in range(programs)]
        calls_per_second(modules, inputs, seconds / 4)  # warm up
        pairs = [
            (calls_per_second(modules[:1], inputs, seconds), calls_per_second(modules, inputs, seconds))
            for _ in range(rounds)
        ]
    alone, together = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(several / one for one, several in pairs)
    rows = [["1", f"{alone:.0f}", "1.00"], [str(programs), f"{together:.0f}", f"{ratio:.2f}"]]
    table = results.markdown_table(["programs of one thread", "calls per second", "ratio"], rows)
    return f"An MLP of 512, 1024 and 512 features over 32 rows, {os.cpu_count()} cores:\n\n{table}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.throughput",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--programs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--out", type=Path, default=results.RESULTS, help="file of results")
    arguments = parser.parse_args()
    body = measured(arguments.programs, arguments.rounds, arguments.seconds)
    print(body)
    results.write_section("throughput", "Programs side by side", body, arguments.out)


if __name__ == "__main__":
    main()
