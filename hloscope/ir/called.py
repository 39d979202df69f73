"""Values inside a called computation, distinguished by the call."""

from __future__ import annotations

from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from hloscope.ir.graph import Instruction
from hloscope.locks import shared_lock


class CalledValue(Instruction):
    """A value inside a computation, as one call of it computes it.

    Two calls of one function compute two values of each of its instructions, which runtime
    variables
    have to distinguish.  `called_value` makes one object for each value of each call.

    Attributes:
        value: The instruction, or a `CalledValue` if the computation makes a call in turn.
        call: The calling instruction.
        first: Operand number that is the computation's first parameter; distinguishes branches.
        instruction: The instruction itself, apart from any call.
    """

    __slots__ = ("__weakref__", "call", "first", "instruction", "value")

    def __init__(self, value: Instruction, call: Instruction, first: int) -> None:
        self.value: Final = value
        self.call: Final = call
        self.first: Final = first
        self.instruction: Final[Instruction] = uncalled(value)
        it = self.instruction
        super().__init__(f"{it.name} in {call.name}", it.type, it.op, it.operands, it.calls)


_Called: TypeAlias = WeakValueDictionary[tuple[Instruction, Instruction, int], CalledValue]
_CALLED: Final[_Called] = WeakValueDictionary()
_LOCK: Final = shared_lock()


def called_value(value: Instruction, call: Instruction, first: int = 0) -> CalledValue:
    """Return the value of a called computation as one call computes it; always the same object.

    >>> from hloscope.ir import TupleType
    >>> from hloscope.ops import Parameter
    >>> value, call = [Instruction(name, TupleType(()), Parameter(0)) for name in "kc"]
    >>> called_value(value, call).name, called_value(value, call) is called_value(value, call)
    ('k in c', True)
    """
    # Weak references: an entry lives as long as its value is in use.  Identity matters, because
    # instructions compare by identity.
    key = (value, call, first)
    with _LOCK:
        known = _CALLED.get(key)
        if known is None:
            known = _CALLED[key] = CalledValue(value, call, first)
        return known


def uncalled(value: Instruction) -> Instruction:
    """Return the instruction that computes a value, whatever call it belongs to."""
    return value.instruction if isinstance(value, CalledValue) else value
