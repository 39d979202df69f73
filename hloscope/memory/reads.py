"""What a kernel's threads read of everything that is handed to it."""

from __future__ import annotations

from hloscope.fusion import Analysis
from hloscope.indexing import Access, IndexingMap
from hloscope.ir import Instruction, TensorType
from hloscope.memory.fused import Fused
from hloscope.memory.kernel import Kernel, Reading
from hloscope.memory.storage import is_array


def reads_of(
    analysis: Analysis, fused: Fused, kernel: Kernel
) -> dict[tuple[int, int], list[tuple[Reading, Access]]]:
    """For each array at the edge: how each reading reaches it."""
    from_heroes = frozenset[Instruction]()
    if kernel.emitter != "loop":
        from_heroes = frozenset(kernel.heroes)
    readings = kernel.readings
    if kernel.launch is None:
        readings = tuple(
            [
                Reading(root, leaf, IndexingMap.identity(type.shape))
                for _, root, leaf, type in fused.outputs(analysis)
                if is_array(type)
            ]
        )
    found: dict[tuple[int, int], list[tuple[Reading, Access]]] = {}
    for reading in readings:
        ends = frozenset() if reading.is_hero else from_heroes
        for place, accesses in fused.reads(analysis, reading.value, reading.leaf, ends).items():
            found.setdefault(place, []).extend((reading, access) for access in accesses)
    for k, value in enumerate(fused.edge):
        for leaf, type in enumerate(analysis.tensors(value.type)):
            if isinstance(type, TensorType):
                found.setdefault((k, leaf), [])
    return dict(sorted(found.items()))
