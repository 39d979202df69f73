from __future__ import annotations

import pytest

from hloscope.errors import HloscopeError, ParseError, VerifyError
from hloscope.mlir.text.lexer import is_mlir
from hloscope.ops.control import Return, UnknownOp
from hloscope.stablehlo import parse_stablehlo

HEAD = "func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"


def test_names_of_a_region_do_not_leak() -> None:
    with pytest.raises(ParseError, match="undeclared"):
        parse_stablehlo(
            HEAD + '  %0 = "stablehlo.case"(%arg0) ({\n'
            "    %1 = stablehlo.negate %arg0 : tensor<4xf32>\n"
            "    stablehlo.return %1 : tensor<4xf32>\n"
            "  }) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1 : tensor<4xf32>\n}\n"
        )


def test_equal_lines_share_their_op_and_type() -> None:
    lines = [f"  %{i + 1} = stablehlo.add %{i}, %arg0 : tensor<4xf32>" for i in range(3)]
    first = '  %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32> loc("x")\n'
    entry = parse_stablehlo(
        HEAD + first + "\n".join(lines) + "\n  return %3 : tensor<4xf32>\n}"
    ).entry
    assert entry["2"].op == entry["0"].op
    assert entry["2"].operands == (entry["1"], entry["arg0"])
    assert entry["0"].extras == (("loc", '"x"'),)
    assert entry["2"].extras == ()
    span = entry["2"].span
    assert span is not None
    assert span.line_col == (4, 8)


def test_an_op_may_go_on_in_the_next_line() -> None:
    text = "  %0 = stablehlo.negate %arg0 : tensor<4xf32>\n"
    again = '  %1 = stablehlo.negate %0 : tensor<4xf32>\n    loc("x")\n'
    entry = parse_stablehlo(HEAD + text + again + "  return %1 : tensor<4xf32>\n}").entry
    assert entry["1"].extras == (("loc", '"x"'),)


def test_aliases_locations_and_attributes_are_read() -> None:
    module = parse_stablehlo(
        '#loc1 = loc("a")\n!t = tensor<4xf32>\n#p = array<i64: 0>\n'
        "module @m attributes {x.y = 1 : i32} {\n"
        '  sdy.mesh @mesh = <["x"=2]> loc(#loc)\n'
        '  func.func public @f(%arg0: !t {a.b = "}"} loc("z")) -> (!t {r = 1 : i32}) {\n'
        '    %0 = "stablehlo.transpose"(%arg0) <{permutation = #p}> : (!t) -> !t loc(#loc2)\n'
        "    return %0 : !t loc(callsite(#loc1 at #loc2))\n"
        '  } loc(#loc)\n} loc(#loc)\n#loc = loc(unknown)\n#loc2 = loc(fused["f":1:2, #loc1])\n'
    )
    extras = dict(module.extras)
    assert extras["x.y"] == "1 : i32"
    assert '@mesh = <["x"=2]>' in extras["sdy.mesh"]
    entry = module.entry
    assert entry.name == "f"
    assert entry.parameters[0].extras == (("a.b", '"}"'), ("loc", '"z"'))
    assert entry["0"].type == entry["arg0"].type
    assert entry.root.extras == (("loc", "callsite(#loc1 at #loc2)"),)
    assert dict(entry.extras)["res_attrs"] == "[{r = 1 : i32}]"


def test_the_generic_form_of_a_whole_module_is_read() -> None:
    module = parse_stablehlo(
        '"builtin.module"() <{sym_name = "m"}> ({\n'
        '  "func.func"() <{function_type = (tensor<f32>) -> tensor<f32>, sym_name = "main"}> ({\n'
        '  ^bb0(%arg0: tensor<f32>):\n    "func.return"(%arg0) : (tensor<f32>) -> ()\n'
        "  }) : () -> ()\n}) : () -> ()\n"
    )
    assert (module.name, module.entry.name) == ("m", "main")
    assert module.entry.root.operands == module.entry.parameters


def test_a_body_is_made_when_it_is_asked_for() -> None:
    module = parse_stablehlo(HEAD + "  return %arg0 : tensor<4xf32>\n}\n")
    assert not module.entry.is_read
    assert list(module.computations) == ["main"]
    assert module.entry.is_read


def test_functions_of_modules_in_modules_are_found() -> None:
    module = parse_stablehlo(
        "module {\n  func.func @main(%a: tensor<f32>) -> tensor<f32> {\n"
        "    return %a : tensor<f32>\n  }\n"
        "  module @inner {\n    func.func @f(%a: tensor<f32>) -> tensor<f32> {\n"
        "      %0 = func.call @g(%a) : (tensor<f32>) -> tensor<f32>\n"
        "      return %0 : tensor<f32>\n    }\n"
        "    func.func private @g(%a: tensor<f32>) -> tensor<f32>\n  }\n}\n"
    )
    assert list(module.computations) == ["main", "inner::f", "inner::g"]
    assert module.computations["inner::f"]["0"].calls == (module.computations["inner::g"],)
    declared = module.computations["inner::g"]
    assert declared.root.op == UnknownOp("func.func")
    assert declared.root.operands == declared.parameters


def test_what_is_no_straight_line_is_not_understood_but_there() -> None:
    module = parse_stablehlo(
        "func.func @main(%a: tensor<i1>, %b: tensor<f32>) -> tensor<f32> {\n"
        '  %p = "tensor.extract"(%a) : (tensor<i1>) -> i1\n'
        "  cf.cond_br %p, ^one, ^two\n"
        "^one:\n  return %b : tensor<f32>\n^two:\n  return %b : tensor<f32>\n}\n"
    )
    root = module.entry.root
    assert isinstance(root.op, UnknownOp)
    assert dict(root.op.settings) == {"reason": "it has several blocks"}
    assert root.operands == module.entry.parameters


def test_regions_of_unknown_ops_read_what_they_read() -> None:
    module = parse_stablehlo(
        "func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
        '  %0 = "other.op"(%a) ({\n  ^bb0(%x: tensor<f32>):\n'
        '    "other.use"(%x, %b) : (tensor<f32>, tensor<f32>) -> ()\n'
        "  }) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}\n"
    )
    ins = module.entry["0"]
    assert ins.op == UnknownOp("other.op")
    assert [o.name for o in ins.operands] == ["a", "b"]


def test_loose_operations_are_a_computation() -> None:
    module = parse_stablehlo("%0 = stablehlo.constant dense<1> : tensor<i32>\n")
    assert module.entry["0"].op.name == "constant"
    assert isinstance(module.entry.root.op, Return)


@pytest.mark.parametrize(
    ("line", "kind", "message", "column"),
    [
        ("%0 = stablehlo.ad %arg0, %arg0 : tensor<4xf32>", ParseError, "is unknown", 8),
        ("%0 = stablehlo.iota dim = x : tensor<4xf32>", ParseError, "expected attribute", 29),
        ('%0 = "stablehlo.iota"() : () -> tensor<4xf32>', VerifyError, "requires attribute", 8),
        (
            "%0 = call @g(%arg0) : (tensor<4xf32>) -> tensor<4xf32>",
            VerifyError,
            "no function `@g`",
            8,
        ),
        (
            '%0 = "stablehlo.dot_general"(%arg0, %arg0) {dot_dimension_numbers = 3 : i64} : '
            "(tensor<4xf32>, tensor<4xf32>) -> tensor<f32>",
            VerifyError,
            "needs a structure `dot`",
            8,
        ),
    ],
)
def test_an_error_says_what_and_where(
    line: str, kind: type[HloscopeError], message: str, column: int
) -> None:
    with pytest.raises(kind, match=message) as caught:
        list(parse_stablehlo(f"{HEAD}  {line}\n  return %arg0 : tensor<4xf32>\n}}").entry)
    assert caught.value.span is not None
    assert caught.value.span.line_col == (2, column)


def test_a_value_used_before_it_is_there_is_refused() -> None:
    text = HEAD + "  %0 = stablehlo.add %1, %1 : tensor<4xf32>\n"
    text += "  %1 = stablehlo.negate %arg0 : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
    with pytest.raises(VerifyError, match="operand #0 does not dominate this use"):
        list(parse_stablehlo(text).entry)


@pytest.mark.parametrize(
    ("text", "message"),
    [("module {\n}", "has no function"), (HEAD + "}\n" + HEAD + "}", "redefinition of symbol")],
)
def test_a_module_without_a_graph_is_refused(text: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        parse_stablehlo(text)


def test_deep_regions_are_made_in_order() -> None:
    depth = 40
    open_ = '"stablehlo.case"(%i) ({\n' * depth
    close = "}) : (tensor<i32>) -> ()\n" * depth
    text = f"func.func @main(%i: tensor<i32>) {{\n{open_}{close}return\n}}\n"
    assert is_mlir(text)
    module = parse_stablehlo(text)
    assert len(module.computations) == depth + 1


def test_a_text_of_blanks_is_judged_at_once() -> None:
    assert not is_mlir(" " * 5000 + "\n" * 5000 + "HloModule m")
    assert is_mlir(" " * 5000 + "// comment\n" * 500 + "module {}")
