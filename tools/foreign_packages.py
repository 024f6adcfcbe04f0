"""ExecuTorch's and ggml's wheels for another system, unpacked into a folder that CMake is pointed to by PYTHONPATH."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / ".cache" / "wheels"
PINNED = ("executorch", "libggml-python")


class UnavailableError(Exception):
    """Why something that is fetched is neither here nor to be had."""


def zig() -> Path:
    """The program of PyPI's ziglang."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise UnavailableError("no ziglang here: pip install -c constraints.txt ziglang")
    return Path(found.origin).with_name("zig")


def requirement(name: str) -> str:
    """A package as constraints.txt pins it."""
    found = re.search(rf"^{name}==\S+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"constraints.txt does not pin {name}")
    return found[0]


def _download(name: str, folder: Path, ending: str, what: str, *options: str) -> Path:
    """A file of a package as constraints.txt pins it, from a folder of .cache or from PyPI with pip's options."""
    pinned = requirement(name)
    pattern = pinned.replace("-", "_").replace("==", "-") + ending
    if not list(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        command += ["--dest", str(folder), *options, pinned]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            reason = (result.stderr.strip().splitlines() or ["pip failed"])[-1]
            raise UnavailableError(f"cannot fetch {what} {pinned}: {reason}")
    return next(folder.glob(pattern))


def fetch(name: str, platforms: Sequence[str]) -> Path:
    """A package's wheel for one of the platforms (pip's tags)."""
    options = ["--only-binary", ":all:", "--python-version", "3.11"]
    options += [part for platform in platforms for part in ("--platform", platform)]
    return _download(name, WHEELS / platforms[0], "-*.whl", f"the wheel for {platforms[0]} of", *options)


def unpack_source(name: str, folder: Path) -> Path:
    """Unpack a package's sdist into a folder, unless that is there; gives the folder of its sources."""
    if not folder.exists():
        file = _download(name, WHEELS / "source", ".tar.gz", "the source of", "--no-binary", name)
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


def unpack(platforms: Sequence[str], site: Path) -> None:
    """Unpack the wheels into `site`, unless they are there already."""
    wheels = [fetch(name, platforms) for name in PINNED]
    stamp = site / "wheels.txt"
    names = "\n".join(wheel.name for wheel in wheels)
    if stamp.exists() and stamp.read_text() == names:
        return
    shutil.rmtree(site, ignore_errors=True)
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(site)
    stamp.write_text(names)
