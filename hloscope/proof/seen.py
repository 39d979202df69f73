"""Recorded values of a run, by instruction and by the calls in which they were computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from hloscope.arrays import np
from hloscope.interpreter import Value
from hloscope.ir import CalledValue, Instruction
from hloscope.ops import AsyncStart, Call, Case, Composite, Fusion

_CALLING: Final = AsyncStart, Call, Case, Composite
"""Ops that give the values of their computations a record for each call.

Values in other computations, such as bodies of reductions, have one record for all calls."""
_HANDING: Final = Call, Composite, Fusion
Path: TypeAlias = int
"""Number of a chain of calls, each with the operand that is its first parameter; 0 for none."""
SEVERAL: Final = object()
"""Represents a value that differed between evaluations."""
NEVER: Final = object()
"""Represents a value in a branch that was not taken."""


class Seen:
    """Values of one run on one device; a callback of the interpreter.

    Attributes:
        path: The chain of calls that the run is in.
    """

    def __init__(
        self,
        names: Mapping[Instruction, Instruction],
        copies: Mapping[Instruction, Instruction],
        asked: Instruction | None = None,
    ) -> None:
        """Start without values.

        Args:
            names: Analysed instruction of each instruction that runs as a copy.
            copies: Instructions of the instance by instructions of the program.
            asked: The instruction whose operands are queried.  If it is a call, values inside may
                have their names from there.
        """
        self._names: Final = names
        self._copies: Final = copies
        self._asked: Final = asked
        self.path: Path = 0
        self._outer: Final[list[Path]] = []
        self._values: Final[dict[Instruction, dict[Path, Any]]] = {}
        self._paths: Final[dict[tuple[Path, Instruction, int], Path]] = {}

    def __call__(self, ins: Instruction, value: Value) -> None:
        """Record the value of an instruction."""
        self.put(ins, value)

    def enter(self, ins: Instruction, number: int) -> None:
        """Record that a computation of an instruction begins.

        Args:
            ins: The instruction.
            number: Number of the computation among those that it calls.
        """
        self._outer.append(self.path)
        caller = self.path
        begun = ins.op.wrapped if isinstance(ins.op, AsyncStart) else None
        if isinstance(begun or ins.op, _CALLING):
            first = number + 1 if isinstance(ins.op, Case) else 0
            key = caller, self._names.get(ins, ins), first
            self.path = self._paths.setdefault(key, len(self._paths) + 1)
        # The interpreter records steps, not parameters: they have the values of the operands.
        if isinstance(ins.op, _HANDING):
            for parameter, operand in zip(ins.calls[0].parameters, ins.operands, strict=False):
                given = self._values.get(self._names.get(operand, operand), {})
                self.put(parameter, given.get(caller, SEVERAL))

    def leave(self) -> None:
        """Record that the computation that began last has ended."""
        self.path = self._outer.pop()

    def put(self, ins: Instruction, value: Any) -> None:
        """Record a value; if it differs from that of the same calls before, record `SEVERAL`."""
        known = self._values.setdefault(self._names.get(ins, ins), {})
        if self.path in known and not _is_same(known[self.path], value):
            value = SEVERAL
        known[self.path] = value

    def of(self, origin: Instruction) -> Any:
        """Return the recorded value of a runtime variable's origin.

        An origin without its call gets the value of the first call.  So maps that take the values
        of several calls for one are refuted.
        """
        calls: list[tuple[Instruction, int]] = []
        while isinstance(origin, CalledValue):
            calls.append((self._own(origin.call), origin.first))
            origin = origin.value
        known = self._values.get(self._own(origin), {})
        # Follow the calls of the origin from the outermost to the innermost, as `enter` numbered
        # them.
        path: Path = 0
        if self._asked is not None and not (calls and calls[0][0] is self._asked):
            path = self._paths.get((0, self._asked, 0), 0)
        for call, first in calls:
            key = path, call, first
            if key not in self._paths:
                is_other = isinstance(call.op, Case) and self._is_entered(call)
                return NEVER if is_other else SEVERAL
            path = self._paths[key]
        if path not in known and not calls:
            return next(iter(known.values()), SEVERAL)
        return known.get(path, SEVERAL)

    def _own(self, ins: Instruction) -> Instruction:
        """Return the analysed instruction for an instruction of the program or of the instance."""
        copy = self._copies.get(ins, ins)
        return self._names.get(copy, copy)

    def _is_entered(self, case: Instruction) -> bool:
        """Did any branch of the instruction run?"""
        return any(ins is case for _, ins, _ in self._paths)


def _is_same(one: Any, other: Any) -> bool:
    """Are both the same array, bit by bit?"""
    if one is other:
        return True
    if not all(isinstance(x, np.ndarray | np.generic) for x in (one, other)):
        return False
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
