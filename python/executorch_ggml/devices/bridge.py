"""Python's half of ``libggml-pydevice``: what the library calls, when ggml calls it.

Nothing raised here reaches ggml: it is logged by ggml's own log, and told by a return value.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import math
import os
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.dtypes import DType
from ..ir.graph import IRError
from . import ops  # noqa: F401 - declares the translations
from .arrays import numpy_dtype
from .custom import CustomNodes
from .device import DeclinedError, GgmlDevice, get, registered
from .memory import as_array
from .translate import Effect, Names, Scattered, Translation, Translator
from .words import WORDS, Tensor, UnsupportedError, read

VARIABLE = "EXECUTORCH_GGML_DEVICES"
_VERSION = 1
_ERROR, _WARN = 4, 3
_Words = ctypes.POINTER(ctypes.c_int64)
_Addresses = ctypes.POINTER(ctypes.c_uint64)

_Supports = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, _Words, ctypes.c_int64)
_Plan = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, _Words, ctypes.c_int64, _Addresses, _Words, _Words)
_Run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, _Addresses)
_Forget = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_Memory = ctypes.CFUNCTYPE(None, ctypes.c_int64, _Addresses, _Addresses)


class _Callbacks(ctypes.Structure):
    _fields_ = (("supports", _Supports), ("plan", _Plan), ("run", _Run), ("forget", _Forget), ("memory", _Memory))


class _Services(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int64),
        ("host", ctypes.c_void_p),
        ("callbacks", ctypes.POINTER(_Callbacks)),
        ("log", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)),
        ("add_device", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)),
        ("op_name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)),
        ("unary_name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)),
        ("glu_name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)),
        ("program", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, _Addresses)),
        ("exprs", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, _Addresses)),
    )


_attached: list[_Host] = []


def attach(address: int) -> None:
    """Serve the library's registration whose services are at this address."""
    services = _Services.from_address(address)
    if services.version != _VERSION:
        raise RuntimeError(f"libggml-pydevice has version {services.version}, not {_VERSION}; install both anew")
    host = _Host(services)
    host.open()
    _attached.append(host)
    offer()


def offer() -> None:
    """Give the devices that there are by now to each ggml that does not have them yet.

    They are those that are registered and those that the environment names, or the one that needs nothing more.
    """
    for name in os.environ.get(VARIABLE, "").split(","):
        if name.strip():
            get(name.strip())
    devices = registered() or [get("torch")]
    for host in _attached:
        for device in devices:
            host.add(device)


def _named(function: Callable[[int], bytes]) -> Callable[[int], str]:
    @functools.cache
    def name(number: int) -> str:
        return function(number).decode()

    return name


_locks: dict[GgmlDevice, threading.Lock] = {}  # a device may be of several ggmls


def _lock_of(device: GgmlDevice) -> threading.Lock:
    return _locks.setdefault(device, threading.Lock())


class _Host:
    """One ggml, and the devices that it is given."""

    def __init__(self, services: _Services) -> None:
        self._services = services
        self._names = Names(_named(services.op_name), _named(services.unary_name), _named(services.glu_name))
        self._custom = CustomNodes(self._program, self._exprs)
        self._devices: list[GgmlDevice] = []
        self._plans: dict[int, tuple[int, Runner]] = {}
        self._numbers = itertools.count(1)
        self._warned: set[str] = set()
        self._kept = (
            _Supports(self._supports),
            _Plan(self._plan),
            _Run(self._run),
            _Forget(self._forget),
            _Memory(self._memory),
        )

    def add(self, device: GgmlDevice) -> None:
        if device in self._devices:
            return
        self._devices.append(device)
        self._services.add_device(self._services.host, device.name.encode(), device.description.encode())

    def open(self) -> None:
        callbacks = self._services.callbacks.contents
        callbacks.supports, callbacks.plan, callbacks.run, callbacks.forget, callbacks.memory = self._kept
        atexit.register(self.close)

    def close(self) -> None:
        """From now on nothing is called."""
        ctypes.memset(self._services.callbacks, 0, ctypes.sizeof(_Callbacks))

    def log(self, level: int, text: str) -> None:
        self._services.log(self._services.host, level, text.encode())

    def _failed(self, device: int, what: str) -> None:
        """Log an exception, in full the first time."""
        if isinstance(sys.exception(), DeclinedError):
            return
        text = traceback.format_exc()
        if text not in self._warned:
            self._warned.add(text)
            self.log(_ERROR, f"{self._devices[device].name}: {what}:\n{text}")

    def _program(self, number: int) -> bytes | None:
        size = ctypes.c_uint64()
        address = self._services.program(number, size)
        return ctypes.string_at(address, size.value) if address else None

    def _exprs(self, program: int, number: int) -> list[int]:
        count = ctypes.c_uint64()
        address = self._services.exprs(program, number, count)
        return list(struct.unpack(f"<{count.value}q", ctypes.string_at(address, 8 * count.value))) if address else []

    def _tensors(self, words: Any, count: int) -> list[Tensor]:
        return read(np.ctypeslib.as_array(words, (count,)), self._names.op)

    # ------------------------------------------------------------------------------------------- callbacks

    def _supports(self, device: int, words: Any, count: int) -> int:
        try:
            graph = Translator(self._tensors(words, count), self._names, self._custom).translate().graph
        except (UnsupportedError, IRError):
            return 0
        except Exception:
            self._failed(device, "a node cannot be translated, the CPU gets it")
            return 0
        try:
            with _lock_of(self._devices[device]):
                return int(all(self._devices[device].supports(node) for node in graph.nodes))
        except Exception:
            self._failed(device, "supports() failed, the CPU gets the node")
            return 0

    def _plan(self, device: int, words: Any, count: int, addresses: Any, needed: Any, needed_count: Any) -> int:
        try:
            tensors = self._tensors(words, count)
            where = np.ctypeslib.as_array(addresses, (len(tensors),)).tolist()
            translation = Translator(tensors, self._names, self._custom, where).translate()
            with _lock_of(self._devices[device]):
                runner = Runner(self._devices[device], tensors, translation)
        except Exception:
            self._failed(device, "plan() failed, the CPU computes the graph")
            needed_count[0] = 0
            return 0
        np.ctypeslib.as_array(needed, (len(tensors),))[: len(runner.needed)] = runner.needed
        needed_count[0] = len(runner.needed)
        number = next(self._numbers)
        self._plans[number] = (device, runner)
        return number

    def _run(self, plan: int, addresses: Any) -> int:
        device, runner = self._plans[plan]
        try:
            with _lock_of(self._devices[device]):
                runner.run(addresses)
        except Exception:
            self._failed(device, "a plan's run failed, the CPU computes the graph")
            return 0
        return 1

    def _forget(self, plan: int) -> None:
        self._plans.pop(plan, None)

    def _memory(self, device: int, free: Any, total: Any) -> None:
        try:
            free[0], total[0] = self._devices[device].memory()
        except Exception:
            self._failed(device, "memory() failed")


class Runner:
    """A device's plan, run on memory: where that is the same as the last time, no array is made anew."""

    def __init__(self, device: GgmlDevice, tensors: Sequence[Tensor], translation: Translation) -> None:
        graph = translation.graph
        self.needed = [*translation.inputs, *(effect.tensor for effect in translation.effects)]
        self._inputs = [
            _Place(port.value.dtype, port.shape, _strides(tensors[index]))
            for port, index in zip(graph.inputs, translation.inputs, strict=True)
        ]
        self._sparse = [number for number, index in enumerate(translation.inputs) if not tensors[index].is_dense]
        self._effects = translation.effects
        self._places = [_Place.of(tensors[effect.tensor], graph, effect) for effect in translation.effects]
        self._expected = [(port.shape, numpy_dtype(port.value.dtype)) for port in graph.outputs]
        self._compute = device.plan(graph) if graph.outputs else lambda inputs: ()

    def run(self, addresses: Any) -> None:
        """Compute, check what was made, and only then write: where this fails, the CPU computes on the same data."""
        given = addresses[: len(self.needed)]
        count = len(self._inputs)
        inputs = [place.at(address) for place, address in zip(self._inputs, given, strict=False)]
        for number in self._sparse:
            inputs[number] = np.ascontiguousarray(inputs[number])
        places = [place.at(address) for place, address in zip(self._places, given[count:], strict=True)]
        outputs = self._checked(self._compute(inputs))
        if any(np.may_share_memory(output, array) for output in outputs for array in inputs):
            outputs = [output.copy() for output in outputs]  # what is written first may be what another shows
        for effect, place in zip(self._effects, places, strict=True):
            if effect.at is not None:
                _check_places(place, outputs[effect.at.output], effect.at)
        for effect, place in zip(self._effects, places, strict=True):
            if effect.at is None:
                np.copyto(place, outputs[effect.output])
            else:
                _write_places(place, outputs[effect.at.output], outputs[effect.output], effect.at)

    def _checked(self, outputs: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        if len(outputs) != len(self._expected):
            raise ValueError(f"the plan gives {len(outputs)} outputs, expected {len(self._expected)}")
        made = []
        for number, (output, (shape, dtype)) in enumerate(zip(outputs, self._expected, strict=True)):
            if output.size != math.prod(shape) or output.dtype != dtype:
                raise ValueError(
                    f"output {number} is {output.dtype}{list(output.shape)}, expected {dtype}{list(shape)}"
                )
            made.append(output if output.shape == shape else output.reshape(shape))
        return made


def _strides(tensor: Tensor) -> tuple[int, ...]:
    return tuple(reversed(tensor.strides))


def _check_places(table: np.ndarray[Any, Any], index: np.ndarray[Any, Any], at: Scattered) -> None:
    size = table.shape[3 - at.axis]
    if index.size and (index.min() < (-size if at.wrap else 0) or index.max() >= size):
        raise IndexError(f"indices {index.min()} to {index.max()} of {size}")


def _write_places(
    table: np.ndarray[Any, Any], index: np.ndarray[Any, Any], values: np.ndarray[Any, Any], at: Scattered
) -> None:
    """Write values at places along an axis; of equal places the last stays."""
    dim = 3 - at.axis
    table = table[tuple(slice(None if d == dim else n) for d, n in enumerate(values.shape))]
    if index.size == index.shape[dim]:  # the same for all that lies beside it
        places: Any = (*[slice(None)] * dim, np.broadcast_to(index.reshape(-1), values.shape[dim]))
        table[places] = values
    else:
        np.put_along_axis(table, np.broadcast_to(index, values.shape), values, dim)


class _Place:
    """Where a tensor is: an array, kept while the address stays the same."""

    def __init__(self, dtype: DType, shape: Sequence[int], strides: Sequence[int] | None = None) -> None:
        self._dtype, self._shape, self._strides = dtype, tuple(shape), strides
        self._address = 0
        self._array: np.ndarray[Any, Any] | None = None

    @staticmethod
    def of(tensor: Tensor, graph: Any, effect: Effect) -> _Place:
        dtype = graph.outputs[effect.output].value.dtype
        return _Place(dtype, tuple(reversed(tensor.ne)), _strides(tensor))

    def at(self, address: int) -> np.ndarray[Any, Any]:
        if self._array is None or address != self._address:
            self._array, self._address = as_array(address, self._dtype, self._shape, self._strides), address
        return self._array


__all__ = ["VARIABLE", "WORDS", "attach"]
