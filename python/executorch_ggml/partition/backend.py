"""The ahead-of-time half of the delegate: a partition's program in, IR bytes and named constants out."""

from __future__ import annotations

import copy
import json
import weakref
from collections.abc import Callable, Collection
from typing import cast, final

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, CompileSpec, PreprocessResult
from torch.export import ExportedProgram

from ..frontends.aten import Lowering
from ..frontends.aten.weights import WeightSource
from ..ir.dtypes import DType
from ..ir.graph import Constant, IRError, State
from ..ir.serialize import serialize
from ..passes import LAYOUTS, PASSES, PRECISIONS, quantize_states, run_passes, summary
from ..progress import counted
from ..targets import TARGETS, for_targets
from .debug_handles import debug_handles, mark_traced
from .spool import Spool, buffered
from .states import StateNames

# Constants are used in place from the mapped file: ggml asks for 32 bytes, a cache line is kinder.
ALIGNMENT = 64

WEIGHTS_FILE_KEY = "weights_file"  # compile spec: the name of the .ptd file that constants go to

STATES_BY_NAME_KEY = "states_by_name"  # compile spec: buffers of one name are one state
FUSIONS_KEY = "fusions"  # compile spec: the names of the fusions to use, joined by commas, where not all
TARGETS_KEY = "targets"  # compile spec: the names of the targets, joined by commas, where not all
LAYOUT_KEY = "layout"  # compile spec: whose layout quantized matrices are stored in, where not ggml's
PRECISION_KEY = "precision"  # compile spec: what layers of float32 are computed in, where not in that
STATE_TYPES_KEY = "state_types"  # compile spec: quantized types of states by pattern, as JSON
WEIGHTS_KEY = "weights"  # compile spec: where weights come from, a WeightsValue
GGUF_NAME = "executorch_ggml.gguf#"  # and a file's id: its name, in the named data of a program that needs it
STATES_MARKER = (
    "executorch_ggml.states"  # in the named data of a program with something to share: see program_states.cpp
)

# What several nodes of the program become one for, by name; any of it can be switched off.
FUSIONS = {
    **{name: summary(name) for name in PASSES},
    "integer_weights": "Weights that torch quantized to integers, as blocks of a ggml type that holds them exactly",
}
ALL_FUSIONS = frozenset(FUSIONS)


class WeightsValue(bytes):
    """A compile spec's value that takes the source of weights to ``preprocess``: the program gets the bytes, none.

    The partitioner keeps the source alive, and lowered modules, which keep their specs, do not.
    """

    _source: Callable[[], WeightSource | None]

    @classmethod
    def of(cls, source: WeightSource) -> WeightsValue:
        """The value for a source."""
        value = cls()
        value._source = weakref.ref(source)
        return value

    def source(self) -> WeightSource:
        """The source; RuntimeError where it is gone."""
        source = self._source()
        if source is None:
            raise RuntimeError("the source of the weights is gone: keep the partitioner until the program is lowered")
        return source


@final
class GgmlBackend(BackendDetails):
    """ExecuTorch backend for ggml. ``preprocess`` is called by ``to_edge_transform_and_lower`` for each partition."""

    @classmethod
    def copy_exported_program_for_preprocess(
        cls, edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> ExportedProgram:
        """The program with its graph copied and its tensors as they are: which one is which tells states apart."""
        del compile_specs
        tensors = [*edge_program.state_dict.values(), *edge_program.constants.values()]
        return copy.deepcopy(edge_program, {id(tensor): tensor for tensor in tensors})

    @classmethod
    def preprocess_multimethod(
        cls, edge_programs: dict[str, list[ExportedProgram]], compile_specs: dict[str, list[list[CompileSpec]]]
    ) -> dict[str, list[PreprocessResult]]:
        """Lower the partitions of all methods; a buffer that one of them mutates is one state for all of them."""
        every = [spec for method in compile_specs.values() for specs in method for spec in specs]
        names = StateNames(edge_programs, by_name=any(spec.key == STATES_BY_NAME_KEY for spec in every))
        applied: set[str] = set()
        results = {
            method: [
                _preprocess(program, specs, names, applied)
                for program, specs in zip(programs, compile_specs[method], strict=True)
            ]
            for method, programs in edge_programs.items()
        }
        check_applied({f"{spec.key}={spec.value.decode()}" for spec in every if spec.key in _UNUSED} - applied)
        return results

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Lower one partition. Its constants go to the program's named data, keyed by name and contents."""
        return _preprocess(edge_program, compile_specs, StateNames({"forward": [edge_program]}), set())


_UNUSED = {
    PRECISION_KEY: "no layer with constant weights in float32 (bf16, f16: or in these) is computed by ggml, or all are "
    "stored in other types (quantize=, weights=); leave the precision out",
    LAYOUT_KEY: "no matrix of the program is stored in a type that has panels (q4_0, q4_k, q6_k: quantize=, weights=) "
    "and read by products alone; leave the layout out",
}


def check_applied(unused: Collection[str]) -> None:
    """Raise ValueError for options ("precision=bf16") that changed nothing in a program."""
    for option in unused:
        key, _, value = option.partition("=")
        raise ValueError(f"{key} {value!r}: {_UNUSED[key]}")


def _preprocess(
    program: ExportedProgram, specs: list[CompileSpec], names: StateNames, applied: set[str]
) -> PreprocessResult:
    """Lower a partition. Its precision and its layout are added to ``applied``, if they change anything in it."""
    states = names.of(program)
    options = {spec.key: spec.value.decode() for spec in specs}
    fusions = frozenset(options[FUSIONS_KEY].split(",")) if FUSIONS_KEY in options else ALL_FUSIONS
    weights = next((cast(WeightsValue, spec.value).source() for spec in specs if spec.key == WEIGHTS_KEY), None)
    types = {pattern: DType[name] for pattern, name in json.loads(options.get(STATE_TYPES_KEY, "{}")).items()}
    integers = "integer_weights" in fusions
    graph = Lowering(program, integer_weights=integers, states=frozenset(states), weights=weights).graph()
    targets = options[TARGETS_KEY].split(",") if TARGETS_KEY in options else TARGETS
    passes = fusions if "cpu" in targets else fusions - {"blocked_weights"}
    precision = options.get(PRECISION_KEY)
    graph = run_passes(graph, passes, precision)
    if precision is not None and PRECISIONS[precision].applies(graph):
        applied.add(f"{PRECISION_KEY}={precision}")
    graph = quantize_states.run(graph, types)
    if (layout := options.get(LAYOUT_KEY)) is not None:
        graph = LAYOUTS[layout].run(graph)
        if LAYOUTS[layout].applies(graph):
            applied.add(f"{LAYOUT_KEY}={layout}")
    graphs = for_targets(graph, targets)
    mark_traced(graphs, program)
    constants = list(dict.fromkeys(constant for made in graphs for constant in made.constants))
    store = _Store(options.get(WEIGHTS_FILE_KEY))
    inside = [constant for constant in constants if not constant.outside]
    for constant in counted("quantizing and packing weights", inside, lambda each: each.stored_bytes):
        store.add(constant, constant_data(constant))
    for state in dict.fromkeys(state for made in graphs for state in made.states):
        _store_first(store, state)
        state.key = states[state.key]
    if graph.states or any(constant.value.dtype.is_quantized for constant in constants):
        store.named.add_named_data(STATES_MARKER, bytes(1), ALIGNMENT)
    if any(constant.outside for constant in constants):
        for file, name in getattr(weights, "files", {}).items():
            store.named.add_named_data(f"{GGUF_NAME}{file}", name.encode())
    return PreprocessResult(
        processed_bytes=serialize(*graphs),
        debug_handle_map=debug_handles(graphs, program),
        data_store_output=store.named.get_named_data_store_output(),
    )


class _Store:
    """The named data of a partition, large constants of it in a temporary file."""

    def __init__(self, weights_file: str | None) -> None:
        self.named = NamedDataStore()
        self._weights_file = weights_file
        self._spool = Spool()

    def add(self, constant: Constant, data: torch.Tensor) -> None:
        """Write a constant's bytes, and add a digest of them to its key: other programs may use the same name."""
        buffer, digest = buffered(data.numpy().data, self._spool)
        constant.key = f"{constant.key}#{digest[:16]}"
        self.named.add_named_data(constant.key, buffer, ALIGNMENT, self._weights_file)


def _store_first(store: _Store, state: State) -> None:
    """Write a state's first contents, but for zeros: a state starts with these by itself."""
    if state.init is None:
        return
    data = constant_data(state.init)
    if bool(data.any()):
        store.add(state.init, data)
    else:
        state.init = None


def constant_data(constant: Constant) -> torch.Tensor:
    """A constant's contents as its storage layout has them: bytes in one dim, the module's own where it can be."""
    if constant.value.dtype.is_quantized:
        return _blocks(constant, constant.stored())
    flat = constant.stored().reshape(-1).to(constant.value.dtype.torch)
    if flat.stride() != (1,):  # contiguous() leaves a single element's stride as it is
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.detach().view(torch.uint8)


def _blocks(constant: Constant, data: torch.Tensor) -> torch.Tensor:
    expected = constant.stored_bytes
    if data.dtype != torch.uint8 or data.numel() != expected:
        raise IRError(
            f"constant {constant.key}: {data.numel()} elements of {data.dtype}, expected {expected} bytes for "
            f"{constant.value}"
        )
    return data.detach().contiguous()
