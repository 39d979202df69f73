"""Contents of files. An error about a file lists files with similar names."""

from __future__ import annotations

import os

from hloscope.api.compressed import read_file
from hloscope.errors import InputError, did_you_mean


class FilePath(os.PathLike[str]):
    """A path given by the user: it is never read as the text of a program."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


def bytes_of_file(file: str | os.PathLike[str]) -> bytes:
    """The decompressed contents of a file.

    Raises:
        InputError: It is not there, is a directory or cannot be read; with files of like names.
    """
    path = os.fspath(file)
    try:
        return read_file(file)
    except FileNotFoundError:
        if os.path.islink(path):
            what = f"`{path}` is a symbolic link to `{os.readlink(path)}`, which does not exist"
            raise InputError(what) from None
        raise InputError(f"no file `{path}`{_near_files(path)}") from None
    except IsADirectoryError:
        what = f"`{path}` is a directory{_files_in(path)}; `hloscope ls {path}` lists its programs"
        raise InputError(what) from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}") from None


def _near_files(path: str) -> str:
    folder, name = os.path.split(path)
    if not os.path.isdir(folder or "."):
        return f": there is no directory `{folder}`"
    return did_you_mean(name, os.listdir(folder or "."))


def _files_in(path: str) -> str:
    names = sorted(n for n in os.listdir(path) if "hlo" in n.lower() or n.endswith(".txt"))
    return f" with {', '.join(names[:3])} … in it" if names else ""
