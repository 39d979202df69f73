"""Maps in terms of sizes of ops with windows, of indexed reads and of updates, at random sizes."""

from __future__ import annotations

import pytest

import hloscope
from tests.passes import sizes_with_names

A: str = "tensor<?x6x2xf32>"
CONV = """%r = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
  window = {{stride = [{stride}], pad = [[{pad}]], lhs_dilate = [{dilate}], reverse = [{reverse}]}}
  {{batch_group_count = {batch} : i64, feature_group_count = {feature} : i64}}
  : (tensor<?x?x{inner}xf32>, tensor<3x2x4xf32>) -> tensor<?x?x4xf32>"""


def conv(
    stride: int = 1, pad: str = "1, 1", dilate: int = 1, reverse: int = 0, *, feature: int = 1
) -> tuple[str, str]:
    said = ("false", "true")[reverse]
    text = CONV.format(
        stride=stride, pad=pad, dilate=dilate, reverse=said,
        batch=1, feature=feature, inner=2 * feature,
    )  # fmt: skip
    return f"%a: tensor<?x?x{2 * feature}xf32>, %k: tensor<3x2x4xf32>", text


GATHER = """%r = "stablehlo.gather"(%a, %i) <{{dimension_numbers = #stablehlo.gather<{numbers}>,
  slice_sizes = array<i64: {sizes}>}}> : ({a}, {i}) -> {r}"""
SCATTER = """%r = "stablehlo.scatter"(%a, %i, %u) <{{
  scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.{body} : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) : ({a}, {i}, {u}) -> {a}"""
ROWS = "tensor<?x4xf32>"
WINDOW = """%z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%a, %z) <{{window_dimensions = array<i64: 2, 2>,
    window_strides = array<i64: {strides}>, base_dilations = array<i64: {base}>,
    window_dilations = array<i64: 1, 2>, padding = dense<[[1, 0], [{pad}]]> : tensor<2x2xi64>}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) : (tensor<?x?xf32>, tensor<f32>) -> tensor<?x?xf32>"""
PLACES = """%one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
"""
CASES = {
    "convolution": conv(),
    "stride": conv(stride=2, pad="2, 0", reverse=1),
    "holes": conv(dilate=2, stride=3),
    "groups": conv(feature=2),
    "a batch behind": tuple([
        text.replace("->[b, 0, f]", "->[0, b, f]") for text in conv(stride=2, pad="2, 0")
    ]),
    "rows": (
        f"%a: {ROWS}, %i: tensor<?x1xi32>",
        GATHER.format(
            numbers="offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],"
            " index_vector_dim = 1",
            sizes="1, 4", a=ROWS, i="tensor<?x1xi32>", r="tensor<?x4xf32>",
        ),
    ),
    "columns": (
        f"%a: {ROWS}, %i: tensor<?xi32>",
        GATHER.format(
            numbers="offset_dims = [1], collapsed_slice_dims = [1], start_index_map = [1],"
            " index_vector_dim = 1",
            sizes="2, 1", a=ROWS, i="tensor<?xi32>", r="tensor<?x2xf32>",
        ),
    ),
    "rows of a batch": (
        "%a: tensor<?x5xf32>, %i: tensor<?x1xi32>",
        GATHER.format(
            numbers="offset_dims = [1], operand_batching_dims = [0],"
            " start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1",
            sizes="1, 2", a="tensor<?x5xf32>", i="tensor<?x1xi32>", r="tensor<?x2xf32>",
        ),
    ),
    "updates": (
        f"%a: {ROWS}, %i: tensor<?x1xi32>, %u: tensor<?x4xf32>",
        SCATTER.format(
            numbers="update_window_dims = [1], inserted_window_dims = [0],"
            " scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
            body="add %x, %y", a=ROWS, i="tensor<?x1xi32>", u="tensor<?x4xf32>",
        ),
    ),
    "updates that overwrite": (
        f"%a: {ROWS}, %i: tensor<2xi32>, %u: tensor<2x2xf32>",
        SCATTER.format(
            numbers="update_window_dims = [0, 1], scatter_dims_to_operand_dims = [1, 0],"
            " index_vector_dim = 0",
            body="maximum %y, %y", a=ROWS, i="tensor<2xi32>", u="tensor<2x2xf32>",
        ),
    ),
    "windows": ("%a: tensor<?x?xf32>", WINDOW.format(strides="1, 1", base="1, 1", pad="0, 0")),
    "windows with holes": (
        "%a: tensor<?x?xf32>", WINDOW.format(strides="2, 1", base="2, 3", pad="1, 2")
    ),
    "selected": (
        "%a: tensor<?x4xf32>, %u: tensor<?x2xf32>",
        """%z = stablehlo.constant dense<0.0> : tensor<f32>
        %r = "stablehlo.select_and_scatter"(%a, %u, %z) <{window_dimensions = array<i64: 1, 2>,
          window_strides = array<i64: 1, 2>}> ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %s : tensor<i1>
        }, {
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) : (tensor<?x4xf32>, tensor<?x2xf32>, tensor<f32>) -> tensor<?x4xf32>""",
    ),
}  # fmt: skip


def program(name: str) -> hloscope.Program:
    arguments, body = CASES[name]
    result = body.rpartition(" -> ")[2]
    return hloscope.read(
        f"func.func @main({arguments}) -> {result} {{\n{body}\n  return %r : {result}\n}}"
    )


@pytest.mark.slow(keep=7)
@pytest.mark.parametrize("name", CASES)
def test_maps_are_those_of_known_sizes(name: str) -> None:
    counts, wrong = sizes_with_names.compared(program(name))
    assert not wrong
    assert not counts["unknown"]
    assert counts["compared"] >= 3


@pytest.mark.parametrize(("name", "tap"), [("stride", "-s0 + 2"), ("holes", "s0")])
def test_a_reversed_kernel_is_read_from_its_end(name: str, tap: str) -> None:
    """The same elements; tap by tap they are those that the input is multiplied with."""
    (kernel,) = program(name)["r"].indexing().operands[1].accesses
    assert f"-> ({tap}, s1, d2)" in str(kernel.map)


@pytest.mark.parametrize(("begin", "shown"), [("%zero", "d1"), ("%one", "d1 - 1")])
def test_an_update_is_where_it_is_written(begin: str, shown: str) -> None:
    """The arrays are joined as well: so their first sizes are the same."""
    text = f"""func.func @main(%a: tensor<?x4x6xf32>, %u: tensor<?x2x6xf32>) -> tensor<?x4x6xf32> {{
      {PLACES}
      %both = stablehlo.concatenate %a, %u, dim = 1
        : (tensor<?x4x6xf32>, tensor<?x2x6xf32>) -> tensor<?x6x6xf32>
      %r = "stablehlo.dynamic_update_slice"(%a, %u, %zero, {begin}, %zero)
        : (tensor<?x4x6xf32>, tensor<?x2x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>)
        -> tensor<?x4x6xf32>
      return %r : tensor<?x4x6xf32>
    }}"""
    (access,) = hloscope.read(text)["r"].indexing().operands[1].accesses
    assert f"-> (d0, {shown}, d2)" in str(access.map)


def test_padding_that_is_a_constant_is_read() -> None:
    """As if the op said it."""
    given, body = conv(pad="2, 1")
    result = "tensor<?x?x4xf32>"
    static = f"func.func @main({given}) -> {result} {{ {body} return %r : {result} }}"
    text = """func.func @main(%a: tensor<?x?x2xf32>, %k: tensor<3x2x4xf32>) -> tensor<?x?x4xf32> {
      %p = stablehlo.constant dense<[[2, 1]]> : tensor<1x2xi32>
      %r = "stablehlo.dynamic_conv"(%a, %k, %p) <{batch_group_count = 1 : i64,
        dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
        feature_group_count = 1 : i64}>
        : (tensor<?x?x2xf32>, tensor<3x2x4xf32>, tensor<1x2xi32>) -> tensor<?x?x4xf32>
      return %r : tensor<?x?x4xf32> }"""
    here, there = [
        [str(a.map).partition("domain")[0] for o in each.operands[:2] for a in o.accesses]
        for each in (hloscope.read(t)["r"].indexing() for t in (static, text))
    ]
    assert here == there
    assert len(here) == 2


def test_rows_that_values_choose_lie_anywhere_and_columns_where_they_are() -> None:
    operand, indices = program("rows")["r"].indexing().operands
    (access,) = operand.accesses
    assert str(access.precision) == "over"
    assert str(access.map).startswith("(d0, d1)[s0]{")
    assert ") -> (s0, d1)" in str(access.map).replace("} ", ") ")
    (access,) = indices.accesses
    assert str(access.precision) == "exact"
