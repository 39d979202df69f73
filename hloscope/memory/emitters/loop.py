"""Emitters whose threads run over elements: loops, concatenations, in-place slice updates."""

from __future__ import annotations

from math import gcd, prod
from typing import Final

from hloscope.affine import Interval, depends_on_runtime
from hloscope.fusion import ALIASES, Analysis
from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction, Op, TensorType
from hloscope.memory.choice import Choice, in_memory_of, written_by
from hloscope.memory.fused import Fused, behind_tuples
from hloscope.memory.kernel import Kernel, Launch, Reading
from hloscope.memory.kinds import SLICES
from hloscope.memory.storage import array_of, element_count, is_array
from hloscope.ops import (
    Bitcast,
    Concatenate,
    DynamicSlice,
    DynamicUpdateSlice,
    Elementwise,
    Reduce,
    Slice,
    Tuple,
)
from hloscope.support.walks import reached

# --------------------------------------------------------------------------------------------------
# The loop emitter: every thread computes a few consecutive elements.
#
# Source: XLA `xla/backends/gpu/codegen/emitters/loop.cc`, `launch_dimensions.cc`.


def loop(choice: Choice) -> Kernel:
    """Return a loop kernel: its threads run over the elements of the first root's array."""
    first = choice.array(0)
    elements = 1 if first is None else element_count(first)
    unroll = choice.unroll(elements)
    launch = choice.launch(elements, unroll)
    readings: list[Reading] = []
    outputs: list[tuple[IndexingMap, ...] | None] = []
    for k, root in enumerate(choice.roots):
        # A root whose code stays a loop of its own shares no load with the other roots.
        own_loop = k + 1 if len(choice.roots) > 1 and stays_loop(root, choice.fused) else 0
        for leaf, type in enumerate(choice.analysis.tensors(root.type)):
            if not isinstance(type, TensorType):
                continue
            if not is_array(type):
                outputs.append(None)
                continue
            map = choice.over_elements(type, launch, unroll)
            outputs.append((map,))
            readings.append(Reading(root, leaf, map, loop=own_loop))
    return Kernel(
        "loop",
        launch,
        choice.roots,
        tuple(readings),
        inputs=_of_operands(choice, launch, unroll),
        outputs=tuple(outputs),
        unroll=unroll,
    )


def _of_operands(choice: Choice, launch: Launch, unroll: int) -> dict[tuple[int, int], IndexingMap]:
    """Return maps from threads to the elements of roots' operands that they read.

    Keys are (root number, operand number). Operands that a root reads through several accesses are
    left out.

    Args:
        choice: The fusion and its device.
        launch: Blocks and threads of the kernel.
        unroll: Consecutive elements that a thread computes.
    """
    found = {}
    for k, root in enumerate(choice.roots):
        type = choice.array(k)
        if type is None or choice.fused.contains(root) is False:
            continue
        map = choice.over_elements(type, launch, unroll)
        for (operand, leaf), accesses in choice.analysis.output_to_input(root).items():
            one = accesses[0].map if len(accesses) == 1 else None
            if isinstance(operand, int) and leaf == 0 and one is not None:
                found[k, operand] = map.compose(one).simplify(replace_points=False)
    return found


# --------------------------------------------------------------------------------------------------
# The concatenate emitter: threads run over the longest operand and copy one of each operand.
#
# Source: XLA `xla/backends/gpu/codegen/emitters/concatenate.cc`.


def concatenate(choice: Choice) -> Kernel | None:
    """Return a kernel that copies one operand after the other; `None` if sizes are unknown."""
    root, hero = choice.roots[0], choice.heroes[0]
    assert isinstance(hero.op, Concatenate)
    dimension = hero.op.dimension
    types = [operand.type for operand in hero.operands]
    target, written_type = hero.type, choice.array(0)
    arrays = [t for t in types if isinstance(t, TensorType) and is_array(t)]
    if len(arrays) != len(types) or not isinstance(target, TensorType) or written_type is None:
        return None
    longest = max(arrays, key=lambda type: type.shape[dimension])
    loop_unroll = unroll = choice.unroll(element_count(longest))
    for type in arrays:
        # A vector must not cross the boundary between two operands.
        unroll = gcd(unroll, type.shape[dimension])
    unroll = unroll or 1
    launch = choice.launch(element_count(longest), loop_unroll)
    if unroll != loop_unroll:
        launch = choice.launch(element_count(longest), unroll)
    map = choice.over_elements(longest, launch, unroll)
    readings: list[Reading] = []
    places: list[IndexingMap] = []
    inputs: dict[tuple[int, int], IndexingMap] = {}
    start = 0
    for number, (operand, type) in enumerate(zip(hero.operands, arrays, strict=True)):
        size = type.shape[dimension]
        # Threads run over the longest operand; shorter ones leave the threads beyond their size
        # idle.
        own_map = map.add_constraint(map.results[dimension], Interval(0, size - 1))
        own_map = own_map.simplify(replace_points=False)
        inputs[0, number] = own_map
        readings.append(Reading(operand, 0, own_map))
        moved = list(own_map.results)
        moved[dimension] = moved[dimension] + start
        start += size
        place = in_memory_of(own_map.with_(results=moved), target, written_type)
        if place is None:
            return None
        places.append(place)
        if behind_tuples(root) is not hero:
            readings.append(Reading(root, 0, place, is_hero=False))
    return Kernel(
        "concatenate",
        launch,
        choice.heroes,
        tuple(readings),
        inputs,
        (tuple(places),),
        unroll=unroll,
    )


# --------------------------------------------------------------------------------------------------
# In-place updates of a slice: threads run over the update; other elements are not accessed.
#
# Source: XLA `xla/backends/gpu/codegen/emitters/in_place_dynamic_update_slice.cc`,
# `xla/codegen/ir_emission_utils.cc` (`CanEmitFusedDynamicUpdateSliceInPlace`).


NAME = "in-place update"
IN_PLACE = "the operand of the update is taken to be the output's own memory"


def updates_of(choice: Choice) -> list[Instruction]:
    """Return the dynamic-update-slice of each root; empty if XLA does not update in place.

    XLA updates in place if every root updates a parameter of the fusion, all updates have the same
    sizes, and each element of an updated array is read only where it is overwritten.
    """
    fused = choice.fused
    found = [update_behind(root, fused) for root in choice.roots]
    updates = [update for update in found if update is not None]
    types = [array_of(update.operands[1]) for update in updates]
    if len(updates) < len(found) or len({None if t is None else t.shape for t in types}) != 1:
        return []
    if types[0] is None or any(array_of(update) is None for update in updates):
        return []
    return updates if all(may_be_in_place(update, fused) for update in updates) else []


def update_behind(root: Instruction, fused: Fused) -> Instruction | None:
    """Return the dynamic-update-slice behind a root and its bitcasts; `None` for other roots."""
    while isinstance(root.op, Bitcast) and fused.contains(root.operands[0]):
        root = root.operands[0]
    return root if isinstance(root.op, DynamicUpdateSlice) else None


def may_be_in_place(update: Instruction, fused: Fused) -> bool:
    """Does XLA let an update overwrite its operand, a parameter of the fusion?

    Only bitcasts may follow the update, since another reader could read old or new elements. The
    operand may be read by element-wise ops, bitcasts and tuples, which read an element where it is
    overwritten. It may also be read by a dynamic slice at the indices of the update, or of one
    element.
    """
    after = update
    while users := fused.users.get(after, ()):
        if len(users) > 1:
            return False
        if isinstance(users[0].op, Tuple):
            break
        if not isinstance(users[0].op, Bitcast):
            return False
        after = users[0]
    source = update.operands[0]
    if isinstance(source.op, Bitcast) and fused.contains(source):
        source = source.operands[0]
    if fused.contains(source):
        return False
    todo, seen = [source], {source, update}
    while todo:
        for user in fused.users.get(todo.pop(), ()):
            if user is not update and not _reads_overwritten_elements(user, update):
                return False
            if user not in seen:
                seen.add(user)
                todo.append(user)
    return True


def _reads_overwritten_elements(user: Instruction, update: Instruction) -> bool:
    """Does a user read an updated array only where the update overwrites it with the same element?

    That holds for element-wise ops, bitcasts and tuples, and for a dynamic slice of the updated
    operand that has the sizes of the update, and either its start indices or one element.
    """
    if isinstance(user.op, DynamicSlice) and user.operands[0] is update.operands[0]:
        here, there = array_of(user), array_of(update.operands[1])
        if here is not None and there is not None and here.shape == there.shape:
            is_same = user.operands[1:] == update.operands[2:]
            return is_same or element_count(here) == 1
    return isinstance(user.op, Elementwise | Bitcast | Tuple)


def update_in_place(choice: Choice, updates: list[Instruction]) -> Kernel:
    """Return a kernel that writes update slices into the memory of the arrays that they update.

    The other elements of these arrays stay where they are.

    Args:
        choice: The fusion and its device.
        updates: The dynamic-update-slice of each root.
    """
    first = array_of(updates[0].operands[1])
    assert first is not None
    elements = element_count(first)
    unroll = choice.unroll(elements)
    launch = choice.launch(elements, unroll)
    readings: list[Reading] = []
    outputs: list[tuple[IndexingMap, ...] | None] = []
    inputs: dict[tuple[int, int], IndexingMap] = {}
    for k, (root, update) in enumerate(zip(choice.roots, updates, strict=True)):
        type = array_of(update.operands[1])
        assert type is not None
        map = choice.over_elements(type, launch, unroll)
        inputs[k, 1] = map
        readings.append(Reading(update.operands[1], 0, map))
        for start in update.operands[2:]:
            if not (isinstance(start.type, TensorType) and start.type.rank):
                readings.append(Reading(start, 0, map.with_(results=()), is_hero=False))
        outputs.append(placed_update(root, update, map))
    return Kernel(
        NAME,
        launch,
        tuple(updates),
        tuple(readings),
        inputs,
        tuple(outputs),
        unroll=unroll,
        notes=(IN_PLACE,),
    )


def placed_update(
    root: Instruction, update: Instruction, map: IndexingMap
) -> tuple[IndexingMap, ...] | None:
    """Return the maps from threads to the root's elements that an update writes.

    `None` if they are unknown.

    Args:
        root: The update, or bitcasts of it.
        update: The `dynamic-update-slice`.
        map: Map from threads to the elements of the update operand.
    """
    here, there = array_of(update), array_of(root)
    written = written_by(update, 1, map)
    if written is None or here is None or there is None:
        return None
    # Start indices are clamped, so the whole update is written whatever the run-time values are.
    inside = [
        some.with_(constraints=[c for c in some.constraints if not depends_on_runtime(c[0])])
        for some in written
    ]
    placed = [in_memory_of(some, here, there) for some in inside]
    kept = tuple([some for some in placed if some is not None])
    return kept if len(kept) == len(placed) else None


# --------------------------------------------------------------------------------------------------
# Library calls and copies on slices: fusions that pass parts of arrays to the ops inside them.
#
# Source: XLA `xla/service/gpu/transforms/dynamic_slice_fusion_rewriter.cc`.


_PARTS: Final[tuple[type[Op], ...]] = (*ALIASES, DynamicSlice, DynamicUpdateSlice, Slice)
"""Ops that only select a part of an array."""
ON_SLICES = "reads and writes slices: the rest of an updated array stays as it is"


def sliced(fused: Fused, analysis: Analysis) -> Kernel:
    """Return a kernel of a fusion that only takes slices and updates slices in place.

    It reads the operands of other ops inside, the updates, and the start indices of slices and
    updates.
    """
    values: dict[Instruction, None] = {}
    for ins in fused.inside:
        if isinstance(ins.op, DynamicSlice | DynamicUpdateSlice):
            values |= dict.fromkeys(ins.operands[1:])
        elif not isinstance(ins.op, _PARTS):
            values |= dict.fromkeys(ins.operands)
    for root in fused.roots:
        if update_behind(root, fused) is None:
            values[root] = None
    computed = {ins for ins in fused.inside if not isinstance(ins.op, _PARTS)}
    readings = [
        Reading(value, leaf, IndexingMap.identity(type.shape), is_hero=False)
        for value in values
        if value not in computed
        for leaf, type in enumerate(analysis.tensors(value.type))
        if isinstance(type, TensorType) and is_array(type)
    ]
    outputs = [_written(root, fused) for _, root, _, _ in fused.outputs(analysis)]
    heroes = tuple(computed)
    return Kernel(SLICES, None, heroes, tuple(readings), {}, tuple(outputs), notes=(ON_SLICES,))


def _written(root: Instruction, fused: Fused) -> tuple[IndexingMap, ...] | None:
    """Return the maps from elements of a root's update to the root's elements that it overwrites.

    `None` if all elements of the root are written.
    """
    update = update_behind(root, fused)
    type = None if update is None else array_of(update.operands[1])
    if update is None or type is None:
        return None
    return placed_update(root, update, IndexingMap.identity(type.shape))


# --------------------------------------------------------------------------------------------------
# Decides which reductions of a thread XLA unrolls to straight-line code with merged loads.
#
# Source: XLA `xla/backends/gpu/codegen/emitters/transforms/optimize_loops.cc`
# (`GetUnrollingFactor`).


MOST_UNROLLED: Final = 400
"""Maximum number of operations, over all steps, of a reduction that LLVM unrolls."""
SLOW: Final = 20
"""Cost, in operations, of an element-wise function that needs many instructions."""
OF_ITSELF: Final = 4
"""Operations that each step of a reduction has besides loads and arithmetic."""
FAST: Final = frozenset(
    ("abs", "add", "and", "ceil", "compare", "convert", "copy", "divide", "floor", "maximum",
     "minimum", "multiply", "negate", "not", "or", "remainder", "select", "shift_left",
     "shift_right_arithmetic", "shift_right_logical", "sign", "subtract", "xor")
)  # fmt: skip
"""Element-wise ops that count as one operation."""


def stays_loop(root: Instruction, fused: Fused) -> bool:
    """Does a root depend on a reduction so long that LLVM does not unroll it completely?"""
    inside = [root, *_producers(root, fused)]
    return any(isinstance(ins.op, Reduce) and not _is_unrolled(ins, fused) for ins in inside)


def _producers(value: Instruction, fused: Fused) -> set[Instruction]:
    """Return all direct and indirect producers of a value in the kernel."""

    def inside(ins: Instruction) -> list[Instruction]:
        return [operand for operand in ins.operands if fused.contains(operand)]

    return {*reached(inside(value), inside)}


def _is_unrolled(reduction: Instruction, fused: Fused) -> bool:
    """Is a reduction in a thread unrolled completely?"""
    assert isinstance(reduction.op, Reduce)
    type = array_of(reduction.operands[0])
    if type is None:
        return False
    steps = prod([type.shape[k] for k in reduction.op.dimensions])
    body = [ins for callee in reduction.calls for ins in callee.instructions]
    inside = _producers(reduction, fused)
    handed_in = {
        operand for ins in (reduction, *inside) for operand in ins.operands if operand in fused.edge
    }
    size = OF_ITSELF + len(handed_in) + sum(map(_step_cost, [*inside, *body]))
    return steps * size <= MOST_UNROLLED


def _step_cost(ins: Instruction) -> int:
    """Return the cost of an instruction in one step of a reduction: 0, 1 or `SLOW` operations."""
    if not isinstance(ins.op, Elementwise):
        return 0
    return 1 if ins.op.name in FAST else SLOW
