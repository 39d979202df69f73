"""PTX syntax: modules, kernels, instructions, their operands and types."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.support.arrays import Array, ml_dtypes, np
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# PTX syntax: modules, kernels, instructions and their operands.
#
# Source: PTX ISA 8.8, "Syntax", "Instruction Operands", "State Spaces, Types, and Variables".


class Register(Struct, frozen=True):
    """A register, `%r1`, a special register, `%tid.x`, or the sink `_`."""

    name: str


class Immediate(Struct, frozen=True):
    """A constant operand.

    Attributes:
        value: An integer as written, or the bits of a float.
        kind: `int`, `f32` (written `0f3F800000`) or `f64` (written `0d…` or `1.5`).
    """

    value: int
    kind: str = "int"


class Symbol(Struct, frozen=True):
    """The name of a variable, a label or a function."""

    name: str


class Vector(Struct, frozen=True):
    """A vector of operands, `{%r1, %r2}`."""

    parts: tuple[Operand, ...]


class Pair(Struct, frozen=True):
    """Two result registers, `%p1|%p2`."""

    first: Register
    second: Register


class Negated(Struct, frozen=True):
    """A negated predicate as a source, `!%p1`."""

    register: Register


class Address(Struct, frozen=True):
    """A memory operand, `[base + offset]` in bytes; without a base, `offset` is the address."""

    base: Register | Symbol | None
    offset: int = 0


Operand: TypeAlias = Register | Immediate | Symbol | Vector | Pair | Negated | Address


class Guard(Struct, frozen=True):
    """A guard, `@%p1` or `@!%p1`; lanes whose guard is false do not execute the instruction."""

    predicate: Register
    negated: bool


class Instruction(Struct, frozen=True):
    """One instruction.

    Attributes:
        name: Opcode and modifiers as written, `ld.global.nc.v2.b32`.
        operands: Operands in order, the result first.
        guard: Guard of the instruction, or `None`.
        span: Position of the name in the text.
    """

    name: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    span: Span

    @property
    def opcode(self) -> str:
        """Return the opcode, the part of the name before the first dot."""
        return self.name.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """Return the parts of the name after the opcode, without dots."""
        return tuple(self.name.split(".")[1:])


class Variable(Struct, frozen=True):
    """A variable in memory, or a parameter.

    Attributes:
        name: Its name.
        space: `global`, `const`, `shared`, `local` or `param`.
        size: Number of bytes; 0 for `.extern .shared` arrays, whose size is a launch parameter.
        align: Alignment in bytes.
        data: Initial value, at most `size` bytes; the rest is zero.
        type: Type of an element.
        is_pointer: Whether it is a parameter declared `.ptr`.
    """

    name: str
    space: str
    size: int
    align: int
    data: bytes = b""
    type: str = "b8"
    is_pointer: bool = False


class Kernel(Struct, frozen=True):
    """A kernel: an `.entry` function.

    Attributes:
        name: Its name.
        params: Parameters in order.
        registers: Type of each register: `pred`, `b32` …
        variables: Shared and local variables declared in the body.
        code: Instructions in order.
        labels: Index in `code` of the instruction after each label.
        targets: Labels in each `.branchtargets` list, by the name of the list.
        threads: Block dimensions that `.reqntid` requires; empty without it.
        most_threads: Maximum block dimensions by `.maxntid`; empty without it.
        span: Position of the name in the text.
    """

    name: str
    params: tuple[Variable, ...]
    registers: dict[str, str]
    variables: tuple[Variable, ...]
    code: tuple[Instruction, ...]
    labels: dict[str, int]
    targets: dict[str, tuple[str, ...]]
    threads: tuple[int, ...]
    most_threads: tuple[int, ...]
    span: Span


class PtxModule(Struct, frozen=True):
    """One PTX file.

    Attributes:
        source: The text.
        target: Target such as `sm_90a`; empty if the text has none.
        variables: Variables declared outside functions.
        kernels: Kernels by name.
        functions: Names of device functions; their bodies are skipped.
    """

    source: Source
    target: str
    variables: tuple[Variable, ...]
    kernels: dict[str, Kernel]
    functions: tuple[str, ...]


# --------------------------------------------------------------------------------------------------
# Types of PTX values, with the numpy types that represent them.
#
# Source: PTX ISA 8.8, "Types", "Fundamental Types", "Packed Data Types".


class PtxType(Struct, frozen=True):
    """A type of PTX values.

    Attributes:
        name: Name in PTX, such as `s32` or `bf16x2`.
        bits: Bits of the value, including all parts of a packed one; 1 for predicates.
        element: Name of the numpy type of a part.
        parts: Number of parts packed into one value, 1 or 2.
    """

    name: str
    bits: int
    element: str
    parts: int = 1

    @property
    def bytes(self) -> int:
        """Return the number of bytes of a value in memory."""
        return max(1, self.bits // 8)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the numpy type of one part of a value."""
        return np.dtype(getattr(ml_dtypes, self.element, self.element))

    @property
    def raw(self) -> np.dtype[Any]:
        """Return the numpy type that has the bits of a value: unsigned, or bool for predicates."""
        return np.dtype(bool) if self.name == "pred" else np.dtype(f"u{self.bytes}")

    @property
    def is_float(self) -> bool:
        """Is the type a floating-point type?"""
        return "float" in self.element

    @property
    def is_signed(self) -> bool:
        """Is it a signed integer type?"""
        return self.element.startswith("int")


_ROWS: Final = """
    pred 1 bool | b8 8 uint8 | b16 16 uint16 | b32 32 uint32 | b64 64 uint64
    u8 8 uint8 | u16 16 uint16 | u32 32 uint32 | u64 64 uint64
    s8 8 int8 | s16 16 int16 | s32 32 int32 | s64 64 int64
    f16 16 float16 | bf16 16 bfloat16 | f32 32 float32 | f64 64 float64 | tf32 32 float32
    f16x2 32 float16 2 | bf16x2 32 bfloat16 2
    e4m3x2 16 float8_e4m3fn 2 | e5m2x2 16 float8_e5m2 2
"""
_CELLS: Final = [
    cell.split() for row in _ROWS.split("\n") for cell in row.split("|") if cell.strip()
]
TYPES: Final = {
    name: PtxType(name, int(bits), element, *map(int, parts))
    for name, bits, element, *parts in _CELLS
}
"""Types that values can have, by name."""


def from_bits(raw: Array, type_: PtxType) -> Array:
    """Return bits as values of a type, shape `[lanes]`, or `[lanes, 2]` if packed.

    If `raw` is wider than the type, the upper bits are dropped, as an instruction reads the low
    part of a register.

    >>> from_bits(np.array([0xFFFF_FFFF], np.uint32), TYPES["s8"])
    array([-1], dtype=int8)
    """
    if raw.dtype != type_.raw:
        raw = raw.astype(type_.raw)
    value = raw if type_.dtype == raw.dtype else np.ascontiguousarray(raw).view(type_.dtype)
    return value.reshape(-1, type_.parts) if type_.parts > 1 else value


def to_bits(value: Array, type_: PtxType, raw: np.dtype[Any]) -> Array:
    """Return values of a type as bits of a register, sign-extended if the type is signed.

    >>> to_bits(np.array([-1], np.int8), TYPES["s8"], np.dtype("u2"))
    array([65535], dtype=uint16)
    """
    if type_.name == "pred":
        return value
    if value.dtype != type_.dtype:
        value = value.astype(type_.dtype)
    if type_.is_signed and type_.bytes < raw.itemsize:
        value = value.astype(f"i{raw.itemsize}").view(raw)
        return value
    bits = np.ascontiguousarray(value).view(type_.raw)
    bits = bits.reshape(-1) if type_.parts > 1 else bits
    return bits if bits.dtype == raw else bits.astype(raw)
