"""Cases of the tables of overloads, many to a program: one export, one lowering and one session for a batch.

What an export, a lowering and a session cost before the first call is half of a case's time. Each case still compares
its own outputs: where a batch cannot be run, the case to blame is found by halves. A batch has only cases that were
selected to be run, of one test function; `pytest --alone` gives each case a program of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.helpers import (
    TOLERANCES,
    Case,
    Inputs,
    OneOp,
    assert_all_same,
    run_interpreter,
    run_session,
    session,
)
from torch import Tensor, nn
from torch.fx import Node
from torch.fx import config as fx_config
from torch.utils._pytree import tree_leaves, tree_unflatten

from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.frontends.aten.registry import overload_of
from executorch_ggml.ir.graph import Graph, IRError
from executorch_ggml.ir.verify import verify
from executorch_ggml.passes import run_passes
from executorch_ggml.targets import for_targets

SIZE = 8

Outputs = list[Tensor]


@dataclass
class Run:
    """Eager's outputs for some inputs, and each executor's."""

    expected: Outputs
    actual: dict[str, Outputs]


@dataclass
class Outcome:
    """What became of a case: its runs, or why its calls are refused, or what else went wrong."""

    runs: list[Run] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    error: Exception | None = None


class Batch:
    """Cases that share a program, which is made when the first of them asks for its outcome."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases

    @cached_property
    def outcomes(self) -> dict[int, Outcome]:
        """By each case's `id()`."""
        return _outcomes(self.cases)


_batches: dict[int, Batch] = {}


def plan(items: Iterable[pytest.Item], size: int = SIZE) -> None:
    """Put cases that tests of a file are parametrized with into batches; symbols of many would take longer together."""
    groups: dict[tuple[Path, bool], list[Case]] = defaultdict(list)
    for item in items:
        case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
        if isinstance(case, Case) and case.dynamic is None:
            groups[item.path, case.refused is None].append(case)
    for cases in groups.values():
        for start in range(0, len(cases), size):
            batch = Batch(cases[start : start + size])
            _batches.update({id(case): batch for case in batch.cases})


def outcome(case: Case) -> Outcome:
    """What became of a case in its batch, or alone where it is in none."""
    batch = _batches.get(id(case)) or Batch([case])
    return batch.outcomes[id(case)]


def check_case(case: Case) -> None:
    """Compare a case's outputs with eager's, or see it refused."""
    found = outcome(case)
    if found.error is not None:
        raise found.error
    if case.refused is not None:
        assert any(re.search(case.refused, text) for text in found.refusals), f"refusals: {found.refusals}"
        return
    assert not found.refusals, f"refused: {found.refusals}"
    tolerance = max([case.tolerance, *(TOLERANCES.get(t.dtype, 0.0) for t in case.inputs)])
    for run in found.runs:
        for name, actual in run.actual.items():
            assert_all_same(actual, run.expected, tolerance, name)


# ------------------------------------------------------------------------------------------------------------ running


def _outcomes(cases: Sequence[Case]) -> dict[int, Outcome]:
    """All cases' outcomes: of one program, or where that fails, of one for each half."""
    if not cases:
        return {}
    try:
        return _together(cases)
    except Exception as error:
        if len(cases) == 1:
            return {id(cases[0]): Outcome(error=error)}
    half = len(cases) // 2
    return _outcomes(cases[:half]) | _outcomes(cases[half:])


def _together(cases: Sequence[Case]) -> dict[int, Outcome]:
    program = _Program(cases)
    if any(case.refused is not None for case in cases):
        return {id(case): Outcome(refusals=program.refusals(case)) for case in cases}
    try:
        graph = run_passes(Lowering(program.exported).graph())
    except IRError:
        refused = {id(case): Outcome(refusals=reasons) for case in cases if (reasons := program.refusals(case))}
        if not refused:
            raise
        return refused | _outcomes([case for case in cases if id(case) not in refused])
    return program.run(graph)


class _Program:
    """The export of some cases, and what in it is each one's."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases
        self.parts = [case.module() for case in cases]
        self.runs = [self._inputs(number) for number in range(1 + max(len(case.others) for case in cases))]
        shapes = None if cases[0].dynamic is None else (cases[0].dynamic,)  # such a case is alone
        # Of each node's stack the test runner has a hundred frames.
        with patch.object(fx_config, "do_not_emit_stack_traces", True):
            self.exported = torch.export.export(_Parts(self.parts), _flat(self.runs[0]), dynamic_shapes=shapes)
        self.exported.graph.eliminate_dead_code()  # results that nothing reads, as Edge has it
        results = tree_unflatten(self.exported.graph.output_node().args[0], self.exported.call_spec.out_spec)
        self.calls = {id(case): _calls(nodes) for case, nodes in zip(cases, results, strict=True)}
        for case in cases:
            called = [overload_of(node) for node in self.calls[id(case)]]
            assert case.refused is not None or case.overload in called, f"the export calls {called}"

    def _inputs(self, number: int) -> list[Inputs]:
        """Each case's inputs of a run; a case that has fewer runs than others repeats its last one."""
        every = [(part.given(), *case.others) for case, part in zip(self.cases, self.parts, strict=True)]
        return [inputs[min(number, len(inputs) - 1)] for inputs in every]

    def refusals(self, case: Case) -> list[str]:
        """Why calls of a case are refused."""
        lowering = Lowering(self.exported)
        return [text for node in self.calls[id(case)] if (text := lowering.refusal(node)) is not None]

    def run(self, graph: Graph) -> dict[int, Outcome]:
        """All cases' outputs, from the IR's interpreter for each target and from a session."""
        on_cpu, on_devices = for_targets(graph)
        ready = session(on_cpu)
        for lowered in (graph, on_cpu, on_devices):
            verify(lowered)
        outcomes = {id(case): Outcome() for case in self.cases}
        for number, inputs in enumerate(self.runs):
            flat = _flat(inputs)
            actual = {
                "interpreter": iter(run_interpreter(graph, flat)),
                "interpreter, CPU target": iter(run_interpreter(on_cpu, flat)),
                "interpreter, ggml target": iter(run_interpreter(on_devices, flat)),
                "session": iter(run_session(ready, flat)),
            }
            for case, part, own in zip(self.cases, self.parts, inputs, strict=True):
                expected = part(*own)
                shares = {name: list(islice(outputs, len(expected))) for name, outputs in actual.items()}
                if number <= len(case.others):
                    outcomes[id(case)].runs.append(Run(expected, shares))
            assert all(next(rest, None) is None for rest in actual.values()), "more outputs than eager's"
        return outcomes


class _Parts(nn.Module):
    """Calls each case's module on its share of the inputs."""

    def __init__(self, parts: Sequence[OneOp]) -> None:
        super().__init__()
        self.counts = [len(part.given()) for part in parts]
        self.parts = nn.ModuleList(parts)

    def forward(self, *inputs: Tensor) -> list[Outputs]:
        source = iter(inputs)
        return [part(*islice(source, count)) for part, count in zip(self.parts, self.counts, strict=True)]


def _flat(inputs: Iterable[Inputs]) -> Inputs:
    """All cases' inputs; one that is there already is copied, as an export takes a tensor for one input alone."""
    seen: dict[int, Tensor] = {}
    return tuple(seen.setdefault(id(x), x) if id(x) not in seen else x.clone() for group in inputs for x in group)


def _calls(results: Any) -> list[Node]:
    """The calls that some results are computed by."""
    found: dict[Node, None] = {}
    ahead = [result for result in tree_leaves(results) if isinstance(result, Node)]
    while ahead:
        node = ahead.pop()
        if node not in found:
            found[node] = None
            ahead += node.all_input_nodes
    return [node for node in found if node.op == "call_function"]
