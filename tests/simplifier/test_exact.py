"""The exact level: shorter forms that laws do not find, each proved."""

import numpy as np
import pytest
from hypothesis import given, settings

from hloscope.affine import (
    Dim,
    Interval,
    Range,
    divisions,
    evaluate,
    evaluate_array,
    maximum,
    parse_expr,
    variables,
)
from hloscope.simplifier import Domain, simplify, simplify_exact
from hloscope.simplifier.exact import is_equal, one_floor, slopes, step_sizes
from tests.strategies import affine_exprs, boxes_and_points, exprs

pytest.importorskip("islpy")
d0, d1, s0 = Dim(0), Dim(1), Range(0)

SHORTER = [  # before, sizes of d0 and d1, how many divisions are needed
    ("(d0 / 1024) * 512 + d0 mod 512", (98304, 1), 1),
    ("(d0 / 10) * 5 + d0 mod 5", (100000, 1), 1),
    ("(d0 / 4 + d1) * 2 + d0 mod 2", (4096, 8), 1),
    ("(((d0 / 6) * 2 + d0 mod 2) * 3 + (d0 mod 6) / 2) / 2", (12, 1), 3),
    ("((d0 * 8 + d1) / 2 * 5) / 8", (512, 8), 1),
    ("((d0 * 64) / 715) * 715 + (d0 * 128) mod 715", (128, 1), 1),
    ("((d0 / 24) * 744 + d1 * 24 + d0) / 9216", (2304, 32), 1),
]


@pytest.mark.parametrize(("before", "sizes", "needs"), SHORTER, ids=[b for b, _, _ in SHORTER])
def test_shorter_forms(before, sizes, needs):
    box = {d0: Interval(0, sizes[0] - 1), d1: Interval(0, sizes[1] - 1)}
    e = parse_expr(before)
    new = simplify_exact(e, box)
    assert divisions(new) <= needs
    rng = np.random.default_rng(1)
    at = {v: rng.integers(i.lo, i.hi + 1, size=5000) for v, i in box.items()}
    assert np.array_equal(evaluate_array(new, at), evaluate_array(e, at))


def test_a_scaled_floor_is_one_floor_where_there_are_too_many_points_to_try():
    box = {d0: Interval(0, 10**9), d1: Interval(0, 7)}
    assert str(simplify_exact(parse_expr("((d0 * 8 + d1) / 2 * 5) / 8"), box)) == (
        "(d0 * 10 + d1) / 4"
    )


@given(exprs, boxes_and_points())
@settings(max_examples=150, deadline=None)
def test_value_is_kept(e, box_and_point):
    box, at = box_and_point
    new = simplify_exact(e, box, budget=20_000)
    assert evaluate(new, at) == evaluate(e, at)
    assert divisions(new) <= divisions(simplify(e, box))
    assert variables(new) <= variables(e)


@given(affine_exprs, boxes_and_points())
@settings(max_examples=100, deadline=None)
def test_value_is_kept_by_sums_of_quotients(e, box_and_point):
    box, _ = box_and_point
    new = simplify_exact(e, box, budget=20_000)
    columns = {v: np.linspace(i.lo, i.hi, 40).astype(np.int64) for v, i in box.items()}
    for i, v in enumerate(columns):
        columns[v] = np.roll(columns[v], i * 7)
    assert np.array_equal(evaluate_array(new, columns), evaluate_array(e, columns))


@pytest.mark.parametrize("high", [10**5, 10**12])
def test_equality_is_decided_by_points_or_by_isl(high):
    domain = Domain({d0: Interval(0, high)})
    assert is_equal(d0 % 4 // 2, d0 // 2 % 2, domain)
    near = d0 + (d0 + 1) // (high + 1)  # differs at the last point only
    assert not is_equal(d0, near, domain)
    assert is_equal(d0, near, Domain({d0: Interval(0, high - 1)}))


def test_without_budget_the_old_form_stays():
    box = {d0: Interval(0, 10**9), d1: Interval(0, 7)}
    e = parse_expr("((d0 * 8 + d1) / 2 * 5) / 8")
    assert simplify_exact(e, box, budget=1) is simplify(e, box)


def test_unbounded_variables_and_leaves_are_left_alone():
    e = parse_expr("(d0 / 10) * 5 + d0 mod 5")
    assert simplify_exact(e, {}) is simplify(e, {})
    e = maximum(d0 // 4, d1 // 6) // 3 + d0 // 5
    box = {d0: Interval(0, 99), d1: Interval(0, 99)}
    assert simplify_exact(e, box) is simplify(e, box)


def test_an_empty_box():
    e = parse_expr("(d0 / 10) * 5 + d0 mod 5")
    assert divisions(simplify_exact(e, {d0: Interval(5, 4)})) <= 2


def test_a_fit_agrees_at_every_point_it_was_given():
    box = {d0: Interval(0, 40)}
    x = np.concatenate([[0, 1], np.arange(41)])
    e = d0 // 10 * 5 + d0 % 5
    values = evaluate_array(e, {d0: x})
    flat = d0 // 10 * 5 + d0 - d0 // 5 * 5
    found = list(one_floor(values, {d0: x}, box, slopes(flat), step_sizes([5, -5]), [5, 10]))
    assert found
    for new in found:
        assert divisions(new) <= 1
        assert np.array_equal(evaluate_array(new, {d0: x}), values)


def test_no_candidate_has_a_factor_that_is_no_64_bit_integer():
    """The divisor that the slopes ask for times 2^60 is none."""
    box = {d0: Interval(0, 1), d1: Interval(0, 10**12)}
    e = d0 * 2**60 + d1 // 2**36 * 3 - d1 // 2**37
    new = simplify_exact(e, box)
    for at in ({d0: 1, d1: 10**12}, {d0: 0, d1: 2**38 - 1}):
        assert evaluate(new, at) == evaluate(e, at)
    assert step_sizes([2**70, 3]) == [3, 1]


def test_the_trace_ends_with_what_was_fitted():
    box = {d0: Interval(0, 511), d1: Interval(0, 7)}
    trace = []
    new = simplify_exact(parse_expr("((d0 * 8 + d1) / 2 * 5) / 8"), box, trace=trace)
    assert trace[-1].after is new
    assert str(trace[-1]).endswith("where d0 in [0, 511], d1 in [0, 7]")
    assert len(trace) > 1
