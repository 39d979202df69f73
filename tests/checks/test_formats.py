"""Reports are what their standards ask for, whatever programs, names and messages are like.

SARIF is validated against `sarif_2_1.json`, which has the parts that are used and was written after
the standard (its own schema is not at hand offline); JUnit against the table below, of the elements
that CI systems read.  Where the package `sarif-om` is installed, whose classes were generated from
the standard's schema, every property name is looked up there, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from hloscope.checks import RULES, Finding, Report, junit_text, sarif

jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema (the extra `dev`)")

SARIF: Final = jsonschema.Draft202012Validator(
    json.loads(Path(__file__).with_name("sarif_2_1.json").read_text())
)
JUNIT: Final[dict[str, tuple[set[str], set[str], set[str]]]] = {
    "testsuites": (set(), {"name"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, set(), {"testcase"}),
    "testcase": ({"name", "classname"}, set(), {"failure"}),
    "failure": ({"message", "type"}, set(), set()),
}
"""Of each element: the attributes it has to have, those it may have, and its children."""
TEXT = st.text(max_size=12) | st.sampled_from(
    ["", "a.hlo", "/a b/c%d.hlo", 'x"<&>', "\x1b[31m", "\u202e", "a\n::error::", "\ud800", "\x00"]
)
FINDINGS = st.builds(
    Finding,
    st.sampled_from([*RULES]),
    TEXT,
    st.sampled_from(["a.hlo", "b/c d.hlo", "\ud800\x00|"]),
    TEXT,
    TEXT,
    st.integers(0, 10**6),
    TEXT,
    TEXT | st.builds("{}:{}".format, TEXT, st.integers(-2, 99)),
    st.integers(0, 2**70) | st.floats(0, 1e18),
    st.sampled_from(["error", "warning", "note"]),
)
REPORTS = st.lists(FINDINGS, max_size=4).map(
    lambda found: Report(
        tuple(found), tuple(RULES), tuple(dict.fromkeys([*(f.file for f in found), "z.hlo"]))
    )
)


@hypothesis_settings(max_examples=120, deadline=None)
@given(REPORTS)
def test_sarif_is_valid(report: Report) -> None:
    log = json.loads(json.dumps(sarif(report, "1.2")))
    wrong = jsonschema.exceptions.best_match(SARIF.iter_errors(log))
    assert wrong is None, f"{wrong.json_path}: {wrong.message}"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [
        result["ruleId"] for result in run["results"]
    ]


@hypothesis_settings(max_examples=120, deadline=None)
@given(REPORTS)
def test_junit_is_valid(report: Report) -> None:
    text = junit_text(report)
    top = ElementTree.fromstring(text.encode("utf-8", "strict"))
    assert top.tag == "testsuites"
    for element in top.iter():
        required, allowed, children = JUNIT[element.tag]
        assert required <= set(element.attrib) <= required | allowed
        assert {child.tag for child in element} <= children
    suites = list(top)
    assert len(suites) == len(report.files)
    for suite in suites:
        assert int(suite.attrib["tests"]) == len(suite) == len(report.rules)
        assert int(suite.attrib["failures"]) == len(list(suite.iter("failure")))
        assert suite.attrib["errors"] == "0"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda log: log.pop("version"),
        lambda log: log["runs"][0].pop("tool"),
        lambda log: log["runs"][0]["results"][0].update(level="fatal"),
        lambda log: log["runs"][0]["results"][0].update(line=3),
        lambda log: log["runs"][0]["results"][0]["locations"][0]["physicalLocation"].clear(),
        lambda log: log["runs"][0]["results"][0].update(message={}),
    ],
)
def test_the_schema_refuses_what_is_no_sarif(spoil: Any) -> None:
    log = sarif(Report((Finding("copies", "m", "a.hlo"),), ("copies",), ("a.hlo",)), "1")
    assert SARIF.is_valid(log)
    spoil(log)
    assert not SARIF.is_valid(log)


OM: Final = {
    ("runs",): "Run",
    ("runs", "tool"): "Tool",
    ("runs", "tool", "driver"): "ToolComponent",
    ("runs", "tool", "driver", "rules"): "ReportingDescriptor",
    ("runs", "results"): "Result",
    ("runs", "results", "message"): "Message",
    ("runs", "results", "locations"): "Location",
    ("runs", "results", "locations", "physicalLocation"): "PhysicalLocation",
    ("runs", "results", "locations", "physicalLocation", "artifactLocation"): "ArtifactLocation",
    ("runs", "results", "locations", "physicalLocation", "region"): "Region",
    ("runs", "results", "locations", "logicalLocations"): "LogicalLocation",
    ("runs", "results", "relatedLocations"): "Location",
}


def objects(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The objects of JSON with the names that lead to them."""
    todo = [(path, value)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, list):
            todo += [(path, one) for one in value]
        elif isinstance(value, dict):
            yield path, value
            todo += [((*path, key), one) for key, one in value.items()]


def test_every_property_is_one_of_the_standards_object_model() -> None:
    pytest.importorskip("sarif_om", reason="needs sarif-om (the extra `dev`)")
    found = Finding("copies", "m", "a.hlo", "c", "e", 3, "op", "/a/t.py:3", 8)
    log = sarif(Report((found,), ("copies",), ("a.hlo",)), "1")
    met = set()
    for path, value in objects(log):
        if path in OM:
            fields = getattr(import_module("sarif_om"), OM[path]).__attrs_attrs__
            names = {field.metadata["schema_property_name"]: field for field in fields}
            assert set(value) <= set(names), path
            met.add(path)
    assert met == set(OM)
