"""Registry of the rules that propagate tiles, and tests for tiles cut off at array edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Const, Dim, Product, Range
from hloscope.ir import Op
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import DimTile, Refusal, RefusalCode, Tile

# --------------------------------------------------------------------------------------------------
# Registry of the rules that propagate tiles through ops, in both directions.
#
# A rule takes the tiling space, the instruction, its op, the tile, and the number of the output (or
# operand) that the tile belongs to. It returns the tiles of all operands (or outputs), or a
# refusal. If XLA has no rule and tiles exist, a rule may be registered that is used only on
# request.


class TileDirection(StrEnum):
    """Direction in which a tile is propagated."""

    TO_OPERANDS = "to operands"
    TO_OUTPUTS = "to outputs"


class TilePrecision(StrEnum):
    """Precision of a propagated tile.

    The tile is compared with the needed elements: those that the original tile reads or influences.
    """

    EXACT = "exact"
    """The tile has precisely the needed elements, for every original tile."""
    OVER = "over"
    """The tile has all needed elements, and for some original tiles more."""
    UNDER = "under"
    """For some original tiles, the tile lacks some of the needed elements."""
    UNCHECKED = "unchecked"
    """The precision depends on sizes that are not known yet."""


class CarriedTile(Struct, frozen=True):
    """The propagated tile of one operand or output, with its precision.

    Attributes:
        tile: The tile.
        fit: Precision of the tile.
        reason: Why it is not exact; empty if it is.
    """

    tile: Tile
    fit: TilePrecision = TilePrecision.EXACT
    reason: str = ""


class Propagated(Struct, frozen=True):
    """The result of propagating a tile.

    Attributes:
        parts: The tile of every operand or output.
        beyond: Why XLA refuses to propagate this tile; empty if it does not.
    """

    parts: tuple[CarriedTile, ...]
    beyond: str = ""

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """The tiles of all operands or outputs, without their precision."""
        return tuple([part.tile for part in self.parts])


Answer: TypeAlias = Propagated | Refusal
Rule: TypeAlias = Callable[["TilingSpace", Any, Any, Tile, int], Answer]
R = TypeVar("R", bound=Rule)


class Entry(Struct, frozen=True):
    """The rules of an op in one direction.

    Attributes:
        rule: XLA's rule; `None` if XLA refuses the op.
        reason: Why XLA refuses it.
        beyond: Rule for tiles that XLA refuses, used on request; `None` without one.
    """

    rule: Rule | None = None
    reason: str = ""
    beyond: Rule | None = None


RULES: Final[dict[TileDirection, dict[type[Op], Entry]]] = {
    direction: {} for direction in TileDirection
}
"""The propagation rules of each op class, by direction."""


def _registering(
    direction: TileDirection, classes: tuple[type[Op], ...], reason: str
) -> Callable[[R], R]:
    def register(rule: R) -> R:
        for cls in classes:
            entry = Entry(None, reason, rule) if reason else Entry(rule)
            RULES[direction][cls] = entry
        return rule

    return register


def to_operands(*classes: type[Op], refused: str = "") -> Callable[[R], R]:
    """Return a decorator that registers a rule from an output's tile to the operands' tiles.

    Args:
        classes: The op classes that it applies to, with their subclasses.
        refused: Why XLA has no rule. If stated, the rule is the entry's `beyond`.
    """
    return _registering(TileDirection.TO_OPERANDS, classes, refused)


def to_outputs(*classes: type[Op], refused: str = "") -> Callable[[R], R]:
    """Return a decorator that registers a rule from an operand's tile to the outputs' tiles.

    Args:
        classes: The op classes that it applies to, with their subclasses.
        refused: Why XLA has no rule. If stated, the rule is the entry's `beyond`.
    """
    return _registering(TileDirection.TO_OUTPUTS, classes, refused)


def although_refused(direction: TileDirection, *classes: type[Op]) -> Callable[[R], R]:
    """Return a decorator that registers a rule for tiles that XLA's rule of an op refuses.

    It becomes the `beyond` rule in the op's entry.

    Args:
        direction: Direction in which tiles are propagated.
        classes: The op classes that it applies to.
    """

    def register(rule: R) -> R:
        for cls in classes:
            RULES[direction][cls] = replace(RULES[direction][cls], beyond=rule)
        return rule

    return register


def refuse(
    *classes: type[Op], reason: str, directions: tuple[TileDirection, ...] = tuple(TileDirection)
) -> None:
    """Register the reason why ops of these classes have no propagation rule in `directions`."""
    for direction in directions:
        for cls in classes:
            RULES[direction][cls] = Entry(None, reason)


def entry_of(direction: TileDirection, cls: type[Op]) -> Entry | None:
    """Return the rules of an op class in one direction.

    They are those of the nearest base class if the class has none of its own; `None` without any.
    """
    table = RULES[direction]
    return next((table[base] for base in cls.__mro__ if base in table), None)


# ------------------------------------------------------------------------------------ answers


def exact(*tiles: Tile) -> Propagated:
    """Return the tiles, one for each operand or output, as exact ones."""
    return Propagated(tuple([CarriedTile(tile) for tile in tiles]))


def parts(*every: CarriedTile) -> Propagated:
    """Return the tiles, one for each operand or output, with their precisions."""
    return Propagated(every)


def exact_unless(reason: str, tile: Tile) -> CarriedTile:
    """Return the tile as a superset of what is needed, with the reason; exact without a reason.

    >>> exact_unless("", Tile()).fit.value, exact_unless("edges", Tile()).fit.value
    ('exact', 'over')
    """
    return CarriedTile(tile, TilePrecision.OVER, reason) if reason else CarriedTile(tile)


def refused(reason: str, code: RefusalCode = RefusalCode.INVALID_ARGUMENT) -> Refusal:
    """Return a refusal: the op has no tiles, for this reason."""
    return Refusal(code, reason)


# --------------------------------------------------------------------------------------------------
# Cut-off of tiles at array edges, and whether propagation preserves it.
#
# A tile contains the indices in `[0, upper_bound)` only. A rule that shifts indices upwards loses
# the lower cut. A rule that drops dimensions loses the information that there may be no index at
# all.


def starts_inside(space: TilingSpace, tile: DimTile) -> bool:
    """Do bounds of the variables show that no index of the tile is negative?"""
    return space.bounds(tile.offset).lo >= 0


def ends_inside(space: TilingSpace, tile: DimTile) -> bool:
    """Do bounds of the variables show that no index of the tile reaches its upper bound?"""
    return space.bounds(tile.upper_bound - tile.last).lo >= 1


def has_element(space: TilingSpace, tile: DimTile) -> bool:
    """Do bounds of the variables show that every tile has an element that is not cut off?

    They do if the first index of every tile lies inside, or the last index of every tile.
    """
    if space.bounds(tile.size).lo < 1:
        return False
    if space.bounds(tile.last).lo >= 0 and ends_inside(space, tile):
        return True
    if not starts_inside(space, tile):
        return False
    return _is_space_tile(space, tile) or space.bounds(tile.upper_bound - tile.offset).lo >= 1


def _is_space_tile(space: TilingSpace, tile: DimTile) -> bool:
    """Is a dimension's tile one of the tiling space, and does it cover the whole dimension?

    All tiles then begin inside the dimension.
    """
    match tile.offset:
        case Product((Dim(i), Range(j))) if i == j:
            size = space.dimensions[i].size
            return size > 0 and tile.upper_bound == Const(size)
        case _:
            return False


def maybe_empty(space: TilingSpace, tiles: Iterable[DimTile]) -> str:
    """Return why a tile may have no element in the dimensions of `tiles`; else ""."""
    if all(has_element(space, tile) for tile in tiles):
        return ""
    return "tiles may lie wholly outside of a dimension that is dropped"


def lost_start(space: TilingSpace, tiles: Iterable[DimTile]) -> str:
    """Return why indices that were cut off below 0 may become valid ones; else "".

    Rules that shift indices upwards need this. `tiles` are the tiles before the shift, of the
    dimensions that are shifted.
    """
    if all(starts_inside(space, tile) for tile in tiles):
        return ""
    return "indices cut off below 0 are not cut off any more"


def joined(*reasons: str) -> str:
    """Return the distinct nonempty reasons, separated by `; `."""
    return "; ".join(dict.fromkeys(filter(None, reasons)))
