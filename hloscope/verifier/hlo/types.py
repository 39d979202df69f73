"""Checks of the declared types of HLO instructions against the inferred types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope.errors import Diagnostic, Name, UnsupportedError, VerifyError
from hloscope.hlo_parser import (
    COMMON,
    PAIRED,
    TextInstruction,
    print_type,
    signature,
    spell,
    template,
)
from hloscope.ir import (
    BufferType,
    IncompatibleTypesError,
    Instruction,
    Op,
    TensorType,
    TupleType,
    Type,
)
from hloscope.ops import (
    ELEMENTWISE,
    AddDependency,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Call,
    Case,
    Convert,
    Convolution,
    CopyDone,
    CopyStart,
    Domain,
    Dot,
    DotGeneral,
    DynamicUpdateSlice,
    Fusion,
    GetTupleElement,
    Map,
    OptimizationBarrier,
    RaggedDot,
    RecvDone,
    Reduce,
    ReduceWindow,
    ScaledDot,
    Scatter,
    SelectAndScatter,
    Send,
    SendDone,
    Sort,
    StochasticConvert,
    TriangularSolve,
    Tuple,
    UnknownOp,
    While,
    is_in_place,
    leaves,
    packed,
    without_layouts,
)
from hloscope.verifier.hlo.rules import (
    OWN_RULES,
    array_of,
    bounds_as_sizes,
    bounds_of,
    check_features,
    equal_lists,
    equal_up_to_precision,
    text_of,
)

# --------------------------------------------------------------------------------------------------
# Declared types of instructions against inferred ones, with HLO's equality of types.


CheckKey: TypeAlias = tuple[int, int, tuple[int, ...], tuple[int, ...]]


def check_key(ins: Instruction) -> CheckKey:
    """Return a key of an instruction's op, operand types, declared type and called computations.

    They are compared by identity, so a key is valid as long as the objects exist. Instructions with
    equal keys are all valid or all invalid.
    """
    operands = tuple([id(operand.type) for operand in ins.operands])
    return id(ins.op), id(ins.type), operands, tuple(map(id, ins.calls))


def check_type(ins: Instruction) -> Iterator[Diagnostic]:
    """Yield an error if the declared type is not what op, operands and computations imply."""
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
    """Return the type that op, operands and called computations imply; `None` if they imply none.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { a = f32[2,3] parameter(0) ROOT b = f32[6] abs(a) }"
    >>> print_type(inferred(parse_hlo(text).entry.root))
    'f32[2,3]'

    Raises:
        VerifyError: The instruction is invalid, whatever type it declares.
    """
    try:
        _check(ins)
    except IncompatibleTypesError:
        pass  # a wrong declared type does not matter here
    except VerifyError as error:
        raise VerifyError(_message_of(ins, error), span=ins.span, rule=error.rule) from None
    try:
        return ins.op.infer(ins.operand_types, ins.calls)
    except VerifyError:  # the type must be declared, or only StableHLO refuses the operands
        return None


def _check(ins: Instruction) -> None:
    """Check the number and kinds of operands, then the rules of the op itself.

    Raises:
        IncompatibleTypesError: The declared type differs from the inferred one.
        VerifyError: Another rule is violated.
    """
    operands = ins.operand_types
    needed = signature(ins.op)
    if needed is not None and not (needed.takes(operands) and needed.gives(ins.type)):
        needed.refuse(opcode(ins), operands, ins.type)
    # XLA infers sizes from bounds, so that the op is checked on the arrays of those bounds.
    if any(any(bounds_of(type_)) for type_ in (ins.type, *operands)):
        if isinstance(ins.op, Convolution):
            check_features(ins)
        if isinstance(ins.op, _RETURNING_OPERAND) and bounds_of(ins.type) != bounds_of(operands[0]):
            raise IncompatibleTypesError((without_layouts(operands[0]),), (ins.type,))
        ins = _with_bounds_as_sizes(ins)
        operands = ins.operand_types
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
        if isinstance(ins.op, _EXACT) or not equal_lists(
            error.inferred, error.declared, wider=wider
        ):
            raise


def _with_bounds_as_sizes(ins: Instruction) -> Instruction:
    """Return the instruction with bounds in place of dynamic sizes, which HLO's inference uses."""
    operands = tuple([Instruction(o.name, bounds_as_sizes(o.type), o.op) for o in ins.operands])
    return Instruction(
        ins.name, bounds_as_sizes(ins.type), ins.op, operands, ins.calls, span=ins.span
    )


def _check_start(ins: Instruction) -> None:
    """Check the op that `<op>-start` wraps, and that the start's type is (operands, result, …)."""
    inner = started_op(ins)
    if inner is None:
        if isinstance(ins.op, AsyncStart) and ins.op.wrapped is not None:
            text = text_of(ins.type)
            raise VerifyError(f"it is declared {text}, needs (operands, result, …)")
        return
    if inner.type != ins.type:
        assert isinstance(ins.type, TupleType)
        given = tuple([without_layouts(o.type) for o in ins.operands])
        in_place = inner.op.name == "collective_permute" and is_in_place(given)
        paired = inner.op.name in PAIRED
        needed = given[0] if in_place else packed(given) if paired else TupleType(given)
        found = ins.type.elements[0]
        if not equal_up_to_precision(found, needed):
            raise VerifyError(
                f"the first part of the type is {text_of(found)}, the operands {text_of(needed)}"
            )
    if inner.type != TupleType(()) or ins.type == inner.type:
        _check(inner)  # else the type leaves the result out until it is done


def started_op(ins: Instruction) -> Instruction | None:
    """Return the op that an `<op>-start` wraps, as an instruction with the result type.

    The result is `None` if the start calls a computation, or if its type has no element for the
    result.
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
    """Return the message of a type error of StableHLO's rules, with HLO's opcode and terms."""
    own_name, name = opcode(ins), ins.op.name

    def in_hlo(value: object, form: str) -> str:
        return own_name if isinstance(value, Name) and value == name else spell(value, form)

    message = error.message_in(in_hlo)
    return message if f"`{own_name}`" in message else f"`{own_name}`: {message}"


def opcode(ins: Instruction) -> str:
    """Return the opcode of an instruction, as in HLO text."""
    try:
        return template(ins.op, len(ins.calls))[0]
    except UnsupportedError:
        return ins.op.name


def _mismatch(ins: Instruction, inferred: tuple[Type, ...]) -> Diagnostic:
    whole = inferred[0] if len(inferred) == 1 else TupleType(inferred)
    message = f"`{opcode(ins)}` is declared {text_of(ins.type)}, but its operands make it"
    return Diagnostic(f"{message} {text_of(whole)}", ins.span)


def _is_one_value(ins: Instruction) -> bool:
    """Is the declared tuple type one value, not the types of several results?

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

_RETURNING_OPERAND: Final = (AddDependency, _COPY, Domain, OptimizationBarrier)
"""Ops that return their operand unchanged, bounds included."""

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
"""Ops whose type must have exactly the inferred float precision: they pass or update values.

Source: XLA `hlo_verifier.cc` (`CheckShape`).
"""

_WIDENING: Final = (Convolution, Dot, DotGeneral, RaggedDot, ScaledDot)
"""Ops that may return another element type than the operands': they may accumulate in it."""


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
    """Return an error message if an array has 2^63 elements or bytes, or more; else an empty text.

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
                    text = text_of(part)
                    return f"{text}, whose number of elements exceeds {_MOST}"
            if size * -(-part.element.bits // 8) > _MOST:
                return f"{text_of(part)}, whose bytes exceed {_MOST}"
    return ""


_MOST: Final = (1 << 63) - 1
"""Maximum number of elements or bytes of an array."""


# --------------------------------------------------------------------------------------------------
# Constraints of HLO on element types of operands, where StableHLO has none.
#
# Most are in the op's row in `hlo_parser`; here are those that relate several operands.
#
# Source: XLA `shape_inference.cc` (`InferConvertShape`, `InferStochasticConvertShape`,
# `InferTriangularSolveShape`, `VerifyReducerShape` …).


def check_elements(ins: Instruction) -> None:
    """Check the element types of the operands, and of the parameters of reduction computations.

    Raises:
        VerifyError: The op does not accept an element type.
    """
    needed = signature(ins.op)
    for number, kinds in needed.elements.items() if needed is not None else ():
        if number < len(ins.operands):
            _check_kind(ins, number, kinds)
    rule = _RULES.get(type(ins.op))
    if rule is not None:
        rule(ins)


def _check_kind(ins: Instruction, number: int, kinds: tuple[str, ...]) -> None:
    element = array_of(ins.operands[number].type).element
    if element.kind not in kinds and element.name not in kinds:
        needed = ", ".join(kinds)
        raise VerifyError(f"operand {number} has element type {element}, needs one of {needed}")


def _triangular_solve(ins: Instruction) -> None:
    a, b = [array_of(o.type).element for o in ins.operands]
    if a != b:
        raise VerifyError(f"operands are of {a} and {b}, need to be of one element type")


def _convert(ins: Instruction) -> None:
    """Check that complex numbers stay complex, and that random bits are as wide as the operand."""
    operand, result = array_of(ins.operands[0].type).element, array_of(ins.type).element
    if operand.kind == "complex" != result.kind:
        raise VerifyError(f"complex numbers of {operand} do not become {result}")
    if isinstance(ins.op, StochasticConvert):
        random = array_of(ins.operands[1].type).element
        if random.bits != operand.bits:
            raise VerifyError(f"random bits of {random} for {operand}, need to be as wide")


def _complex(ins: Instruction) -> None:
    real, imaginary = [array_of(o.type).element for o in ins.operands]
    if real != imaginary:
        raise VerifyError(f"parts are of {real} and {imaginary}, need to be of one element type")


def _scatter(ins: Instruction) -> None:
    _check_kind(ins, len(ins.operands) // 2, ("signed", "unsigned"))
    _check_body(ins)


def _check_body(ins: Instruction) -> None:
    """Check that a body's parameters have the element types of the values passed to it."""
    types = ins.operand_types
    number = len(types) // 2
    # Order of a body's parameters: accumulators before inputs.  Scatter passes no indices, and
    # select-and-scatter the initial value, then the source.
    if isinstance(ins.op, SelectAndScatter):
        given = [types[2], types[1]]
    elif isinstance(ins.op, Scatter):
        given = [*types[:number], *types[number + 1 :]]
    else:
        given = [*types[number:], *types[:number]]
    body = ins.calls[-1]
    for i, (operand, parameter) in enumerate(zip(given, body.arguments, strict=False)):
        if not isinstance(parameter, TensorType):
            text = text_of(parameter)
            raise VerifyError(f"parameter {i} of {body.name} is {text}, needs an array")
        have, want = array_of(operand).element, parameter.element
        if have != want and not have.kind == want.kind == "float":
            raise VerifyError(f"parameter {i} of {body.name} is of {want}, its operand of {have}")


def in_precision_of_body(ins: Instruction) -> tuple[Type, ...]:
    """Return the operand types of a `map` or `sort`, with the float precision of its body."""
    types = ins.operand_types
    if not isinstance(ins.op, Map | Sort) or not ins.calls:
        return types
    # A comparator has two parameters for each operand of a sort.
    step = 2 if isinstance(ins.op, Sort) else 1
    taken = ins.calls[0].arguments[::step]
    pairs = zip(types, taken, strict=False)
    return (*[_in_precision(*pair) for pair in pairs], *types[len(taken) :])


def _in_precision(type_: Type, parameter: Type) -> Type:
    """Return a float type with the float element type of `parameter`; other types unchanged."""
    if not isinstance(type_, TensorType) or not isinstance(parameter, TensorType):
        return type_
    is_float = type_.element.kind == parameter.element.kind == "float"
    return replace(type_, element=parameter.element) if is_float else type_


_RULES: Final[dict[type[Op], Callable[[Instruction], None]]] = {
    Convert: _convert,
    ELEMENTWISE["complex"]: _complex,
    Reduce: _check_body,
    ReduceWindow: _check_body,
    Scatter: _scatter,
    SelectAndScatter: _check_body,
    StochasticConvert: _convert,
    TriangularSolve: _triangular_solve,
}


# --------------------------------------------------------------------------------------------------
# Attributes that an opcode does not have.
#
# Source: XLA `hlo_parser.cc`, which takes no other attributes than an opcode's own and `COMMON`.


_THREAD: Final = "async_execution_thread"
_OF_ASYNCHRONOUS: Final[dict[type[Op], tuple[str, ...]]] = {
    AsyncStart: (_THREAD, "output_to_operand_aliasing"),
    AsyncUpdate: (_THREAD,),
    AsyncDone: (_THREAD,),
}


def check_attributes(ins: Instruction) -> Iterator[Diagnostic]:
    """Yield an error for each attribute that the opcode does not have.

    The parser accepts such attributes: they may belong to a newer version of XLA. An unknown opcode
    may have any attribute.
    """
    if isinstance(ins.op, UnknownOp):
        return
    extras = ins.known_extras if isinstance(ins, TextInstruction) else ins.extras
    for name, _ in extras:
        if name in COMMON or name in _OF_ASYNCHRONOUS.get(type(ins.op), ()):
            continue
        yield Diagnostic(f"`{opcode(ins)}` has no attribute `{name}`", ins.span)
