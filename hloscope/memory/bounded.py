"""Traffic of accesses whose addresses, or lanes, values read at run time decide: best and worst.

Lanes that read the same values form a group.  The values shift its addresses together, so a group
touches as many sectors as its alignment says.  At worst each group has its worst alignment and no
two groups share a sector; at best all groups touch the sectors of the largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final, NamedTuple

from msgspec.structs import replace

from hloscope.affine import Runtime, Var, depends_on_runtime, evaluate_array, variables
from hloscope.arrays import Bools, Ints, np
from hloscope.devices import LINE, SECTOR
from hloscope.indexing import Constraint, RuntimeVariable
from hloscope.ir import TensorType
from hloscope.memory.counting import (
    BUDGET,
    NOWHERE,
    Counter,
    Figures,
    Lanes,
    counted,
)
from hloscope.memory.requests import LANE, Requests, runtime_terms
from hloscope.memory.traffic import BOUNDS, Traffic

BLOCKS: Final = (SECTOR * 8, LINE * 8)
"""Bits of a sector and of a line."""


def traffic_of(requests: Requests, budget: int = BUDGET) -> Traffic:
    """Count what the requests of an access move.

    Args:
        requests: The access.
        budget: Lanes to look at, at most; beyond it a sample is drawn.  Alignments that values read
            at run time may have share it.

    Raises:
        TooLargeError: A variable of the address has values that int64 doesn't hold, or so many.
    """
    reads = set(map(Runtime, range(len(requests.map.runtime))))
    is_decided = not reads & variables(requests.address, *requests.conditions)
    if any(map(_is_choice, requests.map.runtime)):  # it may be that no lane takes part
        plain = requests.map.with_(runtime=[_unclamped(v) for v in requests.map.runtime])
        worst = traffic_of(replace(requests, map=plain), budget)
        return replace(worst, precision=BOUNDS, best=Traffic(vector=requests.vector))
    if is_decided or requests.map.is_known_empty or requests.lanes_at_most <= 0:
        return counted(requests, budget)
    terms = runtime_terms(requests.address)
    certain = _without_runtime(requests)
    if terms is None:
        best, worst = _anywhere(certain, budget)
    else:
        best, worst = _Groups(certain, terms, budget).extremes()
    if certain is not requests:  # it may be that no lane takes part
        return replace(worst, precision=BOUNDS, best=Traffic(vector=requests.vector))
    if (best.histogram, best.lines, best.asked) == (worst.histogram, worst.lines, worst.asked):
        return worst  # whatever is read, as many sectors are moved
    return replace(worst, precision=BOUNDS, best=best)


def _is_choice(variable: RuntimeVariable) -> bool:
    """Is it a predicate, of which a map holds for one value only?"""
    type = None if variable.origin is None else variable.origin.type
    is_predicate = isinstance(type, TensorType) and type.element.name == "pred"
    return is_predicate and variable.clamp is not None


def _unclamped(variable: RuntimeVariable) -> RuntimeVariable:
    return RuntimeVariable(variable.interval, variable.name, None, variable.index)


def _without_runtime(requests: Requests) -> Requests:
    """The requests without conditions on values read at run time; the same if there are none."""

    def is_certain(constraint: Constraint) -> bool:
        return not depends_on_runtime(constraint[0])

    if all(map(is_certain, [c for domain in requests.domains for c in domain])):
        return requests
    kept = [tuple(filter(is_certain, domain)) for domain in requests.domains]
    return replace(requests, map=requests.map.with_(constraints=kept[0]), others=tuple(kept[1:]))


def _anywhere(requests: Requests, budget: int) -> tuple[Traffic, Traffic]:
    """Nothing is known of addresses: at best one sector a request, at worst one for each lane."""
    lowest: dict[Var, int] = {Runtime(k): v.interval.lo for k, v in enumerate(requests.map.runtime)}
    found = Counter(requests, budget).count(lowest)
    each, count = max(requests.unit_bits // 8, 1), found.requests

    def all_of(sectors: int, asked: int, needed: int) -> Traffic:
        return replace(
            found,
            sectors=sectors * count,
            lines=sectors * count,
            asked=asked * count,
            needed=needed,
            histogram={sectors: count} if count else {},
            worst=None,
            typical=None,
        )

    lanes = requests.warp
    return all_of(1, each, count), all_of(lanes, lanes * each, -(-count * lanes * each // SECTOR))


def _shifts(requests: Requests, terms: Mapping[Runtime, int]) -> list[int]:
    """How far values read at run time may shift an address, in elements, modulo a line."""
    found = {0}
    for runtime, factor in terms.items():
        interval = requests.map.runtime[runtime.index].interval
        period = requests.modulus // gcd(factor, requests.modulus)
        count = min(period, interval.hi - interval.lo + 1)
        found = {(a + factor * k) % requests.modulus for a in found for k in range(count)}
    return sorted(found)


class _Blocks(NamedTuple):
    """The fewest and the most blocks of one size that each group touches: requests × groups."""

    fewest: Ints
    most: Ints


class _Spans(NamedTuple):
    """Where the lanes of each group stand: requests × groups, in elements.

    Attributes:
        first: The first element.
        length: From there to behind the last element.
        elements: Different ones, 0 where no lane takes part.
    """

    first: Ints
    length: Ints
    elements: Ints


class _Groups:
    """Counts an access whose address is shifted by values read at run time."""

    def __init__(self, requests: Requests, terms: Mapping[Runtime, int], budget: int) -> None:
        self._requests: Final = requests
        self._read: Final = tuple(terms)
        self._shifts: Final = _shifts(requests, terms)
        self._lowest: Final[dict[Var, int]] = {
            x: requests.map.runtime[x.index].interval.lo for x in terms
        }
        self._budget: Final = budget
        self._step: Final = gcd(requests.modulus, *terms.values()) * requests.bits
        """Bits between alignments."""
        every = requests.modulus * requests.bits // self._step
        self._is_free: Final = len(self._shifts) == every
        """May a group have every alignment?"""

    def extremes(self) -> tuple[Traffic, Traffic]:
        """At best and at worst."""
        if (found := self._counted(self._budget, is_whole=True)) is not None:
            return found
        every = self._counted(self._budget // len(self._shifts), is_whole=False)
        assert every is not None
        return every

    def _counted(self, budget: int, *, is_whole: bool) -> tuple[Traffic, Traffic] | None:
        """The traffic; `None` where a group of lanes has gaps, of which alignments are tried.

        Args:
            budget: Lanes to look at.
            is_whole: Refuse gaps.
        """
        best, worst = Counter(self._requests, budget), Counter(self._requests, budget)
        unit = max(self._requests.unit_bits // 8, 1)
        for at, weights in worst.chunks():
            lanes = worst.lanes(at, self._lowest)
            groups = self._groups(at, lanes.active.shape)
            spans = _spans(lanes, groups, self._requests.vector)
            has_gaps = bool((spans.length != spans.elements * self._requests.vector).any())
            if (has_gaps or not self._is_free) and is_whole and len(self._shifts) > 1:
                return None
            if self._is_free and not has_gaps:
                sectors, lines = [self._of_spans(spans, size) for size in BLOCKS]
            else:
                sectors, lines = self._of_each_alignment(worst, lanes, groups)
            asked = spans.elements * unit
            least, most = [
                Figures(*figures, lanes.active)
                for figures in (
                    (sectors.fewest.max(1), lines.fewest.max(1), asked.max(1)),
                    (sectors.most.sum(1), lines.most.sum(1), asked.sum(1)),
                )
            ]
            best.note(at, weights, least, lanes.addresses.__getitem__)
            worst.note(at, weights, most, lanes.addresses.__getitem__)
            best.scale = worst.scale
        return best.found(), worst.found()

    def _of_spans(self, spans: _Spans, size: int) -> _Blocks:
        """Blocks of elements without gaps, by where the first one may stand in a block."""
        step = min(self._step, size)
        length = spans.length * self._requests.bits
        start = spans.first * self._requests.bits % step
        touched = spans.elements > 0
        fewest = -(-(start + length) // size) * touched
        most = -(-(size - step + start + length) // size) * touched
        return _Blocks(fewest, most)

    def _of_each_alignment(self, counter: Counter, lanes: Lanes, groups: Ints) -> Sequence[_Blocks]:
        """Blocks at every alignment that values may lead to."""
        found: list[_Blocks] = []
        for shift in self._shifts:
            numbers = [counter.numbers(lanes.steps + shift, size) for size in BLOCKS]
            here = [_distinct(number, lanes.active, groups) for number in numbers]
            if not found:
                found = [_Blocks(blocks, blocks) for blocks in here]
            found = [
                _Blocks(np.minimum(some.fewest, blocks), np.maximum(some.most, blocks))
                for some, blocks in zip(found, here, strict=True)
            ]
        return found

    def _groups(self, at: Mapping[Var, Ints], shape: tuple[int, ...]) -> Ints:
        """Which lanes read the same elements at run time: the same numbers below the lanes."""
        every: dict[Var, Ints] = dict(at)
        every[LANE] = np.arange(self._requests.warp, dtype=np.int64)[None, :]
        number, end = np.zeros(shape, dtype=np.int64), 1
        for runtime in self._read:
            variable = self._requests.map.runtime[runtime.index]
            for k, other in enumerate(self._requests.map.runtime):
                every.setdefault(Runtime(k), np.int64(other.interval.lo).reshape(1, 1))
            for e in variable.arguments:
                value = np.broadcast_to(evaluate_array(e, every), shape)
                size = int(value.max(initial=0)) + 1
                if size * end > NOWHERE:
                    (number, end), (value, size) = [(ranked(x), shape[1]) for x in (number, value)]
                number, end = number * size + value, end * size
        return ranked(number)


def ranked(number: Ints) -> Ints:
    """The numbers of each row as small ones: how many of the row are smaller."""
    order = np.argsort(number, axis=1)
    ordered = np.take_along_axis(number, order, axis=1)
    smaller = np.broadcast_to(np.arange(number.shape[1]), number.shape).copy()
    smaller[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0
    ranks = np.empty_like(smaller)
    np.put_along_axis(ranks, order, np.maximum.accumulate(smaller, axis=1), axis=1)
    return ranks


def _different(numbers: Ints, active: Bools, groups: Ints) -> tuple[Ints, Ints]:
    """Each different number of each group: its place in requests × groups, and the number."""
    room = NOWHERE // active.shape[1]  # for the numbers of each group in an int64
    if int(numbers.max(initial=0)) >= room:
        numbers = ranked(numbers)
    keys = np.where(active, groups * room + numbers, NOWHERE)
    keys.sort(axis=1)
    is_first = keys != NOWHERE
    is_first[:, 1:] &= keys[:, 1:] != keys[:, :-1]
    rows, at = np.nonzero(is_first)
    found = keys[rows, at]
    return rows * active.shape[1] + found // room, found % room


def _distinct(numbers: Ints, active: Bools, groups: Ints) -> Ints:
    """How many different numbers each group has: requests × groups."""
    places, _ = _different(numbers, active, groups)
    return np.bincount(places, minlength=active.size).reshape(active.shape)


def _spans(lanes: Lanes, groups: Ints, vector: int) -> _Spans:
    """Where each group stands, in elements from the line that its request touches first."""
    if int(lanes.steps.max(initial=0)) >= NOWHERE // lanes.active.shape[1]:
        ranks = _distinct(lanes.steps, lanes.active, groups)
        return _Spans(ranks * 0, ranks * 0, ranks)  # gaps that int64 does not hold
    places, steps = _different(lanes.steps, lanes.active, groups)
    shape, size = lanes.active.shape, lanes.active.size
    first, last = np.full(size, NOWHERE), np.full(size, -1)
    np.minimum.at(first, places, steps)
    np.maximum.at(last, places, steps)
    count = np.bincount(places, minlength=size)
    length = np.where(count > 0, last - first + vector, 0)
    first = np.where(count > 0, first, 0)
    return _Spans(first.reshape(shape), length.reshape(shape), count.reshape(shape))
