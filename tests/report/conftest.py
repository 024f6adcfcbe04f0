"""A program to look at."""

import sys
from pathlib import Path

import pytest
from tests.report import models

import executorch_ggml


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "blocks.pte"
    executorch_ggml.export(*models.build()).save(str(path))
    return path


@pytest.fixture(scope="session")
def model() -> str:
    """The name of the program's model for the command line."""
    return f"{Path(sys.modules[models.__name__].__file__ or '')}:build"
