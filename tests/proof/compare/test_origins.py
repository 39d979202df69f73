"""Two stages of a compilation: values are matched by where instructions come from."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from click.testing import CliRunner, Result

from hloscope.cli.app import app
from hloscope.hlo_parser import parse_hlo
from hloscope.proof.tracing import by_source
from tests.hlo_parser.test_proto import F32, f, ins, shape

BEFORE = """HloModule before
ENTRY e {
  x = f32[4] parameter(0)
  sin.1 = f32[4] sine(x), @sin3
  mul.2 = f32[4] multiply(sin.1, sin.1), @mul4
  ROOT add.3 = f32[4] add(mul.2, x), @add5
}"""
AFTER = """HloModule after
fused { p = f32[4] parameter(0)
  s = f32[4] sine(p), @sin3
  two = f32[] constant(2) e = f32[4] broadcast(two), dimensions={}
  m = f32[4] power(s, e), @mul4
  ROOT a = f32[4] add(p, m), @add5 }
ENTRY main {
  q = f32[4] parameter(0)
  ROOT fusion = f32[4] fusion(q), kind=kLoop, calls=fused, @add5
}"""
PLACES = {"sin": 3, "mul": 4, "add": 5}
for _op, _line in PLACES.items():
    _said = f'metadata={{op_name="jit(f)/{_op}" source_file="f.py" source_line={_line}}}'
    BEFORE = BEFORE.replace(f"@{_op}{_line}", _said)
    AFTER = AFTER.replace(f"@{_op}{_line}", _said)
ARGS = ("--args", "[dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>]")


def compared(tmp_path: Path, after: str, before: str, *more: str) -> Result:
    paths = tmp_path / "after.hlo", tmp_path / "before.hlo"
    for path, text in zip(paths, (after, before), strict=True):
        path.write_text(text)
    words = ["run", str(paths[0]), "--compare", str(paths[1]), *ARGS, *more]
    return CliRunner().invoke(app, words)


def test_instructions_inside_fusions_are_matched_by_where_they_come_from(tmp_path: Path) -> None:
    found = json.loads(compared(tmp_path, AFTER, BEFORE, "--json").output)
    comparison = found["programs"][0]["comparison"]
    assert comparison["first"] is None
    assert comparison["by_source"] >= 3
    assert comparison["unlike"] == 0
    assert comparison["instructions"] <= comparison["of"]
    text = compared(tmp_path, AFTER, BEFORE).output
    assert "matched by op_name, source and shape: " in text
    assert f" of {comparison['of']} instructions" in text


def test_the_first_that_differs_is_named_where_results_differ(tmp_path: Path) -> None:
    found = compared(tmp_path, AFTER.replace("constant(2)", "constant(3)"), BEFORE)
    assert found.exit_code == 1
    assert "`m` = power (multiply there): 4 of 4 elements differ" in found.output


def test_other_steps_of_a_line_are_no_difference(tmp_path: Path) -> None:
    """The product is computed in another way; results are the same."""
    line = "m = f32[4] power(s, e)"
    place = 'metadata={op_name="jit(f)/mul" source_file="f.py" source_line=4}'
    other = AFTER.replace(line, "m = f32[4] multiply(s, s)")
    other = other.replace("  two =", f"  h = f32[4] exponential(s), {place}\n  two =")
    found = compared(tmp_path, other, BEFORE)
    assert found.exit_code == 0, found.output
    assert "1 differ, which no result shows" in found.output


def test_values_of_constants_alone_are_not_matched() -> None:
    """Passes fold constants of one line into others of the same line."""
    said = 'metadata={op_name="jit(f)/mul" source_file="f.py" source_line=4}'
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  c = f32[] constant(FIRST)
  b = f32[4] broadcast(c), dimensions={}, SAID
  m = f32[4] OP(b, b), SAID
  s = f32[] constant(0)
  n = f32[4] rng(s, c), distribution=rng_uniform, SAID
  ROOT r = f32[4] multiply(x, n), SAID
}""".replace("SAID", said)
    before, after = (
        parse_hlo(text.replace("OP", op).replace("FIRST", first)).entry
        for op, first in (("multiply", "2"), ("add", "3"))
    )
    found = {x.name: [y.name for y in group] for x, group in by_source(after, before, {}).items()}
    assert found == {"n": ["n", "r"], "r": ["n", "r"]}


def test_names_stand_for_op_names_that_are_not_said(tmp_path: Path) -> None:
    plain = "\n".join(line.split(", metadata")[0] for line in BEFORE.splitlines())
    found = json.loads(compared(tmp_path, AFTER, plain, "--json").output)
    comparison = found["programs"][0]["comparison"]
    assert comparison["by_source"] >= 2
    assert comparison["first"] is None


def test_arguments_that_a_snapshot_records_are_used(tmp_path: Path) -> None:
    main = f(1, "main") + ins("p", "parameter", shape(F32, 2), 1)
    main += ins("n", "negate", shape(F32, 2), 2, f(36, [1])) + f(5, 9) + f(6, 2)
    module = f(1, "m") + f(2, "main") + f(3, main) + f(6, 9)
    literal = f(1, shape(F32, 2)) + f(8, struct.pack("<2f", 1.5, -2.0))
    path = tmp_path / "snapshot.pb"
    path.write_bytes(f(1, f(1, module)) + f(2, literal) + f(4, "cpu"))
    run = CliRunner().invoke(app, ["run", str(path)])
    assert run.exit_code == 0, run.output
    assert "-1.5" in run.output.replace("e+00", "")
    given = ["--args", "[dense<[3.0, 4.0]> : tensor<2xf32>]"]
    assert "-3.0" in CliRunner().invoke(app, ["run", str(path), *given]).output
    path.write_bytes(f(1, f(1, module)) + f(4, "cpu"))
    assert CliRunner().invoke(app, ["run", str(path)]).exit_code == 2
