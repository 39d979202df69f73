"""Simplification of loops, tuples and custom calls."""

from __future__ import annotations

from typing import Final

from hloscope.mlir import I32, Attribute, DictAttr, IntegerAttr, Operation, StringAttr
from hloscope.passes.folding import body_of
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.reading import integer_of, maker_of
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying.building import becomes_value

CONTROL: Final = LimitedRewrites()


@CONTROL.on("stablehlo.while")
def while_captures(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace values that a loop never changes by outer values."""
    condition, body = body_of(operation), body_of(operation, 1)
    if condition is None or body is None:
        return False
    first, (second, end) = condition[0], body
    given = operation.operands
    lists = (operation.results, first.arguments, second.arguments, end.operands)
    if any(len(values) != len(given) for values in lists):
        return False
    fixed = [
        k
        for k, value in enumerate(given)
        # A fixed value is the initial value itself, or the body's own argument.
        if end.operands[k] in (value, second.arguments[k])
        and all(values[k].type == value.type for values in lists)
    ]
    if not fixed:
        return False
    for k in fixed:
        for old in (operation.results[k], first.arguments[k], second.arguments[k]):
            rewriter.replace_uses(old, given[k])
    gone = set(fixed)
    kept = [k for k in range(len(given)) if k not in gone]
    # The results are gone last: all lists shrink by the same numbers.
    rewriter.set_operands(end, [end.operands[k] for k in kept])
    for block in (first, second):
        rewriter.keep_arguments(block, [block.arguments[k] for k in kept])
    rewriter.set_operands(operation, [given[k] for k in kept])
    rewriter.keep_results(operation, [operation.results[k] for k in kept])
    return True


@CONTROL.on("stablehlo.get_tuple_element")
def element_of_tuple(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace an element of a `tuple` op by the operand."""
    number = integer_of(operation, "index")
    made = (
        maker_of(operation.operands[0], "stablehlo.tuple") if len(operation.operands) == 1 else None
    )
    if made is None or number is None or not 0 <= number < len(made.operands):
        return False
    return becomes_value(rewriter, operation, made.operands[number])


@CONTROL.on("stablehlo.tuple")
def tuple_of_elements(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a tuple of all elements of a tuple, in order, by that tuple."""
    whole = None
    # A tuple of the first elements of a longer one has another type, which `becomes_value` refuses.
    for k, value in enumerate(operation.operands):
        part = maker_of(value, "stablehlo.get_tuple_element")
        if part is None or integer_of(part, "index") != k or len(part.operands) != 1:
            return False
        if whole is not None and part.operands[0] is not whole:
            return False
        whole = part.operands[0]
    return whole is not None and becomes_value(rewriter, operation, whole)


_ORIGINAL: Final = 1
_TYPED: Final = 4
"""`API_VERSION_TYPED_FFI`, with a dictionary as configuration."""
_CONFIG: Final = "mhlo.backend_config"


@CONTROL.on("stablehlo.custom_call")
def custom_call_to_typed(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Move a dictionary in a discardable attribute into the op's configuration."""
    given, own = operation.attributes.get(_CONFIG), operation.properties.get("backend_config")
    version = integer_of(operation, "api_version")
    if not isinstance(given, DictAttr) or version not in (None, _ORIGINAL):
        return False
    if not (own is None or (isinstance(own, StringAttr) and not own.value)):
        return False
    typed: dict[str, Attribute] = {"api_version": IntegerAttr(_TYPED, I32), "backend_config": given}
    rewriter.set_properties(operation, {**operation.properties, **typed})
    left = {name: value for name, value in operation.attributes.items() if name != _CONFIG}
    rewriter.set_attributes(operation, left)
    return True


__all__ = ["CONTROL"]
