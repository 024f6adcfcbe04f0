"""Frees exported programs that global caches of torch and ExecuTorch keep alive, with their weights."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from executorch.exir.backend.utils import is_same_node
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch._subclasses import FakeTensorMode


class _FakeCalls:
    """torch's cache of calls on fake tensors, in their order: it has tens of thousands, few of them of programs."""

    def __init__(self) -> None:
        self._newest: Any = None  # that was looked at

    def forget_programs(self) -> None:
        """Evict the calls of delegates since the last time."""
        cache = FakeTensorMode.cache
        for call in list(takewhile(lambda call: call is not self._newest, reversed(cache))):
            if any(isinstance(part, LoweredBackendModule) for part in call.key):
                cache.pop(call, None)
        self._newest = next(reversed(cache), None)


_FAKE_CALLS = _FakeCalls()


def forget_programs() -> None:
    """Evict what references programs: nodes that ExecuTorch compared, and calls of delegates on fake tensors."""
    is_same_node.cache_clear()
    _FAKE_CALLS.forget_programs()
