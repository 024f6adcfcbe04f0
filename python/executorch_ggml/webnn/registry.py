"""Converters and executors by name. What others register by entry point stands beside what is here.

An entry point's group is ``executorch_ggml.webnn.converters`` or ``executorch_ggml.webnn.executors``, its name the
backend's, its object a :data:`Converter` or an :class:`Executor`'s class.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

from .errors import BackendUnavailable
from .graph_info import Array, GraphInfo

Converter = Callable[[GraphInfo], Any]
"""From a graph to another form of it. Raises OperationError where that has no such form."""

Program = Callable[[Sequence[Array]], Sequence[Array]]
"""A graph made ready: from the inputs, in the graph's order and dense, to the outputs."""


class Executor(Protocol):
    """A backend: it makes graphs ready and runs them."""

    def __init__(self, *, accelerated: bool, power_preference: str) -> None:
        """Raises BackendUnavailable where :meth:`unavailable` has a reason."""

    @staticmethod
    def unavailable(accelerated: bool) -> str | None:
        """Why it cannot run here, on a GPU or NPU if ``accelerated`` and else on the CPU; None where it can."""

    def prepare(self, graph: GraphInfo) -> Program:
        """Make a graph ready. Raises OperationError, with all that it lacks, where it cannot."""


GROUPS = {kind: f"executorch_ggml.webnn.{kind}s" for kind in ("converter", "executor")}
# In the order in which a context chooses.
_BUILT_IN: dict[str, dict[str, str]] = {
    "converter": {
        "ggml": "executorch_ggml.frontends.webnn:convert",
        "coreml": "executorch_ggml.webnn.converters.coreml:convert",
        "onnx": "executorch_ggml.webnn.converters.onnx:convert",
        "torch": "executorch_ggml.webnn.converters.torch:convert",
    },
    "executor": {
        "ggml": "executorch_ggml.frontends.webnn.executor:GgmlExecutor",
        "coreml": "executorch_ggml.webnn.executors.coreml:CoremlExecutor",
        "onnx": "executorch_ggml.webnn.executors.onnx:OnnxExecutor",
        "torch": "executorch_ggml.webnn.executors.torch:TorchExecutor",
    },
}
_registered: dict[str, dict[str, Any]] = {"converter": {}, "executor": {}}


def register_converter(name: str, converter: Converter, *, override: bool = False) -> None:
    """Add a converter for this process; an entry point adds it for all."""
    _register("converter", name, converter, override)


def register_executor(name: str, executor: type[Executor], *, override: bool = False) -> None:
    """Add an executor for this process; an entry point adds it for all."""
    _register("executor", name, executor, override)


def _register(kind: str, name: str, entry: Any, override: bool) -> None:
    if name in names(kind) and not override:
        raise ValueError(f"there is a {kind} {name!r}; pass override=True to replace it")
    _registered[kind][name] = entry


def names(kind: str) -> list[str]:
    """The names of all converters, or executors, in the order in which a context chooses."""
    known = {**_BUILT_IN[kind], **_registered[kind]}
    return [*known, *(point.name for point in entry_points(group=GROUPS[kind]) if point.name not in known)]


def find(kind: str, name: str) -> Any:
    """The converter or executor of that name. Raises BackendUnavailable where there is none, or it lacks a package."""
    entry = _registered[kind].get(name) or _BUILT_IN[kind].get(name)
    try:
        if entry is None:
            points = [point for point in entry_points(group=GROUPS[kind]) if point.name == name]
            if not points:
                raise BackendUnavailable(f"no {kind} {name!r}, there are {', '.join(names(kind))}")
            entry = points[0].load()
        elif isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            entry = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise BackendUnavailable(f"{kind} {name!r} needs a package that is not installed: {error}") from error
    return entry
