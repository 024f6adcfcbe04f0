"""``executorch-ggml compare``: how far the outputs of two programs are from each other, or a program's from eager's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..progress import stage
from . import options, progress
from .output import show
from .run import inputs_for

if TYPE_CHECKING:
    import torch

    from ..report.errors import Layer

DIFFERENT = 3


@click.command("compare", short_help="Say how far two programs, or eager, differ.")
@click.argument("program", type=options.FILE)
@click.argument("other")
@options.files
@options.transforms
@click.option("--method", default="forward", show_default=True)
@click.option("--seed", type=int, default=0, help="Of the inputs that no file is given for (0).")
@options.random_weights
@click.option("--at-most", type=float, metavar="X", help=f"Fail with {DIFFERENT} where the error is larger.")
@click.option("--layers", is_flag=True, help="Print the error of each layer too.")
@options.data
@options.gguf
@options.device
@options.threads
@options.as_json
@progress.shown
def command(
    program: Path,
    other: str,
    files: tuple[Path, ...],
    method: str,
    seed: int,
    layers: bool,
    threads: int,
    as_json: bool,
    **choice: Any,
) -> int:
    """Run PROGRAM and OTHER on the same inputs, and print how far the outputs differ.

    OTHER is a .pte file, or a model as `export` takes it, which runs in eager PyTorch. The error of an output is its
    largest difference over the largest magnitude that OTHER has there. --device, --data and --gguf are PROGRAM's. With
    --at-most X, the first layer whose error is larger is named too: there they part. Layers have the names of their
    ATen nodes.
    """
    from .. import load, set_num_threads

    elsewhere = bool(choice["device"] or choice["data"] or choice["gguf"])
    if layers and elsewhere:
        raise click.UsageError("--layers compares what the CPU computes of a program with its weights in it")
    inputs = inputs_for(program, method, files, seed, choice["transforms"])
    set_num_threads(threads)
    with stage(f"running {program}"):
        module = load(program, data_path=choice["data"], gguf=choice["gguf"], device=choice["device"])
        actual = _as_list(module.run(method, inputs))
    expected = _outputs_of(other, method, inputs, choice["random_weights"])
    if len(actual) != len(expected):
        raise ValueError(f"{program} has {len(actual)} outputs, {other} {len(expected)}")
    rows = [_compared(*pair) for pair in zip(actual, expected, strict=True)]
    lines = [
        f"output {i} {row['shape']}: error {row['error']:.2g}, cosine {row['cosine']:.6f}" for i, row in enumerate(rows)
    ]
    facts: dict[str, Any] = {"outputs": rows}
    limit = choice["at_most"]
    differ = limit is not None and not all(row["error"] <= limit for row in rows)
    if layers or (differ and not elsewhere):
        found = _layers(program, other, method, inputs, choice["random_weights"])
        parting = next((layer for layer in found if differ and not layer.error <= limit), None)
        facts["parting"] = None if parting is None else asdict(parting)
        if layers:
            facts["layers"] = [asdict(layer) for layer in found]
            lines += [_described(layer) for layer in found]
        if differ:
            lines.append("no layer has a larger error" if parting is None else f"they part at {_described(parting)}")
    show(facts, as_json, lines)
    return DIFFERENT if differ else 0


def _described(layer: Layer) -> str:
    return f"layer {layer.name} ({layer.op}) {list(layer.shape)}: error {layer.error:.2g}"


def _layers(program: Path, other: str, method: str, inputs: list[torch.Tensor], random_weights: bool) -> list[Layer]:
    """The program's layers beside the other's."""
    from ..report.errors import layer_errors, layer_values, node_names
    from ..report.origins import eager_values
    from ..tracing import trace
    from .models import model_of

    names = node_names(program, method)
    if other.endswith(".pte"):
        values = layer_values(Path(other), inputs, method)
        if names and values and names.isdisjoint(values):
            raise ValueError(
                f"{program} and {other} have no layers of the same names: those of programs with an ETRecord, or made "
                f"by to_edge_transform_and_lower, are named as in Edge programs; export both in the same way"
            )
        return layer_errors(program, values, inputs, method)
    model = model_of(other, random_weights=random_weights)
    _, values = eager_values(model.exported or trace(model.module, tuple(inputs), {}, None), inputs, names)
    return layer_errors(program, values, inputs, method)


def _outputs_of(other: str, method: str, inputs: list[torch.Tensor], random_weights: bool) -> list[torch.Tensor]:
    import torch

    from .. import load
    from .models import model_of

    if other.endswith(".pte"):
        with stage(f"running {other}"):
            return _as_list(load(other).run(method, inputs))
    module = model_of(other, random_weights=random_weights).module
    with stage(f"running {other} in eager PyTorch"), torch.no_grad():
        return _as_list(module(*inputs))


def _as_list(outputs: Any) -> list[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    return list(tree_leaves(outputs))


def _compared(actual: torch.Tensor, expected: torch.Tensor) -> dict[str, Any]:
    """How far an output is from another, and how far apart their directions are."""
    from torch.nn.functional import cosine_similarity

    from ..precision_error import relative_error

    if actual.shape != expected.shape:
        raise ValueError(f"an output has shape {list(actual.shape)} in one and {list(expected.shape)} in the other")
    shape = actual.shape
    actual, expected = actual.double().flatten(), expected.double().flatten()
    return {
        "shape": list(shape),
        "error": relative_error(actual, expected),
        "cosine": float(cosine_similarity(actual, expected, dim=0)),
    }
