"""The scatter emitters: threads run over the updates, or warps over the slices that are added.

Source: XLA `xla/backends/gpu/codegen/emitters/scatter.cc`.
"""

from __future__ import annotations

from math import gcd, prod

from hloscope.affine import Expr, Interval, Range
from hloscope.indexing import IndexingMap, Variable
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice, written_by
from hloscope.memory.kernel import THREAD, Kernel, Launch, Reading, loop_variable, split
from hloscope.memory.storage import array_of, element_count, index_in
from hloscope.ops import Scatter

WARPS = 4
VECTOR_BITS = 128
NO_SLICES = "the indices are not [slices, coordinates]: what is read of them is not followed"


def scatter(choice: Choice) -> Kernel | None:
    """A kernel that adds updates; `None` where sizes are not known."""
    hero = choice.heroes[0]
    if not isinstance(hero.op, Scatter) or len(hero.operands) % 2 == 0:
        return None
    count = len(hero.operands) // 2
    type, indices = array_of(hero.operands[count + 1]), array_of(hero.operands[count])
    if type is None or indices is None:
        return None
    slices = _slices(hero.op, type, indices)
    map, launch, vector = _over_updates(choice, hero.op, type, slices)
    readings: list[Reading] = []
    inputs: dict[tuple[int, int], IndexingMap] = {}
    outputs: list[tuple[IndexingMap, ...] | None] = []
    for k in range(count):
        number = count + 1 + k
        inputs[0, number] = map
        readings.append(Reading(hero.operands[number], 0, map))
    if slices is not None:
        first = _of_indices(map, indices)
        inputs[0, count] = first
        readings.append(Reading(hero.operands[count], 0, first))
    for leaf, out in enumerate(choice.analysis.tensors(choice.roots[0].type)):
        if isinstance(out, TensorType):
            outputs.append(_placed(hero, count + 1 + leaf, map) if count == 1 else None)
    return Kernel(
        "scatter",
        launch,
        choice.heroes,
        tuple(readings),
        inputs,
        tuple(outputs),
        unroll=vector,
        notes=() if slices is not None else (NO_SLICES,),
    )


def _slices(op: Scatter, update: TensorType, indices: TensorType) -> int | None:
    """The number of slices of a scatter in the simplified form that XLA makes of all."""
    is_simple = (
        indices.rank == 2
        and op.index_vector_dim == 1
        and update.rank >= 1
        and op.update_window_dims == tuple(range(1, update.rank))
        and update.shape[0] == indices.shape[0]
    )
    return update.shape[0] if is_simple else None


def _over_updates(
    choice: Choice, op: Scatter, type: TensorType, slices: int | None
) -> tuple[IndexingMap, Launch, int]:
    elements = element_count(type)
    unroll = choice.unroll(elements)
    each = elements // slices if slices else 0
    if each and choice.unroll_asked is None:
        unroll = gcd(each, unroll)
    warps = WARPS * choice.device.sms
    by_warp = slices is not None and slices > warps and op.indices_are_sorted
    if each and by_warp and not op.unique_indices:
        assert slices is not None
        return _by_warp(choice, type, slices, each)
    launch = choice.launch(elements, unroll)
    return choice.over_elements(type, launch, unroll), launch, unroll


def _by_warp(
    choice: Choice, type: TensorType, slices: int, each: int
) -> tuple[IndexingMap, Launch, int]:
    """A warp for each slice, whose lanes walk along it with vectors."""
    warp = choice.device.warp
    vector = gcd(each, max(VECTOR_BITS // max(type.element.bits, 8), 1))
    while vector > 1 and vector * warp > each:
        vector //= 2
    launch = Launch.of(WARPS * warp, -(-slices // WARPS))
    number = launch.block * WARPS + THREAD // warp
    steps = -(-each // (warp * vector))
    linear = (loop_variable(0) * warp + THREAD % warp) * vector + loop_variable(1)
    sizes = type.shape[1:]
    index: list[Expr] = [number, *split(linear, sizes)]
    index = index_in(index, type.shape, _row_major(type))
    inside = [(number, slices), (linear, prod(sizes))]
    map = launch.map((steps, vector), index, inside).simplify(replace_points=False)
    return map, launch, vector


def _row_major(type: TensorType) -> TensorType:
    return TensorType(type.element, type.shape)


def _of_indices(map: IndexingMap, indices: TensorType) -> IndexingMap:
    """Every thread reads all coordinates of the slice that it belongs to."""
    coordinates = indices.shape[1]
    ranges = (*map.ranges, Variable(Interval(0, coordinates - 1)))
    results = (map.results[0], Range(len(map.ranges)))
    found = map.with_(ranges=ranges, results=results)
    return found.simplify(replace_points=False).remove_unused_symbols()


def _placed(hero: Instruction, operand: int, map: IndexingMap) -> tuple[IndexingMap, ...] | None:
    return written_by(hero, operand, map)
