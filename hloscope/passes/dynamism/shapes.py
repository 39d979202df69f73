"""Patterns that refine the sizes of an op's results, and static forms of dynamic ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

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
from hloscope.passes.dynamism.values import (
    CAST,
    SHAPE_OPERANDS,
    Sizes,
    i64_array,
    i64_tensor,
    ints,
    most_specific,
    refine_results,
    refine_shapes,
    refine_values,
    set_signature,
    shape_operands,
    shapes_of,
)
from hloscope.passes.folding import INDEX_FOLDS
from hloscope.passes.framework import Pass, Run
from hloscope.passes.reading import mesh_named, rows_of
from hloscope.passes.rewriting import Chooser, Pattern, Patterns, Rewriter
from hloscope.stablehlo import AttributeGroups, inferred_types, made

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
    form = STATIC[op.name](op)
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
"""Index of the operand whose elements are the sizes of the result, by op name."""


@SHAPES.on(*_SIZES)
def refine_by_operand(rewriter: Rewriter, op: Operation) -> bool:
    """Refine the result to the sizes in its shape operand, if that is a constant."""
    number = _SIZES[op.name]
    sizes = ints(op.operands[number]) if number < len(op.operands) else None
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
    """Let a function return the values before casts from more specific types.

    `op` is the `return`. The function's result types become those of the returned values.
    """
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


Static: TypeAlias = "Callable[[Operation], Form | None]"


def conv(op: Operation) -> Form | None:
    """Return the static form of `dynamic_conv`; `None` unless the padding is constant."""
    lhs, rhs, padding = op.operands
    amounts = ints(padding)
    if amounts is None or len(amounts) % 2:
        return None
    given = i64_tensor(amounts, (len(amounts) // 2, 2))
    return Form("stablehlo.convolution", (lhs, rhs), {**op.properties, "padding": given})


def gather(op: Operation) -> Form | None:
    """Return the static form of `dynamic_gather`; `None` unless the slice sizes are constant."""
    operand, indices, sizes = op.operands
    found = ints(sizes)
    if found is None:
        return None
    properties = {**op.properties, "slice_sizes": i64_array(found)}
    return Form("stablehlo.gather", (operand, indices), properties)


_EDGES: Final = ("edge_padding_low", "edge_padding_high", "interior_padding")


def pad(op: Operation) -> Form | None:
    """Return the static form of `dynamic_pad`; `None` unless all amounts are constant."""
    amounts = [ints(value) for value in op.operands[2:]]
    found = {name: i64_array(n) for name, n in zip(_EDGES, amounts, strict=True) if n is not None}
    if len(found) < len(_EDGES):
        return None
    return Form("stablehlo.pad", op.operands[:2], found)


def slice_of(op: Operation) -> Form | None:
    """Return the static form of `real_dynamic_slice`; `None` unless its bounds are constant."""
    numbers = [ints(value) for value in op.operands[1:]]
    names = ("start_indices", "limit_indices", "strides")
    found = {name: i64_array(n) for name, n in zip(names, numbers, strict=True) if n is not None}
    if len(found) < len(names):
        return None
    return Form("stablehlo.slice", op.operands[:1], found)


def slice_sizes(op: Operation) -> Dims | None:
    """Return the slice sizes of `real_dynamic_slice` with strides 1 and limits `start + constant`.

    `None` for any other slice.
    """
    _, start, limit, strides = op.operands
    steps = ints(strides)
    if steps is None or any(step != 1 for step in steps):
        return None
    adding = limit.owner
    if not isinstance(adding, Operation) or adding.name != "stablehlo.add":
        return None
    first, second = adding.operands
    if first is start:
        return ints(second)
    return ints(first) if second is start else None


STATIC: Final[dict[str, Static]] = {
    "stablehlo.dynamic_conv": conv,
    "stablehlo.dynamic_gather": gather,
    "stablehlo.dynamic_pad": pad,
    "stablehlo.real_dynamic_slice": slice_of,
}
"""Function that returns the static form of a dynamic op, by op name.

Its result is `None` if amounts are not constant.
"""


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
        new = rewriter.create(
            op.name,
            [op.operands[k] for k in kept],
            properties,
            attributes={k: v for k, v in op.attributes.items() if k != SHAPE_OPERANDS},
            types=[value.type for value in op.results],
            before=op,
        )
        rewriter.replace(op, new.results)
        return True

    return drop_shape_operands


@PATTERNS.on("stablehlo.dynamic_broadcast_in_dim")
def broadcast(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `dynamic_broadcast_in_dim` by `broadcast_in_dim` if operand and result are static."""
    operand, shape = op.operands
    if not _is_static(operand.type) or not _is_static(op.result.type) or ints(shape) is None:
        return False
    dims = op.get("broadcast_dimensions")
    given = {} if dims is None else {"broadcast_dimensions": dims}
    return _replace_by(rewriter, op, "stablehlo.broadcast_in_dim", (operand,), given)


@PATTERNS.on("stablehlo.dynamic_iota")
def iota(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `dynamic_iota` by `iota` if the result is static."""
    if not _is_static(op.result.type) or ints(op.operands[0]) is None:
        return False
    return _replace_by(rewriter, op, "stablehlo.iota", (), op.properties)


@PATTERNS.on("stablehlo.dynamic_reshape")
def reshape(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `dynamic_reshape` by `reshape` if the result is static."""
    if not _is_static(op.result.type) or ints(op.operands[1]) is None:
        return False
    return _replace_by(rewriter, op, "stablehlo.reshape", op.operands[:1], {})


@PATTERNS.on("stablehlo.real_dynamic_slice")
def slice_side_by_side(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `real_dynamic_slice` by `dynamic_slice` if its limits are starts plus constants."""
    sizes = slice_sizes(op)
    if sizes is None:
        return False
    operand, starts = op.operands[:2]
    scalars = []
    for d in range(len(sizes)):
        bounds = {"start_indices": [d], "limit_indices": [d + 1], "strides": [1]}
        attributes = {name: i64_array(numbers) for name, numbers in bounds.items()}
        one = rewriter.create("stablehlo.slice", (starts,), attributes, before=op).result
        assert isinstance(one.type, TensorType)
        scalar = TensorType(one.type.element, ())
        scalars.append(
            rewriter.create("stablehlo.reshape", (one,), types=(scalar,), before=op).result
        )
    given = {"slice_sizes": i64_array(sizes)}
    target = "stablehlo.dynamic_slice"
    return _replace_by(rewriter, op, target, (operand, *scalars), given, keeps=True)


@PATTERNS.on(*STATIC)
def static_form(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a dynamic op by its static form if its amounts, such as padding, are constants."""
    form = STATIC[op.name](op)
    if form is None:
        return False
    return _replace_by(rewriter, op, *form, keeps=op.name == "stablehlo.real_dynamic_slice")


def _replace_by(
    rewriter: Rewriter,
    op: Operation,
    name: str,
    operands: Iterable[object],
    properties: object,
    *,
    keeps: bool = False,
) -> bool:
    """Replace an op by a new op `name` with the same result types; return true.

    `properties` are its inherent attributes. With `keeps`, discardable attributes are copied.
    """
    new = rewriter.create(
        name,
        tuple(operands),  # type: ignore[arg-type]
        properties,  # type: ignore[arg-type]
        attributes=op.attributes if keeps else NO_ATTRIBUTES,
        types=[value.type for value in op.results],
        before=op,
    )
    rewriter.replace(op, new.results)
    return True


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
