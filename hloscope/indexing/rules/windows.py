"""Ops over sliding windows: reduce_window, convolution, select_and_scatter.

Position `o` and tap `w` meet at the coordinate `o * stride + w * window_dilation - padding`; it is
an element of the base where it is a multiple of the base dilation and inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.affine import Const, Dim, Expr
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import (
    MapBuilder,
    all_output_sizes,
    dims,
    everything,
    everywhere,
    exact,
    integers,
    output_sizes,
    over,
    sizes,
)
from hloscope.indexing.rules.registry import input_to_output, output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Dims
from hloscope.ops.windows import (
    Convolution,
    DynamicConv,
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


# Convolution.  Range variables: the taps of the spatial dimensions, then the input (or output)
# feature.  A kernel element counts as read also where it meets padding.


class _Convolution:
    """A convolution with the sizes of its arrays."""

    def __init__(self, ins: Instruction, op: Convolution | DynamicConv) -> None:
        self.ins, self.op, self.names = ins, op, op.dimensions
        self.lhs, self.rhs = (sizes(operand.type) for operand in ins.operands[:2])
        self.out = sizes(ins.type)
        self.out_features = self.out[self.names.output_feature]

    def spatial(self) -> list[tuple[int, int, int]]:
        """Number, input dimension and output dimension of each spatial dimension."""
        names = self.names
        pairs = zip(names.input_spatial, names.output_spatial, strict=True)
        return [(k, i, o) for k, (i, o) in enumerate(pairs)]

    def taps(self, at: MapBuilder) -> list[Expr]:
        return [at.range(size) for size in self.op.window.sizes]

    def before(self, at: MapBuilder, k: int) -> Expr:
        """Padding before the input, a number or (dynamic_conv) read from operand 2."""
        if isinstance(self.op, Convolution):
            return Const(self.op.window.padding[k][0])
        padding = self.ins.operands[2]
        return at.read(*integers(padding.type), padding, (Const(k), Const(0)))

    def read_of_input(self) -> IndexingMap:
        op, names = self.op, self.names
        at = MapBuilder(self.out)
        taps, feature = self.taps(at), at.range(self.rhs[names.kernel_input_feature])
        index = dims(len(self.lhs))
        index[names.input_feature], index[names.input_batch] = feature, Dim(names.output_batch)
        for name, groups in (
            (names.input_batch, op.batch_group_count),
            (names.input_feature, op.feature_group_count),
        ):
            if groups > 1:
                group = Dim(names.output_feature) // (self.out_features // groups)
                index[name] = group * (self.lhs[name] // groups) + index[name]
        for k, i, o in self.spatial():
            before = self.before(at, k)
            index[i] = base_index(at, op.window, k, Dim(o), taps[k], self.lhs[i], before)
        return at.simplified(index)

    def read_of_kernel(self) -> IndexingMap:
        op, names = self.op, self.names
        at = MapBuilder(self.out)
        index = dims(len(self.rhs))
        for k, tap in enumerate(self.taps(at)):
            last = op.window.sizes[k] - 1
            index[names.kernel_spatial[k]] = last - tap if op.window.reversal[k] else tap
        index[names.kernel_input_feature] = at.range(self.rhs[names.kernel_input_feature])
        index[names.kernel_output_feature] = Dim(names.output_feature)
        return at.simplified(index)

    def reach_of_input(self) -> IndexingMap:
        op, names = self.op, self.names
        at = MapBuilder(self.lhs)
        taps = self.taps(at)
        index = dims(len(self.out))
        for k, i, o in self.spatial():
            before = self.before(at, k)
            index[o] = window_position(at, op.window, k, Dim(i), taps[k], self.out[o], before)
        index[names.output_batch] = Dim(names.input_batch)
        per_group = self.out_features // max(op.batch_group_count, op.feature_group_count)
        feature: Expr = at.range(per_group)
        if op.batch_group_count > 1:
            batches = self.lhs[names.input_batch] // op.batch_group_count
            feature = Dim(names.input_batch) // batches * per_group + feature
            index[names.output_batch] = Dim(names.input_batch) % batches
        elif op.feature_group_count > 1:
            features = self.lhs[names.input_feature] // op.feature_group_count
            feature = Dim(names.input_feature) // features * per_group + feature
        index[names.output_feature] = feature
        return at.simplified(index)

    def reach_of_kernel(self) -> IndexingMap:
        names = self.names
        at = MapBuilder(self.rhs)
        index = dims(len(self.out))
        for o in (*names.output_spatial, names.output_batch):
            index[o] = at.range(self.out[o])
        index[names.output_feature] = Dim(names.kernel_output_feature)
        return at.simplified(index)


@output_to_input(Convolution)
def _(ins: Instruction, op: Convolution, output: int) -> tuple[Accesses, ...]:
    conv = _Convolution(ins, op)
    return (exact(conv.read_of_input()), exact(conv.read_of_kernel()))


@output_to_input(DynamicConv, memo=False)
def _(ins: Instruction, op: DynamicConv, output: int) -> tuple[Accesses, ...]:
    conv = _Convolution(ins, op)
    padding = everything(sizes(ins.type), sizes(ins.operands[2].type))
    return (exact(conv.read_of_input()), exact(conv.read_of_kernel()), padding)


@input_to_output(Convolution)
@input_to_output(DynamicConv, memo=False)
def _(ins: Instruction, op: Convolution | DynamicConv, operand: int) -> tuple[Accesses, ...]:
    if operand == 2:
        return everywhere(ins, operand)
    conv = _Convolution(ins, op)
    return (exact(conv.reach_of_kernel() if operand else conv.reach_of_input()),)


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
