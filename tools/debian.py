"""Debian's packages, unpacked into a folder: apt-get with lists and cache of its own, which needs no root."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.foreign_packages import UnavailableError


class Apt(NamedTuple):
    """apt-get with its lists and cache in `state`, and with more options of apt.conf."""

    state: Path
    options: tuple[str, ...] = ()

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run apt-get; its output. Raises `UnavailableError` with its last message where it fails."""
        for folder in ("lists/partial", "cache/archives/partial"):
            (self.state / folder).mkdir(parents=True, exist_ok=True)
        own = (f"Dir::State::lists={self.state / 'lists'}", f"Dir::Cache={self.state / 'cache'}", "Debug::NoLocking=1")
        options = [part for option in (*own, *self.options) for part in ("-o", option)]
        command = ["apt-get", "-qq", *options, *arguments]
        result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            reason = (result.stderr.strip().splitlines() or ["it failed"])[-1]
            wanted = " ".join(arguments[1:]) or "its lists"
            raise UnavailableError(f"`apt-get {arguments[0]}` cannot fetch {wanted}: {reason}")
        return result.stdout

    def needed(self, *packages: str) -> list[str]:
        """What `apt-get install` would add; installed packages that it would only upgrade stay as they are."""
        plan = self.run("install", "--simulate", "--no-install-recommends", *packages)
        return re.findall(r"^Inst (\S+) \(", plan, re.MULTILINE)

    def update(self, *packages: str) -> None:
        """Read the lists anew, for packages that are wanted."""
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise UnavailableError(f"no apt-get here to fetch Debian's {' and '.join(packages)} with: install them")
        self.run("update")

    def unpack(self, packages: Sequence[str], folder: Path) -> None:
        """Download packages, without their dependencies, and unpack them into a folder, which is there when all are."""
        downloads = folder.with_name(f"{folder.name}-download")
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir(parents=True)
        self.run("download", *packages, cwd=downloads)
        for package in sorted(downloads.glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(package), str(downloads / "unpacked")], check=True)
        shutil.rmtree(folder, ignore_errors=True)
        (downloads / "unpacked").rename(folder)
        shutil.rmtree(downloads)
