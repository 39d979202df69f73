"""Constants, and ops that move elements without computing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import read, values
from tests.interpreter.small_programs import array, hlo, one

# ----------------------------------------------------------------------------------- constants


@pytest.mark.parametrize(
    ("literal", "type_", "value"),
    [
        ("[[0, 1], [2, 3]]", "2x2xi64", [[0, 1], [2, 3]]),
        ("7", "2x2xi8", [[7, 7], [7, 7]]),
        ("[true, false]", "2xi1", [True, False]),
        ("[-8, 7]", "2xi4", [-8, 7]),
        ("[15, 0]", "2xui4", [15, 0]),
        ("[1, -2]", "2xi2", [1, -2]),
        ("[0.5, 0x7F800000]", "2xf32", [0.5, float("inf")]),
        ('"0x0000803F00000040"', "2xf32", [1.0, 2.0]),
        ("[(1.0, -2.0)]", "1xcomplex<f64>", [1 - 2j]),
        ("[1.5, -6.0]", "2xf4E2M1FN", [1.5, -6.0]),
        ("[0.5, 448.0]", "2xf8E4M3FN", [0.5, 448.0]),
        ("3.0", "bf16", 3.0),
        ("", "0x2xf32", []),
    ],
)
def test_constants(literal: str, type_: str, value: Any) -> None:
    assert values(one(f"constant dense<{literal}> : tensor<{type_}>", type_)) == value


@pytest.mark.parametrize(
    ("literal", "type_", "value"),
    [
        ("{ { 1, 2 }, { 3, -inf } }", "f32[2,2]", [[1.0, 2.0], [3.0, float("-inf")]]),
        ("(1, 2)", "c64[]", 1 + 2j),
        ("true", "pred[]", True),
        ("{-8, 7}", "s4[2]", [-8, 7]),
        ("( {1, 2}, 3 )", "(s32[2], f32[])", ([1, 2], 3.0)),
    ],
)
def test_constants_of_hlo(literal: str, type_: str, value: Any) -> None:
    assert values(hlo(f"ROOT r = {type_} constant({literal})")) == value


def test_a_splat_takes_no_memory() -> None:
    text = one("constant dense<1.5> : tensor<1000x1000xf32>", "1000x1000xf32")
    (found,) = evaluate(read(text))
    assert found.strides == (0, 0)  # type: ignore[union-attr]
    text = text.replace("1000x1000", "1000000x1000000")
    with pytest.raises(EvaluationError, match="needs 4,000,000,000,000 bytes"):
        values(text)


def test_quantized_constants_are_their_integers() -> None:
    text = """func.func @main() -> tensor<2x!quant.uniform<i8:f32, 2.0>> {
      %0 = "stablehlo.constant"() <{value = dense<[1, -2]> : tensor<2xi8>}>
          : () -> tensor<2x!quant.uniform<i8:f32, 2.0>>
      return %0 : tensor<2x!quant.uniform<i8:f32, 2.0>>
    }"""
    assert values(text) == [1, -2]


def test_values_that_were_left_out() -> None:
    with pytest.raises(UnsupportedError, match="left out"):
        values(hlo("ROOT r = f32[2,2] constant({...})"))
    text = one("constant dense_resource<weights> : tensor<2xf32>", "2xf32")
    with pytest.raises(UnsupportedError, match="not in the program"):
        values(text)


# ---------------------------------------------------------------------------------- numbering


@pytest.mark.parametrize(
    ("element", "value"),
    [
        ("i32", [[0, 0], [1, 1], [2, 2]]),
        ("ui4", [[0, 0], [1, 1], [2, 2]]),
        ("bf16", [[0, 0], [1, 1], [2, 2]]),
        ("f64", [[0, 0], [1, 1], [2, 2]]),
        ("complex<f32>", [[0, 0], [1, 1], [2, 2]]),
    ],
)
def test_iota(element: str, value: Any) -> None:
    assert values(one(f"iota dim = 0 : tensor<3x2x{element}>", f"3x2x{element}")) == value


def test_iota_of_the_specification() -> None:
    row = [0, 1, 2, 3, 4]
    assert values(one("iota dim = 1 : tensor<4x5xi32>", "4x5xi32")) == [row] * 4


def test_iota_without_elements() -> None:
    sizes = "1000000000000x0xf32"
    (found,) = evaluate(read(one(f"iota dim = 0 : tensor<{sizes}>", sizes)))
    assert found.shape == (1000000000000, 0)  # type: ignore[union-attr]


def test_iota_of_more_numbers_than_the_type_has() -> None:
    found = values(one("iota dim = 0 : tensor<300xi8>", "300xi8"))
    assert found == np.arange(300).astype("i1").tolist()


# --------------------------------------------------------------------------------- broadcasts


def test_broadcast_in_dim_of_the_specification() -> None:
    op = "broadcast_in_dim %a, dims = [2, 1] : (tensor<1x3xi32>) -> tensor<2x3x2xi32>"
    assert values(one(op, "2x3x2xi32", "1x3xi32"), [[1, 2, 3]]) == [[[1, 1], [2, 2], [3, 3]]] * 2


def test_broadcasts_that_only_add_dimensions() -> None:
    op = "broadcast_in_dim %a, dims = [0, 2] : (tensor<2x3xi32>) -> tensor<2x1x3xi32>"
    x = np.arange(6, dtype="i4").reshape(2, 3)
    (found,) = evaluate(read(one(op, "2x1x3xi32", "2x3xi32")), [x])
    assert np.shares_memory(found, x)  # type: ignore[arg-type]
    assert found.tolist() == x.reshape(2, 1, 3).tolist()  # type: ignore[union-attr]


def test_large_broadcasts_are_views() -> None:
    op = "broadcast_in_dim %a, dims = [1] : (tensor<3xf32>) -> tensor<100000x3xf32>"
    x = np.arange(3, dtype="f4")
    (found,) = evaluate(read(one(op, "100000x3xf32", "3xf32")), [x])
    assert np.shares_memory(found, x)  # type: ignore[arg-type]


@pytest.mark.parametrize("element", ["i1", "i4", "f8E5M2", "complex<f64>"])
def test_scalars_are_broadcast(element: str) -> None:
    op = f"broadcast_in_dim %a, dims = [] : (tensor<{element}>) -> tensor<2x{element}>"
    assert values(one(op, f"2x{element}", element), array(element, 1)) == [1, 1]


def test_broadcasts_of_open_sizes() -> None:
    op = "broadcast_in_dim %a, dims = [1] : (tensor<?xi32>) -> tensor<2x?xi32>"
    assert values(one(op, "2x?xi32", "?xi32"), [1, 2, 3]) == [[1, 2, 3], [1, 2, 3]]


def test_broadcasts_to_sizes_nothing_says() -> None:
    op = "broadcast_in_dim %a, dims = [1] : (tensor<2xi32>) -> tensor<?x2xi32>"
    with pytest.raises(EvaluationError, match="do not follow"):
        values(one(op, "?x2xi32", "2xi32"), [1, 2])
    text = hlo("x = s32[] parameter(0)", "ROOT r = s32[<=2] broadcast(x), dimensions={}")
    assert values(text, 1) == [1, 1]


def test_reshapes_that_add_and_drop_ones_keep_sizes_known_at_run_time() -> None:
    text = hlo(
        "x = s32[3,1,4] parameter(0)",
        "m = s32[] parameter(1)",
        "n = s32[] parameter(2)",
        "a = s32[<=3,1,4] set-dimension-size(x, m), dimensions={0}",
        "b = s32[<=3,1,<=4] set-dimension-size(a, n), dimensions={2}",
        "ROOT r = s32[1,<=3,<=4] reshape(b)",
    )
    x = np.arange(12, dtype=np.int32).reshape(3, 1, 4)
    (found,) = evaluate(read(text), [x, np.int32(2), np.int32(3)])
    assert np.array_equal(found, x[:2, 0, :3][None])  # type: ignore[arg-type]
    wrong = text.replace("s32[1,<=3,<=4] reshape", "s32[<=3,<=2,<=2] reshape")
    with pytest.raises(EvaluationError, match="do not follow"):
        evaluate(read(wrong), [x, np.int32(2), np.int32(3)])


def test_the_old_broadcast_adds_leading_dimensions() -> None:
    text = """func.func @main(%a: tensor<2xi32>) -> tensor<3x1x2xi32> {
      %0 = "stablehlo.broadcast"(%a) <{broadcast_sizes = array<i64: 3, 1>}>
          : (tensor<2xi32>) -> tensor<3x1x2xi32>
      return %0 : tensor<3x1x2xi32>
    }"""
    assert values(text, [1, 2]) == [[[1, 2]]] * 3


@pytest.mark.parametrize(
    ("op", "found"),
    [
        ("r = f32[2,2] broadcast(x), dimensions={1}", [[1, 2.5], [1, 2.5]]),
        ("r = f32[4] concatenate(x, y), dimensions={0}", [1, 2.5, 0.1, 7]),
        ("r = f32[3] pad(x, z), padding=0_1", [1, 2.5, 0.1]),
        ("r = f32[2] dynamic-update-slice(x, w, i)", [0.1, 2.5]),
        ("r = f32[2] dynamic-update-slice(y, v, i)", [1, 7]),
    ],
)
def test_hlo_may_mix_widths_of_floats(op: str, found: Any) -> None:
    text = hlo(
        "x = bf16[2] parameter(0)",
        "y = f32[2] parameter(1)",
        "i = s32[] constant(0)",
        "z = f32[] constant(0.1)",
        "w = f32[1] slice(y), slice={[0:1]}",
        "v = bf16[1] slice(x), slice={[0:1]}",
        f"ROOT {op}",
    )
    np.testing.assert_allclose(values(text, [1.0, 2.5], [0.1, 7.0]), found, rtol=1e-7)


# ------------------------------------------------------------------------------------- shapes


def test_reshape_of_the_specification() -> None:
    op = "reshape %a : (tensor<2x3xi32>) -> tensor<3x2xi32>"
    found = values(one(op, "3x2xi32", "2x3xi32"), [[1, 2, 3], [4, 5, 6]])
    assert found == [[1, 2], [3, 4], [5, 6]]


def test_reshape_between_scalars_and_arrays() -> None:
    op = "reshape %a : (tensor<1x1xi4>) -> tensor<i4>"
    assert values(one(op, "i4", "1x1xi4"), array("1x1xi4", -3)) == -3
    op = "reshape %a : (tensor<i4>) -> tensor<1x1xi4>"
    assert values(one(op, "1x1xi4", "i4"), array("i4", -3)) == [[-3]]


def test_a_splat_stays_one_when_it_is_reshaped() -> None:
    text = """func.func @main() -> tensor<1000000xf32> {
      %0 = stablehlo.constant dense<2.0> : tensor<1000x1000xf32>
      %1 = stablehlo.reshape %0 : (tensor<1000x1000xf32>) -> tensor<1000000xf32>
      return %1 : tensor<1000000xf32>
    }"""
    (found,) = evaluate(read(text))
    assert found.strides == (0,)  # type: ignore[union-attr]
    assert found.shape == (1000000,)  # type: ignore[union-attr]


def test_reshapes_to_bounded_sizes() -> None:
    text = hlo("x = s32[2,<=4] parameter(0)", "ROOT r = s32[<=4,2] reshape(x)")
    assert values(text, [[1, 2, 3], [4, 5, 6]]) == [[1, 2], [3, 4], [5, 6]]


def test_transpose_of_the_specification() -> None:
    op = "transpose %a, dims = [2, 1, 0] : (tensor<2x3x2xi32>) -> tensor<2x3x2xi32>"
    x = [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]
    found = values(one(op, "2x3x2xi32", "2x3x2xi32"), x)
    assert found == [[[1, 7], [3, 9], [5, 11]], [[2, 8], [4, 10], [6, 12]]]


def test_reverse_of_the_specification() -> None:
    op = "reverse %a, dims = [1] : tensor<3x2xi32>"
    found = values(one(op, "3x2xi32", "3x2xi32"), [[1, 2], [3, 4], [5, 6]])
    assert found == [[2, 1], [4, 3], [6, 5]]
    op = "reverse %a, dims = [0, 1] : tensor<3x2xi32>"
    assert values(one(op, "3x2xi32", "3x2xi32"), [[1, 2], [3, 4], [5, 6]]) == [
        [6, 5],
        [4, 3],
        [2, 1],
    ]


def test_concatenate_of_the_specification() -> None:
    op = """concatenate %a, %b, dim = 0
        : (tensor<3x2xi64>, tensor<1x2xi64>) -> tensor<4x2xi64>"""
    found = values(one(op, "4x2xi64", "3x2xi64", "1x2xi64"), [[1, 2], [3, 4], [5, 6]], [[7, 8]])
    assert found == [[1, 2], [3, 4], [5, 6], [7, 8]]


@pytest.mark.parametrize("element", ["i1", "i4", "f8E4M3FN", "bf16"])
def test_concatenate_with_nothing(element: str) -> None:
    op = f"""concatenate %a, %b, %a, dim = 0
        : (tensor<2x{element}>, tensor<0x{element}>, tensor<2x{element}>) -> tensor<4x{element}>"""
    text = one(op, f"4x{element}", f"2x{element}", f"0x{element}")
    assert values(text, array(f"2x{element}", 1, 0), array(f"0x{element}")) == [1, 0, 1, 0]


# ------------------------------------------------------------------------------------ padding


def padding(size: int, low: int, high: int, interior: int) -> str:
    result = max(size + low + high + max(size - 1, 0) * interior, 0)
    op = f"""pad %a, %b, low = [{low}], high = [{high}], interior = [{interior}]
        : (tensor<{size}xi32>, tensor<i32>) -> tensor<{result}xi32>"""
    return one(op, f"{result}xi32", f"{size}xi32", "i32")


def test_pad_of_the_specification() -> None:
    op = """pad %a, %b, low = [0, 1], high = [2, 1], interior = [1, 2]
        : (tensor<2x3xi32>, tensor<i32>) -> tensor<5x9xi32>"""
    assert values(one(op, "5x9xi32", "2x3xi32", "i32"), [[1, 2, 3], [4, 5, 6]], 0) == [
        [0, 1, 0, 0, 2, 0, 0, 3, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 4, 0, 0, 5, 0, 0, 6, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize("size", range(4))
def test_pad_by_any_amounts(size: int) -> None:
    x = list(range(1, size + 1))
    for interior in range(3):
        apart = [v for x_i in x for v in (x_i, *[0] * interior)][
            : max(size + (size - 1) * interior, 0)
        ]
        for low in range(-5, 4):
            for high in range(-5, 4):
                if len(apart) + low + high < 0:
                    continue
                line = [0] * 9 + apart + [0] * 9
                wanted = line[9 - low : 9 + len(apart) + high]
                assert values(padding(size, low, high, interior), np.array(x, "i4"), 0) == wanted


def test_padding_that_only_cuts_is_a_view() -> None:
    x = np.arange(5, dtype="i4")
    (found,) = evaluate(read(padding(5, -1, -2, 0)), [x, 0])
    assert np.shares_memory(found, x)  # type: ignore[arg-type]
    assert found.tolist() == [1, 2]  # type: ignore[union-attr]


# --------------------------------------------------------------------------------- all types

MOVES = """func.func @main(%x: tensor<2x3xE>, %p: tensor<E>, %i: tensor<i64>, %n: tensor<2x1xi64>)
    -> tensor<2x7xE> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xE>) -> tensor<3x2xE>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<3x2xE>
  %2 = stablehlo.reshape %1 : (tensor<3x2xE>) -> tensor<2x3xE>
  %3 = stablehlo.concatenate %2, %x, dim = 1
      : (tensor<2x3xE>, tensor<2x3xE>) -> tensor<2x6xE>
  %4 = stablehlo.pad %3, %p, low = [0, -1], high = [1, 2], interior = [0, 0]
      : (tensor<2x6xE>, tensor<E>) -> tensor<3x7xE>
  %5 = stablehlo.slice %4 [0:1, 0:7:2] : (tensor<3x7xE>) -> tensor<1x4xE>
  %6 = stablehlo.dynamic_update_slice %4, %5, %i, %i
      : (tensor<3x7xE>, tensor<1x4xE>, tensor<i64>, tensor<i64>) -> tensor<3x7xE>
  %7 = "stablehlo.gather"(%6, %n) <{
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 7>
  }> : (tensor<3x7xE>, tensor<2x1xi64>) -> tensor<2x7xE>
  %8 = stablehlo.broadcast_in_dim %7, dims = [1, 2] : (tensor<2x7xE>) -> tensor<2x2x7xE>
  %9 = stablehlo.dynamic_slice %8, %i, %i, %i, sizes = [1, 2, 7]
      : (tensor<2x2x7xE>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<1x2x7xE>
  %10 = stablehlo.reshape %9 : (tensor<1x2x7xE>) -> tensor<2x7xE>
  return %10 : tensor<2x7xE>
}"""


@pytest.mark.parametrize(
    "element",
    [
        *("i1", "i2", "i4", "i8", "i16", "i32", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64"),
        *("f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f8E4M3FN"),
        *("f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "bf16", "f16", "f32", "f64"),
        *("complex<f32>", "complex<f64>"),
    ],
)
def test_elements_of_every_type_are_moved(element: str) -> None:
    numbers = [1, 0, 1, 1, 0, 0]
    at, rows = 1, [[2], [1]]
    found = values(
        MOVES.replace("E>", f"{element}>"),
        array(f"2x3x{element}", *numbers),
        array(element, 1),
        at,
        rows,
    )
    x = np.array(numbers).reshape(2, 3)
    whole = np.concatenate([x.T[::-1].reshape(2, 3), x], 1)
    padded = np.ones((3, 7), int)
    padded[:2, :5] = whole[:, 1:]
    updated = padded.copy()
    updated[1, 1:5] = padded[0, ::2]
    assert found == updated[[2, 1]].tolist()
