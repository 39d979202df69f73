"""What a domain knows of an expression narrows its bounds from both sides."""

from __future__ import annotations

from itertools import product

import pytest

from hloscope.affine import Const, Dim, Expr, Interval, Range, evaluate
from hloscope.simplifier import Domain
from hloscope.simplifier.domain import is_linear, is_longer

D = Dim(0)
BOX = {D: Interval(0, 100), Dim(1): Interval(0, 100)}


@pytest.mark.parametrize("e", [D, D // 4, D % 7, D + Dim(1), D // 4 + Dim(1) * 2], ids=str)
@pytest.mark.parametrize("fact", [Interval(1, 2), Interval(2, 200), Interval(-5, 3)], ids=str)
def test_bounds_are_within_what_is_known(e: Expr, fact: Interval) -> None:
    free = Domain(BOX).bounds(e)
    found = Domain(BOX, ((e, fact),)).bounds(e)
    assert fact.lo <= found.lo or free.lo >= fact.lo
    assert max(free.lo, fact.lo) <= found.lo
    assert found.hi <= min(free.hi, fact.hi)


@pytest.mark.parametrize("e", [Dim(0), Range(1), Const(3), Dim(0) * 2 + Range(0) - 1], ids=str)
def test_variables_and_constants_are_linear(e: Expr) -> None:
    assert is_linear(e)


def test_longer_is_a_strict_order() -> None:
    """None of two is longer than the other if both are as long: so none takes the other's place."""
    ascending = [[D, Dim(1) + 1], [D // 4, Dim(1) // 4], [D // 4 + 1, Dim(1) % 4 + 2]]
    lengths = [(length, e) for length, same in enumerate(ascending) for e in same]
    for (a, e), (b, f) in product(lengths, repeat=2):
        assert is_longer(e, f) == (a > b), (str(e), str(f))


@pytest.mark.parametrize(
    "e",
    [Dim(1), Dim(2), Dim(1) * 3 + 5, Dim(1) - Dim(2) * 2 - 1, Range(0) + Dim(1), Const(9)],
    ids=str,
)
@pytest.mark.parametrize(
    "facts",
    [
        ((D % 4, Interval(3, 3)),),
        ((D + Range(1), Interval(0, 2)), (D // 3 * 3 - D, Interval(0, 0))),
        ((D - Range(1), Interval(0, 0)), (D // 2 + Range(1), Interval(5, 9))),
    ],
    ids=str,
)
def test_facts_about_others_make_no_difference(
    e: Expr, facts: tuple[tuple[Expr, Interval], ...]
) -> None:
    """What is told at once is what the engine finds."""
    box = {**BOX, Dim(2): Interval(7, 7), Range(1): Interval(0, 20)}
    domain = Domain(box, facts)
    assert domain.bounds(e) == domain._of_forms(e)
    assert domain.simplify(e) is domain._find(e) is Domain(box).simplify(e)


def test_quotients_that_are_known_by_each_other_are_not_replaced_for_ever() -> None:
    """`9 * (2 * h // 9) == 2 * h` tells what each of two quotients is, by the other one."""
    box = {D: Interval(0, 71)}
    h = D // 2
    facts = ((h * 2 % 9, Interval(0, 0)), (D % 2, Interval(0, 0)), (h % 9, Interval(0, 4)))
    found = Domain(box, facts).simplify(D // 36 * 2 + h % 18 // 9)
    for x in range(72):
        at = {D: x}
        if all([evaluate(e, at) in range(i.lo, i.hi + 1) for e, i in facts]):
            assert evaluate(found, at) == x // 36 * 2 + x // 2 % 18 // 9


def test_facts_about_an_expression_too_long_to_rewrite_bound_it_and_no_other() -> None:
    e: Expr = D
    for k in range(12):
        e = (e * 3 + Dim(1) // (k + 2)) % (97 + 2 * k) + e // (k + 3)
    assert Domain(BOX, ((D + Dim(1), Interval(0, 5)),)).bounds(e).hi >= evaluate(
        e, {D: 1, Dim(1): 1}
    )
    assert Domain(BOX, ((e, Interval(3, 9)),)).bounds(e) == Interval(3, 9)
