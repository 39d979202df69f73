"""What an instruction reads or influences: maps, each with its claim of precision."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from hloscope.indexing.map import IndexingMap
from hloscope.ir import Instruction


class Precision(StrEnum):
    """How a map relates to what is really touched."""

    EXACT = "exact"
    """Precisely the elements touched."""
    OVER = "over"
    """All elements touched and perhaps more; the reason says which."""
    UNKNOWN = "unknown"
    """Nothing is known: any element may be touched."""


class Access(Struct, frozen=True):
    """One way in which a tensor is touched.

    Attributes:
        map: From the index asked about to the indices touched; `None` iff nothing is known.
        precision: What the map claims.
        reason: Why the map is not exact; empty for exact maps.
        replica: From the same variables to the device on which it is touched: positions in the
            groups of the collectives `via`, one after another.  `None`: on the same device.
        via: The collectives on the way, the one nearest to the output first, in both directions.
        leaf: Which array of a tuple-typed operand the map is about, leaves numbered in order.
    """

    map: IndexingMap | None
    precision: Precision = Precision.EXACT
    reason: str = ""
    replica: IndexingMap | None = None
    leaf: int = 0
    via: tuple[Instruction, ...] = ()

    def __repr__(self) -> str:
        said = [str(self.precision), *([str(self.map)] if self.map is not None else [])]
        said += [f"reason: {self.reason}"] if self.reason else []
        said += [f"on replica {self.replica}"] if self.replica is not None else []
        return f"<Access {'; '.join(said)}{f'; leaf {self.leaf}' if self.leaf else ''}>"

    @classmethod
    def unknown(cls, reason: str) -> Access:
        """An access nothing is known about.

        >>> Access.unknown("custom-call `f`").precision
        <Precision.UNKNOWN: 'unknown'>
        """
        return cls(None, Precision.UNKNOWN, reason)


Accesses: TypeAlias = tuple[Access, ...]
"""All accesses of one tensor: their union.  `()` means the tensor is never touched."""
