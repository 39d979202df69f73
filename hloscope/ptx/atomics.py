"""Atomic operations. Lanes with the same address are executed in the order of threads.

Source: PTX ISA 8.8, "atom".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from hloscope.arrays import Array, Ints, np
from hloscope.ptx.types import PtxType, from_bits, to_bits

Update: TypeAlias = Callable[..., Array]
"""Function from the values in memory and the operands to the new values."""


def _added(old: Array, value: Array) -> Array:
    return old + value


def _incremented(old: Array, most: Array) -> Array:
    return np.where(old >= most, np.uint32(0), old + np.uint32(1))


def _decremented(old: Array, most: Array) -> Array:
    return np.where((old == 0) | (old > most), most, old - np.uint32(1))


def _swapped(old: Array, expected: Array, value: Array) -> Array:
    found: Array = np.where(old == expected, value, old)
    return found


_UPDATES: Final[dict[str, tuple[str, Update]]] = {
    "add": ("u32 s32 u64 s64 f32 f64 f16 f16x2 bf16 bf16x2", _added),
    "min": ("u32 s32 u64 s64 f16 f16x2 bf16 bf16x2", lambda old, value: np.fmin(old, value)),
    "max": ("u32 s32 u64 s64 f16 f16x2 bf16 bf16x2", lambda old, value: np.fmax(old, value)),
    "and": ("b32 b64", lambda old, value: old & value),
    "or": ("b32 b64", lambda old, value: old | value),
    "xor": ("b32 b64", lambda old, value: old ^ value),
    "exch": ("b32 b64", lambda old, value: value),
    "inc": ("u32", _incremented),
    "dec": ("u32", _decremented),
    "cas": ("b16 b32 b64", _swapped),
}


def atomic_of(name: str, type_: PtxType) -> Update | None:
    """Return the atomic operation with a name; `None` if it does not exist for the type."""
    types, update = _UPDATES[name]
    return update if type_.name in types.split() else None


def apply_in_order(
    memory: Array, at: Ints, values: list[Array], update: Update, type_: PtxType
) -> Array:
    """Update memory lane after lane, and return the old value that each lane read.

    The lanes are divided into rounds. Round `r` has the `r`-th lane of each address, so a round has
    no address twice and is one vector operation.

    Args:
        memory: Bits of the memory, which change.
        at: Index in it of each lane.
        values: Operands of each lane.
        update: The operation.
        type_: Its type.
    """
    # A stable sort keeps lanes of one address in thread order, which decides the result of
    # operations that do not commute.
    order = np.argsort(at, kind="stable")
    places = at[order]
    starts = np.ones(len(at), bool)
    starts[1:] = places[1:] != places[:-1]
    first = np.flatnonzero(starts)
    rounds = np.arange(len(at)) - np.repeat(first, np.diff(np.append(first, len(at))))
    by_round = np.argsort(rounds, kind="stable")
    bounds = np.cumsum(np.bincount(rounds))
    found = np.empty(len(at), type_.raw)
    begin = 0
    for end in bounds.tolist():
        lanes = order[by_round[begin:end]]
        found[lanes] = memory[at[lanes]]
        old = from_bits(found[lanes], type_)
        memory[at[lanes]] = to_bits(update(old, *[v[lanes] for v in values]), type_, type_.raw)
        begin = end
    return from_bits(found, type_)
