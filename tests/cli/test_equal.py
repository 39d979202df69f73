"""`equal`: two maps, instructions or programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import hloscope
from hloscope.errors import OutOfTimeError
from hloscope.proof.equality import compare
from hloscope.simplifier.verdicts import Verdict

SAME = "same elements read; values not compared"
MAP = "(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]"


@pytest.mark.parametrize(
    ("a", "b", "code", "word"),
    [
        (MAP, MAP, 0, "equal"),
        ("(d0) -> (d0 mod 8), domain: d0 in [0, 7]", "(d0) -> (d0), domain: d0 in [0, 7]", 0, "eq"),
        ("(d0) -> (d0 mod 8), domain: d0 in [0, 8]", "(d0) -> (d0), domain: d0 in [0, 8]", 1,
         "  the maps: different: (8) -> (0) only in the first"),
        (MAP, "(d0) -> (d0), domain: d0 in [0, 3]", 1, "different"),
        (MAP, "(d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 7]", 1, "different"),
    ],
)  # fmt: skip
def test_maps(run: Any, a: str, b: str, code: int, word: str) -> None:
    result = run("equal", a, b)
    assert (result.exit_code, result.stderr) == (code, "")
    assert word in result.stdout


def program(tmp_path: Path, name: str, body: str, parameters: int = 1) -> Path:
    lines = [f"  p{k} = f32[4,8] parameter({k})" for k in range(parameters)]
    file = tmp_path / f"{name}.hlo"
    file.write_text("HloModule m\nENTRY e {\n" + "\n".join([*lines, body]) + "\n}\n")
    return file


def test_programs_are_equal_whatever_way_they_go(run: Any, tmp_path: Path) -> None:
    one = program(tmp_path, "one", "  ROOT t = f32[8,4] transpose(p0), dimensions={1,0}")
    other = program(
        tmp_path,
        "other",
        "  a = f32[4,8] reverse(p0), dimensions={1}\n"
        "  b = f32[8,4] transpose(a), dimensions={1,0}\n"
        "  ROOT c = f32[8,4] reverse(b), dimensions={0}",
    )
    third = program(tmp_path, "third", "  ROOT t = f32[8,4] reshape(p0)")
    assert run("equal", one, other).exit_code == 0
    result = run("equal", one, third)
    assert result.exit_code == 1
    assert "output 0, parameter 0: different: (" in result.stdout
    found = json.loads(run("equal", one, third, "--json").stdout)
    assert (found["schema"], found["verdict"]) == ("hloscope.equal/1", "refuted")
    example = found["compared"][0]["counter_example"]
    (i, j), touched = example["index"], example["touched"]
    flat = i * 4 + j
    reads = {"A": [j, i], "B": [flat // 8, flat % 8]}
    assert reads[example["only_in"]] == touched
    assert reads["A"] != reads["B"]


def test_instructions_of_two_files(run: Any, tmp_path: Path) -> None:
    one = program(tmp_path, "one", "  ROOT t = f32[4,8] add(p0, p1)", 2)
    other = program(tmp_path, "other", "  ROOT t = f32[4,8] multiply(p0, p1)", 2)
    assert run("equal", f"{one}:t", f"{other}:t").stdout == f"{SAME}: 2 of 2 comparisons proved\n"
    assert run("equal", f"{one}:t", f"{one}:p0").exit_code == 1


def test_what_is_not_exact_is_undecided(run: Any, tmp_path: Path) -> None:
    body = '  ROOT c = f32[4,8] custom-call(p0), custom_call_target="mine"'
    one = program(tmp_path, "one", body)
    two = program(tmp_path, "two", body.replace("mine", "yours"))
    result = run("equal", one, two)
    assert result.exit_code == 4
    assert "undecided: unknown: custom-call `mine`" in result.stdout


@pytest.mark.parametrize(
    ("body", "parameters"),
    [("  ROOT t = f32[8,4] reshape(p0)", 2), ("  ROOT t = (f32[4,8], f32[4,8]) tuple(p0, p0)", 1),
     ("  ROOT t = f32[4,8] negate(p0)", 1)],
)  # fmt: skip
def test_other_shapes_are_different(run: Any, tmp_path: Path, body: str, parameters: int) -> None:
    one = program(tmp_path, "one", "  ROOT t = f32[8,4] reshape(p0)")
    assert run("equal", one, program(tmp_path, "other", body, parameters)).exit_code == 1


def test_different_kinds_are_wrong_usage(run: Any, tmp_path: Path) -> None:
    one = program(tmp_path, "one", "  ROOT t = f32[8,4] reshape(p0)")
    result = run("equal", one, MAP)
    assert result.exit_code == 2
    assert "two maps, two instructions or two programs" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(d0 floordiv 128), domain: d0 in " + "]" * 5000, "<map>:1:5: error: expected `,` or `)`"),
        ("(d0, d1), domain: d0 in [0, 3]", "<map>:1:"),
        ("x" * 5000, "error: cannot read `xxx"),
        ("x" * 5000 + ":add", "error: cannot read `xxx"),
    ],
    ids=["a map without end", "a map without arrow", "a long name", "an instruction"],
)
def test_a_broken_map_is_no_file_and_a_long_name_is_no_bug(
    run: Any, text: str, message: str
) -> None:
    result = run("equal", MAP, text)
    assert result.exit_code in (2, 3)
    assert result.stderr.startswith(message)


def test_a_file_may_have_a_name_like_a_map(run: Any, tmp_path: Path) -> None:
    one = program(tmp_path, "(d0)", "  ROOT t = f32[8,4] reshape(p0)")
    assert run("equal", one, one).exit_code == 0
    assert run("equal", f"{one}:t", f"{one}:t").exit_code == 0


def test_programs_of_one_text_are_equal_whatever_is_known_of_their_ops(
    run: Any, tmp_path: Path
) -> None:
    text = (
        "ENTRY e { a = f32[4] parameter(0)"
        ' ROOT r = f32[4] custom-call(a), custom_call_target="nobody", METADATA }'
    )
    for name, said in (("a.hlo", 'op_name="f"'), ("b.hlo", 'op_name="g"')):
        (tmp_path / name).write_text(text.replace("METADATA", f"metadata={{{said}}}"))
    result = run("equal", tmp_path / "a.hlo", tmp_path / "b.hlo")
    assert (result.exit_code, result.stdout) == (0, f"{SAME}\n")


LAYER = """
fused.{n} {{
  a = f32[4,4] parameter(0)
  w = f32[4,4] parameter(1)
  t = f32[4,4] transpose(w), dimensions={{{dims}}}
  ROOT m = f32[4,4] {op}(a, t)
}}
"""


def layers(
    tmp_path: Path, name: str, last: str = "add", dims: str = "1,0", count: int = 60
) -> Path:
    """A program of many layers; the first may multiply, or transpose otherwise."""
    fused = "".join(
        LAYER.format(n=k, dims=dims if k == 0 else "1,0", op=last if k == 0 else "add")
        for k in range(count)
    )
    body = "".join(
        f"  x{k + 1} = f32[4,4] fusion(x{k}, w), kind=kLoop, calls=fused.{k}\n"
        f"  y{k} = f32[4,4] negate(x{k + 1})\n"
        f"  z{k} = f32[4,4] dot(y{k}, x{k + 1}), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        for k in range(count)
    )
    results = ", ".join(f"z{k}" for k in range(count))
    types = ", ".join(["f32[4,4]"] * count)
    file = tmp_path / f"{name}.hlo"
    file.write_text(
        f"HloModule m\n{fused}ENTRY e {{\n  x0 = f32[4,4] parameter(0)\n"
        f"  w = f32[4,4] parameter(1)\n{body}  ROOT t = ({types}) tuple({results})\n}}\n"
    )
    return file


def test_a_changed_op_that_reads_the_same_is_no_difference(run: Any, tmp_path: Path) -> None:
    one, other = layers(tmp_path, "one"), layers(tmp_path, "other", "multiply")
    result = run("equal", one, other)
    assert (result.exit_code, result.stdout) == (0, f"{SAME}: 60 of 60 comparisons proved\n")


def test_a_changed_op_that_reads_otherwise_has_an_index_that_tells(
    run: Any, tmp_path: Path
) -> None:
    one, other = layers(tmp_path, "a", count=2), layers(tmp_path, "b", dims="0,1", count=2)
    result = run("equal", one, other)
    assert result.exit_code == 1
    assert "output 0, parameter 1: different: (" in result.stdout


def test_outputs_that_are_undecided_for_one_reason_are_said_together(
    run: Any, tmp_path: Path
) -> None:
    body = (
        '  c = f32[4,8] custom-call(p0), custom_call_target="{target}"\n'
        "  ROOT t = (f32[4,8], f32[4,8], f32[4,8]) tuple(c, c, c)"
    )
    one = program(tmp_path, "one", body.format(target="mine"))
    two = program(tmp_path, "two", body.format(target="yours"))
    lines = run("equal", one, two).stdout.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("  output 0, parameter 0 and 2 more: undecided: unknown: ")


def test_what_takes_too_long_is_undecided_by_name(tmp_path: Path) -> None:
    a, b = (
        hloscope.read(layers(tmp_path, name, dims=dims)).entry.ir
        for name, dims in (("a", "1,0"), ("b", "0,1"))
    )
    found = list(compare(a, b, seconds=0))
    assert {c.proof.verdict for c in found} == {Verdict.UNDECIDED}
    assert "`x1` may read differently" in found[-1].proof.reason


def test_what_takes_too_long_to_compose_has_an_index_where_it_begins(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long(_: object) -> None:
        raise OutOfTimeError("no time")

    monkeypatch.setattr("hloscope.proof.equality._by_parameter", too_long)
    one, other = layers(tmp_path, "a", count=3), layers(tmp_path, "b", dims="0,1", count=3)
    result = run("equal", one, other, "--seconds", "60")
    assert result.exit_code == 4
    assert result.stdout.splitlines()[1] == (
        "  output 0 and 2 more: undecided: `x1` reads `w` differently: "
        "(1, 0) -> (0, 1) only in the first, and what follows takes too long to compose"
    )


def test_the_time_of_a_comparison_can_be_chosen(run: Any, tmp_path: Path) -> None:
    one, other = layers(tmp_path, "a"), layers(tmp_path, "b", dims="0,1")
    result = run("equal", one, other, "--seconds", "1e-9")
    assert result.exit_code == 4
    assert "`x1` may read differently" in result.stdout
    assert run("equal", one, other, "--seconds", "0").exit_code == 2


def test_an_index_read_at_run_time_must_be_the_same_value(run: Any, tmp_path: Path) -> None:
    body = (
        "  i = s32[] parameter(1)\n  j = s32[] {op}(i, i)\n  z = s32[] constant(0)\n"
        "  n = f32[4,8] negate(p0)\n"
        "  ROOT t = f32[1,8] dynamic-slice(n, j, z), dynamic_slice_sizes={{1,8}}"
    )
    one = program(tmp_path, "one", body.format(op="add"))
    other = program(tmp_path, "other", body.format(op="multiply"))
    assert run("equal", one, one).exit_code == 0
    assert run("equal", one, other).exit_code != 0


ROWS = """
    k = s32[6,1] negate(i)
    g = f32[6,4] gather(w, k), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
      index_vector_dim=1, slice_sizes={1,4}
    d = f32[6,6] dot(g, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}
    n = f32[6,6] CHANGED
    ROOT r = f32[6] reduce(n, zero), dimensions={1}, to_apply=add
"""


def rows(tmp_path: Path, name: str, changed: str) -> Path:
    """Rows of a table, all of which every output reads."""
    path = tmp_path / f"{name}.hlo"
    path.write_text(
        "HloModule m\n"
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { w = f32[9,4] parameter(0) i = s32[6,1] parameter(1) zero = f32[] constant(0)"
        f"{ROWS.replace('CHANGED', changed)}}}\n"
    )
    return path


@pytest.mark.parametrize(
    "changed", ["reverse(d), dimensions={1}", "transpose(d), dimensions={1,0}"]
)
def test_indices_of_equal_structure_are_the_same_in_both_programs(
    run: Any, tmp_path: Path, changed: str
) -> None:
    one, other = rows(tmp_path, "a", "sine(d)"), rows(tmp_path, "b", changed)
    result = run("equal", one, other)
    assert result.exit_code == 0, result.stdout


@pytest.mark.parametrize("index", ["k = s32[6,1] abs(i)", "k = s32[6,1] negate(k0)"])
def test_indices_that_may_be_other_values_are_undecided(
    run: Any, tmp_path: Path, index: str
) -> None:
    one, other = rows(tmp_path, "a", "sine(d)"), rows(tmp_path, "b", "sine(d)")
    text = other.read_text()
    other.write_text(text.replace("k = s32[6,1] negate(i)", f"k0 = s32[6,1] copy(i)\n {index}"))
    for side in (one, other):  # one row is read
        side.write_text(side.read_text().replace("reduce(n, zero), dimensions={1}", "slice(n)"))
        text = side.read_text().replace("slice(n), to_apply=add", "reshape(u)")
        side.write_text(
            text.replace("ROOT r", "u = f32[6,1] slice(n), slice={[0:6], [0:1]}\nROOT r")
        )
    result = run("equal", one, other)
    assert result.exit_code == 4, result.stdout
    assert "which both may know by other names" in result.stdout


FUSED = """HloModule m
f {{ x = s32[8] parameter(0) n = s32[] parameter(1) k = s32[] negate(n) z = s32[] constant(0)
  y = s32[12] pad(x, z), padding=0_4
  ROOT d = s32[8] dynamic-slice(y, k), dynamic_slice_sizes={{8}} }}
ENTRY e {{ p = s32[8] parameter(0) i = s32[] parameter(1)
  a = s32[8] fusion(p, i), kind=kLoop, calls=f
  ROOT b = s32[8] {0} }}
"""


def test_indices_inside_of_equal_fusions_are_the_same(run: Any, tmp_path: Path) -> None:
    ways = ["negate(a)", "reverse(a), dimensions={0}"]
    one, other = (tmp_path / name for name in "ab")
    for path, way in zip((one, other), ways, strict=True):
        path.write_text(FUSED.format(way))
    result = run("equal", one, other)
    assert result.exit_code == 1, result.stdout
    assert "only in the first" in result.stdout
    assert run("equal", f"{one}:a", f"{other}:a").exit_code == 0


def test_instructions_are_compared_by_the_numbers_of_their_operands(
    run: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.hlo"
    path.write_text(
        "ENTRY e { p = f32[8] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)\n"
        "  a = f32[4] dynamic-slice(p, i), dynamic_slice_sizes={4}\n"
        "  b = f32[4] dynamic-slice(p, j), dynamic_slice_sizes={4}\n"
        "  c = f32[4] dynamic-update-slice(a, b, i)\n"
        "  ROOT d = f32[4] dynamic-slice(a, i), dynamic_slice_sizes={4} }"
    )
    assert run("equal", f"{path}:a", f"{path}:b").exit_code == 0
    assert run("equal", f"{path}:a", f"{path}:c").exit_code == 1


ROUND3 = Path(os.environ.get("HLOSCOPE_SHARED", "../shared")) / "regressions/round3/compare"
needs_round3 = pytest.mark.skipif(not ROUND3.is_dir(), reason="needs ../shared")


@needs_round3
@pytest.mark.parametrize(
    ("a", "b", "code", "said"),
    [("agA", "agB", 1, "with 2 x 1 devices"), ("arA", "arB", 1, "with 4 x 1 devices"),
     ("cbA", "cbB", 1, "with 2 x 1 devices"), ("agA", "agA", 0, SAME), ("arB", "arB", 0, SAME),
     ("eqA", "eqB", 1, "type s32[4], and s32[3]"), ("eqA", "eqC", 1, "type s32[4], and s32[5]"),
     ("equal_add", "equal_sub", 0, SAME)],
)  # fmt: skip
def test_who_takes_part_and_types_are_compared(
    run: Any, a: str, b: str, code: int, said: str
) -> None:
    files = [ROUND3 / f"{name}.hlo" for name in (a, b)]
    result = run("equal", *files)
    assert (result.exit_code, said in result.stdout) == (code, True), result.stdout
    assert run("cancel", *files).exit_code == code


@needs_round3
@pytest.mark.parametrize(
    ("a", "b", "code", "said"),
    [("c08_ds_before", "c08_ds_after", 1, "different: values differ in run"),
     ("c08_ds_before", "c08_ds_right", 0, "no difference found in 64 runs\n"),
     ("equal_add", "equal_sub", 1, "output 0 at ["),
     ("f01_spmd_dus_before", "f01_spmd_dus_after", 1, "output 0 of device (0, 1) at [0, 0]: 99 in"),
     ("agA", "agB", 1, "on 2 x 1 devices"), ("eqA", "eqB", 1, "different: output 0: type s32[4]")],
)  # fmt: skip
def test_values_are_compared_by_runs(run: Any, a: str, b: str, code: int, said: str) -> None:
    files = [ROUND3 / f"{name}.hlo" for name in (a, b)]
    result = run("equal", "--values", *files)
    assert (result.exit_code, said in result.stdout) == (code, True), result.stdout
    found = json.loads(run("equal", "--values", *files, "--json").stdout)
    jsonschema.validate(found, json.loads(run("schema", "equal").stdout))
    assert (found["what"], found["verdict"]) == (
        "values",
        "refuted" if code else "no difference found",
    )


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [("f32", "f32", 0), ("f32", "s32", 1), ("f32", "bf16", 1)],
)
def test_elements_of_other_types_are_different(
    run: Any, tmp_path: Path, one: str, other: str, code: int
) -> None:
    files = [tmp_path / "a.hlo", tmp_path / "b.hlo"]
    for file, element in zip(files, (one, other), strict=True):
        file.write_text(
            f"ENTRY e {{ p = {element}[4] parameter(0) ROOT n = {element}[4] negate(p) }}"
        )
    assert run("equal", *files).exit_code == code
    assert run("equal", *[f"{file}:n" for file in files]).exit_code == code
    assert run("cancel", *files).exit_code == code


def test_a_bounded_size_is_another_type(run: Any, tmp_path: Path) -> None:
    for name, size in (("a.hlo", "4"), ("b.hlo", "<=4")):
        (tmp_path / name).write_text(
            f"ENTRY e {{ p = f32[{size}] parameter(0) ROOT n = f32[{size}] negate(p) }}"
        )
    result = run("equal", tmp_path / "a.hlo", tmp_path / "b.hlo")
    assert result.exit_code == 1
    assert "parameter 0 and 1 more: different: type f32[4], and f32[<=4]" in result.stdout


WHOLE = """HloModule m, num_partitions=2
ENTRY e { p = f32[4,3] parameter(0), sharding={devices=[2,1]<=[2]}
  w = f32[3,5] parameter(1), sharding={replicated}
  ROOT d = f32[4,5] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    sharding={devices=[1,2]<=[2]} }
"""
PARTS = """HloModule m_spmd, num_partitions=2
ENTRY e { p = f32[2,3] parameter(0)
  w = f32[3,5] parameter(1)
  g = f32[4,3] all-gather(p), dimensions={0}, replica_groups={GROUPS}, channel_id=1,
    use_global_device_ids=true
  d = f32[4,5] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[] constant(0)
  q = f32[4,6] pad(d, z), padding=0_0x0_1
  i = u32[] partition-id()
  t = u32[] constant(3)
  s = u32[] multiply(i, t)
  o = u32[] constant(0)
  ROOT r = f32[4,3] dynamic-slice(q, o, s), dynamic_slice_sizes={4,3} }
"""


@pytest.mark.parametrize(("groups", "code"), [("{0,1}", 0), ("{1,0}", 1)])
def test_a_program_is_compared_with_its_partitioned_form(
    run: Any, tmp_path: Path, groups: str, code: int
) -> None:
    one, other = tmp_path / "a.hlo", tmp_path / "b.hlo"
    one.write_text(WHOLE)
    other.write_text(PARTS.replace("GROUPS", groups))
    for sides, name in (((one, other), "B"), ((other, one), "A")):
        result = run("equal", "--values", *sides)
        assert result.exit_code == code, result.stdout
        assert f"on 1 x 2 devices (replicas x partitions), {name} partitioned" in result.stdout


def test_programs_that_cannot_be_run_are_undecided(run: Any, tmp_path: Path) -> None:
    one = program(tmp_path, "one", '  ROOT c = f32[4,8] custom-call(p0), custom_call_target="mine"')
    result = run("equal", "--values", one, one)
    assert result.exit_code == 4
    assert result.stdout.startswith("undecided: ")


def test_options_of_runs_need_values(run: Any, tmp_path: Path) -> None:
    one = program(tmp_path, "one", "  ROOT c = f32[4,8] negate(p0)")
    assert run("equal", one, one, "--runs", "3").exit_code == 2
    assert run("equal", "--values", f"{one}:c", f"{one}:c").exit_code == 2
    result = run("equal", "--values", one, one, "--runs", "3")
    assert (result.exit_code, result.stdout) == (0, "no difference found in 3 runs\n")
