"""A pytest plug-in that puts ExecuTorch's own backend test suite to this backend.

The suite's flows (a backend with a way to lower) are a fixed list. Loaded with ``-p``, so before the suite's conftest,
this module puts one flow in that list's place. It judges more strictly than the suite does: results agree with eager
PyTorch in type, shape, NaN and infinities, and to :data:`TOLERANCE` of the output's magnitude.
"""

from __future__ import annotations

import json
import unittest
from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.test.harness import Tester
from executorch.backends.test.harness.error_statistics import ErrorStatistics
from executorch.backends.test.harness.stages import StageType, ToEdgeTransformAndLower
from executorch.backends.test.suite import flow as suite_flow
from executorch.backends.test.suite import runner as suite_runner
from executorch.backends.test.suite.reporting import begin_test_session
from executorch.exir.lowered_backend_module import executorch_call_delegate
from tests.torchvision_cpu import torchvision_models

from executorch_ggml.partition import GgmlPartitioner
from executorch_ggml.runtime._library import load_delegate

TOLERANCE = 1e-4
"""Allowed difference from eager float32, relative to the largest finite magnitude of the output."""

SEED = 0
"""Added by the suite to each test's own seed."""

PROPERTY = "conformance"


@dataclass
class Verdict:
    """What one test of the suite came to."""

    suite: str  # operators or models
    file: str  # the operator, or the family of models
    test: str
    outcome: str = ""  # delegated, undelegated, failed or skipped
    error: float | None = None  # largest difference relative to the output's magnitude
    delegates: int = 0
    nodes: int = 0  # Edge nodes that compute, before partitioning
    left: dict[str, int] = field(default_factory=dict)  # ops that stayed with ExecuTorch
    message: str = ""


@dataclass
class _Measured:
    """What the tester of the test at hand found."""

    error: float | None = None
    delegates: int = 0


_measured = _Measured()


class GgmlTester(Tester):
    """Lowers with :class:`GgmlPartitioner` and compares strictly."""

    def __init__(self, module: torch.nn.Module, example_inputs: tuple[Any, ...]) -> None:
        stages = Tester.default_stage_classes()
        stages[StageType.TO_EDGE_TRANSFORM_AND_LOWER] = partial(ToEdgeTransformAndLower, GgmlPartitioner)
        super().__init__(module, example_inputs, stages)

    def to_executorch(self, *args: Any, **kwargs: Any) -> Any:
        """Count the delegates on the way."""
        program = self.get_artifact().exported_program()
        _measured.delegates += len(program.graph.find_nodes(op="call_function", target=executorch_call_delegate))
        return super().to_executorch(*args, **kwargs)

    @staticmethod
    def _compare_outputs(
        reference_output: Any,
        stage_output: Any,
        quantization_scale: Any = None,
        atol: float = 0,
        rtol: float = 0,
        qtol: int = 0,
        statistics_callback: Callable[[ErrorStatistics], None] | None = None,
    ) -> None:
        del quantization_scale, atol, rtol, qtol, statistics_callback
        wanted, _ = torch.utils._pytree.tree_flatten(reference_output)
        given = [stage_output] if isinstance(stage_output, torch.Tensor) else list(stage_output)
        assert len(given) == len(wanted), f"{len(given)} outputs, expected {len(wanted)}"
        for index, (actual, expected) in enumerate(zip(given, wanted, strict=True)):
            error = relative_error(actual, expected)
            _measured.error = max(_measured.error or 0.0, error)
            assert error <= TOLERANCE, f"output {index}: off by {error:.2e} of its magnitude"


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference over the largest finite magnitude; raises AssertionError for what no tolerance covers."""
    assert actual.dtype == expected.dtype, f"{actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    if not expected.dtype.is_floating_point:
        assert torch.equal(actual, expected), f"{int((actual != expected).sum())} of {expected.numel()} differ"
        return 0.0
    actual, expected = actual.double(), expected.double()
    finite = torch.isfinite(expected)
    assert torch.allclose(actual[~finite], expected[~finite], equal_nan=True), "NaN or infinities are not the same"
    if not finite.any():
        return 0.0
    worst = float((actual[finite] - expected[finite]).abs().max())
    magnitude = float(expected[finite].abs().max())
    return worst / magnitude if magnitude > 0 else worst


FLOW = suite_flow.TestFlow("ggml", backend="ggml", tester_factory=GgmlTester)
suite_flow.all_flows = lambda: {FLOW.name: FLOW}

# The suite skips programs with 3-D convolutions, delegated or not, since the portable kernels have none.
suite_runner._graph_has_unsupported_patterns = lambda program: False

RUN_ALL_THE_SAME = "NaN and Inf are not enforced for backends."
"""A reason for which the suite skips tests whatever the backend."""
_skip = unittest.skip
unittest.skip = lambda reason: (lambda test: test) if reason == RUN_ALL_THE_SAME else _skip(reason)


# --------------------------------------------------------------------------------------------------- pytest's hooks


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write the verdicts."""
    parser.addoption("--verdicts", type=Path, help="a JSON file to write with one entry for each test of the suite")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process: the delegate, the seed, and torchvision and torchaudio without their CUDA parts."""
    config.addinivalue_line("markers", "timeout(seconds): set by the suite, for a plug-in that is not used here")
    load_delegate()
    torchvision_models()
    begin_test_session(None, seed=SEED)
    if not hasattr(config, "workerinput") and config.getoption("--verdicts"):
        config.pluginmanager.register(_Collector(config.getoption("--verdicts")))


def pytest_runtest_setup() -> None:
    """Forget what the test before was found to be."""
    global _measured  # noqa: PLW0603 - the suite makes testers itself and keeps none
    _measured = _Measured()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the verdict to the report, which goes from the worker to the main process."""
    report = yield
    if call.when == "call" or (call.when == "setup" and not report.passed):
        verdict = _verdict(item, report)
        report.user_properties.append((PROPERTY, json.dumps(asdict(verdict))))
    return report


def _verdict(item: pytest.Item, report: pytest.TestReport) -> Verdict:
    runner = getattr(item, "funcargs", {}).get("test_runner")
    results: Iterable[Any] = () if runner is None else runner._results
    verdict = Verdict(item.path.parent.name, item.path.stem.removeprefix("test_"), item.name, report.outcome)
    for result in results:
        for op, count in (result.undelegated_op_counts or {}).items():
            verdict.left[op] = verdict.left.get(op, 0) + count
        verdict.nodes += sum((result.delegated_op_counts or {}).values())
        verdict.nodes += sum((result.undelegated_op_counts or {}).values())
        if result.error is not None:
            verdict.message = " ".join(str(result.error).split())[:300]
    verdict.error, verdict.delegates = _measured.error, _measured.delegates
    if report.passed:
        delegated = verdict.delegates > 0 and not verdict.left
        verdict.outcome = "delegated" if delegated else "partly" if verdict.delegates else "undelegated"
    elif not verdict.message:
        verdict.message = " ".join(str(report.longrepr).split())[-300:]
    return verdict


class _Collector:
    """Gathers the verdicts of all workers, and writes them when the run ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.verdicts: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a test's verdict; a test whose process died has none."""
        given = [json.loads(str(value)) for name, value in report.user_properties if name == PROPERTY]
        if not given and str(report.when) == "???":  # pytest-xdist's word for it
            file, _, test = report.nodeid.partition("::")
            path = Path(file)
            verdict = Verdict(path.parent.name, path.stem.removeprefix("test_"), test, "failed", message="crashed")
            given = [asdict(verdict)]
        self.verdicts += given

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.verdicts, indent=1))
