"""`coalesce` and `footprint`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

STEP = "examples/training_step.hlo"
WARP = 32
"""Threads of a warp of every device that a command knows by default."""


def test_the_worst_access_of_a_program_comes_first_with_its_line(run: Any) -> None:
    result = run("coalesce", STEP)
    first = result.stdout.splitlines()[1]
    assert result.exit_code == 0
    for part in ("21 MiB", "12.5 %", "residual_fusion", "`th_x * 4096`", "block.py:31"):
        assert part in first
    assert result.stderr == "4 kernels\n"


def test_json_has_the_figures_of_every_access(ask: Any) -> None:
    found = ask("coalesce", STEP, "residual_fusion", "--json")
    assert found["schema"] == "hloscope.coalesce/2"
    [kernel] = found["kernels"]
    assert kernel["launch"] == {"threads": [128, 1, 1], "blocks": [1536, 1, 1]}
    y = kernel["arrays"][1]
    assert (y["name"], y["xla_map"], y["precision"]) == ("y", False, "exact")
    assert y["sectors_per_request"]["histogram"] == {"32": y["requests"]}
    assert y["moved_bytes"] == 8 * y["asked_bytes"] == 32 * y["sectors"]
    assert y["spoiler"]["step_bytes"] == 16384
    assert kernel["source"] == "block.py:31"
    assert len(y["worst"]["addresses"]) == WARP


@pytest.mark.parametrize(("limit", "code"), [("0.5", 1), ("0.125", 0)])
def test_a_limit_decides_the_exit_code(run: Any, limit: str, code: int) -> None:
    result = run("coalesce", STEP, "--fail-below", limit)
    assert result.exit_code == code
    assert ("below" in result.stderr) == bool(code)


@pytest.mark.parametrize("name", ["residual_fusion", "bias_fusion", "weights_fusion"])
def test_pictures_are_well_formed_for_dark_and_light(run: Any, name: str) -> None:
    drawn = run("coalesce", STEP, name, "--format", "svg").stdout
    root = ElementTree.fromstring(drawn)
    assert root.tag.endswith("svg")
    assert "prefers-color-scheme:dark" in drawn
    assert ("partial" in drawn or "tile" in drawn) == (name != "residual_fusion")
    page = run("coalesce", STEP, name, "--format", "html").stdout
    assert page.startswith("<!doctype html>")
    assert "<script" not in page


def test_only_the_verdicts_of_xla_on_request(run: Any) -> None:
    result = run("coalesce", STEP, "residual_fusion", "--xla")
    assert result.stdout.count("uncoalesced") == 1
    assert run("coalesce", STEP, "--xla", "--fail-below", "0.5").exit_code == 2


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--device", "h1"], 2, "no device `h1`"),
        (["--launch", "8"], 2, "not blocks,threads"),
        (["--launch", "8,64", "--threads", "3"], 2, "both say how many threads"),
        (["--tile", "a"], 2, "not a list of positive integers"),
        (["--thread-map", "(d0"], 2, "not a map"),
        (["--thread-map", "blocked"], 2, "or CuTe's `(threads,values):(strides)`, found `blocked`"),
        (["--thread-map", "#ttg.blocked<{order = [0]}>"], 2, "expected `#ttg.blocked<{sizePerThr"),
        (["--thread-map", "(32,4):(1,32)"], 4, "needs the sizes of its tile"),
        (["--thread-map", "(x) -> (x), domain: x in [0, 3]"], 4, "`x` of the thread map"),
        (["nothing"], 2, "no instruction `nothing`"),
        (["x"], 4, "not a kernel"),
    ],
)
def test_wrong_questions_are_refused(run: Any, options: list[str], code: int, said: str) -> None:
    named = [] if not options[0].startswith("-") else ["residual_fusion"]
    result = run("coalesce", STEP, *named, *options)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_names_with_stars_ask_for_several(run: Any) -> None:
    assert run("coalesce", STEP, "*_fusion").stdout.count("(rules of") == 4


def test_footprints_of_a_program_are_sorted_and_add_up(ask: Any, run: Any) -> None:
    found = ask("footprint", STEP, "--json")
    assert found["schema"] == "hloscope.footprint/1"
    bytes_of = [kernel["runs"]["bytes"] for kernel in found["kernels"]]
    assert bytes_of == sorted(bytes_of, reverse=True)
    assert sum(bytes_of) == found["bytes"]
    assert "3.003 MiB" in run("footprint", STEP).stdout


def test_the_footprint_of_a_fusion(ask: Any, run: Any) -> None:
    [kernel] = ask("footprint", STEP, "residual_fusion", "--json")["kernels"]
    assert kernel["read_bytes"] == (2 * 1024 * 768 + 768) * 4
    assert kernel["reads"][2]["reuse"] == 1024
    assert "6.003 MiB read, 3 MiB written" in run("footprint", STEP, "residual_fusion").stdout


def test_pictures_of_footprints_show_every_array_and_kernel(run: Any) -> None:
    one = run("footprint", STEP, "residual_fusion", "--format", "svg").stdout
    assert one.count('class="read"') == 3
    assert one.count('class="written"') == 1
    every = run("footprint", STEP, "--format", "svg", "--top", "2").stdout
    assert every.count('class="read"') == every.count('class="written"') == 2
    assert run("footprint", STEP, "*_fusion", "--format", "html").stdout.count("<svg") == 4
    refused = run("footprint", STEP, "*_fusion", "--format", "svg")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "names 4 kernels" in refused.stderr


def test_kernels_alike_stand_in_one_line(run: Any) -> None:
    layers = "".join(
        f"  y{k} = f32[64,512] fusion(p{k}), kind=kLoop, calls=f{k}\n" for k in range(3)
    )
    arguments = "".join(f"  p{k} = f32[64,512] parameter({k})\n" for k in range(3))
    body = "x = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(x)"
    called = "".join(f"f{k} {{ {body} }}\n" for k in range(3))
    text = (
        f"{called}ENTRY e {{\n{arguments}{layers}  ROOT t = (f32[64,512], f32[64,512], f32[64,512])"
        " tuple(y0, y1, y2)\n}"
    )
    result = run("footprint", "-", stdin=text)
    _, line, everything = result.stdout.splitlines()
    assert "y0 and 2 like it" in line
    assert line.startswith("768 KiB  100.0 %")  # the total of the three, 256 KiB each
    assert everything.split()[:2] == ["768", "KiB"]
    assert "3 kernels" in result.stderr


def test_accesses_that_are_not_known_are_said(run: Any) -> None:
    side = 1 << 63
    text = (
        f"ENTRY e {{ p = f32[{side},{side}] parameter(0)\n"
        f"  ROOT t = f32[{side},{side}] transpose(p), dimensions={{1,0}} }}"
    )
    result = run("coalesce", "-", "--as-if", "h100", stdin=text)
    assert "no known access transfers unused bytes" in result.stderr
    assert "accesses of unknown transfers: 2 (t, p: " in result.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("coalesce", "1 kernel"),
        ("footprint", "1,024 bytes of 1 kernel"),
        ("cancel", "1 chain: 1 transpose; 1,024 bytes moved, 0 could be saved"),
    ],
)
def test_one_is_not_told_as_several(run: Any, tmp_path: Path, command: str, said: str) -> None:
    file = tmp_path / "one.hlo"
    body = "p = f32[8,16] parameter(0) ROOT r = f32[16,8]"
    file.write_text(
        f"HloModule m  f {{ {body} transpose(p), dimensions={{1,0}} }} "
        f"ENTRY e {{ {body} fusion(p), kind=kLoop, calls=f }}"
    )
    result = run(command, str(file))
    assert said in (result.stdout + result.stderr).splitlines()
