"""Values as their sizes and, of small arrays of integers, their elements, in terms of symbols."""

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
"""Sizes are computed in integers of this width and more, and taken to fit."""
MOST_ELEMENTS: Final = 64
"""Of an array of integers so many elements are followed."""
Contents: TypeAlias = tuple[Expr | None, ...]
"""The elements of an array of integers in row-major order, as far as they are known."""


class Leaf(Struct, frozen=True):
    """One array of a value.

    Attributes:
        shape: Its sizes; `None` if it is no array.
        contents: Its elements, of a small array of integers.
    """

    shape: Shape | None
    contents: Contents | None = None


CALLS: Final = control.Call, control.Composite
"""Ops that are what the computation they call is."""
Known: TypeAlias = tuple[Leaf, ...]
"""The arrays of a value, in order."""


class Frame:
    """What is known of the values of a computation, called from one place.

    Attributes:
        path: The number of the calls that lead to it.
        values: What is known of the values.
        order: When each of them was found, over all computations.
        inner: The frames of the functions that it calls.
        caller: The frame it is called from, and the call.
        certain: Do its instructions run whenever the program runs to its end?
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
        """What is known of a value; of one from outside, what its type says."""
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = declared(self, value)
        return found

    def operands(self, ins: Instruction) -> list[Leaf]:
        """The first array of each operand."""
        found = [self.of(operand) for operand in ins.operands]
        return [known[0] if known else Leaf(None) for known in found]

    def enter(self, value: Instruction, known: Known) -> None:
        """Remember what is known of a value."""
        self.values[value] = known
        self.order[value] = self.symbols.tick()

    def same(self, sizes: Sequence[Expr | None]) -> Expr | None:
        """A size that several have to be, remembered if that is certain."""
        known = [size for size in sizes if size is not None]
        if not known:
            return None
        if self.certain:
            for other in known[1:]:
                self.symbols.unify(known[0], other)
        settled = [self.symbols.settled(size) for size in known]
        return next((size for size in settled if isinstance(size, Const)), settled[0])


def declared(frame: Frame, value: Instruction) -> Known:
    """What the type of a value says; sizes that are not known are new symbols."""
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
    """The size of a dimension as the type has it, a new symbol if it has none."""
    size = type.sizes[dimension]
    if size is not None:
        return Const(size)
    bound = type.bounds[dimension] if type.bounds else None
    most = POS_INF - 1 if bound is None else bound
    return frame.symbols.size(frame.path, value, leaf, dimension, most)


def elements(frame: Frame, value: Instruction, type: Type) -> Contents | None:
    """New symbols for the integers that a value holds, if it is a small array of them."""
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
    """What an integer type holds, within 64 bits.

    >>> from hloscope.ir import ELEMENT_TYPES
    >>> print(values_of(ELEMENT_TYPES["s8"]), values_of(ELEMENT_TYPES["u64"]).lo)
    [-128, 127] 0
    """
    signed = element.kind == "signed"
    half = 1 << (element.bits - 1)
    lo, hi = (-half, half - 1) if signed else (0, 2 * half - 1)
    return Interval(max(lo, NEG_INF), min(hi, POS_INF))


def is_followed(type: Type) -> bool:
    """Is it a small array of integers or booleans, of rank 0 or 1?"""
    return (
        isinstance(type, TensorType)
        and type.element.kind in ("signed", "unsigned", "pred")
        and type.rank < 2
        and type.is_static
        and type.num_elements <= MOST_ELEMENTS
    )


Rule: TypeAlias = Callable[[Frame, Instruction, Any], Sequence[Expr | None] | None]
"""From an instruction and its op to the sizes of its first array, or its elements."""
