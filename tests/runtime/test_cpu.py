"""What runs on the CPU: EXECUTORCH_GGML_CPU, and a ggml that is not right is an error, not the process's death."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tools.faulty import add_faulty, copied_package

from executorch_ggml.runtime import cpu

ISAS = ["generic", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "amx"]

# The native module alone: importing all of the package takes seconds.
ASK = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("_session", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
try:
    print(*module.cpu())
except RuntimeError as error:
    print("error:", error)
"""


def ask(**environment: str) -> str:
    from executorch_ggml import _session

    command = [sys.executable, "-c", ASK, str(_session.__file__)]
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return result.stdout.strip()


@pytest.mark.parametrize("isa", ISAS)
def test_kernels_and_library_are_limited(isa: str, tmp_path: Path) -> None:
    copied_package(tmp_path)  # or skip
    kernels, library, library_isa = ask(EXECUTORCH_GGML_CPU=isa).rsplit(maxsplit=2)
    assert ISAS.index(kernels) <= ISAS.index(isa)
    assert ISAS.index(library_isa) <= ISAS.index(isa), library


def test_unknown_names_are_refused() -> None:
    answer = ask(EXECUTORCH_GGML_CPU="avx1024")
    assert answer == f"error: EXECUTORCH_GGML_CPU is avx1024; expected one of {', '.join(ISAS)}, or nothing"


@pytest.mark.parametrize(("fault", "message"), [("SIGILL", "raises SIGILL"), ("WRONG", "with 8 rows gives")])
def test_a_library_with_a_fault_is_an_error(tmp_path: Path, fault: str, message: str) -> None:
    package = copied_package(tmp_path)
    library = add_faulty(package, fault)
    answer = ask(LD_LIBRARY_PATH=str(package / "lib"))
    assert answer.startswith(f"error: ggml's CPU library {library} is not right on this CPU")
    assert message in answer


def test_what_is_in_use() -> None:
    used = cpu()
    assert used.kernels in ISAS
    assert used.library_isa in ISAS
    assert Path(used.library).exists()
