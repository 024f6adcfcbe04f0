"""The project and its C++ runner, cross-compiled against ExecuTorch's and ggml's wheels for ARM64."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.arm64.toolchain import ROOT, TOOLCHAIN_FILE, Toolchain, UnavailableError

WHEELS = ROOT / ".cache" / "arm64" / "wheels"
BUILD = ROOT / "build" / "arm64"
SITE = BUILD / "site"
NATIVE = BUILD / "native"
PACKAGE = SITE / "executorch_ggml"
RUNNER = BUILD / "examples" / "run_pte"
PINNED = ("executorch", "libggml-python")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
TOOLS = Path(sys.executable).parent


def requirements() -> list[str]:
    """The pinned packages as constraints.txt has them."""
    text = (ROOT / "constraints.txt").read_text()
    return [re.search(rf"^{name}==\S+$", text, re.MULTILINE)[0] for name in PINNED]  # type: ignore[index]


def fetch_wheels() -> list[Path]:
    """The wheels, from .cache or from PyPI."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--only-binary", ":all:", "--python-version", "3.11", "--dest", str(WHEELS)]
    command += [part for platform in PLATFORMS for part in ("--platform", platform)]
    wheels = []
    for requirement in requirements():
        pattern = requirement.replace("-", "_").replace("==", "-") + "-*_aarch64.whl"
        if not list(WHEELS.glob(pattern)):
            result = subprocess.run([*command, requirement], capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise UnavailableError(
                    f"cannot fetch {requirement} for ARM64: {result.stderr.strip().splitlines()[-1]}"
                )
        wheels += list(WHEELS.glob(pattern))
    return wheels


def unpack_wheels(wheels: list[Path]) -> None:
    """Make the folder of packages that CMake finds ExecuTorch and ggml in."""
    stamp = SITE / "wheels.txt"
    names = "\n".join(sorted(wheel.name for wheel in wheels))
    if stamp.exists() and stamp.read_text() == names:
        return
    shutil.rmtree(SITE, ignore_errors=True)
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(SITE)
    stamp.write_text(names)


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


def build_all(toolchain: Toolchain) -> None:
    """Fetch the wheels, compile the project, and compile the runner."""
    unpack_wheels(fetch_wheels())
    build_project(toolchain)
    build_runner(toolchain)
