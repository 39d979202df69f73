"""Findings of checks: their place, severity, and identity across compilations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.display import share_text
from hloscope.errors import InputError
from hloscope.ir import size_text
from hloscope.lazy import pattern

SCHEMA: Final = "hloscope.check/1"
SEVERITIES: Final = ("error", "warning", "note")
UNREAD: Final = "unread"
"""The rule of a finding about a program that cannot be read, and so was not checked."""
_NUMBER: Final = pattern(r"\d+")
_SUFFIX: Final = pattern(r"(\.\d+|\.remat\d*|\.clone)+$")


class Finding(Struct, frozen=True):
    """A violation of a rule at one place.

    Attributes:
        rule: Name of the rule.
        message: What was found and what is expected.
        file: The program.
        instruction: Name of the instruction; empty if the finding is about the whole program.
        computation: Name of its computation.
        line: Line in the program, counted from 1; 0 if unknown.
        op_name: The framework's path of the op; may be empty.
        source: `file:line` of the program that was compiled; may be empty.
        value: Amount of the violation, over all runs; larger is worse.
        severity: `error`, `warning` or `note`.
        cause: Key that findings of one cause share, in addition to the source line.
        runs: How often the instruction runs.
        share: `value` as a share of the step's bytes; `None` if it does not count bytes.
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
    cause: str = ""
    runs: int = 1
    share: float | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The rule, program and origin, which are stable when the program is compiled again.

        The origin is the source line, or else the op name without numbers (which number layers), or
        else the instruction's name without its suffix.
        """
        name = self.file.replace("\\", "/").rpartition("/")[2]
        if self.source:
            return self.rule, name, "", self.source
        origin = _NUMBER.sub("N", self.op_name) or _SUFFIX.sub("", self.instruction)
        return self.rule, name, origin, ""

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
            "runs": self.runs,
            "share": self.share,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Finding:
        """The finding that `to_json` described.

        Raises:
            InputError: The object does not describe a finding.
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
                runs=int(given.get("runs") or 1),
                severity=str(given.get("severity", "error")),
                instruction=texts["instruction"],
                computation=texts["computation"],
                op_name=texts["op_name"],
                source=texts["source"],
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                f"a finding of {SCHEMA} was expected, found {str(given)[:80]}"
            ) from None


class FindingGroup(Struct, frozen=True):
    """Findings with the same rule, severity, source line and cause.

    Attributes:
        members: The findings, largest value first.
    """

    members: tuple[Finding, ...]

    @property
    def value(self) -> float:
        """The sum over all members."""
        return sum([finding.value for finding in self.members])

    @property
    def share(self) -> float | None:
        """The sum of the members' shares of the step."""
        shares = [f.share for f in self.members if f.share is not None]
        return sum(shares) if shares else None

    @property
    def headline(self) -> Finding:
        """The first member, with a message about all: their number, runs, sum and share."""
        first = self.members[0]
        message, more = first.message, len(self.members) - 1
        if more:
            message = f"and {more:,} more: {message}"
        runs = sum([finding.runs for finding in self.members])
        if runs != len(self.members):
            message += f"; {runs:,} runs"
        if self.share is not None:
            total = f"{size_text(self.value)} in all, " if more or runs > 1 else ""
            message += f"; {total}{share_text(self.share)} of the step"
        return replace(first, message=message, value=self.value, share=self.share, runs=runs)

    def to_json(self) -> dict[str, Any]:
        """One group of schema `hloscope.check/1`."""
        return {**self.headline.to_json(), "members": [f.instruction for f in self.members]}


class Report(Struct, frozen=True):
    """The findings of a check, with the programs and rules.

    Attributes:
        findings: In the order of files, rules and lines.
        rules: Names of the rules that ran, in order.
        files: The programs.
        known: Number of findings left out because the baseline has them.
        small: Number of findings left out because their groups are a small share of the step.
    """

    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    files: tuple[str, ...]
    known: int = 0
    small: int = 0

    @property
    def groups(self) -> list[FindingGroup]:
        """The findings in groups, in the order of files and rules, largest share first."""
        by_cause: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
        for finding in self.findings:
            cause = finding.cause or finding.message
            by_cause[finding.file, finding.severity, *finding.key, cause].append(finding)
        groups = [
            FindingGroup(tuple(sorted(members, key=lambda f: -f.value)))
            for members in by_cause.values()
        ]
        files = {file: k for k, file in enumerate(self.files)}
        rules = {rule: k for k, rule in enumerate(self.rules)}
        first = -1  # a finding without a rule, about a program that could not be read
        return sorted(
            groups,
            key=lambda g: (
                files.get(g.members[0].file, first),
                rules.get(g.members[0].rule, first),
                -(g.share or 0),
                g.members[0].line,
                -g.value,
            ),
        )

    @property
    def failed(self) -> bool:
        """Is there an error among the findings?"""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def unread(self) -> dict[str, Finding]:
        """The programs that could not be read, with the reasons."""
        return {f.file: f for f in self.findings if f.rule == UNREAD}

    def to_json(self) -> dict[str, Any]:
        """An object of schema `hloscope.check/1`."""
        return {
            "schema": SCHEMA,
            "files": list(self.files),
            "rules": list(self.rules),
            "known": self.known,
            "small": self.small,
            "groups": [group.to_json() for group in self.groups],
            "findings": [finding.to_json() for finding in self.findings],
        }

    def since(self, baseline: Iterable[Finding]) -> Report:
        """A report of the findings that are new or worse, and of the unreadable programs.

        Findings of one rule at one source position are compared in the order of their values: one
        more than before is new, a larger value is worse.

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
        # Members of one key cannot be matched one to one, since names change between compilations.
        # Comparing sorted values reports a finding exactly if the group grew or some rank got
        # worse.
        for key, group in now.items():
            fresh |= {id(finding) for finding in _new_or_worse(group, before.get(key, []))}
        kept = tuple([finding for finding in self.findings if id(finding) in fresh])
        known = len(self.findings) - len(kept)
        return Report(kept, self.rules, self.files, known, self.small)


def _new_or_worse(group: Sequence[Finding], before: Sequence[float]) -> list[Finding]:
    ordered = sorted(group, key=lambda finding: -finding.value)
    return [f for k, f in enumerate(ordered) if k >= len(before) or f.value > before[k]]


def baseline_of(given: Any) -> list[Finding]:
    """The findings of a report that was written as JSON.

    Raises:
        InputError: It is not such a report.
    """
    if not isinstance(given, Mapping) or given.get("schema") != SCHEMA:
        found = given.get("schema") if isinstance(given, Mapping) else type(given).__name__
        raise InputError(f"a baseline is an object of schema {SCHEMA}, found {found}")
    findings = given.get("findings")
    if not isinstance(findings, list):
        raise InputError("a baseline has a list of `findings`")
    return [Finding.from_json(finding) for finding in findings]
