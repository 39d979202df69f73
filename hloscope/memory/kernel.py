"""What a kernel is to this room: launch dimensions and maps from threads to elements."""

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
        """Return a launch of blocks along x; a grid too long for x is divided among x and y.

        Args:
            threads: Threads of a block.
            blocks: Blocks that are needed; the grid may have some more.
            groups: Size of the grid in z.
        """
        rows = -(-blocks // LARGEST_GRID)
        return cls((threads, 1, 1), (-(-blocks // rows), rows, groups))

    @property
    def block_size(self) -> int:
        """Threads of a block."""
        return prod(self.threads)

    @property
    def block(self) -> Expr:
        """The number of a block among those of x and y."""
        return BLOCK if self.blocks[1] == 1 else BLOCK + BLOCK_Y * self.blocks[0]

    def map(
        self,
        ranges: Sequence[int],
        results: Iterable[Expr | int],
        constraints: Iterable[tuple[Expr, int]] = (),
    ) -> IndexingMap:
        """A map from this grid.

        Args:
            ranges: Sizes of the loops of a thread.
            results: The index touched.
            constraints: Expressions that are at least 0 and below a size.
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
    """How threads touch a tile in shared memory.

    Attributes:
        what: `write` or `read`, and of what.
        map: From threads to the index in the tile.
        shape: Sizes of the tile, padding included.
        bits: Of an element.
        vector: Elements that a lane touches at once, along the last dimension.
    """

    what: str
    map: IndexingMap
    shape: tuple[int, ...]
    bits: int
    vector: int = 1


class Proof(Struct, frozen=True):
    """How long an address may be for LLVM to prove that the vectors of an access are aligned.

    LLVM looks six values deep for the trailing zeros of an address.  Each of its terms, and a
    constant of an unrolled step, makes the sum one value deeper.  The accesses of one basic block
    that differ by constants share what was found for one of them.

    Source: LLVM `llvm/lib/Analysis/ValueTracking.cpp` (`MaxAnalysisRecursionDepth`),
    `llvm/lib/Transforms/Scalar/InferAlignment.cpp`.

    Attributes:
        stages: Of one step of the first loop of a map after another: how many steps, with how many
            terms it is proved at most, and with how many it may be, by the code around.  The last
            stage goes on.
        blocks: How many terms name the block: XLA keeps one for each dimension of the grid of
            tiles.
    """

    stages: tuple[tuple[int, int, int], ...]
    blocks: int


class Stores(Struct, frozen=True):
    """How threads store an output.

    Attributes:
        is_apart: Has each element an instruction of its own, so that neighbours are never stored
            at once?
        reads_old: Is the old element loaded?
        least: How often a store is made, at least …
        most: … and at most.
        tries: How often one may be tried again by compare-and-swap, the first time included.
        run: Stores of a thread that may be added in registers and become one.
        word: Bits that an atomic replaces, where an element has fewer; 0: the element's.
        reason: Why there are bounds.
        proof: As of a reading.
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
    """Where threads read a value: of a hero's operand, or of a root that is written.

    Attributes:
        value: The value of which elements are needed.
        leaf: Which tensor of it.
        map: From threads to these elements.
        is_hero: Is it what XLA's verdict looks at: an operand of a hero?
        is_unchecked: Does no condition keep threads from loading what stands behind the value?
        before: The store that it loads the old element for, where LLVM makes it of an atomic.
        proof: How long addresses of vectors may be; `None`: LLVM proves all of them aligned.
        is_row: Are vectors parts of a row, along the last loop?
        loop: Number of the loop that makes it; loads in different loops are never one.
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
    """Which emitter makes a kernel of a fusion, how it is launched, what its threads touch.

    Attributes:
        emitter: Its name.
        launch: Launch dimensions; `None` where lanes are nobody's business.
        heroes: The hero of each root.
        readings: What is read inside, from the threads on.
        inputs: By hero and operand number: from threads to the elements of that operand.
        outputs: For each root and tensor of it: from threads to the elements written; `None` where
            values that are read at run time say where.
        tile: The loop of a reduction: from threads to the matrix that it reduces.
        shared: Tiles in shared memory.
        unroll: Elements that a thread of a loop touches one after another.
        stores: By number of the output: how it is stored, where not by plain stores.
        notes: What was assumed.
        is_given: Did the user say what threads touch at once?  LLVM's changes are left out then.
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
    """The index at a row-major position inside these sizes; sizes may be 1.

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
    """The variable of a loop of a thread."""
    return Range(number)
