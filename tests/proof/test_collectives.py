"""Collectives by execution: every process of a grid is changed, and every one is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import hloscope
from hloscope.affine import Const
from hloscope.indexing import Accesses, IndexingMap
from hloscope.ir.graph import Computation, Instruction
from hloscope.proof import Execution, execution, write_evidence
from hloscope.proof.devices import GridError, counts_of
from hloscope.proof.instance import instance_of
from tests.fusion.replicas import Maker
from tests.proof.stablehlo_chains import StableChain

BATCH = 4
MORE = 25
"""So many times as many chains with --full."""


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked here is asked to its end, however busy the machine is."""
    monkeypatch.setattr(execution, "SECONDS", 60.0)


def holds(ins: Instruction, computation: Computation | None, both: bool = False) -> int:
    """How many pairs are seen of the first operand or parameter; all maps have to stand."""
    execution = Execution(ins, computation, seed=1)
    assert not execution.reason
    operands = ins.operands if computation is None else computation.parameters
    seen = 0
    for operand in range(len(operands)):
        for inverse in (False, True) if both else (False,):
            found = execution.check(0, operand, 0, inverse=inverse)
            assert not found.reason
            assert found.violation is None, str(found.violation)
            seen += found.seen if operand == 0 else 0
    return seen


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("first", range(0, 48, BATCH))
def test_no_chain_is_refuted(first: int, full: bool) -> None:
    step = MORE if full else 1
    seen = 0
    for seed in range(first * step, (first + BATCH) * step):
        program = hloscope.read(Maker(seed).make().text)
        seen += holds(program.root.ir, program.module.entry)
    assert seen > BATCH


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 48, BATCH))
def test_no_chain_of_stablehlo_is_refuted(first: int, full: bool) -> None:
    step = MORE if full else 1
    seen = 0
    for seed in range(first * step, (first + BATCH) * step):
        program = hloscope.read(StableChain(seed).text)
        seen += holds(program.root.ir.operands[0], program.module.entry)
    assert seen > BATCH


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fusion", "call", "async"])
def test_chains_inside_of_an_instruction_stand_in_both_directions(kind: str) -> None:
    seen = 0
    for seed in range(10):
        chain = Maker(seed).make()
        result = chain.lines[-1].split()[2]
        inside = chain.text.replace("ENTRY e {", "whole {")
        types = f"u64[{chain.size}], s32[]"
        text = {
            "fusion": f"ROOT r = {result} fusion(p, i), kind=kLoop, calls=whole",
            "call": f"ROOT r = {result} call(p, i), to_apply=whole",
            "async": f"""s = (({types}), {result}, u32[]) async-start(p, i), calls=whole
              ROOT r = {result} async-done(s), calls=whole""",
        }[kind]
        outside = f"""ENTRY e {{ p = u64[{chain.size}] parameter(0) i = s32[] parameter(1)
          {text} }}"""
        program = hloscope.read(f"{inside}\n{outside}")
        is_async = kind == "async"
        computation = program.module.entry if is_async else None
        seen += holds(program.root.ir, computation, both=not is_async)
    assert seen


def reads(body: str) -> tuple[Instruction, Accesses]:
    """The root of a program, and what it reads of its first operand."""
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
    program = hloscope.read(f"HloModule m\n{add}\nENTRY e {{ {body} }}")
    return program.root.ir, program.root.indexing().answer.outputs[0].operands[0].accesses


COLLECTIVES = {
    "all-reduce": """p = f32[4] parameter(0) ROOT r = f32[4] all-reduce(p), to_apply=add,
      replica_groups={{0,2},{1,3}}""",
    "all-gather": """p = f32[4] parameter(0) ROOT r = f32[8] all-gather(p), dimensions={0},
      replica_groups={{2,0},{3,1}}""",
    "reduce-scatter": """p = f32[4] parameter(0) ROOT r = f32[2] reduce-scatter(p), to_apply=add,
      dimensions={0}, replica_groups={{0,1},{2,3}}""",
    "all-to-all": """p = f32[4,3] parameter(0) ROOT r = f32[4,3] all-to-all(p), dimensions={0},
      replica_groups={{0,1,3,2}}""",
    "collective-permute": """p = f32[4] parameter(0) ROOT r = f32[4] collective-permute(p),
      source_target_pairs={{0,1},{1,2},{2,0}}""",
    "a channel that is none": """p = f32[4] parameter(0) ROOT r = f32[4] collective-permute(p),
      channel_id=-7, source_target_pairs={{0,1},{2,3}}""",
    "collective-broadcast": """p = f32[4] parameter(0)
      ROOT r = f32[4] collective-broadcast(p), replica_groups={{1,0},{2,3}}""",
    "global devices": """p = f32[4] parameter(0) ROOT r = f32[16] all-gather(p), dimensions={0},
      replica_groups={}, channel_id=1, use_global_device_ids=true""",
    "replicas of all partitions": """p = f32[4] parameter(0) ROOT r = f32[4] all-reduce(p),
      to_apply=add, channel_id=1, replica_groups={{0},{1}}""",
}


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_wrong_members_are_refuted(name: str, tmp_path: Path) -> None:
    ins, accesses = reads(COLLECTIVES[name])
    execution = Execution(ins)
    right = execution.check(0, 0, 0, accesses)
    assert right.violation is None
    assert right.seen == right.pairs > 0
    alone = tuple([replace(a, replica=None, via=()) for a in accesses])
    assert execution.check(0, 0, 0, alone).violation is not None
    found = execution.check(0, 0, 0, tuple([_first_member(a.replica, a) for a in accesses]))
    if name == "collective-broadcast":  # the first one is right
        assert found.violation is None
        found = execution.check(0, 0, 0, alone)
    violation = found.violation
    assert violation is not None
    assert "on device" in str(violation)
    program, *files = write_evidence(violation, tmp_path, "wrong")
    devices = violation.instance.devices
    assert len(files) == 2 * devices.count
    here = violation.devices[1]
    values = []
    for some in (files[: devices.count], files[devices.count :]):
        given = [[*np.load(file).values()] for file in some]
        results = hloscope.evaluate_grid(
            program, *given, replicas=devices.replicas, partitions=devices.partitions
        )
        values.append(str(np.asarray(results[here])[violation.output]))
    assert values[0] != values[1]


def _first_member(replica: IndexingMap | None, access: hloscope.Access) -> hloscope.Access:
    """The access as if it were of the first member of each group."""
    assert replica is not None
    return replace(access, replica=replica.with_(results=[Const(0) for _ in replica.results]))


def test_each_process_reads_its_own_index() -> None:
    text = """HloModule m
      f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
      ENTRY e { p = f32[9] parameter(0) i = s32[] parameter(1)
        a = f32[2] dynamic-slice(p, i), dynamic_slice_sizes={2}
        ROOT r = f32[2] all-reduce(a), to_apply=f, replica_groups={{0,1},{2,3}} }"""
    program = hloscope.read(text)
    found = Execution(program.root.ir, program.module.entry).check(0, 0, 0)
    assert found.violation is None
    assert found.seen == found.pairs == 4 * 2 * 2


@pytest.mark.parametrize(
    ("body", "grid"),
    [
        (COLLECTIVES["all-reduce"], (4, 1)),
        (COLLECTIVES["global devices"], (1, 4)),
        (COLLECTIVES["replicas of all partitions"], (2, 2)),
        ("ROOT r = u32[] replica-id()", (2, 1)),
        ("p = f32[2] parameter(0) ROOT r = f32[8] all-gather(p), dimensions={0}", (4, 1)),
        ("p = f32[2] parameter(0) ROOT r = f32[2] negate(p)", (1, 1)),
    ],
)
def test_grids_are_as_small_as_groups_allow(body: str, grid: tuple[int, int]) -> None:
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
    root = hloscope.read(f"HloModule m\n{add}\nENTRY e {{ {body} }}").root.ir
    assert counts_of([root]) == grid


def test_groups_of_no_grid_are_told() -> None:
    text = """ENTRY e { p = f32[2] parameter(0)
      ROOT a = f32[2] collective-broadcast(p), replica_groups={{0,4096}} }"""
    with pytest.raises(GridError, match="4097 devices"):
        counts_of([hloscope.read(f"HloModule m\n{text}").root.ir])


def listed(rows: Iterable[Iterable[int]]) -> str:
    return "{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + "}"


RING = listed((k, (k + 1) % 256) for k in range(256))
PAIRS = listed((2 * k + 1, 2 * k) for k in range(256))
EVEN_AND_ODD = listed((range(0, 64, 2), range(1, 64, 2)))
MANY = {  # a program, the devices it is run on, and the elements that one of the result reads
    "one group of all": (
        """p = f32[4] parameter(0) ROOT r = f32[1024] all-gather(p), dimensions={0},
        replica_groups={}, channel_id=1, use_global_device_ids=true""",
        2,
        1,
    ),
    "pairs of neighbours, turned": (
        f"""p = f32[3] parameter(0) ROOT r = f32[6] all-gather(p), dimensions={{0}},
        replica_groups={PAIRS}""",
        4,
        1,
    ),
    "rows and columns of a mesh": (
        """p = f32[2] parameter(0) a = f32[32] all-gather(p), dimensions={0},
        replica_groups=[16,16]<=[256], channel_id=1, use_global_device_ids=true
        ROOT r = f32[2] reduce-scatter(a), to_apply=add, dimensions={0},
        replica_groups=[16,16]<=[16,16]T(1,0), channel_id=2, use_global_device_ids=true""",
        4,
        2,
    ),
    "a reshape by the size of a group": (
        """p = f32[2,8] parameter(0) a = f32[128,8] all-gather(p), dimensions={0},
        replica_groups=[8,64]<=[512], channel_id=1, use_global_device_ids=true
        b = f32[64,2,8] reshape(a) ROOT r = f32[2,64,8] transpose(b), dimensions={1,0,2}""",
        4,
        1,
    ),
    "split and exchanged": (
        """p = f32[128,3] parameter(0) ROOT r = f32[128,3] all-to-all(p), dimensions={0},
        replica_groups=[1,64]<=[64]""",
        2,
        1,
    ),
    "a ring": (
        f"""p = f32[2] parameter(0) a = f32[2] collective-permute(p), source_target_pairs={RING}
        ROOT r = f32[2] negate(a)""",
        4,
        1,
    ),
    "begun and ended": (
        f"""p = f32[5] parameter(0)
        s = (f32[5], f32[160]) all-gather-start(p), dimensions={{0}}, replica_groups={EVEN_AND_ODD}
        ROOT r = f32[160] all-gather-done(s)""",
        4,
        1,
    ),
    "two far apart": (
        "p = f32[4] parameter(0) ROOT r = f32[4] all-reduce(p), to_apply=add,"
        " replica_groups={{0,99}}",
        2,
        2,
    ),
    "its own number": (
        """p = f32[64] parameter(0) i = u32[] partition-id()
        a = f32[1] dynamic-slice(p, i), dynamic_slice_sizes={1}
        ROOT r = f32[1] all-reduce(a), to_apply=add, channel_id=1,
        replica_groups=[1,64]<=[64], use_global_device_ids=true""",
        2,
        2,
    ),
}


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("name", MANY)
def test_programs_for_many_devices_are_run_on_few(name: str) -> None:
    body, devices, read = MANY[name]
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
    program = hloscope.read(f"HloModule m\n{add}\nENTRY e {{ {body} }}")
    instance = instance_of(program.root.ir, program.module.entry)
    assert instance.devices.count == devices
    assert f"on {devices} of " in instance.shapes
    assert not hloscope.verify(hloscope.print_hlo(instance.module))
    found = Execution(program.root.ir, program.module.entry)
    right = found.check(0, 0, 0)
    assert not right.reason
    assert right.violation is None
    assert found.evidence is not None
    assert right.seen == right.pairs == found.evidence.elements.rows * read


def test_operands_for_each_member_stay() -> None:
    types = ", ".join(["f32[2]"] * 40)
    names = ", ".join(["p"] * 40)
    text = f"""HloModule m
      ENTRY e {{ p = f32[2] parameter(0)
        ROOT r = ({types}) all-to-all({names}), replica_groups=[1,40]<=[40] }}"""
    root = hloscope.read(text).root.ir
    assert "40 devices, and not on fewer" in Execution(root).reason


GROUPS = "replica_groups={{0,1},{2,3}}, to_apply=add"
LOOPS = {  # what the body makes of `i`, and what the condition asks
    "the body exchanges what decides": (f"s32[] all-reduce(i), {GROUPS}", "s32[] copy(i)"),
    "the condition exchanges what it reads": (
        "s32[] add(i, one)",
        f"s32[] all-reduce(i), {GROUPS}",
    ),
    "both do": (f"s32[] all-reduce(i), {GROUPS}", f"s32[] all-reduce(i), {GROUPS}"),
    "nobody does": ("s32[] add(i, one)", "s32[] copy(i)"),
}


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", LOOPS)
def test_what_decides_how_often_a_loop_runs_may_be_on_another_device(name: str) -> None:
    body, asked = LOOPS[name]
    parts = """i = s32[] get-tuple-element(x), index=0 v = f32[3] get-tuple-element(x), index=1
      one = s32[] constant(1)"""
    text = f"""HloModule m
      add {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }}
      body {{ x = (s32[], f32[3]) parameter(0) {parts} j = {body} w = f32[3] negate(v)
        n = s32[] maximum(j, one) ROOT t = (s32[], f32[3]) tuple(n, w) }}
      cond {{ x = (s32[], f32[3]) parameter(0) {parts} k = {asked} seven = s32[] constant(7)
        ROOT c = pred[] compare(k, seven), direction=LT }}
      ENTRY e {{ p = (s32[], f32[3]) parameter(0)
        ROOT r = (s32[], f32[3]) while(p), condition=cond, body=body }}"""
    execution = Execution(hloscope.read(text).root.ir)
    seen = 0
    for output in (0, 1):
        for leaf in (0, 1):
            for inverse in (False, True):
                found = execution.check(output, 0, leaf, inverse=inverse)
                assert not found.reason
                assert found.violation is None, str(found.violation)
                seen += found.seen
    assert seen > 4
