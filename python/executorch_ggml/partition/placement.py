"""Where the nodes of a program's delegates are computed on one of ggml's devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sympy
import torch
from executorch.exir import EdgeProgramManager
from executorch.exir.lowered_backend_module import LoweredBackendModule, executorch_call_delegate
from torch.export import ExportedProgram

from ..ir.dims import evaluate
from ..ir.graph import Graph, Symbol
from ..ir.serialize import deserialize
from ..runtime.session import DeviceNames, DeviceUse, Placement, Session, device_list
from .backend import GgmlBackend
from .control_flow import graph_modules
from .spool import bytes_of


def placement(program: ExportedProgram, device: DeviceNames, *, smallest: bool = False) -> Placement:
    """Where the nodes of all ggml delegates are computed together, for the sizes of export or the smallest ones.

    Nothing is run. Raises RuntimeError where there is no such device, or too little memory on it.
    """
    placed: list[Placement] = []
    for delegate, arguments in delegates(program):
        graph = deserialize(delegate.processed_bytes)
        session = Session(delegate.processed_bytes, _constants(delegate), device=device)
        sizes = smallest_sizes(graph) if smallest else sizes_at(graph, arguments)
        placed.append(session.placement(*inputs_of_sizes(graph, sizes)))
    if not placed:
        return Placement((DeviceUse(device_list(device), 0, 0, 0, 0),), (), 0)
    uses = zip(*(delegate.devices for delegate in placed), strict=True)
    return Placement(
        tuple(_together(of_device) for of_device in uses),
        tuple(node for delegate in placed for node in delegate.nodes),
        sum(delegate.splits for delegate in placed),
    )


def _together(uses: Sequence[DeviceUse]) -> DeviceUse:
    """What several delegates have on one device."""
    return DeviceUse(uses[0].device, *(sum(numbers) for numbers in zip(*(use[1:] for use in uses), strict=True)))


def has_delegates(edge: EdgeProgramManager) -> bool:
    """Whether ggml computes anything of a program."""
    return any(True for method in edge.methods for _ in delegates(edge.exported_program(method)))


def delegates(program: ExportedProgram) -> Iterator[tuple[LoweredBackendModule, Sequence[Any]]]:
    """The delegates of ggml in a program, and the values that each is called with."""
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            if node.target is not executorch_call_delegate:
                continue
            delegate = getattr(module, node.args[0].target)
            if delegate.backend_id == GgmlBackend.__name__:
                yield delegate, [argument.meta["val"] for argument in node.args[1:]]


def _constants(delegate: LoweredBackendModule) -> dict[str, np.ndarray[Any, Any]]:
    """The bytes of its constants, by key."""
    store = delegate.named_data_store_output
    if store is None:
        return {}
    entries = [*store.pte_data.items(), *(item for file in store.external_data.values() for item in file.items())]
    return {key: np.frombuffer(bytes_of(store.buffers[entry.buffer_index]), np.uint8) for key, entry in entries}


def blank_constants(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """Zeros in the place of a graph's constants, which its placement does not depend on."""
    entries = graph.named_constants()
    return {entry.key: np.zeros(entry.stored_bytes, np.uint8) for entry in entries if not entry.key.startswith("gguf:")}


def sizes_at(graph: Graph, arguments: Sequence[Any]) -> dict[sympy.Symbol, int]:
    """The symbols' values that the program was exported with."""
    return {entry.symbol: _size(entry, arguments[entry.input]) for entry in graph.symbols}


def smallest_sizes(graph: Graph) -> dict[sympy.Symbol, int]:
    """The symbols' smallest values but 0."""
    return {entry.symbol: min(max(entry.min, 1), entry.max) for entry in graph.symbols}


def inputs_of_sizes(graph: Graph, sizes: Mapping[sympy.Symbol, int]) -> list[torch.Tensor]:
    """Inputs of a delegate, zeros but for the numbers that its symbols are read from."""
    inputs = [
        torch.zeros([evaluate(n, sizes) for n in port.shape], dtype=port.value.dtype.torch) for port in graph.inputs
    ]
    for entry in graph.symbols:
        if entry.dim < 0:
            inputs[entry.input].fill_(entry.scale * sizes[entry.symbol] + entry.offset)
    return inputs


def _size(symbol: Symbol, argument: Any) -> int:
    """A symbol's value at export; its least one where that is not known."""
    given = argument.shape[symbol.dim] if symbol.dim >= 0 else argument
    hint = given.node.hint if isinstance(given, torch.SymInt) else given
    known = (int(hint) - symbol.offset) // symbol.scale if isinstance(hint, int) else symbol.min
    return min(max(known, symbol.min), symbol.max)
