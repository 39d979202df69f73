"""Requests of warps and their traffic, and the address term that makes a request uncoalesced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import gcd, prod
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.affine import (
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Sum,
    Var,
    as_sum,
    depends_on_runtime,
    evaluate,
    floordiv,
    known_divisor,
    mod,
    to_text,
    variables,
)
from hloscope.indexing import (
    Constraint,
    IndexingMap,
    Variable,
    prove_within,
    substituted,
    substituted_constraints,
)
from hloscope.ir import size_text
from hloscope.memory.kernel import Launch, Stores
from hloscope.simplifier import Verdict
from hloscope.support.devices import LINE, SECTOR, VECTORS

# --------------------------------------------------------------------------------------------------
# Requests of warps: an access map in lanes, warps, blocks and loops.
#
# A request is one instruction of one warp. It has a block, a warp of that block, and a value of
# each loop of the thread except the one along which a lane loads a vector.


LANE: Final = Dim(0)
WARP: Final = Dim(1)


class Requests(Struct, frozen=True):
    """One access of all warps: a map from lane, warp, block (x, y, z) and loops to addresses.

    Attributes:
        map: The map; its result is the address in elements of the first element of a vector.
        bits: Bits of an element.
        vector: Elements that a lane accesses in one request.
        warp: Lanes of a warp.
        originals: The maps from threads to addresses that the requests come from.
        others: Further domains. A lane is active if it lies in the domain of `map` or in one of
            these.
    """

    map: IndexingMap
    bits: int
    vector: int
    warp: int
    originals: tuple[IndexingMap, ...]
    others: tuple[tuple[Constraint, ...], ...] = ()

    @property
    def original(self) -> IndexingMap:
        """Return the first of `originals`."""
        return self.originals[0]

    @property
    def address(self) -> Expr:
        """Return the address of a lane's first element, in elements."""
        return self.map.results[0]

    @property
    def domains(self) -> tuple[tuple[Constraint, ...], ...]:
        """Return the conditions of active lanes: one domain must hold.

        A domain holds if all of its constraints hold.
        """
        return (tuple(self.map.constraints), *self.others)

    @property
    def conditions(self) -> list[Expr]:
        """Return the expressions of all constraints."""
        return [e for domain in self.domains for e, _ in domain]

    @property
    def modulus(self) -> int:
        """Return the number of elements after which positions within a cache line repeat."""
        line = LINE * 8
        return line // gcd(line, self.bits)

    @property
    def unit_bits(self) -> int:
        """Return the bits that a lane accesses in one request."""
        return self.bits * self.vector

    @property
    def free(self) -> list[tuple[Var, Interval]]:
        """Return the variables that enumerate the requests, with their intervals.

        These are all variables except the lane and run-time variables.
        """
        found: list[tuple[Var, Interval]] = [
            (Dim(k), v.interval) for k, v in enumerate(self.map.dims) if k
        ]
        found += [(Range(k), v.interval) for k, v in enumerate(self.map.ranges)]
        return found

    @property
    def lanes_at_most(self) -> int:
        """Return the number of lanes of all requests, active or not."""
        return self.warp * prod([interval.size for _, interval in self.free])


def requests_of(
    map: IndexingMap,
    bits: int,
    launch: Launch,
    warp: int,
    *,
    widest: int = VECTORS[-1],
    unroll: int = 1,
) -> Requests:
    """Return the requests that an access makes.

    Args:
        map: Map from threads (x, y, z), blocks (x, y, z) and loops to an address in elements.
        bits: Bits of an element.
        launch: Launch dimensions.
        warp: Lanes of a warp.
        widest: Maximum number of bytes that a lane accesses at once.
        unroll: Consecutive elements of a thread in the kernel. A loop of this size is split into
            several vectors if it is too wide for one; any other loop becomes one vector or none.
    """
    by_lane = _by_lane(map, launch, warp)
    vector, with_vector = _with_vector(by_lane, bits, widest, unroll)
    return Requests(with_vector, bits, vector, warp, (map,))


def united(found: Sequence[Requests]) -> list[Requests]:
    """Merge accesses with equal addresses into one.

    A thread may load an element under any of several conditions; its warp then makes one request.
    """
    groups: dict[object, list[Requests]] = {}
    for one in found:
        if one.map.is_known_empty:
            groups[one] = [one]
            continue
        loops = tuple([v.interval for v in one.map.ranges])
        key = one.address, one.bits, one.vector, one.warp, loops, tuple(one.map.runtime)
        groups.setdefault(key, []).append(one)
    return [_union(group) if len(group) > 1 else group[0] for group in groups.values()]


def _union(group: Sequence[Requests]) -> Requests:
    """Return one access with the domains of several, over the smallest box that contains theirs."""
    dims = []
    for k, variable in enumerate(group[0].map.dims):
        every = [one.map.dims[k].interval for one in group]
        # A common box needs each access's own bounds as constraints, or lanes outside of them would
        # count.
        hull = Interval(min([i.lo for i in every]), max([i.hi for i in every]))
        dims.append(Variable(hull, variable.name))
    domains = []
    for one in group:
        own = [
            (Dim(k), v.interval)
            for k, v in enumerate(one.map.dims)
            if v.interval != dims[k].interval
        ]
        domains.append((*own, *one.map.constraints))
    map = group[0].map
    whole = IndexingMap(dims, map.ranges, map.runtime, map.results, domains[0])
    originals = tuple([map for one in group for map in one.originals])
    return replace(group[0], map=whole, originals=originals, others=tuple(domains[1:]))


def _by_lane(map: IndexingMap, launch: Launch, warp: int) -> IndexingMap:
    """Return the map with variables for lane and warp in place of the thread."""
    if map.is_known_empty:
        empty = [Variable(Interval(0, -1))] * 5
        return IndexingMap(empty, map.ranges, map.runtime, map.results)
    x, y, _ = launch.threads
    thread = WARP * warp + LANE
    # Threads are numbered with x fastest, and warps are consecutive threads in that order.
    if y == 1 and launch.threads[2] == 1:
        places: list[Expr] = [thread, Dim(0) * 0, Dim(0) * 0]
    else:
        places = [mod(thread, x), mod(floordiv(thread, x), y), floordiv(thread, x * y)]
    new: dict[Var, Expr] = {Dim(k): e for k, e in enumerate(places)}
    new |= {Dim(3 + k): Dim(2 + k) for k in range(3)}
    warps = -(-launch.block_size // warp)
    # The last warp may have more lanes than threads are left.
    inside = [(thread, Interval(0, launch.block_size - 1))]
    inside += [
        (place, variable.interval)
        for place, variable in zip(places, map.dims[:3], strict=True)
        if variables(place)
    ]
    found = IndexingMap(
        [
            Variable(Interval(0, warp - 1), "lane"),
            Variable(Interval(0, warps - 1), "warp"),
            *map.dims[3:],
        ],
        map.ranges,
        [v.at(substituted(v.arguments, new)) for v in map.runtime],
        substituted(map.results, new),
        [*substituted_constraints(map.constraints, new), *inside],
    )
    return found.simplify(replace_points=False)


def _with_vector(map: IndexingMap, bits: int, widest: int, unroll: int) -> tuple[int, IndexingMap]:
    """Return how many elements a lane accesses at once, and the map to the first of them.

    Args:
        map: Map from lanes, warps, blocks and loops to addresses in elements.
        bits: Bits of an element.
        widest: Maximum number of bytes that a lane accesses at once.
        unroll: Consecutive elements that a thread of the kernel computes.
    """
    if map.is_known_empty or map.is_undefined:
        return 1, map
    # The innermost suitable loop is the one along which XLA and LLVM make vectors.
    for k in range(len(map.ranges) - 1, -1, -1):
        loop = map.ranges[k].interval
        size = loop.size
        if loop.lo != 0 or size < 2 or (size * bits > widest * 8 and size != unroll):
            continue
        base = _base(map.results[0], Range(k))
        # A run-time value that depends on the loop selects which element is read.
        if base is None or Range(k) in variables(*[e for v in map.runtime for e in v.arguments]):
            continue
        freed = _without_implied(map, Range(k)) if known_divisor(base) % 2 == 0 else map
        vector = _width(freed, k, base, size, bits, widest)
        if vector == size or (vector > 1 and size == unroll):
            return vector, _stepped(freed, k, vector)
    return 1, map


def _base(address: Expr, x: Var) -> Expr | None:
    """Return `address - x` if it does not depend on `x`; `None` if it does."""
    if address is x:
        return x * 0
    if not isinstance(address, Sum) or dict(address.terms).get(x) != 1:
        return None
    base = address - x
    return None if x in variables(base) else base


def _without_implied(map: IndexingMap, x: Var) -> IndexingMap:
    """Return the map without redundant constraints that cut vectors along loop variable `x`.

    isl proves that they are redundant. If it fails for such a constraint, the search ends there.
    """
    for constraint in map.constraints:
        if _cuts_between(constraint, x, 2) or map.runtime:
            continue
        others = map.with_(constraints=[c for c in map.constraints if c is not constraint])
        if prove_within(others, *constraint).verdict is not Verdict.PROVED:
            return map
        map = others
    return map


def _width(map: IndexingMap, number: int, base: Expr, size: int, bits: int, widest: int) -> int:
    """Return the largest vector along a loop that is aligned and never cut by the domain.

    Args:
        map: Map from lanes and loops to addresses in elements.
        number: Number of the loop.
        base: The address without the loop variable.
        size: Number of iterations.
        bits: Bits of an element.
        widest: Maximum number of bytes of a vector.
    """
    x = Range(number)
    vector = 1
    while (
        size % (vector * 2) == 0
        and vector * 2 * bits <= widest * 8
        and known_divisor(base) % (vector * 2) == 0
        and all(_cuts_between(c, x, vector * 2) for c in map.constraints)
    ):
        vector *= 2
    narrowest = VECTORS[0] if bits >= 8 else 1  # elements below a byte are stored as whole bytes
    return vector if vector * bits >= 8 * narrowest else 1


def _cuts_between(constraint: Constraint, x: Var, vector: int) -> bool:
    """Does a constraint hold for all elements of an aligned vector along `x`, or for none?"""
    e, interval = constraint
    if x not in variables(e):
        return True
    base = _base(e, x)
    if base is None or known_divisor(base) % vector:
        return False
    return interval.lo % vector == 0 and (interval.hi + 1) % vector == 0


def _stepped(map: IndexingMap, number: int, vector: int) -> IndexingMap:
    """Return the map with loop `number` stepping over whole vectors of `vector` elements."""
    size = map.ranges[number].interval.hi + 1
    ranges = list(map.ranges)
    ranges[number] = Variable(Interval(0, size // vector - 1), ranges[number].name)
    new: dict[Var, Expr] = {Range(number): Range(number) * vector}
    return IndexingMap(
        map.dims,
        ranges,
        map.runtime,
        substituted(map.results, new),
        substituted_constraints(map.constraints, new),
    )


def runtime_terms(address: Expr) -> dict[Runtime, int] | None:
    """Return the coefficients of run-time variables in an address.

    `None` if a run-time variable occurs in a term that is not linear.
    """
    terms, _ = as_sum(address)
    if depends_on_runtime(*[e for e, _ in terms if not isinstance(e, Runtime)]):
        return None
    return {e: factor for e, factor in terms if isinstance(e, Runtime)}


# --------------------------------------------------------------------------------------------------
# Traffic of an access: its requests, sectors, cache lines and bytes, and sums of them.


EXACT, SAMPLED, BOUNDS = "exact", "sampled", "bounds"


class Request(Struct, frozen=True):
    """One request of a warp: its position in the grid and loops, and the addresses of its lanes.

    Attributes:
        at: Values of warp, block and loop variables, by printed name.
        addresses: Address in bytes of each lane's first byte; `None` for inactive lanes.
        unit: Bytes that a lane accesses.
        sectors: Number of distinct sectors.
    """

    at: Mapping[str, int]
    addresses: tuple[int | None, ...]
    unit: int
    sectors: int


class Traffic(Struct, frozen=True):
    """Traffic of the requests of one access.

    Attributes:
        requests: Requests with an active lane.
        sectors: Sectors of all requests; the same sector in two requests counts twice.
        lines: Cache lines of all requests.
        asked: Bytes requested; the same byte twice in a request counts once.
        needed: Sectors needed if the bytes of each request were contiguous and aligned.
        histogram: Number of requests by sectors.
        lanes: Active lanes of all requests.
        precision: `exact`, `sampled` (figures are scaled up), or `bounds` with `best`.
        worst: A request with the most sectors.
        typical: A request with the most frequent number of sectors.
        best: Lower bounds over run-time values; the other figures are then upper bounds.
        vector: Elements of a lane in one request.
        seen: Number of lanes that were evaluated.
        tries: Maximum number of attempts of each request; the figures count one attempt each.
    """

    requests: int = 0
    sectors: int = 0
    lines: int = 0
    asked: int = 0
    needed: int = 0
    histogram: Mapping[int, int] = field(default_factory=dict)
    lanes: int = 0
    precision: str = EXACT
    worst: Request | None = None
    typical: Request | None = None
    best: Traffic | None = None
    vector: int = 1
    seen: int = 0
    tries: int = 1

    @property
    def moved(self) -> int:
        """Return the bytes transferred, in whole sectors."""
        return self.sectors * SECTOR

    @property
    def utilisation(self) -> float:
        """Return the requested bytes over the transferred bytes; 1 if nothing is transferred."""
        return self.asked / self.moved if self.moved else 1.0

    @property
    def efficiency(self) -> float:
        """Return the needed over the transferred sectors.

        A request in which a whole warp reads one element has efficiency 1.
        """
        return self.needed / self.sectors if self.sectors else 1.0

    @property
    def wasted(self) -> int:
        """Return the bytes transferred in excess of those that contiguous accesses would need."""
        return max(self.sectors - self.needed, 0) * SECTOR

    @property
    def fewest(self) -> int:
        """Return the sectors of the best request; 0 without requests."""
        return min(self.histogram, default=0)

    @property
    def most(self) -> int:
        """Return the sectors of the worst request; 0 without requests."""
        return max(self.histogram, default=0)

    @property
    def mean(self) -> float:
        """Return the mean number of sectors of a request."""
        return self.sectors / self.requests if self.requests else 0.0


def together(parts: list[Traffic]) -> Traffic:
    """Return the total traffic of several accesses that make separate requests."""
    if len(parts) == 1:
        return parts[0]
    histogram: dict[int, int] = {}
    for part in parts:
        for sectors, count in part.histogram.items():
            histogram[sectors] = histogram.get(sectors, 0) + count
    order = [EXACT, SAMPLED, BOUNDS]
    precision = max([part.precision for part in parts], key=order.index, default=EXACT)
    worst = max(parts, key=lambda part: part.most, default=Traffic())
    largest = max(parts, key=lambda part: part.requests, default=Traffic())
    best = None
    if any(part.best for part in parts):
        best = together([part.best or part for part in parts])
    return Traffic(
        sum(part.requests for part in parts),
        sum(part.sectors for part in parts),
        sum(part.lines for part in parts),
        sum(part.asked for part in parts),
        sum(part.needed for part in parts),
        dict(sorted(histogram.items())),
        sum(part.lanes for part in parts),
        precision,
        worst.worst,
        largest.typical,
        best,
        max([part.vector for part in parts], default=1),
        sum(part.seen for part in parts),
        max([part.tries for part in parts], default=1),
    )


def stored(traffic: Traffic, stores: Stores) -> Traffic:
    """Return the traffic of stores that may be repeated or combined, with bounds.

    Args:
        traffic: Traffic if each store is made once.
        stores: How often each store is made.
    """
    found = traffic
    if stores.run > 1 or (stores.least, stores.most) != (1, 1):
        best = _scaled(traffic.best or traffic, stores.least, stores.run)
        worst = _scaled(traffic, stores.most, 1)
        found = replace(worst, precision=BOUNDS, best=best)
    return replace(found, tries=stores.tries) if stores.tries > 1 else found


def _scaled(traffic: Traffic, times: int, parts: int) -> Traffic:
    """Return the traffic with all counts times `times`, divided by `parts` and rounded down."""

    def scaled(value: int) -> int:
        return value * times // parts

    return Traffic(
        scaled(traffic.requests),
        scaled(traffic.sectors),
        scaled(traffic.lines),
        scaled(traffic.asked),
        scaled(traffic.needed),
        {sectors: scaled(count) for sectors, count in traffic.histogram.items() if scaled(count)},
        scaled(traffic.lanes),
        worst=traffic.worst,
        typical=traffic.typical,
        vector=traffic.vector,
        seen=traffic.seen,
    )


# --------------------------------------------------------------------------------------------------
# The address term that makes a request uncoalesced, found by evaluating the terms.
#
# The terms of the address are evaluated over the lanes of one request. The result is the term with
# the largest steps between neighbouring lanes, among those whose steps exceed the bytes of a lane.


class WasteCause(Struct, frozen=True):
    """The address term that causes unused sectors in a request.

    Attributes:
        term: The term of the address, in the variables of the thread map.
        every: Number of lanes between two changes of the term.
        step: Change of the address in bytes where the term changes.
    """

    term: str
    every: int
    step: int

    def __str__(self) -> str:
        apart = f"{size_text(abs(self.step))} apart"
        if self.every == 1:
            return f"`{self.term}`: neighbouring lanes are {apart}"
        return f"`{self.term}`: every {self.every} lanes the address jumps {size_text(self.step)}"


def waste_cause_of(requests: Requests, request: Request) -> WasteCause | None:
    """Return the address term that makes a request touch too many sectors.

    `None` if the request needs at most one sector more than contiguous bytes, or no term is found.

    >>> from hloscope.indexing import IndexingMap
    >>> from hloscope.memory.kernel import Launch
    >>> from hloscope.memory.requests import requests_of
    >>> from hloscope.memory.bounded import traffic_of
    >>> launch = Launch.of(128, 32)
    >>> map = launch.map((), [Dim(0) * 4096 + Dim(3)])
    >>> requests = requests_of(map, 32, launch, 32)
    >>> print(waste_cause_of(requests, traffic_of(requests).worst))
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
    best: tuple[int, WasteCause] | None = None
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
        found = WasteCause(text, max(every, 1), far[0][1])
        if best is None or weight > best[0]:
            best = weight, found
    return best[1] if best else None


def _threads_of(requests: Requests, request: Request) -> list[dict[Var, int] | None] | None:
    """Return the values of the original map's variables for each lane; `None` for inactive lanes.

    The result is `None` if they cannot be determined. `request` is a request of the access
    `requests`.
    """
    original = requests.original
    x, y = (original.dims[k].interval.hi + 1 for k in (0, 1))
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
