"""Model of a kernel: launch dimensions and maps from threads to elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct, field

from hloscope.affine import Const, Dim, Expr, Interval, Range
from hloscope.devices import LARGEST_GRID
from hloscope.indexing import IndexingMap, Variable
from hloscope.ir import Instruction

GRID: Final = ("th_x", "th_y", "th_z", "bl_x", "bl_y", "bl_z")
"""XLA's names of the dimension variables of a thread map."""
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
        """Return a launch of `blocks` blocks along x; a grid too long for x also uses y.

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
        """Return an indexing map from this grid.

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
    """Limits on the length of an address for LLVM to prove a vector access aligned.

    LLVM searches six values deep for the trailing zeros of an address. Each term, and a constant of
    an unrolled step, makes the sum one value deeper. Accesses of one basic block that differ by
    constants share the result for one of them.

    Source: LLVM `llvm/lib/Analysis/ValueTracking.cpp` (`MaxAnalysisRecursionDepth`),
    `llvm/lib/Transforms/Scalar/InferAlignment.cpp`.

    Attributes:
        stages: For consecutive steps of the first loop: the number of steps, the terms up to which
            the alignment is certainly proved, and the terms up to which it may be proved,
            depending on the surrounding code. The last stage covers all remaining steps.
        blocks: Number of address terms with the block: XLA keeps one for each dimension of the
            grid of tiles.
    """

    stages: tuple[tuple[int, int, int], ...]
    blocks: int


class Stores(Struct, frozen=True):
    """Stores of an output by the threads.

    Attributes:
        is_apart: Does each element have its own store instruction, never merged with neighbours?
        reads_old: Is the old element loaded?
        least: Minimum number of times that a store is made.
        most: Maximum number of times that a store is made.
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
    """A load of elements of one value: a hero's operand, or a root that is written.

    Attributes:
        value: The value whose elements are needed.
        leaf: Number of the tensor in the value.
        map: Map from threads to these elements.
        is_hero: Is the value an operand of a hero, which XLA's verdict checks?
        is_unchecked: May threads load beyond the end of the value, without a bounds check?
        before: The store for which this load fetches the old element, if LLVM expands an atomic.
        proof: Limits on vector addresses that LLVM proves aligned; `None` if it proves all.
        is_row: Are vectors parts of a row, along the last loop?
        loop: Number of the loop that contains it; loads in different loops are never merged.
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
        heroes: The hero of each root.
        readings: The loads of values inside the kernel.
        inputs: By hero and operand number: map from threads to the elements of that operand.
        outputs: For each tensor of the roots: maps from threads to the elements written; `None` if
            run-time values decide them.
        tile: Map from threads to the matrix that a reduction reduces.
        shared: Accesses of tiles in shared memory.
        unroll: Consecutive elements that a thread of a loop computes.
        stores: Stores by output number, for outputs that plain stores do not write.
        notes: Assumptions of the model.
        is_given: Did the user give the vectors of a thread? LLVM's merging is then left out.
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
    """Return the index at a row-major position in an array of these sizes; sizes may be 1.

    >>> print(*split(Dim(0), (4, 1, 8)))
    d0 / 8 0 d0 mod 8
    """
    index: list[Expr] = []
    below = prod(sizes)
    is_first = True
    for size in sizes:
        below //= max(size, 1)
        if size == 1:
            index.append(Const(0))
            continue
        part = position // below if below != 1 else position
        index.append(part if is_first else part % size)
        is_first = False
    return index


def loop_variable(number: int) -> Range:
    """Return the variable of loop `number` of a thread."""
    return Range(number)
