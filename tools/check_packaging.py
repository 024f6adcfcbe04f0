"""Build the sdist and the wheel as a stranger does, install the wheel in a new environment, and use it there.

    python -m tools.check_packaging [--keep FOLDER] [--wheel FILE] [--python PROGRAM]

Nothing of this environment is used but its interpreter: `python -m build` makes the sdist, and the wheel of that, with
what pyproject.toml requires; or a wheel is given. What README.md and pages of docs/ show then runs as it is printed, in
Python and on the command line, with no compiler on the path, and as a C++ project. Takes some minutes, most of them in
the compiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.snippets import LANGUAGE_MODELS, blocks, write_cpp_project

ROOT = Path(__file__).resolve().parents[1]
EXTRA = "llm"

# What an environment of the developer's would bring in.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CMAKE_PREFIX_PATH", "LD_LIBRARY_PATH")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in FOREIGN}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command, and end with its output where it fails; gives what it prints."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**ENVIRONMENT, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}\nfailed with {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    start = time.monotonic()
    print(f"  {name} ...", end="", flush=True)
    yield
    print(f" {time.monotonic() - start:.0f} s", flush=True)


def environment(folder: Path, python: str = sys.executable) -> Path:
    """A new virtual environment of a Python; gives the folder of its commands."""
    run(python, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin"


def run_alone(bin: Path, *command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command of an environment with nothing else on the path."""
    return run(bin / command[0], *command[1:], cwd=cwd, PATH=str(bin), **variables)


def check_relocatable(package: Path, work: Path) -> None:
    """Raise where an installed file names a folder that it was built in."""
    names = [os.fsencode(str(work)), os.fsencode(str(ROOT)), b"build-env-"]
    for file in [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]:
        data = file.read_bytes()
        for name in names:
            if name in data:
                raise SystemExit(f"{file.relative_to(package)} names a folder of the build: {name.decode()}")


def check_python(bin: Path, folder: Path) -> None:
    """README's program, and the first of a language model."""
    for number, code in enumerate((blocks("python")[0], blocks("python", LANGUAGE_MODELS)[0])):
        script = folder / f"readme_{number}.py"
        script.write_text(code)
        run_alone(bin, "python", "-I", script, cwd=folder)


def check_commands(bin: Path, folder: Path) -> None:
    """The command line on the program that README's first one wrote."""
    for arguments, expected in (
        (["--version"], "executorch-ggml"),
        (["devices"], "CPU"),
        (["inspect", "--summary", "model.pte"], "delegate 0: GgmlBackend"),
        (["run", "model.pte"], "output 0: float32"),
        (["doctor"], "kernels for"),
        (["export-gguf", "--help"], "Usage: executorch-ggml export-gguf"),
    ):
        output = run_alone(bin, "executorch-ggml", *arguments, cwd=folder)
        if expected not in output:
            raise SystemExit(f"executorch-ggml {' '.join(arguments)}: expected {expected!r} in its output:\n{output}")


def check_cpp(bin: Path, tools: Path, folder: Path) -> None:
    """The C++ project of docs/cpp.md, against the installed packages."""
    project = folder / "cpp"
    project.mkdir()
    write_cpp_project(project)
    code = "import executorch_ggml; print(executorch_ggml.cmake_prefix_path)"
    prefix = run(bin / "python", "-I", "-c", code, cwd=folder).strip()
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
    run(tools / "cmake", "-S", project, "-B", project / "build", "-G", "Ninja", *options, cwd=folder)
    run(tools / "cmake", "--build", project / "build", cwd=folder)
    run(project / "build" / "app", cwd=folder)


def check_apart(bin: Path, wheel: Path, folder: Path) -> None:
    """The package in another folder of the path than ExecuTorch and ggml, as of one user."""
    apart = folder / "apart"
    run(bin / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--target", apart, wheel, cwd=folder)
    code = "import executorch_ggml as e; print(e.__file__, e.list_devices()); e.load('model.pte')"
    output = run(bin / "python", "-c", code, cwd=folder, PYTHONPATH=str(apart))
    if str(apart) not in output:
        raise SystemExit(f"another copy of the package was imported:\n{output}")


def build(tools: Path, work: Path) -> Path:
    """The sdist, and the wheel that is made of it."""
    with step("python -m build"):
        run(tools / "python", "-m", "pip", "install", "--quiet", "build", cwd=work)
        run(tools / "python", "-m", "build", "--outdir", work / "dist", ROOT, cwd=work)
    (wheel,) = (work / "dist").glob("*.whl")
    return wheel


def check(work: Path, wheel: Path | None, python: str) -> None:
    """All of it, in a folder."""
    tools = environment(work / "tools")
    run(tools / "python", "-m", "pip", "install", "--quiet", "cmake", "ninja", cwd=work)
    wheel = wheel or build(tools, work)
    with step(f"pip install {wheel.name}[{EXTRA}]"):
        bin = environment(work / "user", python)
        # Imports write the bytecode that they need; pip would compile all of torch.
        run_alone(bin, "python", "-m", "pip", "install", "--quiet", "--no-compile", f"{wheel}[{EXTRA}]", cwd=work)
    (package,) = (work / "user").glob("lib/python*/site-packages/executorch_ggml")
    check_relocatable(package, work)
    folder = work / "run"
    folder.mkdir()
    with step("the pages in Python"):
        check_python(bin, folder)
    with step("the command line"):
        check_commands(bin, folder)
    with step("the page in C++"):
        check_cpp(bin, tools, folder)
    with step("the package apart from the others"):
        check_apart(bin, wheel, folder)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Build, install and use the package in new environments.")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work in this new folder, and keep it")
    parser.add_argument("--wheel", type=Path, help="check this wheel, and build none")
    parser.add_argument("--python", default=sys.executable, help="the Python to install it for (this one)")
    options = parser.parse_args()
    keep: Path | None = options.keep
    wheel: Path | None = options.wheel and options.wheel.resolve()
    if keep is not None:
        keep.mkdir(parents=True)
        check(keep.resolve(), wheel, options.python)
    else:
        with tempfile.TemporaryDirectory(prefix="executorch-ggml-packaging-") as folder:
            check(Path(folder).resolve(), wheel, options.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
