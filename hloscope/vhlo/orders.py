"""The order in which MLIR keeps the uses of a value after ops have been replaced.

A file of bytecode tells it where it is not the usual one, so bytes depend on which ops a library
had to replace on the way to a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hloscope.mlir import Operation, Value
from hloscope.vhlo.mixing import CAST, of_vhlo
from hloscope.vhlo.trees import every_op

_Uses: TypeAlias = dict[Value, list[tuple[int, bool]]]
"""Uses of values back to front, the last one made at the end: which, and is it kept?"""


def use_orders(
    module: Operation, replaced: set[Operation], *, mixed: bool = False
) -> dict[Value, tuple[bool, tuple[int, ...]]]:
    """Values whose uses are out of order: the numbers that bytecode has, and are they pairs?

    Args:
        module: The module after these ops have replaced others.
        replaced: The ops.
        mixed: Its casts to and from VHLO have just been made.
    """
    uses: _Uses = {value: [] for op in replaced for value in (*op.operands, *op.results)}
    casts: dict[Operation, int] = {}
    if mixed:
        casts = {op: 0 for op in every_op(module) if op.name == CAST}
        uses |= {value: [] for op in casts for value in (*op.operands, *op.results)}
    if not uses:
        return {}
    ordered: list[tuple[int, Operation]] = []
    for number, op in enumerate(every_op(module)):
        if op in replaced:
            ordered.append((number, op))
        elif op in casts:
            casts[op] = number
        for position, value in enumerate(op.operands):
            if value in uses:
                uses[value].append((number << 32 | position, op not in replaced))
    _order_casts(casts, uses)
    for number, op in ordered:
        for position, value in enumerate(op.operands):
            uses[value].append((number << 32 | position, True))
    for _, op in ordered:
        for value in op.results:
            uses[value].reverse()
    return {
        value: found
        for value, each in uses.items()
        if (found := _numbers([use for use, kept in reversed(each) if kept])) is not None
    }


def _order_casts(casts: Mapping[Operation, int], uses: _Uses) -> None:
    """A cast from VHLO is the last to use a value; one to VHLO takes over uses one by one."""
    for op, number in casts.items():
        (value,) = op.operands
        if of_vhlo(value):
            first = (number << 32, True)
            uses[value].remove(first)
            uses[value].append(first)
        else:
            uses[op.results[0]].reverse()


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
