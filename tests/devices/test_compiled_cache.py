"""The cache: whole entries or none, for several processes, in a folder that is this user's alone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from executorch_ggml.cli import main
from executorch_ggml.devices.compiled import cache as cache_module
from executorch_ggml.devices.compiled.cache import Cache, CacheError, Entry, cache_folder, size_limit

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
ABOUT = {"compiler": "stand-in", "version": "1", "nodes": 3}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit=10_000)


def put(cache: Cache, key: str, size: int = 1000) -> Entry:
    def write(folder: Path, scratch: Path) -> None:
        (scratch / "model").write_text("not kept")
        (folder / "part").mkdir()
        (folder / "part" / "model.bin").write_bytes(key[:1].encode() * size)

    with cache.locked(key):
        return cache.make(key, ABOUT, write)


def find(cache: Cache, key: str) -> Entry | None:
    with cache.locked(key):
        return cache.find(key)


def test_found_again(cache: Cache) -> None:
    assert find(cache, A) is None
    put(cache, A)
    entry = find(Cache(cache.folder, limit=10_000), A)
    assert entry is not None
    assert (entry.folder / "part" / "model.bin").read_bytes() == b"a" * 1000
    assert (entry.size, entry.manifest["compiler"]) == (1000, "stand-in")


def _cut(folder: Path) -> None:
    (folder / "part" / "model.bin").write_bytes(b"a" * 999)


def _flip(folder: Path) -> None:
    (folder / "part" / "model.bin").write_bytes(b"a" * 999 + b"b")


def _lose(folder: Path) -> None:
    (folder / "part" / "model.bin").unlink()


def _add(folder: Path) -> None:
    (folder / "more").write_text("?")


def _link(folder: Path) -> None:
    _lose(folder)
    (folder / "part" / "model.bin").symlink_to("/dev/null")


def _manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace("stand-in", "standing"))


def _no_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


@pytest.mark.parametrize("damage", [_cut, _flip, _lose, _add, _link, _manifest, _no_manifest])
def test_damaged_is_removed(cache: Cache, damage: object, caplog: pytest.LogCaptureFixture) -> None:
    entry = put(cache, A)
    assert callable(damage)
    damage(entry.folder)
    assert find(cache, A) is None
    assert not entry.folder.exists()
    assert "removed from the cache" in caplog.text


def test_an_entry_under_another_key(cache: Cache) -> None:
    put(cache, A).folder.rename(cache.folder / "entries" / B)
    assert find(cache, B) is None


def test_a_failure_leaves_nothing(cache: Cache) -> None:
    def fail(folder: Path, scratch: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("no")

    with cache.locked(A), pytest.raises(RuntimeError):
        cache.make(A, ABOUT, fail)
    with cache.locked(A), pytest.raises(CacheError, match="no artifact"):
        cache.make(A, ABOUT, lambda folder, scratch: None)
    assert find(cache, A) is None
    assert not list((cache.folder / "partial").iterdir())


INTERRUPTED = """
import os, sys
from pathlib import Path
from executorch_ggml.devices.compiled.cache import Cache
cache = Cache(Path(sys.argv[1]), 10000)
def write(folder, scratch):
    (folder / "half").write_text("x")
    os._exit(3)
with cache.locked("a" * 64):
    cache.make("a" * 64, {}, write)
"""


def test_interrupted(cache: Cache) -> None:
    run = subprocess.run([sys.executable, "-c", INTERRUPTED, str(cache.folder)], check=False)
    assert run.returncode == 3
    assert list((cache.folder / "partial").iterdir())
    put(cache, B)  # which sweeps
    assert not list((cache.folder / "partial").iterdir())
    assert find(cache, A) is None
    put(cache, A)
    assert find(cache, A) is not None


def test_least_recently_used_goes(cache: Cache) -> None:
    small = Cache(cache.folder, limit=2500)
    for age, key in enumerate((A, B)):
        entry = put(small, key)
        os.utime(entry.folder / "manifest.json", (time.time() - 100 + age,) * 2)
    assert find(small, A) is not None  # now B is the oldest
    put(small, C)
    assert {entry.key for entry in small.entries()} == {A, C}


def test_what_is_held_stays(cache: Cache) -> None:
    put(cache, A)
    with cache.locked(A), cache.locked(A, wait=False) as held:
        assert not held
        assert cache.clear() == 0
    assert cache.clear() == 1


def test_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AXELERA_CACHE_DIR", "EXECUTORCH_GGML_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == tmp_path / "x" / "executorch-ggml" / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path.home() / ".cache" / "executorch-ggml" / "compiled"
    monkeypatch.setenv("EXECUTORCH_GGML_CACHE", str(tmp_path / "g"))
    assert cache_folder() == tmp_path / "g"
    monkeypatch.setenv("AXELERA_CACHE_DIR", str(tmp_path / "a"))
    assert cache_folder() == tmp_path / "a"


def test_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size in (("500", 500), ("2k", 2048), ("3MB", 3 << 20), ("1GiB", 1 << 30)):
        monkeypatch.setenv(cache_module.LIMIT, text)
        assert size_limit() == size
    monkeypatch.setenv(cache_module.LIMIT, "much")
    with pytest.raises(CacheError, match="expected a number"):
        size_limit()


def test_others_can_write(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(CacheError, match="others can write"):
        Cache(shared, limit=1)
    with pytest.raises(CacheError, match="is open"):
        Cache(shared / "mine", limit=1)
    assert Cache(tmp_path / "new", limit=1).folder.stat().st_mode & 0o077 == 0


def test_keys_are_no_paths(cache: Cache) -> None:
    with pytest.raises(CacheError, match="is no key"), cache.locked("../x"):
        pass


def test_command(cache: Cache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AXELERA_CACHE_DIR", str(cache.folder))
    put(cache, A)
    _flip(put(cache, B).folder)
    assert main(["cache", "list"]) == 0
    listed = capsys.readouterr().out
    assert "stand-in\t3 nodes\t1000 bytes" in listed
    assert "2 entries, 2000 of" in listed
    assert main(["cache", "verify"]) == 1
    assert "model.bin is damaged" in capsys.readouterr().out
    assert main(["cache", "verify"]) == 0
    assert main(["cache", "clear"]) == 0
    assert "1 entries removed" in capsys.readouterr().out


def test_locks_do_not_pile_up(cache: Cache) -> None:
    for number in range(20):
        find(cache, f"abc{number:061x}")
    assert len(list((cache.folder / "locks").iterdir())) == 1
