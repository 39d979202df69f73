"""Maps with changed variables: unused ones removed, rescaled, turned into dimensions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Final

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
    depends_on_runtime,
    evaluate,
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

WITNESS_BUDGET: Final = 4096
"""Number of points tried as evidence that constraints are satisfiable."""


def used_variables(m: MapBase) -> set[Var]:
    """Return the variables that results depend on, also through indices of runtime variables."""
    return _with_indices(m, set(variables(*m.results)))


def _with_indices(m: MapBase, used: set[Var]) -> set[Var]:
    """Add to `used` the variables in the indices of its runtime variables, and return it."""
    todo = [v for v in used if isinstance(v, Runtime)]
    while todo:
        new = variables(*m.runtime[todo.pop().index].arguments) - used
        used |= new
        todo += [v for v in new if isinstance(v, Runtime)]
    return used


def _conditions(m: MapBase) -> set[Var]:
    """Return runtime variables that are conditions, and variables they share constraints with."""
    found: set[Var] = {Runtime(i) for i, v in enumerate(m.runtime) if v.is_condition}
    if m.runtime:
        for expr, _ in m.constraints:
            if depends_on_runtime(expr):
                found |= variables(expr)
    return found


def unused_variables(m: MapBase, *, dims: bool = True) -> set[Var]:
    """Return the variables that can be removed: neither results nor relevant conditions use them.

    Variables connected by constraints are removed together, if no used variable is connected to
    them and their constraints are known to be satisfiable. Groups with runtime variables stay, as
    their values are given. Without `dims`, dimensions stay.
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


def _groups(constraints: Sequence[Constraint]) -> list[list[Constraint]]:
    """Group constraints that share variables, directly or indirectly."""
    groups: list[tuple[set[Var], list[Constraint]]] = []
    for constraint in constraints:
        tied, members = set(variables(constraint[0])), [constraint]
        apart = []
        for group in groups:
            if group[0] & tied:
                tied |= group[0]
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (tied, members)]
    return [members for _, members in groups]


def _is_satisfiable(m: MapBase, constraints: Sequence[Constraint]) -> bool | None:
    """Is there a point where the constraints hold? `None` if that was not found out."""
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
    if _all_hold(settled, middle):  # windows that fit in the middle are the rule
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
    """Can a sum of multiples of variables have a value in an interval? `None` if undecided.

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


def without(m: M, gone: Collection[Var]) -> M:
    """Return the map without the variables `gone` and the constraints that have them."""
    new: dict[Var, Expr] = {}
    kept: dict[type[Var], list[int]] = {}
    for kind, count in ((Dim, len(m.dims)), (Range, len(m.ranges)), (Runtime, len(m.runtime))):
        kept[kind] = [i for i in range(count) if kind(i) not in gone]
        new |= {kind(old): kind(i) for i, old in enumerate(kept[kind]) if i != old}
    constraints = [c for c in m.constraints if not variables(c[0]) & set(gone)]
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
    """Return the map in other variables; `new` has each old variable in terms of the new ones."""
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
    """Return the map with some range variables as further dimensions, in the order of `indices`."""
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


def bounded(
    m: M,
    dims: Sequence[Interval | int],
    ranges: Sequence[Interval | int] = (),
    runtime: Sequence[Interval | int] = (),
) -> M:
    """Return the map with other intervals; an integer is a size.

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
