"""`verify`: violations of the specification in programs."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from hloscope.api import check_expected, verify_with_notes
from hloscope.cli.files import read_text
from hloscope.cli.printing import command, complete_files, debug_option, json_option, print_json
from hloscope.cli.streams import with_progress
from hloscope.errors import Diagnostic, HloscopeError

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
    """A diagnostic as JSON; lines and columns count from 1."""
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
