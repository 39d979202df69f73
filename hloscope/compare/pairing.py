"""Which instructions of two programs do the same.

Instructions get numbers by what they compute of the parameters, so that equal numbers mean equal
values (but for rounding), whatever the names and the order.  What follows a difference is paired by
its neighbourhood: the same place in front of paired operands.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from hloscope.compare.identities import COMMUTATIVE
from hloscope.errors import HloscopeError
from hloscope.interpreter import World, kernel
from hloscope.ir import Computation, Instruction, Op, TensorType, TupleType, Type, captured
from hloscope.ops import (
    AsyncStart,
    BroadcastInDim,
    Call,
    Case,
    Composite,
    Constant,
    Fusion,
    GetTupleElement,
    Parameter,
    Reshape,
    Result,
    Return,
    Tuple,
    While,
)
from hloscope.walks import needed_first, reached

CALLERS: Final = (AsyncStart, Call, Case, Composite, Fusion, While)
"""Ops whose computations see whole values, not elements."""
STRUCTURE: Final = (GetTupleElement, Parameter, Result, Return, Tuple)
"""Ops that compute nothing."""

_BY_THE_WAY: Final = frozenset(
    "settings compare_type precision_config algorithm sparsity sparsity_config channel_id"
    " channel_type".split()
)
"""Fields that the two languages write differently, or that do not change values much."""
_MOST_UNLIKE: Final = 2
"""Most ops that are not in both of two computations which may be the same."""

Pairs = dict[Instruction, Instruction]


def reachable(entry: Computation) -> list[Computation]:
    """The computation and those it calls with whole values, each once."""

    def called(computation: Computation) -> Iterator[Computation]:
        return (c for ins in computation if isinstance(ins.op, CALLERS) for c in ins.calls)

    return list(reached([entry], called))


class _Numbers:
    """Numbers of instructions: equal ones compute the same of their computations' parameters."""

    def __init__(self) -> None:
        self._known: Final[dict[object, int]] = {}
        self._spread: Final[dict[int, tuple[int, tuple[int, ...]]]] = {}
        """Of numbers of broadcasts and reshapes: what is spread along which dimensions."""
        self._of: Final[dict[Computation, dict[Instruction, int]]] = {}

    def of(self, computation: Computation) -> dict[Instruction, int]:
        """The numbers of a computation's instructions."""

        def called(at: Computation) -> list[Computation]:
            return [callee for ins in at for callee in ins.calls]

        for at in needed_first([computation], called, self._of):
            self._of[at] = self._numbered(at)
        return self._of[computation]

    def _number(self, key: object) -> int:
        return self._known.setdefault(key, len(self._known))

    def within(
        self,
        computation: Computation,
        outer: Callable[[Instruction], object],
        settle: Callable[[Instruction, int], int] | None = None,
    ) -> dict[Instruction, int]:
        """The numbers of a computation's instructions.

        Args:
            computation: The computation.
            outer: Gives the name of an outer value.
            settle: Is told each instruction and its number, and gives the one to use for it.
        """
        self.of(computation)  # and all it calls
        return self._numbered(computation, outer, settle)

    def _numbered(
        self,
        computation: Computation,
        outer: Callable[[Instruction], object] | None = None,
        settle: Callable[[Instruction, int], int] | None = None,
    ) -> dict[Instruction, int]:
        found: dict[Instruction, int] = {}
        for i, parameter in enumerate(computation.body.parameters):
            found[parameter] = self._number(("parameter", i, plain(parameter.type)))
        outside: dict[Instruction, int] = {}
        for ins in computation:
            if ins in found:
                continue
            read = [*ins.operands, *(captured(ins) if ins.calls else ())]
            for value in read:
                if value not in found and value not in outside:
                    name = outer(value) if outer else (len(outside), plain(value.type))
                    outside[value] = self._number(("outer", name))
            numbers = [outside[v] if v in outside else found[v] for v in read]
            number = self._of_instruction(ins, numbers, found)
            found[ins] = settle(ins, number) if settle else number
        return found

    def _of_instruction(
        self, ins: Instruction, read: list[int], known: Mapping[Instruction, int]
    ) -> int:
        op = ins.op
        if isinstance(op, Constant):
            return self._of_constant(ins)
        if isinstance(op, BroadcastInDim | Reshape):
            return self._of_spread(ins, read[0])
        if isinstance(op, GetTupleElement | Result):
            (whole,) = ins.operands
            if isinstance(whole.op, Tuple) and whole in known:
                return known[whole.operands[op.index]]
            return self._number(("part", op.index, *read))
        if op.name == "chlo.square":
            return self._number(("multiply", (), plain(ins.type), *read, *read))
        if op.name in COMMUTATIVE:
            read = sorted(read)
        called = [tuple(self._of[c].get(v, -1) for v in _returned(c)) for c in ins.calls]
        return self._number((op.name, essence(op), plain(ins.type), *read, *called))

    def _of_constant(self, ins: Instruction) -> int:
        """One of equal elements is a spread element."""
        try:
            value: Any = kernel(ins, World())()
        except HloscopeError:
            return self._number(("constant", ins.op))
        if isinstance(value, tuple):
            return self._number(("constant", ins.op))
        array = np.asarray(value)
        content: object = array.dtype.name, array.shape, array.tobytes()
        first = array.reshape(-1)[:1].tobytes()
        if array.size and array.tobytes() == first * array.size:
            element = self._number(("element", array.dtype.name, first))
            return self._spread_as(element, (), ins.type)
        return self._number(("constant", content))

    def _of_spread(self, ins: Instruction, operand: int) -> int:
        """Spread again, and with dimensions of size 1 more or less, it is spread once."""
        before = ins.operands[0].type
        if not isinstance(before, TensorType) or None in before.sizes:
            return self._number((ins.op.name, essence(ins.op), plain(ins.type), operand))
        base, dims = self._spread.get(operand, (operand, _wide(before)))
        places = _places(ins.op, before, ins.type)
        if places is None:
            return self._number((ins.op.name, plain(ins.type), operand))
        return self._spread_as(base, tuple(places[d] for d in dims), ins.type)

    def _spread_as(self, base: int, dims: tuple[int, ...], type_: Type) -> int:
        number = self._number(("spread", base, dims, plain(type_)))
        self._spread[number] = base, dims
        return number


def _returned(computation: Computation) -> tuple[Instruction, ...]:
    root = computation.root
    return root.operands if isinstance(root.op, Return | Tuple) else (root,)


def _wide(type_: TensorType) -> tuple[int, ...]:
    """Dimensions of more or less than one element."""
    return tuple(d for d, size in enumerate(type_.sizes) if size != 1)


def _places(op: Op, before: TensorType, after: Type) -> dict[int, int] | None:
    """Where the wide dimensions of the operand are in the result; `None` if they are not kept."""
    assert isinstance(after, TensorType)
    wide = _wide(before)
    if isinstance(op, BroadcastInDim):
        return {d: op.broadcast_dimensions[d] for d in wide}
    new = _wide(after)
    if [before.sizes[d] for d in wide] != [after.sizes[d] for d in new]:
        return None
    return dict(zip(wide, new, strict=True))


def essence(op: Op) -> tuple[object, ...]:
    """What an op does, but for how and on whose account."""
    return tuple(getattr(op, name) for name in op.__struct_fields__ if name not in _BY_THE_WAY)


def plain(type_: Type) -> object:
    """The type without its layout."""
    if isinstance(type_, TupleType):
        return tuple(map(plain, type_.elements))
    if isinstance(type_, TensorType):
        return type_.element, type_.sizes
    return type_


def paired(mine: Computation, theirs: Computation) -> Pairs:
    """Instructions of `mine` with those of `theirs` that do the same, or stand in their place.

    Those of a function are paired only if its calls are those of the other function, in the same
    order: else its evaluations do not correspond.
    """
    numbers, pairs, partners = _Numbers(), Pairs(), Pairs()
    work, inside = [(mine, theirs)], dict[tuple[Computation, Computation], Pairs]()
    while work:
        a, b = work.pop()
        if (a, b) in inside:
            continue
        theirs_numbers = numbers.within(b, lambda value: value)
        pairing = _Pairing(a, b, pairs, partners, theirs_numbers)
        numbers.within(a, lambda value: pairs.get(value, value), pairing.settle)
        inside[a, b] = pairing.found
        for x, y in pairing.found.items():
            if isinstance(x.op, CALLERS) and isinstance(y.op, CALLERS):
                work += zip(x.calls, y.calls, strict=False)
    del inside[mine, theirs]
    _drop_unlike_calls(pairs, inside, _sites(mine), _sites(theirs))
    return pairs


_Sites = Mapping[Computation, list[tuple[Computation, Instruction]]]


def _sites(entry: Computation) -> _Sites:
    """The instructions that call each computation, and where they stand, in order."""
    found: defaultdict[Computation, list[tuple[Computation, Instruction]]] = defaultdict(list)
    for computation in reachable(entry):
        for ins in computation:
            for callee in ins.calls:
                found[callee].append((computation, ins))
    return found


def _drop_unlike_calls(
    pairs: Pairs,
    inside: dict[tuple[Computation, Computation], Pairs],
    mine: _Sites,
    theirs: _Sites,
) -> None:
    """Take back the pairs inside functions whose calls are not paired, in the same order."""

    def corresponds(a: Computation, b: Computation) -> bool:
        in_one_place = len({where for where, _ in mine[a]}) == 1
        return in_one_place and [pairs.get(x) for _, x in mine[a]] == [y for _, y in theirs[b]]

    while True:
        wrong = [(a, b) for a, b in inside if not corresponds(a, b)]
        if not wrong:
            return
        for both in wrong:
            for x in inside.pop(both):
                pairs.pop(x, None)


class _Pairing:
    """The pairs of two computations; `pairs` and `partners` begin with those around them."""

    def __init__(
        self,
        a: Computation,
        b: Computation,
        pairs: Pairs,
        partners: Pairs,
        numbers: Mapping[Instruction, int],
    ) -> None:
        self.pairs: Final = pairs
        self.partners: Final = partners
        self.found: Final = Pairs()
        self.numbers: Final = numbers
        self.same: Final[defaultdict[int, list[Instruction]]] = defaultdict(list)
        for y, number in reversed(list(numbers.items())):
            self.same[number].append(y)
        self.users: Final[defaultdict[Instruction, list[Instruction]]] = defaultdict(list)
        for y in b:
            for operand in dict.fromkeys(y.operands):
                self.users[operand].append(y)
        for x, y in zip(a.body.parameters, b.body.parameters, strict=False):
            if plain(x.type) == plain(y.type):
                self._pair(x, y)

    def _pair(self, x: Instruction, y: Instruction) -> None:
        if x not in self.pairs:
            self.pairs[x] = self.found[x] = y
            self.partners.setdefault(y, x)

    def settle(self, x: Instruction, number: int) -> int:
        """Pair an instruction, if it can be; the number of its partner, or its own.

        By number: one may stand for several that are equal.  Else by place: with the only one most
        like it that reads the same.
        """
        if x in self.pairs:
            return self.numbers.get(self.pairs[x], number)
        found = self.same.get(number)
        if found:
            self._pair(x, found.pop() if len(found) > 1 else found[0])
            return number
        if not isinstance(x.op, Return):
            ranked = [(self._alike(x, y), y) for y in self._candidates(x)]
            best = max((rank for rank, _ in ranked), default=0)
            likely = [y for rank, y in ranked if rank == best]
            if best and len(likely) == 1:
                self._pair(x, likely[0])
                return self.numbers[likely[0]]
        return number

    def _candidates(self, x: Instruction) -> Iterator[Instruction]:
        read = [self.pairs[operand] for operand in x.operands if operand in self.pairs]
        for y in dict.fromkeys(user for value in read for user in self.users.get(value, ())):
            if y not in self.partners and plain(y.type) == plain(x.type):
                yield y

    def _alike(self, x: Instruction, y: Instruction) -> int:
        """How much `y` is like `x`; 0 if it is something else.

        Another op, or one with other attributes, needs the same name and all the same operands:
        then one program is a changed copy of the other.
        """
        if len(x.operands) != len(y.operands):
            return 0
        same = x.op.name == y.op.name and essence(x.op) == essence(y.op) and _calls_alike(x, y)
        named = x.name == y.name
        operands = list(zip(x.operands, y.operands, strict=True))
        exact = [self.pairs.get(p) is q for p, q in operands]
        if all(exact) and (same or named):
            return 4 + 2 * same + named
        fits = [e or self._unpaired(p, q) for e, (p, q) in zip(exact, operands, strict=True)]
        telling = any(e and not _is_constant(p) for e, p in zip(exact, x.operands, strict=True))
        return 1 + named if same and telling and all(fits) else 0

    def _unpaired(self, p: Instruction, q: Instruction) -> bool:
        """Is neither of two operands, of one kind, the same as another value?"""
        known = p in self.pairs or q in self.partners
        return not known and p.op.name == q.op.name and plain(p.type) == plain(q.type)


def _is_constant(ins: Instruction) -> bool:
    """Is it a constant, perhaps spread?  Many ops read the same ones."""
    while isinstance(ins.op, BroadcastInDim | Reshape):
        (ins,) = ins.operands
    return isinstance(ins.op, Constant)


def _calls_alike(x: Instruction, y: Instruction) -> bool:
    """Do the computations called have about the same ops?"""
    return len(x.calls) == len(y.calls) and all(
        sum(((a := _ops(c)) - (b := _ops(d)) + (b - a)).values()) <= _MOST_UNLIKE
        for c, d in zip(x.calls, y.calls, strict=True)
    )


def _ops(computation: Computation) -> Counter[str]:
    return Counter(ins.op.name for ins in computation if not isinstance(ins.op, STRUCTURE))
