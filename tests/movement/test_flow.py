"""Values through fusions, calls and tuples: what a question finds is what the whole module says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import hloscope
from hloscope.ir import Instruction, Module
from hloscope.movement import Flow, chain_to
from hloscope.ops import Parameter, Tuple

SEEN = """HloModule m
twice { a = f32[4,8] parameter(0) b = f32[4,8] parameter(1)
  t = f32[8,4] transpose(a), dimensions={1,0}
  n = f32[4,8] negate(b) ROOT r = (f32[8,4], f32[4,8]) tuple(t, n) }
alone { ROOT a = f32[4,8] parameter(0) }
same { ROOT a = f32[4,8] parameter(0) }
shared { a = f32[8,4] parameter(0) ROOT n = f32[8,4] negate(a) }
one { a = f32[4,8] parameter(0) ROOT n = f32[4,8] negate(a) }
body { s = (s32[], f32[4,8]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[4,8] get-tuple-element(s), index=1 ROOT r = (s32[], f32[4,8]) tuple(i, x) }
cond { s = (s32[], f32[4,8]) parameter(0) ROOT c = pred[] constant(false) }
plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  p = f32[4,8] parameter(0)
  q = f32[4,8] call(p), to_apply=alone, metadata={op_name="to_apply=nothing"}
  f = (f32[8,4], f32[4,8]) fusion(q, p), kind=kLoop, calls=twice
  g = f32[8,4] get-tuple-element(f), index=0
  h = f32[4,8] get-tuple-element(f), index=1
  k = f32[8,4] fusion(g), kind=kLoop, calls=shared
  l = f32[8,4] call(g), to_apply=shared
  z = s32[] constant(0)
  b = f32[4,8] conditional(z, p, p), branch_computations={one, %same}
  t = (s32[], f32[4,8]) tuple(z, h)
  u = f32[4,8] get-tuple-element(t), index=1
  w = (s32[], f32[4,8]) while(t), condition=cond, body=body
  o = f32[] constant(0)
  m = f32[4] reduce(u, o), dimensions={1}, to_apply=%plus
  ROOT r = (f32[8,4], f32[8,4], f32[4]) tuple(k, l, m)
}"""


def read(value: Instruction, flow: Flow) -> Iterator[Instruction]:
    """The values that an instruction reads, by their own names; of tuples the parts."""
    for operand in value.operands:
        source = flow.source(operand)
        yield source
        if isinstance(source.op, Tuple):
            yield from map(flow.source, source.operands)


def test_users_are_those_that_read_a_value_by_any_name() -> None:
    flow = Flow(hloscope.read(SEEN).module)
    every = [ins for computation in flow.computations() for ins in computation]
    names = {i.name: i for i in every}
    users = {name: {u.name for u in flow.users(flow.source(i))} for name, i in names.items()}
    assert users["p"] == {"t", "n", "b"}
    assert flow.source(names["q"]) is names["p"]
    assert users["g"] == users["t"] or {"k", "l"} <= users["g"]
    assert {"m", "w"} <= users["h"]
    for value in every:
        if flow.source(value) is value and not isinstance(value.op, Tuple):
            for user in flow.users(value):
                assert value in read(user, flow), (value, user)
    assert not flow.is_returned(names["p"])
    assert all(flow.is_returned(flow.source(names[name])) for name in "klm")


@pytest.mark.parametrize(
    "change",
    [
        ("", ""),
        ("calls=twice", "calls = %twice"),
        ("{one, %same}", "{ one , /*index=1*/ %same }"),
        ("calls=twice", "calls=/*why*/twice"),
        ("calls=twice", "calls/*why*/=twice"),
        ('"to_apply=nothing"', '"body=same, calls=plus"'),
    ],
    ids=str,
)
def test_who_calls_a_computation_is_found_in_the_text(change: tuple[str, str]) -> None:
    module = hloscope.read(SEEN.replace(*change)).module
    found = {k.name: {c.name for c in some} for k, some in module.possible_callers().items()}
    for computation in module:
        for callee in computation.callees:
            assert computation.name in found[callee.name]
    assert Module.possible_callers(module).keys() <= module.possible_callers().keys()


def test_a_question_about_one_value_reads_what_is_around_it_only() -> None:
    count = 40
    bodies = "".join(
        f"f{k} {{ a = f32[4,8] parameter(0) t = f32[8,4] transpose(a), dimensions={{1,0}} "
        f"n = f32[8,4] negate(t) ROOT r = f32[4,8] transpose(n), dimensions={{1,0}} }}\n"
        for k in range(count)
    )
    calls = " ".join(
        f"s{k} = f32[4,8] sort(c{k}), dimensions={{0}}, to_apply=less "
        f"c{k + 1} = f32[4,8] fusion(s{k}), kind=kLoop, calls=f{k}"
        for k in range(count)
    )
    less = "less { a = f32[] parameter(0) b = f32[] parameter(1) "
    less += "ROOT c = pred[] compare(a, b), direction=LT }\n"
    text = f"HloModule m\n{less}{bodies}ENTRY e {{ c0 = f32[4,8] parameter(0) {calls} "
    program = hloscope.read(text + f"ROOT r = f32[4,8] negate(c{count}) }}")
    chain = program["c20"].cancellation().chain
    assert [step.name for step in chain.steps] == ["t", "n", "r"]
    assert sum(computation.is_read for computation in program.module) < 8
    flow = Flow(program.module)
    assert (
        chain_to(flow, next(i for i in program.module.entry if isinstance(i.op, Parameter))) is None
    )
