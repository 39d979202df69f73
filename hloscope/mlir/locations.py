"""Where an operation came from, as MLIR's `loc(…)` says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class UnknownLoc:
    """`loc(unknown)`, and what has no location."""


@dataclass(frozen=True, slots=True)
class FileLoc:
    """`"file":line:column`, or a range `"file":line:column to end_line:end_column`."""

    file: str
    line: int
    column: int
    end_line: int = -1
    end_column: int = -1


@dataclass(frozen=True, slots=True)
class NameLoc:
    """`"name"(child)`."""

    name: str
    child: Location = UnknownLoc()


@dataclass(frozen=True, slots=True)
class CallSiteLoc:
    """`callsite(callee at caller)`."""

    callee: Location
    caller: Location


@dataclass(frozen=True, slots=True)
class FusedLoc:
    """`fused<metadata>[a, b]`; the metadata as written, or empty."""

    locations: tuple[Location, ...]
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class LazyLoc:
    """The text in `loc(…)`, an alias or a location not read yet; `mlir.parser` resolves it."""

    text: str


Location: TypeAlias = UnknownLoc | FileLoc | NameLoc | CallSiteLoc | FusedLoc | LazyLoc

UNKNOWN: Final = UnknownLoc()
