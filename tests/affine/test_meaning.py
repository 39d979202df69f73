import numpy as np
import pytest
from hypothesis import given, strategies as st

from hloscope.affine import (
    Dim,
    Interval,
    Range,
    bounds,
    bounds_knowing,
    evaluate,
    evaluate_array,
    is_multiple_of,
    known_divisor,
    parse_expr,
    safe_evaluate,
    substitute,
)
from tests.strategies import VARS, boxes_and_points, exprs

d0, d1, s0 = Dim(0), Dim(1), Range(0)


@given(exprs, boxes_and_points())
def test_bounds_contain_every_value(e, box_and_point):
    box, at = box_and_point
    assert evaluate(e, at) in bounds(e, box)


@given(exprs, boxes_and_points())
def test_arrays_agree_with_points(e, box_and_point):
    box, _ = box_and_point
    columns = {v: np.linspace(i.lo, i.hi, 5).astype(np.int64) for v, i in box.items()}
    got = evaluate_array(e, columns)
    assert got.shape == (5,)
    assert got.tolist() == [evaluate(e, {v: int(columns[v][i]) for v in VARS}) for i in range(5)]


@given(exprs, st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(VARS) * 3))
def test_arrays_agree_with_points_whose_values_leave_int64(e, numbers):
    columns = {v: np.array(numbers[3 * i : 3 * i + 3]) for i, v in enumerate(VARS)}
    at = [{v: int(columns[v][i]) for v in VARS} for i in range(3)]
    assert evaluate_array(e, columns).tolist() == [evaluate(e, one) for one in at]
    assert evaluate_array(e * 2**62, columns).tolist() == [evaluate(e, o) * 2**62 for o in at]
    for one in at:  # single numbers, of which numpy makes its own where it can
        for scaled in (e, e * 2**62, e * 3 + 2**70):
            assert int(evaluate_array(scaled, one)) == evaluate(scaled, one)


def test_sums_of_single_numbers_leave_int64():
    at = {d0: 2, d1: 2}
    assert int(evaluate_array(d0 * 2**61 + d1 * 2**61 + 1, at)) == 2**63 + 1
    assert int(evaluate_array((d0 * 2**61 + d1 * 2**61) // 3, at)) == 2**63 // 3
    assert int(evaluate_array(d0 * 3 + d1 * 5 + 2**70, at)) == 2**70 + 16


@given(
    st.integers(-(2**63), 2**63),
    st.integers(-(2**40), 2**40),
    st.integers(-(2**63), 2**63),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(-9, 9)), min_size=1, max_size=5),
)
def test_sums_that_leave_int64_on_the_way_are_exact(scale, more, const, points):
    """`d0 * a - d1 * b` is small where both are alike, whatever the terms are."""
    e = (d0 // 3) * scale - (d1 // 3) * (scale + more) + const
    at = [{d0: x, d1: max(0, x + y)} for x, y in points]
    columns = {v: [one[v] for one in at] for v in (d0, d1)}
    assert evaluate_array(e, columns).tolist() == [evaluate(e, one) for one in at]


@given(exprs, exprs, boxes_and_points())
def test_substitution_is_evaluation_first(e, inner, box_and_point):
    _, at = box_and_point
    value = evaluate(inner, at)
    assert evaluate(substitute(e, {d0: inner}), at) == evaluate(e, {**at, d0: value})


@given(exprs, boxes_and_points())
def test_known_divisors_divide(e, box_and_point):
    _, at = box_and_point
    k = known_divisor(e)
    assert evaluate(e, at) % k == 0 if k else evaluate(e, at) == 0
    assert is_multiple_of(e, 1)


def test_arrays_broadcast():
    grid = evaluate_array(d0 * 10 + d1, {d0: np.arange(3)[:, None], d1: np.arange(4)})
    assert grid.shape == (3, 4)
    assert grid[2, 3] == 23
    assert evaluate_array(parse_expr("7"), {d0: np.arange(3)}).tolist() == [7, 7, 7]


def test_missing_values_are_named():
    with pytest.raises(ValueError, match="no value is given for s0"):
        evaluate(d0 + s0, {d0: 1})
    with pytest.raises(ValueError, match="no values are given for s0"):
        evaluate_array(d0 + s0, {d0: [1]})


def test_division_by_zero_is_an_error_or_none():
    e = d0 // d1
    with pytest.raises(ValueError, match="division by zero in d0 / d1"):
        evaluate(e, {d0: 1, d1: 0})
    with pytest.raises(ValueError, match="division by zero in d0 / d1"):
        evaluate_array(e, {d0: [1, 1], d1: [1, 0]})
    assert safe_evaluate(e, {d0: 1, d1: 0}) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("d0 * 2", None), ("d0 + 0", 2**63 - 1), ("-d0 - 2", None), ("d0 - 1", 2**63 - 2)],
)
def test_safe_evaluation_sees_overflow(text, value):
    assert safe_evaluate(parse_expr(text), {d0: 2**63 - 1}) == value


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("d0 / 4", Interval(0, 2)),
        ("d0 ceildiv 4", Interval(0, 3)),
        ("d0 / -4", Interval(-3, 0)),
        ("d0 mod 16", Interval(0, 9)),
        ("d0 * s0", Interval(-27, 27)),
        ("min(d0, s0)", Interval(-3, 3)),
        ("max(d0, s0)", Interval(0, 9)),
        ("d0 / (s0 + 4)", Interval(0, 9)),
        ("d1", Interval.EVERYTHING),
        ("d1 * 2 + d0", Interval.EVERYTHING),
    ],
)
def test_bounds(text, want):
    assert bounds(parse_expr(text), {d0: Interval(0, 9), s0: Interval(-3, 3)}) == want


@given(st.lists(st.tuples(st.sampled_from((3, 4, 5, 64)), st.integers(1, 9)), min_size=8))
def test_bounds_of_what_is_deep_are_those_that_nothing_is_known_of(steps):
    """A chain of divisions, whose parts are asked for before, under other bounds as well."""
    e = d0
    for k, (number, more) in enumerate(steps):
        e = (e * more + d1 + number) % (number + k) + (e + more) // number
        for side in (9, 60):
            box = {d0: Interval(0, side), d1: Interval(-side, 3)}
            assert bounds(e, box) == bounds_knowing({}, [e], box)[0]
