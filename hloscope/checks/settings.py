"""Which rules run on which programs: a file in TOML, or options of the command.

[copies]
max-bytes = "1 MiB"

[[fused]]
op-name = "softmax"
severity = "warning"
files = ["*.gpu.opt.hlo.txt"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Any, Final

from hloscope.checks.collectives import unknown_kinds
from hloscope.checks.findings import SEVERITIES, Finding, Report
from hloscope.checks.registry import RULES
from hloscope.checks.rule import Rule, one_of, texts
from hloscope.checks.subject import Subject
from hloscope.errors import InputError, did_you_mean
from hloscope.ir import Module
from hloscope.lazy import dataclass

FILE: Final = "hloscope.toml"


@dataclass(frozen=True, slots=True)
class Setting:
    """A rule that runs.

    Attributes:
        rule: Which.
        values: Its parameters.
        severity: Of what it finds.
        files: Patterns of the names of the programs it is for; none for all.
    """

    rule: Rule
    values: Mapping[str, Any]
    severity: str = "error"
    files: tuple[str, ...] = ()

    def is_for(self, file: str) -> bool:
        """Does the rule run on a program?"""
        name = PurePath(file).name
        return not self.files or any(
            fnmatch(name, pattern) or fnmatch(file, pattern) for pattern in self.files
        )


def setting_of(name: str, given: Mapping[str, Any]) -> Setting:
    """The setting of a rule from what a file or the command line says.

    >>> setting_of("copies", {"max-bytes": "1 KiB"}).values["max_bytes"]
    1024

    Raises:
        InputError: There is no such rule or parameter, or a value does not fit.
    """
    rule = RULES.get(name)
    if rule is None:
        raise InputError(f"no rule is called `{name}`{did_you_mean(name, RULES)}")
    rest = dict(given)
    try:
        severity = one_of(*SEVERITIES)(rest.pop("severity", "error"))
        files = texts(rest.pop("files", ()))
    except ValueError as error:
        raise InputError(f"rule `{name}`: {error}") from None
    values = rule.with_values(rest)
    for problem in unknown_kinds(values.get("others", {})):
        raise InputError(f"rule `{name}`: {problem}")
    return Setting(rule, values, severity, files)


def settings_of(text: str, name: str = FILE) -> list[Setting]:
    """The settings of a file.

    Raises:
        InputError: It is no TOML, or says what no rule knows.
    """
    try:
        tables = tomllib.loads(text)
    except ValueError as error:  # long numbers too
        raise InputError(f"{name}: {error}") from None
    except RecursionError:
        raise InputError(f"{name} is nested too deeply") from None
    found = []
    for rule, given in tables.items():
        for table in given if isinstance(given, list) else [given]:
            if not isinstance(table, dict):
                raise InputError(f"{name}: `{rule}` is no table: write [{rule}]")
            try:
                found.append(setting_of(rule, table))
            except InputError as error:
                raise InputError(f"{name}: {error.message}") from None
    if not found:
        raise InputError(f"{name}: no rule is named; known: {', '.join(RULES)}")
    return found


def setting_from_option(text: str) -> Setting:
    """The setting of `copies` or `collectives:all-reduce=2,unnamed=allowed`.

    Raises:
        InputError: There is no such rule or parameter, or a value does not fit.
    """
    name, _, rest = text.partition(":")
    given: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"`{part.strip()}` of rule `{name}` is not name=value")
        given[key.strip()] = value.strip()
    return setting_of(name.strip(), given)


def check_program(module: Module, file: str, settings: Iterable[Setting]) -> Report:
    """What in a program breaks the rules that are for it.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] copy(p) }"
    >>> found = check_program(parse_hlo(text), "a.hlo", [setting_of("copies", {})])
    >>> [finding.message for finding in found.findings]
    ['copy of 32 bytes, at most 0 bytes']
    """
    subject = Subject(module, file)
    chosen = [setting for setting in settings if setting.is_for(file)]
    findings = [found for setting in chosen for found in _found(subject, setting)]
    return Report(tuple(findings), _names(chosen), (file,))


def _found(subject: Subject, setting: Setting) -> Iterator[Finding]:
    found = sorted(setting.rule.run(subject, setting.values), key=lambda f: (f.line, -f.value))
    return (_of_severity(finding, setting.severity) for finding in found)


def _of_severity(found: Finding, severity: str) -> Finding:
    """The finding with the milder of its own severity and that of the setting."""
    if SEVERITIES.index(severity) <= SEVERITIES.index(found.severity):
        return found
    return Finding(
        found.rule, found.message, found.file, found.instruction, found.computation, found.line,
        found.op_name, found.source, found.value, severity,
    )  # fmt: skip


def _names(settings: Iterable[Setting]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(setting.rule.name for setting in settings))


def merged(reports: Iterable[Report]) -> Report:
    """Several reports as one."""
    every = list(reports)
    return Report(
        tuple([finding for report in every for finding in report.findings]),
        tuple(dict.fromkeys(name for report in every for name in report.rules)),
        tuple([file for report in every for file in report.files]),
        sum(report.known for report in every),
    )
