"""A ``.pte`` program on a device: ``python -m benchmarks.device_program PROGRAM ARGUMENTS OUTPUT DEVICE SECONDS``.

Says ``answered`` when it has its first answer, which it writes, then ``ms`` with the median of the runs that follow.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

import executorch_ggml


def main(program: str, arguments: str, output: str, device: str, seconds: str) -> None:
    if device != "CPU":
        from executorch_ggml import devices

        devices.load(device)
        executorch_ggml.set_device(device)
    args = torch.load(arguments)
    module = executorch_ggml.load(program)
    answer = module(*args)
    print("answered", flush=True)
    answer.numpy().tofile(output)
    took: list[float] = []
    end = time.perf_counter() + float(seconds)
    while time.perf_counter() < end:
        start = time.perf_counter()
        module(*args)
        took.append(time.perf_counter() - start)
    if took:
        print(f"ms {1000 * statistics.median(took):.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
