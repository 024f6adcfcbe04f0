"""``executorch-ggml report``: a program as an HTML page: graph, what stayed outside, time, memory, weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from . import options, progress
from .output import show
from .run import inputs_for

if TYPE_CHECKING:
    from ..report.model import Measured
    from ..report.origins import Origins
    from .models import Model


@click.command("report", short_help="Write a page that shows a program.")
@click.argument("program", type=options.FILE)
@options.output_of("The HTML file to write.")
@click.option("--profile", "measure", is_flag=True, help="Run the program on random inputs: times of its nodes.")
@click.option("--etrecord", type=options.FILE, help="The program's ETRecord: modules and source lines.")
@click.option("--against", metavar="MODEL", help="The model, as `export` takes it: modules, source lines, errors.")
@options.random_weights
@click.option("--open", "open_", is_flag=True, help="Open the page in the browser.")
@options.as_json
@progress.shown
def command(
    program: Path,
    output: Path,
    measure: bool,
    etrecord: Path | None,
    against: str | None,
    random_weights: bool,
    open_: bool,
    as_json: bool,
) -> None:
    """Write one HTML file about PROGRAM that needs no network to be looked at."""
    from ..report import report_of, to_html

    model = None if against is None else _model(against, random_weights)
    origins, measured = _compared(program, model)
    if etrecord is not None:
        from ..report.origins import origins_of_etrecord

        origins = origins_of_etrecord(etrecord)
    if measure:
        measured = _with_times(program, measured or {})
    report = report_of(program, origins, measured)
    output.write_text(to_html(report), encoding="utf-8")
    size, nodes = output.stat().st_size, sum(len(method.calls) for method in report.methods)
    facts = {"output": output, "bytes": size, "nodes": nodes}
    show(facts, as_json, [f"wrote {output}: {nodes} nodes, {size / 1e6:.1f} MB"])
    if open_:
        click.launch(output.resolve().as_uri())


def _model(name: str, random_weights: bool) -> Model:
    from .models import model_of

    return model_of(name, random_weights=random_weights)


def _compared(program: Path, model: Model | None) -> tuple[dict[str, Origins] | None, dict[str, Measured] | None]:
    """Where the nodes of the method ``forward`` come from, and their errors on the model's example inputs."""
    from torch.utils._pytree import tree_leaves

    from ..report.errors import layer_errors
    from ..report.model import Measured
    from ..report.origins import eager_values
    from ..tracing import trace

    if model is None:
        return None, None
    exported = model.exported or trace(model.module, model.args, model.kwargs, None)
    inputs = tree_leaves((model.args, model.kwargs))
    origins, values = eager_values(exported, inputs)
    errors = {layer.id: layer.error for layer in layer_errors(program, values, inputs, "forward")}
    return {"forward": origins}, {"forward": Measured(errors=errors)}


def _with_times(program: Path, measured: Mapping[str, Measured]) -> dict[str, Measured]:
    """The same with the times of the method ``forward``."""
    from ..profiling import profile
    from ..report import times_of
    from ..report.model import Measured

    times = times_of(profile(program, inputs_for(program, "forward", (), 0)))
    return {"forward": replace(times, errors=measured.get("forward", Measured()).errors)}
