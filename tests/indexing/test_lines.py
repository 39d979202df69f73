"""Expressions of one long variable as straight lines, compared with their values at every place."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, strategies as st

import hloscope.indexing.proofs as lines
import hloscope.simplifier.isl_tables as isl_tables
from hloscope.affine import CeilDiv, Dim, Expr, FloorDiv, Interval, Mod, evaluate, postorder
from hloscope.indexing import IndexingMap, prove_equal, prove_within
from hloscope.indexing.proofs import MOST_LINES, lines_of

D0, D1 = Dim(0), Dim(1)


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    """Nested quotients and remainders of two variables."""
    found: list[Expr] = [D0, D1]
    for _ in range(draw(st.integers(1, 9))):
        x = draw(st.sampled_from(found[-4:])) * draw(st.integers(-9, 9))
        x += draw(st.sampled_from(found)) * draw(st.integers(-3, 3)) + draw(st.integers(-40, 40))
        divide = draw(st.sampled_from((FloorDiv, CeilDiv, Mod, None)))
        found.append(x if divide is None else divide(x, draw(st.integers(1, 60))))
    return found[-1]


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    lo = draw(st.integers(-50, 50))
    return Interval(lo, lo + draw(st.integers(0, 200)))


@given(expressions(), intervals(), st.integers(-9, 9))
def test_lines_have_the_values_of_the_expression(x: Expr, long: Interval, other: int) -> None:
    found = lines_of(x, D0, long, {D1: other})
    assert found is not None
    assert [line.start for line in found] == sorted({line.start for line in found})
    assert found[0].start == long.lo
    at = 0
    for place in range(long.lo, long.hi + 1):
        if at + 1 < len(found) and found[at + 1].start == place:
            at += 1
        start, value, slope = found[at]
        assert value + slope * (place - start) == evaluate(x, {D0: place, D1: other})
    assert at == len(found) - 1


@pytest.mark.slow
@given(expressions(), intervals(), st.integers(-20, 20), st.integers(0, 40))
def test_what_is_proved_is_so_at_every_place(
    x: Expr, long: Interval, least: int, width: int
) -> None:
    box, allowed = [long, Interval(-1, 2)], Interval(least, least + width)
    m = IndexingMap.parse(f"(d0, d1) -> (), domain: d0 in [{long.lo}, {long.hi}], d1 in [-1, 2]")
    points = [*product(*[range(i.lo, i.hi + 1) for i in box])]
    proof = lines._within(m, x, allowed)
    assert proof is not None
    values = {p: evaluate(x, {D0: p[0], D1: p[1]}) for p in points}
    assert proof.is_proved == all(map(allowed.contains, values.values()))
    if not proof.is_proved:
        assert proof.counter_example is not None
        assert proof.counter_example.results == (values[proof.counter_example.dims],)
        assert not allowed.contains(values[proof.counter_example.dims])


@given(expressions(), expressions(), intervals())
def test_maps_are_equal_where_all_values_are(a: Expr, b: Expr, long: Interval) -> None:
    dims = [long, Interval(0, 1)]
    base = IndexingMap.parse(f"(d0, d1) -> (), domain: d0 in [{long.lo}, {long.hi}], d1 in [0, 1]")
    first, second = (base.with_(results=[x]) for x in (a, b))
    proof = lines.equal(first, second)
    if proof is None:
        assert sum(isinstance(x, FloorDiv | CeilDiv | Mod) for x in postorder(a, b)) <= 4
        return
    points = product(*[range(i.lo, i.hi + 1) for i in dims])
    assert proof.is_proved == all(first.evaluate(p) == second.evaluate(p) for p in points)
    if proof.counter_example is not None:
        index = proof.counter_example.dims
        assert proof.counter_example.results == first.evaluate(index) != second.evaluate(index)


def shifted(text: str, size: int, cuts: int) -> str:
    """The text of an index that is cut into long parts and put together again, reversed twice."""
    for k in range(cuts):
        part = size // (3 + k)
        text = f"(({text}) / {part} * {part} + ({text}) mod {part})"
        text = f"({size - 1} - ({size - 1} - {text}))"
    return text


@pytest.mark.timeout(60)
def test_long_arrays_cut_again_and_again_are_proved_without_isl(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask(*_: object, **__: object) -> None:
        raise AssertionError("isl is asked")

    monkeypatch.setattr(isl_tables.StatementSets, "points", ask)
    size = 2**62 + 1
    text = shifted("d0", size, 12)
    m, same = (
        IndexingMap.parse(f"(d0) -> ({x}), domain: d0 in [0, {size - 1}]") for x in (text, "d0")
    )
    assert prove_within(m, m.results[0], Interval(0, size - 1)).is_proved
    refuted = prove_within(m, m.results[0], Interval(0, size - 2))
    assert refuted.counter_example is not None
    assert refuted.counter_example.dims == (size - 1,)
    assert prove_equal([m], [same]).is_proved
    other = m.with_(results=[m.results[0] + (D0 + 1) // size])
    assert prove_equal([m], [other]).is_refuted


def test_of_too_many_lines_nothing_is_told() -> None:
    x = Mod(FloorDiv(D0, 3), 5)
    assert lines_of(x, D0, Interval(0, 100), {}) is not None
    assert lines_of(x, D0, Interval(0, 100 * MOST_LINES), {}) is None
    assert lines_of(D0 * D1, D0, Interval(0, 9), {}) is None


def test_what_a_constraint_may_leave_out_is_no_counter_example() -> None:
    cut = shifted("d0", 2**40, 5)
    m = IndexingMap.parse(f"(d0) -> ({cut}), domain: d0 in [0, {2**40 - 1}], d0 mod 7 in [0, 0]")
    assert lines.within(m, m.results[0], Interval(0, 2**40 - 1)).is_proved  # type: ignore[union-attr]
    assert lines.within(m, m.results[0], Interval(0, 2**40 - 2)) is None
