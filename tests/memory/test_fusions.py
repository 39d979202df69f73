"""Random fusions: what warps move against every lane, followed through the fusion by numpy."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import hloscope
from hloscope.memory import ArrayUse, Kernel
from tests.memory.fusions import NOTHING, FusionBuilder, Ints
from tests.memory.lanes import Told, needs, possible, writes


def figures(use: ArrayUse) -> list[tuple[int, Told]]:
    """What is told of each way in which an array is touched, as XLA emits it."""
    every = [t.traffic for t in use.as_emitted if t.traffic is not None and t.traffic.requests]
    return [
        (t.vector, Told(t.requests, t.sectors, t.lines, t.asked, dict(t.histogram))) for t in every
    ]


def compared(use: ArrayUse, ways: list[Ints], bits: int, seen: Counter[str]) -> str:
    """What is wrong with the figures of an array; nothing: an empty text."""
    told = figures(use)
    assert use.precision == "exact"
    if use.type.rank == 0:  # on several ways, and in loops, once or more: nobody has to say
        least = min([figures.requests for x in ways for _, figures in possible(x, bits)], default=0)
        enough = sum(figures.requests for _, figures in told) >= least
        return "" if enough and bool(told) == bool(ways) else f"{told} of one element"
    for address in ways:
        true = possible(address, bits)
        hit = next((one for one in told if one in true), None)
        if hit is None:
            return f"{told}, and by enumeration {true}"
        told.remove(hit)
        seen["vector" if hit[0] > 1 else "one"] += 1
        seen["narrower"] += hit[0] < max(v for v, _ in true)
    return f"{told} more than by enumeration" if told else ""


def part(use: ArrayUse, ways: list[Ints], bits: int, seen: Counter[str]) -> str:
    """What is wrong with the part of an array that is said to be touched."""
    there = {a for address in ways for a in address[address != NOTHING].tolist()}
    sectors = {a * bits // 256 for a in there} | {(a * bits + bits - 1) // 256 for a in there}
    told, true = (use.touched.elements, use.touched.sectors), (len(there), len(sectors))
    seen["part"] += use.touched.is_exact
    if told == true or (not use.touched.is_exact and told >= true and told[1] >= true[1]):
        return ""
    return f"{told} elements and sectors, and by enumeration {true}"


def wrong(seed: int, seen: Counter[str]) -> list[str]:
    """What is wrong with the answer about one random fusion."""
    random = Random(seed)
    builder = FusionBuilder(random)
    text = builder.build(random.randint(1, 5))
    answer = hloscope.read(text).root.coalescing(random.choice(["h100", "mi210", "a6000"]))
    kernel: Kernel = answer.kernel
    seen[kernel.emitter] += 1
    need = needs(builder, kernel, answer.device.warp)
    faults = []
    for use in answer.operands:
        ways, bits = need.get(use.number, []), builder.parameters[use.number].kind.bits
        faults += [compared(use, ways, bits, seen), part(use, ways, bits, seen)]
    for use, maps in zip(answer.outputs, kernel.outputs, strict=True):
        array = builder.values[use.name].array
        ways = writes(array, maps or (), kernel, answer.device.warp)
        faults.append(compared(use, ways, array.kind.bits, seen))
    return [f"{seed}: {fault}\n{text}" for fault in faults if fault]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fusions_move_what_every_lane_of_them_touches(full: bool) -> None:
    seen: Counter[str] = Counter()
    faults = [fault for seed in range(1000 if full else 40) for fault in wrong(seed, seen)]
    assert not faults, "\n".join(faults[:3])
    assert seen["loop"] > 20
    assert seen["concatenate"]
    assert seen["vector"] > 2
    assert seen["part"] > 30
    assert seen["narrower"] <= seen["vector"] / 2
    if full:
        assert seen["transpose"] > 5
        assert seen["multi-row reduction"] > 5
