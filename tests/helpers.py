"""One-line checks: a module or an ATen overload against eager PyTorch, in the IR's interpreter and natively.

`check_program` lowers an export directly: fast, and the overloads stay those that the test calls. `check_delegate` goes
the user's way, through `to_edge_transform_and_lower` and a `.pte`. `op` declares a case of one overload for the tables
of `tests/frontends/aten`, which `tests.batches` runs in several memory layouts at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_unflatten

import executorch_ggml
from executorch_ggml._export import executorch_config
from executorch_ggml.frontends.aten import LOWERINGS, Lowering
from executorch_ggml.frontends.aten.graph import is_size_node
from executorch_ggml.frontends.aten.registry import PRESERVED, overload_of
from executorch_ggml.frontends.aten.weights import WeightSource
from executorch_ggml.ir.dims import free_symbols
from executorch_ggml.ir.graph import Graph, IRError, Symbol
from executorch_ggml.ir.interpreter import Interpreter
from executorch_ggml.ir.ops.movement import shape_of
from executorch_ggml.ir.panels import unpack_panels
from executorch_ggml.ir.serialize import deserialize, serialize
from executorch_ggml.ir.storage import PLAIN, Storage, unpack
from executorch_ggml.ir.verify import verify
from executorch_ggml.partition import GgmlPartitioner
from executorch_ggml.partition.backend import ALL_FUSIONS
from executorch_ggml.partition.spool import bytes_of
from executorch_ggml.passes import PASSES, run_passes
from executorch_ggml.runtime import Session
from executorch_ggml.targets import for_targets

TOLERANCE = 1e-5
# Results of half types are rounded once, as torch's are, from sums that differ in their last bits: they may be the next
# number, which in f16 is 2 ** -10 of the magnitude away, and in bf16 2 ** -7.
TOLERANCES = {torch.float16: 1.1e-3, torch.bfloat16: 8e-3}
DYNAMIC = torch.export.Dim.DYNAMIC

aten = torch.ops.aten

Inputs = tuple[Any, ...]


# ---------------------------------------------------------------------------------------------------------- comparing


def assert_same(actual: Any, expected: Any, tolerance: float = TOLERANCE, what: str = "") -> None:
    """Equal dtype and shape, NaN and infinities in the same places, the rest close for the largest magnitude."""
    if not isinstance(expected, Tensor):
        expected = torch.tensor(expected)
    assert isinstance(actual, Tensor), f"{what}: {actual!r} is no tensor"
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), what
    if not expected.dtype.is_floating_point:
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, msg=lambda m: f"{what}: {m}")
        return
    finite = torch.isfinite(expected)
    assert torch.equal(finite, torch.isfinite(actual)), f"{what}: not finite in other places: {actual} and {expected}"
    torch.testing.assert_close(actual[~finite], expected[~finite], equal_nan=True, msg=lambda m: f"{what}: {m}")
    if finite.any():
        bound = max(tolerance, TOLERANCES.get(expected.dtype, 0.0)) * float(expected[finite].abs().max())
        worst = float((actual[finite].double() - expected[finite].double()).abs().max())
        assert worst <= bound, f"{what}: off by {worst:.3g}, allowed {bound:.3g}\n{actual}\n{expected}"


def as_list(outputs: Any) -> list[Any]:
    """Several outputs, or the one, as a list."""
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def assert_all_same(actual: Any, expected: Any, tolerance: float = TOLERANCE, what: str = "") -> None:
    """`assert_same` for each output."""
    given, wanted = as_list(actual), as_list(expected)
    assert len(given) == len(wanted), f"{what}: {len(given)} outputs, expected {len(wanted)}"
    for index, (a, e) in enumerate(zip(given, wanted, strict=True)):
        assert_same(a, e, tolerance, f"{what}: output {index}")


# ------------------------------------------------------------------------------------------------- direct lowering


class Calls(nn.Module):
    """A function as a module; `buffers` are registered, so that export sees them as constants."""

    def __init__(self, function: Callable[..., Any], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def as_module(function: Callable[..., Any]) -> nn.Module:
    """A module as it is, any other function wrapped in one."""
    return function.eval() if isinstance(function, nn.Module) else Calls(function)


def exported(function: Callable[..., Any], args: Inputs, dynamic: Any = None) -> torch.export.ExportedProgram:
    """The exported program; `dynamic` has a dynamic_shapes entry for each input."""
    shapes = None if dynamic is None else tuple(dynamic)
    module = as_module(function)
    if shapes is not None and isinstance(module, Calls):
        shapes = (shapes,)  # its inputs are one variadic argument
    return torch.export.export(module, args, dynamic_shapes=shapes)


def lowered(
    function: Callable[..., Any],
    args: Inputs,
    dynamic: Any = None,
    *,
    fusions: frozenset[str] = ALL_FUSIONS,
    weights: WeightSource | None = None,
) -> Graph:
    """A function's graph for the CPU, lowered from its export without decompositions; verified after each pass."""
    graph = Lowering(
        decomposed(exported(function, args, dynamic)), integer_weights="integer_weights" in fusions, weights=weights
    ).graph()
    verify(graph)
    for name in filter(fusions.__contains__, PASSES):
        graph = run_passes(graph, {name})
        verify(graph)
    return for_cpu(graph)


def for_cpu(graph: Graph) -> Graph:
    """A graph with the CPU's kernels, verified."""
    (graph,) = for_targets(graph, ["cpu"])
    verify(graph)
    return graph


def decomposed(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program in core ATen, but for the composites that are lowered whole; without assertions, as Edge has it."""
    calls = [node for node in program.graph.nodes if node.op == "call_function" and not is_size_node(node)]
    if all(node.target in LOWERINGS for node in calls):
        return program  # what decomposing would leave as it is, at some cost
    table = torch.export.default_decompositions()
    for overload in PRESERVED:
        table.pop(overload, None)
    made = program.run_decompositions(table)
    for node in list(made.graph.nodes):
        if node.target == aten._assert_tensor_metadata.default:
            made.graph.erase_node(node)
    return made


def session(graph: Graph, *, threads: int = 2) -> Session:
    """A native session on the CPU of a graph whose constants carry their data."""
    graph = for_cpu(graph)
    constants = {constant.key: constant.stored() for constant in graph.named_constants()}
    return Session(serialize(graph), constants, threads=threads)


def run_session(ready: Session, inputs: Inputs) -> list[Tensor]:
    """A session's outputs as tensors; Python numbers are passed as the runtime wants them."""
    arrays = [value if isinstance(value, Tensor) else torch.tensor(value) for value in inputs]
    return [torch.as_tensor(output) for output in ready.run(*arrays)]


def run_interpreter(graph: Graph, inputs: Inputs) -> list[Tensor]:
    """The outputs by the op table's references."""
    return Interpreter(graph).run(*(value if isinstance(value, Tensor) else torch.tensor(value) for value in inputs))


def batch_of(graph: Graph) -> Symbol | None:
    """The symbol that counts samples which a graph for the CPU computes apart."""
    return next((entry for entry in graph.symbols if entry.batch), None)


def run_apart(graph: Graph, batch: Symbol, inputs: Inputs) -> list[Tensor]:
    """The outputs by the op table's references, one sample after the other."""
    tensors = [value if isinstance(value, Tensor) else torch.tensor(value) for value in inputs]
    samples = tensors[batch.input].shape[0] // batch.scale
    of_batch = [batch.symbol in free_symbols(port.shape) for port in graph.inputs]

    def part(sample: int) -> list[Tensor]:
        return [x.tensor_split(samples)[sample] if of else x for x, of in zip(tensors, of_batch, strict=True)]

    parts = [run_interpreter(graph, tuple(part(sample))) for sample in range(samples)]
    return [torch.cat(outputs) for outputs in zip(*parts, strict=True)]


def check_program(
    function: Callable[..., Any],
    *args: Any,
    dynamic: Any = None,
    others: Sequence[Inputs] = (),
    tolerance: float = TOLERANCE,
    fusions: frozenset[str] = ALL_FUSIONS,
) -> Graph:
    """Lower a function's core ATen; interpreter and native runtime must agree with eager on `args` and on `others`."""
    graph = lowered(function, args, dynamic, fusions=fusions)
    ready = session(graph)
    for number, inputs in enumerate((args, *others)):
        expected = as_module(function)(*inputs)
        what = f"inputs {number}"
        assert_all_same(run_interpreter(graph, inputs), expected, tolerance, f"interpreter, {what}")
        assert_all_same(run_session(ready, inputs), expected, tolerance, f"session, {what}")
        batch = batch_of(graph)
        if batch is not None and inputs[batch.input].numel() > 0:
            assert_all_same(run_apart(graph, batch, inputs), expected, tolerance, f"samples apart, {what}")
    return graph


def check_refused(function: Callable[..., Any], *args: Any, reason: str, dynamic: Any = None) -> None:
    """Some node of a function must be refused, and not by accident: with a reason that matches."""
    assert_refused(decomposed(exported(function, args, dynamic)), reason)


def assert_refused(program: torch.export.ExportedProgram, reason: str) -> None:
    """Some call is refused with a reason that matches."""
    lowering = Lowering(program)
    found = [lowering.refusal(node) for node in program.graph.nodes if node.op == "call_function"]
    assert any(text is not None and re.search(reason, text) for text in found), f"refusals: {found}"


# ------------------------------------------------------------------------------------------------ the user's way


@dataclass(frozen=True)
class Delegated:
    """What became of a model on the user's way."""

    delegates: list[LoweredBackendModule]
    left: list[str]  # the ops that ExecuTorch's own kernels run
    partitioner: GgmlPartitioner
    path: Path

    def graph(self, index: int = 0) -> Graph:
        """A delegate's IR, read back from its bytes, with its constants' data."""
        delegate = self.delegates[index]
        graph = deserialize(delegate.processed_bytes)
        store = delegate.named_data_store_output
        assert store is not None
        for constant in graph.named_constants():
            raw = bytes_of(store.buffers[store.pte_data[constant.key].buffer_index])
            dtype = torch.uint8 if constant.value.dtype.is_quantized else constant.value.dtype.torch
            contents = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0)
            if constant.storage == PLAIN:
                constant.data = lambda contents=contents: contents
            elif constant.storage.kind == Storage.PANELS:
                constant.data = partial(unpack_panels, contents, constant.value.dtype, constant.shape)
            else:
                constant.data = partial(unpack, contents, shape_of(constant.value.ne), constant.storage)
        return graph

    def load(self) -> executorch_ggml.Module:
        """The program, loaded from its file."""
        return executorch_ggml.load(self.path)


def delegates_of(edge: EdgeProgramManager) -> list[LoweredBackendModule]:
    """The delegates of a lowered program, in order."""
    graph_module = edge.exported_program().graph_module
    modules = (getattr(graph_module, str(node.target)) for node in graph_module.graph.find_nodes(op="get_attr"))
    return [module for module in modules if isinstance(module, LoweredBackendModule)]


def left_of(edge: EdgeProgramManager) -> list[str]:
    """The computing ops of a lowered program that no delegate took."""
    calls = (node for node in edge.exported_program().graph.nodes if node.op == "call_function")
    names = [str(overload_of(node)) for node in calls if not is_size_node(node)]
    return [name for name in names if "getitem" not in name and "call_delegate" not in name]


def delegated(
    function: Callable[..., Any], args: Inputs, path: Path, dynamic: Any = None, weights: WeightSource | None = None
) -> Delegated:
    """Export, partition, and write the program below the folder `path`."""
    partitioner = GgmlPartitioner(weights=weights)
    edge = to_edge_transform_and_lower(exported(function, args, dynamic), partitioner=[partitioner])
    delegates, left = delegates_of(edge), left_of(edge)  # before to_executorch, which works in place
    target = path / "program.pte"
    with target.open("wb") as file:
        edge.to_executorch(executorch_config()).write_to_file(file)
    return Delegated(delegates, left, partitioner, target)


def check_delegate(
    function: Callable[..., Any],
    *args: Any,
    path: Path,
    dynamic: Any = None,
    others: Sequence[Inputs] = (),
    tolerance: float = TOLERANCE,
    partitions: int = 1,
    left: Sequence[str] = (),
) -> Delegated:
    """The whole way through a `.pte`, with exactly `left` outside of `partitions` delegates, must agree with eager.

    Where all of it is one delegate, the delegate's IR is also run in the interpreter.
    """
    made = delegated(function, args, path, dynamic)
    refused = made.partitioner.refused
    assert sorted(made.left) == sorted(left), f"left to ExecuTorch: {made.left}, because {refused}"
    assert len(made.delegates) == partitions, f"{len(made.delegates)} delegates; refused: {refused}"
    module = made.load()
    for number, inputs in enumerate((args, *others)):
        expected = as_module(function)(*inputs)
        assert_all_same(module(*inputs), expected, tolerance, f".pte, inputs {number}")
    return made


# ---------------------------------------------------------------------------------------------- tables of overloads


@dataclass(frozen=True)
class Const:
    """Marks a tensor argument of `op` as a constant of the program."""

    tensor: Tensor


def const(*shape: int, low: float = -1.0, high: float = 1.0) -> Const:
    """A random constant."""
    return Const(torch.empty(shape).uniform_(low, high, generator=_generator(shape)))


@dataclass(frozen=True)
class Case:
    """One overload with its arguments: tensors become the program's inputs, the rest is part of the call."""

    overload: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    name: str = ""
    layouts: bool = True  # also with inputs that are permuted and strided views inside the program
    tolerance: float = TOLERANCE
    refused: str | None = None
    dynamic: tuple[dict[int, Any] | None, ...] | None = None
    others: tuple[Inputs, ...] = ()
    keep: tuple[int, ...] | None = None  # which of several results are read

    @property
    def id(self) -> str:
        """The test's name."""
        shapes = ["x".join(map(str, t.shape)) or "scalar" for t in self.inputs]
        label = self.name or ",".join(shapes + [str(a) for a in self.args if isinstance(a, (int, float, bool, list))])
        return f"{self.overload}-{label}".replace(" ", "")

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return [leaf for leaf in tree_flatten((self.args, self.kwargs))[0] if isinstance(leaf, Tensor)]

    def module(self) -> OneOp:
        """A module that calls the overload on its inputs, and where layouts matter, on views of them."""
        judged = self.layouts and self.dynamic is None and self.refused is None
        return OneOp(self, judged and any(t.dim() > 0 for t in self.inputs))


def op(overload: OpOverload, *args: Any, **kwargs: Any) -> Case:
    """A case; refine it with `having`."""
    return Case(overload, args, kwargs)


def having(case: Case, **changes: Any) -> Case:
    """A case with other fields: name, layouts, tolerance, refused, dynamic, others, keep."""
    return replace(case, **changes)


class OneOp(nn.Module):
    """Calls a case's overload: on its inputs, and with `layouts`, also on views of other tensors."""

    def __init__(self, case: Case, layouts: bool) -> None:
        super().__init__()
        self.case = case
        self.layouts = layouts
        leaves, self.spec = tree_flatten((case.args, case.kwargs))
        self.leaves = [leaf.tensor if isinstance(leaf, Const) else leaf for leaf in leaves]
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, Const):
                self.register_buffer(f"constant_{index}", leaf.tensor)

    def given(self) -> Inputs:
        """The inputs: the case's own, then the sources that the views are taken from."""
        own = self.case.inputs
        if not self.layouts:
            return tuple(own)
        return (*own, *(permuted_source(t) for t in own), *(strided_source(t) for t in own))

    def forward(self, *inputs: Tensor) -> Any:
        if not self.layouts:
            return self._call(inputs)
        count = len(inputs) // 3
        permuted = [permuted_view(t) for t in inputs[count : 2 * count]]
        strided = [strided_view(t) for t in inputs[2 * count :]]
        return [made for views in (inputs[:count], permuted, strided) for made in as_list(self._call(views))]

    def _call(self, inputs: Sequence[Tensor]) -> Any:
        source = iter(inputs)
        leaves = []
        for index, leaf in enumerate(self.leaves):
            constant = getattr(self, f"constant_{index}", None)
            value = constant if constant is not None else next(source) if isinstance(leaf, Tensor) else leaf
            leaves.append(value)
        args, kwargs = tree_unflatten(leaves, self.spec)
        made = self.case.overload(*args, **kwargs)
        if self.case.keep is not None:
            made = [made[index] for index in self.case.keep]
        return [_readable(item) for item in as_list(made)]


def _readable(made: Tensor) -> Tensor:
    """numpy, and so a session's result, has no bfloat16: it is widened, which loses nothing."""
    return aten._to_copy.default(made, dtype=torch.float32) if made.dtype == torch.bfloat16 else made


def permuted_source(tensor: Tensor) -> Tensor:
    """What `permuted_view` gives the tensor back from."""
    return permuted_view(tensor).contiguous()


def permuted_view(source: Tensor) -> Tensor:
    """A view with the dims reversed, or where ggml has too few dims for that, the first and the last one swapped."""
    if source.dim() < 2:
        return source
    return source.transpose(0, -1) if source.dim() > 4 else source.permute(*reversed(range(source.dim())))


def strided_source(tensor: Tensor) -> Tensor:
    """What `strided_view` gives the tensor back from: a larger tensor with other values between."""
    if tensor.dim() == 0:
        return tensor
    rest = tensor.shape[:-1]
    wide = torch.ones(*rest, 2 * tensor.shape[-1] + 1, dtype=tensor.dtype)
    wide[..., 1::2] = tensor
    return wide


def strided_view(source: Tensor) -> Tensor:
    """A view of every other element along the last dim."""
    return source[..., 1::2] if source.dim() else source


def of_type(case: Case, dtype: torch.dtype) -> Case | None:
    """The case with its f32 tensors in another float type, or None where it has none."""

    def cast(leaf: Any) -> Any:
        if isinstance(leaf, Const):
            return Const(cast(leaf.tensor))
        return leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.dtype == torch.float32 else leaf

    leaves, spec = tree_flatten((case.args, case.kwargs))
    made = [cast(leaf) for leaf in leaves]
    if all(new is old or getattr(old, "dtype", dtype) == dtype for new, old in zip(made, leaves, strict=True)):
        return None
    args, kwargs = tree_unflatten(made, spec)
    others = tuple(tuple(cast(leaf) for leaf in inputs) for inputs in case.others)
    return replace(case, args=args, kwargs=kwargs, others=others, layouts=False)


def refused_reason(function: Callable[..., Any], args: Inputs) -> str | None:
    """Why a function as a whole cannot be lowered, or None."""
    try:
        lowered(function, args)
    except IRError as error:
        return str(error)
    return None


# ------------------------------------------------------------------------------------------------------------ values


def _generator(shape: Sequence[int]) -> torch.Generator:
    """Random, but the same in every run and process, in whichever order tests are collected."""
    seed = 7
    for size in shape:
        seed = seed * 31 + size + 1
    return torch.Generator().manual_seed(seed)


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random numbers: normal ones for floats, small ones of both signs for integers, or booleans."""
    generator = _generator(shape)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    low = 0 if dtype == torch.uint8 else -9
    return torch.randint(low, 10, shape, generator=generator).to(dtype)


def ints(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Random small integers."""
    return rand(*shape, dtype=dtype)


def bools(*shape: int) -> Tensor:
    """Random booleans."""
    return rand(*shape, dtype=torch.bool)


def index(size: int, *shape: int, negative: bool = False) -> Tensor:
    """Random indices into `size` things."""
    low = -size if negative else 0
    return torch.randint(low, size, shape, generator=_generator((size, *shape)))


inf, nan = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 6.0, 1e-30, -1e-30, 30.0, -30.0, inf, -inf, nan]


def special(dtype: torch.dtype = torch.float32) -> Tensor:
    """Zeros, halves, tiny and large numbers, infinities and NaN."""
    return torch.tensor(SPECIAL).to(dtype)
