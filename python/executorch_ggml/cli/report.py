"""``executorch-ggml report``: a program as an HTML page: graph, what stayed outside, time, memory, weights."""

from __future__ import annotations

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
@click.option(
    "--method", "methods", multiple=True, help="With --profile: a method to measure; repeatable (default: each)."
)
@options.data
@options.gguf
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
    methods: tuple[str, ...],
    data: Path | None,
    gguf: tuple[Path, ...],
    random_weights: bool,
    open_: bool,
    as_json: bool,
) -> None:
    """Write one HTML file about PROGRAM that needs no network to be looked at.

    All methods are in it. --against is for the method forward. Where weights are in a .ptd or GGUF file, their types
    and sizes are shown without it, and --profile takes it as --data or --gguf.
    """
    from ..report import report_of, to_html

    if methods and not measure:
        raise click.UsageError("--method says what --profile measures, which is not there")
    model = None if against is None else _model(against, random_weights)
    origins, measured = _compared(program, model)
    if etrecord is not None:
        from ..report.origins import origins_of_etrecord

        origins = origins_of_etrecord(etrecord)
    if measure:
        names = methods or _methods_of(program)
        measured = {name: _with_times(program, name, (measured or {}).get(name), data, gguf) for name in names}
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

    from ..report.errors import layer_errors, node_names
    from ..report.model import Measured
    from ..report.origins import eager_values
    from ..tracing import trace

    if model is None:
        return None, None
    exported = model.exported or trace(model.module, model.args, model.kwargs, None)
    inputs = tree_leaves((model.args, model.kwargs))
    origins, values = eager_values(exported, inputs, node_names(program, "forward"))
    errors = {layer.id: layer.error for layer in layer_errors(program, values, inputs, "forward")}
    return {"forward": origins}, {"forward": Measured(errors=errors)}


def _methods_of(program: Path) -> tuple[str, ...]:
    """The methods that compute something: metadata has no inputs."""
    from ..pte import read_program

    described, _ = read_program(program)
    return tuple(plan.name for plan in described.execution_plan if plan.inputs)


def _with_times(
    program: Path, method: str, measured: Measured | None, data: Path | None, gguf: tuple[Path, ...]
) -> Measured:
    """What was measured of a method, with its times."""
    from ..profiling import profile
    from ..report import times_of

    inputs = inputs_for(program, method, (), 0)
    times = times_of(profile(program, inputs, method=method, data_path=data, gguf=gguf))
    return times if measured is None else replace(times, errors=measured.errors)
