"""Each pass on graphs as text: what it is given, what comes of it, and the same numbers from both.

A file of `texts/` is named for its pass. It has cases of the form::

    ## what is special
    input %x: f32[4, 2, 1, 1]
    ...
    => the result, or "unchanged"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from executorch_ggml.ir.dims import evaluate
from executorch_ggml.ir.graph import Graph, Value
from executorch_ggml.ir.interpreter import Interpreter
from executorch_ggml.ir.parser import parse
from executorch_ggml.ir.printer import to_text
from executorch_ggml.ir.verify import verify
from executorch_ggml.passes import PASSES, run_passes

TEXTS = Path(__file__).parent / "texts"


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    given: str
    result: str

    def __str__(self) -> str:
        return f"{self.name}: {self.title}"


def cases(folder: Path = TEXTS) -> list[Case]:
    found = []
    for path in sorted(folder.glob("*.txt")):
        for block in path.read_text().split("## ")[1:]:
            title, _, text = block.partition("\n")
            given, _, result = text.partition("=>")
            found.append(Case(path.stem, title.strip(), given, result.strip()))
    return found


def canonical(graph: Graph) -> str:
    """The graph's text without its nodes' names, and without the digests in the names of derived constants."""
    return re.sub(r"\s+#.*|~[0-9a-zA-Z]+", "", to_text(graph))


def drawn(value: Value, symbols: dict[object, int]) -> Tensor:
    shape = [evaluate(n, symbols) for n in reversed(value.ne)]
    dtype = value.dtype.torch
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 2, shape).to(dtype)


def outputs_of(graph: Graph, inputs: list[Tensor]) -> list[Tensor]:
    interpreter = Interpreter(graph)
    return [*interpreter.run(*inputs), *(interpreter.contents(state.value) for state in graph.states)]


def test_every_pass_has_texts() -> None:
    assert {case.name for case in cases()} == set(PASSES)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_text(case: Case) -> None:
    given = parse(case.given)
    before = canonical(given)
    symbols = {entry.symbol: 5 for entry in given.symbols}
    inputs = [drawn(port.value, symbols) for port in given.inputs]
    for constant in given.constants:
        constant.data = partial(torch.clone, drawn(constant.value, symbols))
    expected = outputs_of(given, inputs)
    graph = run_passes(given, {case.name})
    verify(graph)
    wanted = before if case.result == "unchanged" else canonical(parse(case.result))
    assert canonical(graph) == wanted
    torch.testing.assert_close(outputs_of(graph, inputs), expected, equal_nan=True)
