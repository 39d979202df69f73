"""Simplification of maps: constraints first, then results within the ranges that are left."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from hloscope.affine import Const, Dim, Expr, Range, Runtime, Sum, from_terms
from hloscope.indexing.base import NEVER, M, MapBase
from hloscope.indexing.constraints import EmptyDomainError, MapTrace, settle, simplified
from hloscope.indexing.variables import Constraint, RuntimeVariable, replace_interval
from hloscope.lazy import lazy
from hloscope.simplifier import Domain, Step

if TYPE_CHECKING:
    import hloscope.simplifier as simplifier
else:
    simplifier = lazy("hloscope.simplifier")


def simplify(
    m: M, *, replace_points: bool = True, exact: bool = False, trace: MapTrace | None = None
) -> M:
    """An equal map with simpler constraints, tighter bounds and simpler results.

    Args:
        m: The map.
        replace_points: A dimension with one value becomes that value in the results.
        exact: Look for still shorter forms of results, which are then proved.
        trace: If given, every step is appended.
    """
    if exact:
        return _shortest(simplify(m, replace_points=replace_points, trace=trace), trace)
    if m.is_known_empty or m.is_undefined or (replace_points and m.is_simplified):
        return m
    if trace is not None or m.runtime:  # the memory of runtime variables would keep programs alive
        return _simplify(m, replace_points, trace)
    return _remembered(m, replace_points)  # type: ignore[return-value]  # a map as `m` is


@lru_cache(maxsize=1 << 12)
def _remembered(m: MapBase, replace_points: bool) -> MapBase:
    return _simplify(m, replace_points, None)


def _simplify(m: M, replace_points: bool, trace: MapTrace | None) -> M:
    box = m.box
    constraints: tuple[Constraint, ...] = ()
    if m.constraints:
        box = dict(box)
        try:
            constraints = tuple(settle(box, m.constraints, trace).items())
        except EmptyDomainError:
            return m.with_(constraints=NEVER)
    domain = Domain(box, constraints)
    change = _result if replace_points else _result_with_points
    results = [change(e, domain, trace) for e in m.results]
    if pinned := [(e, i.lo) for e, i in constraints if i.lo == i.hi]:
        results = [_value_if_pinned(e, pinned) for e in results]
    runtime = [_with_simple_index(v, domain, trace) for v in m.runtime]
    if box == m.box and constraints == m.constraints and runtime == [*m.runtime]:
        if not all([a is b for a, b in zip(results, m.results, strict=True)]):
            return m.with_(results=results)
        if replace_points:
            m.mark_simplified()
        return m
    return m.with_(
        dims=[replace_interval(v, box[Dim(i)]) for i, v in enumerate(m.dims)],
        ranges=[replace_interval(v, box[Range(i)]) for i, v in enumerate(m.ranges)],
        runtime=[replace_interval(v, box[Runtime(i)]) for i, v in enumerate(runtime)],
        results=results,
        constraints=constraints,
    )


def _value_if_pinned(result: Expr, pinned: Sequence[tuple[Expr, int]]) -> Expr:
    """The result's value where a constraint leaves it only one: `d0 - rt0 in [0, 0]`."""
    for e, value in pinned:
        match result - e, result + e:
            case Const(difference), _:
                return Const(difference + value)
            case _, Const(total):
                return Const(total - value)
    return result


def _shortest(m: M, trace: MapTrace | None) -> M:
    if m.is_known_empty or m.is_undefined:
        return m
    domain = Domain(m.box, m.constraints)
    steps: list[Step] = []
    results = [
        simplifier.simplify_exact(e, domain, trace=None if trace is None else steps)
        for e in m.results
    ]
    if trace is not None:
        trace += steps
    return m.with_(results=results)


def _result(e: Expr, domain: Domain, trace: MapTrace | None) -> Expr:
    return simplified(e, domain, trace)


def _result_with_points(e: Expr, domain: Domain, trace: MapTrace | None) -> Expr:
    """The simplified expression with the dimensions that are its terms, even if constant."""
    terms = e.terms if isinstance(e, Sum) else ((e, 1),)
    points: list[tuple[Expr, int]] = [
        (t, c) for t, c in terms if c == 1 and isinstance(t, Dim) and domain.box[t].is_point
    ]
    if not points or (len(points) < len(terms) and domain.bounds(e).is_point):
        return simplified(e, domain, trace)
    kept = from_terms(points, 0)
    return simplified(e - kept, domain, trace) + kept


def _with_simple_index(
    variable: RuntimeVariable, domain: Domain, trace: MapTrace | None
) -> RuntimeVariable:
    if not variable.arguments:
        return variable
    return variable.at([simplified(e, domain, trace) for e in variable.arguments])
