"""Writing of whole files: a reader gets the old content or the new one, never a part."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = lazy("tempfile")


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that replaces the one at `path` when the block ends without an exception.

    The new file is written beside the old one and renamed over it, so a reader sees the old bytes
    or the new ones.  After an exception (a full disk, an interrupt) the old file is unchanged and
    the new one is deleted.  Symbolic links are followed and permissions stay.  A device or a pipe
    has no content to protect and is written directly.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        before = os.stat(path)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(path, "wb") as direct:
            yield direct
        return
    target = os.path.realpath(path)
    if before is not None and not os.access(target, os.W_OK):
        open(target, "ab").close()  # raises: a file that is write-protected stays
    folder, name = os.path.split(target)
    number, draft = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".tmp", dir=folder)
    try:
        with open(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(number)  # a disk that is full only says so now, on some systems
        os.chmod(draft, stat.S_IMODE(before.st_mode) if before is not None else _mode_of_new())
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _mode_of_new() -> int:
    """Return the permissions that `open` gives a new file, without changing the process's umask."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return 0o666 & ~int(line.split()[1], 8)
    except OSError:
        pass  # not Linux
    return 0o644


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes to a file, all or none.

    Raises:
        OSError: The file cannot be written; its old content is unchanged.
    """
    with whole_file(path) as file:
        file.write(data)
