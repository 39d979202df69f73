"""Who wrote a file of bytecode, and what messages about files of versions to come say of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hloscope.bytecode.image import producer_of
from hloscope.errors import HloscopeError, UnknownNameError
from hloscope.vhlo import CURRENT, Version, version_of, version_text

PRODUCER: Final = "StableHLO_v"


def version_in(producer: str) -> Version | None:
    """The version an artifact says it has, in the name of its producer.

    >>> version_in("StableHLO_v1.10.0"), version_in("MLIR23.0.0git")
    ((1, 10, 0), None)
    """
    try:
        return version_of(producer.removeprefix(PRODUCER)) if PRODUCER in producer else None
    except UnknownNameError:
        return None


def is_of_the_future(producer: str) -> bool:
    """Does a producer name a version newer than the newest one that is known here?

    >>> is_of_the_future("StableHLO_v2.0.0"), is_of_the_future("StableHLO_v1.0.0")
    (True, False)
    """
    version = version_in(producer)
    return version is not None and (*version[:2], 0) > CURRENT


@contextmanager
def producer_noted(data: bytes, *, always: bool = False) -> Iterator[None]:
    """Errors name the producer of a file and the newest version known here.

    Args:
        data: The file.
        always: Note producers of known versions too: the file has what no version has.

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
