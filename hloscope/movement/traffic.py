"""Bytes that a program reads and writes only to move data.

A kernel is an instruction outside of fused computations, or a fusion.  A kernel of movement only
moves elements: every element of its result is an element of an operand.  So it writes its result,
and reads at most as many elements of each operand as the operand or the result has.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from hloscope.ir import Computation, Instruction, TensorType, array_bytes
from hloscope.movement.flow import Flow, is_array, moves, only_map
from hloscope.movement.verdicts import judge
from hloscope.ops import Bitcast, Constant, Fusion, GetTupleElement, Parameter, Tuple

_INSIDE: Final = (Parameter, Constant, Tuple, GetTupleElement)
"""Ops that a kernel of movement may have in addition to those that move elements."""
_VIEWS: Final = ("reshape", "bitcast", "transpose")
"""Ops that a compiler replaces by a bitcast where their layouts allow it.

A copy is not among them: it makes a buffer, whatever its layout.
"""


def bytes_of(ins: Instruction) -> int:
    """Return the bytes of an array in memory, without padding."""
    found = array_bytes(ins.type)
    assert found is not None
    return found.data


def memory_space(ins: Instruction) -> int:
    """Return the memory space of an array; 0 is the main memory."""
    layout = ins.type.layout if isinstance(ins.type, TensorType) else None
    return 0 if layout is None else layout.memory_space


# Cached: asked for each step by several plans; it composes maps.
@lru_cache(maxsize=1 << 12)
def is_view(step: Instruction) -> bool:
    """Does a reshape, bitcast or transpose leave every element at its address?"""
    if isinstance(step.op, Bitcast):
        return True
    if not moves(step) or step.op.name not in _VIEWS:
        return False
    if memory_space(step) != memory_space(step.operands[0]):
        return False
    m = only_map(step)
    here, there = step.type, step.operands[0].type
    assert isinstance(here, TensorType)
    assert isinstance(there, TensorType)
    return m is not None and judge(m, there, here).kind.is_free


def bytes_moved_by(ins: Instruction) -> int:
    """Return the bytes that an instruction reads and writes to move elements; 0 for a view."""
    if is_view(ins):
        return 0
    written = bytes_of(ins)
    operands = dict.fromkeys(ins.operands)
    return written + sum([min(written, bytes_of(operand)) for operand in operands])


class Traffic:
    """Kernels of a module, and the bytes of those that only move data."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        # Several chains lead through a kernel, and each plan asks for its traffic again.
        self._kernels: Final[dict[Computation, Instruction | None]] = {}
        self._plain: Final[dict[int, bool]] = {}
        self._moved: Final[dict[Instruction, int]] = {}

    def kernel_of(self, value: Instruction) -> Instruction:
        """Return the kernel that computes a value."""
        home = self._flow.home(value)
        if home is None:
            return value
        if home not in self._kernels:
            self._kernels[home] = self._fusion_around(home)
        return self._kernels[home] or value

    def _fusion_around(self, home: Computation) -> Instruction | None:
        """Return the outermost fusion that contains a computation."""
        found: Instruction | None = None
        at: Computation | None = home
        while at is not None and self._flow.is_fused(at):
            found = self._flow.caller(at)
            at = None if found is None else self._flow.home(found)
        return found

    def only_moves(self, kernel: Instruction) -> bool:
        """Does a kernel only move elements, and at least one byte?"""
        return self.moved(kernel) > 0

    def moved(self, kernel: Instruction) -> int:
        """Return the bytes that a kernel of movement reads and writes; 0 for other kernels."""
        known = self._moved.get(kernel)
        if known is None:
            known = self._moved[kernel] = self._found_moved(kernel)
        return known

    def _found_moved(self, kernel: Instruction) -> int:
        """Compute `moved`."""
        if not isinstance(kernel.op, Fusion):
            return bytes_moved_by(kernel) if moves(kernel) else 0
        if len(kernel.calls) != 1 or not self._fuses_movement(kernel.calls[0]):
            return 0
        return self.moves_if(kernel)

    def moves_if(self, kernel: Instruction) -> int:
        """Return the bytes that a fusion reads and writes if it only moves elements."""
        written = self.written(kernel)
        operands = dict.fromkeys(map(self._flow.source, kernel.operands))
        return written + sum([min(written, bytes_of(o)) for o in operands if is_array(o)])

    def written(self, kernel: Instruction) -> int:
        """Return the bytes of a kernel's results."""
        return sum([bytes_of(value) for value in self.outputs(kernel) if is_array(value)])

    def all_bytes(self, kernel: Instruction) -> int:
        """Return the bytes of the operands and results of any kernel."""
        values = [*dict.fromkeys(map(self._flow.source, kernel.operands)), *self.outputs(kernel)]
        return sum([bytes_of(value) for value in values if is_array(value)])

    def outputs(self, kernel: Instruction) -> tuple[Instruction, ...]:
        """Return the values that a kernel returns."""
        if not isinstance(kernel.op, Fusion) or len(kernel.calls) != 1:
            return (kernel,)
        found = self._flow.results(kernel.calls[0])
        return tuple(dict.fromkeys(map(self._flow.source, found)))

    def _fuses_movement(self, computation: Computation) -> bool:
        """Does a fused computation only move elements?"""
        number = self._flow.structure_ids.number(computation)
        known = self._plain.get(number)
        if known is None:
            inside = [ins for ins in computation if not isinstance(ins.op, _INSIDE)]
            known = all([isinstance(i.op, Bitcast) or moves(i) for i in inside])
            known = known and any([is_array(i) for i in inside])
            self._plain[number] = known
        return known

    def movement_in(self, computation: Computation) -> Iterator[Instruction]:
        """Yield the kernels of a computation that only move data."""
        return (ins for ins in computation if self.only_moves(ins))
