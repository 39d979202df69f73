"""Ops over sliding windows: convolution, reduce_window, select_and_scatter."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Dims, Op, Pairs, op


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window, one entry per windowed dimension.  All sizes are in elements.

    Window position `o` and tap `w` of a dimension touch padded, dilated coordinate
    `o * strides + w * window_dilations - padding[0]`; the base element is that coordinate divided
    by `base_dilations` where it divides and lies inside.

    Attributes:
        sizes: Number of taps.
        strides: Step between positions.
        padding: Elements added before and after; negative cuts.
        base_dilations: Distance of neighbouring base elements.
        window_dilations: Distance of neighbouring taps.
        reversal: The taps are applied in reverse order (convolution).
    """

    sizes: Dims
    strides: Dims
    padding: Pairs
    base_dilations: Dims
    window_dilations: Dims
    reversal: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ConvDimensions:
    """Which dimension of input, kernel and output is what."""

    input_batch: int
    input_feature: int
    input_spatial: Dims
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: Dims
    output_batch: int
    output_feature: int
    output_spatial: Dims


@op("convolution")
@dataclass(frozen=True, slots=True)
class Convolution(Op):
    """Convolution of `lhs` with the kernel `rhs`.  Source: StableHLO spec `convolution`."""

    window: Window
    dimensions: ConvDimensions
    feature_group_count: int = 1
    batch_group_count: int = 1
    settings: tuple[tuple[str, str], ...] = ()  # operand_precision, padding_type … as written


@op("dynamic_conv")
@dataclass(frozen=True, slots=True)
class DynamicConv(Op):
    """`convolution` whose padding is operand 2."""

    window: Window
    dimensions: ConvDimensions
    feature_group_count: int = 1
    batch_group_count: int = 1
    settings: tuple[tuple[str, str], ...] = ()


@op("reduce_window")
@dataclass(frozen=True, slots=True)
class ReduceWindow(Op):
    """Reduction of every window.  Operands: N inputs, N initial values.  Calls: the body."""

    window: Window


@op("select_and_scatter")
@dataclass(frozen=True, slots=True)
class SelectAndScatter(Op):
    """Sums each source element into the element its window selects.

    Operands: operand, source, initial value.  Calls: select, scatter.
    """

    window: Window
