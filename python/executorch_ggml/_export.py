"""The short way from a module to a program."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig, ExecutorchProgramManager
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch.export import ExportedProgram
from torch.utils._pytree import tree_map_only

from .frontends.aten.graph import upper_bound
from .frontends.aten.weights import WeightSource, check_values
from .ir.dims import as_dim, free_symbols
from .partition import GgmlPartitioner
from .partition.backend import LAYOUT_KEY, PRECISION_KEY, check_applied
from .partition.caches import forget_programs
from .partition.control_flow import control_flow_fault, graph_modules, is_control_flow
from .partition.edge import lowered_to_edge
from .partition.kernels import ANY_KERNEL, missing_kernels, missing_kernels_text
from .partition.placement import has_delegates
from .partition.training import training_fault
from .precision_error import tell_error
from .progress import stage
from .quant import GgmlQuantConfig
from .tracing import data_dependence_named, trace


def export(
    model: torch.nn.Module | ExportedProgram,
    args: tuple[Any, ...] = (),
    *,
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    weights: WeightSource | None = None,
    quantize: GgmlQuantConfig | str | Mapping[str, Any] | None = None,
    precision: str | None = None,
    layout: str | None = None,
    report_error: bool = True,
    own_kernels: Collection[str] = (),
    generate_etrecord: bool = False,
    named_data: Mapping[str, bytes] | None = None,
) -> ExecutorchProgramManager:
    """Export a module, delegate to ggml all that it computes right, and make the ExecuTorch program.

    ``args``, ``kwargs`` and ``dynamic_shapes`` are those of ``torch.export.export``; an example input that is channels
    last makes an input of that memory format. An ``ExportedProgram`` in place of the module brings its own inputs and
    sizes (and takes no ``args``, ``kwargs`` or ``dynamic_shapes``). ``weights`` is that of :class:`GgmlPartitioner`.
    ``quantize`` says in which types weights are stored: the name of one ("q4_k"), the path of a JSON file, or a
    :class:`~executorch_ggml.quant.GgmlQuantConfig`. ``precision`` ("bf16", "f16", "int8-dynamic") is that of
    :class:`GgmlPartitioner`: it is for the layers whose weights ``quantize`` leaves in float32, and with "bf16" and
    "f16" in a half type. What it costs on the example inputs is told on stderr, by running the program from a temporary
    file beside the module in eager mode; ``report_error=False`` leaves that out. ``layout`` ("cpu") is that of
    :class:`GgmlPartitioner`. ``own_kernels`` names kernels, or patterns of names (``mylib::*``), that the runtime which
    the program is for has beside ExecuTorch's. Mixtures of experts in models of ``transformers`` are computed with this
    project's operator for them. ``generate_etrecord`` keeps what ExecuTorch's developer tools read, modules and source
    lines: ``.get_etrecord().save(path)`` writes it to a file beside the program, whose nodes then have the names of the
    Edge program, and export takes longer. ``named_data`` is kept in the program by name, beside what delegates keep
    there.

    Write the result with ``.save(path)`` and run it with :func:`executorch_ggml.load`. Raises ValueError for a model in
    training mode whose results that changes (dropout, batch norm), for a dynamic dim without a maximum (ExecuTorch
    plans its memory by it), for branches and sizes that depend on the values in a tensor (naming the line of the
    model), for control flow that ExecuTorch cannot run, for an operator that neither ggml nor ExecuTorch has a kernel
    for, for a quantization with a rule that matches none of the model's parameters, for a precision that no layer is
    left for, and for a module of :func:`executorch_ggml.gguf.load` without the weights that came with it.
    """
    exported = model if isinstance(model, ExportedProgram) else None
    if isinstance(model, ExportedProgram):
        module, args, kwargs = _parts_of(model, args, kwargs, dynamic_shapes)
    else:
        module = model
    if quantize is not None:
        if weights is not None:
            raise ValueError("weights and quantize both say how parameters are stored: pass one of them")
        weights = GgmlQuantConfig.of(quantize)
        weights.check(module)
    check_values(module, weights)
    args, kwargs = tree_map_only(torch.Tensor, _in_memory_format, (args, kwargs))
    program = trace(module, args, kwargs, dynamic_shapes) if exported is None else exported
    _check_evaluated(module, program)
    _check_bounded(program)
    _check_control_flow(program)
    partitioner = GgmlPartitioner(weights=weights, precision=precision, layout=layout, own_kernels=ANY_KERNEL)
    with stage("lowering"), data_dependence_named(program):
        edge = lowered_to_edge({"forward": program}, partitioner, generate_etrecord=generate_etrecord)
        check_kernels(edge, partitioner, own_kernels)
        for key, contents in (named_data or {}).items():
            edge._named_data_store.add_named_data(key, contents)
        lowered = to_executorch(edge)
    if not has_delegates(edge):
        options = {PRECISION_KEY: precision, LAYOUT_KEY: layout}
        check_applied([f"{key}={value}" for key, value in options.items() if value is not None])
    if precision is not None and report_error:
        tell_error(precision, lowered, module, args, kwargs)
    return lowered


def _parts_of(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any] | None, dynamic_shapes: Any
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The module of an exported program, and the inputs that it was traced with."""
    if args or kwargs or dynamic_shapes is not None:
        raise ValueError("an ExportedProgram has its own inputs and sizes: pass it alone, or the module with these")
    if program.example_inputs is None:
        raise ValueError("the ExportedProgram has no example inputs: it was saved or made without them")
    return program.module(), *program.example_inputs


def check_kernels(edge: EdgeProgramManager, partitioner: GgmlPartitioner, own_kernels: Collection[str] = ()) -> None:
    """Raise ValueError for calls outside of ggml that ExecuTorch has no kernel for: the program could not run."""
    missing = [
        item
        for method in sorted(edge.methods)
        for item in missing_kernels(edge.exported_program(method), own_kernels).values()
    ]
    if missing:
        raise ValueError(missing_kernels_text(missing, partitioner.refused))


def _in_memory_format(tensor: torch.Tensor) -> torch.Tensor:
    """An example input, contiguous where no memory format says how it lies: ExecuTorch's runtime takes no other."""
    memory_format = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim(), torch.contiguous_format)
    return tensor if tensor.is_contiguous(memory_format=memory_format) else tensor.contiguous()


def executorch_config() -> ExecutorchBackendConfig:
    """ExecuTorch's defaults, but buffers that it keeps itself start with the module's contents, not zeros."""
    return ExecutorchBackendConfig(passes=[InitializedMutableBufferPass([""])])


def to_executorch(edge: EdgeProgramManager) -> ExecutorchProgramManager:
    """The ExecuTorch program, whose weights no cache keeps alive."""
    program = edge.to_executorch(executorch_config())
    forget_programs()
    return program


def _check_evaluated(model: torch.nn.Module, program: ExportedProgram) -> None:
    """Raise where the model is in training mode, and computes something else in it."""
    if not any(module.training for module in model.modules()):
        return
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            if (fault := training_fault(node)) is not None:
                raise ValueError(
                    f"the model is in training mode, in which {fault}; call model.eval() before it is exported"
                )


def _check_control_flow(program: ExportedProgram) -> None:
    """Raise for control flow that ExecuTorch cannot write into a program."""
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            if is_control_flow(node) and (fault := control_flow_fault(node)) is not None:
                raise ValueError(f"{node.name}: {fault}")


def _check_bounded(program: ExportedProgram) -> None:
    """Raise for the first input dim that has no upper bound."""
    for node in program.graph.find_nodes(op="placeholder"):
        fake = node.meta.get("val")
        for dim, size in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
            symbols = free_symbols([as_dim(size)])
            if any(upper_bound(program, symbol) is None for symbol in symbols):
                raise ValueError(
                    f"input {node.name}, dim {dim}: the dynamic size has no maximum, and ExecuTorch plans memory by "
                    f"it; declare it with torch.export.Dim(name, max=...)"
                )
