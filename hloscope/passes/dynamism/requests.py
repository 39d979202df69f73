"""A request for refinement: types of its arguments, and the passes that go with it."""

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
"""What XLA does with a program of symbolic sizes before it refines it."""


def with_arguments(
    tree: Operation, given: str | Sequence[Any] | None
) -> tuple[Operation, list[Type]]:
    """The program, with constants for arguments whose values are given, and the wanted types.

    Raises:
        ParseError: A text is no type.
        DimensionError: There are not as many as the program has arguments.
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
    """The type that a request names."""
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
    """The program with constants in place of arguments, which nobody reads any more."""
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
    """The program that begins with another of its functions; `None` if it has none of that name.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> one, other = "func.func @main() { return }", "func.func private @f() { return }"
    >>> found = with_entry(parse_stablehlo(f"{one} {other}").tree, "f")
    >>> [function.get("sym_name").text for function in found.inside]
    ['main']
    """
    if not any(_is_called(op, name) for op in tree.inside):
        return None
    rewriter = Rewriter(tree)
    for function in [op for op in rewriter.module.inside if op.name == "func.func"]:
        if _is_called(function, name):
            own = {k: v for k, v in function.properties.items() if k != "sym_visibility"}
            rewriter.set_properties(function, {**own, "sym_name": StringAttr(b"main")})
        elif _is_called(function, "main"):
            rewriter.erase(function)
    return rewriter.finish()


def _is_called(operation: Operation, name: str) -> bool:
    """Is it the function of that name?"""
    return operation.name == "func.func" and operation.get("sym_name") == StringAttr(name.encode())


def refining_steps(
    tree: Operation, types: Sequence[Type], *, assertions: bool | None = True
) -> list[Step]:
    """The passes that make a program static as far as the types of its arguments do.

    Args:
        tree: The program.
        types: Of its arguments.
        assertions: Check what is asserted of sizes; `None` keeps the assertions unseen.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> tree = parse_stablehlo("func.func @f() { return }").tree
    >>> [step.name for step in refining_steps(tree, [])]
    ['stablehlo-ext-refine-shapes', 'stablehlo-ext-canonicalize-dynamism']
    """
    steps: list[Step] = []
    if [argument.type for argument in arguments_of(tree)] != [*types]:
        steps.append(Step(step_of("stablehlo-refine-arguments").job, {"types": tuple(types)}))
    if tree.get(_POLYMORPHIC) == BoolAttr(True):
        steps += parse_pipeline(_BEFORE)
    steps += parse_pipeline("stablehlo-ext-refine-shapes,stablehlo-ext-canonicalize-dynamism")
    if assertions is not None and any(is_assertion(op) for op in walk(tree)):
        on = str(assertions).lower()
        steps.append(step_of("stablehlo-check-shape-assertions", f"enable-shape-assertions={on}"))
    return steps
