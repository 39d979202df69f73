"""Sets and relations of isl as quasi-affine pieces, and the number of their points.

A relation that isl computed (a union, a difference, an image) is converted to disjoint `Piece`s.
The results are expressions in the dimensions of the relation and in range variables. Quotients and
remainders become divisions instead of unknowns with inequalities.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from msgspec import Struct

from hloscope.affine import (
    Const,
    Dim,
    Expr,
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
from hloscope.simplifier.isl_relations import (
    BUDGET,
    Parameters,
    System,
    UndecidedError,
    budgeted,
    shape_of,
    union_of,
)

MAX_PIECES: Final = 256
"""Maximum number of disjoint pieces of a relation; more would be unreadable."""

Constraint = tuple[Expr, Interval]


class Piece(Struct, frozen=True):
    """A relation `{ dims -> results }`, over all values of its range variables.

    An index has one result for each choice of values that satisfies the constraints.

    Attributes:
        num_ranges: Number of range variables: coordinates that the dimensions do not determine.
        results: One expression for each coordinate on the right.
        constraints: Pairs `(expr, interval)` that all hold, with bounds of variables among them.
    """

    num_ranges: int
    results: tuple[Expr, ...]
    constraints: tuple[Constraint, ...]


def pieces_of(isl: Any, relation: Any, num_dims: int) -> list[Piece]:
    """Return disjoint pieces whose union is an isl relation.

    Args:
        isl: The module `islpy`.
        relation: An `islpy.Map`. Its parameters are named `p0`, …; they become `Runtime(0)`, ….
        num_dims: Number of its input dimensions, which become `Dim(0)`, ….

    Raises:
        UndecidedError: There are more than `MAX_PIECES` of them, or isl finds no quotients.
    """
    flat = relation.coalesce().wrap().flatten()
    parts = _basic_sets(flat)
    if len(parts) > MAX_PIECES:
        raise UndecidedError(f"there are {len(parts)} pieces, more than {MAX_PIECES}")
    return [_Reader(isl, part, num_dims).piece() for part in parts]


def _basic_sets(flat: Any) -> list[Any]:
    """Return disjoint `islpy.BasicSet`s without existential variables other than quotients."""
    flat = flat.compute_divs()
    if flat.n_basic_set() > 1:
        flat = flat.make_disjoint().compute_divs()
    return [part for part in flat.get_basic_sets() if not part.is_empty()]


class _Reader:
    """Converter of one `islpy.BasicSet` into a `Piece`.

    The first `num_dims` coordinates become `Dim(i)`; the others are unknowns `Range(i)`.
    """

    def __init__(self, isl: Any, part: Any, num_dims: int) -> None:
        self._isl = isl
        self._type = isl.dim_type
        self._part = part
        self._count = part.dim(self._type.set)
        unknowns = range(self._count - num_dims)
        own: list[Expr] = [Dim(i) for i in range(num_dims)]
        own += [Range(i) for i in unknowns]
        self._own = own
        parameters = part.dim(self._type.param)
        names = [part.get_dim_name(self._type.param, i) for i in range(parameters)]
        self._params: list[Expr] = [Runtime(int(name.removeprefix("p"))) for name in names]
        self._quotients: list[Expr] = []
        # A quotient may contain earlier quotients, which isl numbers first.
        for i in range(part.dim(self._type.div)):
            aff = part.get_div(i)
            den = int(str(aff.get_denominator_val()))
            self._quotients.append(self._linear(aff, self._type.in_, den) // den)
        self.open: dict[Var, None] = {Range(i): None for i in unknowns}
        self.solved: dict[Var, Expr] = {}
        self.rows: dict[Expr, Interval] = {}
        for constraint in part.get_constraints():
            self._add(
                self._linear(constraint, self._type.set), is_equality=constraint.is_equality()
            )

    def _linear(self, row: Any, coordinates: Any, den: int = 1) -> Expr:
        """Return `den` times isl's linear expression `row`.

        `coordinates` is isl's name of the coordinates in `row`: `set` in a constraint, `in_` in an
        integer division.
        """
        kinds = (
            (self._type.param, self._params),
            (coordinates, self._own),
            (self._type.div, self._quotients),
        )
        terms = [
            (e, _int(row.get_coefficient_val(kind, i), den))
            for kind, exprs in kinds
            for i, e in enumerate(exprs)
        ]
        return linear(*terms, (_int(row.get_constant_val(), den), 1))

    def _add(self, e: Expr, *, is_equality: bool = False) -> None:
        """Add the constraint `e >= 0`, or `e = 0` if `is_equality`."""
        bound = Interval.point(0) if is_equality else Interval(0, Interval.EVERYTHING.hi)
        self._restrict(e, bound)

    def _restrict(self, e: Expr, interval: Interval) -> None:
        """Add the constraint that `e` lies in the interval."""
        const = e.const if isinstance(e, Sum) else e.value if isinstance(e, Const) else 0
        e, interval = e - const, interval - const
        if isinstance(e, Const):
            return  # the constraint is true, as the part is not empty
        # Both signs of an expression share a row, so that bounds from two inequalities meet in one
        # interval.
        if -e in self.rows:
            e, interval = -e, -interval
        self.rows[e] = self.rows.get(e, Interval.EVERYTHING) & interval

    def piece(self) -> Piece:
        """Return the piece, with as few range variables as the constraints in `rows` allow."""
        while self._solve_one():
            pass
        self._shift()
        self._bound()
        left = {v: Range(k) for k, v in enumerate(self.open)}
        number: dict[Var, Expr] = {v: e for v, e in left.items()}
        final = number | {v: substitute(e, number) for v, e in self.solved.items()}
        outs = [e for e in self._own if isinstance(e, Range)]
        return Piece(
            len(left),
            tuple([final[v] for v in outs]),
            tuple([(substitute(e, number), i) for e, i in self.rows.items()]),
        )

    def _solve_one(self) -> bool:
        """Solve one constraint for an unknown; return whether there was such a constraint.

        The constraint is `c * x + rest in [lo, hi]`, with at most one solution `x` for each `rest`.
        """
        for width_limit in (True, False):  # equations first
            for e, interval in self.rows.items():
                if not interval.is_finite or (width_limit and not interval.is_point):
                    continue
                for x, c in as_sum(e)[0]:
                    if not isinstance(x, Range) or x not in self.open or interval.size > abs(c):
                        continue
                    rest = e - x * c
                    if x in variables(rest):
                        continue
                    value = (interval.hi - rest) // c if c > 0 else (rest - interval.lo) // -c
                    # The interval has exactly one multiple of `c` for every `rest`, so the row
                    # holds for any `rest`.
                    if interval.size == abs(c):
                        del self.rows[e]  # each `rest` has a solution
                    self._use(x, value)
                    return True
        return False

    def _use(self, x: Range, value: Expr) -> None:
        """Substitute `x = value` in all constraints.

        Constraints that become constant are true and disappear.
        """
        del self.open[x]
        new: dict[Var, Expr] = {x: value}
        self.solved = {v: substitute(e, new) for v, e in self.solved.items()} | new
        rows, self.rows = self.rows, {}
        for e, interval in rows.items():
            self._restrict(substitute(e, new), interval)

    def _shift(self) -> None:
        """Replace unknowns that are bounded only as a term of a sum.

        With `x + rest in [lo, hi]`, `x` becomes `lo - rest` plus a new variable in `[0, hi - lo]`.
        """
        for x in list(self.open):
            bare = self.rows.get(x, Interval.EVERYTHING)
            if bare.is_finite:
                continue
            for e, interval in self.rows.items():
                factor = dict(as_sum(e)[0]).get(x, 0)
                rest = e - x * factor
                # With another factor not every value of the sum has a solution `x`.
                if abs(factor) != 1 or not interval.is_finite or x in variables(rest):
                    continue
                low = (interval.lo - rest) if factor == 1 else (rest - interval.hi)
                new: dict[Var, Expr] = {x: x + low}
                self.solved = {v: substitute(s, new) for v, s in self.solved.items()}
                self.solved.setdefault(x, x + low)
                rows, self.rows = self.rows, {}
                for row, bound in rows.items():
                    self._restrict(substitute(row, new), bound)
                break

    def _bound(self) -> None:
        """Add isl's bounds of each variable that no constraint bounds alone."""
        whole = self._isl.Set.from_basic_set(self._part)
        for at, x in enumerate(self._own):
            if self.rows.get(x, Interval.EVERYTHING).is_finite:
                continue
            if isinstance(x, Range) and (x not in self.open or x in self.solved):
                continue  # the unknown is solved, or `_shift` has bounded it
            low, high = whole.dim_min_val(at), whole.dim_max_val(at)
            lo = int(str(low)) if low.is_int() else Interval.EVERYTHING.lo
            hi = int(str(high)) if high.is_int() else Interval.EVERYTHING.hi
            self._restrict(x, Interval(lo, hi))


def _int(value: Any, den: int = 1) -> int:
    return int(str(value.mul(den) if den != 1 else value))


# ------------------------------------------------------------------------------------ operations


def combine(
    operation: str, first: Sequence[System], second: Sequence[System], *, budget: int = BUDGET
) -> tuple[list[Piece], Parameters]:
    """Return `union`, `intersect` or `subtract` of two unions of relations as disjoint pieces.

    Raises:
        UndecidedError: An expression is not affine, or isl ran out of its budget.

    >>> box = {Dim(0): Interval(0, 9)}
    >>> evens = System(1, 0, box, [(Dim(0) % 2, Interval(0, 0))], [Dim(0)])
    >>> pieces, _ = combine("subtract", [System(1, 0, box, (), [Dim(0)])], [evens])
    >>> pieces[0].results
    (<d0>,)
    """
    parameters = Parameters.of(*first, *second)
    shape = shape_of(*first, *second)
    with budgeted(budget) as isl:
        one = union_of(isl, first, parameters, shape)
        other = union_of(isl, second, parameters, shape)
        if operation == "union":
            relation = one.union(other)
        else:
            relation = one.intersect(other) if operation == "intersect" else one.subtract(other)
        return pieces_of(isl, relation, shape[0]), parameters


def count_results(systems: Sequence[System], *, budget: int = BUDGET) -> int:
    """Return the number of different results of the union of the relations.

    Raises:
        UndecidedError: An expression is not affine, the number depends on a runtime variable or is
            infinite, or isl ran out of its budget.

    >>> box = {Dim(0): Interval(0, 999_999), Dim(1): Interval(0, 7)}
    >>> count_results([System(2, 0, box, (), [Dim(0) * 4 + Dim(1)])])
    4000004
    """
    if not systems:
        return 0
    parameters = Parameters.of(*systems)
    with budgeted(budget) as isl:
        results = union_of(isl, systems, parameters, shape_of(*systems)).range()
        for i in range(len(parameters.number)):
            if results.involves_dims(isl.dim_type.param, i, 1):
                raise UndecidedError("it depends on the values of runtime variables")
        results = results.project_out(isl.dim_type.param, 0, len(parameters.number))
        return count_points(isl, results)


def count_points(isl: Any, points: Any) -> int:
    """Return the number of points of an `islpy.Set` without parameters.

    isl counts by enumerating points. So disjoint parts are counted separately, and in each part the
    groups of coordinates that share no constraint; the counts of groups are multiplied.

    Raises:
        UndecidedError: The set is infinite.
    """
    if not points.is_bounded():
        raise UndecidedError("there is no end of them")
    if points.dim(isl.dim_type.set) == 0:
        return int(not points.is_empty())
    return sum(_count_part(isl, part) for part in _basic_sets(points.coalesce()))


def _count_part(isl: Any, part: Any) -> int:
    """Return the number of points of a basic set, the product over its groups of coordinates."""
    kind = isl.dim_type.set
    return prod(
        int(str(isl.Set.from_basic_set(_project_to(isl, part, group)).count_val()))
        for group in _groups(isl, part)
        if any(i < part.dim(kind) for i in group)
    )


def _project_to(isl: Any, part: Any, group: Sequence[int]) -> Any:
    """Return the projection of a basic set to the coordinates whose numbers are in `group`."""
    kind = isl.dim_type.set
    for i in range(part.dim(kind) - 1, -1, -1):
        if i not in group:
            part = part.project_out(kind, i, 1)
    return part


def _groups(isl: Any, part: Any) -> list[list[int]]:
    """Return the groups of coordinates and quotients of a basic set that constraints connect.

    Each is a list of numbers; quotients are numbered after the coordinates.
    """
    count, quotients = part.dim(isl.dim_type.set), part.dim(isl.dim_type.div)
    group = [*range(count + quotients)]

    def root(i: int) -> int:
        while group[i] != i:
            i = group[i]
        return i

    def join(row: Any, kind: Any, extra: Sequence[int] = ()) -> None:
        used = [i for i in range(count) if row.get_coefficient_val(kind, i).sgn()]
        for i in range(quotients):
            if row.get_coefficient_val(isl.dim_type.div, i).sgn():
                used.append(count + i)
        for i in [*used, *extra]:
            # Union-find: all coordinates and quotients of a row join one group.
            group[root(i)] = root([*used, *extra][0])

    for constraint in part.get_constraints():
        join(constraint, isl.dim_type.set)
    for i in range(quotients):
        join(part.get_div(i), isl.dim_type.in_, [count + i])
    found: dict[int, list[int]] = {}
    for i in range(count + quotients):
        found.setdefault(root(i), []).append(i)
    return list(found.values())
