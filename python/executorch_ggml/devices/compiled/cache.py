"""Artifacts by key, in a folder that processes share.

An entry is a folder ``entries/<key>`` with the artifact's files and a manifest of their sizes and digests, which is
verified whenever an entry is read. It is made in ``partial/<key>`` and renamed when it is whole, under a lock, so that
no reader sees half of one and no two processes compile the same graph at once. A lock is of all keys that begin alike,
so that there are no more files of locks than that.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from ...byte_sizes import parsed_bytes
from .log import log

FOLDERS = ("AXELERA_CACHE_DIR", "EXECUTORCH_GGML_CACHE")
LIMIT = "EXECUTORCH_GGML_CACHE_LIMIT"
DEFAULT_LIMIT = 8 << 30

_FORMAT = 1
_MANIFEST = "manifest.json"
_KEY = re.compile(r"[0-9a-f]{64}")


class CacheError(OSError):
    """The cache cannot be used, or an entry is not what was written; the message says why."""


def cache_folder() -> Path:
    """``$AXELERA_CACHE_DIR``, else ``$EXECUTORCH_GGML_CACHE``, else the user's own cache folder."""
    for name in FOLDERS:
        if folder := os.environ.get(name):
            return Path(folder).expanduser().absolute()
    try:
        return platformdirs.user_cache_path("executorch-ggml", appauthor=False).absolute() / "compiled"
    except RuntimeError as error:
        raise CacheError(f"this user has no home folder: set {FOLDERS[-1]}") from error


def size_limit() -> int:
    """How many bytes entries may take together: ``$EXECUTORCH_GGML_CACHE_LIMIT``, like 500M or 8G, which is usual."""
    text = os.environ.get(LIMIT, "")
    if not text:
        return DEFAULT_LIMIT
    try:
        return parsed_bytes(text)
    except ValueError as error:
        raise CacheError(f"{LIMIT}={error}") from error


@dataclass(frozen=True)
class Entry:
    """A whole entry."""

    key: str
    folder: Path
    manifest: Mapping[str, Any]
    used: float  # when, in seconds of the epoch

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(int(file["size"]) for file in self.manifest["files"].values())


class Cache:
    """The artifacts in a folder. Raises CacheError where others than this user could write to it."""

    def __init__(self, folder: Path | None = None, limit: int | None = None) -> None:
        self.folder = cache_folder() if folder is None else folder.absolute()
        self.limit = size_limit() if limit is None else limit
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._entries, self._partial, self._locks = (self.folder / n for n in ("entries", "partial", "locks"))
        for path in (self.folder, self._entries, self._partial, self._locks):
            path.mkdir(mode=0o700, exist_ok=True)
            _refuse_shared(path)

    @contextlib.contextmanager
    def locked(self, key: str, wait: bool = True) -> Iterator[bool]:
        """Hold an entry; without waiting, gives whether it is held. The system lets go of it for who dies."""
        lock = FileLock(self._locks / f"{_checked(key)[:3]}.lock", timeout=-1 if wait else 0)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def find(self, key: str) -> Entry | None:
        """The verified entry, now the one used last; a damaged one is removed. Call it with the entry locked."""
        folder = self._entries / _checked(key)
        if not os.path.lexists(folder):
            return None
        try:
            entry = _verified(folder)
        except CacheError as error:
            log.warning("%s: removed from the cache: %s", key[:16], error)
            _remove(folder)
            return None
        os.utime(folder / _MANIFEST)
        return entry

    def make(self, key: str, about: Mapping[str, Any], write: Callable[[Path, Path], None]) -> Entry:
        """A new entry with the files that ``write`` puts into a folder; nothing stays where it raises.

        ``write`` is given the folder, and another for what it needs meanwhile. Call it with the entry locked.
        """
        partial, folder = self._partial / _checked(key), self._entries / key
        artifact, scratch = partial / "artifact", partial / "scratch"
        _remove(partial)  # of one that was interrupted
        partial.mkdir(mode=0o700)
        try:
            for path in (artifact, scratch):
                path.mkdir(mode=0o700)
            write(artifact, scratch)
            files = {str(path.relative_to(artifact)): _digest(path) for path in _files(artifact)}
            if not files:
                raise CacheError("there is no artifact")
            created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
            manifest = {**about, "format": _FORMAT, "key": key, "created": created, "files": files}
            (artifact / _MANIFEST).write_text(json.dumps({**manifest, "checksum": _checksum(manifest)}, indent=1))
            _remove(folder)
            artifact.rename(folder)
        finally:
            _remove(partial)
        self.evict(keep=key)
        return _verified(folder, deep=False)

    def remove(self, key: str) -> None:
        """Drop an entry. Call it with the entry locked."""
        _remove(self._entries / _checked(key))

    def entries(self) -> list[Entry]:
        """All entries that can be read, the one used last first; their files are not verified."""
        found = []
        for folder in self._folders():
            with contextlib.suppress(CacheError):
                found.append(_verified(folder, deep=False))
        return sorted(found, key=lambda entry: entry.used, reverse=True)

    def evict(self, keep: str = "") -> list[str]:
        """Drop what was used longest ago until the rest fits the limit; what another process holds stays."""
        self._sweep(keep)
        entries = self.entries()
        total, dropped = sum(entry.size for entry in entries), []
        for entry in reversed(entries):
            if total <= self.limit:
                break
            if entry.key != keep and self._drop(entry.key):
                total -= entry.size
                dropped.append(entry.key)
                log.info("%s: evicted, %d bytes", entry.key[:16], entry.size)
        return dropped

    def clear(self) -> int:
        """Drop all entries but those that are held; gives how many."""
        self._sweep()
        return sum(self._drop(folder.name) for folder in self._folders())

    def verify(self) -> dict[str, str]:
        """Read all entries whole; drops the damaged ones and gives why, by key."""
        damaged = {}
        for folder in self._folders():
            with self.locked(folder.name):
                try:
                    if folder.exists():
                        _verified(folder)
                except CacheError as error:
                    damaged[folder.name] = str(error)
                    _remove(folder)
        return damaged

    def _sweep(self, keep: str = "") -> None:
        """Drop what interrupted compilations left."""
        for folder in self._folders(self._partial):
            if folder.name != keep:
                with self.locked(folder.name, wait=False) as held:
                    if held:
                        _remove(folder)

    def _folders(self, of: Path | None = None) -> list[Path]:
        return sorted(path for path in (of or self._entries).iterdir() if _KEY.fullmatch(path.name))

    def _drop(self, key: str) -> bool:
        with self.locked(key, wait=False) as held:
            if held:
                self.remove(key)
            return held


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise CacheError(f"{key!r} is no key")
    return key


def _refuse_shared(path: Path) -> None:
    """An artifact is code: it is taken only from where this user alone can write."""
    if os.name != "posix":
        return
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise CacheError(f"cache folder {path} belongs to another user: choose another by {FOLDERS[-1]}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(f"others can write to the cache folder {path}: chmod go-w it, or set {FOLDERS[-1]}")
    for parent in path.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise CacheError(f"anyone can replace the cache folder {path}, since {parent} is open: set {FOLDERS[-1]}")


def _verified(folder: Path, deep: bool = True) -> Entry:
    """The entry in a folder; raises CacheError where its manifest, or ``deep`` its files, are not as written."""
    path = folder / _MANIFEST
    try:
        manifest = json.loads(path.read_text())
        used = path.stat().st_mtime
    except (OSError, ValueError) as error:
        raise CacheError(f"its manifest cannot be read: {error}") from error
    if not isinstance(manifest, dict) or manifest.pop("checksum", None) != _checksum(manifest):
        raise CacheError("its manifest is damaged")
    if manifest.get("format") != _FORMAT or manifest.get("key") != folder.name:
        raise CacheError("its manifest is of another entry, or of another version of this project")
    if deep:
        wanted: dict[str, Any] = manifest["files"]
        there = {str(path.relative_to(folder)): path for path in _files(folder)}
        there.pop(_MANIFEST)
        if set(there) != set(wanted):
            raise CacheError(f"it has the files {sorted(there)}, expected {sorted(wanted)}")
        for name, file in there.items():
            if file.stat().st_size != wanted[name]["size"] or _digest(file) != wanted[name]:
                raise CacheError(f"its file {name} is damaged")
    return Entry(folder.name, folder, manifest, used)


def _files(folder: Path) -> list[Path]:
    """All files in a folder; CacheError where there is something else, like a link, which could change later."""
    found = []
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            found.append(path)
        elif not stat.S_ISDIR(mode):
            raise CacheError(f"{path.name} is neither a file nor a folder")
    return found


def _digest(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
        return {"size": path.stat().st_size, "sha256": digest.hexdigest()}


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
