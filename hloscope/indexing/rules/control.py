"""Rules for structure: parameters, tuples, tokens, barriers, and copies in two halves.

A tuple is a list of arrays, its leaves; `Access.leaf` is the number of the accessed one. Fusions,
calls, branches, loops and asynchronous computations run other computations and are analysed in
`hloscope.fusion`.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.registry import (
    NEVER,
    analysed_elsewhere,
    first_leaf,
    identity,
    input_to_output,
    is_data,
    leaves,
    output_to_input,
    sizes,
    without_rule,
)
from hloscope.ir import Instruction, Op, TupleType, Type
from hloscope.ops import (
    ELEMENTWISE,
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

_COPY: Final = ELEMENTWISE["copy"]
"""The copy op; unlike other element-wise ops it also copies whole tuples."""


def _leaf(type: Type, number: int) -> Accesses:
    """Return the access from an element to the same element of leaf `number` of a tuple `type`."""
    leaf = leaves(type)[number]
    if not is_data(leaf):
        return NEVER  # a token: nothing is read
    return tuple([replace(access, leaf=number) for access in identity(sizes(leaf))])


@output_to_input(Parameter, CreateToken, shared=False)
def _(ins: Instruction, op: Parameter | CreateToken, output: int) -> tuple[Accesses, ...]:
    return ()


@output_to_input(AfterAll, shared=False)
def _(ins: Instruction, op: AfterAll, output: int) -> tuple[Accesses, ...]:
    """Return no accesses: tokens order instructions and carry no data."""
    return (NEVER,) * len(ins.operands)


@input_to_output(Parameter, CreateToken, AfterAll, shared=False)
def _(ins: Instruction, op: Op, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,) * len(leaves(ins.type))


# The leaves of the value are those of all operands, one operand after the other.


def _first_leaves(ins: Instruction) -> list[int]:
    """Return, for each operand, the number of the output that is its first leaf.

    The last entry is the number of outputs.
    """
    firsts = [0]
    for operand in ins.operands:
        firsts.append(firsts[-1] + len(leaves(operand.type)))
    return firsts


@output_to_input(Tuple, Return, OptimizationBarrier)
def _(ins: Instruction, op: Op, output: int) -> tuple[Accesses, ...]:
    firsts = _first_leaves(ins)
    return tuple(
        _leaf(operand.type, output - firsts[k]) if firsts[k] <= output < firsts[k + 1] else NEVER
        for k, operand in enumerate(ins.operands)
    )


@input_to_output(Tuple, Return, OptimizationBarrier)
def _(ins: Instruction, op: Op, operand: int) -> tuple[Accesses, ...]:
    first, end = _first_leaves(ins)[operand : operand + 2]
    type = ins.operands[operand].type
    return tuple(
        _leaf(type, output - first) if first <= output < end else NEVER
        for output in range(len(leaves(ins.type)))
    )


@output_to_input(_COPY, shared=False)
def _(ins: Instruction, op: Op, output: int) -> tuple[Accesses, ...]:
    type = ins.operands[0].type
    return (_leaf(type, output) if isinstance(type, TupleType) else identity(sizes(ins.type)),)


@input_to_output(_COPY, shared=False)
def _(ins: Instruction, op: Op, operand: int) -> tuple[Accesses, ...]:
    type = ins.operands[0].type
    if not isinstance(type, TupleType):
        return (identity(sizes(type)),)
    return tuple([_leaf(type, output) for output in range(len(leaves(type)))])


# Ops whose value consists of some leaves of operand 0, in order.


def _passed(ins: Instruction) -> list[int]:
    """Return, for each output, the number of the leaf of operand 0 that it equals; -1 if none."""
    source, outputs = ins.operands[0].type, len(leaves(ins.type))
    match ins.op:
        case GetTupleElement(index):
            first = first_leaf(source, index)
            return [*range(first, first + outputs)]
        case CopyStart():  # (target, source, context)
            count = len(leaves(source))
            return [k % count if k < 2 * count else -1 for k in range(outputs)]
        case _:
            return first_leaves(ins)


def first_leaves(ins: Instruction) -> list[int]:
    """Return, for each output, its own number if operand 0 has a leaf of that number; else -1.

    It is also -1 for an output that holds no data.
    """
    count = len(leaves(ins.operands[0].type))
    return [k if is_data(x) and k < count else -1 for k, x in enumerate(leaves(ins.type))]


def passed_from(ins: Instruction, leaf: int) -> tuple[Accesses, ...]:
    """Return, for each operand, the accesses of an output that equals leaf `leaf` of operand 0.

    A negative `leaf` means that the output equals none.
    """
    data = NEVER if leaf < 0 else _leaf(ins.operands[0].type, leaf)
    return (data, *[NEVER] * (len(ins.operands) - 1))


def passed_to(ins: Instruction, operand: int, leaf_of_output: list[int]) -> tuple[Accesses, ...]:
    """Return, for each output, its accesses from an operand.

    Output `i` equals leaf `leaf_of_output[i]` of operand 0, or none if that is negative.
    """
    source = ins.operands[0].type
    return tuple([NEVER if operand > 0 or k < 0 else _leaf(source, k) for k in leaf_of_output])


@output_to_input(GetTupleElement, Domain, AddDependency, CopyStart, CopyDone, AsyncUpdate)
def _(ins: Instruction, op: Op, output: int) -> tuple[Accesses, ...]:
    return passed_from(ins, _passed(ins)[output])


@input_to_output(GetTupleElement, Domain, AddDependency, CopyStart, CopyDone, AsyncUpdate)
def _(ins: Instruction, op: Op, operand: int) -> tuple[Accesses, ...]:
    return passed_to(ins, operand, _passed(ins))


without_rule(UnknownOp, reason="an op nothing is known about")
_CALLED = "through the computation it calls: `hloscope.fusion`"
analysed_elsewhere(Fusion, Call, Composite, Case, AsyncStart, AsyncDone, reason=_CALLED)
analysed_elsewhere(While, reason=_CALLED, precision=Precision.OVER)
