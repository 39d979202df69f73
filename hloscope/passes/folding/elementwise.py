"""Folds of element-wise ops by the interpreter, for the ops and types that upstream folds.

Each row contains an op, the kinds of its elements, and a condition on its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from hloscope.arrays import np
from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.mlir import EnumAttr, Operation
from hloscope.passes.folding.computing import computed, computed_elementwise, constants, replace
from hloscope.passes.limits import Known, LimitedRewrite, LimitedRewrites, Limits
from hloscope.passes.reading import static_result
from hloscope.passes.rewriting import Rewriter

Guard = Callable[[Sequence[Any], TensorType], bool]
"""Condition on operand arrays and result type."""

_INTEGERS: Final = ("pred", "signed", "unsigned")
_FLOATS: Final = ("float",)
_NUMBERS: Final = (*_INTEGERS, *_FLOATS)


class _Row(NamedTuple):
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
    def fold(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
        type = static_result(operation)
        if type is None or type.element.kind not in row.kinds or not limits.folds(type.element):
            return False
        given = constants(operation, limits)
        if given is None or not _passes(row.guard, given, type, limits):
            return False
        literal = computed_elementwise(operation, given, type, limits)
        return literal is not None and replace(rewriter, operation, literal)

    return fold


def _passes(guard: Guard | None, given: Sequence[Known], type: TensorType, limits: Limits) -> bool:
    """Is the condition true of the operands, if there is one?  A splat is tested once."""
    if guard is None:
        return True
    arrays = [known.element if known.is_splat else known.array for known in given]
    with np.errstate(invalid="ignore"):  # NaN of bf16 is compared with a warning
        return limits.spend(sum(array.nbytes for array in arrays)) and guard(arrays, type)


def _folds(rows: Sequence[_Row]) -> LimitedRewrites:
    folds = LimitedRewrites()
    for row in rows:
        root = row.op if "." in row.op else f"stablehlo.{row.op}"
        folds.add(f"fold_{row.op.partition('.')[2] or row.op}", root, _fold(row))
    return folds


SHAPE_ELEMENTWISE: Final = _folds(_SHAPE_ROWS)
"""Folds of ops that compute sizes."""
ELEMENTWISE: Final = _folds(_OTHER_ROWS)
"""Folds that only the folder has."""


@SHAPE_ELEMENTWISE.on("stablehlo.compare")
def fold_compare(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold comparisons of constants; integers are compared as `compare_type` declares.

    The specification requires the kind of the operands' type, but upstream does not verify it.
    """
    type, given = static_result(operation), constants(operation, limits)
    if type is None or given is None or len(given) != 2 or type.element.kind != "pred":
        return False
    written = operation.get("compare_type")
    if isinstance(written, EnumAttr) and written.value in _KINDS:
        given = [_as_kind(known, _KINDS[written.value]) for known in given]
    literal = computed_elementwise(operation, given, type, limits)
    return literal is not None and replace(rewriter, operation, literal)


_KINDS: Final = {"SIGNED": "signed", "UNSIGNED": "unsigned"}


def _as_kind(known: Known, kind: str) -> Known:
    """Return the constant with the same bits as integers of the kind `signed` or `unsigned`."""
    element = known.type.element
    if element.kind == kind or element.kind not in _KINDS.values():
        return known
    other = ELEMENT_TYPES[f"{kind[0]}{element.bits}"]
    return known._replace(type=TensorType(other, known.type.sizes))


@SHAPE_ELEMENTWISE.on("stablehlo.convert")
def fold_convert(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold a conversion of a constant, if the result's type represents every element."""
    type = static_result(operation)
    given = constants(operation, limits)
    if type is None or given is None or len(given) != 1 or not limits.allows(type):
        return False
    source = given[0].type.element
    if not (limits.folds(type.element) and limits.folds(source)):
        return False
    is_truncating = source.kind == "float" and type.element.kind in ("signed", "unsigned")
    if is_truncating and not _passes(_has_an_integer, given, type, limits):
        return False
    literal = computed_elementwise(operation, given, type, limits)
    return literal is not None and replace(rewriter, operation, literal)


def _has_an_integer(arrays: Sequence[Any], type: TensorType) -> bool:
    """Is every number finite, not -0, and within the type after truncation?"""
    numbers = arrays[0].astype(np.float64)
    bits, signed = type.element.bits, type.element.kind == "signed"
    # Bounds are powers of two, so that they are exact in `f64`.
    least, most = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    whole = np.trunc(numbers)
    inside = (whole >= least) & (whole < most)  # false of NaN
    return bool((inside & ~((numbers == 0) & np.signbit(numbers))).all())


@SHAPE_ELEMENTWISE.on("stablehlo.select")
def fold_select(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Fold a select of constants; with a mixed predicate, only of integers."""
    type = static_result(operation)
    given = constants(operation, limits)
    if type is None or given is None or len(given) != 3 or not limits.folds(type.element):
        return False
    predicate, on_true, on_false = given
    if predicate.type.element.kind != "pred":
        return False
    if predicate.is_splat:
        chosen = on_true if predicate.element else on_false
        return replace(rewriter, operation, chosen.as_type(type))
    if type.element.kind == "float" or not limits.allows(type):
        return False
    literal = computed(operation, given, type, limits)
    return literal is not None and replace(rewriter, operation, literal)


__all__ = ["ELEMENTWISE", "SHAPE_ELEMENTWISE"]
