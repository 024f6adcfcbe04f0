"""Other programs, run without a shell and for a limited time."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .compiler import CompileError

_SAID = 2000  # characters of what a program said that an error repeats


def words(template: str, what: str) -> list[str]:
    """A command line's words, as a shell would split them; raises CompileError where it would not."""
    try:
        found = shlex.split(template)
    except ValueError as error:
        raise CompileError(f"{what}={template!r}: {error}") from error
    if not found:
        raise CompileError(f"{what} is empty: expected a command line")
    return found


def filled(template: Sequence[str], values: Mapping[str, Path], what: str) -> list[str]:
    """The words with ``{name}`` replaced; only whole names are, other braces stay as they are."""
    line = list(template)
    for name, value in values.items():
        line = [word.replace("{" + name + "}", str(value)) for word in line]
    missing = [name for name in values if not any("{" + name + "}" in word for word in template)]
    if missing:
        raise CompileError(f"{what}: no {{{missing[0]}}} in {shlex.join(template)!r}")
    return line


def find(program: str, remedy: str) -> str:
    """The program's path; raises CompileError, ending in the remedy, where it is none that can be run."""
    path = shutil.which(program)
    if path is None:
        raise CompileError(f"no program {program!r} is found: {remedy}")
    return path


def identity(template: Sequence[str], remedy: str) -> str:
    """A digest of the program and of the files that its command line names, which tells its versions apart."""
    digest = hashlib.sha256()
    for path in (Path(find(template[0], remedy)), *(Path(word) for word in template[1:])):
        if path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def run(line: Sequence[str], folder: Path, limit: float, environment: Mapping[str, str] | None = None) -> None:
    """Run a program in a folder. Raises CompileError where it is not there, fails, or takes longer."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                list(line),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        except OSError as error:
            raise CompileError(f"{line[0]} cannot be run: {error}") from error
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired as error:
            raise CompileError(f"{shlex.join(line)} took longer than {limit:g} s") from error
        finally:
            _end(process)
        if code != 0:
            size = said.seek(0, os.SEEK_END)
            said.seek(max(0, size - _SAID))
            how = f"was ended by signal {-code}" if code < 0 else f"failed with status {code}"
            raise CompileError(f"{shlex.join(line)} {how}: {said.read().decode(errors='replace').strip()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program with all that it started, if it has not ended by itself."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
