"""What was computed, kept on disk: for a scan that goes on, and for the next one.

A file for each answer, in folders by its key.  It is written under another name and renamed, so
that several writers never see half of one; whoever reads a broken one computes it anew.
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
"""A file of more bytes is none of ours."""
_SHARE: Final = 16
"""A writer looks at the size of all when it has written this part of what there may be."""
_KEPT: Final = 0.75
"""So much of what there may be is left when answers are thrown away."""
FORGOTTEN: Final = 3600.0
"""Seconds after which a draft is one whose writer died."""
_FRESH: Final = 60.0
"""Seconds until an answer that is used counts as used anew."""
_OURS: Final = pattern(r"[0-9a-f]{40}\.json(\.[0-9a-f]+\.tmp)?")
_FOLDER: Final = pattern(r"[0-9a-f]{2}")


@cache
def code_digest() -> str:
    """The digest of hloscope's own code: other code may have other answers."""
    digest = blake2b(digest_size=16)
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _digest(text: bytes) -> bytes:
    """What stands above an answer, so that one that was cut or changed is none."""
    return blake2b(text, digest_size=8).hexdigest().encode()


class Store:
    """Answers by key in a folder; without a folder it keeps nothing.

    Attributes:
        folder: Where they are.
        code: What the keys begin with: answers of other code are others.
        most: Bytes that all answers may take together, and a sixteenth more for each writer; those
            not used for longest go.  `None` for no limit.
        trouble: Why the last answer could not be kept.
    """

    def __init__(self, folder: Path | None, code: str = "", most: int | None = None) -> None:
        self.folder: Final = folder
        self.code: Final = code
        self.most: Final = most
        self.trouble = ""
        self._written = 0 if most is None else most  # the first one written looks as well

    def key(self, *parts: str) -> str:
        """The key of what has these parts."""
        text = "\0".join([self.code, *parts]).encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=20).hexdigest()

    def get(self, key: str) -> Any:
        """What is kept under a key; `None` if nothing is, or nothing whole."""
        text = self.get_bytes(key)
        try:
            return None if text is None else json.loads(text)
        except (ValueError, RecursionError):
            return None

    def get_bytes(self, key: str) -> bytes | None:
        """The bytes that are kept under a key; `None` if there are none, or not all."""
        if self.folder is None:
            return None
        try:
            digest, _, text = _content(self._path(key)).partition(b"\n")
        except OSError:
            return None
        return text if digest == _digest(text) else None

    def put(self, key: str, value: Any) -> None:
        """Keep a value; that it cannot be kept is no error."""
        if self.folder is not None:
            self.put_bytes(key, json.dumps(value).encode("ascii"))

    def put_bytes(self, key: str, text: bytes) -> None:
        """Keep bytes; that they cannot be kept is no error."""
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
            _throw_away(self.folder, self.most)

    def has_room(self, size: int) -> bool:
        """May so many bytes be one answer?"""
        return size <= (_LARGEST if self.most is None else min(_LARGEST, self.most // _SHARE))

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}{_SUFFIX}"


def _content(path: Path) -> bytes:
    """The bytes of a file that is used now; a pipe, for one, is not waited for.

    Raises:
        OSError: It is no file, or cannot be read.
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


class _Kept(NamedTuple):
    """A file of ours: when it was used last, its bytes on the disk, and where it is."""

    used: float
    size: int
    path: str


def _throw_away(folder: Path, most: int) -> None:
    """Remove what was not used for longest, where all takes more than it may; nothing of others."""
    now = time.time()
    kept = []
    for one in _ours(folder):
        if one.path.endswith(".tmp") and now - one.used > FORGOTTEN:
            _remove(one.path)
        else:
            kept.append(one)
    left = sum([one.size for one in kept])
    if left <= most:
        return
    for one in sorted(kept):
        if left <= most * _KEPT:
            return
        if not one.path.endswith(".tmp"):
            left -= one.size
            _remove(one.path)


def _ours(folder: Path) -> Iterator[_Kept]:
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
                    yield _Kept(about.st_mtime, size, entry.path)


def _entries(folder: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
