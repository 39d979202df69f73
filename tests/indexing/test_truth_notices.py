"""The truth tests fail on wrong maps: every kind of small mistake is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from hloscope.affine import Interval, Range
from hloscope.indexing import IndexingMap
from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.analysis import output_to_input
from hloscope.ir.graph import Instruction
from tests.indexing.test_truth import FAMILIES
from tests.indexing.truth import relation
from tests.indexing.truth.generator import CASES, Gen
from tests.indexing.truth.marks import Case

assert FAMILIES
Mutation = Callable[[IndexingMap], IndexingMap | None]


def no_constraints(m: IndexingMap) -> IndexingMap | None:
    return m.with_(constraints=()) if m.constraints else None


def shorter_range(m: IndexingMap) -> IndexingMap | None:
    for k, v in enumerate(m.ranges):
        if v.interval.hi > v.interval.lo:
            shorter = replace(v, interval=Interval(v.interval.lo, v.interval.hi - 1))
            return m.with_(ranges=[*m.ranges[:k], shorter, *m.ranges[k + 1 :]])
    return None


def shifted(m: IndexingMap) -> IndexingMap | None:
    return m.with_(results=[m.results[0] + 1, *m.results[1:]]) if m.results else None


def swapped_results(m: IndexingMap) -> IndexingMap | None:
    if len(m.results) < 2:
        return None
    return m.with_(results=[m.results[1], m.results[0], *m.results[2:]])


MUTATIONS: dict[str, tuple[Mutation, str]] = {
    "a range that ends too early": (shorter_range, "reduce"),
    "a shifted index": (shifted, "slice"),
    "swapped indices": (swapped_results, "transpose"),
    "a dropped condition": (no_constraints, "pad"),
    "a dropped condition at run time": (no_constraints, "dynamic_update_slice"),
    "a window that is too short": (shorter_range, "convolution"),
    "a window without its bounds": (no_constraints, "reduce_window"),
    "a shifted gather": (shifted, "gather"),
    "a scatter without its conditions": (no_constraints, "scatter"),
}


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize("kind", MUTATIONS)
def test_wrong_map_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, name = MUTATIONS[kind]
    honest = output_to_input
    changed = 0

    def lying(ins: Instruction, output: int = 0, **_: object) -> tuple[Accesses, ...]:
        nonlocal changed
        answer = honest(ins, output)
        wrong = tuple(tuple(_lie(a, mutate) for a in accesses) for accesses in answer)
        changed += wrong != answer
        return wrong

    monkeypatch.setattr(relation, "output_to_input", lying)
    noticed = 0
    for seed in range(60):
        noticed += _is_refused(CASES[name](Gen(seed)))
    assert changed >= 10
    assert noticed >= changed // 10  # tiny shapes, updates that do not fit: often no difference


def _lie(access: Access, mutate: Mutation) -> Access:
    wrong = mutate(access.map) if access.map is not None else None
    return access if wrong is None else replace(access, map=wrong)


def _is_refused(case: Case) -> bool:
    try:
        relation.check_output_to_input(case)
    except relation.MismatchError:
        return True
    return False


def test_claim_that_is_too_weak_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A superset is accepted only where it is called one."""
    some = (CASES["slice"](Gen(seed)) for seed in range(100))
    case = next(c for c in some if c.outputs[0].size and not c.relation(0, 0).all())
    wide = IndexingMap.of_sizes(
        case.outputs[0].shape,
        case.operands[0].marks.shape,
        [Range(k) for k in range(case.operands[0].marks.ndim)],
    )
    for precision, refused in ((Precision.EXACT, True), (Precision.OVER, False)):
        answer = ((Access(wide, precision, "everything"),),)
        monkeypatch.setattr(relation, "output_to_input", lambda ins, o, answer=answer, **_: answer)
        assert _is_refused(case) is refused
    monkeypatch.setattr(relation, "output_to_input", lambda ins, o, **_: ((),))
    assert _is_refused(case)
