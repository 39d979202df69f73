"""Ops over sliding windows: reduce_window, convolution, select_and_scatter.

Position `o` and tap `w` meet at the coordinate `o * stride + w * window_dilation - padding`; it is
an element of the base where it is a multiple of the base dilation and inside.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.affine import Dim, Expr
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
from hloscope.indexing.rules.registry import input_to_output, missing, output_to_input
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
    at: MapBuilder, window: Window, k: int, position: Expr, tap: Expr, size: int
) -> Expr:
    """The element of the base under a tap of the window, required to exist."""
    shift = window.padding[k][0]
    coordinate = position * window.strides[k] + tap * window.window_dilations[k] - shift
    return at.quotient(coordinate, window.base_dilations[k], size)


def window_position(
    at: MapBuilder, window: Window, k: int, element: Expr, tap: Expr, size: int
) -> Expr:
    """The position whose tap lies on an element of the base, required to exist."""
    shift = window.padding[k][0]
    coordinate = element * window.base_dilations[k] - tap * window.window_dilations[k] + shift
    return at.quotient(coordinate, window.strides[k], size)


@output_to_input(ReduceWindow)
def _(ins: Instruction, op: ReduceWindow, output: int) -> tuple[Accesses, ...]:
    target, count = output_sizes(ins, output), len(ins.operands) // 2
    base = sizes(ins.operands[output].type)
    at = MapBuilder(target)
    taps = [at.range(size) for size in op.window.sizes]
    results = [base_index(at, op.window, k, Dim(k), tap, base[k]) for k, tap in enumerate(taps)]
    return (exact(at.simplified(results)),) * count + (everything(target, ()),) * count


@input_to_output(ReduceWindow)
def _(ins: Instruction, op: ReduceWindow, operand: int) -> tuple[Accesses, ...]:
    if operand >= len(ins.operands) // 2:
        return everywhere(ins, operand)
    target = all_output_sizes(ins)
    at = MapBuilder(sizes(ins.operands[operand].type))
    taps = [at.range(size) for size in op.window.sizes]
    results = [
        window_position(at, op.window, k, Dim(k), tap, target[0][k]) for k, tap in enumerate(taps)
    ]
    return (exact(at.simplified(results)),) * len(target)


# Convolution.  Range variables: the taps of the spatial dimensions, then the input (or output)
# feature.  A kernel element counts as read also where it meets padding.


def _taps(at: MapBuilder, op: Convolution) -> list[Expr]:
    return [at.range(size) for size in op.window.sizes]


@output_to_input(Convolution)
def _(ins: Instruction, op: Convolution, output: int) -> tuple[Accesses, ...]:
    lhs, rhs = (sizes(operand.type) for operand in ins.operands[:2])
    target, names = sizes(ins.type), op.dimensions
    at = MapBuilder(target)
    taps = _taps(at, op)
    feature: Expr = at.range(rhs[names.kernel_input_feature])
    out_feature, out_features = Dim(names.output_feature), target[names.output_feature]
    kernel = dims(len(rhs))
    kernel[names.kernel_input_feature] = feature
    kernel[names.kernel_output_feature] = out_feature
    for k, tap in enumerate(taps):
        reverse = op.window.reversal[k]
        kernel[names.kernel_spatial[k]] = op.window.sizes[k] - 1 - tap if reverse else tap
    read_kernel = at.simplified(kernel)
    base = dims(len(lhs))
    batch: Expr = Dim(names.output_batch)
    if op.batch_group_count > 1:
        group = out_feature // (out_features // op.batch_group_count)
        batch = group * (lhs[names.input_batch] // op.batch_group_count) + batch
    if op.feature_group_count > 1:
        group = out_feature // (out_features // op.feature_group_count)
        feature = group * (lhs[names.input_feature] // op.feature_group_count) + feature
    base[names.input_batch], base[names.input_feature] = batch, feature
    for k, (i, o) in enumerate(zip(names.input_spatial, names.output_spatial, strict=True)):
        base[i] = base_index(at, op.window, k, Dim(o), taps[k], lhs[i])
    return (exact(at.simplified(base)), exact(read_kernel))


@input_to_output(Convolution)
def _(ins: Instruction, op: Convolution, operand: int) -> tuple[Accesses, ...]:
    lhs, rhs = (sizes(operand.type) for operand in ins.operands[:2])
    target, names = sizes(ins.type), op.dimensions
    results = dims(len(target))
    if operand == 1:
        at = MapBuilder(rhs)
        for o in (*names.output_spatial, names.output_batch):
            results[o] = at.range(target[o])
        results[names.output_feature] = Dim(names.kernel_output_feature)
        return (exact(at.simplified(results)),)
    at = MapBuilder(lhs)
    taps = _taps(at, op)
    for k, (i, o) in enumerate(zip(names.input_spatial, names.output_spatial, strict=True)):
        results[o] = window_position(at, op.window, k, Dim(i), taps[k], target[o])
    batch: Expr = Dim(names.input_batch)
    groups = max(op.batch_group_count, op.feature_group_count)
    per_group = target[names.output_feature] // groups
    feature: Expr = at.range(per_group)
    if op.batch_group_count > 1:
        batches = lhs[names.input_batch] // op.batch_group_count
        feature = batch // batches * per_group + feature
        batch = batch % batches
    elif op.feature_group_count > 1:
        features = lhs[names.input_feature] // op.feature_group_count
        feature = Dim(names.input_feature) // features * per_group + feature
    results[names.output_batch], results[names.output_feature] = batch, feature
    return (exact(at.simplified(results)),)


missing(DynamicConv, reason="the padding is known only at run time")


# select_and_scatter: every window over the operand selects one element, to which the scatter
# function adds the source element of that window.

_CHOICE = "which element of its window a source element goes to depends on the data"


def _positions(at: MapBuilder, window: Window, element: Sequence[Expr], source: Dims) -> list[Expr]:
    taps = [at.range(size) for size in window.sizes]
    return [
        window_position(at, window, k, element[k], tap, source[k]) for k, tap in enumerate(taps)
    ]


def _neighbours(op: SelectAndScatter, shape: Dims, source: Dims) -> Accesses:
    """Elements that share a window with an element."""
    at = MapBuilder(shape)
    positions = _positions(at, op.window, dims(len(shape)), source)
    taps = [at.range(size) for size in op.window.sizes]
    return exact(
        at.simplified(
            base_index(at, op.window, k, positions[k], tap, shape[k]) for k, tap in enumerate(taps)
        )
    )


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
    taps = [at.range(size) for size in op.window.sizes]
    results = [base_index(at, op.window, k, Dim(k), tap, shape[k]) for k, tap in enumerate(taps)]
    return (over(_CHOICE, at.simplified(results)),)
