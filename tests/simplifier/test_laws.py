"""The four tests of the laws: true, kept by the code, fired, and (test_simplify.py) idempotent."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from importlib import import_module
from itertools import product
from pkgutil import walk_packages
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from hloscope import simplifier
from hloscope.affine import (
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Max,
    Min,
    Mod,
    Product,
    Sum,
    Var,
    evaluate,
    maximum,
    minimum,
    parse_expr,
)
from hloscope.simplifier import Domain, simplify_exact
from hloscope.simplifier.engine import Engine
from hloscope.simplifier.exact import BUDGET
from hloscope.simplifier.laws import TABLES, page
from hloscope.simplifier.quotients import FLOORDIV, features, laws_of
from hloscope.simplifier.rule import Rule, Trace
from tests.simplifier.cases import BOX, CASES
from tests.strategies import affine_exprs, boxes_and_points, divisors

RULES = [rule for _, rules in TABLES for rule in rules]
each_rule = pytest.mark.parametrize("rule", RULES, ids=str)
WORLD = dict.fromkeys("xy", range(-7, 8)) | dict.fromkeys("acgn", range(1, 5)) | {"r": range(5)}


def letters(rule: Rule[Any]) -> list[str]:
    text = f"{rule.left} {rule.right} {rule.when}".replace("min", "").replace("max", "")
    return sorted({ch for ch in text if ch in WORLD})


@each_rule
def test_law_is_true(rule: Rule[Any]) -> None:
    """For every integer in a small world; `k` is what the condition says."""
    tried = 0
    names = letters(rule)
    left, right, when = (
        compile(text, str(rule), "eval") for text in (rule.left, rule.right, rule.when or "True")
    )
    for values in product(*(WORLD[n] for n in names)):
        at: dict[str, Any] = dict(zip(names, values, strict=True))
        if rule.when.startswith("k == "):
            at["k"] = eval(rule.when.removeprefix("k == "), {}, at)
        if "k" not in at and "k" in rule.left:
            at["k"] = 3
        if eval(when, {}, at):
            tried += 1
            assert eval(left, {}, at) == eval(right, {}, at), at
    assert tried > 5


@each_rule
@given(st.data(), boxes_and_points())
@settings(max_examples=60, deadline=None)
def test_code_keeps_the_value_of_its_left_side(rule: Rule[Any], data: Any, where: Any) -> None:
    """Instances of the left side: random whole expressions would hardly ever match."""
    box, at = where
    engine = Engine(box)
    values: dict[str, Any] = {}
    for name in sorted({*letters(rule), "k"}):
        if name in "xyr":
            values[name] = engine.flat(data.draw(affine_exprs, name))
        elif name == "n":
            values[name] = data.draw(st.sampled_from([Dim(1), Dim(1) * 2 + 1, Const(3)]), name)
        else:
            values[name] = data.draw(divisors, name)
    left = eval(rule.left, {"min": minimum, "max": maximum}, values)
    new = apply(rule, left, engine, box)
    if new is not None:
        try:
            want = evaluate(left, at)
        except ValueError:
            assume(False)  # a division by zero has no value
        assert evaluate(new, at) == want


def apply(rule: Rule[Any], e: Expr, engine: Engine, box: Mapping[Var, Interval]) -> Expr | None:
    """Use the code of a row on one expression."""
    table = next(name for name, rules in TABLES if rule in rules)
    match table, e:
        case "Quotients", FloorDiv(num, Const(den)) if den > 1:
            return rule.code(engine.flat(num), den, engine)
        case "Remainders", Mod(num, Const(den)) if den > 1:
            return rule.code(engine.flat(num), den, engine)
        case "Remainders found again", _:
            return rule.code(engine.flat(e), engine)
        case "Ceilings", CeilDiv(num, Const(den)) if den > 1:
            return rule.code(engine.flat(num), den, engine)
        case "Sums", Sum():
            flat = engine.flat(e)
            return rule.code(flat, engine) if isinstance(flat, Sum) else None
        case "Leaves", FloorDiv() | Mod() | CeilDiv() | Min() | Max() | Product():
            kinds = {
                "min(": Min, "max(": Max, "(n * x + y) //": FloorDiv, "(n * x + y) %": Mod,
                "-(x": CeilDiv, "x": object,
            }  # fmt: skip
            kind = next(k for start, k in kinds.items() if rule.left.startswith(start))
            divides = isinstance(e, FloorDiv | Mod | CeilDiv) and isinstance(e.den, Const)
            if isinstance(e, kind) and not divides:
                return rule.code(e, engine)
        case "The exact level", _:
            return rule.code(e, Domain(box), BUDGET)
    return None


@pytest.mark.slow
@settings(max_examples=300)
@given(affine_exprs, divisors, boxes_and_points(), st.booleans())
def test_law_that_is_left_out_would_do_nothing(
    e: Expr, den: int, where: Any, reduce_all: bool
) -> None:
    """The engine tries only the laws that look for a feature which the numerator has."""
    engine = Engine(where[0], reduce_all=reduce_all)
    num = engine.flat(e)
    lo, hi = engine.bounds(num)
    assume(den > 1 and lo // den != hi // den)
    tried = laws_of(features(num, den, reduce_all))
    for rule in FLOORDIV[1:]:
        assert rule in tried or rule.code(num, den, engine) is None


def test_every_law_fires() -> None:
    """A law that no case reaches is dead, or shadowed by an earlier one."""
    fired = set()
    for before, _ in CASES:
        for keep in (False, True):
            engine = Engine(BOX, keep_remainders=keep)
            engine.trace = []
            engine.simplify(parse_expr(before))
            fired |= {step.law for step in engine.trace}
    facts = Engine(BOX, ((parse_expr("s0 mod 4"), BOX[Dim(2)]),))
    facts.trace = []
    facts.simplify(parse_expr("s0 / 4 * 4"))
    fired |= {step.law for step in facts.trace}
    exact: Trace = []
    simplify_exact(parse_expr("((d0 * 8 + d1) / 2 * 5) / 8"), BOX, trace=exact)
    fired |= {step.law for step in exact}
    dead = [str(rule) for rule in RULES if rule not in fired]
    assert not dead, "tests/simplifier/cases.py needs a case that no earlier law simplifies"
    assert [str(rule) for rule in fired if rule not in RULES] == []


def test_every_law_is_in_a_table() -> None:
    """A law outside of the tables would be neither tested nor documented."""
    for module in walk_packages(simplifier.__path__, f"{simplifier.__name__}."):
        import_module(module.name)
    laws = [x for x in gc.get_objects() if isinstance(x, Rule)]
    assert laws
    assert [str(rule) for rule in laws if rule not in RULES] == []


def test_the_page_of_laws_is_up_to_date(request: pytest.FixtureRequest) -> None:
    file = request.config.rootpath / "docs" / "laws.md"
    assert file.read_text() == page(), "run: python -m hloscope.simplifier.laws > docs/laws.md"


def test_a_law_is_tried_where_the_features_it_needs_are_found() -> None:
    for rule in FLOORDIV[1:]:  # the first is tried apart
        assert rule in laws_of(rule.needs)
        assert rule not in laws_of(0)
