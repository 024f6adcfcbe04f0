"""A cross compiler for Linux on ARM64 and QEMU: Debian's, installed or unpacked from its packages without root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

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


def apt_get(*arguments: str, cwd: Path | None = None) -> str:
    """Run apt-get with lists and cache of its own, which needs no root; its output."""
    state = UNPACKED.with_name("apt")
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    options = [f"Dir::State::lists={state / 'lists'}", f"Dir::Cache={state / 'cache'}", "Debug::NoLocking=1"]
    command = ["apt-get", "-qq", *(part for option in options for part in ("-o", option)), *arguments]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["it failed"])[-1]
        raise UnavailableError(
            f"no {COMPILER} and {QEMU} here, and `apt-get {arguments[0]}` cannot fetch them: {reason}"
        )
    return result.stdout


def unpack() -> None:
    """Download Debian's packages with those that they need and are not installed, and unpack them into .cache."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise UnavailableError(f"no {COMPILER} and {QEMU} here, and no apt-get to fetch them with: install {PACKAGES}")
    downloads = UNPACKED.with_name("downloads")
    downloads.mkdir(parents=True, exist_ok=True)
    apt_get("update")
    apt_get("download", *needed_packages(), cwd=downloads)
    for package in sorted(downloads.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(UNPACKED)], check=True)
    shutil.rmtree(downloads)


def needed_packages() -> list[str]:
    """What `apt-get install` would add; installed packages that it would only renew stay as they are."""
    plan = apt_get("install", "--simulate", "--no-install-recommends", *PACKAGES)
    return re.findall(r"^Inst (\S+) \(", plan, re.MULTILINE)
