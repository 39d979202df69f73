"""The rules by name, and their settings from a TOML file or from command-line options."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.checks.kernels import (
    CONSTANTS,
    COPIES,
    DONATION,
    DYNAMIC_SIZES,
    FUSED,
    PRECISION,
    TRIP_COUNTS,
    TYPES,
    UTILISATION,
)
from hloscope.checks.memory import COLLECTIVES, MEMORY, PADDING, unknown_kinds
from hloscope.checks.rule import (
    SEVERITIES,
    Finding,
    Report,
    Rule,
    Subject,
    one_of,
    share,
    texts,
)
from hloscope.cost import ProgramCost
from hloscope.errors import InputError, did_you_mean
from hloscope.ir import Module

# --------------------------------------------------------------------------------------------------
# Settings of rules, from a TOML file or from command-line options.
#
# [copies] max-bytes = "1 MiB"
#
# [[fused]] op-name = "softmax" severity = "warning" files = ["*.gpu.opt.hlo.txt"]


FILE: Final = "hloscope.toml"
LEAST_SHARE: Final = 0.001
"""Default minimum share of the step's bytes; smaller groups of findings are left out."""
ERROR_SHARE: Final = 0.01
"""Share of the step's bytes from which a group of findings is an error; below it is a warning."""


class Setting(Struct, frozen=True):
    """A rule to run, with the values of its parameters.

    Attributes:
        rule: The rule.
        values: Value of each parameter.
        severity: Severity of its findings.  `None` means `error`; for findings with a share of the
            step, the share decides.
        files: Patterns of program names; only matching programs are checked. Empty for all.
        min_step_share: Minimum share of the step; smaller groups of findings are left out.
    """

    rule: Rule
    values: Mapping[str, Any]
    severity: str | None = None
    files: tuple[str, ...] = ()
    min_step_share: float = 0.0

    def is_for(self, file: str) -> bool:
        """Does the rule apply to the program `file`?"""
        name = PurePath(file).name
        return not self.files or any(
            fnmatch(name, pattern) or fnmatch(file, pattern) for pattern in self.files
        )


def setting_of(name: str, given: Mapping[str, Any]) -> Setting:
    """Return the setting of a rule from the values of a file or of the command line.

    Args:
        name: Name of the rule.
        given: Values by the names of parameters, and of `severity`, `files` and `min-step-share`.

    Raises:
        InputError: The rule or a parameter does not exist, or a value does not fit.

    >>> setting_of("copies", {"max-bytes": "1 KiB"}).values["max_bytes"]
    1024
    """
    rule = RULES.get(name)
    if rule is None:
        raise InputError(f"no rule is called `{name}`{did_you_mean(name, RULES)}")
    rest = dict(given)
    try:
        given_severity = rest.pop("severity", None)
        severity = None if given_severity is None else one_of(*SEVERITIES)(given_severity)
        least = share(rest.pop("min-step-share", _default_share(rule, rest)))
        files = texts(rest.pop("files", ()))
    except ValueError as error:
        raise InputError(f"rule `{name}`: {error}") from None
    values = rule.with_values(rest)
    for problem in unknown_kinds(values.get("others", {})):
        raise InputError(f"rule `{name}`: {problem}")
    if severity is None and least == 0:
        severity = "error"  # an explicit limit is strict: every violation fails the check
    return Setting(rule, values, severity, files, least)


def _default_share(rule: Rule, given: Mapping[str, Any]) -> float:
    """Return the default of `min-step-share` for a rule.

    It is 0 for rules without shares, and if the parameters `given` have a limit in bytes.
    """
    named = {name.replace("_", "-") for name in given}
    is_limited = bool(named & {"max-bytes", "min-wasted"})
    return LEAST_SHARE if rule.of_bytes and not is_limited else 0.0


def settings_of(text: str, name: str = FILE) -> list[Setting]:
    """Return the settings in a TOML text, in the order of the text.

    `name` is the file's name in messages.

    Raises:
        InputError: The text is not valid TOML, or has an unknown rule or parameter.
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
                raise InputError(f"{name}: `{rule}` is not a table: write [{rule}]")
            try:
                found.append(setting_of(rule, table))
            except InputError as error:
                raise InputError(f"{name}: {error.message}") from None
    if not found:
        raise InputError(f"{name}: no rule is named; known: {', '.join(RULES)}")
    return found


def setting_from_option(text: str) -> Setting:
    """Return the setting in an option such as `copies` or `collectives:all-reduce=2`.

    Raises:
        InputError: The rule or a parameter does not exist, or a value does not fit.
    """
    name, _, rest = text.partition(":")
    given: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"`{part.strip()}` of rule `{name}` is not name=value")
        given[key.strip()] = value.strip()
    return setting_of(name.strip(), given)


def check_program(
    module: Module,
    file: str,
    settings: Iterable[Setting],
    known_cost: ProgramCost | None = None,
) -> Report:
    """Check a program by the rules that apply to it.

    Args:
        module: The program.
        file: Name of the program in findings.
        settings: The rules with their parameters.
        known_cost: The cost of all kernels of the program; `None` to compute it if needed.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] copy(p) }"
    >>> found = check_program(parse_hlo(text), "a.hlo", [setting_of("copies", {})])
    >>> [finding.message for finding in found.findings]
    ['copy of 32 bytes']
    """
    subject = Subject(module, file, known_cost)
    chosen = [setting for setting in settings if setting.is_for(file)]
    findings: list[Finding] = []
    small = 0
    for setting in chosen:
        found = sorted(setting.rule.run(subject, setting.values), key=lambda f: (f.line, -f.value))
        # Groups are formed for each rule before small ones are dropped: many small findings of one
        # cause can be a large share together.
        for group in Report(tuple(found), _names(chosen), (file,)).groups:
            if group.share is not None and group.share < setting.min_step_share:
                small += len(group.members)
                continue
            is_small = group.share is not None and group.share < ERROR_SHARE
            severity = setting.severity or ("warning" if is_small else "error")
            findings += [
                replace(finding, severity=max(severity, finding.severity, key=SEVERITIES.index))
                for finding in group.members  # the milder one of the two severities
            ]
    return Report(tuple(findings), _names(chosen), (file,), small=small)


def _names(settings: Iterable[Setting]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(setting.rule.name for setting in settings))


def merged(reports: Iterable[Report]) -> Report:
    """Merge the reports on several programs into one."""
    every = list(reports)
    return Report(
        tuple([finding for report in every for finding in report.findings]),
        tuple(dict.fromkeys(name for report in every for name in report.rules)),
        tuple([file for report in every for file in report.files]),
        sum(report.known for report in every),
        sum(report.small for report in every),
    )


# --------------------------------------------------------------------------------------------------
# The rules, by name.


RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        COPIES, COLLECTIVES, UTILISATION, PRECISION, FUSED, TYPES, DONATION, DYNAMIC_SIZES,
        CONSTANTS, PADDING, TRIP_COUNTS, MEMORY,
    )
}  # fmt: skip
