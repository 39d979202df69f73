"""Serialise a program: the command `serialize` writes a portable artifact.

It is separate from the other commands about artifacts, which need no parsers of texts.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from hloscope.api import (
    is_artifact,
    read_source,
    serialize as to_artifact,
    verified_tree,
    vhlo_text,
)
from hloscope.cli.artifacts import bytes_of, name_of
from hloscope.cli.printing import command, debug_option, file_argument
from hloscope.cli.streams import output_option, write, write_text


@command()
@file_argument
@click.option(
    "--target",
    metavar="V",
    default="current",
    show_default=True,
    help="Version of the artifact: #.#.#, current, min, week_4, week_12.",
)
@click.option(
    "--library",
    metavar="V",
    default="",
    help="Write the same bytes as this version of StableHLO; default: the newest known.",
)
@click.option(
    "--allow-other-dialects",
    is_flag=True,
    help="Keep ops and attributes of other dialects, such as shardings.",
)
@click.option(
    "--expand",
    is_flag=True,
    help="Express ops that the target version lacks by older ops, where possible.",
)
@click.option("--text", "as_text", is_flag=True, help="Print the artifact as VHLO text instead.")
@output_option
@debug_option
def serialize(
    file: str,
    target: str,
    library: str,
    allow_other_dialects: bool,
    expand: bool,
    as_text: bool,
    output: str | None,
) -> None:
    """Write the program of FILE as a portable artifact.

    FILE is StableHLO, VHLO or HLO text, an artifact of any version, or a file of jax.export.  HLO
    is translated to StableHLO.  The exit code is 3 if the text is invalid.
    """
    found = bytes_of(file)
    program: Any = found
    if not is_artifact(found):
        program = verified_tree(read_source(found, name=name_of(file)), allow_unregistered=True)
    options: Any = {
        "library": library,
        "allow_other_dialects": allow_other_dialects,
        "expand": expand,
    }
    if as_text:
        write_text(vhlo_text(program, target, **options), output)
        return
    data = to_artifact(program, target, **options)
    if output is None and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError("an artifact is not text: name a file with -o")
    write(data, output)
