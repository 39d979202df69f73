"""Asynchronous ops: each start has one done, of the same kind and type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.errors import Diagnostic
from hloscope.hlo_parser.types import print_type
from hloscope.ir.graph import Computation, Instruction
from hloscope.ir.types import TupleType, Type
from hloscope.ir.views import users
from hloscope.ops.control import AsyncDone, AsyncStart, AsyncUpdate, CopyDone, CopyStart
from hloscope.ops.transfers import Recv, RecvDone, Send, SendDone
from hloscope.verifier.hlo.types import like, opcode

_ENDS: Final = {
    CopyDone: (CopyStart,),
    SendDone: (Send,),
    RecvDone: (Recv,),
    AsyncUpdate: (AsyncStart, AsyncUpdate),
    AsyncDone: (AsyncStart, AsyncUpdate),
}
"""What the operand of each of these has to be."""

_WHOLE: Final = ("all_reduce", "all-reduce")
"""Ops whose start has the type of the op itself, not a pair of operands and results."""


def check_pairs(computation: Computation) -> Iterator[Diagnostic]:
    """Does every done end one start, and every start have one done?"""
    uses = None
    for ins in computation:
        starts = _ENDS.get(type(ins.op))
        if starts is not None:
            yield from _ending(ins, starts)
        elif isinstance(ins.op, AsyncStart | CopyStart):
            uses = users(computation) if uses is None else uses
            yield from _beginning(ins, uses.get(ins, ()), computation)


def _ending(ins: Instruction, starts: tuple[type, ...]) -> Iterator[Diagnostic]:
    if not ins.operands:
        yield Diagnostic(f"`{opcode(ins)}` has no operand, needs what began it", ins.span)
        return
    start = ins.operands[0]
    if not isinstance(start.op, starts):
        needed = " or ".join(f"`{cls.name}`" for cls in starts if hasattr(cls, "name"))
        message = f"the operand of `{opcode(ins)}` is `{opcode(start)}`, needs {needed}"
        if start.op.name not in ("parameter", "get_tuple_element", "tuple", "while"):
            yield Diagnostic(message, ins.span)
        return
    if isinstance(ins.op, AsyncDone):
        result = _result(start)
        if result is not None and not like(result, ins.type):
            have, want = (print_type(t, layout=False) for t in (ins.type, result))
            yield Diagnostic(f"`async-done` is declared {have}, its start makes {want}", ins.span)
    elif isinstance(ins.op, AsyncUpdate) and not like(start.type, ins.type):
        have, want = (print_type(t, layout=False) for t in (ins.type, start.type))
        yield Diagnostic(f"`async-update` is declared {have}, its operand is {want}", ins.span)


def _result(start: Instruction) -> Type | None:
    op = start.op
    wrapped = op.wrapped.name if isinstance(op, AsyncStart) and op.wrapped else ""
    if isinstance(op, AsyncUpdate):
        wrapped = op.wrapped_name
    if wrapped in _WHOLE:
        return start.type
    match start.type:
        case TupleType((_, result, *_)) if result != TupleType(()):
            return result
        case _:
            return None


def _beginning(
    ins: Instruction, readers: tuple[Instruction, ...], computation: Computation
) -> Iterator[Diagnostic]:
    ends = [r for r in readers if type(r.op) in _ENDS]
    if ins is computation.root or (not ends and not readers) or len(ends) == 1:
        return
    if len(ends) > 1:
        names = ", ".join(r.name for r in ends)
        yield Diagnostic(f"`{ins.name}` is ended {len(ends)} times, by {names}", ins.span)
