"""From threads to addresses: where readings and outputs of a kernel lie in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from hloscope.affine import Expr, Interval, Range, as_sum, variables
from hloscope.fusion import Analysis
from hloscope.indexing import Access, IndexingMap, Variable, address_map
from hloscope.ir import TensorType
from hloscope.memory.kernel import THREAD, Proof, Reading, Stores

MOST_BEHIND: Final = 1 << 40
"""An index that no thread reaches."""


class Address(NamedTuple):
    """One way in which threads access an array.

    Attributes:
        map: From threads to addresses, in elements.
        is_apart: Does LLVM cut its vectors into elements, because it cannot prove them aligned?
        may_be_apart: Is it not known whether it does?
        is_lowered: Is it made by LLVM, which expands an atomic, and not by XLA?
    """

    map: IndexingMap
    is_apart: bool = False
    may_be_apart: bool = False
    is_lowered: bool = False


class Addresses:
    """Addresses of the arrays of one program's kernels; equal ones are composed once."""

    def __init__(self, analysis: Analysis) -> None:
        self._pool: Final = analysis.pool
        self._placed: dict[tuple[IndexingMap, TensorType], IndexingMap] = {}

    def read(self, reading: Reading, access: Access, type: TensorType) -> list[Address]:
        """Where a reading loads an array through an access; none where nothing is known."""
        found = []
        for part, terms in _stages(reading.map, reading.proof):
            map = self._composed(part, access, type, is_unchecked=reading.is_unchecked)
            if map is not None:
                found.append(_judged(map, terms, reading.proof, is_lowered=reading.is_lowered))
        return found

    def of_hero(self, reading: Reading, access: Access, type: TensorType) -> IndexingMap | None:
        """The map that XLA's verdict looks at: all steps at once."""
        return self._composed(reading.map, access, type, is_unchecked=reading.is_unchecked)

    def _composed(
        self, map: IndexingMap, access: Access, type: TensorType, *, is_unchecked: bool
    ) -> IndexingMap | None:
        if access.map is None:
            return None
        pool = self._pool
        address = Access(address_map(type))
        if is_unchecked:
            access, address = _unchecked(access), _unchecked(address)
        both = pool.compose(pool.keep(Access(map)), pool.keep(access))
        if both is None or both.map is None:
            return None
        placed = pool.compose(both, pool.keep(address))
        return None if placed is None else placed.map

    def written(self, map: IndexingMap, type: TensorType, stores: Stores) -> list[Address]:
        """Where threads write an array."""
        return [
            _judged(self._of_output(part, type), terms, stores.proof, is_lowered=False)
            for part, terms in _stages(map, stores.proof)
        ]

    def _of_output(self, map: IndexingMap, type: TensorType) -> IndexingMap:
        known = self._placed.get((map, type))
        if known is None:
            # What is written lies inside of the array: no condition is to say so again.
            address = _unchecked(Access(address_map(type))).map
            assert address is not None
            known = map.compose(address).simplify().remove_unused_symbols()
            self._placed[map, type] = known
        return known


def _unchecked(access: Access) -> Access:
    """The access continued behind the end of what is read, as threads load it without a check."""
    if access.map is None:
        return access
    dims = [Variable(Interval(0, MOST_BEHIND), v.name) for v in access.map.dims]
    return replace(access, map=access.map.with_(dims=dims))


def _stages(
    map: IndexingMap, proof: Proof | None
) -> list[tuple[IndexingMap, tuple[int, int] | None]]:
    """Steps of the first loop of which one proof is made, and how many terms it may have."""
    if proof is None or map.is_known_empty:
        return [(map, None)]
    last = map.ranges[0].interval.hi if map.ranges else 0
    found: list[tuple[IndexingMap, tuple[int, int] | None]] = []
    start = 0
    for k, (steps, *terms) in enumerate(proof.stages):
        end = last if k == len(proof.stages) - 1 else min(start + steps - 1, last)
        if start > end:
            continue
        is_all = (start, end) == (0, last)
        found.append((map if is_all else _within(map, start, end), (terms[0], terms[1])))
        start = end + 1
    return found


def _within(map: IndexingMap, first: int, last: int) -> IndexingMap:
    """The map with some steps of its first loop only."""
    inside = map.add_constraint(Range(0), Interval(first, last))
    return inside.simplify(replace_points=False)


def _judged(
    map: IndexingMap, terms: tuple[int, int] | None, proof: Proof | None, *, is_lowered: bool
) -> Address:
    if terms is None or proof is None or not map.results:
        return Address(map, is_lowered=is_lowered)
    count = _thread_terms(map.results[0]) + proof.blocks
    surely, perhaps = terms
    return Address(map, count > perhaps, surely < count <= perhaps, is_lowered)


def _thread_terms(address: Expr) -> int:
    """How many terms of an address name the thread."""
    return sum([THREAD in variables(e) for e, _ in as_sum(address)[0]])
