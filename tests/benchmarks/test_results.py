"""What the benchmarks' tables say of what was measured."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from benchmarks.model_tables import best_peer, error_cell
from benchmarks.models import ROWS, chosen
from benchmarks.results import compiler_of
from benchmarks.workloads import SENTENCES, WORKLOADS, load

from benchmarks import int8, results
from executorch_ggml.benchmark.comparison import Column, Row, percentile
from executorch_ggml.benchmark.engines import GGML, ONNXRUNTIME, XNNPACK
from executorch_ggml.benchmark.system import peak_bytes, reset_peak, resident_bytes
from executorch_ggml.benchmark.worker import FirstCall


@pytest.mark.parametrize(("command", "name"), [("gcc", "gcc"), ("clang", "clang"), ("clang-16", "clang")])
def test_compiler_of_a_library(tmp_path: Path, command: str, name: str) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"{command} is missing")
    source, library = tmp_path / "empty.c", tmp_path / "libempty.so"
    source.write_text("int nothing(void) { return 0; }\n")
    subprocess.run([command, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    printed = subprocess.run([command, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, check=True)
    assert compiler_of(library) == f"{name} {printed.stdout.strip()}"


def test_compiler_of_a_library_that_does_not_say(tmp_path: Path) -> None:
    library = tmp_path / "libquiet.so"
    library.write_bytes(b"\x7fELF")
    assert compiler_of(library) == "an unknown compiler"


def test_each_make_of_cpu_has_sections_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "RESULTS.md"
    for make, body in (("AMD with AVX2", "old"), ("Intel with AMX", "other"), ("AMD with AVX2", "new")):
        monkeypatch.setattr(results, "make", lambda make=make: make)
        results.write_section("models", "Models", body, path)
    text = path.read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Models: AMD with AVX2",
        "## Models: Intel with AMX",
    ]
    assert "\nnew\n" in text
    assert "\nother\n" in text
    assert "old" not in text


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"model name": "AMD EPYC", "cpu family": "25", "model": "1"}, "AMD EPYC, family 25 model 1"),
        ({"model name": "Neoverse-N1"}, "Neoverse-N1"),  # ARM's have neither
    ],
)
def test_generations_of_a_make_are_told_apart(
    facts: dict[str, str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_from_proc", lambda _, key: facts.get(key))
    assert results.processor() == line


def test_percentiles_are_of_all_rounds() -> None:
    rounds = [[1.0, 2.0, 3.0], [4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]]
    assert Column(rounds=rounds).median == 6.0
    assert percentile(rounds, 90) == 10.0


def test_ours_is_held_against_the_fastest_peer_that_did_not_fail() -> None:
    columns = {
        GGML.name: Column(rounds=[[2.0], [2.0]]),
        XNNPACK.name: Column(rounds=[[5.0], [5.0]]),
        ONNXRUNTIME.name: Column(rounds=[[3.0], [3.0]]),
    }
    row = Row(columns)
    assert best_peer(row, GGML, (XNNPACK, ONNXRUNTIME), lambda ours, other: ours.speed(other)) == "1.50"
    columns[ONNXRUNTIME.name].failure = "it died"
    assert best_peer(row, GGML, (XNNPACK, ONNXRUNTIME), lambda ours, other: ours.speed(other)) == "2.50"


def test_errors_are_in_steps_too_where_outputs_are_quantized() -> None:
    column = Column(call=FirstCall(seconds=1.0, error=0.02))
    assert error_cell(column, None) == "0.02"
    assert error_cell(column, 0.01) == "0.02 (2.0)"


def test_every_row_is_a_workload() -> None:
    for section, rows in ROWS.items():
        names = [*rows.workloads, *rows.tiny]
        assert len(names) == len(set(names)), section
        assert set(names) <= set(WORKLOADS), section
    assert chosen(None, ["bert-int8", "bert"]) == {"models": ["bert"], "int8": ["bert-int8"]}
    assert chosen(["bf16"], ["bert"]) == {"bf16": ["bert"]}
    assert chosen(["sizes"], None) == {"sizes": list(ROWS["sizes"].workloads)}


def test_the_sentences_have_their_lengths() -> None:
    input_ids, mask = load("bert-sentences").args
    assert input_ids.shape == mask.shape == (len(SENTENCES), max(SENTENCES))
    assert tuple(mask.sum(1).tolist()) == SENTENCES


def test_the_peak_of_memory_begins_anew() -> None:
    torch.ones(40_000_000).sum()  # 160 MB, let go of at once
    reset_peak()
    before = resident_bytes()
    assert peak_bytes() - before < 40e6
    torch.ones(40_000_000).sum()
    assert peak_bytes() - before > 120e6


class Classifier(torch.nn.Module):
    """A layer whose output is quantized, and an index made by adding zero."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.layer(x[torch.arange(4) + 0])
        return rows


def test_a_quantized_module_has_a_step_and_its_outputs_are_multiples_of_it() -> None:
    torch.manual_seed(0)
    module, x = Classifier().eval(), torch.randn(4, 16)
    quantized = int8.quantized(module, int8.calibration((x,)))
    step = int8.last_step(quantized)
    assert step is not None
    outputs = quantized(x) / step
    torch.testing.assert_close(outputs, outputs.round(), rtol=0, atol=1e-3)
    assert (quantized(x) - module(x)).abs().max() < 0.05 * module(x).abs().max()
