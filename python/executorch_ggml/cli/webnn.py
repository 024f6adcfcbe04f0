"""``executorch-ggml webnn``: WebNN graph files converted to other forms, or run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options, progress
from .output import described, show

if TYPE_CHECKING:
    import numpy as np

    from ..webnn import GraphInfo

_BY_SUFFIX = {".onnx": "onnx", ".mlpackage": "coreml", ".pte": "torch", ".pt2": "torch", ".txt": "ggml"}
_FORMS = ", ".join(dict.fromkeys(_BY_SUFFIX.values()))


@click.group("webnn", short_help="Convert or run a WebNN graph file.")
def command() -> None:
    """Convert or run a WebNN graph file."""


@command.command("convert")
@click.argument("graph", type=options.FILE)
@click.argument("target", type=options.FILE)
@click.option("--to", "form", metavar="FORM", help=f"{_FORMS}, or another installed one (default: by TARGET's suffix).")
@options.as_json
@progress.shown
def convert(graph: Path, target: Path, form: str | None, as_json: bool) -> None:
    """Write a graph in another form.

    GRAPH is the .webnn file, with its .weights beside it. A TARGET with the suffix .pte is an ExecuTorch program.
    """
    from ..webnn import load
    from ..webnn.registry import find, names

    form = form or _BY_SUFFIX.get(target.suffix)
    if form is None:
        raise ValueError(f"{target}: say with --to in which form ({', '.join(names('converter'))})")
    info = load(graph)
    _write(find("converter", form)(info), info, target)
    show({"file": target, "form": form}, as_json, [f"wrote {target}"])


def _write(converted: Any, graph: GraphInfo, target: Path) -> None:
    import torch

    from ..ir.graph import Graph
    from ..ir.printer import to_text

    if isinstance(converted, torch.nn.Module):
        examples = tuple(torch.from_numpy(array) for array in _zeros(graph).values())
        if target.suffix == ".pte":
            from .._export import export

            export(converted.eval(), examples).save(str(target))
        else:
            torch.export.save(torch.export.export(converted.eval(), examples), target)
    elif isinstance(converted, Graph):
        target.write_text(to_text(converted))
    elif hasattr(converted, "SerializeToString"):
        target.write_bytes(converted.SerializeToString())
    else:
        converted.save(str(target))


@command.command("run")
@click.argument("graph_file", metavar="GRAPH", type=options.FILE)
@click.option("--input", "files", multiple=True, metavar="NAME=FILE.npy", help="An input (zeros without).")
@click.option("--output", type=options.FILE, metavar="FILE.npz", help="Write the outputs.")
@click.option("--backend", help=f"{_FORMS} or an installed one (default: the first that can be had).")
@click.option("--accelerated", is_flag=True, help="On a GPU or NPU if there is one.")
@options.as_json
@progress.shown
def run(
    graph_file: Path, files: tuple[str, ...], output: Path | None, backend: str | None, accelerated: bool, as_json: bool
) -> None:
    """Compute a graph on arrays from files, and tell what comes out."""
    import numpy as np

    from ..webnn import ML

    given = dict(entry.partition("=")[::2] for entry in files)
    context = ML().create_context(accelerated=accelerated, backend=backend)
    graph = context.load(graph_file)
    unknown = set(given) - set(graph.input_names)
    if unknown:
        raise ValueError(f"no input {', '.join(sorted(unknown))}, there are {', '.join(graph.input_names)}")
    inputs = _zeros(graph.info) | {name: np.load(file) for name, file in given.items()}
    try:
        results = context.compute(graph, inputs)
    except TypeError as error:
        raise ValueError(str(error)) from error
    show(
        {"backend": context.backend, "outputs": {name: array.tolist() for name, array in results.items()}},
        as_json,
        [f"on {context.backend}", *(described(name, array) for name, array in results.items())],
    )
    if output is not None:
        arrays: dict[str, Any] = dict(results)
        np.savez(output, **arrays)


def _zeros(graph: GraphInfo) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    from ..webnn.data_types import numpy_type

    return {name: np.zeros(item.shape, numpy_type(item.data_type)) for name, item in graph.input_operands().items()}
