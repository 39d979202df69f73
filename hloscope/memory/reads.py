"""What a kernel's threads read of everything that is handed to it."""

from __future__ import annotations

from functools import cached_property
from typing import Final, TypeAlias

from hloscope.fusion import Analysis
from hloscope.indexing import Access, IndexingMap
from hloscope.ir import Instruction, TensorType
from hloscope.memory.fused import Fused
from hloscope.memory.kernel import Kernel, Reading
from hloscope.memory.loads import Load
from hloscope.memory.storage import is_array

Place: TypeAlias = tuple[int, int]
"""Number of an operand, and of an array of it."""


class Reads:
    """What the readings of a kernel reach.

    Attributes:
        by_array: For each array at the edge: how each reading reaches it.
    """

    def __init__(self, analysis: Analysis, fused: Fused, kernel: Kernel) -> None:
        self._analysis: Final = analysis
        self._fused: Final = fused
        self._from_heroes: Final = frozenset(kernel.heroes if kernel.emitter != "loop" else ())
        self._readings: Final = kernel.readings or (() if kernel.launch else self._of_roots())
        self.by_array: Final = self._found()

    def loads(self, place: Place) -> list[tuple[Reading, Load]] | None:
        """The loads of an array, each by itself; `None` if there are too many to tell apart."""
        return None if self._loads is None else self._loads.get(place, [])

    def _of_roots(self) -> tuple[Reading, ...]:
        """All elements that are written, where lanes are nobody's business."""
        return tuple(
            [
                Reading(root, leaf, IndexingMap.identity(type.shape))
                for _, root, leaf, type in self._fused.outputs(self._analysis)
                if is_array(type)
            ]
        )

    def _ends(self, reading: Reading) -> frozenset[Instruction]:
        """What is in registers or shared memory already."""
        return frozenset() if reading.is_hero else self._from_heroes

    def _found(self) -> dict[Place, list[tuple[Reading, Access]]]:
        found: dict[Place, list[tuple[Reading, Access]]] = {}
        analysis, fused = self._analysis, self._fused
        for reading in self._readings:
            edge = fused.reads(analysis, reading.value, reading.leaf, self._ends(reading))
            for place, accesses in edge.items():
                found.setdefault(place, []).extend((reading, access) for access in accesses)
        for k, value in enumerate(fused.edge):
            for leaf, type in enumerate(analysis.tensors(value.type)):
                if isinstance(type, TensorType):
                    found.setdefault((k, leaf), [])
        return dict(sorted(found.items()))

    @cached_property
    def _loads(self) -> dict[Place, list[tuple[Reading, Load]]] | None:
        found: dict[Place, list[tuple[Reading, Load]]] = {}
        for reading in self._readings:
            edge = self._fused.loads(
                self._analysis, reading.value, reading.leaf, self._ends(reading)
            )
            if edge is None:
                return None
            for place, loads in edge.items():
                found.setdefault(place, []).extend((reading, load) for load in loads)
        return found
