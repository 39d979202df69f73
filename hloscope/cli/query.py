"""`query`: queries of the tables of scans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from hloscope.api import QUESTIONS, ask
from hloscope.cli.common import (
    command,
    complete_files,
    debug_option,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.options import top_option
from hloscope.display import Table, tab_separated

SCHEMA: Final = "hloscope.query/1"


@command()
@click.argument("question", metavar="QUESTION", required=False)
@click.argument("scans", metavar="[SCAN]...", nargs=-1, shell_complete=complete_files)
@click.option("--list", "is_list", is_flag=True, help="List the named questions.")
@click.option("--tsv", is_flag=True, help="Print tab-separated cells, not shortened.")
@top_option("Rows of a named question.", 20)
@json_option
@debug_option
def query(
    question: str | None,
    scans: tuple[str, ...],
    is_list: bool,
    tsv: bool,
    top: int,
    as_json: bool,
) -> None:
    """Query the tables that `scan` wrote into the directory SCAN.

    QUESTION is a name of --list, or SQL for DuckDB over the tables `modules` and `kernels`.  With
    two directories, the older one first, its tables are `old_modules` and `old_kernels`.
    """
    if is_list:
        _list(as_json)
        return
    if question is None:
        raise click.UsageError("ask a QUESTION; --list tells those that have names")
    if tsv and as_json:
        raise click.UsageError("--tsv and --json are two forms")
    if not scans:
        raise click.UsageError("name the directory that `hloscope scan -o` wrote")
    found = ask(question, [Path(one) for one in scans], top)
    if as_json:
        rows = [[_value(cell) for cell in row] for row in found.rows]
        print_json({"schema": SCHEMA, "columns": found.columns, "rows": rows})
        return
    rows = [[_shown(cell) for cell in row] for row in found.rows]
    numbers = [
        k
        for k in range(len(found.columns))
        if any(isinstance(row[k], int | float) for row in found.rows)
    ]
    table = Table(found.columns, rows, right=numbers)
    if tsv:
        click.echo(tab_separated(table))
    else:
        print_table(table)


def _list(as_json: bool) -> None:
    """Print the named queries."""
    questions = [[name, one.about] for name, one in QUESTIONS.items()]
    if as_json:
        print_json({"schema": SCHEMA, "columns": ["name", "about"], "rows": questions})
        return
    for name, about in questions:
        click.echo(f"{name}: {about}")


def _value(cell: Any) -> Any:
    """A cell as a JSON value."""
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        return cell if cell - cell == 0 else None
    if isinstance(cell, dict):
        return {str(key): _value(value) for key, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_value(one) for one in cell]
    return str(cell)


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.4g}"
    if isinstance(cell, dict):
        return json.dumps(_value(cell), ensure_ascii=False)
    return str(cell)
