"""Keys that are equal for instructions with equal kernels, so that each kernel is analysed once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final, NamedTuple

from hloscope.devices import Device
from hloscope.fusion import Analysis, StructureIds, leaf_types
from hloscope.indexing import Direction, lookup
from hloscope.ir import Instruction, Op, TensorType
from hloscope.memory.choice import Choice
from hloscope.memory.emitting import kernel_of
from hloscope.memory.fused import Fused, roots_of
from hloscope.memory.kernel import Kernel
from hloscope.memory.verdicts import transposes
from hloscope.ops import Fusion
from hloscope.tiling import chosen_tiles, fusion_config


class SameKernels:
    """Keys of the kernels of one program. Kernels with equal keys differ in names only.

    A fusion's kernel is determined by the called computation and the backend config. The kernel of
    an instruction compiled alone is determined by its op, the types of its operands and value, its
    called computations, and which operands are the same value, if the indexing rules of the op use
    nothing else.
    """

    def __init__(self, structure_ids: StructureIds) -> None:
        self._structure_ids: Final = structure_ids
        self._keys: Final[dict[Instruction, tuple[object, ...] | None]] = {}

    def key(self, ins: Instruction) -> tuple[object, ...] | None:
        """Return the key of an instruction's kernel; `None` if no key determines the kernel."""
        if ins not in self._keys:  # every query about a kernel needs its key
            self._keys[ins] = self._found(ins)
        return self._keys[ins]

    def _found(self, ins: Instruction) -> tuple[object, ...] | None:
        if isinstance(ins.op, Fusion):
            return self._of_fusion(ins)
        if ins.operands and not _follows_from_types(ins):
            return None
        number, type_number = self._structure_ids.number, self._structure_ids.type_number
        first = first_places(ins.operands)
        return (
            self._structure_ids.op_number(ins.op),
            type_number(ins.type),
            tuple([type_number(operand.type) for operand in ins.operands]),
            tuple([number(callee) for callee in ins.calls]),
            tuple([first[operand] for operand in ins.operands]),
            transposes(ins),
        )

    def _of_fusion(self, ins: Instruction) -> tuple[object, ...] | None:
        if len(ins.calls) != 1 or len(ins.operands) != len(ins.calls[0].parameters):
            return None
        config = fusion_config(ins)
        return (
            self._structure_ids.number(ins.calls[0]),
            self._structure_ids.op_number(ins.op),
            str(config.get("kind", "")),
            chosen_tiles(ins) if config else None,
        )


class Made(NamedTuple):
    """A kernel with its instructions and the choice of its emitter."""

    fused: Fused
    choice: Choice
    kernel: Kernel


class XlaKernels:
    """The kernels that XLA generates for a program on a device. Equal kernels are built once."""

    def __init__(self, analysis: Analysis, device: Device) -> None:
        self._analysis: Final = analysis
        self._device: Final = device
        self._made: Final[dict[object, Made]] = {}
        self.key: Final = SameKernels(analysis.structure_ids).key

    def of(self, ins: Instruction, key: tuple[object, ...] | None) -> Made:
        """Return the kernel of an instruction with this key, or an equal kernel.

        Raises:
            UnsupportedError: The instruction has no kernel of XLA's own emitters.
        """
        # Equal kernels recur in every layer, and footprints and coalescing ask for the same ones.
        known = None if key is None else self._made.get(key)
        if known is None:
            fused = Fused.of_instruction(ins)
            choice = Choice(fused, self._device, self._analysis)
            known = Made(fused, choice, kernel_of(choice))
            if key is not None:
                self._made[key] = known
        return known


def _follows_from_types(ins: Instruction) -> bool:
    """Are the instruction's maps determined by its op, its types and its called computations?"""
    if not _are_shared(type(ins.op)):
        return False
    leaves = [leaf for value in (*ins.operands, ins) for leaf in leaf_types(value.type)]
    return all([isinstance(leaf, TensorType) and leaf.is_static for leaf in leaves])


# Asked for every instruction of a program, of which there are few classes.
@cache
def _are_shared(op: type[Op]) -> bool:
    """Do the rules of an op, in both directions, use only its op, types and callees?"""
    entries = [lookup(direction, op) for direction in Direction]
    return all(entry is not None and entry.is_shared for entry in entries)


def first_places(values: Iterable[Instruction]) -> dict[Instruction, int]:
    """Return the distinct values in order, each with the position of its first occurrence."""
    found: dict[Instruction, int] = {}
    for k, value in enumerate(values):
        found.setdefault(value, k)
    return found


def output_names(ins: Instruction, analysis: Analysis) -> list[str]:
    """Return the root's name for each array that a fusion or single instruction writes."""
    is_fusion = isinstance(ins.op, Fusion) and len(ins.calls) == 1
    return [
        root.name
        for root in roots_of(ins.calls[0].root if is_fusion else ins)
        for type in analysis.tensors(root.type)
        if isinstance(type, TensorType)
    ]
