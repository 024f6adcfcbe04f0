"""``executorch-ggml profile``: where a program's time goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from . import options, progress

if TYPE_CHECKING:
    from rich.table import Table

    from ..profiling import By, Profile, Row


_LEAST_WIDTH = 150  # columns of text for a table by node; rich would leave whole columns empty


@click.command("profile", short_help="Say where a program's time goes.")
@click.argument("program", type=options.FILE)
@options.files
@options.transforms
@click.option("--by", type=click.Choice(["node", "op", "module"]), default="node", show_default=True)
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to print.")
@click.option("--calls", type=click.IntRange(min=1), default=20, show_default=True, help="Calls that are measured.")
@click.option("--warmup", type=click.IntRange(min=0), default=5, show_default=True, help="Calls before them.")
@click.option("--etrecord", type=options.FILE, help="The file of `export --etrecord`: modules and source lines.")
@click.option("--etdump", type=options.FILE, help="Write ExecuTorch's ETDump, for executorch.devtools.Inspector.")
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
    by: str,
    top: int,
    calls: int,
    warmup: int,
    etrecord: Path | None,
    etdump: Path | None,
    method: str,
    seed: int,
    data: Path | None,
    gguf: tuple[Path, ...],
    device: str,
    threads: int,
    as_json: bool,
) -> None:
    """Run a program, and print how long its nodes take: per node, op, or module.

    Inputs are those of `run`. Without --etrecord, modules and source lines are unknown. GFLOP/s count two operations
    for each multiply-add of a product or convolution; GB/s what a node reads and writes. Both are left out where sizes
    are dynamic.
    """
    from .. import set_device, set_num_threads
    from ..profiling import profile
    from .output import show
    from .run import inputs_for

    inputs = inputs_for(program, method, files, seed, transforms)
    set_num_threads(threads)
    if device:
        set_device(device)
    measured = profile(
        program, inputs, method=method, calls=calls, warmup=warmup, data_path=data, gguf=gguf, etrecord=etrecord
    )
    if etdump is not None:
        etdump.write_bytes(measured.etdump)
    if as_json:
        show(measured.as_dict(), True, ())
    else:
        _print(measured, cast("By", by), top)


def _print(measured: Profile, by: By, top: int) -> None:
    from rich.console import Console

    rows = measured.by(by)
    console = Console(soft_wrap=True)
    console.width = max(console.width, _LEAST_WIDTH)
    console.print(_table(measured, by, rows[:top]))
    for line in _summary(measured, len(rows), top):
        console.print(line, highlight=False, markup=False)


def _table(measured: Profile, by: By, rows: list[Row]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(by)
    for title in ("ms", "%", "sum %", "GFLOP/s", "GB/s"):
        table.add_column(title, justify="right", no_wrap=True)
    per_node = by == "node"
    for title in ("op", "kernel", "output", "ATen nodes", "source") if per_node else ("nodes",):
        table.add_column(title)
    for row in rows:
        cells = [row.key, f"{row.total_ns / measured.calls / 1e6:.3f}", f"{100 * row.share:.1f}"]
        cells += [f"{100 * row.cumulative:.1f}", _rate(row.gflops), _rate(row.gbytes)]
        table.add_row(*(cells + (_node_cells(row) if per_node else [str(len(row.nodes))])))
    return table


def _node_cells(row: Row) -> list[str]:
    node = row.nodes[0]
    names = ", ".join(source.name for source in node.sources)
    file, _, line = node.source_line.rpartition(":")
    return [
        node.op,
        node.kernel,
        f"{node.dtype}{list(node.shape)}" if node.dtype else "",
        names,
        f"{Path(file).name}:{line}" if line else "",
    ]


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _summary(measured: Profile, count: int, top: int) -> list[str]:
    total = measured.total_ns or 1.0
    lines = [f"... and {count - top} more rows (--top)"] if count > top else []
    lines.append(
        f"{measured.method}: median {measured.median_ns / 1e6:.3f} ms traced, {measured.untraced_median_ns / 1e6:.3f} "
        f"ms not traced, of {measured.calls} calls with {measured.threads} threads"
    )
    lines += [
        f"delegate {delegate.index} ({delegate.backend}): {delegate.median_ns / 1e6:.3f} ms, "
        f"{100 * delegate.total_ns / total:.1f} %, {delegate.nodes} nodes"
        for delegate in measured.delegates
    ]
    lines.append(
        f"outside of delegates: {100 * measured.outside_ns / total:.1f} %; in no node: "
        f"{100 * measured.unaccounted_ns / total:.1f} %"
    )
    return lines
