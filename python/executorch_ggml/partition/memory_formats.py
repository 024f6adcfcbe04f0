"""Memory formats: a program's inputs and outputs lie as the model has them, and all that is between is contiguous.

Many of ExecuTorch's kernels refuse channels-last tensors, or read them as if they were contiguous, and its dim order
ops have no name for ``torch.channels_last_3d``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.fx import GraphModule, Node
from torch.utils.weak import WeakTensorKeyDictionary

from ..frontends.aten import Lowering
from ..frontends.aten.registry import overload_of
from .functional import functional_copy
from .outside_core import alias

aten = torch.ops.aten
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
# They read a tensor's memory, not its elements by their indices.
_READ_MEMORY = frozenset({aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default})
_contiguous_constants: Any = WeakTensorKeyDictionary()  # methods that share a buffer share what replaces it


def contiguous_inside(program: ExportedProgram) -> ExportedProgram:
    """The program with copies to and from contiguous memory at its ends; itself where no tensor is channels last.

    Given   x (channels last) -> f -> to(channels_last) -> g -> output (channels last)
    Result  x -> clone(contiguous) -> f -> to(contiguous) -> g -> clone(channels_last) -> output

    Constants become contiguous.
    """
    nodes = [node for module in _graph_modules(program) for node in module.graph.nodes]
    if not any(_names_format(node) or _lies_otherwise(node) for node in nodes):
        return program
    program = functional_copy(program)  # where copies are those of a few ops
    formats = {node: memory_format for node in program.graph.nodes if (memory_format := channels_last_of(node))}
    for module in _graph_modules(program):
        for node in filter(_names_format, module.graph.nodes):
            node.kwargs = {**node.kwargs, "memory_format": torch.contiguous_format}
        module.recompile()
    _restore_at_outputs(program, formats)
    _restore_before_readers_of_memory(program, formats)
    _copy_inputs(program)
    _replace_constants(program, formats)
    allow_copies_in_views(program)
    program.graph_module.recompile()
    return program


def allow_copies_in_views(program: ExportedProgram) -> None:
    """Turn views into reshapes, in a functional program in which tensors are made contiguous.

    What is computed from them may lie in memory otherwise, too: a permutation of them, or attention's output, which
    lies as its queries do. Where a view is still possible, a reshape is decomposed to one.
    """
    for module in _graph_modules(program):
        for node in module.graph.find_nodes(op="call_function", target=aten.view.default):
            node.target = aten.reshape.default
        module.recompile()


def channels_last_of(node: Node) -> torch.memory_format | None:
    """The memory format of a node's tensor that is channels last, and not contiguous too."""
    fake = node.meta.get("val")
    if not isinstance(fake, torch.Tensor) or fake.layout != torch.strided or fake.is_contiguous():
        return None
    memory_format = _CHANNELS_LAST.get(fake.dim())
    return memory_format if memory_format and fake.is_contiguous(memory_format=memory_format) else None


def _graph_modules(program: ExportedProgram) -> Iterator[GraphModule]:
    """The program's graph and all that are nested in it."""
    return (module for module in program.graph_module.modules() if isinstance(module, GraphModule))


def _names_format(node: Node) -> bool:
    """Whether a call asks for a memory format that is not contiguous, whatever its input is."""
    named = [item for item in (*node.args, *node.kwargs.values()) if isinstance(item, torch.memory_format)]
    return any(memory_format in _CHANNELS_LAST.values() for memory_format in named)


def _lies_otherwise(node: Node) -> bool:
    """Whether a node is an input that is not contiguous, or a constant that is channels last."""
    return node.op == "placeholder" and (channels_last_of(node) is not None or _is_strided_input(node))


def _is_strided_input(node: Node) -> bool:
    fake = node.meta.get("val")
    return isinstance(fake, torch.Tensor) and fake.layout == torch.strided and not fake.is_contiguous()


def _restore_at_outputs(program: ExportedProgram, formats: dict[Node, torch.memory_format]) -> None:
    """Give outputs, and inputs that are written to, the memory formats that they had."""
    output = program.graph.output_node()
    inputs = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    values = list(output.args[0])
    for index, spec in enumerate(program.graph_signature.output_specs):
        value = values[index]
        if not isinstance(value, Node) or spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.USER_INPUT_MUTATION):
            continue
        is_output = spec.kind == OutputKind.USER_OUTPUT
        memory_format = formats.get(value if is_output else inputs[str(spec.target)])
        if memory_format is None or (is_output and value.op == "placeholder"):
            continue
        with program.graph.inserting_before(output):
            values[index] = _copied(program, value, memory_format)
        spec.arg = TensorArgument(name=values[index].name)
    output.args = (tuple(values),)


def _restore_before_readers_of_memory(program: ExportedProgram, formats: dict[Node, torch.memory_format]) -> None:
    for node in program.graph.nodes:
        source = node.args[0] if overload_of(node) in _READ_MEMORY else None
        if isinstance(source, Node) and source in formats:
            with program.graph.inserting_before(node):
                node.replace_input_with(source, _copied(program, source, formats[source]))


def _copy_inputs(program: ExportedProgram) -> None:
    first = next(node for node in program.graph.nodes if node.op != "placeholder")
    names = set(program.graph_signature.user_inputs)
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in names and _is_strided_input(node) and any(user.op != "output" for user in node.users):
            users = [user for user in node.users if user.op != "output"]
            with program.graph.inserting_before(first):
                copy = _copied(program, node, torch.contiguous_format)
            for user in users:
                user.replace_input_with(node, copy)


def _replace_constants(program: ExportedProgram, formats: dict[Node, torch.memory_format]) -> None:
    signature = program.graph_signature
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in targets and node in formats:
            node.meta["val"] = node.meta["val"].contiguous()
            held: dict[str, Any] = (
                program._state_dict if targets[node.name] in program.state_dict else program._constants
            )
            held[targets[node.name]] = _contiguous(held[targets[node.name]])


def _contiguous(tensor: torch.Tensor) -> torch.Tensor:
    copy: torch.Tensor | None = _contiguous_constants.get(tensor)
    if copy is None:
        copy = tensor.detach().contiguous()
        if isinstance(tensor, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
        _contiguous_constants[tensor] = copy
    return copy


def _copied(program: ExportedProgram, source: Node, memory_format: torch.memory_format) -> Node:
    """A copy of a node's tensor; contiguous where ExecuTorch cannot carry another memory format through."""
    copy: Node = program.graph.call_function(aten.clone.default, (source,), {"memory_format": memory_format})
    copy.meta = {key: source.meta[key] for key in ("stack_trace",) if key in source.meta}
    copy.meta["val"] = source.meta["val"].clone(memory_format=memory_format)
    if memory_format is torch.channels_last_3d:
        if Lowering(program).refusal(copy) is None:
            copy.target = alias(aten.clone.default)
        else:
            copy.kwargs = {"memory_format": torch.contiguous_format}
    return copy
