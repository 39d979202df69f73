"""`serialize`, `deserialize`, `doctor`: portable artifacts."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hloscope.api import (
    artifact_text,
    doctor as examine,
    is_artifact,
    read_file,
    read_source,
    serialize as to_artifact,
)
from hloscope.cli.common import debug_option, file_argument, json_option, print_json
from hloscope.cli.paging import print_long
from hloscope.cli.stdin import STDIN, read_stdin
from hloscope.display import health_json, health_text
from hloscope.errors import InputError

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="The file to write; the standard output by default.",
)


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
@OUTPUT
@debug_option
def serialize(
    file: str, target: str, library: str, allow_other_dialects: bool, output: str | None
) -> None:
    """Write the program of FILE as a portable artifact.

    FILE is StableHLO text, an artifact of any version, or what jax.export wrote.
    """
    found = _bytes_of(file)
    data = to_artifact(
        found if is_artifact(found) else read_source(found, name=_name(file)),
        target,
        library=library,
        allow_other_dialects=allow_other_dialects,
    )
    if output is None and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError("an artifact is no text for a terminal: name a file with -o")
    _write(data, output)


@click.command
@file_argument
@OUTPUT
@debug_option
def deserialize(file: str, output: str | None) -> None:
    """Print the program of an artifact in FILE as StableHLO, with its locations."""
    text = artifact_text(_bytes_of(file), _name(file))
    if output is None:
        print_long(text, nl=False)
    else:
        _write(text.encode("utf-8", "surrogateescape"), output)


@click.command
@file_argument
@json_option
@debug_option
def doctor(file: str, as_json: bool) -> None:
    """Tell who can read the artifact in FILE, what keeps it from older versions, and its sizes."""
    health = examine(_bytes_of(file), name=_name(file))
    if as_json:
        print_json(health_json(health))
    else:
        print_long(health_text(health), nl=False)


def _name(file: str) -> str:
    return STDIN if file == "-" else file


def _bytes_of(file: str) -> bytes:
    if file == "-":
        return read_stdin()
    try:
        return read_file(Path(file))
    except OSError as error:
        raise InputError(f"cannot read `{file}`: {error.strerror or error}") from None


def _write(data: bytes, output: str | None) -> None:
    if output is None:
        sys.stdout.buffer.write(data)
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise InputError(f"cannot write `{output}`: {error.strerror or error}") from None
