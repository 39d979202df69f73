"""Facts in a dump folder about kernels (launches, memory, accesses), compared with the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from hloscope.errors import ParseError, UnsupportedError
from hloscope.fusion import leaf_types
from hloscope.indexing import IndexingMap
from hloscope.ir import Instruction, TensorType
from hloscope.memory.answers import ArrayUse, Coalescing, Touch
from hloscope.memory.emitters.loop import NAME as IN_PLACE_EMITTER
from hloscope.memory.kernel import Launch
from hloscope.memory.requests import together
from hloscope.memory.thread_maps import access_by_thread
from hloscope.support.devices import Device

if TYPE_CHECKING:
    from hloscope.memory.dumps import BufferSlice, DumpedModule, Thunk, TritonAccess

COUNTED_BY_MODEL: Final = "counted for the model's launch, which is not XLA's"
Count: TypeAlias = Callable[[IndexingMap, int, Launch, int], Touch]


class StatedKernels:
    """Facts that a dump folder states about the kernels of its module.

    Attributes:
        dump: The module in its folder.
    """

    def __init__(self, dump: DumpedModule, device: Device, count: Count) -> None:
        """Use the facts of one module of a dump folder.

        Args:
            dump: The module.
            device: The device that the module runs on.
            count: Counts the requests of a map from threads to elements. Its arguments are the
                map, the bits of an element, the launch, and the consecutive elements of a thread.

        Raises:
            ParseError: The thunk sequence or the buffer assignment is damaged or cut.
        """
        self.dump: Final = dump
        self._device: Final = device
        self._count: Final = count
        if not self.other_target:  # damaged files raise before the first kernel is analysed
            _ = dump.thunks, dump.buffers

    def launch(self, ins: Instruction) -> Launch | None:
        """Return the launch that the folder states for an instruction's kernel.

        `None` if it states none or several.
        """
        stated = None if self.other_target else self.dump.launch(ins.name)
        return None if stated is None else _launch(stated)

    @property
    def other_target(self) -> str:
        """Return why the folder's facts do not apply to the device; empty if they do."""
        target, device = self.dump.target, self._device
        if target is None or (target.cores, target.warp) == (device.sms, device.warp):
            return ""
        what = f"the folder was compiled for {target.title or 'another GPU'} ({target.cores} cores)"
        return f"{what}, so its launches are not compared with those of {device.name}"

    def completed(self, ins: Instruction, model: Coalescing) -> Coalescing:
        """Return the model's result, completed by the facts in the folder.

        Differences between model and folder become findings. The accesses of a Triton kernel are
        those of its code.

        Args:
            ins: The instruction of the kernel.
            model: The model's result, for the launch that the folder states if the emitter can
                produce it.
        """
        other = self.other_target
        if other:
            return replace(model, notes=(*model.notes, other))
        thunks = self.dump.thunks
        if thunks is None:
            return model
        launches = self.dump.launches(ins.name)
        findings = [*model.findings, *self._memory_findings(ins, model)]
        notes = [*model.notes, *self._aliasing_notes(ins, model)]
        if shared := self.dump.shared_bytes(ins.name):
            notes.append(f"shared memory of a block: {shared:,} bytes")
        answer = model
        stated = self.launch(ins)
        if stated is not None and model.kernel.launch is None:
            findings += self._tile_findings(ins, model)
            answer = replace(model, kernel=replace(model.kernel, launch=stated))
            try:
                answer, noted = self._as_compiled(ins, answer, stated)
                notes.append(noted)
            except ParseError as error:  # damaged code of one kernel does not stop the others
                findings.append(str(error).partition("\n")[0])
        elif stated is not None and stated != model.kernel.launch:
            findings.append(f"XLA launches {stated}, the model says {model.kernel.launch}")
            answer = _not_of_this_launch(model)
        elif len(launches) > 1:
            kernels = ", ".join([f"`{t.kernel}` {_launch(t)}" for t in launches])
            findings.append(f"XLA launches {len(launches)} kernels: {kernels}; the model says one")
            answer = _not_of_this_launch(model)
        elif not launches and model.kernel.launch is not None:
            kinds = [t.kind for t in thunks if t.instruction == ins.name]
            if kinds:
                said = (
                    f"XLA runs it as `{'`, `'.join(kinds)}`, the model says {model.kernel.launch}"
                )
                findings.append(said)
                answer = _not_of_this_launch(model)
        return replace(answer, findings=tuple(findings), notes=tuple(notes))

    # --------------------------------------------------------------------------------- Triton

    def _as_compiled(
        self, ins: Instruction, model: Coalescing, launch: Launch
    ) -> tuple[Coalescing, str]:
        """Return a kernel's result with the accesses in its Triton code, and a note about them.

        If the folder lacks the code, or it cannot be used, the model's result is returned
        unchanged, and the note is the reason.

        Args:
            ins: The instruction of the kernel.
            model: The result by the model.
            launch: Blocks and threads of the kernel.
        """
        try:
            code = self.dump.triton(ins.name)
        except UnsupportedError as error:
            return model, error.message
        if code is None:
            what = "the folder does not state the layouts of this kernel"
            return model, f"{what}: dump with --xla_dump_emitter_re=.*"
        place = _parameters(ins, model)
        if code.arguments != len(place):
            what = f"the kernel has {code.arguments} parameters, the fusion {len(place)} arrays"
            return model, what
        lost = [access for access in code.accesses if access.argument < 0]

        def of(array: ArrayUse) -> ArrayUse:
            number = place[array.is_output, array.number, array.leaf]
            mine = [access for access in code.accesses if access.argument == number]
            return self._array(array, mine, lost, launch)

        operands, outputs = tuple(map(of, model.operands)), tuple(map(of, model.outputs))
        said = "layouts and addresses are those of the compiled kernel"
        return replace(model, operands=operands, outputs=outputs), said

    def _array(
        self,
        array: ArrayUse,
        accesses: Sequence[TritonAccess],
        unknown_accesses: Sequence[TritonAccess],
        launch: Launch,
    ) -> ArrayUse:
        """Return an array's result with the loads and stores that the kernel's code makes.

        Args:
            array: The model's result for the array.
            accesses: The loads and stores of this array.
            unknown_accesses: Accesses whose address is not known; if there are any, only a reason
                is added.
            launch: Blocks and threads of the kernel.
        """
        if unknown_accesses:
            first = unknown_accesses[0]
            reason = f"line {first.line} of the kernel's code: {first.reason}"
            return replace(array, reason=reason)
        touches = []
        for access in accesses:
            try:
                one = access_by_thread(access, launch, self._device.warp)
                touches.append(self._count(one.map, one.bits, launch, one.vector))
            except UnsupportedError as error:
                reason = f"line {access.line} of the kernel's code: {error.message}"
                return replace(array, reason=reason)
        traffic = together([touch.traffic for touch in touches if touch.traffic is not None])
        return replace(array, touches=tuple(touches), traffic=traffic, tile=None)

    def _tile_findings(self, ins: Instruction, model: Coalescing) -> list[str]:
        """Return findings for arrays whose tiles differ from those in the dumped tile program.

        XLA pads tiles to powers of two and may leave out dimensions of size 1.
        """
        program = self.dump.tiles(ins.name)
        if program is None:
            return []
        found = []
        place = _parameters(ins, model)
        for array in model.arrays:
            number = place[array.is_output, array.number, array.leaf]
            stated = dict.fromkeys([tile.sizes for tile in program if tile.argument == number])
            if array.tile is None or not stated:
                continue
            if _padded(array.tile.sizes) not in [_padded(sizes) for sizes in stated]:
                tiles = " and ".join(["x".join(map(str, sizes)) for sizes in stated])
                what = f"{'output' if array.is_output else 'operand'} {array.number}"
                mine = "x".join(map(str, array.tile.sizes))
                found.append(f"XLA's tile of {what} is {tiles}, the model's {mine}")
        return found

    # --------------------------------------------------------------------------------- memory

    def _aliasing_notes(self, ins: Instruction, model: Coalescing) -> list[str]:
        """Return a note for each operand and output that share memory by the buffer assignment."""
        return [
            f"operand {operand.number} and output {output.number} are one memory "
            f"(allocation {written.allocation})"
            for output in model.outputs
            for operand in model.operands
            if (written := self._slice(ins, output.number)) is not None
            and (read := self._read(ins, operand)) is not None
            and written.overlaps(read)
        ]

    def _memory_findings(self, ins: Instruction, model: Coalescing) -> list[str]:
        """Return findings for outputs that the model updates in place and XLA's buffers do not."""
        if model.kernel.emitter != IN_PLACE_EMITTER:
            return []
        found = []
        for output in model.outputs:
            written = self._slice(ins, output.number)
            reads = [self._read(ins, operand) for operand in model.operands]
            if written is None or any(read is None for read in reads):
                continue
            if not any(read is not None and written.overlaps(read) for read in reads):
                what = f"the model writes output {output.number} into the memory of an operand"
                found.append(f"{what}, XLA gives it allocation {written.allocation} of its own")
        return found

    def _slice(self, value: Instruction, number: int) -> BufferSlice | None:
        """Return the bytes of array `number` of a value; `None` if the folder does not state it."""
        index = () if isinstance(value.type, TensorType) else (number,)
        buffers = self.dump.buffers
        return None if buffers is None else buffers.slices.get((value.name, index))

    def _read(self, ins: Instruction, operand: ArrayUse) -> BufferSlice | None:
        return self._slice(ins.operands[operand.number], operand.leaf)


def _launch(thunk: Thunk) -> Launch:
    assert thunk.blocks is not None
    assert thunk.threads is not None
    return Launch(thunk.threads, thunk.blocks)


def _parameters(ins: Instruction, model: Coalescing) -> dict[tuple[bool, int, int], int]:
    """Return the kernel parameter number of each array.

    Keys are (is it an output?, number of the operand or output, leaf). Operands come first.
    """
    operands = [
        (False, k, leaf)
        for k, operand in enumerate(ins.operands)
        for leaf, type in enumerate(leaf_types(operand.type))
        if isinstance(type, TensorType)
    ]
    outputs = [(True, output.number, output.leaf) for output in model.outputs]
    return {array: k for k, array in enumerate([*operands, *outputs])}


def _padded(sizes: Sequence[int]) -> list[int]:
    """Return the sizes padded to powers of two, without sizes of 1."""
    return [1 << (size - 1).bit_length() for size in sizes if size > 1]


def _not_of_this_launch(model: Coalescing) -> Coalescing:
    """Return the result with a reason added to each array: figures are for the model's launch."""

    def of(array: ArrayUse) -> ArrayUse:
        reasons = [reason for reason in (array.reason, COUNTED_BY_MODEL) if reason]
        return replace(array, reason="; ".join(reasons))

    operands, outputs = tuple(map(of, model.operands)), tuple(map(of, model.outputs))
    return replace(model, operands=operands, outputs=outputs)
