"""The maps that XLA's emitters printed: read, printed, simplified no worse and proved equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from hloscope.affine import Expr, FloorDiv, Interval, Mod, Var, evaluate_array, postorder
from hloscope.indexing import IndexingMap
from hloscope.indexing.proofs import prove_equal
from hloscope.simplifier import Domain, simplify
from tests.conftest import needs_shared
from tests.indexing.test_map_corpus import emitter_maps, squeeze

pytestmark = needs_shared

Columns = dict[Var, NDArray[np.int64]]


@cache
def emitted() -> tuple[tuple[str, IndexingMap], ...]:
    return tuple((text, IndexingMap.parse(text)) for text in emitter_maps())


def points(box: dict[Var, Interval]) -> Columns:
    """Every point of a box."""
    sizes = [i.hi - i.lo + 1 for i in box.values()]
    columns = np.indices(sizes, dtype=np.int64).reshape(len(sizes), prod(sizes))
    return {v: column + i.lo for (v, i), column in zip(box.items(), columns, strict=True)}


def divisions(exprs: Sequence[Expr]) -> int:
    """How often a quotient or remainder is written in these expressions."""
    return sum(str(e).count("/") + str(e).count(" mod ") for e in exprs)


def inside(m: IndexingMap, at: Columns, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which of the points are in the domain of a map."""
    holds = np.ones(shape, dtype=bool)
    conditions: Iterator[tuple[Expr, Interval]] = iter((*m.box.items(), *m.constraints))
    for e, interval in conditions:
        value = np.broadcast_to(evaluate_array(e, at), shape)
        holds &= (interval.lo <= value) & (value <= interval.hi)
    return holds


PRINTED = 422
"""Different maps that XLA's emitters print in its own tests: what the corpus was gathered as."""


def test_there_are_as_many_as_the_emitters_printed() -> None:
    assert len(emitted()) == PRINTED


def test_each_is_printed_as_it_was_read() -> None:
    assert [text for text, m in emitted() if squeeze(str(m)) != squeeze(text)] == []


@pytest.mark.slow
def test_each_simplifies_to_the_same_values_at_every_point_of_its_box() -> None:
    checked = 0
    wrong = []
    for text, m in emitted():
        at = points(m.box)
        shape = next(iter(at.values())).shape if at else (1,)
        simple = m.simplify(replace_points=False)
        holds = inside(m, at, shape)
        same = list(m.box) == list(simple.box) and (holds == inside(simple, at, shape)).all()
        for before, after in zip(m.results, simple.results, strict=True):
            alone = simplify(before, Domain(m.box, m.constraints))
            values = np.broadcast_to(evaluate_array(before, at), shape)[holds]
            same &= bool((values == np.broadcast_to(evaluate_array(after, at), shape)[holds]).all())
            same &= bool((values == np.broadcast_to(evaluate_array(alone, at), shape)[holds]).all())
        if not same:
            wrong.append(text)
        checked += shape[0]
    print(f"{checked} points")
    assert not wrong
    assert checked > 100_000


def test_each_simplified_map_is_proved_equal_by_isl() -> None:
    verdicts: Counter[str] = Counter()
    for text, m in emitted():
        proof = prove_equal([m], [m.simplify()])
        verdicts[str(proof.verdict)] += 1
        assert proof.is_proved, f"{text}: {proof}"
    assert verdicts["proved"] == 422


def test_none_is_left_with_more_quotients_and_remainders_than_xla_printed() -> None:
    printed = left = 0
    worse = []
    for text, m in emitted():
        simple = m.simplify()
        before = [*m.results, *(e for e, _ in m.constraints)]
        after = [*simple.results, *(e for e, _ in simple.constraints)]
        alone = [simplify(e, Domain(m.box, m.constraints)) for e in m.results]
        printed, left = printed + divisions(before), left + divisions(after)
        if divisions(after) > divisions(before) or divisions(alone) > divisions(m.results):
            worse.append(text)
        assert simple.simplify() == simple
    print(f"{printed} quotients and remainders printed by XLA, {left} left")
    assert not worse
    assert left <= printed


def test_a_wrong_map_is_not_taken_for_equal() -> None:
    """One result moved by one: neither the points nor isl let it pass."""
    text, m = next((t, m) for t, m in emitted() if any(map(has_division, m.results)))
    wrong = m.with_(results=[m.results[0] + 1, *m.results[1:]])
    at = points(m.box)
    assert (evaluate_array(m.results[0], at) != evaluate_array(wrong.results[0], at)).any()
    assert prove_equal([m], [wrong]).is_refuted, text


def has_division(e: Expr) -> bool:
    return any(isinstance(x, FloorDiv | Mod) for x in postorder(e))
