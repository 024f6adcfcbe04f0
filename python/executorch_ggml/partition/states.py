"""Buffers that modules mutate: what they are called, and which of them methods share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.fx import Graph, Node

from ..frontends.aten.graph import buffer_of, mutated_buffers
from ..frontends.aten.registry import overload_of
from .functional import functional_copy

TAG = "delegation_tag"  # what ExecuTorch calls it in a node's meta


def separate_state_accesses(program: ExportedProgram) -> ExportedProgram:
    """Give each buffer that a program mutates one node that reads it, and one that is written to it and nothing else.

    Given   buffer -> f, g;           h -> buffer, output, k
    Result  buffer -> clone -> f, g;  h -> output, k;  h -> clone -> buffer

    A delegate can only own a buffer that no other reads, and only write what nobody else is given. The clones are such,
    and in a delegate they cost nothing.
    """
    if not _mutates(program):
        return program
    program = functional_copy(program)  # mutations are outputs that the signature names
    signature, graph = program.graph_signature, program.graph
    output = graph.output_node()
    for node in mutated_placeholders(program):
        if node.users:
            with graph.inserting_before(_first_call(graph)):
                read = _clone(node)
            for user in [user for user in node.users if user is not read]:
                user.replace_input_with(node, read)
    values = list(output.args[0])
    for index, spec in enumerate(signature.output_specs):
        value = values[index]
        if spec.kind == OutputKind.BUFFER_MUTATION:
            assert isinstance(value, Node)
            with graph.inserting_before(output):
                value = values[index] = _clone(value)
        if isinstance(value, Node) and isinstance(spec.arg, TensorArgument):
            spec.arg = TensorArgument(name=value.name)
    output.args = (tuple(values),)
    program.graph_module.recompile()
    return program


def mutated_placeholders(program: ExportedProgram) -> list[Node]:
    """The buffers that a functional program writes."""
    names = mutated_buffers(program)
    return [node for node in program.graph.find_nodes(op="placeholder") if node.name in names]


def _mutates(program: ExportedProgram) -> bool:
    """Whether a program, functional or not, may mutate a buffer."""
    signature = program.graph_signature
    schemas = (getattr(node.target, "_schema", None) for node in program.graph.nodes)
    in_place = any(schema is not None and schema.is_mutable for schema in schemas)
    return bool(signature.buffers_to_mutate) or (in_place and bool(signature.inputs_to_buffers))


def _first_call(graph: Graph) -> Node:
    node: Node
    for node in graph.nodes:
        if node.op != "placeholder":
            return node
    raise AssertionError("a graph ends in an output")


def _clone(node: Node) -> Node:
    clone = node.graph.call_function(torch.ops.aten.clone.default, (node,))
    clone.meta = {key: node.meta[key] for key in ("val", "stack_trace") if key in node.meta}
    return clone


def tag_states(program: ExportedProgram) -> dict[str, str]:
    """Tag the mutated buffers that a delegate can own, because it does all reading and writing of them.

    The others, which it gives with the reasons, stay with ExecuTorch: that gives them to the delegates and copies back
    what they make.
    """
    signature = program.graph_signature
    placeholders = {signature.inputs_to_buffers[node.name]: node for node in mutated_placeholders(program)}
    output = program.graph.output_node()
    kept = {}
    for value, spec in zip(output.args[0], signature.output_specs, strict=True):
        if spec.kind != OutputKind.BUFFER_MUTATION:
            continue
        assert isinstance(value, Node)
        assert spec.target is not None
        buffer = placeholders[spec.target]
        _bring_together(buffer, value)
        reason = _why_not_owned(buffer, value, output)
        if reason is None:
            buffer.meta[TAG] = value.meta[TAG]
        else:
            kept[spec.target] = reason
            _release_lone_clones(buffer, value)
    return kept


def _why_not_owned(buffer: Node, written: Node, output: Node) -> str | None:
    tags = {node.meta.get(TAG) for node in (written, *buffer.users)}
    if None in tags:
        return "it is read or written by what stays with ExecuTorch"
    if len(tags) > 1:
        return "it is read by one delegate and written by another, with ops of ExecuTorch between them"
    if list(written.users) != [output] or list(output.args[0]).count(written) > 1:  # type: ignore[arg-type] # an output's are a tuple
        return "what is written to it is used elsewhere too"
    return None if buffer.users else "nothing reads it"


def _bring_together(buffer: Node, written: Node) -> None:
    """Put the node that reads a buffer and the one written to it into one delegate, where that makes no cycle."""
    read = next(iter(buffer.users), None)
    if read is None or len(buffer.users) > 1 or not (_is_clone(read) and _is_clone(written)):
        return
    source = written.args[0]
    assert isinstance(source, Node)
    if TAG in source.meta:
        written.meta[TAG] = source.meta[TAG]  # nothing comes after it
    here, there = read.meta.get(TAG), written.meta.get(TAG)
    if here is None or there is None or here == there:
        return
    readers = _with_users(read, here)
    after_read = [user for node in readers for user in node.users if user.meta.get(TAG) not in (here, there)]
    after_here = [user for node in _members(read.graph, here) for user in node.users if user.meta.get(TAG) != here]
    if not _reaches(after_read, set(_members(read.graph, there))):
        for node in readers:
            node.meta[TAG] = there
    elif not _reaches([user for user in after_here if user is not written], {written}):
        written.meta[TAG] = here


def _release_lone_clones(buffer: Node, written: Node) -> None:
    """A delegate that would only copy a buffer is none."""
    for node in (*buffer.users, written):
        if TAG in node.meta and all(_is_clone(other) for other in _members(node.graph, node.meta[TAG])):
            for other in _members(node.graph, node.meta[TAG]):
                del other.meta[TAG]


def _with_users(node: Node, tag: str) -> set[Node]:
    """A node and all that depends on it within its delegate."""
    found, waiting = {node}, [node]
    while waiting:
        users = {user for user in waiting.pop().users if user.meta.get(TAG) == tag} - found
        found |= users
        waiting += users
    return found


def _members(graph: Graph, tag: str) -> list[Node]:
    return [node for node in graph.nodes if node.meta.get(TAG) == tag]


def _reaches(starts: Sequence[Node], goals: set[Node]) -> bool:
    """Whether one of the nodes, or what runs after it, is a goal; a delegate runs as a whole."""
    members: dict[str, list[Node]] = {}
    for start in starts[:1]:
        for node in start.graph.nodes:
            if TAG in node.meta:
                members.setdefault(node.meta[TAG], []).append(node)
    waiting, seen = list(starts), set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        together = members.get(node.meta.get(TAG, ""), [node])
        seen.update(together)
        if not goals.isdisjoint(together):
            return True
        waiting += [user for one in together for user in one.users]
    return False


def _is_clone(node: Node) -> bool:
    return overload_of(node) in (torch.ops.aten.clone.default, torch.ops.dim_order_ops._clone_dim_order.default)


class StateNames:
    """Names the states of a program's methods: one tensor has one name, and one name stands for one tensor.

    A state is called like the buffer it is. Where another tensor has that name already, the method's name is added.
    With ``by_name``, buffers of the same name are taken to be the same.
    """

    def __init__(self, methods: Mapping[str, Sequence[ExportedProgram]], *, by_name: bool = False) -> None:
        self._by_name = by_name
        self._names: dict[Any, str] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        for method, partitions in methods.items():
            for program in partitions:
                for target in program.graph_signature.buffers_to_mutate.values():
                    self._declare(method, target, buffer_of(program, target))

    def of(self, program: ExportedProgram) -> dict[str, str]:
        """The names of a partition's buffers that are states: some method mutates them, if not this one."""
        found = {}
        for target in program.graph_signature.inputs_to_buffers.values():
            name = self._names.get(self._identity(target, buffer_of(program, target)))
            if name is not None:
                found[target] = name
        return found

    def _identity(self, target: str, tensor: torch.Tensor) -> Any:
        """What tells one buffer from another: where it lies in memory."""
        place = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
        return target if self._by_name else (*place, tensor.shape, tensor.stride(), tensor.dtype)

    def _declare(self, method: str, target: str, tensor: torch.Tensor) -> None:
        identity = self._identity(target, tensor)
        if identity in self._names:
            return
        other = self._tensors.get(target)
        if other is not None and (other.shape, other.dtype) == (tensor.shape, tensor.dtype):
            warnings.warn(
                f"buffer {target} of method {method} is another tensor than in the methods before it, so they do not "
                f"share it; if they should, export one module, or pass GgmlPartitioner(states_by_name=True)",
                stacklevel=2,
            )
        name = target if other is None else f"{target}@{method}"
        self._names[identity] = name
        self._tensors[name] = tensor
