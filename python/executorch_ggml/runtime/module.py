"""A .pte program as a callable."""

from __future__ import annotations

import mmap as mapped
import os
import re
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._library import close_gguf, load_delegate, open_gguf
from .session import DeviceNames, device_list, paths

if TYPE_CHECKING:
    from .._program import Program


class Module:
    """A loaded program. Calling it runs its method ``forward``; :meth:`run` runs the others.

    Calls are safe from any thread and release the GIL; those of one method take turns. Results are the caller's own.
    Ctrl-C ends a call in the main thread between two nodes that the CPU computes; the next call is as right as ever.

    Buffers that the module mutates keep their contents from call to call. Methods that were exported from one module
    share them; another :func:`load` of the program has its own. An interrupted call has written all or none of each
    delegate's buffers, and any part of the rows that go to a key-value cache.
    """

    def __init__(self, program: Program, path: str, gguf: Sequence[str] = ()) -> None:
        self._program = program
        for file in gguf:
            weakref.finalize(self, close_gguf, open_gguf(file))
        self._path = path
        self._method_names = frozenset(program.method_names)

    @property
    def method_names(self) -> list[str]:
        """Names of the program's methods."""
        return sorted(self._method_names)

    def __call__(self, *inputs: Any) -> Any:
        """Run ``forward``: a tensor for one output, a tuple for several."""
        return self.run("forward", inputs)

    def run(self, method: str, inputs: Sequence[Any]) -> Any:
        """Run a method on torch tensors of any strides; outputs have the memory format that they had at export.

        Raises RuntimeError with the reason where an input is not right.
        """
        self._check_name(method)
        try:
            outputs = self._program.run(method, tuple(inputs))
        except RuntimeError as error:
            raise RuntimeError(f"{self._path}: {method}: {error}") from error
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def load_method(self, method: str) -> None:
        """Make a method ready, which its first run does otherwise. Raises RuntimeError with the reason if it cannot."""
        self._check_name(method)
        try:
            self._program.load_method(method)
        except RuntimeError as error:
            raise RuntimeError(f"{self._path}: {method}: {error}") from error

    def etdump(self) -> tuple[bytes, bytes]:
        """ExecuTorch's record of the runs since the last call, and the values of nodes that it refers to.

        Raises RuntimeError where the program was not loaded with ``etdump=True``.
        """
        return self._program.take_recording()

    def write_etdump(self, path: str | os.PathLike[str], debug_path: str | os.PathLike[str] | None = None) -> None:
        """Write that record to files that ``executorch.devtools.Inspector`` reads."""
        record, values = self.etdump()
        Path(path).write_bytes(record)
        if debug_path is not None:
            Path(debug_path).write_bytes(values)

    def reset_state(self) -> None:
        """Put the buffers that ggml keeps back to what they held at export, for all methods.

        Buffers that stay with ExecuTorch (see :func:`executorch_ggml.explain`) are not reset: load the program again.
        """
        self._program.reset_states()

    def _check_name(self, method: str) -> None:
        if method not in self._method_names:
            raise KeyError(f"{self._path} has no method {method!r}, but {self.method_names}")


def _leaves_weights_outside(path: str) -> bool:
    """Whether a program names a GGUF file: constants there have keys of this form, in its delegates' payloads."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return False
        with mapped.mmap(file.fileno(), 0, access=mapped.ACCESS_READ) as data:
            return re.search(rb"gguf:[0-9a-f]{16}/", data) is not None


def load(
    path: str | os.PathLike[str],
    *,
    data_path: str | os.PathLike[str] | None = None,
    gguf: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    mmap: bool = True,
    device: DeviceNames = "",
    etdump: bool = False,
    intermediate_outputs: bool = False,
) -> Module:
    """Load a .pte file.

    ``data_path`` is the .ptd file with its weights, where they are apart, ``gguf`` the GGUF file (or several) that it
    was exported from, where they were left there. ``device`` is what it runs on, in the words of
    :func:`executorch_ggml.set_device`; "" is what that says at the time when a method is loaded.

    The files are verified first, without reading weights. Weights in the .pte and .ptd files are mapped and read while
    the program runs: the files must not be written to or truncated meanwhile (replacing one by another is fine).
    ``mmap=False`` reads both files into memory, which takes longer and makes the program independent of them. GGUF
    files are always mapped. Everything but the weights is always read into memory.

    ``etdump`` records runs for ``executorch.devtools.Inspector`` (:meth:`Module.write_etdump`), with
    ``intermediate_outputs`` what nodes compute too. A record that is not taken grows with each run. Runs that are
    recorded take turns.

    Raises FileNotFoundError, RuntimeError where a file is damaged, with the file and what is wrong in it, and
    ValueError for ``gguf`` with a program that has its own weights and for ``intermediate_outputs`` without a record.
    """
    if intermediate_outputs and not etdump:
        raise ValueError("intermediate_outputs are a part of the record of runs; load the program with etdump=True")
    load_delegate()
    from .._program import Program  # links the delegate

    text = os.fspath(path)
    data = "" if data_path is None else os.fspath(data_path)
    for file, kind in ((text, "program"), (data, "data file")):
        if file and not os.path.exists(file):
            raise FileNotFoundError(f"{file}: no such {kind}")
    if paths(gguf) and not _leaves_weights_outside(text):
        raise ValueError(f"{text}: it has its own weights, and takes none from {paths(gguf)[0]}; load it without gguf")
    try:
        program = Program(text, data, mmap, device_list(device) if device else "", etdump, intermediate_outputs)
    except RuntimeError as error:
        raise RuntimeError(f"{error}; is the file damaged, or from another version of ExecuTorch?") from error
    return Module(program, text, paths(gguf))
