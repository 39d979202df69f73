"""Patterns that refine the sizes of an op's results, and static forms of dynamic ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hloscope.errors import HloscopeError
from hloscope.ir import Dims, TensorType, Type
from hloscope.mlir import (
    NO_ATTRIBUTES,
    ArrayAttr,
    Attribute,
    DenseAttr,
    IntegerAttr,
    Operation,
    StructAttr,
    UnitAttr,
    Value,
)
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.passes.conversion import CAST, SLICE_BOUNDS, InsertionPoint, i64_tensor
from hloscope.passes.dynamism.values import (
    SHAPE_OPERANDS,
    Sizes,
    most_specific,
    refine_results,
    refine_shapes,
    refine_values,
    set_signature,
    shape_operands,
    shapes_of,
)
from hloscope.passes.folding import INDEX_FOLDS, signed_integers
from hloscope.passes.framework import Pass, Run
from hloscope.passes.patterns import Chooser, Pattern, Patterns
from hloscope.passes.reading import defining_op, mesh_named, rows_of
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import AttributeGroups, i64_array, inferred_types, made

# --------------------------------------------------------------------------------------------------
# Patterns that refine the sizes of an op's results from the types and values of its operands.
#
# Source: StableHLO `StablehloRefineShapes.cpp`.


SHAPES: Final = Patterns()
"""Patterns that refine the result types of single ops, in upstream's order."""


def _sizes_of(type: Type) -> Sizes | None:
    if not isinstance(type, TensorType) or type.has_bounds or type.encoding:
        return None
    return type.sizes


# ------------------------------------------------------------------------------------ collectives


def _group_size(rewriter: Rewriter, op: Operation) -> int | None:
    """Return the number of devices in a replica group of a collective; `None` if unknown."""
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
    """Return the operand's sizes, the dimension, and the replica group size of a collective.

    `name` is the attribute with the dimension. The result is `None` if one of the three is unknown.
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
    """Refine `all_gather`: the gathered dimension is the operand's times the group size."""
    found = _collective(rewriter, op, "all_gather_dim")
    if found is None:
        return False
    sizes, dim, count = found
    old = sizes[dim]
    sizes[dim] = None if old is None else old * count
    return refine_shapes(rewriter, op, [sizes])


@SHAPES.on("stablehlo.reduce_scatter")
def refine_reduce_scatter(rewriter: Rewriter, op: Operation) -> bool:
    """Refine `reduce_scatter`: the scattered dimension is the operand's over the group size."""
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
    """Refine `bitcast_convert` to the operand's sizes if both element types have equal width."""
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
    """Refine the result to the sizes of the first operand.

    Upstream, too, ignores the second operand of `compare`.
    """
    sizes = _sizes_of(op.operands[0].type)
    return sizes is not None and refine_shapes(rewriter, op, [sizes])


# ------------------------------------------------------------------------- sizes of another op


@SHAPES.on("stablehlo.convolution", "stablehlo.dot_general", "stablehlo.dot", "chlo.ragged_dot")
def refine_by_inference(rewriter: Rewriter, op: Operation) -> bool:
    """Refine the result to the sizes that type inference gives."""
    types = inferred_types(op).types
    return types is not None and _refine_like(rewriter, op, types)


@SHAPES.on("stablehlo.dynamic_conv", "stablehlo.dynamic_pad")
def refine_by_static_form(rewriter: Rewriter, op: Operation) -> bool:
    """Refine a dynamic op's result to that of its static form, if all its sizes are constants."""
    form = form_of(op)
    return form is not None and refine_by_form(rewriter, op, form)


def refine_by_form(rewriter: Rewriter, op: Operation, form: Form) -> bool:
    """Refine the results of `op` to those inferred for its static form `form`.

    Return whether a type changed.
    """
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
    """Refine `real_dynamic_slice` if its bounds, or limits minus starts, are constants."""
    form = form_of(op)
    if form is not None:
        return refine_by_form(rewriter, op, form)
    sizes = slice_sizes(op)
    return sizes is not None and refine_shapes(rewriter, op, [sizes])


# -------------------------------------------------------------------------- sizes as an operand

SIZE_OPERANDS: Final = {
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.rng": 2,
}
"""Index of the operand whose elements are the sizes of the result, by op name."""


@SHAPES.on(*SIZE_OPERANDS)
def refine_by_operand(rewriter: Rewriter, op: Operation) -> bool:
    """Refine the result to the sizes in its shape operand, if that is a constant."""
    number = SIZE_OPERANDS[op.name]
    sizes = signed_integers(op.operands[number]) if number < len(op.operands) else None
    return sizes is not None and refine_shapes(rewriter, op, [sizes])


# ------------------------------------------------------------------------------------- regions


@SHAPES.on("stablehlo.while")
def refine_while(rewriter: Rewriter, op: Operation) -> bool:
    """Set the block arguments of a `while`'s condition and body to the types of its operands."""
    types = [value.type for value in op.operands]
    is_changed = False
    for region in op.regions:
        for block in region.blocks[:1]:
            is_changed |= refine_values(rewriter, op, block.arguments, types)
    return is_changed


@SHAPES.on("stablehlo.return")
def update_region(rewriter: Rewriter, op: Operation) -> bool:
    """Make the driver visit the `if` or `case` around `op` again if its results can be refined.

    `op` is the `return` of a branch; that is so if it returns more specific types. Return whether
    it is so.
    """
    parent = op.parent_op
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
    """Let a function return the values before casts from more specific types.

    `op` is the `return`. The function's result types become those of the returned values.
    """
    casts = {
        cast: source
        for value in op.operands
        if isinstance(cast := value.owner, Operation)
        and (source := _more_specific(cast)) is not None
    }
    function = op.parent_op
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
"""Names of the ops whose result types are inferred."""


def refine_inferred(rewriter: Rewriter, op: Operation) -> bool:
    """Refine an op's results to the types that inference gives for the current operands."""
    if not op.results or all(_is_settled(value.type) for value in op.results):
        return False
    types = inferred_types(op).types
    return types is not None and refine_results(rewriter, op, types)


def _is_settled(type: Type) -> bool:
    """Is the type a tensor of static shape, so that it cannot be refined further?"""
    return isinstance(type, TensorType) and type.is_static


# --------------------------------------------------------------------------------------------------
# Static equivalents of dynamic ops whose sizes are constants.
#
# Refinement uses the result types of the static op, canonicalisation replaces the dynamic op by it.
# Both read this table, so that they agree.
#
# Source: StableHLO `StablehloRefineShapes.cpp`, `StablehloCanonicalizeDynamism.cpp`.


class Form(NamedTuple):
    """The static form of a dynamic op: op name, operands and attributes."""

    name: str
    operands: tuple[Value, ...]
    properties: Mapping[str, Attribute]


class _StaticOp(NamedTuple):
    """The static op for a dynamic one.

    Attributes:
        name: Name of the static op.
        first: Index of the first operand with amounts, such as sizes; all others follow.
        attributes: Names of the attributes of the static op that have the amounts.
    """

    name: str
    first: int
    attributes: tuple[str, ...]


PADDING: Final = ("edge_padding_low", "edge_padding_high", "interior_padding")

STATIC: Final[dict[str, _StaticOp]] = {
    "stablehlo.dynamic_conv": _StaticOp("stablehlo.convolution", 2, ("padding",)),
    "stablehlo.dynamic_gather": _StaticOp("stablehlo.gather", 2, ("slice_sizes",)),
    "stablehlo.dynamic_pad": _StaticOp("stablehlo.pad", 2, PADDING),
    "stablehlo.real_dynamic_slice": _StaticOp("stablehlo.slice", 1, SLICE_BOUNDS),
}
"""The static op of each dynamic op whose last operands are amounts, by op name."""


def form_of(op: Operation, read: Callable[[Value], Dims | None] = signed_integers) -> Form | None:
    """Return the static form of an op in `STATIC`; `None` unless all its amounts are constant.

    `read` returns the integers of a constant, and `None` for other values.
    """
    target = STATIC[op.name]
    operands, given = op.operands[: target.first], op.operands[target.first :]
    amounts = [numbers for value in given if (numbers := read(value)) is not None]
    if len(amounts) != len(target.attributes) or len(given) != len(amounts):
        return None
    attributes: dict[str, Attribute] = dict(op.properties)
    for name, numbers in zip(target.attributes, amounts, strict=True):
        attributes[name] = i64_array(numbers)
    if "padding" in target.attributes:
        (numbers,) = amounts
        if len(numbers) % 2:
            return None
        attributes["padding"] = i64_tensor(numbers, (len(numbers) // 2, 2))
    return Form(target.name, operands, attributes)


def slice_sizes(
    op: Operation, read: Callable[[Value], Dims | None] = signed_integers
) -> Dims | None:
    """Return the slice sizes of `real_dynamic_slice` with strides 1 and limits `start + constant`.

    `None` for any other slice. `read` returns the integers of a constant.
    """
    _, start, limit, strides = op.operands
    steps = read(strides)
    if steps is None or any(step != 1 for step in steps):
        return None
    adding = defining_op(limit, "stablehlo.add")
    if adding is None or start not in adding.operands or len(adding.operands) != 2:
        return None
    first, second = adding.operands
    return read(second if first is start else first)


# --------------------------------------------------------------------------------------------------
# `stablehlo-canonicalize-dynamism`: replaces dynamic ops with constant sizes by static ops.
#
# Source: StableHLO `StablehloCanonicalizeDynamism.cpp`.


ITERATIONS: Final = 2

PATTERNS: Final = Patterns()
"""Patterns that replace single dynamic ops by static ones; custom calls are not among them."""


def _is_static(type: Type) -> bool:
    return isinstance(type, TensorType) and type.is_static


def custom_call(run: Run) -> Callable[[Rewriter, Operation], bool]:
    """Return the pattern that removes shape operands of custom calls.

    It reports errors to `run`.
    """

    def drop_shape_operands(rewriter: Rewriter, op: Operation) -> bool:
        """Remove a custom call's shape operands, and their layouts, if all results are static."""
        if shapes_of(op, run) is None:
            return False
        if not all(_is_static(value.type) for value in op.results):  # so no tuples, as upstream
            return False
        dropped = {*(shape_operands(op, run) or ())}
        kept = [k for k, value in enumerate(op.operands) if value not in dropped]
        properties = dict(op.properties)
        layouts = properties.get("operand_layouts")
        if isinstance(layouts, ArrayAttr) and len(layouts.elements) == len(op.operands):
            properties["operand_layouts"] = ArrayAttr(tuple([layouts.elements[k] for k in kept]))
        attributes = {k: v for k, v in op.attributes.items() if k != SHAPE_OPERANDS}
        operands = [op.operands[k] for k in kept]
        return rewriter.replace_by(op, op.name, operands, properties, attributes=attributes)

    return drop_shape_operands


@PATTERNS.on("stablehlo.dynamic_broadcast_in_dim")
def broadcast(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `dynamic_broadcast_in_dim` by `broadcast_in_dim` if operand and result are static."""
    operand, shape = op.operands
    if (
        not _is_static(operand.type)
        or not _is_static(op.result.type)
        or signed_integers(shape) is None
    ):
        return False
    dims = op.get("broadcast_dimensions")
    given = {} if dims is None else {"broadcast_dimensions": dims}
    return rewriter.replace_by(op, "stablehlo.broadcast_in_dim", (operand,), given)


@PATTERNS.on("stablehlo.dynamic_iota")
def iota(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `dynamic_iota` by `iota` if the result is static."""
    if not _is_static(op.result.type) or signed_integers(op.operands[0]) is None:
        return False
    return rewriter.replace_by(op, "stablehlo.iota", (), op.properties)


@PATTERNS.on("stablehlo.dynamic_reshape")
def reshape(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `dynamic_reshape` by `reshape` if the result is static."""
    if not _is_static(op.result.type) or signed_integers(op.operands[1]) is None:
        return False
    return rewriter.replace_by(op, "stablehlo.reshape", op.operands[:1])


@PATTERNS.on("stablehlo.real_dynamic_slice")
def slice_side_by_side(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `real_dynamic_slice` by `dynamic_slice` if its limits are starts plus constants."""
    sizes = slice_sizes(op)
    if sizes is None:
        return False
    operand, starts = op.operands[:2]
    at, scalars = InsertionPoint(rewriter, op), []
    for d in range(len(sizes)):
        scalars.append(at.reshape(at.slice(starts, [d], [d + 1])))
    given = {"slice_sizes": i64_array(sizes)}
    target = "stablehlo.dynamic_slice"
    return rewriter.replace_by(op, target, (operand, *scalars), given, attributes=op.attributes)


@PATTERNS.on(*STATIC)
def static_form(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a dynamic op by its static form if its amounts, such as padding, are constants."""
    form = form_of(op)
    if form is None:
        return False
    keeps = op.name == "stablehlo.real_dynamic_slice"
    return rewriter.replace_by(op, *form, attributes=op.attributes if keeps else NO_ATTRIBUTES)


def canonicalize(run: Run, more: Iterable[Pattern] = ()) -> None:
    """Replace dynamic ops of a module by static ones.

    `more` has patterns in addition to `PATTERNS`.
    """
    own = Pattern("drop_shape_operands", ("stablehlo.custom_call",), custom_call(run))
    chooser = Chooser([own, *PATTERNS, *more, *INDEX_FOLDS])
    for function in run.functions():
        converged = run.greedy(function, chooser, max_iterations=ITERATIONS)
        if not converged:
            message = f"Failed to converge StablehloCanonicalizeDynamism in {ITERATIONS} iterations"
            run.plain_error(function, message, fails=False)


CANONICALIZE_DYNAMISM: Final = Pass(
    "stablehlo-canonicalize-dynamism",
    canonicalize,
    "Replaces dynamic ops with constant sizes by static ops.",
    on_functions=True,
)
