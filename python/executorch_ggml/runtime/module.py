"""A .pte program as a callable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from ._library import last_error, load_delegate


class Module:
    """A loaded program. Calling it runs its method ``forward``; ``method(name)`` gives the others."""

    def __init__(self, program: Any, path: str) -> None:
        self._program = program
        self._path = path
        self._methods: dict[str, Any] = {}

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
        outputs = self._checked(lambda: ready.execute(list(inputs)), method)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _load(self, method: str) -> Any:
        if method not in self._methods:
            if method not in self._program.method_names:
                raise KeyError(f"{self._path} has no method {method!r}, but {self.method_names}")
            self._methods[method] = self._checked(lambda: self._program.load_method(method), method)
        return self._methods[method]

    def _checked(self, call: Any, method: str) -> Any:
        before = last_error()
        try:
            return call()
        except RuntimeError as error:
            message = last_error()
            detail = message if message and message != before else str(error)
            raise RuntimeError(f"{self._path}: {method}: {detail}") from error


def load(path: str | os.PathLike[str], *, data_path: str | os.PathLike[str] | None = None) -> Module:
    """Load a .pte file (and the .ptd file with its weights, where they are apart). The file is mapped, not read."""
    from executorch.runtime import Runtime

    load_delegate()
    text = os.fspath(path)
    if not os.path.exists(text):
        raise FileNotFoundError(f"{text}: no such program")
    program = Runtime.get().load_program(text, data_path=None if data_path is None else os.fspath(data_path))
    return Module(program, text)
