"""`ls`: instructions by opcode, name, type, callee and place in the source; sorted; as a tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ROOT

TABLES = """\
HloModule m

FileNames
1 "/src/model/train.py"
2 "/lib/layers.py"

FunctionNames
1 "step"
2 "dense"

FileLocations
1 {file_name_id=1 function_name_id=1 line=120 end_line=122 column=4 end_column=9}
2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=1 end_column=2}
3 {file_name_id=2 function_name_id=2 line=8 end_line=8 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=2}

sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }

body { p = f32[64,32] parameter(0)
  q = f32[32,16] parameter(1)
  dot = f32[64,16] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/dense/dot_general" stack_frame_id=2}
  z = f32[] constant(0)
  ROOT r = f32[64] reduce(dot, z), dimensions={1}, to_apply=sum, metadata={op_name="jit(step)/dense/reduce_sum" stack_frame_id=3}
}

ENTRY e {
  x = f32[64,32] parameter(0), metadata={op_name="x"}
  w = f32[32,16] parameter(1), metadata={op_name="w"}
  f = f32[64] fusion(x, w), kind=kLoop, calls=body, metadata={op_name="jit(step)/dense/reduce_sum" stack_frame_id=3}
  old = f32[64] negate(f), metadata={op_name="neg" source_file="old.py" source_line=9}
  twice = f32[64] add(old, f), metadata={op_name="jit(step)/add" stack_frame_id=1}
  ROOT t = (f32[64], f32[64]) tuple(twice, old)
}
"""  # noqa: E501


def names(run: Any, *options: str) -> list[str]:
    rows = run("ls", "-", *options, "--tsv", stdin=TABLES).stdout.splitlines()
    return [row.split("\t")[0] for row in rows[1:]]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--opcode", "dot"], ["dot"]),
        (["--opcode", "a*d", "--shape", "f32[64]"], ["twice"]),
        (["--name", "%t*"], ["twice", "t"]),
        (["--name", "?"], ["a", "b", "c", "p", "q", "z", "r", "x", "w", "f", "t"]),
        (["--name", "p", "body"], ["p"]),
        (["--name", "p", "e"], []),
        (["--op-name", "dense"], ["dot", "r", "f"]),
        (["--op-name", "jit(step)/*_general"], ["dot"]),
        (["--shape", "f32[64,*]"], ["p", "dot", "x"]),
        (["--shape", "(f32[64], f32[64])"], ["t"]),
        (["--shape", "(f32[64],f32[64])"], ["t"]),
        (["--calls", "sum"], ["r"]),
        (["--calls", "*"], ["r", "f"]),
        (["--source", "layers.py:8"], ["r", "f"]),
        (["--source", "layers.py"], ["dot", "r", "f"]),
        (["--source", "ayers.py"], []),
        (["--source", "lay*.py:7-8"], ["dot", "r", "f"]),
        (["--source", "/lib/layers.py:7"], ["dot"]),
        (["--source", "train.py:121"], ["dot", "r", "f", "twice"]),
        (["--source", "model/train.py:123"], []),
        (["--source", "old.py:9"], ["old"]),
        (["--like", "f"], ["r", "f"]),
        (["--like", "body/dot"], ["dot"]),
        (["--fusions", "--source", "layers.py"], ["f"]),
        (["--sort", "users"], ["f", "old", "x", "w", "twice", "t"]),
        (["--sort", "bytes", "--top", "1"], ["f"]),
        (["--all", "--sort", "flops", "--top", "3"], ["f", "dot", "r"]),
        (["--all", "--opcode", "reduce", "--sort", "line"], ["r"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_instructions_are_chosen(run: Any, options: list[str], found: list[str]) -> None:
    assert names(run, *options) == found


def test_json_has_names_places_and_figures(ask: Any) -> None:
    listed = ask("ls", "-", "--opcode", "dot", "--sort", "flops", "--json", stdin=TABLES)
    (dot,) = listed["instructions"]
    assert dot["op_name"] == "jit(step)/dense/dot_general"
    assert dot["source"] == "/lib/layers.py:7"
    assert dot["flops"] == 2 * 64 * 32 * 16
    assert dot["line"] == 1 + TABLES[: TABLES.index("  dot =")].count("\n")


def test_nothing_found_is_said(run: Any) -> None:
    result = run("ls", "-", "--opcode", "sort", stdin=TABLES)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no instructions like that in -" in result.stderr


def test_what_has_no_place_has_nothing_like_it(run: Any) -> None:
    result = run("ls", "-", "--like", "x", stdin=TABLES)
    assert result.exit_code == 2
    assert "`x` does not say where it comes from" in result.stderr


def test_the_tree_has_each_computation_below_its_caller(run: Any, ask: Any) -> None:
    rows = [row.split() for row in run("ls", "-", "--tree", stdin=TABLES).stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["e", "6"], ["body", "5"], ["sum", "3"]]
    assert [row[2] for row in rows[1:]] == ["fusion", "reduce"]
    tree = ask("ls", "-", "--tree", "--json", stdin=TABLES)
    assert tree["schema"] == "hloscope.tree/1"
    assert [(c["name"], c["depth"], c["called_by"]) for c in tree["computations"]] == [
        ("e", 0, {}), ("body", 1, {"fusion": 1}), ("sum", 2, {"reduce": 1}),
    ]  # fmt: skip
    below = ask("ls", "-", "body", "--tree", "--json", stdin=TABLES)["computations"]
    assert [c["name"] for c in below] == ["body", "sum"]


def test_long_tuples_are_short_in_lists_and_whole_in_tsv(run: Any) -> None:
    elements = ", ".join(["f32[8]"] * 500)
    names = ", ".join(["p"] * 500)
    text = f"ENTRY e {{ p = f32[8] parameter(0)\n ROOT t = ({elements}) tuple({names}) }}"
    listed = run("ls", "-", stdin=text).stdout
    assert "(f32[8], f32[8], …, f32[8]; 500 in all)" in listed
    assert len(listed) < 500
    assert run("ls", "-", "--tsv", stdin=text).stdout.count("f32[8]") == 501


LONG = "a_name_that_is_" + "very_" * 20 + "long"


def terminal(*arguments: str, columns: int, stdin: str = "") -> list[str]:
    """The lines that the command writes to a terminal of so many columns."""
    reader, writer = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hloscope", *arguments],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "50"},
    )  # fmt: skip
    os.close(writer)
    process.communicate(stdin.encode())
    written = b""
    try:
        while part := os.read(reader, 1 << 16):
            written += part
    except OSError:  # the other end is closed
        pass
    os.close(reader)
    return written.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_terminal_gets_a_table_that_fits(columns: int) -> None:
    styled = terminal("ls", "-", "--all", columns=columns, stdin=TABLES)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in styled]
    assert len(lines) == 2 + 14
    assert max(map(len, lines)) <= columns
    assert {line.split()[0] for line in lines[2:]} >= {"dot", "twice", "old"}


def test_names_stay_whole_on_a_narrow_terminal() -> None:
    text = f"ENTRY e {{ {LONG} = f32[8] parameter(0) ROOT n = f32[8] negate({LONG}) }}"
    assert LONG in {line.split()[0] for line in terminal("ls", "-", columns=80, stdin=text)}


def test_a_pipe_is_not_padded_to_the_longest_name(run: Any, tmp_path: Path) -> None:
    text = f"ENTRY e {{ {LONG} = f32[8] parameter(0) ROOT n = f32[8] negate({LONG}) }}"
    lines = run("ls", "-", stdin=text).stdout.splitlines()
    assert any(line.startswith(f"{LONG}  parameter") for line in lines)
    assert len(next(line for line in lines if line.startswith("n "))) < len(LONG) + 100


@pytest.mark.parametrize(
    "options",
    ["--opcode dot", "--fusions", "--all", "--sort bytes", "--source a.py", "main", "--tree"],
)
def test_options_that_would_be_passed_over_are_refused(
    options: str, tmp_path: Path, run: Any
) -> None:
    (tmp_path / "m.hlo").write_text(TABLES)
    refused = run("ls", str(tmp_path), *options.split())
    assert refused.exit_code == 2
    assert "a directory lists none" in refused.stderr
    assert len(run("ls", str(tmp_path), "--tsv", "--top", "1").stdout.splitlines()) == 2
    if options in ("main", "--tree"):
        return
    refused = run("ls", "-", "--tree", *options.split(), stdin=TABLES)
    assert refused.exit_code == 2
    assert "--tree lists none" in refused.stderr
