"""Declared types of collectives against operands and the size of a device group."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from hloscope.errors import HloscopeError, VerifyError
from hloscope.hlo_parser import print_type
from hloscope.ir import BufferType, Instruction, Op, TensorType, TupleType, Type
from hloscope.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    Collective,
    CollectivePermute,
    ReduceScatter,
    exchanged,
    is_in_place,
    leaves,
)
from hloscope.verifier.hlo.likeness import like, same


def _members(op: Collective) -> int | None:
    """Return the number of members of each group; `None` if groups are unknown or unequal.

    With a channel and without global ids, groups list replicas, and all partitions of a replica
    take part.  Groups of an all-to-all list partitions then.
    """
    if op.channel_id and not op.use_global_device_ids and not isinstance(op, AllToAll):
        return None
    try:
        sizes = {len(group) for group in op.replica_groups.rows}
    except HloscopeError:
        return None
    return sizes.pop() if len(sizes) == 1 and 0 not in sizes else None


def _pairwise(ins: Instruction) -> list[tuple[TensorType, TensorType]]:
    """Return pairs of operand and result arrays; their element types must match."""
    results = ins.type.elements if isinstance(ins.type, TupleType) else (ins.type,)
    if len(results) != len(ins.operands):
        raise VerifyError(f"{len(results)} results for {len(ins.operands)} operands")
    pairs = []
    for given, made in zip((o.type for o in ins.operands), results, strict=True):
        operand, result = array_of(given), array_of(made)
        if not like(operand, TensorType(result.element, operand.sizes, None, operand.bounds)):
            raise VerifyError(
                f"the operand is of {operand.element}, the result of {result.element}"
            )
        pairs.append((operand, result))
    return pairs


def array_of(type_: Type) -> TensorType:
    """Return the type of an array, or of the array in a buffer."""
    array = type_.element if isinstance(type_, BufferType) else type_
    assert isinstance(array, TensorType)
    return array


def _check_body(ins: Instruction) -> None:
    """Check the computation of a reduction: two scalars to one, complex like the operands."""
    for callee in ins.calls:
        types = (*callee.arguments, *callee.results)
        if len(types) != 3 or not all(isinstance(t, TensorType) and not t.rank for t in types):
            texts = [print_type(t, layout=False) for t in types]
            raise VerifyError(
                f"{callee.name} is ({', '.join(texts[:-1])}) -> {texts[-1]}, needs to make one"
                " scalar of two"
            )
        for operand in ins.operands:
            kinds = [array_of(t).element.kind == "complex" for t in (operand.type, *types)]
            if len(set(kinds)) > 1:
                raise VerifyError(f"{callee.name} and the operands: only some are complex")


def _all_reduce(ins: Instruction) -> None:
    _check_body(ins)
    for operand, result in _pairwise(ins):
        _check_same(operand, result)


def _all_gather(ins: Instruction) -> None:
    assert isinstance(ins.op, AllGather)
    for operand, result in _pairwise(ins):
        _check_scaled(operand, result, ins.op.all_gather_dim, _members(ins.op), "all_gather_c1")


def _reduce_scatter(ins: Instruction) -> None:
    assert isinstance(ins.op, ReduceScatter)
    _check_body(ins)
    for operand, result in _pairwise(ins):
        d = ins.op.scatter_dimension
        _check_scaled(result, operand, d, _members(ins.op), "reduce_scatter_c2")


def _check_scaled(small: TensorType, big: TensorType, d: int, times: int | None, rule: str) -> None:
    """Check that `big` is `small` with dimension `d` multiplied by `times`, or by any integer."""
    if not 0 <= d < big.rank:
        raise VerifyError(f"dimension {d} is not in [0, {big.rank})", rule=rule)
    fits = small.rank == big.rank
    if fits:
        others = [t.sizes[:d] + t.sizes[d + 1 :] for t in (small, big)]
        part, whole = small.sizes[d], big.sizes[d]
        known = part is not None and whole is not None
        fits = others[0] == others[1] and (not known or _is_multiple(part, whole, times))
    if not fits:
        texts = [print_type(t, layout=False) for t in (small, big)]
        among = "" if times is None else f" among {times} members"
        message = f"{texts[0]} and {texts[1]} do not fit along dimension {d}{among}"
        raise VerifyError(message, rule=rule)


def _is_multiple(part: Any, whole: Any, times: int | None) -> bool:
    if times is not None:
        return bool(whole == part * times)
    return bool(whole % part == 0 if part else whole == 0)


def _all_to_all(ins: Instruction) -> None:
    """Check an all-to-all: one operand per member, or one operand split and concatenated."""
    op = ins.op
    assert isinstance(op, AllToAll)
    pairs, times = _pairwise(ins), _members(op)
    if op.split_dimension is None:
        if times is not None and times != len(pairs):
            raise VerifyError(f"{len(pairs)} operands, needs one for each of {times} members")
        for operand, result in pairs:
            _check_same(operand, result)
            if not same(pairs[0][0], operand):
                texts = [print_type(t, layout=False) for t in (pairs[0][0], operand)]
                raise VerifyError(f"operands are {texts[0]} and {texts[1]}, need to be alike")
        return
    split = op.split_dimension
    concat = split if op.concat_dimension is None else op.concat_dimension
    for operand, result in pairs:
        # With unknown groups, only the number of elements can be compared.
        if times is not None:
            _check_same(exchanged(operand, split, concat, times), result)
            continue
        exchanged(operand, split, concat, 1)
        if operand.is_static and result.is_static and prod(operand.shape) != prod(result.shape):
            raise VerifyError("operand and result have different numbers of elements")


def _check_same(made: TensorType, result: TensorType) -> None:
    """Check the declared result against the type that the exchange gives."""
    if not like(made, result):
        have, want = (print_type(t, layout=False) for t in (result, made))
        raise VerifyError(f"a result is declared {have}, but the operand makes it {want}")


def _collective_permute(ins: Instruction) -> None:
    """Check `collective-permute`: results like operands, or one array written into another."""
    types = tuple([o.type for o in ins.operands])
    results = ins.type.elements if isinstance(ins.type, TupleType) else (ins.type,)
    if not is_in_place(types):
        ins.op.verify(types, results)
        return
    if not all(map(_is_part, leaves(types[0]), leaves(types[1]))):
        parts = [print_type(t, layout=False) for t in types[:2]]
        raise VerifyError(f"{parts[0]} is not a part of {parts[1]}")
    if not like(types[1], ins.type):
        have, want = (print_type(t, layout=False) for t in (ins.type, types[1]))
        raise VerifyError(f"it is declared {have}, writes into {want}")


def _is_part(sent: Type, into: Type) -> bool:
    """Can `sent` be written into `into`: same element type and rank?"""
    if not isinstance(sent, TensorType) or not isinstance(into, TensorType):
        return False
    return sent.element == into.element and sent.rank == into.rank


COLLECTIVES: Final[dict[type[Op], Callable[[Instruction], None]]] = {
    AllGather: _all_gather,
    AllReduce: _all_reduce,
    AllToAll: _all_to_all,
    CollectivePermute: _collective_permute,
    ReduceScatter: _reduce_scatter,
}
"""Type checks of collectives, by op."""
