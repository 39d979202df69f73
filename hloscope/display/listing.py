"""Lists of instructions, one instruction with its neighbourhood, and the call tree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from hloscope import mlir, stablehlo
from hloscope.display.answer import opcode_of, opcodes, shape_text
from hloscope.display.parts import bytes_json, padded_text, padding_text
from hloscope.display.provenance import Provenance, provenance_of
from hloscope.display.table import Column, Table, table_of
from hloscope.errors import ParseError
from hloscope.fusion import padded_bytes_moved
from hloscope.hlo_parser import (
    STYLES,
    Style,
    brief_type,
    instruction_printer,
    print_instruction,
    read_backend_config,
)
from hloscope.ir import Computation, Instruction, Module, Uses, users
from hloscope.mlir import dialects
from hloscope.ops import Fusion
from hloscope.support.lazy import once_for_each

# --------------------------------------------------------------------------------------------------
# Lists of instructions, as rows and JSON.


Place: TypeAlias = tuple[Computation, Instruction]
"""An instruction, after the computation that contains it."""
Key: TypeAlias = Callable[[Computation, Instruction], int]
"""Function that returns a sort key; the smallest key comes first."""

MOST_OPERANDS: Final = 6
"""Maximum number of operands that a shortened row names."""


class Listing:
    """Lists instructions as rows of text or as JSON."""

    def __init__(
        self, module: Module, sort: str | None, key: Key | None, fusions: bool, *, in_column: bool
    ) -> None:
        """Set the contents of the rows.

        Args:
            module: The program.
            sort: Name of the sort order; `None` for none.
            key: Function that returns the figure of that order; `None` for none.
            fusions: Are only fusions listed?
            in_column: Add a column with the computation.
        """
        self._sort, self._key = sort, key
        self._fusions, self._in_column = fusions, in_column
        self._origin: Callable[[Instruction], Provenance] = once_for_each(
            lambda ins: provenance_of(ins, module)
        )
        self._opcode = opcodes()
        # Thousands of rows share some hundred types.
        self._shape = once_for_each(shape_text)

    def table(self, places: list[Place], *, full: bool) -> Table:
        """Return a row for each instruction; columns without text are omitted.

        Args:
            places: The instructions with their computations.
            full: Do not shorten any text.
        """
        always = {"operands", "line"}
        chosen, filled = [], []
        for column in self._columns(full=full):
            cells = [*map(column.cell, places)]
            if column.title in always or any(cells):
                chosen.append(column)
                filled.append(cells)
        return table_of(chosen, [*zip(*filled, strict=True)])

    def _columns(self, *, full: bool) -> list[Column[Place]]:
        if self._fusions:
            own: list[Column[Place]] = [
                Column("fusion", lambda place: place[1].name, False),
                Column("kind", _kind, False),
                Column("shape", _shape(full), False, "right"),
                Column("operands", lambda place: str(len(place[1].operands))),
                Column("instructions", lambda place: str(_size(place[1]))),
            ]
        else:
            own = [
                Column("instruction", lambda place: place[1].name, False),
                Column("opcode", lambda place: self._opcode(place[1]), False),
                Column("shape", _shape(full), False, "right"),
                Column("operands", _operands(full), False, "right", 3),
            ]
        if self._key is not None and self._sort not in (None, "line"):
            own.append(Column(str(self._sort), self._figure))
        if self._in_column:
            drop = 0 if self._fusions else 4
            own.append(Column("in", lambda place: place[0].name, False, "right", drop))
        return [
            *own,
            Column("line", _line),
            Column("source", self._place(full), False, "left", 2),
            Column("op name", lambda place: self._origin(place[1]).op_name, False, "left", 1),
        ]

    def _figure(self, place: Place) -> str:
        if self._key is None:
            return ""
        figure = -self._key(*place)
        padded = padded_bytes_moved(place[1]) if self._sort == "bytes" else figure
        return f"{figure} ({padded} padded)" if padded != figure else str(figure)

    def _place(self, full: bool) -> Callable[[Place], str]:
        """Return a function from an instruction to the text of its source position.

        The text has no folders unless `full` is set.
        """

        def text(origin: Provenance) -> str:
            return origin.place if full else origin.place.rpartition("/")[2]

        source = once_for_each(text)  # rows share their origins
        return lambda place: source(self._origin(place[1]))

    def described(self, computation: Computation, ins: Instruction) -> dict[str, Any]:
        """Return an instruction of a computation as JSON."""
        origin = self._origin(ins)
        described: dict[str, Any] = {
            "name": ins.name,
            "opcode": self._opcode(ins),
            "shape": self._shape(ins.type),
            "operands": [o.name for o in ins.operands],
            "computation": computation.name,
            "line": ins.line,
        }
        described |= origin.to_json()
        if self._key is not None and self._sort != "line":
            described[str(self._sort)] = -self._key(computation, ins)
            if self._sort == "bytes":
                described["padded_bytes"] = padded_bytes_moved(ins)
        if isinstance(ins.op, Fusion):
            described["kind"] = ins.op.kind
            described["calls"] = [called.name for called in ins.calls]
            described["instructions"] = _size(ins)
        return described


def _operands(full: bool) -> Callable[[Place], str]:
    def cell(place: Place) -> str:
        names = [o.name for o in place[1].operands]
        if len(names) > MOST_OPERANDS and not full:
            kept = MOST_OPERANDS - 1
            names = [*names[:kept], f"… {len(names) - kept} more"]
        return " ".join(names)

    return cell


def _shape(full: bool) -> Callable[[Place], str]:
    # Thousands of rows share some hundred types.
    text = once_for_each(shape_text if full else lambda type: brief_type(type, 4))
    return lambda place: text(place[1].type)


def _kind(place: Place) -> str:
    op = place[1].op
    return op.kind if isinstance(op, Fusion) else ""


def _line(place: Place) -> str:
    line = place[1].line
    return "" if line is None else str(line)


def _size(ins: Instruction) -> int:
    return sum(map(len, dict.fromkeys(ins.calls)))


# --------------------------------------------------------------------------------------------------
# One instruction with its neighbourhood, as text and JSON.


MOST_FRAMES: Final = 3
"""Default maximum number of source positions that are printed."""


Printed: TypeAlias = Callable[[Instruction], str]


class ListedInstruction(NamedTuple):
    """An instruction to print, with its computation and module.

    `printed` returns the text of an instruction; `users` returns the users of a computation's
    values.
    """

    module: Module
    computation: Computation
    instruction: Instruction
    printed: Printed
    users: Callable[[Computation], Uses]


def listed_instructions(
    module: Module, places: Iterable[tuple[Computation, Instruction]], printed: Printed
) -> list[ListedInstruction]:
    """Return the instructions as `ListedInstruction`; they share the table of users.

    Args:
        module: The program.
        places: The instructions, with their computations.
        printed: Function that returns the text of an instruction.
    """
    uses = cache(users)  # instructions of one computation share its table of users
    return [ListedInstruction(module, *place, printed, uses) for place in places]


def line_printer(style: str | Style = "default", most_ops: int | None = None) -> Printed:
    """Return a function that prints an instruction in its own language.

    StableHLO is printed as MLIR does, with the names of the source. Names and texts of types are
    computed once, so use one printer for many instructions.

    Args:
        style: Style of HLO instructions.
        most_ops: Maximum number of ops of a StableHLO region that is printed; a larger one is
            `{...}`.
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


def neighbourhood(found: ListedInstruction, around: int) -> dict[Instruction, int]:
    """Return the instructions at most `around` steps away, with their signed distance.

    Steps go along operands (negative distances) and users (positive distances). An instruction
    reached on both sides has the distance of the operands' side.
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


def neighbourhood_text(
    found: ListedInstruction, steps: dict[Instruction, int], full: bool
) -> Iterator[str]:
    """Yield the neighbourhood in program order with the instruction marked, then its callees.

    `steps` is the result of `neighbourhood`; with `full` nothing is shortened.
    """
    position = {ins: i for i, ins in enumerate(found.computation)} if len(steps) > 1 else {}
    if position:
        yield f"{found.computation.name}:"
    for ins in sorted(steps, key=lambda ins: position.get(ins, 0)):
        mark = "" if len(steps) == 1 else "> " if ins is found.instruction else "  "
        yield f"{mark}{_printed_line(ins, full, found.printed)}"
    if padding_text(found.instruction.type):
        yield f"  takes {padded_text(found.instruction.type)}"
    yield from _origin(found, full)
    if full:
        yield from _config(found.instruction)
    for called in dict.fromkeys(found.instruction.calls):
        yield ""
        yield from computation_text(called, full, found.printed)


def _printed_line(ins: Instruction, full: bool, printed: Printed) -> str:
    """Return the instruction in its own language, on one line.

    Args:
        ins: The instruction.
        full: Leave out a backend config in JSON, because `_config` prints it.
        printed: Function that returns the text of an instruction.
    """
    if full and (config := ins.extra("backend_config")) is not None and _pretty(config):
        style = replace(STYLES["short"], backend_config=False)
        return print_instruction(ins, style=style)  # `_config` prints it below
    return printed(ins)


def _origin(found: ListedInstruction, full: bool) -> Iterator[str]:
    """Yield the framework's name of an instruction, then its source positions.

    With `full` all positions are yielded, otherwise at most `MOST_FRAMES`.
    """
    origin = provenance_of(found.instruction, found.module)
    if origin.op_name:
        yield f"  from {origin.op_name}"
    most = len(origin.trace) if full else MOST_FRAMES
    for frame in origin.trace[:most]:
        yield f"  at {frame}{f' in {frame.function}' if frame.function else ''}"
    if len(origin.trace) > most:
        yield f"  … and {len(origin.trace) - most} places above; --full shows them"


def _config(ins: Instruction) -> Iterator[str]:
    """Yield the backend config over several lines, if it is a JSON object."""
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
    """Yield a computation line by line; with `full`, types are not shortened.

    `printed` returns the text of an instruction.
    """
    shape = shape_text if full else brief_type
    parameters = ", ".join(f"{p.name}: {shape(p.type)}" for p in computation.parameters)
    yield f"{computation.name} ({parameters}) -> {shape(computation.root.type)} {{"
    for ins in computation:
        root = "ROOT " if ins is computation.root and ins.location is None else ""
        yield f"  {root}{printed(ins)}"
    yield "}"


def neighbourhood_json(found: ListedInstruction, steps: dict[Instruction, int]) -> dict[str, Any]:
    """Return an instruction, its origin and its neighbourhood, as JSON."""
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


def _origin_json(found: ListedInstruction) -> dict[str, Any]:
    """Return the origin of an instruction as JSON; empty if it is unknown."""
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
    """Return name, parameters, root and instructions of a computation, as JSON.

    `printed` returns the text of an instruction.
    """
    return {
        "computation": computation.name,
        "parameters": [p.name for p in computation.parameters],
        "root": computation.root.name,
        "instructions": [_instruction_json(ins, printed) for ins in computation],
    }


# --------------------------------------------------------------------------------------------------
# The call tree of a program's computations, as rows and JSON.


class Branch(NamedTuple):
    """A computation in the call tree.

    Attributes:
        computation: The computation.
        depth: Number of computations above it.
        opcodes: Opcodes of the instructions that call it from the computation above, with their
            number.
        is_again: Does the tree already have this computation with its callees further up?
    """

    computation: Computation
    depth: int
    opcodes: Counter[str]
    is_again: bool


def branches(root: Computation) -> Iterator[Branch]:
    """Yield the computations that `root` calls directly or indirectly, as a tree in preorder.

    Each one is expanded only at its first occurrence.
    """
    seen: set[Computation] = set()
    stack: list[Branch] = [Branch(root, 0, Counter(), False)]
    while stack:
        branch = stack.pop()
        computation = branch.computation
        again = computation in seen
        yield branch._replace(is_again=again and any(ins.calls for ins in computation))
        if again:
            continue
        seen.add(computation)
        callers: dict[Computation, Counter[str]] = {}
        for ins in computation:
            for called in dict.fromkeys(ins.calls):
                callers.setdefault(called, Counter())[opcode_of(ins)] += 1
        below = [Branch(c, branch.depth + 1, by, False) for c, by in callers.items()]
        stack += reversed(below)


def tree_table(listed: list[Branch]) -> Table:
    """Return a table with a row for each computation of a call tree, indented by its depth."""
    rows = [
        [
            f"{'  ' * b.depth}{b.computation.name}",
            str(len(b.computation)),
            _callers(b.opcodes),
            "above" if b.is_again else _computation_line(b.computation),
        ]
        for b in listed
    ]
    return Table(["computation", "instructions", "called by", "line"], rows, right=[1, 3])


def _callers(opcodes: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" if n > 1 else name for name, n in opcodes.items())


def _computation_line(computation: Computation) -> str:
    return str(computation.span.line) if computation.span else ""


def branch_json(branch: Branch) -> dict[str, Any]:
    """Return one computation of the tree as JSON."""
    computation = branch.computation
    return {
        "name": computation.name,
        "depth": branch.depth,
        "instructions": len(computation),
        "called_by": dict(branch.opcodes),
        "line": computation.span.line if computation.span else None,
    }
