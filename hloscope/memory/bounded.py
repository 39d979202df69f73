"""Bounds of the traffic of accesses whose addresses, or active lanes, depend on run-time values.

Lanes that read the same run-time values form a group. The values shift its addresses together, so
the sectors of a group depend on its alignment only. In the worst case each group has its worst
alignment and no two groups share a sector. In the best case all groups touch the sectors of the
largest group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final, NamedTuple

from msgspec.structs import replace

from hloscope.affine import Runtime, Var, depends_on_runtime, evaluate_array, variables
from hloscope.indexing import Constraint, RuntimeVariable
from hloscope.ir import TensorType
from hloscope.memory.counting import BUDGET, NOWHERE, Counter, Lanes, counted
from hloscope.memory.requests import BOUNDS, LANE, Requests, Traffic, runtime_terms
from hloscope.support.arrays import Bools, Ints, np
from hloscope.support.devices import LINE, SECTOR

BLOCKS: Final = (SECTOR * 8, LINE * 8)
"""Bits of a sector and of a line."""


def traffic_of(requests: Requests, budget: int = BUDGET) -> Traffic:
    """Count the traffic of one access, with bounds if run-time values decide its sectors.

    Args:
        requests: The access.
        budget: Maximum number of lanes to evaluate; of more lanes a sample is drawn. The alignments
            that run-time values may cause share the budget.

    Raises:
        TooLargeError: Values of a variable of the address, or their number, exceed int64.
    """
    reads = set(map(Runtime, range(len(requests.map.runtime))))
    is_decided = not reads & variables(requests.address, *requests.conditions)
    origins = [
        v.origin for v in requests.map.runtime if v.origin is not None and v.clamp is not None
    ]
    types = [origin.type for origin in origins]
    if any(isinstance(type, TensorType) and type.element.name == "pred" for type in types):
        # A clamped predicate selects one of two maps. Without the clamp the map holds for both
        # values, which is the worst case; the best case is the other branch, with no access.
        plain = requests.map.with_(
            runtime=[
                RuntimeVariable(v.interval, v.name, None, v.index) for v in requests.map.runtime
            ]
        )
        worst = traffic_of(replace(requests, map=plain), budget)
        return replace(worst, precision=BOUNDS, best=Traffic(vector=requests.vector))
    if is_decided or requests.map.is_known_empty or requests.lanes_at_most <= 0:
        return counted(requests, budget)
    terms = runtime_terms(requests.address)
    certain = _without_runtime(requests)
    if terms is None:
        # The address is not linear in the run-time values, so no alignment can be derived.
        best, worst = _unknown_address_bounds(certain, budget)
    else:
        best, worst = _Groups(certain, terms, budget).extremes()
    if certain is not requests:  # it may be that no lane takes part
        return replace(worst, precision=BOUNDS, best=Traffic(vector=requests.vector))
    if (best.histogram, best.lines, best.asked) == (worst.histogram, worst.lines, worst.asked):
        return worst  # whatever is read, as many sectors are moved
    return replace(worst, precision=BOUNDS, best=best)


def _without_runtime(requests: Requests) -> Requests:
    """Return the requests without the constraints that contain run-time variables.

    The result is `requests` itself if there are none.
    """

    def is_certain(constraint: Constraint) -> bool:
        return not depends_on_runtime(constraint[0])

    if all(map(is_certain, [c for domain in requests.domains for c in domain])):
        return requests
    kept = [tuple(filter(is_certain, domain)) for domain in requests.domains]
    return replace(requests, map=requests.map.with_(constraints=kept[0]), others=tuple(kept[1:]))


def _unknown_address_bounds(requests: Requests, budget: int) -> tuple[Traffic, Traffic]:
    """Return the best and the worst traffic of requests with unknown addresses.

    At best a request touches one sector, at worst each lane touches sectors of its own.

    Args:
        requests: The access.
        budget: Maximum number of lanes to evaluate; of more lanes a sample is drawn.
    """
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
    """Return by how many elements run-time values can shift the address, modulo a cache line.

    Args:
        requests: The access.
        terms: Coefficient of each run-time variable in the address.
    """
    found = {0}
    for runtime, factor in terms.items():
        interval = requests.map.runtime[runtime.index].interval
        # Multiples of `factor` repeat modulo a line after `period` values; an interval with fewer
        # values gives fewer shifts.
        period = requests.modulus // gcd(factor, requests.modulus)
        count = min(period, interval.size)
        found = {(a + factor * k) % requests.modulus for a in found for k in range(count)}
    return sorted(found)


class _Blocks(NamedTuple):
    """Fewest and most blocks that each group of lanes touches, for one block size.

    A block is a sector or a line. Both arrays are [requests, groups].
    """

    fewest: Ints
    most: Ints


class _Spans(NamedTuple):
    """Address ranges of the groups of lanes, in elements: three arrays [requests, groups].

    Attributes:
        first: First element of the group, counted from the first line of the request.
        length: Distance from the first element to the end of the last one; gaps count.
        elements: Number of distinct elements; 0 if no lane is active.
    """

    first: Ints
    length: Ints
    elements: Ints


class _Groups:
    """Count the sectors of an access whose address contains run-time values.

    Lanes that read the same run-time values form a group, whose addresses shift together.
    """

    def __init__(self, requests: Requests, terms: Mapping[Runtime, int], budget: int) -> None:
        self._requests: Final = requests
        self._read: Final = tuple(terms)
        self._shifts: Final = _shifts(requests, terms)
        self._lowest: Final[dict[Var, int]] = {
            x: requests.map.runtime[x.index].interval.lo for x in terms
        }
        self._budget: Final = budget
        self._step: Final = gcd(requests.modulus, *terms.values()) * requests.bits
        """Distance in bits between two possible alignments of a group in a line."""
        every = requests.modulus * requests.bits // self._step
        self._is_free: Final = len(self._shifts) == every
        """Can run-time values give a group every alignment that is a multiple of `_step`?"""

    def extremes(self) -> tuple[Traffic, Traffic]:
        """Return the traffic of the access at the best and at the worst run-time values."""
        # Groups without gaps have a closed form for all alignments. Otherwise each shift is tried,
        # and the shifts divide the budget between them.
        if (found := self._counted(self._budget, closed_form_only=True)) is not None:
            return found
        every = self._counted(self._budget // len(self._shifts), closed_form_only=False)
        assert every is not None
        return every

    def _counted(self, budget: int, *, closed_form_only: bool) -> tuple[Traffic, Traffic] | None:
        """Return the traffic at the best and at the worst run-time values.

        `None` if `closed_form_only` is set and the closed form does not apply.

        Args:
            budget: Maximum number of lanes to evaluate.
            closed_form_only: Use only the closed form, which needs groups without gaps that can
                have every alignment.
        """
        best, worst = Counter(self._requests, budget), Counter(self._requests, budget)
        unit = max(self._requests.unit_bits // 8, 1)
        for at, weights in worst.chunks():
            lanes = worst.lanes(at, self._lowest)
            groups = self._groups(at, lanes.active.shape)
            spans = _spans(lanes, groups, self._requests.vector)
            has_gaps = bool((spans.length != spans.elements * self._requests.vector).any())
            if (has_gaps or not self._is_free) and closed_form_only and len(self._shifts) > 1:
                return None
            if self._is_free and not has_gaps:
                sectors, lines = [self._of_spans(spans, size) for size in BLOCKS]
            else:
                sectors, lines = self._of_each_alignment(worst, lanes, groups)
            asked = spans.elements * unit
            # Best: all groups share the sectors of the largest group. Worst: no two groups share
            # one.
            least = sectors.fewest.max(1), lines.fewest.max(1), asked.max(1)
            best.note(at, weights, lanes, *least)
            worst.note(at, weights, lanes, sectors.most.sum(1), lines.most.sum(1), asked.sum(1))
            best.scale = worst.scale
        return best.found(), worst.found()

    def _of_spans(self, spans: _Spans, size: int) -> _Blocks:
        """Return the fewest and most blocks of lane groups without gaps, over all their alignments.

        Args:
            spans: Address ranges of the groups.
            size: Bits of a block: a sector or a line.
        """
        # The first element can lie at `start`, `start + step`, … within a block. Its lowest offset
        # touches the fewest blocks, its highest offset `size - step + start` the most.
        step = min(self._step, size)
        length = spans.length * self._requests.bits
        start = spans.first * self._requests.bits % step
        touched = spans.elements > 0
        fewest = -(-(start + length) // size) * touched
        most = -(-(size - step + start + length) // size) * touched
        return _Blocks(fewest, most)

    def _of_each_alignment(self, counter: Counter, lanes: Lanes, groups: Ints) -> Sequence[_Blocks]:
        """Return the fewest and most blocks of each group of lanes, over all run-time shifts.

        The first result counts sectors, the second cache lines.

        Args:
            counter: Numbers the blocks that the lanes touch.
            lanes: Addresses and activity of the lanes.
            groups: Group number of each lane, [requests, lanes].
        """
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
        """Return a group number for each lane, [requests, lanes].

        Lanes of a request have equal numbers if they read equal run-time elements. Numbers are
        smaller than the number of lanes.

        Args:
            at: Values of the variables that enumerate requests, one row for each request.
            shape: Number of requests, and number of lanes.
        """
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
                # The pair (number, value) is encoded as one integer. Ranks within a row keep
                # equality and make both parts small, so that the product fits into int64.
                if size * end > NOWHERE:
                    (number, end), (value, size) = [(ranked(x), shape[1]) for x in (number, value)]
                number, end = number * size + value, end * size
        return ranked(number)


def ranked(numbers: Ints) -> Ints:
    """Return, for each number, how many numbers of the same request are smaller.

    `numbers` and the result are [requests, lanes].
    """
    order = np.argsort(numbers, axis=1)
    ordered = np.take_along_axis(numbers, order, axis=1)
    smaller = np.broadcast_to(np.arange(numbers.shape[1]), numbers.shape).copy()
    # Equal numbers must get the rank of the first of them: their own positions are set to 0, and
    # the running maximum then carries the first position on.
    smaller[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0
    ranks = np.empty_like(smaller)
    np.put_along_axis(ranks, order, np.maximum.accumulate(smaller, axis=1), axis=1)
    return ranks


def _distinct_numbers(numbers: Ints, active: Bools, groups: Ints) -> tuple[Ints, Ints]:
    """Return the distinct numbers of the active lanes of each group.

    Both results are flat arrays with one entry per distinct number: its group, as `request * lanes
    + group`, and the number itself. Numbers may be replaced by their ranks in the request.

    Args:
        numbers: A number of each lane, such as that of its sector, [requests, lanes].
        active: Is the lane active? [requests, lanes].
        groups: Group number of each lane, [requests, lanes].
    """
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
    """Count the distinct numbers of the active lanes of each group: [requests, groups]."""
    places, _ = _distinct_numbers(numbers, active, groups)
    return np.bincount(places, minlength=active.size).reshape(active.shape)


def _spans(lanes: Lanes, groups: Ints, vector: int) -> _Spans:
    """Return the address range of each group of lanes, in elements.

    Positions count from the first line that the request touches.

    Args:
        lanes: Addresses and activity of the lanes.
        groups: Group number of each lane, [requests, lanes].
        vector: Elements that a lane accesses.
    """
    if int(lanes.steps.max(initial=0)) >= NOWHERE // lanes.active.shape[1]:
        ranks = _distinct(lanes.steps, lanes.active, groups)
        return _Spans(ranks * 0, ranks * 0, ranks)  # int64 does not hold the gaps
    places, steps = _distinct_numbers(lanes.steps, lanes.active, groups)
    shape, size = lanes.active.shape, lanes.active.size
    first, last = np.full(size, NOWHERE), np.full(size, -1)
    np.minimum.at(first, places, steps)
    np.maximum.at(last, places, steps)
    count = np.bincount(places, minlength=size)
    length = np.where(count > 0, last - first + vector, 0)
    first = np.where(count > 0, first, 0)
    return _Spans(first.reshape(shape), length.reshape(shape), count.reshape(shape))
