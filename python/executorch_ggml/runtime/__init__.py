"""Running programs from Python: the session of the native runtime, and its devices and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy
from ._library import get_num_threads, load_delegate, set_device, set_num_threads
from .session import (
    Cpu,
    Device,
    DeviceNames,
    DeviceUse,
    NodePlacement,
    Placement,
    Session,
    States,
    add_rpc_server,
    cpu,
    list_devices,
)

if TYPE_CHECKING:
    from .module import Module, load

__all__ = [
    "Cpu",
    "Device",
    "DeviceNames",
    "DeviceUse",
    "Module",
    "NodePlacement",
    "Placement",
    "Session",
    "States",
    "add_rpc_server",
    "cpu",
    "get_num_threads",
    "list_devices",
    "load",
    "load_delegate",
    "set_device",
    "set_num_threads",
]

__getattr__ = lazy(__name__, {".module": ["Module", "load"]})  # they need torch
