"""A cache of results on disk, for interrupted and later scans.

Each result is a file, in a folder by its key.  It is written under another name and renamed, so
that no reader sees half of one.  A damaged file counts as absent, so its result is computed again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, NamedTuple

from hloscope.lazy import pattern

_PACKAGE: Final = Path(__file__).parents[1]
_SUFFIX: Final = ".json"
_LARGEST: Final = 1 << 28
"""Most bytes of a file; a larger one is not from this cache."""
_SHARE: Final = 16
"""A writer checks the total size after writing this fraction (one sixteenth) of the limit."""
_KEPT: Final = 0.75
"""Share of the limit that remains when results are deleted."""
FORGOTTEN: Final = 3600.0
"""Seconds after which the writer of a temporary file is assumed dead."""
_FRESH: Final = 60.0
"""Least seconds between updates of the time of last use."""
_OURS: Final = pattern(r"[0-9a-f]{40}\.json(\.[0-9a-f]+\.tmp)?")
_FOLDER: Final = pattern(r"[0-9a-f]{2}")


@cache  # it reads every file of the package
def code_digest() -> str:
    """The digest of this package's source code: other code may have other results."""
    digest = blake2b(digest_size=16)
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _digest(text: bytes) -> bytes:
    """The checksum before a record, which detects truncation and damage."""
    return blake2b(text, digest_size=8).hexdigest().encode()


class Store:
    """Results by key in a folder; without a folder nothing is stored.

    Attributes:
        folder: The folder; `None` to store nothing.
        code: Digest of the code, a part of every key: other code may have other results.
        most: Limit of the bytes of all results, which each writer may exceed by a sixteenth; the
            least recently used ones are deleted.  `None` for no limit.
        trouble: Why the last result could not be stored; empty if it was.
    """

    def __init__(self, folder: Path | None, code: str = "", most: int | None = None) -> None:
        self.folder: Final = folder
        self.code: Final = code
        self.most: Final = most
        self.trouble = ""
        self._written = 0 if most is None else most  # so that the first write checks the size

    def key(self, *parts: str) -> str:
        """The key of a result that is determined by these parts."""
        text = "\0".join([self.code, *parts]).encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=20).hexdigest()

    def get(self, key: str) -> Any:
        """The stored value of a key; `None` if there is none, or it is damaged."""
        text = self.get_bytes(key)
        try:
            return None if text is None else json.loads(text)
        except (ValueError, RecursionError):
            return None

    def get_bytes(self, key: str) -> bytes | None:
        """The stored bytes of a key; `None` if there are none, or they are damaged."""
        if self.folder is None:
            return None
        try:
            digest, _, text = _content(self._path(key)).partition(b"\n")
        except OSError:
            return None
        return text if digest == _digest(text) else None

    def put(self, key: str, value: Any) -> None:
        """Store a value; a failure is not an error, but sets `trouble`."""
        if self.folder is not None:
            self.put_bytes(key, json.dumps(value).encode("ascii"))

    def put_bytes(self, key: str, text: bytes) -> None:
        """Store bytes; a failure is not an error, but sets `trouble`."""
        if self.folder is None or not self.has_room(len(text)):
            return
        path = self._path(key)
        draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(b"\n".join([_digest(text), text]))
            draft.replace(path)
        except OSError as error:
            self.trouble = f"{error.strerror or error}"
            with contextlib.suppress(OSError):
                draft.unlink()
            return
        self._written += len(text)
        if self.most is not None and self._written * _SHARE >= self.most:
            self._written = 0
            _evict(self.folder, self.most)

    def has_room(self, size: int) -> bool:
        """Is a result of `size` bytes small enough to be stored?"""
        return size <= (_LARGEST if self.most is None else min(_LARGEST, self.most // _SHARE))

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}{_SUFFIX}"


def _content(path: Path) -> bytes:
    """The bytes of a file, which counts as used now; special files such as pipes are refused.

    Raises:
        OSError: It is not a regular file, is too large, or cannot be read.
    """
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(number, "rb") as file:
        about = os.fstat(number)
        if not S_ISREG(about.st_mode) or about.st_size > _LARGEST:
            raise OSError("no answer")
        if time.time() - about.st_mtime > _FRESH:
            with contextlib.suppress(OSError):
                os.utime(path)
        return file.read(_LARGEST + 1)


class _CachedFile(NamedTuple):
    """A file of the cache: time of last use, bytes on the disk, and path."""

    used: float
    size: int
    path: str


def _evict(folder: Path, most: int) -> None:
    """Delete the least recently used results if all take more than `most` bytes.

    Abandoned temporary files are deleted too; files of other programs are not.
    """
    now = time.time()
    kept = []
    for one in _cached_files(folder):
        if one.path.endswith(".tmp") and now - one.used > FORGOTTEN:
            _remove(one.path)
        else:
            kept.append(one)
    left = sum([one.size for one in kept])
    if left <= most:
        return
    # Tuples sort by time of last use. A temporary file is still being written by someone: it stays.
    for one in sorted(kept):
        if left <= most * _KEPT:
            return
        if not one.path.endswith(".tmp"):
            left -= one.size
            _remove(one.path)


def _cached_files(folder: Path) -> Iterator[_CachedFile]:
    for part in _entries(folder):
        if not _FOLDER.fullmatch(part.name) or not part.is_dir(follow_symlinks=False):
            continue
        for entry in _entries(part.path):
            if not _OURS.fullmatch(entry.name):
                continue
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if S_ISREG(about.st_mode):
                    size = max(about.st_size, 512 * getattr(about, "st_blocks", 0))
                    yield _CachedFile(about.st_mtime, size, entry.path)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
