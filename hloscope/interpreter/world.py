"""`World`: limits, devices, callbacks and counters of one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct, field

from hloscope.errors import Spell, plain
from hloscope.interpreter.values import Value
from hloscope.ir import Computation, Instruction
from hloscope.limits import MAX_BYTES

UserFunction = Callable[..., Any]

PROCESS: Final = "process"
"""Key of `World.extra`: the process of a grid that the world belongs to."""


class Trail(Protocol):
    """Callbacks that follow which called computations an evaluation is in."""

    def enter(self, ins: Instruction, number: int) -> None:
        """Called when a function or region of `ins` begins: number `number` of `ins.calls`."""

    def leave(self) -> None:
        """Called when the most recently entered computation ends."""


class World(Struct):
    """The context of one evaluation.

    Attributes:
        functions: Computations by name, for ops that name them.
        attributes: Attributes of the module, `(name, text)` as written, such as meshes.
        custom_calls: Python functions by the target of the custom call that they implement.
        max_steps: Maximum number of evaluated instructions; each loop iteration counts.
        max_bytes: Maximum size of one array in bytes, temporaries included.
        max_flops: Maximum number of operations on elements; small instructions are not counted.
        steps: Number of instructions evaluated so far.
        flops: Number of operations counted so far; counted only if `max_flops` is set.
        replica: Number of this replica.
        partition: Number of this partition.
        watch: Called with every instruction and its value.
        trail: Called for every computation that is entered and left.
        on_step: Called every 64 steps or so with the number of steps, for a progress display.
        extra: State of op families for this evaluation, by a key of the family.
        spell: Function that writes types in the language of the program.
    """

    functions: Mapping[str, Computation] = field(default_factory=dict)
    attributes: tuple[tuple[str, str], ...] = ()
    custom_calls: Mapping[str, UserFunction] = field(default_factory=dict)
    max_steps: int | None = None
    max_bytes: int = MAX_BYTES
    max_flops: int | None = None
    steps: int = 0
    flops: int = 0
    replica: int = 0
    partition: int = 0
    watch: Callable[[Instruction, Value], None] | None = None
    trail: Trail | None = None
    on_step: Callable[[int], None] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    spell: Spell = plain
