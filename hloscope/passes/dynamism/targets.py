"""The function that shape passes start with, and changes of its signature.

Source: StableHLO `StablehloRefineShapes.cpp` (`getStablehloRefineShapeTarget`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.ir import FunctionType, Type
from hloscope.mlir import Block, Operation, TypeAttr, function_type, string_of
from hloscope.passes.framework import Run
from hloscope.passes.rewriting import Rewriter


def name_of(function: Operation) -> str:
    """Return the name of a function.

    >>> from hloscope.stablehlo import parse_stablehlo
    >>> tree = parse_stablehlo("func.func @f() { return }").tree
    >>> name_of(tree.regions[0].block.operations[0])
    'f'
    """
    return string_of(function.get("sym_name"))


def target_of(run: Run) -> Operation | None:
    """Return the only function, or `main`; `None` if there is none, and the run fails."""
    functions = [*run.functions()]
    if not functions:
        run.failed = True
        return None
    named = (function for function in functions if name_of(function) == "main")
    found = functions[0] if len(functions) == 1 else next(named, None)
    if found is None:
        run.error(run.rewriter.module, _TOO_MANY)
        return None
    return found if has_one_block(run, found) else None


_TOO_MANY: Final = (
    "must have no more than one function or a `main` function to clearly identify which"
    " function will be refined"
)


def has_one_block(run: Run, function: Operation, *, fails: bool = True) -> bool:
    """Has the function exactly one block?  If not, report an error."""
    blocks = function.blocks
    if len(function.regions) == 1 and len(blocks) == 1 and blocks[0].operations:
        return True
    run.error(function, "must have exactly one block", fails=fails)
    return False


def body_of(function: Operation) -> Block:
    """Return the only block of a function."""
    return function.regions[0].block


def set_signature(
    rewriter: Rewriter,
    function: Operation,
    *,
    inputs: Sequence[Type] | None = None,
    results: Sequence[Type] | None = None,
) -> None:
    """Set the argument or result types of a function."""
    old = signature_of(function)
    new = FunctionType(
        old.inputs if inputs is None else tuple(inputs),
        old.results if results is None else tuple(results),
    )
    if new != old:
        properties = {**function.properties, "function_type": TypeAttr(new)}
        rewriter.set_properties(function, properties)


def signature_of(function: Operation) -> FunctionType:
    """Return the declared type of a function."""
    return function_type(function) or FunctionType((), ())
