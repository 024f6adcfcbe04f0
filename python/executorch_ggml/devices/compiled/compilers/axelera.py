"""Axelera's compiler, as a program; its artifact runs through the Axelera SDK on their accelerators."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import program
from .compiler import FORMS, CompileError, Compiler, seconds

if TYPE_CHECKING:
    from .compiler import Runner

PROGRAM = "AXELERA_COMPILER"  # the compiler, and arguments that come before ours
FORM = "AXELERA_COMPILER_FORM"
_REMEDY = f"install the Voyager SDK, or set {PROGRAM} to its compiler (axcompile)"


class AxeleraCompiler(Compiler):
    """``compiled:axelera``: ``$AXELERA_COMPILER -i model -o folder``, then ``axelera.runtime``.

    The compiler quantizes to 8 bits, so the first run is always compared with the CPU's.
    """

    name = "axelera"
    self_check = True

    def __init__(self) -> None:
        self.form = os.environ.get(FORM, ".onnx")
        if self.form not in FORMS[:2]:
            raise CompileError(f"{FORM}={self.form!r}: expected .onnx or .pt")
        self._words = program.words(os.environ.get(PROGRAM, "axelera-compiler"), PROGRAM)

    def version(self) -> str:
        """A digest of the program."""
        return program.identity(self._words, _REMEDY)

    def options(self) -> Mapping[str, str]:
        """The command line."""
        return {"command": "\0".join(self._words)}

    def compile(self, model: Path, folder: Path) -> None:
        """Run the program. It must leave files in the folder."""
        program.find(self._words[0], _REMEDY)
        program.run([*self._words, "-i", str(model), "-o", str(folder)], folder, seconds())

    def load(self, folder: Path) -> Runner:
        """The model on an Axelera device. Raises CompileError where there is no SDK to run it."""
        try:
            op = importlib.import_module("axelera.runtime.op")
        except ImportError as error:
            raise CompileError("the Axelera SDK (axelera.runtime) is not installed: computing on the CPU") from error
        found = sorted(folder.rglob("*.axm"))
        if len(found) != 1:
            raise CompileError(f"axelera: {len(found)} .axm files were compiled, expected one")
        try:
            model = op.load(str(found[0]))
        except Exception as error:
            raise CompileError(f"axelera: {error}") from error

        def run(inputs: Sequence[np.ndarray[Any, Any]]) -> Sequence[np.ndarray[Any, Any]]:
            try:
                made = model(*inputs)
            except Exception as error:
                raise CompileError(f"axelera: {error}") from error
            return [np.asarray(each) for each in (made if isinstance(made, (list, tuple)) else [made])]

        return run
