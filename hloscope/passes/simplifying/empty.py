"""Replacement of tensors without elements by constants."""

from __future__ import annotations

from typing import Final

from hloscope.dialects import DEFINITIONS
from hloscope.ir import TensorType
from hloscope.mlir import DenseAttr, Operation, Value
from hloscope.passes.effects import may_go
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import CONSTANTS

EMPTY: Final = LimitedRewrites()


def _empty(value: Value) -> TensorType | None:
    """Return the type of a static tensor without elements; `None` for another value."""
    type = value.type
    if not isinstance(type, TensorType) or 0 not in type.sizes or not type.is_static:
        return None
    return type if type.element.numpy else None


def _may_be_empty(value: Value) -> bool:
    type = value.type
    return isinstance(type, TensorType) and 0 in type.sizes


@EMPTY.on()
def empty_to_constant(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace empty results and operands of an op without effects by empty constants."""
    if not any(map(_may_be_empty, (*operation.results, *operation.operands))):
        return False
    name = operation.name
    if not name.startswith("stablehlo.") or name in CONSTANTS or name not in DEFINITIONS:
        return False
    if name != "stablehlo.return" and not may_go(operation):
        return False
    results = [r for r in operation.results if _empty(r) is not None and rewriter.uses(r)]
    places = [k for k, v in enumerate(operation.operands) if _empty(v) and not _is_constant(v)]
    if not (results or places):
        return False
    for result in results:
        rewriter.replace_uses(result, _constant(rewriter, result, operation))
    if places:
        operands = [*operation.operands]
        for k in places:
            operands[k] = _constant(rewriter, operands[k], operation)
        rewriter.set_operands(operation, operands)
    rewriter.watcher.changed(operation)
    return True


def _is_constant(value: Value) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name in CONSTANTS


def _constant(rewriter: Rewriter, like: Value, before: Operation) -> Value:
    type = _empty(like)
    assert type is not None
    return rewriter.constant(DenseAttr(b"", type), type, before=before)


__all__ = ["EMPTY"]
