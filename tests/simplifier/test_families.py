"""Families of tables: formulas of the index, within the values that a table can hold."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from hloscope.affine import Dim, Expr, Interval, Runtime, evaluate, variables
from hloscope.simplifier.isl_families import FAMILIES

INDEX = [Interval(0, 3), Interval(0, 2)]
VALUES = Interval(2, 9)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_formulas_are_of_the_index_and_of_the_parameters(family: Callable[..., Any]) -> None:
    formula, parameters = family(INDEX, VALUES)
    known = {Dim(j) for j in range(len(INDEX))} | {Runtime(i) for i in range(len(parameters))}
    assert set(variables(formula)) <= known


def test_alternating_tables_hold_the_least_and_the_greatest_value() -> None:
    formula, (parity,) = next(f for f in FAMILIES if f.__name__ == "alternating")(INDEX, VALUES)
    for start in range(parity.lo, parity.hi + 1):
        for i, j in product(range(4), range(3)):
            at: dict[Expr, int] = {Dim(0): i, Dim(1): j, Runtime(0): start}
            assert evaluate(formula, at) == (VALUES.hi if (i + j + start) % 2 else VALUES.lo)
