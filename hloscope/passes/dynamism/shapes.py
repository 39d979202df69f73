"""Patterns that refine the sizes of an op's results from the types and values of its operands.

Source: StableHLO `StablehloRefineShapes.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.dialects import DEFINITIONS
from hloscope.errors import HloscopeError
from hloscope.ir import TensorType, Type
from hloscope.mlir import DenseAttr, IntegerAttr, Operation, StructAttr, UnitAttr, Value
from hloscope.passes.dynamism.constants import ints
from hloscope.passes.dynamism.forms import STATIC, Form, slice_sizes
from hloscope.passes.dynamism.targets import set_signature
from hloscope.passes.dynamism.values import (
    CAST,
    Sizes,
    most_specific,
    refine_results,
    refine_shapes,
    refine_values,
)
from hloscope.passes.meshes import mesh_named, rows_of
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import AttributeGroups, inferred_types, made

SHAPES: Final = Patterns()
"""Patterns of single ops, in upstream's order."""


def _sizes_of(type: Type) -> Sizes | None:
    if not isinstance(type, TensorType) or type.has_bounds or type.encoding:
        return None
    return type.sizes


# ------------------------------------------------------------------------------------ collectives


def _group_size(rewriter: Rewriter, op: Operation) -> int | None:
    """Return the number of devices in a group; `None` if unknown."""
    groups = op.get("replica_groups")
    if isinstance(groups, DenseAttr) and isinstance(groups.type, TensorType):
        return groups.type.sizes[1] if groups.type.rank == 2 else None
    if not isinstance(groups, StructAttr) or groups.name != "replica_group_mesh_axes":
        return None
    try:
        along = AttributeGroups(groups)
        mesh = along.mesh
        found = mesh_named(rewriter.module, mesh) if isinstance(mesh, str) else mesh
        rows = rows_of(found, along.axes) if found is not None else None
    except HloscopeError:
        return None
    return len(rows[0]) if rows else None


def _collective(
    rewriter: Rewriter, op: Operation, name: str
) -> tuple[list[int | None], int, int] | None:
    """Return the operand's sizes, the dimension of the collective, and the size of a group.

    `None` if one of them is unknown.
    """
    if len(op.operands) != 1:
        return None
    # With a channel and without global ids, a group has members in all partitions.
    if op.get("channel_handle") is not None and not isinstance(
        op.get("use_global_device_ids"), UnitAttr
    ):
        return None
    sizes, size = _sizes_of(op.operands[0].type), _group_size(rewriter, op)
    dim = op.get(name)
    if sizes is None or size is None or not isinstance(dim, IntegerAttr):
        return None
    return ([*sizes], dim.value, size) if 0 <= dim.value < len(sizes) else None


@SHAPES.on("stablehlo.all_gather")
def refine_all_gather(rewriter: Rewriter, op: Operation) -> bool:
    """Multiply the gathered dimension by the size of a group."""
    found = _collective(rewriter, op, "all_gather_dim")
    if found is None:
        return False
    sizes, dim, count = found
    old = sizes[dim]
    sizes[dim] = None if old is None else old * count
    return refine_shapes(rewriter, op, [sizes])


@SHAPES.on("stablehlo.reduce_scatter")
def refine_reduce_scatter(rewriter: Rewriter, op: Operation) -> bool:
    """Divide the scattered dimension by the size of a group."""
    found = _collective(rewriter, op, "scatter_dimension")
    if found is None:
        return False
    sizes, dim, count = found
    if not count:
        return False
    old = sizes[dim]
    sizes[dim] = None if old is None else old // count
    return refine_shapes(rewriter, op, [sizes])


# ---------------------------------------------------------------------------- sizes as the operand


@SHAPES.on("stablehlo.bitcast_convert")
def refine_bitcast_convert(rewriter: Rewriter, op: Operation) -> bool:
    """Refine to the operand's sizes if elements have equal width."""
    old, new = op.operands[0].type, op.results[0].type
    if not isinstance(old, TensorType) or not isinstance(new, TensorType):
        return False
    if _part_bits(old) != _part_bits(new):
        return False
    return refine_like_operand(rewriter, op)


def _part_bits(type: TensorType) -> int:
    element = type.element
    if element.kind == "complex":
        return element.bits // 2
    return 1 if element.kind == "pred" else element.bits


@SHAPES.on("stablehlo.convert", "stablehlo.uniform_quantize", "stablehlo.compare")
def refine_like_operand(rewriter: Rewriter, op: Operation) -> bool:
    """Refine to the sizes of the first operand; upstream ignores the other one of `compare`."""
    sizes = _sizes_of(op.operands[0].type)
    return sizes is not None and refine_shapes(rewriter, op, [sizes])


# ------------------------------------------------------------------------- sizes of another op


@SHAPES.on("stablehlo.convolution", "stablehlo.dot_general", "stablehlo.dot", "chlo.ragged_dot")
def refine_by_inference(rewriter: Rewriter, op: Operation) -> bool:
    """Refine to the sizes that type inference gives."""
    types = inferred_types(op).types
    return types is not None and _refine_like(rewriter, op, types)


@SHAPES.on("stablehlo.dynamic_conv", "stablehlo.dynamic_pad")
def refine_by_static_form(rewriter: Rewriter, op: Operation) -> bool:
    """Refine to the sizes of the static form, if all amounts are constants."""
    form = STATIC[op.name](op)
    return form is not None and refine_by_form(rewriter, op, form)


def refine_by_form(rewriter: Rewriter, op: Operation, form: Form) -> bool:
    """Refine to the result sizes of the static op `form`."""
    try:
        draft = made(form.name, form.operands, form.properties)
    except HloscopeError:
        return False
    return _refine_like(rewriter, op, [value.type for value in draft.results])


def _refine_like(rewriter: Rewriter, op: Operation, types: Sequence[Type]) -> bool:
    shapes = [sizes for type in types if (sizes := _sizes_of(type)) is not None]
    return len(shapes) == len(types) and refine_shapes(rewriter, op, shapes)


@SHAPES.on("stablehlo.real_dynamic_slice")
def refine_real_dynamic_slice(rewriter: Rewriter, op: Operation) -> bool:
    """Refine to the sizes of a `slice`, or to the constant added to the starts."""
    form = STATIC[op.name](op)
    if form is not None:
        return refine_by_form(rewriter, op, form)
    sizes = slice_sizes(op)
    return sizes is not None and refine_shapes(rewriter, op, [sizes])


# -------------------------------------------------------------------------- sizes as an operand

_SIZES: Final = {
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.rng": 2,
}
"""Number of the operand that holds the sizes of the result."""


@SHAPES.on(*_SIZES)
def refine_by_operand(rewriter: Rewriter, op: Operation) -> bool:
    """Refine to the constant sizes in an operand."""
    number = _SIZES[op.name]
    sizes = ints(op.operands[number]) if number < len(op.operands) else None
    return sizes is not None and refine_shapes(rewriter, op, [sizes])


# ------------------------------------------------------------------------------------- regions


@SHAPES.on("stablehlo.while")
def refine_while(rewriter: Rewriter, op: Operation) -> bool:
    """Give the block arguments of condition and body the types of the loop's operands."""
    types = [value.type for value in op.operands]
    is_changed = False
    for region in op.regions:
        for block in region.blocks[:1]:
            is_changed |= refine_values(rewriter, op, block.arguments, types)
    return is_changed


@SHAPES.on("stablehlo.return")
def update_region(rewriter: Rewriter, op: Operation) -> bool:
    """Push the `if` or `case` around a return whose types are more specific than its results."""
    region = op.parent.parent if op.parent is not None else None
    parent = region.parent if region is not None else None
    if parent is None or parent.name not in ("stablehlo.if", "stablehlo.case"):
        return False
    for value, result in zip(op.operands, parent.results, strict=False):
        found = most_specific(value.type, result.type)
        if found is not None and found != result.type:
            rewriter.watcher.changed(parent)
            return True
    return False


@SHAPES.on("func.return")
def update_function_type(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a returned cast from a more specific type by its operand."""
    casts = {
        cast: source
        for value in op.operands
        if isinstance(cast := value.owner, Operation)
        and (source := _more_specific(cast)) is not None
    }
    region = op.parent.parent if op.parent is not None else None
    function = region.parent if region is not None else None
    if not casts or function is None or function.name != "func.func":
        return False
    for cast, source in casts.items():
        rewriter.replace(cast, [source])
    set_signature(rewriter, function, results=[value.type for value in op.operands])
    return True


def _more_specific(cast: Operation) -> Value | None:
    """Return the operand of a cast if its type is more specific than the result's; else `None`."""
    if cast.name != CAST or len(cast.operands) != 1 or len(cast.results) != 1:
        return None
    source, type = cast.operands[0], cast.result.type
    found = most_specific(source.type, type)
    return source if found is not None and found != type else None


# --------------------------------------------------------------------------------------- inference

INFERRED: Final = tuple(
    sorted(
        name
        for name, definition in DEFINITIONS.items()
        if name.startswith(("stablehlo.", "chlo."))
        and name != "stablehlo.compare"
        and {"infer", "compatible"} & {*definition.traits}
    )
)
"""Ops whose result types are inferred."""


def refine_inferred(rewriter: Rewriter, op: Operation) -> bool:
    """Refine to the types that inference gives for the current operands."""
    if not op.results or all(_is_settled(value.type) for value in op.results):
        return False
    types = inferred_types(op).types
    return types is not None and refine_results(rewriter, op, types)


def _is_settled(type: Type) -> bool:
    """Is the type final?  Most ops of a program are, and inference is expensive."""
    return isinstance(type, TensorType) and type.is_static
