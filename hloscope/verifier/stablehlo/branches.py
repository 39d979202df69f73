"""Operands of branches against the arguments of their blocks.

Source: MLIR's `ControlFlowInterfaces`.
"""

from __future__ import annotations

from hloscope.mlir import DenseArrayAttr, Operation, Value


def wrong_branch(operation: Operation) -> str:
    """Return the first mismatch of operands and arguments of the successors; empty if none."""
    if not operation.successors:
        return ""
    groups = _groups(operation)
    # The operands of an unknown op cannot be divided between its successors: not checked, as in
    # MLIR.
    if groups is None or len(groups) != len(operation.successors):
        return ""
    for number, (block, values) in enumerate(zip(operation.successors, groups, strict=True)):
        if len(values) != len(block.arguments):
            return (
                f"branch has {len(values)} operands for successor #{number}, but target block has"
                f" {len(block.arguments)}"
            )
        for at, (value, argument) in enumerate(zip(values, block.arguments, strict=True)):
            if value.type != argument.type:
                return f"type mismatch for bb argument #{at} of successor #{number}"
    return ""


def _groups(operation: Operation) -> list[tuple[Value, ...]] | None:
    """Return the operands for each successor; `None` if their division is unknown."""
    operands = operation.operands
    if operation.name == "cf.br":
        return [operands]
    sizes = operation.get("operandSegmentSizes")
    if not isinstance(sizes, DenseArrayAttr) or sum(sizes.values) != len(operands):
        return None
    # The first segment is the condition or the switch value.
    counts = list(sizes.values[1:])
    if operation.name == "cf.switch":
        cases = operation.get("case_operand_segments")
        if not isinstance(cases, DenseArrayAttr) or len(sizes.values) != 3:
            return None
        # A switch has three segments: value, default operands, all cases together.
        counts = [sizes.values[1], *cases.values]
    elif operation.name != "cf.cond_br":
        return None
    found, at = [], sizes.values[0]
    for count in counts:
        found.append(operands[at : at + count])
        at += count
    return found
