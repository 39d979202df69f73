"""Programs that are not valid: execution says why nothing is shown, and never raises."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.errors import HloscopeError
from hloscope.proof import Execution
from tests.mutations import mutations

ASYNC = """HloModule m
done {{ a = f32[4] parameter(0) ROOT b = f32[4] reverse(a), dimensions={{0}} }}
ENTRY e {{ p = f32[4] parameter(0)
  s = {0} async-start(p), calls=done
  u = {1} async-update(s)
  ROOT d = {2} async-done(u) }}"""
STATES = (
    "((f32[4]), f32[4], s32[])",
    "((f32[4]), f32[4])",
    "((f32[4]), (), s32[])",
    "((), f32[4], s32[])",
    "((f32[4]), (f32[4], f32[4]), u32[])",
    "((f32[4], f32[4]), f32[4], s32[])",
    "((f32[2,2]), f32[2,2])",
)
ENDS = ("f32[4]", "f32[2,2]", "(f32[4], f32[4])", "()")
WRONG = {
    "call": """f { a = f32[] parameter(0) ROOT b = f32[] copy(a) }
      ENTRY e { p = f32[4] parameter(0) ROOT c = f32[] call(p), to_apply=f }""",
    "dot": """ENTRY e { p = s8[8,8] parameter(0) q = s16[8,8] parameter(1)
      ROOT r = s32[8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
    "custom": """ENTRY e { p = f32[4] parameter(0)
      ROOT c = f32[2,2] custom-call(p), custom_call_target="Sharding" }""",
    "while": """b { x = f32[5] parameter(0) ROOT r = f32[6] copy(x) }
      c { x = f32[7] parameter(0) ROOT r = pred[] constant(false) }
      ENTRY e { p = f32[5] parameter(0) ROOT w = f32[5] while(p), condition=c, body=b }""",
    "get": """ENTRY e { p = (f32[4], f32[2]) parameter(0)
      ROOT r = f32[4] get-tuple-element(p), index=1 }""",
    "slice": "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[9] slice(p), slice={[0:4]} }",
    "broadcast": """ENTRY e { p = f32[4] parameter(0)
      ROOT r = f32[4,4] broadcast(p), dimensions={0,1} }""",
    "transpose": """ENTRY e { p = f32[4,5] parameter(0)
      ROOT r = f32[4,5] transpose(p), dimensions={1,0} }""",
}


def ask_all(text: str) -> int:
    """Put all questions about every instruction to its execution; how many were answered."""
    program = hloscope.read(text)
    answered = 0
    for view in program:
        execution = Execution(view.ir)
        for output in range(len(view.outputs)):
            for operand, value in enumerate(view.operands):
                for leaf in range(len(program.analysis.leaves(value.ir.type))):
                    for inverse in (False, True):
                        found = execution.check(output, operand, leaf, inverse=inverse)
                        answered += not found.reason
    return answered


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("state", STATES)
def test_async_programs_of_any_types_are_answered(state: str, end: str) -> None:
    for other in (state, STATES[0]):
        ask_all(ASYNC.format(state, other, end))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_programs_are_answered(name: str) -> None:
    assert hloscope.verify(WRONG[name]) or name == "custom"
    ask_all(WRONG[name])


def test_right_programs_are_executed() -> None:
    text = ASYNC.format("((f32[4]), f32[4], s32[])", "((f32[4]), f32[4], s32[])", "f32[4]")
    assert not hloscope.verify(text)
    assert ask_all(WRONG["slice"].replace("f32[9]", "f32[4]")) == 2


OWN = [*WRONG.values(), ASYNC.format(STATES[0], STATES[0], ENDS[0])]


@pytest.mark.slow
def test_mutated_programs_are_answered(full: bool) -> None:
    answered = 0
    for _, text in mutations(OWN, 3000 if full else 60):
        try:
            answered += ask_all(text)
        except HloscopeError:
            continue
    assert answered
