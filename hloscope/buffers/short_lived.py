"""Values that are live for a moment only: copies, converted arrays, gathered shards, scratch."""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.buffers.model import Buffer, Value
from hloscope.buffers.program import ProgramMemory
from hloscope.ir import Instruction, TensorType
from hloscope.ops import (
    ELEMENTWISE,
    AllGather,
    AsyncStart,
    Bitcast,
    Broadcast,
    BroadcastInDim,
    Convert,
    CustomCall,
    Fusion,
    Transpose,
)

_MOVES: Final = (
    (ELEMENTWISE["copy"], "copy"),
    (Transpose, "transpose"),
    (Convert, "convert"),
    (BroadcastInDim, "broadcast"),
    (Broadcast, "broadcast"),
    (AllGather, "gathered"),
)


class Transient(NamedTuple):
    """A buffer that is live for one or two instructions.

    Attributes:
        buffer: The buffer.
        value: The value it holds.
        why: `copy`, `transpose`, `convert`, `broadcast`, `gathered` or `scratch`.
    """

    buffer: Buffer
    value: Value
    why: str


def transients(memory: ProgramMemory, moment: int) -> list[Transient]:
    """Temporaries at a moment that are not needed after the next one, largest first."""
    found = []
    for row in memory.live(moment):
        buffer, value = row.buffer, row.value
        why = transient_kind(value)
        if buffer.kind == "temporary" and why and value.end <= moment + 1:
            found.append(Transient(buffer, value, why))
    return found


def transient_kind(value: Value) -> str:
    """The kind of a transient value; empty if it is not transient.

    A fusion counts by its root, before bitcasts. Scratch is bytes that a library call returns in
    addition to its result.
    """
    ins = value.instruction
    if isinstance(ins.op, AsyncStart):
        is_gathered = isinstance(ins.op.wrapped, AllGather) and value.index[:1] == (1,)
        return "gathered" if is_gathered else ""
    if isinstance(ins.op, CustomCall):
        return "scratch" if value.index and value.index != (0,) and _is_bytes(value) else ""
    root = _root(ins)
    return next((name for op, name in _MOVES if isinstance(root.op, op)), "")


def _is_bytes(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.element.name in ("u8", "s8")


def _root(ins: Instruction) -> Instruction:
    """The instruction that computes a value; for a fusion its root, before bitcasts."""
    if isinstance(ins.op, Fusion) and ins.calls:
        ins = ins.calls[0].root
        while isinstance(ins.op, Bitcast):
            ins = ins.operands[0]
    return ins
