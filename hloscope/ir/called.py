"""Values inside a called computation, as one of its calls computes them."""

from __future__ import annotations

from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from hloscope.ir.graph import Instruction
from hloscope.locks import shared_lock


class CalledValue(Instruction):
    """A value inside a computation, as one of its calls computes it.

    Two calls of one function compute two values of each of its instructions, which a runtime
    variable has to tell apart.  There is one object for each value of each call: `called_value`.

    Attributes:
        value: The instruction; a `CalledValue` where the computation has called another one.
        call: The instruction that calls.
        first: Which operand of it is the computation's first parameter; tells branches apart.
        instruction: The instruction without any call.
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
    """A value of a called computation as this call computes it; always the same object.

    >>> from hloscope.ir import TupleType
    >>> from hloscope.ops import Parameter
    >>> value, call = [Instruction(name, TupleType(()), Parameter(0)) for name in "kc"]
    >>> called_value(value, call).name, called_value(value, call) is called_value(value, call)
    ('k in c', True)
    """
    key = (value, call, first)
    with _LOCK:
        known = _CALLED.get(key)
        if known is None:
            known = _CALLED[key] = CalledValue(value, call, first)
        return known


def uncalled(value: Instruction) -> Instruction:
    """The instruction that computes a value, in whatever call."""
    return value.instruction if isinstance(value, CalledValue) else value
