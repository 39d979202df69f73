"""Requests of a fusion's warps, lane by lane: thread maps, then what numpy says is read there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from hloscope.affine import Dim, Range, Var, evaluate_array
from hloscope.indexing import IndexingMap
from hloscope.memory import Kernel, Launch
from tests.memory.fusions import NOTHING, Array, FusionBuilder, Ints

SECTOR, LINE = 32, 128


class Told(NamedTuple):
    """Figures of all requests."""

    requests: int
    sectors: int
    lines: int
    asked: int
    histogram: dict[int, int]


def grid(launch: Launch, warp: int, ranges: list[int]) -> tuple[dict[Var, Ints], Ints]:
    """Ids of all threads as arrays (warps, lanes, loops …), and which of the lanes are threads."""
    warps = -(-launch.block_size // warp)
    blocks = np.arange(prod(launch.blocks))[:, None, None]
    thread = np.arange(warps)[None, :, None] * warp + np.arange(warp)[None, None, :]
    shape = (prod(launch.blocks), warps, warp)
    flat = (prod(launch.blocks) * warps, warp) + (1,) * len(ranges)
    x, y, _ = launch.threads
    a, b, _ = launch.blocks
    ids = (
        thread % x,
        thread // x % y,
        thread // (x * y),
        blocks % a,
        blocks // a % b,
        blocks // (a * b),
    )
    at: dict[Var, Ints] = {
        Dim(k): np.broadcast_to(e, shape).reshape(flat) for k, e in enumerate(ids)
    }
    for k, n in enumerate(ranges):
        at[Range(k)] = np.arange(n).reshape((1, 1) + (1,) * k + (n,) + (1,) * (len(ranges) - 1 - k))
    there = np.broadcast_to(thread < launch.block_size, shape).reshape(flat)
    return at, there


def placed(map: IndexingMap, sizes: tuple[int, ...], launch: Launch, warp: int) -> Ints:
    """For every lane and loop the row-major position of the element that it needs."""
    ranges = [v.interval.hi + 1 for v in map.ranges]
    at, active = grid(launch, warp, ranges)
    shape = (*next(iter(at.values())).shape[:2], *ranges)
    active = np.broadcast_to(active, shape).copy()
    for e, interval in map.constraints:
        value = np.broadcast_to(evaluate_array(e, at), shape)
        active &= (value >= interval.lo) & (value <= interval.hi)
    for k, v in enumerate(map.dims):
        active &= np.broadcast_to(
            (at[Dim(k)] >= v.interval.lo) & (at[Dim(k)] <= v.interval.hi), shape
        )
    position = np.zeros(shape, dtype=np.int64)
    for e, n in zip(map.results, sizes, strict=True):
        value = np.broadcast_to(evaluate_array(e, at), shape)
        inside = (value >= 0) & (value < n)
        assert bool(inside[active].all()), "a thread map leads out of its array"
        position = position * n + np.where(active, value, 0)
    return np.where(active, position, NOTHING)


def by_loop(array: Array, kernel: Kernel, warp: int) -> Ints:
    """Where the loop emitter's lanes stand: one after another in memory order, computed anew."""
    assert kernel.launch is not None
    u = kernel.unroll
    count = int(np.prod(array.sizes))
    at, there = grid(kernel.launch, warp, [u])
    linear = (at[Dim(3)] * kernel.launch.block_size + at[Dim(0)]) * u + at[Range(0)]
    order = np.argsort(Array(array.kind, array.sizes, array.order).addresses())
    inside = (linear < count) & there
    return np.where(inside, order[np.where(inside, linear, 0)], NOTHING)


def through(position: Ints, index: Ints, rank: int) -> Ints:
    """What is read of a parameter where lanes need elements of a value."""
    flat = index.reshape((-1, *index.shape[rank:]))
    found = flat[np.where(position == NOTHING, 0, position)]
    masked = (position == NOTHING).reshape(position.shape + (1,) * (found.ndim - position.ndim))
    return np.where(masked, NOTHING, found)


def addressed(index: Ints, array: Array) -> Ints:
    """Addresses of elements."""
    where = array.addresses()
    return np.where(index == NOTHING, NOTHING, where[np.where(index == NOTHING, 0, index)])


def widths(address: Ints, bits: int) -> Iterator[tuple[int, int]]:
    """Loops along which lanes touch aligned vectors: axis and elements."""
    for axis in range(2, address.ndim):
        n, v = address.shape[axis], 2
        moved = np.moveaxis(address, axis, -1)
        while n % v == 0 and v * bits <= 128:
            parts = moved.reshape((*moved.shape[:-1], n // v, v))
            on = parts != NOTHING
            whole = bool((on.all(-1) | ~on.any(-1)).all())
            inside = on.all(-1)
            neat = (parts == parts[..., :1] + np.arange(v)).all(-1) & (parts[..., 0] % v == 0)
            if not whole or not bool(neat[inside].all()):
                break
            if v * bits >= 16 or bits < 8 <= v * bits:  # a byte of two elements is stored whole
                yield axis, v
            v *= 2


def told(address: Ints, bits: int, axis: int | None, vector: int) -> Told:
    """Figures of all requests, one by one."""
    if axis is not None:
        moved = np.moveaxis(address, axis, -1)
        shape = (*moved.shape[:-1], moved.shape[-1] // vector, vector)
        address = moved.reshape(shape)
    else:
        address = address[..., None]
    address = np.moveaxis(address, 1, -2)
    histogram: dict[int, int] = {}
    sectors = lines = asked = requests = 0
    for row in address.reshape(-1, address.shape[-2] * address.shape[-1]):
        on = row[row != NOTHING]
        if not len(on):
            continue
        every = {
            b for a in on.tolist() for b in range(a * bits // 8, (a * bits + bits - 1) // 8 + 1)
        }
        here = len({b // SECTOR for b in every})
        requests += 1
        sectors += here
        lines += len({b // LINE for b in every})
        asked += len(every)
        histogram[here] = histogram.get(here, 0) + 1
    return Told(requests, sectors, lines, asked, dict(sorted(histogram.items())))


def needs(builder: FusionBuilder, kernel: Kernel, warp: int) -> dict[int, list[Ints]]:
    """For each parameter the addresses that lanes touch, each way once."""
    found: dict[int, list[Ints]] = {}
    heroes = set() if kernel.emitter == "loop" else {hero.name for hero in kernel.heroes}
    for reading in kernel.readings:
        value = builder.values[reading.value.name]
        position = stands(value.array, reading.map, kernel, warp)
        ends = set() if reading.is_hero else heroes - {value.name}
        for number, index, path in value.parts:
            if path & ends:
                continue  # in registers or shared memory already
            read = through(position, index, len(value.array.sizes))
            address = addressed(read, builder.parameters[number])
            found.setdefault(number, []).append(address)
    return {number: unique(some) for number, some in found.items()}


def writes(array: Array, maps: Iterable[IndexingMap], kernel: Kernel, warp: int) -> list[Ints]:
    """Addresses that lanes write of an output."""
    return unique([addressed(stands(array, map, kernel, warp), array) for map in maps])


def stands(array: Array, map: IndexingMap, kernel: Kernel, warp: int) -> Ints:
    """Which element of a value each lane needs."""
    assert kernel.launch is not None
    if kernel.emitter == "loop":
        return by_loop(array, kernel, warp)
    return placed(map, array.sizes, kernel.launch, warp)


def unique(some: list[Ints]) -> list[Ints]:
    """Each access once, and none that touches nothing."""
    kept = {(x.shape, x.tobytes()): x for x in map(squeezed, some) if bool((x != NOTHING).any())}
    return [*kept.values()]


def squeezed(address: Ints) -> Ints:
    """Without loops that make no difference."""
    for axis in reversed(range(2, address.ndim)):
        if bool((address == address.take([0], axis)).all()):
            address = address.take(0, axis)
    return address


def merged(address: Ints) -> Ints:
    """Without loops that lead a thread to nothing new: what it has loaded is there."""
    for axis in reversed(range(2, address.ndim)):
        most = address.max(axis, keepdims=True)
        if bool(((address == most) | (address == NOTHING)).all()):
            address = most.squeeze(axis)
    return address


def possible(address: Ints, bits: int) -> list[tuple[int, Told]]:
    """Vectors that lanes may touch, and the figures with each."""
    kept = {(x.shape, x.tobytes()): x for x in (address, merged(address))}
    found = []
    for x in kept.values():
        found.append((1, told(x, bits, None, 1)))
        found += [(v, told(x, bits, axis, v)) for axis, v in widths(x, bits)]
    return found
