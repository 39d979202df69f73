"""How many sectors and lines the requests of an access move: counted over the whole grid.

Requests that behave alike are counted once (`periods`); what is left is evaluated with numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import product
from math import gcd, prod
from typing import Final, NamedTuple

from hloscope.affine import (
    Expr,
    Interval,
    Runtime,
    Var,
    as_sum,
    bounds,
    depends_on_runtime,
    evaluate_array,
    from_terms,
    variables,
)
from hloscope.arrays import Bools, Ints, np
from hloscope.devices import LINE, SECTOR
from hloscope.errors import TooLargeError
from hloscope.indexing import Constraint
from hloscope.memory.periods import Values, representatives
from hloscope.memory.requests import LANE, Requests, runtime_terms
from hloscope.memory.traffic import BOUNDS, EXACT, SAMPLED, Request, Traffic

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
_NOWHERE: Final = (1 << 63) - 1
_SLOWER: Final = 16
"""How many times as long numpy takes for Python's integers, which int64 doesn't hold."""


def traffic_of(requests: Requests, budget: int = BUDGET) -> Traffic:
    """Count what the requests of an access move.

    Args:
        requests: The access.
        budget: Lanes to look at, at most; beyond it a sample is drawn.  What is read at run time
            is tried at several alignments, which share it.

    Raises:
        TooLargeError: A variable of the address has values that int64 doesn't hold, or so many.
    """
    if requests.map.is_known_empty or requests.lanes_at_most <= 0:
        return Traffic(vector=requests.vector)
    reads = set(map(Runtime, range(len(requests.map.runtime))))
    used = variables(requests.address, *requests.conditions)
    if reads & used:
        return _bounded(requests, budget)
    return _Counter(requests, budget).count({})


def _bounded(requests: Requests, budget: int) -> Traffic:
    """The most and the least that values read at run time can lead to."""
    terms = runtime_terms(requests.address)
    in_constraints = variables(*requests.conditions)
    if terms is None or any(isinstance(v, Runtime) for v in in_constraints):
        return _unknown(requests, budget)
    read, tried = tuple(terms), [*_alignments(requests, terms)]
    budget //= len(tried)
    lowest, highest = _Counter(requests, budget).extremes(tried, read)
    best, worst = _Counter(requests, budget).count_groups(tried[lowest], read)
    if highest != lowest:
        _, worst = _Counter(requests, budget).count_groups(tried[highest], read)
    if (best.histogram, best.lines) == (worst.histogram, worst.lines):
        return worst  # whatever is read, as many sectors are moved
    return replace(worst, precision=BOUNDS, best=best)


def _alignments(requests: Requests, terms: Mapping[Runtime, int]) -> Iterator[dict[Var, int]]:
    """Values of what is read at run time, one for each alignment to a line."""
    choices: list[list[tuple[Var, int]]] = []
    for runtime, factor in terms.items():
        interval = requests.map.runtime[runtime.index].interval
        step = requests.modulus // gcd(factor, requests.modulus)
        count = min(step, interval.hi - interval.lo + 1)
        values = list(range(interval.lo, interval.lo + count))
        if prod(map(len, choices)) * len(values) > MOST_ALIGNMENTS:
            values = sorted({values[0], values[len(values) // 2], values[-1]})[:1]
        choices.append([(runtime, value) for value in values])
    for chosen in product(*choices):
        yield dict(chosen)


def _unknown(requests: Requests, budget: int) -> Traffic:
    """Nothing is known of addresses: at best one sector a request, at worst one for each lane.

    Where values read at run time say which lanes take part, it may be all of them, or none.
    """
    lowest: dict[Var, int] = {Runtime(k): v.interval.lo for k, v in enumerate(requests.map.runtime)}
    certain = _without_runtime(requests)
    found = _Counter(certain, budget).count(lowest)
    each = max(requests.unit_bits // 8, 1)
    lanes = requests.warp
    requests_there = max(found.requests, 0)
    at_least = requests_there if certain is requests else 0
    worst = replace(
        found,
        sectors=requests_there * lanes,
        lines=requests_there * lanes,
        asked=requests_there * lanes * each,
        needed=-(-requests_there * lanes * each // SECTOR),
        histogram={lanes: requests_there} if requests_there else {},
        precision=BOUNDS,
        worst=None,
        typical=None,
    )
    best = replace(
        found,
        requests=at_least,
        sectors=at_least,
        lines=at_least,
        asked=at_least * each,
        needed=at_least,
        histogram={1: at_least} if at_least else {},
        worst=None,
        typical=None,
    )
    return replace(worst, best=best)


def _without_runtime(requests: Requests) -> Requests:
    """The requests without conditions on values read at run time; the same if there are none."""

    def is_certain(constraint: Constraint) -> bool:
        return not depends_on_runtime(constraint[0])

    if all(map(is_certain, [c for domain in requests.domains for c in domain])):
        return requests
    kept = [tuple(filter(is_certain, domain)) for domain in requests.domains]
    return replace(requests, map=requests.map.with_(constraints=kept[0]), others=tuple(kept[1:]))


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


class _Lanes(NamedTuple):
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


class _Example(NamedTuple):
    """A request: its free variables, and the address of each lane, if it is active."""

    at: Mapping[Var, int]
    addresses: Sequence[int]
    active: Sequence[bool]


class _Counter:
    """Counts the requests of one access."""

    def __init__(self, requests: Requests, budget: int) -> None:
        self._requests = requests
        map = requests.map
        self._free = requests.free
        self._used = variables(requests.address, *requests.conditions)
        self._values: Final = _values_of(requests)
        self._sizes = [v.count for v in self._values]
        self._total = prod(self._sizes)
        self._scale = 1.0
        unit = max(requests.unit_bits // 8, 1)
        most = prod([v.total for v in self._values]) * requests.warp * unit
        self._weight: Final = np.dtype(np.int64 if most <= _NOWHERE else object)
        """What holds how many lanes, and bytes, a request stands for."""
        if any(v.total > _NOWHERE or v.runs[-1].stop > _NOWHERE for v in self._values if v.runs):
            raise TooLargeError("more requests than 2**63 are not counted")
        is_beyond = bounds(requests.address, map.box).hi >= _NOWHERE  # bounds end there
        self._budget = max(budget // (_SLOWER if is_beyond else 1) // requests.warp, 1)
        self._sampled = max(self._budget // SAMPLE, 1)
        self._histogram: dict[int, int] = {}
        self._sums = dict.fromkeys(FIGURES, 0)
        self._examples: dict[int, _Example] = {}

    def count(self, given: Mapping[Var, int]) -> Traffic:
        """Count with values for what is read at run time."""
        for each in self._chunks():
            at, weights = self._merged(*each, given)
            lanes = self._lanes(at, given)
            self._add(at, weights, lanes, lanes.active)
        return self._found()

    def count_groups(
        self, given: Mapping[Var, int], read: tuple[Runtime, ...]
    ) -> tuple[Traffic, Traffic]:
        """Count where lanes that read the same value at run time go together.

        The first figure takes the group that touches most and lets the others touch the same
        sectors; the second lets no two groups share one.
        """
        low = _Counter(self._requests, self._budget * self._requests.warp)
        for at, weights in self._chunks():
            lanes = self._lanes(at, given)
            groups = self._groups(at, read, lanes.active.shape)
            self._add(at, weights, lanes, lanes.active, groups)
            largest = _largest_group(self._numbers(lanes.steps, SECTOR * 8), lanes.active, groups)
            low._add(at, weights, lanes, lanes.active & largest, groups)
        low._scale = self._scale
        return low._found(), self._found()

    def extremes(
        self, tried: Sequence[Mapping[Var, int]], read: tuple[Runtime, ...]
    ) -> tuple[int, int]:
        """Of values for what is read at run time those of fewest sectors, and of most, by number.

        The fewest and the most are those that `count_groups` finds; the first one counts.
        """
        if len(tried) == 1:
            return 0, 0
        lows, highs = [[0] * len(tried) for _ in range(2)]
        values = {x: np.array([given[x] for given in tried], dtype=np.int64) for x in tried[0]}
        for at, weights in self._chunks():
            rows = max(CHUNK // len(tried), 1)  # which all are looked at with all values at once
            for start in range(0, len(weights), rows):
                here = {x: some[start : start + rows] for x, some in at.items()}
                weight = weights[start : start + rows]
                groups = self._groups(here, read, (len(weight), self._requests.warp))
                every = {x: np.tile(some, (len(tried), 1)) for x, some in here.items()}
                every |= {x: np.repeat(some, len(weight))[:, None] for x, some in values.items()}
                for sums, sectors in zip(
                    (lows, highs),
                    self._sectors_of_groups(every, np.tile(groups, (len(tried), 1))),
                    strict=True,
                ):
                    found = (sectors.reshape(len(tried), -1) * weight).sum(axis=1).tolist()
                    sums[:] = [a + b for a, b in zip(sums, found, strict=True)]
        lows, highs = ([self._scaled(value) for value in sums] for sums in (lows, highs))
        return lows.index(min(lows)), highs.index(max(highs))

    def _sectors_of_groups(self, at: Mapping[Var, Ints], groups: Ints) -> tuple[Ints, Ints]:
        """The sectors of the group that touches most, and of all groups, request by request."""
        lanes = self._lanes(at, {})
        numbers = self._numbers(lanes.steps, SECTOR * 8)
        most = _count(_is_first(numbers, lanes.active, groups)[1])
        largest = lanes.active & _largest_group(numbers, lanes.active, groups)
        return _count(_is_first(numbers, largest, groups)[1]), most

    # ------------------------------------------------------------------------------- the work

    @property
    def _seen(self) -> int:
        """Lanes that are looked at."""
        is_sample = self._total > self._budget
        return (self._sampled if is_sample else self._total) * self._requests.warp

    def _chunks(self) -> Iterator[tuple[dict[Var, Ints], Ints]]:
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
        self._scale = prod([values.total for values in self._values]) / count
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

    def _lanes(self, at: Mapping[Var, Ints], given: Mapping[Var, int]) -> _Lanes:
        addresses, active = self._addresses(at, given)
        return _Lanes(addresses, self._from_line(addresses, active), active)

    def _from_line(self, addresses: Ints, active: Bools) -> Ints:
        """Where each active lane reads, in elements from the line that its request reads first.

        So int64 holds what arrays of any size need: for differences beyond that, which no device
        has memory for, these are Python's integers.
        """
        every = bool(active.all())
        touched = addresses if every else np.where(active, addresses, _NOWHERE)
        first = touched.min(axis=1, keepdims=True)
        modulus = self._requests.modulus
        touched = addresses if every else np.where(active, addresses, first)
        steps: Ints = touched - first // modulus * modulus
        if steps.dtype != np.int64 and int(steps.max(initial=0)) <= _NOWHERE:
            steps = steps.astype(np.int64)
        return steps

    def _numbers(self, steps: Ints, size: int) -> Ints:
        """The number of the block of so many bits that each lane reads, from that line on."""
        bits = self._requests.bits
        common = gcd(bits, size)
        factor, divisor = bits // common, size // common  # of most widths the factor is 1
        if factor > 1 and int(steps.max(initial=0)) > _NOWHERE // factor:
            steps = steps.astype(object)
        numbers: Ints = steps if factor == 1 else steps * factor
        return numbers if divisor == 1 else numbers // divisor

    def _groups(
        self, at: Mapping[Var, Ints], read: tuple[Runtime, ...], shape: tuple[int, ...]
    ) -> Ints:
        """Which lanes read the same element at run time: the same numbers."""
        every: dict[Var, Ints] = dict(at)
        every[LANE] = np.arange(self._requests.warp, dtype=np.int64)[None, :]
        number, end = np.zeros(shape, dtype=np.int64), 1
        for runtime in read:
            variable = self._requests.map.runtime[runtime.index]
            for k, other in enumerate(self._requests.map.runtime):
                every.setdefault(Runtime(k), np.int64(other.interval.lo).reshape(1, 1))
            for e in variable.arguments:
                value = np.broadcast_to(evaluate_array(e, every), shape)
                size = int(value.max(initial=0)) + 1
                if size * end > _NOWHERE:
                    (number, end), (value, size) = [(_ranked(x), shape[1]) for x in (number, value)]
                number, end = number * size + value, end * size
        return _ranked(number)

    def _add(
        self,
        at: Mapping[Var, Ints],
        weights: Ints,
        lanes: _Lanes,
        active: Bools,
        groups: Ints | None = None,
    ) -> None:
        """Count requests of these lanes, of which some are active; all together, or by group."""
        unit = max(self._requests.unit_bits // 8, 1)
        taking_part = _count(active)
        is_request = taking_part > 0
        if groups is None:
            distinct = self._counting(lanes.steps, is_request)
        else:
            distinct = self._counting_in_groups(lanes.steps, active, groups)
        sectors, lines = distinct(SECTOR * 8), distinct(LINE * 8)
        asked = distinct(max(self._requests.unit_bits, 8)) * unit
        there: Ints = is_request.astype(np.int64)
        figures = (there, sectors, lines, asked, -(-asked // SECTOR), taking_part)
        for name, values in zip(FIGURES, figures, strict=True):
            self._sums[name] += int((values * weights).sum())
        for count in np.flatnonzero(np.bincount(sectors[is_request])).tolist():
            here = (sectors == count) & is_request
            self._histogram[count] = self._histogram.get(count, 0) + int(weights[here].sum())
            if count not in self._examples:
                row = int(np.argmax(here))
                self._examples[count] = _Example(
                    {x: int(values[row, 0]) for x, values in at.items()},
                    lanes.addresses[row].tolist(),
                    lanes.active[row].tolist(),
                )

    def _counting(self, steps: Ints, is_request: Bools) -> Callable[[int], Ints]:
        """What counts the different blocks of so many bits that each request touches.

        Lanes that are not active stand at the first step of those that are.
        """
        if not bool((steps[:, 1:] >= steps[:, :-1]).all()):
            steps = np.sort(steps, axis=1)

        def distinct(size: int) -> Ints:
            numbers = self._numbers(steps, size)  # in order, as the steps are
            return (_count(numbers[:, 1:] != numbers[:, :-1]) + 1) * is_request

        return distinct

    def _counting_in_groups(
        self, steps: Ints, active: Bools, groups: Ints
    ) -> Callable[[int], Ints]:
        """The same, where groups of lanes share no block."""

        def distinct(size: int) -> Ints:
            return _count(_is_first(self._numbers(steps, size), active, groups)[1])

        return distinct

    def _found(self) -> Traffic:
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
            EXACT if self._scale == 1.0 else SAMPLED,
            worst,
            typical,
            vector=self._requests.vector,
            seen=self._seen,
        )

    def _scaled(self, value: int) -> int:
        return round(value * self._scale) if self._scale != 1.0 else value

    def _request(self, example: _Example, sectors: int) -> Request:
        bits = self._requests.bits
        names = self._requests.map.names
        placed = {names[x]: value for x, value in example.at.items() if _is_worth_saying(self, x)}
        first = [
            int(a) * bits // 8 if on else None
            for a, on in zip(example.addresses, example.active, strict=True)
        ]
        return Request(placed, tuple(first), max(self._requests.unit_bits // 8, 1), sectors)


def _count(some: Bools) -> Ints:
    """How many lanes of each request; in bytes, which are added faster, where they hold that."""
    small = some.shape[1] < 256
    bytes_ = some.view(np.uint8)
    counted: Ints = bytes_.sum(axis=1, dtype=np.uint8 if small else np.int64).astype(np.int64)
    return counted


def _is_worth_saying(counter: _Counter, x: Var) -> bool:
    interval: Interval = dict(counter._free)[x]
    return interval.hi > interval.lo


def _ranked(number: Ints) -> Ints:
    """The numbers of each row as small ones: how many of the row are smaller."""
    order = np.argsort(number, axis=1)
    ordered = np.take_along_axis(number, order, axis=1)
    smaller = np.broadcast_to(np.arange(number.shape[1]), number.shape).copy()
    smaller[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0
    ranks = np.empty_like(smaller)
    np.put_along_axis(ranks, order, np.maximum.accumulate(smaller, axis=1), axis=1)
    return ranks


def _is_first(numbers: Ints, active: Bools, groups: Ints) -> tuple[Ints, Bools]:
    """The groups of all lanes, and whether a lane is the first of its group with its number.

    Lanes stand in another order than before: by group, then number, those that are not active last.
    """
    room = _NOWHERE // active.shape[1]  # for the numbers of each group in an int64
    if int(numbers.max(initial=0)) >= room:
        numbers = _ranked(numbers)
    keys = np.where(active, groups * room + numbers, _NOWHERE)
    keys.sort(axis=1)
    is_first = keys != _NOWHERE
    is_first[:, 1:] &= keys[:, 1:] != keys[:, :-1]
    return keys // room, is_first


def _largest_group(sectors: Ints, active: Bools, groups: Ints) -> Bools:
    """For each request the lanes of the group that touches most sectors, the first of several."""
    count, lanes = sectors.shape
    group, is_first = _is_first(sectors, active, groups)
    rows, at = np.nonzero(is_first)
    places = rows * lanes + group[rows, at]
    touched = np.bincount(places, minlength=count * lanes).reshape(count, lanes)
    largest: Bools = groups == touched.argmax(axis=1)[:, None]
    return largest
