"""Graphs compiled by an external compiler: as a device of ggml's, and by themselves."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ...ir.arrays import as_numpy, as_torch, numpy_dtype
from ...ir.dtypes import DType
from ...ir.serialize import serialize
from ...progress import stage
from ..device import GgmlDevice
from ..torch_device import TorchDevice
from . import compilers, formats, translations
from .cache import Cache
from .compilers import CompileError, Compiler, InputError
from .key import graph_key
from .log import log, set_up
from .module import GraphModule, boundary_dtype, example_inputs, fold, is_guarded, needed, unsupported

if TYPE_CHECKING:
    from ...ir.graph import Constant, Graph, Node
    from ..device import Plan
    from .compilers.compiler import Runner

    Array = np.ndarray[Any, Any]

SELF_CHECK = "EXECUTORCH_GGML_SELF_CHECK"
TOLERANCE = 1e-3  # of the largest magnitude: what a self-check lets pass


class CompiledDevice(GgmlDevice):
    """``compiled:<compiler>``. ``self_check`` compares each graph's first run with the CPU's, to that tolerance.

    ``plan`` and what it gives raise CompileError where the compiler fails: ggml's CPU then computes the graph.
    """

    def __init__(
        self, compiler: str | Compiler = "", *, cache: Cache | None = None, self_check: float | None = None
    ) -> None:
        set_up()
        self.compiler = compilers.get(compiler) if isinstance(compiler, str) else compiler
        self.name = f"compiled:{self.compiler.name}"
        self.description = f"graphs compiled by {self.compiler.name}"
        self._cache = cache
        self._tolerance = _tolerance(self.compiler) if self_check is None else self_check
        self._failed: dict[str, str] = {}  # by key, why
        self._lock = threading.Lock()

    def refusal(self, node: Node) -> str | None:
        """Why the device does not compute a node, or None."""
        return translations.refusal(node) or self._compiler_refusal(node)

    def _compiler_refusal(self, node: Node) -> str | None:
        return (None if self.compiler.int64 else translations.leaves_int32(node)) or self.compiler.refuses(node)

    def supports(self, node: Node) -> bool:
        """Whether the node is exported, and the compiler computes what is."""
        return self.refusal(node) is None

    def plan(self, graph: Graph) -> Plan:
        """The compiled graph, from the cache or made now. Exporters drop inputs that nothing reads, so it has none."""
        part, read = needed(graph)
        if len(read) < len(graph.inputs):
            plan = self.plan(part)
            return lambda inputs: plan([inputs[at] for at in read])
        key = self.key(graph)
        with self._lock:
            if key in self._failed:
                raise CompileError(self._failed[key])
            try:
                runner = self._runner(graph, key)
            except (CompileError, OSError) as error:
                raise self._fail(key, error) from error
        reject = functools.partial(self._reject, key)
        fail = functools.partial(self._fail, key)
        return _Checked(graph, runner, self._check_of(graph), reject, fail, self.compiler)

    def key(self, graph: Graph) -> str:
        """The graph's key, with this compiler."""
        reasons = self._reasons(graph)
        if reasons:
            error = CompileError("the graph cannot be compiled: " + "; ".join(dict.fromkeys(reasons)))
            raise self._fail(str(error), error)
        try:
            compiler = self.compiler
            start = time.perf_counter()
            key = graph_key(
                graph,
                compiler=compiler.name,
                version=compiler.version(),
                form=compiler.form,
                options=compiler.options(),
            )
        except CompileError as error:
            raise self._fail(str(error), error) from error
        log.debug("%s: key of %d nodes in %.3f s", key[:16], len(graph.nodes), time.perf_counter() - start)
        return key

    def _reasons(self, graph: Graph) -> list[str]:
        """Why a graph cannot be compiled."""
        if reasons := unsupported(graph):
            return reasons
        folded = fold(graph)
        left = [node for node in graph.nodes if node.output not in folded]
        reasons = [reason for node in left if (reason := self._compiler_refusal(node)) is not None]
        if not self.compiler.int64:
            read = {value for node in left for value in node.inputs} | {port.value for port in graph.outputs}
            if any(value in read and _is_wide(tensor) for value, tensor in folded.items()):
                reasons.append("a constant of int64 that int32 does not hold")
            if any(_is_wide_constant(constant) for constant in graph.constants if constant.value not in folded):
                reasons.append("a large constant of int64 that int32 does not hold")
        return reasons

    def _runner(self, graph: Graph, key: str) -> Runner:
        if self._cache is None:
            self._cache = Cache()
        with self._cache.locked(key):
            entry = self._cache.find(key)
            if entry is not None:
                log.info("%s: hit, %d nodes, %s", key[:16], len(graph.nodes), self.name)
                try:
                    return self._load(key, entry.folder)
                except CompileError as error:
                    log.warning("%s: does not load, compiling again: %s", key[:16], error)
                    self._cache.remove(key)
            else:
                log.info("%s: miss, %d nodes, %s", key[:16], len(graph.nodes), self.name)
            about = {"compiler": self.compiler.name, "version": self.compiler.version(), "nodes": len(graph.nodes)}
            entry = self._cache.make(key, about, functools.partial(self._compile, graph, key))
            try:
                return self._load(key, entry.folder)
            except CompileError:
                self._cache.remove(key)
                raise

    def _compile(self, graph: Graph, key: str, folder: Path, scratch: Path) -> None:
        path = scratch / f"model{self.compiler.form}"
        start = time.perf_counter()
        module = GraphModule(graph)
        formats.write(module, example_inputs(graph), len(graph.outputs) + module.guarded, path)
        exported = time.perf_counter()
        log.info("%s: exported in %.2f s, %d bytes", key[:16], exported - start, path.stat().st_size)
        with stage(f"compiling {len(graph.nodes)} nodes with {self.compiler.name}"):
            self.compiler.compile(path, folder)
        log.info("%s: compiled in %.2f s by %s", key[:16], time.perf_counter() - exported, self.compiler.name)

    def _load(self, key: str, folder: Path) -> Runner:
        start = time.perf_counter()
        runner = self.compiler.load(folder)
        log.info("%s: loaded in %.3f s", key[:16], time.perf_counter() - start)
        return runner

    def _check_of(self, graph: Graph) -> Callable[[Sequence[Array], Sequence[Array]], None] | None:
        tolerance = self._tolerance
        if tolerance is None:
            return None

        def check(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
            expected = on_cpu(graph)(inputs)
            for number, (made, right) in enumerate(zip(outputs, expected, strict=True)):
                if not _same(made, right, tolerance):
                    raise CompileError(f"output {number} differs from the CPU's by more than {tolerance:g}")

        return check

    def _reject(self, key: str, error: CompileError) -> CompileError:
        """What a graph computed was not right: it is neither used nor kept."""
        with self._lock:
            if self._cache is not None:
                with self._cache.locked(key):
                    self._cache.remove(key)
            return self._fail(key, error)

    def _fail(self, key: str, error: Exception) -> CompileError:
        """The error to raise; the first of a graph is shown."""
        if key not in self._failed:
            log.warning("%s: computing on the CPU: %s", self.name, error)
            self._failed[key] = str(error)
        return error if isinstance(error, CompileError) else CompileError(str(error))


class _Checked:
    """A runner whose outputs are what the graph says, or an error."""

    def __init__(
        self,
        graph: Graph,
        runner: Runner,
        check: Callable[[Sequence[Array], Sequence[Array]], None] | None,
        reject: Callable[[CompileError], CompileError],
        fail: Callable[[CompileError], CompileError],
        compiler: Compiler,
    ) -> None:
        self._int64, self._nan = compiler.int64, compiler.nan
        self._runner, self._check, self._reject, self._fail = runner, check, reject, fail
        self._inputs = [(port.value.dtype, boundary_dtype(port.value)) for port in graph.inputs]
        self._outputs = [
            (tuple(int(n) for n in port.shape), port.value.dtype, _boundary(port.value.dtype)) for port in graph.outputs
        ]
        self._guarded = is_guarded(graph, fold(graph))

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        arrays = [
            as_numpy(as_torch(array, dtype).float()) if dtype == DType.BF16 else array
            for array, (dtype, _) in zip(inputs, self._inputs, strict=True)
        ]
        self._check_inputs(arrays)
        try:
            results = list(self._runner(arrays))
        except CompileError as error:
            raise self._fail(error) from error
        try:
            outputs = self._received(results)
        except CompileError as error:
            raise self._reject(error) from error
        if self._guarded and results[-1].reshape(-1)[0] != 0:
            raise InputError("an index is out of range, or what is to be sorted has a NaN")
        if self._check is not None:
            try:
                self._check(inputs, outputs)
            except CompileError as error:
                raise self._reject(error) from error
            self._check = None
        return outputs

    def _check_inputs(self, arrays: Sequence[Array]) -> None:
        for number, array in enumerate(arrays):
            if not self._int64 and array.dtype == np.int64 and not _in_int32(array):
                raise InputError(f"input {number} has int64 numbers that int32 does not hold")
            if not self._nan and array.dtype.kind == "f" and _has_nan(array):
                raise InputError(f"input {number} has a NaN")

    def _received(self, results: list[Array]) -> list[Array]:
        count = len(self._outputs) + self._guarded
        if len(results) != count:
            raise CompileError(f"it gives {len(results)} outputs, expected {count}")
        outputs = []
        for number, (array, (shape, dtype, boundary)) in enumerate(zip(results, self._outputs, strict=False)):
            if array.shape != shape or array.dtype != boundary:
                raise CompileError(
                    f"it gives {array.dtype}{list(array.shape)} as output {number}, expected {boundary}{list(shape)}"
                )
            outputs.append(as_numpy(torch.from_numpy(array).bfloat16()) if dtype == DType.BF16 else array)
        return outputs


class CompiledGraph:
    """A graph by a compiler, or on the CPU where that fails: called with arrays, in the shapes of its inputs' ports."""

    def __init__(self, graph: Graph, device: CompiledDevice) -> None:
        self._graph = graph
        self._cpu: Plan | None = None
        self._plan: Plan | None = None
        self.failure: str | None = None  # why it computes on the CPU
        try:
            self._plan = device.plan(graph)
        except CompileError as error:
            self.failure = str(error)

    def __call__(self, *inputs: Array) -> Sequence[Array]:
        """The outputs."""
        if self._plan is not None:
            try:
                return self._plan(inputs)
            except InputError:
                return self._on_cpu(inputs)  # which says what is wrong with them, if anything is
            except CompileError as error:
                self.failure = str(error)
                self._plan = None
        return self._on_cpu(inputs)

    def _on_cpu(self, inputs: Sequence[Array]) -> Sequence[Array]:
        if self._cpu is None:
            self._cpu = on_cpu(self._graph)
        return self._cpu(inputs)


def compile_graph(
    graph: Graph, compiler: str | Compiler, *, cache: Cache | None = None, self_check: float | None = None
) -> CompiledGraph:
    """Compile a graph; where that fails it runs on the CPU, after one warning."""
    return CompiledGraph(graph, CompiledDevice(compiler, cache=cache, self_check=self_check))


def on_cpu(graph: Graph) -> Plan:
    """The graph in the native runtime, or, of types that numpy lacks, by the op table's references."""
    ports = (*graph.inputs, *graph.outputs)
    if any(port.value.dtype == DType.BF16 for port in ports):
        return TorchDevice().plan(graph)
    from ...runtime import Session  # programs with a ggml of their own may have none

    constants = {constant.key: constant.stored() for constant in graph.constants if constant.data}
    session = Session(serialize(graph), constants)
    return lambda inputs: session.run(*(np.ascontiguousarray(array).reshape(array.shape) for array in inputs))


def _has_nan(array: Array) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isnan(array.sum()) and np.isnan(array).any())  # infinities may add up to NaN


def _in_int32(array: Array) -> bool:
    return array.size == 0 or (int(array.min()) in translations.INT32 and int(array.max()) in translations.INT32)


def _is_wide(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.int64 and not _in_int32(tensor.numpy())


def _is_wide_constant(constant: Constant) -> bool:
    return constant.value.dtype == DType.I64 and constant.data is not None and _is_wide(constant.data())


def _boundary(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype == DType.BF16 else numpy_dtype(dtype)


def _tolerance(compiler: Compiler) -> float | None:
    text = os.environ.get(SELF_CHECK, "")
    if text in {"", "0"}:
        return TOLERANCE if compiler.self_check else None
    try:
        tolerance = float(text)
    except ValueError:
        tolerance = -1.0
    if not tolerance > 0:
        raise CompileError(f"{SELF_CHECK}={text!r}: expected 1, or a tolerance between 0 and 1")
    return TOLERANCE if tolerance >= 1 else tolerance


def _same(actual: Array, expected: Array, tolerance: float) -> bool:
    """Equal integers; floats close for the largest magnitude, with NaN and infinities in the same places."""
    if expected.dtype.kind not in "fV":
        return bool(np.array_equal(actual, expected))
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)) or not np.array_equal(
        actual[~finite], expected[~finite], equal_nan=True
    ):
        return False
    if not finite.any():
        return True
    return bool(
        np.abs(actual[finite] - expected[finite]).max() <= tolerance * max(np.abs(expected[finite]).max(), 1e-30)
    )
