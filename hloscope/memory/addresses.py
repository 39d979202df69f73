"""Maps from threads to the addresses at which a kernel loads and stores its arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from hloscope.affine import Expr, Interval, Range, as_sum, variables
from hloscope.fusion import Analysis
from hloscope.indexing import Access, IndexingMap, Variable, address_map, major_to_minor
from hloscope.ir import TensorType
from hloscope.memory.kernel import THREAD, Proof, Reading, Stores

MOST_BEHIND: Final = 1 << 40
"""An index beyond every index that a thread can compute."""


class Part(NamedTuple):
    """Loop steps of an access that LLVM proves aligned, or fails to prove, all together.

    Attributes:
        map: Map from threads to addresses, restricted to these steps.
        is_apart: Does LLVM split the vectors into elements because it cannot prove them aligned?
        may_be_apart: Is it unknown whether LLVM splits them?
    """

    map: IndexingMap
    is_apart: bool
    may_be_apart: bool


class Address(NamedTuple):
    """One set of accesses of an array by all threads of a kernel.

    Attributes:
        map: Map from threads to addresses, in elements.
        parts: The steps by LLVM's proofs of alignment; empty if LLVM proves all vectors aligned.
        before: The store for which this load fetches the old element, if LLVM expands an atomic.
        by_element: Does XLA itself emit the elements one by one?
    """

    map: IndexingMap
    parts: tuple[Part, ...] = ()
    before: Stores | None = None
    by_element: bool = False


class Addresses:
    """Addresses of the arrays of one program's kernels. Equal compositions are computed once."""

    def __init__(self, analysis: Analysis) -> None:
        self._interner: Final = analysis.interner
        self._placed: dict[tuple[IndexingMap, TensorType], IndexingMap] = {}

    def read(self, reading: Reading, access: Access, type: TensorType) -> Address | None:
        """Return the addresses from which a reading loads an array through an access.

        `None` if they are unknown.
        """
        whole = self.of_hero(reading, access, type)
        if whole is None:
            return None
        stages = []
        for stage in _stages(reading.map, reading.proof):
            map = self._composed(stage.map, access, type, is_unchecked=reading.is_unchecked)
            if map is not None:
                stages.append(stage._replace(map=map))
        by_element = reading.is_row and self._leaves_row(reading, access, type)
        parts = _judged(stages, reading.proof)
        return Address(whole, parts, reading.before, by_element)

    def _leaves_row(self, reading: Reading, access: Access, type: TensorType) -> bool:
        """May the elements of a vector lie in different rows of the array?

        XLA divides the sum of row and column by the sizes of the array. If only some of the
        quotients depend on the vector's element number, XLA does not join the parts to one address
        again.
        """
        interner = self._interner
        # The vector is the innermost loop of a reading, so it is the last range variable. A row
        # stays whole if either every row index depends on the vector or none does.
        both = interner.compose(interner.keep(Access(reading.map)), interner.keep(access))
        if both is None or both.map is None or not both.map.ranges:
            return False
        if access.map is None or access.map.ranges:
            return False
        vector = Range(len(both.map.ranges) - 1)
        rows = [variables(both.map.results[k]) for k in major_to_minor(type)[:-1]]
        return any(vector in row for row in rows) and any(row and vector not in row for row in rows)

    def of_hero(self, reading: Reading, access: Access, type: TensorType) -> IndexingMap | None:
        """Return the map from threads to addresses, over all steps, that XLA's map verdict checks.

        `None` if it is unknown.
        """
        return self._composed(reading.map, access, type, is_unchecked=reading.is_unchecked)

    def _composed(
        self, map: IndexingMap, access: Access, type: TensorType, *, is_unchecked: bool
    ) -> IndexingMap | None:
        if access.map is None:
            return None
        interner = self._interner
        address = Access(address_map(type))
        if is_unchecked:
            access, address = _unchecked(access), _unchecked(address)
        both = interner.compose(interner.keep(Access(map)), interner.keep(access))
        if both is None or both.map is None:
            return None
        placed = interner.compose(both, interner.keep(address))
        return None if placed is None else placed.map

    def written(self, map: IndexingMap, type: TensorType, stores: Stores) -> Address:
        """Return the addresses to which threads write an array."""
        stages = [
            stage._replace(map=self._of_output(stage.map, type))
            for stage in _stages(map, stores.proof)
        ]
        return Address(self._of_output(map, type), _judged(stages, stores.proof))

    def _of_output(self, map: IndexingMap, type: TensorType) -> IndexingMap:
        known = self._placed.get((map, type))
        if known is None:
            # Several outputs of a kernel often have one type and one map.
            # Stores are in bounds by construction, so the bounds of the array add no constraint.
            address = _unchecked(Access(address_map(type))).map
            assert address is not None
            known = map.compose(address).simplify().remove_unused_symbols()
            self._placed[map, type] = known
        return known


def _unchecked(access: Access) -> Access:
    """Return the access with its domain extended: threads load beyond its end without a check."""
    if access.map is None:
        return access
    dims = [Variable(Interval(0, MOST_BEHIND), v.name) for v in access.map.dims]
    return replace(access, map=access.map.with_(dims=dims))


class _Stage(NamedTuple):
    """A range of iterations of the first loop that LLVM proves aligned together.

    Vectors are proved aligned with up to `surely` terms in the address, and are not with more than
    `perhaps` terms.
    """

    map: IndexingMap
    surely: int
    perhaps: int


def _stages(map: IndexingMap, proof: Proof | None) -> list[_Stage]:
    """Return the stages of a proof that contain at least one iteration."""
    if proof is None or map.is_known_empty:
        return []
    last = map.ranges[0].interval.hi if map.ranges else 0
    found: list[_Stage] = []
    start = 0
    for k, (count, surely, perhaps) in enumerate(proof.stages):
        # The stages follow each other in the first loop; the last one takes all iterations that are
        # left, so that no iteration is lost if the counts of the proof are too small.
        end = last if k == len(proof.stages) - 1 else min(start + count - 1, last)
        if start <= end:
            is_all = (start, end) == (0, last)
            part = map if is_all else map.add_constraint(Range(0), Interval(start, end))
            # `replace_points=False` keeps the terms of the address: LLVM's proof counts them, and a
            # variable with one value must not vanish from the count.
            part = part if is_all else part.simplify(replace_points=False)
            found.append(_Stage(part, surely, perhaps))
            start = end + 1
    return found


def _judged(stages: Iterable[_Stage], proof: Proof | None) -> tuple[Part, ...]:
    """Return LLVM's result for each stage, whose map leads to addresses.

    Empty if all vectors are proved aligned.
    """
    if proof is None:
        return ()
    parts = []
    for map, surely, perhaps in stages:
        # LLVM's recursion over an address is limited in depth: each term of the sum that names the
        # thread, or the block, uses up one level.
        count = _thread_terms(map.results[0]) + proof.blocks
        parts.append(Part(map, count > perhaps, surely < count <= perhaps))
    return tuple(parts) if any(p.is_apart or p.may_be_apart for p in parts) else ()


def _thread_terms(address: Expr) -> int:
    """Count the terms of an address that contain the thread variable."""
    return sum([THREAD in variables(e) for e, _ in as_sum(address)[0]])
