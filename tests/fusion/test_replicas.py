"""Collectives, alone and one behind another: which element on which device is read."""

from __future__ import annotations

import numpy as np
import pytest

import hloscope as hs
from hloscope.affine import Interval, bounds
from hloscope.fusion.analysis import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Access, Precision
from hloscope.indexing.access import needed_steps
from hloscope.indexing.rules.collectives import MAX_RUNS
from tests.fusion.replicas import UNION, Grid, Maker, looped, wrong

COUNT = 60
BATCH = 10


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_chains_read_what_runs_on_a_grid_read(first: int, full: bool) -> None:
    step = 20 if full else 1
    for seed in range(first * step, (first + BATCH) * step):
        chain = Maker(seed).make()
        assert not (difference := wrong(chain)), f"seed {seed}: {difference}\n{chain.text}"


@pytest.mark.slow
def test_iterations_of_a_loop_read_no_more_than_the_maps_say(full: bool) -> None:
    unknown = 0
    for seed in range(200 if full else 20):
        chain = looped(seed)
        assert not (difference := wrong(chain, exact=False)), f"{difference}\n{chain.text}"
        (flow,) = Analysis().summary(hs.read(chain.text).module.entry, 0)
        unknown += any(access.map is None for access in flow.accesses or ())
    assert unknown <= (seed + 1) // 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 20, 5))
def test_no_right_answer_about_a_chain_is_refuted(first: int, full: bool) -> None:
    step = 20 if full else 1
    proved = 0
    for seed in range(first * step, (first + 5) * step):
        chain = Maker(seed).make()
        result = chain.lines[-1].split()[2]
        inside = chain.text.replace("ENTRY e {", "whole {")
        outside = f"""ENTRY e {{ p = u64[{chain.size}] parameter(0) i = s32[] parameter(1)
          ROOT r = {result} fusion(p, i), kind=kLoop, calls=whole }}"""
        root = hs.read(f"{inside}\n{outside}").root
        answers = root.indexing(), root.indexing_from(0), hs.read(chain.text).root.to_parameters()
        for answer in answers:
            checks = answer.prove().checks
            assert not any(check.is_refuted for check in checks), chain.text
            proved += any("isl" in check.by for check in checks)
    assert proved


def entry(*lines: str, size: int = 4) -> tuple[Analysis, hs.Computation]:
    body = "\n".join([f"p = u64[{size}] parameter(0)", *lines])
    return Analysis(), parse_hlo(f"HloModule m\n{UNION}ENTRY e {{ {body} }}").entry


def reads(*lines: str, size: int = 4) -> list[str]:
    """What the root reads of the parameter, each map with the positions and collectives."""
    analysis, computation = entry(*lines, size=size)
    (flow,) = analysis.summary(computation, 0)
    return [text(access) for access in flow.accesses or ()]


def text(access: Access) -> str:
    assert access.map is not None
    assert access.precision is Precision.EXACT
    assert access.replica is not None
    where = str(access.replica).partition(" -> ")[2].partition(", domain")[0]
    bounds = [
        f"rt{i} in [{v.interval.lo}, {v.interval.hi}]" for i, v in enumerate(access.map.runtime)
    ]
    names = " ".join(ins.name for ins in access.via)
    return " ".join([str(access.map).partition(", domain")[0], "on", where, names, *bounds])


A, B = "{{0,1},{2,3}}", "{{0,2},{1,3}}"


@pytest.mark.parametrize("kind", ["linear", "physical"])
def test_answers_about_places_in_memory_are_proved_too(kind: str) -> None:
    text = f"""{UNION}ENTRY e {{ p = u64[4,2]{{0,1}} parameter(0)
      q = u64[4,2]{{0,1}} all-reduce(p), replica_groups={A}, to_apply=f
      ROOT r = u64[8,2]{{0,1}} all-gather(q), replica_groups={B}, dimensions={{0}} }}"""
    root = hs.read(text).root
    settings = {kind: True}
    for answer in (root.to_parameters(**settings), root.indexing_from(0, **settings)):
        (check,) = answer.prove().checks
        assert check.by[0] == "isl"
        assert check.by[1].startswith(("enumerated", "sampled"))


def test_an_all_reduce_reads_every_member() -> None:
    line = f"ROOT r = u64[4] all-reduce(p), replica_groups={A}, to_apply=f"
    assert reads(line) == ["(d0)[s0] -> (d0) on (s0) r"]


def test_each_collective_on_the_way_has_a_position_the_nearest_to_the_output_first() -> None:
    found = reads(
        f"q = u64[4] all-reduce(p), replica_groups={A}, to_apply=f",
        f"ROOT r = u64[8] all-gather(q), replica_groups={B}, dimensions={{0}}",
    )
    assert found == ["(d0)[s0] -> (d0 mod 4) on (d0 / 4, s0) r q"]


def test_within_the_same_groups_the_position_is_known() -> None:
    found = reads(
        f"q = u64[2] reduce-scatter(p), replica_groups={A}, dimensions={{0}}, to_apply=f",
        f"ROOT r = u64[4] all-gather(q), replica_groups={A}, dimensions={{0}}",
    )
    assert found == ["(d0)[s0] -> (d0) on (d0 / 2, s0) r q"]


def test_who_receives_nothing_reads_nothing() -> None:
    line = "ROOT r = u64[4] collective-permute(p), source_target_pairs="
    assert reads(line + "{{0,1}}") == ["(d0){rt0} -> (d0) on (0) r rt0 in [1, 1]"]
    assert reads(line + "{{0,1},{1,2},{2,0}}") == [
        "(d0){rt0} -> (d0) on (2) r rt0 in [0, 0]",
        "(d0){rt0} -> (d0) on (rt0 - 1) r rt0 in [1, 2]",
    ]
    analysis, computation = entry(line + "{}")
    assert analysis.summary(computation, 0) == ()
    analysis, computation = entry(
        "q = u64[4] collective-permute(p), source_target_pairs={{0,1}}",
        "ROOT r = u64[4] collective-permute(q), source_target_pairs={{0,1}}",
    )
    assert analysis.summary(computation, 0) == ()


def test_of_very_many_pairs_any_sender_between_the_first_and_the_last_is_read() -> None:
    count, first = 2 * MAX_RUNS + 9, 3
    pairs = ",".join(f"{{{7 * k % count + first},{k}}}" for k in range(count))
    line = f"ROOT r = u64[4] collective-permute(p), source_target_pairs={{{pairs}}}"
    analysis, computation = entry(line)
    ((access,),) = [f.accesses for f in analysis.summary(computation, 0) if f.accesses]
    assert (access.precision, access.replica is None) == (Precision.OVER, False)
    (sender,) = access.replica.results if access.replica else ()
    assert access.replica
    assert bounds(sender, access.replica.box) == Interval(first, first + count - 1)


@pytest.mark.parametrize(
    ("groups", "is_read"), [("{{0,1},{2},{3}}", True), ("{{0,1},{2,3}}", False)]
)
def test_who_is_alone_in_a_group_keeps_what_a_body_would_not_look_at(
    groups: str, is_read: bool
) -> None:
    module = parse_hlo(f"""HloModule m, replica_count=4
        one {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] constant(1) }}
        ENTRY e {{ p = f32[4] parameter(0)
          ROOT r = f32[4] all-reduce(p), replica_groups={groups}, to_apply=one }}""")
    assert bool(Analysis().output_to_input(module.entry.root)) is is_read


def test_what_is_read_at_run_time_is_read_on_the_device_that_needs_it() -> None:
    analysis, computation = entry(
        "i = s32[] parameter(1)",
        "x = u64[4] dynamic-slice(p, i), dynamic_slice_sizes={4}",
        f"y = u64[8] all-gather(x), replica_groups={A}, dimensions={{0}}",
        "ROOT r = u64[4] dynamic-slice(y, i), dynamic_slice_sizes={4}",
        size=8,
    )
    (access,) = analysis.summary(computation, 0)[0].accesses or ()
    assert access.map is not None
    there, here = sorted(access.map.runtime, key=lambda v: -len(v.via))
    assert there.origin is here.origin is computation["i"]
    assert (there.via, here.via) == ((computation["y"],), ())


@pytest.mark.parametrize("groups", [[A], [A, B], ["{{0,1,2,3}}"]])
def test_of_many_collectives_those_count_that_decide_about_the_device(groups: list[str]) -> None:
    steps = [f"v{k} = u64[4] all-reduce(v{k - 1})" for k in range(1, 65)]
    lines = [
        f"{step}, replica_groups={groups[k % len(groups)]}, to_apply=f"
        for k, step in enumerate(steps)
    ]
    body = "\n".join(["v0 = u64[4] copy(p)", *lines[:-1], f"ROOT {lines[-1]}"])
    root = hs.read(f"{UNION}ENTRY e {{ p = u64[4] parameter(0)\n{body} }}").root
    (flow,) = Analysis().summary(root.program.module.entry, 0)
    (access,) = flow.accesses or ()
    assert len(needed_steps(access.via)) == len(groups)
    (check,) = root.to_parameters().prove().checks
    assert check.by[0] == "isl"
    assert check.by[1].startswith("enumerated")


@pytest.mark.parametrize("seed", range(40))
def test_steps_left_out_make_no_difference_to_where_steps_lead(seed: int) -> None:
    """Whatever the positions of the others are, the devices reached are the same."""
    rng = np.random.default_rng(seed)
    count = int(rng.choice([4, 6, 8]))
    lines = []
    for k in range(int(rng.integers(2, 6))):
        size = int(rng.choice([n for n in range(2, count + 1) if count % n == 0]))
        order = np.arange(count).reshape(-1, size)
        order = order.T.reshape(-1, size) if rng.random() < 0.5 else order
        rows = [row.tolist() for row in (rng.permutation(order) if rng.random() < 0.3 else order)]
        text = ",".join(f"{{{','.join(map(str, row))}}}" for row in rows)
        lines.append(f"v{k} = u64[4] all-reduce(p), replica_groups={{{text}}}, to_apply=f")
    _, computation = entry(*lines, "ROOT r = u64[4] copy(p)")
    steps = tuple(computation[f"v{k}"] for k in range(len(lines)))
    grid, kept = Grid(count, 1), needed_steps(steps)
    sizes = [int((grid.tables(step)[0][0] >= 0).sum()) for step in steps]
    columns = np.indices(sizes).reshape(len(sizes), -1)
    for device in range(count):
        every = grid.reached(device, steps, columns)
        some = grid.reached(device, [steps[k] for k in kept], [columns[k] for k in kept])
        assert (every == some).all()
