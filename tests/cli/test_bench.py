"""``bench``: engines beside each other, in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executorch_ggml.benchmark import engines, worker
from executorch_ggml.benchmark.comparison import Column, Row
from executorch_ggml.benchmark.engines import Written
from executorch_ggml.benchmark.worker import FirstCall, Loaded
from executorch_ggml.benchmark.workload import Workload, flat
from executorch_ggml.cli import bench, main
from executorch_ggml.cli.compare import DIFFERENT

MODELS = """
import torch
from torch import nn


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, scale=1.0, *, shift):
        y = self.layer(x) * scale
        return {"product": y, "sum": y + shift}


def two():
    torch.manual_seed(0)
    return Two(), (torch.randn(2, 8), 2.0), {"shift": torch.randn(8)}


def layer():
    torch.manual_seed(0)
    return nn.Linear(8, 4), (torch.randn(2, 8),)


def other_layer():
    torch.manual_seed(1)
    return nn.Linear(8, 4), (torch.randn(2, 8),)
"""
QUICK = ["--rounds", "1", "--seconds", "0.01", "--threads", "1"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "models_of_bench_tests.py"
    path.write_text(MODELS)
    return path


def facts(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_model_beside_eager(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", f"{models}:two", "--engines", "eager,ggml", "--at-most", "1e-5", "--json", *QUICK]) == 0
    found = facts(capsys)["engines"]
    assert list(found) == ["ggml", "eager"]
    ours, eager = found.values()
    assert (ours["delegates"], ours["outside"]) == (1, 0)
    assert eager["error"] == 0.0
    assert 0 < ours["p50_seconds"] <= ours["p90_seconds"]
    assert ours["times_ours"] == 1.0
    assert eager["times_ours"] == pytest.approx(eager["p50_seconds"] / ours["p50_seconds"])


@pytest.fixture
def _threads_kept() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads_kept")
@pytest.mark.parametrize(("against", "least", "most"), [("layer", 0, 1e-6), ("other_layer", 0.1, 10), (None, 0, 0)])
def test_a_program_and_the_model_that_it_is_compared_with(
    against: str | None, least: float, most: float, models: Path, tmp_path: Path
) -> None:
    program = models.with_name("layer.pte")
    assert program.exists() or main(["export", f"{models}:layer", "-o", str(program)]) == 0
    choice = {"input_shape": (), "random_weights": False, **dict.fromkeys(("at_most", "quantize", "precision"))}
    source = bench._source(str(program), against and f"{models}:{against}", choice)
    writer = worker.Writer("", 1, tmp_path, source.load)
    writer.reference("model", str(tmp_path))
    written = writer.write("model", "ggml", str(tmp_path))
    assert (written.size, written.delegates, written.outside) == (program.stat().st_size, 1, 0)
    runner = worker.Runner("ggml", 1, tmp_path)
    runner.load(str(written.path))
    error = runner.first_call().error
    assert error is None if against is None else least <= (error or 0) <= most


@pytest.mark.parametrize(("error", "code"), [(1e-7, 0), (0.1, DIFFERENT), (float("inf"), DIFFERENT), (None, 0)])
def test_an_error_above_the_limit_fails(error: float | None, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    column = Column("", Written(Path("a"), 1), Loaded(0.5, 1), FirstCall(0.1, error), 1, [[0.1, 0.1]])
    monkeypatch.setattr(bench, "_measure", lambda *_arguments: (Row({"ggml": column}), 0.0))
    assert main(["bench", "x:y", "--engines", "ggml", "--at-most", "0.01"]) == code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no.pte"], "no.pte: no such file"),
        (["model.gguf"], "generate"),
        (["x:y", "--engines", "tensorflow"], "expected some of ggml, eager"),
        (["x.pte", "--engines", "eager"], "--against"),
        (["x.pte", "--precision", "bf16"], "is a program"),
        (["x:y", "--against", "z:y"], "x:y is none"),
        (["x.pte", "--at-most", "1"], "--against"),
    ],
)
def test_what_cannot_be_timed(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "x.pte").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *arguments]) in {1, 2}
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_that_is_not_there_is_one_error(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", f"{models}:none", "--engines", "ggml", *QUICK]) == 1
    assert "has no function none" in capsys.readouterr().err


def test_the_table_names_what_failed_and_what_is_missing() -> None:
    right = Column(
        "", Written(Path("a"), 2_000_000), Loaded(0.5, 3_000_000), FirstCall(0.1, 0.25), 4_000_000, [[0.002]]
    )
    right.rounds = [[0.002, 0.002], [0.004, 0.004]]
    slower = Column("", Written(Path("b"), 1), Loaded(0.5, 0), FirstCall(0.1, float("inf")), 1, [[0.004, 0.004]] * 2)
    row = Row({"ggml": right, "eager": slower, "xnnpack": Column("it died")})
    found = {name: bench._facts(name, row) for name in row.columns}
    shown = {"model": "m", "threads": 1, "rounds": 2, "seconds": 0.1, "engines": found, "time_of_others": 0.5}
    lines = bench._lines({**shown, "missing": {"openvino": ["openvino"]}})
    assert lines[2].split() == ["ggml", "(ours)", "3", "4", "1.00", "500", "3.0", "4.0", "2.0", "0.2"]
    assert lines[3].split()[:4] == ["eager", "4", "4", "1.50"]
    assert lines[3].split()[-1] == "inf"
    assert lines[4].split() == ["XNNPACK", "failed"]
    assert lines[5:7] == ["XNNPACK failed: it died", "openvino is not installed: pip install openvino"]


class Outputs(nn.Module):
    """Several outputs, of which the second has one element."""

    def forward(self, x: Tensor) -> list[Tensor]:
        return [x + 1, x.sum(), x.flatten()]


@pytest.mark.parametrize("name", ["eager", "xnnpack", "onnxruntime", "openvino", "ggml"])
def test_an_engine_returns_all_outputs(name: str, tmp_path: Path) -> None:
    engine = engines.ENGINES[name]
    if missing := engine.missing():
        pytest.skip(f"not installed: {', '.join(missing)}")
    torch.manual_seed(0)
    args = (torch.randn(2, 3),)
    written = engine.write(Workload(Outputs().eval(), args), tmp_path)
    outputs = engine.load(written.path, args, 1)()
    assert worker._largest_error(outputs, Outputs()(*args)) < 1e-6


def test_nan_and_zeros_are_errors() -> None:
    zeros, ones = torch.zeros(3), torch.ones(3)
    assert worker._largest_error([ones], [zeros]) == float("inf")
    assert worker._largest_error([zeros], [zeros]) == 0.0
    assert worker._largest_error([torch.tensor([1.0, float("nan"), 1.0]).numpy()], [ones]) == float("inf")
    with pytest.raises(ValueError, match="zip"):
        worker._largest_error([ones], [ones, ones])


def test_a_flat_module_takes_tensors_in_order() -> None:
    class Nested(nn.Module):
        def forward(self, pair: list[Tensor], factor: float, shift: Tensor | None = None) -> dict[str, Any]:
            product = pair[0] * factor - pair[1]
            return {"out": product if shift is None else product + shift, "factor": factor}

    a, b, c = torch.randn(3, 2).unbind()
    module, args = flat(Nested(), ([a, b], 3.0), {"shift": c})
    assert [arg is tensor for arg, tensor in zip(args, (a, b, c), strict=True)] == [True] * 3
    (output,) = module(*args)
    torch.testing.assert_close(output, 3 * a - b + c)
    module, args = flat(Nested(), ([a, b], 3.0, None), {})
    torch.testing.assert_close(module(*args), (3 * a - b,))


@pytest.mark.usefixtures("_threads_kept")
def test_a_pt2_file_runs_in_eager(tmp_path: Path) -> None:
    module, x = nn.Linear(3, 4).eval(), torch.randn(5, 3)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "m.pt2")
    source = bench._Source(str(tmp_path / "m.pt2"), None, (), False, {})
    workload = source.load("model")
    written = engines.EAGER.write(workload, tmp_path)
    (example,) = workload.args
    (output,) = engines.EAGER.load(written.path, workload.args, 1)()
    torch.testing.assert_close(output, module(example))
    assert engines.GGML.write(workload, tmp_path).delegates == 1


def test_a_class_that_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    class Local(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x

    with pytest.raises(ValueError, match="define the module's class at the top level"):
        engines.EAGER.write(Workload(Local(), (torch.ones(1),)), tmp_path)
