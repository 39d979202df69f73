"""Declared types of instructions against what their ops infer, by HLO's own rules of likeness."""

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
    """What typing knows of an instruction: op, types and computations, the very same objects.

    The instructions of one kind are all right, or all wrong; whoever keeps a kind keeps them alive.
    """
    operands = tuple([id(operand.type) for operand in ins.operands])
    return id(ins.op), id(ins.type), operands, tuple(map(id, ins.calls))


def check_type(ins: Instruction) -> Iterator[Diagnostic]:
    """Does the declared type follow from op, operands and called computations?"""
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
        yield Diagnostic(_worded(ins, error), ins.span, error.rule)


def inferred(ins: Instruction) -> Type | None:
    """The type that follows from op, operands and called computations; `None` if none does.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { a = f32[2,3] parameter(0) ROOT b = f32[6] abs(a) }"
    >>> print_type(inferred(parse_hlo(text).entry.root))
    'f32[2,3]'

    Raises:
        VerifyError: No declared type could make the instruction right.
    """
    try:
        _check(ins)
    except IncompatibleTypesError:
        pass
    except VerifyError as error:
        raise VerifyError(_worded(ins, error), span=ins.span, rule=error.rule) from None
    try:
        return ins.op.infer(tuple([o.type for o in ins.operands]), ins.calls)
    except VerifyError:  # it has to be declared, or only StableHLO refuses the operands
        return None


def _check(ins: Instruction) -> None:
    """Check number and kinds of operands, then what the op itself demands.

    Raises:
        IncompatibleTypesError: The declared type is not the inferred one.
        VerifyError: Another constraint is broken.
    """
    operands = tuple([o.type for o in ins.operands])
    needed = signature(ins.op)
    if needed is not None and not (needed.takes(operands) and needed.gives(ins.type)):
        needed.refuse(opcode(ins), operands, ins.type)
    if not all(map(is_placed, (ins.type, *operands))):
        if isinstance(ins.op, Convolution):
            check_features(ins)
        if isinstance(ins.op, _HANDING_ON) and bounds_of(ins.type) != bounds_of(operands[0]):
            raise IncompatibleTypesError((bare(operands[0]),), (ins.type,))
        ins = _placed(ins)
        operands = tuple([o.type for o in ins.operands])
    if isinstance(ins.op, AsyncStart):
        _check_start(ins)
        return
    own = OWN_RULES.get(type(ins.op))
    try:
        if own is not None:
            own(ins)
            return
        results = (ins.type,) if _is_one(ins) else leaves(ins.type)
        check_elements(ins)
        ins.op.verify(in_precision_of_body(ins), results, ins.calls)
    except IncompatibleTypesError as error:
        wider = isinstance(ins.op, _WIDENING)
        if isinstance(ins.op, _EXACT) or not alike(error.inferred, error.declared, wider=wider):
            raise


def _placed(ins: Instruction) -> Instruction:
    """The instruction on arrays of the bounds of its operands, which is how HLO infers sizes."""
    operands = tuple([Instruction(o.name, placed(o.type), o.op) for o in ins.operands])
    return Instruction(ins.name, placed(ins.type), ins.op, operands, ins.calls, span=ins.span)


def _check_start(ins: Instruction) -> None:
    """Check the op that is begun, and that the type is (operands, result, …)."""
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
        _check(inner)  # else the result is not there before it is done


def begun(ins: Instruction) -> Instruction | None:
    """The op that `<op>-start` begins as an instruction of its own, of the type of its result.

    `None` where a computation is called, or the type has no place for the result.
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


def _worded(ins: Instruction, error: VerifyError) -> str:
    """The message of an error about an instruction, in HLO's words; it names the opcode."""
    mine, name = opcode(ins), ins.op.name

    def in_hlo(value: object, form: str) -> str:
        return mine if isinstance(value, Name) and value == name else spell(value, form)

    said = error.worded(in_hlo)
    return said if f"`{mine}`" in said else f"`{mine}`: {said}"


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


def _is_one(ins: Instruction) -> bool:
    """Is the result one value, be it a tuple?  Else a tuple stands for several results.

    A tuple of one part is what a body makes that returns such a tuple.
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
"""Ops whose result is their operand, with the bounds that it has."""

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
"""Ops that hand values on, or write in place, in the precision that they have.

Source: XLA `hlo_verifier.cc` (`CheckShape`).
"""

_WIDENING: Final = (Convolution, Dot, DotGeneral, RaggedDot, ScaledDot)
"""Ops that may accumulate in, and return, another element type than their operands'."""


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
    """Message about an array whose bytes are no number of 63 bits; empty if none is so large.

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
"""The largest number of elements or bytes."""
