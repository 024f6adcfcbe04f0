"""Unpacks Debian's Chromium for the tests of pages, without root: into a folder, with the libraries that are missing.

Does nothing where the machine has one; fails where there is no apt-get, or no network.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    """Install into the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.resolve()
    if any(map(shutil.which, NAMES)):
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        sys.exit("no Chromium, and no apt-get to fetch it: the tests of pages are skipped")
    _unpack(folder)
    subprocess.run([folder / "usr/lib/chromium/chromium", "--version"], env=environment(folder), check=True)


def environment(folder: Path) -> dict[str, str]:
    """What an unpacked Chromium runs with."""
    libraries = {str(file.parent) for file in folder.glob(f"**/{platform.machine()}-linux-gnu/**/*.so*")}
    return {"LD_LIBRARY_PATH": ":".join(sorted(libraries))}


def _unpack(folder: Path) -> None:
    downloads = folder / "packages"
    state = folder / "apt"
    for made in (downloads, state / "lists" / "partial", state / "cache" / "archives" / "partial"):
        made.mkdir(parents=True, exist_ok=True)
    options = [f"Dir::State::lists={state / 'lists'}", f"Dir::Cache={state / 'cache'}", "APT::Sandbox::User="]
    apt = ["apt-get", *(word for option in options for word in ("-o", option))]
    subprocess.run([*apt, "update", "-qq"], check=True)
    wanted = ["install", "--yes", "--no-install-recommends", "--print-uris", "chromium"]
    listed = subprocess.run([*apt, *wanted], check=True, capture_output=True, text=True).stdout
    packages = re.findall(r"^'\S+' ([^_\s]+)_", listed, re.MULTILINE)
    subprocess.run([*apt, "download", "-qq", *packages], cwd=downloads, check=True)
    for file in downloads.glob("*.deb"):
        subprocess.run(["dpkg", "-x", file, folder], check=True)
    shutil.rmtree(downloads)
    shutil.rmtree(state)


if __name__ == "__main__":
    main()
