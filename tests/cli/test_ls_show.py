"""`ls` and `show`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import chain

SOFTMAX, KV = "examples/softmax.hlo", "examples/kv_cache.hlo"


def test_ls_lists_the_entry_computation(run: Any) -> None:
    result = run("ls", SOFTMAX)
    assert (result.exit_code, result.stderr) == (0, "")
    header, *rows = result.stdout.splitlines()
    titles = ["instruction", "opcode", "shape", "operands", "line", "source", "op", "name"]
    assert header.split() == titles
    assert [row.split()[0] for row in rows] == ["scores", "mask", "scale", "softmax"]
    assert rows[-1].split()[1:3] == ["fusion", "bf16[8,16,32]"]
    assert "\x1b" not in result.stdout


def test_ls_tells_the_line_in_the_file(run: Any) -> None:
    text = Path(SOFTMAX).read_text().splitlines()
    header, *rows = run("ls", SOFTMAX, "--tsv").stdout.splitlines()
    assert rows
    for row in rows:
        cells = dict(zip(header.split("\t"), row.split("\t"), strict=True))
        name, line = cells["instruction"], cells["line"]
        assert f"%{name} = " in text[int(line) - 1]


def test_ls_lists_another_computation(run: Any) -> None:
    rows = run("ls", SOFTMAX, "%larger").stdout.splitlines()[1:]
    assert [row.split()[1] for row in rows] == ["parameter", "parameter", "maximum"]


def test_ls_all_lists_everything(ask: Any) -> None:
    listed = ask("ls", SOFTMAX, "--all", "--json")["instructions"]
    assert {i["computation"] for i in listed} == {"larger", "plus", "fused_softmax", "main"}
    assert len(listed) == sum(" = " in line for line in Path(SOFTMAX).read_text().splitlines())


def test_ls_fusions_lists_fusions_with_their_kind_and_size(run: Any, ask: Any) -> None:
    rows = run("ls", KV, "--fusions").stdout.splitlines()[1:]
    assert [row.split()[:2] for row in rows] == [
        ["append_fusion", "kLoop"], ["recent_fusion", "kLoop"], ["embed_fusion", "kLoop"],
    ]  # fmt: skip
    described = ask("ls", KV, "--fusions", "--json")
    assert described["schema"] == "hloscope.ls/1"
    first = described["instructions"][0]
    line = first.pop("line")
    assert "append_fusion" in Path(KV).read_text().splitlines()[line - 1]
    assert first == {
        "name": "append_fusion",
        "opcode": "fusion",
        "shape": "f32[4,128,16]",
        "operands": ["cache", "new", "at"],
        "computation": "main",
        "kind": "kLoop",
        "calls": ["append"],
        "instructions": 5,
    }


def test_ls_says_where_there_is_no_fusion(run: Any) -> None:
    result = run("ls", "examples/convolution.hlo", "--fusions")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no fusions" in result.stderr


def test_ls_names_near_computations(run: Any) -> None:
    result = run("ls", SOFTMAX, "fused_sftmax")
    assert result.exit_code == 2
    assert "did you mean `fused_softmax`" in result.stderr


def test_show_prints_the_instruction_and_what_it_calls(run: Any) -> None:
    out = run("show", "examples/transpose.hlo", "transpose_fusion").stdout
    first, _, *called = out.splitlines()
    assert first.startswith("transpose_fusion = f32[96,8,8]{2,1,0} fusion(x)")
    assert called[0] == "heads (heads.x: f32[64,96]) -> f32[96,8,8] {"
    assert called[-1] == "}"
    assert sum(" = " in line for line in called) == 3
    assert "ROOT split" in out


def test_show_around_ends_with_the_program(run: Any) -> None:
    far = run("show", "examples/convolution.hlo", "sum", "--around", "9" * 30)
    assert far.stdout == run("show", "examples/convolution.hlo", "sum", "--around", "99").stdout


def test_show_around_marks_the_instruction_among_its_neighbours(run: Any, ask: Any) -> None:
    out = run("show", "examples/convolution.hlo", "sum", "--around", "1").stdout.splitlines()
    assert out[0] == "main:"
    assert [line.split(" = ")[0] for line in out[1:]] == [
        "  conv", "  biases", "> sum", "  pooled",
    ]  # fmt: skip
    shown = ask("show", "examples/convolution.hlo", "sum", "--around", "2", "--json")
    assert shown["schema"] == "hloscope.show/1"
    assert shown["operands"] == ["conv", "biases"]
    assert shown["users"] == ["pooled"]
    distances = {n["instruction"]: n["distance"] for n in shown["around"]}
    assert distances == {
        "conv": -1, "biases": -1, "image": -2, "filter": -2, "bias": -2, "pooled": 1,
    }  # fmt: skip


def test_show_prints_a_computation(run: Any, ask: Any) -> None:
    assert run("show", SOFTMAX, "%plus").stdout.startswith("plus (plus.a: f32[], plus.b: f32[])")
    shown = ask("show", SOFTMAX, "plus", "--json")
    assert shown["root"] == "plus.sum"
    assert len(shown["instructions"]) == 3


AMBIGUOUS = """\
HloModule m
one { p = f32[2] parameter(0)
  ROOT x = f32[2] negate(p) }
two { p = f32[2] parameter(0)
  ROOT x = f32[2] abs(p) }
ENTRY e { q = f32[2] parameter(0)
  a = f32[2] fusion(q), kind=kLoop, calls=one
  ROOT b = f32[2] fusion(a), kind=kLoop, calls=two }
"""


def test_a_name_in_several_computations_needs_the_computation(run: Any) -> None:
    result = run("show", "-", "x", stdin=AMBIGUOUS)
    assert result.exit_code == 2
    assert "one/x" in result.stderr
    assert "two/x" in result.stderr
    assert "abs(p)" in run("show", "-", "two/x", stdin=AMBIGUOUS).stdout
    assert "negate(p)" in run("show", "-", "%one/%x", stdin=AMBIGUOUS).stdout


@pytest.mark.parametrize("name", ["two/y", "tow/x", "z"])
def test_an_unknown_name_is_a_usage_error(run: Any, name: str) -> None:
    result = run("show", "-", name, stdin=AMBIGUOUS)
    assert result.exit_code == 2
    assert "no " in result.stderr


@pytest.mark.slow
def test_a_large_program_is_listed_in_linear_time(run: Any) -> None:
    rows = run("ls", "-", stdin=chain(20_000)).stdout.splitlines()
    assert len(rows) == 20_003
    assert rows[-1].split()[-1] == "20004"
