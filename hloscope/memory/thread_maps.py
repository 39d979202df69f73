"""User-defined kernels: a map from threads to elements in place of an emitter.

Dimensions with names of XLA, Triton or CUDA are converted to threads and blocks in x, y and z:
`th_x` …, `bl_x` …; `lane`, `warp`, `register` and `block`; `tid` and `pid`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hloscope.affine import Dim, Expr, Interval, Range, Var
from hloscope.errors import UnsupportedError
from hloscope.indexing import IndexingMap, Variable, substituted, substituted_constraints
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice
from hloscope.memory.kernel import GRID, Kernel, Launch, Reading
from hloscope.memory.kinds import TRITON, kind_of
from hloscope.memory.storage import is_array
from hloscope.memory.thread_layouts import ThreadLayout
from hloscope.memory.tiled_threads import kernel_by_tiles

SAME: Final[Mapping[str, str]] = {
    "tid": "th_x", "thread": "th_x", "threadIdx_x": "th_x", "threadIdx_y": "th_y",
    "threadIdx_z": "th_z", "pid": "bl_x", "block": "bl_x", "pid_0": "bl_x", "pid_1": "bl_y",
    "pid_2": "bl_z", "blockIdx_x": "bl_x", "blockIdx_y": "bl_y", "blockIdx_z": "bl_z",
    "th_w": "lane",
}  # fmt: skip
"""Other names of the dimensions of a grid."""
LANE_NAMES: Final = ("lane", "warp")
LOOPS: Final = ("register", "reg", "vector", "loop")
"""Names of dimensions that are loops of a thread."""


def on_grid(map: IndexingMap, warp: int) -> tuple[IndexingMap, Launch]:
    """Return the map from threads and blocks in x, y and z, and its launch dimensions.

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
    given = [SAME.get(v.name, v.name) for v in map.dims]
    if not any(given) and len(given) <= 2:
        return ["th_x", "bl_x"][: len(given)]
    for name, v in zip(given, map.dims, strict=True):
        if name not in known:
            said = f"`{v.name}`" if v.name else "a dimension without a name"
            raise UnsupportedError(
                f"{said} of the thread map: known are {', '.join([*GRID, *LANE_NAMES, *LOOPS])}, "
                f"{', '.join(SAME)}"
            )
    if len(set(given)) < len(given):
        raise UnsupportedError("two dimensions of the thread map mean the same")
    if set(given) & set(LANE_NAMES) and set(given) & set(GRID[:3]):
        raise UnsupportedError("a thread map has threads, or lanes and warps, not both")
    return given


def _threads(
    names: list[str], sizes: Mapping[str, Interval], warp: int
) -> tuple[list[int], dict[str, Expr]]:
    """Return the threads of a block, and lane and warp as expressions in the thread."""
    if not set(names) & set(LANE_NAMES):
        return [sizes[n].hi + 1 if n in sizes else 1 for n in GRID[:3]], {}
    lanes = sizes["lane"].hi + 1 if "lane" in sizes else 1
    if lanes > warp:
        raise UnsupportedError(f"{lanes} lanes are more than the {warp} of a warp")
    warps = sizes["warp"].hi + 1 if "warp" in sizes else 1
    count = warp * warps if warps > 1 else lanes
    return [count, 1, 1], {"lane": Dim(0) % warp, "warp": Dim(0) // warp}


def kernel_by(choice: Choice, given: IndexingMap | ThreadLayout) -> Kernel:
    """Return a kernel whose threads compute the output elements that a thread map leads to.

    A Triton layout also applies to the tiles of a Triton fusion's loads, each with its own sizes.

    Raises:
        UnsupportedError: The map or layout does not fit an output.
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
            map, near = _over(given, type, choice.device.warp)
            by_thread, launch = on_grid(map, choice.device.warp)
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


def _over(
    given: IndexingMap | ThreadLayout, type: TensorType, warp: int
) -> tuple[IndexingMap, int]:
    """Return the map to elements of a tensor, and the consecutive elements of a thread."""
    if isinstance(given, IndexingMap):
        return given, 1
    return given.over(type.shape, warp)


def _inside(map: IndexingMap, type: TensorType, root: Instruction) -> IndexingMap:
    if len(map.results) != type.rank:
        raise UnsupportedError(
            f"the thread map leads to {len(map.results)} dimensions, `{root.name}` has {type.rank}"
        )
    for e, size in zip(map.results, type.shape, strict=True):
        map = map.add_constraint(e, Interval(0, size - 1))
    return map.simplify(replace_points=False)
