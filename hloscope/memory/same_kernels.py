"""Which instructions have equal kernels, so that each is asked about once."""

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
    """Keys of the kernels of one program: those of equal keys differ in names only.

    A fusion's kernel is made of what it calls and of its backend config.  That of an instruction
    compiled alone follows from its op, the types of its operands and value, what it calls, and
    which operands are the same value, if the indexing rules of the op look at nothing else.
    """

    def __init__(self, structure_ids: StructureIds) -> None:
        self._structure_ids: Final = structure_ids
        self._keys: Final[dict[Instruction, tuple[object, ...] | None]] = {}

    def key(self, ins: Instruction) -> tuple[object, ...] | None:
        """The key of an instruction's kernel; `None` where it may depend on more than a key."""
        if ins not in self._keys:  # each question about a kernel asks for it
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
    """A kernel, what it is made of, and how it was chosen."""

    fused: Fused
    choice: Choice
    kernel: Kernel


class XlaKernels:
    """The kernels that XLA makes of a program's instructions on a device; equal ones are one."""

    def __init__(self, analysis: Analysis, device: Device) -> None:
        self._analysis: Final = analysis
        self._device: Final = device
        self._made: Final[dict[object, Made]] = {}
        self.key: Final = SameKernels(analysis.structure_ids).key

    def of(self, ins: Instruction, key: tuple[object, ...] | None) -> Made:
        """The kernel of an instruction with this key, or of an equal one.

        Raises:
            UnsupportedError: It has no kernel of XLA's own emitters.
        """
        known = None if key is None else self._made.get(key)
        if known is None:
            fused = Fused.of_instruction(ins)
            choice = Choice(fused, self._device, self._analysis)
            known = Made(fused, choice, kernel_of(choice))
            if key is not None:
                self._made[key] = known
        return known


def _follows_from_types(ins: Instruction) -> bool:
    """Do maps of the instruction follow from its op, the types and what it calls?"""
    if not _are_shared(type(ins.op)):
        return False
    leaves = [leaf for value in (*ins.operands, ins) for leaf in leaf_types(value.type)]
    return all([isinstance(leaf, TensorType) and leaf.is_static for leaf in leaves])


@cache
def _are_shared(op: type[Op]) -> bool:
    """Do the rules of an op, in both directions, look at nothing but op, types and callees?"""
    entries = [lookup(direction, op) for direction in Direction]
    return all(entry is not None and entry.is_shared for entry in entries)


def first_places(values: Iterable[Instruction]) -> dict[Instruction, int]:
    """The different values in order, each with the place where it stands first."""
    found: dict[Instruction, int] = {}
    for k, value in enumerate(values):
        found.setdefault(value, k)
    return found


def output_names(ins: Instruction, analysis: Analysis) -> list[str]:
    """For each array that a fusion, or an instruction compiled alone, writes: its root's name."""
    is_fusion = isinstance(ins.op, Fusion) and len(ins.calls) == 1
    return [
        root.name
        for root in roots_of(ins.calls[0].root if is_fusion else ins)
        for type in analysis.tensors(root.type)
        if isinstance(type, TensorType)
    ]
