"""Checks of a whole HLO module: header, entry, called computations, aliased memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Final

from hloscope.errors import Diagnostic, HloscopeError, ParseError
from hloscope.hlo_parser import (
    BUFFER_DONOR,
    INPUT_OUTPUT_ALIAS,
    OPERAND_ALIASING,
    Aliasing,
    ShapeIndex,
    index_text,
    parse_type,
    read_aliasing,
    read_type,
)
from hloscope.ir import (
    ELEMENT_TYPES,
    Computation,
    Instruction,
    Module,
    Op,
    TensorType,
    TupleType,
    Type,
    storage_bits,
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
    fused_twice,
)
from hloscope.support.source import Span
from hloscope.verifier.hlo.rules import bounds_as_sizes, same, text_of
from hloscope.verifier.hlo.types import opcode, started_op

# --------------------------------------------------------------------------------------------------
# Checks of a module as a whole: header, entry computation, order, parameters, fusions.


def check_module(module: Module) -> Iterator[Diagnostic]:
    """Yield the errors of a module's header, calls and aliasing, apart from single instructions."""
    yield from _check_header(module)
    yield from _check_entry_layout(module)
    yield from check_aliasing(module)
    yield from _check_order(module)
    yield from _check_parameters(module)
    yield from _check_fusions(module)


_BOOLEANS: Final = ("alias_passthrough_params", "is_scheduled")
_HEADER: Final = (
    *_BOOLEANS,
    "allow_spmd_sharding_propagation_to_output",
    "allow_spmd_sharding_propagation_to_parameters",
    "buffer_donor",
    "entry_computation_layout",
    "frontend_attributes",
    "input_output_alias",
    "num_partitions",
    "origin_recovery_table",
    "replica_count",
)
"""Attributes that the header of a module may have.

Source: XLA `hlo_parser.cc` (`ParseHloModule`).
"""


def _check_header(module: Module) -> Iterator[Diagnostic]:
    for name, value in module.extras:
        if name not in _HEADER:
            yield Diagnostic(f"a module has no attribute `{name}`", module.entry.span)
        elif name in _BOOLEANS and value not in ("true", "false"):
            yield Diagnostic(f"`{name}` is {value}, needs true or false", module.entry.span)


def _check_entry_layout(module: Module) -> Iterator[Diagnostic]:
    """Yield an error for each type in `entry_computation_layout` that is not the entry's."""
    text = dict(module.extras).get("entry_computation_layout")
    if text is None:
        return
    try:
        inputs, returned = read_signature(text)
    except HloscopeError as error:
        yield Diagnostic(f"entry_computation_layout: {error.message}", module.entry.span)
        return
    have = module.entry.arguments
    if len(have) != len(inputs):
        message = f"entry_computation_layout has {len(inputs)} parameters, the entry {len(have)}"
        yield Diagnostic(message, module.entry.span)
        return
    named = [f"parameter {i}" for i in range(len(have))]
    pairs = zip(
        [*named, "the result"], [*have, *module.entry.results], [*inputs, returned], strict=True
    )
    for what, own, header in pairs:
        if not same(own, header):
            message = f"{what} of the entry is {text_of(own)}, entry_computation_layout says"
            yield Diagnostic(f"{message} {text_of(header)}", module.entry.span)


def read_signature(text: str) -> tuple[tuple[Type, ...], Type]:
    """Return the parameter types and the result type of a signature: `{(f32[2], s32[])->f32[2]}`.

    >>> from hloscope.hlo_parser import print_type
    >>> [print_type(t) for t in read_signature("{(f32[2]{0}, /*index=1*/s32[])->f32[2]{0}}")[0]]
    ['f32[2]{0}', 's32[]']

    Raises:
        ParseError: The text is not a signature.
    """
    inner = text.strip()[1:-1]
    inputs, end = read_type(inner, 0)
    arrow = inner.find("->", end)
    if arrow < 0:
        raise ParseError("expected `->` and the type of the result")
    parts = inputs.elements if isinstance(inputs, TupleType) else (inputs,)
    return parts, parse_type(inner[arrow + 2 :].strip())


def _check_order(module: Module) -> Iterator[Diagnostic]:
    """Yield an error for each operand that is read before its definition, in a scheduled module.

    The text of a scheduled module must be an order of execution.
    """
    if dict(module.extras).get("is_scheduled") != "true":
        return
    for computation in module:
        seen: set[Instruction] = set()
        for ins in computation:
            late = [p for p in (*ins.operands, *ins.control_predecessors) if p not in seen]
            if late:
                message = f"`{ins.name}` is scheduled before `{late[0].name}`, which it needs"
                yield Diagnostic(message, ins.span)
            seen.add(ins)


def _check_parameters(module: Module) -> Iterator[Diagnostic]:
    for computation in module:
        for i, parameter in enumerate(computation.parameters):
            assert isinstance(parameter.op, Parameter)
            if parameter.op.number != i:
                message = f"parameter {i} of {computation.name} has number {parameter.op.number}"
                yield Diagnostic(message, parameter.span)


def _check_fusions(module: Module) -> Iterator[Diagnostic]:
    """Yield an error for each fusion whose computation another fusion calls, too."""
    owner: dict[str, Instruction] = {}
    for computation in module:
        for ins in computation:
            if isinstance(ins.op, Fusion) and ins.calls:
                first = owner.setdefault(ins.calls[0].name, ins)
                if first is not ins:
                    message = fused_twice(ins.calls[0].name, first.name, ins.name)
                    yield Diagnostic(message, ins.span)


# --------------------------------------------------------------------------------------------------
# Called computations: number and types of their parameters and results.


def check_calls(ins: Instruction) -> Iterator[Diagnostic]:
    """Yield errors of the computations that an op calls.

    Their parameters and results must have the types that the op needs.
    """
    inner = started_op(ins)
    if inner is not None:
        yield from _begun(inner)
        return
    rule = _RULES.get(type(ins.op))
    if rule is not None and ins.calls:
        yield from rule(ins)


def _takes(ins: Instruction, callee: Computation, given: tuple[Type, ...]) -> Iterator[Diagnostic]:
    """Yield errors if `callee` does not take parameters of the types `given`."""
    inputs = callee.arguments
    if len(inputs) != len(given):
        message = (
            f"`{opcode(ins)}` gives {callee.name} {len(given)} operands, it takes {len(inputs)}"
        )
        yield Diagnostic(message, ins.span)
        return
    for i, (have, want) in enumerate(zip(given, inputs, strict=True)):
        if not same(bounds_as_sizes(have), bounds_as_sizes(want)):
            yield Diagnostic(
                f"`{opcode(ins)}` gives {callee.name} {text_of(have)} as parameter {i}, it takes"
                f" {text_of(want)}",
                ins.span,
            )


def _returns(ins: Instruction, callee: Computation, needed: Type) -> Iterator[Diagnostic]:
    (returned,) = callee.results
    if not same(returned, needed):
        yield Diagnostic(
            f"{callee.name} returns {text_of(returned)}, `{opcode(ins)}` needs {text_of(needed)}",
            ins.span,
        )


def _call(ins: Instruction) -> Iterator[Diagnostic]:
    callee = ins.calls[0]
    yield from _takes(ins, callee, ins.operand_types)
    yield from _returns(ins, callee, ins.type)


def _begun(ins: Instruction) -> Iterator[Diagnostic]:
    """Yield an error if an op `<op>-start` does not fit the computation that it calls.

    The types of operands and result are compared. Operands may be missing, since `async-update` ops
    may add them.
    """
    if not isinstance(ins.op, Call | Fusion) or not ins.calls:
        return
    callee = ins.calls[0]
    given = ins.operand_types
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
        message = f"`while` is declared {text_of(ins.type)}, its operand is {text_of(state)}"
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
    """Yield errors of an `async-start`: its called computation, operands and declared type."""
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
    yield from _takes(ins, callee, ins.operand_types)
    match ins.type:
        case TupleType((inputs, result, *_)):
            given = TupleType(ins.operand_types)
            if not same(inputs, given):
                message = f"the first part of the type is {text_of(inputs)}, the operands"
                yield Diagnostic(f"{message} {text_of(given)}", ins.span)
            if result == TupleType(()):
                return  # the type leaves the result out until it is done
            yield from _returns(ins, callee, result)
        case _:
            message = f"`async-start` is declared {text_of(ins.type)}, needs (operands, result, …)"
            yield Diagnostic(message, ins.span)


_GROUPED: Final = (Send, Recv, Bitcast, Parameter, Tuple)
"""Ops of which an asynchronous computation may have several, if it has only these.

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
    """Return an error if a computation calls itself, directly or through others."""
    graph = {c.name: {callee.name for ins in c for callee in ins.calls} for c in module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        names = error.args[1]
        first = module.computations.get(names[0])
        message = f"computations call each other: {' → '.join(names[::-1])}"
        return [Diagnostic(message, first.span if first else None)]
    return []


# --------------------------------------------------------------------------------------------------
# Results that share memory with parameters or operands, as a header or an attribute declares.
#
# Source: XLA `HloInputOutputAliasConfig::Verify`, `HloBufferDonorConfig::Verify`, `hlo_verifier.cc`
# (`HandleCustomCall`, `HandleFusion`).


def check_aliasing(module: Module) -> Iterator[Diagnostic]:
    """Yield errors of `input_output_alias` and `buffer_donor`.

    Checked are the syntax, the indices, equal sizes in bytes, and that nothing is aliased twice.
    """
    extras = dict(module.extras)
    span, arguments, result = module.entry.span, module.entry.arguments, module.entry.root.type
    aliased: set[tuple[int, ShapeIndex]] = set()
    for name in (INPUT_OUTPUT_ALIAS, BUFFER_DONOR):
        for entry in _entries(name, extras.get(name), span):
            if isinstance(entry, Diagnostic):
                yield entry
                continue
            wrong = _entry_error(entry, "parameter", arguments, result, aliased)
            if wrong is None and entry.output is not None:
                aliased.add((entry.taken, entry.inside))
            if wrong is not None:
                yield Diagnostic(f"{name}: {wrong}", span)


def check_operand_aliasing(ins: Instruction) -> Iterator[Diagnostic]:
    """Yield errors of `output_to_operand_aliasing`: syntax, indices, and equal types."""
    text = dict(getattr(ins.op, "settings", ())).get(OPERAND_ALIASING)
    if text is None or isinstance(ins.op, AsyncStart):
        return  # XLA checks the started op, not its start
    operands = ins.operand_types
    for entry in _entries(OPERAND_ALIASING, text, ins.span):
        if isinstance(entry, Diagnostic):
            yield entry
            continue
        wrong = _index_error(entry, "operand", operands, ins.type)
        if wrong is None and entry.output is not None:
            inputs, made = _part(operands[entry.taken], entry.inside), _part(ins.type, entry.output)
            if inputs is not None and made is not None and not same(inputs, made):
                wrong = (
                    f"{_place('operand', entry)} is {_or_none(inputs)}, part"
                    f" {index_text(entry.output)} of the result {_or_none(made)}; they need the"
                    " same type"
                )
        if wrong is not None:
            yield Diagnostic(f"{OPERAND_ALIASING}: {wrong}", ins.span)


def _entries(name: str, text: str | None, span: Span | None) -> Iterator[Aliasing | Diagnostic]:
    """Yield the entries in the text of an aliasing attribute; a `Diagnostic` for a syntax error.

    Args:
        name: Name of the attribute.
        text: Its text; `None` if it is missing.
        span: Its position.
    """
    try:
        yield from read_aliasing(name, text, span)
    except ParseError as error:
        yield Diagnostic(error.message, span)


def _index_error(entry: Aliasing, kind: str, inputs: tuple[Type, ...], result: Type) -> str | None:
    """Return an error message if an index in an entry of an aliasing does not exist; else `None`.

    Args:
        entry: The entry.
        kind: `parameter` or `operand`, as the message calls the inputs.
        inputs: Types of the parameters or operands.
        result: Type of the result.
    """
    if entry.taken >= len(inputs):
        owner = "the entry" if kind == "parameter" else "the instruction"
        return f"there is no {kind} {entry.taken}, {owner} has {len(inputs)}"
    type_ = inputs[entry.taken]
    if _part(type_, entry.inside) is None:
        return f"{kind} {entry.taken}, {_or_none(type_)}, has no part {index_text(entry.inside)}"
    if entry.output is not None and _part(result, entry.output) is None:
        return f"the result, {_or_none(result)}, has no part {index_text(entry.output)}"
    return None


def _entry_error(
    entry: Aliasing,
    kind: str,
    inputs: tuple[Type, ...],
    result: Type,
    aliased: set[tuple[int, ShapeIndex]],
) -> str | None:
    """Return an error message if an entry of an aliasing in the header is invalid; else `None`.

    Args:
        entry: The entry.
        kind: `parameter` or `operand`, as the message calls the inputs.
        inputs: Types of the parameters or operands.
        result: Type of the result.
        aliased: (parameter, shape index) of earlier entries; those of this entry are added.
    """
    wrong = _index_error(entry, kind, inputs, result)
    if wrong is not None:
        return wrong
    own, place = _part(inputs[entry.taken], entry.inside), _place(kind, entry)
    # XLA aliases buffers, and a tuple is not in one buffer.
    if isinstance(own, TupleType):
        return f"{place} is {_or_none(own)}, needs an array"
    if (entry.taken, entry.inside) in aliased:
        return f"{place} is the memory of another part of the result already"
    if entry.output is None:
        return None
    made, where = _part(result, entry.output), f"part {index_text(entry.output)} of the result"
    if isinstance(made, TupleType):
        return f"{where} is {_or_none(made)}, needs an array"
    # XLA compares the sizes of the buffers only: types may differ.
    sizes = [_bytes(own), _bytes(made)]
    if None not in sizes and sizes[0] != sizes[1]:
        return (
            f"{place} is {_or_none(own)} of {sizes[0]} bytes, {where} {_or_none(made)} of"
            f" {sizes[1]}; they need the same size"
        )
    return None


def _bytes(type_: Type | None) -> int | None:
    """Return the bytes of an array without padding, with bounds for dynamic sizes.

    `None` if a size is unknown, or the type is no array.
    """
    if type_ is None:
        return None
    whole = bounds_as_sizes(type_)
    if not isinstance(whole, TensorType) or not whole.is_static:
        return None
    return (prod(whole.shape) * storage_bits(whole) + 7) // 8


def _part(type_: Type, index: ShapeIndex) -> Type | None:
    """Return the part of a type at a shape index; `None` if the index does not exist."""
    for number in index:
        if not isinstance(type_, TupleType) or number >= len(type_.elements):
            return None
        type_ = type_.elements[number]
    return type_


def _place(what: str, entry: Aliasing) -> str:
    part = f"part {index_text(entry.inside)} of " if entry.inside else ""
    return f"{part}{what} {entry.taken}"


def _or_none(type_: Type | None) -> str:
    return "nothing" if type_ is None else text_of(type_)
