"""Frees exported programs that global caches of torch and ExecuTorch keep alive, with their weights."""

from __future__ import annotations

from executorch.exir.backend.utils import is_same_node
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch._subclasses import FakeTensorMode


def forget_programs() -> None:
    """Evict what references programs: nodes that ExecuTorch compared, and calls of delegates on fake tensors."""
    is_same_node.cache_clear()
    for call in list(FakeTensorMode.cache):
        if any(isinstance(part, LoweredBackendModule) for part in call.key):
            FakeTensorMode.cache.pop(call, None)
