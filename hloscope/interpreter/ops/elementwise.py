"""Elementwise ops: the element types of an op select one function of whole arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.interpreter.numbers.complex import complex_function, lexicographic
from hloscope.interpreter.numbers.conversions import conversion, reduced_precision
from hloscope.interpreter.numbers.floats import float_function, total_order
from hloscope.interpreter.numbers.integers import integer_function
from hloscope.interpreter.ops.shape import spread
from hloscope.interpreter.registry import Concern, Kernel, Maker, Site, Writing, adapts, evaluates
from hloscope.interpreter.values import EvaluationError, dtype_of
from hloscope.ir import (
    ELEMENT_TYPES,
    ElementType,
    Instruction,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    value_of,
)
from hloscope.ops import (
    ELEMENTWISE,
    IMPLICIT_BROADCAST,
    Compare,
    ConstantLike,
    Convert,
    Elementwise,
    ImplicitBroadcast,
    ReducePrecision,
    StochasticConvert,
)

# --------------------------------------------------------------------------------------------------
# Elementwise ops: the element types of an op select one function of whole arrays.


Function = Callable[..., Any]

_COMPARISONS: Final[dict[str, Function]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
_INTO: Final[dict[Function, np.ufunc]] = {
    operator.add: np.add,
    operator.sub: np.subtract,
    operator.mul: np.multiply,
    operator.truediv: np.true_divide,
}
"""Numpy ufuncs by the Python operators that are equal to them.

A ufunc can write to a given array.
"""
_ELSEWHERE: Final = frozenset(("copy", "chlo.constant_like"))
"""Elementwise ops whose kernels are made in other modules."""
_MAY_VIEW: Final = frozenset(("convert", "imag", "real", "reduce_precision", "select"))
"""Elementwise ops whose kernels may return an operand or a view of it."""


def element_of(type_: Type) -> ElementType:
    """Return the element type of an array type.

    Raises:
        UnsupportedError: The type is not an array type.
    """
    if isinstance(type_, TensorType | UnrankedTensorType):
        return type_.element
    raise UnsupportedError("values that are not arrays have no elements to compute with")


@evaluates(*[ELEMENTWISE[name] for name in sorted(_MAY_VIEW)], lifted=True)
@evaluates(
    *[cls for name, cls in ELEMENTWISE.items() if name not in _ELSEWHERE | _MAY_VIEW],
    lifted=True,
    fresh=True,
)
def _elementwise(op: Elementwise, at: Site) -> Kernel:
    """Return the kernel of an elementwise op.

    If sizes are unknown, the kernel checks that the run-time shapes are equal; scalar operands of
    `select` and `clamp` may differ.
    """
    function = function_of(op, [element_of(t) for t in at.operands], element_of(at.ins.type))
    types = at.operands
    if all(isinstance(t, TensorType) and t.is_static for t in types):
        ufunc = _INTO.get(function)
        if ufunc is None or not at.is_large or not _is_alike(at):
            return function
        return Writing(function, lambda a, b: ufunc(a, b, out=a))
    scalars_too = op.name in ("select", "clamp")

    def kernel(*operands: Any) -> Any:
        shapes = {x.shape for x in operands}
        if len(shapes) > 1 and not (scalars_too and len(shapes - {()}) == 1):
            text = ", ".join(str(x.shape) for x in operands)
            raise EvaluationError(f"`{op.name}` needs operands of one shape, found {text}")
        return function(*operands)

    return kernel


def _is_alike(at: Site) -> bool:
    """Have operands and result one shape, and one number type that numpy has itself?"""
    type_ = at.result
    dtype = dtype_of(type_.element)
    alike = [
        isinstance(t, TensorType) and (t.sizes, t.element) == (type_.sizes, type_.element)
        for t in at.operands
    ]
    return all(alike) and dtype.kind in "fiu" and dtype.isbuiltin == 1


def function_of(op: Elementwise, operands: Sequence[ElementType], result: ElementType) -> Function:
    """Return the function that evaluates an elementwise op on operands of these element types.

    Raises:
        UnsupportedError: The op has no evaluation for these types.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> s8 = ELEMENT_TYPES["s8"]
    >>> function_of(ELEMENTWISE["add"](), (s8, s8), s8)(np.int8([100]), np.int8([100])).tolist()
    [-56]
    """
    first = operands[-1] if op.name == "select" else operands[0]
    found = None
    floats = {e.name for e in operands if e.kind == "float"}
    if floats and op.result == "same" and result.kind == "float":
        floats.add(result.name)  # HLO may declare another precision than the operands have
    if len(floats) > 1:
        return _of_mixed(op, operands, result)
    if not any(isinstance(e, QuantizedType) for e in (*operands, result)):
        found = _with_settings(op, operands, result) or plain_function(op.name, first)
    if found is None:
        raise UnsupportedError(f"`{op.name}` of {first.name} cannot be evaluated")
    return found


def _of_mixed(op: Elementwise, operands: Sequence[ElementType], result: ElementType) -> Function:
    """Return the function of an op on floats of several widths, which HLO allows.

    Operands are converted to the result's float type, or to the widest one if the result is not
    float.
    """
    floats = [e for e in operands if e.kind == "float"]
    target = result if result.kind == "float" else max(floats, key=lambda e: e.bits)
    function = function_of(op, [target if e.kind == "float" else e for e in operands], result)
    casts = [conversion(e, target if e.kind == "float" else e) for e in operands]
    return lambda *xs: function(*[cast(x) for cast, x in zip(casts, xs, strict=True)])


def _with_settings(
    op: Elementwise, operands: Sequence[ElementType], result: ElementType
) -> Function | None:
    """Return the function of an op that needs attributes or several types; `None` for others."""
    match op:
        case StochasticConvert():
            return _stochastic(result)
        case Convert():
            return conversion(operands[0], result)
        case Compare(comparison_direction=direction, compare_type=order):
            return comparison(operands[0], direction, order == "TOTALORDER")
        case ReducePrecision(exponent_bits=exponent, mantissa_bits=mantissa):
            if operands[0].kind == "float":
                return reduced_precision(operands[0], exponent, mantissa)
        case Elementwise(name="complex") if result.kind == "complex":
            return _complex(dtype_of(result))
    return None


def plain_function(name: str, element: ElementType) -> Function | None:
    """Return the function of an op that depends only on the type of the first operand.

    `None` for other ops.
    """
    dtype = dtype_of(element)
    match name:
        case "select":
            return _select
        case "clamp":
            return _clamp(element)
        case "real":
            return (lambda x: x.real) if element.kind == "complex" else lambda x: x
        case "imag":
            return (lambda x: x.imag) if element.kind == "complex" else np.zeros_like
        case "is_finite":
            return np.isfinite
        case "chlo.is_inf":
            return np.isinf
        case "chlo.is_pos_inf":
            return lambda x: x == np.inf
        case "chlo.is_neg_inf":
            return lambda x: x == -np.inf
    match element.kind:
        case "float":
            return float_function(name, dtype)
        case "complex":
            return complex_function(name, dtype)
        case "pred" | "signed" | "unsigned":
            return integer_function(name, element)
        case _:
            return None


def comparison(element: ElementType, direction: str, is_total: bool = False) -> Function:
    """Return the function that compares elements of a type by `direction` (`EQ`, `LT`, …).

    With `is_total`, floats are compared in the total order of IEEE 754.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> comparison(ELEMENT_TYPES["f32"], "LT", is_total=True)(np.float32(-0.0), np.float32(0))
    np.True_
    """
    compare = _COMPARISONS[direction]
    if element.kind == "float" and is_total:
        key = total_order(dtype_of(element))
        return lambda a, b: compare(key(a), key(b))
    if element.kind == "complex" and direction not in ("EQ", "NE"):
        strictly = _COMPARISONS[direction[0] + "T"]
        return lexicographic(strictly, compare)
    return compare


def _select(pred: Any, on_true: Any, on_false: Any) -> Any:
    if pred.ndim == 0:
        return on_true if pred else on_false
    return np.where(pred, on_true, on_false)


def _clamp(element: ElementType) -> Function | None:
    """Return the function of `clamp`; `None` if elements of the type are not ordered."""
    maximum = plain_function("maximum", element)
    minimum = plain_function("minimum", element)
    if maximum is None or minimum is None:
        return None
    return lambda least, x, most: minimum(maximum(x, least), most)


def _complex(dtype: Any) -> Function:
    """Return a function of real and imaginary parts that makes complex numbers of `dtype`."""
    part = np.dtype(f"f{dtype.itemsize // 2}")

    def kernel(real: Any, imag: Any) -> Any:
        result = np.empty((*np.broadcast_shapes(real.shape, imag.shape), 2), part)
        result[..., 0] = real
        result[..., 1] = imag
        return result.view(dtype)[..., 0]

    return kernel


def _stochastic(target: ElementType) -> Function:
    """Return the function of `stochastic_convert`, which rounds to type `target` at random.

    The probability of rounding away from 0 is the fraction that rounding would drop.  It happens if
    the random operand, divided by 2 to the number of its bits, is less than the fraction.
    """
    into = conversion(ELEMENT_TYPES["f64"], target)

    def kernel(x: Any, random: Any) -> Any:
        x = x.astype(np.float64)
        whole = np.trunc(x)
        share = np.floor(np.ldexp(abs(x - whole), 8 * random.dtype.itemsize))
        up = random.astype(np.float64) < share
        return into(whole + np.copysign(up.astype(np.float64), x))

    return kernel


# --------------------------------------------------------------------------------------------------
# Conversion of results whose declared float type is not the type the op computes in.
#
# HLO does not compare float precisions: an op computes in the precision of its operands, and the
# result is converted to the declared type. Source: XLA `ShapeUtil::CompatibleIgnoringFpPrecision`,
# `float_normalization.cc`.


@adapts(Concern.PRECISIONS)
def as_declared(maker: Maker, ins: Instruction) -> Maker:
    """Return `maker`, wrapped so that its kernels convert results to the declared float types."""

    def make(op: Any, at: Site) -> Kernel:
        inner, leave = (
            maker(op, Site(_in_computed_precision(at.ins), at.world)),
            _to_declared(at.ins.type),
        )
        return lambda *values: leave(inner(*values))

    return make


def _in_computed_precision(ins: Instruction) -> Instruction:
    """Return the instruction with its inferred float types, if it calls computations.

    It is returned unchanged if it calls none, or if its types cannot be inferred.
    """
    if not ins.calls:
        return ins
    try:
        inferred = ins.op.infer(tuple([o.type for o in ins.operands]), ins.calls)
    except VerifyError:
        return ins
    type_ = _with_floats_of(inferred, ins.type)
    return Instruction(ins.name, type_, ins.op, ins.operands, ins.calls, ins.extras, span=ins.span)


def _with_floats_of(inferred: Type, declared: Type) -> Type:
    """Return the type `declared` with the float element types of `inferred` in place of its own.

    Elements that are not floats in both types stay.
    """
    match inferred, declared:
        case TensorType(), TensorType():
            is_float = inferred.element.kind == declared.element.kind == "float"
            return replace(declared, element=inferred.element) if is_float else declared
        case TupleType(), TupleType() if len(inferred.elements) == len(declared.elements):
            return TupleType(tuple(map(_with_floats_of, inferred.elements, declared.elements)))
        case _:
            return declared


_FLOATS: Final = {e.numpy: e for e in ELEMENT_TYPES.values() if e.kind == "float"}
"""Float element types by the names of their dtypes."""


def _to_declared(type_: Type) -> Callable[[Any], Any]:
    """Return a function that converts a value to the float types of `type_`."""
    if isinstance(type_, TupleType):
        parts = [_to_declared(part) for part in type_.elements]

        def convert_all(values: Any) -> Any:
            if len(values) != len(parts):  # the value of an asynchronous start, used by its end
                return values
            return tuple([f(v) for f, v in zip(parts, values, strict=True)])

        return convert_all
    if not isinstance(type_, TensorType) or type_.element.kind != "float":
        return lambda value: value
    target, dtype = type_.element, dtype_of(type_.element)

    def leave(value: Any) -> Any:
        source = None if value.dtype == dtype else _FLOATS.get(value.dtype.name)
        return value if source is None else conversion(source, target)(value)

    return leave


# --------------------------------------------------------------------------------------------------
# CHLO ops with implicit broadcasting, and constants shaped like an operand.
#
# Source: StableHLO `ChloOps.td`.


@evaluates(*IMPLICIT_BROADCAST.values())
def _broadcasting(op: ImplicitBroadcast, at: Site) -> Kernel:
    """Return the kernel of a CHLO op that broadcasts its operands to one shape first."""
    cls = ELEMENTWISE[op.applies]
    shared = [name for name in cls.__struct_fields__ if name in op.__struct_fields__]
    applied = cls(**{name: getattr(op, name) for name in shared})
    function = function_of(applied, [element_of(t) for t in at.operands], element_of(at.ins.type))
    dims = op.broadcast_dimensions

    def kernel(*operands: Any) -> Any:
        if dims is not None and len(operands) == 2:
            operands = _broadcast_smaller(op, *operands)
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        return function(*[np.broadcast_to(x, shape) for x in operands])

    return kernel


def _broadcast_smaller(op: ImplicitBroadcast, a: Any, b: Any) -> tuple[Any, Any]:
    """Return both operands, of which the one of lower rank is reshaped to the rank of the other."""
    if a.ndim <= b.ndim:
        return spread(np.asarray(a), op.result_dims(a.ndim, b.ndim), b.ndim), b
    return a, spread(np.asarray(b), op.result_dims(b.ndim, a.ndim), a.ndim)


@evaluates(ConstantLike, lifted=True, fresh=True)
def _constant_like(op: ConstantLike, at: Site) -> Kernel:
    number, element = value_of(op.settings, "value"), element_of(at.ins.type)
    if not isinstance(number, int | float | complex):
        raise UnsupportedError(f"`{op.name}` has a value that is not a number")
    value = np.asarray(number).astype(dtype_of(element))[()]
    return lambda x: np.full(x.shape, value) if x.ndim else value
