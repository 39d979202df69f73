"""What is read off as digits has the values of the map, and what is none is not read."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import Const, Dim, Expr, linear
from hloscope.indexing import IndexingMap, below
from hloscope.indexing.layouts import digits_of, form_of

SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=1, max_size=3)


@st.composite
def maps(draw: st.DrawFn) -> IndexingMap:
    """Sums, quotients and remainders in each other, most of them by divisors of the sizes."""
    sizes = draw(SIZES)
    pool: list[Expr] = [Dim(k) for k in range(len(sizes))]
    for _ in range(draw(st.integers(0, 8))):
        x, y = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        by = draw(st.sampled_from([1, 2, 2, 3, 4, 4, 6, 8, 12]))
        factor = draw(st.sampled_from([1, by, -1, 12, 5]))
        match draw(st.sampled_from(["sum", "quotient", "remainder"])):
            case "sum":
                pool.append(linear((x, by), (y, factor), (draw(st.integers(-2, 9)), 1)))
            case "quotient":
                pool.append(x // by)
            case _:
                pool.append(x % by)
    results = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
    return IndexingMap([below(n) for n in sizes], results=results)


@pytest.mark.slow
@given(maps())
@settings(max_examples=600, deadline=None)
def test_digits_have_the_values_of_the_map(m: IndexingMap) -> None:
    found = digits_of(m)
    if found is None:
        return
    sizes = [v.interval.size for v in m.dims]
    for index in product(*map(range, sizes)):
        values = [
            result.offset + sum([form(i) for form, i in zip(result.forms, index, strict=True)])
            for result in found
        ]
        assert tuple(values) == m.evaluate(index)
    for result in found:
        assert [form.size for form in result.forms] == sizes
        assert all(form == form.merged() for form in result.forms)


@pytest.mark.slow
@given(st.permutations(range(5)), st.lists(st.integers(1, 5), min_size=5, max_size=5), st.data())
@settings(max_examples=200, deadline=None)
def test_every_reshape_of_a_transpose_is_read(
    order: list[int], sizes: list[int], data: st.DataObject
) -> None:
    """One index into an array, split, turned and joined again: simplified or not."""
    strides = {d: prod(sizes[d + 1 :]) for d in range(5)}
    terms, below_ = [], 1
    for d in order:
        terms.append((Dim(0) // below_ % sizes[d], strides[d]))
        below_ *= sizes[d]
    m = IndexingMap([below(below_)], results=[linear(*terms, (Const(0), 1))])
    m = m.simplify() if data.draw(st.booleans()) else m
    found = digits_of(m)
    assert found is not None
    for x in range(below_):
        assert found[0].offset + found[0].forms[0](x) == m.evaluate((x,))[0]
    assert form_of(m) == found[0].forms[0]


@pytest.mark.parametrize(
    "text",
    [
        "(d0) -> (d0 mod 5), domain: d0 in [0, 11]",
        "(d0) -> (d0 / 2 + d0 / 3), domain: d0 in [0, 11]",
        "(d0) -> (d0 / 8), domain: d0 in [0, 11]",
        "(d0, d1) -> ((d0 + d1) / 2), domain: d0 in [0, 3], d1 in [0, 3]",
        "(d0) -> (d0), domain: d0 in [1, 4]",
        "(d0) -> (d0), domain: d0 in [0, -1]",
        "(d0) -> (d0), domain: d0 in [0, 7], d0 mod 2 in [0, 0]",
        "(d0) -> (max(d0, 2)), domain: d0 in [0, 7]",
        "(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 7], rt0 in [0, 1]",
    ],
)
def test_what_has_no_such_digits_is_not_read(text: str) -> None:
    assert digits_of(IndexingMap.parse(text)) is None


def test_a_half_that_carries_over_is_a_digit() -> None:
    """The simplifier writes some digits as rounded quotients."""
    for text in ("(d0 + 4) / 8", "(d0 + 4) mod 8", "(d0 * 2 - 8) / 16 + d0", "(12 - d0) mod 8"):
        m = IndexingMap.parse(f"(d0) -> ({text}), domain: d0 in [0, 31]")
        found = digits_of(m)
        assert (found is None) == text.startswith("(12"), text
        if found is not None:
            for x in range(32):
                assert (found[0].offset + found[0].forms[0](x),) == m.evaluate((x,))


def test_range_variables_have_digits_too() -> None:
    text = "(d0)[s0] -> (d0 * 4 + s0 / 2), domain: d0 in [0, 2], s0 in [0, 7], s0 / 4 in [0, 1]"
    found = digits_of(IndexingMap.parse(text))
    assert found is not None
    assert [form.modes for form in found[0].forms] == [((3, 4),), ((2, 0), (4, 1))]
