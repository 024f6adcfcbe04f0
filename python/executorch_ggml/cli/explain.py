"""``executorch-ggml explain``: which nodes of a model run in ggml, and why the others do not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from . import options, progress
from .output import show


@click.command("explain", short_help="Say which nodes run in ggml, and why others do not.")
@click.argument("model")
@options.of_shapes
@options.device
@options.as_json
@progress.shown
def command(model: str, dynamic: tuple[str, ...], input_shape: tuple[str, ...], device: str, **choice: Any) -> None:
    """Say of each node of a model whether ggml runs it, and if not, why.

    MODEL is what `export` takes, language models apart: torchvision:NAME, timm:NAME, package.module:FUNCTION,
    file.py:FUNCTION, a .pt2 file, or the folder of a checkpoint.
    """
    from .. import explain
    from ..tracing import trace
    from .models import model_of, with_dynamic, with_inputs

    found = with_inputs(model_of(model, random_weights=choice["random_weights"]), input_shape)
    found, shapes = with_dynamic(found, dynamic)
    exported = found.exported or trace(found.module, found.args, found.kwargs, shapes)
    explanation = explain(exported, device=device)
    show(asdict(explanation), choice["as_json"], [str(explanation)])
