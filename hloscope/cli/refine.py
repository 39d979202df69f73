"""`refine`: a program of unknown sizes for sizes that are given, and why one stays unknown."""

from __future__ import annotations

from typing import Final

import click

from hloscope.api import dims_of, explain_dynamic, program_of, refined, right_tree
from hloscope.cli.common import debug_option, file_argument, json_option, print_json
from hloscope.cli.files import read_text
from hloscope.display import dynamic_json, dynamic_text, signature_text

SCHEMA: Final = "hloscope.refine/1"


@click.command
@file_argument
@click.option(
    "--args",
    "arguments",
    metavar="TYPES",
    help="The types of all arguments, commas between; a whole number is the value of one that is a"
    " size, `_` leaves one as it is.",
)
@click.option(
    "--dims",
    metavar="NAME=N,…",
    help="Sizes of the dimension variables of jax.export, instead of --args.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Tell of every value that stays dynamic where its size comes from.",
)
@click.option("--no-assertions", is_flag=True, help="Do not check what is asserted of sizes.")
@json_option
@debug_option
def refine(
    file: str,
    arguments: str | None,
    dims: str | None,
    explain: bool,
    no_assertions: bool,
    as_json: bool,
) -> None:
    """Print the program of FILE for arguments of given sizes.

    Programs that jax.export wrote with symbolic sizes are refined as XLA does before it compiles
    them.  FILE may be text, a portable artifact, or what jax.export wrote.  The exit code is 3 if
    the sizes do not fit, or an assertion does not hold.
    """
    if arguments is not None and dims is not None:
        raise click.UsageError("give either --args or --dims")
    source = read_text(file)
    found = refined(
        right_tree(source),
        arguments,
        dims=None if dims is None else dims_of(dims),
        assertions=not no_assertions,
    )
    for diagnostic in found.diagnostics:
        click.echo(str(diagnostic), err=True)
    dynamic = explain_dynamic(found.tree) if explain or as_json else []
    if as_json:
        print_json(
            {
                "schema": SCHEMA,
                "file": source.name,
                "static": not dynamic,
                "signature": signature_text(found.tree),
                "dynamic": dynamic_json(dynamic),
                "text": program_of(found.tree).text(),
            }
        )
    elif explain:
        click.echo(dynamic_text(dynamic), nl=False)
    else:
        click.echo(program_of(found.tree).text(), nl=False)
