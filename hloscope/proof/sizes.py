"""Small sizes for the dimensions of a test program with which it stays valid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct

from hloscope.errors import UnsupportedError
from hloscope.indexing import major_to_minor
from hloscope.ir import Instruction, Op, TensorType, TupleType, Type
from hloscope.ops import (
    BARE_STARTS,
    AllGather,
    AllToAll,
    AsyncStart,
    Bitcast,
    BitcastConvert,
    Concatenate,
    Convolution,
    DynamicGather,
    DynamicSlice,
    DynamicUpdateSlice,
    Fft,
    Gather,
    Pad,
    RaggedAllToAll,
    RaggedDot,
    ReduceScatter,
    Reshape,
    RngBitGenerator,
    ScaledDot,
    Scatter,
    Slice,
    TopK,
)
from hloscope.proof.allowance import Deadline

# --------------------------------------------------------------------------------------------------
# Small sizes for the dimensions of a program, so that the program stays valid.
#
# Sizes are replaced by number: equal sizes become equal sizes, so operands of an elementwise op, a
# contraction or a call still match.  Relations between different sizes are equations: products of a
# reshape, the sum of a concatenation, a slice that is at most as large as its operand.


Sizes: TypeAlias = Mapping[int, int]
"""The new size of each old size."""

MAX_NODES: Final = 4_000
"""Limit of the choices of one search."""
MAX_SIZE: Final = 4096
MAX_SIZES: Final = 200
"""Limit of the different sizes of a program; the search recurses once for each."""


class ShrinkError(Exception):
    """The program has no valid copy with small sizes; the message says why."""


class Equation(Struct, frozen=True):
    """A condition on several new sizes.

    Attributes:
        sizes: The old sizes whose new sizes the condition is about.
        holds: Returns whether new sizes, in the same order, satisfy the condition.
        solve: Returns the new size at a position that satisfies the condition, given the others;
            `None` if there is none.  Without this function, candidates are tried.
    """

    sizes: tuple[int, ...]
    holds: Callable[[Sequence[int]], bool]
    solve: Callable[[int, Sequence[int]], int | None] | None = None


def products(
    one: Sequence[int], other: Sequence[int], factor: tuple[int, int] = (1, 1)
) -> Equation:
    """Return the equation `factor[0] * prod(one) == factor[1] * prod(other)`.

    >>> products((2, 3), (6,)).holds((4, 5, 20))
    True
    """
    count = len(one)
    left, right = factor

    def holds(new: Sequence[int]) -> bool:
        return left * prod(new[:count]) == right * prod(new[count:])

    # Solve by dividing the known side; a remainder means that no integer size fits.
    def solve(at: int, new: Sequence[int]) -> int | None:
        mine = left * prod([n for i, n in enumerate(new[:count]) if i != at])
        theirs = right * prod([n for i, n in enumerate(new[count:], count) if i != at])
        whole, part = (theirs, mine) if at < count else (mine, theirs)
        return whole // part if part and whole % part == 0 else None

    return Equation((*one, *other), holds, solve)


def total(parts: Sequence[int], whole: int) -> Equation:
    """Return the equation `sum(parts) == whole`."""

    def solve(at: int, new: Sequence[int]) -> int | None:
        *some, end = new
        if at == len(some):
            return sum(some)
        return end - sum([n for i, n in enumerate(some) if i != at])

    return Equation((*parts, whole), lambda new: sum(new[:-1]) == new[-1], solve)


def at_most(one: int, other: int) -> Equation:
    """Return the condition `one <= other`."""
    return Equation((one, other), lambda new: new[0] <= new[1])


def fixed(size: int) -> Equation:
    """Return the condition that a size does not change."""
    return Equation((size,), lambda new: new[0] == size, lambda at, new: size)


def choose(
    shapes: Sequence[tuple[int, ...]],
    equations: Sequence[Equation],
    most: int,
    deadline: Deadline | None = None,
) -> dict[int, int]:
    """Return small sizes that satisfy all equations; no shape has more than `most` elements.

    Different sizes become different sizes in the same order if possible.

    Raises:
        ShrinkError: No such sizes are found.
        TimeOverError: The time limit is exceeded.

    >>> choose([(128, 64), (8192,)], [products((128, 64), (8192,))], 100)
    {64: 2, 128: 3, 8192: 6}
    """
    sizes = sorted({n for shape in shapes for n in shape} | {n for e in equations for n in e.sizes})
    sizes = [n for n in sizes if n > 1]
    if len(sizes) > MAX_SIZES:
        raise ShrinkError(f"more than {MAX_SIZES} different sizes")
    deadline = deadline or Deadline()
    distinct = sorted({tuple(n for n in shape if n > 1) for shape in shapes})
    # From strict to loose: distinct sizes in order, equal sizes allowed, any order, then larger
    # shapes.
    for keeps_order, limit in ((2, most), (1, most), (0, most), (0, 8 * most)):
        for cap in (4, 7, 12, 24):
            search = _Search(sizes, equations, distinct, limit, keeps_order, cap, deadline)
            for found in search.from_size(0):
                return dict(found)
    raise ShrinkError("no small sizes fit together")


class _Search:
    """A backtracking search for new sizes, from the smallest old size to the largest.

    A size that an equation determines is not searched for.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        equations: Sequence[Equation],
        shapes: Sequence[tuple[int, ...]],
        most: int,
        keeps_order: int,
        cap: int,
        deadline: Deadline,
    ) -> None:
        """Prepare a search.

        Args:
            sizes: Old sizes above 1, ascending.
            equations: Conditions on the new sizes.
            shapes: Old shapes, whose new number of elements is limited.
            most: Limit of the elements of a shape.
            keeps_order: 2: new sizes ascend strictly as the old ones do; 1: equal ones are allowed,
                too; 0: any order.
            cap: Largest new size that is tried.
            deadline: Time limit.
        """
        self._deadline = deadline
        self._sizes, self._most = sizes, most
        self._keeps_order, self._cap = keeps_order, cap
        at = {n: i for i, n in enumerate(sizes)}
        self._ready: list[list[Equation]] = [[] for _ in sizes]
        # An equation is checked when its largest size is chosen: then all others are known.
        for e in equations:
            places = [at[n] for n in e.sizes if n > 1]
            if places:
                self._ready[max(places)].append(e)
        self._shapes: list[list[tuple[int, ...]]] = [[] for _ in sizes]
        for shape in shapes:
            if shape:
                self._shapes[at[max(shape)]].append(shape)
        self._new: dict[int, int] = {0: 0, 1: 1}
        self._nodes = 0

    def from_size(self, at: int) -> Iterator[dict[int, int]]:
        """Yield every solution that extends the new sizes chosen for the first `at` old sizes."""
        if at == len(self._sizes):
            yield {n: self._new[n] for n in self._sizes}
            return
        size = self._sizes[at]
        for new in self._candidates(at, size):
            self._nodes += 1
            self._deadline.check()
            if self._nodes > MAX_NODES:
                return
            self._new[size] = new
            if self._fits(at):
                yield from self.from_size(at + 1)
        self._new.pop(size, None)

    def _candidates(self, at: int, size: int) -> Sequence[int]:
        """Return the new sizes to try for old size number `at`, whose value is `size`.

        If an equation determines the new size, it is the only one.
        """
        before = self._new[self._sizes[at - 1]] if at else 1
        low = 2 if not self._keeps_order else before + (self._keeps_order == 2)
        for e in self._ready[at]:
            if e.solve is not None and e.sizes.count(size) == 1:
                place = e.sizes.index(size)
                found = e.solve(place, [self._new.get(n, 1) for n in e.sizes])
                return () if found is None or not 1 < found <= MAX_SIZE else (found,)
        low = max(low, 2)
        # Sizes up to 3 are small already.
        if size <= 3:
            return (size,) if low <= size else ()
        return range(low, min(size, max(self._cap, low)) + 1)

    def _fits(self, at: int) -> bool:
        """Do the new sizes satisfy the conditions that concern no old size after number `at`?

        They are the equations and limits of shapes whose largest old size has this number.
        """
        new = self._new
        return all(e.holds([new[n] for n in e.sizes]) for e in self._ready[at]) and all(
            prod([new[n] for n in shape]) <= self._most for shape in self._shapes[at]
        )


# --------------------------------------------------------------------------------------------------
# Equations between the sizes of an instruction, for `sizes.choose`.
#
# Equal sizes stay equal in any case; only relations between different sizes need an equation.


Rule: TypeAlias = Callable[[Instruction], Iterator[Equation]]
_R = TypeVar("_R", bound=Rule)

RULES: Final[dict[type[Op], Rule]] = {}


def ties(*ops: type[Op]) -> Callable[[_R], _R]:
    """Return a decorator that registers a function for the ops `ops`.

    The function yields the conditions that an instruction of such an op sets on its new sizes.
    """

    def register(rule: _R) -> _R:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register


def equations_of(ins: Instruction, group: tuple[int, int] = (1, 1)) -> Iterator[Equation]:
    """Yield the conditions on the new sizes of an instruction's types.

    Args:
        ins: The instruction.
        group: Old and new group size of a collective.
    """
    ins = as_begun(ins)
    rule = RULES.get(type(ins.op))
    if rule is not None:
        yield from rule(ins)
    if isinstance(ins.op, AllGather | ReduceScatter | AllToAll):
        yield from _in_groups(ins, *group)
    for k in ins.op.reads_values:  # vectors of sizes, one for each dimension
        if k < len(ins.operands):
            yield from map(fixed, shape_of(ins.operands[k].type))


def as_begun(ins: Instruction) -> Instruction:
    """Return the operation of an asynchronous start as an instruction; any other is unchanged."""
    op, type = ins.op, ins.type
    if not isinstance(op, AsyncStart) or op.wrapped is None:
        return ins
    bare = op.wrapped.name in BARE_STARTS
    if not bare and isinstance(type, TupleType) and len(type.elements) > 1:
        type = type.elements[1]
    return Instruction(ins.name, type, op.wrapped, ins.operands, ins.calls)


def shape_of(type: Type) -> tuple[int, ...]:
    """Return the shape of a type, with bounds for dynamic sizes.

    `()` for non-tensors, and for dynamic sizes without bounds.
    """
    try:
        return type.shape if isinstance(type, TensorType) else ()
    except (UnsupportedError, ValueError):
        return ()


def groups(one: Sequence[int], other: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the shortest runs of dimensions of two shapes that have equal products, in order.

    Each entry has a run of `one` and the run of `other` with the same product.

    >>> list(groups((6, 4, 5), (2, 12, 5)))
    [([6, 4], [2, 12]), ([5], [5])]
    """
    a = [n for n in one if n != 1]
    b = [n for n in other if n != 1]
    while a and b:
        left, right = [a.pop(0)], [b.pop(0)]
        x, y = left[0], right[0]
        # The smaller product grows until both are equal; sizes of 1 were removed, so runs are
        # minimal.
        while x != y:
            if x < y and a:
                left.append(a.pop(0))
                x *= left[-1]
            elif y < x and b:
                right.append(b.pop(0))
                y *= right[-1]
            else:
                return
        yield left, right


def _reshaped(one: Sequence[int], other: Sequence[int]) -> Iterator[Equation]:
    """Yield an equation of products for each run of dimensions that a reshape combines.

    `one` and `other` are the shapes before and after. Equal sizes in a run are left out.
    """
    if 0 in one or 0 in other:
        return
    for left, right in groups(one, other):
        for n in [*left]:
            if n in right:
                left.remove(n)
                right.remove(n)
        if left or right:
            yield products(left, right)


@ties(Reshape)
def equations_of_reshape(ins: Instruction) -> Iterator[Equation]:
    yield from _reshaped(shape_of(ins.operands[0].type), shape_of(ins.type))


@ties(Bitcast)
def equations_of_bitcast(ins: Instruction) -> Iterator[Equation]:
    """Yield the equations between the sizes of a bitcast.

    With elements of equal width it is a reshape of the dimensions in memory order. Otherwise only
    the total number of bits is equal.
    """
    here, there = ins.type, ins.operands[0].type
    if not isinstance(here, TensorType) or not isinstance(there, TensorType):
        return
    placed: list[list[int]] = []
    for type in (there, here):
        try:
            order: Sequence[int] = major_to_minor(type)
        except UnsupportedError:
            order = range(type.rank)
        placed.append([type.shape[k] for k in order])
    if here.element.bits == there.element.bits:
        yield from _reshaped(placed[0], placed[1])
    else:
        yield products(placed[0], placed[1], (there.element.bits, here.element.bits))


@ties(BitcastConvert)
def equations_of_bitcast_convert(ins: Instruction) -> Iterator[Equation]:
    here, there = shape_of(ins.type), shape_of(ins.operands[0].type)
    if len(here) != len(there):
        yield fixed(max(here, there, key=len)[-1])


@ties(Slice, DynamicSlice)
def equations_of_slice(ins: Instruction) -> Iterator[Equation]:
    yield from map(at_most, shape_of(ins.type), shape_of(ins.operands[0].type))


@ties(DynamicUpdateSlice)
def equations_of_dynamic_update_slice(ins: Instruction) -> Iterator[Equation]:
    yield from map(at_most, shape_of(ins.operands[1].type), shape_of(ins.type))


@ties(Pad)
def equations_of_pad(ins: Instruction) -> Iterator[Equation]:
    """Yield conditions by which padding enlarges the same dimensions as in the program."""
    for small, large in zip(shape_of(ins.operands[0].type), shape_of(ins.type), strict=True):
        if small < large:
            yield Equation((small, large), lambda new: new[0] < new[1])


@ties(Concatenate)
def equations_of_concatenate(ins: Instruction) -> Iterator[Equation]:
    assert isinstance(ins.op, Concatenate)
    d = ins.op.dimension
    yield total([shape_of(o.type)[d] for o in ins.operands], shape_of(ins.type)[d])


@ties(Gather, DynamicGather, Scatter)
def equations_of_gather(ins: Instruction) -> Iterator[Equation]:
    """Yield conditions of a gather: index vectors keep their length, and slices fit the operand."""
    op = ins.op
    count = (len(ins.operands) - 1) // 2 if isinstance(op, Scatter) else 1
    assert isinstance(op, Gather | DynamicGather | Scatter)
    indices = shape_of(ins.operands[count].type)
    if op.index_vector_dim < len(indices):
        yield fixed(indices[op.index_vector_dim])
    operand = shape_of(ins.operands[0].type)
    if isinstance(op, Gather):
        yield from map(at_most, op.slice_sizes, operand)
    elif isinstance(op, Scatter):
        left_out = {*op.inserted_window_dims, *op.input_batching_dims}
        window = [n for d, n in enumerate(operand) if d not in left_out]
        updates = shape_of(ins.operands[-1].type)
        yield from map(at_most, [updates[d] for d in op.update_window_dims], window)


@ties(Convolution)
def equations_of_convolution(ins: Instruction) -> Iterator[Equation]:
    """Yield conditions by which group counts still divide the features or the batch."""
    op = ins.op
    assert isinstance(op, Convolution)
    lhs, rhs = (shape_of(o.type) for o in ins.operands)
    dims = op.dimensions
    for number, whole in (
        (op.feature_group_count, rhs[dims.kernel_output_feature]),
        (op.batch_group_count, rhs[dims.kernel_output_feature]),
        (op.batch_group_count, lhs[dims.input_batch]),
    ):
        if number > 1 and number != whole and whole % number == 0:
            yield products((number, whole // number), (whole,))
    part, whole = rhs[dims.kernel_input_feature], lhs[dims.input_feature]
    if op.feature_group_count > 1 and part > 1:
        yield products((op.feature_group_count, part), (whole,))


@ties(TopK)
def equations_of_top_k(ins: Instruction) -> Iterator[Equation]:
    assert isinstance(ins.op, TopK)
    yield at_most(ins.op.k, shape_of(ins.operands[0].type)[-1])


@ties(Fft)
def equations_of_fft(ins: Instruction) -> Iterator[Equation]:
    """Yield the condition that a real transform of length `n` has `n // 2 + 1` frequencies."""
    assert isinstance(ins.op, Fft)
    kind = ins.op.fft_type
    if "RFFT" in kind and ins.op.fft_length:
        length = ins.op.fft_length[-1]
        half = shape_of(ins.operands[0].type if kind == "IRFFT" else ins.type)[-1]
        yield Equation((length, half), lambda new: new[0] // 2 + 1 == new[1])


def _in_groups(ins: Instruction, old: int, new: int) -> Iterator[Equation]:
    """Yield the conditions on the sizes of a collective's operands and results.

    Sizes whose ratio is the old group size `old` get the ratio `new`. Other integer ratios stay.
    The split dimension of an all-to-all stays divisible by the group size.
    """
    types = ins.type.elements if isinstance(ins.type, TupleType) else (ins.type,)
    split = ins.op.split_dimension if isinstance(ins.op, AllToAll) else None
    for here, operand in zip(types, ins.operands, strict=False):
        theirs = shape_of(operand.type)
        for a, b in zip(shape_of(here), theirs, strict=False):
            if a != b and a and b and max(a, b) % min(a, b) == 0:
                ratio = max(a, b) // min(a, b)
                ratio = new if ratio == old else ratio
                yield products((min(a, b),), (max(a, b),), (ratio, 1))
        if split is not None and split < len(theirs):
            yield Equation((theirs[split],), lambda sizes: sizes[0] % max(1, new) == 0)


@ties(RaggedAllToAll, RaggedDot, RngBitGenerator, ScaledDot)
def equations_of_fixed_operands(ins: Instruction) -> Iterator[Equation]:
    """Yield conditions that sizes of operands do not change: of states, offsets, groups, scales.

    The first two operands of a ragged op are the data, whose sizes may change.
    """
    first = 2 if isinstance(ins.op, RaggedAllToAll | RaggedDot) else 0
    for operand in ins.operands[first:]:
        yield from map(fixed, shape_of(operand.type))
