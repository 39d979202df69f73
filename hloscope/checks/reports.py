"""Reports of checks: text, Markdown, annotations for GitHub, SARIF and JUnit XML."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree as Xml

from hloscope.checks.rule import UNREAD, Finding, Report
from hloscope.checks.settings import RULES
from hloscope.support.source import visible

# --------------------------------------------------------------------------------------------------
# Reports for readers and for GitHub: text, Markdown, annotations.


TOP: Final = 100
"""Default maximum number of findings in a report for readers."""
_COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def report_text(report: Report, top: int = TOP) -> str:
    """Return a report as text: a line for each of the first `top` groups of findings; a summary."""
    lines = [*map(_line, _headlines(report)[:top]), *_rest(report, top)]
    return "\n".join([*lines, summary(report)])


def _headlines(report: Report) -> list[Finding]:
    return [group.headline for group in report.groups]


def _place(finding: Finding) -> str:
    """Return the file and line of a finding as text."""
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
    """Return the number of programs, of rules, and of findings by rule, as one line of text."""
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
    """Return a report as a Markdown table, for the summary of a CI job; at most `top` findings."""
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
    """Return a text with the special characters of Markdown and HTML escaped."""
    plain = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\")
    for sign in "|`*_[]":
        plain = plain.replace(sign, f"\\{sign}")
    return plain.replace("\n", " ")


def github_text(report: Report, top: int = TOP) -> str:
    """Return a report as annotations for GitHub, at most `top`.

    They are at the source line if it is known, else at the program's line.
    """
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
    """Return a value with escapes for a GitHub workflow command.

    Source: GitHub, "Workflow commands for GitHub Actions".
    """
    escaped = visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escaped.replace(":", "%3A").replace(",", "%2C")


# --------------------------------------------------------------------------------------------------
# Reports as SARIF 2.1.0, which code hosts and editors read.
#
# Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".


_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_READABLE: Final = "Every program can be read."


def sarif(report: Report, version: str) -> dict[str, Any]:
    """Return the report as a SARIF log of one run; `version` is that of hloscope."""
    names = [*report.rules, UNREAD] if report.unread else list(report.rules)
    helps = [RULES[name].help if name in RULES else _READABLE for name in names]
    rules = [
        {"id": name, "shortDescription": {"text": text}}
        for name, text in zip(names, helps, strict=True)
    ]
    driver = {"name": "hloscope", "version": version, "rules": rules}
    results = [
        _result(finding, names.index(finding.rule))
        for finding in (group.headline for group in report.groups)
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.line:
        place["region"] = {"startLine": finding.line}
    location: dict[str, Any] = {"physicalLocation": place}
    if finding.instruction:
        full = f"{finding.computation}/{finding.instruction}"
        location["logicalLocations"] = [
            {"name": visible(finding.instruction), "fullyQualifiedName": visible(full)}
        ]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": visible(finding.message)},
        "locations": [location],
        "partialFingerprints": {"hloscope/v1": _fingerprint(finding)},
        "properties": {"value": finding.value, "op_name": visible(finding.op_name)},
    }
    file, _, line = finding.source.rpartition(":")
    if file and line.isdecimal() and int(line):
        source = {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": int(line)}}
        result["relatedLocations"] = [
            {"physicalLocation": source, "message": {"text": "what it was compiled from"}}
        ]
    return result


def _fingerprint(finding: Finding) -> str:
    return hashlib.sha256("\0".join(finding.key).encode("utf-8", "replace")).hexdigest()[:32]


def _uri(path: str) -> str:
    """Return a path as a relative URI reference, with colons escaped; a URL keeps its colons."""
    return quote(visible(path).replace("\\", "/"), safe="/:" if "://" in path else "/")


# --------------------------------------------------------------------------------------------------
# Reports as JUnit XML, which CI systems show as tests.
#
# Source: the elements `testsuites`, `testsuite`, `testcase`, `failure` and `error` that Ant's JUnit
# task writes.


_OF_XML: Final = {chr(code) for code in (*range(0x20, 0xD800), *range(0xE000, 0xFFFE))} | {"\n"}


def junit_text(report: Report) -> str:
    """Return the report as JUnit XML.

    Each program is a suite, each rule a case, and each case with findings has a failure.
    """
    by_case: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in [group.headline for group in report.groups]:
        by_case[finding.file, finding.rule].append(finding)
    top = Xml.Element("testsuites", name="hloscope check")
    for file in report.files:
        # A program that could not be read has one case, which is in error.
        unread = report.unread.get(file)
        kind, rules = ("failure", report.rules) if unread is None else ("error", (UNREAD,))
        wrong = {rule: by_case[file, rule] for rule in rules if (file, rule) in by_case}
        wrong |= {} if unread is None else {UNREAD: [unread]}
        counts = {"tests": str(len(rules)), "failures": "0", "errors": "0"}
        counts |= {f"{kind}s": str(len(wrong))}
        suite = Xml.SubElement(top, "testsuite", {"name": _plain(file), **counts})
        for rule in rules:
            case = Xml.SubElement(suite, "testcase", classname=_plain(file), name=rule)
            if found := wrong.get(rule):
                first = _plain(found[0].message)
                failure = Xml.SubElement(case, kind, message=first, type=found[0].severity)
                failure.text = "\n".join(map(_finding_text, found))
    Xml.indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(top, encoding="unicode")


def _finding_text(finding: Finding) -> str:
    where = f"{finding.line}: " if finding.line else ""
    return _plain(f"{where}{finding.instruction} {finding.message} {finding.source}".strip())


def _plain(text: str) -> str:
    """Return a text with the characters replaced that XML cannot contain."""
    return "".join(
        sign if sign in _OF_XML else "\N{REPLACEMENT CHARACTER}" for sign in visible(text)
    )
