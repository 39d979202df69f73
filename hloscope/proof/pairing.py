"""Pairs of instructions of two programs that compute the same value, for comparing runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

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
    Slice,
    Transpose,
    Tuple,
    While,
    returned_values,
)
from hloscope.support.walks import needed_first, reached

# --------------------------------------------------------------------------------------------------
# Pairs of instructions of two programs that compute the same.
#
# Instructions are numbered by what they compute of the parameters: equal numbers mean equal values,
# except for rounding, whatever their names and order.  Instructions after a difference are paired
# by position: as users of paired operands.


CALLERS: Final = (AsyncStart, Call, Case, Composite, Fusion, While)
"""Ops that call computations on whole values, not on single elements."""
STRUCTURE: Final = (GetTupleElement, Parameter, Result, Return, Tuple)
"""Ops that compute nothing: parameters, tuples, and returns."""

_IGNORED_FIELDS: Final = frozenset(
    "settings compare_type precision_config algorithm sparsity sparsity_config channel_id"
    " channel_type".split()
)
"""Fields of ops that are not compared: the languages differ, or only rounding changes."""
_MOST_DIFFERENT_OPS: Final = 2
"""Largest number of ops that only one of two corresponding computations has."""

Pairs = dict[Instruction, Instruction]


def reachable(entry: Computation) -> list[Computation]:
    """Return a computation and those it calls on whole values, at any depth, each once."""

    def called(computation: Computation) -> Iterator[Computation]:
        return (c for ins in computation if isinstance(ins.op, CALLERS) for c in ins.calls)

    return list(reached([entry], called))


class _Numbers:
    """Assigns value numbers to instructions.

    Equal numbers mean equal values, if the parameters of the instructions' computations are equal.
    """

    def __init__(self) -> None:
        self._known: Final[dict[object, int]] = {}
        self._spread: Final[dict[int, tuple[int, tuple[int, ...]]]] = {}
        """The broadcast value and its dimensions, by the numbers of broadcasts and reshapes."""
        self._of: Final[dict[Computation, dict[Instruction, int]]] = {}

    def of(self, computation: Computation) -> dict[Instruction, int]:
        """Return the value numbers of a computation's instructions.

        Captured values are numbered in the order of their first use.
        """

        def called(at: Computation) -> list[Computation]:
            return [callee for ins in at for callee in ins.calls]

        for at in needed_first([computation], called, self._of):
            self._of[at] = self._numbered(at)
        return self._of[computation]

    def _number(self, key: object) -> int:
        """Return the value number for a key: a new one at first, the same for each equal key."""
        return self._known.setdefault(key, len(self._known))

    def within(
        self,
        computation: Computation,
        outer: Callable[[Instruction], object],
        settle: Callable[[Instruction, int], int] | None = None,
    ) -> dict[Instruction, int]:
        """Return the value numbers of a computation's instructions.

        Args:
            computation: The computation.
            outer: Returns a key of a value that the computation captures; equal keys get equal
                numbers.
            settle: Called with each instruction and its number; returns the number its users see.
        """
        self.of(computation)  # and all it calls
        return self._numbered(computation, outer, settle)

    def _numbered(
        self,
        computation: Computation,
        outer: Callable[[Instruction], object] | None = None,
        settle: Callable[[Instruction, int], int] | None = None,
    ) -> dict[Instruction, int]:
        """Return the value numbers of a computation's instructions.

        All computations that it calls must have been numbered before. The arguments are as in
        `within`.
        """
        found: dict[Instruction, int] = {}
        for i, parameter in enumerate(computation.body.parameters):
            found[parameter] = self._number(("parameter", i, without_layouts(parameter.type)))
        outside: dict[Instruction, int] = {}
        for ins in computation:
            if ins in found:
                continue
            read = [*ins.operands, *(captured(ins) if ins.calls else ())]
            for value in read:
                if value not in found and value not in outside:
                    # Without names, captured values are numbered by first use, so that equal
                    # regions have equal numbers.
                    name = outer(value) if outer else (len(outside), without_layouts(value.type))
                    outside[value] = self._number(("outer", name))
            numbers = [outside[v] if v in outside else found[v] for v in read]
            number = self._of_instruction(ins, numbers, found)
            found[ins] = settle(ins, number) if settle else number
        return found

    def _of_instruction(
        self, ins: Instruction, read: list[int], known: Mapping[Instruction, int]
    ) -> int:
        """Return the value number of an instruction, given those of its operands in `read`.

        `known` has the value numbers of earlier instructions of the computation.
        """
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
            return self._number(("multiply", (), without_layouts(ins.type), *read, *read))
        # Sorted operands: the order does not matter.
        if op.name in COMMUTATIVE:
            read = sorted(read)
        called = [tuple(self._of[c].get(v, -1) for v in returned_values(c)) for c in ins.calls]
        return self._number((op.name, _fields_key(op), without_layouts(ins.type), *read, *called))

    def _of_constant(self, ins: Instruction) -> int:
        """Return the value number of a constant.

        If all elements are equal, it is the number of a broadcast scalar.
        """
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
        """Return the value number of a broadcast or reshape; `operand` is that of its operand.

        Consecutive ones that only add dimensions of size 1 equal a single broadcast.
        """
        before = ins.operands[0].type
        if not isinstance(before, TensorType) or None in before.sizes:
            return self._number(
                (ins.op.name, _fields_key(ins.op), without_layouts(ins.type), operand)
            )
        base, dims = self._spread.get(operand, (operand, wide_dimensions(before)))
        places = places_of(ins.op, before, ins.type)
        if places is None:
            return self._number((ins.op.name, without_layouts(ins.type), operand))
        return self._spread_as(base, tuple(places[d] for d in dims), ins.type)

    def _spread_as(self, base: int, dims: tuple[int, ...], type_: Type) -> int:
        """Return the value number of a broadcast to a type.

        `base` is the value number of the broadcast value; `dims` has the result dimension of each
        of its dimensions of a size other than 1.
        """
        number = self._number(("spread", base, dims, without_layouts(type_)))
        self._spread[number] = base, dims
        return number


def wide_dimensions(type_: TensorType) -> tuple[int, ...]:
    """Return the dimensions of a type that have a size other than 1."""
    return tuple(d for d, size in enumerate(type_.sizes) if size != 1)


def places_of(op: Op, before: TensorType, after: Type) -> dict[int, int] | None:
    """Return the result dimension of each operand dimension of a size other than 1.

    `None` if such a dimension is merged or split.
    """
    assert isinstance(after, TensorType)
    wide = wide_dimensions(before)
    if isinstance(op, Transpose):
        return {d: op.permutation.index(d) for d in wide}
    if isinstance(op, BroadcastInDim):
        return {d: op.broadcast_dimensions[d] for d in wide}
    new = wide_dimensions(after)
    if [before.sizes[d] for d in wide] != [after.sizes[d] for d in new]:
        return None
    return dict(zip(wide, new, strict=True))


def _fields_key(op: Op) -> tuple[object, ...]:
    """Return the fields of an op that decide its value, as a hashable key."""
    return tuple(getattr(op, name) for name in op.__struct_fields__ if name not in _IGNORED_FIELDS)


def without_layouts(type_: Type) -> object:
    """Return the type without layouts, as a hashable key."""
    if isinstance(type_, TupleType):
        return tuple(map(without_layouts, type_.elements))
    if isinstance(type_, TensorType):
        return type_.element, type_.sizes
    return type_


def paired(mine: Computation, theirs: Computation) -> Pairs:
    """Return, for each instruction of `mine` that has a partner in `theirs`, this partner.

    Partners compute the same value, or correspond by position. Instructions of a called function
    are paired only if its calls are paired with the calls of the other function, in the same order:
    otherwise evaluations do not correspond.
    """
    numbers, pairs, partners = _Numbers(), Pairs(), Pairs()
    work, inside = [(mine, theirs)], dict[tuple[Computation, Computation], Pairs]()
    while work:
        a, b = work.pop()
        if (a, b) in inside:
            continue
        # Captured values have the name of their partner, so that regions are compared under the
        # pairs found around them.
        theirs_numbers = numbers.within(b, lambda value: value)
        pairing = _Pairing(a, b, pairs, partners, theirs_numbers)
        numbers.within(a, lambda value: pairs.get(value, value), pairing.settle)
        inside[a, b] = pairing.found
        for x, y in pairing.found.items():
            if isinstance(x.op, CALLERS) and isinstance(y.op, CALLERS):
                work += zip(x.calls, y.calls, strict=False)
    del inside[mine, theirs]
    _drop_unmatched_calls(pairs, inside, _sites(mine), _sites(theirs))
    return pairs


_Sites = Mapping[Computation, list[tuple[Computation, Instruction]]]


def _sites(entry: Computation) -> _Sites:
    """Return, for each called computation, its calls in order.

    A call is a pair of the calling computation and instruction.
    """
    found: defaultdict[Computation, list[tuple[Computation, Instruction]]] = defaultdict(list)
    for computation in reachable(entry):
        for ins in computation:
            for callee in ins.calls:
                found[callee].append((computation, ins))
    return found


def _drop_unmatched_calls(
    pairs: Pairs,
    inside: dict[tuple[Computation, Computation], Pairs],
    mine: _Sites,
    theirs: _Sites,
) -> None:
    """Remove pairs inside functions whose calls are not paired in the same order.

    Args:
        pairs: All pairs of instructions; changed.
        inside: The pairs inside two functions, by these functions; entries of functions whose calls
            are not paired are removed.
        mine: The calls of each function of the first program.
        theirs: The calls of each function of the second program.
    """

    def corresponds(a: Computation, b: Computation) -> bool:
        in_one_place = len({where for where, _ in mine[a]}) == 1
        return in_one_place and [pairs.get(x) for _, x in mine[a]] == [y for _, y in theirs[b]]

    # Removed pairs may be calls of further functions, so the check is repeated until none is
    # wrong.
    while True:
        wrong = [(a, b) for a, b in inside if not corresponds(a, b)]
        if not wrong:
            return
        for both in wrong:
            for x in inside.pop(both):
                pairs.pop(x, None)


class _Pairing:
    """The pairs of two computations.

    `pairs` and `partners` already contain the pairs of the computations that call them.
    """

    def __init__(
        self,
        a: Computation,
        b: Computation,
        pairs: Pairs,
        partners: Pairs,
        numbers: Mapping[Instruction, int],
    ) -> None:
        """Start with the pairs of the parameters of equal type.

        Args:
            a: The computation of the first program.
            b: The computation of the second program.
            pairs: Partners by instructions of the first program, those of the callers included.
            partners: Partners by instructions of the second program.
            numbers: Value numbers of the instructions of `b`.
        """
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
            if without_layouts(x.type) == without_layouts(y.type):
                self._pair(x, y)

    def _pair(self, x: Instruction, y: Instruction) -> None:
        """Record a pair, unless `x` has a partner."""
        if x not in self.pairs:
            self.pairs[x] = self.found[x] = y
            self.partners.setdefault(y, x)

    def settle(self, x: Instruction, number: int) -> int:
        """Pair an instruction if possible; return its partner's value number, or its own, `number`.

        Instructions with equal numbers are paired first; one may be the partner of several.
        Otherwise the partner is the most similar instruction with the same operands, if only one
        is.
        """
        if x in self.pairs:
            return self.numbers.get(self.pairs[x], number)
        found = self.same.get(number)
        if found:
            self._pair(x, found.pop() if len(found) > 1 else found[0])
            return number
        if not isinstance(x.op, Return):
            ranked = [(self._similarity(x, y), y) for y in self._candidates(x)]
            best = max((rank for rank, _ in ranked), default=0)
            likely = [y for rank, y in ranked if rank == best]
            if best and len(likely) == 1:
                self._pair(x, likely[0])
                return self.numbers[likely[0]]
        return number

    def _candidates(self, x: Instruction) -> Iterator[Instruction]:
        """Yield the instructions of the second program that may be the partner of an instruction.

        They have no partner, have the same type, and use the partner of one of its operands.
        """
        read = [self.pairs[operand] for operand in x.operands if operand in self.pairs]
        for y in dict.fromkeys(user for value in read for user in self.users.get(value, ())):
            if y not in self.partners and without_layouts(y.type) == without_layouts(x.type):
                yield y

    def _similarity(self, x: Instruction, y: Instruction) -> int:
        """Return a score for how similar `y` is to `x`; 0 if it cannot be its partner.

        An instruction with another op or other attributes needs the same name and paired operands:
        then one program is a modified copy of the other.
        """
        if len(x.operands) != len(y.operands):
            return 0
        same = (
            x.op.name == y.op.name
            and _fields_key(x.op) == _fields_key(y.op)
            and _are_similar_calls(x, y)
        )
        named = x.name == y.name
        operands = list(zip(x.operands, y.operands, strict=True))
        exact = [self.pairs.get(p) is q for p, q in operands]
        if all(exact) and (same or named):
            return 4 + 2 * same + named
        fits = [e or self._unpaired(p, q) for e, (p, q) in zip(exact, operands, strict=True)]
        # A constant operand is shared by many ops, so it does not identify one.
        telling = any(e and not _is_constant(p) for e, p in zip(exact, x.operands, strict=True))
        return 1 + named if same and telling and all(fits) else 0

    def _unpaired(self, p: Instruction, q: Instruction) -> bool:
        """Do operands `p` and `q` have no partner, but the same op and type?"""
        known = p in self.pairs or q in self.partners
        return (
            not known
            and p.op.name == q.op.name
            and without_layouts(p.type) == without_layouts(q.type)
        )


def _is_constant(ins: Instruction) -> bool:
    """Is the instruction a constant or a broadcast of one, which many ops may read?"""
    while isinstance(ins.op, BroadcastInDim | Reshape):
        (ins,) = ins.operands
    return isinstance(ins.op, Constant)


def _are_similar_calls(x: Instruction, y: Instruction) -> bool:
    """Do two instructions call equally many computations with almost the same ops?

    The computations are compared in order. At most `_MOST_DIFFERENT_OPS` ops of two computations
    may occur in only one of them, by op name; parameters, tuples and returns are not counted.
    """
    return len(x.calls) == len(y.calls) and all(
        sum(((a := _ops(c)) - (b := _ops(d)) + (b - a)).values()) <= _MOST_DIFFERENT_OPS
        for c, d in zip(x.calls, y.calls, strict=True)
    )


def _ops(computation: Computation) -> Counter[str]:
    """Return the number of ops of a computation, by op name."""
    return Counter(ins.op.name for ins in computation if not isinstance(ins.op, STRUCTURE))


# --------------------------------------------------------------------------------------------------
# Ops that return an operand unchanged: with a neutral element, no effect, or a known part.


COMMUTATIVE: Final = frozenset(["add", "and", "maximum", "minimum", "multiply", "or", "xor"])
_NEUTRAL: Final = {
    "add": (0, "iu"),
    "and": (1, "b"),
    "divide": (1, "iuf"),
    "multiply": (1, "iuf"),
    "or": (0, "biu"),
    "subtract": (0, "iuf"),
    "xor": (0, "biu"),
}
"""Neutral right operand of each op, with the numpy kinds for which it is neutral.

Floats have none in a sum: `x + 0.0` is not `x` for -0.0.
"""
_PARTS: Final = {"slice": 0, "dynamic_slice": 0, "dynamic_update_slice": 1}
"""Number of the operand that such an op returns unchanged if it has the result's type."""


def is_empty(type_: Type) -> bool:
    """Is the type an array without elements?

    All values of such a type are equal.
    """
    return isinstance(type_, TensorType) and 0 in type_.sizes


class Identities:
    """Finds ops that return an operand unchanged. Values are identified by value numbers.

    Attributes:
        values: Elements of each constant by value number: an array, or a scalar if all are equal.
    """

    def __init__(self) -> None:
        self.values: Final[dict[int, Any]] = {}
        self._joined: Final[dict[int, dict[tuple[int, int, int], int]]] = {}
        """Operands of concatenations, by dimension and bounds."""

    def unchanged(self, ins: Instruction, operands: list[int]) -> int | None:
        """Return the value number of the operand that an op returns unchanged, or `None`.

        `operands` are the value numbers of the operands, in order.
        """
        op = ins.op
        neutral = _NEUTRAL.get(op.name)
        if neutral is not None:
            # Only the second operand of a non-commutative op may be neutral: `0 - x` is not `x`.
            kept = [number for number in operands if not self._is_all(number, *neutral)]
            if len(kept) == 1 and (op.name in COMMUTATIVE or kept == operands[:1]):
                return kept[0]
        if op.name == "compare":
            return self._compared_operand(ins, operands)
        if op.name == "reverse" and self._reverses_nothing(ins):
            return operands[0]
        if op.name == "slice" and operands[0] in self._joined:
            part = self._part(ins, operands[0])
            if part is not None:
                return part
        if op.name in _PARTS and without_layouts(ins.type) == without_layouts(
            ins.operands[_PARTS[op.name]].type
        ):
            return operands[_PARTS[op.name]]
        if op.name == "pad" and without_layouts(ins.type) == without_layouts(ins.operands[0].type):
            amounts = (op.edge_padding_low, op.edge_padding_high, op.interior_padding)  # type: ignore[attr-defined]
            if not any(amount for each in amounts for amount in each):
                return operands[0]
        if op.name == "concatenate":
            full = [
                number
                for number, value in zip(operands, ins.operands, strict=True)
                if not is_empty(value.type)
            ]
            return full[0] if len(full) == 1 else None
        return None

    def joined(self, number: int, ins: Instruction, operands: list[int]) -> None:
        """Record the extents of operands in a concatenation, so that slices are recognized.

        Args:
            number: Value number of the concatenation.
            ins: The concatenation.
            operands: Value numbers of its operands.
        """
        dimension: int = ins.op.dimension  # type: ignore[attr-defined]
        found = self._joined.setdefault(number, {})
        start = 0
        for operand, value in zip(operands, ins.operands, strict=True):
            size = value.type.sizes[dimension] if isinstance(value.type, TensorType) else None
            if size is None:
                break
            found[dimension, start, start + size] = operand
            start += size

    def _part(self, ins: Instruction, joined: int) -> int | None:
        """Return the value number of the operand of a concatenation that equals a slice of it.

        `joined` is the value number of the concatenation. `None` if the slice is no whole operand.
        """
        op, (whole,) = ins.op, ins.operands
        assert isinstance(op, Slice)
        assert isinstance(whole.type, TensorType)
        bounds = zip(op.start_indices, op.limit_indices, whole.type.sizes, strict=True)
        cut = [(d, lo, hi) for d, (lo, hi, size) in enumerate(bounds) if (lo, hi) != (0, size)]
        if len(cut) != 1 or any(step != 1 for step in op.strides):
            return None
        return self._joined[joined].get(cut[0])

    def _compared_operand(self, ins: Instruction, operands: list[int]) -> int | None:
        """Return the operand `x` of a comparison `x != false` or `x == true`, as a value number.

        `operands` are the value numbers of the comparison's operands. `None` for other comparisons.
        """
        wanted = {"NE": False, "EQ": True}.get(ins.op.comparison_direction)  # type: ignore[attr-defined]
        if wanted is None or len(operands) != 2:
            return None
        for number, other in (operands, operands[::-1]):
            value = self.values.get(other)
            if value is not None and not value.shape and value.dtype.kind == "b":
                return number if bool(value) is wanted else None
        return None

    def _is_all(self, number: int, element: int, kinds: str) -> bool:
        """Is the value with value number `number` a constant whose elements all equal `element`?

        `kinds` has the letters of numpy's kinds of element types; other types give false.
        """
        value = self.values.get(number)
        is_one = value is not None and not value.shape and value.dtype.kind in kinds
        if not is_one or value != element:
            return False
        return value.dtype.kind != "f" or not np.signbit(value)

    @staticmethod
    def _reverses_nothing(ins: Instruction) -> bool:
        """Do all dimensions that a `reverse` reverses have at most one element?"""
        type_ = ins.type
        assert isinstance(type_, TensorType)
        sizes = [type_.sizes[d] for d in ins.op.dimensions]  # type: ignore[attr-defined]
        return all(size is not None and size <= 1 for size in sizes)
