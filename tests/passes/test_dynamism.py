"""Sizes followed through programs: own cases of each rule, and what exported programs become."""

from __future__ import annotations

import pytest

from hloscope.mlir import parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import Outcome, PassError, applied, parse_pipeline, run_pipeline
from hloscope.passes.dynamism.dimensions import formatted
from tests.conftest import needs_shared
from tests.passes import dynamic_corpus, dynamic_values

REFINE = "refine-shapes"


def outcome(text: str, pipeline: str = REFINE) -> Outcome:
    return run_pipeline(parse_mlir(text, dialects=DIALECTS), parse_pipeline(pipeline))


def after(text: str, pipeline: str = REFINE) -> str:
    found = outcome(text, pipeline)
    assert found.ok, "\n".join(map(str, found.diagnostics))
    return print_mlir(found.module, dialects=DIALECTS)


def errors(text: str, pipeline: str = REFINE) -> list[str]:
    return [each.message for each in outcome(text, pipeline).diagnostics]


def body(text: str, arguments: str = "%a: tensor<4xf32>", result: str = "tensor<?xf32>") -> str:
    return f"func.func @main({arguments}) -> {result} {{ {text} return %r : {result} }}"


NESTED = body(
    """%p = stablehlo.constant dense<true> : tensor<i1>
    %r = "stablehlo.if"(%p) ({
      %n = stablehlo.get_dimension_size %b, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %w:2 = "stablehlo.while"(%b, %p) ({
      ^bb0(%x: tensor<?xf32>, %q: tensor<i1>):
        stablehlo.return %q : tensor<i1>
      }, {
      ^bb0(%x: tensor<?xf32>, %q: tensor<i1>):
        %i = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
        %y = stablehlo.add %x, %i : tensor<?xf32>
        stablehlo.return %y, %q : tensor<?xf32>, tensor<i1>
      }) : (tensor<?xf32>, tensor<i1>) -> (tensor<?xf32>, tensor<i1>)
      stablehlo.return %w#0 : tensor<?xf32>
    }, {
      stablehlo.return %b : tensor<?xf32>
    }) : (tensor<i1>) -> tensor<?xf32>""",
    "%b: tensor<?xf32>",
)


def test_regions_in_regions_read_sizes_from_around() -> None:
    found = after(NESTED, "remove-dynamism{types=tensor<4xf32>}")
    assert "?" not in found
    assert "custom_call" not in found
    assert "stablehlo.iota dim = 0 : tensor<4xf32>" in found


def test_what_is_given_stays_dynamic_where_nothing_is_known() -> None:
    found = after(NESTED, "remove-dynamism")
    assert found.count("?") >= 8
    assert "dynamic_iota" in found


def test_wrong_types_of_arguments_are_refused() -> None:
    with pytest.raises(PassError, match="rank must match operand rank"):
        applied(
            parse_mlir(NESTED, dialects=DIALECTS),
            parse_pipeline("remove-dynamism{types=tensor<4x4xf32>}"),
        )


RECURSIVE = """
func.func @main(%a: tensor<4xf32>) -> tensor<?xf32> {
  %r = call @f(%a) : (tensor<4xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
func.func private @f(%a: tensor<4xf32>) -> tensor<?xf32> {
  %r = call @f(%a) : (tensor<4xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
"""


def test_a_function_that_calls_itself_is_told_of() -> None:
    [message] = errors(RECURSIVE)
    assert message == "'func.func' op Function f is being refined recursively\n"


TWICE = """
func.func @main(%a: tensor<4xf32>, %b: tensor<SIZExf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = stablehlo.abs %a : (tensor<4xf32>) -> tensor<?xf32>
  %1 = stablehlo.abs %b : (tensor<SIZExf32>) -> tensor<?xf32>
  %c = call @f(%0) : (tensor<?xf32>) -> tensor<?xf32>
  %d = call @f(%1) : (tensor<?xf32>) -> tensor<?xf32>
  return %c, %d : tensor<?xf32>, tensor<?xf32>
}
func.func private @f(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.abs %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""


def test_a_function_is_refined_once() -> None:
    assert "-> (tensor<4xf32>, tensor<4xf32>)" in after(TWICE.replace("SIZE", "4"))


def test_a_function_that_is_called_with_different_sizes_is_told_of() -> None:
    found = outcome(TWICE.replace("SIZE", "5"))
    assert not found.ok
    first, *_, last = [each.message for each in found.diagnostics]
    assert "refined with incompatible refinement keys:\n  curr=RefinementKey(f, toks=0" in first
    assert "operand type mismatch" in last


@pytest.mark.slow
def test_a_chain_of_calls_takes_no_stack_of_python() -> None:
    count = 1500
    functions = [
        f"func.func private @f{k}(%a: tensor<?xf32>) -> tensor<?xf32> {{"
        f" %r = call @f{k + 1}(%a) : (tensor<?xf32>) -> tensor<?xf32> return %r : tensor<?xf32> }}"
        for k in range(count)
    ]
    last = f"func.func private @f{count}(%a: tensor<?xf32>) -> tensor<?xf32> {{"
    last += " return %a : tensor<?xf32> }"
    entry = body("%r = call @f0(%a) : (tensor<?xf32>) -> tensor<?xf32>", "%a: tensor<?xf32>")
    found = after("\n".join([entry, *functions, last]), "remove-dynamism{types=tensor<4xf32>}")
    assert "?" not in found


def test_sizes_that_contradict_what_is_declared_change_nothing() -> None:
    text = body(
        "%s = stablehlo.constant dense<[3]> : tensor<1xi64>"
        " %r = stablehlo.custom_call @f(%s) {indices_of_shape_operands = dense<0> : tensor<1xi64>}"
        " : (tensor<1xi64>) -> tensor<4xf32>",
        result="tensor<4xf32>",
    )
    [message] = errors(text)
    assert message == (
        "indices_of_shape_operands: refinement #0 ([3]) must be compatible with operation result"
        " #0 ('tensor<4xf32>')"
    )
    assert "tensor<4xf32>" in after(text)


def test_bounds_become_stricter_and_sizes_take_their_place() -> None:
    bounded = "tensor<?xf32, #stablehlo.bounds<BOUND>>"
    text = body(
        f"%r = stablehlo.abs %a : ({bounded}) -> {bounded}".replace("BOUND", "4", 1),
        "%a: " + bounded.replace("BOUND", "4"),
        bounded,
    ).replace("BOUND", "8")
    assert "#stablehlo.bounds<8>" not in after(text)
    static = text.replace("tensor<?xf32, #stablehlo.bounds<4>>", "tensor<3xf32>")
    assert "bounds" not in after(static)


def test_tokens_and_empty_programs_are_fine() -> None:
    assert "call @f(%arg0)" in after("""
    func.func @main(%t: !stablehlo.token) -> !stablehlo.token {
      %c = stablehlo.constant dense<1> : tensor<i32>
      %r = call @f(%t, %c) : (!stablehlo.token, tensor<i32>) -> !stablehlo.token
      return %r : !stablehlo.token
    }
    func.func private @f(%t: !stablehlo.token, %n: tensor<i32>) -> !stablehlo.token {
      return %t : !stablehlo.token
    }""")
    assert "return" in after("func.func @main() { return }", "remove-dynamism")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func private @f()", "'func.func' op must have exactly one block"),
        (
            "func.func @f() { return } func.func @g() { return }",
            "'builtin.module' op must have no more than one function or a `main` function to"
            " clearly identify which function will be refined",
        ),
    ],
)
def test_programs_without_a_beginning_are_refused(text: str, message: str) -> None:
    found = outcome(text)
    assert not found.ok
    assert found.diagnostics[0].message == message


def test_no_function_fails_without_a_word() -> None:
    found = outcome("module {}")
    assert not found.ok
    assert not found.diagnostics


WRAPPED = body(
    "%s = stablehlo.constant dense<3> : tensor<1xi32>"
    " %0 = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [] : (tensor<f32>, tensor<1xi32>)"
    ' -> tensor<?xf32> %r = "x.y"(%0) : (tensor<?xf32>) -> tensor<?xf32>',
    "%a: tensor<f32>",
)


def test_a_value_that_an_unknown_op_reads_keeps_its_type() -> None:
    assert '"x.y"(%0) : (tensor<?xf32>)' in after(WRAPPED)


ASSERTION = """
func.func @main(%a: tensor<i1>) {{
  %p = stablehlo.constant dense<{value}> : tensor<i1>
  %n = stablehlo.constant dense<7> : tensor<i32>
  stablehlo.custom_call @shape_assertion({operands}) {{{attributes}}} : ({types}) -> ()
  return
}}
"""


def assertion(
    value: str = "false",
    operands: str = "%p, %n",
    attributes: str = 'error_message = "n is {0}"',
    types: str = "tensor<i1>, tensor<i32>",
) -> str:
    return ASSERTION.format(value=value, operands=operands, attributes=attributes, types=types)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (assertion(), "n is 7"),
        (assertion(operands="%a, %n"), "expects static assert_what (operand #0)"),
        (assertion(attributes=""), "expects an error_message attribute"),
        (assertion(operands="", types=""), "expects 1 <= size(operands) <= 33"),
        (
            assertion(attributes='error_message = "n is {1}"'),
            "expects error_message to contain format specifiers with error_message_input index"
            " less than 1. Found specifier {1}",
        ),
        (assertion(attributes="more"), '"more" is not a supported attribute'),
        (
            assertion(operands="%n", types="tensor<i32>"),
            "expects assert_what (operand #0) to be a constant of type tensor<i1>",
        ),
        (
            assertion(operands="%p, %p", types="tensor<i1>, tensor<i1>"),
            "expects error_message_input (operand #1) to be a constant of type tensor<i32> or"
            " tensor<i64>",
        ),
        (assertion(attributes='backend_config = "x"'), "expects an empty backend_config"),
    ],
)
def test_assertions_that_do_not_hold_are_errors(text: str, message: str) -> None:
    found = outcome(text, "check-shape-assertions")
    assert [each.message for each in found.diagnostics] == [message]
    assert not found.ok
    assert "shape_assertion" not in after(
        text, "check-shape-assertions{enable-shape-assertions=false}"
    )


def test_assertions_that_hold_go() -> None:
    assert "shape_assertion" not in after(assertion("true"), "check-shape-assertions")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{0} {1}", "7 -2"),
        ("{} {} {}", "7 -2 -1"),
        ("{ 0 }", "7"),
        ("[{0,4}] [{0,-4}] [{0,=4}]", "[   7] [7   ] [ 7  ]"),
        ("{0:x} {0:X} {0:X-} {0:x8}", "0x7 0x7 7 0x00000007"),
        ("{0:D4} {1:N}", "0007 -2"),
        ("{{ {{{{ } }}", "{ {{ } }}"),
        ("{{{0}", "{7"),
        ("a{b}c", "ac"),
        ("{0", "Unterminated brace sequence. Escape with {{ for a literal brace."),
        ("{0,99999999999}", " " * 65535 + "7"),
    ],
)
def test_messages_are_written_as_llvm_writes_them(template: str, text: str) -> None:
    assert formatted(template, [7, -2]) == text


@pytest.mark.slow
@needs_shared
def test_exported_programs_become_what_jaxlib_makes_of_them(full: bool) -> None:
    chosen = [*dynamic_corpus.records()][:: 1 if full else 8]
    assert chosen
    for record in chosen:
        found = dynamic_corpus.text_of(dynamic_corpus.refined(record))
        assert found == record["text"], record["file"]


@pytest.mark.slow
@needs_shared
def test_exported_programs_return_what_upstream_s_interpreter_returned(full: bool) -> None:
    found = dynamic_values.verdicts(1 if full else 8)
    assert found
    assert {file: what for file, what in found.items() if what not in dynamic_values.FINE} == {}


GROUPS = """
%s
func.func @main(%%a: tensor<?x4xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %%0 = "stablehlo.all_gather"(%%a) <{all_gather_dim = 0 : i64,
    replica_groups = #stablehlo.replica_group_mesh_axes<mesh = %s,
      axes = [#stablehlo.axis_ref<name = "%s">]>}> : (tensor<?x4xf32>) -> tensor<?x?xf32>
  %%1 = "stablehlo.all_gather"(%%a) <{all_gather_dim = 1 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<?x4xf32>) -> tensor<?x?xf32>
  return %%0, %%1 : tensor<?x?xf32>, tensor<?x?xf32>
}"""
MESH = (
    '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>,'
    ' #stablehlo.mesh_axis<name = "y", size = 3>]>'
)


@pytest.mark.parametrize(
    ("defined", "mesh", "axis", "size"),
    [
        ("", MESH, "y", "9x4"),
        ('sdy.mesh @m = <["x"=2, "y"=3]>', "@m", "y", "9x4"),
        ('sdy.mesh @m = <["x"=2, "y"=3]>', "@m", "x", "6x4"),
        ('sdy.mesh @m = <["x"=2, "y"=3]>', "@m", "z", "?x?"),
    ],
)
def test_groups_along_axes_of_meshes_have_sizes(
    defined: str, mesh: str, axis: str, size: str
) -> None:
    """Meshes that stand there, and those with names; what is no axis tells nothing."""
    text = after(
        GROUPS % (defined, mesh, axis), "refine-arguments{types=tensor<3x4xf32>},refine-shapes"
    )
    assert f"-> (tensor<{size}xf32>, tensor<3x8xf32>)" in text


RECURSIVE_CONSTANT = """
func.func @main() -> tensor<i32> {
  %0 = stablehlo.constant dense<3> : tensor<i32>
  %1 = call @f(%0) : (tensor<i32>) -> tensor<i32>
  return %1 : tensor<i32>
}
func.func private @f(%a: tensor<i32>) -> tensor<i32> {
  %0 = call @f(%a) : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}
"""


def test_a_call_that_could_not_be_refined_does_not_fit_any_more() -> None:
    found = outcome(RECURSIVE_CONSTANT)
    assert not found.ok
    messages = [each.message for each in found.diagnostics]
    assert "Function f is being refined recursively" in messages[0]
    assert "incorrect number of operands for callee" in messages[-1]


def test_sizes_beyond_64_bits_are_no_sizes() -> None:
    most = 2**63 - 1
    text = body(
        f"%l = stablehlo.constant dense<{most}> : tensor<1xi64>"
        " %i = stablehlo.constant dense<0> : tensor<1xi64>"
        " %z = stablehlo.constant dense<0.0> : tensor<f32>"
        " %r = stablehlo.dynamic_pad %a, %z, %l, %l, %i : (tensor<4xf32>, tensor<f32>,"
        " tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xf32>"
    )
    assert "-> tensor<?xf32>" in after(text)


def test_a_custom_call_with_tuples_keeps_its_shape_operands() -> None:
    text = body(
        "%s = stablehlo.constant dense<[3]> : tensor<1xi64>"
        " %r = stablehlo.custom_call @f(%s) {indices_of_shape_operands = dense<0> : tensor<1xi64>}"
        " : (tensor<1xi64>) -> tuple<tensor<?xf32>>",
        result="tuple<tensor<?xf32>>",
    )
    found = after(text, "remove-dynamism")
    assert "(tensor<1xi64>) -> tuple<tensor<3xf32>>" in found


def test_comparing_with_something_static_makes_nothing_static() -> None:
    text = body(
        "%r = stablehlo.compare EQ, %b, %a : (tensor<?xf32>, tensor<4xf32>) -> tensor<?xi1>",
        "%a: tensor<4xf32>, %b: tensor<?xf32>",
        "tensor<?xi1>",
    )
    assert "-> tensor<?xi1>" in after(text)
