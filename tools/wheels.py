"""Build the wheels that are published: manylinux_2_28, for x86-64 and ARM64, with ggml in them: `make wheels`.

    python -m tools.wheels [--machine x86_64] [--python 3.11] [--out dist]

gcc compiles them against what that tag has of glibc and libstdc++ (tools/manylinux.py), for the other machine Debian's
cross compiler. ggml is libggml-python's sdist with all variants of its CPU library. A Python that has its headers is
needed of each version: on the path, in pyenv's folder, or uv's. The wheel of 3.12 is for all that are newer too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tools.foreign_packages import PINNED, ROOT, UnavailableError, fetch, requirement, unpack_source
from tools.ggml_variants import AMX, compiler_loses_amx, remove_variant
from tools.install_ggml import BACKENDS, BUILDS, PACKAGE
from tools.manylinux import GLIBC, Compiler, compiler_for, digest, new_folder, toolchain

CACHE = ROOT / ".cache" / "wheels-build"
TOOLS = Path(sys.executable).parent
MACHINES = ("x86_64", "aarch64")
PYTHONS = ("3.10", "3.11", "3.12")
TAG = f"manylinux_{GLIBC[0]}_{GLIBC[1]}"
# Installed beside ours, where ours look for it.
NOT_INCLUDED = ("libexecutorch.so", "libexecutorch_etdump.so")
# auditwheel takes the rules of the machine that it runs on.
AUDITWHEEL = (
    "import platform, sys; machine = sys.argv.pop(1); platform.machine = lambda: machine; "
    "from auditwheel.main import main; sys.exit(main())"
)
SME = "-march=armv9.2-a+sme"  # gcc 14 has it
GGML_OPTIONS = {
    **(BUILDS["variants"] or {}),
    **BACKENDS["rpc"],
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_INSTALL_LIBDIR": "lib",
    "GGML_CCACHE": "OFF",
}
BUILD_TOOLS = ("scikit-build-core", "nanobind", "flatc")


def compiles(compiler: Compiler, flag: str) -> bool:
    """Whether a compiler knows a flag."""
    command = [compiler.c, flag, "-fsyntax-only", "-x", "c", "/dev/null"]
    return subprocess.run(command, env=compiler.environment, capture_output=True, check=False).returncode == 0


class Machine(NamedTuple):
    """What wheels for a machine are built with."""

    name: str
    toolchain: Path
    environment: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """What is built for it; kept from one run to the next while it would be made from the same."""
        versions = (requirement(package) for package in PINNED)
        made_from = digest(self.toolchain.parent.name, *versions, *map(str, sorted(GGML_OPTIONS.items())))
        return CACHE / f"{self.name}-{made_from}"

    @property
    def site(self) -> Path:
        """ExecuTorch and ggml for it."""
        return self.folder / "site"


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    start = time.monotonic()
    print(f"{name} ...", flush=True)
    yield
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


def machine_of(name: str) -> Machine:
    """The compiler for a machine, as CMake is told of it."""
    compiler = compiler_for(name)
    environment = {**compiler.environment, "PATH": f"{TOOLS}:{compiler.environment['PATH']}"}
    if shutil.which("ccache") is not None:
        environment = {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} | environment
    return Machine(name, toolchain(compiler), environment)


def ggml_source(machine: Machine) -> Path:
    """The sdist of the pinned ggml, unpacked, without variants that the compiler does not know."""
    folder = machine.folder / "ggml-source"
    is_new = not folder.exists()
    source = unpack_source(PACKAGE, folder)
    if is_new and machine.name == "aarch64" and not compiles(compiler_for(machine.name), SME):
        lists = source / "ggml" / "src" / "CMakeLists.txt"
        lists.write_text(
            re.sub(r"(?m)^(\s*)(ggml_add_cpu_backend_variant\(\S+ .*\bSME\b)", r"\1# \2", lists.read_text())
        )
    return source


def build_ggml(machine: Machine) -> None:
    """The pinned ggml with its variants and RPC, without the one for AMX where gcc gets that wrong."""
    package = machine.site / "libggml"
    if (package / "include").is_dir():
        return
    source, build = ggml_source(machine), machine.folder / "ggml"
    definitions = {**GGML_OPTIONS, "CMAKE_TOOLCHAIN_FILE": str(machine.toolchain)}
    flags = f"-ffile-prefix-map={source}=ggml"
    environment = {**machine.environment, "CFLAGS": flags, "CXXFLAGS": flags}
    options = [f"-D{name}={value}" for name, value in definitions.items()]
    cmake = str(TOOLS / "cmake")
    configure = [cmake, "-S", str(source), "-B", str(build), "-G", "Ninja", "--log-level=WARNING", *options]
    subprocess.run(configure, env=environment, check=True)
    subprocess.run([cmake, "--build", str(build)], env=environment, check=True)
    installed = machine.folder / "libggml"
    shutil.rmtree(installed, ignore_errors=True)
    install = [cmake, "--install", str(build), "--prefix", str(installed)]
    subprocess.run(install, env=environment, check=True, stdout=subprocess.DEVNULL)
    if compiler_loses_amx():
        remove_variant(installed, AMX)
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(installed, package)  # files in place of links, which a wheel cannot have


def unpack_executorch(machine: Machine) -> None:
    """ExecuTorch's wheel for the machine: of any Python, since its shared library is the same."""
    package = machine.site / "executorch"
    if not package.exists():
        wheel = fetch("executorch", (f"{TAG}_{machine.name}",))
        shutil.unpack_archive(wheel, machine.site, format="zip")


def interpreter(version: str) -> Path:
    """A Python of a version, with its headers."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates: list[str | Path | None] = [
        shutil.which(f"python{version}"),
        *sorted(pyenv.glob(f"{version}.*/bin/python{version}")),
    ]
    if (uv := shutil.which("uv")) is not None:
        found = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        candidates.append(found.stdout.strip() or None)
    code = "import json, sys, sysconfig; print(json.dumps([sys.version_info[:2], sysconfig.get_path('include')]))"
    for candidate in [path for path in candidates if path is not None]:
        asked = subprocess.run([candidate, "-I", "-c", code], capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            continue
        numbers, include = json.loads(asked.stdout)
        if ".".join(map(str, numbers)) == version and (Path(include) / "pyconfig.h").exists():
            return Path(candidate)
    raise UnavailableError(
        f"no Python {version} with headers here: `uv python install {version}` or `pyenv install {version}`"
    )


def build_environment(version: str) -> Path:
    """A virtual environment of a Python with what compiles wheels; gives its interpreter."""
    python = CACHE / f"python{version}" / "bin" / "python"
    stamp = python.parent / "installed"
    if not stamp.exists():
        subprocess.run([interpreter(version), "-m", "venv", python.parent.parent], check=True)
        required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
        tools = [line for line in required if line.startswith(BUILD_TOOLS)]
        pip_install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
        subprocess.run([*pip_install, *tools], check=True)
        stamp.touch()
    return python


def soabi(version: str, machine: str) -> str:
    """How Python on another machine names an extension's file."""
    return f".cpython-{version.replace('.', '')}-{machine}-linux-gnu.so"


def build_wheel(machine: Machine, version: str) -> Path:
    """The wheel of a Python, as scikit-build-core makes it."""
    python = build_environment(version)
    folder = machine.folder / f"wheel-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    environment = {**machine.environment, "PYTHONPATH": str(machine.site)}
    if machine.name != os.uname().machine:
        # What cross builds of Python packages are told by.
        environment["_PYTHON_HOST_PLATFORM"] = f"linux-{machine.name}"
        environment["SETUPTOOLS_EXT_SUFFIX"] = soabi(version, machine.name)
    settings = {
        "build-dir": str(machine.folder / "build"),
        "cmake.define.CMAKE_TOOLCHAIN_FILE": str(machine.toolchain),
    }
    command = [str(python), "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
    command += ["--wheel-dir", str(folder), str(ROOT)]
    command += [f"--config-settings={name}={value}" for name, value in settings.items()]
    subprocess.run(command, env=environment, check=True)
    return next(folder.glob("*.whl"))


def repair(wheel: Path, machine: Machine, out: Path) -> None:
    """Check a wheel against the tag's rules, and name it so; auditwheel adds nothing to it."""
    command = [
        sys.executable,
        "-c",
        AUDITWHEEL,
        machine.name,
        "repair",
        "--plat",
        f"{TAG}_{machine.name}",
        "--only-plat",
    ]
    command += [part for name in NOT_INCLUDED for part in ("--exclude", name)]
    command += ["--wheel-dir", str(out), str(wheel)]
    subprocess.run(command, env=machine.environment, check=True)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Build manylinux wheels.")
    parser.add_argument("--machine", action="append", choices=MACHINES, help="which (all)")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="which (all)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where wheels are put (dist)")
    options = parser.parse_args()
    try:
        for name in options.machine or MACHINES:
            machine = machine_of(name)
            if not machine.folder.exists():
                new_folder(machine.folder, f"{name}-*")
            with step(f"ExecuTorch and ggml for {name}"):
                unpack_executorch(machine)
                build_ggml(machine)
            for version in options.python or PYTHONS:
                with step(f"wheel of Python {version} for {name}"):
                    repair(build_wheel(machine, version), machine, options.out)
    except UnavailableError as reason:
        raise SystemExit(f"wheels: {reason}") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
