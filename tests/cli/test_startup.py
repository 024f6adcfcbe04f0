"""The command line before it does anything: help without torch, the version, nothing on stderr but its own."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import executorch_ggml

# Every command's help in one process, then what that imported.
HELP = """
import contextlib, io, sys
from executorch_ggml.cli import COMMANDS, main
names = [module.command.name for module in COMMANDS]
lines = [[], *([name] for name in names), ["webnn", "convert"], ["webnn", "run"]]
for line in lines:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main([*line, "--help"]) == 0, line
    assert text.getvalue().startswith(" ".join(["Usage: executorch-ggml", *line])), line
print({"torch", "executorch", "numpy", "transformers"} & set(sys.modules))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300)


def test_help_imports_no_torch() -> None:
    done = run("-c", HELP)
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")


def test_import_makes_the_delegate_known_without_torch() -> None:
    code = (
        "import sys, executorch_ggml; early = 'torch' in sys.modules; from executorch.runtime import Runtime; "
        "print(early, 'GgmlBackend' in Runtime.get().backend_registry.registered_backend_names)"
    )
    assert run("-c", code).stdout == "False True\n"


def test_version() -> None:
    version = importlib.metadata.version("executorch-ggml")
    assert executorch_ggml.__version__ == version
    assert run("-m", "executorch_ggml", "--version").stdout == f"executorch-ggml {version}\n"


def test_only_our_words_on_stderr(tmp_path: Path) -> None:
    """``inspect`` imports ExecuTorch, whose imports warn of what a user can do nothing about."""
    file = tmp_path / "model.pte"
    file.write_bytes(b"nothing")
    done = run("-m", "executorch_ggml", "inspect", str(file))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"executorch-ggml: {file} is not an ExecuTorch program")


def test_other_warnings_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    import logging

    from executorch_ggml.cli.noise import quiet_dependencies

    logger = logging.getLogger("torchao")
    before = list(logger.filters)
    try:
        quiet_dependencies()
        logger.warning("Failed to load /some/where.so: it is for CUDA")
        logger.warning("the quantization lacks a scale")
    finally:
        logger.filters[:] = before
    assert caplog.messages == ["the quantization lacks a scale"]
