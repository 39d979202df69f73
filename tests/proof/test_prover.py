"""Proofs of answers: what is right is proved, every kind of wrong map is refuted, both ways."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import hloscope
from hloscope.affine import Dim, Interval, Range
from hloscope.api import Indexing
from hloscope.fusion import traversal
from hloscope.indexing import Access, IndexingMap, Precision, Variable
from hloscope.proof import Outcome, Prover
from hloscope.proof.reference import Question
from hloscope.simplifier.isl_relations import UndecidedError
from tests.large import diamonds

WINDOW = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
fused { p = f32[12,10] parameter(0) q = f32[10] parameter(1) zero = f32[] constant(0)
  t = f32[10,12] transpose(p), dimensions={1,0}
  b = f32[10,12] broadcast(q), dimensions={0}
  a = f32[10,12] add(t, b)
  s = f32[4,12] slice(a), slice={[1:9:2], [0:12]}
  r = f32[48] reshape(s)
  w = f32[3,16] reshape(r)
  ROOT sum = f32[3] reduce(w, zero), dimensions={1}, to_apply=add }
ENTRY e { p = f32[12,10] parameter(0) q = f32[10] parameter(1)
  ROOT f = f32[3] fusion(p, q), kind=kLoop, calls=fused }
"""
SLICE = """
fused { p = f32[8,6] parameter(0) i = s32[] parameter(1) two = s32[] constant(2)
  d = f32[3,6] dynamic-slice(p, i, two), dynamic_slice_sizes={3,6}
  ROOT t = f32[6,3] transpose(d), dimensions={1,0} }
ENTRY e { p = f32[8,6] parameter(0) i = s32[] parameter(1)
  ROOT f = f32[6,3] fusion(p, i), kind=kLoop, calls=fused }
"""
GATHER = """
fused { p = f32[30,4] parameter(0) i = s32[7,1] parameter(1)
  g = f32[7,4] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,4}
  ROOT t = f32[4,7] transpose(g), dimensions={1,0} }
ENTRY e { p = f32[30,4] parameter(0) i = s32[7,1] parameter(1)
  ROOT f = f32[4,7] fusion(p, i), kind=kLoop, calls=fused }
"""
FOLDED = """
fused { p = f32[20] parameter(0) k = s32[4] iota(), iota_dimension=0 c = s32[] constant(3)
  b = s32[4] broadcast(c), dimensions={} m = s32[4] multiply(k, b) i = s32[4,1] reshape(m)
  ROOT g = f32[4] gather(p, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1} }
ENTRY e { p = f32[20] parameter(0) ROOT f = f32[4] fusion(p), kind=kLoop, calls=fused }
"""
COLLECTIVES = """
fused { p = f32[4,6] parameter(0)
  a = f32[8,6] all-gather(p), replica_groups={{0,1}}, dimensions={0}
  ROOT b = f32[8,18] all-gather(a), replica_groups={{0,1,2}}, dimensions={1} }
ENTRY e { p = f32[4,6] parameter(0)
  ROOT f = f32[8,18] fusion(p), kind=kLoop, calls=fused }
"""
LOOP = """
body { x = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(x), index=0
  v = f32[4] get-tuple-element(x), index=1 r = f32[4] reverse(v), dimensions={0}
  ROOT t = (s32[], f32[4]) tuple(i, r) }
cond { x = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(x), index=0
  n = s32[] constant(4) ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { a = (s32[], f32[4]) parameter(0)
  ROOT w = (s32[], f32[4]) while(a), condition=cond, body=body }
"""
PROGRAMS = [WINDOW, SLICE, GATHER, FOLDED]


def root(text: str) -> hloscope.InstructionView:
    return hloscope.read(text).root


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize(
    ("text", "order"),
    [
        *[(t, o) for t in PROGRAMS for o in ("logical", "physical", "linear")],
        (COLLECTIVES, "logical"),
    ],
)
def test_answers_are_right(text: str, order: str) -> None:
    flags = {"physical": order == "physical", "linear": order == "linear"}
    checks = root(text).indexing(**flags).prove().checks
    assert {check.outcome for check in checks} <= {Outcome.PROVED, Outcome.SAMPLED}


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("text", PROGRAMS)
def test_answers_the_other_way_are_right(text: str) -> None:
    view = root(text)
    for operand in range(len(view.operands)):
        for check in view.indexing_from(operand).prove().checks:
            assert check.outcome in (Outcome.PROVED, Outcome.SAMPLED), str(check)


def test_a_proof_says_by_what_it_is_one() -> None:
    assert str(root(WINDOW).indexing().prove().checks[0]) == "isl; enumerated 3"
    assert root(SLICE).indexing().prove().checks[0].by == ("isl", "sampled 18, seed 0")
    by_samples = root(GATHER).indexing().prove(seed=3).checks[0]
    assert by_samples.outcome is Outcome.SAMPLED
    assert by_samples.by == ("sampled 28, seed 3",)
    assert "indices that run" in by_samples.reason


def test_known_values_are_computed_not_drawn() -> None:
    check = root(FOLDED).indexing().prove().checks[0]
    assert (check.outcome, check.by) == (Outcome.PROVED, ("enumerated 4",))


def changed(found: Indexing, new: tuple[Access, ...]) -> Indexing:
    """The answer with other maps for the first operand of the first output."""
    first = found.answer.outputs[0]
    others = [replace(first.operands[0], accesses=new), *first.operands[1:]]
    operands = first.operands.proved(others, None)
    outputs = [replace(first, operands=operands), *found.answer.outputs[1:]]
    return Indexing(replace(found.answer, outputs=outputs))


def wrong_maps(m: IndexingMap) -> dict[str, IndexingMap]:
    """Maps that are wrong in one respect each."""
    inner = m.dims[0].interval
    found = {
        "shifted": m.with_(results=[m.results[0] + 1, *m.results[1:]]),
        "narrow": m.with_(dims=[Variable(Interval(inner.lo, inner.hi - 1)), *m.dims[1:]]),
        "constrained": m.add_constraint(Dim(0) % 2, Interval.point(0)),
    }
    if len(m.results) > 1:
        found["swapped"] = m.with_(results=m.results[::-1])
    if m.ranges:
        last = m.ranges[-1].interval
        fewer = [*m.ranges[:-1], Variable(Interval(last.lo, last.hi - 1))]
        found["fewer"] = m.with_(ranges=fewer)
    return found


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize(
    ("text", "way"),
    [
        *[(text, way) for text in PROGRAMS for way in ("both", "points")],
        *[(text, "isl") for text in (WINDOW, SLICE)],  # no values are read at indices that run
    ],
)
def test_wrong_maps_are_refuted(text: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "both":

        def undecided(*_: object) -> None:
            raise UndecidedError("left out")

        left_out = "at_points" if way == "isl" else "by_isl"
        monkeypatch.setattr(f"hloscope.proof.reference.Question.{left_out}", undecided)
    found = root(text).indexing()
    right = found.operands[0].accesses[0]
    assert right.map is not None
    assert not changed(found, (right,)).prove().checks[0].is_refuted
    for name, m in wrong_maps(right.map).items():
        check = changed(found, (replace(right, map=m),)).prove().checks[0]
        assert check.is_refuted, name
        example = check.counter_example
        assert example is not None
        if not m.runtime:
            pairs = m.points(example.dims)
            assert (example.results in pairs) == (example.only_in == 0)
    assert changed(found, ()).prove().checks[0].is_refuted


def test_wrong_maps_the_other_way_are_refuted() -> None:
    found = root(WINDOW).indexing_from(0)
    right = found.operands[0].accesses[0]
    assert right.map is not None
    for name, m in wrong_maps(right.map).items():
        assert changed(found, (replace(right, map=m),)).prove().checks[0].is_refuted, name


def test_a_superset_may_be_larger_but_not_smaller() -> None:
    found = root(WINDOW).indexing()
    whole = IndexingMap.of_sizes((3,), (12, 10), [Range(0), Range(1)])
    over = Access(whole, Precision.OVER, "said so")
    check = changed(found, (over,)).prove().checks[0]
    assert (check.outcome, check.superset) == (Outcome.PROVED, True)
    assert "contained" in str(check)
    assert changed(found, (Access(whole),)).prove().checks[0].is_refuted
    smaller = replace(over, map=whole.bounded([3], [11, 10]))
    assert changed(found, (smaller,)).prove().checks[0].is_refuted


def test_what_is_unknown_claims_nothing() -> None:
    found = changed(root(WINDOW).indexing(), (Access.unknown("who knows"),)).prove()
    assert found.checks[0].outcome is Outcome.UNCLAIMED
    assert str(found.checks[0]) == "nothing is claimed"


def test_loops_are_undecided_with_the_reason() -> None:
    check = root(LOOP).indexing(1).prove().checks[0]
    assert check.outcome is Outcome.UNDECIDED
    assert "loop" in check.reason


def test_a_small_budget_leaves_isl_undecided() -> None:
    found = root(WINDOW).indexing().prove(prover=Prover(budget=10))
    assert found.checks[0].by == ("enumerated 3",)
    assert "10 steps" in found.checks[0].reason


def test_equal_questions_are_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    view = root(WINDOW)
    prover = Prover()
    first = view.indexing().prove(prover=prover).checks
    monkeypatch.setattr(Prover, "_reference", None)
    assert view.indexing().prove(prover=prover).checks == first


def test_equal_maps_of_different_constants_are_different_questions() -> None:
    text = """
    ENTRY e {{ p = f32[8] parameter(0) i = s32[] constant({i})
      ROOT d = f32[2] dynamic-slice(p, i), dynamic_slice_sizes={{2}} }}"""
    prover = Prover()
    right = root(text.format(i=3)).indexing()
    assert right.prove(prover=prover).checks[0].outcome is Outcome.PROVED
    other = root(text.format(i=4)).indexing()
    wrong = changed(other, right.operands[0].accesses)
    assert wrong.prove(prover=prover).checks[0].is_refuted


def test_a_wrong_composition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of maps whose every index is one too large."""
    real = traversal._composed

    def compose(*given: Any) -> IndexingMap:
        found = real(*given)
        return found.with_(results=[e + 1 for e in found.results])

    monkeypatch.setattr(traversal, "_composed", compose)
    found = root(WINDOW).indexing()
    monkeypatch.undo()
    assert found.prove().checks[0].is_refuted


@pytest.mark.slow
def test_no_answer_about_a_real_fusion_is_refuted(shared: Path, full: bool) -> None:
    files = sorted((shared / "real/models").glob("*.opt.hlo.txt"))
    small = [file for file in files if file.stat().st_size < 100_000]
    outcomes: Counter[Outcome] = Counter()
    for file in files if full else small[::12]:
        prover = Prover()
        for view in hloscope.read(file).fusions():
            answers = [view.indexing(None)]
            answers += [view.indexing_from(k) for k in range(len(view.operands)) if full]
            for answer in answers:
                for check in answer.prove(prover=prover).checks:
                    assert not check.is_refuted, f"{file.name}: {view.name}: {check}"
                    outcomes[check.outcome] += 1
    assert outcomes[Outcome.PROVED] >= 0.9 * outcomes.total() > 0


def test_long_chains_of_integer_arithmetic_are_one_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    at_points = Question.at_points

    def counted(self: Question, **options: bool) -> object:
        asked.append(self.place)
        return at_points(self, **options)

    monkeypatch.setattr(Question, "at_points", counted)
    prover = Prover()
    for view in hloscope.read(diamonds(100)):
        if view.ir.operands:
            (*checks,) = view.indexing().prove(prover=prover).checks
            assert {check.outcome for check in checks} == {Outcome.PROVED}
    assert len(asked) == 2
