"""``executorch-ggml run``: a program's outputs for inputs from files, or random ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..progress import counted, stage
from . import options, progress
from .output import described, show

if TYPE_CHECKING:
    import torch

    from ..images import ImageInput
    from ..runtime.program_file import Port


@click.command("run", short_help="Run a program on files or random inputs.")
@click.argument("program", type=options.FILE)
@options.files
@options.transforms
@click.option("--labels", type=options.FILE, help="Names of classes: one a line, or JSON (default: the program's).")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print the N best classes (5 of files, where labels are known).",
)
@click.option("-o", "--output", type=options.FILE, help="Write the outputs: .npz, .json; one: .npy, image, .wav.")
@click.option("--method", default="forward", show_default=True)
@click.option("--seed", type=int, default=0, help="Of the inputs that no file is given for (0).")
@options.data
@options.gguf
@options.device
@options.threads
@options.as_json
@progress.shown
def command(
    program: Path,
    files: tuple[Path, ...],
    transforms: str | None,
    labels: Path | None,
    top: int | None,
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

    Files are .npy, .npz (several inputs), .json (nested lists), images or .wav; several images are the batch of a
    program with one input. Images go through the transforms that torchvision or timm have for the model, which `export`
    keeps in the program, or are resized, and normalized as for ImageNet. Inputs that no file is given for are random,
    of the largest sizes that the program takes.

    The best classes are of outputs [batch, classes], with their probabilities: the softmax, or the outputs themselves
    where they are probabilities.
    """
    from .. import load, set_num_threads
    from .arrays import arrays_of, check_writes, write
    from .classes import best_classes, lines_of_classes

    if output is not None:
        check_writes(output)
    image = image_input(program, transforms, labels)
    inputs = inputs_for(program, method, files, seed, transforms)
    set_num_threads(threads)
    with stage(f"loading {program}"):
        module = load(program, data_path=data, gguf=gguf, device=device)
    begin = time.perf_counter()
    with stage("running"):
        result = module.run(method, inputs)
    seconds = time.perf_counter() - begin
    outputs = arrays_of(result if isinstance(result, tuple) else (result,))
    top = top if top is not None or files else 0
    classes = best_classes(outputs, () if image is None else image.labels, top)
    lines = [described(f"output {i}", array) for i, array in enumerate(outputs)]
    facts = [{"dtype": str(array.dtype), "shape": array.shape, "values": array} for array in outputs]
    found = {} if classes is None else {"classes": classes}
    lines += [*lines_of_classes(classes or []), f"first call {1000 * seconds:.1f} ms"]
    show({"seconds": seconds, "outputs": facts, **found}, as_json, lines)
    if output is not None:
        write(output, outputs)


def image_input(program: Path, transforms: str | None, labels: Path | None = None) -> ImageInput | None:
    """How images become a program's input, and what its classes are called; None where nothing says so."""
    from ..images import ImageInput, with_labels

    image = ImageInput.of_program(program) if transforms is None else ImageInput.named(transforms)
    return image if labels is None else with_labels(image or ImageInput(), labels)


def inputs_for(
    program: Path, method: str, files: tuple[Path, ...], seed: int, transforms: str | None = None
) -> list[torch.Tensor]:
    """The inputs of a method, from files as far as there are any, and random ones after them."""
    import torch

    from ..runtime.program_file import input_ports
    from .models import random_tensor

    ports = input_ports(program, method)
    inputs = _from_files(program, method, files, ports, transforms)
    generator = torch.Generator().manual_seed(seed)
    for port in ports[len(inputs) :]:
        if port is None:
            raise ValueError(f"method {method} takes an input that is no tensor; run it from Python")
        inputs.append(random_tensor(port.shape, port.dtype, generator))
    return inputs


def _from_files(
    program: Path, method: str, files: tuple[Path, ...], ports: list[Port | None], transforms: str | None
) -> list[torch.Tensor]:
    import torch

    from .arrays import IMAGES, read

    images = [path for path in files if path.suffix.lower() in IMAGES]
    image = image_input(program, transforms) if images else None
    if images and len(ports) == 1 and ports[0] is not None and images == list(files):
        port = ports[0]
        return [torch.cat([tensor for path in counted("reading images", images) for tensor in read(path, port, image)])]
    inputs: list[torch.Tensor] = []
    for path in counted("reading inputs", files):
        free = ports[len(inputs)] if len(inputs) < len(ports) else None
        if free is None:
            raise ValueError(f"{path}: method {method} takes {len(ports)} tensors, {', '.join(map(str, ports))}")
        inputs += read(path, free, image)
    return inputs
