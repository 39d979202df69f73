"""Ops whose declared types HLO checks differently from StableHLO.

Number and kinds of operands, and the kind of the result, follow from the op's signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any, Final

from hloscope.errors import HloscopeError, UnsupportedError, VerifyError
from hloscope.hlo_parser import parse_type, print_type
from hloscope.ir import (
    ELEMENT_TYPES,
    Instruction,
    Op,
    TensorType,
    TokenType,
    TupleType,
    Type,
    storage_bits,
)
from hloscope.ops import (
    AsyncDone,
    AsyncUpdate,
    Bitcast,
    BitcastConvert,
    BroadcastInDim,
    Case,
    Constant,
    Convolution,
    CustomCall,
    DotGeneral,
    DynamicReshape,
    Infeed,
    Iota,
    Outfeed,
    Recv,
    Rng,
    RngBitGenerator,
    TopK,
    check_declared_sizes,
)
from hloscope.verifier.hlo.collectives import COLLECTIVES, array_of
from hloscope.verifier.hlo.likeness import same

_MOST_LITERAL: Final = 1 << 16
"""Longest literal, in characters, that is read for verification."""


def _text(type_: Type) -> str:
    return print_type(type_, layout=False)


def _types(ins: Instruction) -> tuple[Type, ...]:
    return tuple([o.type for o in ins.operands])


def _broadcast(ins: Instruction) -> None:
    """Check a broadcast: HLO does not expand dimensions of size 1."""
    op, (operand,), result = ins.op, _types(ins), ins.type
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
    """Check that operand and result have the same number of bits.

    Tiled layouts are not checked, since they may be padded.  Floats may change precision.
    """
    (operand,), result = _types(ins), ins.type
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
    """Check a `bitcast-convert`: booleans may count as bits or as bytes."""
    assert isinstance(ins.op, BitcastConvert)
    (operand,) = _types(ins)
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
        raise VerifyError(f"it is declared {_text(ins.type)}, needs known sizes")
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
            raise VerifyError(f"the sizes are {_text(shape)}, need to be a vector of integers")
    a, b, result = [array_of(t).element for t in (*_types(ins)[:2], ins.type)]
    if not a == b == result:
        raise VerifyError(f"operands are of {a} and {b}, the result of {result}", rule="rng_c1")
    if ins.op.rng_distribution == "NORMAL" and a.kind != "float":
        raise VerifyError(f"mu and sigma are of {a}, need floats", rule="rng_c2")


def _dynamic_reshape(ins: Instruction) -> None:
    """Check a `dynamic-reshape`: sizes are scalar operands; the declared sizes are bounds."""
    operand, *sizes = [t for t in _types(ins) if isinstance(t, TensorType)]
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
        raise VerifyError(f"operand 0 of `conditional` is {_text(selector)}, needs {name}[]")
    ins.op.verify(_types(ins), (ins.type,), ins.calls)


def _dot(ins: Instruction) -> None:
    """Check a `dot`: more than two operands are metadata of sparse ones."""
    assert isinstance(ins.op, DotGeneral)
    if len(ins.operands) > 2 and not (ins.op.sparsity or ins.op.sparsity_config):
        raise VerifyError(f"`dot` has {len(ins.operands)} operands, needs 2")
    ins.op.verify(_types(ins), (ins.type,), ins.calls)


def _parts(ins: Instruction, *needed: str) -> tuple[Type, ...]:
    """Return the elements of the declared tuple; `needed` describes each of them."""
    assert isinstance(ins.type, TupleType)
    found = ins.type.elements
    if len(found) != len(needed):
        raise VerifyError(f"it is declared {_text(ins.type)}, needs ({', '.join(needed)})")
    for part, name in zip(found, needed, strict=True):
        is_context = isinstance(part, TensorType) and part == TensorType(ELEMENT_TYPES["u32"], ())
        if (name == "token[]" and not isinstance(part, TokenType)) or (
            name == "u32[]" and not is_context
        ):
            raise VerifyError(f"it is declared {_text(ins.type)}, needs ({', '.join(needed)})")
    return found


def _recv(ins: Instruction) -> None:
    _parts(ins, "data", "u32[]", "token[]")


def _infeed(ins: Instruction) -> None:
    _parts(ins, "data", "token[]")


def _outfeed(ins: Instruction) -> None:
    """Check that the operand has the shape in `outfeed_shape`, if it is given."""
    shape = dict(getattr(ins.op, "settings", ())).get("outfeed_shape")
    if shape is not None and not same(parse_type(shape), ins.operands[0].type):
        have = _text(ins.operands[0].type)
        raise VerifyError(f"`outfeed_shape` is {shape}, the operand is {have}")


def _random_bits(ins: Instruction) -> None:
    """Check `rng-bit-generator`: the type is the bits alone, or (new state, bits)."""
    if isinstance(ins.type, TupleType):
        state, _ = _parts(ins, "state", "bits")
        if not same(state, ins.operands[0].type):
            raise VerifyError(f"the state becomes {_text(state)}, was {_text(*_types(ins))}")


def _top_k(ins: Instruction) -> None:
    ins.op.verify(_types(ins), _parts(ins, "values", "indices"))


def _accept(ins: Instruction) -> None:
    """Accept any declared type: nothing else in the module constrains it."""


def _convolution(ins: Instruction) -> None:
    """Check a convolution: element types may differ; the kernel's sizes must be known.

    Source: XLA `shape_inference.cc` (`InferConvolveShape`), which compares them as numbers: input
    features may be unknown on both sides.
    """
    assert isinstance(ins.op, Convolution)
    lhs, rhs = _types(ins)
    feature = ins.op.dimensions.input_feature
    if isinstance(lhs, TensorType) and isinstance(rhs, TensorType):
        features = ins.op.dimensions.kernel_input_feature
        pair = [t.sizes[d] for t, d in ((lhs, feature), (rhs, features)) if d < t.rank]
        # Except for input features, an unknown kernel size leaves the result's size unknown.
        unknown = [d for d, size in enumerate(rhs.sizes) if size is None and d != features]
        if unknown or len({size is None for size in pair}) > 1:
            raise VerifyError(
                f"operands are {_text(lhs)} and {_text(rhs)}, need a kernel of known sizes and a"
                " number of input features that both know or neither"
            )
    inferred = ins.op.infer(_types(ins))
    assert isinstance(inferred, TensorType)
    check_declared_sizes(inferred, (ins.type,), "convolution_c25")


def check_features(ins: Instruction) -> None:
    """Check that the number of output features of a convolution's kernel is not dynamic.

    Raises:
        VerifyError: It has only a bound.
    """
    assert isinstance(ins.op, Convolution)
    rhs, feature = ins.operands[1].type, ins.op.dimensions.kernel_output_feature
    if isinstance(rhs, TensorType) and feature < rhs.rank and rhs.sizes[feature] is None:
        raise VerifyError(f"the kernel is {_text(rhs)}, needs a known number of output features")


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
"""Updates and dones of asynchronous ops are checked in `pairs`."""
