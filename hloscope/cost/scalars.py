"""Scalars that a program computes without its data: exact values, or bounds with a reason.

Integers and booleans are Python integers, wrapped to the width of their element type. Floats are
numpy scalars, computed by the interpreter. Unknown values are a `Span`.

Source: StableHLO spec; XLA `elemental_ir_emitter.cc` for `x / 0`, `x % 0` and long shifts.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope import interpreter
from hloscope.errors import HloscopeError
from hloscope.ir import ElementType, Instruction, Op, QuantizedType, TensorType, Type
from hloscope.ops import Compare, Parameter
from hloscope.support.arrays import np


class Span(Struct, frozen=True):
    """An unknown value with bounds, both included.

    Attributes:
        low: Lowest value; `None` for floats.
        high: Highest value; `None` for floats.
        reason: Why the value is unknown.
    """

    low: int | None
    high: int | None
    reason: str


Value: TypeAlias = Any
"""An `int`, a numpy float, or a `Span`."""
Range: TypeAlias = tuple[int, int]
"""Lowest and highest value, both included."""
Step: TypeAlias = Callable[..., Value]
"""Function from the scalar operands of an op to its scalar result."""

_INTEGERS: Final = ("pred", "signed", "unsigned")
_FLOATS: Final = ("f32", "f64")
"""Names of float types that are evaluated.

Backends may compute narrower floats with more bits than their type has.
"""
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le,
    "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip


def scalar_element(type_: Type) -> ElementType | None:
    """Return the element type of a one-element array, if scalars of it can be evaluated.

    `None` for any other type.
    """
    if not isinstance(type_, TensorType) or not type_.is_static or prod(type_.shape) != 1:
        return None
    element = type_.element
    if isinstance(element, QuantizedType):
        return None
    return element if element.kind in _INTEGERS or element.name in _FLOATS else None


def is_integer(element: ElementType) -> bool:
    """Is the element type one of integers or booleans?"""
    return element.kind in _INTEGERS


def limits_of(element: ElementType) -> tuple[int, int]:
    """Return the lowest and the highest value of an integer type."""
    limits = element.integer_limits
    assert limits is not None
    return limits


def any_value(element: ElementType | None, reason: str) -> Span:
    """Return an unknown value of a type.

    It has no bounds if the type is `None` or not an integer type.
    """
    if element is None or not is_integer(element):
        return Span(None, None, reason)
    return Span(*limits_of(element), reason)


def _range(value: Value) -> Range:
    """Return the lowest and the highest value of an integer, which may be a `Span`."""
    if isinstance(value, Span):
        assert value.low is not None
        assert value.high is not None
        return value.low, value.high
    return value, value


def hull(values: Sequence[Value], element: ElementType | None, reason: str) -> Value:
    """Return one value that stands for several: their common value, or a span that contains all.

    Args:
        values: The values.
        element: Their element type; `None` if they are not scalars.
        reason: Why the result is unknown, if the values differ.
    """
    first = values[0]
    if all([type(value) is type(first) and value == first for value in values]):
        return first
    if element is None or not is_integer(element):
        return any_value(element, reason)
    if any([isinstance(value, Span) and value.low is None for value in values]):
        return any_value(element, reason)
    ranges = [_range(value) for value in values]
    return Span(min(low for low, _ in ranges), max(high for _, high in ranges), reason)


def is_bounded(span: Span, element: ElementType) -> bool:
    """Are the bounds of a span narrower than those of its type?"""
    return is_integer(element) and (span.low, span.high) != limits_of(element)


def wrapped(value: int, element: ElementType) -> int:
    """Wrap a Python integer to the range of an integer element type."""
    low, high = limits_of(element)
    return (value - low) % (high - low + 1) + low


def step_of(op: Op, operands: Sequence[ElementType], result: ElementType) -> Step:
    """Return the function that computes an element-wise op on scalars.

    Its result is a `Span` if an operand is one, unless the other operands decide the result.
    """
    integers = all(map(is_integer, (*operands, result)))
    exact = _exact(op, operands[-1], result) if integers else None
    if exact is None:
        exact = _by_interpreter(op, operands, result)
    known = exact  # the type checker does not narrow `exact` inside the function below

    def step(*values: Value) -> Value:
        for value in values:
            if type(value) is Span:
                return _bounded(op, values, operands, result, known)
        return known(*values)

    return step


def _exact(op: Op, element: ElementType, result: ElementType) -> Step | None:
    """Return the exact integer function of an op; `None` if there is none.

    Args:
        op: The op.
        element: Element type of the last operand.
        result: Element type of the result.
    """
    if isinstance(op, Compare):
        compare = _COMPARISONS[op.comparison_direction]
        return lambda a, b: int(compare(a, b))
    if op.name == "select":
        return lambda which, a, b: a if which else b
    if op.name == "convert":
        if result.kind == "pred":
            return lambda a: int(a != 0)
        return lambda a: wrapped(a, result)
    if result.kind == "pred":
        return _BOOLEAN.get(op.name)
    low, high = limits_of(element)
    size = high - low + 1
    plain = _PLAIN.get(op.name)
    if plain is not None:
        return lambda *values: (plain(*values) - low) % size + low
    bits = element.bits
    match op.name:
        case "shift_left":
            return lambda a, b: wrapped(a << b if 0 <= b < bits else 0, element)
        case "shift_right_logical":
            return lambda a, b: wrapped((a % size) >> b if 0 <= b < bits else 0, element)
    return None


def _divide(a: int, b: int) -> int:
    if b == 0:
        return -1  # all bits set
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    rest = abs(a) % abs(b) if b else abs(a)
    return rest if a >= 0 else -rest


_PLAIN: Final[dict[str, Callable[..., int]]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": _divide, "remainder": _remainder, "negate": operator.neg,
    "maximum": max, "minimum": min, "not": operator.invert,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip
_BOOLEAN: Final[dict[str, Callable[..., int]]] = {
    "and": min, "or": max, "minimum": min, "maximum": max, "add": max, "multiply": min,
    "xor": operator.xor, "not": lambda a: 1 - a,
}  # fmt: skip


def _by_interpreter(op: Op, operands: Sequence[ElementType], result: ElementType) -> Step:
    """Return the interpreter's function of an op on scalars, compiled at its first call.

    Args:
        op: The op.
        operands: Element types of the operands.
        result: Element type of the result.
    """
    given = [Instruction(str(n), TensorType(e, ()), Parameter(n)) for n, e in enumerate(operands)]
    ins = Instruction("scalar", TensorType(result, ()), op, tuple(given))
    compute: Step | None = None

    def step(*values: Value) -> Value:
        nonlocal compute
        try:
            if compute is None:
                compute = interpreter.kernel(ins, interpreter.World())
            types = [interpreter.dtype_of(element).type for element in operands]
            with np.errstate(all="ignore"):
                made: Any = compute(*[make(v) for make, v in zip(types, values, strict=True)])
        except HloscopeError as error:
            return any_value(result, error.message)
        return int(made) if is_integer(result) else np.asarray(made)[()]

    return step


_Bounds: TypeAlias = Callable[..., Range | None]
"""Function from an op's exact integer function and its operand ranges to the result's range.

`None` stands for all values of the type.
"""


def _bounded(
    op: Op,
    values: Sequence[Value],
    operands: Sequence[ElementType],
    result: ElementType,
    exact: Step,
) -> Value:
    """Return bounds of an op's result if an operand is unknown; the value if the bounds are equal.

    Bounds that would wrap around become those of the type.

    Args:
        op: The op.
        values: Values of the operands.
        operands: Element types of the operands.
        result: Element type of the result.
        exact: The function of the op for known operands.
    """
    spans = [value for value in values if type(value) is Span]
    reason = spans[0].reason
    if not all(map(is_integer, (*operands, result))) or any(s.low is None for s in spans):
        return any_value(result, reason)
    ranges = [_range(value) for value in values]
    if isinstance(op, Compare):
        found: Range | None = _compared(op.comparison_direction, *ranges)
    else:
        table = _BOUNDS_OF_BOOLEANS if result.kind == "pred" else _BOUNDS
        bounds = table.get(op.name)
        found = None if bounds is None else bounds(exact, *ranges)
    low, high = limits_of(result)
    if found is None or found[0] < low or found[1] > high:
        return any_value(result, reason)
    return found[0] if found[0] == found[1] else Span(*found, reason)


def _compared(direction: str, a: Range, b: Range) -> Range:
    """Return the lowest and the highest outcome (0 or 1) of comparing two ranges.

    `direction` is HLO's name of the comparison, such as `LT`. At least one of the ranges has more
    than one value.
    """
    match direction:
        # The outcome for the direction that holds for smaller values; the opposite one is its
        # negation.
        case "LT" | "GE":
            found = int(a[1] < b[0]), int(a[0] < b[1])
        case "LE" | "GT":
            found = int(a[1] <= b[0]), int(a[0] <= b[1])
        case _:
            found = 0, int(a[0] <= b[1] and b[0] <= a[1])
    return found if direction in ("LT", "LE", "EQ") else (1 - found[1], 1 - found[0])


def _corners(plain: Callable[[int, int], int]) -> _Bounds:
    """Return a function that bounds a binary op by its values at the ends of the operands' ranges.

    `plain` is the op on unwrapped Python integers.
    """

    def bounds(exact: Step, a: Range, b: Range) -> Range:
        found = [plain(x, y) for x, y in product(a, b)]
        return min(found), max(found)

    return bounds


def _increasing(exact: Step, *ranges: Range) -> Range:
    """Return bounds of an op that increases with every operand.

    Args:
        exact: The op on integers.
        ranges: Lowest and highest value of each operand.
    """
    return exact(*[low for low, _ in ranges]), exact(*[high for _, high in ranges])


def _selected(exact: Step, which: Range, a: Range, b: Range) -> Range:
    """Return bounds of `select`: those of `a` if `which` is 1, of `b` if 0, else of both."""
    if which[0] == which[1]:
        return a if which[0] else b
    return min(a[0], b[0]), max(a[1], b[1])


def _masked(exact: Step, a: Range, b: Range) -> Range | None:
    """Return bounds of `and` for operands in `a` and `b`; `None` if both operands may be negative.

    A non-negative operand bounds the result.
    """
    tops = [high for low, high in (a, b) if low >= 0]
    return (0, min(tops)) if tops else None


def _quotient(exact: Step, a: Range, b: Range) -> Range | None:
    """Return bounds of `a / b`, computed by `exact`; `None` unless `b` is one positive value."""
    return (exact(a[0], b[0]), exact(a[1], b[0])) if b[0] == b[1] > 0 else None


def _shifted(exact: Step, a: Range, b: Range) -> Range | None:
    """Return bounds of `a >> b`, computed by `exact`.

    `None` if `a` may be negative, or unless `b` is one positive value.
    """
    return _quotient(exact, a, b) if a[0] >= 0 else None


def _rest(exact: Step, a: Range, b: Range) -> Range | None:
    """Return bounds of the remainder of `a / b`; `None` if `b` may be 0 or negative."""
    if b[0] <= 0:
        return None
    # The remainder has the sign of the dividend and is smaller than the divisor.
    return 0 if a[0] >= 0 else 1 - b[1], 0 if a[1] <= 0 else b[1] - 1


_BOUNDS: Final[dict[str, _Bounds]] = {
    "add": _corners(operator.add),
    "subtract": _corners(operator.sub),
    "multiply": _corners(operator.mul),
    "minimum": _increasing,
    "maximum": _increasing,
    "clamp": _increasing,
    "negate": lambda exact, a: (-a[1], -a[0]),
    "not": lambda exact, a: (exact(a[1]), exact(a[0])),
    "convert": lambda exact, a: a,
    "select": _selected,
    "and": _masked,
    "divide": _quotient,
    "shift_right_logical": _shifted,
    "shift_right_arithmetic": _quotient,
    "remainder": _rest,
}
"""For each op on integers, the function that bounds its result."""
_BOUNDS_OF_BOOLEANS: Final[dict[str, _Bounds]] = {
    "and": _increasing,
    "or": _increasing,
    "minimum": _increasing,
    "maximum": _increasing,
    "add": _increasing,
    "multiply": _increasing,
    "not": _BOUNDS["not"],
    "convert": lambda exact, a: (int(not a[0] <= 0 <= a[1]), int(a != (0, 0))),
    "select": _selected,
}
"""For each op on booleans, the function that bounds its result."""
