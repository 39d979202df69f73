"""What is found by looking at every point is what isl proves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hloscope.indexing.claims as claims
import hloscope.indexing.evaluate as enumerated
import hloscope.indexing.evaluate as evaluate
from hloscope.affine import Interval
from hloscope.indexing import IndexingMap
from hloscope.simplifier import BUDGET, Proof
from tests.indexing.maps import maps


@pytest.fixture(autouse=True, scope="module")
def every_map_is_looked_at() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumerated, "FEW_DIVISIONS", -1)
        patch.setattr(evaluate, "CHUNK", 5)  # so that no answer comes of one chunk alone
        yield


def agree(found: Proof | None, ask: Callable[[], Proof]) -> None:
    """The same verdict as isl's."""
    if found is not None:
        assert found.verdict == ask().verdict


some = maps(num_dims=2, num_results=2, runtime=0)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some, some)
def test_relations_are_compared_as_by_isl(a: IndexingMap, b: IndexingMap) -> None:
    if a.is_known_empty or b.is_known_empty:
        return
    agree(enumerated.subset([a], [b]), lambda: claims.subset([a], [b], BUDGET))
    agree(enumerated.subset([a], [b, a]), lambda: claims.subset([a], [b, a], BUDGET))
    agree(enumerated.subset([a], [b], both=True), lambda: claims.equal([a], [b], BUDGET))
    agree(enumerated.inverse([a], [b]), lambda: claims.inverse([a], [b], BUDGET))
    back = a.inverse()
    if not back.is_known_empty:
        agree(enumerated.inverse([a], [back]), lambda: claims.inverse([a], [back], BUDGET))


def test_small_maps_are_looked_at() -> None:
    m = IndexingMap.parse("(d0, d1) -> (d0 / 2, d1 mod 3), domain: d0 in [0, 7], d1 in [0, 4]")
    other = IndexingMap.parse("(d0, d1) -> (d0 / 2, d1 mod 2), domain: d0 in [0, 7], d1 in [0, 4]")
    found = [enumerated.subset([m], [m, other]), enumerated.inverse([m], [m.inverse()])]
    assert [proof is not None and proof.is_proved for proof in found] == [True, True]
    assert [enumerated.subset([], [m]), enumerated.subset([m], [])] == [None, None]
    refuted = enumerated.subset([m], [other])
    assert refuted is not None
    assert not refuted.is_proved


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some, st.integers(-4, 4), st.integers(0, 12))
def test_one_map_is_judged_as_by_isl(m: IndexingMap, low: int, size: int) -> None:
    if m.is_known_empty:
        return
    agree(enumerated.empty([m]), lambda: claims.empty([m], BUDGET))
    for reverse in (False, True):
        by_isl = partial(claims.one_to_one, [m], BUDGET, reverse=reverse)
        agree(enumerated.one_to_one([m], reverse=reverse), by_isl)
    boxes = [v.interval for v in m.dims], [Interval(low, low + size)] * 2
    agree(enumerated.onto(m, boxes), lambda: claims.onto(m, boxes, BUDGET))
    side = Interval(low, low + size)
    agree(
        enumerated.within(m, m.results[0], side),
        lambda: claims.within(m, m.results[0], side, BUDGET),
    )
    if (found := enumerated.extent(m, m.results[0])) is not None:
        assert found == claims.tight_bounds(m, m.results[0], BUDGET)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(some)
def test_counter_examples_show_what_they_say(m: IndexingMap) -> None:
    proof = enumerated.one_to_one([m], reverse=False)
    if proof is None or not proof.is_refuted:
        return
    assert proof.counter_example is not None
    one, two = proof.counter_example.dims, proof.counter_example.results
    assert one != two
    assert m.points(one) & m.points(two)


def test_maps_of_too_many_points_are_left_to_isl() -> None:
    big = IndexingMap.parse("(d0, d1) -> (d0 / 3, d1), domain: d0 in [0, 9999], d1 in [0, 9999]")
    open_ = IndexingMap.parse("(d0) -> (d0 / 3)")
    reads = IndexingMap.parse("(d0){rt0} -> (d0 / 3 + rt0), domain: d0 in [0, 9], rt0 in [0, 3]")
    assert [enumerated.tables_of_pairs([m]) for m in (big, open_, reads)] == [None] * 3
