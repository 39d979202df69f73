"""Keys of ops: ops with equal keys get the same verdict, so that one of them is checked.

Types, properties and attributes count by identity: the tree keeps them, and readers share them.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from hloscope.mlir import Block, Operation, Value, likeness

Likeness = object

_LOOKING_AROUND: Final = frozenset({"func.return", "stablehlo.return", "interpreter.run_parallel"})
"""Ops without regions whose checks read their position or other ops."""
_WITH_REGIONS: Final = frozenset(
    f"stablehlo.{name}"
    for name in ("reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "map")
)
"""Ops with regions whose checks read nothing outside the op and its regions."""
_MOST: Final = 16
"""Largest number of ops in a region for which a key is built."""
_type_of: Final = attrgetter("type")


def quick_likeness(operation: Operation) -> Likeness | None:
    """Return a key of all that the checks of an op without regions read.

    `None` if they also read its position or other ops.
    """
    if operation.successors or operation.name in _LOOKING_AROUND:
        return None
    return likeness(operation)


def full_likeness(operation: Operation) -> Likeness | None:
    """Return a key of an op without regions that compares its attributes one by one.

    `quick_likeness` compares the attribute dictionaries by identity, so that it may separate ops
    that have equal keys here.  `None` if the checks read the op's position or other ops.
    """
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
    """Return a key of an op with regions and of all ops in its regions.

    `None` if the checks may read more, or if the regions use a value that is not defined before the
    use in the same block.
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
    """Add the keys of a block's ops to `found`; false if the block is not closed or has regions."""
    numbers: dict[Value, int] = {}
    found.append(tuple(map(id, map(_type_of, block.arguments))))
    _number(block.arguments, numbers)
    for operation in block.operations:
        if operation.regions or operation.successors:
            return False
        # Values count by their number in the block, so that renamed copies have equal keys.
        uses = tuple(map(numbers.get, operation.operands))
        if None in uses:
            return False
        found += (likeness(operation), uses)
        _number(operation.results, numbers)
    return True


def _number(values: Iterable[Value], numbers: dict[Value, int]) -> None:
    for value in values:
        numbers[value] = len(numbers)
