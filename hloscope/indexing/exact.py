"""Exact proofs about maps: equality of relations, emptiness, inverses, composition."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import hloscope.indexing.claims as claims
import hloscope.indexing.enumerated as enumerated
import hloscope.indexing.lines as lines
from hloscope.affine import Expr, Interval, Runtime, Var, substitute, variables
from hloscope.errors import UnsupportedError
from hloscope.indexing.base import MapBase
from hloscope.indexing.reads import by_name
from hloscope.simplifier import BUDGET, PROVED, Proof, System, Verdict, isl


def system_of(m: MapBase) -> System:
    """Return the relation of a map in the form that isl gets."""
    return System(
        num_dims=len(m.dims),
        num_ranges=len(m.ranges),
        box=m.box,
        constraints=m.constraints,
        results=m.results,
        runtime=runtime_keys(m),
        values=[v.values for v in m.runtime],
    )


def _not_empty(maps: Iterable[MapBase]) -> list[MapBase]:
    return [m for m in maps if not m.is_known_empty]


def runtime_keys(m: MapBase) -> tuple[Hashable, ...]:
    """Return a key for each runtime variable; equal keys of two maps mean equal values.

    Variables with an origin are equal if they read the same element of the same instruction and
    clamp it to the same bounds. Others are equal if they have the same name, or the same position
    and no name.
    """
    return tuple([_key(m, i) for i in range(len(m.runtime))])


def _key(m: MapBase, i: int) -> Hashable:
    """Return the key of one variable.

    Runtime variables in its index are identified by what they read, not by position.
    """
    v = m.runtime[i]
    inner = sorted({x for e in v.arguments for x in variables(e) if isinstance(x, Runtime)})
    nested = tuple([(x, _key(m, x.index)) for x in inner])
    place: dict[Var, Expr] = {x: Runtime(k) for k, x in enumerate(inner)}
    index = tuple([substitute(e, place) for e in v.arguments])
    origin = (by_name(i, v),) if v.source is None else (v.source, v.values)
    return (*origin, *index, *[key for _, key in nested])


def prove_equal(
    first: Iterable[MapBase], second: Iterable[MapBase], *, budget: int = BUDGET
) -> Proof:
    """Prove that two unions of maps are the same relation, for all runtime values.

    A counter-example is a pair of indices that is in only one of them.
    """
    a, b = [*first], [*second]
    if any(m.is_undefined for m in a + b):
        reason = "an undefined map says nothing"
        return PROVED if a == b else Proof(Verdict.UNDECIDED, reason=reason)
    a, b = (list(dict.fromkeys(m for m in side if not m.is_known_empty)) for side in (a, b))
    if set(a) == set(b):
        return PROVED
    try:
        if claims.any_reads(a, b):
            return claims.equal(a, b, budget)
        # Cheap methods come first: constraints alone, straight lines, enumeration, and isl last.
        if len(a) == len(b) == 1:
            if _differ_in_implied_constraints(a[0], b[0], budget):
                return PROVED
            if (known := lines.equal(a[0], b[0])) is not None:
                return known
        if a and b and (known := enumerated.subset(a, b, both=True)) is not None:
            return known
        return isl.prove_equal([*map(system_of, a)], [*map(system_of, b)], budget=budget)
    # Different numbers of dimensions or results: the relations differ.
    except ValueError as error:
        return Proof(Verdict.REFUTED, reason=str(error))


def _differ_in_implied_constraints(a: MapBase, b: MapBase, budget: int) -> bool:
    """Do two maps differ only in constraints that follow from those of the other map?

    This is decided on the domain alone, which is much smaller than the relation with results.
    """
    if a.results != b.results or a.box != b.box or a.runtime or b.runtime:
        return False
    pairs = [(x, c) for x, y in ((a, b), (b, a)) for c in y.constraints if c not in x.constraints]
    return all(prove_within(x, e, interval, budget=budget).is_proved for x, (e, interval) in pairs)


def prove_empty(maps: Iterable[MapBase], *, budget: int = BUDGET) -> Proof:
    """Prove that the union of the maps is empty; the counter-example is a pair."""
    kept = _not_empty(maps)
    if claims.any_reads(kept):
        return claims.empty(kept, budget)
    if (known := enumerated.empty(kept)) is not None:
        return known
    return isl.prove_empty([*map(system_of, kept)], budget=budget)


def prove_within(m: MapBase, expr: Expr, interval: Interval, *, budget: int = BUDGET) -> Proof:
    """Prove that an expression stays in the interval on the whole domain."""
    if m.runtime and not m.is_known_empty:
        return claims.within(m, expr, interval, budget)
    if (known := lines.within(m, expr, interval)) is not None:
        return known
    if (known := enumerated.within(m, expr, interval)) is not None:
        return known
    return isl.prove_within(system_of(m), expr, interval, budget=budget)


def prove_inverse(
    first: Iterable[MapBase], second: Iterable[MapBase], *, budget: int = BUDGET
) -> Proof:
    """Prove that the second union is the inverse of the first."""
    a, b = _not_empty(first), _not_empty(second)
    if claims.any_reads(a, b):
        return claims.inverse(a, b, budget)
    if (known := enumerated.inverse(a, b)) is not None:
        return known
    return isl.prove_inverse([*map(system_of, a)], [*map(system_of, b)], budget=budget)


def prove_composed(
    first: Iterable[MapBase],
    second: Iterable[MapBase],
    composed: Iterable[MapBase],
    *,
    budget: int = BUDGET,
) -> Proof:
    """Prove that `composed` is the composition of `first` and then `second`.

    Runtime variables without origin in `first` differ from those in `second`. Those of `composed`
    are in the order of `compose`.
    """
    a, b, whole = _not_empty(first), _not_empty(second), _not_empty(composed)
    if claims.any_reads(a, b, whole):
        return claims.composed(a, b, whole, budget)
    systems = [[*map(system_of, maps)] for maps in (a, b, whole)]
    return isl.prove_composed(*systems, budget=budget)


def tight_bounds(m: MapBase, expr: Expr, *, budget: int = BUDGET) -> Interval | None:
    """Return the smallest interval around the values of an expression over the domain.

    `None` if isl cannot decide.
    """
    if m.is_known_empty:
        return Interval.EMPTY
    if m.runtime:
        return claims.tight_bounds(m, expr, budget)
    if (known := enumerated.extent(m, expr)) is not None:
        return known
    return isl.tight_bounds(system_of(m), expr, budget=budget)


def equals(first: MapBase, second: MapBase) -> bool:
    """Are two maps the same relation?

    Raises:
        UnsupportedError: isl cannot decide; the message states why.
    """
    proof = prove_equal([first], [second])
    if proof.verdict is Verdict.UNDECIDED:
        raise UnsupportedError(f"equality is undecided: {proof.reason}")
    return proof.is_proved
