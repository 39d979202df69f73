"""Values of integers, pointers and masks in Triton's code, as expressions.

Source: Triton `TritonOps.td`; MLIR `ArithOps.td`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    Const,
    Dim,
    Expr,
    Interval,
    Var,
    bounds,
    floordiv,
    linear,
    mod,
    product,
    substitute,
    variables,
)
from hloscope.lazy import pattern

PROGRAM: Final = (Dim(0), Dim(1), Dim(2))
"""Program ids in x, y and z."""
FIRST_INDEX: Final = 3
"""The index along dimension `d` of a tile is `Dim(FIRST_INDEX + d)`; `Range(k)` counts a loop."""
Constraint: TypeAlias = tuple[Expr, Interval]


class Pointer(Struct, frozen=True):
    """A pointer to elements of a kernel's parameter, counted from its first one.

    Attributes:
        argument: Number of the parameter.
        offset: Number of the element.
    """

    argument: int
    offset: Expr


Mask: TypeAlias = tuple[Constraint, ...]
"""True where all constraints hold."""
Value: TypeAlias = Expr | Pointer | Mask | None
"""An element of a tensor, by the tensor's index; `None` if it is unknown."""
Box: TypeAlias = Mapping[Var, Interval]

_VALUE: Final = pattern(r"value = (?:dense<)?(-?\d{1,19}|true|false)>? ?:")
_START: Final = pattern(r"start = (\d{1,10})")
_END: Final = pattern(r"end = (\d{1,10})")
_AXIS: Final = pattern(r"axis = (\d{1,3})")
_PREDICATE: Final = pattern(r"predicate = (\d{1,2})")
_ORDER: Final = pattern(r"order = array<i32: (\d{1,3}(?:, \d{1,3})*)>")


def result_of(
    name: str, given: Sequence[Value], rest: str, box: Callable[[Expr, Expr], Box]
) -> Value:
    """Return the result of an operation; `None` if it is unknown.

    Args:
        name: Name of the operation.
        given: Values of its operands.
        rest: The text after them, with its properties.
        box: Bounds of the variables of two expressions.

    >>> result_of("arith.addi", [Dim(0), Const(2)], "", lambda a, b: {})
    <d0 + 2>
    """
    match name, given:
        case "arith.constant", _:
            found = _VALUE.search(rest)
            if found is None or found[1] == "false":
                return None
            return () if found[1] == "true" else Const(int(found[1]))
        case "tt.get_program_id", _:
            return PROGRAM[min(_number(_AXIS, rest), 2)]
        case "tt.make_range", _:
            start = _number(_START, rest)
            is_one = _number(_END, rest) - start == 1
            return Const(start) if is_one else Dim(FIRST_INDEX) + start
        case "arith.andi", [tuple() as a, tuple() as b]:
            return (*a, *b)
        case "tt.addptr", [Pointer() as pointer, offset] if isinstance(offset, Expr):
            return Pointer(pointer.argument, pointer.offset + offset)
        case "arith.cmpi", [a, b] if isinstance(a, Expr) and isinstance(b, Expr):
            return _compared(a, b, _number(_PREDICATE, rest), box(a, b))
        case _, [a, b] if name in _ARITHMETIC and isinstance(a, Expr) and isinstance(b, Expr):
            return _ARITHMETIC[name](a, b, box(a, b))
        case _, [value, *_] if name in _AXES:
            return _mapped(value, lambda e: _AXES[name](e, rest))
        case _, [value, *_] if name in _SAME:
            return value
        case _:
            return None


def _compared(a: Expr, b: Expr, predicate: int, box: Box) -> Mask | None:
    """Return the constraint of a comparison; `None` if it is not one interval.

    Unsigned comparisons of numbers that are not negative equal signed ones.
    """
    if predicate > 5:
        if min(bounds(a, box).lo, bounds(b, box).lo) < 0:
            return None
        predicate -= 4
    within = {
        0: Interval(0, 0),
        2: Interval(NEG_INF, -1),
        3: Interval(NEG_INF, 0),
        4: Interval(1, POS_INF),
        5: Interval(0, POS_INF),
    }.get(predicate)
    return None if within is None else ((a - b, within),)


def _number(of: re.Pattern[str], rest: str) -> int:
    found = of.search(rest)
    return int(found[1]) if found else 0


def _mapped(value: Value, of: Callable[[Expr], Expr]) -> Value:
    """Return the value with `of` applied to its expressions."""
    if isinstance(value, Pointer):
        return Pointer(value.argument, of(value.offset))
    if isinstance(value, tuple):
        return tuple([(of(e), interval) for e, interval in value])
    return of(value) if isinstance(value, Expr) else None


def _axes_moved(e: Expr, to: Callable[[int], int]) -> Expr:
    new: dict[Var, Expr] = {
        v: Dim(FIRST_INDEX + to(v.index - FIRST_INDEX))
        for v in variables(e)
        if isinstance(v, Dim) and v.index >= FIRST_INDEX
    }
    return substitute(e, new) if new else e


def _expanded(e: Expr, rest: str) -> Expr:
    axis = _number(_AXIS, rest)
    return _axes_moved(e, lambda d: d + (d >= axis))


def _transposed(e: Expr, rest: str) -> Expr:
    found = _ORDER.search(rest)
    order = [int(n) for n in found[1].split(",")] if found else []
    return _axes_moved(e, lambda d: order.index(d) if d in order else d)


def _floor(a: Expr, b: Expr, box: Box) -> Expr | None:
    """Return `a / b` rounded towards 0, if it equals the floor; else `None`."""
    return floordiv(a, b) if _is_division(a, b, box) else None


def _remainder(a: Expr, b: Expr, box: Box) -> Expr | None:
    return mod(a, b) if _is_division(a, b, box) else None


def _is_division(a: Expr, b: Expr, box: Box) -> bool:
    return isinstance(b, Const) and b.value > 0 and bounds(a, box).lo >= 0


def _shifted(a: Expr, b: Expr, box: Box) -> Expr | None:
    return a * (1 << b.value) if isinstance(b, Const) and 0 <= b.value < 62 else None


def _shifted_down(a: Expr, b: Expr, box: Box) -> Expr | None:
    is_shift = isinstance(b, Const) and 0 <= b.value < 62
    return _floor(a, Const(1 << b.value), box) if isinstance(b, Const) and is_shift else None


_ARITHMETIC: Final[dict[str, Callable[[Expr, Expr, Box], Expr | None]]] = {
    "arith.addi": lambda a, b, _: a + b,
    "arith.subi": lambda a, b, _: linear((a, 1), (b, -1)),
    "arith.muli": lambda a, b, _: product(a, b),
    "arith.divsi": _floor,
    "arith.divui": _floor,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.shli": _shifted,
    "arith.shrsi": _shifted_down,
    "arith.shrui": _shifted_down,
}
"""Integer arithmetic; that it does not wrap is taken for granted, as addresses would be wrong."""
_AXES: Final[dict[str, Callable[[Expr, str], Expr]]] = {
    "tt.expand_dims": _expanded,
    "tt.trans": _transposed,
}
"""Operations that move the dimensions of a tensor."""
_SAME: Final = frozenset(
    [
        "arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci",
        "tt.splat", "tt.broadcast", "ttg.convert_layout", "tt.unsplat",
    ]
)  # fmt: skip
"""Operations whose elements are those of their operand, at the same index or at every index."""
