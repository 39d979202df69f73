"""Checks of `interpreter.run_parallel`, `async_start` and the ops of `check`.

Source: StableHLO's `RunParallelOp::verify`, the rules of `async_start` its tests show,
`CheckOps.td`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.errors import VerifyError
from hloscope.ir import FunctionType, InferenceError, TensorType, UnrankedTensorType
from hloscope.mlir import ArrayAttr, DenseAttr, Operation, SymbolAttr, type_text
from hloscope.verifier.stablehlo.symbols import Symbols
from hloscope.verifier.stablehlo.traits import refuse

_WRAPPED: Final = frozenset(
    "stablehlo." + name
    for name in "all_gather all_reduce all_to_all collective_broadcast collective_permute"
    " collective_reduce reduce_scatter slice dynamic_slice dynamic_update_slice".split()
)


def check_async_start(operation: Operation) -> None:
    """Check the region of `async_start`: one collective or slice, and a return.

    Raises:
        VerifyError: With upstream's message.
    """
    operations = operation.regions[0].blocks[0].operations
    if len(operations) != 2:
        raise _infers_not(operation, "region must contain exactly one operation and a return")
    if operations[0].name not in _WRAPPED:
        raise _infers_not(operation, "region must contain a collective or slice operation")


def check_isolation(operation: Operation) -> None:
    """Check that nothing in the regions of an op reads a value defined outside them.

    Source: MLIR's trait `IsolatedFromAbove`.

    Raises:
        VerifyError: An op reads such a value.
    """
    for user in _users_of_outer_values(operation):
        message = f"'{user.name}' op using value defined outside the region"
        raise VerifyError(message, span=user.span)


def _users_of_outer_values(root: Operation) -> Iterator[Operation]:
    """Yield the ops in the regions of `root` that read a value defined outside them."""
    inside = {id(root)}
    waiting = [root]
    # The list grows while it is traversed; all definitions are collected before the first use is
    # tested, since a region may read a value of a later block.
    for operation in waiting:
        for block in operation.blocks:
            inside.add(id(block))
            inside.update(map(id, block.operations))
            waiting += [inner for inner in block.operations if inner.regions]
    for operation in waiting:
        for user in operation.inside:
            if any(id(value.owner) not in inside for value in user.operands):
                yield user


def _infers_not(operation: Operation, message: str) -> InferenceError:
    return InferenceError(f"'{operation.name}' op {message}")


def check_constant(operation: Operation) -> None:
    """Check that the constant of a `check` op has the type of its operand.

    Raises:
        VerifyError: The types differ.
    """
    value = operation.get("value")
    operand = operation.operands[0].type
    if isinstance(value, DenseAttr) and value.type != operand:
        raise refuse(operation, "failed to verify that all of {lhs, value} have same type")


def check_run_parallel(operation: Operation, symbols: Symbols) -> None:
    """Check the grid of programs, the counts of inputs and results, and the infeed functions.

    Raises:
        VerifyError: With upstream's message.
    """
    infeed = operation.get("infeed")
    programs = operation.get("programs")
    rows = programs.elements if isinstance(programs, ArrayAttr) else ()
    grid = [row.elements if isinstance(row, ArrayAttr) else () for row in rows]
    if not grid or not grid[0]:
        raise VerifyError("`programs` attribute cannot be empty")
    for row in grid:
        if len(row) != len(grid[0]):
            raise VerifyError(
                "Sizes of second dimension of `programs` should all match"
                f" {len(grid[0])} but got {len(row)}"
            )
    # Operands and results are those of all programs in row-major order, so that the totals must
    # agree.
    types = [_function(operation, symbols, program) for row in grid for program in row]
    inputs = sum(len(t.inputs) for t in types)
    if len(operation.operands) != inputs:
        raise VerifyError(
            f"Number of inputs ({len(operation.operands)}) should match the sum of the number of"
            f" inputs of all programs ({inputs})"
        )
    results = sum(len(t.results) for t in types)
    if len(operation.results) != results:
        raise VerifyError(
            f"Number of results ({len(operation.results)}) should match the sum of the number of"
            f" results of all programs ({results})"
        )
    if isinstance(infeed, ArrayAttr):
        _check_infeed(operation, symbols, infeed)


def _function(operation: Operation, symbols: Symbols, symbol: object) -> FunctionType:
    name = symbol.root if isinstance(symbol, SymbolAttr) else ""
    found = symbols.function(operation, symbol) if isinstance(symbol, SymbolAttr) else None
    if found is None:
        raise VerifyError(f'Function "{name}" not found')
    return found


def _check_infeed(operation: Operation, symbols: Symbols, infeed: ArrayAttr) -> None:
    """Check that each infeed function takes nothing and returns one tensor."""
    if not infeed.elements:
        raise VerifyError("infeed attribute is optional or should not be empty")
    for symbol in infeed.elements:
        found = _function(operation, symbols, symbol)
        name = symbol.root if isinstance(symbol, SymbolAttr) else ""
        if found.inputs:
            raise VerifyError(
                f'Function "{name}" should take 0 arguments but instead takes'
                f" {len(found.inputs)} arguments"
            )
        if len(found.results) != 1:
            raise VerifyError(
                f'Function "{name}" should return 1 tensor but returns {len(found.results)}'
            )
        for type_ in found.results:
            if not isinstance(type_, TensorType | UnrankedTensorType):
                raise VerifyError(
                    f'Function "{name}" should return a tensor type, but instead returns'
                    f" '{type_text(type_)}'"
                )
