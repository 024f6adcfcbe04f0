"""Tables from the suite's verdicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.conformance.plugin import TOLERANCE

OUTCOMES = ("delegated", "partly", "undelegated", "failed", "skipped")

_HEAD = """<!-- Written by `make conformance` (tests/conformance); do not edit. -->

# ExecuTorch's backend test suite on ggml

The suite is `executorch.backends.test.suite` of the `executorch` wheel, run through `to_edge_transform_and_lower` with
`GgmlPartitioner`, a `.pte`, and ExecuTorch's runtime. A result has to agree with eager PyTorch in type, shape, NaN and
infinities, and to {tolerance:g} of the output's magnitude (the suite's own bound is 1e-1).

- delegated: all of it ran in ggml. partly: some of it did. undelegated: none of it; the suite does not run those.
- failed: an error, or a wrong result. skipped: the suite itself skips the test, or PyTorch cannot run or export its
  model. The reasons are below the table. Tests of NaN and infinities and of 3-D convolutions, which the suite skips
  for every backend, are run.

{summary}
"""


def page(verdicts: Sequence[dict[str, Any]]) -> str:
    """The page in Markdown."""
    operators = [verdict for verdict in verdicts if verdict["suite"] == "operators"]
    models = [verdict for verdict in verdicts if verdict["suite"] == "models"]
    summary = [_summary(name, found) for name, found in (("Operators", operators), ("Models", models)) if found]
    parts = [_HEAD.format(tolerance=TOLERANCE, summary="\n".join(summary))]
    if operators:
        parts.append("## Operators\n\n" + "\n".join([*_operator_rows(operators), "", *_skipped(operators)]) + "\n")
    if models:
        parts.append("## Models\n\n" + "\n".join([*_model_rows(models), "", *_skipped(models)]) + "\n")
    return "\n".join(parts)


def problems(verdicts: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A line for each test that is not wholly delegated and right."""
    for verdict in verdicts:
        if verdict["outcome"] != "delegated":
            left = ", ".join(f"{op} x{count}" for op, count in verdict["left"].items())
            yield f"{verdict['outcome']}: {verdict['file']}::{verdict['test']}: {left} {verdict['message']}".rstrip()


def _skipped(verdicts: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Each reason for which tests were skipped, with the tests."""
    by_reason: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict["outcome"] == "skipped":
            said = re.search(r"Skipped: ([^'\")]*)", verdict["message"])
            name = re.sub(r"^test_|\[.*", "", verdict["test"])
            by_reason.setdefault(said.group(1) if said else verdict["message"], []).append(name)
    yield from (f"- skipped: {', '.join(names)}: {reason}" for reason, names in by_reason.items())


def _summary(name: str, verdicts: Sequence[dict[str, Any]]) -> str:
    counts = Counter(verdict["outcome"] for verdict in verdicts)
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    share = counts["delegated"] / len(verdicts)
    return f"**{name}**: {len(verdicts)} tests: {said} ({share:.1%} delegated). Largest error {_worst(verdicts)}.\n"


def _worst(verdicts: Iterable[dict[str, Any]]) -> str:
    errors = [verdict["error"] for verdict in verdicts if verdict["error"] is not None]
    return f"{max(errors):.1e}" if errors else ""


def _operator_rows(verdicts: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| operator | " + " | ".join(OUTCOMES) + " | largest error | left to ExecuTorch |"
    yield "| --- |" + " ---: |" * (len(OUTCOMES) + 1) + " --- |"
    for name in sorted({verdict["file"] for verdict in verdicts}):
        found = [verdict for verdict in verdicts if verdict["file"] == name]
        counts = Counter(verdict["outcome"] for verdict in found)
        left = sorted({op for verdict in found for op in verdict["left"]})
        cells = [str(counts[outcome] or "") for outcome in OUTCOMES]
        yield f"| {name} | " + " | ".join(cells) + f" | {_worst(found)} | {', '.join(f'`{op}`' for op in left)} |"


def _model_rows(verdicts: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| model | shapes | outcome | nodes in ggml | delegates | error | left to ExecuTorch |"
    yield "| --- | --- | --- | ---: | ---: | ---: | --- |"
    for verdict in sorted(verdicts, key=lambda verdict: str(verdict["test"])):
        name = re.sub(r"^test_|\[.*", "", verdict["test"])
        shapes = "dynamic" if "dynamic_shapes" in verdict["test"] else "static"
        outside = sum(verdict["left"].values())
        share = f"{verdict['nodes'] - outside} of {verdict['nodes']}" if verdict["nodes"] else ""
        left = ", ".join(f"`{op}` x{count}" for op, count in verdict["left"].items())
        delegates = verdict["delegates"] or ""
        cells = (name, shapes, verdict["outcome"], share, delegates, _worst([verdict]), left)
        yield "| " + " | ".join(str(cell) for cell in cells) + " |"
