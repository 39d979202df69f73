"""Rules for convolutions: relations between elements of input, kernel and output.

Range variables are the taps of the spatial dimensions, then the input (or output) feature. A kernel
element counts as read if it is multiplied by an element of the input. It does not count if it is
multiplied only by padding or holes of dilation, as that product is not part of the sum (XLA:CPU
returns numbers if only such a tap is NaN). XLA's own maps count these taps as read;
`loose_accesses` returns that superset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.affine import Const, Dim, Expr
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.registry import (
    MapBuilder,
    dims,
    everything,
    everywhere,
    exact,
    input_to_output,
    integers,
    output_to_input,
    over,
    sizes,
)
from hloscope.indexing.rules.windows import base_index, window_position
from hloscope.ir import Dims, Instruction
from hloscope.ops import Convolution, DynamicConv


class ConvolutionMaps:
    """A convolution with the sizes of its arrays, and the maps between any two of them."""

    def __init__(
        self, op: Convolution | DynamicConv, shapes: Sequence[Dims], padding: Instruction | None
    ) -> None:
        self.op, self.names, self.padding = op, op.dimensions, padding
        self.lhs, self.rhs, self.out = shapes
        features = self.out[self.names.output_feature]
        self.out_per_group = features // max(op.batch_group_count, op.feature_group_count)
        self.in_per_group = self.rhs[self.names.kernel_input_feature]

    def spatial(self) -> list[tuple[int, int, int]]:
        """Return, for each spatial dimension, its number, input dimension and output dimension."""
        names = self.names
        pairs = zip(names.input_spatial, names.output_spatial, strict=True)
        return [(k, i, o) for k, (i, o) in enumerate(pairs)]

    def taps(self, at: MapBuilder) -> list[Expr]:
        """Add a range variable for each spatial dimension of the kernel to `at`; return them."""
        return [at.range(size) for size in self.op.window.sizes]

    def reversed_tap(self, k: int, tap: Expr) -> Expr:
        """Return the kernel's coordinate for the tap `tap` of spatial dimension `k`.

        Both are equal unless the window is reversed. As reversing twice changes nothing, the
        function also returns the tap for a coordinate.
        """
        return self.op.window.sizes[k] - 1 - tap if self.op.window.reversal[k] else tap

    def padding_before(self, at: MapBuilder, k: int) -> Expr:
        """Return the padding before the input in spatial dimension `k`.

        It is a constant, or a value read from an operand (dynamic_conv).
        """
        if self.padding is None:
            return Const(self.op.window.padding[k][0])
        lo, hi = integers(self.padding.type)
        return at.read(lo, hi, self.padding, (Const(k), Const(0)))

    def move_into_group(self, index: list[Expr], out_feature: Expr) -> None:
        """Shift an index of the input in place, so that it lies in the group of an output feature.

        Before the call, the index is relative to the start of the group, in the batch or the
        feature dimension; after it, to the start of the array. `out_feature` is the coordinate of
        the feature.
        """
        names, op = self.names, self.op
        for name, groups in (
            (names.input_batch, op.batch_group_count),
            (names.input_feature, op.feature_group_count),
        ):
            if groups > 1:
                group = out_feature // self.out_per_group
                index[name] = group * (self.lhs[name] // groups) + index[name]

    def group_of_input(self) -> tuple[Expr, Expr]:
        """Return the group of the input index that the map starts from, and the batch inside it."""
        names, op = self.names, self.op
        batch = Dim(names.input_batch)
        if op.batch_group_count > 1:
            batches = self.lhs[names.input_batch] // op.batch_group_count
            return batch // batches, batch % batches
        return Dim(names.input_feature) // self.in_per_group, batch

    def output_to_input(self) -> IndexingMap:
        names = self.names
        at = MapBuilder(self.out)
        # The feature that varies within a group is summed over; the output's feature selects the
        # group.
        taps, feature = self.taps(at), at.range(self.in_per_group)
        index = dims(len(self.lhs))
        index[names.input_feature], index[names.input_batch] = feature, Dim(names.output_batch)
        self.move_into_group(index, Dim(names.output_feature))
        for k, i, o in self.spatial():
            before = self.padding_before(at, k)
            index[i] = base_index(at, self.op.window, k, Dim(o), taps[k], self.lhs[i], before)
        return at.simplified(index)

    def output_to_kernel(self, *, tight: bool = True) -> IndexingMap:
        names = self.names
        at = MapBuilder(self.out)
        index = dims(len(self.rhs))
        taps = self.taps(at)
        for k, i, o in self.spatial():
            index[names.kernel_spatial[k]] = self.reversed_tap(k, taps[k])
            # The call only adds the condition that the tap meets an element of the input.
            if tight:
                before = self.padding_before(at, k)
                base_index(at, self.op.window, k, Dim(o), taps[k], self.lhs[i], before)
        index[names.kernel_input_feature] = at.range(self.in_per_group)
        index[names.kernel_output_feature] = Dim(names.output_feature)
        return at.simplified(index)

    def input_to_output(self) -> IndexingMap:
        names = self.names
        at = MapBuilder(self.lhs)
        taps = self.taps(at)
        index = dims(len(self.out))
        for k, i, o in self.spatial():
            before = self.padding_before(at, k)
            index[o] = window_position(at, self.op.window, k, Dim(i), taps[k], self.out[o], before)
        group, index[names.output_batch] = self.group_of_input()
        index[names.output_feature] = group * self.out_per_group + at.range(self.out_per_group)
        return at.simplified(index)

    def kernel_to_output(self, *, tight: bool = True) -> IndexingMap:
        names = self.names
        at = MapBuilder(self.rhs)
        index = dims(len(self.out))
        for o in (*names.output_spatial, names.output_batch):
            index[o] = at.range(self.out[o])
        for k, i, o in self.spatial() if tight else ():
            tap = self.reversed_tap(k, Dim(names.kernel_spatial[k]))
            base_index(
                at, self.op.window, k, index[o], tap, self.lhs[i], self.padding_before(at, k)
            )
        index[names.output_feature] = Dim(names.kernel_output_feature)
        return at.simplified(index)

    def input_to_kernel(self) -> IndexingMap:
        """Return the map from an input element to the kernel elements it is multiplied with."""
        names = self.names
        at = MapBuilder(self.lhs)
        index = dims(len(self.rhs))
        taps = self.taps(at)
        for k, i, o in self.spatial():
            before = self.padding_before(at, k)
            window_position(at, self.op.window, k, Dim(i), taps[k], self.out[o], before)
            index[names.kernel_spatial[k]] = self.reversed_tap(k, taps[k])
        group, _ = self.group_of_input()
        feature = Dim(names.input_feature)
        in_groups = self.op.feature_group_count > 1
        index[names.kernel_input_feature] = feature % self.in_per_group if in_groups else feature
        out_feature = group * self.out_per_group + at.range(self.out_per_group)
        index[names.kernel_output_feature] = out_feature
        return at.simplified(index)

    def kernel_to_input(self) -> IndexingMap:
        """Return the map from a kernel element to the input elements it is multiplied with."""
        names = self.names
        at = MapBuilder(self.rhs)
        index = dims(len(self.lhs))
        for k, i, o in self.spatial():
            position, before = at.range(self.out[o]), self.padding_before(at, k)
            tap = self.reversed_tap(k, Dim(names.kernel_spatial[k]))
            index[i] = base_index(at, self.op.window, k, position, tap, self.lhs[i], before)
        index[names.input_batch] = at.range(self.out[names.output_batch])
        index[names.input_feature] = Dim(names.kernel_input_feature)
        self.move_into_group(index, Dim(names.kernel_output_feature))
        return at.simplified(index)


def _maps_of(ins: Instruction, op: Convolution | DynamicConv) -> ConvolutionMaps:
    shapes = [*(sizes(operand.type) for operand in ins.operands[:2]), sizes(ins.type)]
    return ConvolutionMaps(op, shapes, None if isinstance(op, Convolution) else ins.operands[2])


@output_to_input(Convolution)
@output_to_input(DynamicConv, shared=False)
def _(ins: Instruction, op: Convolution | DynamicConv, output: int) -> tuple[Accesses, ...]:
    conv, out = _maps_of(ins, op), sizes(ins.type)
    padding = [everything(out, sizes(operand.type)) for operand in ins.operands[2:]]
    return (exact(conv.output_to_input()), exact(conv.output_to_kernel()), *padding)


@input_to_output(Convolution)
@input_to_output(DynamicConv, shared=False)
def _(ins: Instruction, op: Convolution | DynamicConv, operand: int) -> tuple[Accesses, ...]:
    if operand > 1:
        return everywhere(ins, operand)
    conv = _maps_of(ins, op)
    return (exact(conv.kernel_to_output() if operand else conv.input_to_output()),)


_PADDING: Final = "taps count also where they meet padding or holes of dilation"


def loose_accesses(ins: Instruction) -> tuple[Accesses, Accesses] | None:
    """Return the accesses from output to kernel and back, with taps on padding or holes as read.

    This is XLA's convention. The result is `None` for ops that are not convolutions.
    """
    if not isinstance(ins.op, Convolution | DynamicConv):
        return None
    conv = _maps_of(ins, ins.op)
    maps = conv.output_to_kernel(tight=False), conv.kernel_to_output(tight=False)
    reads, writes = (over(_PADDING, m) for m in maps)
    return reads, writes
