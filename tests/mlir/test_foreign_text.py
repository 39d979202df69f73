"""MLIR text with parts of dialects that nobody here knows: it is printed so that it can be read."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.errors import Diagnostic, ParseError, UnsupportedError, VerifyError
from hloscope.mlir import MlirLiteral, Operation, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo import parse_stablehlo


def printed(text: str, *, locations: bool = False) -> str:
    tree = parse_mlir(text, dialects=DIALECTS)
    return print_mlir(tree, dialects=DIALECTS, locations=locations)


def printed_twice(text: str, *, locations: bool = False) -> str:
    """What is printed, if it is the same after it is read again."""
    once = printed(text, locations=locations)
    assert printed(once, locations=locations) == once
    return once


def function(attributes: str) -> str:
    return f"func.func @f() attributes {{{attributes}}} {{\n  return\n}}\n"


@pytest.mark.parametrize(
    ("definitions", "attribute", "expected"),
    [
        ("#a = 1 : i32", "k = #foo.x<#a>", "k = #foo.x<1 : i32>"),
        ("#a = 1 : i32", 'k = #foo.x<["#a", #a]>', 'k = #foo.x<["#a", 1 : i32]>'),
        ("#a = 1 : i32\n#b = #foo.y<#a>", "k = #foo.x<#b>", "k = #foo.x<#foo.y<1 : i32>>"),
        ("#a = 1 : i32\n#b = [#foo.y<#a>]", "k = #b", "k = [#foo.y<1 : i32>]"),
        ("!t = tensor<2xf32>", "k = #foo.x<!t>", "k = #foo.x<tensor<2xf32>>"),
        ("!t = tensor<2xf32>", "k = !foo.x<!t>", "k = !foo.x<tensor<2xf32>>"),
        ("#0 = 1 : i32", "k = #foo.x<#0, #1>", "k = #foo.x<1 : i32, #1>"),
        ("#a = 1 : i32", "k = #foo.x<#a.b, %0#0, #b.a<1>>", "k = #foo.x<#a.b, %0#0, #b.a<1>>"),
        ('#l = loc("z":1:2)', "k = loc(#l)", 'k = loc("z":1:2)'),
        ('#l = loc("z":1:2)', 'k = #foo.x<loc("n"(#l))>', 'k = #foo.x<loc("n"("z":1:2))>'),
        ('#l = loc("z":1:2)', "k = #foo.x<loc(#l)>", 'k = #foo.x<loc("z":1:2)>'),
    ],
)  # fmt: skip
def test_aliases_in_attributes_of_other_dialects_are_expanded(
    definitions: str, attribute: str, expected: str
) -> None:
    assert expected in printed_twice(f"{definitions}\n{function(attribute)}")


def test_a_location_that_is_an_attribute_may_be_defined_further_down() -> None:
    text = function("k = loc(#l)") + '#l = loc("n"(#m))\n#m = loc("z":1:2)\n'
    assert 'k = loc("n"("z":1:2))' in printed_twice(text)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("k = #foo.x<#a>", "undefined symbol alias id 'a'"),
        ("k = !foo.x<!a>", "undefined symbol alias id 'a'"),
        ("k = #sdy.sharding_per_value<[#a]>", "undefined symbol alias id 'a'"),
        ("k = loc(#a)", "undefined symbol alias id 'a'"),
    ],
)
def test_an_alias_that_is_not_defined_is_an_error(attribute: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        printed(function(attribute))


def test_a_location_that_is_defined_by_itself_is_an_error() -> None:
    with pytest.raises(ParseError, match="aliases stand for too much"):
        printed(function("k = loc(#a)") + "#a = loc(#b)\n#b = loc(#a)\n")


@pytest.mark.parametrize(
    ("definition", "written", "expected"),
    [
        ('#sdy.sharding<@m, [{"x"}]>', "#sdy.sharding_per_value<[#s]>", '<[<@m, [{"x"}]>]>'),
        ('#sdy<dimension_sharding{"x"}>', "#sdy.sharding<@m, [#s]>", '<@m, [{"x"}]>'),
        ('#sdy.mesh<["x"=2]>', '#sdy.sharding<#s, [{"x"}]>', '<mesh<["x"=2]>, [{"x"}]>'),
    ],
)
def test_shardings_in_shardings_have_no_name(definition: str, written: str, expected: str) -> None:
    assert f"k = {written.partition('<')[0]}{expected}" in printed_twice(
        f"#s = {definition}\n{function(f'k = {written}')}"
    )


@pytest.mark.parametrize("mesh", ['<["x"=2]>', '#sdy.mesh<["x"=2]>', "#mesh"])
def test_a_mesh_is_read_in_each_of_its_forms(mesh: str) -> None:
    text = f'#mesh = #sdy.mesh<["x"=2]>\nsdy.mesh @m = {mesh}\n{function("")}'
    assert 'sdy.mesh @m = <["x"=2]>' in printed_twice(text)


def test_a_mesh_is_no_other_attribute() -> None:
    with pytest.raises(ParseError, match="invalid kind of attribute"):
        printed('sdy.mesh @m = #sdy.sharding<@m, [{"x"}]>')


def test_the_edges_between_functions_have_a_pretty_form() -> None:
    edge = "%0 = sdy.func_data_flow_edge %arg0 : tensor<8xf32>"
    text = f"func.func @f(%arg0: tensor<8xf32>) {{\n  {edge}\n  return\n}}"
    assert edge in printed_twice(text)


# ------------------------------------------------------------------------------ fused locations


def test_metadata_of_a_fused_location_may_be_an_alias() -> None:
    text = (
        '#meta = {a = "<", b = 3 : i64}\n#l = loc(fused<#meta>["y":1:2])\n'
        "func.func @f() {\n  return loc(#l)\n}\n"
    )
    assert 'loc(fused<{a = "<", b = 3 : i64}>[#' in printed_twice(text, locations=True)


def test_metadata_of_a_fused_location_names_no_locations() -> None:
    text = 'func.func @f() {\n  return loc(fused<#foo.x<#bar.y<"z">>>["y":1:2])\n}\n'
    assert 'fused<#foo.x<#bar.y<"z">>>' in printed_twice(text, locations=True)


def test_an_alias_of_metadata_has_to_be_defined_before() -> None:
    text = 'func.func @f() {\n  return loc(fused<#m>["y":1:2])\n}\n#m = 1 : i32\n'
    with pytest.raises(ParseError, match="undefined symbol alias id 'm'"):
        printed(text)


# ------------------------------------------------------------------------------------ resources


def resource(type: str, data: str, *, name: str = "w", comment: str = "") -> str:
    return (
        f"func.func @f() -> {type} {{\n  %0 = stablehlo.constant dense_resource<{name}> : {type}\n"
        f"  return %0 : {type}\n}}\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{comment}"
        f'      {name}: "0x{data}"\n    }}\n  }}\n#-}}\n'
    )


def value(text: str, type: object = None) -> list[object]:
    module = parse_stablehlo(text)
    constant = module.entry.instructions[0]
    found = constant.op.literal.array(constant.type)  # type: ignore[attr-defined]
    return found.reshape(-1).tolist()  # type: ignore[no-any-return,union-attr]


@pytest.mark.parametrize(
    ("type", "data", "expected"),
    [
        ("tensor<2xf32>", "040000000000803F000000C0", [1.0, -2.0]),
        ("tensor<1x2xbf16>", "0200000000400040", [2.0, 2.0]),
        ("tensor<3xi1>", "01000000010001", [True, False, True]),
        ("tensor<2xi32>", "0400000007000000FEFFFFFF", [7, -2]),
        ("tensor<f64>", "08000000000000000000F03F", [1.0]),
    ],
)
def test_resources_in_the_text_are_the_values(type: str, data: str, expected: list[object]) -> None:
    assert value(resource(type, data)) == expected
    assert value(resource(type, data, name='"a b"')) == expected


@pytest.mark.parametrize("data", ["040000000000803F", "040000000000803F0000000000"])
def test_resources_of_another_size_are_refused(data: str) -> None:
    with pytest.raises(VerifyError, match=r"bytes of data, its type 8"):
        value(resource("tensor<2xf32>", data))


def test_resources_that_are_not_in_the_text_have_no_value() -> None:
    text = resource("tensor<2xf32>", "04000000").replace("dense_resource<w>", "dense_resource<v>")
    with pytest.raises(UnsupportedError, match="not in the program"):
        value(text)


def test_constants_are_equal_if_their_resources_are() -> None:
    def literal(data: str) -> MlirLiteral:
        module = parse_stablehlo(resource("tensor<1xi8>", data))
        return module.entry.instructions[0].op.literal  # type: ignore[attr-defined,no-any-return]

    assert literal("0100000005") == literal("0100000005")
    assert literal("0100000005") != literal("0100000006")


@pytest.mark.parametrize("comment", ["// two floats\n", '  // a " in it\n', "// {- #-}\n"])
def test_metadata_of_a_file_may_have_comments(comment: str) -> None:
    text = resource("tensor<2xf32>", "040000000000803F000000C0", comment=comment)
    assert value(text) == [1.0, -2.0]
    assert comment.strip() not in printed_twice(text)


def test_a_string_in_the_metadata_is_no_comment() -> None:
    text = (
        function("") + '{-#\n  external_resources: {\n    a: {\n      b: "c//d"\n    }\n  }\n#-}\n'
    )
    assert '"c//d"' in printed_twice(text)


@pytest.mark.parametrize(
    ("digits", "size", "expected"),
    [
        ("0181", 16, [1] + [0] * 7 + [1] + [0] * 6 + [1]),
        ("FF01", 9, [1] * 9),
        ("FF00", 9, [1] * 8 + [0]),
        ("01", 16, [1] * 16),
        ("01", 8, [1] * 8),
        ("0100", 2, [1, 0]),
    ],
)
def test_booleans_may_be_packed_as_mlir_wrote_them(
    digits: str, size: int, expected: list[int]
) -> None:
    text = (
        f'func.func @f() -> tensor<{size}xi1> {{\n  %0 = stablehlo.constant dense<"0x{digits}"> :'
        f" tensor<{size}xi1>\n  return %0 : tensor<{size}xi1>\n}}"
    )
    assert value(text) == [bool(bit) for bit in expected]
    assert value(printed_twice(text)) == [bool(bit) for bit in expected]


# ---------------------------------------------------------------------- ops that are kept as text

SEQUENCE = """\
module {
  transform.named_sequence @main(%arg0: !transform.any_op) {
    %0 = transform.match ops{["}"]} in %arg0 : (!transform.any_op) -> !transform.any_op // {
    transform.yield
  }
  func.func @f(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.abs %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


def test_an_op_of_an_unknown_dialect_in_a_module_is_kept_as_text() -> None:
    once = printed_twice(SEQUENCE)
    assert once == SEQUENCE.replace(" // {", "")
    assert hloscope.read(once).root is not None


def test_an_op_that_is_kept_as_text_has_a_generic_form() -> None:
    tree = parse_mlir(SEQUENCE, dialects=DIALECTS)
    generic = print_mlir(tree, dialects=DIALECTS, generic=True)
    assert '"transform.named_sequence"() <{' in generic
    assert printed(generic) == printed(SEQUENCE)


def test_a_note_names_what_is_kept_as_text() -> None:
    notes: list[Diagnostic] = []
    parse_mlir(SEQUENCE, dialects=DIALECTS, notes=notes)
    (note,) = notes
    assert note.message == "`transform.named_sequence` is kept as text: its dialect is not known"
    assert note.severity == "note"
    assert note.span is not None
    assert note.span.line == 2


def test_verify_takes_ops_of_unknown_dialects_where_they_are_allowed() -> None:
    (found,) = hloscope.verify(SEQUENCE)
    assert "`transform' not found" in found.message
    assert hloscope.verify(SEQUENCE, allow_unregistered=True) == []


def test_names_of_locations_and_aliases_in_text_that_is_kept_do_not_dangle() -> None:
    text = (
        '#a = 3 : i64\n#l = loc("q":1:1)\nmodule {\n  foo.x @y {v = #a} {\n    bar.z loc(#l)\n'
        "  } loc(#l)\n  func.func @f() {\n    return\n  }\n}\n"
    )
    once = printed_twice(text, locations=True)
    assert "  foo.x @y {v = 3 : i64} {\n    bar.z\n  } loc(#" in once


@pytest.mark.parametrize(
    "op",
    [
        "foo.x @y {\n  func.func @f() {\n    return\n  }\n",  # never closed
        "foo.x @y (]\nfunc.func @f() {\n  return\n}\n",
        "%0 = foo.x @y\nfunc.func @f() {\n  return\n}\n",  # of a type that nobody knows
        "func.func @f() {\n  foo.x\n  return\n}\n",  # in a function
    ],
)
def test_what_is_no_op_in_a_module_is_an_error(op: str) -> None:
    with pytest.raises(ParseError, match="`foo' not found"):
        parse_mlir(op, dialects=DIALECTS)


def test_an_op_that_is_kept_as_text_ends_with_its_line() -> None:
    text = "foo.x @y : !foo.t\nfunc.func @f() {\n  return\n}\n"
    tree: Operation = parse_mlir(text, dialects=DIALECTS)
    assert [op.name for op in tree.regions[0].blocks[0]] == ["foo.x", "func.func"]
