"""How many sectors and lines the requests of an access move: counted over the whole grid.

Requests that behave alike are counted once (`periods`); what is left is evaluated with numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import Final, NamedTuple

from hloscope.affine import (
    Expr,
    Interval,
    Runtime,
    Var,
    as_sum,
    bounds,
    evaluate_array,
    from_terms,
    variables,
)
from hloscope.arrays import Bools, Ints, np
from hloscope.devices import LINE, SECTOR
from hloscope.errors import TooLargeError
from hloscope.indexing import Constraint
from hloscope.memory.periods import Values, representatives
from hloscope.memory.requests import LANE, Requests
from hloscope.memory.traffic import EXACT, SAMPLED, Request, Traffic

BUDGET: Final = 1 << 20
"""Lanes of different requests that are all looked at; of more a sample is drawn."""
SAMPLE: Final = 2
"""A sample is so many times smaller than what is looked at whole."""
CHUNK: Final = 1 << 13
"""Requests looked at at once."""
FEW: Final = 32
"""Of so many requests it is not asked which ones are alike."""
MOST_CONDITIONS: Final = 32
"""Constraints that are told apart, a bit of a number each."""
MOST_ALIGNMENTS: Final = 64
"""Alignments of what is read at run time that are tried."""
FIGURES: Final = ("requests", "sectors", "lines", "asked", "needed", "lanes")
NOWHERE: Final = (1 << 63) - 1
_SLOWER: Final = 16
"""How many times as long numpy takes for Python's integers, which int64 doesn't hold."""


def counted(requests: Requests, budget: int = BUDGET) -> Traffic:
    """Count what the requests of an access move that no value read at run time decides.

    Args:
        requests: The access.
        budget: Lanes to look at, at most; beyond it a sample is drawn.

    Raises:
        TooLargeError: A variable of the address has values that int64 doesn't hold, or so many.
    """
    if requests.map.is_known_empty or requests.lanes_at_most <= 0:
        return Traffic(vector=requests.vector)
    return Counter(requests, budget).count({})


@lru_cache(maxsize=64)
def _values_of(requests: Requests) -> tuple[Values, ...]:
    """What each free variable can be, the same whatever is read at run time."""
    map = requests.map
    origins = [e for v in map.runtime for e in v.arguments]
    return tuple(
        [
            representatives(
                x, interval, requests.address, requests.modulus, requests.domains, origins, map.box
            )
            for x, interval in requests.free
        ]
    )


class Lanes(NamedTuple):
    """The lanes of some requests: requests × lanes.

    Attributes:
        addresses: In elements.
        steps: From the line that the request touches first; of lanes that are not active, those of
            the active lane that touches it first.
        active: Do they take part?
    """

    addresses: Ints
    steps: Ints
    active: Bools


class Figures(NamedTuple):
    """What some requests touch: sectors, lines, bytes, and which lanes take part."""

    sectors: Ints
    lines: Ints
    asked: Ints
    active: Bools


class _Example(NamedTuple):
    """A request: its free variables, and the address of each lane, if it is active."""

    at: Mapping[Var, int]
    addresses: Sequence[int]
    active: Sequence[bool]


class Counter:
    """Counts the requests of one access."""

    def __init__(self, requests: Requests, budget: int) -> None:
        self._requests = requests
        map = requests.map
        self._free = requests.free
        self._used = variables(requests.address, *requests.conditions)
        self._values: Final = _values_of(requests)
        self._sizes = [v.count for v in self._values]
        self._total = prod(self._sizes)
        self.scale = 1.0
        unit = max(requests.unit_bits // 8, 1)
        most = prod([v.total for v in self._values]) * requests.warp * unit
        self._weight: Final = np.dtype(np.int64 if most <= NOWHERE else object)
        """What holds how many lanes, and bytes, a request stands for."""
        if any(v.total > NOWHERE or v.runs[-1].stop > NOWHERE for v in self._values if v.runs):
            raise TooLargeError("more requests than 2**63 are not counted")
        is_beyond = bounds(requests.address, map.box).hi >= NOWHERE  # bounds end there
        self._budget = max(budget // (_SLOWER if is_beyond else 1) // requests.warp, 1)
        self._sampled = max(self._budget // SAMPLE, 1)
        self._histogram: dict[int, int] = {}
        self._sums = dict.fromkeys(FIGURES, 0)
        self._examples: dict[int, _Example] = {}

    def count(self, given: Mapping[Var, int]) -> Traffic:
        """Count with values for what is read at run time."""
        for each in self.chunks():
            at, weights = self._merged(*each, given)
            self._add(at, weights, self.lanes(at, given))
        return self.found()

    # ------------------------------------------------------------------------------- the work

    @property
    def _seen(self) -> int:
        """Lanes that are looked at."""
        is_sample = self._total > self._budget
        return (self._sampled if is_sample else self._total) * self._requests.warp

    def chunks(self) -> Iterator[tuple[dict[Var, Ints], Ints]]:
        """Requests that differ, and how many others each stands for."""
        if not self._total:
            return
        if self._total > self._budget:
            yield from self._sample()
            return
        for start in range(0, self._total, CHUNK):
            flat = np.arange(start, min(start + CHUNK, self._total))
            yield self._at_places(self._unraveled(flat))

    def _unraveled(self, flat: Ints) -> list[Ints]:
        index = []
        for size in reversed(self._sizes):
            index.append(flat % size)
            flat = flat // size
        return index[::-1]

    def _at_places(self, places: list[Ints]) -> tuple[dict[Var, Ints], Ints]:
        at: dict[Var, Ints] = {}
        weights = np.ones(len(places[0]), dtype=self._weight)
        for (x, _), values, place in zip(self._free, self._values, places, strict=True):
            found, weight = values.at(place)
            at[x] = found[:, None]
            weights = weights * weight
        return at, weights

    def _sample(self) -> Iterator[tuple[dict[Var, Ints], Ints]]:
        """Requests drawn with a fixed seed, each as likely as it is frequent."""
        draw = np.random.default_rng(0)
        count = self._sampled
        self.scale = prod([values.total for values in self._values]) / count
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            drawn = zip(self._free, self._values, strict=True)
            at = {x: values.drawn(draw, size)[:, None] for (x, _), values in drawn}
            yield at, np.ones(size, dtype=np.int64)

    def _merged(
        self, at: dict[Var, Ints], weights: Ints, given: Mapping[Var, int]
    ) -> tuple[dict[Var, Ints], Ints]:
        """The first of the requests that are alike, with the weights of all of them.

        They are where the lanes' addresses differ by whole lines only: where the terms without the
        lane do, if no other one depends on anything else, and the same constraints hold.
        """
        parts = self._parts if len(weights) > FEW else None
        if parts is None:
            return at, weights
        address, conditions = parts
        every = {**at, **self._read(given)}
        alike = evaluate_array(address, every)
        if alike.dtype != np.int64:
            return at, weights
        alike = alike % self._requests.modulus
        for e, interval in conditions:
            value = evaluate_array(e, every)
            alike = alike * 2 + ((value >= interval.lo) & (value <= interval.hi))
        alike = np.broadcast_to(alike, (len(weights), 1)).ravel()
        _, first, group = np.unique(alike, return_index=True, return_inverse=True)
        summed = np.zeros(len(first), dtype=weights.dtype)
        np.add.at(summed, group, weights)
        order = np.argsort(first)
        return {x: values[first[order]] for x, values in at.items()}, summed[order]

    @cached_property
    def _parts(self) -> tuple[Expr, list[Constraint]] | None:
        """The terms of the address, and the constraints, without the lane; `None`: lanes differ.

        Every other term, and constraint, depends on the lane alone then, and on what is given.
        """
        others = {x for x, _ in self._free}
        terms = as_sum(self._requests.address)[0]
        rest = [(e, factor) for e, factor in terms if others & variables(e)]
        every = dict.fromkeys([c for domain in self._requests.domains for c in domain])
        conditions = [c for c in every if others & variables(c[0])]
        if len(conditions) > MOST_CONDITIONS:
            return None
        if any(LANE in variables(e) for e, _ in (*rest, *conditions)):
            return None
        return from_terms(rest, 0), conditions

    def _read(self, given: Mapping[Var, int]) -> dict[Var, Ints]:
        """What is read at run time, where that matters: as given, or the least it can be."""
        return {
            Runtime(k): np.int64(given.get(Runtime(k), v.interval.lo)).reshape(1, 1)
            for k, v in enumerate(self._requests.map.runtime)
            if Runtime(k) in self._used
        }

    def _addresses(self, at: Mapping[Var, Ints], given: Mapping[Var, int]) -> tuple[Ints, Bools]:
        """The address of each lane, and whether it is active: requests × lanes.

        In memory the same lane of all requests stands together: what is then said of the lanes of
        each request is said by steps over long rows, not over a few numbers at a time.
        """
        map = self._requests.map
        every: dict[Var, Ints] = {x: values.T for x, values in at.items()}
        every = {**self._read(given), **every, LANE: np.arange(self._requests.warp)[:, None]}
        shape = self._requests.warp, len(next(iter(at.values())))
        addresses = np.broadcast_to(evaluate_array(self._requests.address, every), shape)
        active = np.zeros(shape, dtype=np.bool_)
        for domain in self._requests.domains:
            here = np.ones(shape, dtype=np.bool_)
            for e, interval in domain:
                value = evaluate_array(e, every)
                here &= (value >= interval.lo) & (value <= interval.hi)
            active |= here
        lane = map.dims[0].interval
        if (lane.lo, lane.hi) != (0, self._requests.warp - 1):
            active &= (every[LANE] >= lane.lo) & (every[LANE] <= lane.hi)
        return addresses.T, active.T

    def lanes(self, at: Mapping[Var, Ints], given: Mapping[Var, int]) -> Lanes:
        addresses, active = self._addresses(at, given)
        return Lanes(addresses, self._from_line(addresses, active), active)

    def _from_line(self, addresses: Ints, active: Bools) -> Ints:
        """Where each active lane reads, in elements from the line that its request reads first.

        So int64 holds what arrays of any size need: for differences beyond that, which no device
        has memory for, these are Python's integers.
        """
        every = bool(active.all())
        touched = addresses if every else np.where(active, addresses, NOWHERE)
        first = touched.min(axis=1, keepdims=True)
        modulus = self._requests.modulus
        touched = addresses if every else np.where(active, addresses, first)
        steps: Ints = touched - first // modulus * modulus
        if steps.dtype != np.int64 and int(steps.max(initial=0)) <= NOWHERE:
            steps = steps.astype(np.int64)
        return steps

    def numbers(self, steps: Ints, size: int) -> Ints:
        """The number of the block of so many bits that each lane reads, from that line on."""
        bits = self._requests.bits
        common = gcd(bits, size)
        factor, divisor = bits // common, size // common  # of most widths the factor is 1
        if factor > 1 and int(steps.max(initial=0)) > NOWHERE // factor:
            steps = steps.astype(object)
        numbers: Ints = steps if factor == 1 else steps * factor
        return numbers if divisor == 1 else numbers // divisor

    def _add(self, at: Mapping[Var, Ints], weights: Ints, lanes: Lanes) -> None:
        """Count requests of these lanes, of which some are active."""
        unit = max(self._requests.unit_bits // 8, 1)
        taking_part = lane_count(lanes.active)
        is_request = taking_part > 0
        distinct = self._counting(lanes.steps, is_request)
        sectors, lines = distinct(SECTOR * 8), distinct(LINE * 8)
        asked = distinct(max(self._requests.unit_bits, 8)) * unit
        figures = Figures(sectors, lines, asked, lanes.active)
        self.note(at, weights, figures, lambda row: lanes.addresses[row])

    def note(
        self,
        at: Mapping[Var, Ints],
        weights: Ints,
        figures: Figures,
        addresses: Callable[[int], Ints],
    ) -> None:
        """Add the figures of requests, and keep one of each number of sectors as an example.

        Args:
            at: Values of the free variables.
            weights: How many requests each stands for.
            figures: What each touches.
            addresses: The address of each lane of a request.
        """
        taking_part = lane_count(figures.active)
        is_request = taking_part > 0
        values = (
            is_request.astype(np.int64),
            figures.sectors,
            figures.lines,
            figures.asked,
            -(-figures.asked // SECTOR),
            taking_part,
        )
        for name, value in zip(FIGURES, values, strict=True):
            self._sums[name] += int((value * weights).sum())
        for sectors in np.flatnonzero(np.bincount(figures.sectors[is_request])).tolist():
            here = (figures.sectors == sectors) & is_request
            self._histogram[sectors] = self._histogram.get(sectors, 0) + int(weights[here].sum())
            if sectors not in self._examples:
                row = int(np.argmax(here))
                self._examples[sectors] = _Example(
                    {x: int(some[row, 0]) for x, some in at.items()},
                    addresses(row).tolist(),
                    figures.active[row].tolist(),
                )

    def _counting(self, steps: Ints, is_request: Bools) -> Callable[[int], Ints]:
        """What counts the different blocks of so many bits that each request touches.

        Lanes that are not active stand at the first step of those that are.
        """
        if not bool((steps[:, 1:] >= steps[:, :-1]).all()):
            steps = np.sort(steps, axis=1)

        def distinct(size: int) -> Ints:
            numbers = self.numbers(steps, size)  # in order, as the steps are
            return (lane_count(numbers[:, 1:] != numbers[:, :-1]) + 1) * is_request

        return distinct

    def found(self) -> Traffic:
        sums = {name: self._scaled(value) for name, value in self._sums.items()}
        histogram = {count: self._scaled(n) for count, n in sorted(self._histogram.items())}
        worst = typical = None
        if histogram:
            most = max(histogram)
            usual = max(histogram, key=lambda count: (histogram[count], -count))
            worst = self._request(self._examples[most], most)
            typical = self._request(self._examples[usual], usual)
        return Traffic(
            sums["requests"],
            sums["sectors"],
            sums["lines"],
            sums["asked"],
            sums["needed"],
            histogram,
            sums["lanes"],
            EXACT if self.scale == 1.0 else SAMPLED,
            worst,
            typical,
            vector=self._requests.vector,
            seen=self._seen,
        )

    def _scaled(self, value: int) -> int:
        return round(value * self.scale) if self.scale != 1.0 else value

    def _request(self, example: _Example, sectors: int) -> Request:
        bits = self._requests.bits
        names = self._requests.map.names
        placed = {names[x]: value for x, value in example.at.items() if _is_worth_saying(self, x)}
        first = [
            int(a) * bits // 8 if on else None
            for a, on in zip(example.addresses, example.active, strict=True)
        ]
        return Request(placed, tuple(first), max(self._requests.unit_bits // 8, 1), sectors)


def lane_count(some: Bools) -> Ints:
    """How many lanes of each request; in bytes, which are added faster, where they hold that."""
    small = some.shape[1] < 256
    bytes_ = some.view(np.uint8)
    counted: Ints = bytes_.sum(axis=1, dtype=np.uint8 if small else np.int64).astype(np.int64)
    return counted


def _is_worth_saying(counter: Counter, x: Var) -> bool:
    interval: Interval = dict(counter._free)[x]
    return interval.hi > interval.lo
