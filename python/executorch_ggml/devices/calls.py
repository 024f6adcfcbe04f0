"""Calls of a device's own code: one at a time, and no longer than the device may take."""

from __future__ import annotations

import ctypes
import math
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from .device import DeclinedError, GgmlDevice

VARIABLE = "EXECUTORCH_GGML_DEVICE_TIME_LIMIT"

T = TypeVar("T")


class TimeLimitError(Exception):
    """A call took longer than its device may take."""


class Calls:
    """Calls a device, which may be a device of several ggmls.

    With a time limit its code runs on a thread of its own. A call that takes longer is given up, and the device is
    called no more: its thread may still run, and nothing that it then returns is used.
    """

    def __init__(self, device: GgmlDevice) -> None:
        self.limit = _time_limit(device)
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._ended = ""  # why it is called no more

    def __call__(self, function: Callable[..., T], *args: Any) -> T:
        """What the function returns or raises; TimeLimitError the first time that it takes too long."""
        with self._lock:
            if self._ended:
                raise DeclinedError(self._ended)
            if self.limit is None:
                return function(*args)
            worker, self._worker = self._worker or _Worker(), None
            try:
                result = worker.run(function, args, self.limit)
            except TimeLimitError as error:
                self._ended = str(error)
                raise
            finally:
                if not worker.stopped:
                    self._worker = worker
            return result


def _time_limit(device: GgmlDevice) -> float | None:
    """The device's own limit, else the environment's."""
    text = os.environ.get(VARIABLE, "").strip()
    source = f"{device.name}: time_limit" if device.time_limit is not None or not text else VARIABLE
    limit = device.time_limit if device.time_limit is not None or not text else text
    if limit is None:
        return None
    try:
        seconds = float(limit)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"{source} is {limit!r}, expected seconds, more than 0; leave it out for no limit")
    return seconds


class _Stopped(SystemExit):
    """Ends a worker's thread; what catches Exception does not catch it, and threading does not report it."""


class _Worker:
    """A thread that runs functions one after the other. It does not keep the process from ending."""

    def __init__(self) -> None:
        self.stopped = False
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="executorch_ggml device", daemon=True)
        self._thread.start()

    def run(self, function: Callable[..., T], args: tuple[Any, ...], limit: float) -> T:
        future: Future[T] = Future()
        self._calls.put((future, function, args))
        try:
            return future.result(limit)
        except TimeoutError:
            if future.done():  # the function's own
                raise
            error = TimeLimitError(f"it took longer than {limit:g} s, its time limit; it was at:\n{self._stack()}")
            self._stop()
            raise error from None
        except KeyboardInterrupt:
            self._stop()
            raise

    def _serve(self) -> None:
        while not self.stopped:
            future, function, args = self._calls.get()
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)
            del future, function, args  # arrays of ggml's memory among them

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)[-4:]) if frame is not None else ""

    def _stop(self) -> None:
        """End what runs at its next bytecode. A call into C that waits or loops goes on."""
        self.stopped = True
        ident = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_Stopped))
