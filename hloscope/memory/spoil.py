"""The address term that makes a request uncoalesced, found by evaluating the terms.

The terms of the address are evaluated over the lanes of one request. The result is the term with
the largest steps between neighbouring lanes, among those whose steps exceed the bytes of a lane.
"""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from hloscope.affine import Dim, Var, as_sum, evaluate, to_text, variables
from hloscope.devices import SECTOR
from hloscope.ir import size_text
from hloscope.memory.requests import Requests
from hloscope.memory.traffic import Request


class Spoiler(Struct, frozen=True):
    """The cause of unused sectors of a request.

    Attributes:
        term: The term of the address, in the variables of the thread map.
        every: Number of lanes from one of its steps to the next.
        step: Bytes from one lane to the next where it steps.
    """

    term: str
    every: int
    step: int

    def __str__(self) -> str:
        apart = f"{size_text(abs(self.step))} apart"
        if self.every == 1:
            return f"`{self.term}`: neighbouring lanes are {apart}"
        return f"`{self.term}`: every {self.every} lanes the address jumps {size_text(self.step)}"


def spoiler_of(requests: Requests, request: Request) -> Spoiler | None:
    """Return the term that causes more sectors than the bytes need; `None` if there is none.

    >>> from hloscope.indexing import IndexingMap
    >>> from hloscope.memory.kernel import Launch
    >>> from hloscope.memory.requests import requests_of
    >>> from hloscope.memory.bounded import traffic_of
    >>> launch = Launch.of(128, 32)
    >>> map = launch.map((), [Dim(0) * 4096 + Dim(3)])
    >>> requests = requests_of(map, 32, launch, 32)
    >>> print(spoiler_of(requests, traffic_of(requests).worst))
    `th_x * 4096`: neighbouring lanes are 16 KiB apart
    """
    needed = -(-len({a for a in request.addresses if a is not None}) * request.unit // SECTOR)
    # One extra sector is a matter of alignment and not of the order of the lanes.
    if request.sectors <= needed + 1:
        return None
    original = requests.original
    thread = _threads_of(requests, request)
    if thread is None:
        return None
    names = original.names
    best: tuple[int, Spoiler] | None = None
    for term, factor in as_sum(original.results[0])[0]:
        if not {Dim(0), Dim(1), Dim(2)} & variables(term):
            continue
        values = [
            evaluate(term, at) * factor * requests.bits // 8 for at in thread if at is not None
        ]
        steps = [b - a for a, b in pairwise(values)]
        far = [(k, step) for k, step in enumerate(steps) if abs(step) > request.unit]
        if not far:
            continue
        # The cap keeps one huge jump between rows from outweighing steps between all lanes.
        weight = sum(min(abs(step), 1 << 20) for _, step in far)
        text = to_text(term * factor, names)
        every = (len(values) // (len(far) + 1)) if len(far) < len(steps) else 1
        found = Spoiler(text, max(every, 1), far[0][1])
        if best is None or weight > best[0]:
            best = weight, found
    return best[1] if best else None


def _threads_of(requests: Requests, request: Request) -> list[dict[Var, int] | None] | None:
    """Return the variables of the original map for each lane; `None` for an inactive lane."""
    original = requests.original
    x, y = (_extent(original.dims[k].interval.hi) for k in (0, 1))
    base: dict[Var, int] = {v: interval.lo for v, interval in original.box.items()}
    for k, name in enumerate(("bl_x", "bl_y", "bl_z"), 3):
        base[Dim(k)] = request.at.get(name, base.get(Dim(k), 0))
    warp = request.at.get("warp", 0)
    found: list[dict[Var, int] | None] = []
    for lane, address in enumerate(request.addresses):
        thread = warp * requests.warp + lane
        at = {**base, Dim(0): thread}
        if y > 1:
            at |= {Dim(0): thread % x, Dim(1): thread // x % y, Dim(2): thread // (x * y)}
        found.append(None if address is None else at)
    return found


def _extent(hi: int) -> int:
    return hi + 1
