"""No module needs one that needs it, and no package either: also not by imports in functions and for types alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "python"
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")}
NAMES = {name.removesuffix(".__init__") for name in MODULES} | {"executorch_ggml._program", "executorch_ggml._session"}


def imported(name: str, path: Path) -> Iterator[str]:
    """The project's modules that a module imports, wherever in it."""
    package = name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            candidates = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            candidates = [(f"{base}.{alias.name}", base) for alias in node.names]
        else:
            continue
        for candidate, base in candidates:
            if found := next((module for module in (candidate, base) if module in NAMES), None):
                yield found


@pytest.mark.parametrize("depth", [2, None], ids=["packages", "modules"])
def test_imports_make_no_circle(depth: int | None) -> None:
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        module = ".".join(name.removesuffix(".__init__").split(".")[:depth])
        needed = {".".join(other.split(".")[:depth]) for other in imported(name, path)}
        graph.setdefault(module, set()).update(needed - {module})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle, each by the next: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("module", ["devices.bridge", "devices.mlx.plan", "passes", "targets"])
def test_devices_do_without_torch(module: str) -> None:
    """Programs with a ggml of their own load them."""
    if module == "devices.mlx.plan":
        pytest.importorskip("mlx.core")
    code = f"import sys, executorch_ggml.{module}; sys.exit(bool({{'torch', 'sympy'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
