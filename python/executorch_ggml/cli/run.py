"""``executorch-ggml run``: a program's outputs for inputs from files, or random ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options
from .output import described, show

if TYPE_CHECKING:
    import numpy as np
    import torch


@click.command("run", short_help="Run a program on files or random inputs.")
@click.argument("program", type=options.FILE)
@click.option("-i", "--input", "files", type=options.FILE, multiple=True, help="A file with an input; repeatable.")
@click.option("-o", "--output", type=options.FILE, help="Write the outputs: .npz, .npy (of one) or .json.")
@click.option("--method", default="forward", show_default=True)
@click.option("--seed", type=int, default=0, help="Of the inputs that no file is given for (0).")
@options.data
@options.gguf
@options.device
@options.threads
@options.as_json
def command(
    program: Path,
    files: tuple[Path, ...],
    output: Path | None,
    method: str,
    seed: int,
    data: Path | None,
    gguf: tuple[Path, ...],
    device: str,
    threads: int,
    as_json: bool,
) -> None:
    """Run a program on inputs from files, in order, and print its outputs.

    Files are .npy, .npz (several inputs), .json (nested lists), images (resized, and normalized as for ImageNet) or
    .wav. Inputs that no file is given for are random, of the largest sizes that the program takes.
    """
    from .. import load, set_num_threads
    from .arrays import arrays_of, check_writes, write

    if output is not None:
        check_writes(output)
    inputs = inputs_for(program, method, files, seed)
    set_num_threads(threads)
    module = load(program, data_path=data, gguf=gguf, device=device)
    begin = time.perf_counter()
    result = module.run(method, inputs)
    seconds = time.perf_counter() - begin
    outputs = arrays_of(result if isinstance(result, tuple) else (result,))
    _show(outputs, seconds, as_json)
    if output is not None:
        write(output, outputs)


def _show(outputs: list[np.ndarray[Any, Any]], seconds: float, as_json: bool) -> None:
    lines = [described(f"output {i}", array) for i, array in enumerate(outputs)]
    facts = [{"dtype": str(array.dtype), "shape": array.shape, "values": array} for array in outputs]
    show({"seconds": seconds, "outputs": facts}, as_json, [*lines, f"first call {1000 * seconds:.1f} ms"])


def inputs_for(program: Path, method: str, files: tuple[Path, ...], seed: int) -> list[torch.Tensor]:
    """The inputs of a method, from files as far as there are any, and random ones after them."""
    import torch

    from ..pte import input_ports
    from .arrays import read
    from .models import random_tensor

    ports = input_ports(program, method)
    inputs: list[torch.Tensor] = []
    for path in files:
        port = ports[len(inputs)] if len(inputs) < len(ports) else None
        if port is None:
            raise ValueError(f"{path}: method {method} takes {len(ports)} tensors, {', '.join(map(str, ports))}")
        inputs += read(path, port)
    generator = torch.Generator().manual_seed(seed)
    for port in ports[len(inputs) :]:
        if port is None:
            raise ValueError(f"method {method} takes an input that is no tensor; run it from Python")
        inputs.append(random_tensor(port.shape, port.dtype, generator))
    return inputs
