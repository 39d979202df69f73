"""Rewrite patterns, the choice among them, and limits of what the patterns of one run compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Final, NamedTuple, TypeAlias, TypeVar

from hloscope.errors import HloscopeError
from hloscope.ir import ElementType, TensorType
from hloscope.mlir import DenseAttr, Operation, Value, elements, to_array
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import CONSTANTS
from hloscope.support.arrays import np

# --------------------------------------------------------------------------------------------------
# Rewrite patterns: a name, the ops they apply to, a benefit, and a function.


Rewrite: TypeAlias = "Callable[[Rewriter, Operation], bool]"
"""A function that rewrites the module at an operation, and returns whether it did.

If it returns false, it has changed nothing.
"""
_Function = TypeVar("_Function", bound=Callable[..., bool])


class Pattern(NamedTuple):
    """A rewrite function with its name, the ops it applies to, and its benefit.

    Attributes:
        name: Name in statistics and tests.
        roots: Full names of the ops it applies to; empty for all ops.
        rewrite: The function that changes the module, a `Rewrite`; or one that takes `Limits` in
            addition, until `limited` sets them.
        benefit: Patterns of larger benefit are tried first; among equals, in the order of listing.
    """

    name: str
    roots: tuple[str, ...]
    rewrite: Callable[..., bool]
    benefit: int = 1


class Patterns:
    """A list of patterns in the order of trial; `on` adds one.

    >>> patterns = Patterns()
    >>> @patterns.on("stablehlo.add")
    ... def add_zero(rewriter, op):
    ...     return False
    >>> [pattern.name for pattern in patterns]
    ['add_zero']
    """

    def __init__(self, given: Iterable[Pattern] = ()) -> None:
        self._rows: Final = list(given)

    def on(self, *roots: str, benefit: int = 1) -> Callable[[_Function], _Function]:
        """Return a decorator that adds a function as pattern for the ops `roots`.

        Without `roots` it is for all ops. Patterns of larger `benefit` are tried first.
        """

        def listed(rewrite: _Function) -> _Function:
            self._rows.append(Pattern(rewrite.__name__, roots, rewrite, benefit))
            return rewrite

        return listed

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._rows)

    def __add__(self, others: Iterable[Pattern]) -> Patterns:
        return Patterns([*self._rows, *others])

    def add(self, name: str, root: str, rewrite: Callable[..., bool]) -> None:
        """Add a function as pattern `name` for the ops `root`."""
        self._rows.append(Pattern(name, (root,), rewrite))


class Chooser:
    """Finds the patterns for an operation by the op's name, and applies them."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._patterns: Final = sorted(patterns, key=lambda pattern: -pattern.benefit)
        self._known: Final[dict[str, tuple[Pattern, ...]]] = {}
        self.fired: Final[Counter[str]] = Counter()
        """Number of applications by pattern."""

    def of(self, name: str) -> tuple[Pattern, ...]:
        """Return the patterns for ops of this name, in the order of trial."""
        # Every visit of an operation asks for its patterns, and a program has few names of ops.
        found = self._known.get(name)
        if found is None:
            fit = [p for p in self._patterns if not p.roots or name in p.roots]
            # Among equal benefits, patterns for this op come before patterns for all ops.
            fit.sort(key=lambda pattern: (-pattern.benefit, not pattern.roots))
            found = self._known[name] = tuple(fit)
        return found

    def rewrite(self, rewriter: Rewriter, operation: Operation) -> bool:
        """Apply the first pattern that changes something; return false if none does."""
        for pattern in self.of(operation.name):
            if pattern.rewrite(rewriter, operation):
                self.fired[pattern.name] += 1
                return True
        return False


# --------------------------------------------------------------------------------------------------
# Limits of what the patterns of one run read and compute, and patterns that obey them.


FOLD_ELEMENTS: Final = 1 << 16
"""Default maximum number of elements of a folded result, as in upstream."""

_MOST_WORK: Final = 1 << 26
"""Maximum number of bytes that all folds of one run read and write; further folds are skipped."""

_INTEGERS: Final = ("pred", "signed", "unsigned")


class Known(NamedTuple):
    """The elements of a constant as bytes, with its type.

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
        """All elements, in the shape of the type; a splat is a view of one element."""
        return to_array(DenseAttr(self.raw, self.type))

    @property
    def element(self) -> np.ndarray:
        """The one element of a splat, as an array of rank 0."""
        return to_array(DenseAttr(self.raw, TensorType(self.type.element, ())))

    def as_type(self, type: TensorType) -> DenseAttr:
        """Return a literal of another type with the bytes of this constant."""
        return DenseAttr(self.raw, type)


class Limits:
    """Limits of folding in one run of a pass: element counts, and a budget of bytes.

    Args:
        max_elements: Largest number of elements of a result, where upstream has a limit; `None` for
            no limit.
        optimize_float: Fold floats, not only integers.
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
        """Return the elements of a constant.

        The result is `None` if `value` is not a constant, or the budget is spent.

        >>> from hloscope.mlir import I32
        >>> type = TensorType(I32, (1000000, 1000000))
        >>> constant = Operation("stablehlo.constant", properties={"value": DenseAttr("7", type)})
        >>> Limits().known(Value(type, constant)).element.item()
        7
        """
        literal = literal_of(value)
        if literal is None:
            return None
        # Several patterns ask for the elements of one constant: they are read, and counted, once.
        # The literal is compared, since a pattern may give a constant another one.
        found = self._read.get(value)
        if found is None or found[0] is not literal:
            known = self._elements(literal) if self.spend(_size(literal)) else None
            found = self._read[value] = literal, known
        return found[1]

    def is_constant(self, value: Value) -> bool:
        """Is the value defined by a constant op?

        The elements are not read.
        """
        return literal_of(value) is not None

    def spend(self, bytes: int) -> bool:
        """Subtract `bytes` from the budget; if less is left, change nothing and return false."""
        if bytes > self.left:
            return False
        self.left -= bytes
        return True

    def allows(self, type: TensorType) -> bool:
        """May a result of this static type be folded, given its number of elements?"""
        return self.max_elements is None or _count(type) <= self.max_elements

    def folds(self, element: ElementType) -> bool:
        """Are constants of this element type folded: integers, and floats if the option is on?"""
        return (element.kind in _INTEGERS and element.name != "index") or self.folds_float(element)

    def folds_float(self, element: ElementType) -> bool:
        """Is the element type a float, and are floats folded?"""
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
"""A rewrite function that reads constants; its `Limits` bound what it reads and computes."""


def limited(patterns: Iterable[Pattern], limits: Limits) -> Patterns:
    """Return patterns of `LimitedRewrite` functions as patterns that share `limits`.

    A pattern is not applied if the new op would be invalid, which means that the program is.

    >>> folds = Patterns()
    >>> @folds.on("stablehlo.add")
    ... def fold_add(rewriter, op, limits):
    ...     return False
    >>> [pattern.name for pattern in limited(folds, Limits())]
    ['fold_add']
    """
    return Patterns(
        pattern._replace(rewrite=_with_limits(pattern.rewrite, limits)) for pattern in patterns
    )


def _with_limits(rewrite: LimitedRewrite, limits: Limits) -> Rewrite:
    def pattern(rewriter: Rewriter, operation: Operation) -> bool:
        try:
            return rewrite(rewriter, operation, limits)
        except HloscopeError:  # the new op would be invalid, and so is the program
            return False

    return pattern


def literal_of(value: Value) -> DenseAttr | None:
    """Return the literal of a constant.

    `None` if `value` is not a constant, or its type is not the literal's.
    """
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name not in CONSTANTS:
        return None
    literal = owner.get("value")
    return literal if isinstance(literal, DenseAttr) and literal.type == value.type else None


def work_of(type: TensorType) -> int:
    """Return the number of bytes that reading or writing a value of this static type costs."""
    return _count(type) * max(1, type.element.bits // 8)


def _count(type: TensorType) -> int:
    return prod(size or 0 for size in type.sizes)


def _size(literal: DenseAttr) -> int:
    """Return the length of a literal: the characters or bytes that are inspected to read it."""
    return len(literal.literal)
