"""Ops over sliding windows: convolution, reduce_window, select_and_scatter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hloscope.ir.types import TensorType
from hloscope.ops.base import Callee, Dims, Op, Pairs, Type, op
from hloscope.ops.infer_util import (
    Extent,
    array,
    bare,
    common_element,
    count,
    extents,
    halves,
    may_equal,
    packed,
    reduced_result,
    require,
    resized,
    same_sizes,
    scalar,
    tensors,
    wider,
)


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

    def check(self, rank: int, rules: tuple[str, str, str, str, str]) -> None:
        """Check that there are `rank` entries of each kind, and that they are positive.

        Args:
            rank: Number of windowed dimensions.
            rules: Labels for the number of entries, then for sizes, strides, base dilations and
                window dilations below 1.
        """
        kinds = {
            "sizes": self.sizes,
            "strides": self.strides,
            "base dilations": self.base_dilations,
            "window dilations": self.window_dilations,
        }
        for (what, numbers), rule in zip(kinds.items(), rules[1:], strict=True):
            require(len(numbers) == rank, rules[0], f"{len(numbers)} window {what}, needs {rank}")
            for d, x in enumerate(numbers):
                require(x > 0, rule, f"window dimension {d}: {what} {x}, needs at least 1")

    def positions(self, d: int, size: int) -> int:
        """Number of window positions along its dimension `d`, over `size` base elements."""
        low, high = self.padding[d]
        dilated = (size - 1) * self.base_dilations[d] + 1 if size else 0
        spread = (self.sizes[d] - 1) * self.window_dilations[d] + 1
        room = low + dilated + high
        return (room - spread) // self.strides[d] + 1 if room >= spread else 0


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
class Convolution(Op):
    """Convolution of `lhs` with the kernel `rhs`.  Source: StableHLO spec `convolution`."""

    window: Window
    dimensions: ConvDimensions
    feature_group_count: int = 1
    batch_group_count: int = 1
    settings: tuple[tuple[str, str], ...] = ()  # operand_precision, padding_type … as written

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        return _convolved(self, *tensors(self.name, operands))


def _convolved(op: Convolution, lhs: TensorType, rhs: TensorType) -> TensorType:
    dims, window = op.dimensions, op.window
    rank = len(dims.input_spatial) + 2
    require(
        lhs.rank == rhs.rank == rank,
        "convolution_c1",
        f"ranks {lhs.rank} and {rhs.rank} of the operands, needs {rank}",
    )
    rules = ("convolution_c2", "convolution_c2", "convolution_c3", "convolution_c6")
    window.check(rank - 2, (*rules, "convolution_c8"))
    base, kernel = extents(lhs), extents(rhs)
    _check_groups(op, base, kernel)
    out = [base[0]] * rank
    out[dims.output_batch] = resized(base[dims.input_batch], lambda n: n // op.batch_group_count)
    out[dims.output_feature] = kernel[dims.kernel_output_feature]
    for d, (i, k, o) in enumerate(
        zip(dims.input_spatial, dims.kernel_spatial, dims.output_spatial, strict=True)
    ):
        require(
            kernel[k][0] in (None, window.sizes[d]),
            "convolution_c2",
            f"window dimension {d}: size {window.sizes[d]}, the kernel has {kernel[k][0]}",
        )
        out[o] = resized(base[i], partial(window.positions, d))
    return array(wider(lhs.element, rhs.element), out)


def _check_groups(op: Convolution, base: list[Extent], kernel: list[Extent]) -> None:
    dims, groups, batches = op.dimensions, op.feature_group_count, op.batch_group_count
    require(groups > 0, "convolution_c21", f"feature_group_count {groups}, needs at least 1")
    require(batches > 0, "convolution_c22", f"batch_group_count {batches}, needs at least 1")
    require(
        1 in (groups, batches),
        "convolution_c23",
        f"feature_group_count {groups} and batch_group_count {batches}: one of them needs to be 1",
    )
    inputs, taken = base[dims.input_feature][0], kernel[dims.kernel_input_feature][0]
    require(
        inputs is None or taken is None or inputs == taken * groups,
        "convolution_c14",
        f"{inputs} input features in {groups} groups, the kernel has {taken} in each",
    )
    sizes = (
        ("convolution_c10", "input batch", base[dims.input_batch][0], batches),
        ("convolution_c15", "output feature", kernel[dims.kernel_output_feature][0], batches),
        ("convolution_c16", "output feature", kernel[dims.kernel_output_feature][0], groups),
    )
    for rule, what, size, by in sizes:
        require(size is None or size % by == 0, rule, f"{what} size {size} is no multiple of {by}")


@op("dynamic_conv")
class DynamicConv(Op):
    """`convolution` whose padding is operand 2."""

    window: Window
    dimensions: ConvDimensions
    feature_group_count: int = 1
    batch_group_count: int = 1
    settings: tuple[tuple[str, str], ...] = ()


@op("reduce_window")
class ReduceWindow(Op):
    """Reduction of every window.  Operands: N inputs, N initial values.  Calls: the body."""

    window: Window

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        inputs, inits = halves(self.name, operands)
        dims = same_sizes(self.name, inputs, "reduce_window_c2")
        rules = ("reduce_window_c4", "reduce_window_c5", "reduce_window_c7", "reduce_window_c9")
        self.window.check(len(dims), (*rules, "reduce_window_c11"))
        for i, init in enumerate(inits):
            scalar(self.name, init, f"initial value {i}", "reduce_window_i2")
        windowed = [resized(x, partial(self.window.positions, d)) for d, x in enumerate(dims)]
        elements = reduced_result(self.name, inputs, inits, calls)
        return packed(array(e, windowed) for e in elements)


@op("select_and_scatter")
class SelectAndScatter(Op):
    """Sums each source element into the element its window selects.

    Operands: operand, source, initial value.  Calls: select, scatter.
    """

    window: Window

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 3)
        operand, source = tensors(self.name, operands[:2])
        scalar(self.name, operands[2], "the initial value", "select_and_scatter_i3")
        common_element(self.name, (operand, source), "select_and_scatter_c1")
        prefix = "select_and_scatter"
        rules = (f"{prefix}_c4", f"{prefix}_c5", f"{prefix}_c7", prefix, prefix)
        self.window.check(operand.rank, rules)
        windows = [
            resized(x, partial(self.window.positions, d)) for d, x in enumerate(extents(operand))
        ]
        for d, (found, needed) in enumerate(zip(extents(source), windows, strict=False)):
            require(
                source.rank == operand.rank and may_equal(found, needed),
                "select_and_scatter_c2",
                f"dimension {d}: the source has size {found[0]}, needs {needed[0]}",
            )
        return bare(operand)
