"""`stablehlo-refine-arguments`: gives the arguments of a program more specific types.

Users of an argument still read a value of the old type, the result of a custom call on the
argument.  Shape refinement removes that call.

Source: StableHLO `StablehloRefineArguments.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from hloscope.dialects import DEFINITIONS, DIALECTS
from hloscope.errors import Diagnostic, ParseError
from hloscope.ir import DialectType, TensorType, Type, UnrankedTensorType
from hloscope.mlir import DenseAttr, Operation, StringAttr, Value, parse_type, type_text
from hloscope.passes.dynamism.constants import S64, i64_tensor
from hloscope.passes.dynamism.shape_operands import SHAPE_OPERANDS
from hloscope.passes.dynamism.targets import body_of, set_signature, target_of
from hloscope.passes.framework import Option, Pass, Run
from hloscope.passes.pipeline import cut
from hloscope.passes.rewriting import Rewriter

UNKNOWN_SIZE: Final = -(1 << 63)
"""Value of an unknown size in a list of sizes."""
WRAPPER: Final = "stablehlo.shape_refinement_operand_wrapper"

_DIALECTS: Final = frozenset(name.partition(".")[0] for name in DEFINITIONS)


def sizes_attribute(sizes: Sequence[int | None]) -> DenseAttr:
    """Return the sizes as a literal of `i64`, with `UNKNOWN_SIZE` for `None`."""
    return i64_tensor([UNKNOWN_SIZE if size is None else size for size in sizes], [len(sizes)])


def why_not(old: Type, new: Type) -> str:
    """Return the reason why `new` is not a refinement of `old`; empty if it is.

    >>> why_not(parse_type("tensor<2xf32>"), parse_type("tensor<2x3xf32>"))
    'rank must match operand rank'
    """
    if old == new:
        return ""
    tensors = TensorType | UnrankedTensorType
    if not isinstance(old, tensors) or not isinstance(new, tensors):
        return "must be a tensor"
    if old.element != new.element:
        return "element types must match"
    if isinstance(new, UnrankedTensorType):
        return "must be ranked"
    if isinstance(old, UnrankedTensorType):
        return ""
    if old.rank != new.rank:
        return "rank must match operand rank"
    if any(a is not None and a != b for a, b in zip(old.sizes, new.sizes, strict=True)):
        return "dimension sizes must match for static dimensions"
    return ""


def refine_arguments(
    run: Run, function: Operation, types: Sequence[Type], *, fails: bool = True
) -> bool:
    """Set the types of a function's arguments; report an error and return false on a mismatch."""
    arguments = body_of(function).arguments
    if len(arguments) != len(types):
        counts = f"{len(types)} vs {len(arguments)}"
        message = f"number of refinements must match number of op operands {counts}"
        run.error(function, message, fails=fails)
        return False
    for number, (argument, type) in enumerate(zip(arguments, types, strict=True)):
        why = why_not(argument.type, type)
        if why:
            change = f"{type_text(argument.type)} -> {type_text(type)}"
            message = f"invalid refinement for argument {number}, refinement {why} in {change}"
            run.error(function, message, fails=fails)
            return False
    # All types are checked before the first change, so that a failure changes nothing.
    front = next(iter(body_of(function)))
    for argument, type in zip(arguments, types, strict=True):
        if argument.type != type:
            _wrap(run.rewriter, argument, type, front)
    set_signature(run.rewriter, function, inputs=types)
    return True


def _wrap(rewriter: Rewriter, argument: Value, type: Type, front: Operation) -> None:
    """Set the type of an argument; its users read a wrapper call of the old type."""
    assert isinstance(type, TensorType)
    sizes = sizes_attribute(type.sizes)
    shape = rewriter.constant(sizes, TensorType(S64, (type.rank,)), before=front)
    properties = {"call_target_name": StringAttr(WRAPPER.encode())}
    which = {SHAPE_OPERANDS: sizes_attribute([1])}
    call = rewriter.create(
        "stablehlo.custom_call",
        (argument, shape),
        properties,
        attributes=which,
        types=(argument.type,),
        before=front,
    )
    assert isinstance(shape.owner, Operation)
    shape.owner.location = call.location = argument.location
    rewriter.replace_uses(argument, call.result, unless=lambda user: user is call)
    rewriter.set_type(argument, type)


def read_types(run: Run, texts: Sequence[str | Type]) -> list[Type] | None:
    """Parse the texts of types; the run fails, and `None` is returned, if one is invalid."""
    types: list[Type] = []
    for text in texts:
        if not isinstance(text, str):
            types.append(text)
            continue
        try:
            type = parse_type(text, dialects=DIALECTS)
        except ParseError as error:
            run.diagnostics.append(Diagnostic(error.message, error.span))
            type = None
        if isinstance(type, DialectType) and _is_unknown(type.text):
            run.diagnostics.append(Diagnostic(f"`{type.text}` {_UNREGISTERED}"))
            type = None
        if type is None:
            found = Diagnostic(f"'builtin.module' op Invalid type string: {text}")
            run.diagnostics.append(found)
            run.failed = True
            return None
        types.append(type)
    return types


_UNREGISTERED: Final = (
    "type created with unregistered dialect. If this is intended, please call"
    " allowUnregisteredDialects() on the MLIRContext, or use -allow-unregistered-dialect with"
    " the MLIR opt tool used"
)


def _is_unknown(text: str) -> bool:
    return text.startswith("!") and text[1:].partition(".")[0].strip('"') not in _DIALECTS


def split_types(text: str) -> tuple[str, ...]:
    """Split a list of types at the commas between them.

    >>> split_types("tensor<2xf32>, tensor<?xf32, #stablehlo.bounds<4>>")
    ('tensor<2xf32>', 'tensor<?xf32, #stablehlo.bounds<4>>')
    """
    if not text.strip():
        return ()
    return tuple([piece.strip() for piece in cut(text, partial(str.__eq__, ","))])


def _run(run: Run) -> None:
    types = read_types(run, run.options["types"])
    if types is None:
        return
    function = target_of(run)
    if function is not None:
        refine_arguments(run, function, types)


REFINE_ARGUMENTS: Final = Pass(
    "stablehlo-refine-arguments",
    _run,
    "Gives the arguments of the program more specific types.",
    {
        "types": Option(
            default=(),
            help="The new types of all arguments, separated by commas.",
            read=split_types,
        )
    },
)
