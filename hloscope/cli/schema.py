"""`schema`: the JSON Schemas of the commands' output."""

from __future__ import annotations

import click

from hloscope.api import schema as schema_of, schema_names
from hloscope.cli.printing import command, debug_option, print_json, print_table
from hloscope.display import Table


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in schema_names() if name.startswith(incomplete)]


@command()
@click.argument("name", required=False, shell_complete=_complete)
@debug_option
def schema(name: str | None) -> None:
    """Print the JSON Schema (draft 2020-12) of the output of --json under NAME, or list all.

    NAME is a command, such as `index`, or a schema of one version, such as `hloscope.index/3`.
    """
    if name is not None:
        print_json(schema_of(name))
        return
    every = list(map(schema_of, schema_names()))
    rows = [(one["title"], one["description"]) for one in every]
    print_table(Table(("schema", "of"), rows))
