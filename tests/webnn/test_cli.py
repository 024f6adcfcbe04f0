"""The command line's ``webnn``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.webnn.running import context

from executorch_ggml.cli import main


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    b = context("torch").create_graph_builder()
    x = b.input("x", [2, 3])
    built = b.build({"y": b.mul(b.relu(x), b.constant([2.0, 3.0, 4.0]))})
    built.save(tmp_path / "graph.webnn")
    return tmp_path / "graph.webnn"


@pytest.mark.parametrize("backend", ["ggml", "onnx", "torch"])
def test_run(graph: Path, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    array, target = graph.with_name("x.npy"), graph.with_name("y.npz")
    np.save(array, np.array([[-1, 1, 1], [1, -1, 2]], np.float32))
    arguments = ["webnn", "run", str(graph), "--input", f"x={array}", "--output", str(target), "--backend", backend]
    assert main(arguments) == 0
    assert f"on {backend}" in capsys.readouterr().out
    np.testing.assert_array_equal(np.load(target)["y"], [[0, 3, 4], [2, 0, 8]])


def test_convert(graph: Path) -> None:
    for name in ("graph.onnx", "graph.pte", "graph.pt2", "graph.txt"):
        assert main(["webnn", "convert", str(graph), str(graph.with_name(name))]) == 0
        assert graph.with_name(name).stat().st_size > 0
    assert onnx.load(graph.with_name("graph.onnx")).graph.input[0].name == "x"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.webnn"], "missing.webnn"),
        (["run", "{graph}", "--input", "z=z.npy"], "no input z, there are x"),
        (["run", "{graph}", "--backend", "abacus"], "no executor 'abacus'"),
        (["convert", "{graph}", "graph.xyz"], "--to"),
    ],
)
def test_faults_are_one_line(
    graph: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["webnn", *(argument.format(graph=graph) for argument in arguments)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
