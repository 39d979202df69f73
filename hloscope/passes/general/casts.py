"""`reconcile-unrealized-casts`: erases casts that undo each other.

Source: MLIR's `ReconcileUnrealizedCasts.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import Operation, Value
from hloscope.passes.conversion import CAST
from hloscope.passes.framework import Pass, Run


def _run(run: Run) -> None:
    rewriter = run.rewriter
    casts = [op for op in rewriter.walk() if op.name == CAST]
    for operation in casts:
        source = _value_before_casts(operation)
        if source is not None:
            rewriter.replace(operation, source)
            run.fired["cancel"] += 1
    # In reverse, the users of a cast are erased first.
    for operation in reversed(casts):
        if operation.parent is not None and not rewriter.is_used(operation):
            rewriter.erase(operation)


def _value_before_casts(operation: Operation) -> tuple[Value, ...] | None:
    """Return the values, up a chain of casts, with the types of the results; `None` if none."""
    wanted = [value.type for value in operation.results]
    at: Operation | None = operation
    for _ in range(64):
        if at is None or at.name != CAST:
            return None
        if [value.type for value in at.operands] == wanted:
            return at.operands
        owner = at.operands[0].owner if at.operands else None
        at = owner if isinstance(owner, Operation) and owner.results == at.operands else None
    return None


PASS: Final = Pass(
    "reconcile-unrealized-casts", _run, "Erases casts that undo each other or are unused."
)
