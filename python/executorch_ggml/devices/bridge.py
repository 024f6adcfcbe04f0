"""Python's half of ``libggml-pydevice``: what the library calls, when ggml calls it.

Nothing raised here reaches ggml: it is logged by ggml's own log, and told by a return value. After Ctrl-C the library
lets Python handle the signal again, when ggml has returned.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import struct
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..frontends.ggml import (
    NODE,
    WORDS,
    CustomNodes,
    Effect,
    Names,
    Scattered,
    Tensor,
    Translation,
    Translator,
    UnsupportedError,
    as_array,
    read,
)
from ..ir.arrays import numpy_dtype
from ..ir.dtypes import DType
from ..ir.graph import IRError
from ..passes import FOR_DEVICES, run_passes
from .calls import Calls, TimeLimitError
from .device import DeclinedError, GgmlDevice, get, registered

if TYPE_CHECKING:
    from ..ir.graph import Graph
    from .device import Plan

VARIABLE = "EXECUTORCH_GGML_DEVICES"
_VERSION = 2
_INTERRUPTED = -1
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


_calls: dict[GgmlDevice, Calls] = {}  # a device may be of several ggmls


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
        if device not in _calls:
            _calls[device] = Calls(device)
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

    def _guarded(self, device: int, what: str, then: str, function: Callable[[], int]) -> int:
        """What a function returns; where it fails 0, and the log says so, or _INTERRUPTED."""
        try:
            return function()
        except KeyboardInterrupt:
            return _INTERRUPTED
        except DeclinedError:
            return 0
        except TimeLimitError as error:
            self._log_once(device, f"{what} failed, {then}, and the device is called no more", str(error))
        except BaseException:  # sys.exit() too: a device does not end the process that it computes for
            self._log_once(device, f"{what} failed, {then}", traceback.format_exc())
        return 0

    def _log_once(self, device: int, what: str, failure: str) -> None:
        """The same failure of other nodes is not logged again."""
        if failure not in self._warned:
            self._warned.add(failure)
            self.log(_ERROR, f"{self._devices[device].name}: {what}:\n{failure}\n")

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
        tensors = self._tensors(words, count)
        label = self._custom.label(tensors[-1])

        def supported() -> int:
            try:
                nodes = Translator(tensors, self._names, self._custom).translate().graph.nodes
            except (UnsupportedError, IRError):
                return 0
            supports = self._devices[device].supports
            return int(_calls[self._devices[device]](lambda: all(supports(node) for node in nodes)))

        return self._guarded(device, f"supports() of node {label}", "the CPU gets the node", supported)

    def _plan(self, device: int, words: Any, count: int, addresses: Any, needed: Any, needed_count: Any) -> int:
        tensors = self._tensors(words, count)
        labels = [self._custom.label(tensor) for tensor in tensors]
        needed_count[0] = 0

        def planned() -> int:
            where = np.ctypeslib.as_array(addresses, (len(tensors),)).tolist()
            calls = _calls[self._devices[device]]
            copies = calls.limit is not None  # a call that is given up may go on reading what is freed
            translation = Translator(tensors, self._names, self._custom, where, copies=copies).translate()
            runner = Runner(self._devices[device], calls, tensors, labels, translation)
            np.ctypeslib.as_array(needed, (len(tensors),))[: len(runner.needed)] = runner.needed
            needed_count[0] = len(runner.needed)
            number = next(self._numbers)
            self._plans[number] = (device, runner)
            return number

        what = f"plan() of {_nodes_of(tensors, labels)}"
        return self._guarded(device, what, "the CPU computes the graph", planned)

    def _run(self, plan: int, addresses: Any) -> int:
        device, runner = self._plans[plan]

        def ran() -> int:
            runner.run(addresses)
            return 1

        return self._guarded(device, f"the plan of {runner.nodes}", "the CPU computes the graph", ran)

    def _forget(self, plan: int) -> None:
        self._plans.pop(plan, None)

    def _memory(self, device: int, free: Any, total: Any) -> None:
        def asked() -> int:
            free[0], total[0] = self._devices[device].memory()
            return 1

        self._guarded(device, "memory()", "0 bytes are told", asked)


def _fused(graph: Graph, device: GgmlDevice) -> Graph:
    """The graph after the passes, if the device computes all nodes of that too."""
    fused = run_passes(graph, FOR_DEVICES)
    return fused if all(map(device.supports, fused.nodes)) else graph


def _nodes_of(tensors: Sequence[Tensor], labels: Sequence[str]) -> str:
    """A graph's nodes in a message."""
    nodes = [labels[tensor.index] for tensor in tensors if tensor.role == NODE]
    return f"{len(nodes)} nodes, {nodes[0]} to {nodes[-1]}," if len(nodes) > 1 else f"node {''.join(nodes)}"


class Runner:
    """A device's plan, run on memory: where that is the same as the last time, no array is made anew."""

    def __init__(
        self,
        device: GgmlDevice,
        calls: Calls,
        tensors: Sequence[Tensor],
        labels: Sequence[str],
        translation: Translation,
    ) -> None:
        graph = translation.graph
        self.nodes = _nodes_of(tensors, labels)
        self.needed = [*translation.inputs, *(effect.tensor for effect in translation.effects)]
        self._calls = calls
        self._inputs = [
            _Place(port.value.dtype, port.shape, _strides(tensors[index]))
            for port, index in zip(graph.inputs, translation.inputs, strict=True)
        ]
        self._copied = [
            number
            for number, index in enumerate(translation.inputs)
            if calls.limit is not None or not tensors[index].is_dense
        ]
        self._effects = translation.effects
        self._places = [_Place.of(tensors[effect.tensor], graph, effect) for effect in translation.effects]
        self._expected = [(port.shape, numpy_dtype(port.value.dtype)) for port in graph.outputs]
        written = {effect.at.output: effect.tensor for effect in translation.effects if effect.at is not None}
        written |= {effect.output: effect.tensor for effect in translation.effects}
        self._labels = [labels[written[number]] for number in range(len(graph.outputs))]
        self._compute = self._planned(device, graph)

    def _planned(self, device: GgmlDevice, graph: Graph) -> Plan:
        if not graph.outputs:
            return lambda inputs: ()
        plan = self._calls(lambda: device.plan(_fused(graph, device)))
        if not callable(plan):
            raise TypeError(f"plan() returned {_kind(plan)}, expected a function of a list of arrays")
        return plan

    def run(self, addresses: Any) -> None:
        """Compute, check what was made, and only then write: where this fails, the CPU computes on the same data."""
        given = addresses[: len(self.needed)]
        count = len(self._inputs)
        inputs = [place.at(address) for place, address in zip(self._inputs, given, strict=False)]
        for number in self._copied:
            inputs[number] = inputs[number].copy()
            inputs[number].flags.writeable = False
        places = [place.at(address) for place, address in zip(self._places, given[count:], strict=True)]
        outputs = self._checked(self._calls(self._compute, inputs))
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

    def _checked(self, outputs: Any) -> Sequence[np.ndarray[Any, Any]]:
        expected = f"expected {len(self._expected)} numpy arrays in a list, one for each of the graph's outputs"
        if not isinstance(outputs, (list, tuple)):
            raise TypeError(f"the plan returned {_kind(outputs)}, {expected}")
        if len(outputs) != len(self._expected):
            raise ValueError(f"the plan returned {len(outputs)} outputs, {expected}")
        for number, (output, (shape, dtype)) in enumerate(zip(outputs, self._expected, strict=True)):
            if not isinstance(output, np.ndarray) or output.shape != shape or output.dtype != dtype:
                raise ValueError(
                    f"output {number}, the result of node {self._labels[number]}, is {_kind(output)}, "
                    f"expected an array {dtype}{list(shape)}, as graph.outputs[{number}] says"
                )
        return outputs


def _kind(value: Any) -> str:
    """What a device returned, in a message."""
    return (
        f"an array {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    )


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

    def __init__(
        self, dtype: DType, shape: Sequence[int], strides: Sequence[int] | None = None, *, writable: bool = False
    ) -> None:
        self._dtype, self._shape, self._strides = dtype, tuple(shape), strides
        self._writable = writable
        self._address = 0
        self._array: np.ndarray[Any, Any] | None = None

    @staticmethod
    def of(tensor: Tensor, graph: Graph, effect: Effect) -> _Place:
        dtype = graph.outputs[effect.output].value.dtype
        return _Place(dtype, tuple(reversed(tensor.ne)), _strides(tensor), writable=True)

    def at(self, address: int) -> np.ndarray[Any, Any]:
        if self._array is None or address != self._address:
            self._array = as_array(address, self._dtype, self._shape, self._strides, writable=self._writable)
            self._address = address
        return self._array


__all__ = ["VARIABLE", "WORDS", "attach"]
