"""Integers known before the program runs: constants, iotas and values computed from them.

Runtime variables with such a value are replaced by it, clamped as the op clamps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeAlias

from hloscope.affine import Const, Expr, Interval, Runtime, Var, first_dims, maximum, minimum
from hloscope.indexing import (
    Accesses,
    IndexingMap,
    Precision,
    replace_runtime,
    substituted,
    substituted_constraints,
)
from hloscope.ir import Instruction, Literal, Op, TensorType, Type
from hloscope.ops import (
    ELEMENTWISE,
    Bitcast,
    BroadcastInDim,
    Compare,
    Concatenate,
    Constant,
    Elementwise,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from hloscope.simplifier import Domain

Index: TypeAlias = tuple[Expr, ...]
Rule: TypeAlias = Callable[[Instruction], tuple[Accesses, ...]]
"""Function that returns the accesses of an instruction to each operand."""

MAX_DEPTH: Final = 64
"""Maximum number of instructions between a value and the constants it is computed from."""
_MOVES: Final = BroadcastInDim, Reshape, Transpose, Slice, Reverse, Bitcast, Concatenate, Pad
MOVES: Final[frozenset[type[Op]]] = frozenset([*_MOVES, ELEMENTWISE["copy"]])
"""Ops whose result elements are unchanged operand elements."""


def fold_runtime(map: IndexingMap, rule: Rule) -> IndexingMap:
    """Return the map with each runtime variable whose value is known replaced by the value.

    A value is known if it is computed from constants and iotas.

    Args:
        map: A map of an instruction.
        rule: Returns the accesses of the instructions that compute the indices.
    """
    seen: dict[Instruction, bool] = {}
    if not any([v.origin is not None and may_be_known(v.origin, seen) for v in map.runtime]):
        return map
    domain = map.domain
    values = Values(domain, rule)
    known: dict[Var, Expr] = {}
    for i, variable in enumerate(map.runtime):
        if variable.origin is None:
            continue
        value = values.of(variable.origin, variable.index)
        if value is not None:
            known[Runtime(i)] = _clamped(value, domain.bounds(value), variable.values)
    return replace_runtime(map, known) if known else map


def may_be_known(ins: Instruction, known: dict[Instruction, bool], depth: int = 0) -> bool:
    """May the value be computed from constants and iotas?

    `False` means that it is not.

    Args:
        ins: The instruction whose value it is.
        known: Results for other instructions; the new ones are added.
        depth: Number of steps from the first value that was asked for to this one, its producer.
    """
    found = known.get(ins)
    if found is None:
        found = known[ins] = depth >= MAX_DEPTH or _has_known_operands(ins, known, depth + 1)
    return found


def _has_known_operands(ins: Instruction, memo: dict[Instruction, bool], depth: int) -> bool:
    """Return the result of `may_be_known` without the memo, from the operands.

    `memo` has the results for other instructions, and `depth` is that of the operands.
    """
    op = ins.op
    if isinstance(op, Constant | Iota):
        return True
    is_move = type(op) in MOVES
    if not is_move and not (isinstance(op, Elementwise) and op.name in ARITHMETIC):
        return False
    known = [may_be_known(operand, memo, depth) for operand in ins.operands]
    if op.name == "select":
        return any(known[1:])
    return any(known) if is_move else all(known)


def _clamped(value: Expr, bounds: Interval, valid: Interval) -> Expr:
    """Return the value clamped to the interval `valid`.

    `bounds` is an interval that contains the value. Where it does not exceed an end of `valid`, no
    term for that end is added.
    """
    if valid.contains(bounds):
        return value
    if bounds.hi > valid.hi:
        value = minimum(value, valid.hi)
    return maximum(value, valid.lo) if bounds.lo < valid.lo else value


class Values:
    """Computes elements of integer tensors as expressions over the variables of a domain."""

    def __init__(self, domain: Domain, rule: Rule) -> None:
        self._domain = domain
        self._rule = rule
        # A value may be reached along exponentially many paths of an expression.
        self._known: dict[tuple[Instruction, Index], Expr | None] = {}

    def of(self, ins: Instruction, index: Index, depth: int = 0) -> Expr | None:
        """Return the element of `ins` at `index`; `None` if it is not known as one expression.

        `depth` is the number of steps from the first value that was asked for to this one, its
        producer. From `MAX_DEPTH` on the value counts as unknown.
        """
        key = (ins, index)
        if key not in self._known:
            value = self._of(ins, index, depth) if depth < MAX_DEPTH else None
            if value is not None:
                value = self._domain.simplify(value)
                # Machine integers wrap around, expressions do not: a value that may overflow is
                # unknown.
                if not _fits(self._domain.bounds(value), ins.type):
                    value = None
            self._known[key] = value
        return self._known[key]

    def _of(self, ins: Instruction, index: Index, depth: int) -> Expr | None:
        """Return what `of` memoizes: the element of `ins` at `index`, by its op."""
        if not isinstance(ins.type, TensorType) or not ins.type.is_static:
            return None
        # Only integers, and only a complete index, can be an affine expression.
        if _limits(ins.type) is None or len(index) != ins.type.rank:
            return None
        match ins.op:
            case Constant(literal):
                return _constant(literal, ins.type, index)
            case Iota(dimension):
                return index[dimension]
            case op if type(op) in MOVES:
                return self._moved(ins, index, depth + 1)
            case Elementwise() as op if op.name in ARITHMETIC:
                known = [self._operand(o, index, depth + 1) for o in ins.operands]
                if op.name == "select":
                    return self._select(known)
                if isinstance(op, Compare):
                    return self._compare(op.comparison_direction, known)
                if None in known:
                    return None
                return ARITHMETIC[op.name](self._domain, *[e for e in known if e is not None])
            case _:
                return None

    def _operand(self, operand: Instruction, index: Index, depth: int) -> Expr | None:
        """Return the operand's element that an element-wise op reads for its element at `index`.

        A scalar has only one element, for any index. `depth` is the number of steps from the first
        value that was asked for to the operand.
        """
        is_scalar = isinstance(operand.type, TensorType) and not operand.type.sizes
        return self.of(operand, () if is_scalar else index, depth)

    def _moved(self, ins: Instruction, index: Index, depth: int) -> Expr | None:
        """Return the element at `index` of an op that only moves elements, or `None`.

        The result is `None` if the index that it reads is not known as one expression.
        """
        at: dict[Var, Expr] = dict(zip(first_dims(len(index)), index, strict=True))
        for operand, accesses in zip(ins.operands, self._rule(ins), strict=True):
            for access in accesses:
                map = access.map
                if map is None or access.precision is not Precision.EXACT:
                    return None
                if map.ranges or map.runtime:
                    return None
                match self._holds(map, index, at):
                    case None:
                        return None  # for some indices only
                    case True:
                        return self.of(operand, substituted(map.results, at), depth)
        return None

    def _holds(self, map: IndexingMap, index: Index, at: dict[Var, Expr]) -> bool | None:
        """Do all values of the index lie in the domain of the map?

        The result is `False` if none does, and `None` if only some do or it is undecided.

        Args:
            map: The map, from indices to elements.
            index: The index, as expressions in the variables of this object's domain.
            at: The expression for each variable of the map.
        """
        conditions = [(e, v.interval) for e, v in zip(index, map.dims, strict=True)]
        conditions += substituted_constraints(map.constraints, at)
        found: bool | None = True
        for e, interval in conditions:
            bounds = self._domain.bounds(e)
            if (bounds & interval).is_empty:
                return False
            if not interval.contains(bounds):
                found = None
        return found

    def _select(self, known: Sequence[Expr | None]) -> Expr | None:
        """Return the value of a `select` with a constant condition or equal branches, or `None`.

        `known` has the values of the three operands; `None` for an unknown one.
        """
        condition, on_true, on_false = known
        match condition:
            case Const(value):
                return on_true if value else on_false
            case _:
                return on_true if on_true is on_false else None

    def _compare(self, direction: str, known: Sequence[Expr | None]) -> Expr | None:
        """Return 1 or 0 if bounds of the difference decide the comparison, else `None`.

        `direction` is that of HLO, such as `LT`. `known` has both operands; `None` for an unknown
        one.
        """
        left, right = known
        if left is None or right is None:
            return None
        difference = self._domain.bounds(self._domain.simplify(left - right))
        zero = Interval(0, 0)
        decided = {
            "LT": difference.lt(zero),
            "LE": difference.le(zero),
            "GT": difference.gt(zero),
            "GE": difference.ge(zero),
            "EQ": difference.eq(zero),
            "NE": difference.ne(zero),
        }.get(direction)
        return None if decided is None else Const(int(decided))


def _product(_: Domain, x: Expr, y: Expr) -> Expr | None:
    """Return the product if one factor is a constant, else `None`.

    Other products are not affine.
    """
    return x * y if isinstance(x, Const) or isinstance(y, Const) else None


def _quotient(domain: Domain, x: Expr, y: Expr) -> Expr | None:
    """Return `x / y` if `y` is a positive constant and `x` not negative, else `None`.

    HLO rounds towards zero, `//` downwards; they agree on these values.
    """
    is_easy = isinstance(y, Const) and y.value > 0 and domain.bounds(x).lo >= 0
    return x // y if is_easy else None


def _remainder(domain: Domain, x: Expr, y: Expr) -> Expr | None:
    """Return the remainder if `y` is a positive constant and `x` not negative, else `None`."""
    is_easy = isinstance(y, Const) and y.value > 0 and domain.bounds(x).lo >= 0
    return x % y if is_easy else None


def _absolute(domain: Domain, x: Expr) -> Expr | None:
    """Return the absolute value if the sign is known, else `None`."""
    bounds = domain.bounds(x)
    return x if bounds.lo >= 0 else -x if bounds.hi <= 0 else None


def _never(_: Domain, *__: Expr) -> None:
    """Return `None`, for ops that `Values` evaluates itself."""
    return None


ARITHMETIC: Final[dict[str, Callable[..., Expr | None]]] = {
    "add": lambda _, x, y: x + y,
    "subtract": lambda _, x, y: x - y,
    "multiply": _product,
    "negate": lambda _, x: -x,
    "divide": _quotient,
    "remainder": _remainder,
    "maximum": lambda _, x, y: maximum(x, y),
    "minimum": lambda _, x, y: minimum(x, y),
    "clamp": lambda _, low, x, high: minimum(maximum(x, low), high),
    "abs": _absolute,
    "convert": lambda _, x: x,
    "select": _never,  # decided by the condition: `Values._select`
    "compare": _never,  # decided by bounds: `Values._compare`
}
"""By element-wise op, a function of a domain and operand values that returns the result.

It returns `None` if the result is not an expression.
"""


def _limits(type: Type) -> Interval | None:
    """Return the range of the element type; `None` if it is neither integer nor boolean."""
    if not isinstance(type, TensorType):
        return None
    limits = type.element.integer_limits
    return None if limits is None else Interval(*limits)


def _fits(bounds: Interval, type: Type) -> bool:
    """Can the element type hold all values within the bounds?"""
    limits = _limits(type)
    return limits is not None and bounds.is_finite and limits.contains(bounds)


def _constant(literal: Literal, type: TensorType, index: Index) -> Expr | None:
    """Return the element of a constant at `index`, or `None`.

    It is found if all elements are equal, the index is constant, or the elements are an affine
    function of the index.
    """
    elements, shape = literal.integers(type), type.shape
    if not elements:
        return None
    if len(set(elements)) == 1:
        return Const(elements[0])
    if len(elements) != prod(shape):
        return None
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    place = sum((e * stride for e, stride in zip(index, strides, strict=True)), Const(0))
    if isinstance(place, Const):
        return Const(elements[place.value])
    steps = [
        elements[stride] - elements[0] if size > 1 else 0
        for size, stride in zip(shape, strides, strict=True)
    ]
    # The differences to the next element along each axis determine the only possible affine
    # function; every element has to agree with it.
    for at, element in enumerate(elements):
        grid = [(at // stride) % size for size, stride in zip(shape, strides, strict=True)]
        even = elements[0] + sum(step * i for step, i in zip(steps, grid, strict=True))
        if element != even:
            return None
    return sum((e * step for e, step in zip(index, steps, strict=True)), Const(elements[0]))
