"""A dozen models on every instruction set of this machine, each against eager PyTorch; `make test-isa` runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.isa_models import TOLERANCE, save

from executorch_ggml.runtime import cpu

ISAS = ["generic", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save(folder)
    return folder


@pytest.mark.parametrize("isa", ISAS)
def test_models(isa: str, models: Path) -> None:
    used = cpu()
    if ISAS.index(isa) > max(ISAS.index(used.kernels), ISAS.index(used.library_isa)):
        pytest.skip(f"this machine has up to {used.kernels}, and its ggml up to {used.library_isa}")
    result = subprocess.run(
        [sys.executable, "-m", "tests.isa_models", str(models)],
        env={**os.environ, "EXECUTORCH_GGML_CPU": isa},
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    worst = json.loads(result.stdout.splitlines()[-1])
    assert {name: error for name, error in worst.items() if not error <= TOLERANCE[name]} == {}
    assert worst.keys() == TOLERANCE.keys()
