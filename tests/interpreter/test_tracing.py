"""The first instruction whose value differs between two runs."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.shown import within
from hloscope.interpreter.values import EvaluationError, World
from hloscope.ir.graph import Computation, Module
from hloscope.proof.arrays import arranged, load
from hloscope.proof.pairing import paired
from hloscope.proof.tracing import Finding, compare_programs, compare_values
from tests.interpreter.helpers import read

CLOSE = partial(within, tolerance=1e-4)
X = np.array([1.0, 2.0, 3.0], "float32")

MLIR = """
func.func private @inner(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %a : tensor<3xf32>
  %1 = stablehlo.add %0, %a : tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  %1 = func.call @inner(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = stablehlo.subtract %1, %x : tensor<3xf32>
  return %2 : tensor<3xf32>
}"""


def compare(mine: str, theirs: str, *arguments: Any) -> Finding:
    a, b = read(mine), read(theirs)
    return compare_programs(
        a.entry,
        b.entry,
        arguments or [X],
        CLOSE,
        World(functions=a.computations),
        World(functions=b.computations),
    )


def test_programs_that_agree() -> None:
    found = compare(MLIR, MLIR)
    assert found.instruction is None
    assert (found.instructions, found.values) == (5, 6)  # and the result


@pytest.mark.parametrize(
    ("old", "new", "name", "op"),
    [
        ("stablehlo.multiply %x", "stablehlo.add %x", "0", "add"),
        ("stablehlo.negate %a", "stablehlo.abs %a", "0", "abs"),
        ("subtract %1, %x", "subtract %x, %1", "2", "subtract"),
    ],
)
def test_the_first_is_told(old: str, new: str, name: str, op: str) -> None:
    found = compare(MLIR.replace(old, new), MLIR)
    assert found.instruction is not None
    assert (found.instruction.name, found.instruction.op.name) == (name, op)
    assert found.difference is not None


def test_values_of_operands_inside_functions() -> None:
    found = compare(MLIR.replace("stablehlo.negate %a", "stablehlo.abs %a"), MLIR)
    ((operand, value),) = found.operands
    assert operand.name == "a"
    assert np.asarray(value).tolist() == [1, 4, 9]


def test_names_that_were_numbered_anew() -> None:
    more = MLIR.replace(
        "  %2 = stablehlo.subtract %1, %x",
        "  %c = stablehlo.constant dense<0.0> : tensor<3xf32>\n"
        "  %n = stablehlo.add %1, %c : tensor<3xf32>\n"
        "  %2 = stablehlo.subtract %n, %x",
    )
    assert compare(more, MLIR).instruction is None
    found = compare(more.replace("dense<0.0>", "dense<1.0>"), MLIR)
    assert found.instruction is not None
    assert found.instruction.op.name == "subtract"


def test_evaluations_of_a_loop_are_compared_in_turn() -> None:
    loop = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %five = stablehlo.constant dense<5> : tensor<i32>
      %r = stablehlo.while(%i = %x) : tensor<i32> cond {
        %p = stablehlo.compare LE, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %m = stablehlo.minimum %i, %five : tensor<i32>
        %n = stablehlo.add %m, %one : tensor<i32>
        stablehlo.return %n : tensor<i32>
      }
      return %r : tensor<i32>
    }"""
    a, b = read(loop.replace("minimum", "remainder")), read(loop)
    world = World(max_steps=1000)
    found = compare_programs(a.entry, b.entry, [np.int32(0)], CLOSE, world, World())
    assert found.instruction is not None
    assert (found.instruction.op.name, found.evaluation) == ("remainder", 6)
    assert [np.asarray(value).tolist() for _, value in found.operands[1:]] == [5]


HLO = """HloModule m
ENTRY e {
  p = f32[3] parameter(0)
  square = f32[3] multiply(p, p)
  ROOT sum = f32[3] add(square, p)
}"""


def test_hlo_beside_stablehlo() -> None:
    mlir = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %square = stablehlo.multiply %x, %x : tensor<3xf32>
      %1 = stablehlo.add %x, %square : tensor<3xf32>
      return %1 : tensor<3xf32>
    }"""
    assert len(paired(read(HLO).entry, read(mlir).entry)) == 3
    assert compare(HLO, mlir).instruction is None
    found = compare(HLO.replace("multiply", "add"), mlir)
    assert found.instruction is not None
    assert found.partner is not None
    assert (found.instruction.name, found.partner.op.name) == ("square", "multiply")


def test_only_the_results_are_alike() -> None:
    """Nothing in common but what is returned: that is compared all the same."""
    other = """HloModule m
    f { q = f32[3] parameter(0) s = f32[3] multiply(q, q) ROOT t = f32[3] add(s, q) }
    ENTRY e { p = f32[3] parameter(0) ROOT x = f32[3] fusion(p), kind=kLoop, calls=f }"""
    assert compare(HLO, other).instruction is None
    found = compare(HLO.replace("add(", "subtract("), other)
    assert found.instruction is not None
    assert found.instruction.name == "sum"


def test_results_of_another_number() -> None:
    both = HLO.replace("ROOT sum", "sum").replace(
        "}", "  ROOT t = (f32[3], f32[3]) tuple(sum, p)\n}"
    )
    with pytest.raises(EvaluationError, match="returns 1 arrays, the other 2"):
        compare(HLO, both)


def test_values_by_name() -> None:
    module = read(HLO)
    values = {"square": X * X, "sum": X * X + X, "other": X}
    found = compare_values(module.entry, values, [X], CLOSE, World())
    assert (found.instruction, found.values) == (None, 2)
    values["sum"] = X
    found = compare_values(module.entry, values, [X], CLOSE, World())
    assert found.instruction is module.entry["sum"]
    values["square"] = X[:2]
    found = compare_values(module.entry, values, [X], CLOSE, World())
    assert str(found.difference) == (
        "3 of 3 elements differ; the worst: found [3], expected [2] (the shape)"
    )
    with pytest.raises(EvaluationError, match="no instruction has a name"):
        compare_values(module.entry, {"other": X}, [X], CLOSE, World())


def test_values_that_are_too_large_are_left_out() -> None:
    module, other = read(MLIR), read(MLIR)
    world = World(functions=module.computations)
    small = World(functions=other.computations, max_bytes=24)
    found = compare_programs(module.entry, other.entry, [X], CLOSE, world, small)
    assert found.instruction is None
    assert (found.values, found.left_out) == (3, 3)


def test_pairs_whatever_the_order_and_the_names() -> None:
    mlir = """func.func @main(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %one = stablehlo.constant dense<1.0> : tensor<2x3xf32>
      %e = stablehlo.exponential %y : tensor<2x3xf32>
      %b = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
      %c = stablehlo.broadcast_in_dim %b, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
      %s = stablehlo.add %c, %e : tensor<2x3xf32>
      %q = chlo.square %s : tensor<2x3xf32> -> tensor<2x3xf32>
      %r = stablehlo.subtract %q, %one : tensor<2x3xf32>
      return %r : tensor<2x3xf32>
    }"""
    hlo = """HloModule m
    ENTRY e {
      x.1 = f32[3] parameter(0)
      y.1 = f32[2,3] parameter(1)
      b.1 = f32[2,3] broadcast(x.1), dimensions={1}
      e.1 = f32[2,3] exponential(y.1)
      s.1 = f32[2,3] add(e.1, b.1)
      q.1 = f32[2,3] multiply(s.1, s.1)
      c.1 = f32[] constant(1)
      one.1 = f32[2,3] broadcast(c.1), dimensions={}
      ROOT r.1 = f32[2,3] subtract(q.1, one.1)
    }"""
    pairs = {a.name: b.name for a, b in paired(read(mlir).entry, read(hlo).entry).items()}
    same = {name: f"{name}.1" for name in ("x", "y", "e", "s", "q", "r", "one")}
    assert pairs == {**same, "c": "b.1"}


def test_what_only_looks_alike_is_not_paired() -> None:
    """A slice of the same value with other bounds, and another op under another name."""
    text = """HloModule m
    ENTRY e {
      p = f32[4] parameter(0)
      a = f32[2] slice(p), slice={[0:2]}
      b = f32[2] slice(p), slice={[2:4]}
      c = f32[4] sine(p)
      d = f32[4] pad(c, z), padding=0_0
      ROOT t = (f32[2], f32[2], f32[4]) tuple(a, b, d)
    }""".replace("      p =", "      z = f32[] constant(0)\n      p =")
    other = text.replace("[0:2]", "[1:3]").replace("a = ", "x = ").replace("(a,", "(x,")
    other = other.replace("c = f32[4] sine", "y = f32[4] cosine").replace("pad(c", "pad(y")
    names = {a.name for a in paired(read(text).entry, read(other).entry)}
    assert names - {"t"} == {"p", "z", "b"}


def test_functions_that_are_called_from_elsewhere_too_are_not_entered() -> None:
    other = MLIR.replace("call @inner(%0)", "call @inner(%x)").replace(
        "%2 = stablehlo.subtract %1,", "%y = func.call @inner(%0) : (tensor<3xf32>) ->"
        " tensor<3xf32>\n  %2 = stablehlo.subtract %y,")  # fmt: skip
    assert compare(other, MLIR).instruction is None
    inside = {a.name for a in paired(read(other).entry, read(MLIR).entry)}
    assert "a" not in inside


# -------------------------------------------------------------------------------- real programs


def arguments(folder: Path, name: str, entry: Computation) -> list[Any]:
    return arranged(load(folder / f"{name}.inputs.npz"), entry.arguments, ())


def program(folder: Path, name: str) -> Module:
    return read((folder / name).read_text())  # type: ignore[no-any-return]


def difference(mine: Module, theirs: Module, given: list[Any], tolerance: float) -> Finding:
    worlds = [World(functions=m.computations, attributes=m.extras) for m in (mine, theirs)]
    compare = partial(within, tolerance=tolerance, relative=True)
    return compare_programs(mine.entry, theirs.entry, given, compare, *worlds)


LOW_PRECISION = ("bf16", "fp8", "sharded", "shard_map")
"""Programs that differ when they are optimised, or have other arguments then."""


@pytest.mark.slow
def test_real_programs_in_both_languages_agree(shared: Path, full: bool) -> None:
    folder = shared / "real" / "models"
    names = sorted(path.name.partition(".")[0] for path in folder.glob("*.inputs.npz"))
    pairs = 0
    for name in names if full else names[::9]:
        if any(word in name for word in LOW_PRECISION):
            continue
        mlir, hlo = program(folder, f"{name}.stablehlo.mlir"), program(folder, f"{name}.hlo.txt")
        given = arguments(folder, name, mlir.entry)
        found = difference(mlir, hlo, given, 1e-2)
        assert found.instruction is None, name
        pairs += found.instructions
        optimised = folder / f"{name}.opt.full.hlo.txt"
        if not optimised.exists():
            optimised = folder / f"{name}.opt.hlo.txt"
        found = difference(hlo, program(folder, optimised.name), given, 1e-2)
        assert found.instruction is None, name
    assert pairs > 100


def test_the_changed_op_of_a_real_program_is_found(shared: Path, full: bool) -> None:
    """One op after another is replaced: the replaced one is told, or nothing differs."""
    folder = shared / "real" / "models"
    text = (folder / "mlp_train_step.hlo.txt").read_text()
    right = parse_hlo(text)
    given = arguments(folder, "mlp_train_step", right.entry)
    other = {"add": "subtract", "multiply": "add", "subtract": "add", "maximum": "minimum"}
    places = list(re.finditer(r"\b([\w.]+) = f32\[\d[\d,]*\]\S* (\w+)\(", text))
    changed = [found for found in places if found[2] in other]
    told = 0
    for found in changed if full else changed[::4]:
        op = other[found[2]]
        wrong = parse_hlo(text[: found.start(2)] + op + text[found.end(2) :])
        first = difference(wrong, right, given, 1e-6).instruction
        if first is not None:
            told += 1
            assert (first.name, first.op.name) == (found[1], op)
    assert told > len(changed) / (2 if full else 8)
