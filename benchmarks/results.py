"""The file of results: what was measured, when, on what, and one replaceable section per benchmark."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).parent / "RESULTS.md"
HEADER = """# Benchmark results

Written by `make bench`; do not edit. Each section is replaced by the next run of its own benchmark on a CPU of the same
make with the same instructions.
"""
LEVELS = (("amx_tile", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2"))
"""Flags of CPUs that tell them apart in the results, the most telling first."""
FEATURES = (
    *reversed(LEVELS),
    ("avx_vnni", "AVX-VNNI"),
    ("avx512_vnni", "VNNI"),
    ("avx512_bf16", "BF16"),
    ("avx512_fp16", "FP16"),
    ("amx_int8", "AMX-INT8"),
    ("amx_bf16", "AMX-BF16"),
)
"""Flags of CPUs that kernels ask for."""
MAKERS = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}
PACKAGES = ("executorch", "libggml-python", "torch", "mlx", "onnxruntime", "openvino", "transformers")


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up as plain text too; all but the first column are set to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * width) if i == 0 else ("-" * (width - 1) + ":") for i, width in enumerate(widths)]
    return "\n".join([line(header), line(rule), *(line(row) for row in rows)])


def _from_proc(path: str, key: str) -> str | None:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(rf"^{re.escape(key)}\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else None


def _flags() -> set[str]:
    return set((_from_proc("/proc/cpuinfo", "flags") or "").split())


def make() -> str:
    """The CPU's make and the widest instructions that it has: what a section of the results is of."""
    vendor = _from_proc("/proc/cpuinfo", "vendor_id") or platform.machine()
    flags = _flags()
    level = next((name for flag, name in LEVELS if flag in flags), None)
    return " with ".join([MAKERS.get(vendor, vendor), *([level] if level else [])])


def processor() -> str:
    """The CPU's name, and family and model, which tell generations of a make apart where its name does not."""
    name = _from_proc("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    numbers = {key: _from_proc("/proc/cpuinfo", key) for key in ("cpu family", "model")}
    generation = [f"{key.removeprefix('cpu ')} {number}" for key, number in numbers.items() if number is not None]
    return ", ".join([name, *([" ".join(generation)] if generation else [])])


def machine() -> str:
    """The processor, cores, memory and system, in a line; nothing that identifies the machine itself."""
    flags = _flags()
    features = ", ".join(name for flag, name in FEATURES if flag in flags)
    memory = _from_proc("/proc/meminfo", "MemTotal")
    parts = [
        f"{processor()} ({features})" if features else processor(),
        f"{os.cpu_count()} cores",
        *([f"{int(memory.split()[0]) / 2**20:.0f} GiB"] if memory else []),
        f"{platform.system()} {platform.machine()}",
    ]
    return ", ".join(parts)


def versions(packages: Sequence[str] = PACKAGES) -> str:
    """The installed versions of `packages`, in a line; those that are not installed are left out."""
    found = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def compiler_of(library: Path) -> str:
    """The compiler that made a library, as it says itself there; "an unknown compiler" where it does not."""
    data = library.read_bytes()
    # gcc comes second: the C library's own start-up files say gcc in whatever clang links.
    for name, says in (("clang", rb"clang version ([0-9][0-9.]*)"), ("gcc", rb"GCC: \([^)\0]*\) ([0-9][0-9.]*)")):
        if (version := re.search(says, data)) is not None:
            return f"{name} {version[1].decode()}"
    return "an unknown compiler"


def write_section(name: str, title: str, body: str, path: Path = RESULTS) -> None:
    """Put the section `name` of this make of CPU into the file, in place of its earlier self or else at the end."""
    key = f"{name} on {make()}"
    begin, end = f"<!-- begin {key} -->", f"<!-- end {key} -->"
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    facts = f"- date: {today}\n- machine: {machine()}\n- versions: {versions()}"
    section = f"{begin}\n## {title}: {make()}\n\n{facts}\n\n{body.strip()}\n{end}"
    text = path.read_text(encoding="utf-8") if path.exists() else HEADER
    if begin in text and end in text:
        before, rest = text.split(begin, 1)
        after = rest.split(end, 1)[1]
        text = f"{before}{section}{after}"
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    path.write_text(text, encoding="utf-8")
