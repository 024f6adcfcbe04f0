"""Where a program's time goes: per node of each delegate, and per call of ExecuTorch's kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy
from .records import UNKNOWN, By, DelegateProfile, NodeProfile, Profile, Row, Source

if TYPE_CHECKING:
    from .measure import profile
    from .opening import inspector

__all__ = ["UNKNOWN", "By", "DelegateProfile", "NodeProfile", "Profile", "Row", "Source", "inspector", "profile"]

__getattr__ = lazy(__name__, {".measure": ["profile"], ".opening": ["inspector"]})
