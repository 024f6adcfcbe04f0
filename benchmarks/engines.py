"""The engines that are compared. Each turns a model into a function that runs it once on fixed inputs.

Every engine gets the same module, inputs and number of threads. The peers get the static shapes of the inputs, which
suits them best; ours gets the model's symbolic shapes, as it is meant to be used.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.zoo import Model
    from torch import Tensor

Run = Callable[[], Sequence[Any]]


@dataclass(frozen=True)
class Prepared:
    """A model made ready by an engine."""

    run: Run
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
    prepare: Callable[[Model, tuple[Tensor, ...], int, Path], Prepared]
    delegate: Delegate | None = None
    """For an engine inside ExecuTorch: the steps of `prepare` one by one."""

    def missing(self) -> list[str]:
        return [package for package in self.packages if importlib.util.find_spec(package) is None]


def count_delegates(program: Any) -> tuple[int, int]:
    """How many delegates a finished program calls, and how many other operators it runs."""
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    delegates = sum("executorch_call_delegate" in str(target) for target in targets)
    outside = sum(isinstance(target, torch._ops.OpOverload) and "sym_size" not in str(target) for target in targets)
    return delegates, outside


def _outputs(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (list, tuple)) else [result]


def _eager(model: Model, args: tuple[Tensor, ...], threads: int, _: Path) -> Prepared:
    torch.set_num_threads(threads)

    def run() -> Sequence[Any]:
        with torch.inference_mode():
            return _outputs(model.module(*args))

    return Prepared(run)


def load_program(path: Path, args: tuple[Tensor, ...]) -> Run:
    """Load a program into ExecuTorch's own Python runtime, ready to run on `args`."""
    from executorch.runtime import Runtime

    torch.set_num_threads(1)  # torch copies the outputs: threads of its own would then spin against the delegate's
    program = Runtime.get().load_program(path)
    method = program.load_method("forward")

    def run(keep: Any = program) -> Sequence[Any]:  # a method does not keep its program alive
        outputs: Sequence[Any] = method.execute(args)
        return outputs

    return run


def _executorch_threads(threads: int) -> None:
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)


def _ggml_threads(threads: int) -> None:
    import executorch_ggml

    executorch_ggml.set_num_threads(threads)


def _lower_to_ggml(model: Model, _: tuple[Tensor, ...]) -> Any:
    import executorch_ggml

    return executorch_ggml.export(model.module, model.args, dynamic_shapes=model.dynamic_shapes)


def _lower_to_xnnpack(model: Model, args: tuple[Tensor, ...]) -> Any:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    exported = torch.export.export(model.module, args)
    return to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()


def _lower_to_portable(model: Model, args: tuple[Tensor, ...]) -> Any:
    from executorch.exir import to_edge_transform_and_lower

    return to_edge_transform_and_lower(torch.export.export(model.module, args)).to_executorch()


@dataclass(frozen=True)
class Delegate:
    """What an engine that runs inside ExecuTorch does on its own; the runtime around it is the same for all."""

    lower: Callable[[Model, tuple[Tensor, ...]], Any]
    set_threads: Callable[[int], None]

    def prepare(self, model: Model, args: tuple[Tensor, ...], threads: int, folder: Path) -> Prepared:
        self.set_threads(threads)
        program = self.lower(model, args)
        path = folder / "program.pte"
        program.save(str(path))
        return Prepared(load_program(path, args), *count_delegates(program.exported_program()))


def _export_onnx(model: Model, args: tuple[Tensor, ...], folder: Path) -> Path:
    path = folder / "model.onnx"
    torch.onnx.export(model.module, args, path, dynamo=True, verbose=False)
    return path


def _onnxruntime(model: Model, args: tuple[Tensor, ...], threads: int, folder: Path) -> Prepared:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.force_spinning_stop", "1")  # idle means idle, for the others' turns
    path = _export_onnx(model, args, folder)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {declared.name: arg.numpy() for declared, arg in zip(session.get_inputs(), args, strict=True)}

    def run() -> Sequence[Any]:
        outputs: Sequence[Any] = session.run(None, feed)
        return outputs

    return Prepared(run)


def _openvino(
    model: Model, args: tuple[Tensor, ...], threads: int, folder: Path, precision: str | None = "f32"
) -> Prepared:
    import openvino

    config = {
        **({"INFERENCE_PRECISION_HINT": precision} if precision else {}),
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    inputs = [openvino.Tensor(arg.numpy()) for arg in args]

    def compiled(source: Any) -> Run:
        request = openvino.compile_model(openvino.convert_model(source), "CPU", config).create_infer_request()

        def run() -> Sequence[Any]:
            request.infer(inputs, share_inputs=True, share_outputs=True)
            return [request.get_output_tensor(0).data]

        run()
        return run

    try:
        return Prepared(compiled(torch.export.export(model.module, args)))
    except RuntimeError:
        # Its PyTorch front end does not take every attention (grouped keys with is_causal, for one); ONNX gets through.
        return Prepared(compiled(_export_onnx(model, args, folder)))


def _inside_executorch(name: str, title: str, package: str, delegate: Delegate) -> Engine:
    return Engine(name, title, (package,), delegate.prepare, delegate)


GGML = _inside_executorch("ggml", "ggml (ours)", "executorch_ggml", Delegate(_lower_to_ggml, _ggml_threads))
XNNPACK = _inside_executorch("xnnpack", "XNNPACK", "executorch", Delegate(_lower_to_xnnpack, _executorch_threads))
PORTABLE = _inside_executorch(
    "portable", "portable kernels", "executorch", Delegate(_lower_to_portable, _executorch_threads)
)
EAGER = Engine("eager", "eager", (), _eager)
ONNXRUNTIME = Engine("onnxruntime", "ONNX Runtime", ("onnxruntime", "onnxscript"), _onnxruntime)
OPENVINO = Engine("openvino", "OpenVINO", ("openvino", "onnxscript"), _openvino)
OPENVINO_DEFAULT = Engine(
    "openvino-default", "OpenVINO, its own precision", OPENVINO.packages, partial(_openvino, precision=None)
)
"""What its users get who ask for nothing: bf16 where the CPU has it."""

COMPARED = (GGML, XNNPACK, EAGER, ONNXRUNTIME, OPENVINO, OPENVINO_DEFAULT)
ENGINES = {engine.name: engine for engine in (*COMPARED, PORTABLE)}
