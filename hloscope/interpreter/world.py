"""What an evaluation may use and whom it can talk to: limits, devices, queues, callbacks."""

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
"""Key of `World.extra`: the process of a grid the world is that of."""


class Trail(Protocol):
    """Follows which called computations an evaluation is in."""

    def enter(self, ins: Instruction, number: int) -> None:
        """One of the computations of `ins` begins: a function that it calls, or a region."""

    def leave(self) -> None:
        """The one that began last has ended."""


class World(Struct):
    """The surroundings of one evaluation.

    Attributes:
        functions: Computations by name, for ops that name them.
        attributes: Attributes of the module, `(name, text)` as written: the meshes among them.
        custom_calls: Python functions by the target of the custom call they stand for.
        max_steps: Most instructions to evaluate, loops counted as often as they run.
        max_bytes: Most bytes of one array, those made on the way included.
        max_flops: Most operations on elements, those of small values left out.
        steps: Instructions evaluated so far, and `flops` what `max_flops` limits.
        replica: Number of this replica, and `partition` of this partition.
        watch: Called with every instruction and its value.
        trail: Told of every computation that is entered and left.
        on_step: Called once in a while with the number of steps, for a progress display.
        extra: What families of ops keep for one evaluation, by their name.
        spell: How the language of the program writes types.
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
