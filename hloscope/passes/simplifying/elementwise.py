"""Laws of element-wise ops."""

from __future__ import annotations

from typing import Final

from hloscope.mlir import EnumAttr, Operation
from hloscope.passes.folding import fold_select
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.reading import maker_of, tensor_of
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying.building import becomes, becomes_splat, becomes_value
from hloscope.passes.simplifying.laws import Law, patterns_of

ROWS: Final = (
    #   left                     right              when
    Law("add(c, n)",             "add(n, c)",       merges=True),
    Law("add(x, 0)",             "x",               merges=True, but="-0 + 0 is 0"),
    Law("and(c, n)",             "and(n, c)",       merges=True),
    Law("and(x, 0)",             "0"),
    Law("and(x, ones)",          "x",               merges=True),
    Law("maximum(c, n)",         "maximum(n, c)",   merges=True),
    Law("minimum(c, n)",         "minimum(n, c)",   merges=True),
    Law("multiply(c, n)",        "multiply(n, c)",  merges=True),
    Law("multiply(x, 0)",        "0",               "integer", merges=True),
    Law("multiply(x, 1)",        "x",               merges=True),
    Law("or(c, n)",              "or(n, c)",        merges=True),
    Law("or(x, ones)",           "ones",            merges=True),
    Law("or(x, 0)",              "x",               merges=True),
    Law("xor(c, n)",             "xor(n, c)",       merges=True),
    Law("xor(x, x)",             "0"),
    Law("xor(x, 0)",             "x"),
    Law("subtract(x, x)",        "0",               "integer"),
    Law("subtract(x, 0)",        "x",               merges=True, but="-0 - -0 is 0"),
    Law("complex(real(x), imag(x))", "x"),
    Law("real(complex(x, y))",   "x"),
    Law("imag(complex(x, y))",   "y"),
    Law("select(not(x), y, z)",  "select(x, z, y)", merges=True),
    Law("select(x, y, y)",       "y"),
    Law("select(ones, x, y)",    "x"),
    Law("select(0, x, y)",       "y"),
)  # fmt: skip
"""Laws of one op are tried in this order."""

LAWS: Final = patterns_of(ROWS)
ELEMENTWISE: Final = LimitedRewrites()
"""Patterns that read attributes or create several ops, and so are not rows."""

_MIRRORED: Final = {"EQ": "EQ", "NE": "NE", "GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT"}
_TRUE_OF_EQUALS: Final = ("EQ", "GE", "LE")


def _integer_comparison(operation: Operation) -> str | None:
    """Return the direction of a comparison of integers that is declared as such; else `None`."""
    direction, kind = operation.get("comparison_direction"), operation.get("compare_type")
    if not isinstance(direction, EnumAttr) or not isinstance(kind, EnumAttr):
        return None
    type = tensor_of(operation.operands[0]) if len(operation.operands) == 2 else None
    if type is None or type.element.kind not in ("pred", "signed", "unsigned"):
        return None
    known = kind.value in ("SIGNED", "UNSIGNED") and direction.value in _MIRRORED
    return direction.value if known else None


@ELEMENTWISE.on("stablehlo.compare")
def compare_with_itself(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold `compare(x, x)` of integers."""
    direction = _integer_comparison(operation)
    if direction is None or operation.operands[0] is not operation.operands[1]:
        return False
    return becomes_splat(rewriter, operation, int(direction in _TRUE_OF_EQUALS))


@ELEMENTWISE.on("stablehlo.compare")
def compare_constant_right(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Move a constant of an integer comparison to the right, and mirror the direction."""
    direction = _integer_comparison(operation)
    if direction is None:
        return False
    left, right = operation.operands
    if not limits.is_constant(left) or limits.is_constant(right):
        return False
    mirrored = EnumAttr("stablehlo", "comparison_direction", _MIRRORED[direction])
    rewriter.set_properties(operation, {**operation.properties, "comparison_direction": mirrored})
    rewriter.set_operands(operation, (right, left))
    return True


@ELEMENTWISE.on("stablehlo.compare")
def compare_of_booleans(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace `x != false` and `x == true` by `x`."""
    direction = operation.get("comparison_direction")
    if not isinstance(direction, EnumAttr) or len(operation.operands) != 2:
        return False
    value, other = operation.operands
    known = limits.known(other)
    if known is None or not known.is_splat or known.type.element.kind != "pred":
        return False
    if (direction.value, bool(known.element)) not in (("NE", False), ("EQ", True)):
        return False
    return becomes_value(rewriter, operation, value)


@ELEMENTWISE.on("stablehlo.select")
def select_by_broadcast_of_not(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Rewrite `select(broadcast(not(p)), t, f)` to `select(broadcast(p), f, t)`."""
    if len(operation.operands) != 3:
        return False
    predicate, on_true, on_false = operation.operands
    broadcast = maker_of(predicate, "stablehlo.broadcast_in_dim")
    if broadcast is None or len(broadcast.operands) != 1 or rewriter.uses(predicate) != 1:
        return False
    inverse = maker_of(broadcast.operands[0], "stablehlo.not")
    if inverse is None or len(inverse.operands) != 1:
        return False
    new = rewriter.create(
        broadcast.name,
        inverse.operands,
        broadcast.properties,
        before=operation,
        types=[predicate.type],
    )
    return becomes(
        rewriter, operation, operation.name, (new.result, on_false, on_true), operation.properties
    )


ELEMENTWISE.add("select_of_constants", "stablehlo.select", fold_select)

__all__ = ["LAWS", "ELEMENTWISE", "ROWS"]
