"""Structural differences of two programs; one may be in HLO and the other in StableHLO."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.errors import HloscopeError
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
from hloscope.ops import Constant, GetTupleElement, Parameter, Result, Return, Tuple
from hloscope.passes import find_pass
from hloscope.proof.meanings import Meaning, Meanings, compared_fields, flat
from hloscope.proof.pairing import without_layouts
from hloscope.proof.structure import (
    Matching,
    Structure,
    compared_extras,
    field_of,
    reads,
    with_layouts,
)
from hloscope.stablehlo import to_graph
from hloscope.support.walks import nested

# --------------------------------------------------------------------------------------------------
# Structural differences of two programs; names and order are ignored.


_HEADER: frozenset[str] = frozenset({"entry_computation_layout", "loc", "name", "is_scheduled"})
"""Module attributes that are not compared: they follow from the program or do not affect it."""


class Aspect(NamedTuple):
    """A property that differs between two programs.

    `what` is its name. `before` and `after` are its texts in the first and the second program;
    `None` if a program lacks it.
    """

    what: str
    before: str | None
    after: str | None


class Change(Struct, frozen=True):
    """An instruction that was removed, added or changed.

    Attributes:
        before: The instruction of the first program; `None` if it is added.
        after: The instruction of the second program; `None` if it is removed.
        aspects: Properties that differ, if the instruction is in both programs.
        operands: Names of the values that the instruction reads, in the second program unless it is
            removed.
        users: Names of the instruction's users.
    """

    before: Instruction | None
    after: Instruction | None
    aspects: tuple[Aspect, ...] = ()
    operands: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Kind of the change: `removed`, `added` or `changed`."""
        if self.after is None:
            return "removed"
        return "added" if self.before is None else "changed"


class Part(Struct, frozen=True):
    """Changes in a computation of the first program and its counterpart in the second.

    One of the two is missing if only one program has the computation.

    Attributes:
        before: The computation of the first program; `None` if only the second has it.
        after: The computation of the second program; `None` if only the first has it.
        changes: Changed instructions in the order of the second program.  A removed one is before
            the next instruction that is in both programs.
        pairs: Number of instructions that are in both computations.
    """

    before: Computation | None
    after: Computation | None
    changes: tuple[Change, ...] = ()
    pairs: int = 0


class Differences(Struct, frozen=True):
    """The differences of two programs.

    Attributes:
        header: Module attributes that differ.
        parts: Computations that differ.
        notes: Texts about what was not compared.
    """

    header: tuple[Aspect, ...]
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        """Return whether no difference was found."""
        return not self.header and not self.parts

    def count(self, kind: str) -> int:
        """Return the number of changes of a kind: `removed`, `added` or `changed`."""
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
    """The comparison of two programs in one language, one pair of computations after the other."""

    def __init__(self, a: Module, b: Module) -> None:
        self.a, self.b = a, b
        self.structure = Structure()
        self.outer: dict[Instruction, Instruction] = {}
        """Pairs of values that regions capture, of the computations compared so far."""
        self.seen: set[tuple[Computation, Computation]] = set()

    def run(self) -> Differences:
        """Compare the entries, then the computations that corresponding instructions call.

        Return all differences.
        """
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
        """Return the differences of two computations, and the pairs of callees to compare next."""
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
                aspects = self._differing_properties(x, y, pairs, down)
                if at_root and y is b.root:
                    aspects = (*aspects, Aspect("root", a.root.name, b.root.name))
                if aspects:
                    found.append(_change(x, y, aspects, users[1]))
                if len(x.calls) == len(y.calls):
                    inside += zip(x.calls, y.calls, strict=True)
        before = _in_order(a, gone, pairs, places)
        found = _merged(found, [_change(x, None, (), users[0]) for x in gone], before, places)
        return Part(a, b, tuple(found), len(pairs)), inside

    def _differing_properties(
        self,
        x: Instruction,
        y: Instruction,
        pairs: dict[Instruction, Instruction],
        down: tuple[dict[Instruction, int], dict[Instruction, int]],
    ) -> tuple[Aspect, ...]:
        """Return the properties of two paired instructions that differ, operands included.

        Args:
            x: The instruction of the first program.
            y: The instruction of the second program.
            pairs: Partners in the second program, by instructions of the first.
            down: For each of both computations, a number of each instruction. Equal numbers mean
                equal instructions with equal producers.
        """
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
        """Yield the properties of two instructions that differ, apart from the operands."""
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
    """Return the texts of two types; the layouts are included if they differ."""
    plain = print_type(before, layout=False), print_type(after, layout=False)
    here, there = _layouts(before), _layouts(after)
    is_layout_change = here != there and [*map(_rank, here)] == [*map(_rank, there)]
    if plain[0] == plain[1] or is_layout_change:
        return print_type(before), print_type(after)
    return plain


def _rank(layout: Layout) -> int:
    """Return the number of dimensions of a layout."""
    return len(layout.minor_to_major)


def _layouts(type_: Type) -> list[Layout]:
    """Return the layouts of all arrays of a type, with tuples flattened."""
    parts = nested([type_], lambda t: t.elements if isinstance(t, TupleType) else ())
    return [t.layout for t in parts if isinstance(t, TensorType) and t.layout is not None]


def _change(
    x: Instruction | None,
    y: Instruction | None,
    aspects: tuple[Aspect, ...],
    users: Mapping[Instruction, Sequence[tuple[Instruction, int]]] = MappingProxyType({}),
) -> Change:
    """Return a change of an instruction, with the names of its operands and users.

    Args:
        x: The instruction in the first program; `None` if it is added.
        y: The instruction in the second program; `None` if it is removed.
        aspects: Properties that differ.
        users: Users of each instruction, with the operand position; left out by default.
    """
    ins = y if y is not None else x
    assert ins is not None
    read_by = dict.fromkeys(user.name for user, _ in users.get(ins, ()))
    return Change(x, y, aspects, tuple(one.name for one in reads(ins)), tuple(read_by))


def _in_order(
    a: Computation,
    removed: list[Instruction],
    pairs: dict[Instruction, Instruction],
    places: dict[Instruction, int],
) -> dict[Instruction, int]:
    """Return, for each removed instruction, the position in the second program of its successor.

    The successor is the next instruction of `a` that is in both programs; without one, the position
    is the number of instructions.

    Args:
        a: The computation of the first program.
        removed: Its instructions without a partner.
        pairs: Partners in the second program, by instructions of the first.
        places: Position of each instruction of the second program.
    """
    missing = set(removed)
    found: dict[Instruction, int] = {}
    following = len(places)
    for x in reversed(list(a)):
        if x in missing:
            found[x] = following
        else:
            following = places[pairs[x]]
    return found


def _merged(
    changes: list[Change],
    removals: list[Change],
    before: dict[Instruction, int],
    places: dict[Instruction, int],
) -> list[Change]:
    """Return changes and removals in one list, in the order of the second program.

    Args:
        changes: Changed and added instructions.
        removals: Removed instructions.
        before: For each removed instruction, the position of its successor in the second program.
        places: Position of each instruction of the second program.
    """

    def place(change: Change) -> tuple[int, int]:
        """Return a sort key: the position in the second program; removals come before changes."""
        if change.after is not None:
            return places[change.after], 1
        assert change.before is not None
        return before[change.before], 0

    return sorted([*changes, *removals], key=place)


def _uncalled(
    a: Module, b: Module, structure: Structure
) -> Iterator[tuple[Computation | None, Computation | None]]:
    """Yield pairs of computations, one of each program, that no instruction calls.

    Entries are left out. Equal computations are paired first, then those of equal name; `None` is
    in place of a missing partner.
    """
    mine, others = _uncalled_in(a), _uncalled_in(b)
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


def _uncalled_in(module: Module) -> list[Computation]:
    """Return the computations that no instruction calls, except the entry."""
    called = {callee for one in module for callee in one.callees}
    return [one for one in module if one not in called and one is not module.entry]


# --------------------------------------------------------------------------------------------------
# Differences of a program in HLO and one in StableHLO, in properties that both languages have.


Settle: TypeAlias = "Callable[[Instruction, Meaning], Meaning]"
_STRUCTURE: Final = (GetTupleElement, Parameter, Result, Return, Tuple)
_NOTE: Final = (
    "HLO against StableHLO: layouts, tuples, shardings, configurations and the bounds of functions"
    " do not count, and constants are computed"
)


def differences_of_programs(a: Module, b: Module) -> Differences:
    """Return the differences of two programs, each in HLO or StableHLO.

    Programs in one language are compared by structure.  A program in HLO and one in StableHLO are
    compared by what their values compute of the arguments; an instruction counts only if a result
    that differs depends on it.
    """
    if a.has_tree == b.has_tree:
        return differences(a, b)
    return _Languages(_legalized(a), _legalized(b)).run()


def _legalized(module: Module) -> Module:
    """Return the program with CHLO ops expanded into StableHLO, since HLO lacks counterparts."""
    if not module.has_tree or not any(i.op.name.startswith("chlo.") for c in module for i in c):
        return module
    tree: Any = module.tree  # type: ignore[attr-defined]
    try:
        return to_graph(find_pass("chlo-legalize-to-stablehlo").apply(tree)[0])
    except HloscopeError:
        return module


def _elided(module: Module) -> list[Instruction]:
    """Return the constants whose elements are missing in the text: `constant({...})`."""
    constants = (i for c in module for i in c if isinstance(i.op, Constant))
    return [i for i in constants if "..." in str(i.op.literal)]  # type: ignore[attr-defined]


class _Languages:
    """The comparison of an HLO and a StableHLO program, by what their values compute."""

    def __init__(self, a: Module, b: Module) -> None:
        self.a, self.b = a, b
        self.elided = [*_elided(a), *_elided(b)]
        self._forget()

    def _forget(self) -> None:
        """Discard the value numbers, and the pairs of instructions, of the previous comparison."""
        self.meanings = Meanings(frozenset(without_layouts(ins.type) for ins in self.elided))
        self.pairs: dict[Instruction, Instruction] = {}
        """Pairs of instructions with equal operands that differ, first program to second."""
        self._taken: set[Instruction] = set()
        self._numbers: set[int] = set()
        """Value numbers of the second program, in all evaluations of its computations."""
        self._reading: defaultdict[tuple[object, ...], list[Instruction]] = defaultdict(list)
        self._seen: set[int] = set()
        """Value numbers of the first program."""

    def run(self) -> Differences:
        """Compare the programs in two passes, and return the differences.

        The first pass, without pairs, finds the instructions that differ. The second one pairs
        instructions that changed. An instruction is reported only if it differs in the first pass,
        and a result depends on it.
        """
        notes = [_NOTE]
        if self.elided:
            count = f"{len(self.elided)} constants" if len(self.elided) > 1 else "1 constant"
            notes.append(f"the text leaves out the elements of {count}: not compared")
        header = _header(self.a.entry, self.b.entry)
        before, after = self._numbered(self._record_first)
        if before == after:
            return Differences(header, (), tuple(notes))
        # Without pairs, everything after a change differs. In the second pass a changed
        # instruction takes the number of its partner, so only changes themselves remain.
        different = set(_reached(self.a.entry, self.meanings.of, self._numbers))
        self._forget()
        before, after = self._numbered(self._settle)
        of = self.meanings.of
        mine = _reached(self.a.entry, of, self._numbers)
        others = _reached(self.b.entry, of, self._seen)
        changed = {x: y for x, y in self.pairs.items() if x in different}
        changes = [_change(x, y, self._differing_properties(x, y)) for x, y in changed.items()]
        changes += [_change(x, None, ()) for x in mine if x not in changed]
        changes += [_change(None, y, ()) for y in others if y not in self._taken]
        if before != after and not changes:
            changes.append(self._results(before, after))
        count_same = sum(x in of and x not in mine and x not in changed for c in self.a for x in c)
        part = Part(self.a.entry, self.b.entry, tuple(changes), count_same)
        return Differences(header, (part,), tuple(notes))

    def _numbered(self, settle: Settle) -> tuple[list[int], list[int]]:
        """Return the value numbers of the results of both programs.

        Args:
            settle: Called with each instruction of the first program and its value numbers; returns
                the value numbers that the instruction's users see.
        """
        self.meanings.settle = self._record_second
        after = self.meanings.program(self.b.entry)
        self.meanings.settle = settle
        return self.meanings.program(self.a.entry), after

    def _record_first(self, ins: Instruction, meaning: Meaning) -> Meaning:
        """Record `meaning`, the value numbers of an instruction of the first program; return it."""
        self._seen.update(flat(meaning))
        return meaning

    def _results(self, before: list[int], after: list[int]) -> Change:
        """Return a change of the results themselves: their number or their order.

        `before` and `after` are the value numbers of the results of both programs.
        """
        counts = str(len(before)), str(len(after))
        texts = counts if len(before) != len(after) else ("in this order", "in another order")
        return _change(self.a.entry.root, self.b.entry.root, (Aspect("results", *texts),))

    def _record_second(self, ins: Instruction, meaning: Meaning) -> Meaning:
        """Record `meaning`, the value numbers of an instruction of the second program; return it.

        The instruction is stored under the values that it reads, so that `_settle` finds it as a
        partner.
        """
        self._numbers.update(flat(meaning))
        if not isinstance(ins.op, _STRUCTURE):
            self._reading[self._read(ins)].append(ins)
        return meaning

    def _read(self, ins: Instruction) -> tuple[object, ...]:
        """Return a key that is equal for instructions of equal type that read equal values."""
        of = self.meanings.of
        numbers = sorted(n for operand in ins.operands for n in flat(of[operand]))
        return (without_layouts(ins.type), *numbers)

    def _settle(self, ins: Instruction, meaning: Meaning) -> Meaning:
        """Return the value numbers that users of an instruction of the first program see.

        They are those of its partner in the second program, if exactly one instruction there can be
        the partner; else `meaning`, the instruction's own numbers. A pair that is found is
        recorded.
        """
        numbers = flat(meaning)
        self._seen.update(numbers)
        if isinstance(ins.op, _STRUCTURE) or self._numbers.issuperset(numbers):
            return meaning
        partner = self.pairs.get(ins)
        if partner is None and ins.operands and not ins.calls:
            found = [
                y
                for y in dict.fromkeys(self._reading.get(self._read(ins), ()))
                if y not in self._taken
                and not y.calls
                and not self._seen.issuperset(flat(self.meanings.of[y]))
                and (y.op.name == ins.op.name or self._is_elementwise(y, ins))
            ]
            # A partner must be the only candidate: otherwise pairs would be a guess.
            if len(found) == 1:
                partner = self.pairs[ins] = found[0]
                self._taken.add(partner)
        if partner is None:
            return meaning
        found_meaning = self.meanings.of[partner]
        self._seen.update(flat(found_meaning))
        return found_meaning

    @staticmethod
    def _is_elementwise(y: Instruction, x: Instruction) -> bool:
        """Do all operands of both instructions have the result type of `x`, of the first program?

        Then their ops may be elementwise, and one may replace the other.
        """
        wanted = without_layouts(x.type)
        return all(
            without_layouts(operand.type) == wanted for operand in (*x.operands, *y.operands)
        )

    @staticmethod
    def _differing_properties(x: Instruction, y: Instruction) -> tuple[Aspect, ...]:
        """Return the properties of two paired instructions that differ."""
        found: list[Aspect] = []
        if x.op.name != y.op.name:
            found.append(Aspect("op", x.op.name, y.op.name))
        else:
            here, there = compared_fields(x.op), compared_fields(y.op)
            found += [
                Aspect(name, str(here.get(name)), str(there.get(name)))
                for name in here
                if here.get(name) != there.get(name)
            ]
        if without_layouts(x.type) != without_layouts(y.type):
            found.append(Aspect("type", *type_texts(x.type, y.type)))
        return tuple(found) or (Aspect("operands", _names(x), _names(y)),)


def _names(ins: Instruction) -> str:
    """Return the names of an instruction's operands, with commas."""
    return ", ".join(operand.name for operand in ins.operands)


def _header(a: Computation, b: Computation) -> tuple[Aspect, ...]:
    """Return the difference of the parameter types of two entries; empty if there is none."""
    before, after = ([p.type for p in side.body.parameters] for side in (a, b))
    if [*map(without_layouts, before)] == [*map(without_layouts, after)]:
        return ()
    if len(before) != len(after):
        return (Aspect("parameters", str(len(before)), str(len(after))),)
    texts = (", ".join(map(str, types)) for types in (before, after))
    return (Aspect("types of parameters", *texts),)


def _reached(
    entry: Computation, of: dict[Instruction, Meaning], known: set[int]
) -> list[Instruction]:
    """Return the instructions on which results depend and whose values the other program lacks.

    The list is in order of dependence: producers are towards the front.

    Args:
        entry: The entry of the program.
        of: Value numbers, by instruction.
        known: Value numbers of the other program. Operands of instructions with such numbers are
            not searched.
    """

    def is_same(ins: Instruction) -> bool:
        """Does the other program compute the value of `ins`, too?"""
        meaning = of.get(ins)
        return meaning is None or known.issuperset(flat(meaning))

    found: dict[Instruction, None] = {}
    stack = [entry.root]
    seen = {entry.root}
    while stack:
        ins = stack.pop()
        # The other program has this value, so its producers need not be searched.
        if is_same(ins):
            continue
        if not isinstance(ins.op, _STRUCTURE):
            found[ins] = None
        following: Iterable[Instruction] = (*reads(ins), *[callee.root for callee in ins.calls])
        for value in following:
            if value not in seen:
                seen.add(value)
                stack.append(value)
    return [*reversed(found)]
