"""Differences of a program in HLO and one in StableHLO, in properties that both languages have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from hloscope.compare.changes import Aspect, Change, Differences, Part, differences, type_texts
from hloscope.compare.identities import plain
from hloscope.compare.meanings import Meaning, Meanings, essence_of, flat
from hloscope.compare.structure import reads
from hloscope.errors import HloscopeError
from hloscope.ir import Computation, Instruction, Module
from hloscope.ops import Constant, GetTupleElement, Parameter, Result, Return, Tuple
from hloscope.passes import find_pass
from hloscope.stablehlo import to_graph

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
    """Return the program with CHLO ops expanded, because HLO has no counterparts."""
    if not module.has_tree or not any(i.op.name.startswith("chlo.") for c in module for i in c):
        return module
    tree: Any = module.tree  # type: ignore[attr-defined]
    try:
        return to_graph(find_pass("chlo-legalize-to-stablehlo").apply(tree)[0])
    except HloscopeError:
        return module


def _elided(module: Module) -> list[Instruction]:
    """Return the constants whose elements the text leaves out: `constant({...})`."""
    constants = (i for c in module for i in c if isinstance(i.op, Constant))
    return [i for i in constants if "..." in str(i.op.literal)]  # type: ignore[attr-defined]


class _Languages:
    """Comparison of two programs in different languages, by what their values compute."""

    def __init__(self, a: Module, b: Module) -> None:
        self.a, self.b = a, b
        self.elided = [*_elided(a), *_elided(b)]
        self._forget()

    def _forget(self) -> None:
        """Discard all results, before a new pass."""
        self.meanings = Meanings(frozenset(plain(ins.type) for ins in self.elided))
        self.pairs: dict[Instruction, Instruction] = {}
        """Pairs of different instructions with equal operands."""
        self._taken: set[Instruction] = set()
        self._numbers: set[int] = set()
        """Numbers of all values of the second program, in all calls."""
        self._reading: defaultdict[tuple[object, ...], list[Instruction]] = defaultdict(list)
        self._seen: set[int] = set()
        """Numbers of all values of the first program."""

    def run(self) -> Differences:
        """Compare the programs: without pairs to find what differs, then with pairs to report it.

        An instruction is reported only if it differs in the first pass, and a result depends on it.
        """
        notes = [_NOTE]
        if self.elided:
            count = f"{len(self.elided)} constants" if len(self.elided) > 1 else "1 constant"
            notes.append(f"the text leaves out the elements of {count}: not compared")
        header = _header(self.a.entry, self.b.entry)
        before, after = self._numbered(self._watch)
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
        changes = [_change(x, y, self._aspects(x, y)) for x, y in changed.items()]
        changes += [_change(x, None, ()) for x in mine if x not in changed]
        changes += [_change(None, y, ()) for y in others if y not in self._taken]
        if before != after and not changes:
            changes.append(self._results(before, after))
        count_same = sum(x in of and x not in mine and x not in changed for c in self.a for x in c)
        part = Part(self.a.entry, self.b.entry, tuple(changes), count_same)
        return Differences(header, (part,), tuple(notes))

    def _numbered(self, settle: Settle) -> tuple[list[int], list[int]]:
        """Return the numbers of the results of both programs.

        Args:
            settle: Called with each instruction of the first program and its number; returns the
                number to use.
        """
        self.meanings.settle = self._note
        after = self.meanings.program(self.b.entry)
        self.meanings.settle = settle
        return self.meanings.program(self.a.entry), after

    def _watch(self, ins: Instruction, meaning: Meaning) -> Meaning:
        """Record the numbers of a value of the first program."""
        self._seen.update(flat(meaning))
        return meaning

    def _results(self, before: list[int], after: list[int]) -> Change:
        """Return a change of the results themselves: of their number or order."""
        counts = str(len(before)), str(len(after))
        texts = counts if len(before) != len(after) else ("in this order", "in another order")
        return _change(self.a.entry.root, self.b.entry.root, (Aspect("results", *texts),))

    def _note(self, ins: Instruction, meaning: Meaning) -> Meaning:
        """Record a value of the second program, by the values it reads."""
        self._numbers.update(flat(meaning))
        if not isinstance(ins.op, _STRUCTURE):
            self._reading[self._read(ins)].append(ins)
        return meaning

    def _read(self, ins: Instruction) -> tuple[object, ...]:
        """Return a key of an instruction's type and operands."""
        of = self.meanings.of
        numbers = sorted(n for operand in ins.operands for n in flat(of[operand]))
        return (plain(ins.type), *numbers)

    def _settle(self, ins: Instruction, meaning: Meaning) -> Meaning:
        """Return the number to continue with: that of the partner, if there is one."""
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
        """May one op have become the other: have all operands the result's type?"""
        wanted = plain(x.type)
        return all(plain(operand.type) == wanted for operand in (*x.operands, *y.operands))

    @staticmethod
    def _aspects(x: Instruction, y: Instruction) -> tuple[Aspect, ...]:
        """Return the properties of two paired instructions that differ."""
        found: list[Aspect] = []
        if x.op.name != y.op.name:
            found.append(Aspect("op", x.op.name, y.op.name))
        else:
            here, there = essence_of(x.op), essence_of(y.op)
            found += [
                Aspect(name, str(here.get(name)), str(there.get(name)))
                for name in here
                if here.get(name) != there.get(name)
            ]
        if plain(x.type) != plain(y.type):
            found.append(Aspect("type", *type_texts(x.type, y.type)))
        return tuple(found) or (Aspect("operands", _names(x), _names(y)),)


def _names(ins: Instruction) -> str:
    """Return the names of the operands."""
    return ", ".join(operand.name for operand in ins.operands)


def _header(a: Computation, b: Computation) -> tuple[Aspect, ...]:
    """Return the difference of the parameters' types, if there is one."""
    before, after = ([p.type for p in side.body.parameters] for side in (a, b))
    if [*map(plain, before)] == [*map(plain, after)]:
        return ()
    if len(before) != len(after):
        return (Aspect("parameters", str(len(before)), str(len(after))),)
    texts = (", ".join(map(str, types)) for types in (before, after))
    return (Aspect("types of parameters", *texts),)


def _reached(
    entry: Computation, of: dict[Instruction, Meaning], known: set[int]
) -> list[Instruction]:
    """Return the instructions that results depend on and whose values `known` does not have."""

    def is_same(ins: Instruction) -> bool:
        """Has the other program the value?"""
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


def _change(x: Instruction | None, y: Instruction | None, aspects: tuple[Aspect, ...]) -> Change:
    """Return a change with the names of its operands."""
    ins = y if y is not None else x
    assert ins is not None
    return Change(x, y, aspects, tuple(one.name for one in reads(ins)))
