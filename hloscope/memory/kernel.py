"""Model of a kernel: launch dimensions, and maps from threads to elements and addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.affine import Dim, Expr, Interval, Range, as_sum, variables
from hloscope.fusion import Analysis
from hloscope.indexing import (
    Access,
    IndexingMap,
    Variable,
    address_map,
    delinearize,
    major_to_minor,
)
from hloscope.ir import Instruction, TensorType
from hloscope.support.devices import LARGEST_GRID

# --------------------------------------------------------------------------------------------------
# Model of a kernel: launch dimensions and maps from threads to elements.


GRID: Final = ("th_x", "th_y", "th_z", "bl_x", "bl_y", "bl_z")
"""XLA's names for the dimension variables of a thread map."""
THREAD: Final = Dim(0)
BLOCK: Final = Dim(3)
BLOCK_Y: Final = Dim(4)
BLOCK_Z: Final = Dim(5)
Sizes: TypeAlias = Sequence[int]


class Launch(Struct, frozen=True):
    """Threads of a block and blocks of the grid, x first.

    >>> print(Launch.of(128, 40))
    128 threads × 40 blocks
    """

    threads: tuple[int, int, int]
    blocks: tuple[int, int, int]

    @classmethod
    def of(cls, threads: int, blocks: int, groups: int = 1) -> Launch:
        """Return a launch of at least `blocks` blocks along x; a grid too long for x also uses y.

        Args:
            threads: Threads of a block.
            blocks: Blocks that are needed; the grid may have some more.
            groups: Size of the grid in z.
        """
        rows = -(-blocks // LARGEST_GRID)
        return cls((threads, 1, 1), (-(-blocks // rows), rows, groups))

    @property
    def block_size(self) -> int:
        """Return the number of threads of a block."""
        return prod(self.threads)

    @property
    def block(self) -> Expr:
        """Return the linear number of a block in x and y."""
        return BLOCK if self.blocks[1] == 1 else BLOCK + BLOCK_Y * self.blocks[0]

    def map(
        self,
        ranges: Sequence[int],
        results: Iterable[Expr | int],
        constraints: Iterable[tuple[Expr, int]] = (),
    ) -> IndexingMap:
        """Return an indexing map whose dimension variables are this launch's threads and blocks.

        Args:
            ranges: Sizes of the loops of a thread.
            results: The index that is accessed.
            constraints: Expressions with exclusive upper bounds; the lower bound is 0.
        """
        sizes = (*self.threads, *self.blocks)
        names = zip(sizes, GRID, strict=True)
        return IndexingMap(
            [Variable(Interval(0, size - 1), name) for size, name in names],
            [Variable(Interval(0, size - 1)) for size in ranges],
            (),
            tuple(results),
            [(e, Interval(0, size - 1)) for e, size in constraints],
        )

    def __str__(self) -> str:
        def text(sizes: Sizes) -> str:
            used = max((k + 1 for k, size in enumerate(sizes) if size != 1), default=1)
            return "x".join(map(str, sizes[:used]))

        return f"{text(self.threads)} threads × {text(self.blocks)} blocks"


class SharedAccess(Struct, frozen=True):
    """An access of a tile in shared memory by the threads of a block.

    Attributes:
        what: Label of the access, beginning with `write` or `read`.
        map: Map from threads to the index in the tile.
        shape: Sizes of the tile, padding included.
        bits: Bits of an element.
        vector: Elements that a lane accesses at once, along the last dimension.
    """

    what: str
    map: IndexingMap
    shape: tuple[int, ...]
    bits: int
    vector: int = 1


class Proof(Struct, frozen=True):
    """Limits on address terms under which LLVM proves that a vector access is aligned.

    LLVM searches six values deep for the trailing zeros of an address. Each term, and a constant of
    an unrolled step, makes the sum one value deeper. Accesses of one basic block that differ by
    constants share the result for one of them.

    Source: LLVM `llvm/lib/Analysis/ValueTracking.cpp` (`MaxAnalysisRecursionDepth`),
    `llvm/lib/Transforms/Scalar/InferAlignment.cpp`.

    Attributes:
        stages: For consecutive steps of the first loop: number of steps, number of terms up to
            which the alignment is certainly proved, and number of terms up to which it may be
            proved. The last stage covers all remaining steps.
        blocks: Number of address terms that contain the block number.
    """

    stages: tuple[tuple[int, int, int], ...]
    blocks: int


class Stores(Struct, frozen=True):
    """How the threads store the elements of one output.

    Attributes:
        is_apart: Does each element have its own store instruction, never merged with neighbours?
        reads_old: Does the kernel load the old element?
        least: Minimum number of times that each store is made.
        most: Maximum number of times that each store is made.
        tries: Maximum number of attempts of a compare-and-swap, the first one included.
        run: Maximum number of stores of a thread that may be combined in registers into one.
        word: Bits that an atomic replaces if an element has fewer; 0 for the bits of the element.
        reason: Why the traffic is given as bounds.
        proof: Limits on vector addresses that LLVM proves aligned; `None` if it proves all.
    """

    is_apart: bool = False
    reads_old: bool = False
    least: int = 1
    most: int = 1
    tries: int = 1
    run: int = 1
    word: int = 0
    reason: str = ""
    proof: Proof | None = None


PLAIN: Final = Stores()


class Reading(Struct, frozen=True):
    """A load of elements of one value: of a hero's operand, or of a root that is written.

    Attributes:
        value: The value whose elements are needed.
        leaf: Number of the tensor in the value.
        map: Map from threads to the elements of the value.
        is_hero: Is the value an operand of a hero, which XLA's verdict checks?
        is_unchecked: May threads load beyond the end of the value, without a bounds check?
        before: The store for which this load fetches the old element, if LLVM expands an atomic.
        proof: Limits on vector addresses that LLVM proves aligned; `None` if it proves all.
        is_row: Are vectors consecutive elements of one matrix row, along the last loop?
        loop: Number of the loop that contains the load. Loads of different loops are never merged.
    """

    value: Instruction
    leaf: int
    map: IndexingMap
    is_hero: bool = True
    is_unchecked: bool = False
    before: Stores | None = None
    proof: Proof | None = None
    is_row: bool = False
    loop: int = 0


class Kernel(Struct, frozen=True):
    """A generated kernel: its emitter, launch dimensions, and the accesses of its threads.

    Attributes:
        emitter: Name of the emitter.
        launch: Launch dimensions; `None` if lanes are not modelled.
        heroes: The hero of each root: the instruction that decides the emitter.
        readings: The loads of heroes' operands and of roots. Accesses of input arrays follow from
            them.
        inputs: Maps from threads to the elements of a hero's operand. Keys are the number of the
            hero and the number of its operand.
        outputs: For each tensor of the roots: maps from threads to the elements written; `None` if
            run-time values decide them.
        tile: Map from threads to the matrix that a reduction reduces.
        shared: Accesses of tiles in shared memory.
        unroll: Consecutive elements that a thread of a loop computes.
        stores: How an output is stored, by output number; ordinary stores have no entry.
        notes: Assumptions of the model.
        is_given: Did the user state how many elements a thread accesses at once? Then LLVM's
            merging of accesses is not modelled.
    """

    emitter: str
    launch: Launch | None
    heroes: tuple[Instruction, ...]
    readings: tuple[Reading, ...] = ()
    inputs: Mapping[tuple[int, int], IndexingMap] = field(default_factory=dict)
    outputs: tuple[tuple[IndexingMap, ...] | None, ...] = ()
    tile: IndexingMap | None = None
    shared: tuple[SharedAccess, ...] = ()
    unroll: int = 1
    stores: Mapping[int, Stores] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_given: bool = False


def split(position: Expr, sizes: Sizes) -> list[Expr]:
    """Return the index at a row-major position in an array of the given sizes.

    >>> print(*split(Dim(0), (4, 1, 8)))
    d0 / 8 0 d0 mod 8
    """
    return delinearize(position, tuple([max(size, 1) for size in sizes]))


# --------------------------------------------------------------------------------------------------
# Maps from threads to the addresses at which a kernel loads and stores its arrays.


MOST_BEHIND: Final = 1 << 40
"""Largest index of an array in loads without bounds checks; no thread's index reaches it."""


class Part(NamedTuple):
    """Iterations of an access for which LLVM has one result about alignment.

    Attributes:
        map: Map from threads to addresses in elements, restricted to these iterations.
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
        parts: Iterations grouped by LLVM's results about alignment; empty if LLVM proves all
            vectors aligned.
        before: The store for which this load fetches the old element, if LLVM expands an atomic.
        by_element: Does XLA itself emit the elements one by one?
    """

    map: IndexingMap
    parts: tuple[Part, ...] = ()
    before: Stores | None = None
    by_element: bool = False


class Addresses:
    """Compose thread maps with accesses into addresses. Equal compositions are computed once."""

    def __init__(self, analysis: Analysis) -> None:
        self._interner: Final = analysis.interner
        self._placed: dict[tuple[IndexingMap, TensorType], IndexingMap] = {}

    def read(self, reading: Reading, access: Access, type: TensorType) -> Address | None:
        """Return the addresses from which threads load an array.

        `None` if they are unknown.

        Args:
            reading: The value that is needed, with the map from threads to its elements.
            access: Access from an element of that value to the array.
            type: Type of the array.
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
        parts = _parts_by_alignment(stages, reading.proof)
        return Address(whole, parts, reading.before, by_element)

    def _leaves_row(self, reading: Reading, access: Access, type: TensorType) -> bool:
        """May the elements of one vector lie in different rows of the array?

        XLA divides the sum of row and column by the sizes of the array. If only some of the
        quotients depend on the vector's element number, XLA does not join the parts to one address
        again.
        """
        interner = self._interner
        # The vector is the innermost loop of a reading, so it is the last range variable. A row
        # stays whole if either every row index depends on the vector or none does.
        both = interner.compose(interner.intern(Access(reading.map)), interner.intern(access))
        if both is None or both.map is None or not both.map.ranges:
            return False
        if access.map is None or access.map.ranges:
            return False
        vector = Range(len(both.map.ranges) - 1)
        rows = [variables(both.map.results[k]) for k in major_to_minor(type)[:-1]]
        return any(vector in row for row in rows) and any(row and vector not in row for row in rows)

    def of_hero(self, reading: Reading, access: Access, type: TensorType) -> IndexingMap | None:
        """Return the map from threads to addresses in elements that XLA's map verdict checks.

        It covers all iterations. `None` if it is unknown.
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
        both = interner.compose(interner.intern(Access(map)), interner.intern(access))
        if both is None or both.map is None:
            return None
        placed = interner.compose(both, interner.intern(address))
        return None if placed is None else placed.map

    def written(self, map: IndexingMap, type: TensorType, stores: Stores) -> Address:
        """Return the addresses to which threads write an array.

        Args:
            map: Map from threads to elements of the array.
            type: Type of the array.
            stores: How the elements are stored.
        """
        stages = [
            stage._replace(map=self._of_output(stage.map, type))
            for stage in _stages(map, stores.proof)
        ]
        return Address(self._of_output(map, type), _parts_by_alignment(stages, stores.proof))

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
    """Return the access for indices beyond its array, for loads without bounds checks."""
    if access.map is None:
        return access
    dims = [Variable(Interval(0, MOST_BEHIND), v.name) for v in access.map.dims]
    return replace(access, map=access.map.with_(dims=dims))


class _Stage(NamedTuple):
    """Iterations of the first loop with common limits on provable alignment.

    Vectors with up to `surely` address terms are proved aligned; vectors with more than `perhaps`
    terms are not.
    """

    map: IndexingMap
    surely: int
    perhaps: int


def _stages(map: IndexingMap, proof: Proof | None) -> list[_Stage]:
    """Return the stages of a proof that contain at least one iteration.

    Each has the map restricted to its iterations; empty without a proof.
    """
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


def _parts_by_alignment(stages: Iterable[_Stage], proof: Proof | None) -> tuple[Part, ...]:
    """Return the iterations of each stage, and whether LLVM splits the vectors there.

    Empty if LLVM certainly proves all vectors aligned.

    Args:
        stages: Stages with maps from threads to addresses.
        proof: The limits of the stages; `None` if LLVM proves all vectors aligned.
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
