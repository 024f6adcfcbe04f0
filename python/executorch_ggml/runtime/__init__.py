"""Running programs from Python: the session of the native runtime, and its devices and threads."""

from ._library import get_num_threads, load_delegate, set_device, set_num_threads
from .module import Module, load
from .session import Device, NodePlacement, Session, States, list_devices

__all__ = [
    "Device",
    "Module",
    "NodePlacement",
    "Session",
    "States",
    "get_num_threads",
    "list_devices",
    "load",
    "load_delegate",
    "set_device",
    "set_num_threads",
]
