"""Values sent and received by pairs of ops, and exchanged with the host.

Source: StableHLO spec `send`, `recv`, `infeed`, `outfeed`; XLA docs "Operation semantics".
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from hloscope.interpreter.parallel import INFEED, OUTFEED, process_of
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import TOKEN, EvaluationError, Value, dtype_of, fits
from hloscope.ir import Instruction, TensorType, TupleType, Type, frontend_attributes
from hloscope.ops import Infeed, Outfeed, Recv, RecvDone, Send, SendDone


def _channel(op: Send | Recv | RecvDone) -> Hashable:
    return "channel", op.channel_id or 0


def _peers(ins: Instruction) -> Sequence[tuple[int, int]] | None:
    """Return the pairs (sender, receiver) that an instruction states; `None` if it states none.

    StableHLO states them in an attribute, HLO in a frontend attribute.
    """
    table = getattr(ins.op, "source_target_pairs", None)
    if table is not None:
        return [(row[0], row[1]) for row in table.rows if len(row) == 2]
    found = frontend_attributes(ins.extras).get("_xla_send_recv_source_target_pairs")
    return found if isinstance(found, tuple) else None


def _number(at: Site) -> int:
    """Return the number by which pairs (sender, receiver) name this process.

    It is the partition number, or the replica number in a grid of one partition.
    """
    grid = process_of(at.world).grid
    return at.world.partition if grid.partitions > 1 else at.world.replica


@evaluates(Send)
def _send(op: Send, at: Site) -> Kernel:
    """Return the kernel of `send`, which does not wait for a receiver.

    Values that no process receives are an error at the end of the run.
    """
    process, ins = process_of(at.world), at.ins
    channel, pairs = _channel(op), _peers(ins)
    in_hlo = op.channel_type is None
    keys = [channel]
    if pairs is not None:
        keys = [(channel, s, t) for s, t in pairs if s == _number(at)]

    def kernel(*operands: Value) -> Value:
        for key in keys:
            process.post(key, ins, operands[:-1])
        return (operands[0], _context(), TOKEN) if in_hlo else TOKEN

    return kernel


def _context() -> Any:
    return np.uint32(0)


@evaluates(Recv)
def _recv(op: Recv, at: Site) -> Kernel:
    """Return the kernel of `recv`: the received values (StableHLO), or a placeholder (HLO).

    In HLO `recv-done` receives.
    """
    if op.channel_type is None:
        return lambda token: ((), _context(), TOKEN)
    return _receiving(at, _channel(op), _peers(at.ins))


@evaluates(RecvDone)
def _recv_done(op: RecvDone, at: Site) -> Kernel:
    (recv,) = at.ins.operands
    pairs = _peers(at.ins)
    if pairs is None:
        pairs = _peers(recv)
    return _receiving(at, _channel(recv.op if isinstance(recv.op, Recv) else op), pairs)


def _receiving(at: Site, channel: Hashable, pairs: Sequence[tuple[int, int]] | None) -> Kernel:
    """Return a kernel that receives values on a channel, and returns them with a token.

    The values are zeros if no pair has this process as its receiver.
    """
    process, ins, types = process_of(at.world), at.ins, at.results
    what = f"a `send` on channel {getattr(ins.op, 'channel_id', None) or 0}"
    if pairs is not None:
        sources = [s for s, t in pairs if t == _number(at)]
        if not sources:
            nothing = tuple(map(zeros, types[:-1]))
            return lambda *_: (*nothing, TOKEN) if nothing else TOKEN
        channel = channel, sources[0], _number(at)
        what += f" of {sources[0]}"

    def kernel(*_: Value) -> Value:
        return _fitting((*process.take(channel, ins, what), TOKEN), types)

    return kernel


@evaluates(SendDone)
def _send_done(op: SendDone, at: Site) -> Kernel:
    return lambda _: TOKEN


@evaluates(Infeed)
def _infeed(op: Infeed, at: Site) -> Kernel:
    """Return the kernel of `infeed`, which takes the next entry of the queue.

    An entry has an array for each result.
    """
    world, types = at.world, at.results
    in_tuple = len(types) == 2 and isinstance(types[0], TupleType)  # HLO's form

    def kernel(*_: Value) -> Value:
        queue = world.extra.get(INFEED)
        if not queue:
            raise EvaluationError("`infeed` finds nothing to take: the queue is empty")
        found = queue.popleft()
        given = tuple(found() if callable(found) else found)
        return _fitting(((given, TOKEN) if in_tuple else (*given, TOKEN)), types)

    return kernel


@evaluates(Outfeed)
def _outfeed(op: Outfeed, at: Site) -> Kernel:
    """Return the kernel of `outfeed`, which appends its operands to the output list."""
    world = at.world

    def kernel(*operands: Value) -> Value:
        world.extra.setdefault(OUTFEED, []).append(operands[:-1])
        return TOKEN

    return kernel


def _fitting(found: tuple[Value, ...], types: tuple[Type, ...]) -> Value:
    """Return the received values `found` as the value of an instruction with results of `types`.

    Raises:
        EvaluationError: The values do not have these types.
    """
    why = fits(found, TupleType(types))
    if why:
        raise EvaluationError(f"what is received is of another type: {why}")
    return found if len(types) > 1 else found[0]


def zeros(type_: Type) -> Value:
    """Return a value of the type whose elements are all zero."""
    if isinstance(type_, TupleType):
        return tuple(map(zeros, type_.elements))
    if isinstance(type_, TensorType):
        return np.zeros(type_.shape, dtype_of(type_.element))
    return TOKEN
