"""Reports as SARIF 2.1.0, which code hosts and editors read.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import hashlib
from typing import Any, Final
from urllib.parse import quote

from hloscope.checks.findings import UNREAD, Finding, Report
from hloscope.checks.registry import RULES
from hloscope.visible import visible

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_READABLE: Final = "Every program can be read."


def sarif(report: Report, version: str) -> dict[str, Any]:
    """The report as a SARIF log of one run; `version` is that of the tool."""
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
    """A path as a relative URI reference, with colons escaped; a URL keeps its colons."""
    return quote(visible(path).replace("\\", "/"), safe="/:" if "://" in path else "/")
