"""Exact questions about maps, answered by isl: equality by meaning, emptiness, inverses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from hloscope.affine import Expr, Interval, Range, Runtime, variables
from hloscope.errors import UnsupportedError
from hloscope.indexing.as_read import prove_same_reads
from hloscope.indexing.base import MapBase
from hloscope.simplifier import isl
from hloscope.simplifier.isl import PROVED, Proof, Verdict
from hloscope.simplifier.isl_relations import BUDGET, System


def system_of(m: MapBase) -> System:
    """The relation of a map as isl is asked about it."""
    return System(
        num_dims=len(m.dims),
        num_ranges=len(m.ranges),
        box=m.box,
        constraints=m.constraints,
        results=m.results,
        runtime=runtime_keys(m),
        values=[v.values for v in m.runtime],
    )


def _systems(maps: Iterable[MapBase]) -> list[System]:
    return [system_of(m) for m in maps if not m.is_known_empty]


def runtime_keys(m: MapBase) -> tuple[Hashable, ...]:
    """What makes runtime variables of two maps the same one.

    Those of known origin are the same if they read the same element of the same instruction and
    clamp it to the same bounds; others if they have the same name and position.
    """
    return tuple(
        [
            (i, v.name) if v.source is None else (v.source, v.values, _closed(m, v.arguments))
            for i, v in enumerate(m.runtime)
        ]
    )


def _closed(m: MapBase, index: Sequence[Expr]) -> tuple[Hashable, ...]:
    """An index with runtime variables told by what they read, not by their position."""
    inner = sorted({v for e in index for v in variables(e) if isinstance(v, Runtime)})
    return (*index, *[(m.runtime[v.index].source, *m.runtime[v.index].arguments) for v in inner])


def prove_equal(
    first: Iterable[MapBase], second: Iterable[MapBase], *, budget: int = BUDGET
) -> Proof:
    """Are two unions of maps the same relation, for all values of the runtime variables?

    A counter-example is a pair of indices that is in one of them only.
    """
    a, b = [*first], [*second]
    if any(m.is_undefined for m in a + b):
        reason = "an undefined map says nothing"
        return PROVED if a == b else Proof(Verdict.UNDECIDED, reason=reason)
    a, b = (list(dict.fromkeys(m for m in side if not m.is_known_empty)) for side in (a, b))
    if set(a) == set(b):
        return PROVED
    try:
        proof = isl.prove_equal([*map(system_of, a)], [*map(system_of, b)], budget=budget)
    except ValueError as error:
        return Proof(Verdict.REFUTED, reason=str(error))
    if proof.is_refuted and prove_same_reads(a, b, inverse=False, budget=budget):
        return replace(PROVED, seconds=proof.seconds)
    return unless_running(proof, a + b)


def unless_running(proof: Proof, maps: Sequence[MapBase]) -> Proof:
    """The proof; a refutation counts only if no runtime variable is read at indices that run."""
    if proof.is_refuted and (runs := running_indices(maps)):
        reason = f"runtime variables {runs} are read at indices that run"
        return Proof(Verdict.UNDECIDED, reason=reason, seconds=proof.seconds)
    return proof


def running_indices(maps: Sequence[MapBase]) -> str:
    """Runtime variables that have another value for each value of a range variable.

    To isl they are constants: what it proves is true, what it refutes need not be wrong.
    """
    return ", ".join(
        v.name or f"rt{i}"
        for m in maps
        for i, v in enumerate(m.runtime)
        if any(isinstance(x, Range) for x in variables(*v.index))
    )


def prove_empty(maps: Iterable[MapBase], *, budget: int = BUDGET) -> Proof:
    """Is the union of the maps empty?  The counter-example is a pair in it."""
    return isl.prove_empty(_systems(maps), budget=budget)


def prove_within(m: MapBase, expr: Expr, interval: Interval, *, budget: int = BUDGET) -> Proof:
    """Does an expression stay in the interval on the whole domain?"""
    return isl.prove_within(system_of(m), expr, interval, budget=budget)


def prove_inverse(
    first: Iterable[MapBase], second: Iterable[MapBase], *, budget: int = BUDGET
) -> Proof:
    """Is the second union the first with the sides of every pair swapped?

    Where runtime variables are read at indices that run, what they read is carried along.
    """
    a, b = ([m for m in side if not m.is_known_empty] for side in (first, second))
    proof = isl.prove_inverse(_systems(a), _systems(b), budget=budget)
    if proof.is_refuted and prove_same_reads(a, b, inverse=True, budget=budget):
        return replace(PROVED, seconds=proof.seconds)
    return unless_running(proof, a + b)


def prove_composed(
    first: Iterable[MapBase],
    second: Iterable[MapBase],
    composed: Iterable[MapBase],
    *,
    budget: int = BUDGET,
) -> Proof:
    """Is `composed` what `first` followed by `second` is?"""
    systems = _systems(first), _systems(second), _systems(composed)
    return isl.prove_composed(*systems, budget=budget)


def tight_bounds(m: MapBase, expr: Expr, *, budget: int = BUDGET) -> Interval | None:
    """The smallest interval around the values of an expression over the domain.

    `None` where isl cannot say.
    """
    if m.is_known_empty:
        return Interval.EMPTY
    return isl.tight_bounds(system_of(m), expr, budget=budget)


def equals(first: MapBase, second: MapBase) -> bool:
    """Are two maps the same relation?

    Raises:
        UnsupportedError: isl cannot say; the message says why.
    """
    proof = prove_equal([first], [second])
    if proof.verdict is Verdict.UNDECIDED:
        raise UnsupportedError(f"equality is undecided: {proof.reason}")
    return proof.is_proved
