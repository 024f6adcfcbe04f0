"""The command line before it does anything: help without torch, the version, nothing on stderr but its own."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import executorch_ggml

MODULES = 250
"""So many may be imported for help at most: they are 209 with click 8.5; torch alone brings more than a thousand."""

# Every command's help in one process, then what that imported.
HELP = """
import contextlib, io, sys
from executorch_ggml.cli import commands, main

def lines_of(group, before):
    yield before
    for name, command in group.commands.items():
        yield from lines_of(command, [*before, name]) if hasattr(command, "commands") else [[*before, name]]

lines = list(lines_of(commands, []))
assert ["webnn", "run"] in lines and ["bench"] in lines, lines
for line in lines:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main([*line, "--help"]) == 0, line
    assert text.getvalue().startswith(" ".join(["Usage: executorch-ggml", *line])), line
print({"torch", "executorch", "numpy", "transformers", "rich", "asyncio"} & set(sys.modules))
print(len(sys.modules), file=sys.stderr)
"""


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300)


def test_help_imports_no_torch() -> None:
    done = run("-c", HELP)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
    assert int(done.stderr) < MODULES


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("ben", ["bench"]), ("bench --rou", ["--rounds"]), ("webnn con", ["convert"]), ("bench --precision bf", ["bf16"])],
)
def test_completion(typed: str, offered: list[str]) -> None:
    code = "import sys; from executorch_ggml.cli import main; sys.exit(main())"
    words = {"COMP_WORDS": f"executorch-ggml {typed}", "COMP_CWORD": str(len(typed.split()))}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        env={**os.environ, **words, "_EXECUTORCH_GGML_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert [line.removeprefix("plain,") for line in done.stdout.splitlines()] == offered
    assert "| torch" not in done.stderr
    assert done.returncode == 0


def test_import_makes_the_delegate_known_without_torch() -> None:
    code = (
        "import sys, executorch_ggml; early = 'torch' in sys.modules; from executorch.runtime import Runtime; "
        "print(early, 'GgmlBackend' in Runtime.get().backend_registry.registered_backend_names)"
    )
    assert run("-c", code).stdout == "False True\n"


def test_run_imports_no_exporter(tmp_path: Path) -> None:
    """ExecuTorch's exporter and the compilers that it imports take twice as long as torch."""
    program = tmp_path / "doubled.pte"
    executorch_ggml.export(Doubled(), (torch.ones(3),)).save(str(program))
    code = (
        "import sys; from executorch_ggml.cli import main; failed = main(['run', sys.argv[1]]); "
        "sys.exit(failed or str({'executorch.exir', 'torch._dynamo', 'transformers'} & sys.modules.keys()))"
    )
    done = run("-c", code, str(program))
    assert done.stderr.splitlines()[-1] == "set()", done.stderr
    assert "output 0" in done.stdout


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
