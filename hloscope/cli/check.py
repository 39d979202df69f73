"""`check`: rules for CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from hloscope import __version__
from hloscope.api import CHECK_FILE, CHECK_RULES, UNLIMITED, check_files, check_settings
from hloscope.cli.options import top_option
from hloscope.cli.printing import command, complete_files, debug_option, json_option
from hloscope.cli.streams import STDIN, read_stdin, with_progress
from hloscope.errors import InputError
from hloscope.support.whole_files import write_whole

FAILED: Final = 1
FORMATS: Final = ("text", "json", "junit", "sarif", "github", "markdown")


def _rules_option(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> object:
    """Check the names of rules; an unknown one is a usage error."""
    try:
        if value:
            check_settings(value, None)
    except InputError as error:
        raise click.BadParameter(error.message, ctx, param) from None
    return value


@command()
@click.argument("files", metavar="FILE...", nargs=-1, shell_complete=complete_files)
@click.option(
    "--rule",
    "rules",
    metavar="RULE[:NAME=VALUE,..]",
    multiple=True,
    callback=_rules_option,
    help="A rule to check; may be repeated.",
)
@click.option(
    "--config",
    metavar="TOML",
    help=f"Rules in a file; {CHECK_FILE} of this folder if there is one.",
)
@click.option(
    "--baseline",
    metavar="JSON",
    help="Report only findings that are new or worse since this report.",
)
@click.option("--list", "is_list", is_flag=True, help="List the rules and their parameters.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Format of the report.",
)
@top_option("Number of findings in text, github and markdown.", 100)
@click.option("-o", "--output", metavar="OUT", help="Write the report to a file.")
@json_option
@debug_option
def check(
    files: tuple[str, ...],
    rules: tuple[str, ...],
    config: str | None,
    baseline: str | None,
    is_list: bool,
    form: str,
    top: int,
    output: str | None,
    as_json: bool,
) -> None:
    """Check programs by rules: copies, collectives, utilisation, required fusions, and others.

    The exit code is 1 if a rule of severity error is violated, and 3 if a program cannot be read;
    the other programs are still checked.
    """
    if is_list:
        _print_rules()
        return
    if not files:
        raise click.UsageError("name the programs to check: FILE...")
    if not rules and config is None and not Path(CHECK_FILE).is_file():
        raise click.UsageError(
            f"name rules, --rule copies, or write them to {CHECK_FILE}; --list tells them"
        )
    given = [(STDIN, read_stdin()) if file == "-" else (file, None) for file in files]
    each = with_progress(given, "checking", printed=False)
    found = check_files(each, check_settings(rules, config), baseline=baseline)
    told = found.told("json" if as_json else form, __version__, top)
    if output is None:
        click.echo(told)
    else:
        _write(output, told)
        click.echo(found.told("text").splitlines()[-1], err=True)
    if found.report.unread:
        click.get_current_context().exit(InputError.exit_code)
    if found.report.failed:
        click.get_current_context().exit(FAILED)


def _write(output: str, told: str) -> None:
    try:
        write_whole(output, f"{told}\n".encode())
    except OSError as error:
        raise InputError(f"cannot write `{output}`: {error.strerror}") from None


def _print_rules() -> None:
    for name, rule in CHECK_RULES.items():
        click.echo(f"{name}: {rule.help}")
        for key, parameter in rule.parameters.items():
            shown = "NAME" if key == "*" else key
            said = parameter.default not in (None, UNLIMITED)
            given = f" [{_shown(parameter.default)}]" if said else ""
            click.echo(f"  {shown}{given}  {parameter.help}")


def _shown(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)
