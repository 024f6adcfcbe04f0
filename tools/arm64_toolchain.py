"""A cross compiler for Linux on ARM64 and QEMU: Debian's, installed or unpacked from its packages without root."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tools.debian import Apt
from tools.foreign_packages import ROOT, UnavailableError

UNPACKED = ROOT / ".cache" / "arm64" / "debian"
TOOLCHAIN_FILE = ROOT / "cmake" / "toolchains" / "aarch64-linux-gnu.cmake"
COMPILER = "aarch64-linux-gnu-g++"
QEMU = "qemu-aarch64-static"
PACKAGES = ("g++-aarch64-linux-gnu", "qemu-user-static")
SYSROOT = Path("/usr/aarch64-linux-gnu")


class Toolchain(NamedTuple):
    """Where compiler and emulator are; `prefix` is the folder that their packages were unpacked into, or /."""

    prefix: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the compiler, the emulator and CMake's toolchain file need."""
        if self.prefix == Path("/"):
            return dict(os.environ)
        libraries = self.prefix / "usr" / "lib" / "x86_64-linux-gnu"
        return {
            **os.environ,
            "PATH": f"{self.prefix / 'usr' / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":"),
            "EXECUTORCH_GGML_CROSS_PREFIX": str(self.prefix),
        }

    @property
    def qemu(self) -> list[str]:
        """The command that runs a program."""
        sysroot = self.prefix / SYSROOT.relative_to("/")
        return [str(self.prefix / "usr" / "bin" / QEMU), "-L", str(sysroot)]


def find() -> Toolchain:
    """The installed toolchain, or one unpacked into .cache; raises `UnavailableError` with the reason."""
    compiler = shutil.which(COMPILER)
    emulator = shutil.which(QEMU)
    if compiler is not None and emulator is not None and SYSROOT.is_dir():
        return Toolchain(Path("/"))
    if not (UNPACKED / "usr" / "bin" / COMPILER).exists():
        unpack()
    found = Toolchain(UNPACKED)
    check(found)
    return found


def check(toolchain: Toolchain) -> None:
    """Raise `UnavailableError` where the unpacked compiler does not start."""
    command = [str(toolchain.prefix / "usr" / "bin" / COMPILER), "--version"]
    result = subprocess.run(command, env=toolchain.environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise UnavailableError(f"the unpacked {COMPILER} does not run here: {result.stderr.strip()}")


def unpack() -> None:
    """Unpack Debian's packages, with those that they need and are not installed, into .cache."""
    apt = Apt(UNPACKED.with_name("apt"))
    apt.update(*PACKAGES)
    apt.unpack(apt.needed(*PACKAGES), UNPACKED)


def unpack_for_arm64(package: str) -> Path:
    """One of Debian's packages of ARM64, without those that it needs, unpacked into .cache."""
    folder = UNPACKED.with_name(package)
    if not folder.exists():
        apt = Apt(UNPACKED.with_name("apt-arm64"), ("APT::Architecture=arm64", "APT::Architectures=arm64"))
        apt.update(package)
        apt.unpack((package,), folder)
    return folder
