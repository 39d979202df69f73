"""Structural differences of two programs; names and order are ignored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from hloscope.compare.matching import Matching
from hloscope.compare.structure import (
    Structure,
    compared_extras,
    field_of,
    reads,
    with_layouts,
)
from hloscope.hlo_parser import print_type
from hloscope.ir import (
    Computation,
    Instruction,
    Layout,
    Module,
    TensorType,
    TupleType,
    Type,
    captured,
)
from hloscope.ops import Constant
from hloscope.walks import nested

_HEADER: frozenset[str] = frozenset({"entry_computation_layout", "loc", "name", "is_scheduled"})
"""Module attributes that follow from the program, or are not part of it."""


class Aspect(NamedTuple):
    """One property that differs, with its text in either program; `None` where it is absent."""

    what: str
    before: str | None
    after: str | None


class Change(Struct, frozen=True):
    """An instruction that is removed, added or changed.

    Attributes:
        before: The instruction of the first program; `None` if it is added.
        after: The instruction of the second program; `None` if it is removed.
        aspects: Properties that differ, if it is in both.
        operands: Names of the values it reads, in the second program unless it is removed.
        users: Names of its users.
    """

    before: Instruction | None
    after: Instruction | None
    aspects: tuple[Aspect, ...] = ()
    operands: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`removed`, `added` or `changed`."""
        if self.after is None:
            return "removed"
        return "added" if self.before is None else "changed"


class Part(Struct, frozen=True):
    """Two corresponding computations, or one that only one program has.

    Attributes:
        before: The computation of the first program.
        after: The computation of the second program.
        changes: Changed instructions in the order of the second program.  A removed one comes
            before the next instruction that is in both.
        pairs: Number of instructions that are in both.
    """

    before: Computation | None
    after: Computation | None
    changes: tuple[Change, ...] = ()
    pairs: int = 0


class Differences(Struct, frozen=True):
    """Differences of two programs.

    Attributes:
        header: Module attributes that differ.
        parts: Computations that differ.
        notes: What was not compared.
    """

    header: tuple[Aspect, ...]
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        """Are the two programs equal?"""
        return not self.header and not self.parts

    def count(self, kind: str) -> int:
        """Return the number of changes of a kind."""
        return sum(change.kind == kind for part in self.parts for change in part.changes)


def differences(a: Module, b: Module) -> Differences:
    """Return the structural differences of two programs.

    Names, the order of instructions, metadata and source positions are ignored.  Two equal
    instructions count as one that is used twice, unless their values are random or have side
    effects.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> one = parse_hlo("ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] tan(p) }")
    >>> two = parse_hlo("ENTRY g { x = f32[2] parameter(0) ROOT y = f32[2] tanh(x) }")
    >>> differences(one, one).none
    True
    >>> [change.aspects for change in differences(one, two).parts[0].changes]
    [(Aspect(what='op', before='tan', after='tanh'),)]
    """
    return _Differing(a, b).run()


class _Differing:
    """Comparison of two programs, computation by computation."""

    def __init__(self, a: Module, b: Module) -> None:
        self.a, self.b = a, b
        self.structure = Structure()
        self.outer: dict[Instruction, Instruction] = {}
        """Pairs of values that regions capture, of the computations compared so far."""
        self.seen: set[tuple[Computation, Computation]] = set()

    def run(self) -> Differences:
        """Compare the entries, then the computations that corresponding instructions call."""
        parts: list[Part] = []
        work = deque([(self.a.entry, self.b.entry)])
        alone: list[Part] = []
        for x, y in _uncalled(self.a, self.b, self.structure):
            if x is not None and y is not None:
                work.append((x, y))
            else:
                alone.append(Part(x, y))
        while work:
            both = work.popleft()
            # Equal numbers mean equal structure, callees included: nothing below can differ.
            if both in self.seen or self.structure.of(both[0]) == self.structure.of(both[1]):
                continue
            self.seen.add(both)
            part, inside = self._part(*both)
            if part.changes:
                parts.append(part)
            work += inside
        return Differences(self._header(), (*parts, *alone))

    def _header(self) -> tuple[Aspect, ...]:
        """Return the module attributes that differ."""
        before, after = (
            {name: text for name, text in one.extras if name not in _HEADER}
            for one in (self.a, self.b)
        )
        names = sorted(before.keys() | after.keys())
        return tuple(
            Aspect(name, before.get(name), after.get(name))
            for name in names
            if before.get(name) != after.get(name)
        )

    def _part(
        self, a: Computation, b: Computation
    ) -> tuple[Part, list[tuple[Computation, Computation]]]:
        """Return the differences of two computations, and the pairs of callees still to compare."""
        matching = Matching(self.structure, a, b)
        pairs, down = matching.pairs, (matching.down_a, matching.down_b)
        self.outer |= {v: pairs[v] for x in a if x.calls for v in captured(x) if v in pairs}
        users = matching.users_a, matching.users_b
        found: list[Change] = []
        inside: list[tuple[Computation, Computation]] = []
        gone = [x for x in a if x not in pairs]
        places = {y: at for at, y in enumerate(b)}
        at_root = pairs.get(a.root) is not b.root
        for y in b:
            x = matching.partners.get(y)
            if x is None:
                found.append(_change(None, y, (), users[1]))
                continue
            # Instructions with equal operands all the way down need no look; random ones do, since
            # equality of structure does not make them one value.
            if x not in matching.equal or x in self.structure.drawn:
                aspects = self._aspects(x, y, pairs, down)
                if at_root and y is b.root:
                    aspects = (*aspects, Aspect("root", a.root.name, b.root.name))
                if aspects:
                    found.append(_change(x, y, aspects, users[1]))
                if len(x.calls) == len(y.calls):
                    inside += zip(x.calls, y.calls, strict=True)
        before = _in_order(a, gone, pairs, places)
        found = _merged(found, [_change(x, None, (), users[0]) for x in gone], before, places)
        return Part(a, b, tuple(found), len(pairs)), inside

    def _aspects(
        self,
        x: Instruction,
        y: Instruction,
        pairs: dict[Instruction, Instruction],
        down: tuple[dict[Instruction, int], dict[Instruction, int]],
    ) -> tuple[Aspect, ...]:
        """Return the properties of two paired instructions that differ, their operands included."""
        found: list[Aspect] = []
        if self.structure.label(x) != self.structure.label(y):
            found += self._own(x, y)
        mine, others = reads(x), reads(y)
        if len(x.operands) != len(y.operands):
            found.append(Aspect("operands", str(len(x.operands)), str(len(y.operands))))
        for place, (p, q) in enumerate(zip(mine, others, strict=False)):
            if pairs.get(p, self.outer.get(p)) is q:
                continue
            # An operand that is paired otherwise is no difference if both operands have the same
            # structure.
            same = p in down[0] and down[0][p] == down[1].get(q)
            if not same or p in self.structure.drawn:
                found.append(Aspect(f"operand {place}", p.name, q.name))
        if len(x.calls) != len(y.calls):
            found.append(Aspect("computations", str(len(x.calls)), str(len(y.calls))))
        return tuple(found)

    def _own(self, x: Instruction, y: Instruction) -> Iterator[Aspect]:
        """Yield the properties of two instructions that differ, without their operands."""
        if x.op.name != y.op.name:
            yield Aspect("op", x.op.name, y.op.name)
        elif isinstance(x.op, Constant):
            if x.op != y.op:
                yield Aspect("value", str(x.op.literal), str(y.op.literal))  # type: ignore[attr-defined]
        elif x.op != y.op:
            for name in x.op.__struct_fields__:
                before, after = field_of(x.op, name), field_of(y.op, name)
                if before != after:
                    yield Aspect(name, _text(before), _text(after))
        before, after = with_layouts(x.type), with_layouts(y.type)
        if before != after:
            yield Aspect("type", *type_texts(before, after))
        here, there = dict(compared_extras(x)), dict(compared_extras(y))
        for name in sorted(here.keys() | there.keys()):
            if here.get(name) != there.get(name):
                yield Aspect(name, here.get(name), there.get(name))


def _text(value: object) -> str:
    """Return the text of an attribute."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"[{', '.join(map(_text, value))}]"
    return str(value)


def type_texts(before: Type, after: Type) -> tuple[str, str]:
    """Return the texts of two types, with layouts if those differ."""
    plain = print_type(before, layout=False), print_type(after, layout=False)
    here, there = _layouts(before), _layouts(after)
    is_layout_change = here != there and [*map(_rank, here)] == [*map(_rank, there)]
    if plain[0] == plain[1] or is_layout_change:
        return print_type(before), print_type(after)
    return plain


def _rank(layout: Layout) -> int:
    """Return the rank of a layout."""
    return len(layout.minor_to_major)


def _layouts(type_: Type) -> list[Layout]:
    """Return the layouts of all arrays of a type, those in tuples in order."""
    parts = nested([type_], lambda t: t.elements if isinstance(t, TupleType) else ())
    return [t.layout for t in parts if isinstance(t, TensorType) and t.layout is not None]


def _change(
    x: Instruction | None,
    y: Instruction | None,
    aspects: tuple[Aspect, ...],
    users: dict[Instruction, list[tuple[Instruction, int]]],
) -> Change:
    """Return a change with the names of its operands and users."""
    ins = y if y is not None else x
    assert ins is not None
    read_by = dict.fromkeys(user.name for user, _ in users.get(ins, ()))
    return Change(x, y, aspects, tuple(one.name for one in reads(ins)), tuple(read_by))


def _in_order(
    a: Computation,
    gone: list[Instruction],
    pairs: dict[Instruction, Instruction],
    places: dict[Instruction, int],
) -> dict[Instruction, int]:
    """Map each removed instruction to the position in the second program that it comes before."""
    missing = set(gone)
    found: dict[Instruction, int] = {}
    following = len(places)
    for x in reversed(list(a)):
        if x in missing:
            found[x] = following
        else:
            following = places[pairs[x]]
    return found


def _merged(
    there: list[Change],
    gone: list[Change],
    before: dict[Instruction, int],
    places: dict[Instruction, int],
) -> list[Change]:
    """Return all changes in the order of the second program."""

    def place(change: Change) -> tuple[int, int]:
        if change.after is not None:
            return places[change.after], 1
        assert change.before is not None
        return before[change.before], 0

    return sorted([*there, *gone], key=place)


def _uncalled(
    a: Module, b: Module, structure: Structure
) -> Iterator[tuple[Computation | None, Computation | None]]:
    """Yield pairs of computations without callers, except the entries: equal ones, then by name.

    One of a pair is `None` if the other has no partner.
    """
    mine, others = _alone(a), _alone(b)
    # Equal structure first, so that a renamed computation is not compared with another of its
    # name.
    by_number: dict[int, list[Computation]] = {}
    for y in others:
        by_number.setdefault(structure.of(y), []).append(y)
    left: list[Computation] = []
    for x in mine:
        found = by_number.get(structure.of(x))
        if found:
            found.pop(0)
        else:
            left.append(x)
    rest = {y.name: y for found in by_number.values() for y in found}
    for x in left:
        yield x, rest.pop(x.name, None)
    for y in rest.values():
        yield None, y


def _alone(module: Module) -> list[Computation]:
    """Return the computations without callers, except the entry."""
    called = {callee for one in module for callee in one.callees}
    return [one for one in module if one not in called and one is not module.entry]
