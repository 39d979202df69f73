"""What a check found: where, how bad, and how it is told from what was found before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hloscope.errors import InputError
from hloscope.lazy import dataclass, pattern

SCHEMA: Final = "hloscope.check/1"
SEVERITIES: Final = ("error", "warning", "note")
UNREAD: Final = "unread"
"""Stands for the rule where a program cannot be read, and so was not checked."""
_SUFFIX: Final = pattern(r"(\.\d+|\.remat\d*|\.clone)+$")


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that breaks a rule.

    Attributes:
        rule: Name of the rule.
        message: What was found and what is wanted.
        file: The program.
        instruction: Its name; empty if the whole program is meant.
        computation: Where it stands.
        line: Line in the program, from 1 on; 0 if it is not known.
        op_name: The framework's path of the op; may be empty.
        source: `file:line` of the program that was compiled; may be empty.
        value: How bad it is; larger is worse.
        severity: `error`, `warning` or `note`.
    """

    rule: str
    message: str
    file: str
    instruction: str = ""
    computation: str = ""
    line: int = 0
    op_name: str = ""
    source: str = ""
    value: float = 0
    severity: str = "error"

    @property
    def key(self) -> tuple[str, ...]:
        """What stays the same when the program is compiled again: names without their numbers."""
        name = self.file.replace("\\", "/").rpartition("/")[2]
        if self.op_name or self.source:
            return self.rule, name, self.op_name, self.source
        return self.rule, name, _SUFFIX.sub("", self.instruction), ""

    def to_json(self) -> dict[str, Any]:
        """One finding of schema `hloscope.check/1`."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "file": self.file,
            "instruction": self.instruction or None,
            "computation": self.computation or None,
            "line": self.line or None,
            "op_name": self.op_name or None,
            "source": self.source or None,
            "value": self.value,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Finding:
        """The finding that `to_json` described.

        Raises:
            InputError: The object describes no finding.
        """
        try:
            texts = {
                key: str(given.get(key) or "")
                for key in ("instruction", "computation", "op_name", "source")
            }
            return cls(
                rule=str(given["rule"]),
                message=str(given["message"]),
                file=str(given["file"]),
                line=int(given.get("line") or 0),
                value=float(given.get("value") or 0),
                severity=str(given.get("severity", "error")),
                **texts,
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                f"a finding of {SCHEMA} was expected, found {str(given)[:80]}"
            ) from None


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked, and what was found.

    Attributes:
        findings: In the order of files, rules and lines.
        rules: Names of the rules that ran, in order.
        files: The programs.
        known: How many findings were left out because the baseline has them.
    """

    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    files: tuple[str, ...]
    known: int = 0

    @property
    def failed(self) -> bool:
        """Is there an error among the findings?"""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def unread(self) -> dict[str, Finding]:
        """The programs that could not be read, and why."""
        return {f.file: f for f in self.findings if f.rule == UNREAD}

    def to_json(self) -> dict[str, Any]:
        """An object of schema `hloscope.check/1`."""
        return {
            "schema": SCHEMA,
            "files": list(self.files),
            "rules": list(self.rules),
            "known": self.known,
            "findings": [finding.to_json() for finding in self.findings],
        }

    def since(self, baseline: Iterable[Finding]) -> Report:
        """Only what is new or worse, and what could not be read.

        Findings of one rule at one place of the source are compared in the order of their values:
        one more than before is new, a larger value is worse.

        >>> old = [Finding("copies", "", "a.hlo", "copy.1", value=8)]
        >>> new = [Finding("copies", "", "a.hlo", "copy.7", value=8),
        ...        Finding("copies", "", "a.hlo", "copy.9", value=4)]
        >>> [f.instruction for f in Report(tuple(new), ("copies",), ("a.hlo",)).since(old).findings]
        ['copy.9']
        """
        before: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for finding in baseline:
            before[finding.key].append(finding.value)
        for values in before.values():
            values.sort(reverse=True)
        now: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
        for finding in self.findings:
            now[finding.key].append(finding)
        fresh = {id(finding) for finding in self.findings if finding.rule == UNREAD}
        for key, group in now.items():
            fresh |= {id(finding) for finding in _new_or_worse(group, before.get(key, []))}
        kept = tuple([finding for finding in self.findings if id(finding) in fresh])
        return Report(kept, self.rules, self.files, len(self.findings) - len(kept))


def _new_or_worse(group: Sequence[Finding], before: Sequence[float]) -> list[Finding]:
    ordered = sorted(group, key=lambda finding: -finding.value)
    return [f for k, f in enumerate(ordered) if k >= len(before) or f.value > before[k]]


def baseline_of(given: Any) -> list[Finding]:
    """The findings of a report that was written as JSON.

    Raises:
        InputError: It is no such report.
    """
    if not isinstance(given, Mapping) or given.get("schema") != SCHEMA:
        found = given.get("schema") if isinstance(given, Mapping) else type(given).__name__
        raise InputError(f"a baseline is an object of schema {SCHEMA}, found {found}")
    findings = given.get("findings")
    if not isinstance(findings, list):
        raise InputError("a baseline has a list of `findings`")
    return [Finding.from_json(finding) for finding in findings]
