"""Donation: the parameters whose memory results take, and others whose memory they could take.

A result may take the memory of a parameter of the same type and layout that is not read after the
result begins.  JAX pairs donated parameters and results by type, before XLA schedules: where a
parameter is read later, XLA copies it, and the donation saves nothing.

Source: XLA `HloInputOutputAliasConfig`, `HloBufferDonorConfig`; JAX `donate_argnums`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from hloscope.buffers.model import Buffer, Buffers, Value
from hloscope.buffers.program import ProgramMemory
from hloscope.buffers.reuse import Touch, fused_users, is_same_storage, may_share
from hloscope.buffers.uses import Uses
from hloscope.hlo_parser import BUFFER_DONOR, INPUT_OUTPUT_ALIAS, ShapeIndex, aliasing_in
from hloscope.ir import Instruction, TensorType
from hloscope.ops import ELEMENTWISE, Parameter

DonationStatus: TypeAlias = Literal["taken", "offered", "kept"]
"""`taken`: a result takes its memory; `offered`: donated, but no result takes it; `kept`: not
donated."""


class Donation(Struct, frozen=True):
    """A parameter, or an array in one, with the status of its donation.

    Attributes:
        parameter: The parameter's value.
        buffer: Its buffer.
        status: `taken`, `offered` or `kept`.
        output: Index of the result that takes its memory; `None` if none does.
        has_output: Is there a result of its type and layout that takes no other parameter?
        copied_by: The copy that finally writes the result to the parameter's memory, because the
            parameter is read while the result is computed; `None` if there is none.
    """

    parameter: Value
    buffer: Buffer
    status: DonationStatus
    output: ShapeIndex | None
    has_output: bool
    copied_by: Instruction | None = None


class DonationOffer(Struct, frozen=True):
    """A parameter whose memory a result could take, if the caller donated it.

    Attributes:
        parameter: The parameter's value.
        output: Index of the result.
        result: The buffer of the result.
        last_read: The moment of the parameter's last read.
        bytes: Bytes that are held twice without the donation.
    """

    parameter: Value
    output: ShapeIndex
    result: Buffer
    last_read: int
    bytes: int


class Donations:
    """The donations of a program's parameters."""

    def __init__(self, memory: ProgramMemory, uses: Uses) -> None:
        """Take a program with a schedule."""
        self._memory: Final = memory
        self._uses: Final = uses
        self._buffers: Final[Buffers] = memory.buffers

    def parameters(self) -> list[Donation]:
        """Each array of the parameters, in order, with the status of its donation."""
        module = self._memory.module
        taken = {
            (one.taken, one.inside): one.output
            for one in aliasing_in(module.extras, INPUT_OUTPUT_ALIAS)
        }
        offered = {(one.taken, one.inside) for one in aliasing_in(module.extras, BUFFER_DONOR)}
        free = [value for _, value, _ in self._free_outputs()]
        found = []
        for value, buffer in self._argument_buffers():
            assert isinstance(value.instruction.op, Parameter)
            key = value.instruction.op.number, value.index
            status: DonationStatus = "offered" if key in offered else "kept"
            if key in taken:
                status = "taken"
            has_output = any(is_same_storage(value.type, other.type) for other in free)
            output = taken.get(key)
            copied_by = None if output is None else self._copy_to(output)
            found.append(Donation(value, buffer, status, output, has_output, copied_by))
        return found

    def _copy_to(self, output: ShapeIndex) -> Instruction | None:
        """The copy that writes a result; `None` if another op does."""
        position = self._buffers.positions.at(self._memory.module.entry.root, output)
        writer = None if position is None else self._buffers.value(position).instruction
        return writer if writer is not None and isinstance(writer.op, ELEMENTWISE["copy"]) else None

    def offers(self) -> list[DonationOffer]:
        """Parameters that are not donated, with results that could take their memory.

        Each result is used once, in order. The last read of the parameter is before the result
        starts, or by the instruction that writes the result element by element.
        """
        # Only parameters of the result's type and layout can be taken: JAX pairs them by type as
        # well.
        waiting: dict[TensorType, list[tuple[Value, int]]] = defaultdict(list)
        for donation in self.parameters():
            type = donation.parameter.type
            if donation.status == "kept" and isinstance(type, TensorType):
                last = self._uses.last_read(donation.buffer)
                waiting[type].append((donation.parameter, last))
        found = []
        for output, value, buffer in self._free_outputs():
            for type, some in waiting.items():
                if not is_same_storage(type, value.type):
                    continue
                taken = next((one for one in some if self._is_free(one, buffer)), None)
                if taken is not None:
                    some.remove(taken)
                    found.append(DonationOffer(taken[0], output, buffer, taken[1], buffer.bytes))
                    break
        return found

    def _argument_buffers(self) -> list[tuple[Value, Buffer]]:
        """The arrays of the entry's parameters with their buffers, in order."""
        positions, found = self._buffers.positions, []
        for parameter in self._memory.module.entry.parameters:
            for p in positions.within(parameter):
                if isinstance(positions.type(p), TensorType):
                    found.append((self._buffers.value(p), self._buffers.at(p)))
        return found

    def _free_outputs(self) -> list[tuple[ShapeIndex, Value, Buffer]]:
        """Results that take no parameter's memory: index, value and buffer; each buffer once."""
        positions, root = self._buffers.positions, self._memory.module.entry.root
        found: dict[Buffer, tuple[ShapeIndex, Value, Buffer]] = {}
        for p in positions.within(root):
            buffer = self._buffers.at(p)
            if buffer.kind == "output" and isinstance(positions.type(p), TensorType):
                found.setdefault(buffer, (positions.index(p), self._buffers.value(p), buffer))
        return [*found.values()]

    def _is_free(self, given: tuple[Value, int], result: Buffer) -> bool:
        """Is a parameter's memory free when a result starts?"""
        parameter, last = given
        if last != result.first:
            return last < result.first
        # The last read is by the instruction that starts the result: it must be one that reads each
        # element before it writes it.
        first = result.values[0]
        writer = first.instruction
        number = self._operand_number(writer, parameter)
        if number is None:
            return False
        touch = Touch(
            writer, number, (), first.index, parameter.type, first.type, fused_users(writer)
        )
        return may_share(touch, self._memory.target.kind)

    def _operand_number(self, writer: Instruction, parameter: Value) -> int | None:
        """The number of the operand that is the parameter; `None` if none or several are."""
        positions = self._buffers.positions
        given = positions.at(parameter.instruction, parameter.index)
        value = self._buffers.flow.value
        found = [k for k, o in enumerate(writer.operands) if value[positions.first[o]] == given]
        return found[0] if len(found) == 1 else None
