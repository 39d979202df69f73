"""Structural numbers of instructions, and pairs of corresponding instructions of two programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from typing import Any, Final, TypeVar

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
    callees_first,
    captured,
)
from hloscope.ops import Constant

# --------------------------------------------------------------------------------------------------
# Structural numbers of instructions: alone, with all producers, with all users.
#
# Names, the order of instructions, metadata and source positions are ignored.  Types with layouts,
# attributes, shardings, configurations and elements of constants count.


_NOT_COMPARED: Final = frozenset({"metadata", "loc", "location", "origin", "stack_frame_id"})
"""Extra attributes that are not compared, since they do not affect the program."""
_OF_SCALARS: Final = Layout(())
_EMPTY_EXTRAS: Final = (("backend_config", '""'), ("backend_config", "{}"))
_DRAWN: Final = frozenset({"rng", "rng_get_and_update_state", "infeed", "recv"})
_MOST_ELEMENTS: Final = 1 << 22
"""Largest number of elements of a constant that is compared by value; others by their text."""
_CAPTURED: Final = 1 << 20
"""Number added to the positions of captured values, which are counted after operands."""


def with_layouts(type_: Type) -> Type:
    """Return the type with row-major layouts where it has none, as in XLA.

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
    """Structural numbers of instructions and computations, the same for several programs.

    Equal numbers mean equal structure.
    """

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
        """Return the number for a key; equal keys have equal numbers."""
        return self._numbers.setdefault(key, len(self._numbers))

    def label(self, ins: Instruction) -> int:
        """Return the number of an instruction's op, type and extra attributes, without operands."""
        return self.number(("label", self._op(ins), self.type(ins.type), compared_extras(ins)))

    def type(self, type_: Type) -> int:
        """Return the number of a type; it has row-major layouts where it has none.

        Each type object is hashed once, because programs share them.
        """
        kept = self._kept.get(id(type_))
        if kept is None:
            kept = self._kept[id(type_)] = type_, self.number(with_layouts(type_))
        return kept[1]

    def _op(self, ins: Instruction) -> object:
        """Return a key of the instruction's op; for a constant, of its elements."""
        if type(ins.op) is Constant:
            return _value(ins)
        kept = self._ops.get(id(ins.op))
        if kept is None:
            fields = tuple([field_of(ins.op, name) for name in ins.op.__struct_fields__])
            kept = self._ops[id(ins.op)] = ins.op, self.number((ins.op.name, fields))
        return kept[1]

    def of(self, computation: Computation) -> int:
        """Return the number of a computation, which depends on all its instructions."""
        for inner in callees_first(computation, self._of):
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
        """Return the numbers of instructions, each with all its producers.

        Equal numbers mean equal values. They are computed again at each call: stored for all
        computations they would exceed the program's size.
        """
        self.of(computation)
        return self._numbered(computation)[0]

    def called(self, ins: Instruction) -> tuple[int, ...]:
        """Return the numbers of the computations an instruction calls; -1 stands for recursion."""
        return tuple([self._of.get(callee, -1) for callee in ins.calls])

    def _numbered(
        self, computation: Computation
    ) -> tuple[dict[Instruction, int], list[Instruction]]:
        """Return the number of each instruction with its producers, and a list of instructions.

        The list has those whose value is random, or that call a computation with such an
        instruction.
        """
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
        """Return the numbers of instructions, each with all its users.

        Equal numbers mean equal instructions, read by equal users at the same operand positions.
        """
        users = users_of(computation)
        found: dict[Instruction, int] = {}
        root = computation.root
        for ins in reversed(list(computation)):
            read_by = sorted((found.get(user, -1), place) for user, place in users.get(ins, ()))
            key = ("up", self.label(ins), ins is root, *read_by)
            found[ins] = self.number(key)
        return found


def _is_drawn(ins: Instruction) -> bool:
    """May two equal instructions of this kind have different values, as random ones do?"""
    return ins.op.name in _DRAWN or getattr(ins.op, "has_side_effect", False) is True


def reads(ins: Instruction) -> tuple[Instruction, ...]:
    """Return the operands of an instruction, then the values that its regions capture."""
    return (*ins.operands, *captured(ins)) if ins.calls else ins.operands


def users_of(computation: Computation) -> dict[Instruction, list[tuple[Instruction, int]]]:
    """Return the users of each instruction, each with the position of the operand."""
    found: dict[Instruction, list[tuple[Instruction, int]]] = {}
    for ins in computation:
        for place, operand in enumerate(ins.operands):
            found.setdefault(operand, []).append((ins, place))
        if ins.calls:
            for place, value in enumerate(captured(ins)):
                found.setdefault(value, []).append((ins, _CAPTURED + place))
    return found


def compared_extras(ins: Instruction) -> tuple[tuple[str, str], ...]:
    """Return the extra attributes that are compared, as (name, text), such as shardings."""
    return tuple(sorted(one for one in ins.extras if one[0] not in _NOT_COMPARED))


def field_of(op: Op, name: str) -> object:
    """Return a field of an op; a default value counts as missing, since artifacts omit it."""
    value = getattr(op, name, None)
    if name == "precision_config" and value is not None:
        return value if any(one != "DEFAULT" for one in map(str, value)) else None
    if name == "settings" and value:
        return tuple([one for one in value if one not in _EMPTY_EXTRAS])
    return value


def _value(ins: Instruction) -> object:
    """Return a key of a constant's elements, which does not depend on their text."""
    literal: Any = ins.op.literal  # type: ignore[attr-defined]
    if isinstance(ins.type, TensorType) and _is_small(ins.type):
        try:
            array = literal.array(ins.type)
            return "constant", array.dtype.name, array.shape, array.tobytes()
        except HloscopeError:
            pass
    return "constant", literal


def _is_small(type_: TensorType) -> bool:
    """Does the type have at most `_MOST_ELEMENTS` elements?"""
    return None not in type_.sizes and prod(type_.shape) <= _MOST_ELEMENTS


# --------------------------------------------------------------------------------------------------
# Pairs of corresponding instructions of two computations.
#
# First, instructions with equal producers are paired, from the end backwards, so that equal parts
# stay together.  Then those with equal users.  Then, starting from pairs, operands and users at
# equal positions.  Finally those with equal names.


_T = TypeVar("_T")

_MOST_USERS: Final = 1000
"""Largest number of users of a value among which pairs are searched."""
_MOST_TRIED: Final = 32
"""Largest number of equal instructions among which one with paired operands is searched."""


class Matching:
    """The pairs of corresponding instructions of two computations.

    Attributes:
        pairs: The partner in the second computation, by instruction of the first.
        partners: The inverse of `pairs`.
        equal: Instructions of the first that equal their partners, with all producers.
        down_a: Structural numbers of the first computation's instructions, by `Structure.down`.
        down_b: Structural numbers of the second computation's instructions.
        users_a: Users of the first computation's instructions, with the operand position.
        users_b: Users of the second computation's instructions, with the operand position.
    """

    def __init__(self, structure: Structure, a: Computation, b: Computation) -> None:
        self.pairs: dict[Instruction, Instruction] = {}
        self.partners: dict[Instruction, Instruction] = {}
        self.equal: set[Instruction] = set()
        self._structure, self._a, self._b = structure, a, b
        self.down_a, self.down_b = structure.down(a), structure.down(b)
        self.users_a, self.users_b = users_of(a), users_of(b)
        self._by_structure()
        if len(self.pairs) < max(len(a), len(b)):
            self._by_context()

    # ----------------------------------------------------------------- what reads the same

    def _by_structure(self) -> None:
        """Pair instructions that have equal structural numbers.

        First those whose producers and users are equal, then those of equal producers, then those
        of equal users.
        """
        up_a, up_b = self._structure.up(self._a), self._structure.up(self._b)
        exact = _InstructionsByKey(self._b, lambda y: (self.down_b[y], up_b[y]))
        alike = _InstructionsByKey(self._b, lambda y: self.down_b[y])
        self._pair_with_producers(self._a.root, self._b.root)
        for bag, key in (
            (exact, lambda x: (self.down_a[x], up_a[x])),
            (alike, lambda x: self.down_a[x]),
        ):
            # From the end: pairing a value also pairs its producers, so whole equal parts stay
            # together.
            for x in reversed(list(self._a)):
                if x not in self.pairs:
                    y = bag.take(key(x), self.partners, partial(self._fits, x))
                    if y is not None:
                        self._pair_with_producers(x, y)
        by_users = _InstructionsByKey(self._b, lambda y: up_b[y])
        for x in self._a:
            if x not in self.pairs:
                y = by_users.take(up_a[x], self.partners, partial(self._fits, x))
                if y is not None:
                    self._pair(x, y)

    def _fits(self, x: Instruction, y: Instruction) -> bool:
        """Are the operands of both instructions partners, where they have partners?"""
        return all(
            self.pairs.get(p, q) is q and self.partners.get(q, p) is p
            for p, q in zip(reads(x), reads(y), strict=False)
        )

    def _pair_with_producers(self, x: Instruction, y: Instruction) -> None:
        """Pair two equal instructions, and all their producers, position by position."""
        stack = [(x, y)]
        while stack:
            x, y = stack.pop()
            if x in self.pairs or y in self.partners:
                continue
            number = self.down_a.get(x)
            if number is None or number != self.down_b.get(y):
                continue
            self._pair(x, y)
            self.equal.add(x)
            stack += zip(reads(x), reads(y), strict=True)

    def _pair(self, x: Instruction, y: Instruction) -> None:
        """Record `y` as the partner of `x`."""
        self.pairs[x] = y
        self.partners[y] = x

    # ------------------------------------------------------- what stands at the same place

    def _by_context(self) -> None:
        """Pair the instructions that have no partner yet by operands, by users, and by name."""
        for x, y in zip(self._a.body.parameters, self._b.body.parameters, strict=False):
            if self._free(x, y):
                self._pair(x, y)
        if self._free(self._a.root, self._b.root) and _same_op(self._a.root, self._b.root):
            self._pair(self._a.root, self._b.root)
        self._propagate(list(self.pairs.items()))
        label = self._structure.label
        # From safe keys to weak ones; after each, `_unique` follows the new pairs to their
        # neighbours.
        keys: tuple[Callable[[Instruction], object], ...] = (
            lambda ins: (label(ins), *[self._known(one) for one in reads(ins)]),
            lambda ins: (ins.name, ins.op.name),
            lambda ins: self._place(ins) if reads(ins) else ins,
            self._use,
            label,
        )
        for key in keys:
            self._unique(key)
        if self._free(self._a.root, self._b.root):
            self._pair(self._a.root, self._b.root)

    def _place(self, ins: Instruction) -> object:
        """Return a key of an instruction's type and operands, by which partners are found.

        If an operand has no partner, the key is the instruction itself, which no other one has.
        """
        known = [self._known(one) for one in reads(ins)]
        return ins if None in known else (self._structure.type(ins.type), *known)

    def _use(self, ins: Instruction) -> object:
        """Return a key of an instruction's type and users, by which partners are found.

        Without users, or if one has no partner, the key is the instruction itself, which no other
        one has.
        """
        users = self.users_a.get(ins) or self.users_b.get(ins) or ()
        known = [(self._known(user), place) for user, place in users[:_MOST_USERS]]
        found = not known or any(user is None for user, _ in known)
        return ins if found else (self._structure.type(ins.type), frozenset(known))

    def _known(self, value: Instruction) -> object:
        """Return the partner in the first computation of a value; the value itself if it is there.

        `None` if it has no partner.
        """
        return value if value in self.pairs else self.partners.get(value)

    def _unique(self, key: Callable[[Instruction], object]) -> None:
        """Pair instructions whose key, the result of `key`, is unique in both computations."""
        left = _alone((x for x in self._a if x not in self.pairs), key)
        right = _alone((y for y in self._b if y not in self.partners), key)
        found = [(x, right[at]) for at, x in left.items() if at in right]
        for x, y in found:
            if self._free(x, y):
                self._pair(x, y)
        self._propagate(found)

    def _free(self, x: Instruction, y: Instruction) -> bool:
        """Do both instructions have no partner yet?"""
        return x not in self.pairs and y not in self.partners

    def _propagate(self, work: list[tuple[Instruction, Instruction]]) -> None:
        """Pair operands and users of the pairs in `work`, and of new pairs, if they correspond."""
        while work:
            x, y = work.pop()
            if x in self.equal and not self._open_users(x, y):
                continue
            found = [*self._operands(x, y), *self._same_users(x, y)]
            for p, q in found:
                if self._free(p, q):
                    self._pair(p, q)
                    work.append((p, q))

    def _open_users(self, x: Instruction, y: Instruction) -> bool:
        """Does each of the two instructions have a user without a partner?"""
        return any(user not in self.pairs for user, _ in self.users_a.get(x, ())) and any(
            user not in self.partners for user, _ in self.users_b.get(y, ())
        )

    def _operands(
        self, x: Instruction, y: Instruction
    ) -> Iterable[tuple[Instruction, Instruction]]:
        """Return the pairs of operands of two instructions that have the same op name.

        Instructions of different ops have none.
        """
        read, other = reads(x), reads(y)
        if len(read) != len(other) or not _same_op(x, y):
            return ()
        here, there = self.down_a, self.down_b
        return [
            (p, q)
            for p, q in zip(read, other, strict=True)
            if p in here and q in there and self._free(p, q) and _same_op(p, q)
        ]

    def _same_users(
        self, x: Instruction, y: Instruction
    ) -> Iterable[tuple[Instruction, Instruction]]:
        """Return pairs of users that are the only ones of their op at their operand position."""
        mine = [u for u in self.users_a.get(x, ()) if u[0] not in self.pairs]
        others = [u for u in self.users_b.get(y, ()) if u[0] not in self.partners]
        if not mine or not others or max(len(mine), len(others)) > _MOST_USERS:
            return ()
        label = self._structure.label
        keys: tuple[Callable[[tuple[Instruction, int]], object], ...] = (
            lambda use: (use[1], label(use[0])),
            lambda use: (use[1], use[0].op.name, len(use[0].operands)),
        )
        # First users that are equal in all attributes, then those of the same op.
        for key in keys:
            left, right = _alone(mine, key), _alone(others, key)
            found = [(left[at][0], right[at][0]) for at in left if at in right]
            if found:
                return found
        return ()


class _InstructionsByKey:
    """Instructions by key; each is taken at most once, the last one first."""

    def __init__(self, side: Computation, key: Callable[[Instruction], object]) -> None:
        self._found: defaultdict[object, list[Instruction]] = defaultdict(list)
        for ins in side:
            self._found[key(ins)].append(ins)

    def take(
        self,
        key: object,
        taken: Mapping[Instruction, Instruction],
        fits: Callable[[Instruction], bool],
    ) -> Instruction | None:
        """Remove and return an instruction with the key `key`; `None` if there is none.

        Args:
            key: The key.
            taken: Instructions that may not be returned are keys of this mapping.
            fits: Returns whether an instruction is preferred.
        """
        found = self._found.get(key)
        if not found:
            return None
        found[:] = [ins for ins in found if ins not in taken] if found[-1] in taken else found
        if not found:
            return None
        last = len(found) - 1
        some = range(last, max(last - _MOST_TRIED, -1), -1)
        at = next((at for at in some if found[at] not in taken and fits(found[at])), None)
        if at is None:
            at = next((at for at in some if found[at] not in taken), None)
        return None if at is None else found.pop(at)


def _alone(items: Iterable[_T], key: Callable[[_T], object]) -> dict[object, _T]:
    """Return the items that are the only ones with their key, by key."""
    found: dict[object, _T] = {}
    twice = set()
    for item in items:
        at = key(item)
        if at in found:
            twice.add(at)
        found[at] = item
    return {at: item for at, item in found.items() if at not in twice}


def _same_op(x: Instruction, y: Instruction) -> bool:
    """Do the instructions have the same op name?"""
    return x.op.name == y.op.name
