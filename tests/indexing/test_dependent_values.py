"""Claims that are refuted only by values the program never has together are undecided."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.indexing import IndexingMap, prove_equal, prove_implies
from hloscope.indexing.rules.dependence import Dependence, History, fold
from hloscope.indexing.variables import are_related
from hloscope.ir import Op, called_value
from hloscope.ops import Sort, While
from hloscope.simplifier import Verdict
from hloscope.stablehlo import parse_stablehlo

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


LOOP = """func.func @main(%i: tensor<i32>, %k: tensor<i32>, %t: tensor<9xi32>) -> tensor<i32> {
  %w:2 = stablehlo.while(%a = %i, %b = %k) : tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.return %b, %a : tensor<i32>, tensor<i32>
    }
  %s = "stablehlo.sort"(%t) ({ ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %l = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<9xi32>) -> tensor<9xi32>
  return %w#0 : tensor<i32> }"""


@pytest.mark.parametrize(
    ("call", "parameter", "given"),
    [(While, 0, "ik"), (While, 1, "ik"), (Sort, 0, "t"), (Sort, 1, "t")],
)
def test_a_parameter_may_be_what_any_turn_of_a_loop_or_any_comparison_hands_on(
    call: type[Op], parameter: int, given: str
) -> None:
    """In a loop that swaps two values, each may be either."""
    entry = parse_stablehlo(LOOP).entry
    (caller,) = [ins for ins in entry if isinstance(ins.op, call)]
    value = called_value(caller.calls[-1].parameters[parameter], caller)
    assert [p.name for p in entry.parameters if are_related(value, p)] == list(given)


def test_a_body_that_takes_too_much_may_use_everything() -> None:
    """Two parameters are an accumulator and an element; nobody knows what a third is."""
    reads = (frozenset({2}),)
    strange = Dependence(reads, reads, reads, (-1,))
    assert fold(strange, 1, 2, 2) == fold(Dependence.of_everything(1, 2), 1, 2, 2)


def test_what_goes_round_in_a_circle_is_not_steady() -> None:
    one, other = frozenset({0}), frozenset({1})
    assert History((one,), (one,)).is_steady
    assert History((other, other), (one,)).is_steady
    assert not History((other, one), (one,)).is_steady
