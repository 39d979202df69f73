"""Proofs about one map or two: implication, injectivity, bijectivity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import hloscope.indexing.claims as claims
import hloscope.indexing.enumerated as enumerated
from hloscope.affine import Interval
from hloscope.errors import UnsupportedError
from hloscope.indexing.base import MapBase
from hloscope.indexing.exact import system_of
from hloscope.simplifier import BUDGET, PROVED, CounterExample, Proof, Verdict, isl


def prove_implies(
    first: Iterable[MapBase], second: Iterable[MapBase], *, budget: int = BUDGET
) -> Proof:
    """Prove that the second union of maps has every pair of the first.

    >>> from hloscope.indexing import IndexingMap
    >>> row = IndexingMap.parse("(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 4]")
    >>> here = IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 3]")
    >>> prove_implies([here], [row]).verdict, prove_implies([row], [here]).verdict
    (<Verdict.PROVED: 'proved'>, <Verdict.REFUTED: 'refuted'>)
    """
    a, b = [*first], [*second]
    if a == b:
        return PROVED
    if any(m.is_undefined for m in a + b):
        return Proof(Verdict.UNDECIDED, reason="an undefined map says nothing")
    a, b = ([m for m in side if not m.is_known_empty] for side in (a, b))
    try:
        if claims.any_reads(a, b):
            return claims.subset(a, b, budget)
        if (known := enumerated.subset(a, b)) is not None:
            return known
        return isl.prove_subset([*map(system_of, a)], [*map(system_of, b)], budget=budget)
    except ValueError as error:
        return Proof(Verdict.REFUTED, reason=str(error))


def prove_injective(maps: Iterable[MapBase], *, budget: int = BUDGET) -> Proof:
    """Prove that every result of the maps together belongs to only one index.

    The counter-example relates two indices with a common result.
    """
    return _one_to_one([*maps], budget, reverse=False)


def prove_single_valued(maps: Iterable[MapBase], *, budget: int = BUDGET) -> Proof:
    """Prove that every index has at most one result.

    The counter-example relates two results of one index.
    """
    return _one_to_one([*maps], budget, reverse=True)


def _one_to_one(maps: list[MapBase], budget: int, *, reverse: bool) -> Proof:
    if undecided := _undecided(maps):
        return undecided
    maps = [m for m in maps if not m.is_known_empty]
    if claims.any_reads(maps):
        return claims.one_to_one(maps, budget, reverse=reverse)
    if (known := enumerated.one_to_one(maps, reverse=reverse)) is not None:
        return known
    ask = isl.prove_single_valued if reverse else isl.prove_injective
    return ask([*map(system_of, maps)], budget=budget)


def prove_bijective(m: MapBase, shape: Sequence[int], *, budget: int = BUDGET) -> Proof:
    """Prove that every index in bounds has one result, and every index of `shape` one origin.

    >>> from hloscope.indexing import IndexingMap
    >>> turn = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 6]")
    >>> prove_bijective(turn, (7, 4)).verdict, prove_bijective(turn, (7, 5)).reason
    (<Verdict.PROVED: 'proved'>, 'nothing leads to (0, 4)')
    """
    if len(shape) != len(m.results):
        return Proof(Verdict.REFUTED, reason=f"{len(m.results)} results, rank {len(shape)}")
    if undecided := _undecided([m]):
        return undecided
    domain = [v.interval for v in m.dims]
    if not all(side.is_finite for side in domain):
        return Proof(Verdict.UNDECIDED, reason="the map has no bounds")
    if m.is_known_empty:
        if 0 in shape:
            return PROVED
        nothing = CounterExample((), (0,) * len(shape))
        return Proof(Verdict.REFUTED, nothing, "the map is empty, the shape is not")
    boxes = domain, [Interval(0, size - 1) for size in shape]
    if m.runtime:
        whole = claims.onto(m, boxes, budget)
    else:
        known = enumerated.onto(m, boxes)
        whole = known or isl.prove_onto([system_of(m)], boxes, budget=budget)
    # The weakest of the three verdicts counts: refuted before undecided before proved.
    proofs = [prove_injective([m], budget=budget), prove_single_valued([m], budget=budget), whole]
    order = Verdict.REFUTED, Verdict.UNDECIDED, Verdict.PROVED
    return min(proofs, key=lambda proof: order.index(proof.verdict))


def _undecided(maps: Sequence[MapBase]) -> Proof | None:
    if any(m.is_undefined for m in maps):
        return Proof(Verdict.UNDECIDED, reason="an undefined map says nothing")
    return None


def decided(proof: Proof, what: str) -> bool:
    """Return whether the proof succeeded.

    Raises:
        UnsupportedError: It is undecided.
    """
    if proof.verdict is Verdict.UNDECIDED:
        raise UnsupportedError(f"{what} is undecided: {proof.reason}")
    return proof.is_proved
