"""What pyproject.toml says of the package."""

import tomllib
from pathlib import Path

PYPROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text())


def test_what_is_compiled_against_is_what_is_run_with() -> None:
    """ExecuTorch and ggml keep no stable C++ interface between versions."""
    for package in ("executorch", "libggml-python"):
        build, run = (
            [line for line in lines if line.startswith(f"{package}==")]
            for lines in (PYPROJECT["build-system"]["requires"], PYPROJECT["project"]["dependencies"])
        )
        assert len(build) == 1
        assert build == run
