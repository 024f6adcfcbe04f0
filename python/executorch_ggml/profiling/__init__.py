"""Where a program's time goes: per node of each delegate, and per call of ExecuTorch's kernels."""

from __future__ import annotations

from .records import UNKNOWN, By, DelegateProfile, NodeProfile, Profile, Row, Source

__all__ = ["UNKNOWN", "By", "DelegateProfile", "NodeProfile", "Profile", "Row", "Source"]
