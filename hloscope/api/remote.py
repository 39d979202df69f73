"""The program files at paths, directories, patterns and URLs, and their contents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any, Final

from hloscope.api.compressed import read_stream
from hloscope.api.dumps import dumps_in, is_dump
from hloscope.api.files import bytes_of_file
from hloscope.errors import HloscopeError, InputError
from hloscope.extras import library_of

_URL: Final = "://"
_CHAIN: Final = "::"


def files_of(paths: Sequence[str]) -> list[str]:
    """The programs at the given paths, each once, sorted by name.

    Raises:
        InputError: No program is there.
    """
    return sorted({file for path in paths for file in programs_meant(path)})


def programs_meant(path: str) -> Iterator[str]:
    """Yield the programs at a path, a directory, a pattern or a URL.

    Raises:
        InputError: A pattern or a URL matches no program.
    """
    if _URL in path:
        yield from _at_url(path)
    elif isdir(path):
        yield from (str(dump.file) for dump in dumps_in(Path(path)))
    elif exists(path) or not has_magic(path):
        yield path
    else:
        found = [name for name in glob(path, recursive=True) if isfile(name)]
        if not found:
            raise InputError(f"no file is like `{path}`")
        yield from found


def _at_url(url: str) -> list[str]:
    """The programs at a URL.

    Each of a chained URL, `zip://a/*.hlo::file:///x.zip`, stays chained.
    """
    first, chained, rest = url.partition(_CHAIN)
    if chained and _URL not in first:  # a prefix such as a cache, which has no path itself
        return [f"{first}{_CHAIN}{name}" for name in _at_url(rest)]
    fsspec = _fsspec()
    try:
        system, path = fsspec.core.url_to_fs(url)
        if has_magic(path):
            found = [name for name in system.glob(path) if system.isfile(name)]
        elif system.isdir(path):
            found = [name for name in system.find(path) if is_dump(name.rpartition("/")[2])]
        else:
            found = [path] if system.exists(path) else []
        names = [str(system.unstrip_protocol(name)) for name in found]
    except Exception as error:  # each system raises errors of its own
        raise _unreadable(url, error) from None
    if not names:
        raise InputError(f"there are no programs at `{url}`")
    return [f"{name}{chained}{rest}" for name in names]


def content_of(file: str) -> bytes:
    """The decompressed contents of a file or of a URL.

    Raises:
        InputError: It cannot be read.
    """
    if _URL not in file:
        return bytes_of_file(file)
    try:
        with _fsspec().open(file, "rb") as stream:
            return read_stream(stream, f"`{file}`")
    except HloscopeError:
        raise
    except Exception as error:  # each system raises errors of its own
        raise _unreadable(file, error) from None


def _unreadable(url: str, error: Exception) -> InputError:
    return InputError(f"cannot read `{url}`: {error or type(error).__name__}")


def _fsspec() -> Any:
    return library_of("scan", "fsspec", "URLs")
