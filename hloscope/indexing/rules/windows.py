"""Ops over sliding windows: reduce_window, select_and_scatter.  `convolution` has that.

Position `o` and tap `w` meet at the coordinate `o * stride + w * window_dilation - padding`; it is
an element of the base where it is a multiple of the base dilation and inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.affine import Const, Expr
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.build import (
    MapBuilder,
    all_output_sizes,
    dims,
    everything,
    everywhere,
    exact,
    output_sizes,
    over,
    sizes,
)
from hloscope.indexing.rules.registry import input_to_output, output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Dims
from hloscope.ops.windows import (
    ReduceWindow,
    SelectAndScatter,
    Window,
)


def base_index(
    at: MapBuilder, window: Window, k: int, position: Expr, tap: Expr, size: int, before: Expr
) -> Expr:
    """The element of the base under a tap of the window, required to exist.

    Args:
        at: The map in the making.
        window: The window.
        k: Its dimension.
        position: Where the window is.
        tap: Which element of the window.
        size: Of the base, without dilation and padding.
        before: Padding before the base.
    """
    coordinate = position * window.strides[k] + tap * window.window_dilations[k] - before
    return at.quotient(coordinate, window.base_dilations[k], size)


def window_position(
    at: MapBuilder, window: Window, k: int, element: Expr, tap: Expr, size: int, before: Expr
) -> Expr:
    """The position whose tap lies on an element of the base, required to exist.

    The arguments are those of `base_index`, but that `size` is the number of positions.
    """
    coordinate = element * window.base_dilations[k] - tap * window.window_dilations[k] + before
    return at.quotient(coordinate, window.strides[k], size)


def _base(at: MapBuilder, window: Window, positions: Sequence[Expr], shape: Dims) -> list[Expr]:
    """Every element of the base under windows, one range variable per dimension."""
    taps = [at.range(size) for size in window.sizes]
    return [
        base_index(at, window, k, positions[k], tap, shape[k], Const(window.padding[k][0]))
        for k, tap in enumerate(taps)
    ]


def _positions(at: MapBuilder, window: Window, element: Sequence[Expr], shape: Dims) -> list[Expr]:
    """Every position whose window holds an element, one range variable per dimension."""
    taps = [at.range(size) for size in window.sizes]
    return [
        window_position(at, window, k, element[k], tap, shape[k], Const(window.padding[k][0]))
        for k, tap in enumerate(taps)
    ]


@output_to_input(ReduceWindow)
def _(ins: Instruction, op: ReduceWindow, output: int) -> tuple[Accesses, ...]:
    target, count = output_sizes(ins, output), len(ins.operands) // 2
    base = sizes(ins.operands[output].type)
    at = MapBuilder(target)
    read = exact(at.simplified(_base(at, op.window, dims(len(target)), base)))
    return (read,) * count + (everything(target, ()),) * count


@input_to_output(ReduceWindow)
def _(ins: Instruction, op: ReduceWindow, operand: int) -> tuple[Accesses, ...]:
    if operand >= len(ins.operands) // 2:
        return everywhere(ins, operand)
    source, targets = sizes(ins.operands[operand].type), all_output_sizes(ins)
    at = MapBuilder(source)
    found = at.simplified(_positions(at, op.window, dims(len(source)), targets[0]))
    return (exact(found),) * len(targets)


# select_and_scatter: every window over the operand selects one element, to which the scatter
# function adds the source element of that window.

_CHOICE = "which element of its window a source element goes to depends on the data"


def _neighbours(op: SelectAndScatter, shape: Dims, source: Dims) -> Accesses:
    """Elements that share a window with an element."""
    at = MapBuilder(shape)
    positions = _positions(at, op.window, dims(len(shape)), source)
    return exact(at.simplified(_base(at, op.window, positions, shape)))


@output_to_input(SelectAndScatter, precision=Precision.OVER, reason=_CHOICE)
def _(ins: Instruction, op: SelectAndScatter, output: int) -> tuple[Accesses, ...]:
    shape, source = sizes(ins.type), sizes(ins.operands[1].type)
    at = MapBuilder(shape)
    windows = at.simplified(_positions(at, op.window, dims(len(shape)), source))
    return (_neighbours(op, shape, source), over(_CHOICE, windows), everything(shape, ()))


@input_to_output(SelectAndScatter, precision=Precision.OVER, reason=_CHOICE)
def _(ins: Instruction, op: SelectAndScatter, operand: int) -> tuple[Accesses, ...]:
    shape, source = sizes(ins.type), sizes(ins.operands[1].type)
    if operand == 0:
        return (_neighbours(op, shape, source),)
    if operand == 2:
        return everywhere(ins, operand)
    at = MapBuilder(source)
    return (over(_CHOICE, at.simplified(_base(at, op.window, dims(len(source)), shape))),)
