"""The page of what became of each architecture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.architectures.check import TOLERANCE

_ORDER = ("right", "wrong", "cannot run", "failed", "refused", "not exported")
BROKEN = frozenset({"wrong", "cannot run", "failed"})

_HEAD = """<!-- Written by `make architectures` (tests/architectures); do not edit. -->

# Architectures of timm and transformers

{count} architectures, tiny and with random weights (`tests/architectures/table.py`), each exported by
`executorch_ggml.export`, written to a file, loaded, run and compared with eager PyTorch: {summary}.

- right: no output is off by more than {tolerance:g} of its largest magnitude; what has no fraction is equal.
- not exported: `torch.export` itself refuses the model. Where a branch or a size depends on the values in a tensor, the
  reason names the line of the model.
- refused: `executorch_ggml.export` says why it cannot be run, in the sentence that is shown.

| architecture | kind | outcome | error | delegates | nodes outside | reason |
| --- | --- | --- | --- | ---: | ---: | --- |
"""


def page(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """The page in Markdown."""
    counts = Counter(verdict["outcome"] for verdict in verdicts)
    summary = ", ".join(f"{counts[outcome]} {outcome}" for outcome in _ORDER if counts[outcome])
    head = _HEAD.format(count=len(verdicts), summary=summary, tolerance=TOLERANCE)
    return head + "".join(f"{row}\n" for row in _rows(verdicts))


def _rows(verdicts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for verdict in verdicts:
        left: Mapping[str, int] = verdict.get("left", {})
        outside = str(sum(left.values())) if "left" in verdict else ""
        reason = verdict.get("reason") or "; ".join(f"{op} (x{count})" for op, count in left.items())
        if verdict.get("eager") is not None:
            reason += f" eager differs from float64 by {verdict['eager']:.1e}"
        error = ", ".join(f"{dtype} {size:.1e}" for dtype, size in verdict.get("error", {}).items())
        cells = (
            verdict["name"],
            verdict["kind"],
            verdict["outcome"],
            error,
            verdict.get("delegates", ""),
            outside,
            reason,
        )
        yield "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def names(text: str) -> list[str]:
    """The architectures that a page has."""
    rows = re.findall(r"^\| ([^|]+) \|", text, flags=re.MULTILINE)
    return [name for name in rows if name not in ("architecture", "---")]
