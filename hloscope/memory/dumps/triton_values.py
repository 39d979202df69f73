"""Values of integers, pointers and masks in Triton's code, and parsing of its layouts."""

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
from hloscope.errors import ParseError, UnsupportedError
from hloscope.indexing.layouts import Blocked, LinearLayout, Side
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Values of integers, pointers and masks in Triton's code, as expressions.
#
# Source: Triton `TritonOps.td`; MLIR `ArithOps.td`.


PROGRAM: Final = (Dim(0), Dim(1), Dim(2))
"""Program ids in x, y and z."""
FIRST_INDEX: Final = 3
"""Number of the variable for dimension 0 of a tile.

The index along dimension `d` is `Dim(FIRST_INDEX + d)`; `Range(k)` counts a loop.
"""
Constraint: TypeAlias = tuple[Expr, Interval]


class Pointer(Struct, frozen=True):
    """A pointer to an element of the array that a kernel parameter points to.

    Attributes:
        argument: Number of the parameter.
        offset: Number of the element, counted from the first one.
    """

    argument: int
    offset: Expr


Mask: TypeAlias = tuple[Constraint, ...]
"""Constraints of a mask; it is true where all of them hold."""
Value: TypeAlias = Expr | Pointer | Mask | None
"""The value of a tensor's element, as a function of the index; `None` if it is unknown."""
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
    """Return the value of an operation's result; `None` if it is unknown.

    Args:
        name: Name of the operation.
        given: Values of its operands.
        rest: The text after the operands, with the operation's properties.
        box: Function that returns bounds of the variables in two expressions.

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
        case "tt.expand_dims", [value, *_]:
            axis = _number(_AXIS, rest)
            return _axes_moved(value, lambda d: d + (d >= axis))
        case "tt.trans", [value, *_]:
            found = _ORDER.search(rest)
            order = [int(n) for n in found[1].split(",")] if found else []
            return _axes_moved(value, lambda d: order.index(d) if d in order else d)
        case _, [value, *_] if name in _SAME:
            return value
        case _:
            return None


def _compared(a: Expr, b: Expr, predicate: int, box: Box) -> Mask | None:
    """Return a comparison as a constraint; `None` if it is not one interval.

    Unsigned comparisons of numbers that are not negative equal signed ones.

    Args:
        a: The first operand.
        b: The second operand.
        predicate: Number of the comparison in MLIR's `arith.cmpi`.
        box: Bounds of the variables.
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
    """Return the integer that a pattern's first group matches in a text; 0 without a match."""
    found = of.search(rest)
    return int(found[1]) if found else 0


def _axes_moved(value: Value, to: Callable[[int], int]) -> Value:
    """Return a value after a change of a tile's dimensions: `to(d)` is the new place of each `d`.

    `None` if the value is unknown.
    """

    def moved(e: Expr) -> Expr:
        new: dict[Var, Expr] = {
            v: Dim(FIRST_INDEX + to(v.index - FIRST_INDEX))
            for v in variables(e)
            if isinstance(v, Dim) and v.index >= FIRST_INDEX
        }
        return substitute(e, new) if new else e

    if isinstance(value, Pointer):
        return Pointer(value.argument, moved(value.offset))
    if isinstance(value, tuple):
        return tuple([(moved(e), interval) for e, interval in value])
    return moved(value) if isinstance(value, Expr) else None


def _floor(a: Expr, b: Expr, box: Box) -> Expr | None:
    """Return the floor of `a / b` if the operation's quotient, rounded towards zero, equals it.

    `None` if that is not known. `box` has bounds of the variables.
    """
    return floordiv(a, b) if _is_division(a, b, box) else None


def _remainder(a: Expr, b: Expr, box: Box) -> Expr | None:
    """Return `a mod b` if it is the remainder of a division towards zero; else `None`."""
    return mod(a, b) if _is_division(a, b, box) else None


def _is_division(a: Expr, b: Expr, box: Box) -> bool:
    """Is `b` a positive constant and `a` never negative?

    Division towards zero is then a floor.
    """
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
"""Functions that compute integer operations.

They assume that no operation wraps around, because addresses would then be wrong.
"""
_SAME: Final = frozenset(
    [
        "arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci",
        "tt.splat", "tt.broadcast", "ttg.convert_layout", "tt.unsplat",
    ]
)  # fmt: skip
"""Operations that do not change the expression of an element."""


# --------------------------------------------------------------------------------------------------
# Triton's layout attributes: blocked, linear, dot accumulators, and slices of these.
#
# Source: Triton `TritonGPUAttrDefs.td`, `LinearLayoutConversions.cpp`; PTX ISA, "Matrix Fragments
# for mma.m16n8k8", accumulators.


_SLICE: Final = pattern(r"#ttg\.slice<\{dim = (\d{1,2}), parent = (.*)\}>")
_LINEAR: Final = pattern(r"#ttg\.linear<\{(.*)\}>")
_SIDE: Final = pattern(r"(\w+) = \[((?:\[(?:\d{1,18}(?:, \d{1,18})*)?\](?:, )?)*)\]")
_BASIS: Final = pattern(r"\[((?:\d{1,18}(?:, \d{1,18})*)?)\]")
_MMA: Final = pattern(
    r"#ttg\.nvidia_mma<\{versionMajor = 2, versionMinor = 0, "
    r"warpsPerCTA = \[(\d{1,4}), (\d{1,4})\], instrShape = \[16, 8\]\}>"
)
MOST_SLICES: Final = 8
"""Maximum depth of nested slice layouts; deeper ones are refused."""


def layout_of(text: str, shape: Sequence[int], aliases: Mapping[str, str]) -> LinearLayout:
    """Return a layout attribute as a linear layout over a tile of the given shape.

    Args:
        text: An alias (`#blocked1`) or an attribute (`#ttg.slice<{dim = 1, parent = #blocked}>`).
        shape: Sizes of the tile, powers of two.
        aliases: The attribute of each alias.

    Raises:
        ParseError: The text of the layout is damaged.
        UnsupportedError: The layout is of another kind, or does not fit the shape.

    >>> blocked = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], "
    >>> blocked += "warpsPerCTA = [4, 1], order = [1, 0]}>"
    >>> found = layout_of("#ttg.slice<{dim = 0, parent = #b}>", (128,), {"#b": blocked})
    >>> found.size_of["lane"], found.size_of["warp"], found(lane=1), found(warp=3)
    (32, 4, (4,), (0,))
    """
    # Linear layouts map bits to bits, so every size is a power of two.
    if any(size < 1 or size & (size - 1) for size in shape):
        raise UnsupportedError(f"a tile of sizes {list(shape)}, which are not powers of two")
    removed: list[int] = []
    sizes = [*shape]
    for _ in range(MOST_SLICES):
        text = aliases.get(text, text)
        found = _SLICE.fullmatch(text)
        if found is None:
            break
        dim = int(found[1])
        if dim > len(sizes):
            raise UnsupportedError(f"dimension {dim} of the layout `{text[:80]}` does not exist")
        # A slice is the parent's layout on a tile of size 1 along the removed dimension.
        sizes.insert(dim, 1)
        removed.append(dim)
        text = found[2]
    layout = _linear_layout(text, sizes)
    for dim in reversed(removed):
        layout = _without(layout, dim)
    return layout


def _linear_layout(text: str, shape: Sequence[int]) -> LinearLayout:
    if text.startswith("#ttg.blocked"):
        return Blocked.parse(text).to_linear(shape)
    if (mma := _MMA.fullmatch(text)) and len(shape) == 2:
        return _accumulators((int(mma[1]), int(mma[2])), shape)
    linear = _LINEAR.fullmatch(text)
    if linear is None:
        kind = text.partition("<")[0]
        raise UnsupportedError(f"its layout is `{kind}`, which is not read")
    sides = []
    for name, bases in _SIDE.findall(linear[1]):
        rows = [tuple([int(n) for n in b.split(",") if n.strip()]) for b in _BASIS.findall(bases)]
        sides.append(Side(name, tuple(rows)))
    outs = tuple([(f"dim{d}", n) for d, n in enumerate(shape)])
    try:
        return LinearLayout(tuple(sides), outs)
    except ValueError as error:
        raise ParseError(f"`{text[:60]}`: {error}") from None


def _accumulators(warps: tuple[int, int], shape: Sequence[int]) -> LinearLayout:
    """Return the layout of the accumulators of `mma.m16n8`.

    A thread holds two neighbours of a row, and two more 8 rows below. 4 lanes hold 8 elements of a
    row, and 32 lanes hold 8 rows. Further warps continue along dimension 1, then along dimension 0.
    Then further registers repeat this pattern until the tile is covered. If the pattern is larger
    than the tile, several lanes or warps hold the same element.

    Args:
        warps: Number of warps along each dimension.
        shape: Sizes of the tile.
    """
    steps = [
        *[("register", 1, 1)],
        *[("lane", 1, 2), ("lane", 1, 4), ("lane", 0, 1), ("lane", 0, 2), ("lane", 0, 4)],
        *[("register", 0, 8)],
    ]
    reached = [16, 8]
    for d in (1, 0):
        for _ in range(warps[d].bit_length() - 1):
            steps.append(("warp", d, reached[d]))
            reached[d] *= 2
    for d in (1, 0):
        while reached[d] < shape[d]:
            steps.append(("register", d, reached[d]))
            reached[d] *= 2
    bases: dict[str, list[tuple[int, ...]]] = {"register": [], "lane": [], "warp": [], "block": []}
    for name, d, value in steps:
        kept = value if value < shape[d] else 0
        bases[name].append((kept, 0) if d == 0 else (0, kept))
    sides = [Side(name, tuple(found)) for name, found in bases.items()]
    return LinearLayout(tuple(sides), tuple([(f"dim{d}", n) for d, n in enumerate(shape)]))


def _without(layout: LinearLayout, dim: int) -> LinearLayout:
    """Return the layout without output dimension `dim`.

    Registers that then repeat elements are left out too.
    """
    sides = []
    for side in layout.ins:
        bases = [tuple([n for k, n in enumerate(b) if k != dim]) for b in side.bases]
        if side.name == "register":
            bases = [basis for basis in bases if any(basis)]
        sides.append(Side(side.name, tuple(bases)))
    return LinearLayout(tuple(sides), tuple([o for k, o in enumerate(layout.outs) if k != dim]))
