"""Values of the interpreter: numpy arrays, tuples of values, tokens.

A tensor is a numpy array of the element type's dtype (`ir.arrays.numpy_dtype`); a quantized tensor
holds its storage integers.  The array has the actual shape, also where the type has unknown sizes.
Kernels never write to an array that another value may share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.arrays import np
from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.ir import (
    ElementType,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    Type,
    UnrankedTensorType,
    numpy_dtype,
)
from hloscope.limits import MAX_BYTES, refuse_no_array
from hloscope.walks import nested

Array: TypeAlias = "np.ndarray[Any, Any]"


class EvaluationError(HloscopeError):
    """An error of evaluation: wrong arguments, an exceeded limit, a failed assertion.

    If a limit is exceeded, `rule` is its name: `max_steps`, `max_flops` or `max_bytes`.
    """

    exit_code = 1


class Token:
    """The value of every token."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "token"


TOKEN: Final = Token()

Value: TypeAlias = "Array | Token | tuple[Value, ...]"


def dtype_of(element: ElementType) -> Any:
    """Return the numpy dtype of an element type; for a quantized type, that of its storage type.

    Raises:
        UnsupportedError: The element type has no dtype.
    """
    if isinstance(element, QuantizedType):
        element = element.storage
    try:
        return numpy_dtype(element)
    except ValueError as error:
        raise UnsupportedError(str(error)) from None


def byte_size(type_: Type) -> int:
    """Return the bytes of a value of this type; an unknown size counts as its bound, else 1."""
    return sum(
        prod(s for s in part.most if s is not None) * -(-part.element.bits // 8)
        for part in nested([type_], _elements)
        if isinstance(part, TensorType)
    )


def _elements(type_: Type) -> tuple[Type, ...]:
    """Element types of a tuple type; empty for other types."""
    return type_.elements if isinstance(type_, TupleType) else ()


_MOST: Final[ContextVar[int]] = ContextVar("most bytes of an array", default=MAX_BYTES)
"""Maximum bytes of an array during the current evaluation, temporaries included."""


@contextmanager
def limited(most_bytes: int) -> Iterator[None]:
    """Context in which `claim` refuses arrays of more than `most_bytes` bytes."""
    token = _MOST.set(most_bytes)
    try:
        yield
    finally:
        _MOST.reset(token)


def claim(count: int, what: str) -> None:
    """Check the size of an array against the memory limit before it is allocated.

    Args:
        count: Size of the array in bytes.
        what: Name of the array in the message.

    Raises:
        EvaluationError: The size exceeds the limit.

    >>> with limited(1000):
    ...     claim(1001, "the padded operand")
    Traceback (most recent call last):
    hloscope.interpreter.values.EvaluationError: error: the padded operand needs 1,001 bytes, \
at most 1,000 are allowed [max_bytes]
    """
    most = _MOST.get()
    if count > most:
        message = f"{what} needs {count:,} bytes, at most {most:,} are allowed"
        raise EvaluationError(message, rule="max_bytes")


def plain(value: Value) -> Value:
    """Return the value with the spare memory of bounded arrays removed (`ops.bounded`).

    >>> plain((TOKEN, ()))
    (token, ())
    """
    return each_leaf(value, lambda leaf: np.asarray(leaf) if hasattr(leaf, "memory") else leaf)


def each_leaf(value: Value, change: Callable[[Array | Token], Array | Token]) -> Value:
    """Apply `change` to each array and token of a value; nested tuples keep their structure.

    >>> each_leaf((TOKEN, (TOKEN, ())), repr)
    ('token', ('token', ()))
    """
    if not isinstance(value, tuple):
        return change(value)
    # An explicit stack, because tuples may nest deeper than Python's recursion limit.
    opened: list[tuple[Iterator[Value], list[Value]]] = [(iter(value), [])]
    while True:
        rest, done = opened[-1]
        for part in rest:
            if isinstance(part, tuple):
                opened.append((iter(part), []))
                break
            done.append(change(part))
        else:
            opened.pop()
            if not opened:
                return tuple(done)
            opened[-1][1].append(tuple(done))


def check_evaluable(type_: Type) -> None:
    """Check that numpy has arrays for values of this type.

    Raises:
        UnsupportedError: A part of the type has no numpy array.
    """
    for part in nested([type_], _elements):
        if isinstance(part, TensorType):
            refuse_no_array(part.most)
        elif isinstance(part, UnrankedTensorType):
            raise UnsupportedError("values of tensors without a rank are not evaluated")


def fits(value: Value, type_: Type) -> str:
    """Return the reasons why `value` is not of the type, in words; empty if it is.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> fits(numpy.zeros((2, 3), "float32"), TensorType(ELEMENT_TYPES["f32"], (2, 4)))
    'its shape is (2, 3), not (2, 4)'
    """
    if not isinstance(type_, TupleType):
        return unlike(value, type_)
    places = nested([Place(value, type_)], Place.parts)
    reasons = ((place, unlike(place.value, place.type)) for place in places)
    return "; ".join(f"{place.path_text('part ', ': ')}{why}" for place, why in reasons if why)


class Place(NamedTuple):
    """A value at a position inside a tuple, with its expected type.

    Attributes:
        value: The value.
        type: The expected type.
        path: Position: the tuple index at each depth, outermost first.
    """

    value: Any
    type: Type
    path: tuple[int, ...] = ()

    def parts(self) -> list[Place]:
        """Positions of the elements of a tuple; empty if value and type differ in their number."""
        types, values = _elements(self.type), self.value
        if not isinstance(values, tuple | list) or len(values) != len(types):
            return []
        parts = enumerate(zip(values, types, strict=True))
        return [Place(v, t, (*self.path, i)) for i, (v, t) in parts]

    def path_text(self, before: str, after: str) -> str:
        """Text of the path, each index between `before` and `after`."""
        return "".join(f"{before}{i}{after}" for i in self.path)


def unlike(value: Value, type_: Type) -> str:
    """Return the reason why a value is not of the type, else empty; tuple elements may differ."""
    match type_:
        case TensorType():
            if isinstance(value, Token | tuple):
                return "it is not an array"
            if value.dtype != dtype_of(type_.element):
                return f"its elements are {value.dtype}, not {dtype_of(type_.element)}"
            if len(value.shape) != type_.rank or any(
                s is not None and s != have
                for s, have in zip(type_.sizes, value.shape, strict=True)
            ):
                sizes = tuple("?" if s is None else s for s in type_.sizes)
                return f"its shape is {value.shape}, not {sizes}"
            # `bounds` is empty for types without dynamic sizes.
            for have, bound in zip(value.shape, type_.bounds, strict=False):
                if bound is not None and have > bound:
                    return f"its shape is {value.shape}, where a bound is {bound}"
            return ""
        case TupleType():
            if not isinstance(value, tuple) or len(value) != len(type_.elements):
                return f"it is not a tuple of {len(type_.elements)}"
            return ""
        case TokenType():
            return "" if isinstance(value, Token) else "it is not a token"
        case _:
            return ""
