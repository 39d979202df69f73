"""Reports for readers and for GitHub: text, Markdown, annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.checks.findings import Finding, Report
from hloscope.visible import visible

TOP: Final = 100
"""Default number of findings in a report for readers."""
_COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def report_text(report: Report, top: int = TOP) -> str:
    """A line for each group of findings, as compilers print them, then a summary."""
    lines = [*map(_line, _headlines(report)[:top]), *_rest(report, top)]
    return "\n".join([*lines, summary(report)])


def _headlines(report: Report) -> list[Finding]:
    return [group.headline for group in report.groups]


def _place(finding: Finding) -> str:
    """The file and line of a finding."""
    return f"{finding.file}:{finding.line}" if finding.line else finding.file


def _rest(report: Report, top: int) -> list[str]:
    left = len(report.groups) - top
    return (
        [f"{left:,} more groups of findings: --top N shows more, --format json all"]
        if left > 0
        else []
    )


def _line(finding: Finding) -> str:
    name = f" `{finding.instruction}`" if finding.instruction else ""
    line = f"{_place(finding)}: {finding.severity}: {finding.rule}:{name} {finding.message}"
    if finding.source:
        line += f", from {finding.source}"
    if finding.op_name:
        line += f" ({finding.op_name})"
    return visible(line).replace("\n", " ")


def summary(report: Report) -> str:
    """The number of findings by rule, as text."""
    counts = {rule: 0 for rule in report.rules}
    for finding in report.findings:
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
    bad = ", ".join(f"{count} {rule}" for rule, count in counts.items() if count)
    files = f"{len(report.files)} program" + ("s" if len(report.files) != 1 else "")
    known = f"; {report.known} known before" if report.known else ""
    if report.small:
        known += f"; {report.small:,} left out, each group under the least share of the step"
    rules = f"{len(report.rules)} rule" + ("s" if len(report.rules) != 1 else "")
    return f"{files}, {rules}: {bad or 'nothing found'}{known}"


def markdown_text(report: Report, top: int = TOP) -> str:
    """A table for the summary of a CI job."""
    lines = [f"**hloscope check**: {_cell(summary(report))}"]
    if report.findings:
        lines += ["", "| rule | where | what | from |", "|---|---|---|---|"]
        lines += map(_row, _headlines(report)[:top])
        lines += ["", *_rest(report, top)] if _rest(report, top) else []
    return "\n".join(lines)


def _row(finding: Finding) -> str:
    name = f" {finding.instruction}" if finding.instruction else ""
    cells = (
        finding.rule,
        f"{_place(finding)}{name}",
        finding.message,
        finding.source or finding.op_name,
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """A text with the special characters of Markdown and HTML escaped."""
    plain = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\")
    for sign in "|`*_[]":
        plain = plain.replace(sign, f"\\{sign}")
    return plain.replace("\n", " ")


def github_text(report: Report, top: int = TOP) -> str:
    """GitHub annotations, at the source line if it is known, else at the program's line."""
    return "\n".join([*_annotations(report, top), *_rest(report, top), summary(report)])


def _annotations(report: Report, top: int) -> Iterator[str]:
    for finding in _headlines(report)[:top]:
        file, line, program = finding.file, finding.line, ""
        if finding.source:
            program = f" (in {_place(finding)})"
            file, _, number = finding.source.rpartition(":")
            line = int(number) if number.isdecimal() else 0
        where = f"file={_property(file)}" + (f",line={line}" if line else "")
        name = f"`{finding.instruction}`: " if finding.instruction else ""
        title = _property(f"hloscope {finding.rule}")
        message = (
            visible(f"{name}{finding.message}{program}").replace("%", "%25").replace("\n", "%0A")
        )
        yield f"::{_COMMANDS[finding.severity]} {where},title={title}::{message}"


def _property(text: str) -> str:
    """A value of a workflow command.  Source: GitHub, "Workflow commands for GitHub Actions"."""
    escaped = visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escaped.replace(":", "%3A").replace(",", "%2C")
