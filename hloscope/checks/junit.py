"""Reports as JUnit XML, which CI systems show as tests.

Source: the elements `testsuites`, `testsuite`, `testcase`, `failure` and `error` that Ant's
JUnit task writes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final
from xml.etree import ElementTree as Xml

from hloscope.checks.findings import Finding, Report
from hloscope.visible import visible

_OF_XML: Final = {chr(code) for code in (*range(0x20, 0xD800), *range(0xE000, 0xFFFE))} | {"\n"}


def junit_text(report: Report) -> str:
    """A suite for each program, a case for each rule, a failure for each case with findings."""
    by_case: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in [group.headline for group in report.groups]:
        by_case[finding.file, finding.rule].append(finding)
    top = Xml.Element("testsuites", name="hloscope check")
    for file in report.files:
        if file in report.unread:
            _unread(top, report.unread[file])
            continue
        failed = sum(bool(by_case.get((file, rule))) for rule in report.rules)
        counts = {"tests": str(len(report.rules)), "failures": str(failed), "errors": "0"}
        suite = Xml.SubElement(top, "testsuite", {"name": _plain(file), **counts})
        for rule in report.rules:
            case = Xml.SubElement(suite, "testcase", classname=_plain(file), name=rule)
            found = by_case.get((file, rule), [])
            if found:
                first = _plain(found[0].message)
                failure = Xml.SubElement(case, "failure", message=first, type=found[0].severity)
                failure.text = "\n".join(map(_line, found))
    Xml.indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(top, encoding="unicode")


def _unread(top: Xml.Element, finding: Finding) -> None:
    """Add a suite with one case in error, for a program that could not be read."""
    counts = {"tests": "1", "failures": "0", "errors": "1"}
    suite = Xml.SubElement(top, "testsuite", {"name": _plain(finding.file), **counts})
    case = Xml.SubElement(suite, "testcase", classname=_plain(finding.file), name=finding.rule)
    error = Xml.SubElement(case, "error", message=_plain(finding.message), type=finding.severity)
    error.text = _line(finding)


def _line(finding: Finding) -> str:
    where = f"{finding.line}: " if finding.line else ""
    return _plain(f"{where}{finding.instruction} {finding.message} {finding.source}".strip())


def _plain(text: str) -> str:
    """Replace characters that XML cannot contain."""
    return "".join(
        sign if sign in _OF_XML else "\N{REPLACEMENT CHARACTER}" for sign in visible(text)
    )
