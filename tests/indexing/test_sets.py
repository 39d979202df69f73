"""Maps as sets: images, numbers of elements, unions, differences, against enumeration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import Dim, Interval, Range, Runtime
from hloscope.errors import UnsupportedError
from hloscope.indexing import (
    IndexingMap,
    RuntimeVariable,
    prove_bijective,
    prove_implies,
    prove_injective,
    prove_single_valued,
)
from hloscope.indexing.sets import card
from hloscope.indexing.variables import below
from hloscope.ir.graph import Instruction
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.ops.control import Parameter
from tests.indexing.maps import Pair, maps, relation

ORIGIN = Instruction("i", TensorType(ELEMENT_TYPES["s32"], (4,)), Parameter(0))
plain = maps(num_dims=2, num_results=2, runtime=0, max_leaves=4)
sides = st.builds(lambda lo, n: Interval(lo, lo + n), st.integers(-4, 4), st.integers(0, 5))
boxes = st.tuples(sides, sides)


def parse(text: str) -> IndexingMap:
    return IndexingMap.parse(text)


def pairs(m: IndexingMap) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    return {(index, result) for _, index, result in relation(m)}


def inside(point: Sequence[int], box: Sequence[Interval]) -> bool:
    return all(side.contains(x) for side, x in zip(box, point, strict=True))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(plain, boxes)
def test_images_and_preimages_are_those_of_enumeration(
    m: IndexingMap, box: tuple[Interval, Interval]
) -> None:
    image = {result for index, result in pairs(m) if inside(index, box)}
    found = m.image(box)
    assert set(found) == image
    assert found.card() == len(image)
    assert all(inside(point, found.hull) for point in image)
    preimage = {index for index, result in pairs(m) if inside(result, box)}
    back = m.preimage(box)
    assert set(back) == preimage
    assert back.card() == len(preimage)
    for point in product(range(-2, 3), repeat=2):
        assert (point in found) == (point in image)
        assert (point in back) == (point in preimage)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(maps(num_dims=2, num_results=2, runtime=0, max_leaves=3))
def test_the_number_of_elements_is_exact(m: IndexingMap) -> None:
    assert m.card() == len({result for _, result in pairs(m)})
    assert card([m, m]) == m.card()


OPERATIONS: list[tuple[Callable[[IndexingMap, IndexingMap], list[IndexingMap]], str]] = [
    (IndexingMap.union, "__or__"),
    (IndexingMap.intersect, "__and__"),
    (IndexingMap.subtract, "__sub__"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "of_sets"), OPERATIONS, ids=[name for _, name in OPERATIONS])
def test_operations_are_those_of_sets_of_pairs(
    operation: Callable[[IndexingMap, IndexingMap], list[IndexingMap]], of_sets: str
) -> None:
    @settings(max_examples=40, deadline=None)
    @given(plain, plain)
    def check(a: IndexingMap, b: IndexingMap) -> None:
        parts = [pairs(m) for m in operation(a, b)]
        assert set().union(*parts) == getattr(pairs(a), of_sets)(pairs(b))
        for one, other in combinations(parts, 2):
            assert not one & other

    check()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(maps(num_dims=1, num_results=1, runtime=1, ranges=1, max_leaves=3), st.data())
def test_operations_hold_for_every_value_read_at_run_time(
    a: IndexingMap, data: st.DataObject
) -> None:
    a = a.with_(runtime=[RuntimeVariable(v.interval, "", ORIGIN) for v in a.runtime])
    b = a.with_(results=[a.results[0] + data.draw(st.integers(0, 2))])
    runtime = [v.interval for v in a.runtime]

    def triples(m: IndexingMap) -> set[Pair]:
        return (
            relation(m, runtime=runtime if m.runtime else [])
            if m.runtime
            else {
                (rt, index, result) for rt in product(*runtime) for _, index, result in relation(m)
            }
        )

    found = a.subtract(b)
    assert set().union(*map(triples, found)) == triples(a) - triples(b)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(maps(runtime=0, max_leaves=5))
def test_a_map_comes_back_from_isl(m: IndexingMap) -> None:
    back = IndexingMap.from_isl(m.to_isl())
    assert set().union(*map(pairs, back)) == pairs(m)
    for one, other in combinations(map(pairs, back), 2):
        assert not one & other
    joined = None
    for part in back:
        relation_of_part = part.to_isl()
        joined = relation_of_part if joined is None else joined.union(relation_of_part)
    assert m.to_isl().is_empty() if joined is None else joined.is_equal(m.to_isl())


READ_BACK = [
    "(d0) -> (d0 / 4, d0 mod 4), domain: d0 in [0, 39]",
    "(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3]",
    "(d0)[s0] -> (s0 * 8 + d0), domain: d0 in [0, 7], s0 in [0, 3]",
    "(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]",
    "(d0, d1) -> (d0 * 2 + d1 / 4, d1 mod 4), domain: d0 in [0, 9], d1 in [0, 7]",
    "(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [0, 4]",
]


@pytest.mark.parametrize("text", READ_BACK)
def test_simple_maps_come_back_as_they_were(text: str) -> None:
    assert [*map(str, IndexingMap.from_isl(parse(text).to_isl()))] == [text]


def test_a_relation_in_pieces_comes_back_in_pieces() -> None:
    found = IndexingMap.from_isl("{ [i] -> [i] : 0 <= i < 4; [i] -> [i - 4] : 8 <= i < 10 }")
    assert sorted(map(str, found)) == [
        "(d0) -> (d0 - 4), domain: d0 in [8, 9]",
        "(d0) -> (d0), domain: d0 in [0, 3]",
    ]


LARGE = [
    ("(d0, d1)[s0] -> (d0 * 1000 + d1, s0), domain: d0 in [0, 99999], d1 in [0, 999], "
     "s0 in [0, 1000000]", 100_000_000 * 1_000_001),
    ("(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 999999], s0 in [0, 2]", 2_000_001),
    ("(d0)[s0] -> (d0 * 5 + s0), domain: d0 in [0, 999999], s0 in [0, 2]", 3_000_000),
    ("(d0, d1) -> (d0 / 8, d1 mod 64), domain: d0 in [0, 99999], d1 in [0, 99999]", 12_500 * 64),
    ("(d0, d1) -> (d0, d1), domain: d0 in [0, 999], d1 in [0, 999], d0 + d1 in [0, 999]", 500_500),
    ("(d0, d1, d2) -> (d0, d1, d2), domain: d0 in [0, 9999], d1 in [0, 9999], d2 in [0, 9999], "
     "d0 mod 3 in [1, 1], d1 mod 5 in [0, 1]", 3333 * 4000 * 10_000),
]  # fmt: skip


@pytest.mark.parametrize(("text", "count"), LARGE)
def test_large_sets_are_counted_without_enumeration(text: str, count: int) -> None:
    assert parse(text).card() == count


def test_values_read_at_run_time_that_only_move_change_no_number() -> None:
    assert parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [0, 4]").card() == 4
    m = parse("(d0){rt0} -> (d0 * rt0), domain: d0 in [0, 3], rt0 in [0, 4]")
    with pytest.raises(UnsupportedError, match="runtime variables"):
        m.card()
    assert (m.card([0]), m.card([3])) == (1, 4)
    with pytest.raises(UnsupportedError, match="runtime variables"):
        _ = (1,) in m.image()
    assert (6,) in m.image().at_runtime([3])


def test_what_is_not_affine_is_enumerated_or_undecided() -> None:
    small = parse("(d0, d1) -> (d0 * d1), domain: d0 in [0, 99], d1 in [0, 99]")
    assert small.card() == len({a * b for a in range(100) for b in range(100)})
    large = small.bounded([5000, 5000])
    with pytest.raises(UnsupportedError, match="25000000 points are more than the 4194304"):
        large.card()
    with pytest.raises(UnsupportedError, match="undecided"):
        large.subtract(small)
    assert large.intersect(small)[0].points((99, 99)) == {(9801,)}


def test_boxes_are_checked() -> None:
    m = IndexingMap.identity((4, 6))
    assert m.image([1, range(2, 4)]).card() == 2
    assert m.image([1, range(0)]).card() == 0
    with pytest.raises(ValueError, match="1 intervals for 2 dimensions"):
        m.image([1])
    with pytest.raises(ValueError, match="leaves out"):
        m.image([1, range(0, 4, 2)])
    assert str(m.image([1, (7, 9)])) == "nothing"


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(maps(num_dims=1, num_results=1, runtime=0), maps(num_dims=1, num_results=1, runtime=0))
def test_claims_are_proved_or_refuted_with_an_example(a: IndexingMap, b: IndexingMap) -> None:
    proof = prove_implies([a], [b])
    assert proof.is_proved == (pairs(a) <= pairs(b))
    if proof.is_refuted:
        assert proof.counter_example is not None
        example = proof.counter_example.dims, proof.counter_example.results
        assert example in pairs(a) - pairs(b)
    assert a.implies(b) == proof.is_proved
    injective = prove_injective([a])
    results = [result for _, result in pairs(a)]
    assert injective.is_proved == (len(results) == len(set(results)))
    if injective.is_refuted:
        assert injective.counter_example is not None
        one, other = injective.counter_example.dims, injective.counter_example.results
        assert one != other
        assert a.points(one) & a.points(other)
    single = prove_single_valued([a])
    indices = [index for index, _ in pairs(a)]
    assert single.is_proved == (len(indices) == len(set(indices)))


def test_bijections() -> None:
    turn = parse("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]")
    assert turn.is_bijective((4, 8))
    for m, shape, reason in [
        (turn, (4, 9), "nothing leads to"),
        (turn, (3, 8), "result (3, "),
        (turn, (32,), "2 results, rank 1"),
        (parse("(d0) -> (d0), domain: d0 in [0, 7], d0 mod 2 in [0, 0]"), (8,), "no result"),
        (parse("(d0) -> (d0 / 2), domain: d0 in [0, 7]"), (4,), "in common"),
        (parse("(d0)[s0] -> (s0), domain: d0 in [0, 0], s0 in [0, 1]"), (2,), "two results"),
    ]:
        proof = prove_bijective(m, shape)
        assert proof.is_refuted
        assert reason in proof.reason
    assert parse("(d0) -> (d0)").equals(parse("(d0) -> (d0)"))
    with pytest.raises(UnsupportedError, match="no bounds"):
        parse("(d0) -> (d0)").is_bijective((4,))


@pytest.mark.parametrize("size", [8, 1 << 40])
def test_an_example_against_a_bijection_is_an_index_or_a_result(size: int) -> None:
    m = parse(f"(d0) -> (d0), domain: d0 in [0, {size - 1}]")
    example = prove_bijective(m, (size + 1,)).counter_example
    assert example is not None
    assert (example.dims, example.results) == ((), (size,))
    odd = parse(f"(d0) -> (d0), domain: d0 in [0, {size - 1}], d0 mod {size} in [1, {size - 1}]")
    example = prove_bijective(odd, (size,)).counter_example
    assert example is not None
    assert (example.dims, example.results) == ((0,), ())


def test_a_small_budget_leaves_a_claim_undecided() -> None:
    a = parse("(d0, d1) -> ((d0 * 7 + d1) / 13 mod 5), domain: d0 in [0, 99], d1 in [0, 99]")
    proof = prove_implies([a], [a.with_(results=[(a.results[0] + 5) % 5])], budget=20)
    assert proof.verdict == "undecided"
    assert "20 steps" in proof.reason


def test_values_read_at_each_index_may_be_equal() -> None:
    read = RuntimeVariable(Interval(0, 9), "", ORIGIN, (Dim(0),))
    m = IndexingMap([below(4)], [], [read], [Runtime(0)])
    assert not m.is_injective()
    running = IndexingMap(
        [below(4)], [below(3)], [RuntimeVariable(Interval(0, 9), "", ORIGIN, (Range(0),))],
        [Runtime(0)],
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match="indices that run"):
        running.subtract(m)
