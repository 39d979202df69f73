"""`show`: one instruction with everything around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from hloscope.api import find
from hloscope.cli.common import (
    debug_option,
    file_argument,
    json_option,
    print_json,
)
from hloscope.cli.files import read_program
from hloscope.display.answer import opcode_of, shape_text
from hloscope.hlo_parser.printer import print_instruction
from hloscope.ir.graph import Computation, Instruction

SCHEMA: Final = "hloscope.show/1"


class Found(NamedTuple):
    """An instruction and the computation it is in."""

    computation: Computation
    instruction: Instruction


@click.command
@file_argument
@click.argument("name")
@click.option(
    "--around",
    metavar="K",
    type=click.IntRange(0),
    default=0,
    help="Show the instructions up to K steps away, among operands and users, too.",
)
@json_option
@debug_option
def show(file: str, name: str, around: int, as_json: bool) -> None:
    """Print the instruction NAME of FILE and the computations it calls; or a computation NAME.

    NAME may be `computation/instruction` where several computations have such an instruction.
    """
    module = read_program(file).module
    plain = name.removeprefix("%")
    if plain in module.computations and "/" not in plain:
        computation = module.computations[plain]
        if as_json:
            print_json({"schema": SCHEMA, "file": file, **_computation_json(computation)})
        else:
            click.echo("\n".join(_computation_text(computation)))
        return
    found = Found(*find(module, name))
    steps = neighbourhood(found, around)
    if as_json:
        print_json({"schema": SCHEMA, "file": file, **_json(found, steps)})
    else:
        click.echo("\n".join(_text(found, steps)))


def neighbourhood(found: Found, around: int) -> dict[Instruction, int]:
    """Instructions at most `around` steps away by operands or users, with their signed distance.

    The distance is negative among what the instruction depends on, positive among its users; an
    instruction is counted on the side where it is nearer.
    """
    steps = {found.instruction: 0}
    users: dict[Instruction, list[Instruction]] = {}
    if around:
        for ins in found.computation:
            for operand in dict.fromkeys(ins.operands):
                users.setdefault(operand, []).append(ins)
    for sign in (-1, 1):
        ring = [found.instruction]
        for distance in range(1, around + 1):
            following = [n for i in ring for n in (i.operands if sign < 0 else users.get(i, ()))]
            ring = [n for n in dict.fromkeys(following) if n not in steps]
            steps |= dict.fromkeys(ring, sign * distance)
    return steps


def _text(found: Found, steps: dict[Instruction, int]) -> Iterator[str]:
    """The neighbourhood in the program's order, the instruction marked; then what it calls."""
    position = {ins: i for i, ins in enumerate(found.computation)} if len(steps) > 1 else {}
    if position:
        yield f"{found.computation.name}:"
    for ins in sorted(steps, key=lambda ins: position.get(ins, 0)):
        mark = "" if len(steps) == 1 else "> " if ins is found.instruction else "  "
        yield f"{mark}{print_instruction(ins, style='short')}"
    for called in dict.fromkeys(found.instruction.calls):
        yield ""
        yield from _computation_text(called)


def _computation_text(computation: Computation) -> Iterator[str]:
    parameters = ", ".join(f"{p.name}: {shape_text(p.type)}" for p in computation.parameters)
    yield f"{computation.name} ({parameters}) -> {shape_text(computation.root.type)} {{"
    for ins in computation:
        root = "ROOT " if ins is computation.root else ""
        yield f"  {root}{print_instruction(ins, style='short')}"
    yield "}"


def _json(found: Found, steps: dict[Instruction, int]) -> dict[str, Any]:
    ins = found.instruction
    return {
        **_instruction_json(ins),
        "computation": found.computation.name,
        "operands": [o.name for o in ins.operands],
        "users": [i.name for i in found.computation if any(o is ins for o in i.operands)],
        "calls": [_computation_json(called) for called in dict.fromkeys(ins.calls)],
        "around": [
            _instruction_json(i) | {"distance": d} for i, d in steps.items() if i is not ins
        ],
    }


def _instruction_json(ins: Instruction) -> dict[str, Any]:
    return {
        "instruction": ins.name,
        "opcode": opcode_of(ins),
        "shape": shape_text(ins.type),
        "line": ins.span.line if ins.span else None,
        "text": print_instruction(ins),
    }


def _computation_json(computation: Computation) -> dict[str, Any]:
    return {
        "computation": computation.name,
        "parameters": [p.name for p in computation.parameters],
        "root": computation.root.name,
        "instructions": [_instruction_json(ins) for ins in computation],
    }
