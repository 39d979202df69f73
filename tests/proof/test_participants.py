"""Who takes part in collectives: what `equal` says of two programs, against runs on grids."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import hloscope
from hloscope.api import comparisons, verdict_of
from hloscope.errors import HloscopeError
from hloscope.interpreter import World, run_grid
from hloscope.ir import Computation
from hloscope.ops import AllToAll, AsyncStart, Collective, CollectiveBroadcast, CollectivePermute
from hloscope.simplifier import Verdict
from hloscope.support.walks import reached

GRIDS = [(r, p) for r, p in product(range(1, 5), repeat=2) if r * p <= 8]
SUM = "s { a = s64[] parameter(0) b = s64[] parameter(1) ROOT c = s64[] add(a, b) }\n"
FORMS = {
    "all-gather": "s64[{n}] all-gather(s64[2] {p}), dimensions={{0}}, ",
    "all-reduce": "s64[2] all-reduce(s64[2] {p}), to_apply=s, ",
    "reduce-scatter": "s64[2] reduce-scatter(s64[{n}] {p}), dimensions={{0}}, to_apply=s, ",
    "all-to-all": "s64[{n}] all-to-all(s64[{n}] {p}), dimensions={{0}}, ",
    "collective-broadcast": "s64[2] collective-broadcast(s64[2] {p}), ",
    "collective-permute": "s64[2] collective-permute(s64[2] {p}), ",
}
STARTS = {
    "all-gather": ("(s64[2], s64[{n}])", "s64[{n}]"),
    "all-reduce": ("s64[2]", "s64[2]"),
    "collective-permute": ("(s64[2], s64[2], u32[], u32[])", "s64[2]"),
}


def wrapped(kind: str, way: str, settings: str, size: int) -> str:
    """A program of one collective: plain, asynchronous, called or in a loop."""
    n = 2 * size
    form = FORMS[kind].format(n=n, p="p") + settings
    operand = f"s64[{n}]" if kind in ("reduce-scatter", "all-to-all") else "s64[2]"
    result = form.partition(" ")[0]
    entry = f"ENTRY e {{ p = {operand} parameter(0)\n  "
    if way == "start" and kind in STARTS:
        types = [text.format(n=n) for text in STARTS[kind]]
        rest = form.partition(f"{kind}(")[2]
        return (
            f"{SUM}{entry}a = {types[0]} {kind}-start({rest}\n"
            f"  ROOT r = {types[1]} {kind}-done(a) }}"
        )
    if way == "call":
        inner = f"f {{ p = {operand} parameter(0)\n  ROOT r = {form} }}\n"
        return f"{SUM}{inner}{entry}ROOT r = {result} call(p), to_apply=f }}"
    if way == "async":
        inner = f"f {{ p = {operand} parameter(0)\n  ROOT r = {form} }}\n"
        return (
            f"{SUM}{inner}{entry}"
            f"a = (({operand}), {result}, s32[]) async-start(p), calls=f\n"
            f"  ROOT r = {result} async-done(a) }}"
        )
    if way == "loop" and result == operand:
        tuple_type = f"({operand}, s32[])"
        inner = (
            f"body {{ t = {tuple_type} parameter(0)\n"
            "  p = " + operand + " get-tuple-element(t), index=0\n"
            "  i = s32[] get-tuple-element(t), index=1\n  o = s32[] constant(1)\n"
            f"  j = s32[] add(i, o)\n  r = {form}\n"
            f"  ROOT u = {tuple_type} tuple(r, j) }}\n"
            f"cond {{ t = {tuple_type} parameter(0)\n"
            "  i = s32[] get-tuple-element(t), index=1\n  o = s32[] constant(1)\n"
            "  ROOT c = pred[] compare(i, o), direction=LT }\n"
        )
        return (
            f"{SUM}{inner}{entry}z = s32[] constant(0)\n  t = {tuple_type} tuple(p, z)\n"
            f"  w = {tuple_type} while(t), condition=cond, body=body\n"
            f"  ROOT r = {result} get-tuple-element(w), index=0 }}"
        )
    return f"{SUM}{entry}ROOT r = {form} }}"


def groups(draw: random.Random, count: int, size: int) -> str:
    """Groups of `size` of the numbers below `count`, in one of their notations."""
    if size == count and draw.random() < 0.25:
        return "replica_groups={}"
    if draw.random() < 0.2:
        return f"replica_groups=[{count // size},{size}]<=[{count}]"
    if draw.random() < 0.2:
        return f"replica_groups=[{count // size},{size}]<=[{size},{count // size}]T(1,0)"
    numbers = list(range(count))
    if draw.random() < 0.7:
        draw.shuffle(numbers)
    rows = [numbers[k : k + size] for k in range(0, count, size)]
    if draw.random() < 0.3:
        draw.shuffle(rows)
    return "replica_groups={" + ",".join(f"{{{','.join(map(str, r))}}}" for r in rows) + "}"


def settings(draw: random.Random, kind: str, grid: tuple[int, int], size: int) -> str | None:
    """How a collective of groups of `size` may be written for a grid."""
    replicas, partitions = grid
    if kind == "collective-permute":
        by_channel = draw.random() < 0.5
        count = grid[by_channel]
        targets = draw.sample(range(count), count)
        pairs = [f"{{{k},{t}}}" for k, t in enumerate(targets) if draw.random() < 0.8]
        if not pairs:
            return None
        channel = f", channel_id={draw.randint(1, 2)}" if by_channel else ""
        return f"source_target_pairs={{{','.join(pairs)}}}{channel}"
    modes = ["replica", "device", "channel"]
    draw.shuffle(modes)
    for mode in modes:
        channel = f", channel_id={draw.randint(1, 2)}"
        if mode == "replica" and replicas % size == 0:
            return groups(draw, replicas, size)
        has_ids = kind not in ("all-to-all", "collective-broadcast")
        if mode == "device" and has_ids and replicas * partitions % size == 0:
            ids = ", use_global_device_ids=true"
            return groups(draw, replicas * partitions, size) + channel + ids
        if mode == "channel":
            if not has_ids and partitions % size == 0:
                return groups(draw, partitions, size) + channel
            if has_ids and size % partitions == 0 and replicas % (size // partitions) == 0:
                return groups(draw, replicas, size // partitions) + channel
    return None


def pairs(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Pairs of programs of the same kind and types."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        grid = draw.choice(GRIDS)
        kind = draw.choice([*FORMS])
        size = draw.choice([n for n in (1, 2, 3, 4) if grid[0] * grid[1] % n == 0])
        ways = draw.choice(["plain", "plain", "start", "call", "async", "loop"])
        found = [settings(draw, kind, grid, size) for _ in range(2)]
        if found[0] is None or found[1] is None:
            continue
        header = "HloModule m\n"
        if draw.random() < 0.3:
            header = f"HloModule m, replica_count={grid[0]}, num_partitions={grid[1]}\n"
        other = ways if draw.random() < 0.8 else "plain"
        made += 1
        yield (
            header + wrapped(kind, ways, found[0] or "", size),
            header + wrapped(kind, other, found[1] or "", size),
        )


def results(entry: Computation, grid: tuple[int, int]) -> list[list[int]] | None:
    """What each device returns; each element of each device is a power of two of its own.

    `None` if the program does not run on the grid.
    """
    (type_,) = entry.arguments
    (size,) = type_.shape
    count = grid[0] * grid[1]
    if size * count > 62:
        return None
    given = [[np.int64(1) << (np.arange(size, dtype=np.int64) + k * size)] for k in range(count)]
    rows = [[entry] * grid[1]] * grid[0]
    try:
        return [np.asarray(own[0]).tolist() for own in run_grid(rows, given, World())]
    except HloscopeError:
        return None


def is_legal(entry: Computation, grid: tuple[int, int]) -> bool:
    """Do groups name processes of the grid only?  Source: StableHLO spec, `all_reduce` (C3)."""
    replicas, partitions = grid
    for ins in (i for c in reached([entry], lambda c: c.callees) for i in c):
        op = ins.op.wrapped if isinstance(ins.op, AsyncStart) else ins.op
        if not isinstance(op, Collective) or isinstance(op, CollectivePermute):
            continue
        between = isinstance(op, AllToAll | CollectiveBroadcast)
        count = replicas if not op.has_channel or not between else partitions
        if op.use_global_device_ids:
            count = replicas * partitions
        if any(n >= count for row in op.replica_groups.rows for n in row):
            return False
    return True


def disagreement(first: str, second: str) -> tuple[Verdict, str]:
    """The verdict on two programs, and what of it execution contradicts, else empty."""
    a, b = hloscope.read(first), hloscope.read(second)
    verdict = verdict_of(list(comparisons(a, b)))
    seen = []
    for grid in GRIDS:
        if (
            "replica_count" in first
            and f"replica_count={grid[0]}, num_partitions={grid[1]}\n" not in first
        ):
            continue
        if not all(is_legal(x.entry.ir, grid) for x in (a, b)):
            continue
        one, other = (results(x.entry.ir, grid) for x in (a, b))
        if one is not None and other is not None:
            seen.append((grid, one == other))
    wrong = [str(grid) for grid, is_same in seen if not is_same]
    if verdict is Verdict.PROVED and wrong:
        return verdict, f"equal, but other values on {wrong}"
    may_be_more = "collective-broadcast" in first  # devices in no group have zeros
    if verdict is Verdict.REFUTED and seen and not wrong and not may_be_more:
        return verdict, f"different, but the same values on {[str(g) for g, _ in seen]}"
    return verdict, ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_collectives_are_equal_only_where_execution_agrees(seed: int) -> None:
    verdicts = set()
    for first, second in pairs(seed, 40):
        verdict, wrong = disagreement(first, second)
        assert not wrong, f"{wrong}\n{first}\n{second}"
        verdicts.add(verdict)
    assert {Verdict.PROVED, Verdict.REFUTED} <= verdicts
