"""Relations between integer tuples, built in isl. Only this module loads islpy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Sum,
    Var,
    bounds,
    postorder,
)
from hloscope.support.lazy import lazy

islpy: Any = lazy("islpy")

BUDGET: Final = 2_000_000
"""Default number of isl's steps, about one or two seconds, after which a proof is undecided."""
FEW: Final = 12
"""Number of quotients above which the budget shrinks with the cube of their number."""
MOST_QUOTIENTS: Final = 64
"""Maximum number of quotients of a relation.

With more, isl is not called and the proof is undecided.
"""
CASES: Final = 64
"""Maximum number of values of a factor or divisor that is split into one case per value.

With more values the proof is undecided.
"""
WIDE: Final = 64
"""Number of bits above which an integer is wide.

Each isl step on wide integers is counted as `WIDE_COSTS` steps.
"""
WIDE_COSTS: Final = 8

_LONG: Final = 32
"""Number of bits that C's `long` has on every system."""

Constraint: TypeAlias = tuple[Expr, Interval]
_State = threading.local()


class System(Struct, frozen=True, eq=False):
    """A relation from `num_dims` dimension variables to `results`.

    Attributes:
        num_dims: Number of dimension variables `Dim(0)`, `Dim(1)`, …
        num_ranges: Number of range variables `Range(0)`, …; a pair is in the relation if some
            of their values satisfy the constraints.
        box: The interval of each variable.
        constraints: Pairs `(expr, interval)` that all hold.
        results: The coordinates on the right, as expressions in the variables.
        runtime: A key for each `Runtime(i)`; equal keys mean equal values.
        values: Every value that each `Runtime(i)` can have, where the box may allow fewer. If all
            systems of a proof agree on them, other values are excluded.
    """

    num_dims: int
    num_ranges: int
    box: Mapping[Var, Interval]
    constraints: Sequence[Constraint]
    results: Sequence[Expr]
    runtime: Sequence[Hashable] = ()
    values: Sequence[Interval] = ()


class Parameters(Struct, frozen=True):
    """The isl parameters of one proof, which stand for runtime variables.

    Attributes:
        number: Position of the isl parameter for each key of `System.runtime`.
        facts: Intervals of the parameters' values, by key; not all keys have one.
    """

    number: dict[Hashable, int]
    facts: dict[Hashable, Interval]

    @classmethod
    def of(cls, *systems: System) -> Parameters:
        """Return the isl parameters of some systems: one for each distinct key in their `runtime`.

        The interval of a key becomes a fact if all systems with the key have the same interval.
        """
        number = dict.fromkeys(key for s in systems for key in s.runtime)
        intervals: dict[Hashable, set[Interval]] = {key: set() for key in number}
        for s in systems:
            for key, interval in zip(s.runtime, s.values):  # noqa: B905  # values may be left out
                intervals[key].add(interval)
        # Systems that disagree about the possible values of a key leave it without a fact, which is
        # the safe side.
        facts = {key: found.pop() for key, found in intervals.items() if len(found) == 1}
        return cls({key: i for i, key in enumerate(number)}, facts)

    def named(self, isl: Any, space: Any) -> Any:
        """Return the isl space with its parameters named `p0`, `p1` and so on.

        This is necessary because isl aligns parameters by name.
        """
        for i in range(len(self.number)):
            space = space.set_dim_name(isl.dim_type.param, i, f"p{i}")
        return space

    def possible(self, isl: Any, relation: Any) -> Any:
        """Return an `islpy.Map` or `Set`, restricted to parameter values that `facts` allow."""
        space = self.named(isl, isl.Space.params_alloc(isl_context(), len(self.number)))
        assumed = isl.Set.universe(space)
        for key, interval in self.facts.items():
            at = self.number[key]
            if interval.lo > NEG_INF:
                low = isl.Val.read_from_str(isl_context(), str(interval.lo))
                assumed = assumed.lower_bound_val(isl.dim_type.param, at, low)
            if interval.hi < POS_INF:
                high = isl.Val.read_from_str(isl_context(), str(interval.hi))
                assumed = assumed.upper_bound_val(isl.dim_type.param, at, high)
        return relation.intersect_params(assumed)


class UndecidedError(Exception):
    """Raised if isl cannot decide a statement; the message is the reason."""


class Builder(Struct):
    """Converter of one system's expressions into isl's piecewise affine functions.

    The functions are over the dimension and range variables; runtime variables are parameters.
    """

    isl: Any
    ctx: Any
    system: System
    parameters: Parameters
    space: Any = None
    known: dict[Expr, Any] = field(default_factory=dict)
    quotients: int = 0
    is_wide: bool = False

    def __post_init__(self) -> None:
        isl, s = self.isl, self.system
        count = len(self.parameters.number)
        space = isl.Space.set_alloc(self.ctx, count, s.num_dims + s.num_ranges)
        self.space = self.parameters.named(isl, space)

    def val(self, value: int) -> Any:
        if not self.is_wide and value.bit_length() > WIDE:
            self.is_wide = True
            self.slow_down()
        if value.bit_length() < _LONG:  # reading a text takes many steps
            return self.isl.Val.int_from_si(self.ctx, value)
        return self.isl.Val.read_from_str(self.ctx, str(value))

    def dimension_of(self, v: Var) -> tuple[Any, int]:
        """Return the isl dimension type and the position of a variable in the space."""
        if isinstance(v, Runtime):
            return self.isl.dim_type.param, self.parameters.number[self.system.runtime[v.index]]
        offset = self.system.num_dims if isinstance(v, Range) else 0
        return self.isl.dim_type.in_, offset + v.index

    def linear(self, terms: Sequence[tuple[Expr, int]], const: int) -> Any:
        """Return `sum(c * t) + const` as an `islpy.PwAff`.

        Terms that are not variables are in `known`.
        """
        aff = self.isl.Aff.zero_on_domain(self.isl.LocalSpace.from_space(self.space))
        aff = aff.set_constant_val(self.val(const))
        rest = []
        for t, c in terms:
            if isinstance(t, Dim | Range | Runtime):
                kind, at = self.dimension_of(t)
                c += int(str(aff.get_coefficient_val(kind, at)))
                aff = aff.set_coefficient_val(kind, at, self.val(c))
            else:
                rest.append(self.known[t].scale_val(self.val(c)))
        return reduce(lambda a, b: a.add(b), rest, self.isl.PwAff.from_aff(aff))

    def expr(self, e: Expr) -> Any:
        for x in postorder(e):
            if x not in self.known:
                if isinstance(x, FloorDiv | CeilDiv | Mod):
                    self.quotients += 1
                    if self.quotients > FEW:
                        self.slow_down()
                self.known[x] = self.node(x)
        return self.known[e]

    def slow_down(self) -> None:
        """Lower the number of steps allowed to isl, as quotients and wide integers slow each step.

        Raises:
            UndecidedError: There are more than `MOST_QUOTIENTS` different divisions.
        """
        if self.quotients > MOST_QUOTIENTS:
            raise UndecidedError(f"more than {MOST_QUOTIENTS} different divisions")
        if _State.steps:
            steps = _State.steps // (WIDE_COSTS if self.is_wide else 1)
            steps = steps * FEW**3 // max(FEW, self.quotients) ** 3
            _State.allowed = max(1, steps)
            self.ctx.set_max_operations(_State.allowed)

    def node(self, x: Expr) -> Any:
        known = self.known
        match x:
            case Const(value):
                return self.linear((), value)
            case Dim() | Range() | Runtime():
                return self.linear(((x, 1),), 0)
            case Sum(terms, const):
                return self.linear(terms, const)
            case Min(args):
                return reduce(lambda a, b: a.min(b), [known[a] for a in args])
            case Max(args):
                return reduce(lambda a, b: a.max(b), [known[a] for a in args])
            case FloorDiv(num, den):
                return self.per_value(den, lambda c: self.quotient(known[num], c).floor())
            case CeilDiv(num, den):
                return self.per_value(den, lambda c: self.quotient(known[num], c).ceil())
            case Mod(num, den):
                return self.per_value(den, lambda c: known[num].mod_val(self.val(abs(c))))
            case Product(factors):
                return self.product(factors)

    def quotient(self, num: Any, den: int) -> Any:
        """Return `num / den` without rounding, for a nonzero `den`."""
        return (num if den > 0 else num.neg()).scale_down_val(self.val(abs(den)))

    def product(self, factors: Sequence[Expr]) -> Any:
        """Return a product as an `islpy.PwAff`.

        The factor with the widest range stays symbolic; the others are split into one case per
        value.

        Raises:
            UndecidedError: Another factor has more than `CASES` values.
        """
        sizes = [bounds(f, self.system.box).size for f in factors]
        widest = max(range(len(factors)), key=sizes.__getitem__)
        value = self.known[factors[widest]]
        for i, factor in enumerate(factors):
            if i != widest:
                old = value
                value = self.per_value(factor, lambda c: old.scale_val(self.val(c)), zero=True)  # noqa: B023
        return value

    def per_value(self, x: Expr, of: Callable[[int], Any], *, zero: bool = False) -> Any:
        """Return the `islpy.PwAff` that has the value `of(c)` where `x` has the value `c`.

        The value 0 of `x` is left out unless `zero` is true.

        Raises:
            UndecidedError: `x` has more than `CASES` values, or only the value 0 and `zero` is
                false.
        """
        if isinstance(x, Const) and x.value:
            return of(x.value)
        values = bounds(x, self.system.box)
        if values.size > CASES:
            kind = "a product" if zero else "a division"
            raise UndecidedError(f"{kind} by `{x}` with {values} is not affine")
        # Each piece is affine where the divisor or factor is fixed, and the pieces are disjoint.
        pieces = [
            of(c).intersect_domain(self.known[x].eq_set(self.linear((), c)))
            for c in values
            if c or zero
        ]
        if not pieces:
            raise UndecidedError(f"division by `{x}`, which is zero")
        return reduce(lambda a, b: a.union_add(b), pieces)

    def domain(self) -> Any:
        """Return the `islpy.Set` of dimensions and ranges that satisfy box and constraints."""
        points = self.isl.Set.universe(self.space)
        for v, interval in self.system.box.items():
            points = self.restrict(points, v, interval)
        for e, interval in self.system.constraints:
            points = self.restrict(points, e, interval)
        return points

    def restrict(self, points: Any, e: Expr, interval: Interval) -> Any:
        """Return the points of an `islpy.Set` at which the value of `e` is in the interval."""
        value = self.expr(e)
        if interval.is_empty:
            return self.isl.Set.empty(self.space)
        if interval.is_point:
            return points.intersect(value.eq_set(self.linear((), interval.lo)))
        if interval.lo > NEG_INF:
            points = points.intersect(value.ge_set(self.linear((), interval.lo)))
        if interval.hi < POS_INF:
            points = points.intersect(value.le_set(self.linear((), interval.hi)))
        return points

    def relation(self) -> Any:
        """Return the system as an `islpy.Map` from dimensions to results."""
        s = self.system
        points = self.domain()
        relation = self.isl.Map.from_domain(points)
        for e in s.results:
            relation = relation.flat_range_product(self.expr(e).as_map())
        # Projecting the ranges out means that some values of them exist.
        return relation.project_out(self.isl.dim_type.in_, s.num_dims, s.num_ranges)


def isl_context() -> Any:
    """Return the isl context of the calling thread; it is created at the first call."""
    if not hasattr(_State, "ctx"):
        _State.ctx, _State.steps = islpy.Context(), 0
    return _State.ctx


@contextmanager
def budgeted(steps: int) -> Iterator[Any]:
    """Context manager in which isl may take at most `steps` steps; yields the module `islpy`.

    Raises:
        UndecidedError: isl ran out of steps, or failed.
    """
    ctx = isl_context()
    ctx.reset_operations()
    ctx.set_max_operations(steps)
    _State.steps = _State.allowed = steps
    try:
        yield islpy
    except islpy.Error as error:
        if "maximal number of operations" in str(error):
            raise UndecidedError(f"not decided within {_State.allowed} steps of isl") from None
        raise UndecidedError(f"isl: {error}") from None
    finally:
        ctx.set_max_operations(0)
        _State.steps = 0
        ctx.reset_operations()


def union_of(
    isl: Any, systems: Sequence[System], parameters: Parameters, shape: tuple[int, int]
) -> Any:
    """Return the union of the systems as an `islpy.Map` from `shape[0]` to `shape[1]` integers.

    Parameter values that `parameters.facts` exclude are left out.
    """
    space = isl.Space.alloc(isl_context(), len(parameters.number), *shape)
    relations = [Builder(isl, isl_context(), s, parameters).relation() for s in systems]
    nothing = isl.Map.empty(parameters.named(isl, space))
    return parameters.possible(isl, reduce(lambda a, b: a.union(b), relations, nothing))


def shape_of(*systems: System) -> tuple[int, int]:
    """Return the number of dimension variables and of results of the systems.

    Without systems it is `(0, 0)`.

    Raises:
        ValueError: The systems differ in these numbers.
    """
    shapes = {(s.num_dims, len(s.results)) for s in systems}
    if len(shapes) > 1:
        listed = ", ".join(f"{n} -> {k}" for n, k in sorted(shapes))
        raise ValueError(f"numbers of variables and results differ: {listed}")
    return shapes.pop() if shapes else (0, 0)


def to_isl(*systems: System) -> Any:
    """Return the union of the relations as an `islpy.Map`; runtime variables are `p0`, `p1`, ….

    Raises:
        ValueError: An expression is not affine, or isl ran out of steps.
    """
    try:
        with budgeted(BUDGET) as isl:
            return union_of(isl, systems, Parameters.of(*systems), shape_of(*systems))
    except UndecidedError as error:
        raise ValueError(str(error)) from None
