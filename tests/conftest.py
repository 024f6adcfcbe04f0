from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings
from tests import quick_decompositions
from tests.worker_crashes import pytest_configure, pytest_handlecrashitem, pytest_testnodedown

__all__ = ["pytest_configure", "pytest_handlecrashitem", "pytest_testnodedown"]

# Exports are slow and vary with the load of the machine: no deadline; the same examples on every run.
settings.register_profile(
    "project", deadline=None, derandomize=True, max_examples=40, suppress_health_check=list(HealthCheck)
)
settings.load_profile("project")

quick_decompositions.install()


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from going through modules and tests, which stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _reproducible() -> Iterator[None]:
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
