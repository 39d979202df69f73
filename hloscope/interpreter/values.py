"""Values the interpreter computes with: numpy arrays, tuples of values, tokens.

A tensor is a numpy array of the element type's dtype (`ir.arrays.numpy_dtype`; a
quantized one holds its storage integers).  Its type is that of the instruction; its shape is the
actual one, also where the type leaves it open.  Arrays are never written to once they are made.
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
    """The program cannot be evaluated further: wrong arguments, limits, a failed assertion.

    Of a limit that was reached, `rule` is the name: `max_steps`, `max_flops` or `max_bytes`.
    """

    exit_code = 1


class Token:
    """The value of a token."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "token"


TOKEN: Final = Token()

Value: TypeAlias = "Array | Token | tuple[Value, ...]"


def dtype_of(element: ElementType) -> Any:
    """The numpy dtype of an element type's values; a quantized one has its storage's.

    Raises:
        UnsupportedError: There is none.
    """
    if isinstance(element, QuantizedType):
        element = element.storage
    try:
        return numpy_dtype(element)
    except ValueError as error:
        raise UnsupportedError(str(error)) from None


def byte_size(type_: Type) -> int:
    """Bytes of a value of this type; sizes not known count as their bound, or 1."""
    return sum(
        prod(s for s in part.most if s is not None) * -(-part.element.bits // 8)
        for part in nested([type_], _elements)
        if isinstance(part, TensorType)
    )


def _elements(type_: Type) -> tuple[Type, ...]:
    """The types in a tuple's; none in another."""
    return type_.elements if isinstance(type_, TupleType) else ()


_MOST: Final[ContextVar[int]] = ContextVar("most bytes of an array", default=MAX_BYTES)
"""The limit of memory while a program is evaluated: what is made on the way counts as values do."""


@contextmanager
def limited(most_bytes: int) -> Iterator[None]:
    """Within it, `claim` refuses arrays of more bytes than this."""
    token = _MOST.set(most_bytes)
    try:
        yield
    finally:
        _MOST.reset(token)


def claim(count: int, what: str) -> None:
    """Ask, before it is made, whether an array of so many bytes may be.

    Args:
        count: Bytes.
        what: What the array is, for the message.

    Raises:
        EvaluationError: It is more than the limit.

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
    """The value without the memory behind the elements that exist (`ops.bounded`).

    >>> plain((TOKEN, ()))
    (token, ())
    """
    return each_leaf(value, lambda leaf: np.asarray(leaf) if hasattr(leaf, "memory") else leaf)


def each_leaf(value: Value, change: Callable[[Array | Token], Array | Token]) -> Value:
    """The value with each array and token in it changed; tuples, of any depth, stay tuples.

    >>> each_leaf((TOKEN, (TOKEN, ())), repr)
    ('token', ('token', ()))
    """
    if not isinstance(value, tuple):
        return change(value)
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
        UnsupportedError: It has none.
    """
    for part in nested([type_], _elements):
        if isinstance(part, TensorType):
            refuse_no_array(part.most)
        elif isinstance(part, UnrankedTensorType):
            raise UnsupportedError("values of tensors without a rank are not evaluated")


def fits(value: Value, type_: Type) -> str:
    """What keeps `value` from being of the type, in words; nothing if it is.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> fits(numpy.zeros((2, 3), "float32"), TensorType(ELEMENT_TYPES["f32"], (2, 4)))
    'its shape is (2, 3), not (2, 4)'
    """
    if not isinstance(type_, TupleType):
        return unlike(value, type_)
    places = nested([Place(value, type_)], Place.parts)
    reasons = ((place, unlike(place.value, place.type)) for place in places)
    return "; ".join(f"{place.told('part ', ': ')}{why}" for place, why in reasons if why)


class Place(NamedTuple):
    """A value that stands somewhere in a tuple, and the type that it should have there."""

    value: Any
    type: Type
    path: tuple[int, ...] = ()

    def parts(self) -> list[Place]:
        """Places in it, where the value has as many parts as the type."""
        types, values = _elements(self.type), self.value
        if not isinstance(values, tuple | list) or len(values) != len(types):
            return []
        parts = enumerate(zip(values, types, strict=True))
        return [Place(v, t, (*self.path, i)) for i, (v, t) in parts]

    def told(self, before: str, after: str) -> str:
        """Where it is, in words."""
        return "".join(f"{before}{i}{after}" for i in self.path)


def unlike(value: Value, type_: Type) -> str:
    """What keeps a value, but for what is in it, from being of the type."""
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
