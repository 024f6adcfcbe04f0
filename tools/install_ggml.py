"""Install the pinned ggml (the package libggml-python) in one of its builds.

    variants  compiled here, with one CPU library per generation of processor; the right one is picked at load time
    native    compiled here for this machine's processor alone, in a quarter of the time
    wheel     the prebuilt package: nothing to compile, slower
    tsan      compiled as native is, for ThreadSanitizer: for programs that are instrumented too, so use --target

OpenMP stays off in all of them: ggml's OpenMP builds can stick for milliseconds in a barrier. A wheel that was compiled
is kept in `.cache`, so that a new environment does not compile it again. Nothing is installed where the wanted build is
there already. The variant for AMX is removed where the compiler gets that wrong; `tools/prove_ggml.py` tries the others
once the project is built.

    --backend rpc       ggml-rpc, the devices of other machines: half a minute to compile
    --backend vulkan    ggml-vulkan: ten minutes on two cores

A backend is a library of its own that each of these builds loads: from beside its own libraries, where it is put, or,
with --target, where GGML_BACKEND_PATH names it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.ggml_variants import AMX, compiler_loses_amx, package_folder, remove_variant, variants

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "libggml-python"

COMMON = {"GGML_OPENMP": "OFF", "GGML_LLAMAFILE": "ON"}
BUILDS: dict[str, dict[str, str] | None] = {
    "variants": {**COMMON, "GGML_NATIVE": "OFF", "GGML_CPU_ALL_VARIANTS": "ON", "GGML_BACKEND_DL": "ON"},
    "native": {**COMMON, "GGML_NATIVE": "ON"},
    "wheel": None,
    "tsan": {**COMMON, "GGML_NATIVE": "ON", "GGML_SANITIZE_THREAD": "ON", "CMAKE_BUILD_TYPE": "RelWithDebInfo"},
}
BACKENDS = {
    "rpc": {"GGML_RPC": "ON", "GGML_RPC_RDMA": "OFF"},
    "vulkan": {"GGML_VULKAN": "ON", "CMAKE_CXX_FLAGS": f"-include {ROOT / 'tools' / 'vulkan_layer_settings.h'}"},
}
# What --backend vulkan compiles with beside a C++ compiler.
VULKAN_HEADERS = ("vulkan/vulkan.hpp", "spirv/unified1/spirv.hpp")
VULKAN_PACKAGES = "mesa-vulkan-drivers glslc libvulkan-dev spirv-headers"
BACKEND = {**COMMON, "GGML_NATIVE": "OFF", "GGML_CPU": "OFF", "GGML_BACKEND_DL": "ON"}
NO_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"


def pinned_version() -> str:
    """The version that constraints.txt asks for."""
    text = (ROOT / "constraints.txt").read_text()
    found = re.search(rf"^{PACKAGE}==(\S+)$", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"constraints.txt does not pin {PACKAGE}")
    return found[1]


def installed() -> tuple[str, str] | None:
    """Version and build of the installed package, or None."""
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    package = package_folder()
    configs = list(package.rglob("ggml-config.cmake")) if package is not None else []
    if not configs:
        return None
    settings = dict(re.findall(r'^set\((GGML_\w+) "(.*)"\)$', configs[0].read_text(), re.MULTILINE))
    if settings.get("GGML_CPU_ALL_VARIANTS") == "ON":
        return version, "variants"
    return version, "native" if settings.get("GGML_NATIVE") == "ON" else "wheel"


def pip(*arguments: str) -> None:
    """Run this interpreter's pip."""
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


def compiled_wheel(build: str, defines: dict[str, str], version: str) -> Path:
    """A wheel compiled with the given CMake definitions: the kept one, or a new one."""
    folder = ROOT / ".cache" / f"ggml-{build}-{version}-{sys.implementation.cache_tag}"
    kept = sorted(folder.glob("*.whl"))
    if not kept:
        settings = [f"--config-settings=cmake.define.{key}={value}" for key, value in defines.items()]
        # pip's own cache does not tell wheels with different settings apart.
        pip(
            "wheel", "--no-cache-dir", "--no-deps", "--no-binary", PACKAGE, *settings,
            "--wheel-dir", str(folder), f"{PACKAGE}=={version}",
        )  # fmt: skip
        kept = sorted(folder.glob("*.whl"))
    return kept[0]


def install_backend(name: str, version: str, target: Path | None) -> None:
    """Compile a backend's library once, and put it beside ggml's own, or into a folder."""
    folder = target if target is not None else _library_folder()
    if name == "vulkan":
        _check_vulkan()
    wheel = compiled_wheel(name, {**BACKEND, **BACKENDS[name]}, version)
    file = f"libggml-{name}.so"
    with zipfile.ZipFile(wheel) as archive:
        member = next(entry for entry in archive.namelist() if entry.endswith(f"lib/{file}"))
        folder.mkdir(parents=True, exist_ok=True)
        replacement = folder / f"{file}.new"  # a process may have the old one mapped
        replacement.write_bytes(archive.read(member))
        replacement.replace(folder / file)
    print(f"{folder / file} is installed")


def _library_folder() -> Path:
    """Where the installed ggml has its libraries."""
    package = package_folder()
    found = sorted(package.glob("lib*/libggml-base.so*")) if package is not None else []
    if not found:
        raise SystemExit(f"{PACKAGE} is not installed, and a backend lies beside its libraries: install it first")
    return found[0].parent


def _check_vulkan() -> None:
    """Say at once what the compilation would miss."""
    source = "".join(f"#include <{header}>\n" for header in VULKAN_HEADERS)
    compiler = ["c++", "-std=c++17", "-fsyntax-only", "-x", "c++", "-"]
    has_headers = subprocess.run(compiler, input=source.encode(), capture_output=True, check=False).returncode == 0
    if not has_headers or shutil.which("glslc") is None:
        raise SystemExit(
            f"ggml-vulkan needs glslc and the headers {', '.join(VULKAN_HEADERS)}. On Debian and Ubuntu: "
            f"apt-get install --no-install-recommends {VULKAN_PACKAGES}"
        )


def leave_out_amx() -> None:
    """Remove the variant for AMX where the compiler gets it wrong."""
    package = package_folder()
    if package is None or f"lib{AMX}.so" not in {path.name for path in variants(package)} or not compiler_loses_amx():
        return
    remove_variant(package, AMX)
    print(f"left out lib{AMX}.so: this compiler gets AMX wrong (gcc bug 114098; gcc 12.4, 13.3 and 14 do not)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Install the pinned ggml.")
    parser.add_argument("build", choices=BUILDS, nargs="?", default="variants")
    parser.add_argument("--target", type=Path, help="a folder to install into, in place of the environment")
    parser.add_argument("--backend", choices=BACKENDS, help="add a backend, in place of installing ggml")
    options = parser.parse_args(arguments)
    build: str = options.build
    target: Path | None = options.target
    version = pinned_version()
    if options.backend is not None:
        install_backend(options.backend, version, target)
        return 0
    if target is None and installed() == (version, build):
        print(f"{PACKAGE} {version} ({build}) is installed")
        leave_out_amx()
        return 0
    install = [
        "install",
        "--no-deps",
        *(["--force-reinstall"] if target is None else ["--upgrade", f"--target={target}"]),
    ]
    defines = BUILDS[build]
    if defines is None:
        pip(*install, "--only-binary", PACKAGE, f"{PACKAGE}=={version}")
    else:
        if defines.get("GGML_NATIVE") == "ON" and compiler_loses_amx():
            defines = {**defines, "CMAKE_C_FLAGS": NO_AMX, "CMAKE_CXX_FLAGS": NO_AMX}
        print(f"compiling {PACKAGE} {version} ({build}); this takes minutes, once", flush=True)
        pip(*install, str(compiled_wheel(build, defines, version)))
    if target is None:
        leave_out_amx()
    return 0


if __name__ == "__main__":
    sys.exit(main())
