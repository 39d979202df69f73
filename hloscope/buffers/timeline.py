"""Bytes in use at every moment, with and without results that stand in place of operands.

At a moment `t`, `U(t)` is the sum of the buffers in use.  A result that begins at `t` may stand in
the memory of an operand that ends at `t`; each operand is taken once.  `L(t)` is `U(t)` without
the results that can be placed so, as many bytes of them as possible.  A program needs at least the
largest `L(t)`, since any two other buffers in use at one moment are apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import accumulate
from typing import TypeAlias

from hloscope.buffers.model import Buffer, BufferKind, Buffers
from hloscope.buffers.reuse import Touch, may_share
from hloscope.ir import Instruction
from hloscope.lazy import dataclass

Pair: TypeAlias = tuple[Buffer, Buffer]
"""A result, and the operand in whose place it stands."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bytes in use in one memory space.

    Attributes:
        space: Number of the memory space.
        live: `U(t)`, for each moment from 0 to the end of the program, this one included.
        least: `L(t)`.
        placed: The results that stand in place of an operand, with these, by moment.
        sums: Bytes of all buffers of each kind, whenever they live.
        most_temporary: The largest `L(t)` of temporaries alone, as XLA places them: only those of
            one value stand in each other's place.
        temporary_peak: The first moment of it.
        temporary_placed: The temporaries that stand in place of another there.
        lower: L, the largest `L(t)`: no assignment of memory takes fewer bytes.
        peak: The first moment at which `L(t)` is largest.
    """

    space: int
    live: tuple[int, ...]
    least: tuple[int, ...]
    placed: dict[int, tuple[Pair, ...]]
    sums: dict[BufferKind, int]
    most_temporary: int
    temporary_peak: int
    temporary_placed: frozenset[Buffer]
    lower: int
    peak: int

    @property
    def estimate(self) -> int:
        """E: bytes that XLA will hold: parameters, outputs and the most of temporaries.

        CPU and GPU allocate parameters and outputs for the whole run.  Source: XLA
        `BufferAssigner`; compared with the totals of programs of jaxlib 0.10.2 for CPU and H100.
        """
        return self.sums["parameter"] + self.sums["output"] + self.most_temporary


def timelines(buffers: Buffers, backend: str) -> dict[int, Timeline]:
    """The bytes in use at every moment, by memory space.

    Args:
        buffers: The buffers of a program.
        backend: What the program was compiled for: its rules decide what may share memory.
    """
    touches = _touching(buffers, backend)
    spaces = sorted({buffer.space for buffer in buffers.buffers} | {0})
    return {space: _timeline(buffers, touches, space) for space in spaces}


def _timeline(
    buffers: Buffers, touches: dict[int, dict[Buffer, list[Buffer]]], space: int
) -> Timeline:
    end = buffers.schedule.end
    here = [buffer for buffer in buffers.buffers if buffer.space == space]
    live = _sum_at_moments(here, end)
    temporary = _sum_at_moments([b for b in here if b.kind == "temporary"], end)
    least, placed = list(live), dict[int, tuple[Pair, ...]]()
    replaced: dict[int, frozenset[Buffer]] = {}
    for moment, edges in touches.items():
        pairs = _placed(edges, lambda b: b.space == space)
        if pairs:
            placed[moment] = tuple(pairs)
            least[moment] -= _saved(pairs)
        if pairs:
            only = _placed(edges, lambda b: b.space == space and _is_reused_by_xla(b))
            temporary[moment] -= _saved(only)
            replaced[moment] = frozenset(result for result, _ in only)
    sums: dict[BufferKind, int] = dict.fromkeys(("parameter", "output", "temporary", "constant"), 0)
    for buffer in here:
        sums[buffer.kind] += buffer.bytes
    lower, most = max(least), max(temporary)  # there is a moment: the end of the program
    busiest = temporary.index(most)
    return Timeline(
        space,
        tuple(live),
        tuple(least),
        placed,
        sums,
        most,
        busiest,
        replaced.get(busiest, frozenset()),
        lower,
        least.index(lower),
    )


def _is_reused_by_xla(buffer: Buffer) -> bool:
    """Does XLA look for an operand whose place a buffer can take, or give its place away?

    It does for temporaries of one value only.  Source: XLA `BufferAssigner::AssignSingleHloBuffer`,
    `HeapSimulator::RunComputation`.
    """
    return buffer.kind == "temporary" and len(buffer.values) == 1


def _sum_at_moments(buffers: list[Buffer], end: int) -> list[int]:
    """Bytes of the buffers in use at each moment from 0 to `end`."""
    changes = [0] * (end + 2)
    for buffer in buffers:
        for first, last in buffer.intervals:
            changes[first] += buffer.bytes
            changes[last + 1] -= buffer.bytes
    return [*accumulate(changes)][: end + 1]


def _saved(pairs: list[Pair]) -> int:
    """Bytes that need no memory of their own: of two that share, the smaller one's."""
    return sum([min(result.bytes, operand.bytes) for result, operand in pairs])


def _touching(buffers: Buffers, backend: str) -> dict[int, dict[Buffer, list[Buffer]]]:
    """By moment, the results that begin there, each with the operands whose memory it may take."""
    starts: dict[int, set[Buffer]] = defaultdict(set)
    ends: dict[int, set[Buffer]] = defaultdict(set)
    for buffer in buffers.buffers:
        if buffer.bytes:
            for first, last in buffer.intervals:
                starts[first].add(buffer)
                ends[last].add(buffer)
    found: dict[int, dict[Buffer, list[Buffer]]] = {}
    for moment, beginning in starts.items():
        ending = ends.get(moment, set())
        if ending and moment < buffers.schedule.end:
            ins = buffers.schedule.instructions[moment]
            edges = _edges(buffers, ins, beginning, ending, backend)
            if edges:
                found[moment] = edges
    return found


def _edges(
    buffers: Buffers,
    ins: Instruction,
    beginning: set[Buffer],
    ending: set[Buffer],
    backend: str,
) -> dict[Buffer, list[Buffer]]:
    positions, flow = buffers.positions, buffers.flow
    made = [
        (p, buffers.at(p))
        for p in positions.within(ins)
        if flow.value[p] == p and buffers.at(p) in beginning
    ]
    if not made:
        return {}
    given = []
    for k, operand in enumerate(ins.operands):
        if operand not in ins.operands[:k]:
            for p in positions.within(operand):
                if buffers.at(p) in ending:
                    given.append((k, p, buffers.at(p)))
    edges: dict[Buffer, list[Buffer]] = {}
    for out, result in made:
        for k, p, taken in given:
            touch = Touch(
                ins,
                k,
                positions.index(p),
                positions.index(out),
                positions.type(p),
                positions.type(out),
            )
            if taken is not result and may_share(touch, backend):
                edges.setdefault(result, []).append(taken)
    return edges


def _placed(edges: dict[Buffer, list[Buffer]], is_meant: Callable[[Buffer], bool]) -> list[Pair]:
    """Results in place of operands, each operand taken once, with as many bytes as possible.

    Larger results are placed first.  A later one may move an earlier one to another operand
    (an augmenting path), but never takes its place away; so the sum of bytes is the largest.
    """
    taken: dict[Buffer, Buffer] = {}

    def place(result: Buffer, tried: set[Buffer]) -> bool:
        for operand in edges[result]:
            if operand in tried or not is_meant(operand):
                continue
            tried.add(operand)
            if operand not in taken or place(taken[operand], tried):
                taken[operand] = result
                return True
        return False

    for result in sorted(edges, key=lambda buffer: -buffer.bytes):
        if is_meant(result):
            place(result, set())
    return [(result, operand) for operand, result in taken.items()]
