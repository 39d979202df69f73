"""`ops`: coverage by the indexing rules, the tile rules and the interpreter."""

from __future__ import annotations

from typing import Final

import click

from hloscope.api import coverage
from hloscope.cli.printing import command, debug_option, json_option, print_json, print_table
from hloscope.display import coverage_json, coverage_summary, coverage_table

SCHEMA: Final = "hloscope.ops/1"


@command()
@json_option
@debug_option
def ops(as_json: bool) -> None:
    """List every op, and whether its maps are exact, too large (over) or unknown, and why.

    The table also says whether tiles are propagated through the op and whether `run` evaluates it.
    """
    rows = coverage()
    if as_json:
        print_json({"schema": SCHEMA, "ops": list(map(coverage_json, rows))})
        return
    print_table(coverage_table(rows))
    click.echo()
    for line in coverage_summary(rows):
        click.echo(line)
