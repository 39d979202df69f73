"""What ops have in common that verification looks at: those alike need to be checked once.

Types, properties and attributes count by identity: the tree keeps them, and readers share them.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from hloscope.mlir import Block, Operation, Value, likeness

Likeness = object

_LOOKING_AROUND: Final = frozenset({"func.return", "stablehlo.return", "interpreter.run_parallel"})
"""Ops without regions whose checks depend on where they stand, or on other ops."""
_WITH_REGIONS: Final = frozenset(
    f"stablehlo.{name}"
    for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "map")
)
"""Ops with regions whose checks look at nothing but them and what is in them."""
_MOST: Final = 16
"""Ops in a region that is compared with others."""
_type_of: Final = attrgetter("type")


def quick_likeness(operation: Operation) -> Likeness | None:
    """All that the checks of an op without regions look at; `None` if they look around it too."""
    if operation.successors or operation.name in _LOOKING_AROUND:
        return None
    return likeness(operation)


def full_likeness(operation: Operation) -> Likeness | None:
    """The same, attribute by attribute: ops may be alike that don't share all of them."""
    if operation.successors or operation.name in _LOOKING_AROUND:
        return None
    return (
        operation.name,
        tuple([id(value.type) for value in operation.operands]),
        tuple([id(value.type) for value in operation.results]),
        tuple([(name, id(attribute)) for name, attribute in operation.properties.items()]),
        tuple([(name, id(attribute)) for name, attribute in operation.attributes.items()]),
    )


def closed_likeness(operation: Operation) -> Likeness | None:
    """All that the checks of an op with regions look at, and of what is in them.

    `None` if they may look elsewhere, or if values are used that are not defined before in the
    same block.
    """
    if operation.name not in _WITH_REGIONS or operation.successors:
        return None
    found = [likeness(operation)]
    for region in operation.regions:
        if len(region.blocks) != 1:
            return None
        (block,) = region.blocks
        if not 0 < len(block.operations) <= _MOST or not _add_block(block, found):
            return None
    return tuple(found)


def _add_block(block: Block, found: list[Likeness]) -> bool:
    """Add what there is in a block; is it closed, and without regions?"""
    numbers: dict[Value, int] = {}
    found.append(tuple(map(id, map(_type_of, block.arguments))))
    _number(block.arguments, numbers)
    for operation in block.operations:
        if operation.regions or operation.successors:
            return False
        uses = tuple(map(numbers.get, operation.operands))
        if None in uses:
            return False
        found += (likeness(operation), uses)
        _number(operation.results, numbers)
    return True


def _number(values: Iterable[Value], numbers: dict[Value, int]) -> None:
    for value in values:
        numbers[value] = len(numbers)
