"""Maps as sets: images, numbers of elements, unions, differences, against enumeration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import Dim, Interval, Mod, Range, Runtime
from hloscope.errors import UnsupportedError
from hloscope.indexing import (
    IndexingMap,
    IndexSet,
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
    "(d0, d1) -> (d0 * 2), domain: d0 in [0, 3], d1 in [0, 6]",
    "() -> (7)",
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


MEMBERS = [
    # text, elements for every runtime value, elements for some of them
    ("() -> (4), domain:", [4], []),
    ("(d0) -> (d0 * 2), domain: d0 in [1, 3]", [2, 4, 6], []),
    ("(d0, d1) -> (d0 * 3 + d1 * 5), domain: d0 in [0, 2], d1 in [0, 1]", [0, 3, 5, 6, 8, 11], []),
    ("(d0) -> (d0), domain: d0 in [1, 0]", [], []),
    ("(d0){rt0} -> (rt0), domain: d0 in [0, 3], rt0 in [2, 5]", [], [2, 3, 4, 5]),
    ("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [1, 2]", [2, 3, 4], [1, 5]),
    ("(d0){rt0} -> ((d0 + rt0) mod 4), domain: d0 in [0, 3], rt0 in [0, 9]", [0, 1, 2, 3], []),
]


@pytest.mark.parametrize(("text", "sure", "possible"), MEMBERS)
def test_a_member_is_one_for_every_value_read_at_run_time(
    text: str, sure: list[int], possible: list[int]
) -> None:
    found = parse(text.removesuffix(", domain:")).image()
    for k in range(-1, 13):
        if k in possible:
            with pytest.raises(UnsupportedError, match="membership depends on runtime variables"):
                _ = (k,) in found
        else:
            assert ((k,) in found) == (k in sure), k
    assert () not in found
    assert (sure[0] if sure else 0, 0) not in found


def test_a_set_of_several_maps_has_the_members_of_each() -> None:
    fixed, read = (
        parse("(d0) -> (d0), domain: d0 in [0, 2]").image(),
        parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [4, 6], rt0 in [0, 1]").image(),
    )
    for maps_of in ((*fixed.maps, *read.maps), (*read.maps, *fixed.maps)):
        both = IndexSet(maps_of, 1)
        assert [k for k in (-1, 0, 1, 2, 3, 5, 6, 8) if (k,) in both] == [0, 1, 2, 5, 6]
        for k in (4, 7):
            with pytest.raises(UnsupportedError, match="give them values"):
                _ = (k,) in both
        assert both.hull == (Interval(0, 7),)


def test_membership_in_large_sets_is_proved_or_undecided() -> None:
    large = "d0 in [0, 4999999], d1 in [0, 4999999]"
    coins = parse(f"(d0, d1) -> (d0 * 3 + d1 * 5), domain: {large}").image()
    assert [k for k in (-1, 0, 1, 7, 8, 7777) if (k,) in coins] == [0, 8, 7777]
    product_of = parse(f"(d0, d1) -> (d0 * d1), domain: {large}").image()
    with pytest.raises(UnsupportedError, match=r"membership is undecided: .* not affine"):
        _ = (7,) in product_of


def test_boxes_restrict_dimensions_and_results() -> None:
    m = parse("(d0) -> (d0 / 2, d0 mod 2), domain: d0 in [0, 9]")
    assert set(m.image()) == {(k // 2, k % 2) for k in range(10)}
    assert set(m.preimage()) == {(k,) for k in range(10)}
    for side in (Interval(1, 2), (1, 2), range(1, 3), range(2, 0, -1)):
        assert set(m.image([side])) == {(0, 1), (1, 0)}
        assert set(m.preimage([side, 1])) == {(3,), (5,)}
    for point in (3, range(3, 4, 7), range(3, 0, -5)):
        assert set(m.image([point])) == {(1, 1)}
    with pytest.raises(ValueError, match=r"range\(0, 4, 3\) leaves out"):
        m.image([range(0, 4, 3)])
    with pytest.raises(ValueError, match="1 intervals for 2 results"):
        m.preimage([1])
    assert m.image([(1, 2)]).hull == (Interval(0, 1), Interval(0, 1))
    assert m.image([(1, 0)]).hull == (Interval.EMPTY, Interval.EMPTY)


def test_values_for_a_set_are_one_for_each_variable_read_at_fixed_indices() -> None:
    read = parse("(d0){rt0, rt1} -> (d0 + rt0 + rt1), domain: d0 in [0, 1], rt0 in [0, 3], "
                 "rt1 in [0, 3]").image()  # fmt: skip
    assert set(read.at_runtime([1, 2])) == {(3,), (4,)}
    assert read.card([3, 3]) == 2
    for values in ((1,), (1, 2, 3)):
        with pytest.raises(ValueError, match=f"{len(values)} values for 2 runtime variables"):
            read.at_runtime(values)
    varying = RuntimeVariable(Interval(0, 9), "", ORIGIN, (Dim(0),))
    with pytest.raises(UnsupportedError, match="read at several indices"):
        IndexingMap([below(4)], [], [varying], [Runtime(0)]).image().at_runtime([1])


SOME = "(d0) -> (d0), domain: d0 in [0, 9]"
DOUBLE = "(d0) -> (d0 * 2), domain: d0 in [0, 9]"
NOTHING = "(d0) -> (d0), domain: d0 in [1, 0]"


@pytest.mark.parametrize("first", [SOME, DOUBLE, NOTHING])
@pytest.mark.parametrize("second", [SOME, DOUBLE, NOTHING])
def test_operations_on_small_and_empty_maps(first: str, second: str) -> None:
    a, b = parse(first), parse(second)
    for found, expected in [
        (a.union(b), pairs(a) | pairs(b)),
        (a.intersect(b), pairs(a) & pairs(b)),
        (a.subtract(b), pairs(a) - pairs(b)),
    ]:
        assert set().union(*map(pairs, found)) == expected
        assert all(map(pairs, found))  # no part is empty


@pytest.mark.parametrize("operation", ["union", "intersect", "subtract"])
def test_operations_need_maps_between_the_same_spaces(operation: str) -> None:
    one = parse(SOME)
    for other, shapes in [
        ("(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 9]", ["1 -> 1", "2 -> 1"]),
        ("(d0) -> (d0, d0), domain: d0 in [0, 9]", ["1 -> 1", "1 -> 2"]),
    ]:
        with pytest.raises(ValueError, match=" and ") as caught:
            getattr(one, operation)(parse(other))
        assert sorted(str(caught.value).split(" and ")) == shapes
    for a, b in ((one, IndexingMap.undefined()), (IndexingMap.undefined(), one)):
        with pytest.raises(UnsupportedError, match="undefined"):
            getattr(a, operation)(b)


def test_an_intersection_that_is_not_affine_keeps_its_dimensions_and_variables() -> None:
    first = parse("(d0, d1)[s0]{rt0} -> (d0 * s0 + rt0), domain: d0 in [0, 4999], d1 in [2, 9], "
                  "s0 in [0, 499], rt0 in [0, 9]")  # fmt: skip
    second = parse("(d0, d1)[s0, s1]{rt0} -> (d0 * s0 + s1 + rt0), domain: d0 in [7, 9], "
                   "d1 in [0, 4], s0 in [3, 60], s1 in [0, 2], rt0 in [0, 1]")  # fmt: skip
    (both,) = first.intersect(second)
    assert [v.interval for v in both.dims] == [Interval(7, 9), Interval(2, 4)]
    assert len(both.runtime) == 2
    for values in ((0, 0), (5, 1), (9, 0)):
        in_first = {(8 * k + values[0],) for k in range(500)}
        in_second = {(8 * k + j + values[1],) for k in range(3, 61) for j in range(3)}
        assert both.points((8, 3), values) == in_first & in_second
    no_value = second.with_(results=[second.results[0] + 10**9])
    assert first.intersect(no_value) == []


REMAINDERS: list[tuple[str, Callable[[int, int], bool]]] = [
    ("0 <= j < 20 and (3*j + i) mod 7 = 2", lambda i, j: 0 <= j < 20 and (3 * j + i) % 7 == 2),
    ("3 <= j < 40 and (5*j + 2*i) mod 8 = 3",
     lambda i, j: 3 <= j < 40 and (5 * j + 2 * i) % 8 == 3),
    ("-5 <= j < 9 and (j + i) mod 2 = 1", lambda i, j: -5 <= j < 9 and (j + i) % 2 == 1),
    ("2 <= j < 20 and (4*j + i) mod 6 = 2", lambda i, j: 2 <= j < 20 and (4 * j + i) % 6 == 2),
    ("0 <= j < 12 and (j + i) mod 2 = 1 and (2*j + i) mod 3 = 1",
     lambda i, j: 0 <= j < 12 and (j + i) % 2 == 1 and (2 * j + i) % 3 == 1),
    ("j mod 5 = 4 and 4 <= j < 10", lambda i, j: j in (4, 9)),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "holds"), REMAINDERS, ids=[c for c, _ in REMAINDERS])
def test_remainders_of_isl_become_strides(
    condition: str, holds: Callable[[int, int], bool]
) -> None:
    found = IndexingMap.from_isl(f"{{ [i] -> [j] : 0 <= i < 4 and {condition} }}")
    expected = {((i,), (j,)) for i in range(4) for j in range(-9, 50) if holds(i, j)}
    assert set().union(*map(pairs, found)) == expected
    # 4 has no inverse modulo 6: that constraint stays.
    is_solved = not any(isinstance(e, Mod) for m in found for e, _ in m.constraints)
    assert is_solved == ("4*j" not in condition)


def test_parameters_of_isl_are_numbered_by_their_names() -> None:
    (m,) = IndexingMap.from_isl("[p0, p2] -> { [i] -> [i + 2*p2 - p0] : 0 <= i < 4 }")
    assert (len(m.runtime), m.runtime[0].clamp) == (2, None)
    assert m.points((3,), (5, 7)) == {(3 + 14 - 5,)}
    assert IndexingMap.from_isl("{ [i] -> [i] : 1 = 0 }") == []
    read = RuntimeVariable(Interval(0, 9), "", ORIGIN, (Dim(0),))
    varying = IndexingMap([below(4)], [], [read], [Runtime(0)])
    with pytest.raises(UnsupportedError, match="read at indices that run"):
        varying.to_isl()
