"""Folds: what is folded, what is not, and that nothing costs more than it may."""

from __future__ import annotations

import pytest

from hloscope.mlir import print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import find_pass
from hloscope.passes.folding import FOLDS, SHAPE_FOLDS
from hloscope.passes.patterns import Limits, limited
from hloscope.stablehlo import parse_stablehlo, print_stablehlo
from tests.passes.folded import applied, ops_after, text_after


def program(body: str, result: str) -> str:
    """A function of no arguments: `body` sets `%r`, and `;` ends a line."""
    lines = "\n  ".join(line.strip() for line in body.split(";"))
    return f"func.func @main() -> {result} {{\n  {lines}\n  return %r : {result}\n}}"


def binary(op: str, a: str, b: str, type: str) -> str:
    return program(
        f"%a = stablehlo.constant dense<{a}> : {type}; %b = stablehlo.constant dense<{b}> : {type};"
        f"%r = stablehlo.{op} %a, %b : {type}",
        type,
    )


FOLDED = [
    (binary("add", "[127, -1]", "[1, -1]", "tensor<2xi8>"), "dense<[-128, -2]> : tensor<2xi8>"),
    (binary("add", "7", "1", "tensor<i4>"), "dense<-8> : tensor<i4>"),
    (binary("multiply", "255", "255", "tensor<2xui8>"), "dense<1> : tensor<2xui8>"),
    (binary("divide", "-7", "2", "tensor<i32>"), "dense<-3> : tensor<i32>"),
    (binary("remainder", "-7", "2", "tensor<i32>"), "dense<-1> : tensor<i32>"),
    (binary("remainder", "-7.5", "2.0", "tensor<f32>"), "dense<-1.500000e+00> : tensor<f32>"),
    (binary("divide", "1.0", "0.0", "tensor<f32>"), "dense<0x7F800000> : tensor<f32>"),
    (binary("maximum", "-0.0", "0.0", "tensor<f32>"), "dense<0.000000e+00> : tensor<f32>"),
    (binary("minimum", "-0.0", "0.0", "tensor<f32>"), "dense<-0.000000e+00> : tensor<f32>"),
    (binary("maximum", "0x7FC0", "1.0", "tensor<bf16>"), "dense<0x7FC0> : tensor<bf16>"),
    (binary("maximum", "true", "false", "tensor<i1>"), "dense<true> : tensor<i1>"),
    (binary("and", "12", "10", "tensor<i32>"), "dense<8> : tensor<i32>"),
    (binary("add", "", "", "tensor<0x3xi32>"), "dense<> : tensor<0x3xi32>"),
    (
        binary("add", "1.0", "1.0", "tensor<1000000x1000000xf32>"),
        "dense<2.000000e+00> : tensor<1000000x1000000xf32>",
    ),
]
KEPT = [
    binary("divide", "[6, 1]", "[0, 1]", "tensor<2xi32>"),
    binary("remainder", "6", "0", "tensor<ui32>"),
    binary("add", "(1.0, 2.0)", "(1.0, 2.0)", "tensor<complex<f32>>"),
    binary("power", "2", "2", "tensor<i32>"),
    program(
        "%a = stablehlo.constant dense<0x7FC00000> : tensor<f32>;"
        "%r = stablehlo.sign %a : tensor<f32>",
        "tensor<f32>",
    ),
]


@pytest.mark.parametrize(("text", "literal"), FOLDED, ids=range(len(FOLDED)))
def test_constants_are_computed(text: str, literal: str) -> None:
    after = text_after(limited(SHAPE_FOLDS, Limits()), text)
    assert after.count("stablehlo.") == 1
    assert literal in after


@pytest.mark.parametrize("text", KEPT, ids=range(len(KEPT)))
def test_what_has_no_one_value_stays(text: str) -> None:
    _, run = applied(limited(SHAPE_FOLDS, Limits()), text)
    assert not run.fired


@pytest.mark.parametrize(
    ("source", "target", "value", "stays"),
    [
        ("f32", "i32", "2147483520.0", False),
        ("f32", "i32", "2147483648.0", True),
        ("f32", "i32", "-2147483648.0", False),
        ("f32", "i32", "-0.0", True),
        ("f32", "i64", "0x7F800000", True),
        ("f32", "i64", "0x7FC00000", True),
        ("f32", "ui8", "-0.5", False),
        ("f32", "ui8", "-1.0", True),
        ("f32", "ui8", "255.5", False),
        ("f32", "ui8", "256.0", True),
        ("f32", "i1", "0x7FC00000", False),
        ("f64", "f16", "1.0e300", False),
        ("i64", "f32", "9007199254740993", False),
        ("ui8", "i8", "200", False),
    ],
)
def test_conversions_are_folded_where_the_number_exists(
    source: str, target: str, value: str, stays: bool
) -> None:
    body = (
        f"%a = stablehlo.constant dense<{value}> : tensor<{source}>;"
        f"%r = stablehlo.convert %a : (tensor<{source}>) -> tensor<{target}>"
    )
    found = ops_after(limited(SHAPE_FOLDS, Limits()), program(body, f"tensor<{target}>"))
    assert found == ["convert"] * stays


def test_floats_may_be_left_alone() -> None:
    floats = binary("add", "1.0", "1.0", "tensor<f32>")
    assert ops_after(limited(SHAPE_FOLDS, Limits(optimize_float=False)), floats) == ["add"]
    integers = binary("add", "1", "1", "tensor<i32>")
    assert ops_after(limited(SHAPE_FOLDS, Limits(optimize_float=False)), integers) == []


SPLATS = {"i32": "7", "f32": "1.5", "complex<f32>": "(1.0, -0.0)"}
MOVED = [
    # op, sizes before and after, elements of which it folds a splat
    ("broadcast_in_dim %a, dims = [0]", "2", "2x3", ("i32", "f32", "complex<f32>")),
    ("reshape %a", "2x3", "6", ("i32", "f32", "complex<f32>")),
    ("transpose %a, dims = [1, 0]", "2x3", "3x2", ("i32", "f32", "complex<f32>")),
    ("slice %a [0:1]", "2", "1", ("i32", "f32")),
    ("concatenate %a, %a, dim = 0", "2", "4", ("i32", "f32")),
    ("reverse %a, dims = [0]", "2", "2", ()),
]


@pytest.mark.parametrize(("op", "before", "after", "folded"), MOVED, ids=[op for op, *_ in MOVED])
def test_a_splat_that_moves_is_folded_by_its_element_type(
    op: str, before: str, after: str, folded: tuple[str, ...]
) -> None:
    name = op.partition(" ")[0]
    for element, value in SPLATS.items():
        source, target = f"tensor<{before}x{element}>", f"tensor<{after}x{element}>"
        operands = f"({source}, {source})" if name == "concatenate" else f"({source})"
        types = source if name == "reverse" else f"{operands} -> {target}"
        body = f"%a = stablehlo.constant dense<{value}> : {source}; %r = stablehlo.{op} : {types}"
        text = program(body, target)
        for folds, elements in (
            (limited(FOLDS, Limits()), folded),
            (limited(FOLDS, Limits(optimize_float=False)), {*folded} - {"f32"}),
        ):
            assert ops_after(folds, text) == ([] if element in elements else [name]), element


REARRANGED = [
    # constants, op, type of the result, elements of the result; none if the op stays
    ("[[1, 2], [3, 4]] : tensor<2x2xi32>", "reshape %0", "4", "[1, 2, 3, 4]"),
    ("[[1, 2], [3, 4]] : tensor<2x2xi32>", "transpose %0, dims = [1, 0]", "2x2",
     "[[1, 3], [2, 4]]"),
    ("[1, 2, 3] : tensor<3xi32>", "slice %0 [1:3]", "2", "[2, 3]"),
    ("[1, 2, 3] : tensor<3xi32>", "reverse %0, dims = [0]", "3", "[3, 2, 1]"),
    ("[[1], [2]] : tensor<2x1xi32>", "reverse %0, dims = [0, 1]", "2x1", "[[2], [1]]"),
    ("[[1], [2]] : tensor<2x1xi32>", "reverse %0, dims = [1]", "2x1", ""),
    ("[[1, 2]] : tensor<1x2xi32>", "reverse %0, dims = [0]", "1x2", ""),
    ("[[1, 2]] : tensor<1x2xi32>", "reverse %0, dims = [1]", "1x2", "[[2, 1]]"),
    ("[1, 2] : tensor<2xi32>", "reverse %0, dims = []", "2", ""),
    ("[1, 2] : tensor<2xi32>; [3] : tensor<1xi32>", "concatenate %0, %1, dim = 0", "3",
     "[1, 2, 3]"),
    ("7 : tensor<2xi32>; 7 : tensor<1xi32>", "concatenate %0, %1, dim = 0", "3", "7"),
    ("7 : tensor<2xi32>; 8 : tensor<1xi32>", "concatenate %0, %1, dim = 0", "3", "[7, 7, 8]"),
    ("8 : tensor<1xi32>; 7 : tensor<1xi32>; 7 : tensor<1xi32>",
     "concatenate %0, %1, %2, dim = 0", "3", "[8, 7, 7]"),
    ("7 : tensor<2xi32>; [7, 8] : tensor<2xi32>", "concatenate %0, %1, dim = 0", "4",
     "[7, 7, 7, 8]"),
]  # fmt: skip


def test_elements_of_constants_are_rearranged() -> None:
    for constants, op, sizes, elements in REARRANGED:
        given = constants.split("; ")
        lines = [
            f"%{k} = stablehlo.constant dense<{c.replace(' : ', '> : ')};"
            for k, c in enumerate(given)
        ]
        target = f"tensor<{sizes}xi32>"
        sources = ", ".join(c.split(" : ")[1] for c in given)
        types = target if op.startswith("reverse") else f"({sources}) -> {target}"
        text = program(f"{' '.join(lines)} %r = stablehlo.{op} : {types}", target)
        name = op.partition(" ")[0]
        after = text_after(limited(FOLDS, Limits()), text)
        assert (f"stablehlo.{name}" in after) == (not elements), (constants, op)
        assert f"dense<{elements}> : {target}" in after or not elements, (constants, op)
        # What computes elements is within the limit of elements, what copies bytes is not.
        is_limited = elements and name in ("reverse", "concatenate")
        ops = ops_after(limited(FOLDS, Limits(1)), text)
        assert (name in ops) == (not elements or bool(is_limited))


def test_movements_of_what_is_no_constant_stay() -> None:
    for op, types in [
        ("reshape %x", "(tensor<2xi32>) -> tensor<2xi32>"),
        ("broadcast_in_dim %x, dims = [0]", "(tensor<2xi32>) -> tensor<2xi32>"),
        ("concatenate %x, %k, dim = 0", "(tensor<2xi32>, tensor<0xi32>) -> tensor<2xi32>"),
        ("slice %x [0:2]", "(tensor<2xi32>) -> tensor<2xi32>"),
        ("transpose %x, dims = [0]", "(tensor<2xi32>) -> tensor<2xi32>"),
        ("reverse %x, dims = [0]", "tensor<2xi32>"),
    ]:
        text = f"""func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {{
          %k = stablehlo.constant dense<> : tensor<0xi32>
          %r = stablehlo.{op} : {types}
          return %r : tensor<2xi32>
        }}"""
        assert ops_after(limited(FOLDS, Limits()), text) == [op.partition(" ")[0]]


def test_different_complex_elements_are_only_reshaped() -> None:
    for op, type_after, name in [
        ("reshape %a", "4", []),
        ("transpose %a, dims = [1, 0]", "2x2", ["transpose"]),
        ("broadcast_in_dim %a, dims = [0, 1]", "2x2", ["broadcast_in_dim"]),
    ]:
        target = f"tensor<{type_after}xcomplex<f32>>"
        body = (
            "%a = stablehlo.constant dense<[[(1.0, 2.0), (3.0, 4.0)], [(5.0, 6.0), (7.0, 8.0)]]>"
            f" : tensor<2x2xcomplex<f32>>;"
            f"%r = stablehlo.{op} : (tensor<2x2xcomplex<f32>>) -> {target}"
        )
        assert ops_after(limited(FOLDS, Limits()), program(body, target)) == name


def test_the_limit_is_on_elements_of_some_ops() -> None:
    body = (
        "%a = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>;"
        "%r = stablehlo.convert %a : (tensor<3xi32>) -> tensor<3xi64>"
    )
    assert ops_after(limited(SHAPE_FOLDS, Limits(2)), program(body, "tensor<3xi64>")) == ["convert"]
    assert ops_after(limited(SHAPE_FOLDS, Limits(3)), program(body, "tensor<3xi64>")) == []


def test_work_ends_when_the_budget_is_spent() -> None:
    adds = "".join(f"%{k + 1} = stablehlo.add %{k}, %{k} : tensor<3xi32>;" for k in range(20))
    text = program(
        f"%0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>; {adds}"
        "%r = stablehlo.add %20, %20 : tensor<3xi32>",
        "tensor<3xi32>",
    )
    limits = Limits(max_work=200)
    left = ops_after(limited(SHAPE_FOLDS, limits), text)
    assert 10 < len(left) < 20
    assert limits.left < 60


def test_written_and_computed_constants_are_one() -> None:
    text = """
func.func @main() -> (tensor<i32>, tensor<i32>) {
  %a = stablehlo.constant dense<1> : tensor<i32>
  %b = stablehlo.constant dense<2> : tensor<i32>
  %c = stablehlo.add %a, %a : tensor<i32>
  return %b, %c : tensor<i32>, tensor<i32>
}"""
    assert text_after(limited(SHAPE_FOLDS, Limits()), text).count("constant") == 1


@pytest.mark.parametrize("name", ["aggressive-folder", "target-independent-optimization"])
def test_deep_wide_and_large_programs_cost_little(name: str) -> None:
    deep = "".join(f'%r{k} = "stablehlo.case"(%p) ({{\n' for k in range(400))
    ends = "".join(
        "}) : (tensor<i32>) -> tensor<i32>\n"
        + (f"stablehlo.return %r{k} : tensor<i32>\n" if k else "")
        for k in reversed(range(400))
    )
    big = "tensor<1000000x1000000xf32>"
    wide = range(1200)
    names, types = ", ".join(f"%i{k}" for k in wide), ", ".join("tensor<1xi32>" for _ in wide)
    text = f"""
func.func @deep(%a: tensor<i32>) -> tensor<i32> {{
  %p = stablehlo.constant dense<0> : tensor<i32>
  {deep} stablehlo.return %a : tensor<i32>
  {ends} return %r0 : tensor<i32>
}}
func.func @large() -> {big} {{
  %0 = stablehlo.constant dense<1.0> : {big}
  %1 = stablehlo.add %0, %0 : {big}
  %2 = stablehlo.transpose %1, dims = [1, 0] : ({big}) -> {big}
  return %2 : {big}
}}
func.func @wide() -> tensor<1200xi32> {{
  {"".join(f"%i{k} = stablehlo.iota dim = 0 : tensor<1xi32>{chr(10)}" for k in wide)}
  %r = stablehlo.concatenate {names}, dim = 0 : ({types}) -> tensor<1200xi32>
  return %r : tensor<1200xi32>
}}"""
    module, run = find_pass(name).apply(parse_stablehlo(text).tree)
    assert run.fired["inline_known_case"] == 400
    assert run.fired["fold_concatenate"] == 1
    assert "stablehlo.add" not in print_stablehlo(module)


@pytest.mark.parametrize("op", ["sqrt", "rsqrt", "log", "sign"])
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2"])
def test_what_is_no_number_is_looked_at_without_a_word(op: str, element: str) -> None:
    """Not folded, and numpy does not warn; warnings are errors here."""
    type = f"tensor<2x{element}>"
    text = f"""func.func @main() -> {type} {{
      %0 = stablehlo.constant dense<[1.0, 2.0]> : {type}
      %1 = stablehlo.constant dense<0.0> : {type}
      %2 = stablehlo.divide %1, %1 : {type}
      %3 = stablehlo.{op} %2 : {type}
      return %3 : {type}
    }}"""
    after, _ = find_pass("aggressive-folder").apply(parse_stablehlo(text).tree)
    assert f"stablehlo.{op}" in print_mlir(after, dialects=DIALECTS)
