from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from tests import batches, lazy_recompilation, quick_decompositions
from tests.worker_crashes import pytest_configure, pytest_handlecrashitem, pytest_testnodedown

__all__ = ["pytest_configure", "pytest_handlecrashitem", "pytest_testnodedown"]

# Exports are slow and vary with the load of the machine: no deadline; the same examples on every run.
settings.register_profile(
    "project", deadline=None, derandomize=True, max_examples=15, suppress_health_check=list(HealthCheck)
)
settings.register_profile("thorough", settings.get_profile("project"), max_examples=40)  # `make test-all`
settings.load_profile("project")

# Files of 20 s and more begin first, so that no worker is left with one at the end.
LONGEST = frozenset(
    Path(__file__).parent / name
    for name in (
        "devices/test_several.py", "devices/test_models_on_devices.py", "devices/test_compiled_device.py",
        "fuzz/test_fuzz.py", "test_precision.py", "test_models.py", "test_half.py", "llm/test_layout.py",
        "runtime/test_bad_input.py", "examples/test_language.py", "frontends/aten/test_elementwise.py",
    )
)  # fmt: skip

lazy_recompilation.install()
quick_decompositions.install()

# pytest gives loggers that do not propagate a handler, for which torch would describe each tensor that it traces.
trace = logging.getLogger("torch.__trace")
trace.handlers.clear()
trace.propagate = True


def pytest_addoption(parser: pytest.Parser) -> None:
    """How cases of the op tables are run."""
    parser.addoption("--alone", action="store_true", help="run each case of the op tables in a program of its own")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of `LONGEST` in front; xdist takes files in this order with ``--no-loadscope-reorder``."""
    items.sort(key=lambda item: item.path not in LONGEST)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Batch the cases, and keep the collector of garbage from going through modules and tests, which stay."""
    batches.plan(session.items, size=1 if session.config.option.alone else batches.SIZE)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # exports make many objects that stay: looking at them was a tenth of the time


@pytest.fixture(autouse=True)
def _reproducible() -> Iterator[None]:
    torch.default_generator.manual_seed(0)  # not `torch.manual_seed`, which formats the stack for each absent device
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
