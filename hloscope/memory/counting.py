"""Count the sectors and cache lines of an access's requests, over the whole grid.

Requests with the same pattern are counted once (`periods`). The rest is evaluated with numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod
from typing import Final, NamedTuple

from hloscope.affine import (
    Expr,
    Runtime,
    Var,
    as_sum,
    bounds,
    evaluate_array,
    from_terms,
    variables,
)
from hloscope.errors import TooLargeError
from hloscope.indexing import Constraint, unravel
from hloscope.memory.periods import Values, representatives
from hloscope.memory.requests import EXACT, LANE, SAMPLED, Request, Requests, Traffic
from hloscope.memory.touched import satisfied
from hloscope.support.arrays import Bools, Ints, np
from hloscope.support.devices import LINE, SECTOR

BUDGET: Final = 1 << 20
"""Maximum number of lanes to evaluate; above it a sample of the requests is drawn."""
SAMPLE: Final = 2
"""Divisor of the budget for a sample: it evaluates `budget / SAMPLE` lanes."""
CHUNK: Final = 1 << 13
"""Number of requests that are evaluated in one numpy call."""
FEW: Final = 32
"""Up to this many requests are counted without grouping equal patterns."""
MOST_CONDITIONS: Final = 32
"""Maximum number of constraints in a pattern; beyond it requests are not merged.

Each constraint is one bit of an int64.
"""
FIGURES: Final = ("requests", "sectors", "lines", "asked", "needed", "lanes")
NOWHERE: Final = (1 << 63) - 1
_SLOWER: Final = 16
"""How many times slower numpy computes with Python integers, which hold values beyond int64."""


def counted(requests: Requests, budget: int = BUDGET) -> Traffic:
    """Count the traffic of an access whose address and lanes depend on no run-time value.

    Args:
        requests: The access.

        budget: Maximum number of lanes to evaluate; above it a sample is drawn.

    Raises:
        TooLargeError: Values of a variable of the address, or their number, exceed int64.
    """
    if requests.map.is_known_empty or requests.lanes_at_most <= 0:
        return Traffic(vector=requests.vector)
    return Counter(requests, budget).count({})


def _values_of(requests: Requests) -> tuple[Values, ...]:
    """Return representative values of each variable that enumerates the requests.

    All values that one value represents have requests of equal traffic, whatever the run-time
    values are.
    """
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
    """Addresses and activity of the lanes of several requests: three arrays [requests, lanes].

    Attributes:
        addresses: Addresses in elements.
        steps: Elements from the start of the first line that the request touches. An inactive lane
            has the step of the active lane with the lowest address.
        active: Is the lane active?
    """

    addresses: Ints
    steps: Ints
    active: Bools


class _Example(NamedTuple):
    """One request: values of the variables that enumerate requests, and each lane's state.

    The state of a lane is its address in elements, and whether it is active.
    """

    at: Mapping[Var, int]
    addresses: Sequence[int]
    active: Sequence[bool]


class Counter:
    """Count the traffic of one access. Figures accumulate in the object."""

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
        """Integer type that can hold the lanes and bytes of all requests with one pattern."""
        if any(v.total > NOWHERE or v.runs[-1].stop > NOWHERE for v in self._values if v.runs):
            raise TooLargeError("more requests than 2**63 are not counted")
        is_beyond = bounds(requests.address, map.box).hi >= NOWHERE  # bounds end there
        self._budget = max(budget // (_SLOWER if is_beyond else 1) // requests.warp, 1)
        self._sampled = max(self._budget // SAMPLE, 1)
        self._histogram: dict[int, int] = {}
        self._sums = dict.fromkeys(FIGURES, 0)
        self._examples: dict[int, _Example] = {}

    def count(self, given: Mapping[Var, int]) -> Traffic:
        """Count all requests and return their traffic.

        Args:
            given: Values of run-time variables; any other one has its lowest value.
        """
        for each in self.chunks():
            at, weights = self._merged(*each, given)
            self._add(at, weights, self.lanes(at, given))
        return self.found()

    # ------------------------------------------------------------------------------- the work

    def chunks(self) -> Iterator[tuple[dict[Var, Ints], Ints]]:
        """Yield the requests in chunks: values of the free variables, and weights.

        A weight is the number of requests that one evaluated request represents.
        """
        if not self._total:
            return
        if self._total > self._budget:
            yield from self._sample()
            return
        for start in range(0, self._total, CHUNK):
            flat = np.arange(start, min(start + CHUNK, self._total))
            yield self._at_places(unravel(flat, self._sizes))

    def _at_places(self, places: list[Ints]) -> tuple[dict[Var, Ints], Ints]:
        """Return values of the free variables, and the number of requests that each represents.

        `places` has, for each free variable, positions among its representative values.
        """
        at: dict[Var, Ints] = {}
        weights = np.ones(len(places[0]), dtype=self._weight)
        for (x, _), values, place in zip(self._free, self._values, places, strict=True):
            found, weight = values.at(place)
            at[x] = found[:, None]
            weights = weights * weight
        return at, weights

    def _sample(self) -> Iterator[tuple[dict[Var, Ints], Ints]]:
        """Yield random requests of weight 1, in chunks; the seed is fixed.

        A request is drawn with a probability proportional to the number that it represents.
        """
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
        """Merge requests with the same pattern: return one of each, with their summed weights.

        Requests have the same pattern if the addresses of their lanes differ by whole lines, and
        the same constraints hold. It suffices to compare the terms without the lane, since
        `_distinguishing_terms` checks that no term has both the lane and another variable.

        Args:
            at: Values of the variables that enumerate requests, one for each request.
            weights: Number of requests that each one represents.
            given: Values of run-time variables.
        """
        parts = self._distinguishing_terms if len(weights) > FEW else None
        if parts is None:
            return at, weights
        address, conditions = parts
        every = {**at, **self._runtime_values(given)}
        alike = evaluate_array(address, every)
        if alike.dtype != np.int64:
            return at, weights
        # The pattern is a number: the address modulo a line, then one bit for each constraint.
        # `MOST_CONDITIONS` bits and the modulus fit into int64.
        alike = alike % self._requests.modulus
        for e, interval in conditions:
            value = evaluate_array(e, every)
            alike = alike * 2 + ((value >= interval.lo) & (value <= interval.hi))
        alike = np.broadcast_to(alike, (len(weights), 1)).ravel()
        _, first, group = np.unique(alike, return_index=True, return_inverse=True)
        summed = np.zeros(len(first), dtype=weights.dtype)
        np.add.at(summed, group, weights)
        # Keep the order of the first occurrences, so that examples do not depend on hash values.
        order = np.argsort(first)
        return {x: values[first[order]] for x, values in at.items()}, summed[order]

    @property
    def _distinguishing_terms(self) -> tuple[Expr, list[Constraint]] | None:
        """Return the address terms and the constraints that distinguish requests.

        These are the ones with free variables and without the lane. `None` if a term or constraint
        contains both, because lanes of different requests then have different patterns.
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

    def _runtime_values(self, given: Mapping[Var, int]) -> dict[Var, Ints]:
        """Return each run-time variable's value: that in `given`, or its lowest one."""
        return {
            Runtime(k): np.int64(given.get(Runtime(k), v.interval.lo)).reshape(1, 1)
            for k, v in enumerate(self._requests.map.runtime)
            if Runtime(k) in self._used
        }

    def lanes(self, at: Mapping[Var, Ints], given: Mapping[Var, int]) -> Lanes:
        """Return the lanes of the requests at these values of the variables.

        In memory the arrays are transposed, so that reductions over lanes run along long rows.

        Args:
            at: Values of the variables that enumerate requests, one for each request.
            given: Values of run-time variables.
        """
        every: dict[Var, Ints] = {
            **self._runtime_values(given),
            **{x: values.T for x, values in at.items()},
            LANE: np.arange(self._requests.warp)[:, None],
        }
        shape = self._requests.warp, len(next(iter(at.values())))
        addresses = np.broadcast_to(evaluate_array(self._requests.address, every), shape).T
        domains = [satisfied(domain, every, shape) for domain in self._requests.domains]
        active = np.logical_or.reduce(domains)
        lane = self._requests.map.dims[0].interval
        if (lane.lo, lane.hi) != (0, self._requests.warp - 1):
            active &= (every[LANE] >= lane.lo) & (every[LANE] <= lane.hi)
        return Lanes(addresses, self._from_line(addresses, active.T), active.T)

    def _from_line(self, addresses: Ints, active: Bools) -> Ints:
        """Return each lane's address in elements, counted from the first line of its request.

        An inactive lane gets the lowest address of the active ones. Values beyond int64 are Python
        integers.
        """
        every = bool(active.all())
        touched = addresses if every else np.where(active, addresses, NOWHERE)
        first = touched.min(axis=1, keepdims=True)
        modulus = self._requests.modulus
        # Inactive lanes get the address of an active lane, so that they touch no further sector.
        touched = addresses if every else np.where(active, addresses, first)
        steps: Ints = touched - first // modulus * modulus
        if steps.dtype != np.int64 and int(steps.max(initial=0)) <= NOWHERE:
            steps = steps.astype(np.int64)
        return steps

    def numbers(self, steps: Ints, size: int) -> Ints:
        """Return the number of each lane's block of `size` bits.

        Blocks count from the first line of the request.

        Args:
            steps: Elements from the first line, as in `Lanes`.
            size: Bits of a block: a sector, a line or a lane's access.
        """
        bits = self._requests.bits
        common = gcd(bits, size)
        factor, divisor = bits // common, size // common  # of most widths the factor is 1
        if factor > 1 and int(steps.max(initial=0)) > NOWHERE // factor:
            steps = steps.astype(object)
        numbers: Ints = steps if factor == 1 else steps * factor
        return numbers if divisor == 1 else numbers // divisor

    def _add(self, at: Mapping[Var, Ints], weights: Ints, lanes: Lanes) -> None:
        """Count sectors, lines and bytes of some requests, and add them to the totals.

        Args:
            at: Values of the variables that enumerate requests, one for each request.
            weights: Number of requests that each one represents.
            lanes: Addresses and activity of their lanes.
        """
        steps = lanes.steps
        if not bool((steps[:, 1:] >= steps[:, :-1]).all()):
            steps = np.sort(steps, axis=1)
        is_request = lane_count(lanes.active) > 0

        # In sorted steps a new block begins where the number differs from its left neighbour.
        def distinct(size: int) -> Ints:
            """Return each request's number of distinct blocks of `size` bits."""
            numbers = self.numbers(steps, size)  # in order, as the steps are
            return (lane_count(numbers[:, 1:] != numbers[:, :-1]) + 1) * is_request

        asked = distinct(max(self._requests.unit_bits, 8)) * max(self._requests.unit_bits // 8, 1)
        self.note(at, weights, lanes, distinct(SECTOR * 8), distinct(LINE * 8), asked)

    def note(
        self,
        at: Mapping[Var, Ints],
        weights: Ints,
        lanes: Lanes,
        sectors: Ints,
        lines: Ints,
        asked: Ints,
    ) -> None:
        """Add the figures of several requests to the totals.

        One request for each number of sectors is kept as an example.

        Args:
            at: Values of the variables that enumerate requests, one for each request.
            weights: Number of requests that each represents.
            lanes: Addresses and activity of their lanes.
            sectors: Sectors of each request.
            lines: Lines of each request.
            asked: Requested bytes of each request.
        """
        taking_part = lane_count(lanes.active)
        is_request = taking_part > 0
        of_requests = is_request.astype(np.int64)
        values = of_requests, sectors, lines, asked, -(-asked // SECTOR), taking_part
        for name, value in zip(FIGURES, values, strict=True):
            self._sums[name] += int((value * weights).sum())
        for count in np.flatnonzero(np.bincount(sectors[is_request])).tolist():
            here = (sectors == count) & is_request
            self._histogram[count] = self._histogram.get(count, 0) + int(weights[here].sum())
            if count not in self._examples:
                row = int(np.argmax(here))
                self._examples[count] = _Example(
                    {x: int(some[row, 0]) for x, some in at.items()},
                    lanes.addresses[row].tolist(),
                    lanes.active[row].tolist(),
                )

    def found(self) -> Traffic:
        """Return the traffic of the requests counted so far.

        Figures of a sample are scaled to all requests.
        """
        sums = {name: self._scaled(value) for name, value in self._sums.items()}
        evaluated = self._sampled if self._total > self._budget else self._total
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
            seen=evaluated * self._requests.warp,
        )

    def _scaled(self, value: int) -> int:
        return round(value * self.scale) if self.scale != 1.0 else value

    def _request(self, example: _Example, sectors: int) -> Request:
        bits = self._requests.bits
        names = self._requests.map.names
        placed = {names[x]: example.at[x] for x, interval in self._free if interval.size > 1}
        first = [
            int(a) * bits // 8 if on else None
            for a, on in zip(example.addresses, example.active, strict=True)
        ]
        return Request(placed, tuple(first), max(self._requests.unit_bits // 8, 1), sectors)


def lane_count(active: Bools) -> Ints:
    """Return the number of true entries in each row of a [requests, lanes] array."""
    # Sums of bytes are faster, and a row of less than 256 lanes cannot overflow them.
    small = active.shape[1] < 256
    bytes_ = active.view(np.uint8)
    counted: Ints = bytes_.sum(axis=1, dtype=np.uint8 if small else np.int64).astype(np.int64)
    return counted
