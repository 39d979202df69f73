"""Scatters."""

from __future__ import annotations

import numpy as np
import pytest

from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.values import dtype_of
from hloscope.ir.types import TensorType
from hloscope.mlir.text.parser import parse_type
from tests.interpreter.helpers import read, values
from tests.interpreter.indexed import EXAMPLE, ROWS, SCATTER, Case, made

BODIES = {
    "add": "%r = stablehlo.add %a, %b : tensor<i32>",
    "last": "%r = stablehlo.multiply %b, %b : tensor<i32>",
    "set": "%r = stablehlo.constant dense<7> : tensor<i32>",
    "mixed": "%t = stablehlo.add %a, %a : tensor<i32> %r = stablehlo.subtract %t, %b : tensor<i32>",
}
FUNCTIONS = {
    "add": lambda a, b: a + b,
    "last": lambda a, b: b * b,
    "set": lambda a, b: np.int32(7),
    "mixed": lambda a, b: a + a - b,
}


@pytest.mark.parametrize("block", range(10))
def test_scatters_are_those_of_the_specification(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        case, x, given, random = made(seed)
        indices = given if case.vector < given.ndim else given[..., None]
        updates = np.random.default_rng(seed).integers(-9, 9, case.windows, dtype="i4")
        name = random.choice(list(BODIES))
        wanted = x.copy()
        for at, start, inside in case.places(indices):
            place = tuple(a + b for a, b in zip(start, inside, strict=True))
            if all(0 <= i < n for i, n in zip(place, x.shape, strict=True)):
                wanted[place] = FUNCTIONS[name](wanted[place], updates[at])
        text = case.text(SCATTER, body=BODIES[name])
        assert values(text, x, given, updates) == wanted.tolist(), (seed, name)


def test_scatter_of_the_specification() -> None:
    x = np.arange(1, 25, dtype="i4").reshape(3, 4, 2)
    indices = [[[0, 2], [1, 0], [2, 1]], [[0, 1], [1, 0], [0, 9]]]
    ones = np.ones(EXAMPLE.windows, "i4")
    assert values(EXAMPLE.text(SCATTER, body=BODIES["add"]), x, indices, ones) == [
        [[1, 2], [5, 6], [7, 8], [7, 8]],
        [[10, 11], [12, 13], [14, 15], [16, 17]],
        [[18, 19], [20, 21], [21, 22], [23, 24]],
    ]


def test_the_last_update_stays() -> None:
    text = ROWS.text(SCATTER, body="").replace("return %r", "return %b")
    x, updates = np.zeros((5, 2), "i4"), np.arange(8, dtype="i4").reshape(4, 2)
    found = values(text, x, [[1], [4], [1], [9]], updates)
    assert found == [[0, 0], [4, 5], [0, 0], [0, 0], [2, 3]]
    assert not x.any()


def test_floats_are_added_in_the_order_of_the_updates() -> None:
    text = ROWS.text(SCATTER, body="%r = stablehlo.add %a, %b : tensor<f32>", element="f32")
    updates = [[1e8, 1.0], [1.0, 1e8], [-1e8, -1e8], [1.0, 1.0]]
    found = values(text, np.zeros((5, 2), "f4"), [[0], [0], [0], [0]], updates)
    assert found[0] == [1.0, 1.0]


@pytest.mark.parametrize("element", ["f32", "bf16", "i8", "complex<f32>", "i4"])
def test_many_updates_of_one_row(element: str) -> None:
    case = Case((3, 2), (100, 1), (1, 2), [1], [0], [], [], [0], 1)
    body = f"%r = stablehlo.add %a, %b : tensor<{element}>"
    text = case.text(SCATTER, body=body, element=element)
    rows = np.arange(100).reshape(100, 1) % 3 // 2
    given = [[[0, 0]] * 3, rows, [[1, 1]] * 100]
    found = np.array(values(text, *given), "c8")
    sums = {"i4": [67 - 64, 33 - 32]}.get(element, [67, 33])
    assert found[:, 0].tolist() == [*sums, 0]


def test_bodies_of_several_arrays() -> None:
    text = """func.func @main(%x: tensor<3xf32>, %n: tensor<3xi32>, %i: tensor<4x1xi32>,
                    %u: tensor<4xf32>, %m: tensor<4xi32>) -> (tensor<3xf32>, tensor<3xi32>) {
      %0:2 = "stablehlo.scatter"(%x, %n, %i, %u, %m) <{
        scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
      }> ({
        ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
          %p = stablehlo.compare GT, %c, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %v = stablehlo.select %p, %c, %a : tensor<i1>, tensor<f32>
          %k = stablehlo.select %p, %d, %b : tensor<i1>, tensor<i32>
          stablehlo.return %v, %k : tensor<f32>, tensor<i32>
      }) : (tensor<3xf32>, tensor<3xi32>, tensor<4x1xi32>, tensor<4xf32>, tensor<4xi32>)
          -> (tensor<3xf32>, tensor<3xi32>)
      return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>
    }"""
    given = [[0, 0, 0], [9, 9, 9], [[0], [2], [0], [0]], [1, -1, 5, 2], [0, 1, 2, 3]]
    assert values(text, *given) == ([5, 0, 0], [2, 9, 9])


def test_bodies_that_are_not_element_wise() -> None:
    body = """%t = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
      %s = stablehlo.reshape %t : (tensor<1xi32>) -> tensor<i32>
      %r = stablehlo.add %a, %s : tensor<i32>"""
    found = values(ROWS.text(SCATTER, body=body), np.ones((5, 2), "i4"), [[1], [1], [0], [0]],
                   np.arange(8, dtype="i4").reshape(4, 2))  # fmt: skip
    assert found == [[11, 13], [3, 5], [1, 1], [1, 1], [1, 1]]


HLO_SCATTER = """HloModule m
last {
  a = s32[] parameter(0)
  ROOT b = s32[] parameter(1)
}
ENTRY e {
  x = s32[5] parameter(0)
  i = s32[3,1] parameter(1)
  u = s32[3,2] parameter(2)
  ROOT r = s32[5] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=last
}"""


HLO_ANY = """HloModule m
body {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  t = s32[] add(a, a)
  ROOT r = s32[] subtract(t, b)
}}
ENTRY e {{
  x = s32[{x}] parameter(0)
  i = s64[{i}] parameter(1)
  u = s32[{u}] parameter(2)
  ROOT r = s32[{x}] scatter(x, i, u), update_window_dims={{{offset}}},
    inserted_window_dims={{{dropped}}}, scatter_dims_to_operand_dims={{{mapped}}},
    input_batching_dims={{{batching}}}, scatter_indices_batching_dims={{{of_indices}}},
    index_vector_dim={vector}, to_apply=body
}}"""


def test_scatters_of_hlo_take_whole_windows() -> None:
    for seed in range(100):
        case, x, given, _ = made(seed)
        indices = given if case.vector < given.ndim else given[..., None]
        updates = np.random.default_rng(seed).integers(-9, 9, case.windows, dtype="i4")
        wanted = x.copy()
        window = [d for d in range(len(case.windows)) if d in case.offset]
        batch = [d for d in range(len(case.windows)) if d not in case.offset]
        places = list(case.places(indices))
        for at, start, inside in sorted(places, key=lambda p: [p[0][d] for d in batch + window]):
            ends = zip(start, case.sizes, x.shape, strict=True)
            if all(0 <= first <= n - size for first, size, n in ends):
                place = tuple(a + b for a, b in zip(start, inside, strict=True))
                wanted[place] = FUNCTIONS["mixed"](wanted[place], updates[at])
        numbers = {k: ",".join(map(str, v)) for k, v in vars(case).items() if k != "vector"}
        shapes = {"x": x.shape, "i": given.shape, "u": updates.shape}
        numbers |= {k: ",".join(map(str, v)) for k, v in shapes.items()}
        text = HLO_ANY.format(**numbers, vector=case.vector)
        assert values(text, x, given, updates) == wanted.tolist(), seed


def test_hlo_drops_windows_that_are_not_wholly_inside() -> None:
    x, updates = np.zeros(5, "i4"), [[1, 2], [3, 4], [5, 6]]
    assert values(HLO_SCATTER, x, [[4], [-1], [1]], updates) == [0, 5, 6, 0, 0]


def test_hlo_takes_one_window_after_the_other() -> None:
    x, updates = np.zeros(5, "i4"), [[1, 2], [3, 4], [5, 6]]
    assert values(HLO_SCATTER, x, [[1], [2], [1]], updates) == [0, 5, 6, 4, 0]
    turned = HLO_SCATTER.replace("[3,2] parameter(2)", "[2,3] parameter(2)").replace(
        "update_window_dims={1}", "update_window_dims={0}"
    )
    found = values(turned, x, [[1], [2], [1]], np.transpose(updates).tolist())
    assert found == [0, 5, 6, 4, 0]
    found = values(turned, x, [[1], [0], [2]], np.transpose(updates).tolist())
    assert found == [3, 4, 5, 6, 0]


def test_stablehlo_goes_through_all_dimensions_row_by_row() -> None:
    case = Case((5,), (3, 1), (2,), [0], [], [], [], [0], 1)
    text = case.text(SCATTER, body="").replace("return %r", "return %b")
    updates = [[1, 3, 5], [2, 4, 6]]
    assert values(text, np.zeros(5, "i4"), [[1], [2], [1]], updates) == [0, 5, 6, 4, 0]
    # the second half of the first window comes after the first half of the last one
    assert values(text, np.zeros(5, "i4"), [[1], [0], [2]], updates) == [3, 4, 2, 6, 0]


def test_scatters_without_elements() -> None:
    none = Case((3, 0), (2, 1), (1, 0), [1], [0], [], [], [0], 1)
    text = none.text(SCATTER, body=BODIES["add"])
    found = values(text, np.empty((3, 0), "i4"), [[0], [1]], np.empty((2, 0), "i4"))
    assert found == [[], [], []]
    empty = Case((5,), (0, 1), (1,), [], [0], [], [], [0], 1)
    text = empty.text(SCATTER, body=BODIES["add"])
    found = values(text, [1, 2, 3, 4, 5], np.empty((0, 1), "i8"), np.empty(0, "i4"))
    assert found == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("body", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize(
    "element",
    [
        *("i1", "i2", "i4", "i8", "i16", "i64", "ui2", "ui4", "ui8", "ui32", "ui64"),
        *("f8E4M3FN", "f8E5M2", "bf16", "f16", "f64", "complex<f32>", "complex<f64>"),
    ],
)
def test_elements_of_every_type_are_combined(element: str, body: str) -> None:
    """Against the op itself, applied to one update after the other."""
    case = Case((3,), (9, 1), (1,), [], [0], [], [], [0], 1)
    op = f"%r = stablehlo.{body} %a, %b : tensor<{element}>"
    text = case.text(SCATTER, body=op, element=element)
    one = f"""func.func @main(%a: tensor<{element}>, %b: tensor<{element}>) -> tensor<{element}> {{
      {op}
      return %r : tensor<{element}>
    }}"""
    tensor = parse_type(f"tensor<{element}>")
    assert isinstance(tensor, TensorType)
    numbers = np.array([1, 0, 2, 3, 1, 1, 2, 0, 1]) % (2 if tensor.element.bits < 3 else 4)
    start, updates = (x.astype(dtype_of(tensor.element)) for x in (numbers[:3], numbers))
    rows = np.array([0, 2, 0, 1, 0, 2, 2, 2, 0])
    wanted = start.copy()
    program = read(one)
    for row, update in zip(rows, updates, strict=True):
        (wanted[row],) = evaluate(program, [wanted[row], update])
    assert values(text, start, rows[:, None], updates) == wanted.tolist()
