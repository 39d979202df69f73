"""`cost`: time bounds, bytes and flops of a program, in groups of kernels that add up."""

from __future__ import annotations

from functools import partial

import click

from hloscope.api import COST_SORTS, MEASURED_SORTS, Cost, Measured, cost_on, find_all
from hloscope.cli.files import (
    complete_instructions,
    end_if_invalid,
    read_verified_program,
    read_with_findings,
)
from hloscope.cli.options import any_device_option, as_if_option, by_option, file_option, top_option
from hloscope.cli.printing import (
    command,
    debug_option,
    file_argument,
    json_option,
    print_differences,
    print_json,
    print_table,
)
from hloscope.cli.streams import with_progress
from hloscope.display import advice_lines, triton_text


@command()
@file_argument
@click.argument("name", required=False, shell_complete=complete_instructions)
@any_device_option("Device of the bounds (default for GPU programs: h100)")
@as_if_option
@by_option
@click.option(
    "--sort",
    type=click.Choice((*COST_SORTS, *MEASURED_SORTS)),
    help="Quantity to sum and to sort by; default: bound, or bytes without a device; with "
    "--profile: lost, or time.",
)
@file_option(
    "--profile",
    about="Measured times: *.xplane.pb or *.trace.json.gz of jax.profiler or its folder, CSV or"
    " SQLite of Nsight Systems, CSV or JSON of rocprofv3.",
)
@click.option(
    "--advice", "is_advice", is_flag=True, help="Print only changes that are proved to save bytes."
)
@top_option("Number of groups; the others share one row.")
@json_option
@debug_option
def cost(
    file: str,
    name: str | None,
    device: str | None,
    as_if: str | None,
    by: str,
    sort: str | None,
    profile: str | None,
    is_advice: bool,
    top: int,
    as_json: bool,
) -> None:
    """List where the time, bytes and flops of FILE go, as groups of kernels that add up.

    Loop bodies count in every iteration.  A bound is the least time of kernels whose data is in no
    cache; it is not a measured time.  With NAME, only kernels of that name; * matches any text and
    ? any character.
    """
    if profile is None and sort in MEASURED_SORTS:
        raise click.UsageError(f"--sort {sort} needs --profile FILE")
    if name is not None or profile is not None:
        program, invalid = read_verified_program(file), None
    else:
        program, invalid = read_with_findings(file)
    chosen = None if name is None else find_all(program.module, name)
    shown = partial(with_progress, label="kernels", printed=False)
    found = cost_on(program, device, as_if=as_if, only=chosen, invalid=invalid, shown=shown)
    if profile is not None:
        _print_measured(found.measured(profile), by, sort, top, as_json)
    else:
        _print_cost(found, name, by, sort, is_advice, top, as_json)
    end_if_invalid(invalid)


def _print_cost(
    found: Cost,
    name: str | None,
    by: str,
    sort: str | None,
    is_advice: bool,
    top: int,
    as_json: bool,
) -> None:
    sort = sort or ("bound" if any(kernel.bound for kernel in found.kernels) else "bytes")
    if as_json:
        print_json(found.to_json(by, sort=sort))
        return
    click.echo(found.about, err=True)
    if is_advice:
        _print_advice(found, top)
        return
    if found.kernels:
        print_table(found.table(by, sort=sort, top=top))
    for title, figure in found.figures:
        click.echo(f"{title}: {figure}", err=True)
    if name is not None:
        for use in dict.fromkeys(found.ratings.values()):
            click.echo(triton_text(use.name, use), err=True)
    for line in advice_lines(found.first_advice, found.program.module):
        click.echo(line, err=True)
    _print_notes(found)


def _print_advice(found: Cost, top: int) -> None:
    """Print the changes that are proved to save bytes, largest saving first."""
    advice = found.advice()
    if not advice:
        click.echo("no change is proved to save bytes", err=True)
    for line in advice_lines(advice[:top], found.program.module):
        click.echo(line)
    if len(advice) > top:
        click.echo(f"{len(advice) - top:,} more", err=True)
    _print_notes(found)


def _print_notes(found: Cost) -> None:
    print_differences(found.findings)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)


def _print_measured(found: Measured, by: str, sort: str | None, top: int, as_json: bool) -> None:
    """Print the measured time of kernels beside their bounds."""
    if sort not in (None, *MEASURED_SORTS):
        raise click.UsageError(f"--profile sorts by lost or time, not by {sort}")
    has_bounds = any(row.bound for row in found.kernels)
    sort = sort or ("lost" if has_bounds else "time")
    if as_json:
        print_json(found.to_json(by, sort=sort))
        return
    click.echo(found.about, err=True)
    print_table(found.table(by, sort=sort, top=top))
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
