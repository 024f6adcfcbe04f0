"""Compile llama.cpp (the package llama-cpp-python) for this machine, as its users do.

    python -m tools.install_llama_cpp

The tests run our GGUF files in it, and the benchmarks compare with it. It is compiled by the compiler that CMake takes,
and on a CPU with AMX by clang 16 or newer where there is one: some versions of gcc lose the tile configuration
(cmake/probe_amx.py), and kill the process at a product. There they are an error, since llama.cpp without AMX is not
what it is to be compared with. Debian has clang-16 and clang-19. Without AMX gcc makes it no slower: on a Zen 2 it
reads 126 tokens of q8_0 a second by gcc 12 and 114 by clang 16, and as many of f16.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.ggml_variants import compiler_loses_amx
from tools.install_ggml import ROOT, pip

PACKAGE = "llama-cpp-python"

SETTINGS = {
    "GGML_NATIVE": "ON", "LLAMA_BUILD_TESTS": "OFF", "LLAMA_BUILD_EXAMPLES": "OFF", "LLAVA_BUILD": "OFF",
}  # fmt: skip

OLDEST_CLANG = 16
CLANGS = ("clang", *(f"clang-{version}" for version in range(22, OLDEST_CLANG - 1, -1)))
CPUINFO = Path("/proc/cpuinfo")


def compiler() -> dict[str, str]:
    """CMake's settings of the compiler. SystemExit where this CPU has AMX, and there is only one that gets it wrong."""
    if not has_amx():
        return {}
    for clang in CLANGS:
        both = shutil.which(clang), shutil.which(clang.replace("clang", "clang++"))
        if both[0] and both[1] and major_version(both[0]) >= OLDEST_CLANG:
            return {"CMAKE_C_COMPILER": both[0], "CMAKE_CXX_COMPILER": both[1]}
    if compiler_loses_amx():
        raise SystemExit(
            f"{PACKAGE}: this CPU has AMX, which the C++ compiler gets wrong; install clang {OLDEST_CLANG} or newer "
            f"(apt-get install clang-{OLDEST_CLANG}), or set CXX to gcc 12.4, 13.3, 14 or newer"
        )
    return {}


def major_version(clang: str) -> int:
    """A clang's version; 0 for a program that does not say."""
    said = subprocess.run([clang, "-dumpversion"], capture_output=True, text=True, check=False).stdout
    major = said.strip().partition(".")[0]
    return int(major) if major.isdecimal() else 0


def has_amx() -> bool:
    """Whether this machine's CPU multiplies tiles of int8."""
    return CPUINFO.exists() and "amx_int8" in CPUINFO.read_text().split()


def main() -> int:
    """Install it into this interpreter's environment."""
    settings = {**SETTINGS, **compiler()}
    print(f"compiling {PACKAGE} with {settings}; this takes some ten minutes on two cores, once", flush=True)
    arguments = [f"--config-settings=cmake.define.{name}={value}" for name, value in settings.items()]
    constraints = ("-c", str(ROOT / "constraints.txt"))
    # pip's own cache does not tell wheels with different settings apart.
    pip(
        "install",
        "--no-cache-dir",
        "--force-reinstall",
        "--no-deps",
        "--no-binary",
        PACKAGE,
        "--config-settings=install.strip=false",  # the benchmarks read in it which compiler it was
        *arguments,
        *constraints,
        PACKAGE,
    )
    pip("install", *constraints, PACKAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
