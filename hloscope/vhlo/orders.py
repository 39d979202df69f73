"""The order in which MLIR keeps the uses of a value after ops have been replaced.

A file of bytecode tells it where it is not the usual one, so bytes depend on which ops a library
had to replace on the way to a version.
"""

from __future__ import annotations

from hloscope.mlir import Operation, Value
from hloscope.vhlo.trees import every_op


def use_orders(
    module: Operation, replaced: set[Operation]
) -> dict[Value, tuple[bool, tuple[int, ...]]]:
    """Values whose uses are out of order: the numbers that bytecode has, and are they pairs?

    Args:
        module: The module after these ops have replaced others.
        replaced: The ops.
    """
    if not replaced:
        return {}
    touched: dict[Value, list[tuple[int, bool]]] = {}
    for op in replaced:
        for value in (*op.operands, *op.results):
            touched[value] = []
    ordered: list[tuple[int, Operation]] = []
    for number, op in enumerate(every_op(module)):
        if op in replaced:
            ordered.append((number, op))
        for position, value in enumerate(op.operands):
            if value in touched:
                touched[value].append((number << 32 | position, op not in replaced))
    # The lists are kept back to front here: the last use is in front.
    for number, op in ordered:
        for position, value in enumerate(op.operands):
            touched[value].append((number << 32 | position, True))
    for _, op in ordered:
        for value in op.results:
            touched[value].reverse()
    return {
        value: found
        for value, uses in touched.items()
        if (found := _numbers([use for use, kept in reversed(uses) if kept])) is not None
    }


def _numbers(uses: list[int]) -> tuple[bool, tuple[int, ...]] | None:
    """How bytecode tells an order of uses; `None` if it is the usual one."""
    usual = sorted(uses, reverse=True)
    if usual == uses:
        return None
    place = {use: index for index, use in enumerate(uses)}
    order = [place[use] for use in usual]
    moved = [(at, index) for index, at in enumerate(order) if at != index]
    if len(moved) < len(order) // 2:
        return True, tuple([number for pair in moved for number in pair])
    return False, tuple(order)
