"""Checks of programs by rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from os.path import exists
from typing import Final

from hloscope.api.files import FilePath, bytes_of_file
from hloscope.api.invalid import explains_invalid_program
from hloscope.api.program import Program, read
from hloscope.checks import (
    FILE,
    NO_LIMIT,
    RULES,
    TOP,
    UNREAD,
    Finding,
    Report,
    Setting,
    baseline_of,
    check_program,
    github_text,
    junit_text,
    markdown_text,
    merged,
    report_text,
    sarif,
    setting_from_option,
    setting_of,
    settings_of,
)
from hloscope.errors import HloscopeError, InputError
from hloscope.support.limits import read_json
from hloscope.support.source import visible

CHECK_FILE: Final = FILE
"""Default file of rules, in the working directory."""
CHECK_RULES: Final = RULES
UNLIMITED: Final = NO_LIMIT


class Checked:
    """The findings of a check; its text is the report.

    Attributes:
        report: The findings.
    """

    def __init__(self, report: Report) -> None:
        self.report: Final = report

    def told(self, form: str = "text", version: str = "", top: int = TOP) -> str:
        """Return the report as `text`, `json`, `junit`, `sarif`, `github` or `markdown`.

        Args:
            form: One of these names.
            version: Version of this package, which SARIF states.
            top: Maximum number of findings in `text`, `github` and `markdown`.
        """
        match form:
            case "json":
                return json.dumps(self.report.to_json(), indent=1)
            case "junit":
                return junit_text(self.report)
            case "sarif":
                return json.dumps(sarif(self.report, version), indent=1)
            case "github":
                return github_text(self.report, top)
            case "markdown":
                return markdown_text(self.report, top)
            case _:
                return report_text(self.report, top)

    def __bool__(self) -> bool:
        return not self.report.failed

    def __str__(self) -> str:
        return visible(self.told())

    __repr__ = __str__


def check_settings(rules: Sequence[str] = (), config: str | None = None) -> list[Setting]:
    """Return the settings of rules from command-line options and from a file.

    Args:
        rules: Options such as `copies` or `collectives:all-reduce=2`.
        config: A TOML file. The default is `hloscope.toml` in the working directory if `rules` is
            empty, and no file otherwise.

    Raises:
        InputError: The file, a rule or a parameter does not exist.
    """
    found = list(map(setting_from_option, rules))
    if config is not None or not rules:
        path = config or CHECK_FILE
        found += settings_of(_text(path), path)
    return found


def check_files(
    files: Iterable[tuple[str, bytes | None]],
    settings: Sequence[Setting],
    *,
    baseline: str | None = None,
) -> Checked:
    """Check programs by rules. A program that cannot be read becomes a finding.

    Args:
        files: Pairs of a path and `None`, or of a name and the bytes of the program.
        settings: The rules.
        baseline: Path of a JSON report; only findings that are new or worse than there are
            reported.

    Raises:
        InputError: A file does not exist, or the baseline is not a report.
        UnsupportedError: A program contains an op or syntax that is not supported.
    """
    report = merged(_checked(file, data, settings) for file, data in files)
    if baseline is not None:
        report = report.since(baseline_of(_json(baseline)))
    return Checked(report)


def _checked(file: str, data: bytes | None, settings: Sequence[Setting]) -> Report:
    """Return the report about one program; a program that cannot be read has one finding.

    Args:
        file: Path or name of the program.
        data: Its bytes; `None` to read the file.
        settings: The rules.

    Raises:
        InputError: The file does not exist.
    """
    try:
        program = read(FilePath(file)) if data is None else read(data, name=file)
        return _report(program, file, settings)
    except HloscopeError as error:
        # A file that exists but cannot be parsed is a finding about that file, so that one bad file
        # does not hide the findings of the others. A missing file is a wrong argument.
        if error.exit_code != InputError.exit_code or (data is None and not exists(file)):
            raise
        line = error.span.line_col[0] if error.span else 0
        names = tuple(dict.fromkeys(s.rule.name for s in settings if s.is_for(file)))
        return Report((Finding(UNREAD, error.message, file, line=line),), names, (file,))


@explains_invalid_program
def _report(program: Program, file: str, settings: Sequence[Setting]) -> Report:
    return check_program(program.module, file, settings)


def check_one(program: Program, rule: str, **values: object) -> Checked:
    """Check one rule on a program.

    `values` are the parameters of the rule.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] copy(p) }")
    >>> print(check_one(program, "copies", max_bytes=64))
    1 program, 1 rule: nothing found
    """
    return Checked(_report(program, program.file, [setting_of(rule, values)]))


def _text(path: str) -> str:
    try:
        return bytes_of_file(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"`{path}` is not UTF-8") from None


def _json(path: str) -> object:
    try:
        return read_json(_text(path))
    except ValueError as error:
        raise InputError(f"`{path}` is not valid JSON: {error}") from None
