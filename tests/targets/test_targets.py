"""Targets: graphs as text, what comes of them, and the same numbers from both.

Files and cases are those of tests/passes, each for a module of a target.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.passes.test_passes import Case, canonical, cases, drawn, outputs_of

from executorch_ggml import targets
from executorch_ggml.ir.graph import IRError
from executorch_ggml.ir.parser import parse
from executorch_ggml.ir.target import Target
from executorch_ggml.ir.verify import verify
from executorch_ggml.targets import TARGETS, for_targets
from executorch_ggml.targets.cpu import layout
from executorch_ggml.targets.ggml import prologue, stock_ops

TEXTS = Path(__file__).parent / "texts"
MODULES: dict[str, ModuleType] = {"layout": layout, "prologue": prologue, "stock_ops": stock_ops}


@pytest.mark.parametrize("case", cases(TEXTS), ids=str)
def test_text(case: Case) -> None:
    given = parse(case.given)
    symbols = {entry.symbol: 5 for entry in given.symbols}
    inputs = [drawn(port.value, symbols) for port in given.inputs]
    for constant in given.constants:
        constant.data = partial(torch.clone, drawn(constant.value, symbols))
    expected = outputs_of(given, inputs)
    graph = MODULES[case.name].run(given)
    verify(graph)
    assert canonical(graph) == case.result
    torch.testing.assert_close(outputs_of(graph, inputs), expected)


def test_each_module_has_texts() -> None:
    assert {case.name for case in cases(TEXTS)} == set(MODULES)


def test_graphs_share_their_constants() -> None:
    text = """
        input %x: f32[4, 6, 1, 1]
        constant @w: f32[4, 8, 1, 1] stored as MATRIX_BLOCKS
        %0 = linear(%x, @w, none, epilogue={}): f32[8, 6, 1, 1]
        output y: %0 as [6, 8]
    """
    cpu, ggml = for_targets(parse(text))
    assert (cpu.target, ggml.target) == (Target.CPU, Target.GGML)
    assert cpu.constants[0] is ggml.constants[0]
    assert [node.op for node in cpu.nodes] == ["linear"]
    assert [node.op for node in ggml.nodes] == ["mul_mat"]


@pytest.mark.parametrize("names", [(), ("cuda",), "cpu"])
def test_targets_that_there_are_not(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected one or more of"):
        for_targets(parse(""), names)


def test_a_node_that_a_target_leaves_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        input %x: f32[4, 6, 2, 1]
        %0 = pool_2d(%x, ne=(3, 5, 2, 1), kind=MAX, window={w: {kernel: 0}, h: {kernel: 0}}, divisor=0): f32[3, 5, 2, 1]
        output y: %0 as [1, 2, 5, 3]
    """
    monkeypatch.setitem(targets._RUN, "ggml", lambda graph: graph)
    graph = parse(text)
    graph.nodes[0].name = "pixels"
    with pytest.raises(IRError, match=r"node pixels \(pool_2d\): the target ggml has no form of it"):
        for_targets(graph)


def test_targets_have_names() -> None:
    assert [Target[name.upper()] for name in TARGETS] == list(Target)
