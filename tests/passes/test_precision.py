"""The passes of each precision on graphs as text; a file of `precision_texts/` is named for its precision.

The numbers of both graphs are as near as the precision is: `tests/test_precision.py` compares them with eager's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from tests.passes.test_passes import Case, canonical, cases, drawn, outputs_of

from executorch_ggml.ir.parser import parse
from executorch_ggml.ir.verify import verify
from executorch_ggml.passes import PRECISIONS, run_passes

TEXTS = Path(__file__).parent / "precision_texts"


def test_every_precision_has_texts() -> None:
    assert {case.name for case in cases(TEXTS)} == set(PRECISIONS)


@pytest.mark.parametrize("case", cases(TEXTS), ids=str)
def test_text(case: Case) -> None:
    torch.manual_seed(0)
    given = parse(case.given)
    before = canonical(given)
    symbols = {entry.symbol: 5 for entry in given.symbols}
    inputs = [drawn(port.value, symbols) for port in given.inputs]
    for constant in given.constants:
        constant.data = partial(torch.clone, drawn(constant.value, symbols))
    expected = outputs_of(given, inputs)
    graph = run_passes(given, PRECISIONS[case.name].needs, case.name)
    verify(graph)
    wanted = before if case.result == "unchanged" else canonical(parse(case.result))
    assert canonical(graph) == wanted
    assert PRECISIONS[case.name].applies(graph) == (case.result != "unchanged")
    for actual, exact in zip(outputs_of(graph, inputs), expected, strict=True):
        torch.testing.assert_close(actual, exact, rtol=0, atol=0.02 * float(exact.abs().max()))
