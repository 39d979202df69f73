"""Simplification of maps, and the operations that go with it, on small examples."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import Const, Dim, Interval, parse_expr
from hloscope.indexing import ConstraintStep, IndexingMap, MapTrace, VariableKind
from hloscope.indexing.simplify import divided, merge_mods, of_quotient, settle
from hloscope.simplifier import Step

D0 = "(d0) -> (d0), domain: d0 in "

SIMPLER = [  # before, after
    # constraints that always hold
    (D0 + "[0, 9], d0 + 3 in [0, 12]", D0 + "[0, 9]"),
    (D0 + "[0, 9], d0 mod 4 in [0, 3]", D0 + "[0, 9]"),
    # constants, factors and divisors move into the interval
    (D0 + "[0, 99], d0 - 5 in [0, 9]", D0 + "[5, 14]"),
    (D0 + "[0, 99], d0 * 3 + 1 in [5, 11]", D0 + "[2, 3]"),
    (D0 + "[0, 99], -d0 in [-9, -5]", D0 + "[5, 9]"),
    (D0 + "[0, 99], d0 * -3 in [-11, -5]", D0 + "[2, 3]"),
    (D0 + "[0, 99], d0 / 10 in [2, 3]", D0 + "[20, 39]"),
    (D0 + "[0, 99], d0 / -10 in [-3, -2]", D0 + "[11, 30]"),
    (D0 + "[0, 99], d0 ceildiv 10 in [2, 3]", D0 + "[11, 30]"),
    (D0 + "[0, 99], d0 ceildiv -10 in [-3, -2]", D0 + "[20, 39]"),
    (D0 + "[0, 99], (d0 * 2 + 1) / 3 in [3, 5]", D0 + "[4, 8]"),
    ("()[s0] -> (s0), domain: s0 in [-99, 99], s0 / -3 in [-11, -5]",
     "()[s0] -> (s0), domain: s0 in [13, 33]"),
    # a negative interval end is no obstacle to dropping the low part of a sum
    ("(d0)[s0] -> (d0, s0), domain: d0 in [-99, 99], s0 in [0, 7], d0 * 8 + s0 in [-16, 23]",
     "(d0)[s0] -> (d0, s0), domain: d0 in [-2, 2], s0 in [0, 7]"),
    ("(d0)[s0] -> (d0, s0), domain: d0 in [-99, 99], s0 in [0, 7], d0 * 8 + s0 in [-16, 22]",
     "(d0)[s0] -> (d0, s0), domain: d0 in [-99, 99], s0 in [0, 7], d0 * 8 + s0 in [-16, 22]"),
    ("(d0)[s0] -> (d0, s0), domain: d0 in [-99, 99], s0 in [0, 7], s0 - d0 * 8 in [0, 23]",
     "(d0)[s0] -> (d0, s0), domain: d0 in [-2, 0], s0 in [0, 7]"),
    # bounds snap to a remainder, also below zero
    (D0 + "[-5, 10], d0 mod 6 in [1, 1]", D0 + "[-5, 7], d0 mod 6 in [1, 1]"),
    (D0 + "[-5, 10], d0 mod 6 in [1, 1]", D0 + "[-5, 7], d0 mod 6 in [1, 1]"),
    # remainders with a common modulus
    (D0 + "[0, 99], d0 mod 4 in [3, 3], d0 mod 6 in [1, 1]",
     D0 + "[7, 91], d0 mod 12 in [7, 7]"),
    (D0 + "[0, 11], d0 mod 4 in [3, 3], d0 mod 6 in [1, 1]", "(d0) -> (7), domain: d0 in [7, 7]"),
    # nothing is left
    (D0 + "[0, 99], d0 mod 4 in [3, 3], d0 mod 6 in [2, 2]", "KNOWN EMPTY"),
    (D0 + "[0, 99], d0 mod 8 in [8, 20]", "KNOWN EMPTY"),
    (D0 + "[0, 4], d0 mod 6 in [5, 5]", "KNOWN EMPTY"),
    (D0 + "[0, 99], d0 * 8 in [1, 7]", "KNOWN EMPTY"),
    (D0 + "[0, 99], d0 / 3 in [40, 41]", "KNOWN EMPTY"),
    # results use the bounds that constraints leave
    ("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 99], d0 / 8 in [2, 2]",
     "(d0) -> (2, d0 - 16), domain: d0 in [16, 23]"),
    # and the values to which they pin an expression
    ("(d0)[s0] -> (s0 - d0 + 2, d0 - s0), domain: d0 in [0, 9], s0 in [0, 9], d0 - s0 in [3, 3]",
     "(d0)[s0] -> (-1, 3), domain: d0 in [0, 9], s0 in [0, 9], -s0 + d0 in [3, 3]"),
    # without bounds
    ("(d0) -> (d0 * 2 / 4, d0 - d0)", "(d0) -> (d0 / 2, 0)"),
    ("(d0) -> (d0), domain: d0 in [-9223372036854775808, 9], d0 * 2 in [-9223372036854775808, 7]",
     "(d0) -> (d0), domain: d0 in [-9223372036854775808, 3]"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), SIMPLER, ids=lambda text: text[9:60])
def test_maps_become_simpler(before: str, after: str) -> None:
    m = IndexingMap.parse(before)
    assert str(m.simplify()) == after
    assert m.simplify().equals(m)


def test_points_are_kept_on_request() -> None:
    m = IndexingMap.parse(
        "(d0, d1) -> (d0, d0 + d1, d0 / 2, d0 * 2 + d1, d1 mod 16), "
        "domain: d0 in [5, 5], d1 in [0, 9]"
    )
    kept = m.simplify(replace_points=False)
    assert kept.results == tuple(map(parse_expr, ("d0", "d0 + d1", "2", "d1 + 10", "d1")))
    assert kept.equals(m)
    assert m.simplify().results == tuple(map(parse_expr, ("5", "d1 + 5", "2", "d1 + 10", "d1")))


def test_what_a_map_becomes_is_remembered_for_it_alone() -> None:
    text = "(d0, d1){rt0} -> (d0 + d1 + rt0, d1), domain: d0 in [0, 9], d1 in [2, 2], rt0 in [0, 4]"
    m = IndexingMap.parse(text)
    simple = m.simplify()
    assert str(simple) == text.replace("d0 + d1 + rt0, d1)", "d0 + rt0 + 2, 2)")
    assert m.simplify() is simple
    assert m.simplify(replace_points=False) == m
    assert m.sub_map([1]).simplify().results == (Const(2),)
    assert m.with_(results=[Dim(0) // 16]).simplify().results == (Const(0),)
    steps: MapTrace = []
    assert m.simplify(trace=steps) == simple
    assert steps


def test_the_trace_has_every_step() -> None:
    m = IndexingMap.parse(
        "(d0) -> (d0 / 8 * 8 + d0 mod 8), domain: d0 in [0, 99], (d0 + 1) * 2 in [0, 19], "
        "d0 mod 4 in [0, 3], d0 mod 4 in [0, 0], d0 mod 3 in [0, 0]"
    )
    trace: MapTrace = []
    assert m.simplify(trace=trace) == m.simplify()
    steps = [str(step) for step in trace if isinstance(step, ConstraintStep)]
    assert any(step.endswith("by bounds") for step in steps)
    assert any("by a common modulus" in step for step in steps)
    assert all("becomes" in step for step in steps)
    always: MapTrace = []
    IndexingMap.parse(D0 + "[0, 9], d0 mod 4 in [0, 3]").simplify(trace=always)
    assert [str(step) for step in always if isinstance(step, ConstraintStep)] == [
        "d0 mod 4 in [0, 3] becomes nothing   by values in [0, 3]"
    ]
    results: MapTrace = []
    IndexingMap.parse("(d0) -> (d0 mod 8), domain: d0 in [0, 7]").simplify(trace=results)
    assert any(isinstance(step, Step) for step in results)


ends = st.integers(-30, 30)
factors = st.integers(-7, 7).filter(bool)
sample = range(-300, 301)


@settings(deadline=None)
@given(ends, ends, factors)
def test_division_of_an_interval_is_exact(lo: int, hi: int, factor: int) -> None:
    expected = [x for x in sample if lo <= x * factor <= hi]
    assert [x for x in sample if x in divided(Interval(lo, hi), factor)] == expected


@settings(deadline=None)
@given(ends, ends, factors)
def test_the_numerators_of_an_interval_are_exact(lo: int, hi: int, den: int) -> None:
    expected = [x for x in sample if lo <= x // den <= hi]
    assert [x for x in sample if x in of_quotient(Interval(lo, hi), den)] == expected


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 11)), min_size=1, max_size=3), ends)
def test_merged_remainders_hold_for_the_same_numbers(pairs: list[tuple[int, int]], lo: int) -> None:
    d0 = Dim(0)
    pairs = [(m, r % m) for m, r in pairs]
    expected = [x for x in range(lo, lo + 100) if all(x % m == r for m, r in pairs)]
    table = {d0 % m: Interval(r, r) for m, r in pairs}
    if len(table) < len(set(pairs)) or any(m == 1 for m, _ in pairs):
        return
    box = {d0: Interval(lo, lo + 99)}
    try:
        merge_mods(box, table)
    except Exception:  # the package's own signal for "nowhere"
        assert expected == []
        return
    assert len(table) == 1
    (mod, remainder), bounds = next(iter(table.items())), box[d0]
    assert [x for x in bounds if x % mod.den.value == remainder.lo] == expected
    assert (bounds.lo, bounds.hi) == (expected[0], expected[-1])


def test_settling_leaves_its_input_alone() -> None:
    box = {Dim(0): Interval(0, 9)}
    constraints = ((Dim(0) * 2, Interval(0, 9)),)
    assert settle(dict(box), constraints) == {}
    assert box == {Dim(0): Interval(0, 9)}


UNUSED = [  # before, without symbols, without all unused variables
    ("(d0, d1)[s0, s1] -> (d1, s1), domain: d0 in [0, 3], d1 in [0, 4], s0 in [0, 5], s1 in [0, 6]",
     "(d0, d1)[s0] -> (d1, s0), domain: d0 in [0, 3], d1 in [0, 4], s0 in [0, 6]",
     "(d0)[s0] -> (d0, s0), domain: d0 in [0, 4], s0 in [0, 6]"),
    # tied to a used variable through another one
    ("(d0)[s0, s1] -> (d0), domain: d0 in [0, 3], s0 in [0, 5], s1 in [0, 6], d0 + s0 in [2, 4], "
     "s0 + s1 in [1, 3]", None, None),
    # the constraints of unused variables must hold somewhere
    ("(d0)[s0] -> (d0), domain: d0 in [0, 3], s0 in [0, 5], s0 mod 3 in [2, 2]",
     "(d0) -> (d0), domain: d0 in [0, 3]", "(d0) -> (d0), domain: d0 in [0, 3]"),
    ("(d0)[s0] -> (d0), domain: d0 in [0, 3], s0 in [0, 1], s0 mod 3 in [2, 2]",
     "KNOWN EMPTY", "KNOWN EMPTY"),
    ("(d0)[s0, s1] -> (d0), domain: d0 in [0, 3], s0 in [0, 9], s1 in [0, 9], s0 * 4 + s1 * 6 in "
     "[7, 7]", "KNOWN EMPTY", "KNOWN EMPTY"),
    # not found out: kept
    ("(d0)[s0, s1] -> (d0), domain: d0 in [0, 3], s0 in [0, 9999], s1 in [0, 9999], "
     "s0 * 4 + s1 * 6 in [7, 7]", None, None),
    ("(d0) -> (), domain: d0 in [0, 3]", None, "() -> ()"),
    ("KNOWN EMPTY", None, None),
    ("UNDEFINED", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "symbols", "everything"), UNUSED, ids=lambda t: str(t)[:50])
def test_unused_variables_go(before: str, symbols: str | None, everything: str | None) -> None:
    m = IndexingMap.parse(before)
    assert str(m.remove_unused_symbols()) == (symbols or str(m))
    assert str(m.remove_unused_vars()) == (everything or str(m))


def test_flags_of_unused_variables() -> None:
    m = IndexingMap.parse(UNUSED[0][0])
    assert {str(v) for v in m.unused_variables()} == {"d0", "s0"}


RESCALED = [
    ("()[s0] -> (s0), domain: s0 in [0, 41], s0 mod 6 in [3, 3]",
     "()[s0] -> (s0 * 6 + 3), domain: s0 in [0, 6]"),
    ("()[s0] -> (s0), domain: s0 in [-20, 20], s0 mod 6 in [3, 3]",
     "()[s0] -> (s0 * 6 + 3), domain: s0 in [-3, 2]"),
    ("()[s0] -> (s0), domain: s0 in [-20, 20], s0 mod 4 in [3, 3], s0 mod 6 in [1, 1]",
     "()[s0] -> (s0 * 12 + 7), domain: s0 in [-2, 1]"),
    ("(d0) -> (d0), domain: d0 in [0, 9], d0 mod 2 in [0, 0]",
     "(d0) -> (d0), domain: d0 in [0, 9], d0 mod 2 in [0, 0]"),
    ("()[s0] -> (s0), domain: s0 in [0, 2], s0 mod 6 in [3, 3]", "KNOWN EMPTY"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), RESCALED, ids=lambda text: text[:60])
def test_symbols_are_rescaled(before: str, after: str) -> None:
    assert str(IndexingMap.parse(before).rescale_symbols()) == after


INVERSES = [
    ("(d0, d1) -> (d1, d0), domain: d0 in [0, 9], d1 in [0, 4]",
     "(d0, d1) -> (d1, d0), domain: d0 in [0, 4], d1 in [0, 9]"),
    ("(d0) -> (-d0 + 9), domain: d0 in [0, 9]", "(d0) -> (-d0 + 9), domain: d0 in [0, 9]"),
    ("(d0, d1) -> (d0 * 5 + d1), domain: d0 in [0, 9], d1 in [0, 4]",
     "(d0) -> (d0 / 5, d0 mod 5), domain: d0 in [0, 49]"),
    ("(d0) -> (d0 / 4, d0 mod 4), domain: d0 in [0, 39]",
     "(d0, d1) -> (d0 * 4 + d1), domain: d0 in [0, 9], d1 in [0, 3]"),
    ("(d0) -> ((d0 - 1) / 2), domain: d0 in [1, 7], (d0 - 1) mod 2 in [0, 0]",
     "(d0) -> (d0 * 2 + 1), domain: d0 in [0, 3]"),
    ("(d0) -> (d0), domain: d0 in [0, 9], d0 mod 2 in [1, 1]",
     "(d0) -> (d0), domain: d0 in [1, 9], d0 mod 2 in [1, 1]"),
    ("(d0, d1) -> (d0), domain: d0 in [0, 3], d1 in [0, 9]",
     "(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 9]"),
    ("(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 9]",
     "(d0, d1) -> (d0), domain: d0 in [0, 3], d1 in [0, 9]"),
    ("() -> (3)", "(d0) -> (), domain: d0 in [3, 3]"),
    ("(d0) -> (), domain: d0 in [2, 7]", "()[s0] -> (s0), domain: s0 in [2, 7]"),
    ("UNDEFINED", "UNDEFINED"),
    ("KNOWN EMPTY", "KNOWN EMPTY"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), INVERSES, ids=lambda text: text[:60])
def test_inverses_are_readable(before: str, after: str) -> None:
    assert str(IndexingMap.parse(before).inverse()) == after


def test_composing_needs_matching_numbers() -> None:
    with pytest.raises(ValueError, match="the first map has 1 results, the second 2 dimensions"):
        IndexingMap.parse("(d0) -> (d0)").compose(IndexingMap.parse("(d0, d1) -> (d0)"))


def test_undefined_maps_compose_to_undefined() -> None:
    m = IndexingMap.parse("(d0) -> (d0)")
    assert m.compose(IndexingMap.undefined()).is_undefined
    assert IndexingMap.undefined().compose(m).is_undefined


def test_undefined_maps_have_no_values() -> None:
    with pytest.raises(ValueError, match="undefined"):
        IndexingMap.undefined().points(())


def test_values_are_counted() -> None:
    m = IndexingMap.parse("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 1]")
    with pytest.raises(ValueError, match="2 values for 1 dimension variables"):
        m.evaluate((1, 2), (0,))
    with pytest.raises(ValueError, match="0 values for 1 range variables"):
        m.evaluate((1,))
    with pytest.raises(ValueError, match="0 bounds for 1 range variables"):
        m.bounded([4])


def test_too_many_points_are_refused() -> None:
    m = IndexingMap.parse("()[s0] -> (s0), domain: s0 in [0, 9999999999]")
    with pytest.raises(ValueError, match="10000000000 values of the range variables are more than"):
        m.points(())


def test_points_in_several_chunks() -> None:
    m = IndexingMap.parse("()[s0, s1] -> (s0 * 500 + s1), domain: s0 in [0, 399], s1 in [0, 499]")
    assert m.points(()) == {(i,) for i in range(200_000)}


def test_variables_know_their_kind() -> None:
    m = IndexingMap.parse("(th_x, pid)[bl_y] -> (0)")
    assert [v.kind for v in m.dims + m.ranges] == [
        VariableKind.THREAD_X,
        VariableKind.DEFAULT,
        VariableKind.BLOCK_Y,
    ]
