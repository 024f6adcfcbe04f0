"""Compile runtime, delegate and programs for other systems with PyPI's `ziglang`: `make cross`.

    python -m tools.cross [--quick] [aarch64-macos] [x86_64-windows-gnu] [aarch64-linux-musl]

ExecuTorch's and ggml's headers and libraries are those of their wheels for the system. Native tests are linked with the
runtime, and run where this machine can: in QEMU with Debian's musl, in Wine where it is installed. Where the compiler
or the wheels are missing and cannot be fetched, it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.arm64_toolchain import find, unpack_for_arm64
from tools.foreign_packages import ROOT, UnavailableError, requirement, unpack, unpack_source, zig
from tools.install_ggml import COMMON, PACKAGE

BUILD = ROOT / "build" / "cross"
TOOLS = Path(sys.executable).parent
DELEGATE = "executorch_ggml_runtime"
PLATFORM = "native/CMakeFiles/executorch_ggml_core.dir/runtime/platform"
TEST_SECONDS = 900
# zig adds checks of undefined behavior by itself where nothing is optimized.
QUICK = ("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -fno-sanitize=undefined")


class Emulator(NamedTuple):
    """The command that runs a system's programs here, and the environment that it needs."""

    command: Sequence[str]
    environment: Mapping[str, str]


class System(NamedTuple):
    """A system that is compiled for: one of cmake/toolchains/zig-*.cmake."""

    name: str
    wheels: tuple[str, ...]  # pip's names for it
    emulator: Callable[[Path], Emulator]
    # Tests that fork, or map memory, by functions that it does not have.
    excluded_tests: str = "^$"
    has_executorch: bool = False  # whether ExecuTorch's wheel has a library that our programs can be linked with
    compiles_ggml: bool = False  # in place of the wheel's
    # What --quick compiles of it, and with which instruction sets: little of what two systems have in common.
    quick_targets: tuple[str, ...] = (DELEGATE,)
    quick_levels: str = ""

    @property
    def folder(self) -> Path:
        """Everything that is built for it."""
        return BUILD / self.name

    @property
    def site(self) -> Path:
        """ExecuTorch's and ggml's wheels, unpacked, and the delegate installed beside them."""
        return self.folder / "site"


def qemu_with_musl(_: Path) -> Emulator:
    """QEMU with the C library of Debian's package. A CPU with few levels: `make test-arm64` runs all of them."""
    return Emulator([find().qemu[0], "-cpu", "cortex-a76", "-L", str(unpack_for_arm64("musl"))], {})


def wine(site: Path) -> Emulator:
    """Wine, with ggml's libraries on its path."""
    program = shutil.which("wine64") or shutil.which("wine")
    if program is None:
        raise UnavailableError("no wine here")
    return Emulator([program], {"WINEPATH": str(site / "libggml" / "lib"), "WINEDEBUG": "-all"})


def no_emulator(_: Path) -> Emulator:
    """Nothing runs macOS's programs here."""
    raise UnavailableError("nothing here runs this system's programs")


SYSTEMS = (
    System(
        "aarch64-macos",
        tuple(f"macosx_{version}_0_arm64" for version in (14, 13, 12, 11)),
        no_emulator,
        has_executorch=True,
    ),
    System(
        "x86_64-windows-gnu",
        ("win_amd64",),
        wine,
        excluded_tests="^(hostile|static_memory|thread_pool|threads|kernels_(bfloat_)?tiles)_test$",
        quick_levels="generic",
    ),
    # ExecuTorch's library is for glibc alone; its headers are the same. The C++ library in ggml's wheel for musl has
    # relocations that Debian 12's musl does not know.
    System(
        "aarch64-linux-musl",
        ("musllinux_1_2_aarch64", "manylinux_2_28_aarch64", "manylinux_2_27_aarch64"),
        qemu_with_musl,
        compiles_ggml=True,
        quick_targets=tuple(f"{PLATFORM}/{name}.cpp.o" for name in ("linux", "posix")),
    ),
)


def environment(system: System) -> dict[str, str]:
    """The variables for CMake and what it runs, with ccache where there is one."""
    variables = os.environ | {"PYTHONPATH": str(system.site)}
    if shutil.which("ccache") is not None:
        # The scripts that call zig are written anew.
        ccache = dict.fromkeys(("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"), "ccache")
        variables = {**ccache, "CCACHE_COMPILERCHECK": "content"} | variables
    return variables


def cmake(system: System, *arguments: str | Path) -> None:
    """Run CMake for a system."""
    subprocess.run([str(TOOLS / "cmake"), *map(str, arguments)], env=environment(system), check=True)


def configure(system: System, source: Path, build: Path, *options: str) -> None:
    """Configure a build for a system."""
    toolchain = ROOT / "cmake" / "toolchains" / f"zig-{system.name}.cmake"
    cmake(
        system, "-S", source, "-B", build, "-G", "Ninja", "--log-level=WARNING",
        f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
        f"-DEXECUTORCH_GGML_ZIG={zig()}", *options,
    )  # fmt: skip


def configure_project(system: System, build: Path, *options: str) -> None:
    """Configure runtime and delegate for a system."""
    configure(
        system, ROOT, build, f"-DPython_EXECUTABLE={sys.executable}", "-DEXECUTORCH_GGML_STATIC_DELEGATE=ON",
        "-DEXECUTORCH_GGML_WERROR=ON", *options,
    )  # fmt: skip
    unknown = re.findall(
        r"^EXECUTORCH_GGML_COMPILER_HAS_(\w+):INTERNAL=$", (build / "CMakeCache.txt").read_text(), re.MULTILINE
    )
    if unknown:
        raise SystemExit(f"{system.name}: zig does not take our flags for {', '.join(unknown)}: see IsaKernels.cmake")


def native_tests(system: System) -> list[str]:
    """The native tests that are for a system."""
    names = sorted(path.stem for path in (ROOT / "tests" / "native").glob("*_test.cpp"))
    return [name for name in names if not re.search(system.excluded_tests, name)]


def build_ggml(system: System) -> None:
    """Compile the pinned ggml, and put it in place of the wheel's."""
    installed = system.folder / f"{requirement(PACKAGE)}-installed"
    if not installed.exists():
        build = system.folder / "ggml"
        source = unpack_source(PACKAGE, system.folder / requirement(PACKAGE))
        options = {**COMMON, "GGML_NATIVE": "OFF", "GGML_CCACHE": "OFF", "CMAKE_BUILD_TYPE": "Release"}
        configure(system, source, build, *(f"-D{name}={value}" for name, value in options.items()))
        cmake(system, "--build", build)
        cmake(system, "--install", build, "--prefix", installed)
    package = system.site / "libggml"
    shutil.rmtree(package)
    shutil.copytree(installed, package)


def build_runner(system: System, build: Path) -> None:
    """Install the delegate beside ExecuTorch's and ggml's wheels, and link examples/cpp with all three."""
    package = system.site / "executorch_ggml"
    cmake(system, "--install", build, "--prefix", package)
    runner = system.folder / "examples"
    configure(system, ROOT / "examples" / "cpp", runner, f"-DCMAKE_PREFIX_PATH={package}")
    cmake(system, "--build", runner)


def run_tests(system: System, build: Path, names: Sequence[str]) -> str:
    """Run native tests; says what passed, or why nothing was run."""
    try:
        emulator = system.emulator(system.site)
    except UnavailableError as reason:
        return f"linked {', '.join(names)}; not run: {reason}"
    variables = {**os.environ, **emulator.environment, "EXECUTORCH_GGML_TEST_CORPUS": str(ROOT / "build" / "corpus")}
    for name in names:
        (program,) = (path for path in build.glob(f"{name}*") if path.suffix in ("", ".exe"))
        print(f"{system.name}: {name}", flush=True)
        subprocess.run([*emulator.command, str(program)], env=variables, check=True, timeout=TEST_SECONDS)
    return f"passed {', '.join(names)}"


def compile_quickly(system: System) -> str:
    """Compile CI's part for one system; says what it was."""
    build = system.folder / "quick"
    configure_project(system, build, *QUICK, f"-DEXECUTORCH_GGML_LEVELS={system.quick_levels}")
    cmake(system, "--build", build, "--target", *system.quick_targets)
    return ", ".join(Path(target).name for target in system.quick_targets)


def compile_all(system: System, only: Sequence[str]) -> str:
    """Compile, link and run for one system; says what was done with the tests."""
    build = system.folder / "build"
    if system.compiles_ggml:
        build_ggml(system)
    configure_project(system, build, "-DEXECUTORCH_GGML_BUILD_TESTS=ON")
    names = [name for name in native_tests(system) if not only or name in only]
    cmake(system, "--build", build, "--target", DELEGATE, *names)
    if system.has_executorch:
        build_runner(system, build)
    return run_tests(system, build, names)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Compile runtime, delegate and programs for other systems.")
    names = [system.name for system in SYSTEMS]
    parser.add_argument("systems", nargs="*", choices=[*names, []], help="which (all)")
    parser.add_argument("--quick", action="store_true", help="compile a part, without optimization: what CI runs")
    parser.add_argument("--test", action="append", help="of the native tests only this one (all)")
    options = parser.parse_args()
    try:
        for system in [system for system in SYSTEMS if system.name in (options.systems or names)]:
            start = time.monotonic()
            unpack(system.wheels, system.site)
            done = compile_quickly(system) if options.quick else compile_all(system, options.test or ())
            print(f"{system.name}: {time.monotonic() - start:.0f} s: {done}", flush=True)
    except UnavailableError as reason:
        print(f"cross: skipped: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
