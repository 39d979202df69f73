"""Answers depend on the expression and its domain, not on what was asked before."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest

from hloscope.affine import Dim, Expr, Interval, Range, Var, ceildiv, maximum, minimum
from hloscope.simplifier import Constraint, Domain, forget_domains

SIZES: Final = 2, 3, 4, 5, 6, 8, 12, 15, 16, 32, 64, 100
BATCH: Final = 40
"""So many expressions share a domain."""


def a_box(rng: random.Random) -> dict[Var, Interval]:
    low = rng.choice([0, 0, 0, -7])
    return {v: Interval(low, low + rng.choice(SIZES)) for v in (Dim(0), Dim(1), Dim(2), Range(0))}


def an_expression(rng: random.Random, box: dict[Var, Interval], depth: int = 4) -> Expr:
    """Sums of variables, taken apart into digits and put together again."""
    if not depth or rng.random() < 0.1:
        return rng.choice(list(box))
    operand = an_expression(rng, box, depth - 1)
    size = rng.choice(SIZES)
    match rng.randrange(10):
        case 0 | 1 | 2 | 3:
            other = an_expression(rng, box, depth - 1)
            return operand * rng.choice([1, 2, -1, size, -size]) + other + rng.choice([0, 0, 1, -3])
        case 4 | 5 | 6:
            return operand // size
        case 7 | 8:
            return operand % size
        case _:
            other = an_expression(rng, box, depth - 1)
            return rng.choice([minimum, maximum, lambda x, _: ceildiv(x, size)])(operand, other)


def some_facts(rng: random.Random, box: dict[Var, Interval]) -> tuple[Constraint, ...]:
    """Constraints of every third domain: a few expressions are known to be small."""
    if rng.randrange(3):
        return ()
    exprs = [an_expression(rng, box, 2) for _ in range(rng.randint(1, 3))]
    return tuple([(e, Interval(0, rng.choice(SIZES))) for e in exprs])


def answers(domain: Domain, questions: list[tuple[str, Expr]]) -> dict[tuple[str, Expr], object]:
    ask: dict[str, Callable[[Expr], object]] = {
        "simplify": domain.simplify, "bounds": domain.bounds, "flat": domain.flat,
    }  # fmt: skip
    return {(kind, e): ask[kind](e) for kind, e in questions}


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_questions_changes_no_answer(seed: int, full: bool) -> None:
    rng = random.Random(seed)
    changed: list[str] = []
    for _ in range(200 if full else 5):
        box = a_box(rng)
        facts = some_facts(rng, box)
        forget_domains()
        domain = Domain(box, facts)
        simple = [("simplify", an_expression(rng, box)) for _ in range(BATCH)]
        first = answers(domain, simple)
        others = [(kind, e) for _, e in simple for kind in ("bounds", "flat")]
        again = [("simplify", e) for e in first.values() if isinstance(e, Expr)]
        first |= answers(domain, others) | answers(domain, again)
        questions = list(first)
        rng.shuffle(questions)
        forget_domains()
        second = answers(Domain(box, facts), questions)
        changed += [
            f"{kind} of {e}: {first[kind, e]} and {second[kind, e]} on {box}, {facts}"
            for kind, e in questions
            if first[kind, e] != second[kind, e]
        ]
    forget_domains()
    assert not changed, f"{len(changed)} changed: " + "\n".join(changed[:20])
