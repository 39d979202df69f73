"""Where values flow: through fusions, calls and tuples, and which ops only move elements.

What is followed: operands; the computation of a fusion or call, if that is its only caller; tuples
that are taken apart again.  Other called computations are looked at by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

from hloscope.indexing import IndexingMap, Precision, output_to_input
from hloscope.ir import Computation, Instruction, Module, Op, TensorType
from hloscope.ops import (
    ELEMENTWISE,
    Bitcast,
    Broadcast,
    BroadcastInDim,
    Call,
    Concatenate,
    Elementwise,
    Fusion,
    GetTupleElement,
    Pad,
    Parameter,
    Reshape,
    Return,
    Reverse,
    Slice,
    Transpose,
    Tuple,
)

COPY: Final = ELEMENTWISE["copy"]
MOVES: Final = (Reshape, Transpose, Bitcast, Broadcast, BroadcastInDim, Slice, Reverse, COPY)
"""Ops whose result is elements of their one operand."""
JOINS: Final = (Concatenate, Pad)
"""Ops whose result is elements of several operands."""
SEEN: Final = (Fusion, Call)
"""Ops that are what they call."""
TUPLES: Final = (Tuple, Return)
_OPENABLE: Final = (Parameter, *SEEN, Return, GetTupleElement)
"""Ops whose value may be another's."""
_MOST_HOPS: Final = 10_000
"""Fusions and tuples seen through on the way to a value: a module that calls itself has no end."""


@cache
def _is_openable(kind: type[Op]) -> bool:
    """May values of such ops be others'?  Asked of every value of a module, so remembered."""
    return issubclass(kind, _OPENABLE)


def is_array(ins: Instruction) -> bool:
    """Is the value an array of known sizes?"""
    return isinstance(ins.type, TensorType) and ins.type.is_static


def moves(ins: Instruction) -> bool:
    """Does it only move elements, of one operand or of several, and keep them whole?"""
    if not isinstance(ins.op, MOVES + JOINS) or not is_array(ins):
        return False
    return all(is_array(operand) and _bits(operand) == _bits(ins) for operand in ins.operands)


def _bits(ins: Instruction) -> int:
    return ins.type.element.bits if isinstance(ins.type, TensorType) else 0


def computes(ins: Instruction) -> bool:
    """Is it element-wise on arrays?"""
    return (
        isinstance(ins.op, Elementwise)
        and not isinstance(ins.op, COPY)
        and bool(ins.operands)
        and is_array(ins)
        and all(map(is_array, ins.operands))
    )


@lru_cache(maxsize=1 << 12)
def step_maps(ins: Instruction) -> tuple[tuple[IndexingMap, ...] | None, ...]:
    """From an index of the result to those of each operand that are read there.

    Each operand has maps that give at most one element each, or `None` where they are not exact.
    """
    found: list[tuple[IndexingMap, ...] | None] = []
    for accesses in output_to_input(ins):
        maps = tuple([access.map for access in accesses if access.map is not None])
        known = len(maps) == len(accesses) and all(
            access.precision is Precision.EXACT for access in accesses
        )
        plain = not any(m.is_undefined or m.ranges or m.runtime for m in maps)
        found.append(maps if known and plain else None)
    return tuple(found)


def only_map(ins: Instruction, operand: int = 0) -> IndexingMap | None:
    """The one map of an operand, if it has one."""
    maps = step_maps(ins)[operand]
    return maps[0] if maps is not None and len(maps) == 1 else None


class Flow:
    """The values of a module and who reads them; fusions, calls and tuples seen through.

    Attributes:
        fused: The fusion or call that alone calls a computation.
        home: The computation each instruction stands in.
        users: The readers of each value: neither fusions, calls nor tuples that are seen through.
        returned: Values that computations return, but those that are seen through.
    """

    def __init__(self, module: Module) -> None:
        self.home: Final[dict[Instruction, Computation]] = {i: c for c in module for i in c}
        callers = [ins for ins in self.home if ins.calls]
        calls = Counter(callee for ins in callers for callee in ins.calls)
        self.fused: Final[dict[Computation, Instruction]] = {
            ins.calls[0]: ins
            for ins in callers
            if isinstance(ins.op, SEEN) and len(ins.calls) == 1 and calls[ins.calls[0]] == 1
        }
        self._opened = set(self.fused.values())
        self._sources: dict[Instruction, Instruction] = {}
        self._arrays: dict[Instruction, list[Instruction]] = {}
        self.users: Final[dict[Instruction, list[Instruction]]] = {}
        self.returned: Final[set[Instruction]] = set()
        for computation in module:
            inner, root = computation in self.fused, computation.root
            for ins in computation:
                self._use(ins, is_end=inner and ins is root)
            if not inner:
                self.returned.update(self._parts(root))

    def _use(self, ins: Instruction, *, is_end: bool) -> None:
        """Note what an instruction reads, if it is not seen through."""
        operands = ins.operands
        if not operands or (is_end and isinstance(ins.op, TUPLES)):
            return
        if _is_openable(type(ins.op)) and (ins in self._opened or self.source(ins) is not ins):
            return
        users = self.users
        for operand in operands if len(operands) == 1 else dict.fromkeys(operands):
            for part in self._parts(operand):
                known = users.get(part)
                if known is None:
                    users[part] = [ins]
                else:
                    known.append(ins)

    def source(self, value: Instruction) -> Instruction:
        """The value that this one is, fusions and tuples seen through."""
        if not _is_openable(type(value.op)):
            return value
        known = self._sources.get(value)
        if known is not None:
            return known
        at = value
        for _ in range(_MOST_HOPS):
            following = self._seen_through(at)
            if following is None:
                break
            at = following
        self._sources[value] = at
        return at

    def _seen_through(self, at: Instruction) -> Instruction | None:
        match at.op:
            case Parameter(number=number):
                caller = self.fused.get(self.home[at]) if at in self.home else None
                if caller is not None and 0 <= number < len(caller.operands):
                    return caller.operands[number]
            case Fusion() | Call() if at in self._opened and isinstance(at.type, TensorType):
                return at.calls[0].root
            case Return() if len(at.operands) == 1:
                return at.operands[0]
            case GetTupleElement(index=index):
                whole = self.source(at.operands[0]) if at.operands else at
                parts = self._elements(whole)
                if 0 <= index < len(parts):
                    return parts[index]
        return None

    def _elements(self, value: Instruction) -> Sequence[Instruction]:
        """The elements of a tuple that is made here or in the fusion that returns it."""
        for _ in range(_MOST_HOPS):
            if isinstance(value.op, TUPLES):
                return value.operands
            if value not in self._opened:
                break
            value = value.calls[0].root
        return ()

    def _parts(self, value: Instruction) -> list[Instruction]:
        """The arrays of a value, tuples one level deep."""
        known = self._arrays.get(value)
        if known is None:
            known = self._arrays[value] = self._found_parts(value)
        return known

    def _found_parts(self, value: Instruction) -> list[Instruction]:
        whole = self.source(value)
        if isinstance(whole.type, TensorType):
            return [whole]
        parts = self._elements(whole) if whole in self._opened or value is whole else ()
        return [*map(self.source, parts)] or [whole]

    def is_written(self, ins: Instruction) -> bool:
        """Does the value get a buffer: is it outside of fusions, or what one returns?"""
        home = self.home.get(ins)
        for _ in range(_MOST_HOPS):
            caller = None if home is None else self.fused.get(home)
            if home is None or caller is None or isinstance(caller.op, Call):
                return not isinstance(ins.op, Bitcast)
            root = home.root
            results = root.operands if isinstance(root.op, Tuple) else (root,)
            if ins not in results:
                return False
            ins, home = caller, self.home.get(caller)
        return False
