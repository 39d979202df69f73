"""Which value each part of a result shows, for each row of the table."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from hloscope.cost.buffers import ALIAS_RULES
from hloscope.ops import OPS
from tests.cost.buffers.programs import buffer_with, memory_of, names, scheduled, values_of

ADD: Final = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
P: Final = "p = f32[8]{0} parameter(0)\n"


class Case(NamedTuple):
    """A program, the values that it has, and the opcode whose row it is about."""

    opcode: str
    body: str
    values: str
    before: str = ""


CASES: Final = (
    Case("bitcast", P + "n = f32[8]{0} negate(p)\nROOT b = f32[2,4]{1,0} bitcast(n)", "p n"),
    Case("optimization_barrier", P + "ROOT b = f32[8]{0} opt-barrier(p)", "p"),
    Case(
        "add-dependency",
        P + "t = token[] after-all()\nROOT b = f32[8]{0} add-dependency(p, t)",
        "p t",
    ),
    Case("domain", P + 'ROOT b = f32[8]{0} domain(p), domain={kind="sharding"}', "p"),
    Case(
        "get_tuple_element",
        "p = (f32[8]{0}, s32[]) parameter(0)\nROOT g = f32[8]{0} get-tuple-element(p), index=0",
        "p p{0} p{1}",
    ),
    Case(
        "tuple", P + "n = f32[8]{0} negate(p)\nROOT t = (f32[8]{0}, f32[8]{0}) tuple(p, n)", "p n t"
    ),
    Case("copy", P + "ROOT c = f32[8]{0} copy(p)", "p c"),
    Case(
        "copy",
        "p = (f32[8]{0}, s32[]) parameter(0)\nROOT c = (f32[8]{0}, s32[]) copy(p)",
        "p p{0} p{1} c",
    ),
    Case(
        "call",
        P + "ROOT c = f32[8]{0} call(p), to_apply=f",
        "p n",
        "f { a = f32[8]{0} parameter(0) ROOT n = f32[8]{0} negate(a) }",
    ),
    Case(
        "async_start",
        P
        + "s = ((f32[8]{0}), f32[8]{0}, u32[]) async-start(p), calls=f\n"
        + "ROOT d = f32[8]{0} async-done(s)",
        "p n s s{0} s{2}",
        "f { a = f32[8]{0} parameter(0) ROOT n = f32[8]{0} negate(a) }",
    ),
    Case(
        "async_start",
        P
        + "s = ((f32[8]{0}), f32[16]{0}) all-to-all-start(p), dimensions={0}\n"
        + "ROOT d = f32[16]{0} all-to-all-done(s)",
        "p s s{0} wrapped",
    ),
    Case(
        "async_start",
        P
        + "s = (f32[8]{0}, f32[16]{0}) all-gather-start(p), dimensions={0},"
        + " replica_groups={{0,1}}\n"
        + "ROOT d = f32[16]{0} all-gather-done(s)",
        "p s s{1}",
    ),
    Case(
        "async_start",
        P
        + "s = (f32[8]{0}, f32[8]{0}, u32[]) collective-permute-start(p),"
        + " source_target_pairs={{0,1}}\n"
        + "ROOT d = f32[8]{0} collective-permute-done(s)",
        "p s s{1} s{2}",
    ),
    Case(
        "async_done",
        P
        + "s = f32[8]{0} all-reduce-start(p), to_apply=add\n"
        + "ROOT d = f32[8]{0} all-reduce-done(s)",
        "p s",
        ADD,
    ),
    Case(
        "async_update",
        P
        + "s = ((f32[8]{0}), f32[8]{0}, u32[]) async-start(p), calls=f\n"
        + "u = ((f32[8]{0}), f32[8]{0}, u32[]) async-update(s)\n"
        + "ROOT d = f32[8]{0} async-done(u)",
        "p n s s{0} s{2} u u{0}",
        "f { a = f32[8]{0} parameter(0) ROOT n = f32[8]{0} negate(a) }",
    ),
    Case(
        "copy-start",
        P
        + "s = (f32[8]{0:S(1)}, f32[8]{0}, u32[]) copy-start(p)\n"
        + "ROOT d = f32[8]{0:S(1)} copy-done(s)",
        "p s s{0} s{2}",
    ),
    Case(
        "copy-done",
        P
        + "s = (f32[8]{0:S(1)}, f32[8]{0}, u32[]) copy-start(p)\n"
        + "ROOT d = f32[8]{0:S(1)} copy-done(s)",
        "p s s{0} s{2}",
    ),
    Case(
        "send",
        P
        + "t = token[] after-all()\n"
        + "s = (f32[8]{0}, u32[], token[]) send(p, t), channel_id=1\n"
        + "ROOT d = token[] send-done(s), channel_id=1",
        "p t s s{1} s{2} d",
    ),
    Case(
        "recv-done",
        "t = token[] after-all()\n"
        + "r = (f32[8]{0}, u32[], token[]) recv(t), channel_id=1\n"
        + "ROOT d = (f32[8]{0}, token[]) recv-done(r), channel_id=1",
        "t r r{0} r{1} r{2} d d{1}",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.opcode}-{k}" for k, case in enumerate(CASES)])
def test_values_are_written_by_those_that_do_not_show_others(case: Case) -> None:
    memory = memory_of(scheduled(case.body, before=case.before))
    found = {name.removeprefix("s ") for name in values_of(memory)}
    assert found == set(case.values.split())


def test_every_row_has_a_case() -> None:
    known = {OPS[case.opcode] for case in CASES}
    assert all(known & {*row.ops} for row in ALIAS_RULES), "a row of the table has no case"
    assert {op for row in ALIAS_RULES for op in row.ops} == known


LOOP: Final = """
cond {{ t = (s32[], f32[8]{{0}}, f32[8]{{0}}) parameter(0) i = s32[] get-tuple-element(t), index=0
n = s32[] constant(9) ROOT c = pred[] compare(i, n), direction=LT }}
body {{ u = (s32[], f32[8]{{0}}, f32[8]{{0}}) parameter(0) j = s32[] get-tuple-element(u), index=0
x = f32[8]{{0}} get-tuple-element(u), index=1 y = f32[8]{{0}} get-tuple-element(u), index=2
one = s32[] constant(1) k = s32[] add(j, one) {more}
ROOT r = (s32[], f32[8]{{0}}, f32[8]{{0}}) tuple(k, {root}) }}"""
ENTRY: Final = """p = f32[8]{{0}} parameter(0)
q = f32[8]{{0}} parameter(1)
z = s32[] constant(0)
t0 = (s32[], f32[8]{{0}}, f32[8]{{0}}) tuple(z, {operands})
ROOT w = (s32[], f32[8]{{0}}, f32[8]{{0}}) while(t0), condition=cond, body=body"""


def loop(root: str, more: str = "", operands: str = "p, q") -> str:
    return scheduled(ENTRY.format(operands=operands), before=LOOP.format(root=root, more=more))


def test_what_a_loop_carries_unchanged_is_what_it_began_with() -> None:
    found = values_of(memory_of(loop("x, v", "v = f32[8]{0} negate(y)")))
    assert {"w{0}", "w{2}", "t{2}", "u{2}"} <= found
    assert not {"w{1}", "t{1}", "u{1}"} & found


def test_a_loop_that_swaps_two_values_carries_both() -> None:
    found = values_of(memory_of(loop("y, x")))
    assert {"w{1}", "w{2}", "u{1}", "u{2}"} <= found


def test_a_loop_that_swaps_one_value_with_itself_carries_none() -> None:
    found = values_of(memory_of(loop("y, x", operands="p, p")))
    assert not {"w{1}", "w{2}", "u{1}", "u{2}"} & found


BRANCHES: Final = """
f {{ a = f32[8]{{0}} parameter(0) ROOT m = f32[8]{{0}} {first}(a) }}
g {{ b = f32[8]{{0}} parameter(0) ROOT n = f32[8]{{0}} {second}(b) }}"""
CHOICE: Final = """p = f32[8]{0} parameter(0)
s = s32[] parameter(1)
ROOT c = f32[8]{0} conditional(s, p, p), branch_computations={f, g}"""


def test_branches_that_return_different_values_make_a_new_one() -> None:
    before = BRANCHES.format(first="negate", second="sine")
    assert {"c", "m", "n"} <= values_of(memory_of(scheduled(CHOICE, before=before)))


def test_branches_that_return_one_value_make_none() -> None:
    before = BRANCHES.format(first="bitcast", second="bitcast")
    memory = memory_of(scheduled(CHOICE, before=before))
    assert values_of(memory) == {"p", "s"}
    assert names(buffer_with(memory, "p")) == {"p"}
