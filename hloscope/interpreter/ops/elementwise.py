"""Elementwise ops: the element types of an op select one function of whole arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.numbers.complex import complex_function, lexicographic
from hloscope.interpreter.numbers.floats import float_function, total_order
from hloscope.interpreter.numbers.integers import integer_function
from hloscope.interpreter.numbers.rounding import conversion, reduced_precision
from hloscope.interpreter.registry import Kernel, Site, Writing, evaluates
from hloscope.interpreter.values import EvaluationError, byte_size, dtype_of
from hloscope.ir import (
    ELEMENT_TYPES,
    ElementType,
    QuantizedType,
    TensorType,
    Type,
    UnrankedTensorType,
)
from hloscope.ops import (
    ELEMENTWISE,
    Compare,
    Convert,
    Elementwise,
    ReducePrecision,
    StochasticConvert,
)

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
"""Numpy's functions for Python's operators; these can write to a given array."""
_LARGE: Final = 1 << 15
"""Minimum bytes of a result that overwrites an operand which nothing else refers to."""
_ELSEWHERE: Final = frozenset(("copy", "chlo.constant_like"))
"""Ops with makers in other modules."""


def element_of(type_: Type) -> ElementType:
    """Return the element type of an array type.

    Raises:
        UnsupportedError: The type is not an array type.
    """
    if isinstance(type_, TensorType | UnrankedTensorType):
        return type_.element
    raise UnsupportedError("values that are not arrays have no elements to compute with")


@evaluates(*[cls for name, cls in ELEMENTWISE.items() if name not in _ELSEWHERE], lifted=True)
def _elementwise(op: Elementwise, at: Site) -> Kernel:
    """Kernel of an elementwise op.

    If sizes are unknown, it checks that the run-time shapes are equal; scalar operands of `select`
    and
    `clamp` may differ.
    """
    function = function_of(op, [element_of(t) for t in at.operands], element_of(at.ins.type))
    types = at.operands
    if all(isinstance(t, TensorType) and t.is_static for t in types):
        ufunc = _INTO.get(function)
        return Writing(function, _into(ufunc)) if ufunc and _is_large(at) else function
    scalars_too = op.name in ("select", "clamp")

    def kernel(*operands: Any) -> Any:
        shapes = {x.shape for x in operands}
        if len(shapes) > 1 and not (scalars_too and len(shapes - {()}) == 1):
            text = ", ".join(str(x.shape) for x in operands)
            raise EvaluationError(f"`{op.name}` needs operands of one shape, found {text}")
        return function(*operands)

    return kernel


def _is_large(at: Site) -> bool:
    """Is the result large, and are operands and result of one shape and one builtin number type?"""
    type_ = at.result
    dtype = dtype_of(type_.element)
    is_own = dtype.kind in "fiu" and dtype.isbuiltin == 1
    alike = all(isinstance(t, TensorType) and t.sizes == type_.sizes for t in at.operands)
    same = all(element_of(t) == type_.element for t in at.operands)
    return alike and same and is_own and byte_size(type_) >= _LARGE


def _into(ufunc: np.ufunc) -> Kernel:
    """Kernel that writes its result to its first operand."""
    return lambda a, b: ufunc(a, b, out=a)


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
    """Function for floats of several widths, as HLO allows.

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
    """Function of an op that depends on more than its first operand's type; `None` for others."""
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
    match op.name:
        case "complex" if result.kind == "complex":
            return _complex(dtype_of(result))
        case _:
            return None


def plain_function(name: str, element: ElementType) -> Function | None:
    """Return the function of an op that depends on its first operand's type only, else `None`."""
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
    """Return the comparison of an element type; with `is_total`, in the total order of floats.

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
    """Function of `clamp`; `None` if the element type has no order."""
    maximum = plain_function("maximum", element)
    minimum = plain_function("minimum", element)
    if maximum is None or minimum is None:
        return None
    return lambda least, x, most: minimum(maximum(x, least), most)


def _complex(dtype: Any) -> Function:
    """Function that builds complex numbers of `dtype` from real and imaginary parts."""
    part = np.dtype(f"f{dtype.itemsize // 2}")

    def kernel(real: Any, imag: Any) -> Any:
        result = np.empty((*np.broadcast_shapes(real.shape, imag.shape), 2), part)
        result[..., 0] = real
        result[..., 1] = imag
        return result.view(dtype)[..., 0]

    return kernel


def _stochastic(target: ElementType) -> Function:
    """Function of `stochastic_convert`, which rounds at random.

    It rounds away from 0 with the probability of the fraction that is lost: if the random operand,
    divided by 2 to the number of its bits, is less than the fraction.
    """
    into = conversion(ELEMENT_TYPES["f64"], target)

    def kernel(x: Any, random: Any) -> Any:
        x = x.astype(np.float64)
        whole = np.trunc(x)
        share = np.floor(np.ldexp(abs(x - whole), 8 * random.dtype.itemsize))
        up = random.astype(np.float64) < share
        return into(whole + np.copysign(up.astype(np.float64), x))

    return kernel
