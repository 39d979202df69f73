"""Maps with changed variables: removed, rescaled, turned into dimensions, or eliminated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import gcd, prod
from typing import Final, NamedTuple, TypeVar

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    Interval,
    Mod,
    Range,
    Runtime,
    Sum,
    Var,
    as_sum,
    bounds,
    children,
    depends_on_runtime,
    evaluate,
    from_terms,
    postorder,
    substitute,
    variables,
)
from hloscope.indexing.base import NEVER, M, MapBase
from hloscope.indexing.simplify import EmptyDomainError, Table, divided, merge_mods, settle, shifted
from hloscope.indexing.variables import (
    Constraint,
    RuntimeVariable,
    Variable,
    renamed,
    replace_interval,
    substituted,
    substituted_constraints,
)

# --------------------------------------------------------------------------------------------------
# Maps with changed variables: unused ones removed, rescaled, turned into dimensions.


_T = TypeVar("_T")
WITNESS_BUDGET: Final = 4096
"""Maximum number of points at which constraints are evaluated to find out if they can hold."""


def used_variables(m: MapBase) -> set[Var]:
    """Return the variables that results depend on, also through indices of runtime variables."""
    return _with_indices(m, set(variables(*m.results)))


def _with_indices(m: MapBase, used: set[Var]) -> set[Var]:
    """Add all variables in the indices of `m`'s runtime variables in `used` to `used`; return it.

    Runtime variables that occur in these indices count too.
    """
    todo = [v for v in used if isinstance(v, Runtime)]
    while todo:
        new = variables(*m.runtime[todo.pop().index].arguments) - used
        used |= new
        todo += [v for v in new if isinstance(v, Runtime)]
    return used


def _conditions(m: MapBase) -> set[Var]:
    """Return the runtime variables that restrict the map, and all variables tied to them.

    A runtime variable ties the variables that it shares a constraint with.
    """
    found: set[Var] = {Runtime(i) for i, v in enumerate(m.runtime) if v.is_condition}
    if m.runtime:
        for expr, _ in m.constraints:
            if depends_on_runtime(expr):
                found |= variables(expr)
    return found


def unused_variables(m: MapBase, *, dims: bool = True) -> set[Var]:
    """Return the variables that can be removed, as no result or relevant condition uses them.

    Variables connected by constraints are removed together, if no used variable is connected to
    them and their constraints are known to be satisfiable. Groups with runtime variables stay, as
    their values cannot be chosen. Without `dims`, dimensions stay.
    """
    if not (dims or m.runtime):  # do the results depend on all range variables, as they often do?
        of_results = variables(*m.results)
        if all([Range(i) in of_results for i in range(len(m.ranges))]):
            return set()
    used = used_variables(m)
    used = _with_indices(m, used | _conditions(m))
    if not dims:
        used |= {Dim(i) for i in range(len(m.dims))}
    free = set(m.box) - used
    if not free:
        return free
    ties = [variables(e) for e, _ in m.constraints]
    used.update(*[t for t in ties if any(isinstance(v, Runtime) for v in t)])  # conditions, too
    _with_indices(m, used)
    # A constraint that has a used variable makes all of its variables used.
    while new := [t for t in ties if t & used and not t <= used]:
        used |= set().union(*new)
        _with_indices(m, used)
    loose = [c for c, t in zip(m.constraints, ties, strict=True) if not t & used]
    # Removing constraints that cannot be satisfied would turn an empty map into one that is not.
    while unsure := [c for c in _groups(loose) if _is_satisfiable(m, c) is None]:
        for group in unsure:
            used.update(*(variables(e) for e, _ in group))
            _with_indices(m, used)
        loose = [(e, i) for e, i in loose if not variables(e) & used]
    return set(m.box) - used


def connected(
    items: Iterable[_T], used: Callable[[_T], Iterable[Var]]
) -> list[tuple[set[Var], list[_T]]]:
    """Return the items in groups: those of different groups share no variable.

    `used` returns the variables of an item. Each group has its variables and its items.
    """
    groups: list[tuple[set[Var], list[_T]]] = []
    for item in items:
        tied, members = {*used(item)}, [item]
        apart = []
        for group in groups:
            if group[0] & tied:
                tied |= group[0]
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (tied, members)]
    return groups


def _groups(constraints: Sequence[Constraint]) -> list[list[Constraint]]:
    """Return the constraints in groups: those of different groups share no variable."""
    return [members for _, members in connected(constraints, lambda c: variables(c[0]))]


def _is_satisfiable(m: MapBase, constraints: Sequence[Constraint]) -> bool | None:
    """Is there a point that satisfies the constraints? `None` if that is undecided."""
    tied = sorted(set().union(*(variables(e) for e, _ in constraints)))
    box = {v: m.box[v] for v in tied}
    try:
        settled = settle(box, constraints)
    except EmptyDomainError:
        return False
    if not settled:
        return True
    if (
        len(settled) == 1
        and (known := _sum_is_satisfiable(box, *next(iter(settled.items())))) is not None
    ):
        return known
    middle = {v: (box[v].lo + box[v].hi) // 2 for v in tied}
    if _all_hold(settled, middle):  # Most constraints are windows, whose middle satisfies them.
        return True
    count = prod(box[v].size for v in tied)
    for number in range(min(count, WITNESS_BUDGET)):  # the intervals may be too long to list
        at: dict[Var, int] = {}
        for v in reversed(tied):
            number, digit = divmod(number, box[v].size)
            at[v] = box[v].lo + digit
        if _all_hold(settled, at):
            return True
    return None if count > WITNESS_BUDGET else False


def _sum_is_satisfiable(box: Mapping[Var, Interval], e: Expr, inside: Interval) -> bool | None:
    """Can the sum `e` of multiples of variables have a value in `inside`? `None` if undecided.

    The terms are taken by growing coefficient. As long as each coefficient is at most the width
    reached so far plus one, the sums plus `[0, width]` have no gap, so the bounds decide.

    >>> from hloscope.affine import Dim
    >>> box = {Dim(0): Interval(0, 72), Dim(1): Interval(0, 72)}
    >>> _sum_is_satisfiable(box, Dim(0) * 73 + Dim(1), Interval(5248, 5328))
    True
    >>> _sum_is_satisfiable(box, Dim(0) * 99 + Dim(1), Interval(74, 80)) is None
    True
    """
    if not isinstance(e, Sum) or not all(
        [isinstance(t, Dim | Range | Runtime) for t, _ in e.terms]
    ):
        return None
    low = high = e.const
    width = inside.hi - inside.lo
    for t, c in sorted(e.terms, key=lambda term: abs(term[1])):
        if abs(c) > width + 1:
            return None
        side = box[t]  # type: ignore[index]  # all terms are variables
        width += abs(c) * (side.hi - side.lo)
        ends = side.lo * c, side.hi * c
        low, high = low + min(ends), high + max(ends)
    return low <= inside.hi and inside.lo <= high


def _all_hold(table: Table, at: dict[Var, int]) -> bool:
    """Do all constraints of the table hold at a point?"""
    return all(evaluate(e, at) in interval for e, interval in table.items())


def remove_unused(m: M, *, dims: bool) -> M:
    """Return the map without unused range and runtime variables; with `dims`, dimensions too."""
    if m.is_known_empty or m.is_undefined or not (dims or m.ranges or m.runtime):
        return m
    gone = unused_variables(m, dims=dims)
    if not gone:
        return m
    loose = [c for c in m.constraints if variables(c[0]) <= gone]
    if any(_is_satisfiable(m, group) is False for group in _groups(loose)):
        return m.with_(constraints=NEVER)
    return without(m, gone)


def without(m: M, removed: Collection[Var]) -> M:
    """Return the map without the variables `removed` and the constraints that contain them."""
    new: dict[Var, Expr] = {}
    kept: dict[type[Var], list[int]] = {}
    for kind, count in ((Dim, len(m.dims)), (Range, len(m.ranges)), (Runtime, len(m.runtime))):
        kept[kind] = [i for i in range(count) if kind(i) not in removed]
        new |= {kind(old): kind(i) for i, old in enumerate(kept[kind]) if i != old}
    constraints = [c for c in m.constraints if not variables(c[0]) & set(removed)]
    return m.with_(
        dims=[m.dims[i] for i in kept[Dim]],
        ranges=[m.ranges[i] for i in kept[Range]],
        runtime=[renamed(m.runtime[i], new) for i in kept[Runtime]],
        results=substituted(m.results, new),
        constraints=substituted_constraints(constraints, new),
    )


def replaced(
    m: M,
    new: dict[Var, Expr],
    *,
    dims: Sequence[Variable],
    ranges: Sequence[Variable],
    runtime: Sequence[RuntimeVariable],
) -> M:
    """Return the map in other variables.

    `new` has each old variable as an expression in the new ones; `dims`, `ranges` and `runtime` are
    the new ones.
    """
    return m.with_(
        dims=dims,
        ranges=ranges,
        runtime=[renamed(v, new) for v in runtime],
        results=substituted(m.results, new),
        constraints=substituted_constraints(m.constraints, new),
    )


def rescale(m: M) -> M:
    """Replace range variables with `s mod c = r` by `s * c + r`; the relation stays the same.

    Source: XLA `RescaleSymbols`.
    """
    if not any([type(e) is Mod for e, _ in m.constraints]):
        return m
    # Constraints on one variable with several moduli are merged first, so that each variable is
    # replaced once.
    table: Table = dict(m.constraints)
    box = dict(m.box)
    try:
        merge_mods(box, table)
    except EmptyDomainError:
        return m.with_(constraints=NEVER)
    new: dict[Var, Expr] = {}
    for expr, interval in [*table.items()]:
        match expr:
            case Mod(Range() as s, Const(c)) if c and interval.is_point and s not in new:
                c, r = abs(c), interval.lo
                # The new variable runs over `(s - r) / c`, which must stay within int64.
                moved = shifted(box[s], -r)
                if moved is None:
                    continue
                new[s] = s * c + r
                box[s] = divided(moved, c)
                del table[expr]
    if not new:
        return m
    scaled = m.with_(
        ranges=[replace_interval(v, box[Range(i)]) for i, v in enumerate(m.ranges)],
        constraints=tuple(table.items()),
    )
    return replaced(scaled, new, dims=m.dims, ranges=scaled.ranges, runtime=m.runtime)


def ranges_to_dims(m: M, indices: Sequence[int]) -> M:
    """Return the map with the range variables at `indices` as further dimensions, in that order."""
    moved = list(indices)
    stay = [i for i in range(len(m.ranges)) if i not in moved]
    new: dict[Var, Expr] = {Range(i): Dim(len(m.dims) + k) for k, i in enumerate(moved)}
    new |= {Range(i): Range(k) for k, i in enumerate(stay)}
    return replaced(
        m,
        new,
        dims=m.dims + tuple(m.ranges[i] for i in moved),
        ranges=[m.ranges[i] for i in stay],
        runtime=m.runtime,
    )


def dims_to_ranges(m: M, results: Sequence[Expr] | None = None) -> M:
    """Return the map with its dimensions turned into range variables, before the others.

    Args:
        m: The map.
        results: Other results, over the variables of `m`.
    """
    n = len(m.dims)
    new: dict[Var, Expr] = {Dim(i): Range(i) for i in range(n)}
    new |= {Range(i): Range(n + i) for i in range(len(m.ranges))}
    whole = m if results is None else m.with_(results=results)
    return replaced(whole, new, dims=(), ranges=m.dims + m.ranges, runtime=m.runtime)


def symbols_to_dims(m: M) -> M:
    """Return the map with all range, then all runtime variables as additional dimensions."""
    new: dict[Var, Expr] = {Range(i): Dim(len(m.dims) + i) for i in range(len(m.ranges))}
    start = len(m.dims) + len(m.ranges)
    new |= {Runtime(i): Dim(start + i) for i in range(len(m.runtime))}
    runtime = tuple([Variable(v.interval, v.name) for v in m.runtime])
    return replaced(m, new, dims=m.dims + m.ranges + runtime, ranges=(), runtime=())


def with_values(m: M, values: Sequence[int]) -> M:
    """Return the map in which the runtime variables have these values."""
    new: dict[Var, Expr] = {Runtime(i): Const(v) for i, v in enumerate(values)}
    inside = [(Const(k), v.interval) for k, v in zip(values, m.runtime, strict=True)]
    return m.with_(
        runtime=(),
        results=substituted(m.results, new),
        constraints=[*substituted_constraints(m.constraints, new), *inside],
    )


def bounded(
    m: M,
    dims: Sequence[Interval | int],
    ranges: Sequence[Interval | int] = (),
    runtime: Sequence[Interval | int] = (),
) -> M:
    """Return the map with other intervals of its variables.

    `dims`, `ranges` and `runtime` have an interval for each variable; an integer `n` is `[0, n)`.

    Raises:
        ValueError: The number of bounds differs from the number of variables.
    """
    for kind, given, old in (
        ("dimension", dims, m.dims),
        ("range", ranges, m.ranges),
        ("runtime", runtime, m.runtime),
    ):
        if len(given) != len(old):
            raise ValueError(f"{len(given)} bounds for {len(old)} {kind} variables")
    new = [
        [i if isinstance(i, Interval) else Interval.of_size(i) for i in given]
        for given in (dims, ranges, runtime)
    ]
    return m.with_(
        dims=[replace_interval(v, i) for v, i in zip(m.dims, new[0], strict=True)],
        ranges=[replace_interval(v, i) for v, i in zip(m.ranges, new[1], strict=True)],
        runtime=[replace_interval(v, i) for v, i in zip(m.runtime, new[2], strict=True)],
    )


# --------------------------------------------------------------------------------------------------
# Exact elimination of range variables that occur only in constraints.
#
# A map describes a set of elements. A range variable that no result depends on matters only by
# whether it has a value. If constraints on the other variables can express that, it is eliminated.


LIMIT: Final = 1 << 40
"""Maximum number in an elimination, so that products of a few numbers stay within int64."""


def project_out(m: M) -> M:
    """Return the same set of elements for every index, with fewer range variables.

    A range variable is removed if no result and no index of a runtime variable depends on it, and

    * it can be eliminated (`eliminated`) without more constraints than before, or
    * it occurs only in a sum `p * s + t` (up to a factor) with another such variable `t` of at
      least `|p|` values: the sum takes all values of an interval and becomes one variable.

    >>> from hloscope.indexing import IndexingMap
    >>> window = "d0 + s0 + s1 in [2, 9], d0 + s1 in [1, 8]"
    >>> bounds = "d0 in [0, 7], s0 in [0, 2], s1 in [0, 7]"
    >>> print(project_out(IndexingMap.parse(f"(d0)[s0, s1] -> (d0), domain: {bounds}, {window}")))
    (d0) -> (d0), domain: d0 in [0, 7]
    """
    if not m.constraints or not m.ranges or m.is_known_empty or m.is_undefined:
        return m
    used = variables(*m.results, *[e for v in m.runtime for e in v.arguments])
    free: list[Var] = [
        v for v in map(Range, range(len(m.ranges))) if v not in used and _is_small(m.box[v])
    ]
    if not free:
        return m
    box, constraints, gone = dict(m.box), m.constraints, list[Var]()
    # Each step removes one variable and may make others removable.
    while True:
        for s in free:
            fewer = eliminated(s, constraints, box)
            if fewer is not None:
                break
        else:
            pair = _sum_of_two(free, constraints, box)
            if pair is None:
                break
            s, t, values = pair
            box[t] = values
            fewer = tuple([(substitute(e, {s: 0}), i) for e, i in constraints])
        constraints = fewer
        free.remove(s)
        gone.append(s)
    if not gone:
        return m
    ranges = [replace_interval(v, box[Range(i)]) for i, v in enumerate(m.ranges)]
    return without(m.with_(ranges=ranges, constraints=constraints), gone)


def _is_small(interval: Interval) -> bool:
    return not interval.is_empty and max(abs(interval.lo), abs(interval.hi)) <= LIMIT


class _Part(NamedTuple):
    """The constraint `factor * s + rest in interval` on the variable `s` to eliminate.

    `factor` is positive.
    """

    factor: int
    rest: Expr
    interval: Interval


def eliminated(
    s: Var, constraints: Sequence[Constraint], box: dict[Var, Interval]
) -> tuple[Constraint, ...] | None:
    """Return constraints that hold exactly if some value of `s` satisfies the given ones.

    Each constraint on `s` is an interval of values, and intervals of integers have a common value
    if every two of them do (Fourier and Motzkin; Helly). Two of them give an exact constraint over
    the integers if one factor of `s` is 1 or -1. So at most one constraint may have another factor
    `c`, and its interval must have `|c|` values or more, so that it always has a value of `s`.

    Returns:
        The constraints; `None` if `s` is inside a quotient or similar, if factors or numbers
        are not as above, or if there would be more constraints than before.

    Source: Pugh, "The Omega test" (1991), section 2.3: where the elimination is exact.
    """
    table: Table = {}
    parts = [_Part(1, Const(0), box[s])]
    in_a_row: int | None = None
    for e, interval in constraints:
        if s not in variables(e):
            table[e] = interval
        elif (part := _part(s, e, interval)) is not None:
            parts.append(part)
        elif in_a_row is None and (in_a_row := _length_with_solution(s, e, interval)) is not None:
            continue
        else:
            return None
    scaled = [p for p in parts if p.factor != 1]
    if in_a_row is not None:
        return tuple(table.items()) if _always_allow(in_a_row, parts, table, box) else None
    if len(scaled) > 1 or any(p.interval.size < p.factor for p in scaled):
        return None
    for (c, e, i), (k, f, j) in combinations(parts, 2):
        # From `c * s + e in i` and `k * s + f in j`: multiply each by the other's factor and
        # subtract.
        both = e * k - f * c
        interval = Interval(k * i.lo - c * j.hi, k * i.hi - c * j.lo)
        # So that the text of the constraint is short.
        if isinstance(both, Sum) and both.terms[0][1] < 0:
            both, interval = -both, -interval
        if interval.contains(bounds(both, box)) or _implies(table, both, interval):
            continue
        table[both] = interval & table.get(both, interval)
    return tuple(table.items()) if len(table) <= len(constraints) else None


def _part(s: Var, e: Expr, interval: Interval) -> _Part | None:
    """Return the constraint `e in interval` as a `_Part` of the variable `s`.

    The result is `None` if `s` is not a term of `e` or occurs in other terms, or if numbers are
    large.
    """
    terms, const = as_sum(e)
    factor = sum(c for t, c in terms if t is s)
    rest = [(t, c) for t, c in terms if t is not s]
    if s in variables(*[t for t, _ in rest]) or not factor:
        return None
    if not _is_small(interval) or any(abs(n) > LIMIT for n in (const, *[c for _, c in terms])):
        return None
    if factor < 0:
        return _Part(-factor, from_terms([(t, -c) for t, c in rest], -const), -interval)
    return _Part(factor, from_terms(rest, const), interval)


def _length_with_solution(s: Var, e: Expr, interval: Interval) -> int | None:
    """Return a number n such that n consecutive values of `s` always have a solution.

    A solution is a value of `s` with `e` in the interval. The result is `None` if no such number is
    known.
    """
    if not isinstance(e, Mod) or not isinstance(e.den, Const):
        return None
    modulus, part = abs(e.den.value), _part(s, e.num, Interval(0, 0))
    wanted = (interval & Interval(0, modulus - 1)).size
    if part is None or not wanted or gcd(part.factor, modulus) != 1:
        return None
    return modulus - wanted + 1 if part.factor == 1 else modulus


def _always_allow(
    count: int, parts: Sequence[_Part], table: Table, box: Mapping[Var, Interval]
) -> bool:
    """Do the constraints `parts` always allow `count` consecutive values of their variable `s`?

    They must do so for all values of the other variables, on which `table` has constraints and
    `box` bounds.
    """
    if any(p.factor != 1 or p.interval.size < count for p in parts):
        return False
    for (_, e, i), (_, f, j) in combinations(parts, 2):
        lo, hi = i.lo - j.hi + count - 1, i.hi - j.lo - count + 1
        if lo > hi:
            return False
        interval = Interval(lo, hi)
        if not interval.contains(bounds(e - f, box)) and not _implies(table, e - f, interval):
            return False
    return True


def _implies(table: Table, e: Expr, interval: Interval) -> bool:
    """Does one constraint of the table imply that `e` is in the interval?"""
    const = e.const if isinstance(e, Sum) else 0
    bare = e - const
    for known, values in ((bare, table.get(bare)), (-bare, table.get(-bare))):
        if values is not None and values.is_finite:
            there = values if known is bare else -values
            if interval.contains(there + const):
                return True
    return False


def _sum_of_two(
    free: Sequence[Var], constraints: Sequence[Constraint], box: dict[Var, Interval]
) -> tuple[Var, Var, Interval] | None:
    """Return two variables that matter only through `p * s + t`, and the values of that sum.

    The result is `None` if there are no such variables among `free`.
    """
    nodes = postorder(*[e for e, _ in constraints])
    sums = [dict(e.terms) for e in nodes if isinstance(e, Sum)]
    alone = _outside_sums(nodes, [e for e, _ in constraints])
    candidates = [v for v in free if v not in alone]
    for s, t in [(s, t) for s in candidates for t in candidates if s is not t]:
        factors = {_ratio(terms.get(s, 0), terms.get(t, 0)) for terms in sums} - {0}
        if len(factors) == 1 and (p := factors.pop()) is not None and box[t].size >= abs(p):
            values = box[s] * p + box[t]
            if _is_small(values):
                return s, t, values
    return None


def _outside_sums(nodes: Iterable[Expr], roots: Iterable[Expr]) -> set[Expr]:
    """Return the variables that occur outside of sums: in `roots` or as operands of `nodes`."""
    alone: set[Expr] = {e for e in roots if isinstance(e, Var)}
    for node in nodes:
        if not isinstance(node, Sum):
            alone.update([e for e in children(node) if isinstance(e, Var)])
    return alone


def _ratio(a: int, b: int) -> int | None:
    """Return `a / b` if it is a nonzero integer; 0 if both are 0, else `None`."""
    if not a and not b:
        return 0
    return a // b if a and b and a % b == 0 else None
