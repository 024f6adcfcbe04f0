"""The entry point, contexts, and their builders and graphs: which backend runs graphs, and running them."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from . import files
from .arrays import array_of
from .builder import GraphBuilder, described_operand
from .data_types import numpy_type
from .errors import BackendUnavailable, InvalidStateError
from .graph_info import Array, GraphInfo, Operand
from .limits import op_support_limits
from .operand import MLOperand
from .operators.spec import described, fault
from .registry import Executor, Program, find, names
from .tensor import MLTensor

DeviceType = Literal["auto", "cpu", "gpu", "npu"]
PowerPreference = Literal["default", "high-performance", "low-power"]


class ML:
    """Where it all begins."""

    def create_context(
        self,
        device_type: DeviceType = "cpu",
        power_preference: PowerPreference = "default",
        accelerated: bool | None = None,
        backend: str | None = None,
    ) -> MLContext:
        """A context, on the first backend that can be had.

        ``accelerated`` False asks for the CPU, True for a GPU or NPU if there is one; None leaves it to
        ``device_type``. These are wishes: ``context.backend`` and ``context.accelerated`` say what was taken. With
        ``backend`` (one of ``registry.names("executor")``) it is that one or :class:`BackendUnavailable`.
        """
        _one_of("device_type", device_type, ("auto", "cpu", "gpu", "npu"))
        _one_of("power_preference", power_preference, ("default", "high-performance", "low-power"))
        if accelerated is None:
            accelerated = device_type != "cpu"
        elif not isinstance(accelerated, bool):
            raise TypeError(fault("create_context", "accelerated", described(accelerated), "True, False or None"))
        if backend is not None and not isinstance(backend, str):
            raise TypeError(fault("create_context", "backend", described(backend), "a backend's name"))
        wanted = [backend] if backend is not None and backend != "auto" else names("executor")
        reasons: dict[str, str] = {}
        for on_accelerator in (True, False) if accelerated else (False,):
            for name in wanted:
                try:
                    executor = find("executor", name)
                    reason = executor.unavailable(on_accelerator)
                except BackendUnavailable as error:
                    reason = str(error)
                if reason is None:
                    made = executor(accelerated=on_accelerator, power_preference=power_preference)
                    return MLContext(name, made, accelerated=on_accelerator, power_preference=power_preference)
                reasons[name] = reason
        raise BackendUnavailable("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))


def _one_of(argument: str, value: Any, words: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in words:
        raise TypeError(fault("create_context", argument, described(value), f"one of {', '.join(words)}"))


class MLContext:
    """A backend, with the graphs and tensors that it has."""

    def __init__(self, backend: str, executor: Executor, *, accelerated: bool, power_preference: str) -> None:
        self._backend = backend
        self._executor: Executor | None = executor
        self._accelerated = accelerated
        self._power_preference = power_preference

    @property
    def backend(self) -> str:
        """Name of the backend that was taken."""
        return self._backend

    @property
    def accelerated(self) -> bool:
        """Whether it runs on a GPU or NPU."""
        return self._accelerated

    @property
    def power_preference(self) -> str:
        """The preference that it was made with."""
        return self._power_preference

    def destroy(self) -> None:
        """End it: its graphs and tensors can be used no more."""
        self._executor = None

    def _check_not_lost(self) -> Executor:
        if self._executor is None:
            raise InvalidStateError("this context is destroyed")
        return self._executor

    def op_support_limits(self) -> dict[str, Any]:
        """What the backend takes: data types and ranks of every operator's operands, as the specification has it."""
        return op_support_limits(self._check_not_lost())

    # ------------------------------------------------------------------------------------------------- graphs

    def create_graph_builder(self) -> MLGraphBuilder:
        """A builder of one graph."""
        self._check_not_lost()
        return MLGraphBuilder(self)

    def prepare(self, graph: GraphInfo) -> MLGraph:
        """Make a graph ready to run: what :meth:`MLGraphBuilder.build` does with its own."""
        if not isinstance(graph, GraphInfo):
            raise TypeError(fault("prepare", "graph", described(graph), "a GraphInfo"))
        return MLGraph(self, graph, self._check_not_lost().prepare(graph))

    def load(self, path: str | os.PathLike[str]) -> MLGraph:
        """A graph from a ``.webnn`` file. Raises GraphFileError for one that is damaged."""
        return self.prepare(files.load(path))

    def convert(self, graph: MLGraph | GraphInfo, name: str) -> Any:
        """The graph in another form, such as "onnx" or "torch"; see ``registry.names("converter")``."""
        return find("converter", name)(graph.info if isinstance(graph, MLGraph) else graph)

    def compute(
        self, graph: MLGraph, inputs: Mapping[str, Any], outputs: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Run a graph on arrays. Results are new arrays, or written to those of ``outputs``."""
        program = self._program_of("compute", graph)
        expected = graph._inputs
        if not isinstance(inputs, Mapping):
            raise TypeError(fault("compute", "inputs", described(inputs), "arrays by name"))
        if len(inputs) != len(expected) or not all(name in inputs for name in expected):
            raise TypeError(fault("compute", "inputs", described(list(inputs)), described(sorted(expected))))
        if outputs is not None and not isinstance(outputs, Mapping):
            raise TypeError(fault("compute", "outputs", described(outputs), "arrays by name"))
        arrays = []
        for name, (info, dtype) in expected.items():
            value = inputs[name]
            if not (
                type(value) is np.ndarray
                and value.dtype == dtype
                and value.shape == info.shape
                and value.flags.c_contiguous
                and not graph._four_bits
            ):
                value = array_of("compute", f"input {name!r}", value, info)
            arrays.append(value)
        results = dict(zip(graph.info.outputs, program(arrays), strict=True))
        if outputs is None:
            return results
        for name, target in outputs.items():
            if name not in results:
                raise TypeError(fault("compute", "outputs", described(name), f"one of {sorted(results)}"))
            _check_target("compute", f"output {name!r}", target, results[name])
        for name, target in outputs.items():
            target[...] = results[name]
        return results | dict(outputs)

    # ------------------------------------------------------------------------------------------------ tensors

    def create_tensor(
        self, shape: Sequence[int], data_type: str = "float32", readable: bool = False, writable: bool = False
    ) -> MLTensor:
        """A tensor of zeros. As in the specification it is for :meth:`dispatch` alone, unless asked for more."""
        self._check_not_lost()
        for argument, value in (("readable", readable), ("writable", writable)):
            if not isinstance(value, bool):
                raise TypeError(fault("create_tensor", argument, described(value), "True or False"))
        info = described_operand("create_tensor", shape, data_type)
        return MLTensor(self, info, readable=readable, writable=writable)

    def create_constant_tensor(
        self, value: Any, shape: Sequence[int] | None = None, data_type: str | None = None
    ) -> MLTensor:
        """A tensor for :meth:`MLGraphBuilder.constant`, with what ``value`` holds now."""
        self._check_not_lost()
        array = value if hasattr(value, "dtype") else None
        info = described_operand(
            "create_constant_tensor",
            shape if shape is not None or array is None else array.shape,
            data_type if data_type is not None or array is None else array.dtype.name,
        )
        contents = array_of("create_constant_tensor", "value", value, info, copy=True)
        return MLTensor(self, info, readable=False, writable=False, constant=contents)

    def write_tensor(self, tensor: MLTensor, data: Any) -> None:
        """Copy an array, or bytes, into a tensor."""
        self._check_not_lost()
        contents = self._contents_of("write_tensor", tensor)
        if not tensor.writable:
            raise TypeError("write_tensor: tensor is not writable; make it with create_tensor(..., writable=True)")
        contents[...] = array_of("write_tensor", "data", data, tensor._info)

    def read_tensor(self, tensor: MLTensor, output: Array | None = None) -> Array:
        """A tensor's contents, as a new array or in ``output``."""
        self._check_not_lost()
        contents = self._contents_of("read_tensor", tensor)
        if not tensor.readable:
            raise TypeError("read_tensor: tensor is not readable; make it with create_tensor(..., readable=True)")
        if output is None:
            return contents.copy()
        _check_target("read_tensor", "output", output, contents)
        output[...] = contents
        return output

    def dispatch(self, graph: MLGraph, inputs: Mapping[str, MLTensor], outputs: Mapping[str, MLTensor]) -> None:
        """Run a graph on tensors."""
        program = self._program_of("dispatch", graph)
        info = graph.info
        for argument, named in (("inputs", inputs), ("outputs", outputs)):
            if not isinstance(named, Mapping):
                raise TypeError(fault("dispatch", argument, described(named), "tensors by name"))
        tensors = [*inputs.values(), *outputs.values()]
        if len({id(tensor) for tensor in tensors}) != len(tensors):
            raise TypeError("dispatch: a tensor is given twice")
        arrays = self._matching("inputs", inputs, info.input_operands())
        targets = self._matching("outputs", outputs, info.output_operands())
        for target, result in zip(targets, program(arrays), strict=True):
            target[...] = result

    def _program_of(self, caller: str, graph: Any) -> Program:
        if not isinstance(graph, MLGraph):
            raise TypeError(fault(caller, "graph", described(graph), "an MLGraph, as build() makes it"))
        return graph._program_for(self)

    def _contents_of(self, caller: str, tensor: Any) -> Array:
        if not isinstance(tensor, MLTensor):
            raise TypeError(fault(caller, "tensor", described(tensor), "an MLTensor, as create_tensor() makes it"))
        return tensor._contents(self, caller)

    def _matching(self, argument: str, tensors: Mapping[str, MLTensor], expected: Mapping[str, Operand]) -> list[Array]:
        if set(tensors) != set(expected):
            raise TypeError(fault("dispatch", argument, described(list(tensors)), described(sorted(expected))))
        contents = []
        for name, info in expected.items():
            tensor = tensors[name]
            if not isinstance(tensor, MLTensor) or tensor.constant or tensor._info != info:
                raise TypeError(
                    fault("dispatch", f"{argument[:-1]} {name!r}", described(tensor), f"an MLTensor of {info}")
                )
            contents.append(tensor._contents(self, "dispatch"))
        return contents


def _check_target(caller: str, argument: str, target: Any, result: Array) -> None:
    """Whether a result can be written to what the caller gives."""
    wanted = f"a writable array {result.dtype.name}{list(result.shape)}"
    if not isinstance(target, np.ndarray):
        raise TypeError(fault(caller, argument, described(target), wanted))
    if target.dtype != result.dtype or target.shape != result.shape or not target.flags.writeable:
        given = f"{'' if target.flags.writeable else 'read-only '}{target.dtype.name}{list(target.shape)}"
        raise TypeError(fault(caller, argument, given, wanted))


class MLGraphBuilder(GraphBuilder):
    """Makes a graph of a context: operands by calling operators on operands, and at the end :meth:`build`."""

    _context: MLContext

    def __init__(self, context: MLContext) -> None:
        super().__init__(context)

    def build(self, outputs: Mapping[str, MLOperand]) -> MLGraph:
        """The graph that computes ``outputs``, made ready for the context's backend.

        Raises :class:`OperationError` where the backend lacks something, with all that it lacks.
        """
        with _collector_off():
            info = self.graph_info(outputs)
            self._built = True
            return self._context.prepare(info)

    def _check_open(self) -> None:
        super()._check_open()
        self._context._check_not_lost()


@contextmanager
def _collector_off() -> Iterator[None]:
    """Many objects are made and no cycles: looking for some among all that there are would take as long again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class MLGraph:
    """A graph that its context's backend can run."""

    def __init__(self, context: MLContext, info: GraphInfo, program: Program) -> None:
        self._context = context
        self._info = info
        self._program: Program | None = program
        operands = info.input_operands()
        self._inputs = {name: (operand, numpy_type(operand.data_type)) for name, operand in operands.items()}
        self._four_bits = any(operand.data_type in ("int4", "uint4") for operand in operands.values())

    @property
    def info(self) -> GraphInfo:
        """The graph as plain data."""
        return self._info

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return list(self._info.inputs)

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return list(self._info.outputs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.webnn`` file, and one with its constants beside it; :meth:`MLContext.load` reads them."""
        files.save(self._info, path)

    def destroy(self) -> None:
        """Let go of what it holds."""
        self._program = None

    def _program_for(self, context: MLContext) -> Program:
        context._check_not_lost()
        if self._context is not context:
            raise TypeError("graph is of another context")
        if self._program is None:
            raise InvalidStateError("graph is destroyed")
        return self._program
