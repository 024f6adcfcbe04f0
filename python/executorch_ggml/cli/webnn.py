"""``executorch-ggml webnn``: WebNN graph files converted to other forms, or run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..webnn import GraphInfo

_BY_SUFFIX = {".onnx": "onnx", ".mlpackage": "coreml", ".pte": "torch", ".pt2": "torch", ".txt": "ggml"}
_FORMS = ", ".join(dict.fromkeys(_BY_SUFFIX.values()))


def register(commands: Any) -> None:
    """Add the command with its own."""
    parser = commands.add_parser("webnn", help="convert or run a WebNN graph file")
    actions = parser.add_subparsers(required=True, metavar="action")

    convert = actions.add_parser("convert", help="write a graph in another form")
    convert.add_argument("graph", type=Path, help="the .webnn file; its .weights stands beside it")
    convert.add_argument("target", type=Path, help="the file to write; a .pte is an ExecuTorch program")
    convert.add_argument(
        "--to", metavar="FORM", help=f"{_FORMS}, or another that is installed (default: by the target's suffix)"
    )
    convert.set_defaults(run=run_convert)

    run = actions.add_parser("run", help="compute a graph")
    run.add_argument("graph", type=Path, help="the .webnn file")
    run.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help="an input (zeros without)")
    run.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs")
    run.add_argument("--backend", help=f"{_FORMS} or an installed one (default: the first that can be had)")
    run.add_argument("--accelerated", action="store_true", help="on a GPU or NPU if there is one")
    run.set_defaults(run=run_graph)


def run_convert(args: argparse.Namespace) -> None:
    """Convert and write."""
    from ..webnn import load
    from ..webnn.registry import find, names

    form = args.to or _BY_SUFFIX.get(args.target.suffix)
    if form is None:
        raise ValueError(f"{args.target}: say with --to in which form ({', '.join(names('converter'))})")
    graph = load(args.graph)
    _write(find("converter", form)(graph), graph, args.target)
    print(f"wrote {args.target}")


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


def run_graph(args: argparse.Namespace) -> None:
    """Compute on arrays from files, and tell what comes out."""
    import numpy as np

    from ..webnn import ML

    given = dict(entry.partition("=")[::2] for entry in args.input)
    context = ML().create_context(accelerated=args.accelerated, backend=args.backend)
    graph = context.load(args.graph)
    unknown = set(given) - set(graph.input_names)
    if unknown:
        raise ValueError(f"no input {', '.join(sorted(unknown))}, there are {', '.join(graph.input_names)}")
    inputs = _zeros(graph.info) | {name: np.load(file) for name, file in given.items()}
    try:
        results = context.compute(graph, inputs)
    except TypeError as error:
        raise ValueError(str(error)) from error
    print(f"on {context.backend}")
    for name, array in results.items():
        print(f"{name}: {array.dtype}{list(array.shape)} {np.array2string(array, threshold=16, edgeitems=3)}")
    if args.output is not None:
        arrays: dict[str, Any] = dict(results)
        np.savez(args.output, **arrays)


def _zeros(graph: GraphInfo) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    from ..webnn.data_types import numpy_type

    return {name: np.zeros(item.shape, numpy_type(item.data_type)) for name, item in graph.input_operands().items()}
