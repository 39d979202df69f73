"""Do the operands that go to a block fit its arguments?  Source: MLIR's `ControlFlowInterfaces`."""

from __future__ import annotations

from hloscope.mlir import DenseArrayAttr, Operation, Value


def wrong_branch(operation: Operation) -> str:
    """What is wrong with the values that an op hands to other blocks; empty if nothing is."""
    if not operation.successors:
        return ""
    groups = _groups(operation)
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
    """The operands for each successor; `None` if it is not known."""
    operands = operation.operands
    if operation.name == "cf.br":
        return [operands]
    sizes = operation.get("operandSegmentSizes")
    if not isinstance(sizes, DenseArrayAttr) or sum(sizes.values) != len(operands):
        return None
    counts = list(sizes.values[1:])
    if operation.name == "cf.switch":
        cases = operation.get("case_operand_segments")
        if not isinstance(cases, DenseArrayAttr) or len(sizes.values) != 3:
            return None
        counts = [sizes.values[1], *cases.values]
    elif operation.name != "cf.cond_br":
        return None
    found, at = [], sizes.values[0]
    for count in counts:
        found.append(operands[at : at + count])
        at += count
    return found
