"""Called computations: number and types of their parameters and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Final

from hloscope.errors import Diagnostic
from hloscope.hlo_parser import print_type
from hloscope.ir import (
    ELEMENT_TYPES,
    Computation,
    Instruction,
    Module,
    Op,
    TensorType,
    TupleType,
    Type,
)
from hloscope.ops import (
    AsyncStart,
    Bitcast,
    Call,
    Case,
    Fusion,
    Parameter,
    Recv,
    Send,
    Tuple,
    While,
)
from hloscope.verifier.hlo.likeness import placed, same
from hloscope.verifier.hlo.types import begun, opcode


def check_calls(ins: Instruction) -> Iterator[Diagnostic]:
    """Yield errors of called computations: types of their parameters and results."""
    inner = begun(ins)
    if inner is not None:
        yield from _begun(inner)
        return
    rule = _RULES.get(type(ins.op))
    if rule is not None and ins.calls:
        yield from rule(ins)


def _takes(ins: Instruction, callee: Computation, given: tuple[Type, ...]) -> Iterator[Diagnostic]:
    taken = callee.arguments
    if len(taken) != len(given):
        message = (
            f"`{opcode(ins)}` gives {callee.name} {len(given)} operands, it takes {len(taken)}"
        )
        yield Diagnostic(message, ins.span)
        return
    for i, (have, want) in enumerate(zip(given, taken, strict=True)):
        if not same(placed(have), placed(want)):
            yield Diagnostic(
                f"`{opcode(ins)}` gives {callee.name} {_text(have)} as parameter {i}, it takes"
                f" {_text(want)}",
                ins.span,
            )


def _returns(ins: Instruction, callee: Computation, needed: Type) -> Iterator[Diagnostic]:
    (returned,) = callee.results
    if not same(returned, needed):
        yield Diagnostic(
            f"{callee.name} returns {_text(returned)}, `{opcode(ins)}` needs {_text(needed)}",
            ins.span,
        )


def _text(type_: Type) -> str:
    return print_type(type_, layout=False)


def _call(ins: Instruction) -> Iterator[Diagnostic]:
    callee = ins.calls[0]
    yield from _takes(ins, callee, tuple(o.type for o in ins.operands))
    yield from _returns(ins, callee, ins.type)


def _begun(ins: Instruction) -> Iterator[Diagnostic]:
    """Check the computation that `<op>-start` calls; updates may add operands that are missing."""
    if not isinstance(ins.op, Call | Fusion) or not ins.calls:
        return
    callee = ins.calls[0]
    given = tuple([o.type for o in ins.operands])
    yield from _takes(ins, callee, (*given, *callee.arguments[len(given) :]))
    if ins.type != TupleType(()):  # else the type leaves the result out until it is done
        yield from _returns(ins, callee, ins.type)


def _while(ins: Instruction) -> Iterator[Diagnostic]:
    if len(ins.operands) != 1:
        return
    condition, body = ins.calls
    state = ins.operands[0].type
    yield from _takes(ins, condition, (state,))
    yield from _returns(ins, condition, TensorType(ELEMENT_TYPES["pred"], ()))
    yield from _takes(ins, body, (state,))
    yield from _returns(ins, body, state)
    if not same(ins.type, state):
        message = f"`while` is declared {_text(ins.type)}, its operand is {_text(state)}"
        yield Diagnostic(message, ins.span, "while_c3")


def _case(ins: Instruction) -> Iterator[Diagnostic]:
    if not ins.operands:
        return
    given = ins.operands[1:]
    if len(given) != len(ins.calls):
        message = f"`conditional` has {len(ins.calls)} branches and {len(given)} operands for them"
        yield Diagnostic(message, ins.span)
        return
    for branch, operand in zip(ins.calls, given, strict=True):
        yield from _takes(ins, branch, (operand.type,))
        yield from _returns(ins, branch, ins.type)


def _async(ins: Instruction) -> Iterator[Diagnostic]:
    """Yield errors of `async-start`: the called computation, its operands and the declared type."""
    op = ins.op
    if not isinstance(op, AsyncStart) or op.wrapped is not None:
        return
    callee = ins.calls[0]
    others = [i for i in callee if i is not callee.root and not isinstance(i.op, Parameter)]
    if others and not all(isinstance(i.op, _GROUPED) for i in callee):
        message = (
            f"`async-start` calls {callee.name}, which needs to be one op and its parameters;"
            f" `{others[0].name}` is another"
        )
        yield Diagnostic(message, ins.span)
    yield from _takes(ins, callee, tuple(o.type for o in ins.operands))
    match ins.type:
        case TupleType((taken, result, *_)):
            given = TupleType(tuple([o.type for o in ins.operands]))
            if not same(taken, given):
                message = (
                    f"the first part of the type is {_text(taken)}, the operands {_text(given)}"
                )
                yield Diagnostic(message, ins.span)
            if result == TupleType(()):
                return  # the type leaves the result out until it is done
            yield from _returns(ins, callee, result)
        case _:
            message = f"`async-start` is declared {_text(ins.type)}, needs (operands, result, …)"
            yield Diagnostic(message, ins.span)


_GROUPED: Final = (Send, Recv, Bitcast, Parameter, Tuple)
"""Ops that an asynchronous computation may have any number of, if it has no others.

Source: XLA `hlo_verifier.cc` (`VerifyAsyncComputation`), `hlo_computation.h`
(`OnlyContainsSendRecv`).
"""

_RULES: Final[dict[type[Op], Callable[[Instruction], Iterator[Diagnostic]]]] = {
    Fusion: _call,
    Call: _call,
    While: _while,
    Case: _case,
    AsyncStart: _async,
}


def check_recursion(module: Module) -> list[Diagnostic]:
    """Return an error if computations call themselves, directly or through others."""
    graph = {c.name: {callee.name for ins in c for callee in ins.calls} for c in module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        names = error.args[1]
        first = module.computations.get(names[0])
        message = f"computations call each other: {' → '.join(names[::-1])}"
        return [Diagnostic(message, first.span if first else None)]
    return []
