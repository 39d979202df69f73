"""Laws of maps: every operation keeps the relation it says it keeps."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import Interval
from hloscope.indexing import IndexingMap
from hloscope.indexing.proofs import prove_composed, prove_equal, prove_inverse
from tests.indexing.maps import Pair, maps, relation

quick = settings(max_examples=60, deadline=None)
slow = settings(max_examples=25, deadline=None)


def grown(m: IndexingMap) -> list[list]:
    """Boxes a little larger than the map's own: outside them nothing may be related."""
    return [
        [type(i)(i.lo - 1, i.hi + 1) for v in vs for i in [v.interval]]
        for vs in (m.dims, m.runtime)
    ]


@given(maps())
@quick
def test_parse_is_the_inverse_of_print(m: IndexingMap) -> None:
    for style in ("xla", "mlir"):
        again = IndexingMap.parse(m.text(style))
        if not m.is_known_empty and not any(v.is_condition for v in m.runtime):
            assert again == m
            assert hash(again) == hash(m)
        assert again.text(style) == m.text(style)


@given(maps())
@quick
def test_simplify_keeps_the_relation(m: IndexingMap) -> None:
    simple = m.simplify()
    assert simple.verify() == []
    if m.is_known_empty or simple.is_known_empty:
        assert relation(m) == set()
        return
    boxes = grown(m)
    assert relation(simple, *boxes) == relation(m, *boxes)


@given(maps(), st.data())
@quick
def test_a_box_touches_what_its_indices_touch(m: IndexingMap, data: st.DataObject) -> None:
    if m.is_undefined or m.is_known_empty:
        return
    grown_sides, (runtime, *_) = grown(m)[0], [*product(*grown(m)[1])]
    sides = [Interval(*sorted(data.draw(st.tuples(*[st.integers(i.lo, i.hi)] * 2))))
             for i in grown_sides]  # fmt: skip
    one_by_one = [m.points(index, runtime) for index in product(*sides)]
    assert m.points_of_box(sides, runtime) == set().union(*one_by_one)


@given(maps())
@quick
def test_simplify_is_idempotent(m: IndexingMap) -> None:
    simple = m.simplify()
    assert simple.simplify() == simple


@given(maps(max_leaves=4))
@slow
def test_isl_agrees_that_simplify_keeps_the_relation(m: IndexingMap) -> None:
    assert prove_equal([m], [m.simplify()]).verdict == "proved"


@given(maps(max_leaves=4), maps(max_leaves=4))
@slow
def test_isl_says_equal_exactly_where_enumeration_does(a: IndexingMap, b: IndexingMap) -> None:
    same_shape = (len(a.dims), len(a.results), len(a.runtime)) == (
        len(b.dims),
        len(b.results),
        len(b.runtime),
    )
    if not same_shape or a.is_known_empty or b.is_known_empty:
        return
    proof = prove_equal([a], [b])
    assert proof.is_proved == (relation(a) == relation(b))
    if (example := proof.counter_example) is not None:
        holder, other = (a, b) if example.only_in == 0 else (b, a)
        stated = [value for table in example.tables for _, value in table.entries]
        runtime = tuple(stated) or tuple(v.interval.lo for v in holder.runtime)
        assert example.results in holder.points(example.dims, runtime)
        assert example.results not in other.points(example.dims, runtime)


@given(st.data())
@quick
def test_points_of_a_composition_are_compositions_of_points(data: st.DataObject) -> None:
    first = data.draw(maps())
    second = data.draw(maps(num_dims=len(first.results)))
    composed = first.compose(second)
    expected: set[Pair] = {
        (outer + inner, index, result)
        for outer in product(*(v.interval for v in second.runtime))
        for inner, index, middle in relation(first)
        for result in second.points(middle, outer)
    }
    assert composed.verify() == []
    if composed.is_known_empty:
        assert expected == set()
    else:
        assert relation(composed) == expected


@given(st.data())
@slow
def test_isl_agrees_with_composition(data: st.DataObject) -> None:
    first = data.draw(maps(max_leaves=4, runtime=0))
    second = data.draw(maps(max_leaves=4, num_dims=len(first.results), runtime=0))
    assert prove_composed([first], [second], [first.compose(second)]).is_proved


@given(maps())
@quick
def test_the_inverse_has_the_swapped_pairs(m: IndexingMap) -> None:
    inverse = m.inverse()
    assert inverse.verify() == []
    swapped = {(rt, result, index) for rt, index, result in relation(m)}
    if inverse.is_known_empty:
        assert swapped == set()
        return
    kept = len(inverse.runtime) == len(m.runtime)  # unused runtime variables are removed
    found = relation(inverse)
    if kept:
        assert found == swapped
    else:
        assert {pair[1:] for pair in found} == {pair[1:] for pair in swapped}


@given(maps(max_leaves=4, runtime=0))
@slow
def test_isl_agrees_with_the_inverse(m: IndexingMap) -> None:
    assert prove_inverse([m], [m.inverse()]).is_proved


@given(maps(runtime=0))
@quick
def test_removing_unused_symbols_keeps_the_relation(m: IndexingMap) -> None:
    less = m.remove_unused_symbols()
    assert less.verify() == []
    assert len(less.dims) == len(m.dims)
    assert (relation(less) if not less.is_known_empty else set()) == relation(m)


@given(maps(runtime=0))
@quick
def test_removing_unused_vars_keeps_the_image(m: IndexingMap) -> None:
    less = m.remove_unused_vars()
    assert {result for *_, result in relation(less)} == {result for *_, result in relation(m)}
    if not m.is_known_empty:
        assert len(m.dims) - len(less.dims) == sum(
            str(v)[0] == "d" for v in m.unused_variables()
        ) or (less.is_known_empty)


@given(maps(runtime=0))
@quick
def test_rescaling_keeps_the_relation(m: IndexingMap) -> None:
    scaled = m.rescale_symbols()
    assert (relation(scaled) if not scaled.is_known_empty else set()) == relation(m)


@given(maps(runtime=0, ranges=2), st.data())
@quick
def test_ranges_turned_into_dims_run_over_the_same_values(
    m: IndexingMap, data: st.DataObject
) -> None:
    chosen = data.draw(st.permutations(range(len(m.ranges))))
    chosen = chosen[: data.draw(st.integers(0, len(chosen)))]
    turned = m.ranges_to_dims(chosen)
    assert turned.verify() == []
    n = len(m.dims)
    assert {(index[:n], result) for _, index, result in relation(turned)} == {
        (index, result) for _, index, result in relation(m)
    }


@given(maps())
@quick
def test_symbols_turned_into_dims_run_over_the_same_values(m: IndexingMap) -> None:
    turned = m.symbols_to_dims()
    assert not turned.ranges
    assert not turned.runtime
    n = len(m.dims)
    assert {(index[:n], result) for _, index, result in relation(turned)} == {
        (index, result) for _, index, result in relation(m)
    }


@given(maps())
@quick
def test_arrays_of_points_give_what_single_points_give(m: IndexingMap) -> None:
    n, k = len(m.dims), len(m.dims) + len(m.ranges)
    some = np.arange(-3, 4)
    values = [np.roll(some, i) for i in range(len(m.box))]
    arrays = m.evaluate_array(values[:n], values[n:k], values[k:])
    holds = m.satisfies_array(values[:n], values[n:k], values[k:])
    for at in range(len(some)):
        point = [int(v[at]) for v in values]
        parts = point[:n], point[n:k], point[k:]
        assert tuple(int(a[at] if a.ndim else a) for a in arrays) == m.evaluate(*parts)
        assert bool(holds[at] if holds.ndim else holds) == m.satisfies(*parts)


@given(maps())
@quick
def test_ranges_of_expressions_hold_every_value(m: IndexingMap) -> None:
    for i, e in enumerate(m.results):
        interval = m.range_of(e)
        assert all(interval.lo <= result[i] <= interval.hi for *_, result in relation(m))


@pytest.mark.slow
@given(maps())
@quick
def test_pickling_gives_an_equal_map(m: IndexingMap) -> None:
    again = pickle.loads(pickle.dumps(m))
    assert again == m
    assert hash(again) == hash(m)


def test_a_map_cannot_be_changed() -> None:
    m = IndexingMap.identity((4,))
    with pytest.raises(AttributeError, match="immutable"):
        m.dims = ()
    with pytest.raises(AttributeError, match="immutable"):
        del m.results


def test_symbols_turned_into_dims_keep_their_order() -> None:
    m = IndexingMap.parse(
        "(d0)[s0, s1]{rt0, rt1, rt2} -> (d0, s0, s1, rt0, rt1, rt2), domain: d0 in [0, 1], "
        "s0 in [0, 2], s1 in [0, 3], rt0 in [0, 4], rt1 in [0, 5], rt2 in [0, 6]"
    )
    assert m.symbols_to_dims() == IndexingMap.identity((2, 3, 4, 5, 6, 7))
