"""Rows of instructions that compute a value from values, lane by lane.

A row is a function from the modifiers and the type of an instruction to the function of its
sources. Everything that no row lists is not an instruction, and `decoding` reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.arrays import Array
from hloscope.ptx.types import PtxType

Compute: TypeAlias = Callable[..., Array]
"""Function from one array of values for each source to the values of the result."""
Maker: TypeAlias = Callable[[frozenset[str], PtxType], Compute]
"""Function from modifiers and type to the function of an instruction."""


class Row(Struct, frozen=True):
    """One opcode for some types.

    Attributes:
        opcode: Its name.
        sources: Number of sources.
        modifiers: Modifiers that it may have, in addition to its type.
        types: Types that it may have.
        make: Returns its function.
        source_types: Types of sources that are not those of the instruction, by number.
        result: Type of the result: a name, `same`, or `wide` (twice the bits, for `.wide`).
    """

    opcode: str
    sources: int
    modifiers: frozenset[str]
    types: frozenset[str]
    make: Maker
    source_types: dict[int, str]
    result: str


INTEGERS: Final = "u16 u32 u64 s16 s32 s64"
BITS: Final = "b16 b32 b64"
FLOATS: Final = "f16 f16x2 bf16 bf16x2 f32 f64"
ROUNDING: Final = frozenset({"rn", "rz", "rm", "rp"})

TABLE: Final[dict[str, list[Row]]] = {}
"""The rows of each opcode; those of one opcode have different types."""


def row(
    opcode: str,
    sources: int,
    types: str,
    modifiers: str = "",
    *,
    source_types: dict[int, str] | None = None,
    result: str = "same",
) -> Callable[[Maker], Maker]:
    """Return a decorator for the function of a row; several opcodes may share it, as words."""

    def add(make: Maker) -> Maker:
        given = frozenset(modifiers.split()), frozenset(types.split())
        for name in opcode.split():
            TABLE.setdefault(name, []).append(
                Row(name, sources, *given, make, source_types or {}, result)
            )
        return make

    return add


def mode_of(modifiers: frozenset[str]) -> str:
    """Return the rounding mode among the modifiers; `rn` without one."""
    return next(iter(modifiers & ROUNDING), "rn")
