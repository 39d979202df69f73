"""Tiles through tuples, and refusals for control flow and other ops without rules."""

from __future__ import annotations

from hloscope.ir import Instruction
from hloscope.ops import (
    AddDependency,
    AfterAll,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Call,
    Case,
    Composite,
    CopyDone,
    CopyStart,
    CreateToken,
    CustomCall,
    Domain,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Return,
    Tuple,
    UnknownOp,
    While,
)
from hloscope.tiling.propagation.registry import Answer, Way, exact, refuse, to_operands, to_outputs
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import Tile


@to_operands(GetTupleElement)
@to_outputs(GetTupleElement)
def _(space: TilingSpace, ins: Instruction, op: GetTupleElement, tile: Tile, number: int) -> Answer:
    """Return the tile of the element that is taken from the tuple."""
    return exact(tile)


@to_operands(Parameter)
def _(space: TilingSpace, ins: Instruction, op: Parameter, tile: Tile, output: int) -> Answer:
    return exact()


refuse(Parameter, reason="it has no operands", ways=(Way.TO_OUTPUTS,))


@to_operands(Domain, refused="it marks a boundary, and computes nothing")
@to_outputs(Domain, refused="it marks a boundary, and computes nothing")
def _(space: TilingSpace, ins: Instruction, op: Domain, tile: Tile, number: int) -> Answer:
    return exact(tile)


refuse(Tuple, Return, OptimizationBarrier, reason="its value is a tuple, whose arrays have no tile")
refuse(Fusion, Call, Composite, reason="the computation that it calls is tiled by itself")
refuse(While, Case, reason="what its computations do depends on values that are known at run time")
refuse(
    AsyncStart,
    AsyncUpdate,
    AsyncDone,
    CopyStart,
    CopyDone,
    reason="an asynchronous op is not a part of a kernel",
)
refuse(AddDependency, AfterAll, CreateToken, reason="a token has no elements")
refuse(CustomCall, UnknownOp, reason="what it computes is not told")
