"""Named sizes (symbols): known facts about them, and values and maps in terms of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import gcd
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    RESERVED,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Range,
    Runtime,
    Sum,
    Var,
    as_sum,
    linear,
    substitute,
    variables,
)
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.registry import leaves
from hloscope.indexing.variables import Constraint, RuntimeVariable, Variable, below, substituted
from hloscope.ir import ELEMENT_TYPES, Computation, ElementType, Instruction, TensorType, Type
from hloscope.ops import GetDimensionSize, control
from hloscope.simplifier import Domain

# --------------------------------------------------------------------------------------------------
# Named sizes: known facts about them, and equalities between them.
#
# A size is an expression over runtime variables, where `Runtime(i)` is symbol `i`. Assertions of
# the program and equalities that its ops require hold whenever it runs to its end, so they are used
# everywhere.


Shape: TypeAlias = tuple[Expr, ...]
MOST_SYMBOLS: Final = 4096
"""Maximum number of named sizes of one program; with more, sizes are what types declare."""
_LONGEST_NAME: Final = 60
_SCALAR: Final = TensorType(ELEMENT_TYPES["s32"], ())


class Symbols:
    """The named sizes of a program, with equalities and other facts about them.

    Symbol `i` is `Runtime(i)` in expressions.
    """

    def __init__(self) -> None:
        self.variables: list[RuntimeVariable] = []
        self.facts: dict[Expr, Interval] = {}
        self._equal: dict[Var, Expr] = {}
        self._taken: set[str] = set()
        self._called: set[int] = set()
        self._known: dict[tuple[int, Instruction, int, int], Runtime] = {}
        self._paths: dict[tuple[int, Instruction | None], int] = {}
        self._domain: Domain | None = None
        self._learnt = self._ticks = 0

    def size(
        self, path: int, value: Instruction, leaf: int, dimension: int, most: int = POS_INF - 1
    ) -> Runtime:
        """Return the symbol for a size of a value; the same one for equal arguments.

        Args:
            path: Number of the sequence of calls that leads to the value.
            value: The value.
            leaf: Number of the array in it.
            dimension: The dimension.
            most: Largest possible size.
        """
        key = path, value, leaf, dimension
        if key in self._known:
            return self._known[key]
        of = f"{value.name}#{leaf}" if leaf else value.name
        origin = Instruction(
            f"dimension {dimension} of {of}", _SCALAR, GetDimensionSize(dimension), (value,)
        )
        found = self._new(f"{value.name}_{dimension}", Interval(0, most), origin, ())
        self._known[key] = found
        return found

    def element(
        self, path: int, value: Instruction, index: int | None, interval: Interval
    ) -> Runtime:
        """Return the symbol for an integer element of a value; the same one for equal arguments.

        Args:
            path: Number of the sequence of calls that leads to the value.
            value: An array of rank 0 or 1.
            index: Index of the element; `None` for a scalar.
            interval: Interval of the possible values.
        """
        key = path, value, -1, -1 if index is None else index
        if key in self._known:
            return self._known[key]
        at = () if index is None else (Const(index),)
        name = value.name if index is None else f"{value.name}_{index}"
        found = self._known[key] = self._new(name, interval, value, at)
        return found

    def next_number(self) -> int:
        """Return the next number of a counter, which starts at 1; it orders the entered values."""
        self._ticks += 1
        return self._ticks

    def path(self, caller: int, call: Instruction | None) -> int:
        """Return the number of a sequence of calls: sequence number `caller`, then `call`.

        Equal sequences have equal numbers.
        """
        return self._paths.setdefault((caller, call), len(self._paths))

    def _new(
        self, name: str, interval: Interval, origin: Instruction, index: tuple[Expr, ...]
    ) -> Runtime:
        variable = RuntimeVariable(interval, self._unused_name(name), origin, index)
        self.variables.append(variable)
        self._domain = None
        return Runtime(len(self.variables) - 1)

    def _unused_name(self, name: str) -> str:
        """Return an unused name for a symbol: `name`, made valid and unique."""
        stem = _valid_name(name)
        free, k = stem, 1
        while free in self._taken:
            free, k = f"{stem}_{k}", k + 1
        self._taken.add(free)
        return free

    def name_size(self, e: Expr, name: str) -> None:
        """Give the symbol for the size `e` the name `name`.

        If `e` is a symbol divided by a constant that divides it, a new symbol gets the name. Other
        expressions are left unnamed, and so are symbols that have been given a name.
        """
        e = self.simplified(e)
        match e:
            case Runtime(i):
                if i not in self._called:
                    self._called.add(i)
                    self.variables[i] = replace(self.variables[i], name=self._unused_name(name))
            case FloorDiv(Runtime(i) as whole, Const(step)) if step > 1:
                # A symbol that is a multiple of `step` is replaced by `step` times a new symbol
                # with that name.
                if self.bounds(whole % step) == Interval.point(0):
                    old = self.variables[i]
                    origin = Instruction(name, _SCALAR, GetDimensionSize(0))
                    if old.origin is not None:
                        said = f"{old.origin.name}, divided by {step}"
                        origin = Instruction(said, _SCALAR, old.origin.op, old.origin.operands)
                    least = -(-old.interval.lo // step) if old.interval.lo > NEG_INF else NEG_INF
                    part = self._new(name, Interval(least, POS_INF), origin, ())
                    self._called.add(part.index)
                    self._replace(whole, part * step)
            case _:
                pass

    @property
    def domain(self) -> Domain:
        """The bounds of all symbols and the facts about them, as a domain of the simplifier."""
        if self._domain is None:
            box: dict[Var, Interval] = {
                Runtime(i): v.interval for i, v in enumerate(self.variables)
            }
            known = tuple([(e, i) for e, i in self.facts.items() if not isinstance(e, Const)])
            self._domain = Domain(box, known)
        return self._domain

    def simplified(self, e: Expr) -> Expr:
        """Return the simplified expression, with symbols replaced by what they equal."""
        if not variables(e):
            return e
        while new := {v: self._equal[v] for v in variables(e) if v in self._equal}:
            e = substitute(e, new)
        return self.domain.simplify(e)

    def bounds(self, e: Expr) -> Interval:
        """Return an interval that contains all values of an expression."""
        return self.domain.bounds(self.simplified(e))

    def equal(self, a: Expr, b: Expr) -> bool:
        """Are two sizes known to be equal?"""
        return self.simplified(a - b) == Const(0)

    def learn(self, a: Expr, b: Expr, interval: Interval) -> None:
        """Record the fact that `a - b` lies in an interval in every run that ends without error."""
        if interval == Interval.point(0):
            self.unify(a, b)
            return
        difference, shift = self.simplified(a - b), 0
        if isinstance(difference, Sum):
            shift = difference.const
            difference -= shift
        if isinstance(difference, Sum) and [c for _, c in difference.terms] == [-1]:
            difference, interval, shift = -difference, -interval, -shift
        self._note(difference, interval - shift)

    @property
    def number_of_facts(self) -> int:
        """Number of facts recorded so far."""
        return self._learnt

    def _note(self, e: Expr, interval: Interval) -> None:
        """Record that `e` lies in an interval; a contradiction to earlier facts is ignored."""
        if isinstance(e, Sum) and not e.const and len(e.terms) == 1 and e.terms[0][1] > 1:
            # `step * e in [lo, hi]` bounds `e`, rounded inwards; infinite ends stay infinite.
            (e, step), lo, hi = e.terms[0], interval.lo, interval.hi
            lo = lo if lo <= NEG_INF else -(-lo // step)
            interval = Interval(lo, hi if hi >= POS_INF - 1 else hi // step)
        if isinstance(e, Runtime):
            old = self.variables[e.index]
            both = old.interval & interval
            # A contradiction can only come from code that the program never reaches. A fact that is
            # known already is not recorded.
            if both.is_empty or both == old.interval:
                return
            self.variables[e.index] = replace(old, interval=both)
            self._learnt += 1
        elif isinstance(e, Const):
            return
        else:
            both = self.facts.get(e, Interval.EVERYTHING) & interval
            if both.is_empty or both.contains(self.domain.bounds(e)):
                return
            self.facts[e] = both
            self._learnt += 1
        self._domain = None

    def unify(self, a: Expr, b: Expr) -> None:
        """Record the fact that two sizes are equal in every run that ends without error."""
        difference = _divided_by_content(self.simplified(a - b))
        terms, _ = as_sum(difference)
        # A symbol with factor 1 that occurs once can be replaced by the rest; the newest one is, so
        # that older names stay.
        used = [variables(e) for e, _ in terms]
        single = [
            (v, factor)
            for v, factor in terms
            if isinstance(v, Runtime) and abs(factor) == 1
            if sum(v in inside for inside in used) == 1
        ]
        if single:
            v, factor = max(single, key=lambda pair: pair[0].index)
            self._replace(v, v - difference * factor)
        else:
            self._note(difference, Interval.point(0))

    def _replace(self, v: Runtime, replacement: Expr) -> None:
        interval = self.variables[v.index].interval
        self._equal[v] = replacement
        self._learnt += 1
        self._domain = None
        facts = [*self.facts.items()]
        self.facts = {}
        for e, known in [*facts, (replacement, interval)]:
            self._note(self.simplified(e), known)

    def names(self, e: Expr) -> set[str]:
        """Return the names of the symbols in an expression."""
        found = variables(self.simplified(e))
        return {self.variables[v.index].name for v in found if isinstance(v, Runtime)}

    def known(self, used: set[Runtime]) -> list[Constraint]:
        """Return the recorded constraints whose symbols are all in `used`.

        Bounds of single symbols are left out.
        """
        return [(e, i) for e, i in self.facts.items() if set(variables(e)) <= used]


def _valid_name(name: str) -> str:
    """Return the text as a valid variable name of maps that is no default name such as `d0`."""
    stem = re.sub(r"[^A-Za-z0-9_]", "_", name)[:_LONGEST_NAME]
    is_name = re.match(r"[A-Za-z_]", stem) and stem not in RESERVED
    return stem if is_name and not re.fullmatch(r"(d|s|rt)\d+", stem) else f"size_{stem}"


def _divided_by_content(e: Expr) -> Expr:
    """Return a sum divided by the greatest common divisor of its coefficients and constant."""
    if not isinstance(e, Sum):
        return e
    factor = gcd(e.const, *[c for _, c in e.terms])
    return linear(*[(t, c // factor) for t, c in e.terms], (e.const // factor, 1))


def constants(shape: Shape) -> tuple[int, ...] | None:
    """Return the sizes as integers, or `None` if some are not constants."""
    found = [size.value for size in shape if isinstance(size, Const)]
    return tuple(found) if len(found) == len(shape) else None


def product_of(shape: Shape) -> Expr:
    """Return the product of the sizes: the number of elements."""
    total: Expr = Const(1)
    for size in shape:
        total = total * size
    return total


def sum_of(sizes: list[Expr]) -> Expr:
    """Return the sum of sizes."""
    return linear(*[(size, 1) for size in sizes]) if sizes else Const(0)


# --------------------------------------------------------------------------------------------------
# Values as sizes and, for small integer arrays, elements, in terms of symbols.


SIZE_BITS: Final = 32
"""Number of bits from which on integers may be sizes, which are assumed not to overflow."""
MOST_ELEMENTS: Final = 64
"""Maximum number of elements of an integer array whose elements are followed."""
Contents: TypeAlias = tuple[Expr | None, ...]
"""Elements of an integer array in row-major order; `None` for an element that is not known."""


class Leaf(Struct, frozen=True):
    """One array of a value, with its sizes and elements as expressions in symbols.

    Attributes:
        shape: Its sizes; `None` if it is not an array.
        contents: Its elements in row-major order, for a small array of integers; else `None`.
    """

    shape: Shape | None
    contents: Contents | None = None


CALLS: Final = control.Call, control.Composite
"""Ops whose value is the value of the computation they call."""
ArrayValues: TypeAlias = tuple[Leaf, ...]
"""The arrays of a value, in flattened order."""


class Frame:
    """Symbolic values of a computation, for one sequence of calls that leads to it.

    Attributes:
        path: Number of that sequence of calls.
        values: The arrays of each value that was entered.
        order: Number of each value in the order of entering, counted over all computations.
        inner: The frames of the functions that it calls, by call.
        caller: The calling frame, and the call.
        certain: Whether its instructions run whenever the program runs to its end.
    """

    def __init__(
        self, symbols: Symbols, path: int, computation: Computation, *, certain: bool
    ) -> None:
        self.computation: Final = computation
        self.symbols: Final = symbols
        self.path: Final = path
        self.values: Final[dict[Instruction, ArrayValues]] = {}
        self.certain: Final = certain
        self.order: Final[dict[Instruction, int]] = {}
        self.inner: Final[dict[Instruction, Frame]] = {}
        self.caller: tuple[Frame, Instruction] | None = None

    def of(self, value: Instruction) -> ArrayValues:
        """Return the arrays of a value; those of its declared type if it was not entered."""
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = declared(self, value)
        return found

    def operands(self, ins: Instruction) -> list[Leaf]:
        """Return the first array of each operand of an instruction."""
        found = [self.of(operand) for operand in ins.operands]
        return [known[0] if known else Leaf(None) for known in found]

    def enter(self, value: Instruction, known: ArrayValues) -> None:
        """Store `known` as the arrays of a value, and number the value in the order of entering."""
        self.values[value] = known
        self.order[value] = self.symbols.next_number()

    def same(self, sizes: Sequence[Expr | None]) -> Expr | None:
        """Return one size for several that must be equal; `None` if none of them is known.

        Their equality is recorded if the frame's instructions certainly run.
        """
        known = [size for size in sizes if size is not None]
        if not known:
            return None
        if self.certain:
            for other in known[1:]:
                self.symbols.unify(known[0], other)
        settled = [self.symbols.simplified(size) for size in known]
        return next((size for size in settled if isinstance(size, Const)), settled[0])


def declared(frame: Frame, value: Instruction) -> ArrayValues:
    """Return the arrays of a value with the sizes of its type; dynamic sizes are new symbols."""
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
    """Return the size of a dimension by the type of the array; a new symbol if it is dynamic."""
    size, bound = type.sizes[dimension], type.each_bound[dimension]
    if size is not None:
        return Const(size)
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
    """Return the interval of the values of an integer type, intersected with that of int64.

    >>> from hloscope.ir import ELEMENT_TYPES
    >>> print(values_of(ELEMENT_TYPES["s8"]), values_of(ELEMENT_TYPES["u64"]).lo)
    [-128, 127] 0
    """
    limits = element.integer_limits
    assert limits is not None
    return Interval(max(limits[0], NEG_INF), min(limits[1], POS_INF))


def is_followed(type: Type) -> bool:
    """Is the type a small static array of integers or booleans, of rank 0 or 1?"""
    return (
        isinstance(type, TensorType)
        and type.element.kind in ("signed", "unsigned", "pred")
        and type.rank < 2
        and type.is_static
        and type.num_elements <= MOST_ELEMENTS
    )


Rule: TypeAlias = Callable[[Frame, Instruction, Any], Sequence[Expr | None] | None]
"""Function of a frame, an instruction and its op.

It returns the sizes or the elements of the result's first array, as far as they are known.
"""


# --------------------------------------------------------------------------------------------------
# Builder of maps whose variables have symbolic sizes.


UNBOUNDED = below(POS_INF)
"""A variable with the interval `[0, infinity)`; its upper bound is a constraint."""


class SizedBuilder:
    """Builder of one map, with variables whose sizes may be symbols and with constraints."""

    def __init__(self, symbols: Symbols, shape: Shape) -> None:
        self.symbols = symbols
        self.conditions: list[Constraint] = []
        self.dims = [self._variable(Dim(k), size) for k, size in enumerate(shape)]
        self.ranges: list[Variable] = []

    def _variable(self, variable: Expr, size: Expr) -> Variable:
        size = self.symbols.simplified(size)
        if isinstance(size, Const):
            return below(size.value)
        self.conditions.append((variable - size, Interval(NEG_INF, -1)))
        return UNBOUNDED

    def range(self, size: Expr) -> Range:
        """Add a range variable with the values `[0, size)`, and return it."""
        variable = Range(len(self.ranges))
        self.ranges.append(self._variable(variable, size))
        return variable

    def require(self, expr: Expr, lo: int, hi: int) -> None:
        """Add the constraint `lo <= expr <= hi`."""
        settled = self.symbols.simplified(expr)
        if isinstance(settled, Const) or set(variables(settled)) & set(variables(expr)):
            expr = settled
        self.conditions.append((expr, Interval(lo, hi)))

    def below(self, expr: Expr, size: Expr) -> None:
        """Add the constraint `0 <= expr < size`."""
        self.require(expr, 0, POS_INF)
        self.require(expr - size, NEG_INF, -1)

    def map(self, results: Iterable[Expr]) -> IndexingMap:
        """Return the map with these results; symbols become runtime variables of the map."""
        settled = [self.symbols.simplified(e) for e in results]
        conditions = [(self.symbols.simplified(e), i) for e, i in self.conditions]
        used = variables(*settled, *[e for e, _ in conditions])
        sizes = sorted([v for v in used if isinstance(v, Runtime)], key=lambda v: v.index)
        new = {v: Runtime(k) for k, v in enumerate(sizes)}
        exprs = substituted([e for e, _ in conditions], new)  # type: ignore[arg-type]
        return IndexingMap(
            self.dims,
            self.ranges,
            [self.symbols.variables[v.index] for v in sizes],
            substituted(settled, new),  # type: ignore[arg-type]
            [(e, interval) for e, (_, interval) in zip(exprs, conditions, strict=True)],
        ).simplify()
