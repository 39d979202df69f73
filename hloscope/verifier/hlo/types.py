"""Declared types of instructions against inferred ones, with HLO's equality of types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from hloscope.errors import Diagnostic, Name, UnsupportedError, VerifyError
from hloscope.hlo_parser import PAIRED, print_type, signature, spell, template
from hloscope.ir import (
    BufferType,
    IncompatibleTypesError,
    Instruction,
    TensorType,
    TupleType,
    Type,
)
from hloscope.ops import (
    ELEMENTWISE,
    AddDependency,
    AsyncStart,
    Call,
    Case,
    Convolution,
    CopyDone,
    CopyStart,
    Domain,
    Dot,
    DotGeneral,
    DynamicUpdateSlice,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    RaggedDot,
    RecvDone,
    ScaledDot,
    Send,
    SendDone,
    Tuple,
    While,
    bare,
    is_in_place,
    leaves,
    packed,
)
from hloscope.verifier.hlo.elements import check_elements, in_precision_of_body
from hloscope.verifier.hlo.likeness import alike, bounds_of, is_placed, like, placed
from hloscope.verifier.hlo.rules import OWN_RULES, check_features

Kind: TypeAlias = tuple[int, int, tuple[int, ...], tuple[int, ...]]


def kind_of(ins: Instruction) -> Kind:
    """Return a key of all that the type check reads: op, types and computations, by identity.

    Instructions with equal keys are all valid or all invalid.  A key is valid as long as the
    objects are alive.
    """
    operands = tuple([id(operand.type) for operand in ins.operands])
    return id(ins.op), id(ins.type), operands, tuple(map(id, ins.calls))


def check_type(ins: Instruction) -> Iterator[Diagnostic]:
    """Yield errors unless the declared type follows from op, operands and called computations."""
    yield from _check_layouts(ins)
    too_large = _too_large(ins.type)
    if too_large:
        yield Diagnostic(f"`{opcode(ins)}` is declared {too_large}", ins.span)
        return
    try:
        _check(ins)
    except IncompatibleTypesError as error:
        yield _mismatch(ins, error.inferred)
    except VerifyError as error:
        yield Diagnostic(_message_of(ins, error), ins.span, error.rule)


def inferred(ins: Instruction) -> Type | None:
    """Return the type that op, operands and called computations imply; `None` if none does.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { a = f32[2,3] parameter(0) ROOT b = f32[6] abs(a) }"
    >>> print_type(inferred(parse_hlo(text).entry.root))
    'f32[2,3]'

    Raises:
        VerifyError: The instruction is invalid with any declared type.
    """
    try:
        _check(ins)
    except IncompatibleTypesError:
        pass  # a wrong declared type does not matter here
    except VerifyError as error:
        raise VerifyError(_message_of(ins, error), span=ins.span, rule=error.rule) from None
    try:
        return ins.op.infer(tuple([o.type for o in ins.operands]), ins.calls)
    except VerifyError:  # the type must be declared, or only StableHLO refuses the operands
        return None


def _check(ins: Instruction) -> None:
    """Check number and kinds of operands, then the constraints of the op itself.

    Raises:
        IncompatibleTypesError: The declared type is not the inferred one.
        VerifyError: Another constraint is violated.
    """
    operands = tuple([o.type for o in ins.operands])
    needed = signature(ins.op)
    if needed is not None and not (needed.takes(operands) and needed.gives(ins.type)):
        needed.refuse(opcode(ins), operands, ins.type)
    # XLA infers sizes from bounds, so that the op is checked on the arrays of those bounds.
    if not all(map(is_placed, (ins.type, *operands))):
        if isinstance(ins.op, Convolution):
            check_features(ins)
        if isinstance(ins.op, _HANDING_ON) and bounds_of(ins.type) != bounds_of(operands[0]):
            raise IncompatibleTypesError((bare(operands[0]),), (ins.type,))
        ins = _with_bounds_as_sizes(ins)
        operands = tuple([o.type for o in ins.operands])
    if isinstance(ins.op, AsyncStart):
        _check_start(ins)
        return
    # HLO is more lenient than StableHLO: a mismatch that its equality of types ignores is dropped.
    own = OWN_RULES.get(type(ins.op))
    try:
        if own is not None:
            own(ins)
            return
        results = (ins.type,) if _is_one_value(ins) else leaves(ins.type)
        check_elements(ins)
        ins.op.verify(in_precision_of_body(ins), results, ins.calls)
    except IncompatibleTypesError as error:
        wider = isinstance(ins.op, _WIDENING)
        if isinstance(ins.op, _EXACT) or not alike(error.inferred, error.declared, wider=wider):
            raise


def _with_bounds_as_sizes(ins: Instruction) -> Instruction:
    """Return the instruction on arrays with bounds as sizes, as HLO infers sizes."""
    operands = tuple([Instruction(o.name, placed(o.type), o.op) for o in ins.operands])
    return Instruction(ins.name, placed(ins.type), ins.op, operands, ins.calls, span=ins.span)


def _check_start(ins: Instruction) -> None:
    """Check the started op, and that the type is (operands, result, …)."""
    inner = begun(ins)
    if inner is None:
        if isinstance(ins.op, AsyncStart) and ins.op.wrapped is not None:
            text = print_type(ins.type, layout=False)
            raise VerifyError(f"it is declared {text}, needs (operands, result, …)")
        return
    if inner.type != ins.type:
        assert isinstance(ins.type, TupleType)
        given = tuple([bare(o.type) for o in ins.operands])
        in_place = inner.op.name == "collective_permute" and is_in_place(given)
        paired = inner.op.name in PAIRED
        needed = given[0] if in_place else packed(given) if paired else TupleType(given)
        found = ins.type.elements[0]
        if not like(found, needed):
            texts = [print_type(t, layout=False) for t in (found, needed)]
            raise VerifyError(f"the first part of the type is {texts[0]}, the operands {texts[1]}")
    if inner.type != TupleType(()) or ins.type == inner.type:
        _check(inner)  # else the type leaves the result out until it is done


def begun(ins: Instruction) -> Instruction | None:
    """Return the op that `<op>-start` starts, as an instruction with the type of its result.

    `None` if the op calls a computation, or if its type has no element for the result.
    """
    op, type_ = ins.op, ins.type
    if not isinstance(op, AsyncStart) or op.wrapped is None:
        return None
    is_whole = op.wrapped.name == "all_reduce" or not isinstance(type_, TupleType)
    if isinstance(type_, TupleType) and not is_whole:
        if len(type_.elements) < 2:
            return None
        type_ = type_.elements[1]
    return Instruction(ins.name, type_, op.wrapped, ins.operands, ins.calls, span=ins.span)


def _message_of(ins: Instruction, error: VerifyError) -> str:
    """Return the message of an error in HLO's terms; it names the opcode."""
    own_name, name = opcode(ins), ins.op.name

    def in_hlo(value: object, form: str) -> str:
        return own_name if isinstance(value, Name) and value == name else spell(value, form)

    message = error.worded(in_hlo)
    return message if f"`{own_name}`" in message else f"`{own_name}`: {message}"


def opcode(ins: Instruction) -> str:
    """Return the opcode of an instruction, as in HLO text."""
    try:
        return template(ins.op, len(ins.calls))[0]
    except UnsupportedError:
        return ins.op.name


def _mismatch(ins: Instruction, inferred: tuple[Type, ...]) -> Diagnostic:
    whole = inferred[0] if len(inferred) == 1 else TupleType(inferred)
    declared, found = (print_type(t, layout=False) for t in (ins.type, whole))
    message = f"`{opcode(ins)}` is declared {declared}, but its operands make it {found}"
    return Diagnostic(message, ins.span)


def _is_one_value(ins: Instruction) -> bool:
    """Is the result one value, possibly a tuple?  Otherwise a tuple means several results.

    A tuple of one element is one value if a body returns such a tuple.
    """
    if isinstance(ins.op, (*_ONE_VALUE, _COPY)):
        return True
    if not isinstance(ins.type, TupleType) or len(ins.type.elements) != 1:
        return False
    if isinstance(ins.type.elements[0], TupleType):
        return True
    return not ins.calls or not isinstance(ins.calls[0].root.type, TupleType)


_ONE_VALUE: Final = (AddDependency, Call, Case, Domain, Fusion, GetTupleElement, Tuple, While)

_COPY: Final = ELEMENTWISE["copy"]

_HANDING_ON: Final = (AddDependency, _COPY, Domain, OptimizationBarrier)
"""Ops whose result is their operand, with the operand's bounds."""

_EXACT: Final = (
    Call,
    Case,
    CopyDone,
    CopyStart,
    DynamicUpdateSlice,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Send,
    SendDone,
    RecvDone,
    Tuple,
    While,
)
"""Ops that pass values on, or write in place, without a change of precision.

Source: XLA `hlo_verifier.cc` (`CheckShape`).
"""

_WIDENING: Final = (Convolution, Dot, DotGeneral, RaggedDot, ScaledDot)
"""Ops that may accumulate in, and return, another element type than that of their operands."""


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


def _too_large(type_: Type) -> str:
    """Return a message about an array of 2^63 elements or bytes; empty if all are smaller.

    Source: XLA `shape_util.cc` (`ValidateShapeSize`, which multiplies the sizes in their order) and
    `hlo_parser.cc`, which reads sizes as numbers of 64 bits with a sign.
    """
    parts: list[Type] = [type_]
    while parts:
        part = parts.pop()
        if isinstance(part, BufferType):
            parts.append(part.element)
        elif isinstance(part, TupleType):
            parts += part.elements
        elif isinstance(part, TensorType):
            size = 1
            for extent in part.most:
                size *= 1 if extent is None else extent
                if size > _MOST or (extent or 0) > _MOST:
                    text = print_type(part, layout=False)
                    return f"{text}, whose number of elements exceeds {_MOST}"
            if size * -(-part.element.bits // 8) > _MOST:
                return f"{print_type(part, layout=False)}, whose bytes exceed {_MOST}"
    return ""


_MOST: Final = (1 << 63) - 1
"""Largest number of elements or bytes."""
