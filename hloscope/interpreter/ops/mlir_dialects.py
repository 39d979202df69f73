"""Ops of MLIR's dialects `shape`, `tensor` and `arith`, which compute run-time sizes.

StableHLO's passes leave them around its dynamic ops; in the graph they are `UnknownOp`s.  Integers
outside of tensors, such as `index`, are numpy scalars.  Shapes are vectors.
Source: MLIR's `ShapeOps.td`, `TensorOps.td`, `ArithOps.td`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.ops.elementwise import comparison, plain_function
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import EvaluationError, dtype_of
from hloscope.ir import ELEMENT_TYPES, ElementType, Literal, TensorType, Type, value_of
from hloscope.ops import UnknownOp

_Maker = Callable[[UnknownOp, Site], Kernel]

_ARITH: Final = {
    "add": "addi addf",
    "subtract": "subi subf",
    "multiply": "muli mulf",
    "divide": "divsi divui divf",
    "remainder": "remsi remui remf",
    "maximum": "maxsi maxui maximumf",
    "minimum": "minsi minui minimumf",
    "negate": "negf",
    "and": "andi",
    "or": "ori",
    "xor": "xori",
    "shift_left": "shli",
    "shift_right_logical": "shrui",
    "shift_right_arithmetic": "shrsi",
}
"""Names of the equivalent ops of `arith`, separated by spaces, by the name of the StableHLO op."""
_UNSIGNED: Final = ("divui", "remui", "maxui", "minui")
"""Ops of `arith` on unsigned integers."""
_IDENTITIES: Final = """
    tensor.cast shape.to_extent_tensor shape.from_extent_tensor shape.value_as_shape
    shape.size_to_index shape.index_to_size builtin.unrealized_conversion_cast
"""
_CONVERSIONS: Final = (
    "index_cast index_castui extsi extui trunci extf truncf sitofp uitofp fptosi fptoui"
)
_PREDICATES: Final = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")
"""Directions of integer comparisons, by the predicate number of `arith`; unsigned from 6 on."""
_FLOAT_PREDICATES: Final = ("EQ", "GT", "GE", "LT", "LE", "NE")
"""Directions of ordered float comparisons, by `arith`'s number of the predicate minus 1."""


def _element(type_: Type) -> ElementType:
    element = type_.element if isinstance(type_, TensorType) else type_
    if not isinstance(element, ElementType):
        raise UnsupportedError("values of this type cannot be computed with")
    return element


def _unsigned(element: ElementType) -> ElementType:
    return ELEMENT_TYPES.get(f"u{element.bits}", element)


def _constant(op: UnknownOp, at: Site) -> Kernel:
    """Return the kernel of a constant of `arith` or `shape`."""
    found: Any = value_of(op.settings, "shape" if op.opcode == "shape.const_shape" else "value")
    if isinstance(found, Literal):
        found = found.array(at.ins.type)
    elif isinstance(found, int | float):
        found = np.asarray(found).astype(dtype_of(_element(at.ins.type)))[()]
    else:
        raise UnsupportedError(f"`{op.opcode}` is not a constant to compute with")
    return lambda: found


def _computed(name: str, *, unsigned: bool) -> _Maker:
    """Return a maker of kernels for an op of `arith` that equals the StableHLO op `name`.

    With `unsigned`, operands are read as unsigned integers.
    """

    def make(op: UnknownOp, at: Site) -> Kernel:
        element = _element(at.ins.type)
        function = plain_function(name, _unsigned(element) if unsigned else element)
        if function is None:
            raise UnsupportedError(f"`{op.opcode}` of {element.name} cannot be evaluated")
        if not unsigned:
            return function
        dtype, of_bits = dtype_of(element), dtype_of(_unsigned(element))
        return lambda *values: function(*[v.view(of_bits) for v in values]).view(dtype)

    return make


def _compared(op: UnknownOp, at: Site) -> Kernel:
    """Return the kernel of `arith.cmpi` or `arith.cmpf`, whose predicate is a number."""
    found = value_of(op.settings, "predicate")
    number = found if isinstance(found, int) else -1
    element = _element(at.operands[0])
    if op.opcode == "arith.cmpf":
        if not 0 < number <= len(_FLOAT_PREDICATES):
            raise UnsupportedError(f"`{op.opcode}` of predicate {number} cannot be evaluated")
        ordered = comparison(element, _FLOAT_PREDICATES[number - 1])
        return lambda a, b: ordered(a, b) & (a == a) & (b == b)
    compare = comparison(element, _PREDICATES[number])
    if number < 6:
        return compare
    of_bits = dtype_of(_unsigned(element))
    return lambda a, b: compare(a.view(of_bits), b.view(of_bits))


def _converted(op: UnknownOp, at: Site) -> Kernel:
    """Return the kernel of an op of `arith` that converts between element types.

    For unsigned ops, the operand's bits are read as unsigned.
    """
    before, dtype = _element(at.operands[0]), dtype_of(_element(at.ins.type))
    if op.opcode in ("arith.extui", "arith.index_castui", "arith.uitofp"):
        of_bits = dtype_of(_unsigned(before))
        return lambda x: x.view(of_bits).astype(dtype) if x.dtype.kind == "i" else x.astype(dtype)
    return lambda x: x.astype(dtype)


def _same(op: UnknownOp, at: Site) -> Kernel:
    return lambda value, *_: value


def _size(op: UnknownOp, at: Site) -> Kernel:
    """Return the kernel of an op for the size of the dimension whose number is operand 1."""

    def kernel(value: Any, d: Any) -> Any:
        if not 0 <= int(d) < value.ndim:
            raise EvaluationError(f"there is no dimension {int(d)} of {value.ndim}")
        return np.int64(value.shape[int(d)])

    return kernel


def _item(op: UnknownOp, at: Site) -> Kernel:
    """Return the kernel of an op that reads the element of a tensor at an index."""

    def kernel(value: Any, *index: Any) -> Any:
        place = tuple(map(int, index))
        if not all(0 <= i < size for i, size in zip(place, value.shape, strict=True)):
            raise EvaluationError(f"there is no element {list(place)} of {list(value.shape)}")
        return value[place]

    return kernel


def _inserted(op: UnknownOp, at: Site) -> Kernel:
    """Return the kernel of an op that returns a tensor with one element replaced."""
    item = _item(op, at)

    def kernel(element: Any, value: Any, *index: Any) -> Any:
        item(value, *index)
        result = value.copy()
        result[tuple(map(int, index))] = element
        return result

    return kernel


def _elements(op: UnknownOp, at: Site) -> Kernel:
    """Return the kernel of an op that makes a tensor whose elements are its operands."""
    dtype = dtype_of(_element(at.ins.type))
    sizes = at.result.sizes
    return lambda *values: np.array(values, dtype).reshape([-1 if s is None else s for s in sizes])


def joint_shape(*shapes: Any) -> Any:
    """Return the shape that several shapes broadcast to, a vector.

    Raises:
        EvaluationError: The shapes cannot be broadcast to one.

    >>> joint_shape(np.array([3, 1]), np.array([4])).tolist()
    [3, 4]
    """
    rank = max(len(shape) for shape in shapes)
    result = [1] * rank
    for shape in shapes:
        for d, size in enumerate(shape, rank - len(shape)):
            if size not in (1, result[d]) and result[d] != 1:
                texts = ", ".join(str(list(map(int, shape))) for shape in shapes)
                raise EvaluationError(f"shapes {texts} cannot be broadcast to one")
            result[d] = result[d] if size == 1 else int(size)
    return np.array(result, np.int64)


def _broadcastable(op: UnknownOp, at: Site) -> Kernel:
    def kernel(*shapes: Any) -> Any:
        joint_shape(*shapes)
        return np.True_

    return kernel


def _plain(function: Callable[..., Any]) -> _Maker:
    return lambda op, at: function


_MAKERS: Final[dict[str, _Maker]] = {
    "arith.constant": _constant,
    "arith.cmpi": _compared,
    "arith.cmpf": _compared,
    "arith.select": _plain(lambda p, a, b: np.asarray(np.where(p, a, b))[()]),
    "shape.const_shape": _constant,
    "shape.shape_of": _plain(lambda x: np.array(x.shape, np.int64)),
    "shape.num_elements": _plain(lambda s: np.prod(s, dtype=np.int64)),
    "shape.rank": _plain(lambda s: np.int64(len(s))),
    "shape.dim": _size,
    "shape.get_extent": _item,
    "shape.broadcast": _plain(joint_shape),
    "shape.concat": _plain(lambda a, b: np.concatenate([a, b])),
    "shape.cstr_broadcastable": _broadcastable,
    "tensor.dim": _size,
    "tensor.rank": _plain(lambda x: np.int64(x.ndim)),
    "tensor.extract": _item,
    "tensor.insert": _inserted,
    "tensor.from_elements": _elements,
    **{
        f"arith.{spelling}": _computed(name, unsigned=spelling in _UNSIGNED)
        for name, spellings in _ARITH.items()
        for spelling in spellings.split()
    },
    **{f"arith.{name}": _converted for name in _CONVERSIONS.split()},
    **dict.fromkeys(_IDENTITIES.split(), _same),
}


@evaluates(UnknownOp)
def _unknown(op: UnknownOp, at: Site) -> Kernel:
    maker = _MAKERS.get(op.opcode)
    if maker is None:
        raise UnsupportedError(f"`{op.opcode}` cannot be evaluated: nothing is known about it")
    return maker(op, at)
