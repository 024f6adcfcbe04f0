"""What pyproject.toml says of the package, and the versions that it asks for when it is imported."""

import ast
import ctypes
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from executorch_ggml import _versions
from executorch_ggml.runtime._library import load_delegate

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = PYPROJECT["build-system"]["requires"]
RUN = PYPROJECT["project"]["dependencies"]


def test_what_is_compiled_against_is_what_is_run_with() -> None:
    """ExecuTorch and ggml keep no stable C++ interface between versions."""
    assert f"executorch=={_versions.EXECUTORCH}" in BUILD
    assert f"executorch=={_versions.EXECUTORCH}" in RUN
    assert f"torch=={_versions.TORCH}" in RUN
    assert f"libggml-python=={_versions.GGML_PACKAGE}" in BUILD
    assert f"libggml-python=={_versions.GGML_PACKAGE}" in PYPROJECT["project"]["optional-dependencies"]["dev"]
    assert _versions.GGML_PACKAGE.startswith(f"{_versions.GGML}.post")
    pinned = (ROOT / "constraints.txt").read_text()
    assert re.search(rf"^libggml-python=={re.escape(_versions.GGML_PACKAGE)}$", pinned, re.MULTILINE)


def test_the_wheel_brings_its_ggml() -> None:
    assert not any(line.startswith("libggml-python") for line in RUN)


def test_the_package_has_the_grammar_of_the_oldest_python() -> None:
    oldest = re.fullmatch(r">=3\.(\d+)", PYPROJECT["project"]["requires-python"])
    assert oldest is not None
    for path in (ROOT / "python").rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, int(oldest[1])))


def other_package(folder: Path, name: str, version: str) -> dict[str, str]:
    """An environment where another version of a package is found first."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").touch()
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return {**os.environ, "PYTHONPATH": str(folder)}


def import_in(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Import the package in a process of its own."""
    command = [sys.executable, "-c", "import executorch_ggml"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_another_executorch_is_refused(tmp_path: Path) -> None:
    done = import_in(other_package(tmp_path, "executorch", "1.4.0"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: executorch-ggml is built for executorch 1.5.1, and executorch 1.4.0 is installed: "
        "pip install executorch==1.5.1"
    )


def test_another_torch_is_warned_of(tmp_path: Path) -> None:
    done = import_in(other_package(tmp_path, "torch", "2.14.1+cu130"))
    assert done.returncode == 0, done.stderr
    assert (
        "executorch-ggml is made for torch 2.13.0, and torch 2.14.1+cu130 is installed: pip install torch==2.13.0"
        in done.stderr
    )


def test_the_right_versions_are_not_spoken_of() -> None:
    done = import_in(dict(os.environ))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_executorch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_versions, "installed_version", lambda _name, _expected: None)
    with pytest.raises(ImportError, match=r"and executorch is not installed: pip install executorch==1\.5\.1$"):
        _versions.check_packages()


def test_another_ggml_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_versions, "GGML", "0.21.0")
    expected = r"built for ggml 0\.21\.0, and this process has loaded ggml 0\.20\.2 before it"
    with pytest.raises(ImportError, match=expected):
        _versions.check_ggml(load_delegate())


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are found by their names on Linux alone")
def test_a_ggml_that_is_loaded_already_is_checked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    load_delegate()
    assert ctypes.CDLL("libggml-base.so.0", mode=os.RTLD_NOLOAD)
    _versions.check_loaded_ggml()
    monkeypatch.setattr(_versions, "GGML", "0.21.0")
    with pytest.raises(ImportError, match="pip install libggml-python"):
        _versions.check_loaded_ggml()
