"""The code of README.md, docs/cpp.md and docs/contributing.md runs as it is printed."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.snippets import CONTRIBUTING, blocks, write_cpp_project


def test_snippet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[0], "README.md", "exec"), {})
    assert "2 of 2 nodes run in ggml" in capsys.readouterr().out
    assert (tmp_path / "model.pte").exists()


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project finds ExecuTorch and ggml by our package alone, and runs the first block's program."""
    import executorch_ggml

    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[0], "README.md", "exec"), {})
    write_cpp_project(tmp_path)
    cmake = str(Path(sys.executable).parent / "cmake")
    for command in (
        [cmake, "-B", "build", f"-DCMAKE_PREFIX_PATH={executorch_ggml.cmake_prefix_path}"],
        [cmake, "--build", "build"],
        ["build/app"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_add_a_lowering() -> None:
    import torch

    from executorch_ggml.frontends.aten import LOWERINGS, Lowering, Refused, lowers
    from executorch_ggml.frontends.aten.context import Context, Tensor
    from executorch_ggml.ir.dtypes import DType
    from executorch_ggml.ir.interpreter import Interpreter
    from executorch_ggml.ir.ops.custom import BinaryKind

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.addcmul(x, a, b, value=0.5)

    inputs = tuple(torch.randn(3, 4) for _ in range(3))
    names = {
        "lowers": lambda *overloads: lowers(*overloads, override=True),
        "aten": torch.ops.aten,
        **{c.__name__: c for c in (Context, Tensor, Refused, DType, BinaryKind)},
    }
    before = dict(LOWERINGS)
    try:
        exec(compile(blocks("python", CONTRIBUTING)[0], "contributing.md", "exec"), names)
        graph = Lowering(torch.export.export(Model(), inputs)).graph()
        torch.testing.assert_close(Interpreter(graph).run(*inputs)[0], Model()(*inputs))
    finally:
        LOWERINGS.clear()
        LOWERINGS.update(before)


def test_add_a_builder() -> None:
    import torch

    from executorch_ggml.ir import op as table

    registry = table.Registry()
    block = blocks("python", CONTRIBUTING)[1]
    names = {"op": table.op, "torch": torch}
    original, table.OPS = table.OPS, registry
    try:
        exec(compile("from __future__ import annotations\n" + block, "contributing.md", "exec"), names)
    finally:
        table.OPS = original
    spec = registry["l2_norm"]
    assert spec.number not in {row.number for row in original.values()}
    row = torch.randn(1, 1, 2, 5)
    torch.testing.assert_close(spec.reference(row, eps=1e-6).norm(dim=-1), torch.ones(1, 1, 2))
    (check,) = spec.checks
    assert not check.holds({"eps": -1.0})
    assert check.expected == "expected eps to be 0 or more"


def test_add_a_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's formula, imported as a module is: its source is translated to C++."""
    from executorch_ggml.ir import cpp, formulas

    source = "from __future__ import annotations\nfrom executorch_ggml.ir.formulas import Operand, formula\n\n"
    (tmp_path / "readme_formula.py").write_text(source + blocks("python", CONTRIBUTING)[2])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(formulas, "FORMULAS", dict(formulas.FORMULAS))
    importlib.import_module("readme_formula")
    entry = formulas.FORMULAS["has_pairs"]
    assert entry.expected == "Expects `x` to have rows of an even number of elements"
    assert cpp.definition(entry).endswith("{\n  return (modulo(at(x.ne, 0), 2) == 0);\n}\n")


def test_add_a_pass() -> None:
    """The page's pass, on a graph with two negations."""
    from executorch_ggml.ir.graph import Graph, Node, Value
    from executorch_ggml.ir.parser import parse
    from executorch_ggml.passes.rewrite import Rewriter, computed_by, input_of, present

    known = (Graph, Node, Value, Rewriter, computed_by, input_of, present)
    names: dict[str, Any] = {each.__name__: each for each in known}
    block = "from __future__ import annotations\n" + blocks("python", CONTRIBUTING)[3]
    exec(compile(block, "contributing.md", "exec"), names)
    graph = parse(
        """
        input %x: f32[4, 1, 1, 1]
        %0 = neg(%x): f32[4, 1, 1, 1]
        %1 = neg(%0): f32[4, 1, 1, 1]
        %2 = tanh(%1): f32[4, 1, 1, 1]
        output y: %2 as [4]
        """
    )
    assert [node.op for node in names["run"](graph).nodes] == ["tanh"]
