"""ONNX Runtime: its optimized model is the artifact."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import apart
from .compiler import CompileError, Compiler

if TYPE_CHECKING:
    import numpy as np

    from .compiler import Runner

_MODEL = "model.onnx"
_INLINE = 1 << 30  # bytes of a model file from which its weights go to a file of their own


class OnnxRuntimeCompiler(Compiler):
    """``compiled:onnxruntime``: graph optimizations ahead of time, its CPU kernels at run time."""

    name = "onnxruntime"

    def version(self) -> str:
        """The package's version."""
        return str(_package().__version__)

    def options(self) -> Mapping[str, str]:
        """Optimizations that depend on the machine are left to the loading session: the artifact is for any CPU."""
        return {"level": "extended"}

    def compile(self, model: Path, folder: Path) -> None:
        """Optimize the model and keep the result."""
        size = sum(file.stat().st_size for file in model.parent.iterdir() if file.is_file())
        weights = ["weights.bin"] if size > _INLINE else []
        apart.run("run_onnxruntime.py", [str(model), str(folder / _MODEL), *weights], folder)

    def load(self, folder: Path) -> Runner:
        """A session on the artifact."""
        session = _session(_package(), folder / _MODEL)
        names = [entry.name for entry in session.get_inputs()]

        def run(inputs: Sequence[np.ndarray[Any, Any]]) -> Sequence[np.ndarray[Any, Any]]:
            try:
                outputs: list[np.ndarray[Any, Any]] = session.run(None, dict(zip(names, inputs, strict=True)))
            except Exception as error:
                raise CompileError(f"onnxruntime: {error}") from error
            return outputs

        return run


def _package() -> Any:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise CompileError("onnxruntime is not installed: pip install onnxruntime") from error


def _session(ort: Any, model: Path) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = os.cpu_count() or 1
    try:
        return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise CompileError(f"onnxruntime: {error}") from error
