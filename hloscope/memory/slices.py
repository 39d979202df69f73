"""Library calls and copies on slices: fusions that pass parts of arrays to the ops inside them.

Source: XLA `xla/service/gpu/transforms/dynamic_slice_fusion_rewriter.cc`.
"""

from __future__ import annotations

from typing import Final

from hloscope.fusion import ALIASES, Analysis
from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction, Op, TensorType
from hloscope.memory.emitters.update import placed_update, update_behind
from hloscope.memory.fused import Fused
from hloscope.memory.kernel import Kernel, Reading
from hloscope.memory.kinds import SLICES
from hloscope.memory.storage import array_of, is_array
from hloscope.ops import DynamicSlice, DynamicUpdateSlice, Slice

_PARTS: Final[tuple[type[Op], ...]] = (*ALIASES, DynamicSlice, DynamicUpdateSlice, Slice)
"""Ops that only select a part of an array."""
ON_SLICES = "reads and writes slices: the rest of an updated array stays as it is"


def sliced(fused: Fused, analysis: Analysis) -> Kernel:
    """Return a kernel that reads whole slices and writes updates in place.

    The values read are the operands of the computing ops inside, the updates, and the start indices
    of slices and updates.
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
    """Return the maps to the written elements of a root; `None` if all are written."""
    update = update_behind(root, fused)
    type = None if update is None else array_of(update.operands[1])
    if update is None or type is None:
        return None
    return placed_update(root, update, IndexingMap.identity(type.shape))
