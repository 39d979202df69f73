"""`infer`: the types that follow for the results of every op."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import click

from hloscope.api import language_of
from hloscope.cli.common import debug_option, file_argument, json_option, print_json, print_table
from hloscope.cli.files import read_text
from hloscope.dialects import DIALECTS
from hloscope.display import opcode_of
from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo, print_type
from hloscope.ir import TensorType, TupleType, Type
from hloscope.lazy import dataclass
from hloscope.mlir import Operation, parse_mlir, print_mlir, split_input, type_text
from hloscope.ops import Parameter
from hloscope.source import Source, Span
from hloscope.stablehlo import answered, inferred_types, is_asking, walk
from hloscope.verifier import inferred

SCHEMA: Final = "hloscope.infer/1"
BETWEEN: Final = "// -----\n"
WRONG: Final = 3
TypeText: TypeAlias = Callable[[Type], str]
_NO_TYPING: Final = ("func.func", "builtin.module")


@dataclass(frozen=True, slots=True)
class Row:
    """One op: its place, name and opcode, the types of its results, or why there are none."""

    span: Span | None
    name: str
    op: str
    inferred: tuple[Type, ...] | None
    declared: tuple[Type, ...]
    error: HloscopeError | None = None


@click.command
@file_argument
@json_option
@click.option(
    "--split-input-file", is_flag=True, help="StableHLO: FILE is several programs, // ----- apart."
)
@debug_option
def infer(file: str, as_json: bool, split_input_file: bool) -> None:
    """Tell for every op of FILE the types of its results that follow from its operands.

    A StableHLO program that asks with ops of the dialect hlo_test_infer is printed with the
    answers, as `stablehlo-opt --hlo-test-infer` does.  The exit code is 3 if an op is refused.
    """
    source = read_text(file)
    if language_of(source) == "stablehlo":
        pieces = split_input(source.text) if split_input_file else [(1, source.text)]
        texts = ["\n" * (line - 1) + piece for line, piece in pieces]
        modules = [parse_mlir(text, source.name, dialects=DIALECTS) for text in texts]
        if not as_json and any(map(is_asking, modules)):
            printed = [print_mlir(answered(module), dialects=DIALECTS) for module in modules]
            click.echo(BETWEEN.join(printed), nl=False)
            return
        rows = [row for module in modules for row in rows_of_tree(module)]
        text_of: TypeText = type_text
    else:
        rows = list(rows_of_hlo(source))
        text_of = print_type
    if as_json:
        print_json({"schema": SCHEMA, "file": source.name, "ops": [_described(r) for r in rows]})
    else:
        _print(rows, text_of)
    for row in rows:
        if row.error is not None:
            where = row.error.span or row.span
            error = type(row.error)(row.error.message, span=where, rule=row.error.rule)
            click.echo(str(error), err=True)
    if any(row.error is not None for row in rows):
        sys.exit(WRONG)


def rows_of_tree(module: Operation) -> Iterator[Row]:
    """A row for each op of a StableHLO program that has results."""
    for operation in walk(module):
        if operation.results and operation.source and operation.name not in _NO_TYPING:
            found = inferred_types(operation)
            names = dict.fromkeys(f"%{value.name}" for value in operation.results)
            declared = tuple([value.type for value in operation.results])
            name = ", ".join(names)
            yield Row(operation.span, name, operation.name, found.types, declared, found.error)


def rows_of_hlo(source: Source) -> Iterator[Row]:
    """A row for each instruction of an HLO module but its parameters."""
    module = parse_hlo(source.text, name=source.name, strict=True)
    for computation in module:
        for ins in computation:
            if isinstance(ins.op, Parameter):
                continue
            types: tuple[Type, ...] | None = None
            error = None
            try:
                follows = inferred(ins)
                types = None if follows is None else (follows,)
            except HloscopeError as refused:
                error = refused
            yield Row(ins.span, ins.name, opcode_of(ins), types, (ins.type,), error)


def _print(rows: list[Row], text_of: TypeText) -> None:
    table = []
    for row in rows:
        line, column = row.span.line_col if row.span else (0, 0)
        declared = ", ".join(map(text_of, row.declared))
        if row.error is not None:
            said = f"refused; declared {declared}"
        elif row.inferred is None:
            said = f"declared {declared}"
        else:
            said = ", ".join(map(text_of, row.inferred))
        table.append([f"{line}:{column}", row.name, row.op, said])
    print_table(["line", "name", "op", "types"], table)


def _described(row: Row) -> dict[str, Any]:
    line, column = row.span.line_col if row.span else (None, None)
    return {
        "line": line,
        "column": column,
        "name": row.name,
        "op": row.op,
        "types": None if row.inferred is None else list(map(_type, row.inferred)),
        "declared": list(map(_type, row.declared)),
        "error": row.error and {"message": row.error.message, "rule": row.error.rule or None},
    }


def _type(type: Type) -> dict[str, Any]:
    """The type as JSON has it: its text in MLIR, and of a tensor its element type and sizes."""
    if isinstance(type, TupleType):
        return {"type": type_text(type), "elements": list(map(_type, type.elements))}
    if not isinstance(type, TensorType):
        return {"type": type_text(type)}
    sizes = {"element_type": type_text(type.element), "dims": list(type.sizes)}
    bounds = {"bounds": list(type.bounds)} if any(b is not None for b in type.bounds) else {}
    return {"type": type_text(type), **sizes, **bounds}
