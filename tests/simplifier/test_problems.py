"""Sets of problems: results are right, and leave no more divisions than they should."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.simplify_problems import problems as generated
from hloscope.affine import (
    Dim,
    Interval,
    Range,
    Var,
    divisions,
    evaluate_array,
    operators,
    parse_expr,
)
from hloscope.simplifier import Domain
from tests.conftest import SHARED

FOLDER = SHARED / "bench" / "simplify"
BEST_PEERS = {"problems.json": 231, "hard.json": 391}
"""floordiv and mod left by the best peer, summed over the problems."""
FRESH_LEFT = 409
"""What is left of the generated problems."""


def load(file: str) -> list[dict[str, Any]]:
    path = FOLDER / file
    return json.loads(path.read_text())["problems"] if path.is_file() else []


def points(box: dict[Var, Interval], number: int) -> dict[Var, Any]:
    """All points of a small box, else a sample with the corners favoured."""
    size = 1
    for i in box.values():
        size *= i.size
    if size <= number:
        grid = np.meshgrid(*[np.arange(i.lo, i.hi + 1) for i in box.values()], indexing="ij")
        return dict(zip(box, [g.ravel() for g in grid], strict=True))
    rng = np.random.default_rng(0)
    columns = {}
    for v, i in box.items():
        values = rng.integers(i.lo, i.hi + 1, size=number)
        where = rng.random(number)
        columns[v] = np.where(where < 0.1, i.lo, np.where(where > 0.9, i.hi, values))
    return columns


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("file", BEST_PEERS)
def test_no_peer_leaves_fewer_divisions(file: str, full: bool) -> None:
    problems = load(file)
    if not problems:
        pytest.skip("needs the shared problems (../shared/bench)")
    assert left_of(problems, 20_000 if full else 2_000) <= BEST_PEERS[file]


def test_generated_problems_keep_their_values(full: bool) -> None:
    """They are like the hard ones of the shared set, and nothing was fitted to them."""
    assert left_of(generated(), 20_000 if full else 1_000) <= FRESH_LEFT


def test_generated_problems_are_those_of_the_seed() -> None:
    assert generated(7) == generated(7)
    assert len({p["id"] for p in generated(7)}) == len(generated(7)) == 516
    assert generated(7) != generated(8)


def left_of(problems: list[dict[str, Any]], number: int) -> int:
    """The divisions left of problems, whose values are the same at so many points."""
    left = 0
    for p in problems:
        names: dict[str, Var] = {v[0]: Dim(i) for i, v in enumerate(p["dims"])}
        names |= {v[0]: Range(i) for i, v in enumerate(p["syms"])}
        box = {names[name]: Interval(lo, hi) for name, lo, hi in p["dims"] + p["syms"]}
        facts = tuple((parse_expr(e, names), Interval(lo, hi)) for e, lo, hi in p["constraints"])
        domain = Domain(box, facts)
        at = points(box, number)
        inside = np.ones(next(iter(at.values())).shape if at else (), bool)
        for e, interval in facts:
            value = evaluate_array(e, at)
            inside &= (interval.lo <= value) & (value <= interval.hi)
        for text in p["exprs"]:
            e = parse_expr(text, names)
            new = domain.simplify(e)
            left += divisions(new)
            same = evaluate_array(e, at) == evaluate_array(new, at)
            assert np.all(same | ~inside), f"{p['id']}: {e} became {new}"
    return left


def lengths(problems: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Of each expression of problems its problem, and its operators before and after."""
    found = []
    for p in problems:
        names: dict[str, Var] = {v[0]: Dim(i) for i, v in enumerate(p["dims"])}
        names |= {v[0]: Range(i) for i, v in enumerate(p["syms"])}
        box = {names[name]: Interval(lo, hi) for name, lo, hi in p["dims"] + p["syms"]}
        facts = tuple((parse_expr(e, names), Interval(lo, hi)) for e, lo, hi in p["constraints"])
        domain = Domain(box, facts)
        for text in p["exprs"]:
            e = parse_expr(text, names)
            found.append((p["id"], operators(e), operators(domain.simplify(e))))
    return found


@pytest.mark.parametrize("file", BEST_PEERS)
def test_no_problem_becomes_longer(file: str) -> None:
    problems = load(file)
    if not problems:
        pytest.skip("needs the shared problems (../shared/bench)")
    assert [row for row in lengths(problems) if row[2] > row[1]] == []


def test_no_generated_problem_becomes_longer() -> None:
    assert [row for row in lengths(generated(7)) if row[2] > row[1]] == []


def test_remainders_of_remainders_stay() -> None:
    e = parse_expr("(d0 mod 10) mod 3")
    assert Domain({Dim(0): Interval(0, 29)}).simplify(e) is e
