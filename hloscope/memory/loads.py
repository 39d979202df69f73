"""Loads: group the accesses of an array by the instruction that loads them.

Accesses do not name their instructions. Two accesses of one element under different conditions are
one load if an instruction has several pieces (a pad's value lies on several sides, the rest of an
updated array lies around the update). They are two loads if two instructions read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final, TypeAlias

from hloscope.fusion import INSIDE, AccessInterner, Flow, composed
from hloscope.indexing import Access
from hloscope.ir import Instruction

MOST_LOADS: Final = 64
"""Maximum number of loads of one value that are distinguished."""

Load: TypeAlias = tuple[Access, ...]
"""The accesses of one load; interned, so that identity is equality."""
Loads: TypeAlias = dict[frozenset[int], Load]
"""Different loads, by the identities of their accesses."""


def loads_of(
    value: Instruction,
    leaf: int,
    start: Access,
    interner: AccessInterner,
    position: Callable[[Instruction], int | None],
    reads: Callable[[Instruction, int], Iterable[Flow]],
) -> dict[Instruction, dict[int, tuple[Load, ...]]] | None:
    """Return the loads of each input value by an element of a value.

    Equal loads along several paths are one.

    Args:
        value: The value that is computed.
        leaf: Flat tuple index of its tensor.
        start: Access from the element to itself.
        interner: Interns and composes accesses.
        position: Position of an instruction in order of definition; `None` for input values.
        reads: Returns the operand accesses of a leaf of an instruction.

    Returns:
        For each input value the loads of each leaf. `None` if a leaf has more than `MOST_LOADS`, or
        if a called computation reads an operand through several accesses.
    """
    found: dict[Instruction, dict[int, Loads]] = {}
    heap: list[tuple[int, Instruction]] = []

    def add(ins: Instruction, leaf: int, load: Load) -> bool:
        """Add a load of a value. Return `False` if it has too many."""
        if ins not in found and (at := position(ins)) is not None:
            # Last definitions first: when a value is taken from the heap, all of its users inside
            # have been handled, so its loads are complete.
            heappush(heap, (-at, ins))
        every = found.setdefault(ins, {}).setdefault(leaf, {})
        every.setdefault(frozenset(map(id, load)), load)
        return len(every) <= MOST_LOADS

    add(value, leaf, (start,))
    while heap:
        _, ins = heappop(heap)
        for leaf, loads in found[ins].items():
            for operand, source, further in reads(ins, leaf):
                if further is not None and len(further) > 1 and isinstance(ins.op, INSIDE):
                    return None  # the accesses do not say which called instructions load them
                target = ins.operands[operand] if isinstance(operand, int) else operand
                for load in loads.values():
                    inner = load if further is None else composed(interner, load, further)
                    once = tuple({id(access): access for access in inner}.values())
                    if once and not add(target, source, once):
                        return None
    return {
        ins: {leaf: tuple(loads.values()) for leaf, loads in leaves.items()}
        for ins, leaves in found.items()
    }
