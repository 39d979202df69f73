"""`ops`: what the indexing rules cover."""

from __future__ import annotations

from collections import Counter
from typing import Final

import click

from hloscope.cli.common import debug_option, json_option, print_json, print_table
from hloscope.indexing.analysis import coverage

SCHEMA: Final = "hloscope.ops/1"


@click.command
@json_option
@debug_option
def ops(as_json: bool) -> None:
    """Tell for every op whether its rules are exact, too large (over) or unknown, and why."""
    rows = coverage()
    if as_json:
        described = [
            {
                "op": row.op,
                "output_to_input": str(row.output_to_input),
                "input_to_output": str(row.input_to_output),
                "reason": row.reason or None,
            }
            for row in rows
        ]
        print_json({"schema": SCHEMA, "ops": described})
        return
    print_table(
        ["op", "output → input", "input → output", "reason"],
        [[r.op, str(r.output_to_input), str(r.input_to_output), r.reason] for r in rows],
    )
    click.echo()
    for what in ("output_to_input", "input_to_output"):
        counts = Counter(str(getattr(row, what)) for row in rows)
        said = ", ".join(f"{counts[p]} {p}" for p in ("exact", "over", "unknown") if counts[p])
        click.echo(f"{what.replace('_', ' ')}: {said}")
