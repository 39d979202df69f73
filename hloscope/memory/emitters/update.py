"""In-place updates of a slice: threads run over the update; other elements are not accessed.

Source: XLA `xla/backends/gpu/codegen/emitters/in_place_dynamic_update_slice.cc`,
`xla/codegen/ir_emission_utils.cc` (`CanEmitFusedDynamicUpdateSliceInPlace`).
"""

from __future__ import annotations

from hloscope.affine import depends_on_runtime
from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice, in_memory_of, written_by
from hloscope.memory.fused import Fused
from hloscope.memory.kernel import Kernel, Reading
from hloscope.memory.storage import array_of, element_count
from hloscope.ops import Bitcast, DynamicSlice, DynamicUpdateSlice, Elementwise, Tuple

NAME = "in-place update"
IN_PLACE = "the operand of the update is taken to be the output's own memory"


def updates_of(choice: Choice) -> list[Instruction]:
    """Return the dynamic-update-slice of each root; empty if XLA takes another emitter.

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
    """Return the update that a root is, through bitcasts; `None` for any other root."""
    while isinstance(root.op, Bitcast) and fused.contains(root.operands[0]):
        root = root.operands[0]
    return root if isinstance(root.op, DynamicUpdateSlice) else None


def may_be_in_place(update: Instruction, fused: Fused) -> bool:
    """Does XLA let an update overwrite its operand, a parameter of the fusion?

    Only bitcasts may follow the update: a second reader could meet old and new elements. The array,
    its bitcasts and element-wise results of them may be read by element-wise ops, bitcasts and
    tuples, which read an element where it is overwritten, and by a dynamic slice of the operand at
    the indices of the update. A slice at other indices could be read after the update overwrote it.
    An update of one element has no such order.
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
            if user is not update and not _reads_the_same(user, update):
                return False
            if user not in seen:
                seen.add(user)
                todo.append(user)
    return True


def _reads_the_same(user: Instruction, update: Instruction) -> bool:
    """Does each result element of the user depend on operand elements at its own position only?"""
    if isinstance(user.op, DynamicSlice) and user.operands[0] is update.operands[0]:
        here, there = array_of(user), array_of(update.operands[1])
        if here is not None and there is not None and here.shape == there.shape:
            is_same = user.operands[1:] == update.operands[2:]
            return is_same or element_count(here) == 1
    return isinstance(user.op, Elementwise | Bitcast | Tuple)


def update_in_place(choice: Choice, updates: list[Instruction]) -> Kernel:
    """Return a kernel that writes slices into memory that already holds the other elements."""
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
    """Return the maps from threads to the updated elements of the root; `None` if unknown.

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
