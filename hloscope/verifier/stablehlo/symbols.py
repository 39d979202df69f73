"""Checks of functions, modules and symbol references, and of ops that run functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hloscope.errors import Diagnostic, VerifyError
from hloscope.ir import FunctionType, InferenceError, TensorType, Type, UnrankedTensorType
from hloscope.mlir import (
    ArrayAttr,
    Attribute,
    DenseAttr,
    DictAttr,
    Operation,
    StringAttr,
    StructAttr,
    SymbolAttr,
    Value,
    VerbatimAttr,
    function_type,
    type_text,
)
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.support.lazy import pattern
from hloscope.verifier.stablehlo.traits import refuse

# --------------------------------------------------------------------------------------------------
# Functions, modules and references to them by name.
#
# Source: MLIR's `SymbolTable.cpp`, `FunctionInterfaces.cpp`, `FuncOps.cpp`; StableHLO spec,
# `composite` and its `verifyCompositeOp`.


_TABLES: Final = frozenset({"builtin.module"})


class Symbols:
    """The ops that define symbols, by symbol table; a table is read when it is first needed."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Operation]] = {}

    def of(self, table: Operation) -> dict[str, Operation]:
        """Return the ops in a symbol table by symbol name.

        If several ops define one name, the first one is returned.
        """
        # Each call and reference of a module looks a name up in the same table.
        known = self._known.get(id(table))
        if known is None:
            known = self._known[id(table)] = {}
            for operation in members(table):
                name = symbol_name(operation)
                if name is not None:
                    known.setdefault(name, operation)
        return known

    def find(self, user: Operation, symbol: SymbolAttr) -> Operation | None:
        """Return the op to which `symbol` refers; `None` if there is none.

        It is searched in the nearest symbol table around `user`.
        """
        table = nearest_table(user)
        for name in (symbol.root, *symbol.nested):
            if table is None or table.name not in _TABLES:
                return None
            table = self.of(table).get(name)
        return table

    def function(self, user: Operation, symbol: SymbolAttr) -> FunctionType | None:
        """Return the type of the function to which `symbol` refers; `None` if it is no function."""
        found = self.find(user, symbol)
        return function_type(found) if found is not None and found.name == "func.func" else None


def nearest_table(operation: Operation) -> Operation | None:
    """Return the innermost op around `operation` that is a symbol table.

    `None` if there is none.
    """
    around = operation.parent_op
    while around is not None and around.name not in _TABLES:
        around = around.parent_op
    return around


def members(table: Operation) -> Iterator[Operation]:
    """Yield the ops directly in the region of a symbol table."""
    return iter(table.inside)


def symbol_name(operation: Operation) -> str | None:
    """Return the symbol that an op defines, its `sym_name`; `None` if it defines none."""
    name = operation.get("sym_name")
    return name.text if isinstance(name, StringAttr) else None


# --- functions ------------------------------------------------------------------------------


def check_function(function: Operation) -> None:
    """Check that the body of a function agrees with the function's type.

    Raises:
        VerifyError: The function is invalid; the message is MLIR's.
    """
    declared = function_type(function)
    if declared is None:
        raise refuse(
            function,
            "attribute 'function_type' failed to satisfy constraint: type attribute of function"
            " type",
        )
    check_symbol(function)
    for key, what, types in (
        ("arg_attrs", "argument", declared.inputs),
        ("res_attrs", "result", declared.results),
    ):
        given = function.get(key)
        if isinstance(given, ArrayAttr) and len(given.elements) != len(types):
            raise refuse(
                function,
                f"expects {what} attribute array to have the same number of elements as the"
                f" number of function {what}s, got {len(given.elements)}, but expected"
                f" {len(types)}",
            )
        for each in given.elements if isinstance(given, ArrayAttr) else ():
            names = [name for name, _ in each.entries] if isinstance(each, DictAttr) else []
            # Names without a dialect prefix are reserved for the function itself.
            if not all("." in name for name in names):
                raise refuse(function, f"{what}s may only have dialect attributes")
    blocks = function.regions[0].blocks
    # A declaration has no body to compare with.
    if not blocks:
        return
    arguments = blocks[0].arguments
    if len(arguments) != len(declared.inputs):
        raise refuse(
            function,
            f"entry block must have {len(declared.inputs)} arguments to match function signature",
        )
    for i, found, type_ in _of_other_types(arguments, declared.inputs):
        raise refuse(
            function,
            f"type of entry block argument #{i}('{type_text(found)}') must match the"
            f" type of the corresponding argument in function signature('{type_text(type_)}')",
        )


def _of_other_types(
    values: Sequence[Value], types: Sequence[Type]
) -> Iterator[tuple[int, Type, Type]]:
    """Yield (index, type, expected type) for each value that does not have the expected type."""
    for i, (value, wanted) in enumerate(zip(values, types, strict=True)):
        if value.type is not wanted and value.type != wanted:
            yield i, value.type, wanted


def check_symbol(operation: Operation) -> None:
    """Check an op that defines a symbol: its visibility, and that a symbol table contains it."""
    visibility = operation.get("sym_visibility")
    if isinstance(visibility, StringAttr) and visibility.text not in _VISIBILITIES:
        raise refuse(
            operation,
            'visibility expected to be one of ["public", "private", "nested"], but got "'
            f'{visibility.text}"',
        )
    is_declaration = operation.name == "func.func" and not operation.regions[0].blocks
    public = visibility is None or (
        isinstance(visibility, StringAttr) and visibility.text == "public"
    )
    if is_declaration and public:
        raise refuse(operation, "symbol declaration cannot have public visibility")
    parent = operation.parent_op
    if parent is not None and parent.name in DEFINITIONS and parent.name not in _TABLES:
        raise refuse(operation, "symbol's parent must have the SymbolTable trait")


_VISIBILITIES: Final = {"public", "private", "nested"}


def check_return(operation: Operation) -> None:
    """Check that `func.return` returns values of its function's result types."""
    function = operation.parent_op
    if function is None or function.name != "func.func":
        raise refuse(operation, "expects parent op 'func.func'")
    declared = function_type(function)
    results = declared.results if declared else ()
    name = symbol_name(function)
    if len(operation.operands) != len(results):
        raise refuse(
            operation,
            f"has {len(operation.operands)} operands, but enclosing function (@{name}) returns"
            f" {len(results)}",
        )
    for i, found, type_ in _of_other_types(operation.operands, results):
        raise VerifyError(
            f"type of return operand {i} ('{type_text(found)}') doesn't match function"
            f" result type ('{type_text(type_)}') in function @{name}"
        )


def check_indirect_call(operation: Operation) -> None:
    """Check `func.call_indirect` against the type of the function that it calls."""
    callee = operation.operands[0].type
    inputs, results = tuple(operation.operand_types[1:]), tuple(operation.result_types)
    if isinstance(callee, FunctionType) and callee != FunctionType(inputs, results):
        raise refuse(
            operation,
            "failed to verify that callee input types match argument types"
            if callee.inputs != inputs
            else "failed to verify that callee result types match result types",
        )


# --- symbol tables --------------------------------------------------------------------------


def check_table(table: Operation, symbols: Symbols) -> Iterator[tuple[Operation, VerifyError]]:
    """Yield the errors of the symbols in a symbol table: redefinitions, then invalid references."""
    first: dict[str, Operation] = {}
    for operation in members(table):
        name = symbol_name(operation)
        if name is None:
            continue
        earlier = first.setdefault(name, operation)
        if earlier is not operation:
            yield operation, RedefinitionError(name, earlier)
    for user in users(table):
        try:
            _USERS[user.name](user, symbols)
        except VerifyError as error:
            yield user, error


class RedefinitionError(VerifyError):
    """A symbol is defined twice; `note` is a diagnostic at the first definition."""

    def __init__(self, name: str, earlier: Operation) -> None:
        super().__init__(f"redefinition of symbol named '{name}'")
        self.note = Diagnostic("see existing symbol definition here", earlier.span, severity="note")


def users(table: Operation) -> Iterator[Operation]:
    """Yield the ops in a symbol table that refer to symbols.

    Ops in nested symbol tables are omitted.
    """
    waiting = [iter(table.inside)]
    without: set[object] = set()  # `shared_key` keys of ops without symbol users in their regions
    while waiting:
        for operation in waiting[-1]:
            if operation.name in _USERS:
                yield operation
            if (
                not operation.regions
                or operation.shared_key in without
                or operation.name in _TABLES
            ):
                continue
            inside = operation.inside
            # Ops with the same `shared_key` key have the same regions, so that one of them is
            # inspected.
            if operation.shared_key is not None and not any(
                o.regions or o.name in _USERS for o in inside
            ):
                without.add(operation.shared_key)
                continue
            # Depth first: an op's regions are visited before the ops after it, as in the text.
            waiting.append(iter(inside))
            break
        else:
            waiting.pop()


def _check_call(operation: Operation, symbols: Symbols) -> None:
    """Check that a call refers to a function, and has its operand and result types."""
    callee = operation.get("callee")
    if not isinstance(callee, SymbolAttr):
        raise refuse(operation, "requires a 'callee' symbol reference attribute")
    declared = symbols.function(operation, callee)
    if declared is None:
        raise refuse(operation, f"'{callee.root}' does not reference a valid function")
    if len(operation.operands) != len(declared.inputs):
        raise refuse(operation, "incorrect number of operands for callee")
    for i, found, type_ in _of_other_types(operation.operands, declared.inputs):
        raise refuse(
            operation,
            f"operand type mismatch: expected operand type '{type_text(type_)}', but provided"
            f" '{type_text(found)}' for operand number {i}",
        )
    if len(operation.results) != len(declared.results):
        raise refuse(operation, "incorrect number of results for callee")
    for i, *_ in _of_other_types(operation.results, declared.results):
        raise refuse(operation, f"result type mismatch at index {i}")


def _check_constant(operation: Operation, symbols: Symbols) -> None:
    value = operation.get("value")
    if not isinstance(value, SymbolAttr):
        return  # `check_definition` reports it
    declared = symbols.function(operation, value)
    if declared is None:
        raise refuse(operation, f"reference to undefined function '{value.root}'")
    if operation.result_types != [declared]:
        raise refuse(operation, "reference to function with mismatched type")


_NAMESPACED: Final = r"^[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+$"


def _check_composite(operation: Operation, symbols: Symbols) -> None:
    """Check a composite: its name, and its types against those of its decomposition."""
    name, callee = operation.get("name"), operation.get("decomposition")
    if not isinstance(name, StringAttr) or not isinstance(callee, SymbolAttr):
        return  # `check_definition` reports it
    if not re.fullmatch(_NAMESPACED[1:-1], name.text):
        raise VerifyError(
            "name must be a valid namespaced op name, i.e. it must match the following regular"
            f' expression: {_NAMESPACED} e.g. "my_namespace.my_op"',
            rule="composite_c1",
        )
    declared = symbols.function(operation, callee)
    if declared is None:
        raise VerifyError(
            f"'{callee.root}' does not reference a valid function", rule="composite_c2"
        )
    for what, values, types, rule in (
        ("operand", operation.operands, declared.inputs, "composite_c3"),
        ("result", operation.results, declared.results, "composite_c4"),
    ):
        if len(values) != len(types):
            raise VerifyError(
                f"has {len(values)} {what}(s), but decomposition has {len(types)}", rule=rule
            )
        for i, (value, type_) in enumerate(zip(values, types, strict=True)):
            if value.type != type_:
                raise VerifyError(
                    f"{what} at index {i} has type '{type_text(value.type)}', but decomposition"
                    f" has type '{type_text(type_)}'",
                    rule=rule,
                )


_MESH: Final = pattern(r"\bmesh = @(\w+|\"[^\"]*\")")


def _check_groups(operation: Operation, symbols: Symbols) -> None:
    groups = operation.get("replica_groups")
    mesh: Attribute | int | tuple[int, ...] | None = None
    if isinstance(groups, StructAttr):
        mesh = groups.get("mesh")
    elif isinstance(groups, VerbatimAttr):
        found = _MESH.search(groups.text)
        mesh = SymbolAttr(found[1].strip('"')) if found else None
    if isinstance(mesh, SymbolAttr) and symbols.find(operation, mesh) is None:
        raise refuse(operation, f"replica_groups: mesh symbol '{mesh.root}' not found")


_COLLECTIVES: Final = (
    "all_gather all_reduce all_to_all collective_broadcast collective_reduce reduce_scatter"
)
_USERS: Final[dict[str, Callable[[Operation, Symbols], None]]] = {
    "func.call": _check_call,
    "func.constant": _check_constant,
    "stablehlo.composite": _check_composite,
    **{f"stablehlo.{name}": _check_groups for name in _COLLECTIVES.split()},
}
"""Checks of ops that refer to symbols, by op name."""


# --------------------------------------------------------------------------------------------------
# Checks of `interpreter.run_parallel`, `async_start` and the ops of `check`.
#
# Source: StableHLO's `RunParallelOp::verify`, the rules of `async_start` its tests show,
# `CheckOps.td`.


_WRAPPED: Final = frozenset(
    "stablehlo." + name
    for name in "all_gather all_reduce all_to_all collective_broadcast collective_permute"
    " collective_reduce reduce_scatter slice dynamic_slice dynamic_update_slice".split()
)


def check_async_start(operation: Operation) -> None:
    """Check the region of `async_start`: one collective or slice, and a return.

    Raises:
        VerifyError: The region is invalid; the message is upstream's.
    """
    operations = operation.regions[0].blocks[0].operations
    if len(operations) != 2:
        raise _infers_not(operation, "region must contain exactly one operation and a return")
    if operations[0].name not in _WRAPPED:
        raise _infers_not(operation, "region must contain a collective or slice operation")


def check_isolation(operation: Operation) -> None:
    """Check that no op in the regions of `operation` reads a value from outside them.

    Source: MLIR's trait `IsolatedFromAbove`.

    Raises:
        VerifyError: An op reads such a value.
    """
    for user in _users_of_outer_values(operation):
        message = f"'{user.name}' op using value defined outside the region"
        raise VerifyError(message, span=user.span)


def _users_of_outer_values(root: Operation) -> Iterator[Operation]:
    """Yield the ops in the regions of `root` that read a value from outside them."""
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
    """Check the grid of programs, input and result counts, and infeed functions of `run_parallel`.

    Raises:
        VerifyError: The op is invalid; the message is upstream's.
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
    """Check that each infeed function has no parameters and returns one tensor."""
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
