"""`hloscope cancel`: on programs of all kinds, hostile ones too."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hloscope import parse_hlo
from hloscope.cli.app import app
from hloscope.ir import size_text
from tests.conftest import SHARED

BACK_AND_FORTH = """
f {
  q = f32[8,4] parameter(0)
  n = f32[8,4] negate(q)
  ROOT u = f32[4,8] transpose(n), dimensions={1,0}
}
ENTRY e {
  p = f32[4,8] parameter(0)
  t = f32[8,4] transpose(p), dimensions={1,0}
  ROOT w = f32[4,8] fusion(t), kind=kLoop, calls=f
}
"""
FOUR = "f32[4,4] parameter(0)"
HOSTILE = {
    "zero-sized": "ENTRY e { p = f32[0,4] parameter(0) ROOT t = f32[4,0] transpose(p), "
    "dimensions={1,0} }",
    "rank 0": "ENTRY e { p = f32[] parameter(0) ROOT r = f32[1,1] reshape(p) }",
    "dynamic": "ENTRY e { p = f32[<=4,4] parameter(0) ROOT c = f32[<=4,4] copy(p) }",
    "tuple root": f"ENTRY e {{ p = {FOUR} t = f32[4,4] transpose(p), dimensions={{1,0}} "
    "ROOT r = (f32[4,4], f32[4,4]) tuple(t, t) }",
    "tuple copied": f"ENTRY e {{ p = {FOUR} t = (f32[4,4]) tuple(p) ROOT c = (f32[4,4]) copy(t) }}",
    "huge": "ENTRY e { p = f32[1073741824,1073741824] parameter(0) ROOT t = "
    "f32[1073741824,1073741824] transpose(p), dimensions={1,0} }",
    "nothing moves": "ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }",
    "joined of nothing": "ENTRY e { p = f32[0] parameter(0) q = f32[4] parameter(1) "
    "ROOT c = f32[4] concatenate(p, q), dimensions={0} }",
    "itself added": f"ENTRY e {{ p = {FOUR} t = f32[4,4] transpose(p), dimensions={{1,0}} "
    "s = f32[4,4] add(p, t) ROOT u = f32[4,4] transpose(s), dimensions={1,0} }",
}


def cancel(tmp_path: Path, text: str, *arguments: str) -> Result:
    file = tmp_path / "program.hlo"
    file.write_text(text)
    done = CliRunner().invoke(app, ["cancel", str(file), *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def test_a_chain_through_a_fusion_is_a_no_op(tmp_path: Path) -> None:
    done = cancel(tmp_path, BACK_AND_FORTH, "u", "--json")
    (chain,) = json.loads(done.output)["chains"]
    assert (chain["verdict"], chain["blocking"]) == ("no-op", None)
    assert [step["name"] for step in chain["steps"]] == ["t", "n", "u"]
    assert (chain["bytes_moved"], chain["bytes_saved"], chain["how"]) == (256, 256, "cancels")
    assert chain["rewriting"]["checked"] == "run"
    assert len(parse_hlo(chain["rewriting"]["text"]).entry) == 2
    assert chain["sources"][0]["proof"] == "proved"


@pytest.mark.parametrize("form", ["svg", "html"])
def test_pictures_are_well_formed_and_tell_the_verdict(tmp_path: Path, form: str) -> None:
    done = cancel(tmp_path, BACK_AND_FORTH, "--format", form)
    svg = done.output[done.output.index("<svg") : done.output.index("</svg>") + 6]
    texts = [e.text or "" for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("text")]
    assert "u: no-op" in texts
    assert texts.count("transpose") == 2


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_programs_get_an_answer(tmp_path: Path, text: str) -> None:
    done = cancel(tmp_path, text)
    assert done.exit_code == 0
    all_chains = done.output
    assert "chain" in all_chains
    done = cancel(tmp_path, text, "*")
    assert done.exit_code == (2 if "no chains" in all_chains else 0)


def test_a_chain_of_sixty_four_pairs_cancels(tmp_path: Path) -> None:
    lines = [f"x0 = {FOUR}"]
    for k in range(128):
        lines.append(f"x{k + 1} = f32[4,4] transpose(x{k}), dimensions={{1,0}}")
    done = cancel(tmp_path, "ENTRY e {\n" + "\n".join([*lines[:-1], f"ROOT {lines[-1]}"]) + "\n}")
    assert "  x128  no-op " in done.output.split("\n")[1]


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ("ENTRY e { p = f32[8,4]{0,1} parameter(0) ROOT n = f32[8,4]{0,1} copy(p) }", 0),
        ("ENTRY e { p = f32[4,8] parameter(0) ROOT n = f32[32] reshape(p) }", 0),
        ("ENTRY e { p = f32[4,8] parameter(0) ROOT n = f32[4,8] reverse(p), dimensions={0} }", 1),
    ],
)
def test_two_programs_that_move_the_same_bytes(tmp_path: Path, other: str, code: int) -> None:
    file = tmp_path / "other.hlo"
    file.write_text(other)
    assert cancel(tmp_path, BACK_AND_FORTH, str(file)).exit_code == code


def test_wrong_names_and_limits_are_refused(tmp_path: Path) -> None:
    assert cancel(tmp_path, BACK_AND_FORTH, "nobody").exit_code == 2
    assert cancel(tmp_path, BACK_AND_FORTH, "p").exit_code == 2
    assert cancel(tmp_path, BACK_AND_FORTH, "--top", "0").exit_code == 2
    assert cancel(tmp_path, "ENTRY e { p = f32[4 parameter(0) }").exit_code == 3


def models(full: bool) -> list[Path]:
    files = sorted((SHARED / "real/models").glob("*.hlo.txt"))
    return files if full else [f for f in files if f.stat().st_size < 150_000][:6]


def test_every_chain_of_real_models_gets_a_verdict(full: bool) -> None:
    files = models(full)
    if not files:
        pytest.skip("needs the conformance data beside the checkout (../shared)")
    for file in files:
        done = CliRunner().invoke(app, ["cancel", str(file), "--json", "--top", "3"])
        assert done.exit_code == 0, (file, done.output[:500])
        answer = json.loads(done.output)
        assert answer["verdicts"].get("undecided", 0) == 0, file


def test_a_bitcast_to_elements_of_another_width_moves_no_elements(tmp_path: Path) -> None:
    text = "ENTRY e { p = f32[4] parameter(0) b = u8[4,4] bitcast(p) ROOT r = u8[16] reshape(b) }"
    (chain,) = json.loads(cancel(tmp_path, text, "--json").output)["chains"]
    assert (chain["name"], chain["verdict"]) == ("r", "bitcast")
    assert chain["sources"][0]["name"] == "b"


SPLIT = """
half {{ x = f32[4,8] parameter(0) ROOT t = f32[8,4] transpose(x), dimensions={{1,0}} }}
ENTRY e {{ {} {}
  t = f32[8,4] transpose(p), dimensions={{1,0}}
  u = f32[32] reshape(t)
  r = f32[8,4] reshape(q)
  ROOT both = (f32[32], f32[8,4]) tuple(u, r) }}
"""
BOTH = SPLIT.format("p = f32[4,8] parameter(0)", "q = f32[32] parameter(1)")
TURNED = SPLIT.format("q = f32[32] parameter(0)", "p = f32[4,8] parameter(1)")


@pytest.mark.parametrize(
    ("ours", "theirs", "more", "code"),
    [
        ("", "", (), 1),  # the first parameter of one is the second of the other
        ("", "", ("--by-name",), 0),
        (":half", ":half", (), 0),
        (":half/t", ":half", (), 0),
        (":u", ":u", (), 1),
        (":u", ":u", ("--by-name",), 0),
        (":u", ":r", ("--by-name",), 1),
        (":u", "", ("--by-name",), 1),  # one output and two
        (":half", ":u", (), 1),  # one parameter and two
        (":half", ":u", ("--by-name",), 2),
        (":nobody", ":u", (), 2),
    ],
)
def test_computations_instructions_and_orders_of_parameters(
    tmp_path: Path, ours: str, theirs: str, more: tuple[str, ...], code: int
) -> None:
    files = [tmp_path / "a.hlo", tmp_path / "b.hlo"]
    for file, text in zip(files, (BOTH, TURNED), strict=True):
        file.write_text(text)
    asked = ["cancel", f"{files[0]}{ours}", f"{files[1]}{theirs}", *more]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == code, done.output


def test_maps_are_compared_with_maps_only(tmp_path: Path) -> None:
    square = "(d0) -> (d0 / 4, d0 mod 4), domain: d0 in [0, 15]"
    same = "(d0) -> (d0 / 4, d0 - (d0 / 4) * 4), domain: d0 in [0, 15]"
    ask = CliRunner().invoke
    assert ask(app, ["cancel", square, same]).exit_code == 0
    assert ask(app, ["cancel", square, same.replace("/ 4,", "/ 8,")]).exit_code == 1
    assert cancel(tmp_path, BOTH, square).exit_code == 2
    assert cancel(tmp_path, BOTH, "--by-name").exit_code == 2


CALLS = """
func.func private @turned(%x: tensor<64x128xf32>) -> tensor<128x64xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<64x128xf32>) -> tensor<128x64xf32>
  return %t : tensor<128x64xf32>
}
func.func @main(%a: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %0 = call @turned(%a) : (tensor<64x128xf32>) -> tensor<128x64xf32>
  %1 = stablehlo.negate %0 : tensor<128x64xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<128x64xf32>) -> tensor<64x128xf32>
  return %2 : tensor<64x128xf32>
}
"""


def test_calls_are_seen_through_and_what_a_function_returns_is_written(tmp_path: Path) -> None:
    (chain,) = json.loads(cancel(tmp_path, CALLS, "--json").output)["chains"]
    assert (chain["name"], chain["verdict"]) == ("2", "no-op")
    assert [step["name"] for step in chain["steps"]] == ["t", "1", "2"]
    hlo = """
    ENTRY e { a = f32[64,128] parameter(0) t = f32[128,64] transpose(a), dimensions={1,0}
      n = f32[128,64] negate(t) ROOT r = f32[64,128] transpose(n), dimensions={1,0} }"""
    (other,) = json.loads(cancel(tmp_path, hlo, "--json").output)["chains"]
    for figure in ("bytes_moved", "bytes_saved"):
        assert chain[figure] == other[figure]
    mlir = CALLS.replace("negate", "transpose").replace("%0 :", "%0, dims = [0, 1] :")
    mlir = mlir.replace("dims = [0, 1] : tensor<128x64xf32>",
                        "dims = [0, 1] : (tensor<128x64xf32>) -> tensor<128x64xf32>")  # fmt: skip
    (argument,) = json.loads(cancel(tmp_path, mlir, "--json").output)["chains"]
    size = 64 * 128 * 4  # an argument that is returned is written to a buffer of its own
    assert argument["bytes_moved"] - argument["bytes_saved"] == 2 * size


def layers(count: int) -> str:
    """Equal layers, each with two transposes that are one, and lines of the source."""
    lines = ["x0 = f32[4,8,2] parameter(0)"]
    for k in range(count):
        meta = f'metadata={{op_name="layer{k % 2}/t" source_file="a.py" source_line={k % 3 + 1}}}'
        lines += [
            f"s{k} = f32[4,8,2] sort(x{k}), dimensions={{0}}, to_apply=less",
            f"t{k} = f32[8,4,2] transpose(s{k}), dimensions={{1,0,2}}",
            f"u{k} = f32[2,4,8] transpose(t{k}), dimensions={{2,1,0}}, {meta}",
            f"x{k + 1} = f32[4,8,2] reshape(u{k})",
        ]
    less = "less { a = f32[] parameter(0) b = f32[] parameter(1) "
    less += "ROOT c = pred[] compare(a, b), direction=LT }\n"
    body = "\n".join(lines)
    last = f"ROOT n = f32[4,8,2] sort(x{count}), dimensions={{0}}, to_apply=less"
    return f"{less}ENTRY e {{\n{body}\n{last} }}"


def test_equal_layers_are_one_row_and_rows_add_up(tmp_path: Path) -> None:
    size = 2 * 4 * 8 * 2 * 4
    answer = json.loads(cancel(tmp_path, layers(80), "--json").output)
    members = [group["number_of_members"] for group in answer["groups"]]
    assert members == [27, 27, 26]  # of the three source lines
    assert [group["bytes_moved"] for group in answer["groups"]] == [2 * n * size for n in members]
    assert (answer["bytes_moved"], answer["bytes_saved"]) == (160 * size, 80 * size)
    text = cancel(tmp_path, layers(80)).output
    assert "x1 and 26 like it" in text
    assert " all" in text.split("\n")[4]


@pytest.mark.parametrize(
    ("by", "groups"), [("group", 3), ("kernel", 7), ("source", 3), ("scope", 2), ("opcode", 1)]
)
def test_every_grouping_has_the_same_sum(tmp_path: Path, by: str, groups: int) -> None:
    whole = json.loads(cancel(tmp_path, layers(7), "--json", "--by", by, "--top", "999").output)
    for figure in ("bytes_moved", "bytes_saved"):
        assert sum([group[figure] for group in whole["groups"]]) == whole[figure]
    assert len(whole["groups"]) == whole["number_of_groups"] == groups
    assert sum([group["share"] for group in whole["groups"]]) == pytest.approx(1)
    lines = cancel(tmp_path, layers(7), "--by", by, "--top", "1").output.split("\n")
    assert ("more rows" in "".join(lines)) == (groups > 1)
    assert any([line.startswith(size_text(whole["bytes_moved"])) for line in lines])
