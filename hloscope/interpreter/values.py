"""Values of the interpreter, arrays and tuples of arrays, and the context of one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, field
from numpy.lib.stride_tricks import as_strided

from hloscope.errors import Formatter, HloscopeError, UnsupportedError, plain
from hloscope.ir import (
    Computation,
    ElementType,
    Instruction,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    Type,
    UnrankedTensorType,
    numpy_dtype,
)
from hloscope.support.arrays import np
from hloscope.support.limits import MAX_BYTES, refuse_unsupported_array
from hloscope.support.walks import nested

# --------------------------------------------------------------------------------------------------
# Values of the interpreter: numpy arrays, tuples of values, tokens.
#
# A tensor is a numpy array of the element type's dtype (`ir.arrays.numpy_dtype`); a quantized
# tensor holds its storage integers.  The array has the actual shape, also where the type has
# unknown sizes. Kernels write to an operand's array only if the plan says so (`reuse`).


Array: TypeAlias = "np.ndarray[Any, Any]"


class EvaluationError(HloscopeError):
    """An error of an evaluation: wrong arguments, an exceeded limit, a failed assertion.

    If a limit is exceeded, `rule` is its name: `max_steps`, `max_flops` or `max_bytes`.
    """

    exit_code = 1


class Token:
    """The value of every token; tokens carry no data."""

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
    """Return the bytes of a value of this type; an unknown size counts as its bound, else as 1."""
    return sum(
        prod(s for s in part.most if s is not None) * -(-part.element.bits // 8)
        for part in nested([type_], _elements)
        if isinstance(part, TensorType)
    )


def _elements(type_: Type) -> tuple[Type, ...]:
    """Return the element types of a tuple type; an empty tuple for other types."""
    return type_.elements if isinstance(type_, TupleType) else ()


_MOST: Final[ContextVar[int]] = ContextVar("most bytes of an array", default=MAX_BYTES)
"""Maximum bytes of one array in the current evaluation, temporary arrays included."""


@contextmanager
def limited(most_bytes: int) -> Iterator[None]:
    """Return a context in which `claim` refuses arrays of more than `most_bytes` bytes."""
    token = _MOST.set(most_bytes)
    try:
        yield
    finally:
        _MOST.reset(token)


def claim(count: int, what: str) -> None:
    """Raise an error if an array that will be allocated exceeds the memory limit.

    Args:
        count: Size of the array in bytes.
        what: Text that names the array in the message.

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


def plain_value(value: Value) -> Value:
    """Return a value in which arrays of bounded size have no memory beyond their sizes.

    >>> plain_value((TOKEN, ()))
    (token, ())
    """
    return each_leaf(value, lambda leaf: np.asarray(leaf) if hasattr(leaf, "memory") else leaf)


def each_leaf(value: Value, change: Callable[[Array | Token], Array | Token]) -> Value:
    """Return the value with `change` applied to each array and token; nested tuples stay tuples.

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
    """Check that values of this type can be numpy arrays.

    Raises:
        UnsupportedError: A part of the type has no numpy array.
    """
    for part in nested([type_], _elements):
        if isinstance(part, TensorType):
            refuse_unsupported_array(part.most)
        elif isinstance(part, UnrankedTensorType):
            raise UnsupportedError("values of tensors without a rank are not evaluated")


def fits(value: Value, type_: Type) -> str:
    """Return the reason why `value` is not of type `type_`, as text; empty if it is.

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
    """A value at one position inside a nested tuple, with its expected type.

    Attributes:
        value: The value.
        type: The expected type.
        path: Position: the tuple index at each depth, outermost first.
    """

    value: Any
    type: Type
    path: tuple[int, ...] = ()

    def parts(self) -> list[Place]:
        """Return the elements of a tuple, each as a `Place` with its type and path.

        The list is empty if the value and the type have different numbers of elements.
        """
        types, values = _elements(self.type), self.value
        if not isinstance(values, tuple | list) or len(values) != len(types):
            return []
        parts = enumerate(zip(values, types, strict=True))
        return [Place(v, t, (*self.path, i)) for i, (v, t) in parts]

    def path_text(self, before: str, after: str) -> str:
        """Return the path as text, each index between `before` and `after`."""
        return "".join(f"{before}{i}{after}" for i in self.path)


def unlike(value: Value, type_: Type) -> str:
    """Return the reason why a value is not of the type, as text; empty if it is.

    The elements of a tuple are not compared.
    """
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


# --------------------------------------------------------------------------------------------------
# `World`: limits, devices, callbacks and counters of one evaluation.


UserFunction = Callable[..., Any]

PROCESS: Final = "process"
"""Key of `World.extra` for the process of a grid that the evaluation belongs to."""


class Trail(Protocol):
    """Callbacks that report when an evaluation enters and leaves called computations."""

    def enter(self, ins: Instruction, number: int) -> None:
        """Report that computation number `number` of `ins.calls` begins, a function or a region."""

    def leave(self) -> None:
        """Report that the computation entered last has ended."""


class World(Struct):
    """Settings, callbacks and counters of one evaluation.

    Attributes:
        functions: Computations by name, for ops that name them.
        attributes: Attributes of the module, `(name, text)` as written, such as meshes.
        custom_calls: Python functions by the target of the custom call that they implement.
        max_steps: Maximum number of evaluated instructions; each loop iteration counts.
        max_bytes: Maximum size of one array in bytes, temporaries included.
        max_flops: Maximum number of operations on elements; small instructions are not counted.
        steps: Number of instructions evaluated so far.
        flops: Number of operations counted so far; counted only if `max_flops` is set.
        replica: Number of this replica, from 0.
        partition: Number of this partition, from 0.
        watch: Called with every instruction and its value.
        trail: Callbacks for every called computation that begins or ends.
        on_step: Called every 64 steps or so with the number of steps, for a progress display.
        extra: Further state of this evaluation, by keys such as `PROCESS` that modules of ops
            define.
        spell: Function that writes types in the language of the program.
    """

    functions: Mapping[str, Computation] = field(default_factory=dict)
    attributes: tuple[tuple[str, str], ...] = ()
    custom_calls: Mapping[str, UserFunction] = field(default_factory=dict)
    max_steps: int | None = None
    max_bytes: int = MAX_BYTES
    max_flops: int | None = None
    steps: int = 0
    flops: int = 0
    replica: int = 0
    partition: int = 0
    watch: Callable[[Instruction, Value], None] | None = None
    trail: Trail | None = None
    on_step: Callable[[int], None] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    spell: Formatter = plain


# --------------------------------------------------------------------------------------------------
# Memory of arrays: which of it may be written, and strided views of arrays of any element type.


def has_own_memory(x: Any) -> bool:
    """Is `x` a plain array with memory of its own that can be written?

    >>> x = np.zeros(3)
    >>> has_own_memory(x), has_own_memory(x[1:]), has_own_memory(np.float32(1))
    (True, False, False)
    """
    return type(x) is np.ndarray and bool(x.flags.owndata and x.flags.writeable)


def strided(x: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Return a read-only view of `x` with this shape and these strides, in bytes.

    Numpy's own function does not accept all registered types.

    >>> import numpy as np
    >>> strided(np.arange(4), (3, 2), (8, 8)).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    raw = x.view(f"V{x.itemsize}")
    return as_strided(raw, shape, strides, writeable=False).view(x.dtype)
