"""Lines and prints that are filled in from templates say what is said without them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from hloscope.errors import HloscopeError
from hloscope.mlir import Operation, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
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


_PAIR = """\
func.func private @pair(tensor<f32>) -> (tensor<f32>, tensor<f32>)
func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {{
  %0:2 = call @pair(%x) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %1:2 = call @pair(%y) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %2 = stablehlo.add %x, %y : tensor<f32>
  %3 = stablehlo.add %0, %0#1 : tensor<f32>
  %4 = stablehlo.add %0#0, %1#1 : tensor<f32>
  {last} : tensor<f32>
  return %4 : tensor<f32>
}}
"""


def test_the_number_of_a_first_result_may_be_written() -> None:
    text = _PAIR.format(last="%5 = stablehlo.add %1#0, %2#0")
    *_, fourth, fifth, _ = (
        parse_mlir(text, dialects=DIALECTS).regions[0].blocks[0].operations[1].inside
    )
    assert [(v.name, v.index) for v in fourth.operands] == [("0", 0), ("1", 1)]
    assert [(v.name, v.index) for v in fifth.operands] == [("1", 0), ("2", 0)]
    assert text[fifth.start : fifth.end] == "stablehlo.add"
    assert fourth.shared_key is fifth.shared_key is not None  # by the same template


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("%5#0 = stablehlo.add %x, %y", "expected '=' after SSA name"),
        ("%5#1 = stablehlo.add %x, %y", "expected '=' after SSA name"),
        ("%5#0  = stablehlo.add %x, %y", "expected '=' after SSA name"),
        ("%4 = stablehlo.add %x, %y", "redefinition of SSA value '%4'"),
        ("%5 = stablehlo.add %x, %1#2", "reference to invalid result number"),
        ("%5 = stablehlo.add %x, %2#1", "reference to invalid result number"),
        ("%5 = stablehlo.add %x, %none", "use of undeclared SSA value name"),
        ("%5 = stablehlo.add %x, %", "invalid SSA name"),
    ],
)
def test_lines_like_others_are_refused_for_their_names(last: str, message: str) -> None:
    with pytest.raises(HloscopeError, match=message) as caught:
        parse_mlir(_PAIR.format(last=last), dialects=DIALECTS)
    assert caught.value.span is not None
    assert caught.value.span.line == (7 if "#" in last[:4] else 8)  # behind what is before it


def test_ops_found_alike_differ_in_names_and_places_only() -> None:
    text = _program() + _program().replace("@main", "@other").replace("\n  ", "\n      ")
    members: dict[object, list[Operation]] = {}
    ops = list(parse_mlir(text, dialects=DIALECTS).walk())
    for op in ops:
        if op.shared_key is not None:
            members.setdefault(op.shared_key, []).append(op)
    assert sum(map(len, members.values())) > len(ops) / 2
    for first, *others in members.values():
        for op in others:
            assert op.name == first.name
            assert op.properties == first.properties
            assert op.attributes == first.attributes
            assert [v.type for v in op.operands] == [v.type for v in first.operands]
            assert [v.type for v in op.results] == [v.type for v in first.results]


_LISTS = """\
func.func @main(%a: tensor<f32>, %b: tensor<f32>, %c: i32, %d: tensor<2xf32> {x = "y"}, \
%e: tensor<f32>) -> (tensor<f32> {jax.result_info = "r[0]"}, tensor<2xf32>, i32, tensor<f32>) {
  return %a, %d, %c, %b : tensor<f32>, tensor<2xf32>, i32, tensor<f32>
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("%b: tensor<f32>, ", "%b: tensor<f32> loc(unknown), "),
        (", %c: i32", ", %c: i32 {}"),
        ("%b: ", "tensor<f32>, "),
        ("%b: tensor<f32>, ", ", "),
        ("%b: tensor<f32>, ", "%: tensor<f32>, "),
        ("%b: ", "%a: "),
        ("%a, %d", "%a, "),
        ("%a, %d", "%a, %"),
        ("%a, %d", "%a#0, %d#1"),
        ("%a, %d", "%a#1234567890, %d"),
        (": tensor<f32>, tensor<2xf32>, i32", ": tensor<f32>, tensor<2xf32>, "),
        (": tensor<f32>, tensor<2xf32>, i32", ": tensor<f32>, tensor<2xf32, i32"),
        ('"r[0]"}', '"r[0]" : i32}'),
        ('"r[0]"}', '"r[0]", jax.result_info = ""}'),
        ('"r[0]"}', '"\\\\22"}'),
    ],
)
def test_lists_that_are_read_at_once_are_those_read_one_by_one(old: str, new: str) -> None:
    text = _LISTS.replace(old, new, 1)
    spread = text.replace(", ", " ,  ").replace("{", "{ ").replace("%", " %")
    assert _outcome(text) == _outcome(spread)


def _outcome(text: str) -> str:
    try:
        return print_mlir(parse_mlir(text, dialects=DIALECTS), dialects=DIALECTS)
    except HloscopeError as error:
        at = error.span.start if error.span else 0
        return f"{error.message} at {''.join(text[:at].split())}"


_TYPED = """\
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) {{
  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> tensor<3x4xf32>
  %2 = stablehlo.concatenate %x, %y, dim = 0 : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  %s = stablehlo.multiply %x, %x : tensor<2xf32>
  %t = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xi32>
  {last}
  return
}}
"""


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("%3 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> tensor<2x4xf32>", ""),
        ("%3 = stablehlo.concatenate %y, %x, dim = 0 : (tensor<3xf32>, tensor<2xf32>)"
         " -> tensor<5xf32>", ""),
        ("%3 = stablehlo.multiply %y, %y : tensor<3xf32>", ""),
        ("%3 = stablehlo.multiply %y, %y : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>", ""),
        ("%3 = stablehlo.convert %y : tensor<3xf32>", ""),
        ("%3 = stablehlo.convert %y : (tensor<3xf32>) -> tensor<3xi1>", ""),
        ("%3 = stablehlo.multiply %y, %x : tensor<3xf32>",
         "use of value '%x' expects different type than prior uses"),
        ("%3 = stablehlo.multiply %y, %y : tensor<3xf32>, tensor<3xf32>",
         "expected operation name in quotes"),
        ("%3 = stablehlo.multiply %y, %y : (tensor<3xf32>)", "expected '->'"),
        ("%3 = stablehlo.concatenate %y, %y, dim = 0 : tensor<3xf32>",
         "invalid kind of type specified"),
        ("%3 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<3xf32>) -> tensor<2x4xf32>",
         "use of value '%x' expects different type than prior uses"),
        ("%3 = stablehlo.concatenate %y, %x, dim = 0 : (tensor<3xf32>) -> tensor<5xf32>",
         "got 2 operands and 1 types"),
        ("%3 = stablehlo.concatenate %y, %x, dim = 0 : () -> tensor<5xf32>",
         "got 2 operands and 0 types"),
        ("%3 = stablehlo.concatenate %y, %x, dim = 0 : (tensor<3xf32>, tensor<2xf32>) -> ()",
         "cannot name an operation with no results"),
        ("%3 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>)"
         " -> (tensor<2xf32>, tensor<2xf32>)", "defines 2 results but was provided 1"),
        ("%3 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32> -> tensor<2xf32>",
         "expected '\\)'"),
        ("%3 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> tensor<2xf32>)",
         "expected operation name in quotes"),
        ("%3 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<3xf32>) -> (tensor<2xf32>",
         "expected '\\)'"),
    ],
)  # fmt: skip
def test_lines_that_differ_in_their_types_share_the_rest(last: str, message: str) -> None:
    text = _TYPED.format(last=last)
    if message:
        with pytest.raises(HloscopeError, match=message):
            parse_mlir(text, dialects=DIALECTS)
        return
    function = parse_mlir(text, dialects=DIALECTS).regions[0].blocks[0].operations[0]
    known = {op.name: op for op in function.inside[:-2]}
    new = function.inside[-2]
    assert new.properties is known[new.name].properties
    assert new.shared_key is not known[new.name].shared_key
    assert last.partition(" : ")[2] in print_mlir(
        parse_mlir(text, dialects=DIALECTS), dialects=DIALECTS
    )


def test_a_line_is_like_others_only_if_they_begin_where_it_does() -> None:
    text = 'func.func @main() {"x.y"() : () -> ()\nx.y"() : () -> ()\nreturn\n}\n'
    with pytest.raises(HloscopeError, match="not found for custom op"):
        parse_mlir(text, dialects=DIALECTS)


def _long() -> str:
    """More lines than are looked at together, names of all widths."""
    lines = ["  %v0 = stablehlo.negate %arg0 : tensor<2x2xf32>"]
    for n in range(1, 2500):
        lines.append(f"  %v{n} = stablehlo.add %v{n - 1}, %arg{n % 2} : tensor<2x2xf32>")
        if n % 700 == 0:
            lines += ["", "  // a comment", f'  "x.{"y" * 5000}"() : () -> ()']
    return _BODY.format("\n".join(lines))


def test_ops_of_long_texts_stand_where_they_do() -> None:
    text = _long()
    lines = text.split("\n")
    function = parse_mlir(text, dialects=DIALECTS).regions[0].blocks[0].operations[0]
    assert len(function.inside) == 2500 + 3 + 1
    for op in function.inside:
        assert op.span is not None
        assert text[op.start : op.end].strip('"').split(".")[-1] == op.name.split(".")[-1]
        if op.results:
            assert lines[op.span.line - 1].startswith(f"  %{op.results[0].name} = ")


@pytest.mark.parametrize(("number", "line"), [(1, 3), (1300, 1305), (2499, 2510)])
def test_what_is_wrong_in_long_texts_is_told_where_it_is(number: int, line: int) -> None:
    text = _long().replace(f"stablehlo.add %v{number - 1},", f"stablehlo.add %w{number - 1},")
    with pytest.raises(HloscopeError, match="undeclared SSA value name") as caught:
        parse_mlir(text, dialects=DIALECTS)
    assert caught.value.span is not None
    assert caught.value.span.line == line


_REGIONS = (
    "%{} = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0]"
    " : (tensor<4xf32>, tensor<f32>) -> tensor<f32>",
    '%{} = "x.y"(%x) ({{"x.z"() : () -> ()}}) : (tensor<4xf32>) -> tensor<f32>',
)


@pytest.mark.parametrize("form", _REGIONS)
def test_regions_of_lines_alike_are_copies_made_once(form: str) -> None:
    text = (
        "func.func @main(%x: tensor<4xf32>, %c: tensor<f32>) {\n"
        f"  {form.format(0)}\n  {form.format('more')}\n  return\n}}\n"
    )
    first, second, _ = parse_mlir(text, dialects=DIALECTS).regions[0].blocks[0].operations[0].inside
    assert first.shared_key is second.shared_key is not None
    (region,), (other,) = first.regions, second.regions
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(lambda _: other.block, range(8)))
    assert len({id(block) for block in blocks}) == 1
    assert blocks[0] is not region.block
    assert blocks[0].parent is other
    assert other.parent is second
    for one, copy in zip(region.block, blocks[0], strict=True):
        assert (one.name, one.properties) == (copy.name, copy.properties)
        assert copy.parent is blocks[0]
        assert not {*one.results, *one.operands} & {*copy.results, *copy.operands}
        assert copy.source is one.source
        assert text[copy.start : copy.end] == text[one.start : one.end]
        assert copy.start - one.start == (second.start - first.start if one.source else 0)
    with pytest.raises(AttributeError):
        other.nothing  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError):
        second.nothing  # type: ignore[attr-defined]  # noqa: B018
