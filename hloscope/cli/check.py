"""The commands `verify`, `infer` and `check`: violations, types and rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from hloscope import __version__
from hloscope.api import (
    CHECK_FILE,
    CHECK_RULES,
    UNLIMITED,
    check_expected,
    check_files,
    check_settings,
    types_of,
    verify_with_notes,
)
from hloscope.cli.files import read_text
from hloscope.cli.options import top_option
from hloscope.cli.printing import (
    command,
    complete_files,
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.streams import STDIN, read_stdin, with_progress, write
from hloscope.display import types_json, types_table
from hloscope.errors import Diagnostic, HloscopeError, InputError

# --------------------------------------------------------------------------------------------------
# `verify`: violations of the specification in programs.


SCHEMA: Final = "hloscope.verify/1"
UNEXPECTED, WRONG = 1, 3


@command()
@click.argument("files", metavar="FILE…", shell_complete=complete_files, nargs=-1, required=True)
@json_option
@click.option(
    "--split-input-file", is_flag=True, help="Each FILE is several programs, separated by // -----."
)
@click.option(
    "--verify-diagnostics",
    is_flag=True,
    help="Check that the errors are those of `expected-error {{…}}` comments, as mlir-opt does.",
)
@click.option(
    "--allow-unregistered",
    is_flag=True,
    help="StableHLO: accept ops of unknown dialects.",
)
@debug_option
def verify(
    files: tuple[str, ...],
    as_json: bool,
    split_input_file: bool,
    verify_diagnostics: bool,
    allow_unregistered: bool,
) -> None:
    """Check that the programs in FILE… are valid, and print every violation.

    All files are checked, even after one that cannot be read.  The exit code is 3 if a program is
    invalid, and 1 if --verify-diagnostics finds errors other than the expected ones.  A note is not
    an error: it reports text that is read differently than written.
    """
    reports: list[dict[str, Any]] = []
    code = 0
    for file in with_progress(files, "verifying"):
        try:
            source = read_text(file)
            if verify_diagnostics:
                found = check_expected(
                    source, split=split_input_file, allow_unregistered=allow_unregistered
                )
                notes: list[Diagnostic] = []
            else:
                found, notes = verify_with_notes(
                    source, split=split_input_file, allow_unregistered=allow_unregistered
                )
            name, ends = source.name, UNEXPECTED if verify_diagnostics else WRONG
        except HloscopeError as error:
            if len(files) == 1:
                raise
            found, notes, name, ends = (
                [Diagnostic(error.message, error.span, error.rule)],
                [],
                file,
                error.exit_code,
            )
        if found:
            code = max(code, ends)
        diagnostics = [described(diagnostic) for diagnostic in [*found, *notes]]
        reports.append({"file": name, "ok": not found, "diagnostics": diagnostics})
        if not as_json:
            _print(name, found, notes)
    if as_json:
        print_json({"schema": SCHEMA, "ok": not code, "files": reports})
    if code:
        sys.exit(code)


def _print(name: str, found: list[Diagnostic], notes: list[Diagnostic]) -> None:
    for diagnostic in [*found, *notes]:
        click.echo(str(diagnostic), err=True)
    count = len(found)
    click.echo(f"{name}: " + (f"{count} error{'s' * (count > 1)}" if count else "fine"))


def described(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as JSON; lines and columns count from 1."""
    span = diagnostic.span
    line, column = span.line_col if span else (None, None)
    return {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "rule": diagnostic.rule or None,
        "line": line,
        "column": column,
        "notes": [described(note) for note in diagnostic.notes],
    }


# --------------------------------------------------------------------------------------------------
# `infer`: inferred result types of every op.


INFER_SCHEMA: Final = "hloscope.infer/1"
NOT_INFERRED: Final = 3


@command()
@file_argument
@json_option
@click.option(
    "--split-input-file",
    is_flag=True,
    help="StableHLO: FILE is several programs, separated by // -----.",
)
@debug_option
def infer(file: str, as_json: bool, split_input_file: bool) -> None:
    """Print the result types of every op of FILE, inferred from its operands.

    In StableHLO, ops of the dialect hlo_test_infer are replaced by the inferred types, as
    `stablehlo-opt --hlo-test-infer` does.  The exit code is 3 if an op is invalid.
    """
    source = read_text(file)
    found = types_of(source, split=split_input_file)
    if found.answers is not None and not as_json:
        click.echo(found.answers(), nl=False)
        return
    rows = list(found.rows)
    if as_json:
        print_json(
            {"schema": INFER_SCHEMA, "file": source.name, "ops": list(map(types_json, rows))}
        )
    else:
        print_table(types_table(rows, found.spell))
    refusals = [row.refusal for row in rows if row.refusal is not None]
    for refusal in refusals:
        click.echo(str(refusal), err=True)
    if refusals:
        sys.exit(NOT_INFERRED)


# --------------------------------------------------------------------------------------------------
# `check`: rules for CI.


FAILED: Final = 1
FORMATS: Final = ("text", "json", "junit", "sarif", "github", "markdown")


def _rules_option(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> object:
    """Check the names of rules and return them unchanged; an unknown one is a usage error.

    `value` are the values of the option `--rule`.
    """
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
        write(f"{told}\n".encode(), output)
        click.echo(found.told("text").splitlines()[-1], err=True)
    if found.report.unread:
        click.get_current_context().exit(InputError.exit_code)
    if found.report.failed:
        click.get_current_context().exit(FAILED)


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
