"""Values that functions compute are told apart by call when a program is run, too.

An analysis that takes the values of two calls of one function for one is refuted by execution.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hloscope
from hloscope.fusion import analysis
from hloscope.ir import Instruction, called_value
from hloscope.proof import Execution, Outcome
from hloscope.proof.check import Executed

TAKE = """take { x = f32[8] parameter(0) n = s32[] parameter(1) k = s32[] abs(n)
  z = f32[] constant(0) y = f32[12] pad(x, z), padding=0_4
  ROOT r = f32[8] dynamic-slice(y, k), dynamic_slice_sizes={8} }
"""
BOTH = """both { x = f32[8] parameter(0) n = s32[] parameter(1) m = s32[] parameter(2)
  a = f32[8] call(x, n), to_apply=take ROOT r = f32[8] call(a, m), to_apply=take }
"""
GIVEN = "p = f32[8] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)"
PAIR = """pair { s = (f32[8], s32[]) parameter(0) x = f32[8] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 ROOT r = f32[8] call(x, n), to_apply=take }
"""
BODY = """body { s = (f32[8], s32[], s32[]) parameter(0) x = f32[8] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1 j = s32[] get-tuple-element(s), index=2
  a = f32[8] call(x, i), to_apply=take b = f32[8] call(a, j), to_apply=take
  one = s32[] constant(1) h = s32[] add(i, one)
  ROOT t = (f32[8], s32[], s32[]) tuple(b, h, j) }
cond { s = (f32[8], s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=1
  three = s32[] constant(3) ROOT c = pred[] compare(i, three), direction=LT }
"""
HLO = {
    "two calls": f"""{TAKE}ENTRY e {{ {GIVEN} a = f32[8] call(p, i), to_apply=take
      ROOT b = f32[8] call(a, j), to_apply=take }}""",
    "side by side": f"""{TAKE}ENTRY e {{ {GIVEN} a = f32[8] call(p, i), to_apply=take
      b = f32[8] call(p, j), to_apply=take ROOT r = f32[8] subtract(a, b) }}""",
    "calls of calls": f"""{TAKE}{BOTH}ENTRY e {{ {GIVEN} a = f32[8] call(p, i, j), to_apply=both
      ROOT b = f32[8] call(a, j, i), to_apply=both }}""",
    "in a fusion": f"""{TAKE}{BOTH}fused {{ {GIVEN} ROOT b = f32[8] call(p, i, j), to_apply=both }}
      ENTRY e {{ {GIVEN} ROOT r = f32[8] fusion(p, i, j), kind=kLoop, calls=fused }}""",
    "branches": f"""{TAKE}{PAIR}ENTRY e {{ {GIVEN} c = pred[] parameter(3)
      s = (f32[8], s32[]) tuple(p, i) t = (f32[8], s32[]) tuple(p, j)
      ROOT r = f32[8] conditional(c, s, t), true_computation=pair, false_computation=pair }}""",
    "after branches": f"""{TAKE}{PAIR}ENTRY e {{ {GIVEN} c = pred[] parameter(3)
      s = (f32[8], s32[]) tuple(p, i) t = (f32[8], s32[]) tuple(p, j)
      a = f32[8] conditional(c, s, t), true_computation=pair, false_computation=pair
      ROOT r = f32[8] call(a, j), to_apply=take }}""",
    "a loop's body": f"""{TAKE}{BODY}ENTRY e {{ {GIVEN} t = (f32[8], s32[], s32[]) tuple(p, i, j)
      ROOT w = (f32[8], s32[], s32[]) while(t), condition=cond, body=body }}""",
}
CALL = "(tensor<8xf32>, tensor<i32>) -> tensor<8xf32>"
FUNCTION = """func.func private @take(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
  %k = stablehlo.abs %n : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.pad %x, %z, low = [0], high = [4], interior = [0]
    : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
  %r = stablehlo.dynamic_slice %y, %k, sizes = [8]
    : (tensor<12xf32>, tensor<i32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
"""
STABLEHLO = {
    "two calls": f"%a = func.call @take(%p, %i) : {CALL} %r = func.call @take(%a, %j) : {CALL}",
    "side by side": f"%a = func.call @take(%p, %i) : {CALL} %b = func.call @take(%p, %j) : {CALL}"
    " %r = stablehlo.subtract %a, %b : tensor<8xf32>",
    "composites": '%a = stablehlo.composite "x.take" %p, %i {decomposition = @take} : '
    f'{CALL} %r = stablehlo.composite "x.take" %a, %j {{decomposition = @take}} : {CALL}',
    "captured by branches": f"""%r = "stablehlo.if"(%c) ({{
      %a = func.call @take(%p, %i) : {CALL} %b = func.call @take(%a, %j) : {CALL}
      stablehlo.return %b : tensor<8xf32> }}, {{
      %a = func.call @take(%p, %j) : {CALL} %b = func.call @take(%a, %i) : {CALL}
      stablehlo.return %b : tensor<8xf32> }}) : (tensor<i1>) -> tensor<8xf32>""",
    "captured by a body": f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
      %a = "stablehlo.reduce_window"(%p, %z) ({{ ^bb0(%u: tensor<f32>, %v: tensor<f32>):
        %h = func.call @take(%q, %i) : {CALL} %g = func.call @take(%h, %j) : {CALL}
        %s = stablehlo.slice %g [2:3] : (tensor<8xf32>) -> tensor<1xf32>
        %t = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>
        %w = stablehlo.add %u, %v : tensor<f32> %y = stablehlo.multiply %w, %t : tensor<f32>
        stablehlo.return %y : tensor<f32> }}) {{window_dimensions = array<i64: 1>}}
        : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
      %r = func.call @take(%a, %i) : {CALL}""",
}
UNREFUTED = {("branches", "one_for_all"), ("after branches", "named")}
"""One call alone runs, whose value may go by the name of all; or the call of the name is not made
there, so that nothing is known of the value."""


def programs() -> dict[str, str]:
    head = "%p: tensor<8xf32>, %q: tensor<8xf32>, %i: tensor<i32>, %j: tensor<i32>, %c: tensor<i1>"
    found = {f"hlo: {name}": f"HloModule m\n{text}" for name, text in HLO.items()}
    for name, lines in STABLEHLO.items():
        found[f"stablehlo: {name}"] = (
            f"{FUNCTION}func.func @main({head}) -> tensor<8xf32> {{ {lines}\n"
            "return %r : tensor<8xf32> }"
        )
    return found


def asked(text: str) -> list[Executed]:
    """What execution shows of all instructions' operands, and of results by their parameters."""
    found = []
    for computation in hloscope.read(text).module:
        questions = [Execution(ins) for ins in computation if ins.calls]
        for execution in [*questions, Execution(computation.root, computation)]:
            if execution.evidence is None:
                continue
            for output, source, leaf in {*execution.evidence.claims}:
                found.append(execution.check(output, source, leaf))
                if execution.instance.computation is None:
                    found.append(execution.check(output, source, leaf, inverse=True))
    return found


def test_maps_to_parameters_are_proved_through_calls() -> None:
    """Parameters stand for the operands of each call, and its other values are its own."""
    for name in ("hlo: in a fusion", "hlo: branches", "stablehlo: captured by a body"):
        for check in hloscope.read(programs()[name]).root.to_parameters().prove().checks:
            assert check.outcome is Outcome.PROVED, (name, str(check))


def one_for_all(value: Instruction, call: Instruction, first: int = 0) -> Instruction:
    """The fault: a value goes by one name in whatever call."""
    return value


def first_of_all() -> Callable[[Instruction, Instruction, int], Instruction]:
    """Another: it goes by the name of the call that was seen first."""
    known: dict[Instruction, Instruction] = {}

    def named(value: Instruction, call: Instruction, first: int = 0) -> Instruction:
        return known.setdefault(value, called_value(value, call, first))

    return named


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", programs())
def test_values_of_each_call_are_seen(name: str) -> None:
    shown = asked(programs()[name])
    assert not [str(x.violation) for x in shown if x.violation]
    assert not [x.reason for x in shown if "not seen" in x.reason]
    assert any(x.seen for x in shown)


@pytest.mark.slow
@pytest.mark.parametrize("name", programs())
def test_maps_of_the_program_itself_are_held_to_its_own_calls(name: str) -> None:
    """The names of its calls are not those of the instance, which is made anew."""
    program = hloscope.read(programs()[name])
    for view in program:
        answers = [view.indexing(), view.to_parameters()] if view.ir.operands else []
        answers += [view.indexing_from(k) for k in range(len(view.operands))]
        for answer in answers:
            for check in answer.prove(by_execution=True).checks:
                assert not check.is_refuted, check
                assert check.executed is None or "not seen" not in check.executed.reason


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", programs())
def test_values_that_are_taken_for_one_are_refuted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = name.partition(": ")[2]
    for fault in (one_for_all, first_of_all()):
        if (kind, fault.__name__) in UNREFUTED:
            continue
        with monkeypatch.context() as patched:
            patched.setattr(analysis, "called_value", fault)
            assert any(x.violation for x in asked(programs()[name])), fault


def test_a_call_through_which_a_call_leads_is_told_apart_at_both() -> None:
    """The value in `take`, called by `both`, which is called twice, is one of four."""
    entry = hloscope.read(f"HloModule m\n{HLO['calls of calls']}").module.entry
    evidence = Execution(entry.root, entry).evidence
    assert evidence is not None
    (accesses,) = [a for (_, k, _), a in evidence.claims.items() if k == 0]
    origins = {v.origin for a in accesses if a.map is not None for v in a.map.runtime}
    assert len(origins) == 4
    for base in [run.base for run in evidence.runs]:
        given = [min(abs(int(np.asarray(v))), 4) for v in base.values[1:]]
        found = [min(int(base.seen[0].of(origin)), 4) for origin in origins if origin is not None]
        assert sorted(found) == sorted(given * 2)
