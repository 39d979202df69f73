"""Limits of what the patterns of one run read and compute, and patterns that obey them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Final, NamedTuple, TypeAlias

from hloscope.arrays import np
from hloscope.errors import HloscopeError
from hloscope.ir import ElementType, TensorType
from hloscope.mlir import DenseAttr, Operation, Value, elements, to_array
from hloscope.passes.patterns import Pattern, Patterns, Rewrite
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import CONSTANTS

FOLD_ELEMENTS: Final = 1 << 16
"""Default of the largest number of elements of some results, as upstream."""

_MOST_WORK: Final = 1 << 26
"""Largest number of bytes that all folds of one run read and write together."""

_INTEGERS: Final = ("pred", "signed", "unsigned")


class Known(NamedTuple):
    """The elements of a constant.

    Attributes:
        type: Type of the constant.
        raw: Bytes of the elements; for a splat, of one element.
        is_splat: Are all elements equal, bit by bit, and is there at least one?
    """

    type: TensorType
    raw: bytes | memoryview
    is_splat: bool

    @property
    def array(self) -> np.ndarray:
        """All elements; a splat is a view of one element."""
        return to_array(DenseAttr(self.raw, self.type))

    @property
    def element(self) -> np.ndarray:
        """The one element of a splat, as an array of rank 0."""
        return to_array(DenseAttr(self.raw, TensorType(self.type.element, ())))

    def as_type(self, type: TensorType) -> DenseAttr:
        """Return the literal with the bytes of this constant and another type."""
        return DenseAttr(self.raw, type)


class Limits:
    """Budget of folding in one run.

    Args:
        max_elements: Largest number of elements of a result, where upstream has a limit; `None` for
            no limit.
        optimize_float: Fold floats, too.
        max_work: Largest number of bytes to read and write in all; further folds are skipped.
    """

    def __init__(
        self,
        max_elements: int | None = None,
        *,
        optimize_float: bool = True,
        max_work: int = _MOST_WORK,
    ) -> None:
        self.max_elements: Final = max_elements
        self.optimize_float: Final = optimize_float
        self.left = max_work
        self._read: Final[dict[Value, tuple[DenseAttr, Known | None]]] = {}

    def known(self, value: Value) -> Known | None:
        """Return the elements of a value; `None` if it is not a constant or the budget is spent.

        >>> from hloscope.mlir import I32
        >>> type = TensorType(I32, (1000000, 1000000))
        >>> constant = Operation("stablehlo.constant", properties={"value": DenseAttr("7", type)})
        >>> Limits().known(Value(type, constant)).element.item()
        7
        """
        literal = literal_of(value)
        if literal is None:
            return None
        # Several patterns ask for the elements of one constant: they are read, and paid for, once.
        # The literal is compared, since a pattern may give a constant another one.
        found = self._read.get(value)
        if found is None or found[0] is not literal:
            known = self._elements(literal) if self.spend(_size(literal)) else None
            found = self._read[value] = literal, known
        return found[1]

    def is_constant(self, value: Value) -> bool:
        """Is the value the result of a constant op?  The elements are not read."""
        return literal_of(value) is not None

    def spend(self, bytes: int) -> bool:
        """Spend `bytes` of the budget; false, and nothing is spent, if less is left."""
        if bytes > self.left:
            return False
        self.left -= bytes
        return True

    def allows(self, type: TensorType) -> bool:
        """May a result of this static type be folded, by its number of elements?"""
        return self.max_elements is None or _count(type) <= self.max_elements

    def folds(self, element: ElementType) -> bool:
        """Is it an integer type, or a float type while floats are folded?"""
        return (element.kind in _INTEGERS and element.name != "index") or self.folds_float(element)

    def folds_float(self, element: ElementType) -> bool:
        """Is it a float type, and are floats folded?"""
        return element.kind == "float" and self.optimize_float

    def _elements(self, literal: DenseAttr) -> Known | None:
        type = literal.type
        if not isinstance(type, TensorType) or not type.element.numpy:
            return None
        try:
            found = elements(literal)
        except HloscopeError:  # not a literal of its type, which the verifier reports
            return None
        return Known(type, found.raw, found.splat)


LimitedRewrite: TypeAlias = "Callable[[Rewriter, Operation, Limits], bool]"
"""A rewrite that reads constants and computes within limits."""


class Row(NamedTuple):
    """A pattern without limits: name, op names it applies to, rewrite, benefit."""

    name: str
    roots: tuple[str, ...]
    rewrite: LimitedRewrite
    benefit: int = 1


class LimitedRewrites:
    """Rewrites in the order of trial; together with limits they are patterns.

    >>> folds = LimitedRewrites()
    >>> @folds.on("stablehlo.add")
    ... def fold_add(rewriter, op, limits):
    ...     return False
    >>> [pattern.name for pattern in folds(optimize_float=False)]
    ['fold_add']
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: Final = list(rows)

    def on(self, *roots: str, benefit: int = 1) -> Callable[[LimitedRewrite], LimitedRewrite]:
        """Return a decorator that lists a rewrite for these ops; for all ops if none is named."""

        def listed(rewrite: LimitedRewrite) -> LimitedRewrite:
            self._rows.append(Row(rewrite.__name__, roots, rewrite, benefit))
            return rewrite

        return listed

    def add(self, name: str, root: str, rewrite: LimitedRewrite) -> None:
        """Add a rewrite for the ops named `root`."""
        self._rows.append(Row(name, (root,), rewrite))

    def __call__(self, max_elements: int | None = None, optimize_float: bool = True) -> Patterns:
        """Return the patterns with new limits.

        Args:
            max_elements: Largest number of elements of a result, where upstream has a limit.
            optimize_float: Fold floats, too.
        """
        return self.within(Limits(max_elements, optimize_float=optimize_float))

    def within(self, limits: Limits) -> Patterns:
        """Return the patterns, which all spend from `limits`."""
        return Patterns(
            Pattern(row.name, row.roots, _within(row.rewrite, limits), row.benefit)
            for row in self._rows
        )

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __add__(self, others: Iterable[Row]) -> LimitedRewrites:
        return LimitedRewrites([*self._rows, *others])


def _within(rewrite: LimitedRewrite, limits: Limits) -> Rewrite:
    def pattern(rewriter: Rewriter, operation: Operation) -> bool:
        try:
            return rewrite(rewriter, operation, limits)
        except HloscopeError:  # the new op would be invalid, and so is the program
            return False

    return pattern


def literal_of(value: Value) -> DenseAttr | None:
    """Return the literal of a constant, if it has the value's type; else `None`."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name not in CONSTANTS:
        return None
    literal = owner.get("value")
    return literal if isinstance(literal, DenseAttr) and literal.type == value.type else None


def work_of(type: TensorType) -> int:
    """Return the bytes of a value of a static type."""
    return _count(type) * max(1, type.element.bits // 8)


def _count(type: TensorType) -> int:
    return prod(size or 0 for size in type.sizes)


def _size(literal: DenseAttr) -> int:
    """Return about the bytes that reading the literal inspects."""
    return len(literal.literal)


__all__ = [
    "FOLD_ELEMENTS",
    "Known",
    "LimitedRewrite",
    "LimitedRewrites",
    "Limits",
    "Row",
    "literal_of",
    "work_of",
]
