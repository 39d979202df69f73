"""Casts between VHLO and other dialects, for programs with ops of both.

Values pass through `builtin.unrealized_conversion_cast`: one cast for a value, directly after the
value's definition. The casts of several values of one op or block are in reverse order: values of
VHLO by their result number, others by their first use.

Source: what jaxlib writes; MLIR's `DialectConversion.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import Block, Operation, Value
from hloscope.vhlo.trees import every_op

CAST: Final = "builtin.unrealized_conversion_cast"


def is_vhlo_op(op: Operation) -> bool:
    """Is an op of the dialect VHLO, so that its attributes and types are VHLO's?"""
    return op.name.startswith("vhlo.")


def of_vhlo(value: Value) -> bool:
    """Is a value defined by an op of VHLO, or an argument of a block in its regions?

    The value must not be the result of a cast.
    """
    owner = value.owner
    if isinstance(owner, Operation):
        return is_vhlo_op(owner)
    region = None if owner is None else owner.parent
    parent = None if region is None else region.parent
    return parent is not None and is_vhlo_op(parent)


def unfit_beside_vhlo(op: Operation) -> str:
    """Return the reason why an op of another dialect cannot be in a function of VHLO, or "".

    Casts give its operands their own types. The arguments of its successor blocks and the
    terminators of its regions cannot be cast.
    """
    if any(block.arguments for block in op.successors) and _in_function(op):
        return "the arguments of the blocks that it goes to would be of other types"
    if op.name == "chlo.scan":
        return "its region would be one of VHLO"
    return ""


def _in_function(op: Operation) -> bool:
    region = None if op.parent is None else op.parent.parent
    parent = None if region is None else region.parent
    return parent is not None and parent.name.startswith(("func.", "stablehlo.", "vhlo."))


def add_casts(module: Operation) -> None:
    """Insert casts where ops of VHLO and of other dialects use each other's values."""
    casts: dict[Value, Operation] = {}
    flavours: dict[Value, bool] = {}
    # First find the values that cross, in program order, which decides the order of the casts.
    # Operands are replaced afterwards: a replaced operand would look like a value without a cast.
    for op in every_op(module):
        if op.name == "builtin.module":
            continue
        wanted = is_vhlo_op(op)
        for operand in op.operands:
            found = flavours.get(operand)
            if found is None:
                found = flavours[operand] = of_vhlo(operand)
            if found != wanted and operand not in casts:
                casts[operand] = _cast(operand, op)
    if not casts:
        return
    for op in list(every_op(module)):
        if any(operand in casts for operand in op.operands) and op.name != "builtin.module":
            wanted = is_vhlo_op(op)
            op.operands = tuple(
                [
                    casts[operand].results[0]
                    if operand in casts and flavours[operand] != wanted
                    else operand
                    for operand in op.operands
                ]
            )
    _insert(casts, flavours)


def _cast(value: Value, user: Operation) -> Operation:
    """Return a new cast.

    It has the location of the value if the value is VHLO's, else that of its first user.
    """
    owner = value.owner
    location = user.location
    if of_vhlo(value):
        location = owner.location if isinstance(owner, Operation) else value.location
    result = Value(value.type)
    made = Operation(CAST, (value,), (result,), location=location)
    result.owner = made
    return made


def _insert(casts: dict[Value, Operation], flavours: dict[Value, bool]) -> None:
    behind: dict[Operation, list[Operation]] = {}
    first: dict[Block, list[Operation]] = {}
    # MLIR inserts each new cast directly after the definition, before the casts inserted so far, so
    # the last one made is first in the block.
    numbered = sorted(casts.items(), key=lambda item: item[0].index if flavours[item[0]] else 0)
    for value, cast in numbered:
        owner = value.owner
        if isinstance(owner, Operation):
            behind.setdefault(owner, []).append(cast)
        elif owner is not None:
            first.setdefault(owner, []).append(cast)
    blocks = dict.fromkeys([*first, *(op.parent for op in behind if op.parent is not None)])
    for block in blocks:
        found = list(reversed(first.get(block, [])))
        for op in block.operations:
            found.append(op)
            found += reversed(behind.get(op, ()))
        block.operations = tuple(found)
        for op in found:
            op.parent = block
