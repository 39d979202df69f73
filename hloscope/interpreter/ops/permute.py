"""`collective_permute`: values sent from device to device, whole or slice by slice.

HLO's in-place form has four operands: the buffers to send, the buffers to write, the starts of the
slices to send, and the starts of the slices to write.  Buffers are an array or a tuple of arrays.
The starts of one slice are a tuple of integers, those of several slices a tuple of such tuples.
Source: StableHLO spec `collective_permute`; XLA `hlo_verifier.cc`, `CheckInplaceCollectivePermute`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.ops.collectives import check_arrays
from hloscope.interpreter.parallel import process_of
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value
from hloscope.ir import Dims, TupleType
from hloscope.ops import CollectivePermute, is_in_place


class _Mail:
    """The queues that one process sends to and receives from.

    Raises:
        EvaluationError: A pair names a device that is not in the grid.
    """

    def __init__(self, op: CollectivePermute, at: Site) -> None:
        self._process, self._ins = process_of(at.world), at.ins
        replica, partition = self._process.id
        me, fixed = (partition, replica) if op.has_channel else (replica, partition)
        grid = self._process.grid
        kind, count = "replica", grid.replicas
        if op.has_channel:
            kind, count = "partition", grid.partitions
        strangers = [number for pair in op.pairs for number in pair if not 0 <= number < count]
        if strangers:
            raise EvaluationError(f"`{op.name}` names {kind} {strangers[0]}, there are {count}")
        line = op.name, op.channel_id or 0, fixed
        sources = [source for source, target in op.pairs if target == me]
        self._sent = [(*line, me, target) for source, target in op.pairs if source == me]
        self._received = (*line, sources[0], me) if sources else None
        self._sender = f"{kind} {sources[0]}" if sources else ""

    def exchange(self, values: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """Send values, then wait for those sent to this process; `None` if no process sends to it.

        Sending never waits, so a cycle of processes cannot deadlock.
        """
        for key in self._sent:
            self._process.post(key, self._ins, values)
        if self._received is None:
            return None
        return self._process.take(self._received, self._ins, self._sender)


@evaluates(CollectivePermute)
def _collective_permute(op: CollectivePermute, at: Site) -> Kernel:
    """The values received; a process that receives nothing gets zeros."""
    mail = _Mail(op, at)
    if is_in_place(tuple([o.type for o in at.ins.operands])):
        return _in_place(op, mail)
    check_arrays(op, at)
    several = isinstance(at.ins.type, TupleType)

    def kernel(*operands: Any) -> Value:
        found = mail.exchange(operands)
        if found is None:
            found = tuple([np.zeros_like(operand) for operand in operands])
        return found if several else found[0]

    return kernel


def _in_place(op: CollectivePermute, mail: _Mail) -> Kernel:
    """Kernel of the in-place form; a process that receives nothing keeps its buffers.

    Raises:
        UnsupportedError: A device receives from several devices.
    """
    targets = [target for _, target in op.pairs]
    if len(set(targets)) < len(targets):
        raise UnsupportedError(f"`{op.name}` in place in which a device receives from several")
    sizes = op.slice_sizes.rows

    def kernel(sent: Any, into: Any, there: Any, here: Any) -> Value:
        windows = _windows(sent, there, sizes)
        found = mail.exchange(tuple([buffer[window] for buffer, window in windows]))
        if found is None:
            return into  # type: ignore[no-any-return]
        result = tuple(map(np.array, into)) if isinstance(into, tuple) else np.array(into)
        for (buffer, window), part in zip(_windows(result, here, sizes), found, strict=True):
            buffer[window] = part
        return result

    return kernel


Window = tuple[slice, ...]


def _windows(buffers: Any, starts: Any, sizes: Sequence[Dims]) -> list[tuple[Array, Window]]:
    """Return the buffer and the index ranges of each slice.

    Raises:
        EvaluationError: Numbers of starts and sizes differ, or a slice is not inside its buffer.
    """
    parts = [(buffers, starts)]
    if isinstance(buffers, tuple):
        _check_count("buffers", len(buffers), starts)
        parts = [*zip(buffers, starts, strict=True)]
    found = [(buffer, first) for buffer, some in parts for first in _starts(some)]
    if len(found) != len(sizes):
        raise EvaluationError(f"{len(found)} slices have {len(sizes)} `slice_sizes`")
    return [
        (buffer, _window(buffer, first, size))
        for (buffer, first), size in zip(found, sizes, strict=True)
    ]


def _check_count(what: str, count: int, starts: Any) -> None:
    """Check that there are `count` starts."""
    if not isinstance(starts, tuple) or len(starts) != count:
        raise EvaluationError(f"there are {count} {what}, and another number of starts")


def _starts(starts: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the starts of each slice of one buffer."""
    if not isinstance(starts, tuple):
        yield (starts,)
    elif starts and all(isinstance(some, tuple) for some in starts):
        yield from starts
    else:
        yield starts


def _window(buffer: Array, starts: tuple[Any, ...], sizes: Dims) -> Window:
    """Index ranges of one slice.

    Raises:
        EvaluationError: The slice is not inside its buffer.
    """
    _check_count("dimensions", buffer.ndim, starts)
    _check_count("dimensions", buffer.ndim, sizes)
    if any(isinstance(start, tuple) for start in starts):
        raise EvaluationError("starts of slices are nested in more tuples than there are buffers")
    firsts = [int(start) for start in starts]
    for first, size, whole in zip(firsts, sizes, buffer.shape, strict=True):
        if not 0 <= first <= whole - size:
            raise EvaluationError(f"{size} elements from {first} on are not in the {whole} there")
    return tuple([slice(first, first + size) for first, size in zip(firsts, sizes, strict=True)])
