"""Write results to the file of `-o`, or to the standard output."""

from __future__ import annotations

import click

from hloscope.cli.streams import binary_output
from hloscope.errors import InputError
from hloscope.whole_files import write_whole


def _file(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    return None if name == "-" else name


output_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    callback=_file,
    help="File to write; `-`, the default, is the standard output.",
)


def write(data: bytes, output: str | None) -> None:
    """Write bytes to a file, or to the standard output.

    Raises:
        InputError: The file cannot be written.
    """
    if output is None:
        binary_output().write(data)
        return
    try:
        write_whole(output, data)
    except OSError as error:
        raise InputError(f"cannot write `{output}`: {error.strerror or error}") from None
