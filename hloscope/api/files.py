"""What is in files; where one cannot be read, what may have been meant."""

from __future__ import annotations

import os
from pathlib import Path

from hloscope.api.compressed import read_file
from hloscope.errors import InputError, did_you_mean


def bytes_of_file(path: Path) -> bytes:
    """What is in a file, uncompressed.

    Raises:
        InputError: It is not there, is a directory or cannot be read; with files of like names.
    """
    try:
        return read_file(path)
    except FileNotFoundError:
        if path.is_symlink():
            what = f"`{path}` is a symbolic link to `{os.readlink(path)}`, which does not exist"
            raise InputError(what) from None
        raise InputError(f"no file `{path}`{_near_files(path)}") from None
    except IsADirectoryError:
        what = f"`{path}` is a directory{_files_in(path)}; `hloscope ls {path}` lists its programs"
        raise InputError(what) from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}") from None


def _near_files(path: Path) -> str:
    if not path.parent.is_dir():
        return f": there is no directory `{path.parent}`"
    return did_you_mean(path.name, os.listdir(path.parent))


def _files_in(path: Path) -> str:
    names = sorted(n for n in os.listdir(path) if "hlo" in n.lower() or n.endswith(".txt"))
    return f" with {', '.join(names[:3])} … in it" if names else ""
