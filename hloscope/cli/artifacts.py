"""`deserialize`, `doctor`: portable artifacts."""

from __future__ import annotations

import click

from hloscope.api import artifact_text, bytes_of_file, doctor as examine
from hloscope.cli.printing import command, debug_option, file_argument, json_option, print_json
from hloscope.cli.streams import STDIN, output_option, print_long, read_stdin, write_text
from hloscope.display import health_json, health_text


@command()
@file_argument
@click.option("--vhlo", is_flag=True, help="Print the VHLO ops of the artifact.")
@click.option("--generic", is_flag=True, help="Print all ops in generic form.")
@output_option
@debug_option
def deserialize(file: str, vhlo: bool, generic: bool, output: str | None) -> None:
    """Print the program of the artifact FILE as StableHLO, with its locations."""
    text = artifact_text(bytes_of(file), name_of(file), vhlo=vhlo, generic=generic)
    write_text(text, output)


@command()
@file_argument
@json_option
@debug_option
def doctor(file: str, as_json: bool) -> None:
    """Print which versions can read the artifact FILE, what blocks older ones, and its sizes."""
    health = examine(bytes_of(file), name=name_of(file))
    if as_json:
        print_json(health_json(health))
    else:
        print_long(health_text(health), nl=False)


def name_of(file: str) -> str:
    """Return the name of a file in messages."""
    return STDIN if file == "-" else file


def bytes_of(file: str) -> bytes:
    """Return the bytes of a file, or of the standard input for `-`.

    Raises:
        InputError: It cannot be read.
    """
    if file == "-":
        return read_stdin()
    return bytes_of_file(file)
