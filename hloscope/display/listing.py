"""Lists of instructions, as rows and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.display.answer import opcodes, shape_text
from hloscope.display.provenance import Provenance, provenance_of
from hloscope.display.table import Side, Table
from hloscope.fusion import padded_bytes_moved
from hloscope.hlo_parser import brief_type
from hloscope.ir import Computation, Instruction, Module
from hloscope.lazy import once_for_each
from hloscope.ops import Fusion

Place: TypeAlias = tuple[Computation, Instruction]
"""An instruction and the computation it is in."""
Key: TypeAlias = Callable[[Computation, Instruction], int]
"""A figure to sort by; the smallest come first."""

MOST_OPERANDS: Final = 6
"""Operands that a row names where room is short."""


class Column(Struct, frozen=True):
    """One column of the list.

    Attributes:
        title: Its head.
        cell: The text for an instruction.
        side: Where long cells are cut on a terminal; `None` for never.
        drop: Which columns a narrow terminal loses first; 0 for those it keeps.
        number: Is it one of numbers?
    """

    title: str
    cell: Callable[[Computation, Instruction], str]
    side: Side | None = None
    drop: int = 0
    number: bool = False


class Listing:
    """Instructions as rows of text or as JSON."""

    def __init__(
        self, module: Module, sort: str | None, key: Key | None, fusions: bool, *, in_column: bool
    ) -> None:
        """Take the requested order; with `in_column`, add a column with the computation."""
        self._module = module
        self._sort, self._key = sort, key
        self._fusions, self._in_column = fusions, in_column
        self._origins: dict[Instruction, Provenance] = {}
        self._opcode = opcodes()
        # Thousands of rows share some hundred types.
        self._shape = once_for_each(shape_text)

    def table(self, places: list[Place], *, full: bool) -> Table:
        """Return a row for each instruction; empty columns are omitted.

        Args:
            places: The instructions.
            full: Shorten nothing.
        """
        always = {"operands", "line"}
        chosen, filled = [], []
        for column in self._columns(full=full):
            cells = [column.cell(c, i) for c, i in places]
            if column.title in always or any(cells):
                chosen.append(column)
                filled.append(cells)
        droppable = [k for k, column in enumerate(chosen) if column.drop]
        return Table(
            [column.title for column in chosen],
            [*zip(*filled, strict=True)],
            right=[k for k, column in enumerate(chosen) if column.number],
            cut={k: column.side for k, column in enumerate(chosen) if column.side},
            optional=sorted(droppable, key=lambda k: chosen[k].drop),
        )

    def _columns(self, *, full: bool) -> list[Column]:
        if self._fusions:
            own = [
                Column("fusion", lambda _, i: i.name),
                Column("kind", _kind),
                Column("shape", _shape(full), "right"),
                Column("operands", lambda _, i: str(len(i.operands)), number=True),
                Column("instructions", lambda _, i: str(_size(i)), number=True),
            ]
        else:
            own = [
                Column("instruction", lambda _, i: i.name),
                Column("opcode", lambda _, i: self._opcode(i)),
                Column("shape", _shape(full), "right"),
                Column("operands", _operands(full), "right", drop=3),
            ]
        if self._key is not None and self._sort not in (None, "line"):
            own.append(Column(str(self._sort), self._figure, number=True))
        if self._in_column:
            own.append(Column("in", lambda c, _: c.name, "right", drop=0 if self._fusions else 4))
        return [
            *own,
            Column("line", lambda _, i: _line(i), number=True),
            Column("source", self._place(full), "left", drop=2),
            Column("op name", lambda _, i: self._origin(i).op_name, "left", drop=1),
        ]

    def _figure(self, computation: Computation, ins: Instruction) -> str:
        if self._key is None:
            return ""
        figure = -self._key(computation, ins)
        padded = padded_bytes_moved(ins) if self._sort == "bytes" else figure
        return f"{figure} ({padded} padded)" if padded != figure else str(figure)

    def _place(self, full: bool) -> Callable[[Computation, Instruction], str]:
        """The source position; without folders in a narrow table."""

        def text(origin: Provenance) -> str:
            return origin.place if full else origin.place.rpartition("/")[2]

        place = once_for_each(text)  # rows share their origins
        return lambda _, ins: place(self._origin(ins))

    def _origin(self, ins: Instruction) -> Provenance:
        known = self._origins.get(ins)
        if known is None:
            known = self._origins[ins] = provenance_of(ins, self._module)
        return known

    def described(self, computation: Computation, ins: Instruction) -> dict[str, Any]:
        """The instruction as JSON."""
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


def _operands(full: bool) -> Callable[[Computation, Instruction], str]:
    def cell(_: Computation, ins: Instruction) -> str:
        names = [o.name for o in ins.operands]
        if len(names) > MOST_OPERANDS and not full:
            kept = MOST_OPERANDS - 1
            names = [*names[:kept], f"… {len(names) - kept} more"]
        return " ".join(names)

    return cell


def _shape(full: bool) -> Callable[[Computation, Instruction], str]:
    # Thousands of rows share some hundred types.
    text = once_for_each(shape_text if full else lambda type: brief_type(type, 4))
    return lambda _, ins: text(ins.type)


def _kind(_: Computation, ins: Instruction) -> str:
    return ins.op.kind if isinstance(ins.op, Fusion) else ""


def _size(ins: Instruction) -> int:
    return sum(map(len, _called(ins)))


def _called(ins: Instruction) -> Iterable[Computation]:
    return dict.fromkeys(ins.calls)


def _line(ins: Instruction) -> str:
    line = ins.line
    return "" if line is None else str(line)
