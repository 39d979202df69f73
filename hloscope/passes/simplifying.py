"""Simplification of StableHLO by patterns: the passes, dynamic ops, loops, empty tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hloscope.ir import Dims, TensorType, compatible
from hloscope.mlir import (
    I32,
    I64,
    INDEX,
    Attribute,
    DenseAttr,
    DictAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    Value,
)
from hloscope.mlir.dialects import CLASSES, DEFINITIONS
from hloscope.ops import Elementwise
from hloscope.passes.conversion import InsertionPoint, i64
from hloscope.passes.dynamism.shapes import Form, form_of, slice_sizes
from hloscope.passes.folding import FOLDER_OPTIONS, body_of, fold_get_dimension_size, fold_patterns
from hloscope.passes.framework import Option, Pass, Run
from hloscope.passes.patterns import Limits, Patterns, limited
from hloscope.passes.reading import (
    constant_integers,
    defining_op,
    has_bounds,
    integer_of,
    integers_of,
    static_result,
    tensor_of,
)
from hloscope.passes.regions import may_be_erased
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying_laws import (
    ELEMENTWISE,
    LAWS,
    REDUCTION,
    is_identity,
    replace_by_value,
)
from hloscope.passes.simplifying_shape import SHAPE, SLICING
from hloscope.stablehlo import CONSTANTS, i64_array, made

# --------------------------------------------------------------------------------------------------
# Simplification of dynamic ops: known sizes become attributes of static ops.


DYNAMIC: Final = Patterns()
DYNAMIC.add("get_dimension_size", "stablehlo.get_dimension_size", fold_get_dimension_size)

_BROADCAST: Final = "stablehlo.dynamic_broadcast_in_dim"
_RESHAPE: Final = "stablehlo.dynamic_reshape"
_NONEXPANDING: Final = "known_nonexpanding_dimensions"


def _broadcast(op: Operation) -> Dims | None:
    """Return the `broadcast_dimensions` of a `dynamic_broadcast_in_dim`; `None` if malformed."""
    if len(op.operands) != 2 or len(op.results) != 1:
        return None
    numbers = integers_of(op, "broadcast_dimensions")
    operand, result = tensor_of(op.operands[0]), tensor_of(op.results[0])
    if numbers is None or operand is None or result is None or len(numbers) != operand.rank:
        return None
    return numbers if all(0 <= d < result.rank for d in numbers) else None


@DYNAMIC.on(_BROADCAST)
def dynamic_broadcast_of_itself(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Merge `dynamic_broadcast_in_dim` of `dynamic_broadcast_in_dim`; the outer sizes stay."""
    outer = _broadcast(op)
    inner = defining_op(op.operands[0], _BROADCAST) if outer is not None else None
    numbers = _broadcast(inner) if inner is not None else None
    if outer is None or inner is None or numbers is None:
        return False
    both = {"broadcast_dimensions": i64_array([outer[d] for d in numbers])}
    operands = (inner.operands[0], op.operands[1])
    return rewriter.replace_by(op, _BROADCAST, operands, both, attributes=op.attributes)


@DYNAMIC.on(_BROADCAST)
def dynamic_broadcast_of_no_expansion(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a dynamic broadcast that expands no dimension by a `convert`."""
    numbers, result = _broadcast(op), tensor_of(op.results[0])
    kept = integers_of(op, _NONEXPANDING)
    if numbers is None or kept is None or result is None or not is_identity(numbers):
        return False
    if len(kept) != result.rank or len(numbers) != result.rank:
        return False
    operand = op.operands[:1]
    return rewriter.replace_by(op, "stablehlo.convert", operand, attributes=op.attributes)


@DYNAMIC.on(_BROADCAST)
def dynamic_broadcast_of_reshape(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_broadcast_in_dim(dynamic_reshape(x, s), s)` by `dynamic_reshape(x, s)`."""
    numbers = _broadcast(op)
    inner = defining_op(op.operands[0], _RESHAPE) if numbers is not None else None
    if inner is None or numbers is None or not is_identity(numbers) or len(inner.operands) != 2:
        return False
    if inner.operands[1] is not op.operands[1]:
        return False
    return rewriter.replace_by(op, _RESHAPE, inner.operands, attributes=op.attributes)


@DYNAMIC.on(_BROADCAST)
def dynamic_broadcast_to_own_shape(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a dynamic broadcast to the operand's own sizes by the operand."""
    numbers = _broadcast(op)
    if numbers is None or not is_identity(numbers):
        return False
    shape = defining_op(op.operands[1], "shape.shape_of")
    if shape is None or shape.operands != op.operands[:1]:
        return False
    return replace_by_value(rewriter, op, op.operands[0], merges=True)


@DYNAMIC.on(_BROADCAST)
def dynamic_broadcast_to_static(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a dynamic broadcast of a static operand to constant sizes by `broadcast_in_dim`."""
    numbers = _broadcast(op)
    if numbers is None:
        return False
    operand, old = tensor_of(op.operands[0]), tensor_of(op.results[0])
    across = {"broadcast_dimensions": i64_array(numbers)}
    if operand is None or old is None or not operand.is_static:
        return False
    refined = old
    if not old.is_static:
        found = _refined(old, constant_integers(op.operands[1]))
        if found is None:
            return False
        refined = found
    if any(n not in (1, refined.sizes[d]) for n, d in zip(operand.sizes, numbers, strict=True)):
        return False  # a program that cannot run
    if old.is_static:
        source = op.operands[:1]
        return rewriter.replace_by(op, "stablehlo.broadcast_in_dim", source, across)
    at = InsertionPoint(rewriter, op)
    value = at.make("stablehlo.broadcast_in_dim", refined, op.operands[0], **across)
    # Users of other dialects may not accept the static type.
    if any(not u.name.startswith("stablehlo.") for u in rewriter.users(op.result)):
        value = at.convert(value, old)
    rewriter.replace(op, [value])
    return True


def _refined(type: TensorType, sizes: Dims | None) -> TensorType | None:
    """Return `type` with the sizes `sizes`; `None` if it contradicts them or has bounds.

    `sizes` may be `None`, for sizes that are not constant; then the result is `None`.
    """
    if sizes is None or len(sizes) != type.rank or has_bounds(type):
        return None
    for old, new in zip(type.sizes, sizes, strict=True):
        if new < 0 or old not in (None, new):
            return None
    return TensorType(type.element, sizes)


# ------------------------------------------------------------------------------------------ reshape


@DYNAMIC.on(_RESHAPE)
def dynamic_reshape_to_static(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_reshape` to constant sizes by `reshape`."""
    result = static_result(op)
    operand = tensor_of(op.operands[0]) if len(op.operands) == 2 else None
    if operand is None or result is None:
        return False
    if operand.is_static and operand.num_elements != result.num_elements:
        return False  # a program that cannot run
    return rewriter.replace_by(op, "stablehlo.reshape", op.operands[:1])


@DYNAMIC.on(_RESHAPE)
def dynamic_reshape_of_itself(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_reshape(dynamic_reshape(x, s), t)` by `dynamic_reshape(x, t)`."""
    if len(op.operands) != 2 or len(op.results) != 1:
        return False
    inner = defining_op(op.operands[0], _RESHAPE)
    if inner is None or len(inner.operands) != 2:
        return False
    operands = (inner.operands[0], op.operands[1])
    return rewriter.replace_by(op, _RESHAPE, operands, attributes=op.attributes)


@DYNAMIC.on(_RESHAPE)
def dynamic_reshape_of_same_shape(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_reshape(f(dynamic_reshape(x, s)), s)` by `f(…)`, if `f` keeps the shape."""
    if len(op.operands) != 2:
        return False
    outer = defining_op(op.operands[0])
    if outer is None or not _keeps_shape(outer) or not outer.operands:
        return False
    inner = defining_op(outer.operands[0], _RESHAPE)
    if inner is None or inner.operands[1:] != op.operands[1:]:
        return False
    return replace_by_value(rewriter, op, op.operands[0])


def _keeps_shape(op: Operation) -> bool:
    """Is the op element-wise, with all operands of the result's shape?"""
    cls = CLASSES.get(op.name)
    if cls is None or not issubclass(cls, Elementwise):
        return False
    return op.name not in ("stablehlo.select", "stablehlo.clamp", "chlo.constant_like")


@DYNAMIC.on("shape.shape_of")
def shape_of_dynamic_reshape(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `shape.shape_of` of a `dynamic_reshape` by the shape operand."""
    inner = defining_op(op.operands[0], _RESHAPE) if len(op.operands) == 1 else None
    if inner is None or len(inner.operands) != 2:
        return False
    return replace_by_value(rewriter, op, inner.operands[1], merges=True)


# --------------------------------------------------------------------------------------------- iota


@DYNAMIC.on("stablehlo.dynamic_iota")
def dynamic_iota_to_static(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_iota` of constant sizes by `iota`."""
    if static_result(op) is None:
        return False
    return rewriter.replace_by(op, "stablehlo.iota", (), op.properties)


@DYNAMIC.on("stablehlo.dynamic_iota")
def dynamic_iota_to_broadcast(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_iota` by the broadcast of an iota of rank 1."""
    number = integer_of(op, "iota_dimension")
    if number is None or len(op.operands) != 1 or len(op.results) != 1:
        return False
    type, sizes = tensor_of(op.result), op.operands[0]
    given = tensor_of(sizes)
    # An iota of rank 1 has its simplest form, so that the pattern ends.
    if type is None or given is None or type.rank < 2 or given.sizes != (type.rank,):
        return False
    if has_bounds(type) or not 0 <= number < type.rank:
        return False
    at, vector = InsertionPoint(rewriter, op), sizes
    if given.element == INDEX:
        vector = at.make("arith.index_cast", TensorType(I64, given.sizes), sizes)
    one = at.slice(at.as_i64(vector), (number,), (number + 1,))
    line = TensorType(type.element, (type.sizes[number],))
    row = at.make(op.name, line, one, iota_dimension=i64(0))
    across = {"broadcast_dimensions": i64_array((number,))}
    return rewriter.replace_by(op, _BROADCAST, (row, sizes), across)


# ------------------------------------------------------------------------------ gather, pad, slices


def _to_static_form(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a dynamic op of constant amounts, such as sizes, by its static form."""
    form = form_of(op, constant_integers)
    return form is not None and _replace_by_inferred(rewriter, op, form)


def _replace_by_inferred(rewriter: Rewriter, op: Operation, form: Form) -> bool:
    """Replace a dynamic op by a static one, unless the inferred type contradicts the declared one.

    If it does, the program cannot run, and nothing is changed.
    """
    # The declared type may be less specific than the inferred one.
    if not compatible(made(*form).result.type, op.result.type):
        return False
    return rewriter.replace_by(op, *form, attributes=op.attributes)


DYNAMIC.add("dynamic_gather_to_gather", "stablehlo.dynamic_gather", _to_static_form)
DYNAMIC.add("dynamic_pad_to_pad", "stablehlo.dynamic_pad", _to_static_form)
DYNAMIC.add("real_dynamic_slice_to_slice", "stablehlo.real_dynamic_slice", _to_static_form)


@DYNAMIC.on("stablehlo.real_dynamic_slice")
def real_dynamic_slice_to_dynamic_slice(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `real_dynamic_slice` by `dynamic_slice`, if sizes are constant.

    The strides must be 1, and the limits the starts plus constants.
    """
    if len(op.operands) != 4:
        return False
    operand, start, _, _ = op.operands
    sizes, type, given = slice_sizes(op, constant_integers), tensor_of(operand), tensor_of(start)
    if sizes is None or type is None or given is None:
        return False
    # The limits then give the sizes without knowledge of the starts.
    if len(sizes) != type.rank or given.sizes != (type.rank,):
        return False
    at = InsertionPoint(rewriter, op)
    starts = [at.reshape(at.slice(start, (d,), (d + 1,))) for d in range(type.rank)]
    properties = {"slice_sizes": i64_array(sizes)}
    form = Form("stablehlo.dynamic_slice", (operand, *starts), properties)
    return _replace_by_inferred(rewriter, op, form)


# --------------------------------------------------------------------------------------------------
# Simplification of loops, tuples and custom calls.


CONTROL: Final = Patterns()


@CONTROL.on("stablehlo.while")
def while_captures(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace loop-carried values that a loop never changes by the values from outside."""
    condition, body = body_of(op), body_of(op, 1)
    if condition is None or body is None:
        return False
    first, (second, end) = condition[0], body
    given = op.operands
    lists = (op.results, first.arguments, second.arguments, end.operands)
    if any(len(values) != len(given) for values in lists):
        return False
    fixed = [
        k
        for k, value in enumerate(given)
        # A fixed value is the initial value itself, or the body's own argument.
        if end.operands[k] in (value, second.arguments[k])
        and all(values[k].type == value.type for values in lists)
    ]
    if not fixed:
        return False
    for k in fixed:
        for old in (op.results[k], first.arguments[k], second.arguments[k]):
            rewriter.replace_uses(old, given[k])
    gone = set(fixed)
    kept = [k for k in range(len(given)) if k not in gone]
    # The results are removed last; all lists lose the elements at the same positions.
    rewriter.set_operands(end, [end.operands[k] for k in kept])
    for block in (first, second):
        rewriter.keep_arguments(block, [block.arguments[k] for k in kept])
    rewriter.set_operands(op, [given[k] for k in kept])
    rewriter.keep_results(op, [op.results[k] for k in kept])
    return True


@CONTROL.on("stablehlo.get_tuple_element")
def element_of_tuple(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `get_tuple_element` of a `tuple` by the tuple's operand."""
    number = integer_of(op, "index")
    made = defining_op(op.operands[0], "stablehlo.tuple") if len(op.operands) == 1 else None
    if made is None or number is None or not 0 <= number < len(made.operands):
        return False
    return replace_by_value(rewriter, op, made.operands[number])


@CONTROL.on("stablehlo.tuple")
def tuple_of_elements(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a tuple of all elements of a tuple, in order, by that tuple."""
    whole = None
    # A tuple of the first elements of a longer one has another type, which `replace_by_value`
    # refuses.
    for k, value in enumerate(op.operands):
        part = defining_op(value, "stablehlo.get_tuple_element")
        if part is None or integer_of(part, "index") != k or len(part.operands) != 1:
            return False
        if whole is not None and part.operands[0] is not whole:
            return False
        whole = part.operands[0]
    return whole is not None and replace_by_value(rewriter, op, whole)


_ORIGINAL: Final = 1
_TYPED: Final = 4
"""Number of `API_VERSION_TYPED_FFI`, in which the configuration is a dictionary."""
_CONFIG: Final = "mhlo.backend_config"


@CONTROL.on("stablehlo.custom_call")
def custom_call_to_typed(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Move the configuration dictionary of a custom call into its `backend_config`.

    It is in a discardable attribute before.
    """
    given, own = op.attributes.get(_CONFIG), op.properties.get("backend_config")
    version = integer_of(op, "api_version")
    if not isinstance(given, DictAttr) or version not in (None, _ORIGINAL):
        return False
    if not (own is None or (isinstance(own, StringAttr) and not own.value)):
        return False
    typed: dict[str, Attribute] = {"api_version": IntegerAttr(_TYPED, I32), "backend_config": given}
    rewriter.set_properties(op, {**op.properties, **typed})
    left = {name: value for name, value in op.attributes.items() if name != _CONFIG}
    rewriter.set_attributes(op, left)
    return True


# --------------------------------------------------------------------------------------------------
# Replacement of tensors without elements by constants.


EMPTY: Final = Patterns()


def _empty(value: Value) -> TensorType | None:
    """Return the type of a value if it is a static tensor with no elements; else `None`."""
    type = value.type
    if not isinstance(type, TensorType) or 0 not in type.sizes or not type.is_static:
        return None
    return type if type.element.numpy else None


def _may_be_empty(value: Value) -> bool:
    type = value.type
    return isinstance(type, TensorType) and 0 in type.sizes


@EMPTY.on()
def empty_to_constant(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace empty results and operands of an op without effects by constants."""
    if not any(map(_may_be_empty, (*op.results, *op.operands))):
        return False
    name = op.name
    if not name.startswith("stablehlo.") or name in CONSTANTS or name not in DEFINITIONS:
        return False
    if name != "stablehlo.return" and not may_be_erased(op):
        return False
    results = [r for r in op.results if _empty(r) is not None and rewriter.uses(r)]
    places = [k for k, v in enumerate(op.operands) if _empty(v) and not _is_constant(v)]
    if not (results or places):
        return False
    for result in results:
        rewriter.replace_uses(result, _constant(rewriter, result, op))
    if places:
        operands = [*op.operands]
        for k in places:
            operands[k] = _constant(rewriter, operands[k], op)
        rewriter.set_operands(op, operands)
    rewriter.watcher.changed(op)
    return True


def _is_constant(value: Value) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name in CONSTANTS


def _constant(rewriter: Rewriter, like: Value, before: Operation) -> Value:
    type = _empty(like)
    assert type is not None
    return rewriter.constant(DenseAttr(b"", type), type, before=before)


# --------------------------------------------------------------------------------------------------
# The passes `stablehlo-aggressive-simplification` and `…-target-independent-optimization`.


_LIMIT: Final = "fold-op-element-limit"

SIMPLIFICATIONS: Final = (
    LAWS + ELEMENTWISE + SHAPE + SLICING + DYNAMIC + REDUCTION + CONTROL + EMPTY
)
"""All simplifications, in the order of trial within an op."""

OPTIONS: Final[Mapping[str, Option]] = {_LIMIT: FOLDER_OPTIONS[_LIMIT]}


def simplification_patterns(options: Mapping[str, Any]) -> Patterns:
    """Return the patterns of the simplifier for these option values, by option name."""
    return limited(SIMPLIFICATIONS, Limits(options[_LIMIT]))


def _simplify(run: Run) -> None:
    run.greedy_bottom_up(simplification_patterns(run.options))


def _optimize(run: Run) -> None:
    # Folds have a larger benefit: a constant needs no simplification.
    folds = [pattern._replace(benefit=2) for pattern in fold_patterns(run.options)]
    run.greedy_bottom_up(simplification_patterns(run.options) + folds)


AGGRESSIVE_SIMPLIFICATION: Final = Pass(
    "stablehlo-aggressive-simplification",
    _simplify,
    "Applies algebraic laws; removes ops without effect; uses simpler ops.",
    OPTIONS,
    on_functions=True,
)
TARGET_INDEPENDENT: Final = Pass(
    "stablehlo-target-independent-optimization",
    _optimize,
    "Runs the folder and the simplifier together.",
    FOLDER_OPTIONS,
    on_functions=True,
)
