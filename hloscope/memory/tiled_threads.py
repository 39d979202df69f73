"""Threads of a Triton fusion under one layout, applied to the tile of each load and store.

The tile of an output is not that of every load: a softmax loads whole rows for its sums, whichever
elements a thread writes. So the layout is applied to the tile of each array, as Triton applies it.

Source: XLA `xla/backends/gpu/codegen/triton/fusion_emitter.cc`: tiles are padded to powers of two,
and elements beyond the tile or the array are masked.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from hloscope.affine import Dim, Expr, Interval, substitute
from hloscope.errors import UnsupportedError
from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction
from hloscope.layouts import Blocked, CuteLayout, LinearLayout
from hloscope.memory.choice import Choice
from hloscope.memory.kernel import BLOCK, Kernel, Launch, Reading
from hloscope.memory.storage import array_of
from hloscope.memory.thread_layouts import ThreadLayout
from hloscope.memory.triton_accesses import Held
from hloscope.tiling import (
    ChosenTiles,
    Fused as TiledFusion,
    Refusal,
    TiledComputation,
    TiledInstruction,
    Tiler,
    chosen_sizes,
    chosen_tiles,
    fusion_config,
    symbolic_tiles,
)

NAME = "layout as given, on the tile of each array"


def kernel_by_tiles(choice: Choice, ins: Instruction, given: ThreadLayout) -> Kernel:
    """Return the kernel of a Triton fusion whose threads hold every tile by one layout.

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
    operands = {operand: k for k, operand in reversed([*enumerate(ins.operands)])}
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
    """Return the tiles of every array, by the sizes in the dump or those given with the layout."""
    chosen = chosen_tiles(ins)
    if chosen is None and given.tile is not None:
        chosen = replace(ChosenTiles(""), outputs=(given.tile,))
    if chosen is None:
        raise UnsupportedError("the dump holds no tile sizes: give them with --tile")
    symbolic = symbolic_tiles(TiledFusion.of(ins), kind=str(fusion_config(ins).get("kind", "")))
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
    """Return the elements of a tile, padded to powers of two, that each thread holds."""
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
    """Return the map from threads and programs to the elements of an array."""
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
