"""Checks of ops whose declared types HLO restricts differently from StableHLO."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Final

from msgspec.structs import replace

from hloscope.errors import HloscopeError, UnsupportedError, VerifyError
from hloscope.hlo_parser import parse_type, print_type
from hloscope.ir import (
    ELEMENT_TYPES,
    BufferType,
    Instruction,
    Op,
    TensorType,
    TokenType,
    TupleType,
    Type,
    compatible,
    storage_bits,
)
from hloscope.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    AsyncDone,
    AsyncUpdate,
    Bitcast,
    BitcastConvert,
    BroadcastInDim,
    Case,
    Collective,
    CollectivePermute,
    Constant,
    Convolution,
    CustomCall,
    DotGeneral,
    DynamicReshape,
    Infeed,
    Iota,
    Outfeed,
    Recv,
    ReduceScatter,
    Rng,
    RngBitGenerator,
    TopK,
    check_declared_sizes,
    exchanged,
    is_in_place,
    leaves,
)

# --------------------------------------------------------------------------------------------------
# Declared types of collectives against operands and the size of a device group.


def _group_size(op: Collective) -> int | None:
    """Return the size of each group of a collective; `None` if sizes are unknown or differ.

    If the collective has a channel but no global ids, its groups list replicas, all of whose
    partitions take part, so that the size is unknown. Those of an all-to-all list partitions.
    """
    if op.channel_id and not op.use_global_device_ids and not isinstance(op, AllToAll):
        return None
    try:
        sizes = {len(group) for group in op.replica_groups.rows}
    except HloscopeError:
        return None
    return sizes.pop() if len(sizes) == 1 and 0 not in sizes else None


def _pairwise(ins: Instruction) -> list[tuple[TensorType, TensorType]]:
    """Return the types of operand and result arrays of a collective, in pairs.

    Raises:
        VerifyError: The numbers or the element types of operands and results differ.
    """
    results = ins.type.elements if isinstance(ins.type, TupleType) else (ins.type,)
    if len(results) != len(ins.operands):
        raise VerifyError(f"{len(results)} results for {len(ins.operands)} operands")
    pairs = []
    for given, made in zip(ins.operand_types, results, strict=True):
        operand, result = array_of(given), array_of(made)
        if not equal_up_to_precision(
            operand, TensorType(result.element, operand.sizes, None, operand.bounds)
        ):
            raise VerifyError(
                f"the operand is of {operand.element}, the result of {result.element}"
            )
        pairs.append((operand, result))
    return pairs


def text_of(type_: Type) -> str:
    """Return a type as HLO text without its layout, for messages."""
    return print_type(type_, layout=False)


def array_of(type_: Type) -> TensorType:
    """Return an array type; for a buffer type, the type of the array in it.

    `type_` must be one of both.
    """
    array = type_.element if isinstance(type_, BufferType) else type_
    assert isinstance(array, TensorType)
    return array


def _check_body(ins: Instruction) -> None:
    """Check the types of a reduction's computation: two scalar parameters and a scalar result.

    They are complex exactly if the operands are.
    """
    for callee in ins.calls:
        types = (*callee.arguments, *callee.results)
        if len(types) != 3 or not all(isinstance(t, TensorType) and not t.rank for t in types):
            texts = [text_of(t) for t in types]
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
        _check_scaled(operand, result, ins.op.all_gather_dim, _group_size(ins.op), "all_gather_c1")


def _reduce_scatter(ins: Instruction) -> None:
    assert isinstance(ins.op, ReduceScatter)
    _check_body(ins)
    for operand, result in _pairwise(ins):
        d = ins.op.scatter_dimension
        _check_scaled(result, operand, d, _group_size(ins.op), "reduce_scatter_c2")


def _check_scaled(small: TensorType, big: TensorType, d: int, times: int | None, rule: str) -> None:
    """Check that `big` has the sizes of `small`, except that dimension `d` is `times` as large.

    If `times` is `None`, any integer factor is valid. Errors name the constraint `rule`.
    """
    if not 0 <= d < big.rank:
        raise VerifyError(f"dimension {d} is not in [0, {big.rank})", rule=rule)
    fits = small.rank == big.rank
    if fits:
        others = [t.sizes[:d] + t.sizes[d + 1 :] for t in (small, big)]
        part, whole = small.sizes[d], big.sizes[d]
        known = part is not None and whole is not None
        fits = others[0] == others[1] and (not known or _is_multiple(part, whole, times))
    if not fits:
        among = "" if times is None else f" among {times} members"
        raise VerifyError(
            f"{text_of(small)} and {text_of(big)} do not fit along dimension {d}{among}",
            rule=rule,
        )


def _is_multiple(part: Any, whole: Any, times: int | None) -> bool:
    if times is not None:
        return bool(whole == part * times)
    return bool(whole % part == 0 if part else whole == 0)


def _all_to_all(ins: Instruction) -> None:
    """Check an all-to-all.

    It has one operand per group member, or one operand that is split and concatenated.
    """
    op = ins.op
    assert isinstance(op, AllToAll)
    pairs, times = _pairwise(ins), _group_size(op)
    if op.split_dimension is None:
        if times is not None and times != len(pairs):
            raise VerifyError(f"{len(pairs)} operands, needs one for each of {times} members")
        for operand, result in pairs:
            _check_same(operand, result)
            if not same(pairs[0][0], operand):
                raise VerifyError(
                    f"operands are {text_of(pairs[0][0])} and {text_of(operand)}, need to be alike"
                )
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


def _check_same(inferred: TensorType, result: TensorType) -> None:
    """Check that the declared type `result` equals the inferred type `inferred`."""
    if not equal_up_to_precision(inferred, result):
        raise VerifyError(
            f"a result is declared {text_of(result)}, but the operand makes it {text_of(inferred)}"
        )


def _collective_permute(ins: Instruction) -> None:
    """Check `collective-permute`: results have the operands' types, or one array is updated."""
    types = ins.operand_types
    results = ins.type.elements if isinstance(ins.type, TupleType) else (ins.type,)
    if not is_in_place(types):
        ins.op.verify(types, results)
        return
    if not all(map(_is_part, leaves(types[0]), leaves(types[1]))):
        raise VerifyError(f"{text_of(types[0])} is not a part of {text_of(types[1])}")
    if not equal_up_to_precision(types[1], ins.type):
        raise VerifyError(f"it is declared {text_of(ins.type)}, writes into {text_of(types[1])}")


def _is_part(sent: Type, into: Type) -> bool:
    """May an array of type `sent` be a slice of one of type `into`?

    That is so if element types and ranks are equal.
    """
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
"""Functions that check the declared types of collectives, by op class."""


# --------------------------------------------------------------------------------------------------
# Ops whose declared types HLO checks differently from StableHLO.
#
# Number and kinds of operands, and the kind of the result, follow from the op's signature.


_MOST_LITERAL: Final = 1 << 16
"""Maximum number of characters of a literal whose elements are checked."""


def _broadcast(ins: Instruction) -> None:
    """Check a `broadcast`: HLO does not repeat dimensions of size 1."""
    op, (operand,), result = ins.op, ins.operand_types, ins.type
    assert isinstance(op, BroadcastInDim)
    op.verify((operand,), (result,))
    if not isinstance(operand, TensorType) or not isinstance(result, TensorType):
        return
    for d, target in enumerate(op.broadcast_dimensions):
        have, want = operand.sizes[d], result.sizes[target]
        if have is not None and want is not None and have != want:
            raise VerifyError(
                f"dimension {d} of the operand has size {have}, dimension {target} of the result"
                f" {want}",
                rule="broadcast_in_dim_c5",
            )


def _bitcast(ins: Instruction) -> None:
    """Check a `bitcast`: operand and result have the same number of bits.

    Tiled layouts are not checked, since they may be padded. Floats may change precision.
    """
    (operand,), result = ins.operand_types, ins.type
    if not isinstance(operand, TensorType) or not isinstance(result, TensorType):
        return
    if not (operand.is_static and result.is_static):
        return
    if operand.is_tiled or result.is_tiled:
        return
    bits = [prod(t.shape) * storage_bits(t) for t in (operand, result)]
    floats = operand.element.kind == result.element.kind == "float"
    if floats and prod(operand.shape) == prod(result.shape):
        return
    if bits[0] != bits[1]:
        raise VerifyError(f"the operand has {bits[0]} bits, the result {bits[1]}")


def _bitcast_convert(ins: Instruction) -> None:
    """Check a `bitcast-convert`; booleans may count as bits or as bytes."""
    assert isinstance(ins.op, BitcastConvert)
    (operand,) = ins.operand_types
    try:
        ins.op.verify((operand,), (ins.type,))
    except VerifyError as error:
        is_of_bits = error.rule == "bitcast_convert_c1"
        if not (is_of_bits and ins.op.fits_with_bytes(operand, ins.type)):
            raise


def _constant(ins: Instruction) -> None:
    """Check that the literal of a constant is valid for the declared type."""
    assert isinstance(ins.op, Constant)
    if isinstance(ins.type, TensorType) and None in ins.type.most:
        raise VerifyError(f"it is declared {text_of(ins.type)}, needs known sizes")
    literal = ins.op.literal
    text = str(literal)
    is_complex = isinstance(ins.type, TensorType) and ins.type.element.kind == "complex"
    if is_complex and re.search(r"\d", text) and "(" not in text:
        raise VerifyError(f"`{text}` is not a complex number, which is written `(real, imaginary)`")
    if len(text) > _MOST_LITERAL or literal.is_elided:
        return
    try:
        literal.array(ins.type)
    except UnsupportedError:  # a valid literal that cannot be made an array here
        return
    except HloscopeError as error:
        raise VerifyError(error.message, rule="constant_c1") from None


def _iota(ins: Instruction) -> None:
    assert isinstance(ins.op, Iota)
    rank = ins.type.rank if isinstance(ins.type, TensorType) else 0
    if not 0 <= ins.op.iota_dimension < rank:
        raise VerifyError(
            f"dimension {ins.op.iota_dimension} is not in [0, {rank})", rule="iota_c1"
        )


def _rng(ins: Instruction) -> None:
    assert isinstance(ins.op, Rng)
    if len(ins.operands) > 2:
        shape = array_of(ins.operands[2].type)
        if shape.element.kind not in ("signed", "unsigned") or shape.rank > 1:
            raise VerifyError(f"the sizes are {text_of(shape)}, need to be a vector of integers")
    a, b, result = [array_of(t).element for t in (*ins.operand_types[:2], ins.type)]
    if not a == b == result:
        raise VerifyError(f"operands are of {a} and {b}, the result of {result}", rule="rng_c1")
    if ins.op.rng_distribution == "NORMAL" and a.kind != "float":
        raise VerifyError(f"mu and sigma are of {a}, need floats", rule="rng_c2")


def _dynamic_reshape(ins: Instruction) -> None:
    """Check a `dynamic-reshape`: sizes are scalar operands, and declared sizes are bounds."""
    operand, *sizes = [t for t in ins.operand_types if isinstance(t, TensorType)]
    result = ins.type
    assert isinstance(result, TensorType)
    if operand.element != result.element:
        raise VerifyError(f"the operand is of {operand.element}, the result of {result.element}")
    if len(sizes) != result.rank:
        raise VerifyError(f"{len(sizes)} sizes are given, the result has rank {result.rank}")
    if any(t.element.kind not in ("signed", "unsigned") for t in sizes):
        raise VerifyError("the sizes need to be integers")
    counts = [t.num_elements for t in (operand, result) if None not in t.most]
    if len(set(counts)) > 1:
        raise VerifyError(f"the operand has {counts[0]} elements, the result {counts[1]}")


def _conditional(ins: Instruction) -> None:
    """Check a `conditional`: a predicate selects one of two branches, an integer one of many."""
    assert isinstance(ins.op, Case)
    selector, name = array_of(ins.operands[0].type), "pred" if ins.op.predicated else "s32"
    if selector.element.name != name:
        raise VerifyError(f"operand 0 of `conditional` is {text_of(selector)}, needs {name}[]")
    ins.op.verify(ins.operand_types, (ins.type,), ins.calls)


def _dot(ins: Instruction) -> None:
    """Check a `dot`; more than two operands are the metadata of sparse operands."""
    assert isinstance(ins.op, DotGeneral)
    if len(ins.operands) > 2 and not (ins.op.sparsity or ins.op.sparsity_config):
        raise VerifyError(f"`dot` has {len(ins.operands)} operands, needs 2")
    ins.op.verify(ins.operand_types, (ins.type,), ins.calls)


def _tuple_elements(ins: Instruction, *needed: str) -> tuple[Type, ...]:
    """Return the elements of the declared tuple type.

    `needed` names, for each element, the kind of type that it must have, such as a token.

    Raises:
        VerifyError: The tuple has another number of elements, or one has another type.
    """
    assert isinstance(ins.type, TupleType)
    found = ins.type.elements
    if len(found) != len(needed):
        raise VerifyError(f"it is declared {text_of(ins.type)}, needs ({', '.join(needed)})")
    for part, name in zip(found, needed, strict=True):
        is_context = isinstance(part, TensorType) and part == TensorType(ELEMENT_TYPES["u32"], ())
        if (name == "token[]" and not isinstance(part, TokenType)) or (
            name == "u32[]" and not is_context
        ):
            raise VerifyError(f"it is declared {text_of(ins.type)}, needs ({', '.join(needed)})")
    return found


def _recv(ins: Instruction) -> None:
    _tuple_elements(ins, "data", "u32[]", "token[]")


def _infeed(ins: Instruction) -> None:
    _tuple_elements(ins, "data", "token[]")


def _outfeed(ins: Instruction) -> None:
    """Check an `outfeed`: its operand has the type in `outfeed_shape`, if that is given."""
    shape = dict(getattr(ins.op, "settings", ())).get("outfeed_shape")
    if shape is not None and not same(parse_type(shape), ins.operands[0].type):
        have = text_of(ins.operands[0].type)
        raise VerifyError(f"`outfeed_shape` is {shape}, the operand is {have}")


def _random_bits(ins: Instruction) -> None:
    """Check `rng-bit-generator`: its type is that of the bits, or (new state, bits)."""
    if isinstance(ins.type, TupleType):
        state, _ = _tuple_elements(ins, "state", "bits")
        if not same(state, ins.operands[0].type):
            raise VerifyError(
                f"the state becomes {text_of(state)}, was {text_of(*ins.operand_types)}"
            )


def _top_k(ins: Instruction) -> None:
    ins.op.verify(ins.operand_types, _tuple_elements(ins, "values", "indices"))


def _accept(ins: Instruction) -> None:
    """Accept any declared type."""


def _convolution(ins: Instruction) -> None:
    """Check a convolution: element types may differ, but the kernel's sizes must be static.

    Source: XLA `shape_inference.cc` (`InferConvolveShape`), which compares them as numbers: input
    features may be unknown on both sides.
    """
    assert isinstance(ins.op, Convolution)
    lhs, rhs = ins.operand_types
    feature = ins.op.dimensions.input_feature
    if isinstance(lhs, TensorType) and isinstance(rhs, TensorType):
        features = ins.op.dimensions.kernel_input_feature
        pair = [t.sizes[d] for t, d in ((lhs, feature), (rhs, features)) if d < t.rank]
        # Except for input features, an unknown kernel size leaves the result's size unknown.
        unknown = [d for d, size in enumerate(rhs.sizes) if size is None and d != features]
        if unknown or len({size is None for size in pair}) > 1:
            raise VerifyError(
                f"operands are {text_of(lhs)} and {text_of(rhs)}, need a kernel of known sizes and"
                " a number of input features that both know or neither"
            )
    inferred = ins.op.infer(ins.operand_types)
    assert isinstance(inferred, TensorType)
    check_declared_sizes(inferred, (ins.type,), "convolution_c25")


def check_features(ins: Instruction) -> None:
    """Check that the kernel of a convolution has a static number of output features.

    Raises:
        VerifyError: The number is dynamic.
    """
    assert isinstance(ins.op, Convolution)
    rhs, feature = ins.operands[1].type, ins.op.dimensions.kernel_output_feature
    if isinstance(rhs, TensorType) and feature < rhs.rank and rhs.sizes[feature] is None:
        raise VerifyError(f"the kernel is {text_of(rhs)}, needs a known number of output features")


OWN_RULES: Final[dict[type[Op], Callable[[Instruction], Any]]] = {
    **COLLECTIVES,
    Convolution: _convolution,
    BroadcastInDim: _broadcast,
    Bitcast: _bitcast,
    BitcastConvert: _bitcast_convert,
    Case: _conditional,
    Constant: _constant,
    DotGeneral: _dot,
    DynamicReshape: _dynamic_reshape,
    Infeed: _infeed,
    Iota: _iota,
    CustomCall: _accept,
    Outfeed: _outfeed,
    Recv: _recv,
    Rng: _rng,
    RngBitGenerator: _random_bits,
    TopK: _top_k,
    AsyncUpdate: _accept,
    AsyncDone: _accept,
}
"""Functions that check the declared type of an op, by class, in place of StableHLO's rules.

Updates and dones of asynchronous ops are checked in `pairs`.
"""


# --------------------------------------------------------------------------------------------------
# Equality of types in HLO: layouts do not matter, the precision of floats sometimes does.
#
# Source: XLA `hlo_verifier.cc` (`ShapesSame`, `CheckShape`).


def bounds_as_sizes(type_: Type) -> Type:
    """Return a type with bounds in place of dynamic sizes: HLO allocates that much memory.

    >>> from hloscope.hlo_parser.types import parse_type, print_type
    >>> print_type(bounds_as_sizes(parse_type("(f32[<=4,3], s32[])")))
    '(f32[4,3], s32[])'
    >>> print_type(bounds_as_sizes(parse_type("f32[<=4,?]")))
    'f32[4,?]'
    """
    match type_:
        case TensorType() if type_.bounds:
            pairs = zip(type_.sizes, type_.bounds, strict=True)
            sizes = tuple([bound if size is None else size for size, bound in pairs])
            open_ones = (None,) * type_.rank if None in sizes else ()
            return TensorType(type_.element, sizes, type_.layout, open_ones)
        case TupleType():
            return TupleType(tuple(map(bounds_as_sizes, type_.elements)))
        case _:
            return type_


def bounds_of(type_: Type) -> list[tuple[int | None, ...]]:
    """Return the bounds of each array in a type, in order; `()` for an array without bounds."""
    if isinstance(type_, TupleType):
        return [bounds for part in type_.elements for bounds in bounds_of(part)]
    return [type_.bounds if isinstance(type_, TensorType) else ()]


def equal_lists(a: tuple[Type, ...], b: tuple[Type, ...], *, wider: bool) -> bool:
    """Do two lists have equal types, except for layouts and the precision of floats?

    XLA compares types so. With `wider`, element types may differ in any way.
    """
    return len(a) == len(b) and all(map(partial(_same, free="any" if wider else "float"), a, b))


def _same(a: Type, b: Type, free: str) -> bool:
    """Are two types equal except for layouts? A buffer type equals the type of its array.

    `free` tells which element types may differ: `any`, those that are `float`, or none if empty.
    """
    match a, b:
        case TensorType(), TensorType():
            x, y = a.element, b.element
            if x != y and (free == "any" or free == x.kind == y.kind == "float"):
                a = replace(a, element=y)
            return compatible(a, b)
        case TupleType(x), TupleType(y):
            return len(x) == len(y) and all(map(partial(_same, free=free), x, y))
        case BufferType(), _:
            return _same(a.element, b, free)
        case _, BufferType():
            return _same(a, b.element, free)
        case _:
            return compatible(a, b)


def equal_up_to_precision(a: Type, b: Type) -> bool:
    """Are two types equal, except for layouts and the precision of floats?"""
    return _same(a, b, "float")


def same(a: Type, b: Type) -> bool:
    """Are two types equal, except for layouts? The precision of floats counts.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> same(parse_type("f32[2]{0}"), parse_type("f32[2]")), same(
    ...     parse_type("f32[2]"), parse_type("bf16[2]"))
    (True, False)
    """
    return _same(a, b, "")
