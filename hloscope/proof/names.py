"""Names, where a traversal began, of the values inside called computations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from hloscope.ir import Instruction, called_value


class Names:
    """Map the values of a called computation to values where the traversal began.

    A parameter becomes the operand, a captured value that of the caller, and any other value
    becomes the `called_value` of this call.
    """

    def __init__(
        self,
        handed: Mapping[Instruction, Instruction] | None = None,
        outside: Collection[Instruction] = (),
        call: tuple[Instruction, int] | None = None,
        caller: Names | None = None,
    ) -> None:
        """Names in a called computation; without arguments every value is its own name.

        Args:
            handed: Operands by parameter, in the caller's names.
            outside: Values that the computation captures.
            call: The calling instruction, and its operand that is the first parameter.  `None` if
                the computation has no other caller.
            caller: Names in the calling computation.
        """
        self._handed: Final = handed or {}
        self._outside: Final = outside
        self._call: Final = call
        self._caller: Final = caller

    def of(self, value: Instruction) -> Instruction:
        """Return the name of a value."""
        at: Names | None = self
        while at is not None:
            if value in at._handed:
                return at._handed[value]
            if at._call is not None and value not in at._outside:
                value = called_value(value, *at._call)
            at = at._caller
        return value


AS_THEY_ARE: Final = Names()
"""Names where a traversal begins: every value is its own."""
