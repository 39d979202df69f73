"""Registry of the rules that propagate tiles through ops, in both directions.

A rule takes the tiling space, the instruction, its op, the tile, and the number of the output (or
operand) that the tile belongs to. It returns the tiles of all operands (or outputs), or a refusal.
If XLA has no rule and tiles exist, a rule may be registered that is used only on request.
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
    """Direction of propagation."""

    TO_OPERANDS = "to operands"
    TO_OUTPUTS = "to outputs"


class Fit(StrEnum):
    """Precision of a tile, compared with the elements that the given tile reads or influences."""

    EXACT = "exact"
    """Precisely these elements, for every tile."""
    OVER = "over"
    """These elements, and for some tiles more."""
    UNDER = "under"
    """For some tiles not all of these elements."""
    UNCHECKED = "unchecked"
    """The precision depends on sizes that are not known yet."""


class CarriedTile(Struct, frozen=True):
    """The tile of one operand or output.

    Attributes:
        tile: The tile.
        fit: Precision of the tile.
        reason: Why it is not exact.
    """

    tile: Tile
    fit: Fit = Fit.EXACT
    reason: str = ""


class Propagated(Struct, frozen=True):
    """The result of propagating a tile.

    Attributes:
        parts: The tile of every operand or output.
        beyond: Why XLA refuses this; empty if it does not.
    """

    parts: tuple[CarriedTile, ...]
    beyond: str = ""

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """Return the tiles without their precision."""
        return tuple([part.tile for part in self.parts])


Answer: TypeAlias = Propagated | Refusal
Rule: TypeAlias = Callable[["TilingSpace", Any, Any, Tile, int], Answer]
R = TypeVar("R", bound=Rule)


class Entry(Struct, frozen=True):
    """The rules of an op in one direction.

    Attributes:
        rule: XLA's rule; `None` if XLA refuses the op.
        reason: Why XLA refuses it.
        beyond: Rule for tiles that XLA refuses; `None` without one.
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
        classes: The op classes that it applies to, with their subclasses.
        refused: Why XLA has no rule; the rule then applies only beyond XLA.
    """
    return _registering(Way.TO_OPERANDS, classes, refused)


def to_outputs(*classes: type[Op], refused: str = "") -> Callable[[R], R]:
    """Register a rule from the tile of an operand to the tiles of the outputs.

    The arguments are those of `to_operands`.
    """
    return _registering(Way.TO_OUTPUTS, classes, refused)


def although_refused(way: Way, *classes: type[Op]) -> Callable[[R], R]:
    """Register a rule that applies, beyond XLA, if the rule of these ops refuses a tile."""

    def register(rule: R) -> R:
        for cls in classes:
            RULES[way][cls] = replace(RULES[way][cls], beyond=rule)
        return rule

    return register


def refuse(*classes: type[Op], reason: str, ways: tuple[Way, ...] = tuple(Way)) -> None:
    """Register a reason why ops have no rule."""
    for way in ways:
        for cls in classes:
            RULES[way][cls] = Entry(None, reason)


def entry_of(way: Way, cls: type[Op]) -> Entry | None:
    """Return the entry of a class or of its nearest base that has one; `None` without one."""
    table = RULES[way]
    return next((table[base] for base in cls.__mro__ if base in table), None)


# ------------------------------------------------------------------------------------ answers


def exact(*tiles: Tile) -> Propagated:
    """Return tiles that are precisely the elements read or influenced."""
    return Propagated(tuple([CarriedTile(tile) for tile in tiles]))


def parts(*every: CarriedTile) -> Propagated:
    """Return tiles, each with its precision."""
    return Propagated(every)


def unless(reason: str, tile: Tile, fit: Fit = Fit.OVER) -> CarriedTile:
    """Return a tile that is exact if there is no reason against it.

    >>> unless("", Tile()).fit.value, unless("edges", Tile()).fit.value
    ('exact', 'over')
    """
    return CarriedTile(tile, fit, reason) if reason else CarriedTile(tile)


def refused(reason: str, code: RefusalCode = RefusalCode.INVALID_ARGUMENT) -> Refusal:
    """Return a refusal: there are no tiles."""
    return Refusal(code, reason)
