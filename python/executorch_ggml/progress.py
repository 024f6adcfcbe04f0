"""How far long work has come, for whoever listens: the command line shows bars; without a listener nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")


class Listener(Protocol):
    """Is told of stages, which may lie within each other."""

    def begin(self, what: str, total: float | None) -> Any:
        """A stage begins, of so much work in all (None: not known); what is returned names it from now on."""

    def advance(self, stage: Any, amount: float) -> None:
        """That much of it is done."""

    def end(self, stage: Any) -> None:
        """It is over, done or failed."""


_listener: ContextVar[Listener | None] = ContextVar("executorch_ggml_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Meanwhile, a listener is told of the stages of this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def stage(what: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A stage of some work, as "quantizing"; yields what says that so much more of it is done."""
    listener = _listener.get()
    if listener is None:
        yield lambda _amount: None
        return
    begun = listener.begin(what, total)
    try:
        yield lambda amount: listener.advance(begun, amount)
    finally:
        listener.end(begun)


def counted(what: str, items: Iterable[Item], size: Callable[[Item], float] = lambda _item: 1) -> Iterator[Item]:
    """The items, as a stage: each is done when the next is asked for, and is ``size`` of the work."""
    total = sum(map(size, items)) if isinstance(items, Sized) else None
    with stage(what, total) as advance:
        for item in items:
            yield item
            advance(size(item))
