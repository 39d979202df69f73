"""The producer of a bytecode file, and notes about it in error messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hloscope.bytecode.image import producer_of
from hloscope.errors import HloscopeError, UnknownNameError
from hloscope.vhlo import CURRENT, Version, version_of, version_text

PRODUCER: Final = "StableHLO_v"


def version_in(producer: str) -> Version | None:
    """Return the version that an artifact's producer states; `None` if it states none.

    >>> version_in("StableHLO_v1.10.0"), version_in("MLIR23.0.0git")
    ((1, 10, 0), None)
    """
    try:
        return version_of(producer.removeprefix(PRODUCER)) if PRODUCER in producer else None
    except UnknownNameError:
        return None


def is_of_the_future(producer: str) -> bool:
    """Does a producer state a version newer than the newest known one?

    >>> is_of_the_future("StableHLO_v2.0.0"), is_of_the_future("StableHLO_v1.0.0")
    (True, False)
    """
    version = version_in(producer)
    return version is not None and (*version[:2], 0) > CURRENT


@contextmanager
def producer_noted(data: bytes, *, always: bool = False) -> Iterator[None]:
    """Add a note to errors: the producer of a file, and the newest known version.

    Args:
        data: The file.
        always: Add the note for known versions too, for errors about ops of no version.

    Source: the note of `BytecodeReader.cpp`, "in bytecode version 6 produced by: …".
    """
    try:
        yield
    except HloscopeError as error:
        version, producer = producer_of(data)
        if producer and (always or is_of_the_future(producer)):
            error.said = (
                f"{error.message}\n  note: in bytecode version {version} produced by: {producer};"
                f" the newest version known here is {version_text(CURRENT)}"
            )
        raise
