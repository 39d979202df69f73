"""Sizes computed in `arith` and `tensor` are folded as MLIR's greedy driver folds them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

import hloscope
from hloscope.cli.app import app
from hloscope.mlir import DenseAttr, IntegerAttr, expanded
from hloscope.passes.folding.index import INDEX_FOLDS
from hloscope.stablehlo import parse_stablehlo, print_stablehlo
from tests.conftest import SHARED
from tests.passes.folded import applied

FOLDER = SHARED / "regressions/round3/dynamism"
needs_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/regressions/round3")

HEAD = """func.func @main(%x: tensor<3x2xf32>, %one: tensor<1x1xf32>, %y: tensor<?xf32>)
    -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d0 = tensor.dim %x, %c0 : tensor<3x2xf32>
  %d1 = tensor.dim %x, %c1 : tensor<3x2xf32>
"""
TAIL = """
  %b = stablehlo.dynamic_broadcast_in_dim %one, %sh, dims = [0, 1] :
      (tensor<1x1xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  return %b : tensor<?x?xf32>
}"""
SIDE_BY_SIDE = "%sh = tensor.from_elements {}, {} : tensor<2xindex>"
CASES = {
    "sizes": (SIDE_BY_SIDE.format("%d0", "%d1"), "3x2"),
    "product": ("%m = arith.muli %d0, %d1 : index\n" + SIDE_BY_SIDE.format("%m", "%d1"), "6x2"),
    "through i64": (
        "%i = arith.index_cast %d0 : index to i64\n%c2 = arith.constant 2 : i64\n"
        "%k = arith.addi %i, %c2 : i64\n%j = arith.index_cast %k : i64 to index\n"
        + SIDE_BY_SIDE.format("%j", "%c1"),
        "5x1",
    ),
    "a cast array": (
        "%z = tensor.cast %x : tensor<3x2xf32> to tensor<?x?xf32>\n"
        "%e = tensor.dim %z, %c0 : tensor<?x?xf32>\n" + SIDE_BY_SIDE.format("%e", "%d1"),
        "3x2",
    ),
    "casts that cancel": (
        "%z = builtin.unrealized_conversion_cast %x : tensor<3x2xf32> to tensor<?x?xf32>\n"
        "%v = builtin.unrealized_conversion_cast %z : tensor<?x?xf32> to tensor<3x2xf32>\n"
        "%e = tensor.dim %v, %c0 : tensor<3x2xf32>\n" + SIDE_BY_SIDE.format("%e", "%d1"),
        "3x2",
    ),
    "divisions and a choice": (
        "%c7 = arith.constant 7 : index\n%a1 = arith.subi %c7, %d0 : index\n"
        "%a2 = arith.divui %c7, %d0 : index\n%a3 = arith.remsi %a1, %d0 : index\n"
        "%a4 = arith.maxsi %a2, %a3 : index\n%p = arith.cmpi slt, %a1, %a4 : index\n"
        "%a5 = arith.select %p, %a1, %a2 : index\n%a6 = arith.floordivsi %c7, %d0 : index\n"
        "%a7 = arith.ceildivsi %c7, %d0 : index\n%a8 = arith.addi %a6, %a7 : index\n"
        + SIDE_BY_SIDE.format("%a5", "%a8"),
        "2x5",
    ),
    "one value everywhere": ("%sh = tensor.splat %d0 : tensor<2xindex>", "3x3"),
    "a rank": (
        "%r = tensor.rank %x : tensor<3x2xf32>\n" + SIDE_BY_SIDE.format("%r", "%c1"),
        "2x1",
    ),
    "an element of values side by side": (
        "%q = tensor.from_elements %d0, %d0, %d0, %c1 : tensor<2x2xindex>\n"
        "%e = tensor.extract %q[%c1, %c1] : tensor<2x2xindex>\n" + SIDE_BY_SIDE.format("%d0", "%e"),
        "3x1",
    ),
    "arrays of i32": (
        "%i = arith.index_cast %d0 : index to i32\n"
        "%f = tensor.from_elements %i, %i : tensor<2xi32>\n"
        "%g = stablehlo.add %f, %f : tensor<2xi32>\n"
        "%sh = arith.index_cast %g : tensor<2xi32> to tensor<2xindex>",
        "6x6",
    ),
    "get_dimension_size": (
        "%s = stablehlo.get_dimension_size %x, dim = 1 : (tensor<3x2xf32>) -> tensor<i32>\n"
        "%e = tensor.extract %s[] : tensor<i32>\n%k = arith.index_cast %e : i32 to index\n"
        + SIDE_BY_SIDE.format("%d0", "%k"),
        "3x2",
    ),
    "truth values": (
        "%p = arith.cmpi ne, %d0, %c1 : index\n%e = arith.extui %p : i1 to i64\n"
        "%t = arith.trunci %e : i64 to i32\n%u = arith.extsi %t : i32 to i64\n"
        "%k = arith.index_castui %u : i64 to index\n" + SIDE_BY_SIDE.format("%k", "%d0"),
        "1x3",
    ),
    "an unknown size": (
        "%u = tensor.dim %y, %c0 : tensor<?xf32>\n" + SIDE_BY_SIDE.format("%u", "%d1"),
        "?x?",
    ),
    "a dimension that is not there": (
        "%c9 = arith.constant 9 : index\n%e = tensor.dim %x, %c9 : tensor<3x2xf32>\n"
        + SIDE_BY_SIDE.format("%e", "%d1"),
        "?x?",
    ),
    "a division by zero": (
        "%e = arith.divui %d0, %c0 : index\n" + SIDE_BY_SIDE.format("%e", "%d1"),
        "?x?",
    ),
}
"""Sizes as programs compute them, and what jaxlib 0.10.2 makes of the result's type."""


@pytest.mark.parametrize("name", CASES)
def test_refine_shapes_folds_sizes_as_jaxlib_does(name: str) -> None:
    text, sizes = CASES[name]
    refined = hloscope.opt(HEAD + text + TAIL, "stablehlo-refine-shapes").text()
    assert f"-> tensor<{sizes}xf32> {{" in refined.splitlines()[1]
    if "?" not in sizes:
        assert "tensor.dim" not in refined
        assert "unrealized" not in refined


def test_what_does_nothing_goes_and_constants_stand_on_the_right() -> None:
    text = "%u = tensor.dim %y, %c0 : tensor<?xf32>\n%a = arith.addi %c0, %u : index\n"
    text += "%m = arith.muli %c1, %a : index\n%z = arith.subi %m, %m : index\n"
    text += "%n = arith.addi %c1, %m : index\n" + SIDE_BY_SIDE.format("%n", "%z")
    refined = hloscope.opt(HEAD + text + TAIL, "stablehlo-refine-shapes").text()
    assert "arith.addi %dim, %c1 : index" in refined
    assert refined.count("arith.addi") == 1
    assert "arith.muli" not in refined
    assert "arith.subi" not in refined


_OPS = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "divsi": lambda x, y: int(x / y),
    "remsi": lambda x, y: x - y * int(x / y),
    "floordivsi": lambda x, y: x // y,
    "ceildivsi": lambda x, y: -(-x // y),
    "divui": lambda x, y: (x % 256) // (y % 256),
    "remui": lambda x, y: (x % 256) % (y % 256),
    "minui": lambda x, y: min(x % 256, y % 256),
    "maxsi": max,
}


@given(st.sampled_from(sorted(_OPS)), st.integers(-128, 127), st.integers(-128, 127))
def test_numbers_of_eight_bits_are_folded_as_machines_compute_them(
    name: str, x: int, y: int
) -> None:
    is_division = "div" in name or "rem" in name
    text = f"""func.func @main() -> i8 {{
      %x = arith.constant {x} : i8
      %y = arith.constant {y} : i8
      %z = arith.{name} %x, %y : i8
      return %z : i8 }}"""
    tree = hloscope.opt(text, "canonicalize").module.tree  # type: ignore[attr-defined]
    ops = {op.name: op for op in tree.walk()}
    overflows = y == -1 and x == -128 and name in ("divsi", "remsi", "floordivsi", "ceildivsi")
    if is_division and (y == 0 or overflows):
        assert f"arith.{name}" in ops
        return
    value = ops["arith.constant"].get("value")
    assert isinstance(value, IntegerAttr)
    assert (value.value - _OPS[name](x, y)) % 256 == 0


BACK = "fold_cast_there_and_back"
OWN = "fold_cast_to_own_type"


CAST = "builtin.unrealized_conversion_cast"
A, B, C = "tensor<3x2xf32>", "tensor<?x?xf32>", "tensor<3x?xf32>"


@pytest.mark.parametrize(
    ("body", "result", "fired"),
    [
        (f"%z = {CAST} %x : {A} to {B}\n%r = {CAST} %z : {B} to {A}", A, [BACK]),
        (f"%z = {CAST} %x : {A} to {B}\n%r = {CAST} %z : {B} to {C}", C, []),
        (f"%z = tensor.cast %x : {A} to {B}\n%r = {CAST} %z : {B} to {A}", A, []),
        (f"%z = {CAST} %x : {A} to {A}\n%r = tensor.cast %z : {A} to {A}", A, [OWN, OWN]),
        (f"%z = {CAST} %x, %i : {A}, index to {B}\n%r = {CAST} %z : {B} to {A}", A, []),
        (f"%z:2 = {CAST} %x : {A} to {B}, index\n%r = {CAST} %z#0, %z#1 : {B}, index to {A}", A,
         [BACK]),
        (f"%z:2 = {CAST} %x : {A} to {B}, index\n%r = {CAST} %z#1, %z#0 : index, {B} to {A}", A,
         []),
        (f"%r = {CAST} to {A}", A, []),
    ],
)  # fmt: skip
def test_a_cast_back_to_the_first_types_is_the_first_values(
    body: str, result: str, fired: list[str]
) -> None:
    text = f"func.func @main(%x: {A}, %i: index) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    module, run = applied(INDEX_FOLDS, text)
    assert sorted(run.fired.elements()) == fired
    assert ("return %arg0" in print_stablehlo(module)) is bool(fired)


EXTRACTED = [
    ("arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>", "%c0, %c0", 1),
    ("arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>", "%c1, %c2", 6),
    ("arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>", "%c1, %c0", 4),
    ("arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>", "%c2, %c0", None),
    ("arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>", "%c0, %m", None),
    ("arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>", "%i, %c0", None),
    ("tensor.from_elements %a, %b : tensor<2xi32>", "%c0", "%arg1"),
    ("tensor.from_elements %a, %b : tensor<2xi32>", "%c1", "%arg2"),
    ("tensor.from_elements %a, %b : tensor<2xi32>", "%c2", None),
    ('"test.f"() : () -> tensor<2xi32>', "%c0", None),
    ('"test.f"() : () -> tensor<?xi32>', "%c0", None),
]


def test_an_element_of_a_known_array_is_extracted() -> None:
    for source, indices, wanted in EXTRACTED:
        type = source.rpartition(" ")[2]
        text = f"""func.func @main(%i: index, %a: i32, %b: i32) -> i32 {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %c2 = arith.constant 2 : index
          %m = arith.constant -1 : index
          %s = {source}
          %e = tensor.extract %s[{indices}] : {type}
          return %e : i32
        }}"""
        module, run = applied(INDEX_FOLDS, text)
        found = print_stablehlo(module)
        assert run.fired["fold_extract"] == (wanted is not None), (source, indices)
        if isinstance(wanted, int):
            assert f"arith.constant {wanted} : i32" in found
        elif wanted:
            assert f"return {wanted} : i32" in found


def test_elements_of_a_folded_array_are_those_side_by_side() -> None:
    text = HEAD + SIDE_BY_SIDE.format("%d1", "%d0") + TAIL
    tree = hloscope.opt(text, "stablehlo-refine-shapes").module.tree  # type: ignore[attr-defined]
    (constant,) = [op for op in tree.walk() if op.name == "arith.constant"]
    value = constant.get("value")
    assert isinstance(value, DenseAttr)
    assert tuple(expanded(value)) == (2, 3)


TORCH = """func.func @main(%x: tensor<?x?xf32>, %row: tensor<1x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %d0 = tensor.dim %x, %c0 : tensor<?x?xf32>
  %d1 = tensor.dim %x, %c1 : tensor<?x?xf32>
  %sh = tensor.from_elements %d0, %d1 : tensor<2xindex>
  %b = stablehlo.dynamic_broadcast_in_dim %row, %sh, dims = [0, 1] :
      (tensor<1x?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %e0 = tensor.dim %b, %c0 : tensor<?x?xf32>
  %e1 = tensor.dim %b, %c1 : tensor<?x?xf32>
  %th = tensor.from_elements %e0, %e1 : tensor<2xindex>
  %c = stablehlo.dynamic_broadcast_in_dim %row, %th, dims = [0, 1] :
      (tensor<1x?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %s = shape.shape_of %c : tensor<?x?xf32> -> tensor<2xindex>
  %t = tensor.cast %s : tensor<2xindex> to tensor<?xindex>
  %u = tensor.cast %t : tensor<?xindex> to tensor<2xindex>
  %d = stablehlo.dynamic_broadcast_in_dim %row, %u, dims = [0, 1] :
      (tensor<1x?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %r = stablehlo.add %x, %d : tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""


def test_refine_follows_sizes_through_tensor_dim() -> None:
    """Upstream keeps the types of what ops of other dialects read."""
    text = hloscope.refine(TORCH, "tensor<3x2xf32>,tensor<1x2xf32>").text()
    assert "?" not in text
    for left in ("custom_call", "tensor.", "shape.", "hloscope.", "dynamic_"):
        assert left not in text
    partly = hloscope.refine(TORCH, "tensor<3x?xf32>,tensor<1x?xf32>").text()
    assert "tensor.dim" in partly
    assert "hloscope." not in partly


KEPT = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c = arith.constant 1.0 : f32
  %i = arith.constant 0 : index
  %y = tensor.insert %c into %x[%i] : tensor<?xf32>
  return %y : tensor<?xf32>
}"""


def test_explain_names_the_reader_and_not_what_refinement_inserted() -> None:
    run = CliRunner().invoke(
        app, ["refine", "-", "--args", "tensor<3xf32>", "--explain"], input=KEPT
    )
    assert run.exit_code == 0
    assert "`tensor.insert` reads the value" in run.output
    assert "custom_call" not in run.output
    assert "wrapper" not in run.output
    assert "%x : tensor<3xf32>, argument 0 of @main" in run.output


def test_a_size_of_an_argument_comes_from_the_argument() -> None:
    found = hloscope.passes.explain(parse_stablehlo(TORCH).tree)
    kinds = {each.value.name: each.origin.kind for each in found}
    assert {kinds[name] for name in ("x", "b", "c")} == {"argument"}
    assert kinds["t"] == "declared"  # a cast to unknown sizes


LOCATED = """func.func @main(%x: tensor<?xf32> loc("x")) -> tensor<?xf32> {
  %z = stablehlo.abs %x : tensor<?xf32> loc("model.py":3:7)
  return %z : tensor<?xf32>
}"""


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_the_command_refine_keeps_locations(more: list[str]) -> None:
    run = CliRunner().invoke(app, ["refine", "-", "--args", "tensor<3xf32>", *more], input=LOCATED)
    text = json.loads(run.output)["text"] if more else run.output
    assert '"model.py":3:7' in text
    assert 'loc("x")' in text
    plain = CliRunner().invoke(
        app, ["refine", "-", "--args", "tensor<3xf32>", *more],
        input=LOCATED.replace(' loc("x")', "").replace(' loc("model.py":3:7)', ""),
    )  # fmt: skip
    assert "loc(" not in plain.output


@needs_data
def test_programs_of_torch_mlir_are_static() -> None:
    text = (FOLDER / "refine_tensor_dim.mlir").read_text()
    assert "-> tensor<3x2xf32> {" in hloscope.opt(text, "stablehlo-refine-shapes").text()
    text = (FOLDER / "dyn_tensor_dim_run.mlir").read_text()
    assert "?" not in hloscope.refine(text, "tensor<2x2xf32>,tensor<1x2xf32>").text()
