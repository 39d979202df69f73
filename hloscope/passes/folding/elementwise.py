"""Folds whose values the interpreter computes: element-wise ops, and data movement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from hloscope.errors import HloscopeError
from hloscope.interpreter import World, kernel
from hloscope.ir import ELEMENT_TYPES, ElementType, Instruction, Op, TensorType
from hloscope.mlir import DenseAttr, EnumAttr, Operation, from_array
from hloscope.ops import Parameter
from hloscope.passes.patterns import Known, LimitedRewrite, Limits, Patterns, work_of
from hloscope.passes.reading import integer_of, integers_of, static_result
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import make_op
from hloscope.support.arrays import np

# --------------------------------------------------------------------------------------------------
# Folds of element-wise ops by the interpreter, for the ops and types that upstream folds.
#
# Each row contains an op, the kinds of its elements, and a condition on its operands.


Guard = Callable[[Sequence[Any], TensorType], bool]
"""Function that returns whether operand arrays may be folded to a result type."""

_INTEGERS: Final = ("pred", "signed", "unsigned")
_FLOATS: Final = ("float",)
_NUMBERS: Final = (*_INTEGERS, *_FLOATS)


class _Row(NamedTuple):
    """An element-wise op to fold: its name, kinds of element types, and a guard if needed."""

    op: str
    kinds: tuple[str, ...]
    guard: Guard | None = None


def _divides(arrays: Sequence[Any], type: TensorType) -> bool:
    return type.element.kind == "float" or bool((arrays[1] != 0).all())


def _is_positive(arrays: Sequence[Any], type: TensorType) -> bool:
    return bool((arrays[0] > 0).all())


def _is_not_negative(arrays: Sequence[Any], type: TensorType) -> bool:
    return bool((arrays[0] >= 0).all())


def _is_a_number(arrays: Sequence[Any], type: TensorType) -> bool:
    return bool((arrays[0] == arrays[0]).all())


_SHAPE_ROWS: Final = (
    _Row("add", _NUMBERS),
    _Row("and", _INTEGERS),
    _Row("clamp", _NUMBERS),
    _Row("divide", _NUMBERS, _divides),
    _Row("maximum", _NUMBERS),
    _Row("minimum", _NUMBERS),
    _Row("multiply", _NUMBERS),
    _Row("or", _INTEGERS),
    _Row("remainder", _NUMBERS, _divides),
    _Row("sign", _NUMBERS, _is_a_number),
    _Row("subtract", _NUMBERS),
)
_OTHER_ROWS: Final = (
    _Row("abs", _NUMBERS),
    _Row("cosine", _FLOATS),
    _Row("chlo.erf", _FLOATS),
    _Row("exponential", _FLOATS),
    _Row("log", _FLOATS, _is_positive),
    _Row("logistic", _FLOATS),
    _Row("negate", _NUMBERS),
    _Row("not", _INTEGERS),
    _Row("round_nearest_afz", _FLOATS),
    _Row("round_nearest_even", _FLOATS),
    _Row("rsqrt", _FLOATS, _is_positive),
    _Row("sine", _FLOATS),
    _Row("sqrt", _FLOATS, _is_not_negative),
    _Row("tan", _FLOATS),
    _Row("tanh", _FLOATS),
    _Row("xor", _INTEGERS),
)


def _fold(row: _Row) -> LimitedRewrite:
    """Return the function that folds the element-wise op that `row` describes."""

    def fold(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
        type = static_result(op)
        if type is None or type.element.kind not in row.kinds or not limits.folds(type.element):
            return False
        given = constants(op, limits)
        if given is None or not _passes(row.guard, given, type, limits):
            return False
        return replace(rewriter, op, computed_elementwise(op, given, type, limits))

    return fold


def _passes(guard: Guard | None, given: Sequence[Known], type: TensorType, limits: Limits) -> bool:
    """Return whether `guard`, if there is one, accepts the operands' values for a result type.

    A splat is passed to it as one element. False if the budget in `limits` is too small.
    """
    if guard is None:
        return True
    arrays = [known.element if known.is_splat else known.array for known in given]
    with np.errstate(invalid="ignore"):  # NaN of bf16 is compared with a warning
        return limits.spend(sum(array.nbytes for array in arrays)) and guard(arrays, type)


def _folds(rows: Sequence[_Row]) -> Patterns:
    folds = Patterns()
    for row in rows:
        root = row.op if "." in row.op else f"stablehlo.{row.op}"
        folds.add(f"fold_{row.op.partition('.')[2] or row.op}", root, _fold(row))
    return folds


SHAPE_ELEMENTWISE: Final = _folds(_SHAPE_ROWS)
"""Folds of element-wise ops that passes over sizes need; the folder has them, too."""
ELEMENTWISE: Final = _folds(_OTHER_ROWS)
"""Folds of element-wise ops that only the folder has."""


@SHAPE_ELEMENTWISE.on("stablehlo.compare")
def fold_compare(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold `compare` of constants; integers are compared as `compare_type` declares.

    The specification requires that it agrees with the operands' type, but upstream does not verify
    that.
    """
    type, given = static_result(op), constants(op, limits)
    if type is None or given is None or len(given) != 2 or type.element.kind != "pred":
        return False
    written = op.get("compare_type")
    if isinstance(written, EnumAttr) and written.value in _KINDS:
        given = [_as_kind(known, _KINDS[written.value]) for known in given]
    return replace(rewriter, op, computed_elementwise(op, given, type, limits))


_KINDS: Final = {"SIGNED": "signed", "UNSIGNED": "unsigned"}


def _as_kind(known: Known, kind: str) -> Known:
    """Return a constant of integers with the same bits, as integers of kind `kind`.

    `kind` is `signed` or `unsigned`.
    """
    element = known.type.element
    if element.kind == kind or element.kind not in _KINDS.values():
        return known
    other = ELEMENT_TYPES[f"{kind[0]}{element.bits}"]
    return known._replace(type=TensorType(other, known.type.sizes))


@SHAPE_ELEMENTWISE.on("stablehlo.convert")
def fold_convert(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold `convert` of a constant, if the result's type represents every element."""
    type = static_result(op)
    given = constants(op, limits)
    if type is None or given is None or len(given) != 1 or not limits.allows(type):
        return False
    source = given[0].type.element
    if not (limits.folds(type.element) and limits.folds(source)):
        return False
    is_truncating = source.kind == "float" and type.element.kind in ("signed", "unsigned")
    if is_truncating and not _passes(_has_an_integer, given, type, limits):
        return False
    return replace(rewriter, op, computed_elementwise(op, given, type, limits))


def _has_an_integer(arrays: Sequence[Any], type: TensorType) -> bool:
    """Do all numbers of the first array, truncated, fit the integers of `type`?

    False if one is infinite, NaN or -0.
    """
    numbers = arrays[0].astype(np.float64)
    bits, signed = type.element.bits, type.element.kind == "signed"
    # Bounds are powers of two, so that they are exact in `f64`.
    least, most = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    whole = np.trunc(numbers)
    inside = (whole >= least) & (whole < most)  # false of NaN
    return bool((inside & ~((numbers == 0) & np.signbit(numbers))).all())


@SHAPE_ELEMENTWISE.on("stablehlo.select")
def fold_select(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold `select` of constants; unless the predicate is a splat, only if they are integers."""
    type = static_result(op)
    given = constants(op, limits)
    if type is None or given is None or len(given) != 3 or not limits.folds(type.element):
        return False
    predicate, on_true, on_false = given
    if predicate.type.element.kind != "pred":
        return False
    if predicate.is_splat:
        chosen = on_true if predicate.element else on_false
        return replace(rewriter, op, chosen.as_type(type))
    if type.element.kind == "float" or not limits.allows(type):
        return False
    return replace(rewriter, op, computed(op, given, type, limits))


# --------------------------------------------------------------------------------------------------
# Folds of data movement: a splat gets another type, other constants are rearranged.


SHAPE_ARRANGING: Final = Patterns()
"""Folds of data movement that passes over sizes need; the folder has them, too."""
ARRANGING: Final = Patterns()
"""Folds of data movement that only the folder has."""


def _is_folded_type(element: ElementType, limits: Limits) -> bool:
    """Is data movement of this element type folded?

    It is if `limits` say so, or if the type is complex.
    """
    return limits.folds(element) or element.kind == "complex"


def _fold_by_type(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace the op of a splat by that splat, with the result's type."""
    type = static_result(op)
    known = limits.known(op.operands[0]) if op.operands else None
    if type is None or known is None or known.type.element != type.element:
        return False
    return known.is_splat and replace(rewriter, op, known.as_type(type))


def _fold_splat(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    type = static_result(op)
    return (
        type is not None
        and _is_folded_type(type.element, limits)
        and _fold_by_type(rewriter, op, limits)
    )


@SHAPE_ARRANGING.on("stablehlo.broadcast_in_dim")
def fold_broadcast_in_dim(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold `broadcast_in_dim` of a splat."""
    return _fold_splat(rewriter, op, limits)


@SHAPE_ARRANGING.on("stablehlo.reshape")
def fold_reshape(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold the reshape of a constant."""
    type = static_result(op)
    known = limits.known(op.operands[0]) if op.operands else None
    if type is None or known is None or not _is_folded_type(type.element, limits):
        return False
    is_same = known.type.element == type.element and _count(known.type) == _count(type)
    return is_same and replace(rewriter, op, known.as_type(type))


def _count(type: TensorType) -> int | None:
    return type.num_elements if type.is_static else None


@SHAPE_ARRANGING.on("stablehlo.dynamic_slice")
def fold_dynamic_slice_of_splat(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold `dynamic_slice` of a splat, for any start indices."""
    return _fold_splat(rewriter, op, limits)


@SHAPE_ARRANGING.on("stablehlo.slice")
def fold_slice(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold a slice of a constant."""
    type = static_result(op)
    if type is None or not limits.folds(type.element):
        return False
    return _fold_movement(rewriter, op, type, limits)


@SHAPE_ARRANGING.on("stablehlo.concatenate")
def fold_concatenate(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold a concatenation of constants."""
    type = static_result(op)
    if type is None or not limits.folds(type.element) or not limits.allows(type):
        return False
    given = constants(op, limits)
    if given is None:
        return False
    if all(known.is_splat and known.raw == given[0].raw for known in given):
        return replace(rewriter, op, given[0].as_type(type))
    return replace(rewriter, op, computed(op, given, type, limits))


@SHAPE_ARRANGING.on("stablehlo.concatenate")
def join_splats(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Join adjacent operands of `concatenate` that are splats of one value into one splat."""
    type = static_result(op)
    if type is None or not limits.folds(type.element):
        return False
    number = integer_of(op, "dimension")
    if number is None or not 0 <= number < type.rank:
        return False
    # Runs of operands that are equal splats, as lists of their numbers.
    runs: list[list[int]] = []
    known = [limits.known(value) for value in op.operands]
    for k, found in enumerate(known):
        if runs and _is_same_splat(known[runs[-1][-1]], found):
            runs[-1].append(k)
        else:
            runs.append([k])
    if len(runs) == len(known):
        return False
    operands = []
    for run in runs:
        first = known[run[0]]
        if len(run) == 1 or first is None:
            operands.append(op.operands[run[0]])
            continue
        length = sum(_size(found, number) for k in run if (found := known[k]) is not None)
        sizes = (*first.type.sizes[:number], length, *first.type.sizes[number + 1 :])
        longer = TensorType(first.type.element, sizes)
        operands.append(rewriter.constant(first.as_type(longer), longer, before=op))
    rewriter.set_operands(op, operands)
    return True


def _is_same_splat(one: Known | None, other: Known | None) -> bool:
    if one is None or other is None or not (one.is_splat and other.is_splat):
        return False
    same_type = one.type.element == other.type.element and one.type.rank == other.type.rank
    return same_type and one.type.rank > 0 and one.raw == other.raw


def _size(known: Known, dimension: int) -> int:
    size = known.type.sizes[dimension]
    assert size is not None, "a literal has a static type"
    return size


@ARRANGING.on("stablehlo.transpose")
def fold_transpose(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold the transpose of a constant."""
    type = static_result(op)
    if type is None or not _is_folded_type(type.element, limits):
        return False
    if type.element.kind == "complex":
        return _fold_by_type(rewriter, op, limits)
    return _fold_movement(rewriter, op, type, limits)


@ARRANGING.on("stablehlo.reverse")
def fold_reverse(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold the reverse of a constant, if that moves an element."""
    type = static_result(op)
    known = limits.known(op.operands[0]) if op.operands else None
    if type is None or known is None or not limits.folds(type.element):
        return False
    dimensions = integers_of(op, "dimensions") or ()
    if known.is_splat or not limits.allows(type) or not _reverses_something(type, dimensions):
        return False
    return _fold_movement(rewriter, op, type, limits)


def _reverses_something(type: TensorType, dimensions: tuple[int, ...]) -> bool:
    """Does one of the reversed dimensions have more than one element, so that an element moves?"""
    return type.num_elements > 0 and any(
        0 <= d < type.rank and type.sizes[d] != 1 for d in dimensions
    )


@ARRANGING.on("stablehlo.iota")
def fold_iota(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Fold an integer `iota` of at most one element."""
    type = static_result(op)
    if type is None or type.element.kind not in ("signed", "unsigned") or not type.element.numpy:
        return False
    if type.num_elements > 1 or not limits.folds(type.element) or not limits.allows(type):
        return False
    width = -(-type.element.bits // 8)
    return replace(rewriter, op, DenseAttr(bytes(width * type.num_elements), type))


def _fold_movement(rewriter: Rewriter, op: Operation, type: TensorType, limits: Limits) -> bool:
    """Fold an op that only moves elements, of one constant, to a constant of type `type`."""
    given = constants(op, limits)
    if given is None or len(given) != 1 or given[0].type.element != type.element:
        return False
    if given[0].is_splat:
        return replace(rewriter, op, given[0].as_type(type))
    return replace(rewriter, op, computed(op, given, type, limits))


# --------------------------------------------------------------------------------------------------
# Evaluation of operations of constants by the interpreter's kernels, within limits.


def constants(op: Operation, limits: Limits) -> list[Known] | None:
    """Return the constants that define the operands; `None` if an operand is not a constant."""
    found = []
    for value in op.operands:
        known = limits.known(value)
        if known is None:
            return None
        found.append(known)
    return found or None


def replace(rewriter: Rewriter, op: Operation, literal: DenseAttr | None) -> bool:
    """Replace an operation by a constant; return false if `literal` is `None`."""
    if literal is None:
        return False
    type = op.result.type
    assert isinstance(type, TensorType)
    rewriter.replace(op, [rewriter.constant(literal, type, before=op)])
    return True


def computed(
    op: Operation, given: Sequence[Known], type: TensorType, limits: Limits
) -> DenseAttr | None:
    """Return the value of an operation of constant operands; `None` if a limit is exceeded.

    Args:
        op: The operation, without regions.
        given: Values of its operands.
        type: Type of its result.
        limits: Budget, from which the bytes read and written are subtracted.
    """
    # The bytes are spent before any array is made.
    if not limits.spend(work_of(type) + sum(work_of(known.type) for known in given)):
        return None
    made, types = _made(op), [known.type for known in given]
    return None if made is None else _evaluated(made, types, [k.array for k in given], type)


def computed_elementwise(
    op: Operation, given: Sequence[Known], type: TensorType, limits: Limits
) -> DenseAttr | None:
    """Return the value of an elementwise operation of constants; `None` if a limit is exceeded.

    If all operands are splats, only one element is computed. The arguments are as in `computed`.
    """
    if not all(known.is_splat for known in given):
        return computed(op, given, type, limits)
    made, types = _made(op), [TensorType(known.type.element, ()) for known in given]
    if made is None or not limits.spend(1):
        return None
    element = TensorType(type.element, ())
    found = _evaluated(made, types, [known.element for known in given], element)
    return None if found is None else DenseAttr(found.literal, type)


def _made(op: Operation) -> Op | None:
    try:
        return make_op(op)
    except HloscopeError:  # an attribute is missing, which the verifier reports
        return None


def _evaluated(
    op: Op, types: Sequence[TensorType], arrays: Sequence[np.ndarray], type: TensorType
) -> DenseAttr | None:
    """Return the value of an op, computed by the interpreter; `None` if it cannot compute it.

    Args:
        op: The op.
        types: Types of the operands.
        arrays: Values of the operands.
        type: Type of the result.
    """
    operands = tuple([Instruction(f"p{n}", t, Parameter(n)) for n, t in enumerate(types)])
    try:
        compute = kernel(Instruction("folded", type, op, operands), World())
        # NumPy warns of overflow and invalid operands; the results are IEEE values either way.
        with np.errstate(all="ignore"):
            return from_array(np.asarray(compute(*arrays)), type)
    except (HloscopeError, ValueError, TypeError, IndexError):  # operands do not fit, or no kernel
        return None
