"""The ahead-of-time half of the delegate: a partition's program in, IR bytes and named constants out."""

from __future__ import annotations

import hashlib
from typing import final

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, CompileSpec, PreprocessResult
from torch.export import ExportedProgram

from ..ir.graph import Constant, Graph
from ..ir.serialize import serialize
from ..lower import Lowering

# Constants are used in place from the mapped file: ggml asks for 32 bytes, a cache line is kinder.
ALIGNMENT = 64

WEIGHTS_FILE_KEY = "weights_file"  # compile spec: the name of the .ptd file that constants go to


@final
class GgmlBackend(BackendDetails):
    """ExecuTorch backend for ggml. ``preprocess`` is called by ``to_edge_transform_and_lower`` for each partition."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Lower one partition. Its constants go to the program's named data, keyed by name and contents."""
        graph = Lowering(edge_program).graph()
        store = NamedDataStore()
        weights_file = next((spec.value.decode() for spec in compile_specs if spec.key == WEIGHTS_FILE_KEY), None)
        for constant in named_constants(graph):
            _store(store, constant, weights_file)
        return PreprocessResult(
            processed_bytes=serialize(graph), debug_handle_map={}, data_store_output=store.get_named_data_store_output()
        )


def named_constants(graph: Graph) -> list[Constant]:
    """The graph's constants and first contents of states."""
    return graph.constants + [state.init for state in graph.states if state.init is not None]


def _store(store: NamedDataStore, constant: Constant, weights_file: str | None) -> None:
    """Write a constant's bytes, and add a digest of them to its key: other programs may use the same name."""
    data = constant_bytes(constant)
    constant.key = f"{constant.key}#{hashlib.sha256(data).hexdigest()[:16]}"
    store.add_named_data(constant.key, data, ALIGNMENT, weights_file)


def constant_bytes(constant: Constant) -> bytes:
    """A constant's contents in ggml order, dense."""
    assert constant.data is not None, f"constant {constant.key} carries no data"
    flat = constant.data().reshape(-1).to(constant.value.dtype.torch)
    if flat.stride() != (1,):  # contiguous() leaves a single element's stride as it is
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
