"""Loads: which of the accesses of an array one instruction makes.

Accesses do not say by which instructions they come.  Two that lead to one element on different
conditions are one load where an instruction has several pieces (a pad's value stands on several
sides, what an update leaves lies around it), and two where instructions of their own read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Final, TypeAlias

from hloscope.fusion import INSIDE, AccessInterner, Flow, composed
from hloscope.indexing import Access
from hloscope.ir import Instruction

MOST_LOADS: Final = 64
"""Loads of one value that are told apart."""

Load: TypeAlias = tuple[Access, ...]
"""The accesses of one load; in an interner, where identity is equality."""
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
    """The loads by which an element of a value reads each value where the way to it ends.

    Equal loads on several ways are one.

    Args:
        value: What is computed.
        leaf: Which leaf of it.
        start: From the element to itself.
        interner: Composes.
        position: Place of an instruction in the order of definition; `None` where the way ends.
        reads: What leaf `i` of an instruction reads.

    Returns:
        `None` if a value is read by more than `MOST_LOADS`, or in several ways by what is called.
    """
    found: dict[Instruction, dict[int, Loads]] = {}
    heap: list[tuple[int, Instruction]] = []

    def add(ins: Instruction, leaf: int, load: Load) -> bool:
        """Note a load of a value; are there few enough of them?"""
        if ins not in found and (at := position(ins)) is not None:
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
                    return None  # by which instructions of what is called, it does not say
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
