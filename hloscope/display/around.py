"""One instruction with its neighbourhood, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from hloscope import dialects, mlir, stablehlo
from hloscope.display.answer import opcode_of, shape_text
from hloscope.display.provenance import provenance_of
from hloscope.display.sizes import bytes_json, padded_text, padding_text
from hloscope.errors import ParseError
from hloscope.hlo_parser import (
    STYLES,
    Style,
    brief_type,
    instruction_printer,
    print_instruction,
    read_backend_config,
)
from hloscope.ir import Computation, Instruction, Module, Uses, users

MOST_FRAMES: Final = 3
"""Default number of source positions that are printed."""


Printed: TypeAlias = Callable[[Instruction], str]


class Found(NamedTuple):
    """An instruction with its computation, module, printer of lines, and users of values."""

    module: Module
    computation: Computation
    instruction: Instruction
    printed: Printed
    users: Callable[[Computation], Uses]


def founds(
    module: Module, places: Iterable[tuple[Computation, Instruction]], printed: Printed
) -> list[Found]:
    """Instructions of a module to print; they share the printer and the users."""
    uses = cache(users)  # instructions of one computation share its table of users
    return [Found(module, *place, printed, uses) for place in places]


def line_printer(style: str | Style = "default", most_ops: int | None = None) -> Printed:
    """Return a function that prints an instruction in its own language.

    StableHLO is printed as MLIR does, with the names of the source. Names and texts of types are
    computed once, so use one printer for many instructions.

    Args:
        style: The style of HLO instructions.
        most_ops: Most ops of a region of StableHLO that is printed; a larger one is `{...}`.
    """
    printed = instruction_printer(STYLES[style] if isinstance(style, str) else style)
    # One printer for all instructions, created at the first one of StableHLO.
    printer = cache(lambda: mlir.source_printer(dialects.DIALECTS, most_ops))

    def text(ins: Instruction) -> str:
        if ins.location is None:
            return printed(ins)
        if not isinstance(ins, stablehlo.Node):
            return f"%{ins.name}: {mlir.type_text(ins.type)}"
        return printer()(ins.operation).strip()

    return text


def neighbourhood(found: Found, around: int) -> dict[Instruction, int]:
    """The instructions at most `around` steps away, with their signed distance.

    Steps go along operands (negative distances) and users (positive distances). An instruction
    reached on the two sides has the distance of the operands' side.
    """
    steps = {found.instruction: 0}
    uses = found.users(found.computation) if around else {}
    for sign in (-1, 1):
        ring = [found.instruction]
        for distance in range(1, around + 1):
            following = [n for i in ring for n in (i.operands if sign < 0 else uses.get(i, ()))]
            ring = [n for n in dict.fromkeys(following) if n not in steps]
            if not ring:
                break
            steps |= dict.fromkeys(ring, sign * distance)
    return steps


def neighbourhood_text(found: Found, steps: dict[Instruction, int], full: bool) -> Iterator[str]:
    """The neighbourhood in program order, the instruction marked; then called computations."""
    position = {ins: i for i, ins in enumerate(found.computation)} if len(steps) > 1 else {}
    if position:
        yield f"{found.computation.name}:"
    for ins in sorted(steps, key=lambda ins: position.get(ins, 0)):
        mark = "" if len(steps) == 1 else "> " if ins is found.instruction else "  "
        yield f"{mark}{_line(ins, full, found.printed)}"
    if padding_text(found.instruction.type):
        yield f"  takes {padded_text(found.instruction.type)}"
    yield from _origin(found, full)
    if full:
        yield from _config(found.instruction)
    for called in dict.fromkeys(found.instruction.calls):
        yield ""
        yield from computation_text(called, full, found.printed)


def _line(ins: Instruction, full: bool, printed: Printed) -> str:
    """The instruction in its own language."""
    if full and (config := ins.extra("backend_config")) is not None and _pretty(config):
        style = replace(STYLES["short"], backend_config=False)
        return print_instruction(ins, style=style)  # `_config` prints it below
    return printed(ins)


def _origin(found: Found, full: bool) -> Iterator[str]:
    """Yield the framework's name of an instruction, then its source locations."""
    origin = provenance_of(found.instruction, found.module)
    if origin.op_name:
        yield f"  from {origin.op_name}"
    most = len(origin.trace) if full else MOST_FRAMES
    for frame in origin.trace[:most]:
        yield f"  at {frame}{f' in {frame.function}' if frame.function else ''}"
    if len(origin.trace) > most:
        yield f"  … and {len(origin.trace) - most} places above; --full shows them"


def _config(ins: Instruction) -> Iterator[str]:
    """The backend config over several lines, if it is an object of JSON."""
    text = ins.extra("backend_config")
    pretty = _pretty(text) if text is not None else None
    if pretty:
        yield "  backend_config:"
        yield from (f"    {line}" for line in pretty)


def _pretty(text: str) -> list[str] | None:
    try:
        config = read_backend_config(text)
    except ParseError:
        return None
    if config.kind != "json" or not isinstance(config.value, dict):
        return None
    return json.dumps(config.value, indent=2, ensure_ascii=False).splitlines()


def computation_text(computation: Computation, full: bool, printed: Printed) -> Iterator[str]:
    """Yield a computation line by line; with `full`, types are not shortened."""
    shape = shape_text if full else brief_type
    parameters = ", ".join(f"{p.name}: {shape(p.type)}" for p in computation.parameters)
    yield f"{computation.name} ({parameters}) -> {shape(computation.root.type)} {{"
    for ins in computation:
        root = "ROOT " if ins is computation.root and ins.location is None else ""
        yield f"  {root}{printed(ins)}"
    yield "}"


def neighbourhood_json(found: Found, steps: dict[Instruction, int]) -> dict[str, Any]:
    """An instruction, its origin and its neighbourhood, as JSON."""
    ins = found.instruction
    return {
        **_instruction_json(ins, found.printed),
        **_origin_json(found),
        **bytes_json(ins.type),
        "computation": found.computation.name,
        "operands": [o.name for o in ins.operands],
        "users": [user.name for user in found.users(found.computation).get(ins, ())],
        "calls": [computation_json(called, found.printed) for called in dict.fromkeys(ins.calls)],
        "around": [
            _instruction_json(i, found.printed) | {"distance": d}
            for i, d in steps.items()
            if i is not ins
        ],
    }


def _origin_json(found: Found) -> dict[str, Any]:
    """Return the known origin of an instruction as JSON; an empty object if none is known."""
    origin = provenance_of(found.instruction, found.module)
    said: dict[str, Any] = {**origin.to_json()}
    if origin.trace:
        said["trace"] = [{"place": str(f), "function": f.function or None} for f in origin.trace]
    return said


def _instruction_json(ins: Instruction, printed: Printed) -> dict[str, Any]:
    return {
        "instruction": ins.name,
        "opcode": opcode_of(ins),
        "shape": shape_text(ins.type),
        "line": ins.line,
        "text": printed(ins),
    }


def computation_json(computation: Computation, printed: Printed) -> dict[str, Any]:
    """Name, parameters, root and instructions of a computation, for JSON."""
    return {
        "computation": computation.name,
        "parameters": [p.name for p in computation.parameters],
        "root": computation.root.name,
        "instructions": [_instruction_json(ins, printed) for ins in computation],
    }
