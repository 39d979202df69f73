"""`refine`: a program of unknown sizes refined to given ones, and the reasons for unknown sizes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

import click

from hloscope.api import (
    dims_of,
    explain_dynamic,
    parametric,
    refined,
    right_tree,
    split_types,
    text_of_tree,
)
from hloscope.cli.files import read_text
from hloscope.cli.printing import command, debug_option, file_argument, json_option, print_json
from hloscope.display import (
    dynamic_json,
    dynamic_text,
    parametric_json,
    parametric_text,
    signature_text,
)
from hloscope.errors import UnknownNameError
from hloscope.support.source import Source

SCHEMA: Final = "hloscope.refine/1"


@command()
@file_argument
@click.option(
    "--args",
    "arguments",
    metavar="TYPES",
    help="Types of all arguments, separated by commas; a whole number is the value of an "
    "argument that is a size, `_` keeps an argument's type.",
)
@click.option(
    "--dims",
    metavar="NAME=N,…",
    help="Sizes of the dimension variables of jax.export, instead of --args.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="For every value that stays dynamic, print where its size comes from.",
)
@click.option(
    "--maps",
    metavar="NAME",
    help="Print the indexing maps of an instruction (`*`: of all) with named sizes: the "
    "dimension variables of jax.export, or names in braces in --args.",
)
@click.option(
    "--no-assertions", is_flag=True, help="Do not check the program's assertions about sizes."
)
@json_option
@debug_option
def refine(
    file: str,
    arguments: str | None,
    dims: str | None,
    explain: bool,
    maps: str | None,
    no_assertions: bool,
    as_json: bool,
) -> None:
    """Print the program of FILE with its unknown sizes replaced by given ones.

    Programs of jax.export with symbolic sizes are refined as XLA does before it compiles them.
    FILE may be text, a portable artifact, or a file of jax.export.  The exit code is 3 if the sizes
    do not fit, or an assertion fails.
    """
    if arguments is not None and dims is not None:
        raise click.UsageError("give either --args or --dims")
    source = read_text(file)
    if maps is not None:
        if dims is not None or explain:
            raise click.UsageError("--maps is for sizes that are not given")
        print_maps(source, arguments, maps, as_json=as_json)
        return
    found = refined(
        right_tree(source),
        arguments,
        dims=None if dims is None else dims_of(dims),
        assertions=not no_assertions,
    )
    for diagnostic in found.diagnostics:
        click.echo(str(diagnostic), err=True)
    dynamic = explain_dynamic(found.tree)
    if as_json:
        print_json(
            {
                "schema": SCHEMA,
                "file": source.name,
                "static": not dynamic,
                "signature": signature_text(found.tree),
                "dynamic": dynamic_json(dynamic),
                "text": text_of_tree(found.tree),
            }
        )
    elif explain:
        click.echo(dynamic_text(dynamic), nl=False)
    else:
        click.echo(text_of_tree(found.tree), nl=False)
        if dynamic:
            click.echo(f"values of unknown size: {len(dynamic)}; --explain tells why", err=True)


def print_maps(source: Source, arguments: str | None, name: str, *, as_json: bool) -> None:
    """Print the maps of instructions in terms of named sizes."""
    texts = None if arguments is None else split_types(arguments)
    found = [each for each in parametric(source, texts) if fnmatchcase(each.name, name)]
    if not found:
        raise UnknownNameError(f"no instruction `{name}` reads anything in the refined program")
    if as_json:
        print_json({"schema": SCHEMA, "file": source.name, "maps": parametric_json(found)})
    else:
        click.echo(parametric_text(found), nl=False)
