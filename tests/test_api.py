"""What `import hloscope` gives: reading programs, asking about instructions."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import hloscope
from hloscope import InputError, ParseError, Program, UnknownNameError, VerifyError, read
from hloscope.api import comparisons, movements, value_runs

ROOT = Path(__file__).parents[1]
TEXT = """HloModule example

f {
  a = f32[4,6] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  s = f32[2,6] dynamic-slice(a, i, z), dynamic_slice_sizes={2,6}
  t = f32[6,2] transpose(s), dimensions={1,0}
  ROOT r = (f32[6,2], f32[2,6]) tuple(t, s)
}

g {
  a = f32[4,6]{0,1} parameter(0)
  ROOT n = f32[4,6]{1,0} negate(a)
}

ENTRY main {
  p = f32[4,6] parameter(0)
  i = s32[] parameter(1)
  fusion.1 = (f32[6,2], f32[2,6]) fusion(p, i), kind=kLoop, calls=f
  one = f32[6,2] get-tuple-element(fusion.1), index=0
  q = f32[4,6]{0,1} parameter(2)
  copied = f32[4,6]{1,0} fusion(q), kind=kLoop, calls=g
  ROOT out = (f32[6,2], f32[4,6]) tuple(one, copied)
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return read(TEXT)


# ------------------------------------------------------------------------------------- reading


class Compiled:
    """What jax's `Compiled` has."""

    def as_text(self) -> str:
        return TEXT


class Lowered:
    """What jax's `Lowered` has: text in several dialects."""

    def compile(self) -> Compiled:
        return Compiled()

    def as_text(self, dialect: str | None = None) -> str:
        return TEXT if dialect == "hlo" else "module @jit_f {}"


def test_a_program_is_read_from_everything_that_holds_text(tmp_path: Path) -> None:
    path = tmp_path / "dump.hlo"
    path.write_text(TEXT)
    with path.open() as text_file, path.open("rb") as binary_file:
        sources: list[Any] = [
            TEXT, TEXT.encode(), b"\xef\xbb\xbf" + TEXT.encode(), path, str(path),
            io.StringIO(TEXT), text_file, binary_file, Lowered(), Compiled(),
        ]  # fmt: skip
        for source in sources:
            assert read(source).name == "example"


def test_the_program_is_called_what_it_was_read_from(tmp_path: Path) -> None:
    path = tmp_path / "dump.hlo"
    path.write_text(TEXT)
    assert read(path).file == str(path)
    assert read(TEXT, name="mine").file == "mine"
    path.write_text("HloModul example")
    with pytest.raises(ParseError, match=r"dump\.hlo:1:"):
        read(path)


def test_one_line_is_text_where_it_has_braces() -> None:
    assert read("ENTRY e { ROOT p = f32[2] parameter(0) }").root.name == "p"


def test_two_programs_are_taken_in_every_form_that_is_read(tmp_path: Path) -> None:
    text = TEXT.replace("negate(a)", "abs(a)")
    path = tmp_path / "new.hlo"
    path.write_text(text)
    forms = [TEXT, TEXT.encode(), io.StringIO(TEXT), Compiled(), read(TEXT), read(TEXT).module]
    for a in forms:
        for b in (path, str(path), text, text.encode(), read(text)):
            if hasattr(a, "seek"):
                a.seek(0)
            assert not hloscope.diff(a, b).none
        if hasattr(a, "seek"):
            a.seek(0)
        assert hloscope.diff(a, TEXT).none
    assert {str(c.proof.verdict) for c in comparisons(TEXT, path)} == {"proved"}
    assert {str(c.proof.verdict) for c in movements(read(TEXT), TEXT)} == {"proved"}
    assert value_runs(TEXT, path, runs=2).difference is not None
    assert value_runs(read(TEXT).entry, TEXT, runs=2).difference is None
    page = read(text).explore(parts=[], before=TEXT)
    assert page.contents.chunks["diff"]["file"] == "<string>"
    with pytest.raises(InputError, match="no file"):
        hloscope.diff(TEXT, tmp_path / "missing.hlo")
    with pytest.raises(TypeError, match="expected a path, text"):
        hloscope.diff(TEXT, 3)  # type: ignore[arg-type]


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "model.hlo").write_text(TEXT)
    cases: list[tuple[Any, type[Exception], str]] = [
        (tmp_path / "modle.hlo", InputError, "did you mean `model.hlo`"),
        (str(tmp_path / "nowhere" / "x.hlo"), InputError, "there is no directory"),
        (tmp_path, InputError, "is a directory with model.hlo"),
        ("", InputError, "is empty"),
        (b" \n", InputError, "is empty"),
        (b"HloModule x\0", InputError, "binary"),
        (b"HloModule caf\xe9", InputError, "not UTF-8"),
        ("HloModule m\n// \ud800", InputError, "pair at offset 15, line 2"),
        (io.StringIO("HloModule \udcff"), InputError, "offset 10, line 1"),
        (b"ML\xefR\x01", ParseError, "byte 5, header"),
        ("module @jit_f {\n}", VerifyError, "has no function"),
        ("// a comment\n#loc = loc(unknown)\nmodule {\n}", VerifyError, "has no function"),
        (7, TypeError, "not int"),
    ]
    for source, kind, message in cases:
        with pytest.raises(kind, match=message):
            read(source)


def test_strict_reading_finds_errors_at_once() -> None:
    broken = TEXT.replace("negate(a)", "negate(nothing)")
    with pytest.raises(ParseError, match="nothing"):
        read(broken, strict=True)


JAX = """
import jax, hloscope
lowered = jax.jit(lambda x: x.T + 1.0).lower(jax.ShapeDtypeStruct((2, 3), "float32"))
for program in (hloscope.read(lowered), hloscope.read(lowered.compile())):
    print(program.root.shape)
"""


def test_jax_objects_are_read() -> None:
    if not find_spec("jax"):
        pytest.skip("jax is not installed")
    done = subprocess.run(
        [sys.executable, "-c", JAX], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["f32[3,2]", "f32[3,2]"]


# --------------------------------------------------------------------------------- finding names


def test_instructions_are_found_by_name(program: Program) -> None:
    assert program["fusion.1"].opcode == "fusion"
    assert program["%fusion.1"] == program["fusion.1"] == program["main/fusion.1"]
    assert program["f/a"] != program["g/a"]
    assert program["t"].name == "t"  # the only one
    assert "fusion.1" in program
    assert "fusion.2" not in program


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fusion.2", "did you mean `fusion.1`"),
        ("a", "2 computations have a `a`: say `f/a`, `g/a`"),
        ("f/b", "no instruction `b` in `f`"),
        ("h/a", "no computation `h`"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(
    program: Program, name: str, message: str
) -> None:
    with pytest.raises(UnknownNameError, match=message):
        program[name]


def test_a_program_lists_what_it_has(program: Program) -> None:
    assert [fusion.name for fusion in program.fusions()] == ["fusion.1", "copied"]
    assert [computation.name for computation in program.computations] == ["f", "g", "main"]
    assert len(list(program)) == sum(len(computation) for computation in program.computations)
    assert program.entry.root == program.root
    assert [p.name for p in program.entry.parameters] == ["p", "i", "q"]
    assert program.entry["copied"].operands[0].shape == "f32[4,6]"
    assert program["copied"].calls[0]["n"].opcode == "negate"
    with pytest.raises(UnknownNameError, match="no instruction `x` in `main`"):
        program.entry["x"]


# ---------------------------------------------------------------------------------------- asking


def test_the_answer_in_python(program: Program) -> None:
    answer = program["fusion.1"].indexing()
    assert len(answer) == 2
    assert str(answer[0].accesses[0].map).startswith("(d0, d1){rt0} -> (d1 + rt0, d0)")
    assert [len(maps) for maps in answer.maps] == [1, 1]
    with pytest.raises(ValueError, match="there are 2 maps"):
        _ = answer.map
    assert str(program["fusion.1"].indexing(1, 0).map).startswith("(d0, d1){rt0} -> (d0 + rt0, d1)")
    assert len(program["fusion.1"].indexing(None).answer.outputs) == 2


def test_the_answer_as_json_has_the_schema(program: Program) -> None:
    found = program["fusion.1"].indexing().to_json()
    assert json.loads(json.dumps(found)) == found
    assert found == {
        "schema": "hloscope.index/3",
        "file": "<string>",
        "instruction": "fusion.1",
        "opcode": "fusion",
        "computation": "main",
        "direction": "output_to_input",
        "outputs": [
            {
                "output": 0,
                "shape": "f32[6,2]",
                "operands": [0, 1],
                "unread": 0,
            }
        ],
        "operands": [
            {
                "operand": 0,
                "name": "p",
                "shape": "f32[4,6]",
                "maps": [0],
            },
            {
                "operand": 1,
                "name": "i",
                "shape": "s32[]",
                "maps": [1],
            },
        ],
        "maps": [
            {
                "map": "(d0, d1){rt0} -> (d1 + rt0, d0), domain: "
                "d0 in [0, 5], d1 in [0, 1], rt0 in [0, 2]",
                "precision": "exact",
                "runtime_variables": [
                    {
                        "name": "rt0",
                        "origin": "parameter(1)",
                        "map": "(d0, d1) -> (), domain: d0 in [0, 5], d1 in [0, 1]",
                    }
                ],
            },
            {
                "map": "(d0, d1) -> (), domain: d0 in [0, 5], d1 in [0, 1]",
                "precision": "exact",
            },
        ],
    }


def test_from_an_operand_to_the_outputs(program: Program) -> None:
    answer = program["copied"].indexing_from(0)
    assert answer.to_json()["direction"] == "input_to_output"
    assert str(answer.map) == "(d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 5]"
    outputs = program["fusion.1"].indexing_from(0).answer.outputs
    assert [output.number for output in outputs] == [0, 1]
    assert [o.number for o in program["fusion.1"].indexing_from(0, output=1).answer.outputs] == [1]


def test_memory_order_and_positions(program: Program) -> None:
    copied = program["copied"]
    column_major = copied.indexing(physical=True).map
    assert str(column_major).startswith("(d0, d1) -> (d1, d0)")
    position = copied.indexing(linear=True).map
    assert {at: position.evaluate((at,)) for at in (0, 1, 6)} == {0: (0,), 1: (4,), 6: (1,)}
    back = copied.indexing_from(0, linear=True).map
    assert all(back.evaluate(position.evaluate((at,))) == (at,) for at in range(24))


def test_an_operand_that_is_a_tuple_says_which_leaf(program: Program) -> None:
    one = program["one"]
    assert [entry.get("leaf", 0) for entry in one.indexing().to_json()["maps"]] == [0]
    second = read(TEXT.replace("index=0", "index=1").replace("one = f32[6,2]", "one = f32[2,6]"))
    assert [entry["leaf"] for entry in second["one"].indexing().to_json()["maps"]] == [1]
    assert str(second["one"].indexing_from(0, leaf=1).map).startswith("(d0, d1) -> (d0, d1)")
    assert not second["one"].indexing_from(0, leaf=0).maps[0]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda f: f.indexing(2), "`fusion.1` has no output 2; it has 0 to 1"),
        (lambda f: f.indexing(0, 5), "`fusion.1` has no operand 5; it has 0 to 1"),
        (lambda f: f.indexing(-1), "has no output -1"),
        (lambda f: f.indexing_from(9), "has no operand 9"),
        (lambda f: f.indexing_from(0, leaf=3), "has 1 leaves"),
        (lambda f: f.operands[0].indexing(0, 0), "`p` has no operand 0; it has none"),
        (lambda f: f.to_parameters(0, 7), "has no parameter 7"),
    ],
)
def test_a_number_that_does_not_exist_is_answered(program: Program, ask: Any, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        ask(program["fusion.1"])


def test_the_whole_way_to_the_parameters(program: Program) -> None:
    answer = program["one"].to_parameters()
    maps = [str(map).partition(", domain:")[0] for some in answer.maps for map in some]
    assert maps == ["(d0, d1){rt0} -> (d1 + rt0, d0)", "(d0, d1) -> ()"]


def test_every_value_inside_a_fusion(program: Program) -> None:
    """But `z`: the slice has all of that dimension, so it starts at 0 whatever `z` is."""
    found = program["fusion.1"].grouped(0)
    assert {value.name for value in found} == {"fusion.1", "r", "t", "s", "a", "i", "p"}
    assert program["f/a"] in found
    assert len(found[program["p"]]) == 1


def test_answers_show_themselves(program: Program) -> None:
    answer = program["fusion.1"].indexing()
    assert repr(answer) == str(answer)
    assert "fusion.1 = " in repr(answer)
    html = answer._repr_html_()
    assert "<svg" in html
    assert "script" not in html
    assert repr(program["copied"]) == "<copied = f32[4,6] fusion(q)>"
    assert repr(program) == "<example: 3 computations, <string>>"
    assert answer.to_print_indexing().splitlines()[0] == "Output 0 operand 0:"


def test_the_program_is_printed_back(program: Program) -> None:
    assert read(program.text()).text() == program.text()


# ----------------------------------------------------------------------------------- the package


def test_every_public_name_is_there() -> None:
    for name in hloscope.__all__:
        assert getattr(hloscope, name) is not None
        assert name in dir(hloscope)
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        _ = hloscope.nothing


def test_a_program_of_a_module_knows_that_regions_capture() -> None:
    text = """
    func.func @main(%a: tensor<4xf32>, %i: tensor<i32>, %c: tensor<i1>) -> tensor<2xf32> {
      %0 = "stablehlo.if"(%c) ({
        %1 = stablehlo.dynamic_slice %a, %i, sizes = [2]
            : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
        stablehlo.return %1 : tensor<2xf32>
      }, {
        %2 = stablehlo.slice %a [0:2] : (tensor<4xf32>) -> tensor<2xf32>
        stablehlo.return %2 : tensor<2xf32>
      }) : (tensor<i1>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    made = hloscope.Program(hloscope.parse_stablehlo(text))
    maps = [program["0"].indexing().maps for program in (made, hloscope.read(text))]
    assert len(maps[0]) > 1
    assert list(map(str, maps[0])) == list(map(str, maps[1]))


@pytest.mark.parametrize("given", ["ENTRY e { ROOT p = f32[2] parameter(0) }", None])
def test_a_program_is_made_of_a_module_only(given: str | None) -> None:
    program: object = given or hloscope.read("ENTRY e { ROOT p = f32[2] parameter(0) }")
    with pytest.raises(TypeError, match="a program is made of a module, not of"):
        hloscope.Program(program)  # type: ignore[arg-type]
