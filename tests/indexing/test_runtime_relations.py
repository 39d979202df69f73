"""Relations of maps that read at run time, against enumeration for random tables.

What is proved holds for every table that is tried; what is refuted is wrong for the tables of its
counter-example, whatever the elements are that it doesn't list; numbers lie within their bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from random import Random
from typing import Any, TypeVar

import pytest

from hloscope.affine import Dim, Interval, Range, Runtime
from hloscope.errors import UnsupportedError
from hloscope.indexing import (
    IndexingMap,
    RuntimeVariable,
    claims,
    prove_bijective,
    prove_composed,
    prove_empty,
    prove_equal,
    prove_implies,
    prove_injective,
    prove_inverse,
    prove_single_valued,
    prove_within,
)
from hloscope.indexing.variables import below
from hloscope.simplifier.isl_tables import refutations
from hloscope.simplifier.verdicts import CounterExample, Proof
from tests.indexing.tables import (
    Pairs,
    Tables,
    origins,
    pairs,
    random_map,
    random_tables,
    tables_of,
    variants,
)

MOST_POINTS = 1500
A = TypeVar("A")
VECTOR, OTHER, MATRIX, TRUTH = origins()


class Pair:
    """Two maps and what they are for some tables; every claim about them is checked."""

    def __init__(self, seed: int, asked: Counter[str]) -> None:
        self.seed, self.asked = seed, asked
        self.rng = rng = Random(seed)
        n, k = rng.randint(0, 2), rng.randint(0, 2)
        self.first = random_map(rng, num_dims=n, num_results=k)
        if rng.random() < 0.3:
            self.second = random_map(rng, num_dims=n, num_results=k)
        else:
            self.second = rng.choice([*variants(rng, self.first)])
        self.tables = [random_tables(rng) for _ in range(8)]

    def check(
        self,
        claim: str,
        ask: Callable[[], Proof],
        holds: Callable[[Tables], bool],
        shown: Callable[[CounterExample, Tables], bool],
    ) -> None:
        proof = ask()
        self.asked[f"{claim} {proof.verdict}"] += 1
        where = f"{claim}, seed {self.seed}: {proof}"
        if proof.is_proved:
            assert all(map(holds, self.tables)), where
        if proof.is_refuted:
            assert proof.counter_example is not None, where
            for number in range(3):
                tables = tables_of(proof.counter_example, Random(number))
                assert shown(proof.counter_example, tables), where

    def compare(
        self,
        claim: str,
        ask: Callable[[], Proof],
        first: Callable[[Tables], Pairs],
        second: Callable[[Tables], Pairs],
        *,
        both: bool = True,
    ) -> None:
        """A claim that two relations are equal, or that the first is part of the second."""

        def holds(tables: Tables) -> bool:
            a, b = first(tables), second(tables)
            return a == b if both else a <= b

        def shown(example: CounterExample, tables: Tables) -> bool:
            sides = [first(tables), second(tables)]
            pair = example.dims, example.results
            return pair in sides[example.only_in] and pair not in sides[1 - example.only_in]

        self.check(claim, ask, holds, shown)


def check_pair(seed: int, asked: Counter[str]) -> None:
    pair = Pair(seed, asked)
    a, b, rng = pair.first, pair.second, pair.rng

    def of(m: IndexingMap) -> Callable[[Tables], Pairs]:
        return lambda tables: pairs(m, tables)

    pair.compare("equal", lambda: prove_equal([a], [b]), of(a), of(b))
    pair.compare("implied", lambda: prove_implies([a], [b]), of(a), of(b), both=False)
    pair.compare("empty", lambda: prove_empty([a]), of(a), lambda tables: set())
    pair.check(
        "injective",
        lambda: prove_injective([a]),
        lambda tables: injective(pairs(a, tables)),
        lambda example, tables: (
            example.dims != example.results
            and bool(reached(a, example.dims, tables) & reached(a, example.results, tables))
        ),
    )
    pair.check(
        "single-valued",
        lambda: prove_single_valued([a]),
        lambda tables: injective(swapped(pairs(a, tables))),
        lambda example, tables: (
            example.dims != example.results
            and any(
                {example.dims, example.results} <= reached(a, d, tables)
                for d, _ in pairs(a, tables)
            )
        ),
    )
    shape = [rng.randint(1, 3) for _ in a.results]
    pair.check(
        "bijective",
        lambda: prove_bijective(a, shape),
        lambda tables: bijective(a, shape, pairs(a, tables)),
        lambda example, tables: not bijective(a, shape, pairs(a, tables)),
    )
    back = a.inverse()
    assert not back.verify(), seed
    other = back if rng.random() < 0.6 else rng.choice([*variants(rng, back)])
    if points_of(other) <= MOST_POINTS:
        inverse = lambda tables: swapped(pairs(other, tables))  # noqa: E731
        pair.compare("inverse", lambda: prove_inverse([a], [other]), of(a), inverse)
    if points_of(back) <= MOST_POINTS:
        assert all(pairs(a, t) == swapped(pairs(back, t)) for t in pair.tables), seed
    check_composition(pair)
    check_numbers(pair)


def check_composition(pair: Pair) -> None:
    a, rng = pair.first, pair.rng
    after = random_map(rng, num_dims=len(a.results), num_results=rng.randint(0, 2))
    whole = a.compose(after)
    other = rng.choice([whole, whole, whole.simplify(), *variants(rng, whole)])

    def steps(tables: Tables) -> Pairs:
        return {
            (index, result)
            for index, middle in pairs(a, tables)
            for result in reached(after, middle, tables)
        }

    if points_of(whole) <= MOST_POINTS:
        assert all(steps(t) == pairs(whole, t) for t in pair.tables[:3]), pair.seed
    if points_of(other) <= MOST_POINTS:
        claim = lambda: prove_composed([a], [after], [other])  # noqa: E731
        pair.compare("composed", claim, steps, lambda tables: pairs(other, tables))


def check_numbers(pair: Pair) -> None:
    a = pair.first
    low, high = a.card_bounds()
    for tables in pair.tables:
        assert low <= len({result for _, result in pairs(a, tables)}) <= high, pair.seed
    pair.asked["number exact" if low == high else "number between"] += 1
    if low == high:
        assert a.card() == low
    else:
        with pytest.raises(UnsupportedError, match=f"{low} to {high}"):
            a.card()
    image, preimage = a.image(), a.preimage()
    for tables in pair.tables:
        related = pairs(a, tables)
        results = {result for _, result in related}
        assert {result for _, result in of_set(image.maps, tables)} == results
        assert {index for _, index in of_set(preimage.maps, tables)} == {i for i, _ in related}
    for point in product(range(-1, 2), repeat=len(a.results)):
        try:
            inside = point in image
        except UnsupportedError:
            continue
        for tables in pair.tables:
            assert (point in {r for _, r in pairs(a, tables)}) is inside, pair.seed


def of_set(maps: tuple[IndexingMap, ...], tables: Tables) -> Pairs:
    return set().union(*(pairs(m, tables) for m in maps))


def points_of(m: IndexingMap) -> int:
    return prod(v.interval.size for v in (*m.dims, *m.ranges))


def reached(m: IndexingMap, index: tuple[int, ...], tables: Tables) -> set[tuple[int, ...]]:
    return {result for dims, result in pairs(m, tables) if dims == index}


def swapped(relation: Pairs) -> Pairs:
    return {(result, index) for index, result in relation}


def injective(relation: Pairs) -> bool:
    return len({result for _, result in relation}) == len(relation)


def bijective(m: IndexingMap, shape: list[int], relation: Pairs) -> bool:
    indices = set(product(*(v.interval for v in m.dims)))
    whole = set(product(*map(range, shape)))
    both_ways = injective(relation) and injective(swapped(relation))
    found = {index for index, _ in relation}, {result for _, result in relation}
    return both_ways and found == (indices, whole)


@pytest.mark.slow
def test_claims_about_random_maps_hold_for_all_tables(full: bool) -> None:
    asked: Counter[str] = Counter()
    for seed in range(5000 if full else 40):
        check_pair(seed, asked)
    print(dict(asked))
    undecided = sum(count for what, count in asked.items() if what.endswith("undecided"))
    assert undecided < sum(asked.values()) / 20
    for claim in ("equal", "implied", "empty", "injective", "single-valued", "inverse", "composed"):
        assert asked[f"{claim} proved"]
        assert asked[f"{claim} refuted"]


# ---------------------------------------------------------------------------------- gathers by hand


def reads(
    origin: object = VECTOR, *index: object, lo: int = 0, hi: int = 9, name: str = ""
) -> RuntimeVariable:
    where = tuple([Dim(0) * 0 + e for e in index])  # type: ignore[operator]
    return RuntimeVariable(Interval(lo, hi), name, origin, where)  # type: ignore[arg-type]


S0, S1, RT0, RT1 = Range(0), Range(1), Runtime(0), Runtime(1)
ROWS = IndexingMap.of_sizes((), (4, 4), (RT0, S1), (), [reads(VECTOR, S0)])
DIAGONAL = IndexingMap.of_sizes((), (4,), (RT0, S0), (), [reads(VECTOR, S0)])


def test_all_elements_of_gathered_rows_are_not_their_diagonal() -> None:
    assert not ROWS.equals(DIAGONAL)
    assert not ROWS.implies(DIAGONAL)
    assert DIAGONAL.implies(ROWS)
    proof = prove_implies([ROWS], [DIAGONAL])
    assert proof.counter_example is not None
    assert proof.counter_example.tables[0].name == "i"
    assert "where i[" in str(proof.counter_example)


def test_the_number_of_gathered_elements_lies_between_those_of_equal_and_different_rows() -> None:
    gather = IndexingMap.of_sizes((4, 4), (), (RT0, Dim(1)), (), [reads(VECTOR, Dim(0), hi=99)])
    assert gather.card_bounds() == (4, 16)
    with pytest.raises(UnsupportedError, match="runtime variables decide it, 4 to 16"):
        gather.card()
    with pytest.raises(UnsupportedError, match="one value for rt0"):
        gather.card([3])
    window = IndexingMap.of_sizes((4,), (3,), (RT0 + S0,), (), [reads(VECTOR, Dim(0))])
    assert window.card_bounds() == (3, 12)


@pytest.mark.parametrize(
    ("shape", "least"), [("first", 9), ("middle", 9), ("last", 9), ("none", 1)]
)
def test_the_number_of_elements_is_at_least_that_at_one_index(shape: str, least: int) -> None:
    """One row of a window of 9 elements is whole: the first, the middle, the last one, or none."""
    between_0_and_8 = {
        "first": [S0 + Dim(0) * 2],
        "middle": [S0 + Dim(0) * 2 - 8, S0 - Dim(0) * 2 + 8],
        "last": [S0 - Dim(0) * 2 + 16],
        "none": [S0 * 9 + Dim(0)],
    }
    m = IndexingMap.of_sizes((9,), (9,), (RT0 + S0,), (), [reads(VECTOR, Dim(0))])
    rows = IndexingMap.of_sizes((9, 3), (9,), (RT0 + S0, Dim(1)), (), [reads(VECTOR, Dim(0))])
    for e in between_0_and_8[shape]:
        m, rows = m.add_constraint(e, Interval(0, 8)), rows.add_constraint(e, Interval(0, 8))
    assert m.card_bounds()[0] == least
    assert rows.card_bounds()[0] == 3 * least


def test_what_is_read_moves_each_row_and_changes_no_number() -> None:
    update = IndexingMap.of_sizes((4, 3), (), (Dim(0), Dim(1) + RT0), (), [reads(VECTOR, Dim(0))])
    assert update.card() == 12
    nested = IndexingMap.of_sizes(
        (4, 3), (), (Dim(0), Dim(1) - RT1), (), [reads(VECTOR, Dim(0)), reads(OTHER, RT0)]
    )
    assert nested.card() == 12


def test_equal_elements_are_equal_values_and_other_elements_are_not() -> None:
    def read_at(index: object, origin: object = VECTOR) -> IndexingMap:
        return IndexingMap.of_sizes((4,), (), (RT0,), (), [reads(origin, index)])

    assert read_at(Dim(0) * 2 % 2).equals(read_at(0))
    assert not read_at(Dim(0)).equals(read_at(0))
    assert not read_at(Dim(0)).equals(read_at(Dim(0), OTHER))
    here, next_ = read_at(Dim(0)), read_at(Dim(0) + 1)
    assert not here.equals(next_)
    assert here.bounded([1], [], [10]).equals(read_at(0).bounded([1], [], [10]))
    assert not here.is_injective()
    assert prove_single_valued([here]).is_proved


def test_one_element_that_is_clamped_twice_is_one_element() -> None:
    both = [reads(VECTOR, 0, lo=0, hi=9), reads(VECTOR, 0, lo=3, hi=5)]
    m = IndexingMap.of_sizes((1,), (), (RT0, RT1), (), both)
    assert prove_within(m, RT1 - RT0, Interval(-4, 3)).is_proved
    assert prove_within(m, RT1 - RT0, Interval(-4, 2)).is_refuted
    below_three = m.add_constraint(RT0, Interval(0, 2))
    assert prove_within(below_three, RT1, Interval(3, 3)).is_proved


def test_elements_of_a_tensor_of_truth_values_are_0_or_1() -> None:
    m = IndexingMap.of_sizes((4,), (), (RT0,), (), [reads(TRUTH, Dim(0))])
    assert prove_within(m, RT0, Interval(0, 1)).is_proved
    assert prove_within(m, RT0, Interval(0, 0)).is_refuted


def test_reading_through_two_tables() -> None:
    twice = [reads(VECTOR, S0), reads(OTHER, RT0)]
    m = IndexingMap.of_sizes((), (4,), (RT1,), (), twice)
    same = IndexingMap.of_sizes((), (4,), (RT1,), (), [reads(VECTOR, 3 - S0), reads(OTHER, RT0)])
    other = IndexingMap.of_sizes((), (4,), (RT1,), (), [reads(OTHER, S0), reads(VECTOR, RT0)])
    assert m.equals(same)
    assert not m.equals(other)
    index = IndexingMap.of_sizes((4,), (), (RT0,), (), [reads(VECTOR, Dim(0))])
    outer = IndexingMap.of_sizes((10,), (), (RT0,), (), [reads(OTHER, Dim(0))])
    assert prove_composed([index], [outer], [index.compose(outer)]).is_proved
    assert prove_composed([index], [outer], [index]).is_refuted


def test_a_gather_and_its_inverse() -> None:
    gather = IndexingMap.of_sizes((4,), (), (RT0,), (), [reads(VECTOR, Dim(0), hi=99)])
    assert prove_inverse([gather], [gather.inverse()]).is_proved
    here = IndexingMap.of_sizes(
        (100,), (4,), (S0,), [(RT0 - Dim(0), Interval(0, 0))], [reads(VECTOR, Dim(0), hi=99)]
    )
    assert prove_inverse([gather], [here]).is_refuted


def test_variables_without_origin_are_told_by_name_or_position() -> None:
    first = IndexingMap.parse(
        "(d0){a, b} -> (d0 + a), domain: d0 in [0, 3], a in [0, 4], b in [0, 4]"
    )
    second = IndexingMap.parse(
        "(d0){b, a} -> (d0 + a), domain: d0 in [0, 3], a in [0, 4], b in [0, 4]"
    )
    assert first.equals(second)
    shift = IndexingMap.parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [0, 4]")
    wide = shift.bounded([14], [], [5])
    assert prove_composed([shift], [wide], [shift.compose(wide)]).is_proved
    twice = IndexingMap.parse("(d0){rt0} -> (d0 + rt0 * 2), domain: d0 in [0, 9], rt0 in [0, 4]")
    assert not prove_composed([shift], [wide], [twice]).is_proved


def test_relations_with_running_reads_are_not_given_to_isl_as_constants() -> None:
    for m in (ROWS, IndexingMap.of_sizes((4,), (), (RT0,), (), [reads(VECTOR, Dim(0))])):
        with pytest.raises(UnsupportedError, match="read at indices that run"):
            m.to_isl()
    with pytest.raises(UnsupportedError, match="indices that run"):
        ROWS.subtract(DIAGONAL)


def test_bijections_read_at_run_time_are_refuted_by_a_table() -> None:
    m = IndexingMap([below(4)], [], [reads(VECTOR, Dim(0), hi=3)], [RT0])
    proof = prove_bijective(m, (4,))
    assert proof.is_refuted
    assert "where i[" in proof.reason


@pytest.mark.parametrize(("seconds", "is_refuted"), [(60, True), (0, False)])
def test_families_of_tables_are_tried_while_there_is_time(
    seconds: int, is_refuted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(*given: Any) -> Iterator[Any]:
        yield from (None, None)
        yield from refutations(*given)

    monkeypatch.setattr(claims, "refutations", later)
    monkeypatch.setattr(claims, "SECONDS", seconds)
    some = IndexingMap([below(4)], [below(4)], [reads(VECTOR, S0, hi=3)], [RT0])
    every = IndexingMap([below(4)], [below(4)], [], [S0])
    assert prove_equal([every], [some]).is_refuted is is_refuted


def test_what_leaves_an_interval_is_told_with_its_index() -> None:
    m = IndexingMap.of_sizes((4, 2), (), (RT0 + Dim(0),), (), [reads(VECTOR, Dim(0), hi=9)])
    found = prove_within(m, m.results[0], Interval(0, 5)).counter_example
    assert found is not None
    assert (len(found.dims), len(found.results)) == (2, 1)
