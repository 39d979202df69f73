"""Which instructions of two computations are the same, or stand in each other's place.

First what reads the same is paired, from the end of the program backwards so that equal parts stay
together; then what is read by the same; then, from pair to pair, what stands at the same place in
front of or behind a pair; at last what has the same name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from hloscope.compare.structure import Structure, reads, users_of
from hloscope.ir import Computation, Instruction

_T = TypeVar("_T")

_MOST_USERS: Final = 1000
"""Users of a value that is read more often are not looked through for pairs."""
_MOST_TRIED: Final = 32
"""So many that are alike are tried for one that reads what is paired."""


class Matching:
    """Pairs of the instructions of two computations.

    Attributes:
        pairs: Those of the first with those of the second.
        partners: The other way round.
        equal: Those of the first that are the same with all that they read.
        down_a: Numbers of the first's instructions with all that they read.
        down_b: Those of the second's.
        users_a: Of the first's instructions, those that read them and at which place.
        users_b: Of the second's.
    """

    def __init__(self, structure: Structure, a: Computation, b: Computation) -> None:
        self.pairs: dict[Instruction, Instruction] = {}
        self.partners: dict[Instruction, Instruction] = {}
        self.equal: set[Instruction] = set()
        self._structure, self._a, self._b = structure, a, b
        self.down_a, self.down_b = structure.down(a), structure.down(b)
        self.users_a, self.users_b = users_of(a), users_of(b)
        self._by_reading()
        if len(self.pairs) < max(len(a), len(b)):
            self._by_the_rest()

    # ----------------------------------------------------------------- what reads the same

    def _by_reading(self) -> None:
        up_a, up_b = self._structure.up(self._a), self._structure.up(self._b)
        exact = _Bag(self._b, lambda y: (self.down_b[y], up_b[y]))
        alike = _Bag(self._b, lambda y: self.down_b[y])
        self._force(self._a.root, self._b.root)
        for bag, key in (
            (exact, lambda x: (self.down_a[x], up_a[x])),
            (alike, lambda x: self.down_a[x]),
        ):
            for x in reversed(list(self._a)):
                if x not in self.pairs:
                    y = bag.take(key(x), self.partners, partial(self._fits, x))
                    if y is not None:
                        self._force(x, y)
        by_users = _Bag(self._b, lambda y: up_b[y])
        for x in self._a:
            if x not in self.pairs:
                y = by_users.take(up_a[x], self.partners, partial(self._fits, x))
                if y is not None:
                    self._pair(x, y)

    def _fits(self, x: Instruction, y: Instruction) -> bool:
        """Does one read what the other reads, as far as that is paired?"""
        return all(
            self.pairs.get(p, q) is q and self.partners.get(q, p) is p
            for p, q in zip(reads(x), reads(y), strict=False)
        )

    def _force(self, x: Instruction, y: Instruction) -> None:
        """Pair what is the same, and all that both read, place by place."""
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
        self.pairs[x] = y
        self.partners[y] = x

    # ------------------------------------------------------- what stands at the same place

    def _by_the_rest(self) -> None:
        for x, y in zip(self._a.body.parameters, self._b.body.parameters, strict=False):
            if self._free(x, y):
                self._pair(x, y)
        if self._free(self._a.root, self._b.root) and _same_op(self._a.root, self._b.root):
            self._pair(self._a.root, self._b.root)
        self._spread(list(self.pairs.items()))
        label = self._structure.label
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
        """What an instruction reads, if all is paired: another op may take its place."""
        known = [self._known(one) for one in reads(ins)]
        return ins if None in known else (self._structure.type(ins.type), *known)

    def _use(self, ins: Instruction) -> object:
        """Who reads an instruction, if all of them are paired."""
        users = self.users_a.get(ins) or self.users_b.get(ins) or ()
        known = [(self._known(user), place) for user, place in users[:_MOST_USERS]]
        found = not known or any(user is None for user, _ in known)
        return ins if found else (self._structure.type(ins.type), frozenset(known))

    def _known(self, value: Instruction) -> object:
        """A value in the numbers of the first program, if it is paired."""
        return value if value in self.pairs else self.partners.get(value)

    def _unique(self, key: Callable[[Instruction], object]) -> None:
        """Pair what is the only one with a key on both sides."""
        left = _alone((x for x in self._a if x not in self.pairs), key)
        right = _alone((y for y in self._b if y not in self.partners), key)
        found = [(x, right[at]) for at, x in left.items() if at in right]
        for x, y in found:
            if self._free(x, y):
                self._pair(x, y)
        self._spread(found)

    def _free(self, x: Instruction, y: Instruction) -> bool:
        return x not in self.pairs and y not in self.partners

    def _spread(self, work: list[tuple[Instruction, Instruction]]) -> None:
        """Pair what pairs read and what reads them."""
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
        return any(user not in self.pairs for user, _ in self.users_a.get(x, ())) and any(
            user not in self.partners for user, _ in self.users_b.get(y, ())
        )

    def _operands(
        self, x: Instruction, y: Instruction
    ) -> Iterable[tuple[Instruction, Instruction]]:
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
        """Users at the same place that are the only ones of their kind."""
        mine = [u for u in self.users_a.get(x, ()) if u[0] not in self.pairs]
        others = [u for u in self.users_b.get(y, ()) if u[0] not in self.partners]
        if not mine or not others or max(len(mine), len(others)) > _MOST_USERS:
            return ()
        label = self._structure.label
        keys: tuple[Callable[[tuple[Instruction, int]], object], ...] = (
            lambda use: (use[1], label(use[0])),
            lambda use: (use[1], use[0].op.name, len(use[0].operands)),
        )
        for key in keys:
            left, right = _alone(mine, key), _alone(others, key)
            found = [(left[at][0], right[at][0]) for at in left if at in right]
            if found:
                return found
        return ()


class _Bag:
    """Instructions by a key, each taken once, the last one first."""

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
        """One with that key that is not taken yet, one that fits if there is any."""
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
    """Of each key that one item only has, the item."""
    found: dict[object, _T] = {}
    twice = set()
    for item in items:
        at = key(item)
        if at in found:
            twice.add(at)
        found[at] = item
    return {at: item for at, item in found.items() if at not in twice}


def _same_op(x: Instruction, y: Instruction) -> bool:
    return x.op.name == y.op.name
