"""Updates of a slice in place: threads run over the update, the rest is not touched.

Source: XLA `xla/backends/gpu/codegen/emitters/in_place_dynamic_update_slice.cc`.
"""

from __future__ import annotations

from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice, in_memory_of, written_by
from hloscope.memory.kernel import Kernel, Reading
from hloscope.memory.storage import array_of, element_count
from hloscope.ops import Bitcast, DynamicUpdateSlice

IN_PLACE = "the operand of the update is taken to be the output's own memory"


def updates_of(choice: Choice) -> list[Instruction]:
    """The updates that the roots are, behind bitcasts; none where another emitter is used."""
    found = []
    shapes = set()
    for root in choice.roots:
        update = root
        while isinstance(update.op, Bitcast) and choice.fused.contains(update.operands[0]):
            update = update.operands[0]
        if not isinstance(update.op, DynamicUpdateSlice):
            return []
        source = update.operands[0]
        while isinstance(source.op, Bitcast) and choice.fused.contains(source):
            source = source.operands[0]
        type = array_of(update.operands[1])
        if choice.fused.contains(source) or type is None or array_of(update) is None:
            return []
        found.append(update)
        shapes.add(type.shape)
    return found if len(shapes) == 1 else []


def update_in_place(choice: Choice, updates: list[Instruction]) -> Kernel:
    """A kernel that writes slices into memory that holds the rest already."""
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
        outputs.append(_placed(root, update, map))
    return Kernel(
        "in-place update",
        launch,
        tuple(updates),
        tuple(readings),
        inputs,
        tuple(outputs),
        unroll=unroll,
        notes=(IN_PLACE,),
    )


def _placed(
    root: Instruction, update: Instruction, map: IndexingMap
) -> tuple[IndexingMap, ...] | None:
    here, there = array_of(update), array_of(root)
    written = written_by(update, 1, map)
    if written is None or here is None or there is None:
        return None
    placed = [in_memory_of(some, here, there) for some in written]
    kept = tuple([some for some in placed if some is not None])
    return kept if len(kept) == len(placed) else None
