"""A .pte program as a callable."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._library import clear_error, close_gguf, last_error, load_delegate, open_gguf, reset_states, take_states
from .session import paths

# ExecuTorch's numbers of element types.
_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}


class Module:
    """A loaded program. Calling it runs its method ``forward``; :meth:`run` runs the others.

    Buffers that the module mutates keep their contents from call to call. Methods that were exported from one module
    share them; another :func:`load` of the program has its own.
    """

    def __init__(self, program: Any, path: str, gguf: Sequence[str] = ()) -> None:
        self._program = program
        for file in gguf:
            weakref.finalize(self, close_gguf, open_gguf(file))
        self._path = path
        self._methods: dict[str, Any] = {}
        self._states: set[int] = set()

    @property
    def method_names(self) -> list[str]:
        """Names of the program's methods."""
        return sorted(self._program.method_names)

    def __call__(self, *inputs: Any) -> Any:
        """Run ``forward``: a tensor for one output, a tuple for several."""
        return self.run("forward", inputs)

    def run(self, method: str, inputs: Sequence[Any]) -> Any:
        """Run a method on torch tensors. Raises RuntimeError with the reason where an input is not right."""
        ready = self._load(method)
        for index, value in enumerate(inputs):
            if isinstance(value, torch.Tensor) and not value.is_contiguous():
                raise RuntimeError(f"{self._path}: {method}: input {index} is not contiguous; call .contiguous() on it")
        shared = self._checked(lambda: ready._method(list(inputs), False), method, inputs)
        outputs = [_copied(output) for output in shared]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def reset_state(self) -> None:
        """Put the buffers that ggml keeps back to what they held at export, for all methods.

        Buffers that stay with ExecuTorch (see :func:`executorch_ggml.explain`) are not reset: load the program again.
        """
        for states in self._states - {0}:
            reset_states(states)

    def _load(self, method: str) -> Any:
        if method not in self._methods:
            if method not in self._program.method_names:
                raise KeyError(f"{self._path} has no method {method!r}, but {self.method_names}")
            take_states()  # of an earlier load
            self._methods[method] = self._checked(lambda: self._program.load_method(method), method)
            self._states.add(take_states())
        return self._methods[method]

    def _checked(self, call: Callable[[], Any], method: str, inputs: Sequence[Any] | None = None) -> Any:
        """What a call gives; its failure in the delegate's words, or ours, since ExecuTorch's are a number."""
        clear_error()
        try:
            return call()
        except RuntimeError as error:
            reason = last_error()
            if not reason and inputs is not None:
                reason = _input_fault(self._program.metadata(method), inputs) or ""
            raise RuntimeError(f"{self._path}: {method}: {reason or error}") from error


def _copied(output: Any) -> Any:
    """An output, taken out of the method's own memory.

    ``Method.execute`` does this with torch, whose threads then go on spinning and slow the delegate's next run down.
    """
    if not isinstance(output, torch.Tensor):
        return output
    return output.clone() if output.dtype == torch.bfloat16 else torch.from_numpy(output.numpy().copy())


def _input_fault(meta: Any, inputs: Sequence[Any]) -> str | None:
    """What is not as the method's metadata says, in words."""
    if len(inputs) != meta.num_inputs():
        return f"{len(inputs)} inputs given, expected {meta.num_inputs()}"
    shapes = []
    for index, value in enumerate(inputs):
        try:
            expected = meta.input_tensor_meta(index)
        except IndexError:  # not a tensor
            if not isinstance(value, (bool, int, float)):
                return f"input {index}: a {type(value).__name__}, expected a number"
            continue
        fault = _tensor_fault(value, _DTYPES.get(expected.dtype()), tuple(expected.sizes()))
        if fault is not None:
            return f"input {index}: {fault}"
        shapes.append((list(value.shape), list(expected.sizes())))
    # Sizes below the planned ones are right in dynamic dims, which the metadata doesn't tell from the others.
    smaller = [f"{given} for {planned}" for given, planned in shapes if given != planned]
    return f"input shapes {', '.join(smaller)}: less is possible in dynamic dims only" if smaller else None


def _tensor_fault(value: Any, dtype: torch.dtype | None, sizes: Sequence[int]) -> str | None:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}, expected a torch tensor"
    if dtype is not None and value.dtype != dtype:
        return f"dtype {value.dtype}, expected {dtype}; convert it with .to({dtype})"
    if value.dim() != len(sizes):
        return f"shape {list(value.shape)} has {value.dim()} dims, expected {len(sizes)}"
    for dim, (size, most) in enumerate(zip(value.shape, sizes, strict=True)):
        if size > most:
            return f"size {size} in dim {dim}, expected at most {most}, which the program was planned for"
    return None


def _check_is_program(path: str) -> None:
    """Raise where a file is no ExecuTorch program: ExecuTorch itself may end the process at one."""
    with open(path, "rb") as file:
        head = file.read(8)
    if head[4:6] != b"ET":
        raise RuntimeError(
            f"{path}: not an ExecuTorch program: bytes 4 to 8 are {head[4:]!r}, expected ET and a version"
        )


def load(
    path: str | os.PathLike[str],
    *,
    data_path: str | os.PathLike[str] | None = None,
    gguf: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
) -> Module:
    """Load a .pte file. It is mapped, not read.

    ``data_path`` is the .ptd file with its weights, where they are apart, ``gguf`` the GGUF file (or several) that it
    was exported from, where they were left there.
    """
    from executorch.runtime import Runtime

    load_delegate()
    text = os.fspath(path)
    if not os.path.exists(text):
        raise FileNotFoundError(f"{text}: no such program")
    _check_is_program(text)
    try:
        program = Runtime.get().load_program(text, data_path=None if data_path is None else os.fspath(data_path))
    except RuntimeError as error:
        raise RuntimeError(f"{text}: {error}; is the file damaged, or from another version of ExecuTorch?") from error
    return Module(program, text, paths(gguf))
