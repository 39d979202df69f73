"""`infer`: inferred result types of every op."""

from __future__ import annotations

import sys
from typing import Final

import click

from hloscope.api import types_of
from hloscope.cli.files import read_text
from hloscope.cli.printing import (
    command,
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.display import types_json, types_table

SCHEMA: Final = "hloscope.infer/1"
WRONG: Final = 3


@command()
@file_argument
@json_option
@click.option(
    "--split-input-file",
    is_flag=True,
    help="StableHLO: FILE is several programs, separated by // -----.",
)
@debug_option
def infer(file: str, as_json: bool, split_input_file: bool) -> None:
    """Print the result types of every op of FILE, inferred from its operands.

    In StableHLO, ops of the dialect hlo_test_infer are replaced by the inferred types, as
    `stablehlo-opt --hlo-test-infer` does.  The exit code is 3 if an op is invalid.
    """
    source = read_text(file)
    found = types_of(source, split=split_input_file)
    if found.answers is not None and not as_json:
        click.echo(found.answers(), nl=False)
        return
    rows = list(found.rows)
    if as_json:
        print_json({"schema": SCHEMA, "file": source.name, "ops": list(map(types_json, rows))})
    else:
        print_table(types_table(rows, found.spell))
    refusals = [row.refusal for row in rows if row.refusal is not None]
    for refusal in refusals:
        click.echo(str(refusal), err=True)
    if refusals:
        sys.exit(WRONG)
