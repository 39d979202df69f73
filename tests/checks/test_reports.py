"""Settings, baselines and reports; nothing in a name gets out of its place in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hypothesis import given, settings as hypothesis_settings, strategies as st
from msgspec.structs import replace

import hloscope as hs
from hloscope.api import Checked, check_files, check_one, check_settings
from hloscope.checks import (
    RULES,
    Finding,
    Report,
    baseline_of,
    github_text,
    junit_text,
    markdown_text,
    report_text,
    sarif,
    setting_from_option,
    settings_of,
)
from hloscope.checks.reports import TOP
from hloscope.cli.app import app
from hloscope.errors import InputError
from hloscope.testing import (
    assert_checked,
    assert_coalesced,
    assert_collectives,
    assert_fused,
    assert_no_copies,
    program_of,
)

COPY = "HloModule m\nENTRY e {\n  p = f32[8] parameter(0)\n  ROOT c = f32[8] copy(p)\n}\n"
HOSTILE = "c\x1b[31m\"'<script>|`]]>&%0A::error::x\u202e\n,title=y\x00"


def finding(instruction: str = "copy.1", value: float = 8, **rest: Any) -> Finding:
    return Finding("copies", "too large", "a.hlo", instruction, "e", 4, value=value, **rest)


def report(*findings: Finding) -> Report:
    return Report(findings, tuple(dict.fromkeys(["copies"])), ("a.hlo",))


def hostile() -> Report:
    bad = finding(HOSTILE, op_name=HOSTILE, source=f"{HOSTILE}:3")
    return Report((replace(bad, message=HOSTILE, file=HOSTILE),), ("copies",), (HOSTILE,))


# ------------------------------------------------------------------------------------- settings


def test_a_file_names_rules_their_parameters_and_programs() -> None:
    first, second, third = settings_of(
        '[copies]\nmax-bytes = "1 MiB"\n[[fused]]\nop-name = "a"\nseverity = "warning"\n'
        'files = ["*.gpu.*"]\n[[fused]]\nop-name = "b"\n'
    )
    assert first.values == {"max_bytes": 1 << 20, "opcodes": ("copy", "transpose")}
    assert (second.severity, second.is_for("/x/a.gpu.txt"), second.is_for("a.txt")) == (
        "warning",
        True,
        False,
    )
    assert (third.values["op_name"], third.severity, third.is_for("a.txt")) == ("b", "error", True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[copies", "hloscope.toml: "),
        ("", "no rule is named"),
        ("copies = 3", "is not a table"),
        ("[copys]", "no rule is called `copys`; did you mean `copies`?"),
        ("[copies]\nmax-byte = 3", "no parameter `max-byte`; did you mean `max-bytes`?"),
        ("[copies]\nmax-bytes = -3", "bytes such as 4096"),
        ('[copies]\nmax-bytes = "3 parsecs"', "bytes such as 4096"),
        ("[copies]\nmax-bytes = true", "bytes such as 4096"),
        ("[fused]", "needs `op-name`"),
        ('[copies]\nseverity = "bad"', "one of error, warning, note"),
        ("[copies]\nfiles = 3", "a list of texts"),
        ("[collectives]\nall-reduces = 2", "did you mean `all-reduce` or"),
        ("[collectives]\nall-reduce = -1", "a number from 0 on"),
        ("[utilisation]\nmin-share = 2", "a share from 0 to 1"),
        ('[utilisation]\nmin-share = "half"', "a share from 0 to 1"),
        ("[utilisation]\nmin-share = nan", "a share from 0 to 1"),
        ('[precision]\nat-least = "good"', "one of over, exact"),
        ("[copies]\nmax-bytes = " + "9" * 5000, "hloscope.toml: "),
        ("x = " + "[" * 10_000, "nested too deeply"),
    ],
    ids=lambda text: text[:40],
)
def test_wrong_settings_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        settings_of(text)
    assert said in refused.value.message


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no file without an end")
def test_files_without_an_end_are_refused() -> None:
    with pytest.raises(InputError, match="zero byte"):
        check_settings(config="/dev/zero")
    with pytest.raises(InputError, match="zero byte"):
        check_files([], check_settings(["copies"]), baseline="/dev/zero")


def test_options_say_the_same_as_files() -> None:
    for option, text in (
        ("copies", "[copies]"),
        ("copies:max-bytes=1 KiB,opcodes=copy", '[copies]\nmax-bytes=1024\nopcodes=["copy"]'),
        ("collectives:all-reduce=2", "[collectives]\nall-reduce = 2"),
        ("utilisation:min-share=0.25", "[utilisation]\nmin-share = 0.25"),
    ):
        assert [setting_from_option(option)] == settings_of(text)
    with pytest.raises(InputError, match="is not name=value"):
        setting_from_option("copies:max-bytes")


# ------------------------------------------------------------------------------------ baselines

FINDINGS = st.lists(
    st.builds(
        finding,
        st.sampled_from(["copy.1", "copy.2", "transpose.3", "copy.4.remat2"]),
        st.sampled_from([1.0, 2.0, 3.0]),
        op_name=st.sampled_from(["", "jit(f)/a"]),
    ),
    max_size=6,
)


@hypothesis_settings(max_examples=150)
@given(FINDINGS, FINDINGS)
def test_what_was_known_is_not_told_again(old: list[Finding], new: list[Finding]) -> None:
    known, told = report(*old), report(*new).since(old)
    assert not known.since(old).findings
    assert not report(*new, *old).since([*new, *old]).findings
    assert told.known + len(told.findings) == len(new)
    assert {*told.findings} <= {*new}
    # One finding more, worse than all, is told.
    worst = finding("copy.9", 99)
    assert worst in report(*new, worst).since(old).findings


def test_names_may_change_their_numbers() -> None:
    assert finding("fusion.12.remat3").key == finding("fusion.7").key != finding("copy.7").key
    assert finding("a.1", source="t.py:3").key != finding("a.1", source="t.py:4").key


@given(FINDINGS)
def test_reports_survive_json(found: list[Finding]) -> None:
    told = json.loads(json.dumps(report(*found).to_json()))
    assert baseline_of(told) == found


@pytest.mark.parametrize(
    "given_", [[], {}, {"schema": "x"}, {"schema": "hloscope.check/1"},
               {"schema": "hloscope.check/1", "findings": [3]},
               {"schema": "hloscope.check/1", "findings": [{"rule": "copies"}]}]
)  # fmt: skip
def test_what_is_no_baseline_is_refused(given_: object) -> None:
    with pytest.raises(InputError):
        baseline_of(given_)


# -------------------------------------------------------------------------------------- reports


def test_sarif_has_what_the_standard_asks_for() -> None:
    log = sarif(report(finding(source="/a/t.py:3"), finding("copy.2")), "1.2")
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert run["tool"]["driver"]["version"] == "1.2"
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] == 4
        assert place["artifactLocation"]["uri"] == "a.hlo"
        assert len(result["partialFingerprints"]["hloscope/v1"]) == 32
    assert run["results"][0]["relatedLocations"][0]["physicalLocation"]["region"] == {
        "startLine": 3
    }
    assert "relatedLocations" not in run["results"][1]


def test_a_path_is_no_scheme_whatever_is_in_it() -> None:
    files = {"a:b c.hlo": "a%3Ab%20c.hlo", "s3://a/b.hlo": "s3://a/b.hlo", "C:\\x": "C%3A/x"}
    for file, uri in files.items():
        log = sarif(report(replace(finding(), file=file)), "")
        (location,) = log["runs"][0]["results"][0]["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_an_annotation_beside_the_source_says_which_program_it_is_about() -> None:
    beside, other = github_text(report(finding(source="t.py:3"), finding())).splitlines()[:2]
    assert beside.startswith("::error file=t.py,line=3,")
    assert beside.endswith("::`copy.1`: too large (in a.hlo:4)")
    assert other.startswith("::error file=a.hlo,line=4,")
    assert other.endswith("::`copy.1`: too large")


def test_junit_has_a_case_for_each_rule_and_program() -> None:
    told = Report((finding(),), ("copies", "types"), ("a.hlo", "b.hlo"))
    suites = ElementTree.fromstring(junit_text(told)).findall("testsuite")
    assert [(s.get("name"), s.get("tests"), s.get("failures")) for s in suites] == [
        ("a.hlo", "2", "1"),
        ("b.hlo", "2", "0"),
    ]
    (failure,) = suites[0].iter("failure")
    assert failure.get("message") == "too large"


def test_hostile_names_stay_in_their_place() -> None:
    bad = hostile()
    ElementTree.fromstring(junit_text(bad))
    json.loads(json.dumps(sarif(bad, "")))
    for text in (report_text(bad), markdown_text(bad), github_text(bad), junit_text(bad)):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\x00" not in text
    lines = github_text(bad).splitlines()
    assert [line for line in lines if line.startswith("::")] == lines[:1]
    assert lines[0].count("title=") - lines[0].count("title=y") == 1
    assert "<script>" not in markdown_text(bad)
    assert len(report_text(bad).splitlines()) == 2


def test_only_so_many_findings_are_shown() -> None:
    more, tail = 50, 2  # how many are left, and the summary
    many = report(*[finding(f"copy.{k}", source=f"m.py:{k}") for k in range(TOP + more)])
    assert len(report_text(many).splitlines()) == TOP + tail
    assert f"{more} more groups" in markdown_text(many)
    assert github_text(many, 3).count("::error") == 3


# -------------------------------------------------------------------------------- the assertions


def test_assertions_name_what_they_found(tmp_path: Path) -> None:
    path = tmp_path / "a.hlo"
    path.write_text(COPY)
    for subject in (COPY, path, program_of(COPY)):
        with pytest.raises(AssertionError, match=r":4: error: copies: `c` copy of 32 bytes"):
            assert_no_copies(subject)
        assert_no_copies(subject, max_bytes="32 B")
    with pytest.raises(AssertionError, match="0 all-reduce, expected 1"):
        assert_collectives(COPY, all_reduce=1)
    assert_collectives(COPY)
    assert_coalesced(COPY)
    assert_fused(COPY, op_name="attention")
    assert_checked(COPY, rule="types", absent=["f64"])
    with pytest.raises(TypeError, match="arguments are for a function"):
        program_of(COPY, 3)


def test_functions_are_compiled_for_their_arguments() -> None:
    class Jitted:
        def __call__(self) -> None: ...

        def lower(self, *arguments: int) -> Jitted:
            assert arguments == (3,)
            return self

        def compile(self) -> str:
            return COPY

    with pytest.raises(AssertionError, match="copy of 32 bytes"):
        assert_no_copies(Jitted(), 3)


def test_every_rule_tells_what_it_is_for() -> None:
    for name, rule in RULES.items():
        assert name == rule.name
        assert rule.help.endswith(".")
        assert all(parameter.help for parameter in rule.parameters.values())


@pytest.mark.parametrize(
    "wrong", ["ENTRY e { ROOT p = f32[2] add(q, q) }", "", "no program"],
    ids=["wrong", "empty", "noise"],
)  # fmt: skip
def test_a_program_that_cannot_be_read_is_told_and_the_others_are_checked(
    tmp_path: Path, wrong: str
) -> None:
    bad, good = str(tmp_path / "bad.hlo"), str(tmp_path / "good.hlo")
    Path(bad).write_text(wrong)
    Path(good).write_text("ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] copy(p) }")
    asked = ["check", bad, good, "--rule", "copies"]
    for form in ("text", "json", "github", "markdown"):
        done = CliRunner().invoke(app, [*asked, "--format", form])
        assert done.exit_code == 3
        assert "unread" in done.stdout
        assert "copy of 32 bytes" in done.stdout
    old = tmp_path / "old.json"
    assert CliRunner().invoke(app, [*asked, "--json", "-o", str(old)]).exit_code == 3
    known = CliRunner().invoke(app, [*asked, "--baseline", str(old), "--json"])
    assert known.exit_code == 3
    assert [found["rule"] for found in json.loads(known.stdout)["findings"]] == ["unread"]
    suites = ElementTree.fromstring(CliRunner().invoke(app, [*asked, "--format", "junit"]).stdout)
    assert [(s.get("errors"), s.get("failures")) for s in suites] == [("1", "0"), ("0", "1")]
    (run,) = json.loads(CliRunner().invoke(app, [*asked, "--format", "sarif"]).stdout)["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["unread", "copies"]
    names = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(names[r["ruleIndex"]] == r["ruleId"] for r in run["results"])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("copys", "no rule is called `copys`; did you mean `copies`?"),
        ("copies:max-byte=3", "rule `copies` has no parameter `max-byte`"),
        ("copies:max-bytes=many", "`max-bytes` of rule `copies`"),
        ("copies:large", "`large` of rule `copies` is not name=value"),
    ],
)
def test_a_rule_that_is_none_is_an_error_of_usage(rule: str, said: str) -> None:
    done = CliRunner().invoke(app, ["check", "-", "--rule", rule], input=COPY)
    assert done.exit_code == 2
    assert said in done.output
    assert "--rule RULE[:NAME=VALUE,..]" in done.output  # one line of help


# --------------------------------------------------------------------------------------- groups


def layers(count: int) -> str:
    """A program of one large product and `count` small copies from one source line."""
    copies = "".join(
        f'  c{k} = f32[64]{{0}} copy(x), metadata={{op_name="jit(f)/layer_{k}/copy" '
        f'source_file="m.py" source_line=7}}\n'
        for k in range(count)
    )
    return (
        "HloModule m\nENTRY e {\n  x = f32[64] parameter(0)\n  w = f32[1024,64] parameter(1)\n"
        f"{copies}  y = f32[1024,64] negate(w)\n"
        f"  ROOT t = ({', '.join(['f32[64]'] * count)}, f32[1024,64]) "
        f"tuple({', '.join(f'c{k}' for k in range(count))}, y)\n}}\n"
    )


def checked(text: str, **values: Any) -> Checked:
    return check_one(hs.read(text), "copies", **values)


def test_findings_of_one_line_are_one_group_with_their_share_of_the_step() -> None:
    found = checked(layers(20)).report
    (group,) = found.groups
    step = 20 * 512 + 2 * 1024 * 64 * 4  # bytes read and written by the copies and by `y`
    assert len(group.members) == 20
    assert group.share == pytest.approx(20 * 512 / step)
    assert "and 19 more" in group.headline.message
    assert "10 KiB in all, 1.9 % of the step" in group.headline.message


def test_severity_follows_the_share_of_the_step_and_small_groups_are_left_out() -> None:
    assert not checked(layers(1)).report.findings
    assert checked(layers(1)).report.small == 1
    warned = checked(layers(10)).report
    assert {finding.severity for finding in warned.findings} == {"warning"}
    assert not warned.failed
    assert checked(layers(40)).report.failed


def test_a_limit_in_bytes_is_meant_as_it_is_written() -> None:
    found = checked(layers(1), max_bytes=0).report
    assert [finding.severity for finding in found.findings] == ["error"]


def test_a_baseline_knows_groups_whatever_their_layers_are_called() -> None:
    before = checked(layers(40)).report
    renamed = layers(40).replace("layer_", "block_")
    after = checked(renamed).report
    assert not after.since(before.findings).findings
    grown = checked(layers(42)).report.since(before.findings)
    assert len(grown.findings) == 2
