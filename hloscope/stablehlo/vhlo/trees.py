"""Casts between VHLO and other dialects in MLIR modules, and use-list orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from hloscope.mlir import Block, Operation, Value

# --------------------------------------------------------------------------------------------------
# Casts between VHLO and other dialects, for programs with ops of both.
#
# Values pass through `builtin.unrealized_conversion_cast`: one cast for a value, directly after the
# value's definition. The casts of several values of one op or block are in reverse order: values of
# VHLO by their result number, others by their first use.
#
# Source: what jaxlib writes; MLIR's `DialectConversion.cpp`.


CAST: Final = "builtin.unrealized_conversion_cast"


def is_vhlo_op(op: Operation) -> bool:
    """Is `op` an op of VHLO, so that its attributes and types are VHLO's?"""
    return op.name.startswith("vhlo.")


def has_vhlo_type(value: Value) -> bool:
    """Does a value have a VHLO type: is it defined by an op of VHLO, or an argument in its regions?

    The value must not be the result of a cast.
    """
    owner = value.owner
    op = owner.parent_op if isinstance(owner, Block) else owner
    return op is not None and is_vhlo_op(op)


def cast_obstacle(op: Operation) -> str:
    """Return why an op of another dialect cannot be in a function of VHLO; empty if it can.

    Casts convert its operands to its own types. Neither the arguments of its successors nor the
    operands of terminators in its regions can be cast.
    """
    dialects = ("func.", "stablehlo.", "vhlo.")
    in_function = op.parent_op is not None and op.parent_op.name.startswith(dialects)
    if in_function and any(block.arguments for block in op.successors):
        return "the arguments of the blocks that it goes to would be of other types"
    if op.name == "chlo.scan":
        return "its region would be one of VHLO"
    return ""


def add_casts(module: Operation) -> None:
    """Insert casts into a module, in place, where ops of VHLO and of other dialects share values.

    A cast converts a value that one of them defines and the other uses.
    """
    casts: dict[Value, Operation] = {}
    flavours: dict[Value, bool] = {}
    # First find the values that cross, in program order, which decides the order of the casts.
    # Operands are replaced afterwards: a replaced operand would look like a value without a cast.
    for op in module.walk():
        if op.name == "builtin.module":
            continue
        wanted = is_vhlo_op(op)
        for operand in op.operands:
            found = flavours.get(operand)
            if found is None:
                found = flavours[operand] = has_vhlo_type(operand)
            if found != wanted and operand not in casts:
                casts[operand] = _cast(operand, op)
    if not casts:
        return
    for op in module.walk():
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
    """Create a cast of a value, and return it; it is in no block yet.

    `user` is the cast's first user. The location is that of the value if the value is VHLO's, else
    that of the user.
    """
    owner = value.owner
    location = user.location
    if has_vhlo_type(value):
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


# --------------------------------------------------------------------------------------------------
# Use-list orders after ops have been replaced.
#
# MLIR keeps the uses of a value in a list. Bytecode records its order where it differs from program
# order, so the bytes of an artifact depend on the ops that a library had to replace.


_Uses: TypeAlias = dict[Value, list[tuple[int, bool]]]
"""Uses of each value, in order: position of the use, and whether the use remains at the end."""


def use_orders(
    module: Operation, replaced: set[Operation], *, mixed: bool = False
) -> dict[Value, tuple[bool, tuple[int, ...]]]:
    """Return the use-list orders of values whose uses are not in program order.

    An order says whether the numbers are index pairs, and has the numbers, as bytecode stores them.

    Args:
        module: The module after the replacement.
        replaced: The ops of the module that replaced ops of the original.
        mixed: Whether casts between VHLO and other dialects were inserted.
    """
    # Only the operands and results of replaced ops and new casts can be out of order: the uses of
    # all other values were added in program order.
    uses: _Uses = {value: [] for op in replaced for value in (*op.operands, *op.results)}
    casts: dict[Operation, int] = {}
    if mixed:
        casts = {op: 0 for op in module.walk() if op.name == CAST}
        uses |= {value: [] for op in casts for value in (*op.operands, *op.results)}
    if not uses:
        return {}
    ordered: list[tuple[int, Operation]] = []
    # `number << 32 | position` orders uses by program order of the user, then by operand number.
    for number, op in enumerate(module.walk()):
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
    """Change the uses to the order that results from inserting casts.

    `casts` has the position of each cast among the ops. A cast from VHLO is the last user of its
    operand. A cast to VHLO takes over the uses of its operand one by one, which reverses them.
    """
    for op, number in casts.items():
        (value,) = op.operands
        if has_vhlo_type(value):
            first = (number << 32, True)
            uses[value].remove(first)
            uses[value].append(first)
        else:
            uses[op.results[0]].reverse()


def _numbers(uses: list[int]) -> tuple[bool, tuple[int, ...]] | None:
    """Return an order of uses as bytecode encodes it; `None` for program order.

    The encoding has two parts: whether the integers are index pairs, and the integers.
    """
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
