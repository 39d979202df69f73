"""`ops`: what the indexing rules and the interpreter cover."""

from __future__ import annotations

from collections import Counter
from typing import Final

import click

from hloscope.cli.common import debug_option, json_option, print_json, print_table
from hloscope.indexing import coverage
from hloscope.interpreter.coverage import coverage as evaluation

SCHEMA: Final = "hloscope.ops/1"


@click.command
@json_option
@debug_option
def ops(as_json: bool) -> None:
    """Tell for every op whether its rules are exact, too large (over) or unknown, and why.

    Told as well is whether `hloscope run` evaluates it.
    """
    rows = coverage()
    evaluated = {row.op: row for row in evaluation()}
    if as_json:
        described = [
            {
                "op": row.op,
                "output_to_input": str(row.output_to_input),
                "input_to_output": str(row.input_to_output),
                "reason": row.reason or None,
                "evaluated": evaluated[row.op].is_evaluated,
                "evaluation_reason": evaluated[row.op].reason or None,
            }
            for row in rows
        ]
        print_json({"schema": SCHEMA, "ops": described})
        return
    print_table(
        ["op", "output → input", "input → output", "evaluation", "reason"],
        [
            [
                row.op,
                str(row.output_to_input),
                str(row.input_to_output),
                "evaluated" if evaluated[row.op].is_evaluated else "missing",
                "; ".join(filter(None, (row.reason, evaluated[row.op].reason))),
            ]
            for row in rows
        ],
    )
    click.echo()
    for what in ("output_to_input", "input_to_output"):
        counts = Counter(str(getattr(row, what)) for row in rows)
        said = ", ".join(f"{counts[p]} {p}" for p in ("exact", "over", "unknown") if counts[p])
        click.echo(f"{what.replace('_', ' ')}: {said}")
    known = sum(row.is_evaluated for row in evaluated.values())
    click.echo(f"evaluated: {known} of {len(evaluated)}")
