"""Operands as functions that read or write the state of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from hloscope.arrays import Array, np
from hloscope.errors import ParseError, UnsupportedError, did_you_mean
from hloscope.ptx.machine import SPECIAL, Batch, Lanes
from hloscope.ptx.syntax import Immediate, Instruction, Kernel, Negated, Operand, Register, Symbol
from hloscope.ptx.types import TYPES, PtxType, from_bits, to_bits

Read: TypeAlias = Callable[[Batch, Lanes], Array]
"""Function that returns the values of an operand, one for each lane or one for all."""
Write: TypeAlias = Callable[[Batch, Lanes, Array], None]
"""Function that writes a value for each lane."""


def fail(instruction: Instruction, message: str) -> NoReturn:
    """Raise an error about an instruction.

    Raises:
        ParseError: Always, with the place of the instruction.
    """
    raise ParseError(f"`{instruction.name}`: {message}", span=instruction.span)


def refuse(instruction: Instruction, message: str) -> NoReturn:
    """Raise an error about an instruction that is valid PTX.

    Raises:
        UnsupportedError: Always, with the place of the instruction.
    """
    raise UnsupportedError(f"`{instruction.name}`: {message}", span=instruction.span)


class Operands:
    """Reader and writer functions for the operands of a kernel's instructions.

    Args:
        kernel: The kernel.
        symbols: Address of each variable, in its own space; of global ones, the generic address.
        windows: Generic address of the first byte of each space; 0 for global memory.
    """

    def __init__(self, kernel: Kernel, symbols: dict[str, int], windows: dict[str, int]) -> None:
        self.kernel, self.symbols, self.windows = kernel, symbols, windows

    def register_type(self, instruction: Instruction, register: Register) -> PtxType:
        """Return the declared type of a register.

        Raises:
            ParseError: It is not declared.
        """
        kind = self.kernel.registers.get(register.name)
        if kind is None:
            near = did_you_mean(register.name, self.kernel.registers)
            fail(instruction, f"register `{register.name}` is not declared{near}")
        return TYPES[kind]

    def reads(self, instruction: Instruction, operand: Operand, type_: PtxType) -> Read:
        """Return a function that reads an operand as values of a type.

        Raises:
            ParseError: It cannot be read as that.
        """
        match operand:
            case Register(name) if name in SPECIAL:
                return lambda b, at: from_bits(b.special(name)[at.at], type_)
            case Register(name):
                self._check_width(instruction, operand, type_)
                return lambda b, at: from_bits(b.register(name)[at.at], type_)
            case Negated(register):
                read = self.reads(instruction, register, type_)
                return lambda b, at: ~read(b, at)
            case Immediate():
                constant = from_bits(_bits_of(operand, type_), type_)
                return lambda b, at: constant
            case Symbol(name) if name in self.symbols:
                address = np.array([self.symbols[name]], np.uint64).astype(type_.raw)
                return lambda b, at: address
            case Symbol(name):
                fail(instruction, f"unknown name `{name}`{did_you_mean(name, self.symbols)}")
            case _:
                fail(instruction, "expected a register, a constant or a variable")

    def writes(self, instruction: Instruction, operand: Operand, type_: PtxType) -> Write:
        """Return a function that writes values of a type to a register.

        Raises:
            ParseError: It is not a register wide enough.
        """
        if not isinstance(operand, Register):
            fail(instruction, "the result must be a register")
        name = operand.name
        if name == "_":
            return lambda b, at, value: None
        kind = self._check_width(instruction, operand, type_)
        raw: np.dtype[Any] = kind.raw

        def write(batch: Batch, lanes: Lanes, value: Array) -> None:
            batch.register(name)[lanes.at] = to_bits(value, type_, raw)

        return write

    def _check_width(self, instruction: Instruction, register: Register, type_: PtxType) -> PtxType:
        kind = self.register_type(instruction, register)
        if kind.bits < type_.bits or (kind.name == "pred") != (type_.name == "pred"):
            found = f"register `{register.name}` is of type .{kind.name}"
            fail(instruction, f"{found}, which does not hold .{type_.name}")
        return kind


def _bits_of(immediate: Immediate, type_: PtxType) -> Array:
    """Return the bits of a constant as a type, shape `[1]`."""
    if type_.name == "pred":
        return np.array([immediate.value != 0])
    mask = (1 << type_.bits) - 1
    if immediate.kind == "int" or not type_.is_float or type_.parts > 1:
        return np.array([immediate.value & mask], type_.raw)
    kind = TYPES[immediate.kind]
    value = np.array([immediate.value], kind.raw).view(kind.dtype)
    if kind.bits != type_.bits:
        value = value.astype(type_.dtype)
    return value.view(type_.raw)
