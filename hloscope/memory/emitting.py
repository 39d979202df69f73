"""Model of a fusion's kernel, and keys that are equal for instructions with equal kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from hloscope.errors import Label, UnsupportedError, message_of
from hloscope.fusion import Analysis, leaf_types
from hloscope.indexing import Direction, lookup
from hloscope.ir import Instruction, TensorType
from hloscope.memory.choice import Choice
from hloscope.memory.emitters.loop import concatenate, loop, update_in_place, updates_of
from hloscope.memory.emitters.reduction import reduction
from hloscope.memory.emitters.scatter import scatter
from hloscope.memory.emitters.transpose import transpose
from hloscope.memory.fused import Fused, first_places, roots_of
from hloscope.memory.kernel import Kernel
from hloscope.memory.kinds import (
    CALLS,
    COLLECTIVE,
    COPY,
    CUSTOM,
    HOST,
    LIBRARY,
    NONE,
    REPLACED,
    SCALAR,
    SLICES,
    TRANSFER,
    TRITON,
    KernelKind,
    kind_of,
)
from hloscope.memory.verdicts import transposes
from hloscope.ops import CustomCall, Fusion
from hloscope.support.devices import Device
from hloscope.tiling import chosen_tiles, fusion_kind

# --------------------------------------------------------------------------------------------------
# The kernel of a fusion: selection of XLA:GPU's emitter, and its thread maps.


T = TypeVar("T")

BLOCK_LEVEL: Final = "Triton"
EMITTERS: Final[dict[str, Callable[[Choice], Kernel | None]]] = {
    "reduction": reduction,
    "transpose": transpose,
    "scatter": scatter,
    "concatenate": concatenate,
    "loop": loop,
}
"""Functions that build a kernel, by the emitter's name that `Choice.emitter` returns.

If a function returns `None`, the loop emitter builds the kernel.
"""
_NO_THREADS: Final = {
    LIBRARY: "`{0}` is run by {1}: nothing is known of its threads",
    COLLECTIVE: "`{0}` is a collective, run by {1}: nothing is known of its threads",
    COPY: "`{0}` is a copy of memory as it lies: no kernel, so no threads",
    SLICES: "`{0}` runs a library call or a copy on slices: nothing is known of its threads",
    TRANSFER: "`{0}` is a transfer, `{1}`: no kernel, so no threads",
    HOST: "`{0}` runs on the host",
    REPLACED: "`{0}` has no kernel: XLA replaces `{1}` by other ops before it makes kernels",
    SCALAR: "`{0}` writes the number of the device: no kernel, so no threads",
    TRITON: "`{0}` is a kernel of Triton without a fusion: nothing is known of its threads",
}
"""Message of the error that a kernel has no thread map, by the maker of the kernel.

`{0}` is the name of the instruction, `{1}` that of the library, op or call target.
"""


def kernel_of(choice: Choice) -> Kernel:
    """Return the model of the kernel that XLA generates for a fusion or instruction.

    Raises:
        UnsupportedError: The instruction has no kernel of XLA's own emitters.
    """
    ins = choice.fused.instruction
    if ins is not None:
        kind = kind_of(ins)
        if kind.maker == TRITON and kind.name:
            return Kernel(BLOCK_LEVEL, None, choice.heroes, notes=(f"backend config {kind.name}",))
        _refuse_no_threads(ins, kind)
    tensors = choice.analysis.tensors
    if not any(isinstance(t, TensorType) for r in choice.roots for t in tensors(r.type)):
        raise UnsupportedError(message_of("`{}` writes no array", Label(choice.fused.name)))
    emitter = choice.emitter
    if emitter == "loop" and (updates := updates_of(choice)):
        return update_in_place(choice, updates)
    return EMITTERS[emitter](choice) or loop(choice)


def _refuse_no_threads(ins: Instruction, kind: KernelKind) -> None:
    """Raise an error if XLA's own emitters do not generate the instruction's kernel.

    Raises:
        UnsupportedError: The kernel is made by another library, or there is no kernel.
    """
    name, op = Label(ins.name), ins.op.name
    if kind.maker == NONE:
        raise UnsupportedError(message_of("`{}` is not a kernel: `{}` moves nothing", name, op))
    if kind.maker == CALLS:
        raise UnsupportedError(
            message_of("`{}` is not a kernel: ask about what `{}` calls", name, op)
        )
    if kind.maker == CUSTOM:
        what = "custom call" if isinstance(ins.op, CustomCall) else "custom kernel"
        text = f"`{{}}` is a {what}, `{{}}`: its kernel is not XLA's"
        raise UnsupportedError(message_of(text, name, kind.name))
    if kind.maker in _NO_THREADS:
        raise UnsupportedError(message_of(_NO_THREADS[kind.maker], name, kind.name))


class ModelledKernel(NamedTuple):
    """The model of a kernel, with the instructions that it computes and what chose its emitter."""

    fused: Fused
    choice: Choice
    kernel: Kernel


# --------------------------------------------------------------------------------------------------
# Keys that are equal for instructions with equal kernels, so that each kernel is analysed once.


class XlaKernels:
    """The kernels that XLA generates for a program on a device. Equal kernels are built once.

    Kernels with equal keys differ in names only. A fusion's kernel is determined by the called
    computation and the backend config. The kernel of an instruction compiled alone is determined by
    its op, the types of its operands and value, its called computations, and which operands are the
    same value, if the indexing rules of the op use nothing else.
    """

    def __init__(self, analysis: Analysis, device: Device) -> None:
        self._analysis: Final = analysis
        self._structure_ids: Final = analysis.structure_ids
        self._device: Final = device
        self._keys: Final[dict[Instruction, tuple[object, ...] | None]] = {}
        self._made: Final[dict[object, ModelledKernel]] = {}

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
        return (
            self._structure_ids.number(ins.calls[0]),
            self._structure_ids.op_number(ins.op),
            fusion_kind(ins),
            chosen_tiles(ins),
        )

    def of(self, ins: Instruction, key: tuple[object, ...] | None) -> ModelledKernel:
        """Return the kernel of an instruction. Kernels with the same key are built once.

        Args:
            ins: The instruction.
            key: Its key; `None` builds the kernel anew.

        Raises:
            UnsupportedError: The instruction has no kernel of XLA's own emitters.
        """

        def make() -> ModelledKernel:
            fused = Fused.of_instruction(ins)
            choice = Choice(fused, self._device, self._analysis)
            return ModelledKernel(fused, choice, kernel_of(choice))

        # Footprints and coalescing ask for the same kernels.
        return made_once(self._made, key, make)


def made_once(made: dict[object, T], key: object, make: Callable[[], T]) -> T:
    """Return what `make` returns for a kernel; the same for kernels with one key.

    Networks repeat the kernels of a layer, and equal kernels have one key.

    Args:
        made: What was made before, by key.
        key: The kernel's key; `None` if no other kernel is known to be equal.
        make: Function that is called if nothing was made for the key.
    """
    if key is None:
        return make()
    if key not in made:
        made[key] = make()
    return made[key]


def _follows_from_types(ins: Instruction) -> bool:
    """Do op, types and called computations determine the instruction's indexing maps?"""
    entries = [lookup(direction, type(ins.op)) for direction in Direction]
    if not all(entry is not None and entry.is_shared for entry in entries):
        return False
    leaves = [leaf for value in (*ins.operands, ins) for leaf in leaf_types(value.type)]
    return all([isinstance(leaf, TensorType) and leaf.is_static for leaf in leaves])


def output_names(ins: Instruction, analysis: Analysis) -> list[str]:
    """Return one name for each array that a fusion or instruction writes: that of its root."""
    is_fusion = isinstance(ins.op, Fusion) and len(ins.calls) == 1
    return [
        root.name
        for root in roots_of(ins.calls[0].root if is_fusion else ins)
        for type in analysis.tensors(root.type)
        if isinstance(type, TensorType)
    ]
