"""Declared types of instructions against what their ops infer, by HLO's own rules of likeness."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any, Final

from hloscope.errors import Diagnostic, HloscopeError, UnsupportedError, VerifyError
from hloscope.hlo_parser.literals import literal_value
from hloscope.hlo_parser.spelling import template
from hloscope.hlo_parser.types import print_type
from hloscope.ir.graph import Instruction
from hloscope.ir.op import IncompatibleTypesError, Op
from hloscope.ir.types import BufferType, TensorType, TupleType, Type, compatible
from hloscope.mlir.parser import parse_type
from hloscope.ops.collectives import AllGather, AllToAll, ReduceScatter
from hloscope.ops.contraction import Dot, DotGeneral, RaggedDot, ScaledDot
from hloscope.ops.control import (
    AddDependency,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Call,
    Case,
    CustomCall,
    Domain,
    Fusion,
    GetTupleElement,
    Tuple,
    While,
)
from hloscope.ops.convolution import Convolution
from hloscope.ops.declared import check_declared_sizes
from hloscope.ops.gather_scatter import Gather, Scatter
from hloscope.ops.infer_util import leaves
from hloscope.ops.random import Rng
from hloscope.ops.shape import Bitcast, BroadcastInDim, Constant, Iota

_MOST_LITERAL: Final = 1 << 16
"""Literals of more characters are not read for verification."""


def check_type(ins: Instruction) -> Iterator[Diagnostic]:
    """Does the declared type follow from op, operands and called computations?"""
    yield from _check_layouts(ins)
    own = _OWN_RULES.get(type(ins.op))
    try:
        if own is not None:
            own(ins)
        else:
            several = isinstance(ins.type, TupleType) and not isinstance(ins.op, _ONE_VALUE)
            results = leaves(ins.type) if several else (ins.type,)
            ins.op.verify(tuple(o.type for o in ins.operands), results, ins.calls)
    except IncompatibleTypesError as error:
        if not _alike(error.inferred, error.declared, wider=isinstance(ins.op, _WIDENING)):
            yield _mismatch(ins, error.inferred)
    except VerifyError as error:
        if not _is_fine_in_hlo(ins.op, error.rule):
            yield Diagnostic(f"`{opcode(ins)}`: {_in_hlo(error.message)}", ins.span, error.rule)


def _is_fine_in_hlo(op: Op, rule: str) -> bool:
    """Does only StableHLO refuse it: index vectors that name batching dimensions?"""
    if isinstance(op, Gather) and rule == "gather_c18":
        return len(set(op.start_index_map)) == len(op.start_index_map)
    if isinstance(op, Scatter) and rule == "scatter_c20":
        dims = op.scatter_dims_to_operand_dims
        return len(set(dims)) == len(dims)
    return False


def _in_hlo(message: str) -> str:
    """A message whose types are spelled as in HLO.

    >>> _in_hlo("needs 'tensor<2x?xi1>', found tensor<f32>")
    'needs pred[2,?], found f32[]'
    """
    return _MLIR_TYPE.sub(lambda m: print_type(parse_type(m[1] or m[2]), layout=False), message)


_MLIR_TYPE: Final = re.compile(r"'((?:tensor|tuple)<[^']*>)'|\b(tensor<[\w?]*>)")


def opcode(ins: Instruction) -> str:
    """The op as HLO text calls it."""
    try:
        return template(ins.op, len(ins.calls))[0]
    except UnsupportedError:
        return ins.op.name


def _mismatch(ins: Instruction, inferred: tuple[Type, ...]) -> Diagnostic:
    whole = inferred[0] if len(inferred) == 1 else TupleType(inferred)
    declared, found = (print_type(t, layout=False) for t in (ins.type, whole))
    message = f"`{opcode(ins)}` is declared {declared}, but its operands make it {found}"
    return Diagnostic(message, ins.span)


_ONE_VALUE: Final = (AddDependency, Call, Case, Domain, Fusion, GetTupleElement, Tuple, While)
"""Ops whose result is one value, be it a tuple; the tuple of others stands for several results."""

_WIDENING: Final = (Convolution, Dot, DotGeneral, RaggedDot, ScaledDot)
"""Ops that may accumulate in, and return, another element type than their operands'."""


def _alike(a: tuple[Type, ...], b: tuple[Type, ...], *, wider: bool) -> bool:
    """The same but for layouts and the precision of floats, as XLA's inference compares."""
    return len(a) == len(b) and all(_same(x, y, wider) for x, y in zip(a, b, strict=True))


def _same(a: Type, b: Type, wider: bool) -> bool:
    match a, b:
        case TensorType(), TensorType():
            x, y = a.element, b.element
            if x != y and (wider or x.kind == y.kind == "float"):
                a = replace(a, element=y)
            return compatible(a, b)
        case TupleType(), TupleType():
            return _alike(a.elements, b.elements, wider=wider)
        case BufferType(), _:
            return _same(a.element, b, wider)
        case _, BufferType():
            return _same(a, b.element, wider)
        case _:
            return compatible(a, b)


def like(a: Type, b: Type) -> bool:
    """The same type but for layouts and the precision of floats."""
    return _same(a, b, wider=False)


def _check_layouts(ins: Instruction) -> Iterator[Diagnostic]:
    parts: list[Type] = [ins.type]
    while parts:
        part = parts.pop()
        if isinstance(part, TupleType):
            parts += part.elements
        elif isinstance(part, TensorType) and part.layout is not None:
            order = part.layout.minor_to_major
            if sorted(order) != list(range(part.rank)):
                text = print_type(part)
                yield Diagnostic(f"the layout of {text} does not order its dimensions", ins.span)


# ------------------------------------------------------------------------ HLO's own rules


def _broadcast(ins: Instruction) -> None:
    """HLO never stretches a dimension of size 1."""
    op, (operand,), result = ins.op, (o.type for o in ins.operands), ins.type
    assert isinstance(op, BroadcastInDim)
    ins.op.verify((operand,), (result,))
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
    """The same number of bits where both layouts are written."""
    (operand,), result = (o.type for o in ins.operands), ins.type
    if not isinstance(operand, TensorType) or not isinstance(result, TensorType):
        return
    if not (operand.is_static and result.is_static):
        return
    if any(t.layout is None or t.layout.tiles for t in (operand, result)):
        return
    bits = [prod(t.shape) * _stored_bits(t) for t in (operand, result)]
    if bits[0] != bits[1]:
        raise VerifyError(f"the operand has {bits[0]} bits, the result {bits[1]}")


def _stored_bits(type_: TensorType) -> int:
    explicit = type_.layout.element_bits if type_.layout else 0
    return explicit or max(8, type_.element.bits)


def _constant(ins: Instruction) -> None:
    assert isinstance(ins.op, Constant)
    text = ins.op.literal
    if len(text) > _MOST_LITERAL or "..." in text:
        return
    try:
        literal_value(ins.type, text)
    except HloscopeError as error:
        raise VerifyError(error.message, rule="constant_c1") from None


def _iota(ins: Instruction) -> None:
    assert isinstance(ins.op, Iota)
    rank = ins.type.rank if isinstance(ins.type, TensorType) else 0
    if not 0 <= ins.op.iota_dimension < rank:
        raise VerifyError(
            f"dimension {ins.op.iota_dimension} is not in [0, {rank})", rule="iota_c1"
        )


def _pairwise(ins: Instruction) -> list[tuple[TensorType, TensorType]]:
    results = ins.type.elements if isinstance(ins.type, TupleType) else (ins.type,)
    if len(results) != len(ins.operands):
        raise VerifyError(f"{len(results)} results for {len(ins.operands)} operands")
    pairs = zip((o.type for o in ins.operands), results, strict=True)
    return [(a, b) for a, b in pairs if isinstance(a, TensorType) and isinstance(b, TensorType)]


def _gathers(ins: Instruction) -> None:
    assert isinstance(ins.op, AllGather)
    for operand, result in _pairwise(ins):
        _scaled(operand, result, ins.op.all_gather_dim, "all_gather_c1", grows=True)


def _scatters(ins: Instruction) -> None:
    assert isinstance(ins.op, ReduceScatter)
    for operand, result in _pairwise(ins):
        _scaled(operand, result, ins.op.scatter_dimension, "reduce_scatter_c2", grows=False)


def _scaled(small: TensorType, big: TensorType, d: int, rule: str, *, grows: bool) -> None:
    """One is the other but for dimension `d`, whose size it divides."""
    if not 0 <= d < small.rank:
        raise VerifyError(f"dimension {d} is not in [0, {small.rank})", rule=rule)
    if not grows:
        small, big = big, small
    sizes = [t.sizes[:d] + t.sizes[d + 1 :] for t in (small, big)]
    have, want = small.sizes[d], big.sizes[d]
    fits = have is None or want is None or (want % have == 0 if have else want == 0)
    if sizes[0] != sizes[1] or not fits or small.rank != big.rank:
        texts = [print_type(t, layout=False) for t in (small, big)]
        raise VerifyError(f"{texts[0]} and {texts[1]} do not fit along dimension {d}", rule=rule)


def _all_to_all(ins: Instruction) -> None:
    assert isinstance(ins.op, AllToAll)
    for operand, result in _pairwise(ins):
        if operand.is_static and result.is_static and prod(operand.shape) != prod(result.shape):
            raise VerifyError("operand and result have different numbers of elements")


def _anything(ins: Instruction) -> None:
    """A type that nothing outside says anything about."""


def _convolution(ins: Instruction) -> None:
    """Operands may have different element types."""
    inferred = ins.op.infer(tuple(o.type for o in ins.operands))
    assert isinstance(inferred, TensorType)
    check_declared_sizes(inferred, (ins.type,), "convolution_c25")


_OWN_RULES: Final[dict[type[Op], Callable[[Instruction], Any]]] = {
    Convolution: _convolution,
    BroadcastInDim: _broadcast,
    Bitcast: _bitcast,
    Constant: _constant,
    Iota: _iota,
    AllGather: _gathers,
    ReduceScatter: _scatters,
    AllToAll: _all_to_all,
    CustomCall: _anything,
    Rng: _anything,
    AsyncStart: _anything,
    AsyncUpdate: _anything,
    AsyncDone: _anything,
}
"""Ops whose declared type HLO checks in another way than StableHLO; async ones are in `pairs`."""
