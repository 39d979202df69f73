"""Gathers and scatters."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from hloscope.interpreter.evaluate import evaluate
from hloscope.interpreter.values import EvaluationError, dtype_of
from hloscope.ir.types import TensorType
from hloscope.mlir.parser import parse_type
from tests.interpreter.helpers import read, values

GATHER = """func.func @main(%x: tensor<{x}>, %i: tensor<{i}>) -> tensor<{r}> {{
  %0 = "stablehlo.gather"(%x, %i) <{{
    dimension_numbers = #stablehlo.gather<offset_dims = {offset}, collapsed_slice_dims = {dropped},
      operand_batching_dims = {batching}, start_indices_batching_dims = {of_indices},
      start_index_map = {mapped}, index_vector_dim = {vector}>,
    slice_sizes = array<i64: {sizes}>
  }}> : (tensor<{x}>, tensor<{i}>) -> tensor<{r}>
  return %0 : tensor<{r}>
}}"""
SCATTER = """func.func @main(%x: tensor<{x}>, %i: tensor<{i}>, %u: tensor<{u}>) -> tensor<{x}> {{
  %0 = "stablehlo.scatter"(%x, %i, %u) <{{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {offset},
      inserted_window_dims = {dropped}, input_batching_dims = {batching},
      scatter_indices_batching_dims = {of_indices}, scatter_dims_to_operand_dims = {mapped},
      index_vector_dim = {vector}>
  }}> ({{
    ^bb0(%a: tensor<{e}>, %b: tensor<{e}>):
      {body}
      stablehlo.return %r : tensor<{e}>
  }}) : (tensor<{x}>, tensor<{i}>, tensor<{u}>) -> tensor<{x}>
  return %0 : tensor<{x}>
}}"""
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


@dataclass
class Case:
    """Dimension numbers of a gather, which are those of the scatter the other way round."""

    operand: tuple[int, ...]
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    offset: list[int]
    dropped: list[int]
    batching: list[int]
    of_indices: list[int]
    mapped: list[int]
    vector: int

    @property
    def windows(self) -> tuple[int, ...]:
        """Shape of the slices side by side."""
        out = [*self.dropped, *self.batching]
        window = iter([s for d, s in enumerate(self.sizes) if d not in out])
        batch = iter([s for d, s in enumerate(self.indices) if d != self.vector])
        rank = len(self.offset) + len(self.indices) - (self.vector < len(self.indices))
        return tuple(next(window) if d in self.offset else next(batch) for d in range(rank))

    def text(self, template: str, **more: str) -> str:
        def type_(sizes: tuple[int, ...], element: str) -> str:
            return "x".join([*map(str, sizes), element])

        element = more.pop("element", "i32")
        return template.format(
            **vars(self)
            | {
                "x": type_(self.operand, element),
                "i": type_(self.indices, "i64"),
                "r": type_(self.windows, element),
                "u": type_(self.windows, element),
                "e": element,
                "sizes": ", ".join(map(str, self.sizes)),
            },
            **more,
        )

    def places(self, indices: Any) -> Any:
        """Every index of the slices, the full start, and the place inside the slice.

        Written as the specification has it, one index after the other.
        """
        out = [*self.dropped, *self.batching]
        for at in np.ndindex(self.windows):
            batch = [i for d, i in enumerate(at) if d not in self.offset]
            vector = indices[(*batch[: self.vector], slice(None), *batch[self.vector :])]
            start = [0] * len(self.operand)
            for i, d in enumerate(self.mapped):
                start[d] = int(vector[i])
            for d, given in zip(self.batching, self.of_indices, strict=True):
                start[d] = batch[given - (given > self.vector)]
            inside = iter([at[d] for d in self.offset])
            yield at, start, [0 if d in out else next(inside) for d in range(len(start))]


def made(seed: int) -> tuple[Case, Any, Any, Random]:
    """A random case, the operand and the indices."""
    random = Random(seed)
    rank = random.randint(1, 4)
    operand = tuple(random.randint(1, 4) for _ in range(rank))
    roles = [random.choice(["window", "window", "dropped", "batching"]) for _ in operand]
    batching = [d for d in range(rank) if roles[d] == "batching"]
    mapped = [d for d in range(rank) if d not in batching and random.random() < 0.6]
    random.shuffle(mapped)
    sizes = tuple(
        random.randint(1, n) if role == "window" and random.random() < 0.5
        else n if role == "window" else 1
        for n, role in zip(operand, roles, strict=True)
    )  # fmt: skip
    dims: list[Any] = [*batching, *[-random.randint(1, 3) for _ in range(random.randint(0, 2))]]
    random.shuffle(dims)
    vector = random.randint(0, len(dims))
    of_indices = [dims.index(d) + (dims.index(d) >= vector) for d in batching]
    shape = [operand[d] if d >= 0 else -d for d in dims]
    if vector < len(shape) or len(mapped) != 1 or random.random() < 0.5:
        shape.insert(vector, len(mapped))
    kept = sum(role == "window" for role in roles)
    offset = sorted(random.sample(range(kept + len(dims)), kept))
    dropped = [d for d in range(rank) if roles[d] == "dropped"]
    case = Case(operand, tuple(shape), sizes, offset, dropped, batching, of_indices, mapped, vector)
    numbers = np.random.default_rng(seed)
    x = numbers.integers(-99, 99, operand, dtype="i4")
    indices = numbers.integers(-2, 5, case.indices, dtype="i8")
    return case, x, indices, random


@pytest.mark.parametrize("block", range(10))
def test_gathers_are_those_of_the_specification(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        case, x, given, _ = made(seed)
        indices = given if case.vector < given.ndim else given[..., None]
        wanted = np.empty(case.windows, "i4")
        for at, start, inside in case.places(indices):
            most = [n - size for n, size in zip(x.shape, case.sizes, strict=True)]
            first = [min(max(s, 0), m) for s, m in zip(start, most, strict=True)]
            wanted[at] = x[tuple(a + b for a, b in zip(first, inside, strict=True))]
        assert values(case.text(GATHER), x, given) == wanted.tolist(), seed
        # ... also of an operand that is not row-major in memory
        turned = np.asfortranarray(x)
        assert values(case.text(GATHER), turned, given) == wanted.tolist(), seed


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


EXAMPLE = Case((3, 4, 2), (2, 3, 2), (1, 2, 2), [2, 3], [0], [], [], [1, 0], 2)
"""Dimension numbers of the specification's examples."""


def test_gather_of_the_specification() -> None:
    x = np.arange(1, 25, dtype="i4").reshape(3, 4, 2)
    indices = [[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]]
    assert values(EXAMPLE.text(GATHER), x, indices) == [
        [[[1, 2], [3, 4]], [[3, 4], [5, 6]], [[13, 14], [15, 16]]],
        [[[9, 10], [11, 12]], [[11, 12], [13, 14]], [[17, 18], [19, 20]]],
    ]


def test_scatter_of_the_specification() -> None:
    x = np.arange(1, 25, dtype="i4").reshape(3, 4, 2)
    indices = [[[0, 2], [1, 0], [2, 1]], [[0, 1], [1, 0], [0, 9]]]
    ones = np.ones(EXAMPLE.windows, "i4")
    assert values(EXAMPLE.text(SCATTER, body=BODIES["add"]), x, indices, ones) == [
        [[1, 2], [5, 6], [7, 8], [7, 8]],
        [[10, 11], [12, 13], [14, 15], [16, 17]],
        [[18, 19], [20, 21], [21, 22], [23, 24]],
    ]


ROWS = Case((5, 2), (4, 1), (1, 2), [1], [0], [], [], [0], 1)
"""Rows of a matrix by number."""


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


def test_dynamic_gather_of_the_specification() -> None:
    text = """func.func @main(%x: tensor<2x3x4x2xi32>, %i: tensor<2x2x3x2xi64>, %s: tensor<4xi64>)
        -> tensor<2x2x3x?x?xi32> {
      %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{
        dimension_numbers = #stablehlo.gather<offset_dims = [3, 4], collapsed_slice_dims = [1],
          operand_batching_dims = [0], start_indices_batching_dims = [1],
          start_index_map = [2, 1], index_vector_dim = 3>
      }> : (tensor<2x3x4x2xi32>, tensor<2x2x3x2xi64>, tensor<4xi64>) -> tensor<2x2x3x?x?xi32>
      return %0 : tensor<2x2x3x?x?xi32>
    }"""
    x = np.arange(1, 49).reshape(2, 3, 4, 2)
    indices = [
        [[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]],
        [[[0, 0], [2, 1], [2, 2]], [[1, 2], [0, 1], [1, 0]]],
    ]
    found = values(text, x.tolist(), indices, [1, 1, 2, 2])
    assert np.shape(found) == (2, 2, 3, 2, 2)
    assert found == [
        [[[[1, 2], [3, 4]], [[3, 4], [5, 6]], [[13, 14], [15, 16]]],
         [[[33, 34], [35, 36]], [[35, 36], [37, 38]], [[41, 42], [43, 44]]]],
        [[[[1, 2], [3, 4]], [[13, 14], [15, 16]], [[21, 22], [23, 24]]],
         [[[43, 44], [45, 46]], [[33, 34], [35, 36]], [[27, 28], [29, 30]]]],
    ]  # fmt: skip


@pytest.mark.parametrize("element", ["ui32", "ui64", "i4"])
def test_unsigned_indices_are_never_negative(element: str) -> None:
    case = Case((5,), (1, 1), (1,), [], [0], [], [], [0], 1)
    text = case.text(GATHER).replace("1x1xi64", f"1x1x{element}")
    largest = {"ui32": (1 << 32) - 1, "ui64": (1 << 64) - 1, "i4": 7}[element]
    assert values(text, [1, 2, 3, 4, 5], [[largest]]) == [5]


def test_gathers_without_elements() -> None:
    case = Case((5,), (0, 1), (1,), [], [0], [], [], [0], 1)
    assert values(case.text(GATHER), [1, 2, 3, 4, 5], np.empty((0, 1), "i8")) == []


def test_gathers_of_nothing_are_zeros() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[0,2] parameter(0)
      i = s32[3] parameter(1)
      ROOT r = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={0,2}
    }"""
    assert values(text, np.empty((0, 2), "f4"), [0, 1, 2]) == [[0, 0]] * 3


def test_scatters_without_elements() -> None:
    none = Case((3, 0), (2, 1), (1, 0), [1], [0], [], [], [0], 1)
    text = none.text(SCATTER, body=BODIES["add"])
    found = values(text, np.empty((3, 0), "i4"), [[0], [1]], np.empty((2, 0), "i4"))
    assert found == [[], [], []]
    empty = Case((5,), (0, 1), (1,), [], [0], [], [], [0], 1)
    text = empty.text(SCATTER, body=BODIES["add"])
    found = values(text, [1, 2, 3, 4, 5], np.empty((0, 1), "i8"), np.empty(0, "i4"))
    assert found == [1, 2, 3, 4, 5]


def test_torch_index_select() -> None:
    text = """func.func @main(%x: tensor<2x3x4xi32>, %i: tensor<2x2xi32>) -> tensor<2x3x2xi32> {
      %0 = "stablehlo.torch_index_select"(%x, %i) <{batch_dims = 1 : i64, dim = 2 : i64}>
          : (tensor<2x3x4xi32>, tensor<2x2xi32>) -> tensor<2x3x2xi32>
      return %0 : tensor<2x3x2xi32>
    }"""
    x, at = np.arange(24).reshape(2, 3, 4), np.array([[0, 3], [1, 9]])
    wanted = np.stack([x[b].take(at[b], 1, mode="clip") for b in range(2)])
    assert values(text, x.tolist(), at.tolist()) == wanted.tolist()
    text = text.replace("batch_dims = 1", "batch_dims = 0").replace("2x3x2x", "2x3x2x2x")
    assert values(text, x.tolist(), at.tolist()) == x.take(at, 2, mode="clip").tolist()


def test_slices_of_nothing_are_refused() -> None:
    text = """func.func @main(%x: tensor<?xi32>, %i: tensor<1x1xi64>) -> tensor<1xi32> {
      %0 = "stablehlo.gather"(%x, %i) <{
        dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0],
          index_vector_dim = 1>, slice_sizes = array<i64: 1>
      }> : (tensor<?xi32>, tensor<1x1xi64>) -> tensor<1xi32>
      return %0 : tensor<1xi32>
    }"""
    with pytest.raises(EvaluationError, match="a slice of 1 of 0 elements"):
        values(text, np.empty(0, "i4"), [[0]])


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
