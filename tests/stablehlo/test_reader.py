# ruff: noqa: E501  (tables read best with one row a line)
from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.stablehlo import parse_stablehlo

HEAD = "func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"


def test_names_of_a_region_do_not_leak() -> None:
    with pytest.raises(ParseError, match="no value `%1` here"):
        parse_stablehlo(
            HEAD + '  %0 = "stablehlo.case"(%arg0) ({\n'
            "    %1 = stablehlo.negate %arg0 : tensor<4xf32>\n"
            "    stablehlo.return %1 : tensor<4xf32>\n"
            "  }) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1 : tensor<4xf32>\n}\n"
        )


def test_equal_lines_share_their_op_and_type() -> None:
    lines = [f"  %{i + 1} = stablehlo.add %{i}, %arg0 : tensor<4xf32>" for i in range(3)]
    first = "  %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32> loc(#loc)\n"
    entry = parse_stablehlo(
        HEAD + first + "\n".join(lines) + "\n  return %3 : tensor<4xf32>\n}"
    ).entry
    assert entry["2"].op is entry["0"].op
    assert entry["2"].operands == (entry["1"], entry["arg0"])
    assert entry["0"].extras == (("loc", "#loc"),)
    assert entry["2"].extras == ()
    span = entry["2"].span
    assert span is not None
    assert span.source.text[span.start : span.end] == lines[1].strip()


def test_an_op_may_go_on_in_the_next_line() -> None:
    text = "  %0 = stablehlo.negate %arg0 : tensor<4xf32>\n"
    again = '  %1 = stablehlo.negate %0 : tensor<4xf32>\n    loc("x")\n'
    entry = parse_stablehlo(HEAD + text + again + "  return %1 : tensor<4xf32>\n}").entry
    assert entry["1"].extras == (("loc", '"x"'),)


def test_aliases_locations_and_attributes_are_read() -> None:
    module = parse_stablehlo(
        '#loc1 = loc("a")\n!t = tensor<4xf32>\n#p = dense<0> : tensor<1xi64>\n'
        "module @m attributes {x.y = 1 : i32} {\n"
        '  sdy.mesh @mesh = <["x"=2]> loc(#loc)\n'
        '  func.func public @f(%arg0: !t {a.b = "}"} loc("z")) -> (!t {r = 1 : i32}) {\n'
        '    %0 = "stablehlo.transpose"(%arg0) <{permutation = #p}> : (!t) -> !t loc(#loc2)\n'
        "    return %0 : !t loc(callsite(#loc1 at #loc2))\n"
        '  } loc(#loc)\n} loc(#loc)\n#loc = loc(unknown)\n#loc2 = loc(fused["f":1:2, #loc1])\n'
    )
    assert dict(module.extras)["x.y"] == "1 : i32"
    assert dict(module.extras)["sdy.mesh"].startswith('sdy.mesh @mesh = <["x"=2]>')
    entry = module.entry
    assert entry.name == "f"
    assert entry.parameters[0].extras == (("a.b", '"}"'), ("loc", '"z"'))
    assert entry["0"].type == entry["arg0"].type
    assert entry.root.extras == (("loc", "callsite(#loc1 at #loc2)"),)


def test_the_generic_form_of_a_whole_module_is_read() -> None:
    module = parse_stablehlo(
        '"builtin.module"() <{sym_name = "m"}> ({\n'
        '  "func.func"() <{function_type = (tensor<f32>) -> tensor<f32>, sym_name = "main"}> ({\n'
        '  ^bb0(%arg0: tensor<f32>):\n    "func.return"(%arg0) : (tensor<f32>) -> ()\n'
        "  }) : () -> ()\n}) : () -> ()\n"
    )
    assert (module.name, module.entry.name) == ("m", "main")
    assert module.entry.root.operands == module.entry.parameters


@pytest.mark.parametrize(
    ("line", "message", "marked"),
    [
        ("%0 = stablehlo.ad %arg0, %arg0 : tensor<4xf32>", "unknown op `stablehlo.ad`; did you", "stablehlo.ad"),
        ("%0 = stablehlo.add %arg1, %arg0 : tensor<4xf32>", "no value `%arg1` here; did you mean `%arg0`", "%arg1"),
        ("%0 = stablehlo.add %arg0, %arg0 : tensor<4xf33>", "unknown element type `f33`", "tensor<4xf33>"),
        ("%0 = stablehlo.iota : tensor<4xf32>", "`stablehlo.iota` needs attribute `iota_dimension`", "stablehlo.iota"),
        ("%0 = stablehlo.iota dim = x : tensor<4xf32>", "expected an integer for `iota_dimension`", "stablehlo.iota"),
        ("%0:2 = stablehlo.add %arg0, %arg0 : tensor<4xf32>", "`stablehlo.add` has 1 result, 2 named", "%0:2 = "),
        ("%0 = call @g(%arg0) : (tensor<4xf32>) -> tensor<4xf32>", "no function `@g`", "%0 = call"),
        ("%arg0 = stablehlo.iota dim = 0 : tensor<4xf32>", "`%arg0` is defined twice", "%arg0"),
        ("%0 = stablehlo.slice %arg0 [0] : (tensor<4xf32>) -> tensor<1xf32>", "expected `start:limit`", "stablehlo.slice"),
        ("%0 = stablehlo.add (%arg0 : tensor<4xf32>", "expected", ""),
        ('%0 = "stablehlo.add"(%arg0) : () -> tensor<4xf32>', "has 1 operands and 0 types", '"stablehlo.add"'),
        ("%0 = stablehlo.reduce(%arg0 init: %arg0) applies dimensions = [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>", "expected the op `stablehlo.reduce` applies", "stablehlo.reduce"),
        ('%0 = "stablehlo.dot_general"(%arg0, %arg0) {dot_dimension_numbers = 3} : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>', "expected a structure", '"stablehlo.dot_general"'),
        ("%0 = 3", "expected an operation, found `3`", "3"),
        ("add", "expected an operation `dialect.name`, found `add`", "add"),
    ],
)  # fmt: skip
def test_an_error_says_what_and_where(line: str, message: str, marked: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_stablehlo(f"{HEAD}  {line}\n  return %arg0 : tensor<4xf32>\n}}", name="x.mlir")
    assert message in str(caught.value)
    span = caught.value.span
    assert span is not None
    assert span.source.text[span.start : span.end].startswith(marked)
    if marked:
        assert f"x.mlir:2:{3 + line.index(marked)}:" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module {", "expected `}`"),
        ("module {\n}", "the text has no function"),
        (HEAD, "`{` is never closed"),
        (HEAD + "}\n" + HEAD + "}", "`@main` is defined twice"),
        ("module {\n} }", "expected an operation"),
    ],
)
def test_a_broken_module_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("{", "[{]").replace("}", "[}]")):
        parse_stablehlo(text)
