"""ggml as a Python program calls it, by ctypes: graphs of one or a few nodes, run on any of its devices."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

F32, F16, Q4_0, Q8_0, Q4_K, I8, I16, I32, I64, BF16 = 0, 1, 2, 8, 12, 24, 25, 26, 27, 30
_NUMPY = {F32: np.float32, F16: np.float16, I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64}
_WEIGHTS = 1


class _Params(ctypes.Structure):
    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    import libggml

    folder = Path(libggml.__file__).parent / "lib"
    return ctypes.CDLL(str(folder / "libggml-base.so.0")), ctypes.CDLL(str(folder / "libggml.so.0"))


def call(name: str, *args: Any, result: Any = ctypes.c_void_p) -> Any:
    """A function of ggml's; floats are C's floats, integers of any width."""
    function = next(getattr(library, name) for library in _libraries() if hasattr(library, name))
    function.restype = result
    given = [
        ctypes.c_float(arg) if isinstance(arg, float) else ctypes.c_int64(arg) if isinstance(arg, (bool, int)) else arg
        for arg in (arg.pointer if isinstance(arg, Tensor) else arg for arg in args)
    ]
    return function(*given)


class Tensor:
    """A tensor, and the functions that make others of it."""

    def __init__(self, graph: Graph, pointer: int) -> None:
        self.graph = graph
        self.pointer = ctypes.c_void_p(pointer)

    @property
    def type(self) -> int:
        """ggml's number of its type."""
        return ctypes.c_int.from_address(self.pointer.value or 0).value

    @property
    def ne(self) -> list[int]:
        """Its dims."""
        return list((ctypes.c_int64 * 4).from_address((self.pointer.value or 0) + 16))

    def read(self, dtype: Any = None) -> np.ndarray[Any, Any]:
        """Its data, outermost dim first."""
        data = np.empty(tuple(reversed(self.ne)), dtype or _NUMPY[self.type])
        call("ggml_backend_tensor_get", self, ctypes.c_void_p(data.ctypes.data), 0, data.nbytes, result=None)
        return data

    def write(self, data: np.ndarray[Any, Any]) -> None:
        """Set its data."""
        data = np.ascontiguousarray(data)
        call("ggml_backend_tensor_set", self, ctypes.c_void_p(data.ctypes.data), 0, data.nbytes, result=None)


class Graph:
    """A graph for one device. Its leaves get data when it is run."""

    def __init__(self, backend: int) -> None:
        self.backend = ctypes.c_void_p(backend)
        self._buffers: list[int] = []
        self._contexts = [
            ctypes.c_void_p(call("ggml_init", _Params(1 << 23, None, True))) for _ in range(2)
        ]  # weights, and all else
        self.leaves: list[tuple[Tensor, np.ndarray[Any, Any]]] = []
        self._random = np.random.default_rng(0)

    def leaf(self, type: int, *ne: int, data: Any = None, weight: bool = False) -> Tensor:
        """A tensor with data: some numbers between -1 and 1, unless others are given."""
        sizes = (*ne, 1, 1, 1)[:4]
        pointer = call("ggml_new_tensor_4d", self._contexts[0 if weight else 1], type, *sizes)
        tensor = Tensor(self, pointer)
        values = self._random.uniform(-1, 1, tuple(reversed(sizes))) if data is None else np.asarray(data)
        self.leaves.append((tensor, _encoded(values.reshape(tuple(reversed(sizes))), type)))
        return tensor

    def op(self, name: str, *args: Any) -> Tensor:
        """A node: ``ggml_<name>(ctx, ...)``."""
        return Tensor(self, call(f"ggml_{name}", self._contexts[1], *args))

    def run(self, outputs: Sequence[Tensor]) -> list[np.ndarray[Any, Any]]:
        """Compute on the device, and read the outputs."""
        graph = ctypes.c_void_p(call("ggml_new_graph", self.context))
        for output in outputs:
            call("ggml_build_forward_expand", graph, output, result=None)
        self.compute(graph)
        return [output.read(np.uint16 if output.type == BF16 else None) for output in outputs]

    @property
    def context(self) -> ctypes.c_void_p:
        """ggml's context of all but the weights."""
        return self._contexts[1]

    def compute(self, graph: ctypes.c_void_p) -> None:
        """Give the leaves their data, and compute a graph of ggml's."""
        self.place()
        status = call("ggml_backend_graph_compute", self.backend, graph, result=ctypes.c_int)
        assert status == 0

    def place(self) -> None:
        """Give the tensors memory, and the leaves their data."""
        self._buffers = [call("ggml_backend_alloc_ctx_tensors", ctx, self.backend) for ctx in self._contexts]
        if self._buffers[0]:
            call("ggml_backend_buffer_set_usage", ctypes.c_void_p(self._buffers[0]), _WEIGHTS, result=None)
        for tensor, data in self.leaves:
            tensor.write(data)

    def supported(self, tensor: Tensor) -> bool:
        """Whether the device takes the node."""
        return bool(call("ggml_backend_supports_op", self.backend, tensor, result=ctypes.c_bool))

    def close(self) -> None:
        """Free its tensors and their memory, which a device may look at as long as it is asked about a node."""
        for buffer in filter(None, self._buffers):
            call("ggml_backend_buffer_free", ctypes.c_void_p(buffer), result=None)
        for context in self._contexts:
            call("ggml_free", context, result=None)


def _encoded(values: np.ndarray[Any, Any], type: int) -> np.ndarray[Any, Any]:
    if type in _NUMPY:
        return values.astype(_NUMPY[type])
    if type == BF16:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    rows = np.ascontiguousarray(values, np.float32)
    size = call("ggml_row_size", type, rows.shape[-1], result=ctypes.c_size_t) * (rows.size // rows.shape[-1])
    made = np.empty(size, np.uint8)
    source, into = (ctypes.c_void_p(array.ctypes.data) for array in (rows, made))
    count, width = rows.size // rows.shape[-1], rows.shape[-1]
    importance = np.ones(width, np.float32)  # which some types need
    weights = ctypes.c_void_p(importance.ctypes.data)
    call("ggml_quantize_chunk", type, source, into, 0, count, width, weights, result=ctypes.c_size_t)
    return made


def element_size(type: int) -> int:
    """Bytes."""
    return 2 if type == BF16 else np.dtype(_NUMPY[type]).itemsize


def data_address(tensor: int) -> int:
    """Where a tensor's data is: after type, buffer, ne, nb, op, params, flags, src, view_src and its offset."""
    offset = 8 + 8 + 32 + 32 + 4 + 64 + 4 + 80 + 8 + 8
    return int(ctypes.c_uint64.from_address(tensor + offset).value)


def backend(name: str) -> int:
    """A device, opened."""
    return int(call("ggml_backend_init_by_name", name.encode(), None))


Build = Callable[[Graph], "Tensor | Sequence[Tensor]"]


def compute(build: Build, backend: int) -> tuple[list[np.ndarray[Any, Any]], bool]:
    """The outputs on a device, and whether it takes the last one's node itself."""
    graph = Graph(backend)
    built = build(graph)
    outputs = [built] if isinstance(built, Tensor) else list(built)
    made = graph.run(outputs)
    supported = graph.supported(outputs[-1])
    graph.close()
    return made, supported
