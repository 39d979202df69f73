"""Arrays with a bound: what lies in memory behind the elements that exist.

The values are those of XLA:CPU (jaxlib 0.10.2), of whose arrays the elements that exist are kept.
"""

from __future__ import annotations

from typing import Any

import pytest

from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import values

HEAD = """HloModule m
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
lt { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { p = s32[5] parameter(0) n = s32[] parameter(1) k = s32[] parameter(2)
  zero = s32[] constant(0) three = s32[] constant(3) nine = s32[] constant(9)
  q = s32[<=5] set-dimension-size(p, n), dimensions={0} """
P = [1, 3, 2, 5, 4]
CASES: dict[str, tuple[str, dict[tuple[int, int], Any]]] = {
    "a start is clamped to the bound": (
        "ROOT r = s32[2] dynamic-slice(q, three), dynamic_slice_sizes={2}",
        {(3, 0): [5, 4], (5, 0): [5, 4], (0, 0): [5, 4]},
    ),
    "what is computed in place is computed behind too": (
        "a = s32[<=5] negate(q) ROOT r = s32[2] dynamic-slice(a, three), dynamic_slice_sizes={2}",
        {(3, 0): [-5, -4], (0, 0): [-5, -4]},
    ),
    "a larger size shows what was there": (
        "a = s32[<=5] set-dimension-size(q, k), dimensions={0} ROOT r = s32[<=5] negate(a)",
        {(3, 4): [-1, -3, -2, -5], (3, 2): [-1, -3], (0, 1): [-1]},
    ),
    "a slice of one element may be behind": (
        "ROOT r = s32[1] slice(q), slice={[4:5]}",
        {(3, 0): [4], (5, 0): [4], (0, 0): [4]},
    ),
    "a slice has what exists": (
        "a = s32[<=3] slice(q), slice={[0:5:2]} ROOT r = s32[<=3] negate(a)",
        {(3, 0): [-1, -2], (5, 0): [-1, -2, -4], (0, 0): [], (1, 0): [-1]},
    ),
    "padding begins behind what exists": (
        "ROOT r = s32[<=8] pad(q, nine), padding=1_2",
        {(3, 0): [9, 1, 3, 2, 9, 9], (0, 0): [9, 9, 9], (5, 0): [9, 1, 3, 2, 5, 4, 9, 9]},
    ),
    "what exists is reversed": (
        "ROOT r = s32[<=5] reverse(q), dimensions={0}",
        {(3, 0): [2, 3, 1], (1, 0): [1], (0, 0): []},
    ),
    "what exists is put together": (
        "ROOT r = s32[<=15] concatenate(q, p, q), dimensions={0}",
        {(2, 0): [1, 3, 1, 3, 2, 5, 4, 1, 3], (0, 0): P},
    ),
    "an update is written behind": (
        "u = s32[2] constant({8,9}) ROOT r = s32[<=5] dynamic-update-slice(q, u, k)",
        {(3, 2): [1, 3, 8], (3, 9): [1, 3, 2], (5, 9): [1, 3, 2, 8, 9]},
    ),
    "indices are clamped to the bound": (
        "i = s32[3] constant({1,4,9}) ROOT r = s32[3] gather(q, i), offset_dims={}, "
        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
        {(3, 0): [3, 4, 4], (0, 0): [3, 4, 4]},
    ),
    "what is scattered behind is not seen": (
        "i = s32[3] constant({1,4,9}) u = s32[3] constant({7,7,7}) "
        "ROOT r = s32[<=5] scatter(q, i, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        {(3, 0): [1, 10, 2], (5, 0): [1, 10, 2, 5, 11]},
    ),
    "a sum is of what exists": (
        "ROOT r = s32[] reduce(q, zero), dimensions={0}, to_apply=add",
        {(3, 0): 6, (5, 0): 15, (0, 0): 0},
    ),
    "a product is of what exists": (
        "ROOT r = s32[] dot(q, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        {(3, 0): 14, (5, 0): 55, (0, 0): 0},
    ),
    "what exists is sorted": (
        "ROOT r = s32[<=5] sort(q), dimensions={0}, to_apply=lt",
        {(3, 0): [1, 2, 3], (5, 0): [1, 2, 3, 4, 5]},
    ),
    "windows are of what exists": (
        "ROOT r = s32[<=4] reduce-window(q, zero), window={size=2}, to_apply=add",
        {(3, 0): [4, 5], (5, 0): [4, 5, 7, 9]},
    ),
    "a size of 1 expands": (
        "a = s32[<=5] set-dimension-size(p, k), dimensions={0} ROOT r = s32[<=5] add(a, q)",
        {(3, 1): [2, 4, 3], (5, 1): [2, 4, 3, 6, 5], (2, 2): [2, 6]},
    ),
}
RUNS = [(name, sizes) for name, (_, found) in CASES.items() for sizes in found]


@pytest.mark.parametrize(("name", "sizes"), RUNS, ids=[f"{n} {s}" for n, s in RUNS])
def test_values_are_those_of_the_machine(name: str, sizes: tuple[int, int]) -> None:
    lines, found = CASES[name]
    assert values(HEAD + lines + " }", P, *sizes) == found[sizes]


def test_memory_goes_through_calls_tuples_and_loops() -> None:
    text = """HloModule m
    more { a = (s32[], s32[<=5]) parameter(0) i = s32[] get-tuple-element(a), index=0
      two = s32[] constant(2) ROOT r = pred[] compare(i, two), direction=LT }
    next { a = (s32[], s32[<=5]) parameter(0) i = s32[] get-tuple-element(a), index=0
      x = s32[<=5] get-tuple-element(a), index=1 y = s32[<=5] add(x, x)
      one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], s32[<=5]) tuple(j, y) }
    neg { a = s32[<=5] parameter(0) ROOT r = s32[<=5] negate(a) }
    ENTRY e { p = s32[5] parameter(0) n = s32[] parameter(1) zero = s32[] constant(0)
      q = s32[<=5] set-dimension-size(p, n), dimensions={0}
      f = s32[<=5] fusion(q), kind=kLoop, calls=neg
      t = (s32[], s32[<=5]) tuple(zero, f)
      u = (s32[], s32[<=5]) while(t), condition=more, body=next
      v = s32[<=5] get-tuple-element(u), index=1
      s = s32[2] dynamic-slice(v, n), dynamic_slice_sizes={2}
      g = s32[] get-dimension-size(v), dimensions={0}
      ROOT r = (s32[<=5], s32[2], s32[]) tuple(v, s, g) }"""
    assert values(text, P, 3) == ([-4, -12, -8], [-20, -16], 3)
    assert values(text, P, 0) == ([], [-4, -12], 0)


def test_calls_that_make_sizes_and_take_them_away() -> None:
    text = """HloModule m
    ENTRY e { p = s32[2,3] parameter(0) n = s32[] parameter(1) two = s32[] constant(2)
      q = s32[2,<=3] custom-call(p, two, n), custom_call_target="SliceToDynamic"
      s = (s32[2,3], s32[], s32[]) custom-call(q), custom_call_target="PadToStatic"
      ROOT r = (s32[2,<=3], (s32[2,3], s32[], s32[])) tuple(q, s) }"""
    whole = [[1, 2, 3], [4, 5, 6]]
    assert values(text, whole, 2) == ([[1, 2], [4, 5]], (whole, 2, 2))
    with pytest.raises(EvaluationError, match="none of its type"):
        values(text, whole, 4)


def test_an_argument_has_at_most_the_bound() -> None:
    text = "HloModule m ENTRY e { p = s32[<=3] parameter(0) ROOT r = s32[<=3] negate(p) }"
    assert values(text, [1, 2]) == [-1, -2]
    with pytest.raises(EvaluationError, match=r"its shape is \(4,\), where a bound is 3"):
        values(text, [1, 2, 3, 4])


def test_sizes_that_differ_are_refused() -> None:
    text = (
        HEAD
        + """a = s32[<=5] set-dimension-size(p, k), dimensions={0}
      ROOT r = s32[<=5] add(a, q) }"""
    )
    with pytest.raises(EvaluationError, match="needs operands of one shape"):
        values(text, P, 3, 2)
