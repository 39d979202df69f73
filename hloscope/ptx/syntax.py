"""PTX syntax: modules, kernels, instructions and their operands.

Source: PTX ISA 8.8, "Syntax", "Instruction Operands", "State Spaces, Types, and Variables".
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from hloscope.source import Source, Span


class Register(Struct, frozen=True):
    """A register, `%r1`, a special register, `%tid.x`, or the sink `_`."""

    name: str


class Immediate(Struct, frozen=True):
    """A constant.

    Attributes:
        value: An integer as written, or the bits of a float.
        kind: `int`, `f32` (`0f3F800000`), `f64` (`0d…`, `1.5`).
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
    """Two results, `%p1|%p2`."""

    first: Register
    second: Register


class Negated(Struct, frozen=True):
    """A negated predicate as a source, `!%p1`."""

    register: Register


class Address(Struct, frozen=True):
    """An address, `[base + offset]`; without a base, `offset` is the address."""

    base: Register | Symbol | None
    offset: int = 0


Operand: TypeAlias = Register | Immediate | Symbol | Vector | Pair | Negated | Address


class Guard(Struct, frozen=True):
    """A guard, `@%p1` or `@!%p1`: lanes whose predicate is false do not execute the instruction."""

    predicate: Register
    negated: bool


class Instruction(Struct, frozen=True):
    """One instruction.

    Attributes:
        name: Opcode and modifiers as written, `ld.global.nc.v2.b32`.
        operands: In order, the result first.
        guard: Its predicate, or `None`.
        span: Place of the name in the text.
    """

    name: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    span: Span

    @property
    def opcode(self) -> str:
        """Return the part of the name before the first dot."""
        return self.name.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """Return the parts of the name after the opcode."""
        return tuple(self.name.split(".")[1:])


class Variable(Struct, frozen=True):
    """A variable in memory, or a parameter.

    Attributes:
        name: Its name.
        space: `global`, `const`, `shared`, `local` or `param`.
        size: Bytes; 0 for `.extern .shared` arrays, whose size is a launch parameter.
        align: Bytes.
        data: Initial value, at most `size` bytes; the rest is zero.
        type: Type of an element.
        is_pointer: Is it a parameter declared `.ptr`?
    """

    name: str
    space: str
    size: int
    align: int
    data: bytes = b""
    type: str = "b8"
    is_pointer: bool = False


class Kernel(Struct, frozen=True):
    """A `.entry` function.

    Attributes:
        name: Its name.
        params: Parameters in order.
        registers: Type of each register: `pred`, `b32` …
        variables: Shared and local variables declared in the body.
        code: Instructions in order.
        labels: Index in `code` of the instruction after each label.
        targets: Labels that each `.branchtargets` list names.
        threads: Threads of a block that `.reqntid` requires, or `()`.
        most_threads: Threads of a block that `.maxntid` allows, or `()`.
        span: Place of the name in the text.
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
        target: `sm_90a`, or empty.
        variables: Variables declared outside functions.
        kernels: Kernels by name.
        functions: Names of device functions; their bodies are skipped.
    """

    source: Source
    target: str
    variables: tuple[Variable, ...]
    kernels: dict[str, Kernel]
    functions: tuple[str, ...]
