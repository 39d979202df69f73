"""Claims of maps against runs: an element is read where changing it changes the result."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import hloscope as hs
from hloscope.fusion import Analysis, linear
from hloscope.fusion.analysis import OperandTensor
from hloscope.indexing import (
    Access,
    Accesses,
    Precision,
    counts_of,
    input_to_output,
    output_to_input,
)
from hloscope.interpreter import evaluate
from hloscope.ir import Instruction, TensorType
from tests.indexing.relations import Values, relation

Pairs = set[tuple[tuple[int, ...], tuple[int, ...]]]


def seen(program: hs.Program, operand: int, arguments: list[Any]) -> Pairs:
    """Output elements that change with each element of an operand."""
    before = np.asarray(evaluate(program.module, arguments)[0])
    found: Pairs = set()
    for at in np.ndindex(arguments[operand].shape):
        changed = [a.copy() for a in arguments]
        changed[operand][at] += 1000.5
        after = np.asarray(evaluate(program.module, changed)[0])
        found |= {(tuple(map(int, o)), at) for o in zip(*np.nonzero(after != before), strict=True)}
    return found


def convolution(rng: np.random.Generator) -> str:
    """A random convolution with padding, strides, dilations, reversals and groups."""
    while True:
        rank = int(rng.integers(1, 3))
        features = int(rng.integers(1, 4))
        batches = int(rng.integers(1, 3)) if features == 1 else 1
        spatial, taps, strides, base, window = rng.integers(1, 4, (5, rank)).tolist()
        low, high = rng.integers(-1, 4, (2, rank)).tolist()
        padded = [
            (n - 1) * b + 1 + lo + hi for n, b, lo, hi in zip(spatial, base, low, high, strict=True)
        ]
        reach = [(n - 1) * d + 1 for n, d in zip(taps, window, strict=True)]
        out = [(p - r) // s + 1 for p, r, s in zip(padded, reach, strides, strict=True)]
        if min(p - r for p, r in zip(padded, reach, strict=True)) >= 0:
            break
    made_in, made_out = (int(rng.integers(1, 3)) * features for _ in range(2))
    made_out *= batches
    batch = int(rng.integers(1, 3)) * batches

    def each(values: list[Any]) -> str:
        return "x".join(map(str, values))

    pads = [f"{lo}_{hi}" for lo, hi in zip(low, high, strict=True)]
    numbers = "01"[:rank]
    return f"""ENTRY e {{
      p = f64[{batch},{",".join(map(str, spatial))},{made_in}] parameter(0)
      k = f64[{",".join(map(str, taps))},{made_in // features},{made_out}] parameter(1)
      ROOT c = f64[{batch // batches},{",".join(map(str, out))},{made_out}] convolution(p, k),
        window={{size={each(taps)} stride={each(strides)} pad={each(pads)}
          lhs_dilate={each(base)} rhs_dilate={each(window)}
          rhs_reversal={each(rng.integers(0, 2, rank).tolist())}}},
        dim_labels=b{numbers}f_{numbers}io->b{numbers}f,
        feature_group_count={features}, batch_group_count={batches}
    }}"""


@pytest.mark.parametrize("seed", range(20))
def test_a_convolution_reads_what_changes_it(seed: int) -> None:
    """In both directions, of both operands; taps that meet only padding or holes are not read."""
    rng = np.random.default_rng(seed)
    program = hs.read(convolution(rng))
    ins = program.module.entry.root
    arguments = [rng.integers(1, 9, sizes_of(o)).astype(np.float64) for o in ins.operands]
    for k in (0, 1):
        expected = seen(program, k, arguments)
        read, reached = output_to_input(ins)[k], input_to_output(ins, k)[0]
        assert all(a.precision is Precision.EXACT for a in (*read, *reached))
        assert pairs_of(read) == expected
        assert {(there, here) for here, there in pairs_of(reached)} == expected


def reads(text: str, output: int = 0) -> dict[OperandTensor, Accesses]:
    """What an output of the root reads, by operand and leaf."""
    module = hs.read(text).module
    analysis = Analysis(has_regions=False, counts=counts_of(module))
    return analysis.output_to_input(module.entry.root, output)


def sizes_of(value: Instruction) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.shape


def pairs_of(accesses: tuple[Access, ...]) -> Pairs:
    return {(here, there) for here, there, _ in relation(accesses, Values(1))}


def test_a_nan_of_a_kernel_that_meets_only_padding_is_not_in_the_result() -> None:
    """As XLA:CPU has it: [2, nan]."""
    text = """ENTRY e {
      p = f32[1,2,1] parameter(0)
      k = f32[3,1,1] parameter(1)
      ROOT c = f32[1,2,1] convolution(p, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
    }"""
    ones, kernel = np.ones((1, 2, 1), np.float32), np.ones((3, 1, 1), np.float32)
    kernel[0] = np.nan
    result = np.asarray(evaluate(hs.read(text).module, [ones, kernel])).reshape(-1)
    assert result[0] == 2
    assert np.isnan(result[1])


@pytest.mark.parametrize("groups", ["{}", "{{0,1}}"])
def test_an_all_to_all_of_all_devices_takes_their_number_from_the_header(groups: str) -> None:
    text = f"""HloModule m, replica_count=2
    ENTRY e {{
      x = s32[4] parameter(0)
      ROOT y = s32[4] all-to-all(x), replica_groups={groups}, dimensions={{0}}
    }}"""
    ((access,),) = (reads(text)[0, 0],)
    assert access.precision is Precision.EXACT
    assert "(rt0 * 2 + d0 mod 2)" in str(access.map)


STARTS = """ENTRY e {
  x = f32[4,6] parameter(0)
  i = s32[] parameter(1)
  j = s32[] parameter(2)
  u = f32[4,2] parameter(3)
  s = f32[4,2] dynamic-slice(x, i, j), dynamic_slice_sizes={4,2}
  v = f32[4,6] dynamic-update-slice(x, u, i, j)
  ROOT t = (f32[4,2], f32[4,6]) tuple(s, v)
}"""


@pytest.mark.parametrize(("name", "first"), [("s", 1), ("v", 2)])
def test_a_start_that_is_clamped_to_nothing_is_read_by_nobody(name: str, first: int) -> None:
    ins = hs.read(STARTS).module.entry.body.by_name[name]
    assert [bool(accesses) for accesses in output_to_input(ins)[first:]] == [False, True]
    assert [bool(input_to_output(ins, first + k)[0]) for k in range(2)] == [False, True]


def test_a_coordinate_of_a_gather_that_is_clamped_to_nothing_is_read_by_nobody() -> None:
    text = """ENTRY e {
      x = f32[4,1,6] parameter(0)
      i = s32[5,3] parameter(1)
      ROOT g = f32[5] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1,2},
        start_index_map={0,1,2}, index_vector_dim=1, slice_sizes={1,1,1}
    }"""
    ins = hs.read(text).module.entry.root
    expected = {((r,), (r, v)) for r in range(5) for v in (0, 2)}
    assert pairs_of(output_to_input(ins)[1]) == expected
    back = pairs_of(input_to_output(ins, 1)[0])
    assert {(there, here) for here, there in back} == expected


BODIES = """
  ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
  eq { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=EQ }
  add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
  last { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] copy(b) }
"""


@pytest.mark.parametrize(
    ("select", "scatter", "stride", "precision"),
    [
        ("ge", "add", 2, Precision.EXACT),
        ("ge", "last", 3, Precision.EXACT),
        ("ge", "last", 2, Precision.EXACT),  # a later window has an element outside this one
        ("eq", "last", 2, Precision.OVER),  # a later window may have to overwrite it
    ],
)
def test_any_element_of_a_window_may_be_selected_by_an_order(
    select: str, scatter: str, stride: int, precision: Precision
) -> None:
    text = f"""HloModule m
    {BODIES}
    ENTRY e {{
      x = f32[9] parameter(0)
      s = f32[{(9 - 3) // stride + 1}] parameter(1)
      i = f32[] parameter(2)
      ROOT r = f32[9] select-and-scatter(x, s, i), window={{size=3 stride={stride}}},
        select={select}, scatter={scatter}
    }}"""
    program = hs.read(text)
    (access,) = reads(text)[1, 0]
    assert access.precision is precision
    if precision is Precision.EXACT:
        rng, found = np.random.default_rng(0), set[Any]()
        for _ in range(60):
            arguments = [rng.permutation(9).astype(np.float32), np.empty(0), np.float32(0)]
            arguments[1] = np.arange(1, 2 + (9 - 3) // stride, dtype=np.float32)
            found |= seen(program, 1, arguments)
        assert pairs_of((access,)) == found


SELECTS = {
    "GE": "ROOT r = pred[] compare(a, b), direction=GE",
    "LT": "ROOT r = pred[] compare(a, b), direction=LT",
    "GT, swapped": "ROOT r = pred[] compare(b, a), direction=GT",
    "EQ": "ROOT r = pred[] compare(a, b), direction=EQ",
    "NE": "ROOT r = pred[] compare(b, a), direction=NE",
    "GE of negated": "n = f32[] negate(a) m = f32[] negate(b)"
    " ROOT r = pred[] compare(n, m), direction=GE",
    "EQ of converted": "n = s32[] convert(a) m = s32[] convert(b)"
    " ROOT r = pred[] compare(n, m), direction=EQ",
}
NOT_COMPARISONS = {
    "of different functions": "n = f32[] negate(b) ROOT r = pred[] compare(a, n), direction=GE",
    "with itself": "ROOT r = pred[] compare(a, a), direction=GE",
    "with a constant": "z = f32[] constant(5) ROOT r = pred[] compare(a, z), direction=GE",
    "of a few values": "n = u4[] convert(a) m = u4[] convert(b)"
    " ROOT r = pred[] compare(n, m), direction=EQ",
    "of what may be the same": "z = f32[] constant(0) n = f32[] multiply(a, z)"
    " m = f32[] multiply(b, z) ROOT r = pred[] compare(n, m), direction=EQ",
}


def _windowed(select: str, body: str, window: str, source: int) -> str:
    return f"""HloModule m
    s {{ a = f32[] parameter(0) b = f32[] parameter(1) {select} }}
    f {{ a = f32[] parameter(0) b = f32[] parameter(1) {body} }}
    ENTRY e {{
      x = f32[5] parameter(0) s = f32[{source}] parameter(1) i = f32[] parameter(2)
      ROOT r = f32[5] select-and-scatter(x, s, i), window={{{window}}}, select=s, scatter=f
    }}"""


WINDOWS = [("size=3 stride=1", 3), ("size=2 stride=1", 4), ("size=2 stride=2", 2),
           ("size=2 stride=1 rhs_dilate=2", 3), ("size=3 stride=1 pad=-1_0", 2),
           ("size=3 stride=1 pad=1_1", 5), ("size=2 stride=3 pad=1_0", 2),
           ("size=1 stride=2", 3)]  # fmt: skip


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("body", ["ROOT c = f32[] negate(b)", "ROOT c = f32[] add(a, b)"])
@pytest.mark.parametrize(("window", "source"), WINDOWS)
@pytest.mark.parametrize("select", SELECTS)
def test_what_windows_select_is_exact_only_where_all_of_it_is_seen(
    select: str, window: str, source: int, body: str
) -> None:
    """With all orders of five numbers, or all choices of two, whatever can be selected is."""
    text = _windowed(SELECTS[select], body, window, source)
    program = hs.read(text)
    found = [set[Any](), set[Any]()]
    updates = np.arange(1, source + 1, dtype=np.float32)
    two = select.startswith(("EQ", "NE"))
    data = [*product(range(2), repeat=5)] if two else [*permutations(range(5))]
    for k, operand in ((0, 1), (1, 2)):
        for values in data:
            arguments = [np.array(values, np.float32), updates, np.zeros((), np.float32)]
            found[k] |= seen(program, operand, arguments)
        accesses = reads(text).get((operand, 0), ())
        claimed = pairs_of(accesses)
        assert found[k] <= claimed
        if all(access.precision is Precision.EXACT for access in accesses):
            assert found[k] == claimed


@pytest.mark.parametrize("select", [*SELECTS, *NOT_COMPARISONS])
def test_an_initial_value_is_used_exactly_where_windows_are_whole_and_compare(select: str) -> None:
    every = {**SELECTS, **NOT_COMPARISONS}
    for window, source in WINDOWS:
        text = _windowed(every[select], "ROOT c = f32[] negate(b)", window, source)
        (access,) = reads(text)[2, 0]
        is_whole = "=1_" not in window and "size=1 " not in window
        is_exact = is_whole and select in SELECTS
        assert (access.precision is Precision.EXACT) is is_exact


@pytest.mark.parametrize(
    ("rows", "precision"),
    [("{{0},{4},{2}}", Precision.EXACT), ("{{0},{4},{0}}", Precision.OVER)],
)
def test_updates_at_constant_indices_that_are_apart_are_not_hidden(
    rows: str, precision: Precision
) -> None:
    text = f"""HloModule m
    {BODIES}
    ENTRY e {{
      x = f32[6] parameter(0)
      k = s32[3,1] constant({rows})
      u = f32[3] parameter(1)
      ROOT r = f32[6] scatter(x, k, u), update_window_dims={{}}, inserted_window_dims={{0}},
        scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=last
    }}"""
    (access,) = reads(text)[2, 0]
    assert access.precision is precision


def test_a_sum_that_a_loop_carries_reads_its_initial_value_exactly() -> None:
    """However many turns there are; where a reversed part ends up depends on their number."""
    text = """HloModule m
    c { p = (s32[], f32[4], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
        n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
    b { p = (s32[], f32[4], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
        x = f32[4] get-tuple-element(p), index=1 z = f32[4] get-tuple-element(p), index=2
        one = s32[] constant(1) j = s32[] add(i, one) w = f32[4] add(x, z)
        v = f32[4] reverse(z), dimensions={0}
        ROOT t = (s32[], f32[4], f32[4]) tuple(j, w, v) }
    ENTRY e { q = (s32[], f32[4], f32[4]) parameter(0)
      ROOT r = (s32[], f32[4], f32[4]) while(q), condition=c, body=b }"""
    own = [[a.precision for a in reads(text, k)[0, k]] for k in range(3)]
    assert own[0] == own[1] == [Precision.EXACT]
    assert set(own[2]) == {Precision.OVER}


def test_an_array_that_lies_alike_is_read_at_the_same_position() -> None:
    text = """ENTRY e {
      p = bf16[16,1,8,4]{0,1,3,2:T(4,128)(2,1)} parameter(0)
      ROOT n = bf16[16,1,8,4]{0,1,3,2:T(4,128)(2,1)} copy(p)
    }"""
    ins = hs.read(text).module.entry.root
    (access,) = linear(output_to_input(ins)[0], ins.type, ins.type)
    assert access.map is not None
    assert str(access.map).startswith("(d0) -> (d0)")
