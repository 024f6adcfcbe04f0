"""A crashed test worker fails the run, and soon, whatever it has left running."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

CRASH = """
import os, signal, time

def test_before(): pass

def test_crash():
    {before}
    os.kill(os.getpid(), signal.{signal})

def test_after(): pass
"""
LONG = """
import pathlib, time

def test_long():
    pathlib.Path("started").touch()
    time.sleep(300)
"""
OTHERS = "def test_1(): pass\ndef test_2(): pass\n"


@pytest.mark.parametrize(
    ("signal", "before"),
    [
        ("SIGILL", "pass"),
        ("SIGSEGV", "if os.fork() == 0: time.sleep(90), os._exit(0)"),
        ("SIGSEGV", "while not os.path.exists('started'): time.sleep(0.01)"),
    ],
    ids=["alone", "with a forked child", "beside a long test"],
)
def test_crash(tmp_path: Path, signal: str, before: str) -> None:
    (tmp_path / "test_a.py").write_text(CRASH.format(signal=signal, before=before))
    (tmp_path / "test_b.py").write_text(LONG if "started" in before else OTHERS)
    for name in "cdef":
        (tmp_path / f"test_{name}.py").write_text(OTHERS)
    # In the files' order the first two go to a worker each: else the long one may wait behind the crashing one.
    spread = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *spread, "-p", "tests.worker_crashes"]
    # The plugins that this project does not need take seconds to load.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    log = tmp_path / "log"
    with log.open("w") as output:  # not a pipe, which the forked child would keep open
        result = subprocess.run(
            [*command, "-p", "xdist", "-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)],
            stdout=output, stderr=output, timeout=60, cwd=tmp_path, env=environment, check=False,
        )  # fmt: skip
    assert result.returncode == pytest.ExitCode.INTERRUPTED, log.read_text()
    assert "crashed while running 'test_a.py::test_crash'" in log.read_text()
    assert "the run ends: test_a.py::test_crash crashed its worker" in log.read_text()
