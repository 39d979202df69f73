"""Requests of warps: an access map in lanes, warps, blocks and loops.

A request is one instruction of one warp. It has a block, a warp of that block, and a value of each
loop of the thread except the one along which a lane loads a vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import (
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Sum,
    Var,
    depends_on_runtime,
    floordiv,
    from_terms,
    known_divisor,
    mod,
    variables,
)
from hloscope.devices import LINE, VECTORS
from hloscope.indexing import (
    Constraint,
    IndexingMap,
    Variable,
    prove_within,
    substituted,
    substituted_constraints,
)
from hloscope.memory.kernel import Launch
from hloscope.simplifier import Verdict

LANE: Final = Dim(0)
WARP: Final = Dim(1)


class Requests(Struct, frozen=True):
    """An access map from (lane, warp, block x, y, z) and loops to addresses.

    Attributes:
        map: The map; its result is the address in elements of the first element of a vector.
        bits: Bits of an element.
        vector: Elements that a lane accesses in one request.
        warp: Lanes of a warp.
        originals: The maps from threads that the requests come from.
        others: Further domains of active lanes, beyond that of `map`.
    """

    map: IndexingMap
    bits: int
    vector: int
    warp: int
    originals: tuple[IndexingMap, ...]
    others: tuple[tuple[Constraint, ...], ...] = ()

    @property
    def original(self) -> IndexingMap:
        """Return the first of the maps from threads that the requests come from."""
        return self.originals[0]

    @property
    def address(self) -> Expr:
        """Return the address, in elements."""
        return self.map.results[0]

    @property
    def domains(self) -> tuple[tuple[Constraint, ...], ...]:
        """Return the domains: a lane is active if all constraints of one of them hold."""
        return (tuple(self.map.constraints), *self.others)

    @property
    def conditions(self) -> list[Expr]:
        """Return the expressions of all constraints."""
        return [e for domain in self.domains for e, _ in domain]

    @property
    def modulus(self) -> int:
        """Return the number of elements after which cache lines repeat."""
        line = LINE * 8
        return line // gcd(line, self.bits)

    @property
    def unit_bits(self) -> int:
        """Return the bits that a lane accesses in one request."""
        return self.bits * self.vector

    @property
    def free(self) -> list[tuple[Var, Interval]]:
        """Return the variables whose values enumerate the requests, with their intervals."""
        found: list[tuple[Var, Interval]] = [
            (Dim(k), v.interval) for k, v in enumerate(self.map.dims) if k
        ]
        found += [(Range(k), v.interval) for k, v in enumerate(self.map.ranges)]
        return found

    @property
    def lanes_at_most(self) -> int:
        """Return the number of lanes of all requests, active or not."""
        return self.warp * prod([i.hi - i.lo + 1 for _, i in self.free])


def requests_of(
    map: IndexingMap,
    bits: int,
    launch: Launch,
    warp: int,
    *,
    widest: int = VECTORS[-1],
    unroll: int = 1,
) -> Requests:
    """Return the requests of an access.

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
    """Return the accesses of one load, with accesses of equal addresses as one.

    A thread may load an element under either of several conditions: its warp makes one request.
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
    """Return the map with lane and warp in place of the thread."""
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
    """Return how many elements a lane accesses at once, and the map to the first of them."""
    if map.is_known_empty or map.is_undefined:
        return 1, map
    # The innermost suitable loop is the one along which XLA and LLVM make vectors.
    for k in range(len(map.ranges) - 1, -1, -1):
        loop = map.ranges[k].interval
        size = loop.hi - loop.lo + 1
        if loop.lo != 0 or size < 2 or (size * bits > widest * 8 and size != unroll):
            continue
        base = _base(map.results[0], Range(k))
        if base is None or _is_read_elsewhere(map, Range(k)):
            continue
        freed = _without_implied(map, Range(k)) if known_divisor(base) % 2 == 0 else map
        vector = _width(freed, k, base, size, bits, widest)
        if vector == size or (vector > 1 and size == unroll):
            return vector, _stepped(freed, k, vector)
    return 1, map


def _base(address: Expr, x: Var) -> Expr | None:
    """Return `address - x` if it does not depend on `x`, else `None`."""
    if address is x:
        return x * 0
    if not isinstance(address, Sum) or dict(address.terms).get(x) != 1:
        return None
    base = address - x
    return None if x in variables(base) else base


def _without_implied(map: IndexingMap, x: Var) -> IndexingMap:
    """Return the map without constraints that forbid vectors and that isl proves redundant."""
    for constraint in map.constraints:
        if _cuts_between(constraint, x, 2) or map.runtime:
            continue
        others = map.with_(constraints=[c for c in map.constraints if c is not constraint])
        if prove_within(others, *constraint).verdict is not Verdict.PROVED:
            return map
        map = others
    return map


def _is_read_elsewhere(map: IndexingMap, x: Var) -> bool:
    return any(x in variables(*v.arguments) for v in map.runtime)


def _width(map: IndexingMap, number: int, base: Expr, size: int, bits: int, widest: int) -> int:
    """Return the most elements of one aligned vector that lies inside or outside the domain."""
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
    """Does a constraint hold for all elements of each aligned vector, or for none of them?"""
    e, interval = constraint
    if x not in variables(e):
        return True
    base = _base(e, x)
    if base is None or known_divisor(base) % vector:
        return False
    return interval.lo % vector == 0 and (interval.hi + 1) % vector == 0


def _stepped(map: IndexingMap, number: int, vector: int) -> IndexingMap:
    """Return the map whose loop advances by one vector a step."""
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
    """Return the coefficients of run-time variables; `None` if they occur non-linearly."""
    terms: Iterable[tuple[Expr, int]]
    terms = address.terms if isinstance(address, Sum) else [(address, 1)]
    found: dict[Runtime, int] = {}
    rest = []
    for term, factor in terms:
        if isinstance(term, Runtime):
            found[term] = factor
        else:
            rest.append((term, factor))
    if depends_on_runtime(from_terms(rest, 0)):
        return None
    return found
