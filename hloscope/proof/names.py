"""What values inside of called computations are called where a walk began."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from hloscope.ir import Instruction, called_value


class Names:
    """What the values of a computation are called where the walk began.

    A parameter is the value handed in, a value from outside is that of the caller, and every other
    one is what this call computes of it.
    """

    def __init__(
        self,
        handed: Mapping[Instruction, Instruction] | None = None,
        outside: Collection[Instruction] = (),
        call: tuple[Instruction, int] | None = None,
        caller: Names | None = None,
    ) -> None:
        """Names in a computation that is walked into; of the first one, all are as they are.

        Args:
            handed: For its parameters the values handed in, by the caller's names.
            outside: Values that it reads without being handed them.
            call: What calls it, by which operand first; `None` if nothing else does.
            caller: The names where that stands.
        """
        self._handed: Final = handed or {}
        self._outside: Final = outside
        self._call: Final = call
        self._caller: Final = caller

    def of(self, value: Instruction) -> Instruction:
        """The name of a value."""
        at: Names | None = self
        while at is not None:
            if value in at._handed:
                return at._handed[value]
            if at._call is not None and value not in at._outside:
                value = called_value(value, *at._call)
            at = at._caller
        return value


AS_THEY_ARE: Final = Names()
"""The names where a walk begins."""
