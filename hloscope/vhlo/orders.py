"""Use-list orders after ops have been replaced.

MLIR keeps the uses of a value in a list. Bytecode records its order where it differs from program
order, so the bytes of an artifact depend on the ops that a library had to replace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hloscope.mlir import Operation, Value
from hloscope.vhlo.mixing import CAST, of_vhlo
from hloscope.vhlo.trees import every_op

_Uses: TypeAlias = dict[Value, list[tuple[int, bool]]]
"""Uses of each value, the latest last: position of the use, and whether it is final."""


def use_orders(
    module: Operation, replaced: set[Operation], *, mixed: bool = False
) -> dict[Value, tuple[bool, tuple[int, ...]]]:
    """Return the use-list orders of values whose uses are not in program order.

    The result has, for each value, whether the numbers are index pairs, and the numbers, as
    bytecode stores them.

    Args:
        module: The module after the replacement.
        replaced: The new ops.
        mixed: The module has new casts between VHLO and other dialects.
    """
    # Only the operands and results of replaced ops and new casts can be out of order: the uses of
    # all other values were added in program order.
    uses: _Uses = {value: [] for op in replaced for value in (*op.operands, *op.results)}
    casts: dict[Operation, int] = {}
    if mixed:
        casts = {op: 0 for op in every_op(module) if op.name == CAST}
        uses |= {value: [] for op in casts for value in (*op.operands, *op.results)}
    if not uses:
        return {}
    ordered: list[tuple[int, Operation]] = []
    # `number << 32 | position` orders uses by program order of the user, then by operand number.
    for number, op in enumerate(every_op(module)):
        if op in replaced:
            ordered.append((number, op))
        elif op in casts:
            casts[op] = number
        for position, value in enumerate(op.operands):
            if value in uses:
                uses[value].append((number << 32 | position, op not in replaced))
    _order_casts(casts, uses)
    # A replacement is created after the whole module was read: its own uses follow all others. The
    # use by the op that it replaced is removed at the end (`kept` is false).
    for number, op in ordered:
        for position, value in enumerate(op.operands):
            uses[value].append((number << 32 | position, True))
    # Uses of a replaced result move one by one from the front of its list to the new result, which
    # reverses them.
    for _, op in ordered:
        for value in op.results:
            uses[value].reverse()
    return {
        value: found
        for value, each in uses.items()
        if (found := _numbers([use for use, kept in reversed(each) if kept])) is not None
    }


def _order_casts(casts: Mapping[Operation, int], uses: _Uses) -> None:
    """Apply the order that casts leave.

    A cast from VHLO is the last user of its operand. A cast to VHLO takes over the uses of its
    operand one by one, which reverses them.
    """
    for op, number in casts.items():
        (value,) = op.operands
        if of_vhlo(value):
            first = (number << 32, True)
            uses[value].remove(first)
            uses[value].append(first)
        else:
            uses[op.results[0]].reverse()


def _numbers(uses: list[int]) -> tuple[bool, tuple[int, ...]] | None:
    """Return bytecode's encoding of an order of uses; `None` for program order."""
    usual = sorted(uses, reverse=True)
    if usual == uses:
        return None
    position_of = {use: index for index, use in enumerate(uses)}
    order = [position_of[use] for use in usual]
    # Bytecode has two encodings: the whole permutation, or pairs of moved positions. Pairs are
    # shorter if fewer than half of the uses move, which is MLIR's rule too.
    moved = [(at, index) for index, at in enumerate(order) if at != index]
    if len(moved) < len(order) // 2:
        return True, tuple([number for pair in moved for number in pair])
    return False, tuple(order)
