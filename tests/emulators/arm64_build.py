"""The project and its C++ runner, cross-compiled against ExecuTorch's and ggml's wheels for ARM64."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.arm64_toolchain import TOOLCHAIN_FILE, Toolchain
from tools.foreign_packages import ROOT, unpack

BUILD = ROOT / "build" / "arm64"
SITE = BUILD / "site"
NATIVE = BUILD / "native"
PACKAGE = SITE / "executorch_ggml"
RUNNER = BUILD / "examples" / "run_pte"
SMALL = BUILD / "small"
SMALL_RUNNER = SMALL / "runner" / "run_small"
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64")
TOOLS = Path(sys.executable).parent
TEST_SECONDS = 3600  # of the clock: emulated tests on a busy machine


def cmake(toolchain: Toolchain, *arguments: str) -> None:
    """Run CMake with the toolchain's programs, and ccache where there is one."""
    environment = toolchain.environment | {"PYTHONPATH": str(SITE)}
    if shutil.which("ccache") is not None:
        environment = {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} | environment
    subprocess.run([str(TOOLS / "cmake"), *arguments], env=environment, check=True)


def configure(toolchain: Toolchain, source: Path, build: Path, *definitions: str) -> None:
    """Configure a build for ARM64."""
    cmake(
        toolchain, "-S", str(source), "-B", str(build), "-G", "Ninja", "--log-level=WARNING",
        f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAIN_FILE}", *definitions,
    )  # fmt: skip


def build_project(toolchain: Toolchain) -> None:
    """Compile runtime, delegate and native tests, and install them beside the unpacked wheels."""
    corpus = Path(os.environ.get("EXECUTORCH_GGML_TEST_CORPUS", ROOT / "build" / "corpus"))
    configure(
        toolchain, ROOT, NATIVE, f"-DPython_EXECUTABLE={sys.executable}", "-DEXECUTORCH_GGML_BUILD_TESTS=ON",
        "-DEXECUTORCH_GGML_WERROR=ON", f"-DEXECUTORCH_GGML_TEST_CORPUS={corpus}",
        f"-DEXECUTORCH_GGML_TEST_TIMEOUT={TEST_SECONDS}",
    )  # fmt: skip
    cmake(toolchain, "--build", str(NATIVE))
    subprocess.run(
        [str(TOOLS / "cmake"), "--install", str(NATIVE), "--prefix", str(PACKAGE)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def build_runner(toolchain: Toolchain) -> None:
    """Compile examples/cpp against the installed package."""
    build = RUNNER.parent
    configure(toolchain, ROOT / "examples" / "cpp", build, f"-DCMAKE_PREFIX_PATH={PACKAGE}")
    cmake(toolchain, "--build", str(build))


def build_small(toolchain: Toolchain, program: Path) -> None:
    """Compile the runtime for one program alone, and the runner that has all its memory in arrays."""
    runtime = SMALL / "runtime"
    subprocess.run(
        [
            *(sys.executable, "-m", "executorch_ggml", "build-runtime", "--for", str(program), "-o", str(runtime)),
            *("--levels", "neon", "-D", f"CMAKE_TOOLCHAIN_FILE={TOOLCHAIN_FILE}"),
        ],
        env=toolchain.environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    packages = ";".join(str(folder) for folder in (runtime, SITE / "executorch", SITE / "libggml"))
    configure(toolchain, ROOT / "examples" / "cpp", SMALL_RUNNER.parent, f"-DCMAKE_PREFIX_PATH={packages}")
    cmake(toolchain, "--build", str(SMALL_RUNNER.parent), "--target", SMALL_RUNNER.name)


def build_all(toolchain: Toolchain) -> None:
    """Fetch the wheels, compile the project, and compile the runner."""
    unpack(PLATFORMS, SITE)
    build_project(toolchain)
    build_runner(toolchain)
