from __future__ import annotations

import functools
import gc
from collections.abc import Iterator

import pytest
import torch
import torch._export.utils as export_utils
from hypothesis import HealthCheck, settings
from tests.worker_crashes import pytest_configure, pytest_handlecrashitem, pytest_testnodedown

__all__ = ["pytest_configure", "pytest_handlecrashitem", "pytest_testnodedown"]

# Exports are slow and vary with the load of the machine: no deadline; the same examples on every run.
settings.register_profile(
    "project", deadline=None, derandomize=True, max_examples=40, suppress_health_check=list(HealthCheck)
)
settings.load_profile("project")

# Each decomposition looks up every composite op of torch dozens of times, half the time of a small program's export.
# An op that is registered later is known from its first call on.
export_utils._materialize_cpp_cia_ops = functools.cache(export_utils._materialize_cpp_cia_ops)


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
