"""Reductions as XLA's emitters see them: rows or columns of a matrix in memory.

Source: XLA `xla/service/gpu/reduction_utils.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.devices import Device
from hloscope.indexing import major_to_minor
from hloscope.ir import Instruction, TensorType
from hloscope.memory.storage import is_array, physical_sizes
from hloscope.ops import Reduce

LARGEST_ROW: Final = 16 * 1024
"""Maximum number of elements of a row that one block reduces without atomic updates."""
LARGEST_MAJOR: Final = 8
"""Reduced dimensions in front of the kept ones that one block reduces."""
LARGEST_COLUMN: Final = 128
"""Elements of a column that one block reduces, divided by the size of a warp."""


class ReductionShape(Struct, frozen=True):
    """A reduction of a matrix: `[reduced, kept, reduced]` by rows, `[kept, reduced, kept]` else.

    Attributes:
        by_rows: Are the fastest-varying dimensions reduced?
        sizes: Sizes of the three parts, the slowest first.
    """

    by_rows: bool
    sizes: tuple[int, int, int]

    @property
    def kept(self) -> tuple[int, ...]:
        """Return the sizes of the non-reduced parts."""
        return (self.sizes[1],) if self.by_rows else (self.sizes[0], self.sizes[2])

    @classmethod
    def of(cls, ins: Instruction) -> ReductionShape | None:
        """Return the shape of a reduction; `None` if its dimensions are not consecutive in memory.

        >>> from hloscope.hlo_parser import parse_hlo
        >>> module = parse_hlo("add { a = f32[] parameter(0) b = f32[] parameter(1) "
        ...     "ROOT c = f32[] add(a, b) } ENTRY e { p = f32[7,100,128] parameter(0) "
        ...     "z = f32[] constant(0) "
        ...     "ROOT r = f32[100] reduce(p, z), dimensions={0,2}, to_apply=add }")
        >>> ReductionShape.of(module.entry.root)
        ReductionShape(by_rows=True, sizes=(7, 100, 128))
        """
        if not isinstance(ins.op, Reduce) or not ins.operands or not is_array(ins.operands[0].type):
            return None
        type = ins.operands[0].type
        assert isinstance(type, TensorType)
        reduced = set(ins.op.dimensions)
        order = major_to_minor(type)
        flags = [dimension in reduced for dimension in order]
        kept_run, reduced_run = _run(flags, False), _run(flags, True)
        if kept_run is None and reduced_run is None:
            return None
        sizes = physical_sizes(type)
        if kept_run is not None:
            front, kept, behind = _parts(sizes, kept_run)
            # All elements are reduced to one: XLA treats this as a single row.
            if kept == 1:
                return cls(True, (1, 1, front * behind))
            if behind == 1:
                return cls(False, (1, front, kept))
            return cls(True, (front, kept, behind))
        assert reduced_run is not None
        front, middle, behind = _parts(sizes, reduced_run)
        return cls(True, (1, front, middle)) if behind == 1 else cls(False, (front, middle, behind))

    def is_worth_it(self, device: Device) -> bool:
        """Is a reduction emitter faster than a loop that reduces in each thread?"""
        warp, (_, reduced, minor) = device.warp, self.sizes
        if self.by_rows:
            return minor >= warp or (minor > 0 and warp % minor == 0)
        is_small = (
            reduced < warp
            or (reduced < 2 * warp and minor < warp)
            or (reduced < 4 * warp and minor < 8)
            or (reduced < 8 * warp and minor < 3)
        )
        return not is_small

    def is_race_free(self, device: Device) -> bool:
        """Does one block read all elements that are reduced to one?"""
        major, reduced, minor = self.sizes
        if self.by_rows:
            return minor <= LARGEST_ROW and major <= LARGEST_MAJOR
        return reduced <= LARGEST_COLUMN * device.warp


def is_reduction_hero(root: Instruction, hero: Instruction, device: Device) -> bool:
    """Does a reduction emitter take this hero of a root?"""
    shape = ReductionShape.of(hero)
    if shape is None or not shape.is_worth_it(device):
        return False
    return root is hero or shape.is_race_free(device)


def _run(flags: Sequence[bool], wanted: bool) -> tuple[int, int] | None:
    """Return the half-open range of the flags equal to `wanted`; `None` if it has gaps.

    Without such flags the range is empty: (0, 0).
    """
    places = [k for k, flag in enumerate(flags) if flag is wanted]
    if not places:
        return 0, 0
    first, last = places[0], places[-1]
    return (first, last + 1) if last - first + 1 == len(places) else None


def _parts(sizes: Sequence[int], run: tuple[int, int]) -> tuple[int, int, int]:
    start, stop = run
    return prod(sizes[:start]), prod(sizes[start:stop]), prod(sizes[stop:])
