"""`ls`: what a program holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click

from hloscope.api import SORTS, Key, Place, Selection, sort_key
from hloscope.cli.common import (
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.dumps import print_dumps
from hloscope.cli.files import read_program
from hloscope.cli.tree import print_tree
from hloscope.display import Provenance, Side, opcode_of, provenance_of, shape_text, tab_separated
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.hlo_parser import brief_type
from hloscope.ir import Computation, Instruction, Module
from hloscope.lazy import dataclass
from hloscope.ops import Fusion

SCHEMA: Final = "hloscope.ls/1"
MOST_OPERANDS: Final = 6


@click.command
@file_argument
@click.argument("computation", required=False)
@click.option("--fusions", is_flag=True, help="List the fusions of all computations.")
@click.option("--all", "everything", is_flag=True, help="List all computations' instructions.")
@click.option("--tree", is_flag=True, help="List the computations, each below what calls it.")
@click.option("--opcode", metavar="GLOB", help="Only instructions with this opcode.")
@click.option("--name", metavar="GLOB", help="Only instructions with this name.")
@click.option("--op-name", metavar="GLOB", help="Only those with this framework name, or part.")
@click.option("--source", metavar="FILE[:LINE]", help="Only those from this place in the source.")
@click.option("--like", metavar="NAME", help="Only those from the same source line as NAME.")
@click.option("--shape", metavar="GLOB", help="Only those of this type, such as 'f32[8,*]'.")
@click.option("--calls", metavar="GLOB", help="Only those that call this computation.")
@click.option("--sort", type=click.Choice(SORTS), help="Sort by this; the largest first.")
@click.option("--top", metavar="N", type=click.IntRange(1), help="Only the first N.")
@click.option("--tsv", is_flag=True, help="Cells with tabs between them, nothing shortened.")
@json_option
@debug_option
def ls(
    file: str,
    computation: str | None,
    fusions: bool,
    everything: bool,
    tree: bool,
    opcode: str | None,
    name: str | None,
    op_name: str | None,
    source: str | None,
    like: str | None,
    shape: str | None,
    calls: str | None,
    sort: str | None,
    top: int | None,
    tsv: bool,
    as_json: bool,
) -> None:
    """List the instructions of FILE's entry computation, or of COMPUTATION.

    Of a directory, such as --xla_dump_to wrote, the modules and their stages are listed.

    With --opcode, --name, --op-name, --source, --like, --shape or --calls all computations are
    searched unless COMPUTATION is given.  In a GLOB, * is any text and ? any character.
    """
    if like is not None and source is not None:
        raise click.UsageError("--like and --source both say where instructions come from")
    if tsv and as_json:
        raise click.UsageError("--tsv and --json are two forms")
    if os.path.isdir(file):
        print_dumps(Path(file), as_json=as_json, tsv=tsv)
        return
    program = read_program(file)
    module = program.module
    if tree:
        print_tree(module, file, computation, top, as_json=as_json)
        return
    if like is not None:
        source = _place_of(program[like].source, like)
    wanted = Selection(opcode, name, op_name, source, shape, calls)
    wide = fusions or everything or not wanted.is_empty
    listed = list(wanted.of(module, _computations(module, computation, wide)))
    if fusions:
        listed = [(c, i) for c, i in listed if isinstance(i.op, Fusion)]
    key = sort_key(sort, module) if sort else None
    if key is not None:
        listed.sort(key=lambda place: key(*place))
    listing = Listing(module, sort, key, fusions, in_column=wide)
    shown = listed[:top]
    if as_json:
        described = [listing.described(c, i) for c, i in shown]
        head = {"schema": SCHEMA, "file": file, "module": module.name, "entry": module.entry.name}
        print_json({**head, "instructions": described})
    elif not listed:
        what = "fusions" if fusions else "instructions"
        click.echo(f"no {what} {'' if wanted.is_empty else 'like that '}in {file}", err=True)
    else:
        listing.print(shown, tsv=tsv)


def _place_of(source: object, name: str) -> str:
    if source is None:
        raise UnknownNameError(f"`{name}` does not say where it comes from")
    return str(source)


def _computations(module: Module, name: str | None, everything: bool) -> list[Computation]:
    if name is None:
        return list(module) if everything else [module.entry]
    plain = name.removeprefix("%")
    if plain not in module.computations:
        near = did_you_mean(plain, module.computations)
        raise UnknownNameError(f"no computation `{plain}`{near}")
    return [module.computations[plain]]


@dataclass(frozen=True, slots=True)
class Column:
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
        """Take what was asked for; `in_column`: say in which computation each one is."""
        self._module = module
        self._sort, self._key = sort, key
        self._fusions, self._in_column = fusions, in_column
        self._origins: dict[Instruction, Provenance] = {}

    def print(self, places: list[Place], *, tsv: bool) -> None:
        """Print a row for each instruction; columns nobody has a word for are left out."""
        used = self._columns(full=tsv)
        cells = [[column.cell(c, i) for column in used] for c, i in places]
        always = {"operands", "line"}
        kept = [
            k
            for k, column in enumerate(used)
            if column.title in always or any(row[k] for row in cells)
        ]
        header = [used[k].title for k in kept]
        rows = [[row[k] for k in kept] for row in cells]
        if tsv:
            click.echo(tab_separated([header, *rows]))
            return
        chosen = [used[k] for k in kept]
        droppable = [k for k, column in enumerate(chosen) if column.drop]
        print_table(
            header,
            rows,
            [k for k, column in enumerate(chosen) if column.number],
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
                Column("opcode", lambda _, i: opcode_of(i)),
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
            Column("source", lambda _, i: self._place(i, full), "left", drop=2),
            Column("op name", lambda _, i: self._origin(i).op_name, "left", drop=1),
        ]

    def _figure(self, computation: Computation, ins: Instruction) -> str:
        return str(-self._key(computation, ins)) if self._key else ""

    def _place(self, ins: Instruction, full: bool) -> str:
        """The place in the source; the file without its folder where room is short."""
        place = self._origin(ins).place
        return place if full else place.rpartition("/")[2]

    def _origin(self, ins: Instruction) -> Provenance:
        known = self._origins.get(ins)
        if known is None:
            known = self._origins[ins] = provenance_of(ins, self._module)
        return known

    def described(self, computation: Computation, ins: Instruction) -> dict[str, Any]:
        """The instruction as JSON has it."""
        origin = self._origin(ins)
        described: dict[str, Any] = {
            "name": ins.name,
            "opcode": opcode_of(ins),
            "shape": shape_text(ins.type),
            "operands": [o.name for o in ins.operands],
            "computation": computation.name,
            "line": ins.span.line if ins.span else None,
        }
        described |= origin.to_json()
        if self._key is not None and self._sort != "line":
            described[str(self._sort)] = -self._key(computation, ins)
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
    return lambda _, ins: shape_text(ins.type) if full else brief_type(ins.type, 4)


def _kind(_: Computation, ins: Instruction) -> str:
    return ins.op.kind if isinstance(ins.op, Fusion) else ""


def _size(ins: Instruction) -> int:
    return sum(map(len, _called(ins)))


def _called(ins: Instruction) -> Iterable[Computation]:
    return dict.fromkeys(ins.calls)


def _line(ins: Instruction) -> str:
    return "" if ins.span is None else str(ins.span.line)
