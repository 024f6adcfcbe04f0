"""Caches of torch and ExecuTorch that hold what was exported, weights included, for as long as the process runs."""

from __future__ import annotations

from executorch.exir.backend.utils import is_same_node
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch._subclasses import FakeTensorMode


def forget_programs() -> None:
    """Drop the entries that keep programs: graphs that ExecuTorch compared, and calls of delegates on fake tensors."""
    is_same_node.cache_clear()
    for call in list(FakeTensorMode.cache):
        if any(isinstance(part, LoweredBackendModule) for part in call.key):
            FakeTensorMode.cache.pop(call, None)
