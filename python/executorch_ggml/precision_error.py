"""What a precision costs: a program beside the module that it was exported from, on the example inputs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from .progress import stage

if TYPE_CHECKING:
    from executorch.exir import ExecutorchProgramManager


def tell_error(
    precision: str,
    program: ExecutorchProgramManager,
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None,
) -> None:
    """Print on stderr how far the program's outputs are from those of the module in eager mode."""
    try:
        error = f"largest error {error_beside(program, model, args, kwargs):.2g} of the largest output"
    except (RuntimeError, OSError, ValueError) as fault:
        error = f"its error is not known: {fault}"
    print(f"precision {precision}: {error}", file=sys.stderr)


def error_beside(
    program: ExecutorchProgramManager,
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    device: str = "",
) -> float:
    """The largest difference of an output's element from eager's, over the largest magnitude of that output.

    It runs on ``device``, as :func:`executorch_ggml.load` takes it, from a temporary file that is mapped, so that it
    takes no memory beside the manager's. NaN and infinities count where one side alone has them: the result is infinite
    then. Raises ValueError for a module that holds no values, and RuntimeError and OSError where the program cannot be
    run here.
    """
    from .frontends.aten.weights import VALUES_ELSEWHERE
    from .runtime.module import load

    if any(getattr(module, VALUES_ELSEWHERE, None) is not None for module in model.modules()):
        raise ValueError("the module holds no values to compare with")
    with stage("comparing with eager"), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pte"
        with path.open("wb") as file:
            program.write_to_file(file)
        actual = tree_leaves(
            load(path, device=device)(*(leaf for leaf in tree_leaves((args, kwargs)) if leaf is not None))
        )
        with _buffers_kept(model), torch.no_grad():
            expected = tree_leaves(model(*args, **(kwargs or {})))
    return max((relative_error(*pair) for pair in zip(actual, expected, strict=True) if _are_floats(pair)), default=0.0)


@contextmanager
def _buffers_kept(model: torch.nn.Module) -> Iterator[None]:
    """Put back the buffers that a call changes."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, contents in before:
            buffer.copy_(contents)


def _are_floats(pair: Sequence[Any]) -> bool:
    return all(isinstance(each, torch.Tensor) and each.is_floating_point() for each in pair)


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference over the largest magnitude expected; infinite where one side alone is not finite."""
    finite = torch.isfinite(expected)
    if not torch.equal(finite, torch.isfinite(actual)):
        return float("inf")
    if not finite.any():
        return 0.0
    difference = (actual[finite].double() - expected[finite].double()).abs().max()
    largest = expected[finite].double().abs().max()
    return float(difference / largest) if largest > 0 else float("inf") if difference > 0 else 0.0
