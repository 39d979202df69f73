"""Constraints on quantized operands and results.

Integers of a quantized element type represent real numbers of its expressed type.  Per-tensor types
have one scale and zero point, per-axis types one for each slice along the quantized dimension.
Source: StableHLO spec, "Types" and the constraints of each op on quantized operands.
"""

from __future__ import annotations

from math import prod
from typing import Final

from hloscope.errors import MessageTemplate, VerifyError, message_of
from hloscope.ir import Dims, ElementType, QuantizedType, TensorType, Type, UnrankedTensorType
from hloscope.ops.inference import kind, require


def element_of(type_: Type) -> ElementType:
    """Return the element type of a ranked or unranked array type.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> str(element_of(TensorType(ELEMENT_TYPES["f32"], (2,))))
    'f32'
    """
    if isinstance(type_, TensorType | UnrankedTensorType):
        return type_.element
    raise VerifyError(f"found a {kind(type_)}, needs an array")


def quantized(type_: Type) -> QuantizedType | None:
    """Return the element type of an array if it is quantized, else `None`."""
    if isinstance(type_, TensorType | UnrankedTensorType):
        element = type_.element
        return element if isinstance(element, QuantizedType) else None
    return None


def any_quantized(*types: Type) -> bool:
    """Is one of the types an array of quantized elements?"""
    return any(quantized(t) is not None for t in types)


def per_axis(type_: Type) -> QuantizedType | None:
    """Return the element type of an array if it is quantized per axis, else `None`."""
    found = quantized(type_)
    return found if found is not None and found.is_per_axis else None


def quantized_axis(type_: Type) -> int | None:
    """Return the quantized dimension of an array quantized per axis.

    The result is `None` for other types, or if the dimension is out of range.
    """
    found = per_axis(type_)
    axis = found.axis if found is not None else None
    rank = type_.rank if isinstance(type_, TensorType) else 0
    return axis if axis is not None and axis < rank else None


def per_tensor(type_: Type) -> QuantizedType | None:
    """Return the element type of an array if it is quantized per tensor, else `None`."""
    found = quantized(type_)
    return found if found is not None and found.is_per_tensor else None


def _both(a: Type, b: Type) -> MessageTemplate:
    return message_of("{} vs {}", a, b)


# --- constraints that several ops share ------------------------------------------------------


def check_binary(lhs: Type, rhs: Type, result: Type) -> None:
    """Check the types of an `add` with a quantized operand or result.

    Source: StableHLO spec `add` (C2)-(C7).
    """
    a, b, r = quantized(lhs), quantized(rhs), quantized(result)
    if a is None or b is None or r is None:
        raise VerifyError(
            "expects  all operands and results to be either quantized or non-quantized",
            rule="add_c2",
        )
    require(
        a.storage.bits == b.storage.bits == r.storage.bits,
        "add_c3",
        "mismatched operands and result quantization storage types",
    )
    require(
        a.expressed == b.expressed == r.expressed,
        "add_c4",
        "mismatched operands and result quantization expressed types",
    )
    if not (a.is_per_axis or b.is_per_axis):
        require(
            not r.is_per_axis,
            "add_c5",
            "result per_axis quantized but none from rhs and lhs are per_axis quantized",
        )
        return
    require(r.is_per_axis, "add_c5", "result is not per_axis quantized but lhs or rhs are")
    for name, operand, rule in (("lhs", a, "add_c6"), ("rhs", b, "add_c7")):
        require(
            not operand.is_per_axis or operand.axis == r.axis,
            rule,
            message_of(
                f"quantization_dimension of {name} and result are not same {{}} vs {{}}", operand, r
            ),
        )


def check_same_scale(a: Type, b: Type, rule: str) -> None:
    """Check that two arrays quantized per tensor have the same element type.

    Other types are not checked. `rule` is the label of the constraint.
    """
    if per_tensor(a) and per_tensor(b):
        require(
            quantized(a) == quantized(b),
            rule,
            message_of("expect same quantization scale and zero_point but got {}", _both(a, b)),
        )


def check_same_scales(a: Type, b: Type, rule: str) -> None:
    """Check that two arrays quantized per axis have the same scales and zero points.

    If one type has more scales than the other, the rest is not compared: sizes are checked
    elsewhere. `rule` is the label of the constraint.
    """
    x, y = per_axis(a), per_axis(b)
    if x and y:
        of_a = zip(x.scales, x.zero_points, strict=True)
        of_b = zip(y.scales, y.zero_points, strict=True)
        require(
            all(p == q for p, q in zip(of_a, of_b, strict=False)),
            rule,
            message_of("expect same quantization scales and zero_points but got {}", _both(a, b)),
        )


def check_reshape(operand: TensorType, result: TensorType, rules: tuple[str, str]) -> None:
    """Check a reshape of quantized arrays: the scales and the quantized dimension must not change.

    Args:
        operand: Type of the operand.
        result: Type of the result.
        rules: Labels of two constraints: the element types agree, the quantized dimension is the
            same.
    """
    same, dimension = rules
    check_same_scale(operand, result, same)
    check_same_scales(operand, result, same)
    a, r = quantized_axis(operand), quantized_axis(result)
    if a is None or r is None:
        return
    sizes = operand.sizes[a], result.sizes[r]
    require(
        None in sizes or sizes[0] == sizes[1],
        dimension,
        message_of(
            "expect same quantization dimension size for operand and result {} and {}",
            operand,
            result,
        ),
    )
    if operand.is_static and result.is_static:
        # Together with the equal sizes, this means that the quantized dimension has the same
        # elements in row-major order.
        before = prod(operand.shape[:a]), prod(result.shape[:r])
        require(
            before[0] == before[1],
            dimension,
            "product of dimensions before quantization dimension must match between operand and"
            f" result for {before[0]} and {before[1]}",
        )


def check_broadcast(operand: TensorType, result: TensorType, dims: Dims, rule: str) -> None:
    """Check a broadcast whose result is quantized per axis.

    Args:
        operand: Type of the operand.
        result: Type of the result.
        dims: Result dimension of each operand dimension.
        rule: Label of the constraint.
    """
    a, r = per_axis(operand), per_axis(result)
    axis = quantized_axis(operand)
    if a is None or r is None or axis is None:
        return
    require(
        r.axis == dims[axis],
        rule,
        f"result quantization_dimension {r.axis} not same as broadcast_dimensions[{axis}]"
        f" = {dims[axis]}",
    )
    # A single slice is repeated along the quantized dimension, so its scale is that of all slices
    # of the result.
    if operand.sizes[axis] != 1:
        return
    for i, (scale, zero) in enumerate(zip(r.scales, r.zero_points, strict=True)):
        require(
            scale == a.scales[0],
            rule,
            f"mismatch result scale {i} ({scale:e}) and operand scale 0 ({a.scales[0]:e})",
        )
        require(
            zero == a.zero_points[0],
            rule,
            f"mismatch result zero_point {i} ({zero}) and operand zero_point 0"
            f" ({a.zero_points[0]})",
        )


def check_transpose(operand: Type, result: Type, permutation: Dims) -> None:
    """Check a transpose of quantized arrays.

    The scales must not change, and the quantized dimension must be permuted with the others.

    Source: StableHLO spec `transpose` (C1), (C4).
    """
    check_same_scale(operand, result, "transpose_c1")
    check_same_scales(operand, result, "transpose_c1")
    a, r = quantized_axis(operand), quantized_axis(result)
    if a is not None and r is not None and r < len(permutation):
        require(
            a == permutation[r],
            "transpose_c4",
            f"operand quantization_dimension {a} is not same as permutation[{r}]"
            f" = {permutation[r]}",
        )


_CONTRACTION: Final[dict[str, tuple[str, str, str, str, str]]] = {
    "dot_general": (
        "dot_general_c14",
        "dot_general_c17",
        "dot_general_c18",
        "dot_general_c19",
        "dot_general_c20",
    ),
    "convolution": (
        "convolution_c28",
        "convolution_c31",
        "convolution_c32",
        "convolution_c33",
        "convolution_c34",
    ),
    "dynamic_conv": (
        "dynamic_conv_c28",
        "dynamic_conv_c31",
        "dynamic_conv_c32",
        "dynamic_conv_c33",
        "dynamic_conv_c34",
    ),
}
"""Labels of the constraints on a quantized contraction, by op.

In order: quantized operands, storage types, expressed types, granularity, the hybrid form.
"""


def check_contraction(op: str, lhs: Type, rhs: Type, result: Type) -> None:
    """Check a dot product or convolution with a quantized operand or result.

    Args:
        op: `dot_general`, `convolution` or `dynamic_conv`.
        lhs: Type of the left operand.
        rhs: Type of the right operand; quantized, also if `lhs` is not (the hybrid form).
        result: Type of the result.
    """
    who, storage, expressed, granularity, hybrid = _CONTRACTION[op]
    a, b, r = quantized(lhs), quantized(rhs), quantized(result)
    if b is None or (a is None) != (r is None):
        raise VerifyError(
            "rhs should be quantized for quantized operations and"
            " is_quantized(lhs)=is_quantized(result) should hold",
            rule=who,
        )
    if a is None or r is None:
        require(
            element_of(lhs) == b.expressed == element_of(result),
            hybrid,
            "mismatched rhs quantization expressed type and lhs and result element type",
        )
        return
    require(
        a.storage.bits == b.storage.bits,
        storage,
        "mismatched lhs and rhs quantization storage types",
    )
    require(
        a.expressed == b.expressed == r.expressed,
        expressed,
        "mismatched lhs, rhs and result quantization expressed types",
    )
    require(
        not b.is_per_tensor or r.is_per_tensor,
        granularity,
        "mismatched rhs and result quantization granularity",
    )


def check_dot(lhs: Type, rhs: Type, result: Type, rhs_contracting: Dims) -> None:
    """Check a `dot_general` with a quantized operand or result.

    Source: StableHLO spec `dot_general` (C14)-(C20).
    """
    b = quantized(rhs)
    if b is not None:
        points = "points" if b.is_per_axis else "point"
        require(not any(b.zero_points), "dot_general_c15", f"Zero {points} of rhs should be 0")
        require(
            not b.is_per_axis or b.axis not in rhs_contracting,
            "dot_general_c16",
            "Quantization dimension of rhs should not be in the contracting dimension of rhs",
        )
    check_contraction("dot_general", lhs, rhs, result)


_FEATURES: Final[dict[str, tuple[str, str]]] = {
    "convolution": ("convolution_c29", "convolution_c30"),
    "dynamic_conv": ("dynamic_conv_c29", "dynamic_conv_c30"),
}
"""Labels of the constraints on a quantized convolution, by op.

In order: the quantized dimension of the kernel, that of the result.
"""


def check_convolution(
    op: str, lhs: Type, rhs: Type, result: Type, kernel_output: int, output_feature: int
) -> None:
    """Check a convolution with a quantized operand or result.

    Args:
        op: `convolution` or `dynamic_conv`.
        lhs: Type of the input.
        rhs: Type of the kernel.
        result: Type of the result.
        kernel_output: Number of the kernel's output feature dimension.
        output_feature: Number of the result's feature dimension.
    """
    of_kernel, of_result = _FEATURES[op]
    b, r = per_axis(rhs), per_axis(result)
    require(
        b is None or b.axis == kernel_output,
        of_kernel,
        "quantization dimension of rhs should be same with kernel_output_feature_dimension",
    )
    require(
        r is None or r.axis == output_feature,
        of_result,
        "quantization dimension of result should be same with output_feature_dimension",
    )
    check_contraction(op, lhs, rhs, result)
