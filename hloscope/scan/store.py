"""What was computed, kept on disk: for a scan that goes on, and for the next one.

A file for each answer, in folders by its key.  It is written under another name and renamed, so
that several writers never see half of one; whoever reads a broken one computes it anew.
"""

from __future__ import annotations

import contextlib
import json
import os
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

_PACKAGE: Final = Path(__file__).parents[1]
_SUFFIX: Final = ".json"


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
        trouble: Why the last answer could not be kept.
    """

    def __init__(self, folder: Path | None, code: str = "") -> None:
        self.folder: Final = folder
        self.code: Final = code
        self.trouble = ""

    def key(self, *parts: str) -> str:
        """The key of what has these parts."""
        text = "\0".join([self.code, *parts]).encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=20).hexdigest()

    def get(self, key: str) -> Any:
        """What is kept under a key; `None` if nothing is, or nothing whole."""
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            digest, _, text = path.read_bytes().partition(b"\n")
        except OSError:
            return None
        return json.loads(text) if digest == _digest(text) else None

    def put(self, key: str, value: Any) -> None:
        """Keep a value; that it cannot be kept is no error."""
        if self.folder is None:
            return
        path = self._path(key)
        draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(value).encode("ascii")
            draft.write_bytes(b"\n".join([_digest(text), text]))
            draft.replace(path)
        except OSError as error:
            self.trouble = f"{error.strerror or error}"
            with contextlib.suppress(OSError):
                draft.unlink()

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}{_SUFFIX}"
