"""Which rule carries a tile through which op, in both directions.

A rule is told the tiling space, the instruction, its op, the tile, and the number of the output
(or operand) whose tile it is.  It answers with the tiles of all operands (or outputs), or with a
refusal.  Where XLA has no rule and a tile exists all the same, a rule may be registered that is
asked only by who wants more than XLA does.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.ir import Op
from hloscope.tiling.refusal import Refusal, RefusalCode
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import Tile


class Way(StrEnum):
    """Where a tile is carried."""

    TO_OPERANDS = "to operands"
    TO_OUTPUTS = "to outputs"


class Fit(StrEnum):
    """What a tile is, compared with the elements that the given tile reads or influences."""

    EXACT = "exact"
    """These elements, for every tile."""
    OVER = "over"
    """These, and for some tiles more."""
    UNDER = "under"
    """For some tiles not all of these."""
    UNCHECKED = "unchecked"
    """That depends on sizes that are not known yet."""


class CarriedTile(Struct, frozen=True):
    """The tile of one operand or output.

    Attributes:
        tile: The tile.
        fit: What it claims.
        reason: Why that is not exact.
    """

    tile: Tile
    fit: Fit = Fit.EXACT
    reason: str = ""


class Propagated(Struct, frozen=True):
    """Where a tile was carried.

    Attributes:
        parts: For every operand or output its tile.
        beyond: Why XLA refuses this, empty where it does not.
    """

    parts: tuple[CarriedTile, ...]
    beyond: str = ""

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """The tiles alone."""
        return tuple([part.tile for part in self.parts])


Answer: TypeAlias = Propagated | Refusal
Rule: TypeAlias = Callable[["TilingSpace", Any, Any, Tile, int], Answer]
R = TypeVar("R", bound=Rule)


class Entry(Struct, frozen=True):
    """What is known of an op in one direction.

    Attributes:
        rule: Carries tiles; `None` where it is refused.
        reason: Why it is refused.
        beyond: Carries tiles where XLA refuses, always or sometimes; `None` where nobody does.
    """

    rule: Rule | None = None
    reason: str = ""
    beyond: Rule | None = None


RULES: Final[dict[Way, dict[type[Op], Entry]]] = {way: {} for way in Way}
"""The entries by direction and class."""


def _registering(way: Way, classes: tuple[type[Op], ...], reason: str) -> Callable[[R], R]:
    def register(rule: R) -> R:
        for cls in classes:
            entry = Entry(None, reason, rule) if reason else Entry(rule)
            RULES[way][cls] = entry
        return rule

    return register


def to_operands(*classes: type[Op], refused: str = "") -> Callable[[R], R]:
    """Register a rule from the tile of an output to the tiles of the operands.

    Args:
        classes: The ops it answers for; a class answers for its subclasses too.
        refused: Why XLA has none; the rule is asked only beyond XLA then.
    """
    return _registering(Way.TO_OPERANDS, classes, refused)


def to_outputs(*classes: type[Op], refused: str = "") -> Callable[[R], R]:
    """Register a rule from the tile of an operand to the tiles of the outputs.

    The arguments are those of `to_operands`.
    """
    return _registering(Way.TO_OUTPUTS, classes, refused)


def although_refused(way: Way, *classes: type[Op]) -> Callable[[R], R]:
    """Register a rule that is asked, beyond XLA, where the rule of these ops refuses."""

    def register(rule: R) -> R:
        for cls in classes:
            RULES[way][cls] = replace(RULES[way][cls], beyond=rule)
        return rule

    return register


def refuse(*classes: type[Op], reason: str, ways: tuple[Way, ...] = tuple(Way)) -> None:
    """State that ops have no rule, and why."""
    for way in ways:
        for cls in classes:
            RULES[way][cls] = Entry(None, reason)


def entry_of(way: Way, cls: type[Op]) -> Entry | None:
    """The entry of a class or of its nearest base that has one."""
    table = RULES[way]
    return next((table[base] for base in cls.__mro__ if base in table), None)


# ------------------------------------------------------------------------------------ answers


def exact(*tiles: Tile) -> Propagated:
    """These tiles are precisely what is read or influenced."""
    return Propagated(tuple([CarriedTile(tile) for tile in tiles]))


def parts(*every: CarriedTile) -> Propagated:
    """The tiles with what each claims."""
    return Propagated(every)


def unless(reason: str, tile: Tile, fit: Fit = Fit.OVER) -> CarriedTile:
    """A tile that is exact if there is no reason why not.

    >>> unless("", Tile()).fit.value, unless("edges", Tile()).fit.value
    ('exact', 'over')
    """
    return CarriedTile(tile, fit, reason) if reason else CarriedTile(tile)


def refused(reason: str, code: RefusalCode = RefusalCode.INVALID_ARGUMENT) -> Refusal:
    """There are no tiles."""
    return Refusal(code, reason)
