"""Accesses: the maps by which an instruction reads or influences a tensor, with precision."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from hloscope.indexing.map import IndexingMap
from hloscope.ir import Instruction


class Precision(StrEnum):
    """Relation between the elements of a map and the elements that are accessed."""

    EXACT = "exact"
    """The map has precisely the elements that are accessed."""
    OVER = "over"
    """The map has all elements that are accessed and may have more; the reason is stated."""
    UNKNOWN = "unknown"
    """No map is known: any element may be accessed."""


class Access(Struct, frozen=True):
    """One map by which a tensor is accessed, with its precision.

    Attributes:
        map: Map from the given index to the accessed indices; `None` only if nothing is known.
        precision: The precision of the map.
        reason: Why the map is not exact; empty for exact maps.
        replica: Map from the same variables to the device of the access: positions in the groups
            of the collectives `via`, in their order.  `None` means the same device.
        via: The collectives in between, in both directions the one nearest to the output first.
        leaf: Number of the array of a tuple-typed operand, in flattened order.
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
        """Return an access without a map, for the given reason.

        >>> Access.unknown("custom-call `f`").precision
        <Precision.UNKNOWN: 'unknown'>
        """
        return cls(None, Precision.UNKNOWN, reason)


Accesses: TypeAlias = tuple[Access, ...]
"""All accesses of one tensor; their union counts. `()` means that no element is accessed."""
