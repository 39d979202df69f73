"""`banks`: conflicts in shared memory of a map that somebody gives."""

from __future__ import annotations

from typing import Any

import pytest

COLUMN = "(th_x) -> (th_x, 0), domain: th_x in [0, 31]"


@pytest.mark.parametrize(
    ("bits", "width", "most"), [(32, 32, 32), (32, 33, 1), (16, 32, 16), (16, 34, 1), (32, 16, 16)]
)
def test_a_column_of_a_tile_is_as_bad_as_its_row_is_even(
    ask: Any, bits: int, width: int, most: int
) -> None:
    found = ask("banks", COLUMN, "--shape", f"32,{width}", "--bits", str(bits), "--json")
    assert found["schema"] == "hloscope.banks/1"
    words = [(lane * width * bits // 32) for lane in range(32)]
    busiest = max(len({w for w in words if w % 32 == bank}) for bank in range(32))
    assert found["max"] == busiest == most


def test_text_and_pictures(run: Any) -> None:
    assert "32 at worst" in run("banks", COLUMN, "--shape", "32,32").stdout
    assert run("banks", "-", "--shape", "32,33", stdin=COLUMN).stdout.endswith("no conflicts\n")
    svg = run("banks", COLUMN, "--shape", "32,32", "--format", "svg").stdout
    assert svg.count('class="bad"') == 32
    assert run("banks", COLUMN, "--shape", "32,33", "--format", "html").stdout.count("<svg") == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([COLUMN, "--shape", "32,"], 2),
        ([COLUMN, "--shape", "0,4"], 4),
        ([COLUMN, "--shape", "32"], 4),
        ([COLUMN, "--shape", "32,32", "--device", "h1000"], 2),
        (["nonsense", "--shape", "32,32"], 3),
    ],
)
def test_wrong_questions_are_refused(run: Any, arguments: list[str], code: int) -> None:
    found = run("banks", *arguments)
    assert found.exit_code == code
    assert "Traceback" not in found.stderr
