"""Simplification of maps: constraints first, then results within the ranges that are left."""

from __future__ import annotations

from functools import lru_cache

from hloscope.affine import Dim, Range, Runtime
from hloscope.indexing.base import NEVER, M, MapBase
from hloscope.indexing.constraints import EmptyDomainError, settle
from hloscope.indexing.variables import Constraint, RuntimeVariable, replace_interval
from hloscope.simplifier import Domain


def simplify(m: M) -> M:
    """An equal map with simpler constraints, tighter bounds and simpler results."""
    if m.is_known_empty or m.is_undefined:
        return m
    return _simplified(m)  # type: ignore[return-value]  # what comes out is what went in


@lru_cache(maxsize=1 << 13)
def _simplified(m: MapBase) -> MapBase:
    box = m.box
    constraints: tuple[Constraint, ...] = ()
    if m.constraints:
        box = dict(box)
        try:
            constraints = tuple(settle(box, m.constraints).items())
        except EmptyDomainError:
            return m.with_(constraints=NEVER)
    domain = Domain(box, constraints)
    results = [domain.simplify(e) for e in m.results]
    runtime = [_simplified_index(v, domain) for v in m.runtime]
    unchanged = all(a is b for a, b in zip(results, m.results, strict=True))
    if unchanged and constraints == m.constraints and box == m.box and runtime == [*m.runtime]:
        return m
    return m.with_(
        dims=[replace_interval(v, box[Dim(i)]) for i, v in enumerate(m.dims)],
        ranges=[replace_interval(v, box[Range(i)]) for i, v in enumerate(m.ranges)],
        runtime=[replace_interval(v, box[Runtime(i)]) for i, v in enumerate(runtime)],
        results=results,
        constraints=constraints,
    )


def _simplified_index(variable: RuntimeVariable, domain: Domain) -> RuntimeVariable:
    if not variable.index:
        return variable
    index = tuple([domain.simplify(e) for e in variable.index])
    return RuntimeVariable(variable.interval, variable.name, variable.origin, index)
