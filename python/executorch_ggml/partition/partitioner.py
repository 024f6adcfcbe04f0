"""Chooses the nodes that ggml runs: those whose real lowering accepts them."""

from __future__ import annotations

import copy
import json
import operator
import warnings
from collections.abc import Callable, Collection, Mapping

import torch
from executorch.exir.backend.backend_details import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from ..frontends.aten import Lowering
from ..frontends.aten.graph import is_size_node
from ..frontends.aten.registry import PRESERVED, overload_of
from ..frontends.aten.weights import WeightSource
from ..ir.dtypes import DType
from ..passes import check_layout, check_precision
from ..targets import TARGETS, check_targets
from .assertions import is_assertion, without_assertions
from .backend import (
    ALL_FUSIONS,
    FUSIONS,
    FUSIONS_KEY,
    LAYOUT_KEY,
    PRECISION_KEY,
    STATE_TYPES_KEY,
    STATES_BY_NAME_KEY,
    TARGETS_KEY,
    WEIGHTS_FILE_KEY,
    WEIGHTS_KEY,
    WeightsValue,
)
from .caches import forget_programs
from .complex_numbers import in_reals
from .compositions import composed
from .constants import fold_constants
from .control_flow import control_flow_fault, graph_modules, is_control_flow
from .empty_constants import without_empty_constants
from .folding import one_reader_each
from .fourier import with_basic_transforms
from .functional import FunctionalProgram, decomposed, decomposition_table
from .grouping import groups
from .kernels import missing_kernels, missing_kernels_text
from .memory_formats import contiguous_inside
from .outside_core import carried_through
from .ranges import keep_ranges
from .regions import inlined
from .states import TAG, separate_state_accesses, tag_states

# In this order: what is inside a region is seen once it is inlined, and compositions are real arithmetic.
_TRANSFORMS: tuple[Callable[[ExportedProgram], ExportedProgram], ...] = (
    inlined,
    without_assertions,
    with_basic_transforms,
    in_reals,
    composed,
    contiguous_inside,
    without_empty_constants,
)
REFUSED_KEY = "refused"  # compile spec: what stayed outside and why, as JSON, for `executorch-ggml inspect`


def refusals(
    program: ExportedProgram, weights: WeightSource | None = None, *, integer_weights: bool = True
) -> dict[Node, str]:
    """Why each call that ggml does not run is refused, in the bodies of control flow too."""
    lowering = Lowering(program, weights=weights, integer_weights=integer_weights)
    found = {}
    for module in graph_modules(program.graph_module):
        for node in module.graph.nodes:
            if node.op == "call_function" and (reason := _refusal(lowering, node)) is not None:
                found[node] = reason
    return found


def _refusal(lowering: Lowering, node: Node) -> str | None:
    if is_control_flow(node):
        return control_flow_fault(node) or "control flow is ExecuTorch's; its bodies are partitioned by themselves"
    return lowering.refusal(node)


class GgmlPartitioner(Partitioner):
    """Delegates every node that ggml computes right to :class:`GgmlBackend`; the rest stays with ExecuTorch's kernels.

    For ``to_edge_transform_and_lower(program, partitioner=[GgmlPartitioner()])``. After partitioning, ``refused`` has
    each node that was left, by name, with the reason, and ``kept_buffers`` each mutated buffer that ExecuTorch keeps.

    With ``weights_file`` the constants go to a file of their own: ``write_tensor_data_to_file(folder)`` of the
    ExecuTorch program writes ``<weights_file>.ptd``, and ``executorch_ggml.load(..., data_path=)`` reads it.

    Methods of one program share a buffer that they mutate where their modules do: where it is one tensor. With
    ``states_by_name`` they also share buffers of the same name that are copies of each other, as after a quantization.

    ``fusions`` are the names of those to use (all of :data:`executorch_ggml.partition.backend.FUSIONS` by default).

    ``weights`` says which parameters are stored in another type, or in another file: a quantization, a GGUF file.
    ``state_types`` has the quantized type (``{"*.keys": "q8_0"}``) of states that rows are written to, and that
    attention alone reads.

    ``precision`` says what layers with constant weights in float32 are computed in. With "bf16" and "f16" linear layers
    and convolutions have their weights in that type, also those whose weights the model or ``weights`` has in one of
    these two, and what they multiply is rounded to it first; sums and results are float32, and a CPU without
    instructions for the type gives the same numbers. With "int8-dynamic" linear layers have weights in int8, with a
    scale for each output channel, and what they multiply is rounded to int8 row by row at run time; convolutions stay
    in float32. With "bf16" attention over computed keys and values is in that type too, over a cache it is not. Other
    products of computed tensors stay in float32, and so do embeddings, with heads that share their matrix in a half
    type; quantized weights, and such in a GGUF file, stay as they are. Where no layer is left for it, lowering raises
    ValueError.

    ``layout="cpu"`` stores matrices of q4_0, q4_k and q6_k as the CPU's kernels read them, which otherwise are packed
    when the program is loaded: it is loaded at once, and its processes share the memory. Any CPU and device still runs
    the program, and unpacks what it reads otherwise. Where no matrix is of these types, or they stay in a GGUF file,
    lowering raises ValueError.

    What is left and has no kernel in ExecuTorch either is warned of: unless a partitioner after this one takes it, the
    program cannot run. ``own_kernels`` names kernels, or patterns of names (``mylib::*``), that the program's runtime
    registers itself.

    ``targets`` says where the program is to run: on the ``cpu``, with the runtime's own kernels, on ggml's other
    devices (``ggml``), or on both, which takes a second graph in the file but no second copy of the weights.
    """

    def __init__(
        self,
        *,
        weights_file: str | None = None,
        states_by_name: bool = False,
        fusions: Collection[str] = ALL_FUSIONS,
        weights: WeightSource | None = None,
        state_types: Mapping[str, str] | None = None,
        precision: str | None = None,
        layout: str | None = None,
        own_kernels: Collection[str] = (),
        targets: Collection[str] = TARGETS,
    ) -> None:
        super().__init__()
        if unknown := set(fusions) - ALL_FUSIONS:
            raise ValueError(f"no fusion is called {', '.join(sorted(unknown))}; there are {', '.join(FUSIONS)}")
        check_precision(precision, fusions)
        check_layout(layout)
        self.fusions = frozenset(fusions)
        self.precision = precision
        self.layout = layout
        self.state_types = {pattern: _quantized_type(name) for pattern, name in (state_types or {}).items()}
        self.weights_file = weights_file
        self.weights = weights
        self.states_by_name = states_by_name
        self.own_kernels = own_kernels
        self.targets = check_targets(targets)
        self.refused: dict[str, str] = {}
        self.kept_buffers: dict[str, str] = {}
        self._preserved: tuple[ExportedProgram, list[OpOverload]] | None = None

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """ExecuTorch calls this first.

        Autocast's regions are inlined, assertions dropped, complex numbers computed in reals, and some ops decomposed;
        between inputs and outputs all is contiguous. Ops that ExecuTorch would not let through get names that it does,
        and accesses to mutated buffers become such that a delegate can own them; what follows from parameters alone is
        folded, and dequantized weights have one reader each. The program is a copy: the constants that delegates take
        are not lost to the caller's.
        """
        if isinstance(exported_program, FunctionalProgram) and exported_program.transformed:
            return exported_program
        return self._prepared(_transformed(exported_program))

    def core_aten(self, exported_program: ExportedProgram) -> FunctionalProgram:
        """Transform and decompose a program as ExecuTorch does for this partitioner alone, with fewer traces.

        ExecuTorch neither transforms nor decomposes the result again.
        """
        table = decomposition_table()
        core = decomposed(_transformed(exported_program), table=table)
        core = decomposed(self._prepared(core), table=table)
        core = decomposed(core, kept=self.ops_to_not_decompose(core)[0], table=table)
        core.transformed = True
        return core

    def _prepared(self, program: ExportedProgram) -> ExportedProgram:
        """The transforms that need to know the weights, or what the lowering accepts."""
        program = fold_constants(program, self.weights)
        program = one_reader_each(separate_state_accesses(program))
        return carried_through(program, lambda overload: bool(self._accepted(program, {overload})))

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Composite ops (linear, attention, norms …) that are lowered whole, where every call of them is accepted."""
        keep_ranges(ep)  # ExecuTorch's passes before `partition` narrow them too
        if self._preserved is None or self._preserved[0] is not ep:
            self._preserved = (ep, self._accepted(ep, PRESERVED))
        return self._preserved[1], None

    def refusals(self, program: ExportedProgram) -> dict[Node, str]:
        """Why each call that ggml does not run is refused, with these weights and fusions."""
        return refusals(program, self.weights, integer_weights="integer_weights" in self.fusions)

    def _accepted(self, program: ExportedProgram, overloads: Collection[OpOverload]) -> list[OpOverload]:
        """Those that a program calls and of which no call is refused: one refusal gives the op to decomposition."""
        lowering = Lowering(program, weights=self.weights, integer_weights="integer_weights" in self.fusions)
        accepted: dict[OpOverload, bool] = {}
        for module in graph_modules(program.graph_module):
            for node in module.graph.nodes:
                target = overload_of(node)
                if node.op == "call_function" and target in overloads:
                    accepted[target] = accepted.get(target, True) and lowering.refusal(node) is None
        return [target for target, fits in accepted.items() if fits]

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes of each partition, the constants they read and the buffers that they alone read and write."""
        forget_programs()  # those of exports before this one
        refused = self.refusals(exported_program)
        left = {node: reason for node, reason in refused.items() if not is_assertion(node)}
        self.refused = {node.name: reason for node, reason in left.items()}
        self._warn_of_missing_kernels(exported_program, left)
        specs = [_refused_spec(left), *self._options()]
        tags: list[str] = []
        for module in graph_modules(exported_program.graph_module):
            for group in filter(computes, groups(module.graph, refused)):
                tags.append(f"ggml_{len(tags)}")
                for node in group:
                    node.meta[TAG] = tags[-1]
        keep_ranges(exported_program)
        tag_constant_data(exported_program)
        _release_returned_constants(exported_program)
        if self.weights is not None:
            _check_values_are_there(exported_program, self.weights)
        self.kept_buffers = tag_states(exported_program)
        return PartitionResult(exported_program, dict.fromkeys(tags, DelegationSpec("GgmlBackend", specs)))

    def _options(self) -> list[CompileSpec]:
        """What ``preprocess`` is to know, where it is not the default."""
        specs = []
        if self.weights_file is not None:
            specs.append(CompileSpec(WEIGHTS_FILE_KEY, self.weights_file.encode()))
        if self.states_by_name:
            specs.append(CompileSpec(STATES_BY_NAME_KEY, b""))
        if self.fusions != ALL_FUSIONS:
            specs.append(CompileSpec(FUSIONS_KEY, ",".join(sorted(self.fusions)).encode()))
        if self.targets != list(TARGETS):
            specs.append(CompileSpec(TARGETS_KEY, ",".join(self.targets).encode()))
        if self.weights is not None:
            specs.append(CompileSpec(WEIGHTS_KEY, WeightsValue.of(self.weights)))
        if self.layout is not None:
            specs.append(CompileSpec(LAYOUT_KEY, self.layout.encode()))
        if self.precision is not None:
            specs.append(CompileSpec(PRECISION_KEY, self.precision.encode()))
        if self.state_types:
            names = {pattern: dtype.name for pattern, dtype in self.state_types.items()}
            specs.append(CompileSpec(STATE_TYPES_KEY, json.dumps(names).encode()))
        return specs

    def _warn_of_missing_kernels(self, program: ExportedProgram, left: Collection[Node]) -> None:
        missing = [item for node, item in missing_kernels(program, self.own_kernels).items() if node in left]
        if missing:
            warnings.warn(
                f"unless a partitioner after GgmlPartitioner takes them: {missing_kernels_text(missing, self.refused)}",
                stacklevel=2,
            )


def _quantized_type(name: str) -> DType:
    known = {dtype.name.lower(): dtype for dtype in DType if dtype.is_quantized}
    if name not in known:
        raise ValueError(f"state_types: {name!r} is no quantized type; there are {', '.join(known)}")
    return known[name]


def _transformed(program: ExportedProgram) -> ExportedProgram:
    program = _with_own_constants(program)
    for transform in _TRANSFORMS:
        program = transform(program)
    return program


def _with_own_constants(program: ExportedProgram) -> ExportedProgram:
    own = copy.copy(program)
    own._constants = dict(program.constants)
    return own


def _release_returned_constants(program: ExportedProgram) -> None:
    """A constant that is itself an output stays with ExecuTorch, and is an input of the delegates that read it."""
    for node in program.graph.find_nodes(op="placeholder"):
        if TAG in node.meta and any(user.op == "output" for user in node.users):
            del node.meta[TAG]


def _check_values_are_there(program: ExportedProgram, weights: WeightSource) -> None:
    """Raise where ExecuTorch's kernels would read a parameter whose values the module does not hold."""
    for node in program.graph.find_nodes(op="placeholder"):
        name = program.graph_signature.inputs_to_parameters.get(node.name)
        outside = next((user for user in node.users if TAG not in user.meta), None)
        if name is None or outside is None:
            continue
        stored = weights.find(name, node.meta["val"])
        if stored is not None and stored.replaces:
            raise ValueError(
                f"{overload_of(outside)} stays with ExecuTorch and reads {name}, whose values are not in the module; "
                f"put them there (a GGUF file: load it with dequantize=True)"
            )


def computes(group: list[Node]) -> bool:
    """Whether a group of nodes does more than work out sizes."""
    return not all(is_size_node(node) or node.target is operator.getitem for node in group)


def _refused_spec(refused: dict[Node, str]) -> CompileSpec:
    rows = [{"node": node.name, "op": str(overload_of(node)), "reason": reason} for node, reason in refused.items()]
    return CompileSpec(REFUSED_KEY, json.dumps(rows).encode())
