"""Integer elements that are known without arguments: of constants, iotas and simple arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.affine import NEG_INF, POS_INF
from hloscope.indexing import Precision, RuntimeVariable, output_to_input, ravel, unravel
from hloscope.ir import Instruction, Literal, TensorType, Type
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
from hloscope.simplifier import UndecidedError
from hloscope.support.arrays import Array, Bools, Ints, np

# --------------------------------------------------------------------------------------------------
# Integers known before the program runs: constants, iotas and values computed from them.
#
# Elements are computed on demand, so that large tensors cost nothing.  Values are exact: beyond
# int64 they are Python integers.


MAX_ELEMENTS: Final = 1 << 16
"""Tensors with at most this many elements are computed completely, once."""
MOST_WORK: Final = 1 << 24
"""Limit of the elements that are computed for one query."""
A_STEP: Final = 1 << 11
"""Least number of elements that an instruction is counted as."""
_MOVES: Final = (
    BroadcastInDim,
    Reshape,
    Transpose,
    Slice,
    Reverse,
    Bitcast,
    Concatenate,
    Pad,
    ELEMENTWISE["copy"],
)
_DIRECTIONS: Final = {"LT": "less", "LE": "less_equal", "GT": "greater", "GE": "greater_equal",
                      "EQ": "equal", "NE": "not_equal"}  # fmt: skip


class Known(NamedTuple):
    """An array of integers, with flags of those that are known.

    Attributes:
        values: The integers; they are arbitrary where they are not known.
        is_known: Flags of the known ones.
    """

    values: Ints
    is_known: Bools

    def at(self, place: Any) -> Known:
        """Return the integers and flags at `place`, any numpy index of the array."""
        return Known(self.values[place], self.is_known[place])


class Index:
    """Indices into a tensor: given by an array for each dimension, or all indices in order."""

    __slots__ = ("_columns", "_shape", "count")

    def __init__(
        self,
        count: int,
        columns: Sequence[Ints] | None = None,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.count, self._columns, self._shape = count, columns, shape

    @property
    def columns(self) -> Sequence[Ints]:
        """The components of the indices: one array for each dimension."""
        if self._columns is None:
            self._columns = unravel(np.arange(self.count), self._shape)
        return self._columns


Request: TypeAlias = tuple[Instruction, Index | None]
"""A request for elements of an instruction's value: at indices, or all in row-major order."""
RequestCoroutine: TypeAlias = Generator[Request, Known | None, Known | None]
"""A coroutine that yields requests for elements, is sent them, and returns elements.

Both may be `None`, if no element is known.
"""


class Integers:
    """Elements of integer tensors that do not depend on the program's arguments."""

    def __init__(self) -> None:
        # A table of indices is read by many elements, in every step that depends on it.
        self._whole: dict[Instruction, Known | None] = {}

    def at(self, ins: Instruction, columns: Sequence[Ints], count: int) -> Known:
        """Return the integers at `count` indices of the value of `ins`.

        Those outside of the tensor are marked as not known. `columns` has, for each dimension, an
        array with that component of all indices.

        Raises:
            UndecidedError: The elements depend on too many others.
        """
        found = None
        if isinstance(ins.type, TensorType) and len(columns) == len(ins.type.sizes):
            found = self._answered(ins, Index(count, columns))
        if found is None:
            return Known(np.zeros(count, np.int64), np.zeros(count, np.bool_))
        return found

    def _answered(self, ins: Instruction, index: Index) -> Known | None:
        """Return the integers at indices of the value of `ins`; `None` if none is known.

        Requests for operand elements wait on an explicit stack.

        Raises:
            UndecidedError: The elements depend on too many others.
        """
        stack: list[tuple[Request, RequestCoroutine]] = [((ins, index), self._elements(ins, index))]
        done: dict[Request, Known | None] = {}
        answer: Known | None = None
        work = 0
        while stack:
            # Coroutines on a stack in place of recursion: chains of integers may be deeper than
            # Python's call limit. Equal requests are answered once.
            asked, asking = stack[-1]
            try:
                wanted = asking.send(answer)
            except StopIteration as end:
                answer = done[asked] = end.value
                stack.pop()
                continue
            answer = done.get(wanted)
            if wanted not in done:
                operand, at = wanted
                work += max(A_STEP, at.count if at is not None else prod(_shape(operand)))
                if work > MOST_WORK:
                    raise UndecidedError(f"an index depends on too many integers: `{ins.name}`")
                stack.append(
                    (wanted, self._all(operand) if at is None else self._elements(operand, at))
                )
        return answer

    def _elements(self, ins: Instruction, index: Index) -> RequestCoroutine:
        """Return the elements at indices; those of small tensors are stored."""
        type = ins.type
        if _limits(type) is None or not isinstance(type, TensorType) or not type.is_static:
            return None
        shape = type.shape
        # A small tensor is computed once as a whole and then looked up, as it is asked for many
        # times.
        if prod(shape) > MAX_ELEMENTS:
            found = yield from self._computed(ins, index)
        else:
            found = yield ins, None
        if found is None:
            return None
        inside = np.ones(index.count, np.bool_)
        for i, extent in zip(index.columns, shape, strict=True):
            inside &= (i >= 0) & (i < extent)
        if prod(shape) <= MAX_ELEMENTS:
            columns = [np.where(inside, i, 0) for i in index.columns]
            found = found.at(_places(columns, shape, index.count))
        return Known(found.values, found.is_known & inside)

    def _all(self, ins: Instruction) -> RequestCoroutine:
        """Return all integers of the value of `ins` in row-major order, computed once."""
        if ins not in self._whole:
            shape = _shape(ins)
            found = yield from self._computed(ins, Index(prod(shape), shape=shape))
            is_any = found is not None and bool(found.is_known.any())
            self._whole[ins] = found if is_any else None
        return self._whole[ins]

    def _computed(self, ins: Instruction, index: Index) -> RequestCoroutine:
        """Return the elements at indices, computed by the instruction's op.

        Integers that the result type cannot represent are marked as not known.
        """
        found: Known | None = None
        match ins.op:
            case Constant(literal):
                found = _written(literal, ins.type, index)
            case Iota(dimension):
                found = Known(index.columns[dimension], np.ones(index.count, np.bool_))
            case op if isinstance(op, _MOVES):
                found = yield from self._moved(ins, index)
            case Elementwise() as op:
                found = yield from self._arithmetic(ins, op, index)
        return None if found is None else _fitting(found, ins.type)

    def _moved(self, ins: Instruction, index: Index) -> RequestCoroutine:
        """Return the elements of an op that only moves elements: those of the operands."""
        values: Array = np.zeros(index.count, np.int64)
        known, open_ = np.zeros(index.count, np.bool_), np.ones(index.count, np.bool_)
        for operand, accesses in zip(ins.operands, output_to_input(ins, 0), strict=True):
            for access in accesses:
                m = access.map
                if m is None or access.precision is not Precision.EXACT or m.ranges or m.runtime:
                    return Known(values, known)
                # Maps of different operands have disjoint domains, as in a concatenation; each row
                # takes the first that contains it.
                rows = np.flatnonzero(open_ & m.satisfies_array(index.columns))
                if not len(rows):
                    continue
                results = m.evaluate_array([i[rows] for i in index.columns])
                columns = [np.broadcast_to(i.astype(np.int64), len(rows)) for i in results]
                found = yield operand, Index(len(rows), columns)
                open_[rows] = False
                if found is not None:
                    values = values.astype(np.result_type(values, found.values))
                    values[rows], known[rows] = found
        return Known(values, known)

    def _arithmetic(self, ins: Instruction, op: Elementwise, index: Index) -> RequestCoroutine:
        """Return the elements of an elementwise op, computed from those of the operands."""
        compute = _arithmetic_of(op)
        if compute is None:
            return None
        nothing = Known(np.zeros(index.count, np.int64), np.zeros(index.count, np.bool_))
        given = []
        for operand in ins.operands:
            is_scalar = isinstance(operand.type, TensorType) and not operand.type.sizes
            found = yield operand, Index(index.count, ()) if is_scalar else index
            if found is None and op.name != "select":
                return None
            given.append(found or nothing)
        values = _exactly(compute, [one.values for one in given], op.name)
        known = np.logical_and.reduce([one.is_known for one in given])
        if op.name in ("divide", "remainder"):
            known = known & (given[1].values != 0)
        # A `select` is known if its condition and the selected side are, or if both sides are
        # equal.
        if op.name == "select":
            (c, c_known), (t, t_known), (f, f_known) = given
            chosen = c_known & np.where(c != 0, t_known, f_known)
            known = chosen | (t_known & f_known & (t == f))
        return Known(values, known)


def _shape(ins: Instruction) -> tuple[int, ...]:
    """Return the shape of a static tensor; `()` for other types."""
    return ins.type.shape if isinstance(ins.type, TensorType) and ins.type.is_static else ()


def _places(columns: Sequence[Any], shape: tuple[int, ...], count: int) -> Any:
    """Return the row-major positions of `count` indices in a tensor of shape `shape`.

    `columns` has, for each dimension, an array with that component of all indices.
    """
    return ravel(columns, shape) if columns else np.zeros(count, np.int64)


def _written(literal: Literal, type: Type, index: Index) -> Known | None:
    """Return the elements of a constant at indices; `None` if the text omits them."""
    assert isinstance(type, TensorType)
    numbers = literal.integers(type)
    if not numbers:
        return None
    row = _as_small(np.array(numbers, object))
    is_splat = len(numbers) == 1
    values = row if is_splat else row[_places(index.columns, type.shape, index.count)]
    return Known(np.broadcast_to(values, index.count), np.ones(index.count, np.bool_))


def _fitting(known: Known, type: Type) -> Known:
    """Return integers of a type; those that it cannot represent are 0 and marked as not known."""
    limits = _limits(type)
    assert limits is not None
    values, ends = known.values, limits
    if values.dtype != object:  # numpy compares int64 with int64
        ends = max(limits[0], NEG_INF), min(limits[1], POS_INF)
    fits = (values >= ends[0]) & (values <= ends[1])
    return Known(_as_small(np.where(fits, values, 0)), known.is_known & fits.astype(np.bool_))


def _limits(type: Type) -> tuple[int, int] | None:
    """Return the least and the greatest integer of a type; `None` if it is no integer type."""
    return type.element.integer_limits if isinstance(type, TensorType) else None


def _as_small(values: Array) -> Array:
    """Return the integers as int64 if all of them fit, else unchanged."""
    if values.dtype != object or not all(NEG_INF <= v <= POS_INF for v in values.flat):
        return values
    return values.astype(np.int64)


def _exactly(compute: Callable[..., Any], operands: Sequence[Array], name: str) -> Array:
    """Return the result of an integer function of `operands`, without overflow.

    It uses int64 if the operands are small enough, else Python integers. `name` is the op.
    """
    # Products of numbers below 2^31, and sums of numbers below 2^61, fit int64.
    end = 1 << (31 if name == "multiply" else 61)
    if all(one.dtype != object and ((one > -end) & (one < end)).all() for one in operands):
        return np.asarray(compute(*operands), np.int64)
    return _as_small(np.asarray(compute(*[one.astype(object) for one in operands]), object))


def _arithmetic_of(op: Elementwise) -> Callable[..., Any] | None:
    """Return the numpy function of an op on integers; `None` if it has none."""

    def quotient(x: Any, y: Any) -> Any:  # HLO rounds towards zero
        y = np.where(y == 0, 1, y)
        return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))

    if isinstance(op, Compare):
        compare = getattr(np, _DIRECTIONS.get(op.comparison_direction, ""), None)
        return None if compare is None else compare
    match op.name:
        case "divide":
            return quotient
        case "remainder":
            return lambda x, y: x - quotient(x, y) * np.where(y == 0, 1, y)
        case "select":
            return lambda c, x, y: np.where(c != 0, x, y)
        case "clamp":
            return lambda low, x, high: np.minimum(np.maximum(x, low), high)
        case "convert":
            return lambda x: x
        case "abs" | "add" | "subtract" | "multiply" | "maximum" | "minimum":
            return getattr(np, op.name)  # type: ignore[no-any-return]
        case "negate":
            return np.negative
    return None


# --------------------------------------------------------------------------------------------------
# Values of runtime variables for sampling: known integers, else random ones.
#
# A value that depends on constants and iotas only is computed.  Any other is drawn from the
# variable's range, the same for the same element.


A_FEW: Final = 8
"""Number of devices from which positions are drawn if their number is not known."""


class Values:
    """The values of runtime variables in one trial: known integers, else pseudo-random ones.

    A pseudo-random value depends only on the seed, the tensor that is read, and the index.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._number: dict[Hashable, int] = {}
        self._integers = Integers()
        self.drawn = False  # was a value drawn because it is not known?

    def read(self, variable: RuntimeVariable, index: list[Ints], name: int) -> Ints:
        """Return the values of a runtime variable at many indices, clamped to its interval.

        Args:
            variable: The runtime variable.
            index: For each argument of the variable, an array with one entry for each index.
            name: Number of the variable in its map; it distinguishes variables without origin.
        """
        origin, values = variable.origin, variable.values

        shape = np.broadcast_shapes(*(i.shape for i in index)) if index else ()
        # A hash of seed, variable and index: equal elements get equal values in one trial.
        mixed = np.full(shape, self._seed * 7919 + 17, dtype=np.uint64)
        source = variable.source
        key = self._number.setdefault(source, len(self._number)) if source else 1000 + name
        mixed = np.atleast_1d(mixed)  # numpy warns of overflow in scalars
        for i in [np.asarray(key), *index]:
            mixed = (mixed ^ i.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        size = min(values.size, 1 << 40)
        if variable.collective and values.hi == POS_INF:
            size = A_FEW
        drawn = values.lo + (mixed % np.uint64(size)).astype(np.int64).reshape(shape)
        if origin is None:
            self.drawn = True
            return drawn
        columns = [np.broadcast_to(i, shape).reshape(-1) for i in index[: len(variable.index)]]
        found = self._integers.at(origin, columns, prod(shape))  # the same on every device
        if not found.is_known.all():
            self.drawn = True
        clamped = np.clip(found.values, values.lo, values.hi).astype(np.int64)
        return np.where(found.is_known.reshape(shape), clamped.reshape(shape), drawn)

    def known(self, ins: Instruction, index: Sequence[int]) -> int | None:
        """Return an element of an integer tensor.

        `None` if it depends on the program's arguments.
        """
        found = self._integers.at(ins, [np.asarray([i], np.int64) for i in index], 1)
        return int(found.values[0]) if found.is_known[0] else None
