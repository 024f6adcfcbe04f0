"""Module files: ONNX, TorchScript, torch.export."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.onnx.utils import register_custom_op_symbolic, unregister_custom_op_symbolic

from .compilers.compiler import CompileError
from .module import GraphModule


def write(module: GraphModule, inputs: Sequence[Tensor], outputs: int, path: Path) -> None:
    """Export the module to a file, in the form of its suffix. Inputs are ``input_0`` and so on, outputs ``output_0``.

    Weights of a large ONNX model are in a file beside it. Raises CompileError where the exporter fails.
    """
    names = [f"input_{number}" for number in range(len(inputs))], [f"output_{number}" for number in range(outputs)]
    try:
        with torch.no_grad(), _quiet():
            _WRITERS[path.suffix](module.eval(), tuple(inputs), *names, path)
    except Exception as error:
        raise CompileError(f"cannot be exported to {path.suffix}: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """What went wrong first, in one line: exporters wrap it in advice."""
    place = ""
    while error.__cause__ is not None:
        place = next((line for line in str(error).splitlines() if "node %" in line), place)
        error = error.__cause__
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" + (f" ({place.strip()})" if place else "")


def _onnx(
    module: GraphModule, inputs: tuple[Tensor, ...], input_names: list[str], output_names: list[str], path: Path
) -> None:
    # The exporter that goes through TorchScript: it takes milliseconds where torch.export's takes a second a node.
    with _more_operators():
        torch.onnx.export(
            module,
            inputs,
            str(path),
            dynamo=False,
            opset_version=_OPSET,
            input_names=input_names,
            output_names=output_names,
        )


@contextlib.contextmanager
def _more_operators() -> Iterator[None]:
    """Operators that ONNX has and the exporter does not know, for the time of an export."""
    for name, onnx_name in _MORE_OPERATORS.items():
        register_custom_op_symbolic(f"aten::{name}", _symbolic(onnx_name), _OPSET)
    try:
        yield
    finally:
        for name in _MORE_OPERATORS:
            unregister_custom_op_symbolic(f"aten::{name}", _OPSET)


def _symbolic(name: str) -> Callable[..., Any]:
    return lambda graph, *inputs: graph.op(name, *inputs).setType(inputs[0].type())


def _torchscript(module: GraphModule, inputs: tuple[Tensor, ...], _: list[str], __: list[str], path: Path) -> None:
    traced = torch.jit.trace(module, inputs, check_trace=False)  # type: ignore[no-untyped-call] # torch has no types for it
    torch.jit.save(traced, str(path))


def _torch_export(module: GraphModule, inputs: tuple[Tensor, ...], _: list[str], __: list[str], path: Path) -> None:
    torch.export.save(torch.export.export(module, inputs), str(path))


_OPSET = 18
_MORE_OPERATORS = {
    "acosh": "Acosh",
    "asinh": "Asinh",
    "atanh": "Atanh",
    "cosh": "Cosh",
    "sinh": "Sinh",
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
}
_Writer = Callable[[GraphModule, tuple[Tensor, ...], list[str], list[str], Path], None]
_WRITERS: dict[str, _Writer] = {".onnx": _onnx, ".pt": _torchscript, ".pt2": _torch_export}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters tell a person who calls them by hand."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
