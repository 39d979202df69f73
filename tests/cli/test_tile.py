"""`hloscope tile`: text, JSON, pictures, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

import hloscope
from hloscope.cli.app import app
from tests.tiling.programs import PROGRAMS, TRANSPOSE


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    def asked(text: str, *options: str) -> Result:
        path = tmp_path / "program.hlo"
        path.write_text(text)
        return CliRunner().invoke(app, ["tile", str(path), *options])

    return asked


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_program_has_an_answer_in_every_form(ask: Any, name: str) -> None:
    program = hloscope.read(PROGRAMS[name])
    plain = ask(PROGRAMS[name])
    if name == "unbounded":
        assert plain.exit_code == 4
        assert "known sizes" in plain.output
        return
    assert plain.exit_code == 0, plain.output
    report = program.root.tiles().report
    whole = ",".join(str(max(p.size, 1)) for p in report.parameters)
    text = ask(PROGRAMS[name], "--sizes", ",".join(["1"] * len(report.parameters)), "--search")
    assert text.exit_code == 0, text.output
    found = json.loads(ask(PROGRAMS[name], "--sizes", whole, "--json").output)
    assert found["schema"] == "hloscope.tile/1"
    tiles = program.root.tiles([int(n) for n in whole.split(",") if n])
    ElementTree.fromstring(tiles.to_svg())
    assert "</html>" in tiles.to_html()


def test_a_tile_that_xla_refuses_is_said_to_be_possible(ask: Any) -> None:
    text = ask(PROGRAMS["two roots"], "--sizes", "4").output
    assert "XLA's tiling refuses it" in text
    assert "possible, although XLA refuses: 2 roots without users" in text


def test_sizes_against_the_constraints_are_refused_by_xla_and_shown_with_holes(ask: Any) -> None:
    text = ask(PROGRAMS["reshape"], "--sizes", "8").output
    assert "XLA refuses them: INVALID_ARGUMENT" in text
    assert "not always a strided box" in text
    assert "holes: " in text
    found = json.loads(ask(PROGRAMS["reshape"], "--sizes", "8", "--json").output)
    assert found["refusal"]["code"] == "INVALID_ARGUMENT"
    assert found["operands"][0]["missing"]["tile"] == [0]


def test_the_search_refuses_what_does_not_fit_with_both_numbers(ask: Any) -> None:
    text = ask(TRANSPOSE, "--search", "--device", "R9700").output
    assert "32 x 8 x 128 " in text
    assert "32 x 16 x 128: 131,072 B of shared memory needed, 65,536 there" in text


def test_the_sizes_of_a_dot_are_those_of_its_output_or_all(ask: Any) -> None:
    short, long = (
        ask(PROGRAMS["dot"], "--sizes", "16,8"),
        ask(PROGRAMS["dot"], "--sizes", "32,16,8"),
    )
    assert short.output == long.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sizes", "4,x"], "not a list of positive integers"),
        (["--sizes", "4,4"], "2 tile sizes, 1 are needed"),
        (["--sizes", "0"], "tile sizes are positive"),
        (["--sizes", "-4"], "not a list"),
        (["--sizes", "9" * 30], "not a list"),
        (["--format", "svg"], "say --sizes"),
        (["--search", "--device", "h10"], "no device `h10`"),
        (["no_such"], "no instruction `no_such`"),
    ],
)
def test_wrong_options_are_refused(ask: Any, options: list[str], message: str) -> None:
    result = ask(PROGRAMS["reshape"], *options)
    assert result.exit_code in (2, 3)
    assert message in result.output


def test_a_size_beyond_the_dimension_is_one_tile(ask: Any) -> None:
    assert ask(PROGRAMS["elementwise"], "--sizes", "1000000000000,16").exit_code == 0


def test_stablehlo_is_tiled_too() -> None:
    program = hloscope.read(
        "func.func @main(%a: tensor<4x8xf32>) -> tensor<8x4xf32> {\n"
        "  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>\n"
        "  return %0 : tensor<8x4xf32>\n}"
    )
    view = next(ins for ins in program if ins.opcode == "transpose")
    found = view.tiles([4, 2])
    assert found.refusal is None
    assert "2 x 4" in str(found)


def test_a_tiling_space_is_asked_of_the_instruction() -> None:
    program = hloscope.read(PROGRAMS["dot"])
    space = program.root.tiling_space().space
    assert [d.size for d in space.dimensions] == [64, 48, 32]


def test_the_space_is_told_with_the_tiles_of_every_instruction(ask: Any) -> None:
    text = ask(PROGRAMS["dot"], "--space", "--sizes", "16,16,8")
    assert text.exit_code == 0, text.output
    assert text.output.startswith("Dimensions:\n  0 type: parallel size: 64 tile size: 16")
    assert "region #0 {" in text.output
    found = json.loads(ask(PROGRAMS["dot"], "--space", "--json").output)
    assert found["schema"] == "hloscope.tile_space/1"
    assert [d["type"] for d in found["dimensions"]] == ["parallel", "parallel", "sequential"]


@pytest.mark.parametrize(
    "options", [["--sizes", "16"], ["--format", "svg", "--sizes", "16,16,8"], ["--search"]]
)
def test_what_a_space_has_not_is_a_wrong_use(ask: Any, options: list[str]) -> None:
    assert ask(PROGRAMS["dot"], "--space", *options).exit_code == 2


def test_the_notebook_form_is_a_fragment() -> None:
    found = hloscope.read(TRANSPOSE).root.tiles([16, 16, 128])._repr_html_()
    assert "<svg" in found
    assert "<html" not in found


def test_a_tuple_is_not_tiled_but_its_parts_are(ask: Any) -> None:
    text = (
        "ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) "
        "ROOT t = (f32[8], f32[8]) tuple(n, p) }"
    )
    refused = ask(text)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "give NAME, such as n" in refused.stderr
    assert ask(text, "n").exit_code == 0


@pytest.mark.slow
def test_tiles_of_more_dimensions_than_arrays_have_are_searched(ask: Any) -> None:
    sizes = [2, 1, 2] * 22
    text = f"ENTRY e {{ p = f32{sizes} parameter(0) ROOT r = f32{sizes} negate(p) }}"
    found = ask(text, "--search", "--top", "1")
    assert found.exit_code == 0, found.output


def test_values_read_where_others_were_read_have_tiles() -> None:
    """A condition on a value that is read says nothing of the place it is read from."""
    text = """
        last { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
        fused {
          at = s32[] parameter(0)
          p = f32[3,1] parameter(1)
          u = f32[3,3,1] parameter(2)
          two = s32[2] parameter(3)
          rows = s32[3,1] broadcast(at), dimensions={}
          s = f32[3,1] scatter(p, rows, u), update_window_dims={1,2}, inserted_window_dims={},
            scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=last
          one = s32[] constant(1)
          ones = s32[2] broadcast(one), dimensions={}
          begin = s32[2] add(two, ones)
          g = f32[3,1] gather(s, begin), offset_dims={0,1}, collapsed_slice_dims={},
            start_index_map={0,1}, index_vector_dim=0, slice_sizes={3,1}
          column = s32[1] broadcast(at), dimensions={}
          ROOT r = f32[1] gather(g, column), offset_dims={0}, collapsed_slice_dims={1},
            start_index_map={1}, index_vector_dim=0, slice_sizes={1,1}
        }
        ENTRY e {
          at = s32[] parameter(0)
          p = f32[3,1] parameter(1)
          u = f32[3,3,1] parameter(2)
          two = s32[2] parameter(3)
          ROOT r = f32[1] fusion(at, p, u, two), kind=kLoop, calls=fused
        }
    """
    done = CliRunner().invoke(app, ["tile", "-"], input=text)
    assert (done.exit_code, done.stdout.count("dimension 0 of r")) == (0, 1)


TRITON = """
f { p = f32[64,256] parameter(0) ROOT n = f32[64,256] negate(p) }
ENTRY e { a = f32[64,256] parameter(0) ROOT x = f32[64,256] fusion(a), kind=kCustom, calls=f,
  backend_config={"fusion_backend_config":{"kind":"__triton","block_level_fusion_config":{
  "num_warps":"2","output_tiles":[{"sizes":["4","8"]}]}}} }
"""


def test_without_sizes_those_of_the_dump_are_taken_and_ranked(ask: Any) -> None:
    text = ask(TRITON).output
    assert "Tile sizes of the dump (__triton): 4 x 8, 2 warps" in text
    assert "rank " in text
    assert "Tiles of 4 x 8: 16 x 32 = 512 programs" in text
    other = ask(TRITON, "--sizes", "2,256").output
    assert "Tiles of 2 x 256" in other
    assert "rank " not in other
