"""The device, and what MLX can use."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from ..device import GgmlDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from ...ir.graph import Graph, Node

COMPILE = "EXECUTORCH_GGML_MLX_COMPILE"
_chosen: str | None = None


def available() -> tuple[bool, str]:
    """Whether MLX can be used here; and its version with its devices, or the reason why not."""
    try:
        core = importlib.import_module("mlx.core")
    except (ImportError, OSError) as error:
        return False, f"mlx.core can't be imported ({error}); install mlx, on Linux mlx[cpu]"
    devices = [name for name in ("cpu", "gpu") if core.is_available(getattr(core, name))]
    return True, f"MLX {core.__version__} on {', '.join(devices)}"


def set_device(name: str | None) -> None:
    """Compute on ``"cpu"`` or ``"gpu"`` in plans made from now on; None is MLX's default."""
    _resolved(name)
    global _chosen  # noqa: PLW0603 - a setting of the process, as MLX's own
    _chosen = name


def _resolved(name: str | None) -> Any:
    """The ``mlx.core.Device`` of a name."""
    there, reason = available()
    if not there:
        raise RuntimeError(f"mlx: {reason}")
    core: Any = importlib.import_module("mlx.core")
    if name is None:
        return core.default_device()
    if name not in ("cpu", "gpu"):
        raise ValueError(f"mlx: device {name!r}, expected 'cpu' or 'gpu'")
    if not core.is_available(getattr(core, name)):
        raise RuntimeError(f"mlx: no device {name!r} here: {reason}")
    return core.Device(getattr(core, name), 0)


class MlxDevice(GgmlDevice):
    """Computes whole graphs with MLX, on ``device`` or the one of :func:`set_device`.

    ``compile`` is whether graphs go through ``mx.compile``, which fuses elementwise functions; by default that is on
    the GPU alone: on the CPU each fused kernel is compiled by ``g++`` when it is first run. Without it, the environment
    variable ``EXECUTORCH_GGML_MLX_COMPILE`` (0 or 1) decides.
    """

    def __init__(self, device: str | None = None, *, compile: bool | None = None) -> None:
        self._name = device
        self._compile = compile
        self.name = "mlx" if device is None else f"mlx:{device}"
        _resolved(device)
        self.description = available()[1]

    def supports(self, node: Node) -> bool:
        """Whether the table has a function for the node, with its types and attributes."""
        return self.refusal(node) is None

    def refusal(self, node: Node) -> str | None:
        """The reason why a node is not taken, or None."""
        from .plan import refusal

        return refusal(node)

    def plan(self, graph: Graph) -> Callable[[Sequence[np.ndarray[Any, Any]]], list[np.ndarray[Any, Any]]]:
        """The graph as one lazily evaluated function. Raises ValueError with every reason where nodes are refused."""
        from .plan import Plan

        device = _resolved(self._name or _chosen)
        return Plan(graph, device, compiled=self._compiles(device))

    def _compiles(self, device: Any) -> bool:
        core: Any = importlib.import_module("mlx.core")
        if self._compile is not None:
            return self._compile
        given = os.environ.get(COMPILE)
        return device.type == core.gpu if given is None else given == "1"

    def memory(self) -> tuple[int, int]:
        """Free and total bytes: of a GPU, of what MLX may use of it."""
        core: Any = importlib.import_module("mlx.core")
        if _resolved(self._name or _chosen).type != core.gpu:
            return super().memory()
        total = int(core.device_info().get("max_recommended_working_set_size", 0)) or super().memory()[1]
        return max(total - core.get_active_memory(), 0), total
