"""A cross compiler for Linux on ARM64 and QEMU: Debian's, installed or unpacked from its packages without root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
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


def apt_get(*arguments: str, cwd: Path | None = None, system: Sequence[str] = ()) -> str:
    """Run apt-get with lists and cache of its own, which needs no root; its output. `system`: another one's options."""
    state = UNPACKED.with_name("apt-arm64" if system else "apt")
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    options = [f"Dir::State::lists={state / 'lists'}", f"Dir::Cache={state / 'cache'}", "Debug::NoLocking=1", *system]
    command = ["apt-get", "-qq", *(part for option in options for part in ("-o", option)), *arguments]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["it failed"])[-1]
        wanted = " ".join(arguments[1:]) or "its lists"
        raise UnavailableError(f"`apt-get {arguments[0]}` cannot fetch {wanted}: {reason}")
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


def unpack_for_arm64(package: str) -> Path:
    """One of Debian's packages of ARM64, without those that it needs, unpacked into .cache."""
    folder = UNPACKED.with_name(package)
    if folder.exists():
        return folder
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise UnavailableError(f"no apt-get here to fetch {package} of ARM64 with")
    downloads = UNPACKED.with_name(f"{package}-download")
    downloads.mkdir(parents=True, exist_ok=True)
    system = ("APT::Architecture=arm64", "APT::Architectures=arm64")
    apt_get("update", system=system)
    apt_get("download", package, cwd=downloads, system=system)
    for file in downloads.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(file), str(folder)], check=True)
    shutil.rmtree(downloads)
    return folder


def needed_packages() -> list[str]:
    """What `apt-get install` would add; installed packages that it would only renew stay as they are."""
    plan = apt_get("install", "--simulate", "--no-install-recommends", *PACKAGES)
    return re.findall(r"^Inst (\S+) \(", plan, re.MULTILINE)
