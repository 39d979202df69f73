"""Lines and prints that are filled in from templates say what is said without them."""

from __future__ import annotations

import pytest

from hloscope.dialects import DIALECTS
from hloscope.errors import HloscopeError
from hloscope.mlir import Operation, parse_mlir, print_mlir
from hloscope.mlir.text import printer
from hloscope.verifier import verify_mlir

_BODY = """\
func.func @main(%arg0: tensor<2x2xf32>, %arg1: tensor<2x2xf32>) -> tensor<2x2xf32> {{
{}
  return %arg0 : tensor<2x2xf32>
}}
"""
_T = "tensor<2x2xf32>"
_OPS = (
    "stablehlo.add {a}, {b} : tensor<2x2xf32>",
    "stablehlo.subtract {a}, {b} {{name = \"100% %s\"}} : tensor<2x2xf32>",
    "stablehlo.dot_general {a}, {b}, contracting_dims = [1] x [0]"
    " : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>",
    "stablehlo.custom_call @f({a}, {b}) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>",
    "stablehlo.constant dense<1.0> : tensor<2x2xf32>",
    "stablehlo.clamp {a}, {b}, {a} : tensor<2x2xf32>",
)  # fmt: skip
_USES = [("%arg0", "%arg1"), ("%arg1", "%arg0"), ("%arg0", "%arg0"), ("%arg1", "%arg1")]


def _program() -> str:
    lines, number = [], 0
    for turn in range(3):
        for form in _OPS:
            for a, b in _USES:
                names = (a, b) if not turn else (f"%{number - 1}", b)
                lines.append(f"  %{number} = {form.format(a=names[0], b=names[1])}")
                number += 1
    return _BODY.format("\n".join(lines))


def _shown(root: Operation) -> list[object]:
    return [
        (
            op.name,
            [(v.name, str(v.type)) for v in op.operands],
            [(v.name, str(v.type)) for v in op.results],
            op.span and (op.span.start, op.span.end),
            sorted(op.properties) + sorted(op.attributes),
            op.parent is not None,
        )
        for op in root.walk()
    ]


def test_lines_by_template_are_those_read_token_by_token() -> None:
    text = _program()
    broken = text.replace("\n  %", "\n\n  %").replace(" : ", "  : ")  # other keys, same ops
    first, second = (parse_mlir(t, dialects=DIALECTS) for t in (text, broken))
    assert [row[:3] for row in _shown(first)] == [row[:3] for row in _shown(second)]  # type: ignore[index]
    for op in first.walk():
        if op.span is not None and op.start:
            assert text[op.start : op.end].split(".")[-1] == op.name.split(".")[-1]


def test_prints_by_template_are_those_without(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = parse_mlir(_program(), dialects=DIALECTS)
    with_templates = print_mlir(tree, dialects=DIALECTS)
    monkeypatch.setattr(printer, "_REPEATED", "no dialect at all")
    assert print_mlir(tree, dialects=DIALECTS) == with_templates
    assert print_mlir(parse_mlir(with_templates, dialects=DIALECTS), dialects=DIALECTS) == (
        with_templates
    )


_REDUCE = (
    "  %{n} = stablehlo.reduce({x} init: %c) across dimensions = [0] : (tensor<4xf32>, tensor<f32>)"
    " -> tensor<f32>\n   reducer(%a: tensor<f32>, %b: tensor<f32>) {{\n"
    "    %s{n} = stablehlo.{op} %a, {y} : tensor<f32>\n"
    "    stablehlo.return %s{n} : tensor<f32>\n  }}\n"
)


@pytest.mark.parametrize(
    ("x", "op", "y", "said"),
    [
        ("%x", "add", "%b", None),
        ("%x", "add", "%c", None),
        ("%x", "compare EQ,", "%b", "tensor<i1>"),
        ("%c", "add", "%b", "tensor<f32>"),
        ("%x", "add", "%later", "dominate"),
    ],
)
def test_an_op_with_a_region_is_checked_where_it_differs(
    x: str, op: str, y: str, said: str | None
) -> None:
    alike = "".join(_REDUCE.format(n=n, x="%x", op="add", y="%b") for n in range(3))
    odd = _REDUCE.format(n=9, x=x, op=op, y=y)
    text = (
        "func.func @main(%x: tensor<4xf32>, %c: tensor<f32>) {\n"
        f"{alike}{odd}{alike.replace('%0', '%10').replace('%1 ', '%11 ').replace('%2', '%12')}"
        "  %later = stablehlo.abs %c : tensor<f32>\n  return\n}\n"
    )
    try:
        found = verify_mlir(parse_mlir(text, dialects=DIALECTS))
    except HloscopeError:  # the types of the text don't fit each other
        assert said is not None
        return
    assert bool(found) == (said is not None)
    lines = range(2 + alike.count("\n"), 2 + (alike + odd).count("\n"))
    assert all(d.span is not None and d.span.line in lines for d in found)
