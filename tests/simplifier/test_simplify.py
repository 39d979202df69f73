from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Sum,
    evaluate,
    evaluate_array,
    linear,
    parse_expr,
    postorder,
    variables,
)
from hloscope.simplifier import Domain, Step, forget_domains, simplify
from hloscope.simplifier.domain import within_int64
from hloscope.simplifier.engine import Engine, is_unreduced
from hloscope.simplifier.quotients import FLOORDIV
from tests.simplifier.cases import BOX, CASES
from tests.strategies import affine_exprs, boxes_and_points, exprs

d0, d1, s0 = Dim(0), Dim(1), Range(0)


@pytest.mark.parametrize(("before", "after"), CASES, ids=[before for before, _ in CASES])
def test_cases(before, after):
    new = str(simplify(parse_expr(before), BOX))
    assert after is None or new == after


@given(exprs, boxes_and_points())
@settings(max_examples=300, deadline=None)
def test_value_is_kept(e, box_and_point):
    box, at = box_and_point
    assert evaluate(simplify(e, box), at) == evaluate(e, at)


@given(affine_exprs, boxes_and_points())
@settings(max_examples=300, deadline=None)
def test_value_is_kept_by_sums_of_quotients(e, box_and_point):
    box, _ = box_and_point
    new = simplify(e, box)
    columns = {v: np.linspace(i.lo, i.hi, 40).astype(np.int64) for v, i in box.items()}
    for i, v in enumerate(columns):
        columns[v] = np.roll(columns[v], i * 7)
    assert np.array_equal(evaluate_array(new, columns), evaluate_array(e, columns))


@given(exprs, boxes_and_points())
@settings(max_examples=200, deadline=None)
def test_result_is_a_fixpoint(e, box_and_point):
    box, _ = box_and_point
    once = simplify(e, box)
    assert simplify(once, box) is once


@given(exprs, boxes_and_points())
@settings(max_examples=200, deadline=None)
def test_never_more_divisions(e, box_and_point):
    box, _ = box_and_point
    new = simplify(e, box)
    assert new._divisions <= e._divisions
    assert variables(new) <= variables(e)


@given(exprs, boxes_and_points())
@settings(max_examples=200, deadline=None)
def test_bounds_of_a_domain_contain_every_value(e, box_and_point):
    box, at = box_and_point
    assert evaluate(e, at) in Domain(box).bounds(e)


@given(exprs, boxes_and_points())
@settings(max_examples=200, deadline=None)
def test_constraints_may_be_used_and_nothing_else(e, box_and_point):
    box, at = box_and_point
    facts = [(s0 + d0 * 2) // 3, d0 % 4, s0 % 3, d1 - d0]
    values = [evaluate(f, at) for f in facts]
    constraints = tuple(
        (f, Interval(v, v + i)) for i, (f, v) in enumerate(zip(facts, values, strict=True))
    )
    assert evaluate(Domain(box, constraints).simplify(e), at) == evaluate(e, at)


CONSTRAINED = [  # constraints, before, after; d0, d1 in [0, 63], s0 in [0, 7]
    ({"d0 mod 4": (0, 0)}, "(d0 / 4) * 4", "d0"),
    ({"d0 mod 8": (2, 2)}, "d0 / 8 * 8 + 5", "d0 + 3"),
    ({"d0 / 8": (3, 3)}, "d0 / 8", "3"),
    ({"d0 / 8": (3, 3)}, "d0 mod 8", "d0 - 24"),
    ({"s0": (0, 5)}, "s0 / 6", "0"),
    ({"d0 + d1 * 8": (0, 7)}, "(d0 + d1 * 8) / 8", "0"),
    ({"d0 - d1": (1, 63)}, "max(d0, d1)", "d0"),
    ({"d0 * 3 + s0": (0, 20)}, "(d0 * 6 + s0 * 2 + 1) / 64", "0"),
    ({"(s0 + 2) mod 3": (0, 0), "s0": (0, 2)}, "s0", "1"),
    ({"(d0 - 1) mod 2": (0, 0)}, "((d0 - 1) / 2) * 4 + d1", "d0 * 2 + d1 - 2"),
    ({"(d0 + d1) mod 4": (0, 0)}, "(d0 + d1) / 4 * 4", "d0 + d1"),
]


@pytest.mark.parametrize(("facts", "before", "after"), CONSTRAINED)
def test_constraints_are_used(facts, before, after):
    box = {d0: Interval(0, 63), d1: Interval(0, 63), s0: Interval(0, 7)}
    constraints = tuple((parse_expr(e), Interval(*ends)) for e, ends in facts.items())
    assert str(Domain(box, constraints).simplify(parse_expr(before))) == after


def test_a_symbolic_extent_cancels():
    """`((i*N + j)*64 + k) % (64*N)` is `64*j + k` where j < N and k < 64."""
    box = {v: Interval(0, 999) for v in (Dim(0), Dim(1), Dim(3))} | {Dim(2): Interval(0, 63)}
    e = parse_expr("((d0 * d3 + d1) * 64 + d2) mod (d3 * 64)")
    below = ((parse_expr("d3 - d1"), Interval(1, 999)),)
    assert str(Domain(box, below).simplify(e)) == "d1 * 64 + d2"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("min(d0 + 10, 3) * (d1 + 1)", "d1 * 3 + 3"),
        ("(d0 / 100 + 3) * d1", "d1 * 3"),
        ("(d0 / 100 + 3) * (d1 / 2)", "(d1 / 2) * 3"),
        ("(d0 / 100 + 3) * (d1 * d2)", "d1 * d2 * 3"),
    ],
)
def test_a_factor_that_turns_out_to_be_a_number_multiplies_all_terms(before, after):
    box = {Dim(k): Interval(0, 9) for k in range(3)}
    assert str(Domain(box).simplify(parse_expr(before))) == after


def test_unbounded_variables():
    assert str(simplify(parse_expr("(d0 * 4 + 3) / 8"), {})) == "d0 / 2"
    assert str(simplify(parse_expr("d0 mod 8 / 8"), {})) == "0"
    half = {d0: Interval(0, 2**63 - 1)}
    assert str(simplify(parse_expr("max(d0, -1)"), half)) == "d0"


def test_equal_expressions_get_one_text():
    forms = [
        "s0 / 6 * 6 + s0 mod 6 + d0",
        "s0 / 2 * 2 + s0 mod 2 + d0",
        "s0 / 12 * 12 + s0 / 2 mod 6 * 2 + s0 mod 2 + d0",
        "d0 + s0",
    ]
    assert {simplify(parse_expr(t), BOX) for t in forms} == {d0 + s0}
    forms = ["(s0 / 4) mod 8", "(s0 mod 32) / 4", "s0 / 4 - s0 / 32 * 8"]
    assert {str(simplify(parse_expr(t), BOX)) for t in forms} == {"(s0 / 4) mod 8"}


def test_nothing_overflows_that_did_not():
    big = 2**40
    e: Expr = (d0 // big) // big * 3 + (d0 * big + s0) // (big * big)
    new = simplify(e, {d0: Interval(0, 2**62), s0: Interval(0, 2**20)})
    numbers = [x.value for x in postorder_constants(new)]
    assert all(abs(n) < 2**63 for n in numbers)


def postorder_constants(e):
    return [x for x in postorder(e) if isinstance(x, Const)]


@pytest.mark.slow
def test_depth_has_no_limit():
    e: Expr = s0
    for i in range(3000):
        e = (e * 5 + i) // 7 % 97 if i % 3 else (e + d0) % 89
    new = simplify(e, {s0: Interval(0, 9), d0: Interval(0, 5)})
    at = {s0: 4, d0: 3}
    assert evaluate(new, at) == evaluate(e, at)


@pytest.mark.parametrize("seed", [60, 118, 5])
def test_large_terms_of_both_signs_over_two_end(seed):
    """Of a coefficient that is half the divisor neither sign is the better one."""
    rng = Random(seed)
    values = [d0, d1, s0]
    e: Expr = d0
    for _ in range(300):
        match rng.choice("+*/%"):
            case "+":
                e = e + rng.choice(values)
            case "*":
                e = e * rng.choice([2, 3, -1])
            case "/":
                e = e // rng.choice([2, 3])
            case _:
                e = e % rng.choice([2, 100, 2**20])
    box = {d0: Interval(0, 2**63 - 1), d1: Interval(0, 2**63 - 1), s0: Interval(-5, 0)}
    new = simplify(e, box)
    assert simplify(new, box) is new
    for at in ({d0: 0, d1: 0, s0: 0}, {d0: 2**62 + 12345, d1: 2**40 + 7, s0: -5}):
        assert evaluate(new, at) == evaluate(e, at)


def test_long_chains_of_reshapes_stay_small():
    """64 times: linearise one shape, read in another."""
    shapes = [(16, 24), (8, 48), (12, 32), (6, 64)]
    index: list[Expr] = [d0, d1]
    for i in range(64):
        columns = shapes[i % 4][1]
        linear = index[0] * columns + index[1]
        next_columns = shapes[(i + 1) % 4][1]
        index = [linear // next_columns, linear % next_columns]
    box = {d0: Interval(0, 15), d1: Interval(0, 23)}
    assert [str(simplify(e, box)) for e in index] == ["d0", "d1"]


def test_domains_are_remembered():
    box = {d0: Interval(0, 9)}
    assert Domain(box) is Domain(dict(box))
    assert Domain(box) is not Domain(box, ((d0, Interval(0, 3)),))


def test_trace_tells_the_law_and_the_ranges():
    trace = []
    new = simplify(parse_expr("(d0 * 8 + d1) / 32"), BOX, trace=trace)
    assert str(new) == "d0 / 4"
    assert [str(step.law) for step in trace]
    lines = [str(step) for step in trace]
    assert any("(d0 * 8 + d1) / 32 = d0 / 4" in line and "d1 in [0, 7]" in line for line in lines)
    for step in trace:
        at = {d0: 13, d1: 5}
        assert evaluate(step.before, at) == evaluate(step.after, at)


def numbers(e):
    return [x.value for x in postorder_constants(e)] + [
        n for x in postorder(e) if isinstance(x, Sum) for n in (x.const, *(c for _, c in x.terms))
    ]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_number_leaves_int64(data):
    """Huge coefficients and divisors: products of two of them would leave int64."""
    huge = st.integers(2**29, 2**62)
    a, b, c, d = (data.draw(huge) for _ in range(4))
    e: Expr = ((d0 // a + d1) // b * c + d0 // c) // d + (d0 * c + d1 * a) % b
    e = data.draw(st.sampled_from([e, e % d, e // b, e + d0 % (2**62)]))
    box = {d0: Interval(0, data.draw(huge)), d1: Interval(0, data.draw(huge))}
    new = simplify(e, box)
    before = max([2**63 - 1, *map(abs, numbers(e))])
    assert all(abs(n) <= before for n in numbers(new))
    at = {d0: box[d0].hi, d1: box[d1].hi // 3}
    assert evaluate(new, at) == evaluate(e, at)


def test_a_result_with_a_number_outside_int64_is_not_taken(monkeypatch):
    outside = (d0 // 4) * 2**63
    monkeypatch.setattr(Engine, "simplify", lambda self, e: outside)
    forget_domains()
    e = d0 // 2 // 2 * 2**60 * 7 + d0 // 4
    assert simplify(e, {d0: Interval(0, 77)}) is e
    forget_domains()


@pytest.mark.parametrize("before", [b for b, _ in CASES])
def test_every_change_is_in_the_trace(before):
    e = parse_expr(before)
    trace: list[Step] = []
    new = simplify(e, BOX, trace=trace)
    assert new is simplify(e, BOX)
    assert new is e or trace


def test_all_rounds_are_in_the_trace(monkeypatch):
    one_round = Engine.simplify

    def one_operand_at_a_time(self, e):
        if isinstance(e, Sum) and all(t.by for t, _ in e.terms):
            (t, c), *others = e.terms
            return linear((one_round(self, t), c), *others, (e.const, 1))
        return one_round(self, e)

    monkeypatch.setattr(Engine, "simplify", one_operand_at_a_time)
    forget_domains()
    trace: list[Step] = []
    e = parse_expr("(d0 * 4 + d1 / 2) / 8 + (s0 * 8 + d1) / 16")
    new = simplify(e, BOX, trace=trace)
    forget_domains()
    assert str(new) == "d0 / 2 + s0 / 2"
    after = {str(step.after) for step in trace}
    assert {"d0 / 2", "s0 / 2"} <= after


@given(affine_exprs, boxes_and_points())
@settings(max_examples=200, deadline=None)
def test_values_at_points_are_those_of_points_of_the_box(e, box_and_point):
    box, _ = box_and_point
    engine = Engine(box)
    flat = engine.flat(e)
    found = engine.values(flat)
    assert found is not None
    points = [{v: engine.values(v)[i] for v in variables(flat)} for i in range(len(found))]
    assert all(at in box[v] for point in points for v, at in point.items())
    assert [evaluate(flat, point) for point in points] == list(found)


@given(exprs, boxes_and_points(), st.integers(2, 9))
@settings(max_examples=200, deadline=None)
def test_what_takes_several_values_has_no_bounds_that_say_one(e, box_and_point, den):
    box, _ = box_and_point
    engine = Engine(box)
    flat = engine.flat(e)
    lo, hi = engine.bounds(flat)
    assert not engine.takes_several(flat, den) or lo // den < hi // den


def test_no_points_are_looked_at_where_a_constraint_leaves_some_out():
    engine = Engine({d0: Interval(0, 9), d1: Interval(0, 9)}, ((d0 + d1, Interval(0, 3)),))
    assert not engine.takes_several(d0 // 2 + d1 // 2, 3)
    assert Engine({d0: Interval(5, 4)}).values(d0 // 2) is None


@pytest.mark.parametrize(
    ("e", "den", "several"),
    [(d0 // 2 + 4, 2, True), (d0 // 2 + 4, 5, True), (d0 // 2 + 4, 4, False), (d0 // 2, 4, False)],
    ids=str,
)
def test_a_quotient_of_one_value_does_not_take_several(e: Expr, den: int, several: bool) -> None:
    """`d0 // 2` is 0 to 3."""
    engine = Engine({d0: Interval(0, 7)})
    assert engine.takes_several(engine.flat(e), den) is several


@pytest.mark.parametrize(
    ("factor", "large"),
    [(-6, True), (-5, True), (-4, False), (-1, False), (1, False), (4, False), (5, True)],
)
def test_coefficients_up_to_half_of_the_divisor_are_reduced(factor: int, large: bool) -> None:
    """Where two are not, another form may be better, how deep inside they may be."""
    engine = Engine({Dim(i): Interval(0, 99) for i in range(3)})
    e = (d0 + d1 * factor + Dim(2) * 5) // 9
    assert is_unreduced(engine.flat(e)) is large
    assert is_unreduced(engine.flat((e * 2 + d0) // 7 + d1 // 2)) is large
    assert not is_unreduced(engine.flat((d0 + d1 * factor) // 9))


def test_a_quotient_of_one_value_is_known() -> None:
    law = FLOORDIV[0].code
    assert law(d0 + 8, 4, Engine({d0: Interval(0, 3)})) == Const(2)
    assert law(d0 + 8, 4, Engine({d0: Interval(0, 4)})) is None


@pytest.mark.parametrize(
    ("interval", "e", "bounds"),
    [
        (Interval(NEG_INF, 5), d0 // 2, Interval(NEG_INF, 2)),
        (Interval(NEG_INF, 5), d0 - 7, Interval(NEG_INF, -2)),
        (Interval(NEG_INF, 5), -d0, Interval(-5, POS_INF)),
        (Interval(0, POS_INF), d0 // 2, Interval(0, POS_INF)),
        (Interval(0, POS_INF), d0 - 7, Interval(-7, POS_INF)),
    ],
)
def test_what_has_no_end_on_one_side_has_none_after_arithmetic(
    interval: Interval, e: Expr, bounds: Interval
) -> None:
    assert Domain({d0: interval}).bounds(e) == bounds


@pytest.mark.parametrize(
    ("e", "box", "after"),
    [
        (-(d0 * 2 // 9) + d0 % 64, {d0: Interval(0, 63)}, "(d0 * 7 + 8) / 9"),
        (
            -((d0 * 4 + d1 * 2 - 1) // 8),
            {d0: Interval(0, 3), d1: Interval(0, 1)},
            "(-d0 - d1) / 2 + 1",
        ),
        (d0 + Const(5) // 0, {d0: Interval(0, 9)}, "5 / 0 + d0"),
    ],
)
def test_one_division_of_a_negative_sum_has_another_round(e, box, after):
    forget_domains()
    once = simplify(e, box)
    assert str(once) == after
    assert simplify(once, box) is once


def test_constraints_may_say_more_of_what_is_printed():
    box = {d0: Interval(0, 9), d1: Interval(0, 9), Dim(2): Interval(0, 3)}
    known = (
        (d0 // 6 + d1 + Dim(2), Interval(2, 39)),
        (d0 // 16 - d1 + 29, Interval(3, 16)),
    )
    e = (Dim(2) // 64 // 48 + (d0 - d1) % 4) % 10 % 7
    assert str(Domain(box, known).simplify(e)) == "d1 * 3 + d0 - 36"


def test_one_round_is_enough_for_one_division(monkeypatch):
    rounds = []
    found = Domain._round
    monkeypatch.setattr(
        Domain, "_round", lambda self, e, path: rounds.append(e) or found(self, e, path)
    )
    forget_domains()
    box = {d0: Interval(0, 1023)}
    assert str(simplify(d0 // 12 * 4 + d0 % 12 // 3, box)) == "d0 / 3"
    assert len(rounds) == 1
    simplify(d0 // 12 % 5 + d0 % 12, box)
    assert len(rounds) > 2
    forget_domains()


@pytest.mark.parametrize("number", [2**63, -(2**63), 2**80])
def test_numbers_beyond_int64_are_seen_wherever_they_are(number):
    small = d0 // 3
    for big in (d0 * number, d0 + number, (d0 * number + d1) // 3, (d0 + number) % 7 + d1):
        assert not within_int64(big, small)
        assert within_int64(big, big)
    assert within_int64(small % 5 + d1 * (2**63 - 1), d0)
