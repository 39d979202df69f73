"""The commands `cost`, `memory` and `footprint`: time, bytes and buffers of a program."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from hloscope.api import (
    COST_SORTS,
    MEASURED_SORTS,
    Cost,
    Measured,
    MemoryAnswer,
    MemoryDifferenceAnswer,
    cost_on,
    find_all,
    footprint_of_program,
    footprints_of,
)
from hloscope.cli.files import (
    complete_instructions,
    end_if_invalid,
    read_program,
    read_verified_program,
    read_with_findings,
)
from hloscope.cli.options import (
    any_device_option,
    as_if_option,
    by_buffers_option,
    by_option,
    device_option,
    file_option,
    format_option,
    top_option,
)
from hloscope.cli.printing import (
    command,
    complete_files,
    debug_option,
    file_argument,
    json_option,
    print_differences,
    print_json,
    print_notes,
    print_table,
)
from hloscope.cli.streams import print_long, with_progress
from hloscope.display import advice_lines, page, triton_text

# --------------------------------------------------------------------------------------------------
# `cost`: time bounds, bytes and flops of a program, in groups of kernels that add up.


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
    """Print the changes that are proved to save bytes, largest share first; then notes.

    Args:
        found: The costs of the program.
        top: Maximum number of changes.
    """
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
    print_notes(found.notes)


def _print_measured(found: Measured, by: str, sort: str | None, top: int, as_json: bool) -> None:
    """Print the measured time of kernels next to their bounds, as a table or as JSON.

    Args:
        found: The costs, joined with a profile.
        by: The grouping, as in `Measured.groups`.
        sort: `lost` or `time`; `None` for `lost` if bounds are known, else `time`.
        top: Maximum number of groups in the table.
        as_json: Print JSON.
    """
    if sort not in (None, *MEASURED_SORTS):
        raise click.UsageError(f"--profile sorts by lost or time, not by {sort}")
    has_bounds = any(row.bound for row in found.kernels)
    sort = sort or ("lost" if has_bounds else "time")
    if as_json:
        print_json(found.to_json(by, sort=sort))
        return
    click.echo(found.about, err=True)
    print_table(found.table(by, sort=sort, top=top))
    print_notes(found.notes)


# --------------------------------------------------------------------------------------------------
# `memory`: the buffers at the memory peak of a program, and what lowers the peak.


MOST_DIGITS: Final = 18
"""Maximum number of digits of a moment; a longer number is looked up as a name."""


@command()
@file_argument
@click.argument("after", metavar="[AFTER]", required=False, shell_complete=complete_files)
@click.option(
    "--at",
    metavar="NAME",
    shell_complete=complete_instructions,
    help="Show this moment instead of the peak: the name of an instruction, or a number.",
)
@by_buffers_option
@any_device_option("Device that holds the program (default for GPU programs: h100)")
@top_option("Number of groups; the others share one row.")
@format_option()
@debug_option
def memory(
    file: str,
    after: str | None,
    at: str | None,
    by: str,
    device: str | None,
    top: int,
    form: str,
) -> None:
    """List the buffers that hold the memory of FILE at its peak, and what lowers the peak.

    FILE is a scheduled program, as XLA dumps it after optimisation.  The first figure is the least
    memory that any assignment needs; the second estimates what XLA allocates.  A program without a
    schedule has no peak, and the sums of its buffers are printed.

    With AFTER, list the buffers that XLA allocates for only one of the two programs.  A picture
    shows the live bytes over the schedule by kind and source line, of two programs on one scale.
    """
    if file == after == "-":
        raise click.UsageError("only one of the two can be the standard input")
    is_drawn = form in ("svg", "html")
    if is_drawn and (at is not None or by != "group"):
        raise click.UsageError("--at and --by are about text and JSON")
    is_about_one = at is not None or by != "group" or (device is not None and not is_drawn)
    if after is not None and is_about_one:
        raise click.UsageError("--at, --by and --device are about one program")
    found = read_verified_program(file).memory()
    if after is not None:
        compared = found.difference(read_verified_program(after).memory())
        _print_difference(compared, form, device, top)
        return
    is_moment = at is not None and at.isascii() and at.isdecimal() and len(at) <= MOST_DIGITS
    where = int(at) if at is not None and is_moment else at
    if form == "json":
        print_json(found.to_json(by, at=where))
        return
    if is_drawn:
        holds = found.device(device)
        click.echo(found.to_svg(holds) if form == "svg" else found.to_html(holds), nl=False)
        return
    click.echo(found.about, err=True)
    _print_text(found, where, by, device, top)
    print_notes(found.notes)


def _print_difference(
    compared: MemoryDifferenceAnswer, form: str, device: str | None, top: int
) -> None:
    """Print the difference in memory of two programs as text, JSON or a picture.

    Args:
        compared: The difference.
        form: `text`, `json`, `svg` or `html`.
        device: Name of a device; a picture has a line at its memory size. `None` for no line.
        top: Maximum number of changes in the text.
    """
    if form == "json":
        print_json(compared.to_json())
    elif form == "text":
        print_long("\n".join(compared.lines(top)))
    else:
        click.echo(compared.to_svg(device) if form == "svg" else compared.to_html(device), nl=False)


def _print_text(
    found: MemoryAnswer, where: int | str | None, grouping: str, device: str | None, top: int
) -> None:
    """Print the first lines of the answer, the buffers at one moment, and the possible savings.

    Args:
        found: The answer about memory.
        where: An instruction's number or name; `None` means the peak.
        grouping: What the table of buffers is grouped by.
        device: Name of the device whose memory size is compared; `None` means an H100 for programs
            compiled for a GPU, else no device.
        top: Largest number of rows in the table.
    """
    for line in found.first_lines(device):
        click.echo(line)
    if not found.has_moments:
        return
    moment = found.peak if where is None else found.at(where)
    click.echo()
    if where is not None:
        click.echo(str(moment).partition("\n")[0])
    print_table(moment.table(grouping, top))
    answers = [*found.answers()]
    if answers:
        click.echo()
    for line in answers:
        click.echo(line)


# --------------------------------------------------------------------------------------------------
# `footprint`: the bytes that kernels must read and write.


SCHEMA = "hloscope.footprint/1"


@command()
@file_argument
@click.argument("name", required=False, shell_complete=complete_instructions)
@device_option("GPU, which decides what is updated in place")
@by_option
@top_option("Without NAME: number of groups; the others share one row.")
@format_option()
@debug_option
def footprint(file: str, name: str | None, device: str, by: str, top: int, form: str) -> None:
    """Count the bytes that a kernel must read and write, and the reuse of each element.

    Without NAME, list groups of all kernels of FILE, most bytes first; loop bodies count in every
    iteration.  In NAME, * matches any text and ? any character.
    """
    if name is not None:
        program = read_program(file)
        found = footprints_of(program, find_all(program.module, name), device)
        if form == "json":
            kernels = [one.to_json() for one in found]
            print_json({"schema": SCHEMA, "file": file, "module": program.name, "kernels": kernels})
        elif form == "text":
            print_long("\n\n".join(map(str, found)))
        else:
            _draw([one.to_svg() for one in found], name, form)
        return
    program, invalid = read_with_findings(file)
    shown = partial(with_progress, label="kernels", printed=False)
    whole = footprint_of_program(program, device, invalid, shown)
    if form == "json":
        print_json(whole.to_json(by))
    elif form == "text":
        count = len(whole.kernels)
        if count:
            print_table(whole.table(top, by))
        of = f"{count:,} kernel{'' if count == 1 else 's'}"
        click.echo(f"{whole.total:,} bytes of {of}", err=True)
        print_notes(whole.notes)
    else:
        _draw([whole.to_svg(top, by)], file, form)
    end_if_invalid(invalid)


def _draw(pictures: list[str], title: str, form: str) -> None:
    """Print pictures as one HTML page, or a single picture as SVG.

    Args:
        pictures: The SVG documents.
        title: Title of the page.
        form: `html` or `svg`.
    """
    if form == "html":
        click.echo(page(title, "".join(pictures)), nl=False)
    elif len(pictures) == 1:
        click.echo(pictures[0], nl=False)
    else:
        raise click.UsageError(
            f"`{title}` names {len(pictures)} kernels, an svg shows one: take --format html"
        )
