"""Verification of StableHLO: own cases, upstream's, and every program there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hloscope
from hloscope.api import check_expected
from hloscope.errors import Diagnostic
from hloscope.mlir import ir
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.lexer import split_input
from hloscope.mlir.text.parser import parse_mlir
from hloscope.verifier.stablehlo.traits import _place
from hloscope.verifier.stablehlo.walk import verify_mlir
from hloscope.verifier.text import first_errors, verify_text
from tests.verifier.chunks import FOLDER, chunks, judge

CASES = [
    pytest.param(text, id=f"{path.stem}:{line}")
    for path in sorted(Path(__file__).parent.glob("cases/*.mlir"))
    for line, text in split_input(path.read_text())
]


@pytest.mark.parametrize("text", CASES)
def test_the_expected_errors_are_found_and_no_others(text: str) -> None:
    assert not [d.message for d in check_expected(text, allow_unregistered=True)]


@pytest.mark.parametrize("text", CASES)
def test_all_errors_include_the_first_ones(text: str) -> None:
    first = {d.message for d in first_errors(text, allow_unregistered=True)}
    assert first <= {d.message for d in verify_text(text, allow_unregistered=True)}


def test_every_finding_is_reported_in_the_order_of_the_text() -> None:
    found = verify_text("""
      func.func @f(%a: tensor<2xf32>) -> tensor<3xf32> {
        %0 = "stablehlo.negate"() : () -> tensor<2xf32>
        %1 = "stablehlo.reverse"(%a) {dimensions = array<i64: 1>} : (tensor<2xf32>) -> tensor<2xf32>
        func.call @g() : () -> ()
        func.return %2 : tensor<2xf32>
        ^never:
        %2 = stablehlo.add %a, %a : tensor<2xf32>
        func.return %2 : tensor<2xf32>
      }
    """)
    assert [d.message for d in found] == [
        "'stablehlo.negate' op requires a single operand",
        "all dimensions should be between [0, 1). Got dimension: 1.",
        "'func.call' op 'g' does not reference a valid function",
        "type of return operand 0 ('tensor<2xf32>') doesn't match function result type"
        " ('tensor<3xf32>') in function @f",
        "operand #0 does not dominate this use",
        "type of return operand 0 ('tensor<2xf32>') doesn't match function result type"
        " ('tensor<3xf32>') in function @f",
    ]


def test_an_outer_op_is_not_blamed_for_what_is_wrong_inside_it() -> None:
    text = """
      func.func @f(%p: tensor<i1>, %a: tensor<2xf32>) {
        %0 = "stablehlo.if"(%p) ({
          %1 = "stablehlo.negate"() : () -> tensor<2xf32>
          "stablehlo.return"() : () -> ()
        }, {
          "stablehlo.return"(%a) : (tensor<2xf32>) -> ()
        }) : (tensor<i1>) -> tensor<2xf32>
        func.return
      }"""
    assert len(verify_text(text)) == 1


@pytest.mark.parametrize("verifier", [verify_text, first_errors])
def test_an_error_before_the_parser_starts_is_reported(
    verifier: Callable[[str], list[Diagnostic]],
) -> None:
    [found] = verifier(f"func.func @f() {{ return }}\n// {'1' * 4001}")
    assert found.message == "a number of 4,001 digits, at most 4,000 are read"
    assert found.span is not None
    assert found.span.line_col == (2, 4)


def test_a_syntax_error_has_its_notes() -> None:
    text = """func.func @f(%a: tensor<2xf32>) {
      %b = stablehlo.negate %a : tensor<2xf32>
      %b = stablehlo.negate %a : tensor<2xf32>
      return
    }"""
    [found] = first_errors(text)
    assert found.message == "redefinition of SSA value '%b'"
    [note] = found.notes
    assert (note.severity, note.message) == ("note", "previously defined here")
    assert note.span is not None
    assert note.span.line_col == (2, 12)
    assert verify_text(text) == [found]


def test_a_finding_names_the_broken_constraint_and_the_place() -> None:
    [first, second] = verify_text(
        "func.func @f(%a: tensor<4xf32>) {\n"
        '  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>, limit_indices ='
        " array<i64: 5>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<5xf32>\n"
        "  func.return\n}"
    )
    assert first.rule == second.rule == "slice_c3"
    assert first.span is not None
    assert first.span.line_col == (2, 8)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"stablehlo.ceil"(%i) : (tensor<2xi32>) -> tensor<2xi32>', "ceil_i1"),
        ('"stablehlo.reverse"(%i) {dimensions = 0} : (I) -> I', "reverse_i2"),
        ('"stablehlo.reverse"(%i) : (I) -> I', "reverse_i2"),
        ('"stablehlo.negate"(%i) : (I) -> tensor<3xi32>', "negate_c1"),
        ('"stablehlo.clamp"(%i, %i, %i) : (I, I, I) -> tensor<2xi64>', "clamp_c3"),
        ("stablehlo.pad %i, %s, low = [], high = [0], interior = [0] : (I, tensor<i32>) -> I",
         "pad_c2"),
    ],
)  # fmt: skip
def test_definitions_know_the_labels_of_the_specification(text: str, rule: str) -> None:
    text = f'%i = "x.y"() : () -> I\n%s = "x.y"() : () -> tensor<i32>\n%0 = {text}'
    found = verify_text(text.replace("I", "tensor<2xi32>"), allow_unregistered=True)
    assert found[0].rule == rule


def test_unknown_dialects_are_refused_unless_allowed() -> None:
    module = parse_mlir('"x.y"() : () -> ()', dialects=DIALECTS)
    assert not verify_mlir(module)
    [error] = verify_mlir(module, allow_unregistered=False)
    assert "'x.y' op created with unregistered dialect" in error.message


def test_familiar_dialects_are_taken_as_they_are() -> None:
    text = """
      sdy.mesh @m = <["x"=2]>
      func.func @f(%a: i32) -> i32 {
        %0 = arith.addi %a, %a : i32
        func.return %0 : i32
      }"""
    assert not verify_text(text)


def test_modules_of_several_forms_can_be_verified() -> None:
    text = "func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    assert hloscope.verify(text) == []
    assert hloscope.verify(hloscope.read(text)) == []
    assert hloscope.verify(parse_mlir(text, dialects=DIALECTS)) == []
    assert hloscope.verify(text + "// -----\n" + text, split=True) == []
    [again] = hloscope.verify(text + "\n" + text)
    assert again.notes[0].message == "see existing symbol definition here"


def test_deep_and_wide_programs_are_walked_without_recursion() -> None:
    branches = "\n".join(f"^b{i}:\n  cf.br ^b{i + 1}" for i in range(1, 2000))
    text = f"func.func @f() {{\n  cf.br ^b1\n{branches}\n^b2000:\n  return\n}}"
    assert not verify_text(text)
    module = parse_mlir('"x.y"() : () -> ()', dialects=DIALECTS)
    inner = module.regions[0].blocks[0].operations[0]
    for _ in range(5000):
        inner = _wrapped(inner)
    assert not verify_mlir(_wrapped(inner))


def _wrapped(operation: ir.Operation) -> ir.Operation:
    return ir.Operation("x.y", regions=(ir.Region((ir.Block((), (operation,)),)),))


# --- upstream's tests and real programs -----------------------------------------------------


@pytest.mark.slow
def test_upstreams_programs_are_judged_as_their_comments_say(shared: Path) -> None:
    wrong = [verdict for chunk in chunks() if not (verdict := judge(chunk)).is_right]
    assert [(verdict.name, verdict.outcome) for verdict in wrong] == []


def test_every_program_is_accepted(shared: Path, full: bool) -> None:
    files = sorted(p for p in [*FOLDER.rglob("*.mlir"), *(shared / "real").rglob("*.mlir")])
    files = [p for p in files if "vhlo" not in p.parts]
    for path in files if full else files[::20]:
        for _, text in split_input(path.read_text()):
            found = first_errors(text, str(path), allow_unregistered=True)
            assert not found, str(found[0])


@pytest.mark.parametrize("computes", [True, False])
def test_regions_that_look_alike_may_use_different_values_from_outside(computes: bool) -> None:
    choice = """
      %{name} = "stablehlo.if"(%p) ({{
        {computed}
        stablehlo.return %{returned} : tensor<2xf32>
      }}, {{
        stablehlo.return %a : tensor<2xf32>
      }}) : (tensor<i1>) -> tensor<2xf32>"""
    one, other = (
        choice.format(
            name=name, returned="1", computed=f"%1 = stablehlo.abs %{used}: tensor<2xf32>"
        )
        if computes
        else choice.format(name=name, returned=used, computed="")
        for name, used in (("x", "before"), ("y", "after"))
    )
    [error] = verify_text(f"""
      func.func @f(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {{
        %before = stablehlo.negate %a : tensor<2xf32>
        {one}
        {other}
        %after = stablehlo.negate %y : tensor<2xf32>
        return %after : tensor<2xf32>
      }}""")
    assert error.message == "operand #0 does not dominate this use"


@pytest.mark.parametrize("scale", ["1.401298464324817e-45", "3.4028234663852886e+38"])
def test_the_least_and_the_largest_number_are_scales(scale: str) -> None:
    type = f"tensor<2x!quant.uniform<i8:f32, {scale}>>"
    text = f"func.func @f(%a: {type}) -> {type} {{ %0 = stablehlo.add %a, %a : {type}"
    assert not verify_text(f"{text}\nreturn %0 : {type} }}")


def test_operands_alone_have_to_be_alike_where_there_are_no_results() -> None:
    [error] = verify_text(
        "func.func @f(%a: tensor<2xf32>, %b: tensor<3xf32>) {"
        ' "check.expect_eq"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> ()\nreturn }'
    )
    assert error.message.endswith("requires the same shape for all operands")


def test_where_a_value_is_defined_is_told_from_where_it_is_used() -> None:
    root = parse_mlir(
        """func.func @f(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
          %r = "stablehlo.if"(%p) ({
            %a = stablehlo.abs %x : tensor<f32>
            stablehlo.return %a : tensor<f32>
          }, {
            %n = stablehlo.negate %x : tensor<f32>
            stablehlo.return %n : tensor<f32>
          }) : (tensor<i1>) -> tensor<f32>
          return %r : tensor<f32>
        }""",
        dialects=DIALECTS,
    )
    (function,) = root.regions[0].block.operations
    choice, end = function.regions[0].block.operations
    one, other = (region.block.operations[0] for region in choice.regions)
    assert _place(end, choice) == "op in the same block"
    assert _place(one, choice) == "op in a parent region"
    assert _place(end, one) == "op in a child region"
    assert _place(one, other) == "op is neither in a parent nor in a child region"
