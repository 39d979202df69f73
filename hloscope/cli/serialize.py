"""`serialize`: a program as a portable artifact.

Apart from the other commands about artifacts, which have nothing to read texts with.
"""

from __future__ import annotations

import sys

import click

from hloscope.api import is_artifact, read_source, serialize as to_artifact
from hloscope.cli.artifacts import bytes_of, name_of, output_option, write
from hloscope.cli.common import debug_option, file_argument


@click.command
@file_argument
@click.option(
    "--target",
    metavar="V",
    default="current",
    show_default=True,
    help="Version: #.#.#, current, min, week_4, week_12.",
)
@click.option(
    "--library",
    metavar="V",
    default="",
    help="Write the bytes that StableHLO of this version writes (default: the newest known).",
)
@click.option(
    "--allow-other-dialects",
    is_flag=True,
    help="Keep attributes of other dialects, such as shardings.",
)
@output_option
@debug_option
def serialize(
    file: str, target: str, library: str, allow_other_dialects: bool, output: str | None
) -> None:
    """Write the program of FILE as a portable artifact.

    FILE is StableHLO text, an artifact of any version, or what jax.export wrote.
    """
    found = bytes_of(file)
    data = to_artifact(
        found if is_artifact(found) else read_source(found, name=name_of(file)),
        target,
        library=library,
        allow_other_dialects=allow_other_dialects,
    )
    if output is None and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError("an artifact is no text for a terminal: name a file with -o")
    write(data, output)
