"""Equations between the sizes of an instruction, for `sizes.choose`.

Equal sizes stay equal in any case; only relations between different sizes need an equation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

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
from hloscope.proof.sizes import Equation, at_most, fixed, products, total

Rule: TypeAlias = Callable[[Instruction], Iterator[Equation]]
_R = TypeVar("_R", bound=Rule)

RULES: Final[dict[type[Op], Rule]] = {}


def ties(*ops: type[Op]) -> Callable[[_R], _R]:
    """Register a function that yields the equations of these ops."""

    def register(rule: _R) -> _R:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register


def equations_of(ins: Instruction, group: tuple[int, int] = (1, 1)) -> Iterator[Equation]:
    """Yield the equations between the sizes of an instruction.

    Args:
        ins: The instruction.
        group: Old and new group size, for a collective.
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
    """Return the operation of an asynchronous start as an instruction; others unchanged."""
    op, type = ins.op, ins.type
    if not isinstance(op, AsyncStart) or op.wrapped is None:
        return ins
    bare = op.wrapped.name in BARE_STARTS
    if not bare and isinstance(type, TupleType) and len(type.elements) > 1:
        type = type.elements[1]
    return Instruction(ins.name, type, op.wrapped, ins.operands, ins.calls)


def shape_of(type: Type) -> tuple[int, ...]:
    """Return the shape, with bounds for dynamic sizes; `()` for non-tensors and without bounds."""
    try:
        return type.shape if isinstance(type, TensorType) else ()
    except (UnsupportedError, ValueError):
        return ()


def groups(one: Sequence[int], other: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the finest runs of dimensions of two shapes with equal products, from the front.

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
    """Yield an equation of products for each run of a reshape, without common sizes."""
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
    """Yield the equations of a reshape in memory order, or of total bits if elements change."""
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


@ties(Slice)
def equations_of_slice(ins: Instruction) -> Iterator[Equation]:
    yield from map(at_most, shape_of(ins.type), shape_of(ins.operands[0].type))


@ties(DynamicSlice)
def equations_of_dynamic_slice(ins: Instruction) -> Iterator[Equation]:
    yield from map(at_most, shape_of(ins.type), shape_of(ins.operands[0].type))


@ties(DynamicUpdateSlice)
def equations_of_dynamic_update_slice(ins: Instruction) -> Iterator[Equation]:
    yield from map(at_most, shape_of(ins.operands[1].type), shape_of(ins.type))


@ties(Pad)
def equations_of_pad(ins: Instruction) -> Iterator[Equation]:
    """Dimensions that padding enlarges are still enlarged."""
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
    """Index vectors keep their length; slices are at most as large as the operand."""
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
    """Group counts divide the features or the batch as before."""
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
    """A real transform of length `n` has `n // 2 + 1` frequencies."""
    assert isinstance(ins.op, Fft)
    kind = ins.op.fft_type
    if "RFFT" in kind and ins.op.fft_length:
        length = ins.op.fft_length[-1]
        half = shape_of(ins.operands[0].type if kind == "IRFFT" else ins.type)[-1]
        yield Equation((length, half), lambda new: new[0] // 2 + 1 == new[1])


def _in_groups(ins: Instruction, old: int, new: int) -> Iterator[Equation]:
    """Sizes of operand and result that differ by a factor do so by a factor of the group size."""
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


@ties(RaggedAllToAll)
def equations_of_ragged_all_to_all(ins: Instruction) -> Iterator[Equation]:
    """Offsets and sizes have an element for each member of the group."""
    for operand in ins.operands[2:]:
        yield from map(fixed, shape_of(operand.type))


@ties(RngBitGenerator)
def equations_of_rng_bit_generator(ins: Instruction) -> Iterator[Equation]:
    yield from map(fixed, shape_of(ins.operands[0].type))


@ties(ScaledDot, RaggedDot)
def equations_of_scaled_dot(ins: Instruction) -> Iterator[Equation]:
    """Sizes of scales and of group counts stay, and of a scaled dot also those of its operands."""
    for operand in ins.operands[2:]:
        yield from map(fixed, shape_of(operand.type))
    if isinstance(ins.op, ScaledDot):
        for operand in ins.operands[:2]:
            yield from map(fixed, shape_of(operand.type))
