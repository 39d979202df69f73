"""`banks`: bank conflicts of threads in shared memory."""

from __future__ import annotations

from typing import Final

import click

from hloscope.api import bank_conflicts
from hloscope.cli.maps import read_text
from hloscope.cli.options import Sizes, device_option, format_option
from hloscope.cli.printing import command, debug_option, json_option, print_json
from hloscope.display import bank_json, bank_text, banks_svg, page

SCHEMA: Final = "hloscope.banks/1"


@command()
@click.argument("map", metavar="MAP|-")
@click.option(
    "--shape",
    type=Sizes(),
    required=True,
    help="Sizes of the tile in shared memory, padding included.",
)
@click.option(
    "--bits",
    metavar="N",
    type=click.IntRange(1, 1024),
    default=32,
    show_default=True,
    help="Bits per element.",
)
@device_option("GPU whose banks are counted")
@format_option()
@json_option
@debug_option
def banks(
    map: str, shape: tuple[int, ...], bits: int, device: str, form: str, as_json: bool
) -> None:
    """Count the words that the busiest bank serves when threads access a tile through MAP.

    MAP leads from threads to an index in the tile, for example '(th_x) -> (th_x, 0), domain: th_x
    in [0, 31]'; `-` is the standard input.
    """
    text = read_text(map)
    found = bank_conflicts(text, shape, bits=bits, device=device)
    model = f"{device}: elements of {bits} bits"
    match "json" if as_json else form:
        case "json":
            print_json({"schema": SCHEMA, "map": text, "device": device, **bank_json(found)})
        case "svg":
            click.echo(banks_svg(found, model), nl=False)
        case "html":
            click.echo(page("banks", banks_svg(found, model)), nl=False)
        case _:
            click.echo("words that the busiest bank serves in one request:")
            click.echo(bank_text(found))
