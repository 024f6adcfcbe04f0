"""What a compiler is: a model file in, an artifact that can be run out."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...device import DeclinedError

if TYPE_CHECKING:
    import numpy as np

    from ....ir.graph import Node

    # The model's inputs in, its outputs out, in the model's own types and shapes.
    Runner = Callable[[Sequence[np.ndarray[Any, Any]]], Sequence[np.ndarray[Any, Any]]]

GROUP = "executorch_ggml.compilers"
FORMS = (".onnx", ".pt", ".pt2")  # ONNX, TorchScript, torch.export
TIMEOUT = "EXECUTORCH_GGML_COMPILE_TIMEOUT"


class CompileError(DeclinedError):
    """There is nothing that computes the graph right; the message says why."""


class InputError(DeclinedError):
    """These inputs are left to the CPU, others need not be; the message says why."""


class Compiler(ABC):
    """An external compiler.

    ``form`` is the kind of file that it reads, by suffix. ``int64`` says that it computes int64 as such, not as int32,
    ``nan`` that a NaN that it is given comes through all of its functions: else the CPU gets inputs that have one.
    ``self_check`` says that what it makes is compared with the CPU, whatever the environment says: of compilers that
    round.
    """

    name: str
    form: str = ".onnx"
    int64: bool = True
    nan: bool = True
    self_check: bool = False

    @abstractmethod
    def version(self) -> str:
        """What tells this version of the compiler from others. Raises CompileError where there is no compiler."""

    def options(self) -> Mapping[str, str]:
        """Whatever else changes what it makes: part of the key."""
        return {}

    def refuses(self, node: Node) -> str | None:
        """Why the compiler does not compute a node right that can be exported, or None."""
        del node
        return None

    @abstractmethod
    def compile(self, model: Path, folder: Path) -> None:
        """Write the artifact's files into an empty folder. Raises CompileError where it cannot."""

    @abstractmethod
    def load(self, folder: Path) -> Runner:
        """What runs the artifact; it must not need the folder afterwards, but for the time of ``load``."""


Factory = Callable[[], Compiler]
_registered: dict[str, Factory] = {}


def register(name: str, factory: Factory, *, override: bool = False) -> None:
    """Offer a compiler by name; a name that is taken needs ``override``."""
    if name in _registered and not override:
        raise ValueError(f"compiler {name!r} is registered already; pass override=True to replace it")
    _registered[name] = factory


def get(name: str) -> Compiler:
    """The compiler of a name: a registered one, else that of an entry point of ``executorch_ggml.compilers``."""
    factory = _registered.get(name) or _entries().get(name)
    if factory is None:
        raise LookupError(f"no compiler {name!r}; there is {', '.join(names())}")
    return factory()


def names() -> list[str]:
    """The compilers that there are, whether or not what they need is installed."""
    return sorted({*_registered, *_entries()})


@functools.lru_cache(maxsize=1)
def _entries() -> dict[str, Factory]:
    return {entry.name: _loaded(entry) for entry in entry_points(group=GROUP)}


def _loaded(entry: Any) -> Factory:
    def factory() -> Compiler:
        made: Compiler = entry.load()()
        return made

    return factory


def seconds() -> float:
    """How long a program may take: ``EXECUTORCH_GGML_COMPILE_TIMEOUT``, else ten minutes."""
    text = os.environ.get(TIMEOUT, "600")
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise CompileError(f"{TIMEOUT}={text!r}: expected a number of seconds above 0")
    return limit
