"""Maps at the limits: empty ones, sizes of zero, numbers near those of int64, very long sums."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import POS_INF, Const, Dim, Expr, Interval, Range
from hloscope.errors import ParseError
from hloscope.fusion.analysis import linear
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import Access, IndexingMap
from hloscope.indexing.variables import replace_interval
from tests.indexing.maps import conditions, intervals, maps, relation


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(maps(runtime=2), st.lists(intervals, min_size=2, max_size=2))
def test_a_map_is_read_as_it_is_printed_clamps_among_it(
    m: IndexingMap, narrower: list[Interval]
) -> None:
    clamped = [
        replace_interval(v, v.interval & side) for v, side in zip(m.runtime, narrower, strict=False)
    ]
    for found in (m, m.with_(runtime=clamped), m.simplify()):
        if not found.is_known_empty:
            assert IndexingMap.parse(str(found)) == found


def test_a_clamp_is_printed_where_the_map_holds_for_less() -> None:
    m = IndexingMap.parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [0, 4]")
    less = m.bounded([4], [], [3])
    assert str(less).endswith("rt0 in [0, 2] clamped to [0, 4]")
    assert IndexingMap.parse(str(less)) == less
    assert not less.equals(m)
    for text, message in [
        ("rt0 in [0, 4] clamped to [1, 5]", "does not contain"),
        ("rt0 in [0, 4] clamped [0, 5]", "expected `to`"),
        ("rt0 in [0, 4], rt0 + 1 in [0, 4] clamped to [0, 5]", "expected `,`"),
    ]:
        with pytest.raises(ParseError, match=message):
            IndexingMap.parse(f"(){{rt0}} -> (rt0), domain: {text}")


remainders = st.tuples(st.integers(1, 5), intervals, conditions)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(maps(num_dims=1, num_results=1, runtime=0, ranges=2, max_leaves=3), remainders)
def test_rescaling_keeps_the_relation_of_maps_that_may_be_empty(
    m: IndexingMap, remainder: tuple[int, Interval, Interval]
) -> None:
    modulus, _, value = remainder
    for k in range(len(m.ranges)):
        m = m.add_constraint(Range(k) % modulus, Interval.point(value.lo))
    assert relation(m.rescale_symbols()) == relation(m)


def test_no_remainder_is_negative() -> None:
    m = IndexingMap.parse("()[s0] -> (s0), domain: s0 in [0, 7], s0 mod 3 in [-1, -1]")
    assert m.rescale_symbols().is_known_empty
    assert m.simplify().is_known_empty


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(maps(num_dims=1, num_results=2, runtime=0, ranges=2, max_leaves=6))
def test_small_maps_are_inverted_in_short_time(m: IndexingMap) -> None:
    back = m.inverse()
    swapped = {(rt, result, index) for rt, index, result in relation(m)}
    sides = [v.interval for v in back.dims]
    if back.is_known_empty:
        assert not swapped
    elif all(side.size < 60 for side in sides):
        assert relation(back) == swapped


@pytest.mark.timeout(30)
def test_an_inverse_that_would_divide_without_end_stops() -> None:
    m = IndexingMap.parse(
        "()[s0, s1] -> (((s0 * -5 + s1 * 3) / 2) mod 3, s1 * 3 + (s0 * 4) mod 3 + s0), "
        "domain: s0 in [-3, 4], s1 in [-3, 2], s0 * -2 in [3, 6]"
    )
    m.inverse()


NEAR = [2**62, 2**62 - 1, 2**62 + 1, 2**61, 3 * 2**60, 2**63 - 2, 2**53 + 1]


def test_constraints_near_the_limits_of_int64_keep_their_points() -> None:
    rng = Random(0)
    for _ in range(300):
        far = rng.choice(NEAR) * rng.choice([1, -1])
        first = Interval(far, min(far + 3, POS_INF - 1))
        box = [first, Interval(0, 3)] if rng.random() < 0.7 else [Interval(-2, 3), first]
        forms = [
            Dim(0) * rng.randint(-4, 4) + Dim(1) * rng.randint(-4, 4) + rng.choice(NEAR),
            (Dim(0) + rng.choice(NEAR) * Dim(1)) // rng.choice([2, 3, -4]),
            Dim(0) // 4 + Dim(1),
            (Dim(1) - Dim(0)) % 5,
            Dim(1) // 7 - Dim(0) // 3,
        ]
        e = rng.choice(forms)
        lo = max(-POS_INF, min(POS_INF - 9, rng.choice(NEAR) * rng.choice([1, -1, 0])))
        m = IndexingMap.of_sizes((1, 1), (), (Dim(0), Dim(1))).with_(
            dims=[v for v in IndexingMap.identity((1, 1)).bounded(box).dims],
            constraints=[(e, Interval(lo, lo + rng.choice([0, 3, 8])))],
        )
        simple = m.simplify()
        for point in product(*box):
            assert simple.satisfies(point) == m.satisfies(point), f"{m} is not {simple}"


def test_bounds_beyond_int64_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit into 64 bits"):
        IndexingMap.identity((4,)).add_constraint(Dim(0) * 2, Interval(0, 2**64))


def test_points_beyond_int64() -> None:
    m = IndexingMap.of_sizes((2**64,), (), (2**64 - 1 - Dim(0),))
    assert m.points((2**64 - 1,)) == {(0,)}
    assert m.points((2**64,)) == set()


@pytest.mark.slow
@pytest.mark.timeout(30)
def test_a_sum_of_thousands_of_remainders_is_simplified_soon() -> None:
    rng = Random(0)
    for signs in ([1], [1, -1, 3]):
        terms = [Dim(0) % k * rng.choice(signs) for k in range(2, 5002)]
        while len(terms) > 1:  # in pairs: each sum sorts its terms anew
            terms = [sum(terms[at : at + 2], Const(0)) for at in range(0, len(terms), 2)]
        m = IndexingMap.of_sizes((100_000_000,), (), tuple(terms))
        simple = m.simplify()
        for at in (0, 12_345, 99_999_999):
            assert simple.evaluate((at,)) == m.evaluate((at,))


def test_integers_of_many_digits_are_refused_with_their_place() -> None:
    for text in (
        f"(d0) -> (d0 * 1{'0' * 100_000})",
        f"(d0) -> (d0), domain: d0 in [0, {'9' * 5000}]",
    ):
        with pytest.raises(ParseError, match=r"digits|64 bits"):
            IndexingMap.parse(text)
    assert IndexingMap.parse(f"(d0) -> (d0 * 1{'0' * 300})").results


@pytest.mark.parametrize("order", ["{0,1,2}", "{2,1,0}", "{1,2,0}"])
@pytest.mark.parametrize("sizes", ["3,0,2", "0,0,1", "0,4,4"])
def test_places_of_tensors_without_elements(sizes: str, order: str) -> None:
    type = parse_type(f"f32[{sizes}]{order}")
    same = (Access(IndexingMap.identity(type.shape)),)  # type: ignore[union-attr]
    for access in linear(same, type, type):  # type: ignore[arg-type]
        assert access.map is not None
        assert access.map.simplify().is_known_empty


@pytest.mark.parametrize("condition", [Dim(0) // 2**70, (Dim(0) // 2**70 + 2) % 3], ids=str)
def test_conditions_on_quotients_by_what_has_more_than_64_bits_are_kept(condition: Expr) -> None:
    """A pad that is repeated, and reshaped to one dimension of more elements than 2^63."""
    m = IndexingMap.of_sizes((2**75,), (), [Dim(0)]).with_(
        constraints=[(condition, Interval(1, 2))]
    )
    found = m.simplify()
    for x in range(32):
        assert found.satisfies((x << 70,)) == m.satisfies((x << 70,))


@pytest.mark.parametrize("least", [4, 8, 9])
def test_conditions_on_quotients_of_what_passes_64_bits_are_kept(least: int) -> None:
    e = ((Dim(0) + 4) * 2**62 - Dim(1)) // (2**62 + 1)  # from 3 to 10
    condition = [(e, Interval(least, POS_INF))]
    m = IndexingMap.of_sizes((8, 2**62), (), [Dim(0)]).with_(constraints=condition)
    found = m.simplify()
    for point in product(range(8), (0, 5, 2**61, 2**62 - 1)):
        assert found.satisfies(point) == m.satisfies(point)
