"""Values that a program computes from common ones, so that not all combinations occur."""

from __future__ import annotations

from typing import Final, TypeAlias

from hloscope.ir import CalledValue, Instruction, called_value, captured
from hloscope.ops import Constant, GetTupleElement, Iota, Parameter, While

MOST: Final = 1 << 14
"""Number of instructions behind a value above which the result is unknown."""
_Place: TypeAlias = tuple[Instruction | int, ...]
"""An instruction; or a parameter followed by the indices that lead to a part of its tuple."""


def are_related(one: Instruction, other: Instruction) -> bool:
    """May the value of one instruction restrict the value of the other?

    Two parameters, two parts of one, or values computed from different ones are independent.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> e = parse_hlo("ENTRY e { k = s32[] parameter(0) l = s32[] parameter(1) c = s32[] copy(k) "
    ...               "ROOT t = (s32[], s32[]) tuple(c, l) }").entry
    >>> are_related(e["k"], e["l"]), are_related(e["k"], e["c"]), are_related(e["c"], e["l"])
    (False, True, False)
    """
    if one is other:
        return True
    mine, its = _computed_from(one), _computed_from(other)
    return mine is None or its is None or _share_value(mine, its) or _share_value(its, mine)


def _share_value(some: set[_Place], others: set[_Place]) -> bool:
    """Is a value of `some`, or a tuple that contains it, among `others`?"""
    return any(place[:k] in others for place in some for k in range(1, len(place) + 1))


def _computed_from(value: Instruction) -> set[_Place] | None:
    """Return the value and all varying values it is computed from; `None` if they are too many.

    A parameter of a called computation is traced to the operand of the call.
    """
    found: set[_Place] = set()
    todo = [value]
    seen: set[Instruction] = set()
    while todo:
        ins = todo.pop()
        # Constants have one value, so they relate nothing.
        if ins in seen or isinstance(ins.op, Constant | Iota):
            continue
        seen.add(ins)
        if len(seen) > MOST:
            return None
        if isinstance(ins, CalledValue):
            found.add((ins,))
            todo += _read_inside(ins)
            continue
        place = _origin_key(ins)
        found.add(place)
        # A part of a parameter's tuple is an input by itself and is not traced further.
        if len(place) == 1:
            todo += (*ins.operands, *captured(ins))
    return found


def _read_inside(value: CalledValue) -> list[Instruction]:
    """Return the values that a value inside a called computation is computed from."""
    calls: list[tuple[Instruction, int]] = []
    inner: Instruction = value
    while isinstance(inner, CalledValue):
        calls.append((inner.call, inner.first))
        inner = inner.value
    read = [*inner.operands, *captured(inner)]
    if isinstance(inner.op, Parameter):
        call, first = calls.pop()
        number = first + inner.op.number
        # A loop's state may come from any earlier iteration, so all operands count.
        one = number < len(call.operands) and not isinstance(call.op, While)
        read = [call.operands[number]] if one else [*call.operands, *captured(call)]
    for call, first in reversed(calls):
        read = [called_value(v, call, first) for v in read]
    return read


def _origin_key(ins: Instruction) -> _Place:
    """Return the instruction, or the part of a parameter's tuple that it selects."""
    numbers: list[int] = []
    value = ins
    while isinstance(value.op, GetTupleElement) and value.operands:
        numbers.append(value.op.index)
        value = value.operands[0]
    return (value, *numbers[::-1]) if isinstance(value.op, Parameter) else (ins,)
