"""What a device written in Python is, and which there are."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..ir.graph import Graph, Node

    Plan = Callable[[Sequence[np.ndarray[Any, Any]]], Sequence[np.ndarray[Any, Any]]]

GROUP = "executorch_ggml.devices"


class DeclinedError(Exception):
    """Raised by ``plan``, or by what it gives, to leave a graph or a run to ggml's CPU.

    It is no error of the device's, and not logged: the device tells its user what there is to tell.
    """


class GgmlDevice(ABC):
    """A device of ggml's.

    ggml shows ``name`` and ``description``. Its scheduler gives the device the nodes that it supports, in graphs as
    large as can be, and the others to the CPU. One device may be asked from several threads, one call at a time.

    ``time_limit`` is how many seconds a call of ``supports``, of ``plan`` or of a plan may take; None: any, unless
    ``EXECUTORCH_GGML_DEVICE_TIME_LIMIT`` says. A device that takes longer is called no more, and the CPU computes.
    """

    name: str
    description: str = ""
    time_limit: float | None = None

    @abstractmethod
    def supports(self, node: Node) -> bool:
        """Whether :meth:`plan` computes this node right; its inputs are what made them, without their data."""

    @abstractmethod
    def plan(self, graph: Graph) -> Plan:
        """A function that computes the graph, made once for all graphs that are alike.

        All dims are ints and there are no states. The function gets one array an input, in the port's shape, which is
        read-only and must not be kept, and gives one array an output, in that port's type and shape. The data of
        constants is read here, not there.
        """

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        page = os.sysconf("SC_PAGE_SIZE")
        names = ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES")
        free, total = (os.sysconf(name) * page if name in os.sysconf_names else 0 for name in names)
        return free, total


_registered: dict[str, GgmlDevice] = {}


def register(device: GgmlDevice, *, override: bool = False) -> None:
    """Offer a device to ggml. Names are compared without case; a name that is taken needs ``override``."""
    key = device.name.lower()
    if not key or "," in key:
        raise ValueError(f"device name {device.name!r}: expected one without commas")
    if key in _registered and not override:
        raise ValueError(f"device {device.name!r} is registered already; pass override=True to replace it")
    _registered[key] = device


def registered() -> list[GgmlDevice]:
    """The devices that were registered, or found by name, in this order."""
    return list(_registered.values())


def get(name: str) -> GgmlDevice:
    """The device of a name: a registered one, else the one that an entry point of that name makes.

    Entry points of the group ``executorch_ggml.devices`` name a class, or a function that gives a device. Of
    ``"name:option"`` it is called with the option.
    """
    key = name.lower()
    if key not in _registered:
        kind, colon, option = name.partition(":")
        factory = _factories().get(kind.lower())
        if factory is None:
            known = sorted({*_registered, *_factories()})
            raise LookupError(f"no device {name!r}; there is {', '.join(known) or 'none'}")
        device = factory.load()(*([option] if colon else []))
        _registered.setdefault(key, device)
    return _registered[key]


@functools.lru_cache(maxsize=1)
def _factories() -> dict[str, Any]:
    return {entry.name.lower(): entry for entry in entry_points(group=GROUP)}
