"""Ops with sizes known only at run time; every output element reads the operands with sizes."""

from __future__ import annotations

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.reshape import reshape_map
from hloscope.indexing.rules.build import (
    NEVER,
    MapBuilder,
    all_of_operands,
    everything_map,
    everywhere,
    exact,
    identity,
    integers,
    over,
    sizes,
)
from hloscope.indexing.rules.elementwise import broadcast_read, broadcast_write
from hloscope.indexing.rules.registry import input_to_output, output_to_input
from hloscope.ir import Instruction, TensorType
from hloscope.ops import (
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    GetDimensionSize,
    SetDimensionSize,
)


def _require_static(ins: Instruction) -> None:
    """Refuse dynamic sizes where the row-major order depends on their values."""
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
    """The size is read, and no element."""
    return (NEVER,)


@input_to_output(GetDimensionSize, shared=False)
def _(ins: Instruction, op: GetDimensionSize, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,)


@output_to_input(SetDimensionSize)
def _(ins: Instruction, op: SetDimensionSize, output: int) -> tuple[Accesses, ...]:
    return (_kept(ins), *all_of_operands(ins, 1))


@input_to_output(SetDimensionSize)
def _(ins: Instruction, op: SetDimensionSize, operand: int) -> tuple[Accesses, ...]:
    return everywhere(ins, operand) if operand else (_kept(ins),)


def _kept(ins: Instruction) -> Accesses:
    """Return the access to the elements that both arrays have.

    The declared bound may differ from the operand's size.
    """
    return identity(tuple(map(min, sizes(ins.type), sizes(ins.operands[0].type))))


# Dynamic pad.  Operands: array, padding value, then vectors of low, high and interior padding.  An
# element `x` lands on `low + x * (interior + 1)`.

_PADDING = "which elements are padding is known only at run time"


def _landing(at: MapBuilder, ins: Instruction, k: int, element: Expr) -> Expr:
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
