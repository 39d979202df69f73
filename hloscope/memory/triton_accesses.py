"""Loads and stores of a Triton kernel by thread, with the compiler's layouts and addresses.

Source: Triton `LoadStoreOpToLLVM.cpp`: registers that hold the same element make one access; of
threads that hold the same element all load it, and the first one stores it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hloscope.affine import Dim, Expr, Interval, Range, Var, bounds, mod, substitute
from hloscope.dumps import FIRST_INDEX, PROGRAM
from hloscope.errors import UnsupportedError
from hloscope.indexing import IndexingMap, Variable
from hloscope.layouts import LinearLayout, Side, index_by_thread, neighbours
from hloscope.lazy import pattern
from hloscope.memory.kernel import BLOCK, BLOCK_Y, BLOCK_Z, THREAD, Launch

if TYPE_CHECKING:
    from hloscope.dumps import TritonAccess

_BITS: Final = pattern(r"[a-z]+(\d{1,3})")


class AccessByThread(Struct, frozen=True):
    """One load or store of a Triton kernel.

    Attributes:
        map: Map from threads, blocks, loops and registers to the number of the element, counted
            from the first one of the array.
        bits: Bits of an element.
        vector: Consecutive elements that a thread holds.
    """

    map: IndexingMap
    bits: int
    vector: int


def access_by_thread(access: TritonAccess, launch: Launch, warp: int) -> AccessByThread:
    """Return the elements that each thread of a launch accesses.

    Args:
        access: The load or store.
        launch: Blocks and threads of the kernel.
        warp: Lanes of a warp.

    Raises:
        UnsupportedError: The access is not known, or its layout does not fit the launch.
    """
    if access.reason or access.address is None:
        raise UnsupportedError(access.reason or "its address is not known")
    loops = [Variable(Interval(0, trips - 1), f"loop{k}") for k, trips in enumerate(access.loops)]
    new: dict[Var, Expr] = dict(zip(PROGRAM, (BLOCK, BLOCK_Y, BLOCK_Z), strict=True))
    held = Held.of(access.layout, warp, len(loops), is_store=access.is_store)
    if access.layout is not None and held.threads != launch.block_size:
        what = f"a layout of {held.threads} threads, and blocks of {launch.block_size}"
        raise UnsupportedError(what)
    new |= {Dim(FIRST_INDEX + d): e for d, e in enumerate(held.index)}
    ranges = [*loops, *held.ranges]
    grid = launch.map((), ())
    box: dict[Var, Interval] = {Dim(k): v.interval for k, v in enumerate(grid.dims)}
    box |= {Range(k): v.interval for k, v in enumerate(ranges)}
    inside = [*held.condition]
    for e, interval in access.mask:
        masked = substitute(e, new)
        within = bounds(masked, box)
        inside.append((masked, Interval(max(interval.lo, within.lo), min(interval.hi, within.hi))))
    map = IndexingMap(grid.dims, ranges, (), (substitute(access.address, new),), inside)
    return AccessByThread(map.simplify(replace_points=False), bits_of(access.element), held.vector)


class Held(Struct, frozen=True):
    """The elements of a tile that each thread of a block loads or stores.

    Attributes:
        index: The index in the tile, by `THREAD` and the ranges; empty of a scalar.
        ranges: Registers of a thread.
        threads: Threads of a block; 0 of a scalar, which any number of threads may access.
        condition: The threads that take part.
        vector: Neighbouring elements that a thread holds.
    """

    index: tuple[Expr, ...]
    ranges: tuple[Variable, ...]
    threads: int
    condition: tuple[tuple[Expr, Interval], ...]
    vector: int

    @classmethod
    def of(
        cls, layout: LinearLayout | None, warp: int, first: int = 0, *, is_store: bool = False
    ) -> Held:
        """Return the elements that threads hold under a layout.

        Args:
            layout: From registers, lanes and warps to the tile; `None` for a scalar.
            warp: Lanes of a warp.
            first: Number of the first range variable that registers may have.
            is_store: Do threads store what they hold?  Then only the first holder of an element
                does.

        Raises:
            UnsupportedError: The layout has other inputs, or several blocks.
        """
        if layout is None:
            return cls((), (), 0, ((THREAD, Interval(0, 0)),) if is_store else (), 1)
        layout = _without_repeated_registers(layout)
        index, threads, ranges = index_by_thread(layout)
        new: dict[Var, Expr] = {Dim(0): THREAD}
        new |= {Range(k): Range(first + k) for k in range(len(ranges))}
        condition = _first_holders(layout, warp) if is_store else []
        held = tuple([substitute(e, new) for e in index])
        return cls(held, tuple(ranges), threads, tuple(condition), neighbours(layout))


def _without_repeated_registers(layout: LinearLayout) -> LinearLayout:
    """Return the layout without registers that repeat the element of another register."""
    sides = [
        Side(s.name, tuple([b for b in s.bases if any(b)])) if s.name == "register" else s
        for s in layout.ins
    ]
    return LinearLayout(tuple(sides), layout.outs, layout.offset)


def _first_holders(layout: LinearLayout, warp: int) -> list[tuple[Expr, Interval]]:
    """Return the condition that a thread is the first one that holds its elements.

    A basis of zeros means that lanes, or warps, which differ in this bit hold the same elements. Of
    these the one with bit 0 stores them.
    """
    found = []
    for name, first in (("lane", 1), ("warp", warp)):
        bases: Sequence[tuple[int, ...]] = next((s.bases for s in layout.ins if s.name == name), ())
        for k, basis in enumerate(bases):
            if not any(basis):
                found.append((mod(THREAD // (first << k), 2), Interval(0, 0)))
    return found


def bits_of(element: str) -> int:
    """Return the bits that an element takes in memory.

    >>> [bits_of(element) for element in ("f32", "bf16", "i1", "f8E4M3FN", "i64")]
    [32, 16, 8, 8, 64]
    """
    if element.startswith("f8"):
        return 8
    found = _BITS.match(element)
    if found is None:
        raise UnsupportedError(f"elements of type `{element}`")
    return max(8, int(found[1]))
