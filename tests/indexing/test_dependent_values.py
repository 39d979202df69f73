"""Claims that are refuted only by values the program never has together are undecided."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.indexing import IndexingMap, prove_equal, prove_implies
from hloscope.simplifier import Verdict

PROGRAM = """HloModule m
from_next { x = f32[6] parameter(0) k = s32[] parameter(1) one = s32[] constant(1)
  j = s32[] add(k, one) ROOT d = f32[2] dynamic-slice(x, j), dynamic_slice_sizes={2} }
ENTRY e { t = f32[6] parameter(0) k = s32[] parameter(1) l = s32[] parameter(2)
  i = s32[4] parameter(3) m = f32[4,4] parameter(4) p = (s32[], (s32[], s32[])) parameter(5)
  a = f32[2] dynamic-slice(t, k), dynamic_slice_sizes={2}
  b = f32[2] dynamic-slice(t, l), dynamic_slice_sizes={2}
  copied = s32[] copy(k)
  c = f32[2] dynamic-slice(t, copied), dynamic_slice_sizes={2}
  negated = s32[] negate(l) again = s32[] negate(l)
  n = f32[2] dynamic-slice(t, negated), dynamic_slice_sizes={2}
  o = f32[2] dynamic-slice(t, again), dynamic_slice_sizes={2}
  one = f32[2] call(t, k), to_apply=from_next
  two = f32[2] call(t, k), to_apply=from_next
  other = f32[2] call(t, l), to_apply=from_next
  first = s32[] get-tuple-element(p), index=0
  pair = (s32[], s32[]) get-tuple-element(p), index=1
  second = s32[] get-tuple-element(pair), index=1
  same = (s32[], s32[]) get-tuple-element(p), index=1
  third = s32[] get-tuple-element(same), index=1
  q = f32[2] dynamic-slice(t, first), dynamic_slice_sizes={2}
  r = f32[2] dynamic-slice(t, second), dynamic_slice_sizes={2}
  s = f32[2] dynamic-slice(t, third), dynamic_slice_sizes={2}
  g = f32[4,4] gather(m, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,4}
  back = s32[4] reverse(i), dimensions={0}
  h = f32[4,4] gather(m, back), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,4}
  turned = f32[4,4] reverse(h), dimensions={0}
  w = f32[4] slice(t), slice={[0:4]}
  ROOT root = () tuple() }
"""


@pytest.fixture(scope="module")
def known() -> dict[str, list[IndexingMap]]:
    program = hs.read(PROGRAM)
    names = "a b c n o one two other q r s g turned".split()
    read = {name: program[name].to_parameters().maps for name in names}
    return {name: [m for some in read[name] for m in some if m.runtime] for name in names}


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "c"), ("n", "o"), ("b", "n"), ("one", "two"), ("a", "one"), ("g", "turned"), ("r", "s")],
)
def test_values_computed_from_the_same_ones_refute_nothing(
    known: dict[str, list[IndexingMap]], one: str, other: str
) -> None:
    for proof in (prove_equal(known[one], known[other]), prove_implies(known[one], known[other])):
        assert proof.verdict in (Verdict.UNDECIDED, Verdict.PROVED), proof
        assert proof.is_proved or "not independent" in proof.reason or (one, other) == ("r", "s")


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "b"), ("a", "n"), ("q", "r"), ("q", "a"), ("one", "other"), ("other", "a")],
)
def test_independent_values_refute(
    known: dict[str, list[IndexingMap]], one: str, other: str
) -> None:
    proof = prove_equal(known[one], known[other])
    assert proof.is_refuted
    assert len(proof.counter_example.tables) == 2 if proof.counter_example else False


def test_the_same_value_is_still_the_same(known: dict[str, list[IndexingMap]]) -> None:
    assert prove_equal(known["a"], known["a"]).is_proved
