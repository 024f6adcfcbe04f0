"""Generates docs/lowerings.md and docs/core_aten.md from the registry: ``python -m tools.lowering_docs``."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tools.lowering_reasons import reasons
from torch._ops import OpOverload

from executorch_ggml.frontends.aten import LOWERINGS
from executorch_ggml.frontends.aten.registry import PRESERVED

FOLDER = Path(__file__).resolve().parents[1] / "docs"

_LOWERINGS_HEAD = """<!-- Generated from the registry by tools/lowering_docs.py; do not edit. -->

# ATen overloads that run in ggml

{count} overloads. A call of one is delegated unless its lowering refuses its arguments: what it may refuse, read from
its source, is in the last column, and `executorch_ggml.explain` says which of it holds for a call. float64 is left to
ExecuTorch everywhere but in casts, since ggml computes in float32. Those marked "whole" are composite ops that are
lowered as they are instead of being decomposed.

| overload | what | | refused |
| --- | --- | --- | --- |
"""

_CORE_HEAD = """<!-- Generated from the registry by tools/lowering_docs.py; do not edit. -->

# PyTorch's Core ATen operators

The opset is what torch tags `core`: {count} overloads. {summary}. float64 is left to ExecuTorch everywhere but in
casts. What a lowering refuses is read from its source.

| overload | | which, or why |
| --- | --- | --- |
"""

_TRAINING = "a gradient, for training: ExecuTorch runs inference"
_DATA = "its output's size depends on the data"
_RANDOM = "random numbers: torch's generator has its own state and order"
_SIZE = "a size: carried as an expression"

# Core operators that reach the lowering as others.
ARRIVES_AS = {
    "aten._native_batch_norm_legit.default": "aten._native_batch_norm_legit_functional.default",
    "aten.adaptive_avg_pool1d.default": "aten._adaptive_avg_pool2d.default",
    "aten.atan2.out": "aten.atan2.default",
    "aten.col2im.default": "aten.index_put.default",
}

# Core operators that no lowering is for.
LEFT = {
    "aten._adaptive_avg_pool2d_backward.default": _TRAINING,
    "aten._fft_c2r.default": "complex numbers",
    "aten._fft_r2c.default": "complex numbers",
    "aten._local_scalar_dense.default": "a number that leaves the tensors: the host reads it",
    "aten.avg_pool2d_backward.default": _TRAINING,
    "aten.convolution_backward.default": _TRAINING,
    "aten.embedding_dense_backward.default": _TRAINING,
    "aten.max_pool2d_with_indices_backward.default": _TRAINING,
    "aten.native_group_norm_backward.default": _TRAINING,
    "aten.native_layer_norm_backward.default": _TRAINING,
    "aten.nonzero.default": _DATA,
    "aten.rand.default": _RANDOM,
    "aten.randn.default": _RANDOM,
    "aten.randperm.default": _RANDOM,
    "aten.resize_.default": "it writes in place",
    "aten.sym_is_contiguous.default": _SIZE,
    "aten.sym_numel.default": _SIZE,
    "aten.sym_size.int": _SIZE,
    "aten.sym_storage_offset.default": _SIZE,
    "aten.sym_stride.int": _SIZE,
}


def core_overloads() -> dict[str, OpOverload]:
    """The operators of the Core ATen opset, by name."""
    found = {}
    for full in sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")):
        name, _, overload = full.removeprefix("aten::").partition(".")
        op = getattr(getattr(torch.ops.aten, name), overload or "default", None)
        if op is not None and torch.Tag.core in op.tags:
            found[str(op)] = op
    return found


def lowerings_page() -> str:
    """Every overload of the registry, in Markdown."""
    rows = []
    for overload, function in sorted(LOWERINGS.items(), key=lambda entry: str(entry[0])):
        summary = _cell(inspect.cleandoc(function.__doc__ or "").split("\n\n")[0])
        whole = "whole" if overload in PRESERVED else ""
        rows.append(f"| `{overload}` | {summary} | {whole} | {_refused(function)} |")
    return _LOWERINGS_HEAD.format(count=len(rows)) + "\n".join(rows) + "\n"


def core_page() -> str:
    """What becomes of every Core ATen operator, in Markdown. Raises KeyError for one that nothing is said of."""
    rows = list(_core_rows())
    counts = Counter(status for _, status, _ in rows)
    summary = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    table = "".join(f"| `{name}` | {status} | {detail} |\n" for name, status, detail in rows)
    return _CORE_HEAD.format(count=len(rows), summary=summary) + table


def _core_rows() -> Iterator[tuple[str, str, str]]:
    for name, overload in core_overloads().items():
        if name in ARRIVES_AS:
            yield name, "delegated", f"arrives as `{ARRIVES_AS[name]}`"
        elif overload in LOWERINGS:
            refused = _refused(LOWERINGS[overload])
            yield name, "delegated for some arguments" if refused else "delegated", refused and f"not: {refused}"
        else:
            reason = LEFT[name]
            yield name, "carried" if reason == _SIZE else "left to ExecuTorch", reason


def _refused(function: Callable[..., Any]) -> str:
    return _cell("; ".join(reason for reason in reasons(function) if "float64" not in reason))


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


PAGES = {"lowerings.md": lowerings_page, "core_aten.md": core_page}


def main() -> int:
    """Write the pages, or with --check say whether they are up to date."""
    parser = argparse.ArgumentParser(description="Generate docs/lowerings.md and docs/core_aten.md.")
    parser.add_argument("--check", action="store_true", help="fail if a tracked page is out of date")
    check = parser.parse_args().check
    stale = [name for name, page in PAGES.items() if not _same(FOLDER / name, page())]
    for name in stale:
        if check:
            print(f"docs/{name} is out of date: run make generate", file=sys.stderr)
        else:
            (FOLDER / name).write_text(PAGES[name]())
    return int(check and bool(stale))


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
