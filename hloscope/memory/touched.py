"""Footprint of accesses: distinct elements, bytes and sectors of an array.

The variables of a map fall into independent groups. Each group yields a set of addresses, and the
addresses of the map are the sums of one address of each set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import (
    POS_INF,
    Const,
    Dim,
    Expr,
    Range,
    Runtime,
    Var,
    as_sum,
    evaluate,
    evaluate_array,
    substitute,
    variables,
)
from hloscope.indexing import (
    Constraint,
    IndexingMap,
    RuntimeVariable,
    address_map,
    padded_physical_sizes,
    substituted,
    substituted_constraints,
)
from hloscope.ir import TensorType, storage_bits
from hloscope.memory.storage import data_bytes, element_count, is_array, storage_bytes
from hloscope.support.arrays import Bools, Ints, np, sorted_unique
from hloscope.support.devices import SECTOR

MOST_POINTS: Final = 1 << 20
"""Maximum number of points of a group of variables, and of sums of groups, that are enumerated.

Beyond it the footprint is an upper bound.
"""


class Touched(Struct, frozen=True):
    """Footprint of an array: the distinct elements, bytes and sectors that are accessed.

    Attributes:
        elements: Distinct elements.
        bytes: Bytes of these elements.
        sectors: Distinct sectors that contain them.
        reads: Number of accesses, counted with repetitions.
        is_exact: Are the figures exact, and not only upper bounds?
    """

    elements: int = 0
    bytes: int = 0
    sectors: int = 0
    reads: int = 0
    is_exact: bool = True

    @property
    def reuse(self) -> float:
        """Return the mean number of accesses of an element; 0 if none is accessed."""
        return self.reads / self.elements if self.elements else 0.0


def whole(type: TensorType, reads: int | None = None, *, is_exact: bool = True) -> Touched:
    """Return the footprint of an access to all elements of an array.

    Args:
        type: Type of the array.
        reads: Number of accesses, counted with repetitions; `None` for one of each element.
        is_exact: Are all elements certainly accessed? The result is exact only if the number of
            sectors is also known exactly.
    """
    if not is_array(type):
        return Touched(is_exact=False)
    count, size, is_known = element_count(type), data_bytes(type), True
    if type.is_tiled and count:
        found = _measured(_part(IndexingMap.identity(type.shape), type), type)
        sectors, is_known = found.sectors, found.is_exact
    else:
        sectors = -(-size // SECTOR)
    return Touched(count, size, sectors, count if reads is None else reads, is_exact and is_known)


def _most_sectors(type: TensorType) -> int:
    return -(-storage_bytes(type) // SECTOR)


def touched_by(maps: Sequence[IndexingMap], type: TensorType) -> Touched:
    """Return the footprint of several accesses together.

    Args:
        maps: Maps to logical indices of the array.
        type: Type of the array.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> column = IndexingMap.parse("(d0) -> (d0, 3), domain: d0 in [0, 7]")
    >>> touched_by([column], parse_type("f32[8,1000]"))
    Touched(elements=8, bytes=32, sectors=8, reads=8, is_exact=True)
    """
    return _touched_by(tuple(dict.fromkeys(maps)), type)


# Cached: `coalesce` of a 10 MB dump takes 1.2 × as long without it.
@lru_cache(maxsize=1 << 12)
def _touched_by(maps: tuple[IndexingMap, ...], type: TensorType) -> Touched:
    if not maps or element_count(type) == 0:
        return Touched()
    if any(map.runtime for map in maps):
        alike: dict[Shift | IndexingMap, list[IndexingMap]] = {}
        for map in maps:
            alike.setdefault((map.runtime and _shift(map)) or map, []).append(map)
        # Maps that the same run-time values shift overlap in the same way at every value. Maps with
        # different shifts may or may not overlap, so their footprints only add up to a bound.
        if len(alike) == 1 and isinstance(shift := next(iter(alike)), tuple):
            return _shifted(maps, type, shift)
        if len(alike) < len(maps):
            some = [_touched_by(tuple(maps), type) for maps in alike.values()]
            elements, bytes_, sectors, reads = [
                sum([getattr(part, name) for part in some])
                for name in ("elements", "bytes", "sectors", "reads")
            ]
            return _at_most(elements, bytes_, sectors, reads, type)
    parts = [_part(map, type) for map in maps if not map.is_known_empty]
    if not parts:
        return Touched()
    reads = sum([part.reads for part in parts])
    all_of_it = element_count(type)
    known = [part for part in parts if part.is_exact]
    # One access of the whole array covers every other.
    if any(part.elements == all_of_it for part in known):
        return whole(type, reads)
    if len(parts) == 1 and known:
        return _measured(parts[0], type)
    if len(known) == len(parts) and all(part.is_listed for part in parts):
        pieces = [part.addresses for part in parts if part.addresses is not None]
        union = sorted_unique(np.concatenate(pieces))
        return _measured(_Part(union, None, reads, True), type)
    most = sum([part.elements for part in parts])
    sectors = sum([_measured(part, type).sectors for part in parts])
    return _at_most(most, -(-most * storage_bits(type) // 8), sectors, reads, type)


Shift: TypeAlias = tuple[tuple[tuple[RuntimeVariable, int], ...], ...]
"""For each dimension of an array: the run-time variables that are added to its index, each with its
factor.
"""


def _shift(map: IndexingMap) -> Shift | None:
    """Return the run-time variables that a map adds to each index, each with its factor.

    `None` if run-time values do more than shift the map. They only shift it if all points of the
    map read the same values, and if these occur in sums only.
    """
    alone = all(v.origin is not None and not v.via and not v.is_every for v in map.runtime)
    used = variables(*[e for v in map.runtime for e in (*v.index, *v.positions)])
    inside = variables(*[e for e, _ in map.constraints])
    if not alone or used or any(isinstance(v, Runtime) for v in inside):
        return None
    found = []
    for result in map.results:
        terms = as_sum(result)[0]
        moving = [(e, factor) for e, factor in terms if isinstance(e, Runtime)]
        rest = [e for e, _ in terms if not isinstance(e, Runtime)]
        if any(isinstance(v, Runtime) for v in variables(*rest)):
            return None
        read = [(replace(map.runtime[e.index], name=""), factor) for e, factor in moving]
        found.append(tuple([(v, f) for v, f in read if v.interval.lo != v.interval.hi]))
    return tuple(found)


def _at_most(elements: int, bytes_: int, sectors: int, reads: int, type: TensorType) -> Touched:
    """Return a footprint as an upper bound, which is at most the whole array.

    Args:
        elements: Sum of the elements of accesses that may overlap.
        bytes_: Sum of their bytes.
        sectors: Sum of their sectors.
        reads: Number of accesses, counted with repetitions.
        type: Type of the array.
    """
    limit = whole(type, reads)
    return Touched(
        min(elements, limit.elements),
        min(bytes_, limit.bytes),
        min(sectors, limit.sectors),
        reads,
        is_exact=False,
    )


def _shifted(maps: tuple[IndexingMap, ...], type: TensorType, shift: Shift) -> Touched:
    """Return the footprint of maps to which run-time values add one common shift.

    The result holds for any run-time values: the lowest ones represent all, because a shift changes
    neither the number of elements nor their overlaps. The number of sectors is exact if every
    possible shift is a whole number of sectors. Otherwise it is an upper bound.

    Args:
        maps: Maps to indices of the array.
        type: Type of the array.
        shift: The common shift of the maps; see `_shift`.
    """
    found = touched_by([_at_lowest(map) for map in maps], type)
    if not found.is_exact:
        return found
    zero: dict[Var, int] = {Dim(k): 0 for k in range(type.rank)}
    steps = [
        factor * (evaluate(place, zero | {Dim(k): 1}) - evaluate(place, zero))
        for k, (place, moving) in enumerate(zip(_places(type), shift, strict=True))
        for _, factor in moving
    ]
    if not type.is_tiled and not any(step * storage_bits(type) % (SECTOR * 8) for step in steps):
        return found
    most = min(found.elements, 2 * found.sectors, _most_sectors(type))
    return replace(found, sectors=most, is_exact=False)


def _at_lowest(map: IndexingMap) -> IndexingMap:
    """Return the map with each run-time variable replaced by its lowest value."""
    lowest: dict[Var, Expr] = {Runtime(k): Const(v.interval.lo) for k, v in enumerate(map.runtime)}
    inside = substituted_constraints(map.constraints, lowest)
    return IndexingMap(map.dims, map.ranges, (), substituted(map.results, lowest), inside)


class _Part(Struct, frozen=True):
    """Footprint of one map.

    Attributes:
        addresses: Addresses in elements; `None` if there are none.
        copies: Arrays of offsets; an accessed address is an entry of `addresses` plus one entry of
            each of these arrays.
        reads: Number of accesses, counted with repetitions.
        is_exact: Is the footprint exact, and not only an upper bound?
        count: Number of distinct elements; if it is 0, that number follows from `addresses` and
            `copies`.
    """

    addresses: Ints | None
    copies: tuple[Ints, ...] | None
    reads: int
    is_exact: bool
    count: int = 0

    @property
    def is_listed(self) -> bool:
        """Does `addresses` contain every accessed address?"""
        return self.addresses is not None and not self.copies

    @property
    def elements(self) -> int:
        """Return the number of distinct elements."""
        if self.count:
            return self.count
        found = 1 if self.addresses is None else len(self.addresses)
        return found * prod([len(copy) for copy in self.copies or ()])


def _units(type: TensorType) -> tuple[int, int]:
    """Return the bits of an element and of a sector, divided by their greatest common divisor."""
    bits = storage_bits(type)
    common = gcd(bits, SECTOR * 8)
    return bits // common, SECTOR * 8 // common


def _measured(part: _Part, type: TensorType) -> Touched:
    """Return the elements, bytes and sectors of one map's footprint."""
    bits, (unit, sector) = storage_bits(type), _units(type)
    most = _most_sectors(type)
    if not part.is_exact or part.addresses is None:
        count = min(part.elements, element_count(type))
        size = -(-count * bits // 8)
        return Touched(count, size, min(count, most), part.reads, is_exact=False)
    inner = part.addresses
    sectors = len(sorted_unique(inner * unit // sector))
    is_exact = True
    span = int(inner.max() - inner.min()) + 1 if len(inner) else 1
    for copy in part.copies or ():
        gaps = np.diff(np.sort(copy)) * unit
        apart = len(copy) < 2 or int(gaps.min()) >= span * unit + sector
        # Copies at multiples of a sector touch as many sectors each; if also a sector apart, they
        # share none. An unaligned copy touches at most twice as many.
        is_aligned = bool(((copy * unit) % sector == 0).all())
        is_exact &= is_aligned and apart
        sectors *= len(copy) if is_aligned else 2 * len(copy)
        span += int(copy.max() - copy.min())
    size = -(-part.elements * bits // 8)
    return Touched(part.elements, size, min(sectors, most), part.reads, is_exact)


def _part(map: IndexingMap, type: TensorType) -> _Part:
    """Return the footprint of one map; exact if it has no run-time variables and few points."""
    points = _points(map)
    if map.runtime or map.is_undefined:
        if map.is_undefined:
            return _Part(None, None, element_count(type), False, element_count(type))
        most = min(_most_elements(map, type), element_count(type))
        return _Part(None, None, points, False, most)
    if prod(padded_physical_sizes(type)) * _units(type)[0] > POS_INF:  # addresses exceed int64
        return _Part(None, None, points, False, min(points, element_count(type)))
    places = [
        substitute(place, {Dim(k): e})
        for k, (place, e) in enumerate(zip(_places(type), map.results, strict=True))
    ]
    sets: list[Ints] = []
    reads = 1
    for group in _groups(map):
        exprs = [k for k, e in enumerate(map.results) if variables(e) & group]
        found = _addresses(map, group, [places[k] for k in exprs])
        if found is None:
            return _Part(None, None, points, False, min(points, element_count(type)))
        addresses, count = found
        reads *= count
        if not count:
            return _Part(np.zeros(0, np.int64), None, 0, True)
        if exprs:
            sets.append(addresses)
    start = sum([e.value for e in places if isinstance(e, Const)])
    is_all = prod([len(some) for some in sets]) == element_count(type)
    if is_all and not type.is_tiled:
        return _Part(None, (), reads, True, element_count(type))
    return _summed(sets, start, reads)


def _summed(sets: list[Ints], start: int, reads: int) -> _Part:
    """Return the footprint whose addresses are `start` plus one address of each set.

    `reads` is the number of accesses, counted with repetitions.
    """
    # Sets with a short span first: they form the inner list, and the others are copies of it.
    sets.sort(key=lambda some: int(some[-1] - some[0]))
    found = np.array([start], dtype=np.int64)
    for k, some in enumerate(sets):
        if len(found) * len(some) > MOST_POINTS:
            return _Part(found, tuple(sets[k:]), reads, True)
        found = sorted_unique((found[:, None] + some[None, :]).ravel())
    return _Part(found, None, reads, True)


def _places(type: TensorType) -> tuple[Expr, ...]:
    """Return, for each dimension of an array, its contribution to an element's address.

    It is an expression in the index of that dimension. The address is the sum of the contributions,
    because tiles cut every dimension separately.
    """
    (address,) = address_map(type).results
    zero: dict[Var, Expr] = {Dim(k): Const(0) for k in range(type.rank)}
    return tuple([substitute(address, {x: e for x, e in zero.items() if x is not Dim(k)})
                  for k in range(type.rank)])  # fmt: skip


def _groups(map: IndexingMap) -> list[frozenset[Var]]:
    """Return the variables of a map in independent groups.

    Variables of one group occur together in a result or a constraint.
    """
    every: list[set[Var]] = [{v} for v in map.box]
    for e in (*map.results, *[e for e, _ in map.constraints]):
        used = variables(e)
        joined: set[Var] = set().union(*[group for group in every if group & used])
        if joined:
            every = [*[group for group in every if not group & used], joined]
    return [frozenset(group) for group in every]


def satisfied(
    constraints: Iterable[Constraint], at: Mapping[Var, Ints], shape: Sequence[int]
) -> Bools:
    """Return where all constraints hold: an array of the given shape.

    `at` has an array of values for each variable; the arrays broadcast to the shape.
    """
    found = np.ones(shape, dtype=np.bool_)
    for e, interval in constraints:
        value = evaluate_array(e, at)
        found &= (value >= interval.lo) & (value <= interval.hi)
    return found


def _addresses(
    map: IndexingMap, group: frozenset[Var], terms: Sequence[Expr]
) -> tuple[Ints, int] | None:
    """Return the distinct sums of `terms` over a group's variables, and the number of points.

    `None` if there are more than `MOST_POINTS` points.
    """
    box = [(v, map.box[v]) for v in sorted(group, key=str)]
    sizes = [interval.size for _, interval in box]
    total = prod(sizes)
    constraints = [(e, i) for e, i in map.constraints if variables(e) & group]
    if not terms and not constraints:
        return np.zeros(1, np.int64), total
    if total > MOST_POINTS:
        return None
    axes = np.indices(sizes, dtype=np.int64, sparse=True) if sizes else ()
    at: dict[Var, Ints] = {
        v: axis + interval.lo for (v, interval), axis in zip(box, axes, strict=True)
    }
    value = np.zeros(sizes, dtype=np.int64)
    for e in terms:
        value = value + evaluate_array(e, at)
    if not constraints:
        return sorted_unique(value), total
    active = satisfied(constraints, at, sizes)
    chosen = np.broadcast_to(value, sizes)[active]
    return sorted_unique(chosen), int(active.sum())


def _points(map: IndexingMap) -> int:
    return prod([v.interval.size for v in (*map.dims, *map.ranges)])


def _most_elements(map: IndexingMap, type: TensorType) -> int:
    """Return an upper bound of the distinct elements that a map leads to.

    It holds for all run-time values.
    """
    if map.runtime and not variables(*[e for v in map.runtime for e in v.index]):
        here = _at_lowest(map)
        found = _part(here, type)
        if found.is_exact:
            return found.elements
    used = variables(*map.results, *[e for v in map.runtime for e in v.arguments])
    return prod([map.box[v].size for v in used if isinstance(v, Dim | Range)])
