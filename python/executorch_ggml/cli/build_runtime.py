"""``executorch-ggml build-runtime``: a static library with what given programs use, and nothing else."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from . import options
from .output import show


@click.command("build-runtime", short_help="Build a small C++ runtime for given programs.")
@click.option("--for", "programs", type=options.FILE, multiple=True, required=True, help="A .pte file; repeatable.")
@click.option("-o", "--output", type=options.FILE, required=True, help="The folder for the library and its headers.")
@click.option(
    "--levels", default="", metavar="LIST", help="Instruction sets, like avx2,avx512 or neon (all there are)."
)
@click.option("--source", type=options.FILE, help="A checkout of executorch-ggml (the one that runs).")
@click.option("-D", "definitions", multiple=True, metavar="NAME=VALUE", help="For CMake, like a toolchain file.")
@options.as_json
def command(
    programs: tuple[Path, ...],
    output: Path,
    levels: str,
    source: Path | None,
    definitions: tuple[str, ...],
    as_json: bool,
) -> None:
    """Build a static library that runs the given programs on the CPU, with what they use alone.

    It has no GGUF, no devices, no exceptions and no run-time type information, and refuses other programs when they
    are loaded, with the node and the op, type or kernel that it lacks. C++ programs find it with
    find_package(executorch_ggml) and link what they call: see docs/small_devices.md.
    """
    from ..selection import build_runtime, selection_of

    selection = selection_of(programs)
    chosen = [level for level in levels.split(",") if level]
    library = build_runtime(selection, output, chosen, source, definitions)
    facts = {"library": library, **asdict(selection), "levels": chosen}
    about = f"{len(selection.ops)} ops ({', '.join(selection.ops)}), types {', '.join(selection.types)}"
    about += f", with{'' if selection.ggml else 'out'} ggml's kernels"
    show(facts, as_json, [f"{library}: {about}"])
