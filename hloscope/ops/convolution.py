"""Convolutions: a filter slides over an input."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import message_of
from hloscope.ir import Callees, Dims, Op, TensorType, Type, Types
from hloscope.ops.contraction import Precisions, check_precisions
from hloscope.ops.inference import (
    Extent,
    array,
    extents,
    known_elements,
    may_be_one_size,
    op,
    require,
    resized,
    size_text,
    tensors,
)
from hloscope.ops.quantization import any_quantized, check_convolution
from hloscope.ops.result_types import check_declared_sizes, product_element
from hloscope.ops.windows import Window, WindowRules, check_padding_shape


class ConvDimensions(Struct, frozen=True):
    """Role of each dimension of a convolution's input, kernel (filter) and output."""

    input_batch: int
    input_feature: int
    input_spatial: Dims
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: Dims
    output_batch: int
    output_feature: int
    output_spatial: Dims

    @property
    def input(self) -> Dims:
        """The dimensions of the input: batch, feature, then the spatial ones."""
        return (self.input_batch, self.input_feature, *self.input_spatial)

    @property
    def kernel(self) -> Dims:
        """The dimensions of the kernel: input feature, output feature, then the spatial ones."""
        return (self.kernel_input_feature, self.kernel_output_feature, *self.kernel_spatial)

    @property
    def output(self) -> Dims:
        """The dimensions of the output: batch, feature, then the spatial ones."""
        return (self.output_batch, self.output_feature, *self.output_spatial)


@op("convolution")
class Convolution(Op):
    """Convolution of `lhs` with the kernel `rhs`.  Source: StableHLO spec `convolution`."""

    window: Window
    dimensions: ConvDimensions
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision_config: Precisions | None = None
    settings: tuple[tuple[str, str], ...] = ()  # padding_type … as written

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        lhs, rhs = tensors(self.name, operands, 2)
        _check_operands(self, lhs, rhs, mixed=True)
        check_padding_shape(self.window.padding, "convolution_c4")
        return _convolved(self, self.window, lhs, rhs)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        lhs, rhs = tensors(self.name, operands, 2)
        _check_operands(self, lhs, rhs)
        check_padding_shape(self.window.padding, "convolution_c4")
        result = check_declared_sizes(
            _convolved(self, self.window, lhs, rhs), results, "convolution_c25"
        )
        _check_quantized(self, lhs, rhs, result)


@op("dynamic_conv")
class DynamicConv(Op):
    """`convolution` with the padding in operand 2."""

    reads_values: ClassVar[tuple[int, ...]] = (2,)
    window: Window
    dimensions: ConvDimensions
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision_config: Precisions | None = None

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        lhs, rhs, padding = tensors(self.name, operands, 3)
        _check_operands(self, lhs, rhs)
        require(
            padding.rank == 2,
            "dynamic_conv_i3",
            f"expects padding to be of rank 2 but got {padding.rank}",
        )
        first, second = map(size_text, padding.sizes)
        require(
            padding.sizes == (lhs.rank - 2, 2),
            "dynamic_conv_c4",
            f"expects padding to be of shape [{lhs.rank - 2}, 2], but got [{first}, {second}]",
        )
        amounts = known_elements(padding)
        if amounts is not None:
            pairs = tuple(zip(amounts[::2], amounts[1::2], strict=True))
            _convolved(self, replace(self.window, padding=pairs), lhs, rhs)
        for result in tensors(self.name, results):
            _check_quantized(self, lhs, rhs, result)


def _check_operands(
    op: Convolution | DynamicConv, lhs: TensorType, rhs: TensorType, *, mixed: bool = False
) -> None:
    """Check the operands but not the window; `mixed` allows HLO's mixed element types."""
    name, dims = op.name, op.dimensions
    both = message_of("Got: {} and {}.", lhs, rhs)
    expects = "expects convolution arguments to have"
    require(lhs.rank >= 2, f"{name}_c13", message_of(f"{expects} >= 2 dimensions. {{}}", both))
    message = message_of(f"{expects} same number of dimensions. {{}}", both)
    require(lhs.rank == rhs.rank, f"{name}_c1", message)
    require(
        mixed or lhs.element == rhs.element or any_quantized(lhs, rhs),
        f"{name}_c27",
        message_of(
            "expects lhs and rhs to have compatible element type. Got: {} and {}",
            lhs.element,
            rhs.element,
        ),
    )
    _check_dimensions(name, dims, lhs.rank)
    _check_groups(op, lhs, rhs)
    check_precisions(op.precision_config, f"{name}_c24")
    needed = len(dims.input_spatial) + 2
    require(lhs.rank == needed, f"{name}_c12", f"{expects} {needed} dimensions. Got: {lhs.rank}")


def _check_dimensions(name: str, dims: ConvDimensions, rank: int) -> None:
    """Check that input, kernel and output have `rank` dimension numbers, distinct and in range."""
    numbers = [len(d) for d in (dims.input_spatial, dims.kernel_spatial, dims.output_spatial)]
    require(
        numbers[0] == numbers[1] == numbers[2],
        f"{name}_c17" if numbers[0] != numbers[1] else f"{name}_c19",
        "expects the same size for input, kernel and output spatial-dimensions, but got"
        f" {numbers[0]}, {numbers[1]}, and {numbers[2]} resp.",
    )
    sides = (
        ("input", dims.input, f"{name}_c13"),
        ("kernel", dims.kernel, f"{name}_c18"),
        ("output", dims.output, f"{name}_c20"),
    )
    for _, numbered, rule in sides:
        require(
            all(0 <= d < rank for d in numbered),
            rule,
            f"expects input, kernel, and output dimension-numbers to be in-range [0, {rank}).",
        )
    for what, numbered, rule in sides:
        found = ", ".join(map(str, numbered))
        require(
            len(set(numbered)) == len(numbered),
            rule,
            f"expects {what} dimension-numbers to be unique, got {{{found}}}.",
        )


def _check_groups(op: Convolution | DynamicConv, lhs: TensorType, rhs: TensorType) -> None:
    """Check that batch and feature sizes are divisible by the numbers of groups."""
    name, dims = op.name, op.dimensions
    groups, batches = op.feature_group_count, op.batch_group_count
    message = f"expects feature_group_count to be a positive number, got {groups}."
    require(groups > 0, f"{name}_c21", message)
    message = f"expects batch_group_count to be a positive number, got {batches}."
    require(batches > 0, f"{name}_c22", message)
    require(
        1 in (groups, batches),
        f"{name}_c23",
        "expects batch_group_count and feature_group_count not to be both greater than 1."
        f" Got {batches} and {groups} resp.",
    )
    batch, features = lhs.sizes[dims.input_batch], lhs.sizes[dims.input_feature]
    taken, made = rhs.sizes[dims.kernel_input_feature], rhs.sizes[dims.kernel_output_feature]
    require(
        batch is None or batch % batches == 0,
        f"{name}_c10",
        f"expects input batch dimension ({batch}) to be divisible by batch_group_count."
        f" Got batch_group_count = {batches}.",
    )
    require(
        features is None or features % groups == 0,
        f"{name}_c11",
        f"expects input feature dimension ({features}) to be a multiple of feature_group_count."
        f" Got feature_group_count = {groups}.",
    )
    require(
        features is None or may_be_one_size(features // groups, taken),
        f"{name}_c14",
        f"expects input feature dimension ({features}) / feature_group_count = kernel input feature"
        f" dimension ({taken}). Got feature_group_count = {groups}.",
    )
    require(
        made is None or made % batches == 0,
        f"{name}_c15",
        f"expects output feature dimension size ({made}) to be a multiple of batch_group_count."
        f" Got batch_group_count = {batches}.",
    )
    require(
        made is None or made % groups == 0,
        f"{name}_c16",
        f"expects kernel output feature dimension ({made}) to be divisible by feature_group_count."
        f" For feature_group_count = {groups}.",
    )


def _convolved(
    op: Convolution | DynamicConv, window: Window, lhs: TensorType, rhs: TensorType
) -> TensorType:
    """Return the type of the result, with the wider element type of the operands.

    Raises:
        VerifyError: The window is not valid for the operands.
    """
    name, dims = op.name, op.dimensions
    base, kernel = extents(lhs), extents(rhs)
    sizes = [kernel[k][0] for k in dims.kernel_spatial]
    window.check(sizes, _rules(name))
    # The groups of the batch are added up, so the result has that many times fewer batch elements.
    # Each output feature of the filter is a feature of the result.
    out: list[Extent] = [(None, None)] * lhs.rank
    out[dims.output_batch] = resized(base[dims.input_batch], lambda n: n // op.batch_group_count)
    out[dims.output_feature] = kernel[dims.kernel_output_feature]
    for d, (i, size, o) in enumerate(
        zip(dims.input_spatial, sizes, dims.output_spatial, strict=True)
    ):
        if size is not None:
            message = f"window dimension {d}: size {window.sizes[d]}, the kernel has {size}"
            require(size == window.sizes[d], "", message)
            out[o] = resized(base[i], partial(window.positions, d))
    return array(product_element(lhs, rhs), out)


def _rules(name: str) -> WindowRules:
    """Return the labels of the constraints on the window of op `name`."""
    return WindowRules(
        strides=f"{name}_c2",
        padding=f"{name}_c4",
        base_dilations=f"{name}_c5",
        window_dilations=f"{name}_c7",
        reversal=f"{name}_c9",
        stride=f"{name}_c3",
        base_dilation=f"{name}_c6",
        window_dilation=f"{name}_c8",
    )


def _check_quantized(
    op: Convolution | DynamicConv, lhs: TensorType, rhs: TensorType, result: TensorType
) -> None:
    if any_quantized(lhs, rhs, result):
        dims = op.dimensions
        features = dims.kernel_output_feature, dims.output_feature
        check_convolution(op.name, lhs, rhs, result, *features)
