"""`simplify` and `compose`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

LONG = "(d0, d1) -> ((d0 * 8 + d1) / 8), domain: d0 in [0, 9], d1 in [0, 7]"
SHORT = "(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 7]"


def test_simplify_prints_the_simplified_map(run: Any) -> None:
    result = run("simplify", LONG)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{SHORT}\n", "")


def test_simplify_reads_the_standard_input(run: Any) -> None:
    assert run("simplify", "-", stdin=f"\n{LONG}\n").stdout == f"{SHORT}\n"


@pytest.mark.parametrize(("map", "changed"), [(LONG, True), (SHORT, False)])
def test_simplify_json_says_whether_the_map_changed(ask: Any, map: str, changed: bool) -> None:
    expected = {"schema": "hloscope.map/1", "map": SHORT, "changed": changed}
    assert ask("simplify", "--json", map) == expected


def test_a_trace_goes_to_the_standard_error(run: Any) -> None:
    result = run("simplify", "--trace", LONG)
    assert result.stdout == f"{SHORT}\n"
    assert "(d0 * 8 + d1) / 8" in result.stderr


@pytest.mark.slow
def test_a_trace_of_a_long_chain_ends_with_what_is_left(run: Any) -> None:
    term = "d0"
    for number in range(600):
        term = f"(({term}) * 3 + d1) mod {100 + number}"
    result = run("simplify", "--trace", f"(d0, d1) -> ({term}), domain: d0 in [0, 9], d1 in [0, 9]")
    assert result.exit_code == 0
    assert re.fullmatch(r"… and [\d,]+ more steps", result.stderr.splitlines()[-1])
    assert len(result.stderr) < 300_000


def test_variables_with_one_value_are_kept_on_request(run: Any) -> None:
    m = "(d0) -> (d0), domain: d0 in [3, 3]"
    assert "-> (3)" in run("simplify", m).stdout
    assert "-> (d0)" in run("simplify", "--keep-points", m).stdout


def test_lines_answer_each_line_in_order(run: Any) -> None:
    lines = [{"map": LONG, "id": 1}, {"map": SHORT}, {"map": LONG, "point_dimensions": "preserve"}]
    result = run("simplify", "-", "--lines", stdin="\n".join(map(json.dumps, lines)))
    assert result.exit_code == 0
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [a["map"] for a in answers] == [SHORT] * 3
    assert [a["changed"] for a in answers] == [True, False, True]
    assert answers[0]["id"] == 1
    assert "id" not in answers[1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "not JSON"),
        ("[1, 2]", 'expected an object with "map"'),
        ('{"mpa": "x"}', 'expected an object with "map"'),
        ('{"map": 3}', "`map` must be a text, not 3"),
        (json.dumps({"map": SHORT, "point_dimension": True}), "did you mean `point_dimensions`?"),
        ('{"map": "(d0) -> (d0"}', "expected"),
        ("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), "not JSON"),
    ],
)
def test_a_bad_line_gives_an_error_and_the_others_an_answer(
    run: Any, line: str, message: str
) -> None:
    good = json.dumps({"map": LONG})
    result = run("simplify", "-", "--lines", stdin=f"{good}\n{line}\n{good}\n")
    assert result.exit_code == 3
    first, second, third = map(json.loads, result.stdout.splitlines())
    assert first == third
    assert first["map"] == SHORT
    assert second["line"] == 2
    assert message in second["error"]
    assert second["schema"] == "hloscope.map/1"


def test_a_bad_map_is_shown_with_a_caret(run: Any) -> None:
    result = run("simplify", "(d0) -> (d0 +), domain: d0 in [0, 9]")
    assert result.exit_code == 3
    assert result.stdout == ""
    message, line, caret = result.stderr.rstrip("\n").split("\n")
    assert ":1:" in message
    assert "error" in message
    assert line.index(")", 5) == caret.index("^")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lines", SHORT], "leave MAP out, or give `-`"),
        (["--lines", "--trace", "-"], "can't go with --lines"),
        ([], "MAP"),
    ],
)
def test_misuse_of_simplify_is_explained(run: Any, arguments: list[str], message: str) -> None:
    result = run("simplify", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_empty_standard_input_is_no_map(run: Any) -> None:
    result = run("simplify", "-", stdin="")
    assert result.exit_code == 3
    assert "empty" in result.stderr


def test_a_map_that_is_not_text_is_refused(run: Any) -> None:
    result = run("simplify", "-", stdin=b"\xff\xfe\x00")
    assert result.exit_code == 3
    assert "UTF-8" in result.stderr


SPLIT = "(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 63]"
JOIN = "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 7], d1 in [0, 7]"


def test_compose_applies_the_first_map_first(run: Any, ask: Any) -> None:
    composed = "(d0) -> (d0), domain: d0 in [0, 63]"
    assert run("compose", SPLIT, JOIN).stdout == f"{composed}\n"
    assert ask("compose", SPLIT, JOIN, "--json") == {
        "schema": "hloscope.compose/1",
        "map": composed,
    }
    assert run("compose", "-", JOIN, stdin=SPLIT).stdout == f"{composed}\n"


def test_maps_that_do_not_fit_are_a_usage_error(run: Any) -> None:
    result = run("compose", SPLIT, SPLIT)
    assert result.exit_code == 2
    assert "2" in result.stderr
    assert "1" in result.stderr
    assert run("compose", "-", "-").exit_code == 2
