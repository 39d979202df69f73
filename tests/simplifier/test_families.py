"""Families of tables: formulas of the index, within the values that a table can hold."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from hloscope.affine import Dim, Expr, Interval, Runtime, evaluate, variables
from hloscope.simplifier.isl_tables import FAMILIES

INDEX = [Interval(0, 3), Interval(0, 2)]
VALUES = Interval(2, 9)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_formulas_are_of_the_index_and_of_the_parameters(family: Callable[..., Any]) -> None:
    formula, parameters = family(INDEX, VALUES)
    known = {Dim(j) for j in range(len(INDEX))} | {Runtime(i) for i in range(len(parameters))}
    assert set(variables(formula)) <= known


NUMBERED = {
    "rising": lambda i, j: 3 * i + j,
    "falling": lambda i, j: -(3 * i + j),
    "diagonal": lambda i, j: i + j,
}


@pytest.mark.parametrize("name", NUMBERED)
def test_elements_follow_their_index_from_a_parameter_on(name: str) -> None:
    formula, (_,) = next(f for f in FAMILIES if f.__name__ == name)(INDEX, VALUES)
    for i, j in product(range(4), range(3)):
        at: dict[Expr, int] = {Dim(0): i, Dim(1): j, Runtime(0): 10}
        assert evaluate(formula, at) == 10 + NUMBERED[name](i, j)


def test_one_element_is_apart_from_all_others() -> None:
    formula, _ = next(f for f in FAMILIES if f.__name__ == "one_apart")(INDEX, VALUES)
    for i, j in product(range(4), range(3)):
        at: dict[Expr, int] = dict(zip(map(Runtime, range(4)), (2, 1, 5, 30), strict=True))
        assert evaluate(formula, at | {Dim(0): i, Dim(1): j}) == 5 + 30 * ((i, j) == (2, 1))


def test_alternating_tables_hold_the_least_and_the_greatest_value() -> None:
    formula, (parity,) = next(f for f in FAMILIES if f.__name__ == "alternating")(INDEX, VALUES)
    for start in range(parity.lo, parity.hi + 1):
        for i, j in product(range(4), range(3)):
            at: dict[Expr, int] = {Dim(0): i, Dim(1): j, Runtime(0): start}
            assert evaluate(formula, at) == (VALUES.hi if (i + j + start) % 2 else VALUES.lo)
