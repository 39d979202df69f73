"""Libraries that an extra of the package installs, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hloscope.errors import InputError


def library_of(extra: str, name: str, needed_by: str) -> Any:
    """Return an imported library of an extra.

    Args:
        extra: Name of the extra, as `pip install 'hloscope[extra]'` takes it.
        name: The module to import.
        needed_by: What needs the library, in the plural: the subject of the message.

    Raises:
        InputError: The library is not installed; the message says how to install it.

    >>> library_of("scan", "no_such_library", "scans")
    Traceback (most recent call last):
      ...
    hloscope.errors.InputError: error: scans need the package `no_such_library`: pip install \
'hloscope[scan]'
    """
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        message = f"{needed_by} need the package `{package}`: pip install 'hloscope[{extra}]'"
        raise InputError(message) from None
