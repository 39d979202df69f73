"""Casts between VHLO and other dialects, where a program has ops of both.

Values pass through `builtin.unrealized_conversion_cast`, one for a value, right behind where it
comes from.  Those of several values of one op or block stand in the opposite order of what asks
for them: of values of VHLO their numbers, of others their first uses.

Source: what jaxlib writes; MLIR's `DialectConversion.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import Block, Operation, Value
from hloscope.vhlo.trees import every_op

CAST: Final = "builtin.unrealized_conversion_cast"


def is_vhlo_op(op: Operation) -> bool:
    """Is an op one of VHLO, so that its attributes and types are?"""
    return op.name.startswith("vhlo.")


def of_vhlo(value: Value) -> bool:
    """Is a value, which no cast gives, one of VHLO: of one of its ops or their regions?"""
    owner = value.owner
    if isinstance(owner, Operation):
        return is_vhlo_op(owner)
    region = None if owner is None else owner.parent
    parent = None if region is None else region.parent
    return parent is not None and is_vhlo_op(parent)


def unfit_beside_vhlo(op: Operation) -> str:
    """Why an op of another dialect cannot stand in a function of VHLO; empty if it can.

    Its operands are cast to its own types, but neither the arguments of the blocks that it goes
    to nor what ends its regions.
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
    """Put casts into a tree in which ops of VHLO and of others use each other's values."""
    casts: dict[Value, Operation] = {}
    flavours: dict[Value, bool] = {}
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
    """The cast of a value; those from VHLO come from where the value does, others from its use."""
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
