"""Compile runtime and delegate as static libraries for other systems with PyPI's `ziglang`: `make cross`.

    python -m tools.cross [aarch64-macos] [x86_64-windows-gnu] [aarch64-linux-musl]

ExecuTorch's and ggml's headers are those of their wheels for the system; nothing is linked or run. Where the compiler
or the wheels are missing and cannot be fetched, it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tools.foreign_packages import ROOT, UnavailableError, unpack, zig

BUILD = ROOT / "build" / "cross"
TOOLS = Path(sys.executable).parent
MACOS = tuple(f"macosx_{version}_0_arm64" for version in (14, 13, 12, 11))
# Each of cmake/toolchains/zig-*.cmake, and pip's names for the system. musl takes the headers of glibc's wheels.
TARGETS = {
    "aarch64-macos": MACOS,
    "x86_64-windows-gnu": ("win_amd64",),
    "aarch64-linux-musl": ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64"),
}
LIBRARIES = ("executorch_ggml_runtime",)


def compile_for(target: str, compiler: Path) -> None:
    """Configure and compile for one system."""
    site = BUILD / target / "site"
    unpack(TARGETS[target], site)
    environment = os.environ | {"PYTHONPATH": str(site)}
    if shutil.which("ccache") is not None:
        environment = {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} | environment
    build = BUILD / target / "build"
    configure = [
        str(TOOLS / "cmake"), "-S", str(ROOT), "-B", str(build), "-G", "Ninja", "--log-level=WARNING",
        f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'toolchains' / f'zig-{target}.cmake'}",
        f"-DEXECUTORCH_GGML_ZIG={compiler}", "-DEXECUTORCH_GGML_STATIC_DELEGATE=ON",
    ]  # fmt: skip
    subprocess.run(configure, env=environment, check=True)
    command = [str(TOOLS / "cmake"), "--build", str(build), "--target", *LIBRARIES]
    subprocess.run(command, env=environment, check=True)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Compile runtime and delegate for other systems.")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="which (all)")
    try:
        compiler = zig()
        for target in parser.parse_args().targets or TARGETS:
            start = time.monotonic()
            compile_for(target, compiler)
            print(f"{target}: compiled in {time.monotonic() - start:.0f} s", flush=True)
    except UnavailableError as reason:
        print(f"cross: skipped: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
