"""Rules for ops with run-time sizes; output elements depend on the operands that hold sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from msgspec.structs import replace

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.physical import reshape_map
from hloscope.indexing.rules.dependence import Use, weakened_by_use
from hloscope.indexing.rules.elementwise import broadcast_read, broadcast_write
from hloscope.indexing.rules.registry import (
    NEVER,
    Direction,
    MapBuilder,
    all_of_operands,
    dims,
    dynamic_dimensions,
    everything_map,
    everywhere,
    exact,
    identity,
    identity_map,
    input_to_output,
    integers,
    leaves,
    output_to_input,
    over,
    sizes,
    unknown,
)
from hloscope.indexing.rules.run_time_sizes import keeps_indices, sizes_agree
from hloscope.ir import Dims, Instruction, Op, TensorType, Type
from hloscope.ops import (
    AllGather,
    AllToAll,
    Bitcast,
    BroadcastInDim,
    Concatenate,
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    DynamicUpdateSlice,
    Elementwise,
    GetDimensionSize,
    ImplicitBroadcast,
    Pad,
    RaggedAllToAll,
    ReduceScatter,
    Reshape,
    Reverse,
    SetDimensionSize,
)

# --------------------------------------------------------------------------------------------------
# Ops with sizes known only at run time; every output element reads the operands with sizes.


def _require_static(ins: Instruction) -> None:
    """Raise an error if the result or operand 0 has a dynamic size.

    The row-major order of the elements then depends on run-time values.

    Raises:
        UnsupportedError: A size is dynamic.
    """
    for type in (ins.type, ins.operands[0].type):
        if isinstance(type, TensorType) and not type.is_static:
            raise UnsupportedError("a reshape between sizes known only at run time")


@output_to_input(DynamicReshape)
def _(ins: Instruction, op: DynamicReshape, output: int) -> tuple[Accesses, ...]:
    _require_static(ins)
    data = exact(reshape_map(sizes(ins.type), sizes(ins.operands[0].type)))
    return (data, *all_of_operands(ins, 1))


@input_to_output(DynamicReshape)
def _(ins: Instruction, op: DynamicReshape, operand: int) -> tuple[Accesses, ...]:
    if operand > 0:
        return everywhere(ins, operand)
    _require_static(ins)
    return (exact(reshape_map(sizes(ins.operands[0].type), sizes(ins.type))),)


@output_to_input(DynamicBroadcastInDim)
def _(ins: Instruction, op: DynamicBroadcastInDim, output: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[0].type), sizes(ins.type)
    return (broadcast_read(source, target, op.broadcast_dimensions), *all_of_operands(ins, 1))


@input_to_output(DynamicBroadcastInDim)
def _(ins: Instruction, op: DynamicBroadcastInDim, operand: int) -> tuple[Accesses, ...]:
    if operand > 0:
        return everywhere(ins, operand)
    source, target = sizes(ins.operands[0].type), sizes(ins.type)
    return (broadcast_write(source, target, op.broadcast_dimensions),)


@output_to_input(DynamicIota)
def _(ins: Instruction, op: DynamicIota, output: int) -> tuple[Accesses, ...]:
    return all_of_operands(ins, 0)


@input_to_output(DynamicIota)
def _(ins: Instruction, op: DynamicIota, operand: int) -> tuple[Accesses, ...]:
    return everywhere(ins, operand)


@output_to_input(GetDimensionSize, shared=False)
def _(ins: Instruction, op: GetDimensionSize, output: int) -> tuple[Accesses, ...]:
    """Return no access: the op reads a size of its operand, but no element."""
    return (NEVER,)


@input_to_output(GetDimensionSize, shared=False)
def _(ins: Instruction, op: GetDimensionSize, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,)


@output_to_input(SetDimensionSize)
def _(ins: Instruction, op: SetDimensionSize, output: int) -> tuple[Accesses, ...]:
    return (_identity_on_both(ins), *all_of_operands(ins, 1))


@input_to_output(SetDimensionSize)
def _(ins: Instruction, op: SetDimensionSize, operand: int) -> tuple[Accesses, ...]:
    return everywhere(ins, operand) if operand else (_identity_on_both(ins),)


def _identity_on_both(ins: Instruction) -> Accesses:
    """Return the identity access of operand 0 on the indices that it shares with the result.

    The declared bound of the result may differ from the operand's size.
    """
    return identity(tuple(map(min, sizes(ins.type), sizes(ins.operands[0].type))))


# Dynamic pad.  Operands: array, padding value, then vectors of low, high and interior padding.  An
# element `x` lands on `low + x * (interior + 1)`.

_PADDING = "which elements are padding is known only at run time"


def _landing(at: MapBuilder, ins: Instruction, k: int, element: Expr) -> Expr:
    """Return the index in the result of element `element` of a dynamic pad, in dimension `k`.

    The padding and the gap between elements are read from operands, as runtime variables of `at`.
    """
    low, interior = ins.operands[2], ins.operands[4]
    start = at.read(*integers(low.type), low, (Const(k),))
    gap = at.read(0, integers(interior.type)[1], interior, (Const(k),))
    return start + element + element * gap


@output_to_input(DynamicPad, shared=False, precision=Precision.OVER, reason=_PADDING)
def _(ins: Instruction, op: DynamicPad, output: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[0].type), sizes(ins.type)
    at = MapBuilder(target)
    elements = [at.range(size) for size in source]
    for k, element in enumerate(elements):
        at.require(_landing(at, ins, k, element) - Dim(k), 0, 0)
    value = over(_PADDING, everything_map(target, ()))
    return (exact(at.map(elements)), value, *all_of_operands(ins, 2))


@input_to_output(DynamicPad, shared=False, precision=Precision.OVER, reason=_PADDING)
def _(ins: Instruction, op: DynamicPad, operand: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[0].type), sizes(ins.type)
    if operand == 1:
        return (over(_PADDING, everything_map((), target)),)
    if operand > 1:
        return everywhere(ins, operand)
    at = MapBuilder(source)
    results = [_landing(at, ins, k, Dim(k)) for k in range(len(source))]
    for result, size in zip(results, target, strict=True):
        at.require(result, 0, size - 1)
    return (exact(at.map(results)),)


# --------------------------------------------------------------------------------------------------
# Accesses of arrays whose sizes are known only at run time.
#
# An index runs up to the bound. An element beyond the run-time size counts as existing in memory,
# and depends on the size. If an op places or selects elements by a run-time size, the access covers
# everything that may be accessed for some size up to the bound, and is never exact.
# `run_time_sizes` has the dependences on the sizes themselves.


BOUND: Final = "a size known only at run time counts as its bound"
MOVED: Final = "elements move by a size known only at run time"
REPLACED: Final = "a size set again takes the place of the one before"
DECLARED: Final = "the type of the result says the size"
EXPANDS: Final = "a size known only at run time may be 1, which expands"
_SPREAD: Final[tuple[type[Op], ...]] = AllGather, AllToAll, RaggedAllToAll, ReduceScatter
"""Ops that join or split the values of several devices."""
_MOST_EXPANDABLE: Final = 4
"""Maximum number of dimensions that may expand; with more, any index counts as read."""


def widened_for_sizes(
    direction: Direction, ins: Instruction, number: int, answer: tuple[Accesses, ...]
) -> tuple[Accesses, ...]:
    """Return a rule's accesses, widened so that they hold for all run-time sizes within bounds.

    Exact accesses become `OVER`, unless the op keeps dynamic sizes unchanged.

    Args:
        direction: Direction of the accesses.
        ins: The instruction.
        number: Number of the output, or of the operand for accesses from input to output.
        answer: The accesses of the op's rule, which takes bounds for sizes.
    """
    if _position_varies(ins):
        return (unknown(MOVED),) * len(answer)
    wider = _wider_accesses(ins)
    if direction is Direction.OUTPUT_TO_INPUT:
        found = [wider.get(k, accesses) for k, accesses in enumerate(answer)]
        there = [leaves(operand.type) for operand in ins.operands]
        found = [_restricted_to_sizes(a, types) for a, types in zip(found, there, strict=True)]
    else:
        back = wider.get(number)
        found = list(answer) if back is None else [_inverted(back)] * len(answer)
        found = [
            _restricted_to_sizes(a, (type,))
            for a, type in zip(found, leaves(ins.type), strict=True)
        ]
    return tuple([over_unless_kept(ins, accesses) for accesses in found])


def _restricted_to_sizes(accesses: Accesses, there: Sequence[Type]) -> Accesses:
    """Return the accesses without elements that cannot exist: those beyond the declared sizes.

    Args:
        accesses: The accesses of a rule, which takes bounds for sizes.
        there: The types of the arrays of the accessed value, by `Access.leaf`; a single type
            applies to all accesses.
    """
    found = []
    for access in accesses:
        m = access.map
        if m is not None:
            shape = sizes(there[access.leaf if len(there) > 1 else 0])
            inside = m.compose(identity_map(shape)).simplify()
            if inside != m.simplify():
                access = replace(access, map=inside)
        found.append(access)
    return tuple(found)


def over_unless_kept(ins: Instruction, accesses: Accesses) -> Accesses:
    """Return the accesses with exact ones changed to `OVER`.

    Accesses stay unchanged if the instruction keeps dynamic sizes unchanged.
    """
    if keeps_indices(ins) or isinstance(ins.op, GetDimensionSize):
        return accesses
    return weakened_by_use(Use.SOMETIMES, accesses, BOUND)


def _inverted(accesses: Accesses) -> Accesses:
    return tuple(
        [a if a.map is None else replace(a, map=a.map.inverse().simplify()) for a in accesses]
    )


def _position_varies(ins: Instruction) -> bool:
    """Does the position of an element depend on a run-time size in a way that is not modelled?"""
    match ins.op:
        case Reshape() | Bitcast():
            return not _keeps_order(ins.operands[0].type, ins.type)
        case op:
            return isinstance(op, _SPREAD)


def _keeps_order(source: Type, target: Type) -> bool:
    """Is the linear position of each element the same for all sizes up to the bounds?

    That is so if each unknown size belongs to a dimension that stays unchanged, or to the
    slowest-varying dimension (of more than one element) on both sides.
    """
    if not isinstance(source, TensorType) or not isinstance(target, TensorType):
        return False
    if source.layout != target.layout and None in (*source.sizes, *target.sizes):
        known = [t.layout is None or t.layout.is_row_major for t in (source, target)]
        if not all(known):
            return False
    a, b = _longer_than_one(source), _longer_than_one(target)
    # Equal leading and trailing dimensions have no effect on the order of what is between them.
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    inner = [size for size, _ in (*a[1:], *b[1:])]
    firsts = [size for size, _ in (*a[:1], *b[:1])]
    return None not in inner and (None not in firsts or firsts == [None, None])


def _longer_than_one(type: TensorType) -> list[tuple[int | None, int]]:
    """Return pairs (size or `None`, bound) of the dimensions whose size is not 1."""
    return [pair for pair in zip(type.sizes, sizes(type), strict=True) if pair[0] != 1]


def _wider_accesses(ins: Instruction) -> Mapping[int, Accesses]:
    """Return, by operand number, accesses that replace those of the op's rule.

    They contain the rule's accesses and hold for every run-time size.
    """
    match ins.op:
        case Reverse(dimensions):
            moved = set(dimensions) & set(dynamic_dimensions(ins.type))
            return {0: over(MOVED, _reversed(sizes(ins.type), dimensions, moved))} if moved else {}
        case Concatenate(dimension):
            return dict(_concatenated(ins, dimension))
        case Pad() if dynamic_dimensions(ins.operands[0].type):
            # Elements beyond the run-time size are padding, so any element may read the padding
            # value.
            return {1: over(BOUND, everything_map(sizes(ins.type), ()))}
        case DynamicUpdateSlice() if dynamic_dimensions(ins.operands[1].type):
            # The update may cover less than its bound, so every old element may remain.
            return {0: over(BOUND, identity_map(sizes(ins.type)))}
        case SetDimensionSize(dimension):
            return dict(_set_again(ins, dimension))
        case DynamicBroadcastInDim(places, _, kept):
            fixed = kept or ()
            found = _expanded(ins, 0, places, [k for k in range(len(places)) if k not in fixed])
            return {0: found} if found else {}
        case BroadcastInDim(places):
            source, target = sizes(ins.operands[0].type), sizes(ins.type)
            loose = [k for k, place in enumerate(places) if source[k] != target[place]]
            found = _expanded(ins, 0, places, loose)
            return {0: found} if found else {}
        case ImplicitBroadcast() | Elementwise():
            return dict(_of_one_size(ins))
        case _:
            return {}


def _reversed(shape: Dims, dimensions: Dims, moved: set[int]) -> IndexingMap:
    """Return the map to the reversed index, for every run-time size up to the bounds.

    Args:
        shape: Sizes of the array, with bounds for dynamic ones.
        dimensions: The reversed dimensions.
        moved: The dimensions of dynamic size.
    """
    at = MapBuilder(shape)
    results: list[Expr] = dims(len(shape))
    for k in dimensions:
        if k in moved:  # from the last index up to the bound down to the first
            results[k] = at.range(shape[k])
            at.require(results[k] + Dim(k), 0, shape[k] - 1)
        else:
            results[k] = shape[k] - 1 - results[k]
    return at.map(results)


def _concatenated(ins: Instruction, k: int) -> Iterator[tuple[int, Accesses]]:
    """Yield the accesses of operands whose start in dimension `k` varies, by operand number.

    `k` is the concatenated dimension; a start varies with the run-time sizes of earlier operands.
    """
    target = sizes(ins.type)
    least = most = 0
    for number, operand in enumerate(ins.operands):
        size = sizes(operand.type)[k]
        if least < most:
            at = MapBuilder(target)
            results: list[Expr] = dims(len(target))
            results[k] = at.range(size)
            at.require(Dim(k) - results[k], least, most)
            yield number, over(MOVED, at.map(results))
        is_known = k not in dynamic_dimensions(operand.type)
        least, most = least + is_known * size, most + size


def _set_again(ins: Instruction, dimension: int) -> Iterator[tuple[int, Accesses]]:
    shape = sizes(ins.type)
    if dimension in dynamic_dimensions(ins.operands[0].type):
        yield 0, over(REPLACED, identity_map(shape))
    if dimension not in dynamic_dimensions(ins.type):
        yield 1, over(DECLARED, everything_map(shape, ()))


def _of_one_size(ins: Instruction) -> Iterator[tuple[int, Accesses]]:
    """Yield the accesses, by operand number, of operands that may have size 1 and expand.

    Source: XLA `dynamic_padder.cc`, `RewriteDynamicBinaryOp`.
    """
    rank = len(sizes(ins.type))
    free = [k for k in dynamic_dimensions(ins.type) if not sizes_agree(ins, k)]
    for number, operand in enumerate(ins.operands):
        own = len(sizes(operand.type))
        if isinstance(ins.op, ImplicitBroadcast):
            places, loose = ins.op.result_dims(own, rank), list(range(own))
        elif own == rank and free:
            places, loose = tuple(range(rank)), free
        else:
            continue
        found = _expanded(ins, number, places, loose)
        if found:
            yield number, found


def _expanded(
    ins: Instruction, number: int, result_dims: Dims, expandable: Iterable[int]
) -> Accesses:
    """Return the accesses of an operand whose dynamic `expandable` dimensions may have size 1.

    The result is empty if no such dimension exists.

    Args:
        ins: The instruction.
        number: Number of the operand.
        result_dims: The dimension of the result for each dimension of the operand.
        expandable: Dimensions of the operand that may expand at run time. The others expand only if
            their bound is 1.
    """
    source, target = sizes(ins.operands[number].type), sizes(ins.type)
    free = set(expandable) & set(dynamic_dimensions(ins.operands[number].type))
    if not free:
        return ()
    if len(free) > _MOST_EXPANDABLE:
        return over(EXPANDS, everything_map(target, source))
    found: list[Access] = []
    # Each loose dimension either expands or not, so every combination has one map.
    for stays in product((True, False), repeat=len(free)):
        as_is = {k for k, same in zip(sorted(free), stays, strict=True) if same}
        at = MapBuilder(target)
        results: list[Expr] = []
        for k, place in enumerate(result_dims):
            if k in as_is:
                at.require(Dim(place), 0, source[k] - 1)
                results.append(Dim(place))
            elif k in free or source[k] == 1 != target[place]:
                results.append(Const(0))
            else:
                results.append(Dim(place))
        found += over(EXPANDS, at.map(results))
    return tuple(found)
