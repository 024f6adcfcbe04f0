"""What is packed of an environment for a machine without network."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path

import pytest
from tools.pack_environment import entry_filter, interpreter_files, is_packed_of_library, is_packed_of_packages, pack


@pytest.mark.parametrize(
    "path",
    ["torch", "torch/lib/libtorch_cpu.so", "torch/testing", "executorch/backends/xnnpack", "numpy-2.dist-info"],
)
def test_what_benchmarks_import_is_packed(path: str) -> None:
    assert is_packed_of_packages(path)


@pytest.mark.parametrize(
    "path", ["ray", "ray-2.50.0.dist-info", "mkdocs_material", "scipy.libs", "torch/test", "executorch/backends/arm"]
)
def test_what_development_alone_takes_is_not(path: str) -> None:
    assert not is_packed_of_packages(path)


def test_an_archive_of_a_tree(tmp_path: Path) -> None:
    for name in ("abc.py", "test/test_abc.py", "json/tool.py", "json/__pycache__/tool.pyc", "config-3.11/libpython.a"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.add(tmp_path, filter=entry_filter(tmp_path, is_packed_of_library))
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        files = {entry.name for entry in archive if entry.isfile()}
    assert files == {str(tmp_path / name).lstrip("/") for name in ("abc.py", "json/tool.py")}


def test_pieces_are_one_archive(tmp_path: Path) -> None:
    source, folder = tmp_path / "noise", tmp_path / "packed"
    source.write_bytes(random.Random(0).randbytes(2_500_000))
    pack(folder, 1, lambda archive: archive.add(source, "noise"))
    parts = sorted(folder.iterdir())
    assert [part.name for part in parts] == [f"environment.tar.xz.0{number}" for number in range(3)]
    stream = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(fileobj=stream, mode="r:xz") as archive:
        contents = archive.extractfile("noise")
        assert contents is not None
        assert contents.read() == source.read_bytes()


def test_the_interpreter_is_found_behind_its_links() -> None:
    files = list(interpreter_files())
    if not files:
        pytest.skip("there is no .venv")
    assert any(path.resolve() == path and path.is_file() for path in files)
