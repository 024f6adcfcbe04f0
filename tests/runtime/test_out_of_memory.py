"""Where there is not enough memory, an exception says for what and how much, and the process goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MESSAGES = {
    "state": "RuntimeError: no memory for state keys of 134217728 bytes",
    "first_value": "RuntimeError: no memory to remember state keys of 134217728 bytes as it begins",
    "values": "RuntimeError: no memory for intermediate values of 268435456 bytes; run smaller inputs",
    "output": "RuntimeError: no memory for an output of 134217728 bytes",
    "kernels": "no memory for what ggml's kernels need beside f32[2, 8192, 1, 1]; run smaller inputs",
    "packed_weights": "RuntimeError: no memory for constant weight of 134203392 bytes, packed",
    "threads": "RuntimeError: cannot start 63 threads: Resource temporarily unavailable; use fewer",
    "gguf": "134217792 bytes: Cannot allocate memory",
    "quantizer": "RuntimeError: no memory to quantize to iq2_xxs: its tables may need 16777216 bytes",
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What each case ended in, all of them in one process that outlives them."""
    command = [sys.executable, "-m", "tests.runtime.exhaust_memory"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("case", MESSAGES)
def test_out_of_memory(case: str, outcomes: dict[str, str]) -> None:
    assert MESSAGES[case] in outcomes[case]
