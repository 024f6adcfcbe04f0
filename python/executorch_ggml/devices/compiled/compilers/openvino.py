"""OpenVINO: the compiled model of its CPU plugin is the artifact."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....ir.dtypes import DType
from ....ir.ops.custom import ReduceKind
from ....ir.ops.indexing import ScatterKind
from . import apart
from .compiler import CompileError, Compiler

if TYPE_CHECKING:
    import numpy as np

    from ....ir.graph import Node
    from .compiler import Runner

_BLOB = "model.blob"


class OpenVinoCompiler(Compiler):
    """``compiled:openvino``: computes in float32, where the plugin's own choice may be bfloat16."""

    name = "openvino"
    int64 = False
    nan = False  # of NaN its relu is 0, and its exp a number

    def version(self) -> str:
        """The package's version."""
        return str(_package().get_version())

    def options(self) -> Mapping[str, str]:
        """What the model is compiled with, and for which processor."""
        return {**_CONFIG, "device": str(_core().get_property("CPU", "FULL_DEVICE_NAME"))}

    def refuses(self, node: Node) -> str | None:
        """What its CPU plugin computes in another way than torch."""
        if _rounds_to_bf16(node) and "BF16" not in _capabilities():
            return f"{node.op} rounds to bfloat16, which openvino leaves out on this processor"
        return _refused(node)

    def compile(self, model: Path, folder: Path) -> None:
        """Compile, and keep what the plugin exports."""
        options = [f"{name}={value}" for name, value in _CONFIG.items()]
        apart.run("run_openvino.py", [str(model), str(folder / _BLOB), *options], folder)

    def load(self, folder: Path) -> Runner:
        """A request on the imported model."""
        try:
            compiled = _core().import_model((folder / _BLOB).read_bytes(), "CPU", dict(_CONFIG))
            request = compiled.create_infer_request()
        except Exception as error:
            raise CompileError(f"openvino: {error}") from error

        def run(inputs: Sequence[np.ndarray[Any, Any]]) -> Sequence[np.ndarray[Any, Any]]:
            try:
                result = request.infer(list(inputs), share_inputs=True)
            except Exception as error:
                raise CompileError(f"openvino: {error}") from error
            return [result[number] for number in range(len(result))]

        return run


_CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}


def _package() -> Any:
    try:
        return importlib.import_module("openvino")
    except ImportError as error:
        raise CompileError("openvino is not installed: pip install openvino") from error


@functools.lru_cache(maxsize=1)
def _core() -> Any:
    return _package().Core()


@functools.lru_cache(maxsize=1)
def _capabilities() -> frozenset[str]:
    """What the CPU plugin says that it computes in on this processor: without AVX-512 no bfloat16."""
    return frozenset(_core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"))


def _rounds_to_bf16(node: Node) -> bool:
    """Whether a node rounds to bfloat16: its result, or the rows that a matrix of it is multiplied with."""
    matrix = node.inputs[0] if node.op in ("mul_mat", "mul_mat_id") else None
    rounded = [node.output, *([matrix] if matrix is not None else [])]
    return any(value.dtype == DType.BF16 for value in rounded) and node.op not in _MOVES


_MOVES = frozenset(
    {"reshape", "permute", "view", "cont", "broadcast", "concat", "take", "take_rows", "select", "scatter"}
)
_WIDTHS = {DType.I8: 1, DType.U8: 1, DType.I16: 2, DType.I32: 4, DType.I64: 8}


def _refused(node: Node) -> str | None:
    source = node.inputs[0] if node.inputs else None
    if source is None or source.dtype not in _WIDTHS:
        return None
    if node.op == "convert" and _WIDTHS[source.dtype] > _WIDTHS.get(node.output.dtype, 8):
        return f"convert to {node.output.dtype.name.lower()}: openvino saturates where torch cuts bits"
    in_f32 = node.op in _SUMS and node.attrs.get("kind") not in _EXACT.get(node.op, ())
    if in_f32 or (node.op == "convert" and node.output.dtype == DType.BF16):
        return f"{node.op} of {source.dtype.name.lower()}, which openvino computes in float32"
    return None


_SUMS = frozenset({"reduce", "scatter", "cumsum", "sort"})
_EXACT: dict[str, frozenset[int]] = {
    "reduce": frozenset({ReduceKind.ANY, ReduceKind.ALL}),
    "scatter": frozenset({ScatterKind.ASSIGN}),
}
