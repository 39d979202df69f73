"""Texts that grow when they are read, nest without end, or have numbers of very many digits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

import hloscope as hs
from hloscope.affine import parse_expr
from hloscope.errors import HloscopeError, ParseError
from hloscope.mlir.text.parser import parse_attribute, parse_mlir, parse_type
from hloscope.support.limits import MOST_DIGITS, MOST_NESTING, read_json, refuse_long_numbers
from hloscope.support.source import Source

LONG = "9" * (MOST_DIGITS + 1)


@given(
    st.text(" ,[]\n-(", max_size=5),
    st.integers(0, 3 * MOST_DIGITS),
    st.integers(MOST_DIGITS - 2, 3 * MOST_DIGITS),
)
def test_long_numbers_are_found_wherever_they_stand(before: str, space: int, digits: int) -> None:
    source = Source("x", f"{before}{' ' * space}{'7' * digits}, 12 rest")
    if digits <= MOST_DIGITS:
        refuse_long_numbers(source)
        return
    with pytest.raises(ParseError, match=f"a number of {digits:,} digits") as error:
        refuse_long_numbers(source)
    assert error.value.span
    assert source.text[error.value.span.start : error.value.span.end] == "7" * digits


@pytest.mark.parametrize("before", ['"0x', '"', "x", "add_", "v1."])
@given(space=st.integers(0, MOST_DIGITS))
def test_names_literals_and_strings_may_be_long(before: str, space: int) -> None:
    refuse_long_numbers(Source("x", " " * space + before + "0" * 3 * MOST_DIGITS))


@pytest.mark.slow(keep=1)
@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["s0" * 4_000_000, "s" + "0" * 8_000_000])
def test_a_name_as_long_as_a_file_is_refused_in_few_words(name: str) -> None:
    with pytest.raises(ParseError, match=r"unknown variable|digits") as error:
        hs.IndexingMap.parse(f"(d0) -> (d0 + {name}), domain: d0 in [0, 3]")
    assert len(str(error.value)) < 10_000


@pytest.mark.parametrize(
    "read",
    [
        lambda: hs.read(f"ENTRY e {{ ROOT p = f32[2] parameter({LONG}) }}"),
        lambda: hs.read(f"ENTRY e {{ ROOT p = f32[{LONG}] parameter(0) }}"),
        lambda: hs.read(f"ENTRY e {{ ROOT p = s32[] constant({LONG}) }}"),
        lambda: hs.read(
            f"func.func @f() {{ %0 = stablehlo.constant dense<{LONG}> : tensor<i32> }}"
        ),
        lambda: parse_type(f"tensor<{LONG}xf32>"),
        lambda: parse_attribute(f"{LONG} : i64"),
        lambda: parse_expr(f"d0 * {LONG}"),
        lambda: hs.IndexingMap.parse(f"(d0) -> (d0), domain: d0 in [0, {LONG}]"),
    ],
)
def test_every_reader_refuses_long_numbers(read: object) -> None:
    assert callable(read)
    with pytest.raises(HloscopeError, match=r"digits|invalid dimension"):
        read()


def doubled(sign: str, first: str, made: str, levels: int) -> str:
    lines = [f"{sign}a0 = {first}"]
    lines += [f"{sign}a{i} = {made.format(a=f'{sign}a{i - 1}')}" for i in range(1, levels)]
    return "\n".join(lines)


ATTRIBUTES = doubled("#", "[1, 1]", "[{a}, {a}]", 40)
TYPES = doubled("!", "tuple<f32, f32>", "tuple<{a}, {a}>", 40)
WIDE = "\n".join(
    [f"#a0 = [{', '.join('1' * 999)}]"]
    + [f"#a{i} = [{', '.join([f'#a{i - 1}'] * 100)}]" for i in range(1, 6)]
)


@pytest.mark.parametrize("text", [ATTRIBUTES, TYPES, WIDE], ids=["attributes", "types", "wide"])
def test_aliases_that_grow_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match=r"the aliases in it stand for .* characters, more than"):
        parse_mlir(text + "\nmodule {}\n")


@pytest.mark.parametrize("text", [ATTRIBUTES, TYPES, WIDE], ids=["attributes", "types", "wide"])
def test_aliases_are_not_written_out_before_they_are_defined(text: str) -> None:
    lines = text.split("\n")
    with pytest.raises(ParseError, match="undefined symbol alias id"):
        parse_mlir("\n".join(reversed(lines)) + "\nmodule {}\n")
    with pytest.raises(ParseError, match="undefined symbol alias id 'a39'"):
        parse_mlir("module attributes {x = #a39} {}\n" + "\n".join(reversed(lines)))


@pytest.mark.slow
def test_a_long_alias_is_read() -> None:
    text = f"#a = [{', '.join(['1'] * 600_000)}]\nmodule attributes {{x = #a}} {{}}\n"
    parse_mlir(text)


def test_aliases_that_nest_are_refused() -> None:
    chain = "\n".join(["#a0 = [1]"] + [f"#a{i} = [#a{i - 1}]" for i in range(1, 2000)])
    with pytest.raises(ParseError, match=f"nesting is deeper than {MOST_NESTING}"):
        parse_mlir(chain + "\nmodule {}\n")


def deep(levels: int) -> str:
    return "(" * levels + "f32[]" + ")" * levels


def test_tuples_are_nested_as_deep_as_is_said() -> None:
    text = f"ENTRY e {{ ROOT p = {deep(MOST_NESTING)} parameter(0) }}"
    assert not hs.verify(text)
    assert hs.read(text).text()
    with pytest.raises(ParseError, match=f"nested more than {MOST_NESTING} deep"):
        hs.read(text.replace("f32[]", "(f32[])"), strict=True)


@pytest.mark.parametrize("operands", ["{0}", "{0}, {0}"], ids=["deep", "bomb"])
def test_types_that_follow_are_limited_too(operands: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloscope.ops.control.MOST_LEAVES", 1 << 12)  # making a million takes long
    with pytest.raises(HloscopeError, match=r"nested more than|parts in all"):
        hs.read(tuples(operands, MOST_NESTING + 1), strict=True)


def test_types_that_follow_are_nested_as_deep_as_is_said() -> None:
    assert hs.read(tuples("{0}", MOST_NESTING), strict=True).text()


def tuples(operands: str, levels: int) -> str:
    """A program of tuples in tuples, whose types follow from what they are of."""
    lines = "\n".join(f"  t{i + 1} = tuple({operands.format(f't{i}')})" for i in range(levels))
    return f"ENTRY e {{\n  t0 = f32[] parameter(0)\n{lines}\n  ROOT r = f32[] negate(t0)\n}}"


def test_json_of_every_depth_is_read_or_refused() -> None:
    for depth in (1, 199, 200, 201, 5000):
        text = "[" * depth + "]" * depth
        if depth <= 200:
            json.dumps(read_json(text))
        else:
            with pytest.raises(ValueError, match="nested more than 200 deep"):
                read_json(text)
    assert read_json('{"a": "' + "[" * 5000 + '\\""}')


VERY_MANY = 1 << 40
REDUCER = """({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
  %s = stablehlo.add %x, %y : tensor<f32>
  stablehlo.return %s : tensor<f32> })"""
ONE_FOR_VERY_MANY = {
    "groups": f"""%0 = "stablehlo.all_reduce"(%a) {REDUCER}
      {{replica_groups = dense<0> : tensor<1x{VERY_MANY}xi64>}}
      : (tensor<4xf32>) -> tensor<4xf32>""",
    "pairs": f"""%0 = "stablehlo.collective_permute"(%a)
      {{source_target_pairs = dense<0> : tensor<{VERY_MANY}x2xi64>}}
      : (tensor<4xf32>) -> tensor<4xf32>""",
    "padding": f"""%0 = "stablehlo.reduce_window"(%a, %i) {REDUCER}
      {{window_dimensions = array<i64: 1>, padding = dense<0> : tensor<{VERY_MANY}x2xi64>}}
      : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>""",
    "layout": f"""%0 = stablehlo.custom_call @f(%a)
      {{operand_layouts = [dense<0> : tensor<{VERY_MANY}xindex>],
      result_layouts = [dense<0> : tensor<1xindex>]}} : (tensor<4xf32>) -> tensor<4xf32>""",
    "layout of rank 2": """%0 = stablehlo.custom_call @f(%a)
      {operand_layouts = [dense<0> : tensor<1x2xindex>],
      result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<4xf32>) -> tensor<4xf32>""",
    "sizes": f"""%n = stablehlo.constant dense<1> : tensor<{VERY_MANY}xi64>
      %0 = stablehlo.rng %i, %i, %n, distribution = UNIFORM
      : (tensor<f32>, tensor<f32>, tensor<{VERY_MANY}xi64>) -> tensor<4xf32>""",
}
"""Wrong programs in which one number stands for so many that nobody could write them out."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ONE_FOR_VERY_MANY)
def test_one_number_for_very_many_is_not_written_out(name: str) -> None:
    text = f"""func.func @main(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<4xf32> {{
      {ONE_FOR_VERY_MANY[name]}
      return %0 : tensor<4xf32>
    }}"""
    assert hs.verify(text)
