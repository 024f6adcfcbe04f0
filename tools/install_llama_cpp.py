"""Compile llama.cpp (the package llama-cpp-python) for this machine, as its users do.

    python -m tools.install_llama_cpp

The tests run our GGUF files in it, and the benchmarks compare with it. It is compiled by clang where there is one:
some versions of gcc lose the tile configuration of AMX (cmake/probe_amx.py), and kill the process at a product. Under
these AMX stays off.
"""

from __future__ import annotations

import shutil
import sys

from tools.ggml_variants import compiler_loses_amx
from tools.install_ggml import NO_AMX, ROOT, pip

PACKAGE = "llama-cpp-python"

SETTINGS = {
    "GGML_NATIVE": "ON", "LLAMA_BUILD_TESTS": "OFF", "LLAMA_BUILD_EXAMPLES": "OFF", "LLAVA_BUILD": "OFF",
}  # fmt: skip

CLANGS = ("clang", *(f"clang-{version}" for version in range(22, 14, -1)))


def compiler() -> dict[str, str]:
    """CMake's settings of the compiler."""
    for clang in CLANGS:
        both = shutil.which(clang), shutil.which(clang.replace("clang", "clang++"))
        if all(both):
            return {"CMAKE_C_COMPILER": str(both[0]), "CMAKE_CXX_COMPILER": str(both[1])}
    return {"CMAKE_C_FLAGS": NO_AMX, "CMAKE_CXX_FLAGS": NO_AMX} if compiler_loses_amx() else {}


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
        *arguments,
        *constraints,
        PACKAGE,
    )
    pip("install", *constraints, PACKAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
