"""What the values of a run were: each by the calls in which it was computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from hloscope.arrays import np
from hloscope.interpreter import Value
from hloscope.ir import CalledValue, Instruction
from hloscope.ops import AsyncStart, Call, Case, Composite, Fusion

_CALLING: Final = AsyncStart, Call, Case, Composite
"""Ops whose computations have values of their own in each call; those of other ops, such as bodies
of reductions, are one value for all."""
_HANDING: Final = Call, Composite, Fusion
Path: TypeAlias = int
"""The number of a chain of calls, each with the operand that is its first parameter; 0: none."""
SEVERAL: Final = object()
"""Stands for a value that was another one each time."""
NEVER: Final = object()
"""Stands for a value of a call that was not made, as another branch was taken."""


class Seen:
    """The values of one run on one device: told by the interpreter, asked for by their names.

    Attributes:
        path: Which calls the run is in.
    """

    def __init__(
        self,
        names: Mapping[Instruction, Instruction],
        copies: Mapping[Instruction, Instruction],
        asked: Instruction | None = None,
    ) -> None:
        """Take by which names values are put and asked for.

        Args:
            names: What instructions that run are where they are analysed, if that is others.
            copies: What instructions of the program are in the instance.
            asked: The instruction whose operands are asked about; if it is a call, values inside
                of it may go by their names there.
        """
        self._names: Final = names
        self._copies: Final = copies
        self._asked: Final = asked
        self.path: Path = 0
        self._outer: Final[list[Path]] = []
        self._values: Final[dict[Instruction, dict[Path, Any]]] = {}
        self._paths: Final[dict[tuple[Path, Instruction, int], Path]] = {}

    def __call__(self, ins: Instruction, value: Value) -> None:
        """Keep the value of an instruction."""
        self.put(ins, value)

    def enter(self, ins: Instruction, number: int) -> None:
        """One of the computations that an instruction calls begins."""
        self._outer.append(self.path)
        caller = self.path
        begun = ins.op.wrapped if isinstance(ins.op, AsyncStart) else None
        if isinstance(begun or ins.op, _CALLING):
            first = number + 1 if isinstance(ins.op, Case) else 0
            key = caller, self._names.get(ins, ins), first
            self.path = self._paths.setdefault(key, len(self._paths) + 1)
        if isinstance(ins.op, _HANDING):
            for parameter, operand in zip(ins.calls[0].parameters, ins.operands, strict=False):
                given = self._values.get(self._names.get(operand, operand), {})
                self.put(parameter, given.get(caller, SEVERAL))

    def leave(self) -> None:
        """The computation that began last has ended."""
        self.path = self._outer.pop()

    def put(self, ins: Instruction, value: Any) -> None:
        """Keep a value; another one than in the same calls before is one of several."""
        known = self._values.setdefault(self._names.get(ins, ins), {})
        if self.path in known and not _is_same(known[self.path], value):
            value = SEVERAL
        known[self.path] = value

    def of(self, origin: Instruction) -> Any:
        """The value that a runtime variable is read from.

        One that is not named by its call is that of the first call: an answer that takes the
        values of several calls for one is held to it.
        """
        calls: list[tuple[Instruction, int]] = []
        while isinstance(origin, CalledValue):
            calls.append((self._own(origin.call), origin.first))
            origin = origin.value
        known = self._values.get(self._own(origin), {})
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
        """What an instruction of the program, or of the instance, is where that is analysed."""
        copy = self._copies.get(ins, ins)
        return self._names.get(copy, copy)

    def _is_entered(self, case: Instruction) -> bool:
        """Did any of its branches run?"""
        return any(ins is case for _, ins, _ in self._paths)


def _is_same(one: Any, other: Any) -> bool:
    """Are both the same array, bit by bit?"""
    if one is other:
        return True
    if not all(isinstance(x, np.ndarray | np.generic) for x in (one, other)):
        return False
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
