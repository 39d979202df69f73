"""Rules for sliding windows: reduce_window, select_and_scatter.

The tap `w` of the window at position `o` is at the coordinate `o * stride + w * window_dilation -
padding` of the base. There is an element of the base if that is a multiple of the base dilation and
inside. `convolution` has the rules of convolutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from msgspec.structs import replace

from hloscope.affine import ZERO, Const, Expr
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.dependence import (
    Bodies,
    Fold,
    Use,
    Uses,
    body_of,
    fold,
    use_of,
    uses_of,
    weakened_by_use,
    weakened_by_uses,
)
from hloscope.indexing.rules.reduction import applications
from hloscope.indexing.rules.registry import (
    Instances,
    MapBuilder,
    all_output_sizes,
    dims,
    everything,
    everywhere,
    exact,
    input_to_output,
    output_sizes,
    output_to_input,
    over,
    reads_bodies,
    sizes,
)
from hloscope.ir import Dims, Instruction, TensorType
from hloscope.ops import ELEMENTWISE, Compare, Parameter, ReduceWindow, SelectAndScatter, Window


def base_index(
    at: MapBuilder, window: Window, k: int, position: Expr, tap: Expr, size: int, before: Expr
) -> Expr:
    """Return the coordinate of the base element under a tap of the window.

    The builder gets the constraint that the base has an element there.

    Args:
        at: Builder of the map.
        window: The window.
        k: The dimension of the window.
        position: Position of the window.
        tap: Index inside the window.
        size: Size of the base, without dilation and padding.
        before: Padding before the base.
    """
    coordinate = position * window.strides[k] + tap * window.window_dilations[k] - before
    return at.quotient(coordinate, window.base_dilations[k], size)


def window_position(
    at: MapBuilder, window: Window, k: int, element: Expr, tap: Expr, size: int, before: Expr
) -> Expr:
    """Return the position of the window whose tap is on a base element, in one dimension.

    The builder gets the constraint that this position exists. It is the inverse of `base_index`.

    Args:
        at: Builder of the map.
        window: The window.
        k: The dimension of the window.
        element: Coordinate of the base element.
        tap: Index inside the window.
        size: Number of positions.
        before: Padding before the base.
    """
    coordinate = element * window.base_dilations[k] - tap * window.window_dilations[k] + before
    return at.quotient(coordinate, window.strides[k], size)


def _taps(at: MapBuilder, window: Window) -> list[Expr]:
    """Return the taps of a window: a range variable per dimension, or 0 if its size is 1."""
    return [ZERO if size == 1 else at.range(size) for size in window.sizes]


def _base(at: MapBuilder, window: Window, positions: Sequence[Expr], shape: Dims) -> list[Expr]:
    """Return the index of the base elements under the windows at `positions`.

    Taps become range variables of the builder. `shape` has the sizes of the base.
    """
    taps = _taps(at, window)
    return [
        base_index(at, window, k, positions[k], tap, shape[k], Const(window.padding[k][0]))
        for k, tap in enumerate(taps)
    ]


def _positions(at: MapBuilder, window: Window, element: Sequence[Expr], shape: Dims) -> list[Expr]:
    """Return the index of the window positions at which the window contains a base element.

    The base element has the index `element`. Taps become range variables of the builder. `shape`
    has the numbers of positions.
    """
    taps = _taps(at, window)
    return [
        window_position(at, window, k, element[k], tap, shape[k], Const(window.padding[k][0]))
        for k, tap in enumerate(taps)
    ]


# Reduce-window: for taps that are on no base element, the initial value is combined instead.


def _folded(ins: Instruction, op: ReduceWindow, bodies: Bodies) -> Fold:
    """Return which initial values and elements each output of a reduce-window uses.

    A window is a fold over its elements; padding and holes count as the initial value. `bodies` are
    the dependences of the reduction.
    """
    window, count = op.window, len(ins.operands) // 2
    taps, body = prod(window.sizes), body_of(bodies, count)
    whole = fold(body, count, taps, taps)
    if _lie_inside(window):
        return whole
    # Where a tap is on padding or a hole, the body gets the initial value in place of an element.
    initial = [
        Uses({**dict.fromkeys(met, Use.SOMETIMES), **begun})
        for begun, met in zip(whole.initial, whole.elements, strict=True)
    ]
    return replace(whole, initial=tuple(initial))


@output_to_input(ReduceWindow, bodies=True)
def _(ins: Instruction, op: ReduceWindow, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    target = output_sizes(ins, output)
    base = sizes(ins.operands[output].type)
    at = MapBuilder(target)
    read = exact(at.simplified(_base(at, op.window, dims(len(target)), base)))
    uses, initial = _folded(ins, op, bodies), everything(target, sizes(ins.operands[-1].type))
    count = len(ins.operands) // 2
    return (
        *weakened_by_uses(uses.elements[output], count, read),
        *weakened_by_uses(uses.initial[output], count, initial),
    )


@input_to_output(ReduceWindow, bodies=True)
def _(ins: Instruction, op: ReduceWindow, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    count, uses = len(ins.operands) // 2, _folded(ins, op, bodies)
    if operand >= count:
        by = [row[operand - count] for row in uses.initial]
        return tuple(map(weakened_by_use, by, everywhere(ins, operand)))
    source, targets = sizes(ins.operands[operand].type), all_output_sizes(ins)
    at = MapBuilder(source)
    found = exact(at.simplified(_positions(at, op.window, dims(len(source)), targets[0])))
    return tuple(weakened_by_uses(uses_of(operand, uses.elements), count, found))


@reads_bodies(ReduceWindow)
def _(ins: Instruction, op: ReduceWindow, output: int, bodies: Bodies) -> Iterator[Instances]:
    return applications(_folded(ins, op, bodies), everything(output_sizes(ins, output), ()), output)


# select_and_scatter: every window over the operand selects one element, to which the scatter
# function adds the source element of that window.  Callees: select, scatter.

_CHOICE = "which element of its window a source element goes to depends on the data"


def _neighbours(op: SelectAndScatter, shape: Dims, source: Dims) -> Accesses:
    """Return the access from an element to all elements that share a window with it.

    `shape` has the sizes of the operand, `source` the numbers of window positions.
    """
    at = MapBuilder(shape)
    positions = _positions(at, op.window, dims(len(shape)), source)
    return exact(at.simplified(_base(at, op.window, positions, shape)))


def _windows(op: SelectAndScatter, shape: Dims, source: Dims) -> IndexingMap:
    """Return the map from an element to the positions of the windows that contain it.

    `shape` has the sizes of the operand, `source` the numbers of window positions.
    """
    at = MapBuilder(shape)
    return at.simplified(_positions(at, op.window, dims(len(shape)), source))


def _comparison(ins: Instruction) -> str:
    """Return the direction (`GE`, …) in which `select` compares a function of its two parameters.

    The result is empty if `select` is not such a comparison.
    """
    root = ins.calls[0].root
    if not isinstance(root.op, Compare):
        return ""
    (one, first), (other, second) = map(_function_of, root.operands)
    if first is None or second is None or first == second or one != other:
        return ""
    return root.op.comparison_direction


def _function_of(value: Instruction) -> tuple[list[object], int | None]:
    """Return the ops and types between a scalar and a parameter, and the parameter's number.

    Only ops whose results for 0 and 1 differ are followed, also in sequence. The number is `None`
    if another op is found.
    """
    steps: list[object] = []
    while sizes(value.type) == () and not isinstance(value.op, Parameter):
        if not isinstance(value.op, _INJECTIVE) or not all(map(_is_wide, (value, *value.operands))):
            return steps, None
        steps += [value.op, value.type]
        (value,) = value.operands
    return steps, value.op.number if isinstance(value.op, Parameter) else None


_INJECTIVE: Final = tuple([ELEMENTWISE[name] for name in ("abs", "convert", "copy", "negate")])
"""Ops whose results for 0 and 1 differ: they are 0, and 1, -1 or the largest number."""
_WIDE: Final = 16
"""Number of bits from which on every number type has 0, 1, and -1 or wraps around."""


def _is_wide(value: Instruction) -> bool:
    """Is the value an array whose elements have at least `_WIDE` bits?"""
    return isinstance(value.type, TensorType) and value.type.element.bits >= _WIDE


def _lie_inside(window: Window) -> bool:
    """Return whether every window lies inside the operand, without padding and holes."""
    cuts_only = all(low <= 0 and high <= 0 for low, high in window.padding)
    return cuts_only and all(step == 1 for step in window.base_dilations)


def _is_any_selected(ins: Instruction, op: SelectAndScatter, bodies: Bodies) -> bool:
    """Can each element of each window be the one that is selected and added?

    A window of one element has no choice. For others this holds if `select` compares. Let x and y
    be any two values that compare as different.

    - By order: the element is before all others of its windows.
    - `EQ` keeps the selected element if the next one is equal, `NE` if it differs. With `EQ`, the
      elements before it in its window are y, it and those behind it are x. With `NE`, it and the
      first element of the window are x, the others y.

    A later addition by another window does not hide it if windows do not overlap, or if `scatter`
    uses the old and the new value. By order it is not hidden either if windows are whole. Each
    other window over the element has one outside this window, and all of those are before the
    element, which is before the others of this window.
    """
    window = op.window
    are_apart = all(n <= step for n, step in zip(window.sizes, window.strides, strict=True))
    if len(bodies) != 2:
        return False
    is_added = are_apart or {0, 1} <= bodies[1].sure[0]
    if prod(window.sizes) == 1:
        return is_added
    how = _comparison(ins)
    return bool(how) and (is_added or (how in _ORDERS and _lie_inside(window)))


def _is_any_avoided(ins: Instruction, op: SelectAndScatter, bodies: Bodies) -> bool:
    """Can each element be one that none of its windows selects?

    This holds if `select` compares and each window has another element. By order the element is
    behind all others. With `EQ` it equals all before it and differs from all behind it; with `NE`
    it differs from those before it and equals those behind it.
    """
    window = op.window
    if len(bodies) != 2 or prod(window.sizes) < 2 or not _lie_inside(window):
        return False
    return bool(_comparison(ins))


_ORDERS: Final = ("LT", "LE", "GT", "GE")


def _added(ins: Instruction, op: SelectAndScatter, bodies: Bodies, *maps: IndexingMap) -> Accesses:
    """Return accesses by these maps, between source elements and the elements of their windows.

    They are exact if every element of a window can be the selected one, else over-approximated.
    """
    return exact(*maps) if _is_any_selected(ins, op, bodies) else over(_CHOICE, *maps)


def _selected(ins: Instruction, op: SelectAndScatter, bodies: Bodies) -> tuple[Use, Use, Use]:
    """Return how an output element uses the operand, the source and the initial value."""
    if not bodies:
        return Use.ALWAYS, Use.ALWAYS, Use.ALWAYS
    select, scatter = bodies
    compares = use_of(bool(select.reads[0]), bool(select.sure[0]))
    if prod(op.window.sizes) < 2 or scatter.unchanged[0] == 0:
        compares = Use.NEVER
    return (
        compares,
        use_of(1 in scatter.reads[0], 1 in scatter.sure[0]),
        # An element that no window selects has the initial value.
        use_of(True, 0 in scatter.sure[0] or _is_any_avoided(ins, op, bodies)),
    )


# These rules read the body of `select`, so results are not shared by equal types.
@output_to_input(SelectAndScatter, precision=Precision.OVER, reason=_CHOICE, bodies=True)
def _(ins: Instruction, op: SelectAndScatter, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    shape, source = sizes(ins.type), sizes(ins.operands[1].type)
    compared, added, begun = _selected(ins, op, bodies)
    return (
        weakened_by_use(compared, _neighbours(op, shape, source)),
        weakened_by_use(added, _added(ins, op, bodies, _windows(op, shape, source))),
        weakened_by_use(begun, everything(shape, sizes(ins.operands[2].type))),
    )


@input_to_output(SelectAndScatter, precision=Precision.OVER, reason=_CHOICE, bodies=True)
def _(ins: Instruction, op: SelectAndScatter, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    shape, source = sizes(ins.type), sizes(ins.operands[1].type)
    use = _selected(ins, op, bodies)[operand]
    if operand == 0:
        return (weakened_by_use(use, _neighbours(op, shape, source)),)
    if operand == 2:
        return (weakened_by_use(use, everything((), shape)),)
    at = MapBuilder(source)
    windows = at.simplified(_base(at, op.window, dims(len(source)), shape))
    return (weakened_by_use(use, _added(ins, op, bodies, windows)),)


@reads_bodies(SelectAndScatter)
def _(ins: Instruction, op: SelectAndScatter, output: int, bodies: Bodies) -> Iterator[Instances]:
    """Yield the accesses to both bodies: an element in a window is compared, and may be chosen."""
    windows = _windows(op, sizes(ins.type), sizes(ins.operands[1].type))
    inside = windows.with_(results=()).simplify()
    if prod(op.window.sizes) > 1 and bodies[1].unchanged[0] != 0:
        yield Instances(0, 0, exact(inside))
    yield Instances(1, 0, _added(ins, op, bodies, inside))
