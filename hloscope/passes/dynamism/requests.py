"""Requests for refinement: argument types, and the passes to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hloscope.dialects import DIALECTS
from hloscope.errors import ParseError
from hloscope.ir import TensorType, Type, UnrankedTensorType
from hloscope.mlir import BoolAttr, Operation, StringAttr, parse_type
from hloscope.passes.dynamism.arguments import split_types
from hloscope.passes.dynamism.assertions import is_assertion
from hloscope.passes.dynamism.constants import is_integers, number_literal
from hloscope.passes.dynamism.dimensions import DimensionError, arguments_of, entry_of
from hloscope.passes.dynamism.values import sized
from hloscope.passes.pipeline import Step, parse_pipeline, step_of
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import walk

_POLYMORPHIC: Final = "jax.uses_shape_polymorphism"
_BEFORE: Final = "inline,cse,stablehlo-ext-chlo-recompose-ops,symbol-dce"
"""Passes that XLA runs on a program of symbolic sizes before refinement."""


def with_arguments(
    tree: Operation, given: str | Sequence[Any] | None
) -> tuple[Operation, list[Type]]:
    """Return the program with constants for arguments given as numbers, and all argument types.

    Raises:
        ParseError: A text is not a type.
        DimensionError: The number of types differs from that of the arguments.
    """
    arguments = arguments_of(tree)
    if given is None:
        return tree, [argument.type for argument in arguments]
    wanted = split_types(given) if isinstance(given, str) else given
    if len(wanted) != len(arguments):
        raise DimensionError(
            f"{len(wanted)} argument{'s' * (len(wanted) != 1)} given, the program has"
            f" {len(arguments)}"
        )
    values: dict[int, int] = {}
    types: list[Type] = []
    for number, (each, argument) in enumerate(zip(wanted, arguments, strict=True)):
        value = _number(each)
        if value is None:
            types.append(_type(each, argument.type))
            continue
        type = argument.type
        # A number would be read as a scalar; for an array it would have no single meaning.
        if not isinstance(type, TensorType) or type.rank or not is_integers(type):
            raise DimensionError(f"argument {number} is not a number: give its type, not `{value}`")
        values[number] = value
        types.append(argument.type)
    return _with_values(tree, values) if values else tree, types


def _number(each: Any) -> int | None:
    if isinstance(each, str) and each.strip().lstrip("-").isdecimal():
        return int(each.strip()[:20])
    return each if isinstance(each, int) and not isinstance(each, bool) else None


def _type(each: Any, declared: Type) -> Type:
    """Return the type that a request names; `_` and an empty text mean the declared one."""
    if each is None or (isinstance(each, str) and each.strip() in ("_", "")):
        return declared
    if isinstance(each, str):
        text = each.strip()
        return parse_type(text, dialects=DIALECTS)
    shape = getattr(each, "shape", None)
    if isinstance(each, TensorType | UnrankedTensorType) or shape is None:
        if isinstance(each, Type):
            return each
        raise ParseError(f"{each!r} is not an argument type")
    element = getattr(declared, "element", None)
    if element is None:
        return declared
    return sized(element, tuple([int(size) for size in shape]))


def _with_values(tree: Operation, values: dict[int, int]) -> Operation:
    """Return the program with uses of some arguments replaced by constants."""
    rewriter = Rewriter(tree)
    function = entry_of(rewriter.module)
    assert function is not None
    block = function.regions[0].block
    front = next(iter(block))
    for number, value in values.items():
        argument = block.arguments[number]
        assert isinstance(argument.type, TensorType)
        literal = number_literal(value, argument.type)
        constant = rewriter.constant(literal, argument.type, before=front)
        rewriter.replace_uses(argument, constant)
    return rewriter.finish()


def with_entry(tree: Operation, name: str) -> Operation | None:
    """Return the program with another function as entry; `None` if no function has the name.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> one, other = "func.func @main() { return }", "func.func private @f() { return }"
    >>> found = with_entry(parse_stablehlo(f"{one} {other}").tree, "f")
    >>> [function.get("sym_name").text for function in found.inside]
    ['main']
    """
    if not any(_has_name(op, name) for op in tree.inside):
        return None
    rewriter = Rewriter(tree)
    for function in [op for op in rewriter.module.inside if op.name == "func.func"]:
        if _has_name(function, name):
            own = {k: v for k, v in function.properties.items() if k != "sym_visibility"}
            rewriter.set_properties(function, {**own, "sym_name": StringAttr(b"main")})
        elif _has_name(function, "main"):
            rewriter.erase(function)
    return rewriter.finish()


def _has_name(operation: Operation, name: str) -> bool:
    """Is it the function of this name?"""
    return operation.name == "func.func" and operation.get("sym_name") == StringAttr(name.encode())


def refining_steps(
    tree: Operation, types: Sequence[Type], *, assertions: bool | None = True
) -> list[Step]:
    """Return the passes that make a program static, given the types of its arguments.

    Args:
        tree: The program.
        types: Types of its arguments.
        assertions: Check assertions about sizes, or erase them; `None` leaves them in place.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> tree = parse_stablehlo("func.func @f() { return }").tree
    >>> [step.name for step in refining_steps(tree, [])]
    ['stablehlo-ext-refine-shapes', 'stablehlo-ext-canonicalize-dynamism']
    """
    steps: list[Step] = []
    # Without a change of types there is nothing to wrap, and arguments keep their uses.
    if [argument.type for argument in arguments_of(tree)] != [*types]:
        steps.append(Step(step_of("stablehlo-refine-arguments").job, {"types": tuple(types)}))
    if tree.get(_POLYMORPHIC) == BoolAttr(True):
        steps += parse_pipeline(_BEFORE)
    steps += parse_pipeline("stablehlo-ext-refine-shapes,stablehlo-ext-canonicalize-dynamism")
    # Assertions come last: their operands are constants only after canonicalization.
    if assertions is not None and any(is_assertion(op) for op in walk(tree)):
        on = str(assertions).lower()
        steps.append(step_of("stablehlo-check-shape-assertions", f"enable-shape-assertions={on}"))
    return steps
