"""Computations that call others thousands of levels deep, many times over, or themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

import hloscope as hs
from hloscope.api import InstructionView
from hloscope.fusion import Analysis
from hloscope.fusion.leaves import Sizes
from hloscope.fusion.structural_ids import EVERY, RECURSIVE, Results, computed_ahead, depth
from hloscope.ir.graph import Body, Computation, Instruction
from hloscope.ir.op import Op
from hloscope.ir.types import TokenType

DEEP = 1500
"""More than Python has frames."""
SCALAR = "c0 { p = s32[] parameter(0) ROOT r = s32[] negate(p) }\n"
LEVELS = {
    "call": "c{i} {{ p = s32[] parameter(0) ROOT r = s32[] call(p), to_apply=c{b} }}",
    "fusion": "c{i} {{ p = s32[] parameter(0) ROOT r = s32[] fusion(p), kind=kLoop, calls=c{b} }}",
    "conditional": "c{i} {{ p = s32[] parameter(0) k = pred[] constant(true)"
    " ROOT r = s32[] conditional(k, p, p), true_computation=c{b}, false_computation=c0 }}",
    "while": "k{i} {{ p = s32[] parameter(0) ROOT k = pred[] constant(false) }}\n"
    "c{i} {{ p = s32[] parameter(0) ROOT r = s32[] while(p), condition=k{i}, body=c{b} }}",
    "map": "c{i} {{ p = s32[] parameter(0) q = s32[3] broadcast(p), dimensions={{}}"
    " m = s32[3] map(q), dimensions={{0}}, to_apply=c{b} s = s32[1] slice(m), slice={{[0:1]}}"
    " ROOT r = s32[] reshape(s) }}",
    "twice": "c{i} {{ p = s32[] parameter(0) a = s32[] call(p), to_apply=c{b}"
    " b = s32[] call(p), to_apply=c{b} ROOT r = s32[] add(a, b) }}",
    "async": "c{i} {{ p = s32[] parameter(0)"
    " s = ((s32[]), s32[], u32[]) call-start(p), to_apply=c{b} ROOT r = s32[] call-done(s) }}",
}  # fmt: skip


def chain(level: str, depth: int) -> str:
    levels = "\n".join(LEVELS[level].format(i=i, b=i - 1) for i in range(1, depth))
    entry = f"ENTRY e {{ p = s32[] parameter(0) ROOT r = s32[] call(p), to_apply=c{depth - 1} }}\n"
    return f"HloModule m\n{SCALAR}{levels}\n{entry}"


QUESTIONS: dict[str, Callable[[InstructionView], object]] = {
    "reads": lambda view: view.indexing(),
    "reaches": lambda view: view.indexing_from(0),
    "parameters": lambda view: view.to_parameters(),
}


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("level", LEVELS)
def test_answers_need_no_frame_for_a_level(level: str, question: str) -> None:
    program = hs.read(chain(level, DEEP))
    before = sys.getrecursionlimit()
    answer = QUESTIONS[question](program.root)
    assert sys.getrecursionlimit() == before
    assert "anything" not in str(answer)


@pytest.mark.parametrize("level", LEVELS)
def test_deep_chains_say_what_short_ones_say(level: str) -> None:
    few, many = (hs.read(chain(level, depth)) for depth in (3, 3 * EVERY + 3))
    for question in QUESTIONS.values():
        assert str(question(many.root)) == str(question(few.root))


@pytest.mark.slow
def test_instructions_inside_deep_calls_are_listed() -> None:
    found = hs.read(chain("call", DEEP)).root.grouped()
    assert len([ins for ins in found if ins.opcode == "negate"]) == 1
    assert len(found) == 2 * (DEEP + 1)  # a call, or the negation, and a parameter at each level


RECURSION = """
func.func @main(%a: tensor<4xf32>, %b: tensor<i1>) -> tensor<4xf32> {
  %0 = func.call @other(%a, %b) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @other(%a: tensor<4xf32>, %b: tensor<i1>) -> tensor<4xf32> {
  %0 = "stablehlo.if"(%b) ({
    %1 = func.call @main(%a, %b) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("question", QUESTIONS)
def test_functions_that_call_themselves_are_unknown(question: str) -> None:
    assert RECURSIVE in str(QUESTIONS[question](hs.read(RECURSION)["0"]))
    program = hs.read(RECURSION)  # whatever was asked before
    for other in QUESTIONS.values():
        other(program["0"])
    assert RECURSIVE in str(QUESTIONS[question](program["0"]))


def computation(name: str, *callees: Computation) -> Computation:
    root = Instruction(name, TokenType(), Op(), (), callees)
    return Computation(name, Body((root,), (), root))


def test_every_so_many_levels_are_looked_at_ahead_inner_ones_first() -> None:
    levels = [computation("c0")]
    for i in range(1, 5 * EVERY):
        levels.append(computation(f"c{i}", levels[-1]))
    results = Results()
    assert depth(results, levels[-1]) == 5 * EVERY
    found = [depth(results, c) for c in computed_ahead(results, "reads", levels[-1])]
    assert found == [EVERY, 2 * EVERY, 3 * EVERY, 4 * EVERY]
    assert computed_ahead(results, "reads", levels[-1]) == []  # each once
    assert len(computed_ahead(results, "writes", levels[-1])) == 4
    assert computed_ahead(results, "reads", levels[EVERY - 1]) == []


def test_called_computations_are_listed_once_in_order() -> None:
    inner, other = computation("inner"), computation("other")
    assert inner.callees == ()
    assert computation("outer", other, inner, other).callees == (other, inner)


def test_what_a_structure_says_is_found_out_for_its_first_fusion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fused = "{ p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }"
    module = hs.read(
        f"HloModule m\nf {fused}\ng {fused}\n"
        "ENTRY e { p = f32[4] parameter(0) a = f32[4] fusion(p), kind=kLoop, calls=f\n"
        "ROOT b = f32[4] fusion(a), kind=kLoop, calls=g }"
    )
    first, second = (module[name].ir for name in ("a", "b"))
    analysis = Analysis()
    expected = analysis.output_to_input(first)
    monkeypatch.setattr(Sizes, "are_consistent", None)
    assert analysis.output_to_input(second) == expected


def test_a_chain_of_calls_is_walked_once_whatever_is_asked_first() -> None:
    levels = [computation("c0")]
    for i in range(1, 3 * EVERY):
        levels.append(computation(f"c{i}", levels[-1]))
    results = Results()
    assert len(computed_ahead(results, "reads", levels[-1])) == 2
    # None of them is walked through again.
    for computation_ in reversed(levels):
        assert computed_ahead(results, "reads", computation_) == []
