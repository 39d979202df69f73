"""Dimensions of quantized products, and the products that integer arithmetic supports.

Source: StableHLO `StablehloLegalizeQuantToMath.cpp`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.ir import Dims, QuantizedType, TensorType
from hloscope.mlir import DenseArrayAttr, Operation, StructAttr
from hloscope.passes.legalizing.quantized.parameters import quantized

NEAR_ONE: Final = 0.001
"""Scales, and ratios of scales, that differ by less count as equal."""


class Product(NamedTuple):
    """Dimensions of a product's operands by role; windows move along the `spatial` ones."""

    lhs_batching: Dims
    lhs_spatial: Dims
    lhs_contracting: Dims
    rhs_batching: Dims
    rhs_spatial: Dims
    rhs_contracting: Dims
    channels: int | None = None
    """Result dimension of the output features, for a convolution."""


def kind_of(op: Operation) -> str:
    """Return `quantized`, `hybrid` (only the weights are), or an empty text without a rule."""
    lhs, rhs, result = (quantized(v.type) for v in (*op.operands[:2], op.results[0]))
    if lhs is None and result is None and rhs is not None:
        return "hybrid" if rhs.is_per_tensor or rhs.is_per_axis else ""
    if lhs is None or rhs is None or result is None or not lhs.is_per_tensor:
        return ""
    both = (rhs.is_per_tensor and result.is_per_tensor) or (rhs.is_per_axis and result.is_per_axis)
    return "quantized" if both else ""


def of_dot(op: Operation) -> Product | None:
    """Return the dimensions of a `dot` or `dot_general`; `None` if it is malformed."""
    if op.name == "stablehlo.dot":
        is_matrix = all(_is_matrix(value.type) for value in op.operands)
        return Product((), (), (1,), (), (), (0,)) if is_matrix else None
    given = op.get("dot_dimension_numbers")
    if not isinstance(given, StructAttr):
        return None
    names = "lhs_batching lhs_contracting rhs_batching rhs_contracting".split()
    dims = [given.get(f"{name}_dimensions") or () for name in names]
    lists = [d for d in dims if isinstance(d, tuple)]
    if len(lists) != 4:
        return None
    return Product(lists[0], (), lists[1], lists[2], (), lists[3])


def _is_matrix(type: object) -> bool:
    return isinstance(type, TensorType) and type.rank == 2


def _layouts(rank: int) -> dict[tuple[tuple[str, object], ...], Product]:
    """Return the supported convolutions by dimension numbers: features last, or second.

    With three spatial dimensions, upstream expects the kernel's input features first.
    """
    last, space = rank - 1, tuple(range(1, rank - 1))
    taken, made = (1, 0) if rank == 4 else (0, 1)
    window, after = tuple(range(rank - 2)), tuple(range(2, rank))
    channels_last = {
        "input_batch_dimension": 0,
        "input_feature_dimension": last,
        "input_spatial_dimensions": space,
        "kernel_input_feature_dimension": rank - 2,
        "kernel_output_feature_dimension": last,
        "kernel_spatial_dimensions": window,
        "output_batch_dimension": 0,
        "output_feature_dimension": last,
        "output_spatial_dimensions": space,
    }
    channels_second = {
        "input_batch_dimension": 0,
        "input_feature_dimension": 1,
        "input_spatial_dimensions": after,
        "kernel_input_feature_dimension": taken,
        "kernel_output_feature_dimension": made,
        "kernel_spatial_dimensions": after,
        "output_batch_dimension": 0,
        "output_feature_dimension": 1,
        "output_spatial_dimensions": after,
    }
    return {
        _fields(channels_last): Product((0,), space, (last,), (), window, (rank - 2,), last),
        _fields(channels_second): Product((0,), after, (1,), (), after, (taken,), 1),
    }


def _fields(given: dict[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((k, v) for k, v in given.items() if v not in (0, ())))


def of_convolution(op: Operation) -> Product | None:
    """Return the dimensions of a convolution that integers support; `None` for others."""
    lhs, rhs, given = op.operands[0].type, op.operands[1].type, op.get("dimension_numbers")
    result, weights = quantized(op.result.type), quantized(rhs)
    if not isinstance(lhs, TensorType) or not isinstance(rhs, TensorType) or result is None:
        return None
    if not isinstance(given, StructAttr) or weights is None or lhs.rank not in (4, 5):
        return None
    zero_points = (*weights.zero_points, *(result.zero_points if weights.is_per_axis else ()))
    if any(zero_points):
        # Upstream has no offset for these zero points: it requires them to be 0.
        return None
    if weights.is_per_axis and not _is_proportional(weights, result, rhs.rank):
        return None
    dilation = op.get("lhs_dilation")
    if isinstance(dilation, DenseArrayAttr) and any(d != 1 for d in dilation.values):
        return None
    return _layouts(lhs.rank).get(_fields(dict(given.fields)))


def _is_proportional(weights: QuantizedType, result: QuantizedType, rank: int) -> bool:
    """Is the last dimension quantized, with one ratio of result scale to weight scale?"""
    if weights.axis != rank - 1 or len(weights.scales) != len(result.scales):
        return False
    ratios = [r / w for r, w in zip(result.scales, weights.scales, strict=True)]
    return all(abs((ratio - ratios[0]) / ratios[0]) <= NEAR_ONE for ratio in ratios)
