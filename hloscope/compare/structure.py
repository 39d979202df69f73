"""Structural numbers of instructions: alone, with all producers, with all users.

Names, the order of instructions, metadata and source positions are ignored.  Types with layouts,
attributes, shardings, configurations and elements of constants count.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from msgspec.structs import replace

from hloscope.errors import HloscopeError
from hloscope.ir import (
    BufferType,
    Computation,
    Instruction,
    Layout,
    Op,
    TensorType,
    TupleType,
    Type,
    captured,
    inside_out,
)
from hloscope.ops import Constant

_NOT_COMPARED: Final = frozenset({"metadata", "loc", "location", "origin", "stack_frame_id"})
"""Extra attributes that do not affect the program."""
_OF_SCALARS: Final = Layout(())
_SAID_BY_NOTHING: Final = (("backend_config", '""'), ("backend_config", "{}"))
_DRAWN: Final = frozenset({"rng", "rng_get_and_update_state", "infeed", "recv"})
_MOST_ELEMENTS: Final = 1 << 22
"""Constants with more elements are compared by their text."""
_CAPTURED: Final = 1 << 20
"""Offset of the positions of captured values, which follow those of operands."""


def with_layouts(type_: Type) -> Type:
    """Return the type with row-major layouts where none is given, as in XLA.

    >>> from hloscope.ir import ELEMENT_TYPES
    >>> with_layouts(TensorType(ELEMENT_TYPES["f32"], (4, 8)))
    TensorType('f32[4,8]{1,0}')
    """
    match type_:
        case TensorType() if type_.layout == _OF_SCALARS:
            return replace(type_, layout=None)  # as XLA prints it
        case TensorType(layout=None) if type_.rank:
            return replace(type_, layout=Layout(tuple(range(type_.rank - 1, -1, -1))))
        case TupleType(parts):
            return TupleType(tuple(map(with_layouts, parts)))
        case BufferType(inside):
            return replace(type_, element=with_layouts(inside))
        case _:
            return type_


class Structure:
    """Structural numbers of instructions and computations of several programs."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        # Types and ops are shared objects: hashing each once takes most of the time out of
        # `label`.
        self._kept: dict[int, tuple[Type, int]] = {}
        self._ops: dict[int, tuple[Op, int]] = {}
        self._of: dict[Computation, int] = {}
        self._drawing: set[Computation] = set()
        self.drawn: set[Instruction] = set()
        """Instructions that depend on random values or side effects: equal ones may differ."""

    def number(self, key: object) -> int:
        """Return the number of a key; equal keys have equal numbers."""
        return self._numbers.setdefault(key, len(self._numbers))

    def label(self, ins: Instruction) -> int:
        """Return the number of an instruction alone: its op, type and extra attributes."""
        return self.number(("label", self._op(ins), self.type(ins.type), compared_extras(ins)))

    def type(self, type_: Type) -> int:
        """Return the number of a type, with default layouts where none is given.

        Each type object is hashed once, because programs share them.
        """
        kept = self._kept.get(id(type_))
        if kept is None:
            kept = self._kept[id(type_)] = type_, self.number(with_layouts(type_))
        return kept[1]

    def _op(self, ins: Instruction) -> object:
        """Return a key of the instruction's op; of a constant, its elements."""
        if type(ins.op) is Constant:
            return _value(ins)
        kept = self._ops.get(id(ins.op))
        if kept is None:
            fields = tuple([field_of(ins.op, name) for name in ins.op.__struct_fields__])
            kept = self._ops[id(ins.op)] = ins.op, self.number((ins.op.name, fields))
        return kept[1]

    def of(self, computation: Computation) -> int:
        """Return the number of a computation, from all its instructions."""
        for inner in inside_out(computation, self._of):
            down, sources = self._numbered(inner)
            read = {value for ins in inner for value in reads(ins)}
            # Instructions without users count too, in any order, since they may have side effects.
            ends = sorted(down[ins] for ins in inner if ins not in read)
            parameters = [down[p] for p in inner.body.parameters]
            key: tuple[object, ...] = ("computation", *parameters, None, down[inner.root], *ends)
            if sources:
                up = self.up(inner)
                key = (*key, None, *sorted(up[ins] for ins in sources))
            self._of[inner] = self.number(key)
        return self._of[computation]

    def down(self, computation: Computation) -> dict[Instruction, int]:
        """Return the numbers of a computation's instructions with all their producers.

        They are recomputed for each call: stored for all computations they would exceed the
        program's size.
        """
        self.of(computation)
        return self._numbered(computation)[0]

    def called(self, ins: Instruction) -> tuple[int, ...]:
        """Return the numbers of the computations that an instruction calls; -1 for recursion."""
        return tuple([self._of.get(callee, -1) for callee in ins.calls])

    def _numbered(
        self, computation: Computation
    ) -> tuple[dict[Instruction, int], list[Instruction]]:
        """Return the numbers of instructions with producers, and the random instructions."""
        found: dict[Instruction, int] = {}
        sources: list[Instruction] = []
        for i, parameter in enumerate(computation.body.parameters):
            found[parameter] = self.number(("parameter", i, self.label(parameter)))
        outer: dict[Instruction, int] = {}
        for ins in computation:
            if ins in found:
                continue
            numbers = []
            for value in reads(ins):
                known = found.get(value)
                if known is None:
                    known = outer.get(value)
                if known is None:
                    key = ("outer", len(outer), self.type(value.type))
                    known = outer[value] = self.number(key)
                numbers.append(known)
            key_of = (self.label(ins), len(ins.operands), *numbers, None, *self.called(ins))
            found[ins] = self.number(key_of)
            # A random instruction makes everything that depends on it random, and so the calling
            # instruction.
            if _is_drawn(ins) or any(callee in self._drawing for callee in ins.calls):
                sources.append(ins)
                self.drawn.add(ins)
            elif any(value in self.drawn for value in reads(ins)):
                self.drawn.add(ins)
        if sources:
            self._drawing.add(computation)
        return found, sources

    def up(self, computation: Computation) -> dict[Instruction, int]:
        """Return the numbers of a computation's instructions with all their users."""
        users = users_of(computation)
        found: dict[Instruction, int] = {}
        root = computation.root
        for ins in reversed(list(computation)):
            read_by = sorted((found.get(user, -1), place) for user, place in users.get(ins, ()))
            key = ("up", self.label(ins), ins is root, *read_by)
            found[ins] = self.number(key)
        return found


def _is_drawn(ins: Instruction) -> bool:
    """May two equal instructions of this kind have different values?"""
    return ins.op.name in _DRAWN or getattr(ins.op, "has_side_effect", False) is True


def reads(ins: Instruction) -> tuple[Instruction, ...]:
    """Return the operands of an instruction and the values that its regions capture."""
    return (*ins.operands, *captured(ins)) if ins.calls else ins.operands


def users_of(computation: Computation) -> dict[Instruction, list[tuple[Instruction, int]]]:
    """Return the users of each instruction, with the operand position."""
    found: dict[Instruction, list[tuple[Instruction, int]]] = {}
    for ins in computation:
        for place, operand in enumerate(ins.operands):
            found.setdefault(operand, []).append((ins, place))
        if ins.calls:
            for place, value in enumerate(captured(ins)):
                found.setdefault(value, []).append((ins, _CAPTURED + place))
    return found


def compared_extras(ins: Instruction) -> tuple[tuple[str, str], ...]:
    """Return the extra attributes that are compared: shardings, configurations, unknown ones."""
    return tuple(sorted(one for one in ins.extras if one[0] not in _NOT_COMPARED))


def field_of(op: Op, name: str) -> object:
    """Return a field of an op, without defaults, which artifacts do not store."""
    value = getattr(op, name, None)
    if name == "precision_config" and value is not None:
        return value if any(one != "DEFAULT" for one in map(str, value)) else None
    if name == "settings" and value:
        return tuple([one for one in value if one not in _SAID_BY_NOTHING])
    return value


def _value(ins: Instruction) -> object:
    """Return a key of a constant's elements, independent of their text."""
    literal: Any = ins.op.literal  # type: ignore[attr-defined]
    if isinstance(ins.type, TensorType) and _few(ins.type):
        try:
            array = literal.array(ins.type)
            return "constant", array.dtype.name, array.shape, array.tobytes()
        except HloscopeError:
            pass
    return "constant", literal


def _few(type_: TensorType) -> bool:
    """Has the type at most `_MOST_ELEMENTS` elements?"""
    return None not in type_.sizes and prod(type_.shape) <= _MOST_ELEMENTS
