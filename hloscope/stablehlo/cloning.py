"""Copies of operations of the syntax tree with their regions, and trees without locations."""

from __future__ import annotations

from collections.abc import Mapping

from hloscope.mlir import UNKNOWN, Block, Operation, Region, SourceModule, Value


def clone(operation: Operation, values: dict[Value, Value]) -> Operation:
    """Return a copy of an operation with its regions.

    `values` maps values from outside the operation to their replacements. It receives the copy's
    values, by the original ones.
    """
    order = [operation]
    blocks: dict[Block, Block] = {}
    # `order` grows while it is iterated: it has every operation before those in its regions, so the
    # reverse has every operation after them.
    for each in order:
        for k, value in enumerate(each.results):
            values[value] = Value(value.type, None, k, value.name)
        for block in each.blocks:
            blocks[block] = _copy_without_ops(block, values)
            order += block.operations
    made: dict[Operation, Operation] = {}
    for each in reversed(order):
        for block in each.blocks:
            inside = blocks[block].operations = tuple([made[o] for o in block.operations])
            for inner in inside:
                inner.parent = blocks[block]
        made[each] = _copy(each, values, blocks)
    return made[operation]


def _copy_without_ops(block: Block, values: dict[Value, Value]) -> Block:
    """Return a copy of a block with its arguments, but without operations.

    `values` receives the copies of the arguments, by the original ones.
    """
    arguments = tuple([Value(a.type, None, a.index, a.name, a.location) for a in block.arguments])
    values.update(zip(block.arguments, arguments, strict=True))
    made = Block(arguments, (), block.label)
    for argument in arguments:
        argument.owner = made
    return made


def _copy(
    operation: Operation, values: Mapping[Value, Value], blocks: Mapping[Block, Block]
) -> Operation:
    """Return a copy of an operation, without the operations in its regions.

    Args:
        operation: The operation.
        values: The new value of each old one; other values stay.
        blocks: The new block of each old one.
    """
    regions = [Region(tuple([blocks[block] for block in r.blocks])) for r in operation.regions]
    kind = SourceModule if isinstance(operation, SourceModule) else Operation
    made = kind(
        operation.name,
        tuple([values.get(value, value) for value in operation.operands]),
        tuple([values[value] for value in operation.results]),
        operation.properties,
        operation.attributes,
        tuple(regions),
        tuple([blocks[block] for block in operation.successors]),
        operation.successor_operands,
        operation.location,
        operation.source,
        operation.start,
        operation.end,
    )
    if isinstance(operation, SourceModule) and isinstance(made, SourceModule):
        made.resources = operation.resources
    for value in made.results:
        value.owner = made
    return made


def strip_locations(module: Operation) -> None:
    """Remove the locations of a module's operations and block arguments, in place."""
    for operation in module.walk():
        operation.location = UNKNOWN
        for block in operation.blocks:
            for argument in block.arguments:
                argument.location = UNKNOWN
