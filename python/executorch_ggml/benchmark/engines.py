"""The engines that are compared. Each writes a workload to a file of its own kind, and loads such a file to run it.

Every engine gets the same module, inputs and number of threads. The peers get the static shapes of the inputs, which
suits them best; ours gets the model's symbolic shapes, as it is meant to be used. Of a model in int8, ours and XNNPACK
get the same graph of PT2E, for static shapes; ONNX Runtime quantizes the f32 model itself, and OpenVINO reads that.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from torch import Tensor

    from .workload import Workload

Run = Callable[[], Sequence[Any]]


@dataclass(frozen=True)
class Written:
    """A workload as an engine's file."""

    path: Path
    size: int
    """Bytes of all files that are loaded."""
    delegates: int | None = None
    """How many delegates the program was cut into, for the engines that cut."""
    outside: int | None = None
    """How many of its operators were left to ExecuTorch's own kernels."""


@dataclass(frozen=True)
class Engine:
    """One column of the comparison."""

    name: str
    title: str
    packages: tuple[str, ...]
    """The importable packages that it needs."""
    write: Callable[[Workload, Path], Written]
    """Write a workload's files into a folder."""
    load: Callable[[Path, tuple[Tensor, ...], int], Run]
    """Make a file ready to run on these inputs, with so many threads."""
    unpickles: bool = False
    """Whether its file is a pickled module, which needs the module's class."""

    def missing(self) -> list[str]:
        return [package for package in self.packages if importlib.util.find_spec(package) is None]


# ---------------------------------------------------------------------------------------------------------------------
# Eager PyTorch
# ---------------------------------------------------------------------------------------------------------------------


def _write_module(workload: Workload, folder: Path) -> Written:
    path = folder / "module.pt"
    try:
        torch.save(workload.reference, path)
    except (AttributeError, pickle.PicklingError) as error:
        raise ValueError(f"{error}: define the module's class at the top level of its file") from error
    return Written(path, path.stat().st_size)


def _load_module(path: Path, args: tuple[Tensor, ...], threads: int) -> Run:
    torch.set_num_threads(threads)
    module = torch.load(path, weights_only=False)

    def run() -> Sequence[Any]:
        with torch.inference_mode():
            outputs: Sequence[Any] = tree_leaves(module(*args))
            return outputs

    return run


# ---------------------------------------------------------------------------------------------------------------------
# ExecuTorch
# ---------------------------------------------------------------------------------------------------------------------


def count_delegates(program: Any) -> tuple[int, int]:
    """How many delegates a finished program calls, and how many other operators it runs."""
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    delegates = sum("executorch_call_delegate" in str(target) for target in targets)
    outside = sum(isinstance(target, torch._ops.OpOverload) and "sym_size" not in str(target) for target in targets)
    return delegates, outside


def _lower_to_ggml(workload: Workload) -> Any:
    from .. import export

    if workload.int8 is not None:
        return export(workload.int8, workload.args)
    args = workload.args if workload.examples is None else workload.examples
    options = {"report_error": False, **workload.options}
    return export(workload.reference, args, dynamic_shapes=workload.dynamic_shapes, **options)


def _lower_to_ggml_bf16(workload: Workload) -> Any:
    if not list(workload.reference.parameters()):  # the program of one node, which has no layers
        return _lower_to_ggml(workload)
    return _lower_to_ggml(replace(workload, options={**workload.options, "precision": "bf16"}))


def _write_ggml(workload: Workload, folder: Path) -> Written:
    """Our program: one that is there already, or the module's."""
    if workload.program is None:
        return _write_program(workload, folder, _lower_to_ggml)
    from ..pte import outside_calls, plan_of

    path = folder / "program.pte"
    path.symlink_to(workload.program.resolve())
    plan, _ = plan_of(path, "forward")
    return Written(path, path.stat().st_size, len(plan.delegates), outside_calls(plan))


def _lower_to_xnnpack(workload: Workload) -> Any:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    exported = torch.export.export(workload.reference, workload.args)
    return to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()


def _lower_to_portable(workload: Workload) -> Any:
    from executorch.exir import to_edge_transform_and_lower

    return to_edge_transform_and_lower(torch.export.export(workload.reference, workload.args)).to_executorch()


def _write_program(workload: Workload, folder: Path, lower: Callable[[Workload], Any]) -> Written:
    program = lower(workload)
    path = folder / "program.pte"
    program.save(str(path))
    return Written(path, path.stat().st_size, *count_delegates(program.exported_program()))


def _lowered(lower: Callable[[Workload], Any]) -> Callable[[Workload, Path], Written]:
    return partial(_write_program, lower=lower)


def _ggml_threads(threads: int) -> None:
    from ..runtime import set_num_threads

    set_num_threads(threads)


def _executorch_threads(threads: int) -> None:
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)


def _load_program(path: Path, args: tuple[Tensor, ...], threads: int, set_threads: Callable[[int], None]) -> Run:
    """Load a program into ExecuTorch's own Python runtime, which is the same for all its engines."""
    from executorch.runtime import Runtime

    set_threads(threads)
    torch.set_num_threads(1)  # torch copies the outputs: threads of its own would then spin against the delegate's
    program = Runtime.get().load_program(path)
    method = program.load_method("forward")

    def run(keep: Any = program) -> Sequence[Any]:  # a method does not keep its program alive
        outputs: Sequence[Any] = method.execute(args)
        return outputs

    return run


def _inside_executorch(
    name: str,
    title: str,
    package: str,
    write: Callable[[Workload, Path], Written],
    set_threads: Callable[[int], None],
) -> Engine:
    return Engine(name, title, (package,), write, partial(_load_program, set_threads=set_threads))


# ---------------------------------------------------------------------------------------------------------------------
# ONNX Runtime
# ---------------------------------------------------------------------------------------------------------------------


def _export_onnx(workload: Workload, folder: Path) -> Path:
    path = folder / "model.onnx"
    assert workload.module is not None
    torch.onnx.export(workload.module, workload.args, path, dynamo=True, verbose=False, external_data=False)
    return path if workload.int8 is None else _quantize_onnx(path, workload)


def _quantize_onnx(path: Path, workload: Workload) -> Path:
    """The model in int8 by ONNX Runtime's own static quantization, as its documentation recommends it for CPUs.

    That is after its own preprocessing, as pairs of QuantizeLinear and DequantizeLinear (QDQ), weights per channel.
    """
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    names = [declared.name for declared in onnx.load(path).graph.input]
    feeds = iter([dict(zip(names, (arg.numpy() for arg in args), strict=True)) for args in workload.calibration])

    class Reader(CalibrationDataReader):
        def get_next(self) -> Any:
            return next(feeds, None)

    prepared, quantized = path.with_name("prepared.onnx"), path.with_name("quantized.onnx")
    quant_pre_process(path, prepared)
    quantize_static(prepared, quantized, Reader(), quant_format=QuantFormat.QDQ, per_channel=True)
    return quantized


def _write_onnx(workload: Workload, folder: Path) -> Written:
    path = _export_onnx(workload, folder)
    return Written(path, path.stat().st_size)


def _load_onnx(path: Path, args: tuple[Tensor, ...], threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.force_spinning_stop", "1")  # idle means idle, for the others' turns
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {declared.name: arg.numpy() for declared, arg in zip(session.get_inputs(), args, strict=True)}

    def run() -> Sequence[Any]:
        outputs: Sequence[Any] = session.run(None, feed)
        return outputs

    return run


# ---------------------------------------------------------------------------------------------------------------------
# OpenVINO
# ---------------------------------------------------------------------------------------------------------------------


def _write_openvino(workload: Workload, folder: Path) -> Written:
    import openvino

    path = folder / "model.xml"

    def converted(source: Any) -> None:
        openvino.save_model(openvino.convert_model(source), path, compress_to_fp16=False)
        # On several threads: it fuses attention there alone, which can fail at the first run.
        _load_openvino(path, workload.args, threads=os.cpu_count() or 1)()

    try:
        if workload.int8 is not None:
            converted(_export_onnx(workload, folder))
        else:
            converted(torch.export.export(workload.reference, workload.args))
    except RuntimeError:
        # Its PyTorch front end does not take every attention (grouped keys with is_causal, for one); ONNX gets through.
        if workload.int8 is not None:
            raise
        converted(_export_onnx(workload, folder))
    return Written(path, path.stat().st_size + path.with_suffix(".bin").stat().st_size)


def _load_openvino(path: Path, args: tuple[Tensor, ...], threads: int, precision: str | None = "f32") -> Run:
    import openvino

    config = {
        **({"INFERENCE_PRECISION_HINT": precision} if precision else {}),
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    inputs = [openvino.Tensor(arg.numpy()) for arg in args]
    compiled = openvino.compile_model(path, "CPU", config)
    request = compiled.create_infer_request()

    def run() -> Sequence[Any]:
        request.infer(inputs, share_inputs=True, share_outputs=True)
        return [request.get_output_tensor(index).data for index in range(len(compiled.outputs))]

    return run


GGML = _inside_executorch("ggml", "ggml (ours)", "executorch_ggml", _write_ggml, _ggml_threads)
GGML_BF16 = _inside_executorch(
    "ggml-bf16", "ggml (ours), bf16", "executorch_ggml", _lowered(_lower_to_ggml_bf16), _ggml_threads
)
XNNPACK = _inside_executorch("xnnpack", "XNNPACK", "executorch", _lowered(_lower_to_xnnpack), _executorch_threads)
PORTABLE = _inside_executorch(
    "portable", "portable kernels", "executorch", _lowered(_lower_to_portable), _executorch_threads
)
EAGER = Engine("eager", "eager", (), _write_module, _load_module, unpickles=True)
ONNXRUNTIME = Engine("onnxruntime", "ONNX Runtime", ("onnxruntime", "onnxscript"), _write_onnx, _load_onnx)
OPENVINO = Engine("openvino", "OpenVINO", ("openvino", "onnxscript"), _write_openvino, _load_openvino)
OPENVINO_DEFAULT = Engine(
    "openvino-default",
    "OpenVINO, its own precision",
    OPENVINO.packages,
    _write_openvino,
    partial(_load_openvino, precision=None),
)
"""What its users get who ask for nothing: bf16 where the CPU has it."""

COMPARED = (GGML, XNNPACK, EAGER, ONNXRUNTIME, OPENVINO, OPENVINO_DEFAULT)
ENGINES = {engine.name: engine for engine in (*COMPARED, GGML_BF16, PORTABLE)}
