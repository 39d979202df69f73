"""Results that must take the memory of an operand: ops that update in place, and fusions of them.

Source: XLA `AliasInfo::GetInPlaceInputOutputPairs`, `GetFusionInstructionInPlaceInputOutputPairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from hloscope.hlo_parser import OPERAND_ALIASING, ShapeIndex, aliasing_in
from hloscope.ir import ByOp, Instruction, Op, TupleType, Type
from hloscope.ops import (
    AllReduce,
    AsyncStart,
    Bitcast,
    CollectivePermute,
    CustomCall,
    DynamicUpdateSlice,
    Fusion,
    GetTupleElement,
    Parameter,
    RaggedAllToAll,
    Scatter,
    SetDimensionSize,
    Tuple,
)


class InPlace(NamedTuple):
    """A part of a result in the memory of a part of an operand.

    Attributes:
        operand: Number of the operand.
        inside: Index of its part.
        output: Index of the part of the result.
    """

    operand: int
    inside: ShapeIndex
    output: ShapeIndex


InPlaceRule: TypeAlias = Callable[[Instruction], Iterator[InPlace]]


class InPlaceRow(NamedTuple):
    """Ops that update operands in place.

    Attributes:
        ops: The classes of ops.
        pairs: Yields parts of operands with the parts of the result that take their memory.
        about: The rule in words.
    """

    ops: tuple[type[Op], ...]
    pairs: InPlaceRule
    about: str


def _operand(number: int) -> InPlaceRule:
    def pairs(_: Instruction) -> Iterator[InPlace]:
        yield InPlace(number, (), ())

    return pairs


def _each(count: int) -> Iterator[InPlace]:
    """Yield operand k with element k of the result; a single operand with the whole result."""
    if count == 1:
        yield InPlace(0, (), ())
        return
    yield from (InPlace(k, (), (k,)) for k in range(count))


def _scattered(ins: Instruction) -> Iterator[InPlace]:
    yield from _each(len(ins.operands) // 2)


def _permuted_into(ins: Instruction, output: ShapeIndex) -> Iterator[InPlace]:
    """Yield pairs for a collective-permute of 4 operands, which writes into operand 1."""
    if len(ins.operands) != 4:
        return
    yield InPlace(1, (), output)
    into = ins.operands[1].type
    if isinstance(into, TupleType):
        yield from (InPlace(1, (k,), (*output, k)) for k in range(len(into.elements)))


def _permuted(ins: Instruction) -> Iterator[InPlace]:
    yield from _permuted_into(ins, ())


def _started(ins: Instruction) -> Iterator[InPlace]:
    assert isinstance(ins.op, AsyncStart)
    match ins.op.wrapped:
        case AllReduce():
            # NVSHMEM's all-reduce needs buffers of its own.
            if "nvshmem" not in (ins.extra("backend_config") or "").lower():
                yield from _each(len(ins.operands))
        case CollectivePermute():
            yield from _permuted_into(ins, (1,))
        case _:
            yield from _declared(ins)


def _declared(ins: Instruction) -> Iterator[InPlace]:
    """Yield the pairs that `output_to_operand_aliasing` declares."""
    for entry in aliasing_in(getattr(ins.op, "settings", ()), OPERAND_ALIASING):
        if entry.output is not None and entry.taken < len(ins.operands):
            yield InPlace(entry.taken, entry.inside, entry.output)


def _fused(ins: Instruction) -> Iterator[InPlace]:
    """Yield outputs that an op inside a fusion updates in place in a parameter, and declared pairs.

    The output is followed to its source through tuples and bitcasts; so is the source's operand,
    also through one nested fusion.
    """
    if ins.calls:
        for output in _leaves(ins):
            source, index = _followed(ins.calls[0].root, output)
            pair = next((one for one in in_place(source) if one.output == index), None)
            if pair is None:
                continue
            origin, inside = _followed(source.operands[pair.operand], pair.inside)
            if isinstance(origin.op, Fusion):
                nested = [one for one in in_place(origin) if one.output == inside]
                for one in nested[:1]:
                    origin, inside = _followed(origin.operands[one.operand], one.inside)
            if isinstance(origin.op, Parameter):
                yield InPlace(origin.op.number, inside, output)
    yield from _declared(ins)


def _leaves(ins: Instruction) -> Iterator[ShapeIndex]:
    """Yield the indices of the arrays of a result."""
    stack: list[tuple[ShapeIndex, Type]] = [((), ins.type)]
    while stack:
        index, type = stack.pop()
        if isinstance(type, TupleType):
            stack += [((*index, k), element) for k, element in enumerate(type.elements)]
        else:
            yield index


def _followed(ins: Instruction, index: ShapeIndex) -> tuple[Instruction, ShapeIndex]:
    """The instruction and index that a part of a value comes from, through tuples and bitcasts."""
    while True:
        if isinstance(ins.op, Tuple) and index and index[0] < len(ins.operands):
            ins, index = ins.operands[index[0]], index[1:]
        elif isinstance(ins.op, GetTupleElement):
            index = (ins.op.index, *index)
            ins = ins.operands[0]
        elif isinstance(ins.op, Bitcast) and not index:
            ins = ins.operands[0]
        else:
            return ins, index


IN_PLACE: Final = (
    InPlaceRow((DynamicUpdateSlice,), _operand(0), "the result is operand 0, updated"),
    InPlaceRow((Scatter,), _scattered, "result k is operand k, updated"),
    InPlaceRow((SetDimensionSize,), _operand(0), "the result is operand 0 of another size"),
    InPlaceRow((RaggedAllToAll,), _operand(1), "the result is operand 1, updated"),
    InPlaceRow((CollectivePermute,), _permuted, "with 4 operands the result is operand 1, updated"),
    InPlaceRow(
        (AsyncStart,),
        _started,
        "all-reduce-start: result k is operand k, not for nvshmem; collective-permute-start with 4 "
        "operands: {1} is operand 1; else what `output_to_operand_aliasing` declares",
    ),
    InPlaceRow((CustomCall,), _declared, "what `output_to_operand_aliasing` declares"),
    InPlaceRow(
        (Fusion,),
        _fused,
        "an output that an op of this table makes of a parameter; what is declared",
    ),
)
"""Ops whose result must take the memory of an operand."""

_RULES: Final = ByOp[InPlaceRule]()
for _row in IN_PLACE:
    _RULES.add(*_row.ops)(_row.pairs)


def in_place(ins: Instruction) -> list[InPlace]:
    """Parts of the result of an instruction that must take the memory of an operand.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo("ENTRY e { p = f32[8] parameter(0) u = f32[1] parameter(1) "
    ...     "i = s32[] parameter(2) ROOT d = f32[8] dynamic-update-slice(p, u, i) }")
    >>> in_place(module.entry.root)
    [InPlace(operand=0, inside=(), output=())]
    """
    rule = _RULES.find(ins.op)
    return [] if rule is None else [*rule(ins)]
