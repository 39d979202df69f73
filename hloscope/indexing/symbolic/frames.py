"""Values as sizes and, for small integer arrays, elements, in terms of symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.affine import NEG_INF, POS_INF, Const, Expr, Interval
from hloscope.indexing.rules.build import leaves
from hloscope.indexing.symbolic.symbols import Shape, Symbols
from hloscope.ir import Computation, ElementType, Instruction, TensorType, Type
from hloscope.ops import control

SIZE_BITS: Final = 32
"""Bits from which on integers are used for sizes, which are assumed to fit."""
MOST_ELEMENTS: Final = 64
"""Largest number of elements of an integer array that are followed."""
Contents: TypeAlias = tuple[Expr | None, ...]
"""Elements of an integer array in row-major order; `None` for unknown ones."""


class Leaf(Struct, frozen=True):
    """One array of a value.

    Attributes:
        shape: Its sizes; `None` if it is not an array.
        contents: Its elements, for a small array of integers.
    """

    shape: Shape | None
    contents: Contents | None = None


CALLS: Final = control.Call, control.Composite
"""Ops whose value is the value of the computation they call."""
Known: TypeAlias = tuple[Leaf, ...]
"""The arrays of a value, in order."""


class Frame:
    """Symbolic values of a computation, called from one place.

    Attributes:
        path: Number of the sequence of calls that leads to it.
        values: The known arrays of each value.
        order: Time at which each value was entered, over all computations.
        inner: The frames of the functions that it calls.
        caller: The calling frame, and the call.
        certain: Whether its instructions run whenever the program runs to its end.
    """

    def __init__(
        self, symbols: Symbols, path: int, computation: Computation, *, certain: bool
    ) -> None:
        self.computation: Final = computation
        self.symbols: Final = symbols
        self.path: Final = path
        self.values: Final[dict[Instruction, Known]] = {}
        self.certain: Final = certain
        self.order: Final[dict[Instruction, int]] = {}
        self.inner: Final[dict[Instruction, Frame]] = {}
        self.caller: tuple[Frame, Instruction] | None = None

    def of(self, value: Instruction) -> Known:
        """Return the arrays of a value; a value from outside has what its type declares."""
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = declared(self, value)
        return found

    def operands(self, ins: Instruction) -> list[Leaf]:
        """Return the first array of each operand."""
        found = [self.of(operand) for operand in ins.operands]
        return [known[0] if known else Leaf(None) for known in found]

    def enter(self, value: Instruction, known: Known) -> None:
        """Store the arrays of a value."""
        self.values[value] = known
        self.order[value] = self.symbols.tick()

    def same(self, sizes: Sequence[Expr | None]) -> Expr | None:
        """Return one size for several that must be equal.

        The equality is recorded if it is certain.
        """
        known = [size for size in sizes if size is not None]
        if not known:
            return None
        if self.certain:
            for other in known[1:]:
                self.symbols.unify(known[0], other)
        settled = [self.symbols.settled(size) for size in known]
        return next((size for size in settled if isinstance(size, Const)), settled[0])


def declared(frame: Frame, value: Instruction) -> Known:
    """Return the arrays that the type of a value declares; unknown sizes become new symbols."""
    found = []
    for number, type in enumerate(leaves(value.type)):
        shape = None
        if isinstance(type, TensorType):
            shape = tuple([declared_size(frame, value, number, type, k) for k in range(type.rank)])
        found.append(Leaf(shape, elements(frame, value, type) if not number else None))
    return tuple(found)


def declared_size(
    frame: Frame, value: Instruction, leaf: int, type: TensorType, dimension: int
) -> Expr:
    """Return the declared size of a dimension; a new symbol if it is unknown."""
    size = type.sizes[dimension]
    if size is not None:
        return Const(size)
    bound = type.bounds[dimension] if type.bounds else None
    most = POS_INF - 1 if bound is None else bound
    return frame.symbols.size(frame.path, value, leaf, dimension, most)


def elements(frame: Frame, value: Instruction, type: Type) -> Contents | None:
    """Return new symbols for the elements of a small integer array; `None` for other types."""
    if not is_followed(type):
        return None
    assert isinstance(type, TensorType)
    if type.element.kind == "pred":
        return (None,) * (type.num_elements)
    places: Sequence[int | None] = range(type.num_elements) if type.rank else (None,)
    holds, symbols = values_of(type.element), frame.symbols
    if type.element.bits >= SIZE_BITS:
        holds = Interval(NEG_INF if holds.lo else 0, POS_INF)
    return tuple([symbols.element(frame.path, value, k, holds) for k in places])


def values_of(element: ElementType) -> Interval:
    """Return the interval of an integer type, limited to 64 bits.

    >>> from hloscope.ir import ELEMENT_TYPES
    >>> print(values_of(ELEMENT_TYPES["s8"]), values_of(ELEMENT_TYPES["u64"]).lo)
    [-128, 127] 0
    """
    signed = element.kind == "signed"
    half = 1 << (element.bits - 1)
    lo, hi = (-half, half - 1) if signed else (0, 2 * half - 1)
    return Interval(max(lo, NEG_INF), min(hi, POS_INF))


def is_followed(type: Type) -> bool:
    """Is it a small static array of integers or booleans, of rank 0 or 1?"""
    return (
        isinstance(type, TensorType)
        and type.element.kind in ("signed", "unsigned", "pred")
        and type.rank < 2
        and type.is_static
        and type.num_elements <= MOST_ELEMENTS
    )


Rule: TypeAlias = Callable[[Frame, Instruction, Any], Sequence[Expr | None] | None]
"""Function from an instruction and its op to the sizes of its first array, or its elements."""
