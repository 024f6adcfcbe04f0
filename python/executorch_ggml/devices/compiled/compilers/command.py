"""Any compiler that is a command line, with a command line that runs what it makes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize
from zipfile import BadZipFile

import numpy as np

from . import program
from .compiler import FORMS, CompileError, Compiler, seconds

if TYPE_CHECKING:
    from .compiler import Runner

COMPILE = "EXECUTORCH_GGML_COMPILE_COMMAND"
RUN = "EXECUTORCH_GGML_RUN_COMMAND"
FORM = "EXECUTORCH_GGML_COMPILE_FORM"


class CommandCompiler(Compiler):
    """``compiled:command``: two command lines, split as a shell would, and run without one.

    The first has ``{model}``, the file to read, and ``{artifact}``, the file or folder to write; the second
    ``{artifact}``, ``{inputs}`` and ``{outputs}``: ``.npz`` files of ``input_0`` and so on, and ``output_0`` and so on.
    """

    name = "command"

    def __init__(self, compile: str | None = None, run: str | None = None, form: str | None = None) -> None:
        self._compile = program.words(os.environ.get(COMPILE, "") if compile is None else compile, COMPILE)
        self._run = program.words(os.environ.get(RUN, "") if run is None else run, RUN)
        self.form = os.environ.get(FORM, ".onnx") if form is None else form
        if self.form not in FORMS:
            raise CompileError(f"{FORM}={self.form!r}: expected one of {', '.join(FORMS)}")

    def version(self) -> str:
        """A digest of the compiling program and of the files that its command line names."""
        return program.identity(self._compile, f"set {COMPILE}")

    def options(self) -> Mapping[str, str]:
        """The compiling command line."""
        return {"command": "\0".join(self._compile)}

    def compile(self, model: Path, folder: Path) -> None:
        """Run the compiling command."""
        artifact = folder / "artifact"
        program.run(program.filled(self._compile, {"model": model, "artifact": artifact}, COMPILE), folder, seconds())
        if not artifact.exists():
            raise CompileError(f"{self._compile[0]} wrote no artifact")

    def load(self, folder: Path) -> Runner:
        """What runs the other command, on a copy of the artifact: the cache may drop its own at any time."""
        program.find(self._run[0], f"set {RUN}")
        kept = Path(tempfile.mkdtemp(prefix="executorch-ggml-"))
        artifact = kept / "artifact"
        if (folder / "artifact").is_dir():
            shutil.copytree(folder / "artifact", artifact)
        else:
            shutil.copy(folder / "artifact", artifact)

        def run(inputs: Sequence[np.ndarray[Any, Any]]) -> Sequence[np.ndarray[Any, Any]]:
            with tempfile.TemporaryDirectory(dir=kept) as name:
                given, made = Path(name) / "inputs.npz", Path(name) / "outputs.npz"
                arrays: dict[str, Any] = {f"input_{at}": array for at, array in enumerate(inputs)}
                np.savez(given, **arrays)
                paths = {"artifact": artifact, "inputs": given, "outputs": made}
                program.run(program.filled(self._run, paths, RUN), Path(name), seconds())
                return _outputs(made)

        finalize(run, shutil.rmtree, kept, ignore_errors=True)
        return run


def _outputs(path: Path) -> list[np.ndarray[Any, Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return [file[f"output_{at}"] for at in range(len(file.files))]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise CompileError(f"{path.name} is not what {RUN} should write: {error!r}") from error
