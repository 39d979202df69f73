"""Random chains of collectives on small grids: what execution says they read, and what maps say.

Elements are sets of bits, one for each element on each device, and reductions are unions, so that
one run of the interpreter tells for every element on every device which elements of which device
it depends on.  Maps are evaluated on every device, step by step through the groups as the
interpreter has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hloscope as hs
from hloscope.affine import Dim, Range, Runtime, Var, evaluate_array, variables
from hloscope.fusion.analysis import Analysis
from hloscope.indexing import Access, IndexingMap, Precision
from hloscope.interpreter.ops.collectives import groups_of
from hloscope.interpreter.values import World
from hloscope.ir.graph import Instruction
from hloscope.ops.collectives import CollectivePermute
from hloscope.ops.control import AsyncStart, Parameter

Ints = NDArray[np.int64]
UNION = "f { a = u64[] parameter(0) b = u64[] parameter(1) ROOT x = u64[] or(a, b) }\n"


@dataclass
class Chain:
    """A program on a grid.

    Attributes:
        replicas: Number of replicas, and `partitions` of partitions of each.
        size: Elements of the parameter on one device.
        starts: For each device, the value of the second parameter.
    """

    replicas: int
    partitions: int
    size: int
    starts: list[int]
    lines: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    length: int = 0

    @property
    def devices(self) -> int:
        return self.replicas * self.partitions

    @property
    def text(self) -> str:
        *before, last = self.lines
        body = "\n  ".join([*before, f"ROOT {last}"])
        start = f"p = u64[{self.size}] parameter(0)\n  i = s32[] parameter(1)"
        return f"HloModule m\n{UNION}{''.join(self.outside)}ENTRY e {{\n  {start}\n  {body}\n}}"

    def bits(self) -> NDArray[np.uint64]:
        """`[device, element]`: what each element of each device is."""
        count = self.devices * self.size
        numbers = np.uint64(1) << np.arange(count, dtype=np.uint64)
        return numbers.reshape(self.devices, self.size)

    def executed(self) -> NDArray[np.bool_]:
        """`[device, element, device of the parameter, element of it]`: which is read."""
        pairs = zip(self.bits(), self.starts, strict=True)
        found = hs.evaluate_grid(
            self.text,
            *[[bits, np.int32(start)] for bits, start in pairs],
            replicas=self.replicas,
            partitions=self.partitions,
        )
        results = np.stack([np.asarray(x).reshape(-1) for x in found])
        count = self.devices * self.size
        spread = results[..., None] >> np.arange(count, dtype=np.uint64) & np.uint64(1)
        return spread.astype(bool).reshape(self.devices, -1, self.devices, self.size)


class Maker:
    """Writes one random chain."""

    def __init__(self, seed: int, most: int = 8) -> None:
        self.rng = np.random.default_rng(seed)
        grids = [(2, 1), (4, 1), (3, 1), (1, 4), (2, 2), (2, 3), (6, 1), (1, 6), (8, 1), (4, 2)]
        grids = [grid for grid in grids if grid[0] * grid[1] <= most]
        replicas, partitions = grids[self.rng.integers(len(grids))]
        size = int(self.pick([2, 4, 6, 8]))
        size = min(size, 64 // (replicas * partitions))
        starts = [int(n) for n in self.rng.integers(0, 4, replicas * partitions)]
        self.chain = Chain(replicas, partitions, size, starts)
        self.size, self.value, self.channel = size, "p", 0

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def make(self) -> Chain:
        """From two to four collectives, some in a fusion, a call or in two halves."""
        steps = (
            self.all_reduce, self.all_gather, self.reduce_scatter, self.all_to_all, self.permute,
            self.broadcast,
        )  # fmt: skip
        left = int(self.rng.integers(2, 5))
        while left:
            if self.rng.random() < 0.3:
                self.move()
            left -= bool(self.pick(steps)())
        return self.chain

    def emit(self, type: str, text: str) -> None:
        """A new line; now and then it is alone in a computation that is called."""
        chain = self.chain
        name = f"v{len(chain.lines)}"
        if self.rng.random() < 0.25 and "(i)" not in text and ", i)" not in text:
            kind = self.pick(["call", "fusion"])
            inner = text.replace(f"({self.value})", "(q)")
            source = f"u64[{self.before}]"
            chain.outside.append(
                f"g{name} {{ q = {source} parameter(0) ROOT r = {type} {inner} }}\n"
            )
            what = f"to_apply=g{name}" if kind == "call" else f"kind=kLoop, calls=g{name}"
            text = f"{kind}({self.value}), {what}"
        chain.lines.append(f"{name} = {type} {text}")
        self.value = name

    def resized(self, size: int) -> str:
        self.before, self.size = self.size, size
        return f"u64[{size}]"

    def move(self) -> None:
        if self.rng.random() < 0.5 or self.size < 4:
            self.emit(self.resized(self.size), f"reverse({self.value}), dimensions={{0}}")
        else:  # at another place on each device
            new = self.size - 2
            text = f"dynamic-slice({self.value}, i), dynamic_slice_sizes={{{new}}}"
            self.emit(self.resized(new), text)

    def numbers(self, between_partitions: bool) -> tuple[int, str, int]:
        """How many devices groups are of, the attributes, and how many groups are joined."""
        chain = self.chain
        kind = self.rng.random()
        self.channel += 1
        if kind < 0.4:
            return chain.replicas, "", 1
        if between_partitions:
            return chain.partitions, f", channel_id={self.channel}", 1
        if kind < 0.75:
            text = f", channel_id={self.channel}, use_global_device_ids=true"
            return chain.devices, text, 1
        return chain.replicas, f", channel_id={self.channel}", chain.partitions

    def groups(self, between_partitions: bool = False, equal: bool = True) -> tuple[int, str]:
        """The size of the groups and the attributes."""
        count, more, times = self.numbers(between_partitions)
        order = [int(n) for n in self.rng.permutation(count)]
        if self.rng.random() < 0.3:
            order = sorted(order)
        if not equal and self.rng.random() < 0.5:
            cut = int(self.rng.integers(0, count))
            rows = [row for row in (order[:cut], order[cut:]) if row]
            size = 0
        else:
            size = int(self.pick([n for n in range(1, count + 1) if count % n == 0]))
            rows = [order[k : k + size] for k in range(0, count, size)]
            if self.rng.random() < 0.3 and order == sorted(order):
                return size * times, f", replica_groups=[{count // size},{size}]<=[{count}]" + more
            if self.rng.random() < 0.2 and "global" not in more:
                return count * times, ", replica_groups={}" + more
        text = ",".join(f"{{{','.join(map(str, row))}}}" for row in rows)
        return size * times, f", replica_groups={{{text}}}" + more

    def all_reduce(self) -> bool:
        _, attributes = self.groups(equal=False)
        self.emit(self.resized(self.size), f"all-reduce({self.value}){attributes}, to_apply=f")
        return True

    def all_gather(self) -> bool:
        count, attributes = self.groups()
        if self.size * count > 24:
            return False
        type = self.resized(self.size * count)
        self.emit(type, f"all-gather({self.value}){attributes}, dimensions={{0}}")
        return True

    def reduce_scatter(self) -> bool:
        count, attributes = self.groups()
        if self.size % count:
            return False
        text = f"reduce-scatter({self.value}){attributes}, dimensions={{0}}, to_apply=f"
        self.emit(self.resized(self.size // count), text)
        return True

    def all_to_all(self) -> bool:
        count, attributes = self.groups(between_partitions=True)
        if self.size % count:
            return False
        type = self.resized(self.size)
        if "{}" in attributes:
            return False
        self.emit(type, f"all-to-all({self.value}){attributes}, dimensions={{0}}")
        return True

    def permute(self) -> bool:
        count, more, _ = self.numbers(between_partitions=True)
        some = int(self.rng.integers(0, count + 1))
        sources, targets = (self.rng.permutation(count)[:some] for _ in range(2))
        if self.rng.random() < 0.4:
            sources, targets = np.arange(count), np.roll(np.arange(count), 1)
        pairs = ",".join(f"{{{a},{b}}}" for a, b in zip(sources, targets, strict=True))
        attributes = f", source_target_pairs={{{pairs}}}{more}"
        self.in_halves("collective-permute", attributes)
        return True

    def in_halves(self, opcode: str, attributes: str) -> None:
        """The op, or its start and its end."""
        type, value = self.resized(self.size), self.value
        if self.rng.random() < 0.7:
            self.emit(type, f"{opcode}({value}){attributes}")
            return
        name = f"v{len(self.chain.lines)}"
        both = f"({type}, {type})"
        self.chain.lines.append(f"{name} = {both} {opcode}-start({value}){attributes}")
        self.chain.lines.append(f"{name}d = {type} {opcode}-done({name})")
        self.value = f"{name}d"

    def broadcast(self) -> bool:
        _, attributes = self.groups(between_partitions=True, equal=False)
        if "{}" in attributes:
            return False
        self.emit(self.resized(self.size), f"collective-broadcast({self.value}){attributes}")
        return True


# --------------------------------------------------------------------------- what maps say


class Grid:
    """Where steps lead, by the groups as the interpreter has them."""

    def __init__(self, replicas: int, partitions: int) -> None:
        self.partitions = partitions
        ids = [(r, p) for r in range(replicas) for p in range(partitions)]
        grid = SimpleNamespace(replicas=replicas, partitions=partitions, processes=ids)
        self._process: Any = SimpleNamespace(grid=grid, id=(0, 0))
        self._ids = ids
        self._known: dict[Instruction, tuple[Ints, Ints]] = {}

    def tables(self, ins: Instruction) -> tuple[Ints, Ints]:
        """`[device, position]`: the member; `[device]`: the own position; -1: there is none."""
        if ins not in self._known:
            count = len(self._ids)
            members = np.full((count, count), -1)
            own = np.full(count, -1)
            for group in self._groups(ins):
                row = [self._ids.index(member) for member in group]
                for place, device in enumerate(row):
                    members[device, : len(row)] = row
                    own[device] = place
            self._known[ins] = members, own
        return self._known[ins]

    def _groups(self, ins: Instruction) -> Iterator[Sequence[tuple[int, int]]]:
        op = ins.op.wrapped if isinstance(ins.op, AsyncStart) else ins.op
        if isinstance(op, CollectivePermute):
            side = 0 if not op.channel_id else 1
            for other in sorted({id[1 - side] for id in self._ids}):
                yield [id for id in self._ids if id[1 - side] == other]
        else:
            yield from groups_of(op, self._process, World())  # type: ignore[arg-type]

    def reached(self, device: int, via: Sequence[Instruction], positions: Sequence[Ints]) -> Ints:
        """The devices to which steps lead; -1 where a group has no such member."""
        at = np.full(np.broadcast_shapes((1,), *[np.shape(p) for p in positions]), device)
        for ins, position in zip(via, positions, strict=True):
            members, _ = self.tables(ins)
            inside = (at >= 0) & (position >= 0) & (position < len(members))
            at = np.where(inside, members[at, np.clip(position, 0, len(members) - 1)], -1)
        return at


def relation(accesses: Sequence[Access], chain: Chain, here: int, there: int) -> NDArray[np.bool_]:
    """`[device, element here, device there, element there]` of maps, on every device."""
    grid = Grid(chain.replicas, chain.partitions)
    found = np.zeros((chain.devices, here, chain.devices, there), bool)
    for access in accesses:
        if access.map is None:
            return np.ones_like(found)
        for device in range(chain.devices):
            for index, other, result in _pairs(access, access.map, chain, grid, device):
                found[device, index, other, result] = True
    return found


def _pairs(
    access: Access, m: IndexingMap, chain: Chain, grid: Grid, device: int
) -> Iterator[tuple[Ints, Ints, Ints]]:
    if m.is_known_empty:
        return
    every = [Runtime(i) for i, v in enumerate(m.runtime) if v.is_every]
    box = [*m.dims, *m.ranges]
    names: list[Var] = [*map(Dim, range(len(m.dims))), *map(Range, range(len(m.ranges))), *every]
    sizes = [v.interval.size for v in box] + [chain.devices] * len(every)
    lows = [v.interval.lo for v in box] + [0] * len(every)
    columns = [c.reshape(-1) for c in np.indices(tuple(sizes))]
    at: dict[Var, Any] = {v: c + lo for v, c, lo in zip(names, columns, lows, strict=True)}
    holds = np.ones(int(np.prod(sizes)), bool)
    left = [i for i in range(len(m.runtime)) if Runtime(i) not in at]
    while left:
        i = next(i for i in left if variables(*m.runtime[i].arguments) <= at.keys())
        left.remove(i)
        v = m.runtime[i]
        where = grid.reached(device, v.via, [_value(e, at, holds) for e in v.positions])
        holds = holds & (where >= 0)
        if v.collective is not None:
            value = grid.tables(v.collective)[1][where]
            holds = holds & (value >= 0)
        else:
            assert v.origin is not None
            assert isinstance(v.origin.op, Parameter)
            value = np.array(chain.starts)[where]
        value = np.clip(value, v.values.lo, v.values.hi)
        at[Runtime(i)] = np.broadcast_to(value, holds.shape)
        holds = holds & (value >= v.interval.lo) & (value <= v.interval.hi)
    for e, interval in m.constraints:
        value = _value(e, at, holds)
        holds = holds & (value >= interval.lo) & (value <= interval.hi)
    positions = [] if access.replica is None else access.replica.results
    other = grid.reached(device, access.via, [_value(e, at, holds) for e in positions])
    holds = holds & (other >= 0)
    (result,) = (_value(e, at, holds) for e in m.results)
    yield at[Dim(0)][holds], np.broadcast_to(other, holds.shape)[holds], result[holds]


def _value(e: Any, at: dict[Var, Any], like: NDArray[np.bool_]) -> Ints:
    return np.broadcast_to(evaluate_array(e, at), like.shape)


def looped(seed: int) -> Chain:
    """Two collectives in each iteration of a loop, some inside a call or fusion."""
    maker = Maker(seed, 4)
    chain = maker.chain
    steps = maker.all_reduce, maker.permute, maker.all_to_all, maker.broadcast
    left = 2
    while left:
        maker.emit(maker.resized(maker.size), f"reverse({maker.value}), dimensions={{0}}")
        left -= bool(maker.pick(steps)())
    type = f"u64[{chain.size}]"
    inside = "\n  ".join(chain.lines).replace("(p)", "(x)")
    chain.outside.append(
        f"""body {{ t = (s32[], {type}) parameter(0)
  n = s32[] get-tuple-element(t), index=0
  x = {type} get-tuple-element(t), index=1
  {inside}
  one = s32[] constant(1)
  next = s32[] add(n, one)
  ROOT r = (s32[], {type}) tuple(next, {maker.value}) }}
more {{ t = (s32[], {type}) parameter(0) n = s32[] get-tuple-element(t), index=0
  most = s32[] constant({maker.pick([1, 2, 3])})
  ROOT r = pred[] compare(n, most), direction=LT }}
"""
    )
    chain.lines = [
        "zero = s32[] constant(0)",
        f"t = (s32[], {type}) tuple(zero, p)",
        f"loop = (s32[], {type}) while(t), condition=more, body=body",
        f"r = {type} get-tuple-element(loop), index=1",
    ]
    return chain


def wrong(chain: Chain, *, exact: bool = True) -> str:
    """How the maps of a chain, in both directions, differ from execution; empty if they don't.

    Args:
        chain: The program.
        exact: They have to say precisely what is read, else at least that.
    """
    program = hs.read(chain.text)
    true = chain.executed()
    entry = program.module.entry
    size = true.shape[1]
    analysis = Analysis()
    reads = [f.accesses for f in analysis.summary(entry, 0) if f.operand == 0]
    (there,) = reads or [()]
    back = [f.accesses for f in analysis.spread(entry, 0, 0) if f.leaf == 0]
    (writes,) = back or [()]
    if there is None or writes is None:
        return "not explicit"
    over = any(a.precision is not Precision.EXACT for a in (*there, *writes))
    said = relation(there, chain, size, chain.size)
    # From the operand: the device of the output is the one asked about in both directions.
    turned = relation(writes, chain, chain.size, size).transpose(0, 3, 2, 1)
    for name, one in (("reads", said), ("reaches", turned)):
        missing = (true & ~one).any()
        if missing or (exact and (over or (one != true).any())):
            return f"{name}: {int((one != true).sum())} pairs differ, over: {over}"
    return ""
