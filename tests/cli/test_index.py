"""`index`: the answers in every form."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import hloscope
from hloscope import IndexingMap
from tests.cli.conftest import Run

SOFTMAX, KV = "examples/softmax.hlo", "examples/kv_cache.hlo"
CONV, TRANSPOSE = "examples/convolution.hlo", "examples/transpose.hlo"
MULTI = """\
HloModule m
fused { a = s32[1024] parameter(0)
  b = s32[] parameter(1)
  c = s32[1024] parameter(2)
  d = s32[1024] broadcast(b), dimensions={}
  mul = s32[1024] multiply(a, d)
  sum = s32[1024] add(mul, c)
  ROOT t = (s32[1024], s32[1024]) tuple(mul, sum) }
ENTRY e { x = s32[1024] parameter(0)
  y = s32[] parameter(1)
  z = s32[1024] parameter(2)
  ROOT f = (s32[1024], s32[1024]) fusion(x, y, z), kind=kLoop, calls=fused }
"""
IDENTITY = "(d0) -> (d0), domain: d0 in [0, 1023]"
NOTHING = "(d0) -> (), domain: d0 in [0, 1023]"


def read_maps(answer: Any) -> dict[tuple[int, int], list[str]]:
    """The maps' texts by (output, operand)."""
    return {
        (output["output"], operand["operand"]): [answer["maps"][m]["map"] for m in operand["maps"]]
        for output in answer["outputs"]
        for operand in operands_of(answer, output)
    }


def operands_of(answer: Any, output: Any) -> list[dict[str, Any]]:
    """What an output says of operands."""
    return [answer["operands"][number] for number in output["operands"]]


def check_schema(answer: Any) -> None:
    """Every key of schema `hloscope.index/3`, with values of its type."""
    assert answer["schema"] == "hloscope.index/3"
    backwards = answer["direction"] == "output_to_input"
    assert backwards or answer["direction"] == "input_to_output"
    assert set(answer) - {"op_name", "source"} == {
        "schema", "file", "instruction", "opcode", "computation", "direction", "outputs",
        "operands", "maps", *(() if backwards else ("unreached",)),
    }  # fmt: skip
    used = set()
    for output in answer["outputs"]:
        assert set(output) == {"output", "shape", "operands", *(["unread"] if backwards else [])}
    told = [number for output in answer["outputs"] for number in output["operands"]]
    assert {*told} == {*range(len(answer["operands"]))}
    assert len({json.dumps(o) for o in answer["operands"]}) == len(answer["operands"])
    for operand in answer["operands"]:
        assert set(operand) - {"leaf"} == {"operand", "name", "shape", "maps"}
        assert operand["maps"]
        used |= {*operand["maps"]}
    assert used == {*range(len(answer["maps"]))}
    assert len({json.dumps(m) for m in answer["maps"]}) == len(answer["maps"])
    for m in answer["maps"]:
        assert {"map", "precision"} <= set(m) <= {
            "map", "precision", "reason", "runtime_variables", "replica_id_map", "leaf",
        }  # fmt: skip
        assert m["precision"] in ("exact", "over", "unknown")
        assert (m["map"] is None) == (m["precision"] == "unknown")
        assert ("reason" not in m) == (m["precision"] == "exact")
        assert m.get("runtime_variables", True)
        for variable in m.get("runtime_variables", ()):
            assert set(variable) == {"name", "origin", "map"}


def test_the_entry_root_is_asked_about_without_a_name(ask: Any) -> None:
    answer = ask("index", SOFTMAX, "--json")
    check_schema(answer)
    assert answer["instruction"] == "softmax"
    assert answer["opcode"] == "fusion"
    assert answer["file"] == SOFTMAX
    names = [(o["name"], o["shape"]) for o in answer["operands"]]
    assert names == [("scores", "bf16[8,16,32]"), ("mask", "pred[16,32]"), ("scale", "f32[]")]
    box = "d0 in [0, 7], d1 in [0, 15], d2 in [0, 31]"
    assert read_maps(answer)[0, 0] == [
        f"(d0, d1, d2) -> (d0, d1, d2), domain: {box}",
        f"(d0, d1, d2)[s0] -> (d0, d1, s0), domain: {box}, s0 in [0, 31]",
    ]


def test_format_json_is_the_option_json(run: Any) -> None:
    assert run("index", KV, "--json").stdout == run("index", KV, "--format", "json").stdout


def test_all_outputs_are_answered_and_one_can_be_chosen(ask: Any) -> None:
    answer = ask("index", "-", "--json", stdin=MULTI)
    assert read_maps(answer) == {
        (0, 0): [IDENTITY], (0, 1): [NOTHING],
        (1, 0): [IDENTITY], (1, 1): [NOTHING], (1, 2): [IDENTITY],
    }  # fmt: skip
    assert [output["unread"] for output in answer["outputs"]] == [1, 0]
    one = ask("index", "-", "--output", "1", "--operand", "2", "--json", stdin=MULTI)
    assert read_maps(one) == {(1, 2): [IDENTITY]}


def test_print_indexing_prints_what_xla_does(run: Any) -> None:
    assert run("index", "-", "--format", "print_indexing", stdin=MULTI).stdout.splitlines() == [
        "Output 0 operand 0:", IDENTITY,
        "Output 0 operand 1:", NOTHING,
        "Output 1 operand 0:", IDENTITY,
        "Output 1 operand 1:", NOTHING,
        "Output 1 operand 2:", IDENTITY,
    ]  # fmt: skip


def test_print_indexing_agrees_with_xla_on_its_own_test(run: Any, shared: Path) -> None:
    file = shared / "conformance/xla/hlo_files.json"
    cases = [c for c in json.loads(file.read_text())["cases"] if c["kind"] == "print_indexing"]
    assert cases
    for case in cases:
        printed = run("index", "-", "--format", "print_indexing", stdin=case["hlo"]).stdout
        assert printed.splitlines() == [line["text"] for line in case["check_lines"]]


def test_from_operand_asks_in_the_other_direction(run: Any, ask: Any) -> None:
    answer = ask("index", TRANSPOSE, "transpose_fusion", "--from-operand", "0", "--json")
    check_schema(answer)
    assert answer["direction"] == "input_to_output"
    assert read_maps(answer) == {
        (0, 0): ["(d0, d1) -> (d1, d0 / 8, d0 mod 8), domain: d0 in [0, 63], d1 in [0, 95]"]
    }
    text = run("index", TRANSPOSE, "transpose_fusion", "--from-operand", "0").stdout
    assert "of operand 0, f32[64,96] x, reaches" in text


def test_runtime_variables_tell_their_origin(run: Any, ask: Any) -> None:
    answer = ask("index", KV, "embed_fusion", "--json")
    (first, _) = answer["operands"]
    (variable,) = answer["maps"][first["maps"][0]]["runtime_variables"]
    assert variable["name"] == "rt0"
    assert variable["origin"]
    assert variable["map"].startswith("(d0, d1) -> (d0")
    assert f"with rt0 = {variable['origin']}[" in run("index", KV, "embed_fusion").stdout


def test_text_names_operands_maps_and_conditions(run: Any) -> None:
    text = run("index", CONV, "conv").stdout
    assert text.startswith("conv = f32[1,8,8,8] convolution(image, filter)\n")
    assert "operand 0  f32[1,16,16,3]  image" in text
    assert "d1 * 2 + s0 in [1, 16]" in text
    assert max(map(len, text.splitlines())) <= 110


def test_operands_that_are_not_read_are_said_to_be(run: Any) -> None:
    assert "not read: operand 2 z\n" in run("index", "-", stdin=MULTI).stdout


def test_to_parameters_follows_the_reads_through_the_computation(run: Any, ask: Any) -> None:
    answer = ask("index", CONV, "--to-parameters", "--json")
    check_schema(answer)
    assert [o["name"] for o in answer["operands"]] == ["image", "filter", "bias"]
    assert read_maps(answer)[0, 2] == [
        "(d0, d1, d2, d3) -> (d3), domain: d0 in [0, 0], d1 in [0, 3], d2 in [0, 3], d3 in [0, 7]"
    ]
    one = ask("index", SOFTMAX, "row_sum", "--to-parameters", "--operand", "1", "--json")
    assert [len(maps) for maps in read_maps(one).values()] == [1]
    assert "parameter 1  pred[16,32]  fused.mask" in run(
        "index", SOFTMAX, "row_sum", "--to-parameters"
    ).stdout  # fmt: skip


UNKNOWN = """\
HloModule m
ENTRY e { x = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(x), custom_call_target="<mine & yours>" }
"""


def test_what_is_unknown_has_its_reason(run: Any, ask: Any) -> None:
    answer = ask("index", "-", "--json", stdin=UNKNOWN)
    check_schema(answer)
    (m,) = answer["maps"]
    assert m["precision"] == "unknown"
    assert "<mine & yours>" in m["reason"]
    assert m["reason"] in run("index", "-", stdin=UNKNOWN).stdout
    assert "unknown" in run("index", "-", "--format", "print_indexing", stdin=UNKNOWN).stdout


def test_physical_asks_for_indices_in_memory_order(run: Any, ask: Any) -> None:
    text = """\
HloModule m
ENTRY e { x = f32[4,8]{0,1} parameter(0)
  ROOT c = f32[4,8]{1,0} copy(x) }
"""
    assert read_maps(ask("index", "-", "--physical", "--json", stdin=text)) == {
        (0, 0): ["(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 7]"]
    }
    (linear,) = read_maps(ask("index", "-", "--linear", "--json", stdin=text))[0, 0]
    address = IndexingMap.parse("(d0) -> ((d0 mod 8) * 4 + d0 / 8), domain: d0 in [0, 31]")
    assert IndexingMap.parse(linear).equals(address)
    assert "Position (d0, d1) in memory" in run("index", "-", "--physical", stdin=text).stdout


def test_all_gives_a_line_for_each_instruction_with_operands(run: Any) -> None:
    lines = run("index", SOFTMAX, "--all").stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    for answer in answers:
        check_schema(answer)
    names = {a["instruction"] for a in answers}
    assert {"softmax", "row_max", "masked", "larger.of"} <= names
    assert "scores" not in names
    chosen = run("index", SOFTMAX, "--all", "--operand", "2").stdout.splitlines()
    assert {json.loads(line)["instruction"] for line in chosen} == {"softmax", "masked"}


def test_an_svg_marks_the_elements_that_are_read(run: Any) -> None:
    svg = run("index", SOFTMAX, "--format", "svg", "--at", "3,7,12").stdout
    root = ElementTree.fromstring(svg)
    space = {"s": "http://www.w3.org/2000/svg"}
    assert "What softmax[3, 7, 12] reads" in [t.text for t in root.iterfind(".//s:text", space)]
    cells = [cell.get("fill") for cell in root.iterfind(".//s:rect/s:title/..", space)]
    # rows of scores and mask but for the element of the same index, and that of scale
    assert cells.count("#74b3f0") == 2 * 31
    assert cells.count("#1864ab") == 3
    assert cells.count("#e8590c") == 1


def test_latex_has_a_line_for_each_map_and_escapes_names(run: Any) -> None:
    text = run("index", SOFTMAX, "--format", "latex").stdout
    assert text.startswith("\\begin{aligned}\n")
    assert text.count("\\mapsto") == 5
    assert text.count("\\\\\n") == 5  # the last line is what they share
    inner = run("index", SOFTMAX, "masked", "--format", "latex").stdout
    assert "\\texttt{masks}" in inner
    unknown = run("index", "-", "--format", "latex", stdin=UNKNOWN).stdout
    assert "<mine \\& yours>" in unknown


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)


def test_html_escapes_everything(run: Any) -> None:
    page = run("index", "-", "--format", "html", stdin=UNKNOWN).stdout
    assert "&lt;mine &amp; yours&gt;" in page
    tags = _Tags()
    tags.feed(page)
    assert not {"mine", "script", "a", "link", "img"} & set(tags.tags)
    assert {"table", "svg"} <= set(tags.tags)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output", "2"], "0 to 1"),
        (["--operand", "3"], "0 to 2"),
        (["--from-operand", "7"], "0 to 2"),
        (["--operand", "-1"], "-1"),
        (["--operand", "0", "--from-operand", "0"], "--operand goes with"),
        (["--to-parameters", "--operand", "9"], "0 to 2"),
        (["--to-parameters", "--from-operand", "0"], "opposite directions"),
        (["--at", "1", "--format", "latex"], "--at"),
        (["--at", "1,2", "--format", "svg"], "2 indices for a tensor with 1 dimension"),
        (["--at", "1024", "--format", "svg"], "index 1024 is not in [0, 1023]"),
        (["--at", "one", "--format", "svg"], "`one`"),
        (["f", "--all"], "--all"),
        (["--all", "--format", "svg"], "--all"),
        (["--format", "xml"], "xml"),
    ],
    ids=str,
)
def test_misuse_is_a_usage_error(run: Any, arguments: list[str], message: str) -> None:
    result = run("index", "-", *arguments, stdin=MULTI)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr


def test_pictures_say_of_what_nothing_is_touched(run: Run) -> None:
    picture = run("index", KV, "append_fusion", "--format", "svg")
    assert "nothing of it for this element" in picture.output


def test_pages_count_the_operands_of_a_tuple_that_are_not_touched(run: Run, tmp_path: Path) -> None:
    names = [f"x{k}" for k in range(9)]
    body = "".join(f"  {name} = f32[2] parameter({k})\n" for k, name in enumerate(names))
    types = ", ".join(["f32[2]"] * 9)
    program = tmp_path / "step.hlo"
    program.write_text(
        f"HloModule m\nENTRY e {{\n{body}  ROOT t = ({types}) tuple({', '.join(names)})\n}}\n"
    )
    page = run("index", str(program), "--format", "html").output
    assert page.count("8 operands") == 10  # in the picture and with each output
    assert len(page) < 12_000


def test_what_thousands_of_outputs_read_is_one_line_of_json(run: Run, tmp_path: Path) -> None:
    """150 outputs, each of which reads 150 parameters: answers that are equal are one object."""
    count = 150
    lines = [f"p{k} = f32[] parameter({k})" for k in range(count)]
    lines += ["s0 = f32[] negate(p0)"]
    lines += [f"s{k} = f32[] add(s{k - 1}, p{k})" for k in range(1, count)]
    lines += [f"o{k} = f32[] negate(s{count - 1})" for k in range(count)]
    shape, outputs = ", ".join(["f32[]"] * count), ", ".join([f"o{k}" for k in range(count)])
    body = "\n".join(lines)
    file = tmp_path / "many.hlo"
    file.write_text(f"HloModule m\nENTRY e {{\n{body}\nROOT r = ({shape}) tuple({outputs})\n}}")
    done = run("index", str(file), "--to-parameters", "--json")
    assert done.stdout.count("\n") == 1
    answer = hloscope.read(file.read_text(), name=str(file)).root.to_parameters(None)
    told = answer.to_json()
    found = json.loads(done.stdout)
    assert {**found, "file": ""} == {**told, "file": ""}
    assert sum([len(o["operands"]) for o in found["outputs"]]) == count * count
    assert len({id(o) for output in answer.answer.outputs for o in output.touched}) == count
    assert len(found["operands"]) == count  # and 4 bytes say which of them an output reads
    assert len(done.stdout) < 5 * count * count
    said = str(answer)
    assert said.count("reads the same as that of output 0") == count - 1
