"""Sizes with names: what is known of them, and which of them are the same.

A size is an expression over runtime variables, `Runtime(i)` for the symbol of number `i`.  What the
program asserts of sizes, and what its ops need to be equal, holds whenever it runs to its end, so
it may be used everywhere.
"""

from __future__ import annotations

import re
from math import gcd
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    RESERVED,
    Const,
    Expr,
    FloorDiv,
    Interval,
    Runtime,
    Sum,
    Var,
    as_sum,
    linear,
    substitute,
    variables,
)
from hloscope.indexing.variables import Constraint, RuntimeVariable
from hloscope.ir import ELEMENT_TYPES, Instruction, TensorType
from hloscope.ops import GetDimensionSize
from hloscope.simplifier import Domain

Shape: TypeAlias = tuple[Expr, ...]
MOST_SYMBOLS: Final = 4096
"""Sizes with names of one program; of more, nothing is told."""
_LONGEST_NAME: Final = 60
_SCALAR: Final = TensorType(ELEMENT_TYPES["s32"], ())


class Symbols:
    """The symbols of a program, what they are equal to, and what else is known."""

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
        """The symbol for the size of a dimension of a value, at a path of calls."""
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

    def element(self, path: int, value: Instruction, index: int | None, holds: Interval) -> Runtime:
        """The symbol for an integer that a value holds, at a path of calls, and where it lies."""
        key = path, value, -1, -1 if index is None else index
        if key in self._known:
            return self._known[key]
        at = () if index is None else (Const(index),)
        name = value.name if index is None else f"{value.name}_{index}"
        found = self._known[key] = self._new(name, holds, value, at)
        return found

    def tick(self) -> int:
        """The next number."""
        self._ticks += 1
        return self._ticks

    def path(self, caller: int, call: Instruction | None) -> int:
        """A number for a call made at a path of calls."""
        return self._paths.setdefault((caller, call), len(self._paths))

    def _new(
        self, name: str, interval: Interval, origin: Instruction, index: tuple[Expr, ...]
    ) -> Runtime:
        variable = RuntimeVariable(interval, self._free(name), origin, index)
        self.variables.append(variable)
        self._domain = None
        return Runtime(len(self.variables) - 1)

    def _free(self, name: str) -> str:
        """A name that no other symbol has and no variable of a map has by its position."""
        stem = _stem(name)
        free, k = stem, 1
        while free in self._taken:
            free, k = f"{stem}_{k}", k + 1
        self._taken.add(free)
        return free

    def call(self, e: Expr, name: str) -> None:
        """Give a name to a size, if it is a symbol or known to be a multiple of a new one."""
        e = self.settled(e)
        match e:
            case Runtime(i):
                if i not in self._called:
                    self._called.add(i)
                    self.variables[i] = replace(self.variables[i], name=self._free(name))
            case FloorDiv(Runtime(i) as whole, Const(step)) if step > 1:
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
        """What is known of all symbols."""
        if self._domain is None:
            box: dict[Var, Interval] = {
                Runtime(i): v.interval for i, v in enumerate(self.variables)
            }
            known = tuple([(e, i) for e, i in self.facts.items() if not isinstance(e, Const)])
            self._domain = Domain(box, known)
        return self._domain

    def settled(self, e: Expr) -> Expr:
        """The expression with symbols that equal others replaced, and simplified."""
        if not variables(e):
            return e
        while new := {v: self._equal[v] for v in variables(e) if v in self._equal}:
            e = substitute(e, new)
        return self.domain.simplify(e)

    def bounds(self, e: Expr) -> Interval:
        """An interval that holds all values of an expression."""
        return self.domain.bounds(self.settled(e))

    def equal(self, a: Expr, b: Expr) -> bool:
        """Are two sizes known to be the same?"""
        return self.settled(a - b) == Const(0)

    def learn(self, a: Expr, b: Expr, interval: Interval) -> None:
        """Remember that `a - b` lies in an interval whenever the program runs to its end."""
        if interval == Interval.point(0):
            self.unify(a, b)
            return
        difference, shift = self.settled(a - b), 0
        if isinstance(difference, Sum):
            shift = difference.const
            difference -= shift
        if isinstance(difference, Sum) and [c for _, c in difference.terms] == [-1]:
            difference, interval, shift = -difference, -interval, -shift
        self._note(difference, interval - shift)

    @property
    def learnt(self) -> int:
        """Grows with what is known."""
        return self._learnt

    def _note(self, e: Expr, interval: Interval) -> None:
        """Add a fact about a settled expression; one that cannot be is left out."""
        if isinstance(e, Sum) and not e.const and len(e.terms) == 1 and e.terms[0][1] > 1:
            (e, step), lo, hi = e.terms[0], interval.lo, interval.hi
            lo = lo if lo <= NEG_INF else -(-lo // step)
            interval = Interval(lo, hi if hi >= POS_INF - 1 else hi // step)
        if isinstance(e, Runtime):
            old = self.variables[e.index]
            both = old.interval & interval
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
        """Remember that two sizes are the same whenever the program runs to its end."""
        difference = _without_factor(self.settled(a - b))
        terms, _ = as_sum(difference)
        single = [
            (v, factor)
            for v, factor in terms
            if isinstance(v, Runtime) and abs(factor) == 1 and _occurs(v, terms) == 1
        ]
        if single:
            v, factor = max(single, key=lambda pair: pair[0].index)
            self._replace(v, v - difference * factor)
        else:
            self._note(difference, Interval.point(0))

    def _replace(self, v: Runtime, by: Expr) -> None:
        interval = self.variables[v.index].interval
        self._equal[v] = by
        self._learnt += 1
        self._domain = None
        facts = [*self.facts.items()]
        self.facts = {}
        for e, known in [*facts, (by, interval)]:
            self._note(self.settled(e), known)

    def names(self, e: Expr) -> set[str]:
        """The names of the symbols in an expression."""
        found = variables(self.settled(e))
        return {self.variables[v.index].name for v in found if isinstance(v, Runtime)}

    def known(self, used: set[Runtime]) -> list[Constraint]:
        """What is known of symbols besides their least and greatest values."""
        return [(e, i) for e, i in self.facts.items() if set(variables(e)) <= used]


def _stem(name: str) -> str:
    """A name as maps have it."""
    stem = re.sub(r"[^A-Za-z0-9_]", "_", name)[:_LONGEST_NAME]
    is_name = re.match(r"[A-Za-z_]", stem) and stem not in RESERVED
    return stem if is_name and not re.fullmatch(r"(d|s|rt)\d+", stem) else f"size_{stem}"


def _without_factor(e: Expr) -> Expr:
    """A sum that is 0, without a number that all of it is a multiple of."""
    if not isinstance(e, Sum):
        return e
    factor = gcd(e.const, *[c for _, c in e.terms])
    return linear(*[(t, c // factor) for t, c in e.terms], (e.const // factor, 1))


def _occurs(v: Runtime, terms: tuple[tuple[Expr, int], ...]) -> int:
    """In how many terms a symbol is."""
    return sum(v in variables(e) for e, _ in terms)


def constants(shape: Shape) -> tuple[int, ...] | None:
    """The sizes, if all of them are numbers."""
    found = [size.value for size in shape if isinstance(size, Const)]
    return tuple(found) if len(found) == len(shape) else None


def product_of(shape: Shape) -> Expr:
    """The number of elements."""
    total: Expr = Const(1)
    for size in shape:
        total = total * size
    return total


def sum_of(sizes: list[Expr]) -> Expr:
    """The sum of sizes."""
    return linear(*[(size, 1) for size in sizes]) if sizes else Const(0)
