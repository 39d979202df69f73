"""`ls`: what a program holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from hloscope.cli.common import (
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.files import read_program
from hloscope.display.answer import opcode_of, shape_text
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.ir.graph import Computation, Instruction, Module
from hloscope.ops.control import Fusion

SCHEMA: Final = "hloscope.ls/1"


@click.command
@file_argument
@click.argument("computation", required=False)
@click.option("--fusions", is_flag=True, help="List the fusions of all computations.")
@click.option("--all", "everything", is_flag=True, help="List all computations' instructions.")
@json_option
@debug_option
def ls(file: str, computation: str | None, fusions: bool, everything: bool, as_json: bool) -> None:
    """List the instructions of FILE's entry computation, or of COMPUTATION."""
    module = read_program(file).module
    listed = list(_listed(module, computation, fusions, everything))
    if as_json:
        print_json(
            {
                "schema": SCHEMA,
                "file": file,
                "module": module.name,
                "entry": module.entry.name,
                "instructions": [_described(c, i, line_of(i)) for c, i in listed],
            }
        )
        return
    if fusions:
        header = ["fusion", "kind", "shape", "operands", "instructions", "in", "line"]
        rows = [_fusion_row(c, i, line_of(i)) for c, i in listed]
        right = [3, 4, 6]
    else:
        header = ["instruction", "opcode", "shape", "operands", "line"]
        rows = [_row(i, line_of(i)) for _, i in listed]
        right = [4]
    if listed:
        print_table(header, rows, right)
    else:
        click.echo(f"no {'fusions' if fusions else 'instructions'} in {file}", err=True)


def _listed(
    module: Module, name: str | None, fusions: bool, everything: bool
) -> Iterator[tuple[Computation, Instruction]]:
    """The instructions to list, each with its computation."""
    for computation in _computations(module, name, fusions or everything):
        for ins in computation:
            if not fusions or isinstance(ins.op, Fusion):
                yield computation, ins


def _computations(module: Module, name: str | None, everything: bool) -> list[Computation]:
    if name is None:
        return list(module) if everything else [module.entry]
    plain = name.removeprefix("%")
    if plain not in module.computations:
        near = did_you_mean(plain, module.computations)
        raise UnknownNameError(f"no computation `{plain}`{near}")
    return [module.computations[plain]]


def _row(ins: Instruction, line: int | None) -> list[str]:
    names = [o.name for o in ins.operands]
    if len(names) > 6:
        names = [*names[:5], f"… {len(names) - 5} more"]
    return [ins.name, opcode_of(ins), shape_text(ins.type), " ".join(names), _text(line)]


def _fusion_row(computation: Computation, ins: Instruction, line: int | None) -> list[str]:
    assert isinstance(ins.op, Fusion)
    size = sum(len(called) for called in ins.calls)
    shape = shape_text(ins.type)
    return [ins.name, ins.op.kind, shape, f"{len(ins.operands)}", f"{size}", computation.name,
            _text(line)]  # fmt: skip


def line_of(ins: Instruction) -> int | None:
    """The line where the instruction stands, counted from 1."""
    return None if ins.span is None else ins.span.line


def _text(line: int | None) -> str:
    return "" if line is None else str(line)


def _described(computation: Computation, ins: Instruction, line: int | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": ins.name,
        "opcode": opcode_of(ins),
        "shape": shape_text(ins.type),
        "operands": [o.name for o in ins.operands],
        "computation": computation.name,
        "line": line,
    }
    if isinstance(ins.op, Fusion):
        described["kind"] = ins.op.kind
        described["calls"] = [called.name for called in ins.calls]
        described["instructions"] = sum(len(called) for called in ins.calls)
    return described
