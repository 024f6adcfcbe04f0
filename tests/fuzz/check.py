"""Whether a program's results are right: the interpreter, a native session and a delegate, against eager PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from tests.fuzz.differences import kills_eager, not_judged
from tests.fuzz.program import Program, Step, Traced, smallest
from tests.helpers import TOLERANCE, TOLERANCES, delegates_of, left_of, run_interpreter, run_session, session
from torch import Tensor

import executorch_ggml
from executorch_ggml._export import executorch_config
from executorch_ggml.frontends.aten import Lowering
from executorch_ggml.ir.graph import IRError
from executorch_ggml.ir.verify import verify
from executorch_ggml.partition import GgmlPartitioner
from executorch_ggml.passes import run_passes

# Ops that move elements and make none: the sign of a zero is kept too.
MOVES = re.compile(
    r"(_unsafe_view|alias|as_strided|_?clone|constant_pad_nd|detach|diagonal|embedding|expand|flatten|flip|full|gather|"
    r"full_like|cat|index|index_put|index_select|lift_fresh|masked_fill|masked_scatter|movedim|narrow|permute|"
    r"pixel_(un)?shuffle|(reflection|replication)_pad[123]d|repeat|repeat_interleave|reshape|roll|scatter|select|slice|"
    r"split|split_with_sizes|squeeze|stack|t|tile|_to|_to_dim_order|transpose|tril|triu|unbind|unfold|unsqueeze|"
    r"upsample_nearest[123]d|view|where|_clone_dim_order|select_scatter|slice_scatter)(_copy)?"
)
# Ops whose results are operands, or exact: they pass a rounding on and add none.
EXACT = re.compile(
    r"abs|all|amax|amin|any|arange|arg(max|min|sort)|bitwise_.*|bucketize|ceil|clamp(_max|_min)?|cummax|cummin|eq|floor|"
    r"ge|gt|hardtanh|is(finite|inf|nan|neginf|posinf)|le|logical_.*|lt|(adaptive_)?max_pool[123]d(_with_indices)?|max|"
    r"maximum|median|min|minimum|mode|ne|neg|nonzero|relu|round|searchsorted|sgn|sign|signbit|sort|threshold|topk|trunc"
)
EPSILON = {torch.float32: 2.0**-21, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
TRIALS = 8
SMALLEST = 1e-6  # differences below it are never wrong: results of rounding errors alone


class Wrong(AssertionError):  # noqa: N818 - what a check says
    """A result that is not eager's."""


class Skipped(Exception):  # noqa: N818 - no error
    """A program that says nothing: its results are not defined, or it is refused."""


def name_of(step: Step) -> str:
    """An overload's name without its namespace and overload."""
    return str(step.overload._schema.name.split("::")[1])


class Expected:
    """What eager gives for some inputs, and by how much rounding alone could change that."""

    def __init__(self, program: Program, given: Sequence[Tensor]) -> None:
        self.program = program
        self.inputs = list(given)
        self.outputs = program.run(self.inputs, _judged)
        self.moves = all(MOVES.fullmatch(name_of(step)) for step in program.steps)

    @cached_property
    def trials(self) -> list[list[Tensor]]:
        """Eager's results where every step that rounds is given, and gives, numbers a few roundings off."""
        made = []
        for seed in range(TRIALS):
            generator = torch.Generator().manual_seed(seed)

            def through(step: Step, tensors: list[Any], _: bool, generator: torch.Generator = generator) -> list[Any]:
                if MOVES.fullmatch(name_of(step)) or EXACT.fullmatch(name_of(step)):
                    return tensors
                return [_shaken(tensor, generator) for tensor in tensors]

            made.append(self.program.run(self.inputs, through))
        return made

    def check(self, actual: Sequence[Tensor], what: str) -> None:
        """Raise `Wrong` where the results are not right."""
        if len(actual) != len(self.outputs):
            raise Wrong(f"{what}: {len(actual)} results, expected {len(self.outputs)}")
        for index, (a, e) in enumerate(zip(actual, self.outputs, strict=True)):
            if (a.dtype, a.shape) != (e.dtype, e.shape):
                raise Wrong(f"{what}: {self.program.outputs[index]} is {a.dtype} {list(a.shape)}, expected {e.dtype}")
            bad = _unequal(a, e, self.moves)
            if bad.any() and not self.moves:
                bad &= ~self._excused(a, index)
            if bad.any():
                where = bad.nonzero()[:4].tolist()
                raise Wrong(
                    f"{what}: {self.program.outputs[index]} at {where}: {a[bad][:4].tolist()}, "
                    f"expected {e[bad][:4].tolist()}"
                )

    def _excused(self, actual: Tensor, index: int) -> Tensor:
        """Where eager itself would give something else for a few roundings more, and no less far off."""
        expected = self.outputs[index]
        trials = [trial[index] for trial in self.trials]
        if not expected.dtype.is_floating_point:
            return torch.stack([trial != expected for trial in trials]).any(0)
        classes = torch.stack([_kind(trial) != _kind(expected) for trial in trials]).any(0)
        wide = torch.stack([trial.double() for trial in trials]) - expected.double()
        reach = wide.abs().nan_to_num(0.0, 0.0, 0.0).amax(0)
        return classes | ((actual.double() - expected.double()).abs() <= 8 * reach)


def _judged(step: Step, tensors: list[Any], results: bool) -> list[Any]:
    if not results and kills_eager(step, tensors):
        raise Skipped("eager would end the process")
    reason = not_judged(name_of(step), step, tensors, results)
    if reason is not None:
        raise Skipped(reason)
    return tensors


def _shaken(tensor: Any, generator: torch.Generator) -> Any:
    if not isinstance(tensor, Tensor) or tensor.dtype not in EPSILON:
        return tensor
    noise = torch.randint(-1, 2, tensor.shape, generator=generator) * EPSILON[tensor.dtype]
    return (tensor.float() * (1 + noise)).to(tensor.dtype)


def _kind(tensor: Tensor) -> Tensor:
    """0 for numbers, 1 and -1 for infinities, 2 for NaN."""
    return torch.where(tensor.isnan(), 2, torch.where(tensor.isinf(), tensor.nan_to_num(0.0).sign(), 0)).int()


def _unequal(actual: Tensor, expected: Tensor, moves: bool) -> Tensor:
    """Where two tensors of one type and shape differ by more than rounding."""
    if not expected.dtype.is_floating_point:
        return actual != expected
    if moves:
        zeros = (expected == 0) & (actual.signbit() != expected.signbit())
        return ((actual != expected) & ~(actual.isnan() & expected.isnan())) | zeros
    wrong = _kind(actual) != _kind(expected)
    finite = expected.isfinite()
    if finite.any():
        scale = float(expected[finite].abs().max())
        bound = max(max(TOLERANCE, TOLERANCES.get(expected.dtype, 0.0)) * scale, SMALLEST)
        wrong |= finite & ((actual.double() - expected.double()).abs() > bound)
    return wrong


# ------------------------------------------------------------------------------------------------------------- checks


def failure(program: Program, way: Callable[[Program], None]) -> tuple[Program, str] | None:
    """The smallest program that fails as this one does, and how; None where it does not, or says nothing."""
    kind = why_not(program, way)
    if kind is None:
        return None
    small = smallest(program, lambda smaller: _kind_of(why_not(smaller, way)) == _kind_of(kind))
    return small, why_not(small, way) or kind


def why_not(program: Program, way: Callable[[Program], None]) -> str | None:
    """How a check of a program fails."""
    try:
        way(program)
    except Skipped:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:1000]}"
    return None


def _kind_of(why: str | None) -> str | None:
    return None if why is None else why.split(":")[0]


def check(program: Program) -> None:
    """Lower a program and run it both ways at all its sizes."""
    traced = _traced(program)
    try:
        graph = run_passes(Lowering(traced.program).graph())
    except IRError as error:
        if traced.names:
            raise Skipped(f"refused with symbols: {error}") from None
        raise Wrong(f"refused as a whole, not node by node: {error}") from error
    verify(graph)
    ready = session(graph)
    for symbols in (program.symbols, *program.others):
        expected = _expected(program, traced, symbols)
        if expected is None:
            continue
        user = program.user(expected.inputs)
        where = f" at {symbols}" if symbols else ""
        try:
            made = run_interpreter(graph, user)
        except IndexError:
            if symbols is program.symbols:
                raise
            continue  # indices beyond a smaller size, where eager reads nothing and so does not look
        expected.check(made, f"interpreter{where}")
        expected.check(run_session(ready, user), f"session{where}")


def _traced(program: Program) -> Traced:
    try:
        return program.graph()
    except Exception as error:
        if not program.symbols:
            raise
        raise Skipped("torch cannot trace it with symbols") from error


def _expected(program: Program, traced: Traced, symbols: dict[str, int]) -> Expected | None:
    """What eager gives at some sizes, where the trace holds for them."""
    if symbols is program.symbols:
        return Expected(program, program.given(symbols))
    if not traced.holds(symbols):
        return None
    try:
        expected = Expected(program, program.given(symbols))
    except (RuntimeError, IndexError, ValueError):
        return None  # sizes that the program is not for
    wanted = [(fake.dtype, traced.shape(fake, symbols)) for fake in traced.program.outputs]
    return expected if [(tensor.dtype, tuple(tensor.shape)) for tensor in expected.outputs] == wanted else None


def check_delegate(program: Program, folder: Path) -> None:
    """Export a program, delegate it, and run it from its file. What is left to ExecuTorch's kernels is not judged."""
    expected = Expected(program, program.given(program.symbols))
    user = program.user(expected.inputs)
    if any(0 in tensor.stride() for tensor in (*program.given(program.symbols), *expected.outputs)):
        raise Skipped("ExecuTorch has no strides of 0")
    try:
        exported = torch.export.export(program.module(), user)
    except Exception as error:
        raise Skipped(f"no export: {error}") from None
    config = EdgeCompileConfig(_check_ir_validity=False)  # as executorch_ggml.export has it
    edge = to_edge_transform_and_lower(exported, partitioner=[GgmlPartitioner()], compile_config=config)
    if left_of(edge) or not delegates_of(edge):
        raise Skipped("not all of it is delegated")
    path = folder / "fuzz.pte"
    with path.open("wb") as file:
        edge.to_executorch(executorch_config()).write_to_file(file)
    made = executorch_ggml.load(path)(*user)
    expected.check(list(made) if isinstance(made, (tuple, list)) else [made], "delegate")
