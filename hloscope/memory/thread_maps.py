"""Kernels from thread maps given by users, by layouts, and by Triton's loads and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Dim, Expr, Interval, Range, Var, bounds, mod, substitute
from hloscope.errors import ParseError, UnsupportedError
from hloscope.indexing import IndexingMap, Variable, substituted, substituted_constraints
from hloscope.indexing.layouts import (
    Blocked,
    CuteLayout,
    LinearLayout,
    Side,
    index_by_thread,
    neighbours,
    over_tiles,
    parse_layout,
    thread_map,
)
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice
from hloscope.memory.dumps import FIRST_INDEX, PROGRAM
from hloscope.memory.fused import first_places
from hloscope.memory.kernel import BLOCK, BLOCK_Y, BLOCK_Z, GRID, THREAD, Kernel, Launch, Reading
from hloscope.memory.kinds import TRITON, kind_of
from hloscope.memory.storage import array_of, is_array
from hloscope.support.lazy import pattern
from hloscope.tiling import (
    ChosenTiles,
    Refusal,
    TiledComputation,
    TiledInstruction,
    Tiler,
    chosen_sizes,
    chosen_tiles,
    tiles_of,
)

if TYPE_CHECKING:
    from hloscope.memory.dumps import TritonAccess


# --------------------------------------------------------------------------------------------------
# User-defined kernels: a map from threads to elements in place of an emitter.
#
# Dimensions with names of XLA, Triton or CUDA are converted to threads and blocks in x, y and z:
# `th_x` …, `bl_x` …; `lane`, `warp`, `register` and `block`; `tid` and `pid`.


DIMENSION_NAMES: Final[Mapping[str, str]] = {
    "tid": "th_x", "thread": "th_x", "threadIdx_x": "th_x", "threadIdx_y": "th_y",
    "threadIdx_z": "th_z", "pid": "bl_x", "block": "bl_x", "pid_0": "bl_x", "pid_1": "bl_y",
    "pid_2": "bl_z", "blockIdx_x": "bl_x", "blockIdx_y": "bl_y", "blockIdx_z": "bl_z",
    "th_w": "lane",
}  # fmt: skip
"""Accepted names of grid dimensions, with XLA's name for each."""
LANE_NAMES: Final = ("lane", "warp")
LOOPS: Final = ("register", "reg", "vector", "loop")
"""Names of input dimensions that are loops of a thread."""


def on_grid(map: IndexingMap, warp: int) -> tuple[IndexingMap, Launch]:
    """Return a thread map over XLA's dimensions (threads and blocks in x, y, z), and its launch.

    Args:
        map: A map with named dimensions; without names, the first is the thread, a second the
            block.
        warp: Lanes of a warp, for maps with dimensions `lane` and `warp`.

    Raises:
        UnsupportedError: A dimension has an unknown name, or bounds that no launch has.

    >>> text = "(lane, warp)[s0] -> (warp * 128 + lane * 4 + s0), domain: lane in [0, 31], "
    >>> map, launch = on_grid(IndexingMap.parse(text + "warp in [0, 3], s0 in [0, 3]"), 32)
    >>> print(launch, map.results[0])
    128 threads × 1 blocks d0 * 4 + s0
    """
    if map.is_known_empty or map.is_undefined:
        raise UnsupportedError("the thread map has no threads")
    if map.runtime:
        raise UnsupportedError("a thread map reads nothing at run time")
    names = _names(map)
    sizes = {name: v.interval for name, v in zip(names, map.dims, strict=True)}
    if any(interval.lo < 0 or interval.hi >= 1 << 62 for interval in sizes.values()):
        raise UnsupportedError("every dimension of a thread map needs bounds from 0 on")
    threads, places = _threads(names, sizes, warp)
    blocks = [sizes[n].hi + 1 if n in sizes else 1 for n in GRID[3:]]
    new: dict[Var, Expr] = {}
    loops: list[Variable] = []
    for k, name in enumerate(names):
        if name in LOOPS:
            new[Dim(k)] = Range(len(loops))
            loops.append(Variable(map.dims[k].interval))
        else:
            new[Dim(k)] = places.get(name) or Dim(GRID.index(name))
    new |= {Range(k): Range(len(loops) + k) for k in range(len(map.ranges))}
    launch = Launch((threads[0], threads[1], threads[2]), (blocks[0], blocks[1], blocks[2]))
    empty = launch.map((), ())
    inside = [
        (new[Dim(k)], v.interval)
        for k, v in enumerate(map.dims)
        if names[k] not in LOOPS and (v.interval.lo or names[k] in LANE_NAMES)
    ]
    found = IndexingMap(
        empty.dims,
        [*loops, *map.ranges],
        (),
        substituted(map.results, new),
        [*substituted_constraints(map.constraints, new), *inside],
    )
    return found.simplify(replace_points=False), launch


def _names(map: IndexingMap) -> list[str]:
    known = {*GRID, *LANE_NAMES, *LOOPS}
    given = [DIMENSION_NAMES.get(v.name, v.name) for v in map.dims]
    if not any(given) and len(given) <= 2:
        return ["th_x", "bl_x"][: len(given)]
    for name, v in zip(given, map.dims, strict=True):
        if name not in known:
            said = f"`{v.name}`" if v.name else "a dimension without a name"
            raise UnsupportedError(
                f"{said} of the thread map: known are {', '.join([*GRID, *LANE_NAMES, *LOOPS])}, "
                f"{', '.join(DIMENSION_NAMES)}"
            )
    if len(set(given)) < len(given):
        raise UnsupportedError("two dimensions of the thread map mean the same")
    if set(given) & set(LANE_NAMES) and set(given) & set(GRID[:3]):
        raise UnsupportedError("a thread map has threads, or lanes and warps, not both")
    return given


def _threads(
    names: list[str], sizes: Mapping[str, Interval], warp: int
) -> tuple[list[int], dict[str, Expr]]:
    """Return the threads of a block (x, y, z), and `lane` and `warp` as expressions in the thread.

    Args:
        names: XLA's names of the map's dimensions.
        sizes: Interval of each dimension.
        warp: Lanes of a warp.
    """
    if not set(names) & set(LANE_NAMES):
        return [sizes[n].hi + 1 if n in sizes else 1 for n in GRID[:3]], {}
    lanes = sizes["lane"].hi + 1 if "lane" in sizes else 1
    if lanes > warp:
        raise UnsupportedError(f"{lanes} lanes are more than the {warp} of a warp")
    warps = sizes["warp"].hi + 1 if "warp" in sizes else 1
    count = warp * warps if warps > 1 else lanes
    return [count, 1, 1], {"lane": Dim(0) % warp, "warp": Dim(0) // warp}


def kernel_by(choice: Choice, given: IndexingMap | ThreadLayout) -> Kernel:
    """Return the kernel whose threads write the output elements that a thread map states.

    A Triton layout also applies to the tiles that a Triton fusion loads, each with its own sizes.

    Args:
        choice: The fusion and its device.
        given: Map from threads to elements of every output, or a layout of a tile over the threads.

    Raises:
        UnsupportedError: The map or layout does not fit an output, or outputs need different
            launches.
    """
    ins = choice.fused.instruction
    if ins is not None and isinstance(given, ThreadLayout) and kind_of(ins).maker == TRITON:
        return kernel_by_tiles(choice, ins, given)
    readings: list[Reading] = []
    outputs: list[tuple[IndexingMap, ...] | None] = []
    launches: dict[Launch, int] = {}
    for root in choice.roots:
        for leaf, type in enumerate(choice.analysis.tensors(root.type)):
            if not isinstance(type, TensorType) or not is_array(type):
                continue
            warp = choice.device.warp
            map, near = (
                (given, 1) if isinstance(given, IndexingMap) else given.over(type.shape, warp)
            )
            by_thread, launch = on_grid(map, warp)
            launches[launch] = near
            mine = _inside(by_thread, type, root)
            outputs.append((mine,))
            readings.append(Reading(root, leaf, mine))
    if len(launches) != 1:
        what = ", ".join(f"{one}" for one in launches) or "none"
        raise UnsupportedError(f"a thread map has one launch for all outputs, these need {what}")
    ((launch, near),) = launches.items()
    name = "thread map as given"
    return Kernel(
        name, launch, choice.roots, tuple(readings), {}, tuple(outputs), unroll=near, is_given=True
    )


def _inside(map: IndexingMap, type: TensorType, root: Instruction) -> IndexingMap:
    if len(map.results) != type.rank:
        raise UnsupportedError(
            f"the thread map leads to {len(map.results)} dimensions, `{root.name}` has {type.rank}"
        )
    for e, size in zip(map.results, type.shape, strict=True):
        map = map.add_constraint(e, Interval(0, size - 1))
    return map.simplify(replace_points=False)


# --------------------------------------------------------------------------------------------------
# Thread maps given as layouts of a tile: Triton's blocked and linear layouts, and CuTe's.
#
# The tensor's sizes decide which of its elements they represent: blocks take its tiles one after
# another, in row-major order.


FORMS: Final = (
    "a map `(th_x, bl_x)[s0] -> (…), domain: …`, Triton's `#ttg.blocked<{…}>` or the text of a "
    "linear layout, or CuTe's `(threads,values):(strides)`"
)
"""Description of the accepted forms of a thread map."""
MOST_THREADS: Final = 1024


class ThreadLayout(Struct, frozen=True):
    """A layout of a tile over the threads of a block.

    Attributes:
        layout: Map from registers, lanes and warps, or from threads and values, to the tile.
        tile: Sizes of the tile; `None` if the layout determines them.
    """

    layout: Blocked | LinearLayout | CuteLayout
    tile: tuple[int, ...] | None = None

    def over(self, shape: Sequence[int], warp: int) -> tuple[IndexingMap, int]:
        """Return the map from threads and blocks to a tensor's elements, with the vector size.

        Args:
            shape: Sizes of the tensor.
            warp: Lanes of a warp.

        Raises:
            UnsupportedError: The layout does not fit the tensor or the device.

        >>> layout = parse_thread_map("#ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], "
        ...                           "warpsPerCTA = [1], order = [0]}>")
        >>> print(layout.over((256,), 32)[0].results[0])
        d0 * 2 + d1 * 64 + s0
        """
        match self.layout:
            case CuteLayout():
                return _over_cute(self.layout, self._tile_of_cute(shape), shape)
            case Blocked():
                linear = self.layout.to_linear(self.tile or self.layout.tile)
            case _:
                linear = self.layout
                if self.tile is not None and self.tile != tuple([n for _, n in linear.outs]):
                    raise UnsupportedError("a linear layout has a tile of its own")
        lanes = dict(linear.size_of).get("lane", 1)
        if lanes > warp or (lanes < warp and dict(linear.size_of).get("warp", 1) > 1):
            raise UnsupportedError(f"a layout of {lanes} lanes, and warps of {warp}")
        _check_threads(lanes * dict(linear.size_of).get("warp", 1))
        return thread_map(linear, shape), neighbours(linear)

    def _tile_of_cute(self, shape: Sequence[int]) -> tuple[int, ...]:
        assert isinstance(self.layout, CuteLayout)
        if self.tile is not None:
            return self.tile
        if len(shape) == 1:
            return (self.layout.cosize,)
        raise UnsupportedError("a CuTe layout of threads and values needs the sizes of its tile")


def parse_thread_map(text: str, tile: tuple[int, ...] | None = None) -> IndexingMap | ThreadLayout:
    """Return the thread map that a text describes, in any of the accepted forms.

    Raises:
        ParseError: The text has none of the accepted forms.

    >>> type(parse_thread_map("((4,8),2):((32,1),16)", (16, 8))).__name__
    'ThreadLayout'
    """
    plain = text.strip()
    if "blocked" in plain and "<" in plain:
        return ThreadLayout(
            Blocked.parse(plain[plain.index("#") :] if "#" in plain else plain), tile
        )
    if "where out dims are" in plain:
        return ThreadLayout(parse_layout(text), tile)
    if "->" in plain or plain == "KNOWN EMPTY":
        return IndexingMap.parse(text, name="<thread map>")
    if ":" in plain:
        return ThreadLayout(CuteLayout.parse(plain), tile)
    raise ParseError(f"expected {FORMS}, found `{plain[:60]}`")


def _over_cute(
    layout: CuteLayout, tile: tuple[int, ...], shape: Sequence[int]
) -> tuple[IndexingMap, int]:
    """Return the map of a CuTe layout over a whole tensor, and a thread's vector size.

    CuTe numbers the positions of a tile with the first dimension fastest.

    Args:
        layout: The layout, from threads and values to positions in a tile.
        tile: Sizes of the tile.
        shape: Sizes of the tensor.

    Raises:
        UnsupportedError: The layout does not fit the tile, or the tile the tensor.
    """
    if len(tile) != len(shape):
        raise UnsupportedError(f"the tile has rank {len(tile)}, the tensor {len(shape)}")
    reach = layout.cosize if layout.swizzle is None else 1 << (layout.cosize - 1).bit_length()
    if reach > prod(tile):
        raise UnsupportedError(f"the layout leads to place {reach - 1} of a tile of {prod(tile)}")
    map = layout.to_map(by_mode=True)
    if len(map.dims) > 2:
        raise UnsupportedError(f"{len(map.dims)} modes: a layout of threads and values has two")
    threads = map.dims[0].interval.hi + 1
    _check_threads(threads)
    value, ranges = map.results[0], list[Variable]()
    near = 1
    if len(map.dims) == 2:
        assert isinstance(layout.shape, tuple)
        assert isinstance(layout.stride, tuple)
        values = CuteLayout(layout.shape[1], layout.stride[1])
        sizes = [mode.size for mode in values.modes if mode.size > 1]
        near = sizes[0] if sizes else 1
        ranges = [Variable(Interval(0, n - 1), f"v{k}") for k, n in enumerate(sizes)]
        value = substitute(value, {Dim(1): _joined(sizes)})
    inside, below = [], 1
    for k, size in enumerate(tile):
        part: Expr = value // below if below > 1 else value
        inside.append(part % size if k + 1 < len(tile) else part)
        below *= size
    return over_tiles(inside, tile, shape, threads, ranges), near


def _check_threads(threads: int) -> None:
    if threads > MOST_THREADS:
        raise UnsupportedError(f"{threads:,} threads are more than the {MOST_THREADS} of a block")


def _joined(sizes: Sequence[int]) -> Expr:
    found: Expr = Dim(1) * 0
    below = 1
    for k, size in enumerate(sizes):
        found = found + Range(k) * below
        below *= size
    return found


# --------------------------------------------------------------------------------------------------
# Threads of a Triton fusion under one layout, applied to the tile of each load and store.
#
# The tile of an output is not that of every load: a softmax loads whole rows for its sums,
# whichever elements a thread writes. So the layout is applied to the tile of each array, as Triton
# applies it.
#
# Source: XLA `xla/backends/gpu/codegen/triton/fusion_emitter.cc`: tiles are padded to powers of
# two, and elements beyond the tile or the array are masked.


NAME = "layout as given, on the tile of each array"


def kernel_by_tiles(choice: Choice, ins: Instruction, given: ThreadLayout) -> Kernel:
    """Return the kernel of a Triton fusion that holds every tile in the given layout.

    Args:
        choice: The fusion and its device.
        ins: The fusion.
        given: A blocked or linear layout; its tile is the output's if the dump names none.

    Raises:
        UnsupportedError: The tiles are not known, one does not fit the layout, or a dot's loop is
            among them.
    """
    if isinstance(given.layout, CuteLayout):
        raise UnsupportedError("a CuTe layout does not say how tiles of other sizes are held")
    tiled = _tiles(ins, given)
    operands = first_places(ins.operands)
    loads = [t for t in tiled.every() if t.instruction in operands]
    held = [(t, _held(t, given.layout, choice.device.warp, is_store=False)) for t in loads]
    stores = [(t, _held(t, given.layout, choice.device.warp, is_store=True)) for t in tiled.roots]
    threads = {h.threads for _, h in (*held, *stores) if h.threads}
    if len(threads) != 1:
        raise UnsupportedError("no array has a tile that the layout holds")
    launch = Launch.of(threads.pop(), tiled.programs)
    readings = [
        Reading(choice.fused.edge[operands[t.instruction]], t.node.output, _map(t, h, launch))
        for t, h in held
    ]
    outputs = [(_map(t, h, launch),) for t, h in stores]
    unroll = max([h.vector for _, h in (*held, *stores)])
    return Kernel(NAME, launch, choice.roots, tuple(readings), {}, tuple(outputs), unroll=unroll)


def _tiles(ins: Instruction, given: ThreadLayout) -> TiledComputation:
    """Return the tiles of every array of a fusion.

    Tile sizes come from the dump, or from `given.tile`.
    """
    chosen = chosen_tiles(ins)
    if chosen is None and given.tile is not None:
        chosen = replace(ChosenTiles(""), outputs=(given.tile,))
    if chosen is None:
        raise UnsupportedError("the dump holds no tile sizes: give them with --tile")
    symbolic = tiles_of(ins)
    if isinstance(symbolic, Refusal):
        raise UnsupportedError(f"XLA's tiling refuses it: {symbolic.reason}")
    if any(p.is_contracting for p in symbolic.parameters):
        what = "a dot loops over tiles, each with a layout of its own"
        raise UnsupportedError(f"{what}: a dump folder states them")
    sizes = chosen_sizes(symbolic, chosen)
    if isinstance(sizes, str):
        raise UnsupportedError(sizes)
    tiled = Tiler(symbolic).tiled(sizes, is_known_valid=True)
    if isinstance(tiled, Refusal):
        raise UnsupportedError(f"XLA's tiling refuses it: {tiled.reason}")
    return tiled


def _held(
    tiled: TiledInstruction, layout: Blocked | LinearLayout, warp: int, *, is_store: bool
) -> Held:
    """Return the elements of a tile that each thread loads or stores.

    Tile sizes are padded to powers of two.

    Args:
        tiled: The instruction with its tile.
        layout: Layout of the tile.
        warp: Lanes of a warp.
        is_store: Do the threads store the elements?
    """
    padded = [1 << max(size - 1, 0).bit_length() for size in tiled.sizes]
    if not padded:
        return Held.of(None, warp, is_store=is_store)
    rank = len(layout.order if isinstance(layout, Blocked) else layout.outs)
    name = tiled.instruction.name
    if rank != len(padded):
        what = f"the layout has rank {rank}, the tile of `{name}` {len(padded)}"
        raise UnsupportedError(f"{what}: a dump folder states the layout of each array")
    if isinstance(layout, Blocked):
        return Held.of(layout.to_linear(padded), warp, is_store=is_store)
    if [size for _, size in layout.outs] != padded:
        tile = "x".join(map(str, padded))
        raise UnsupportedError(f"a linear layout has a tile of its own, that of `{name}` is {tile}")
    return Held.of(layout, warp, is_store=is_store)


def _map(tiled: TiledInstruction, held: Held, launch: Launch) -> IndexingMap:
    """Return the map from threads and blocks to the elements of an array.

    Args:
        tiled: The instruction with the tile of each block.
        held: The elements of a tile that each thread holds.
        launch: Blocks and threads of the kernel.
    """
    type = array_of(tiled.instruction)
    if type is None or tiled.offsets.runtime or type.rank != len(held.index):
        raise UnsupportedError(f"where the tiles of `{tiled.instruction.name}` lie is not known")
    starts: Sequence[Expr] = [substitute(e, {Dim(0): BLOCK}) for e in tiled.offsets.results]
    inside = [*held.condition]
    index = []
    places = zip(starts, held.index, tiled.sizes, tiled.strides, type.shape, strict=True)
    for start, within, size, stride, extent in places:
        # Triton masks elements beyond the tile, which is padded, and beyond the array.
        inside.append((within, Interval(0, size - 1)))
        index.append(start + within * stride)
        inside.append((index[-1], Interval(0, extent - 1)))
    grid = launch.map((), ())
    found = IndexingMap(grid.dims, held.ranges, (), index, inside)
    return found.simplify(replace_points=False)


# --------------------------------------------------------------------------------------------------
# Loads and stores of a Triton kernel by thread, with the compiler's layouts and addresses.
#
# Source: Triton `LoadStoreOpToLLVM.cpp`: registers that hold the same element make one access; of
# threads that hold the same element all load it, and the first one stores it.


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
        index: Index in the tile as expressions in `THREAD` and the ranges; empty for a scalar.
        ranges: Variables that enumerate the registers of a thread.
        threads: Threads of a block; 0 for a scalar, which any number of threads may access.
        condition: Constraints on the threads that access elements.
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
        # Registers that repeat the element of another register make no access of their own.
        sides = [
            Side(s.name, tuple([b for b in s.bases if any(b)])) if s.name == "register" else s
            for s in layout.ins
        ]
        layout = LinearLayout(tuple(sides), layout.outs, layout.offset)
        index, threads, ranges = index_by_thread(layout)
        new: dict[Var, Expr] = {Dim(0): THREAD}
        new |= {Range(k): Range(first + k) for k in range(len(ranges))}
        condition = _first_holders(layout, warp) if is_store else []
        held = tuple([substitute(e, new) for e in index])
        return cls(held, tuple(ranges), threads, tuple(condition), neighbours(layout))


def _first_holders(layout: LinearLayout, warp: int) -> list[tuple[Expr, Interval]]:
    """Return constraints under which a thread is the first of those that hold its elements.

    A basis of zeros in the layout means that lanes or warps that differ in this bit hold the same
    elements. The one with bit 0 stores them.
    """
    found = []
    for name, first in (("lane", 1), ("warp", warp)):
        bases: Sequence[tuple[int, ...]] = next((s.bases for s in layout.ins if s.name == name), ())
        for k, basis in enumerate(bases):
            if not any(basis):
                found.append((mod(THREAD // (first << k), 2), Interval(0, 0)))
    return found


def bits_of(element: str) -> int:
    """Return the bits of an element of a Triton type in memory, at least 8.

    >>> [bits_of(element) for element in ("f32", "bf16", "i1", "f8E4M3FN", "i64")]
    [32, 16, 8, 8, 64]
    """
    if element.startswith("f8"):
        return 8
    found = _BITS.match(element)
    if found is None:
        raise UnsupportedError(f"elements of type `{element}`")
    return max(8, int(found[1]))
