"""Conditions on the new sizes of an instruction: which sizes they tie, and what satisfies them."""

from __future__ import annotations

import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.proof.sizes import (
    ShrinkError,
    at_most,
    choose,
    equations_of,
    fixed,
    groups,
    products,
    total,
)

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
Sizes = tuple[int, ...]
Row = tuple[str, str, list[tuple[Sizes, Sizes, Sizes]]]
MOVED: list[Row] = [
    ("f32[9,4]", "f32[9,4] abs(p0)", []),
    ("f32[6,4,5]", "f32[2,12,5] reshape(p0)", [((6, 4, 2, 12), (2, 3, 1, 6), (2, 3, 2, 6))]),
    ("f32[6,4]", "f32[6,2,2] reshape(p0)", [((4, 2, 2), (9, 3, 3), (9, 3, 2))]),
    ("f32[0,4]", "f32[2,0] reshape(p0)", []),
    ("f32[4,6]", "f32[24] bitcast(p0)", [((4, 6, 24), (2, 3, 6), (2, 3, 5))]),
    ("f32[4,6]{0,1}", "f32[8,3] bitcast(p0)", [((6, 4, 8, 3), (3, 2, 2, 3), (3, 2, 3, 3))]),
    ("f32[4,6]", "bf16[48] bitcast(p0)", [((4, 6, 48), (2, 3, 12), (2, 3, 6))]),
    ("bf16[48]", "f32[24] bitcast(p0)", [((48, 24), (6, 3), (6, 6))]),
    ("f32[4,6]", "s32[4,6] bitcast-convert(p0)", []),
    ("f32[4,6]", "bf16[4,6,2] bitcast-convert(p0)", [((2,), (2,), (3,))]),
    ("bf16[4,6,2]", "f32[4,6] bitcast-convert(p0)", [((2,), (2,), (3,))]),
    ("f32[9,6]", "f32[5,6] slice(p0), slice={[1:6],[0:6]}",
     [((5, 9), (3, 3), (4, 3)), ((6, 6), (2, 2), (3, 2))]),
    ("f32[9]; s32[]", "f32[5] dynamic-slice(p0, p1), dynamic_slice_sizes={5}",
     [((5, 9), (3, 3), (4, 3))]),
    ("f32[9]; f32[5]; s32[]", "f32[9] dynamic-update-slice(p0, p1, p2)",
     [((5, 9), (3, 3), (4, 3))]),
    ("f32[9,6]; f32[]", "f32[12,6] pad(p0, p1), padding=1_2x0_0", [((9, 12), (2, 3), (3, 3))]),
    ("f32[9,6]; f32[]", "f32[8,7] pad(p0, p1), padding=-1_0x1_0", [((6, 7), (2, 3), (3, 3))]),
    ("f32[6,9]; f32[6,4]", "f32[6,13] concatenate(p0, p1), dimensions={1}",
     [((9, 4, 13), (3, 2, 5), (3, 2, 6))]),
]  # fmt: skip
TAKEN = "offset_dims={1}, collapsed_slice_dims={0}, index_vector_dim=1"
PUT = "update_window_dims={1}, inserted_window_dims={0}, index_vector_dim=1, to_apply=add"
CONV = "window={size=3}, dim_labels=b0f_0io->b0f"
COMPUTED: list[Row] = [
    ("f32[9,6]; s32[5,2]",
     f"f32[5,3] gather(p0, p1), {TAKEN}, start_index_map={{0,1}}, slice_sizes={{1,3}}",
     [((2,), (2,), (3,)), ((1, 9), (1, 1), (2, 1)), ((3, 6), (3, 3), (4, 3))]),
    ("f32[9,6]; s32[5]",
     f"f32[5,6] gather(p0, p1), {TAKEN}, start_index_map={{0}}, slice_sizes={{1,6}}",
     [((1, 9), (1, 1), (2, 1)), ((6, 6), (2, 2), (3, 2))]),
    ("f32[9,6]; s32[5,2]; f32[5,3]",
     f"f32[9,6] scatter(p0, p1, p2), {PUT}, scatter_dims_to_operand_dims={{0,1}}",
     [((2,), (2,), (3,)), ((3, 6), (3, 3), (4, 3))]),
    ("f32[9,6]; f32[9,6]; s32[5]; f32[5,3]; f32[5,3]",
     "(f32[9,6], f32[9,6]) scatter(p0, p1, p2, p3, p4), "
     f"{PUT.replace('add', 'two')}, scatter_dims_to_operand_dims={{0}}",
     [((3, 6), (3, 3), (4, 3))]),
    ("f32[8,10,6]; f32[3,6,12]", f"f32[8,8,12] convolution(p0, p1), {CONV}", []),
    ("f32[8,10,6]; f32[3,3,12]",
     f"f32[8,8,12] convolution(p0, p1), {CONV}, feature_group_count=2",
     [((2, 6, 12), (2, 3, 6), (2, 3, 5)), ((2, 3, 6), (2, 4, 8), (2, 4, 6))]),
    ("f32[8,10,6]; f32[3,1,12]",
     f"f32[8,8,12] convolution(p0, p1), {CONV}, feature_group_count=6",
     [((6, 2, 12), (2, 2, 4), (2, 2, 6))]),
    ("f32[8,10,6]; f32[3,1,6]",
     f"f32[8,8,6] convolution(p0, p1), {CONV}, feature_group_count=6", []),
    ("f32[8,10,6]; f32[3,6,12]",
     f"f32[2,8,12] convolution(p0, p1), {CONV}, batch_group_count=4",
     [((4, 3, 12), (2, 3, 6), (2, 3, 5)), ((4, 2, 8), (2, 2, 4), (2, 2, 6))]),
    ("f32[8,10,6]; f32[3,6,8]",
     f"f32[1,8,8] convolution(p0, p1), {CONV}, batch_group_count=8", []),
    ("f32[4,9]", "(f32[4,3], s32[4,3]) topk(p0), k=3, largest=true", [((3, 9), (3, 3), (4, 3))]),
    ("f32[2,8]", "c64[2,5] fft(p0), fft_type=RFFT, fft_length={8}", [((8, 5), (4, 3), (4, 2))]),
    ("c64[2,5]", "f32[2,8] fft(p0), fft_type=IRFFT, fft_length={8}", [((8, 5), (5, 3), (6, 3))]),
    ("c64[9]", "c64[9] fft(p0), fft_type=FFT, fft_length={9}", []),
    ("u64[2]", "(u64[2], u32[5]) rng-bit-generator(p0), algorithm=rng_default",
     [((2,), (2,), (3,))]),
    ("f32[9,4]; f32[3,4,5]; s32[3]",
     "f32[9,5] ragged-dot(p0, p1, p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
     "lhs_ragged_dims={0}, rhs_group_dims={0}", [((3,), (3,), (2,))]),
    ("f32[4,<=6]; s32[2]", "f32[<=4,<=6] dynamic-reshape(p0, p1)", [((2,), (2,), (3,))]),
]  # fmt: skip
GROUP = "dimensions={0}, replica_groups={{0,1}}"
EXCHANGED: list[Row] = [
    ("f32[4,6]", f"f32[8,6] all-gather(p0), {GROUP}", [((4, 8), (2, 6), (2, 4))]),
    ("f32[8,6]", f"f32[4,6] reduce-scatter(p0), {GROUP}, to_apply=add", [((4, 8), (2, 6), (2, 4))]),
    ("f32[4,6]", f"f32[20,6] all-gather(p0), {GROUP}", [((4, 20), (2, 10), (2, 6))]),
    ("f32[4,6]", f"f32[9,6] all-gather(p0), {GROUP}", []),
    ("f32[0,6]", f"f32[0,6] all-gather(p0), {GROUP}", []),
    ("f32[8,6]", f"f32[4,12] all-to-all(p0), {GROUP}",
     [((4, 8), (2, 6), (2, 4)), ((6, 12), (2, 6), (2, 4)), ((8,), (6,), (4,))]),
    ("f32[4]", f"((f32[4]), f32[8]) all-gather-start(p0), {GROUP}", [((4, 8), (2, 6), (2, 4))]),
]  # fmt: skip


@pytest.mark.parametrize("rows", [MOVED, COMPUTED, EXCHANGED], ids=["moved", "computed", "groups"])
def test_conditions_tie_sizes_and_hold_for_those_that_fit(rows: list[Row]) -> None:
    """Groups of two devices become groups of three."""
    two = "two { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[]"
    two += " parameter(3) ROOT r = (f32[], f32[]) tuple(a, b) }"
    for types, line, expected in rows:
        lines = [f"p{i} = {type} parameter({i})" for i, type in enumerate(types.split("; "))]
        text = f"{ADD}\n{two}\nENTRY e {{ {' '.join(lines)} ROOT r = {line} }}"
        found = [*equations_of(parse_hlo(text).entry.root, (2, 3))]
        assert [e.sizes for e in found] == [sizes for sizes, _, _ in expected], line
        for equation, (_, good, bad) in zip(found, expected, strict=True):
            assert equation.holds(good), (line, good)
            assert not equation.holds(bad), (line, bad)


def test_conditions_are_solved_for_one_size() -> None:
    cases = [
        (products((6, 4), (8, 3)), 0, (1, 4, 6, 2), 3),
        (products((6, 4), (8, 3)), 3, (3, 4, 6, 1), 2),
        (products((6, 4), (8, 3)), 0, (1, 4, 3, 2), None),
        (products((6,), (0, 3)), 2, (3, 0, 1), None),
        (products((4,), (8,), (3, 1)), 1, (2, 1), 6),
        (products((4,), (8,), (3, 1)), 0, (1, 6), 2),
        (products((4,), (8,), (3, 1)), 0, (1, 4), None),
        (total((3, 4), 7), 2, (2, 3, 1), 5),
        (total((3, 4), 7), 0, (1, 3, 5), 2),
        (total((3, 4), 7), 1, (2, 1, 5), 3),
        (fixed(5), 0, (1,), 5),
    ]
    for equation, at, new, expected in cases:
        assert equation.solve is not None
        assert equation.solve(at, new) == expected, (equation.sizes, at, new)
    assert at_most(3, 4).solve is None


def test_runs_of_equal_products_are_shortest() -> None:
    cases: list[tuple[Sizes, Sizes, list[tuple[list[int], list[int]]]]] = [
        ((6, 4, 5), (2, 12, 5), [([6, 4], [2, 12]), ([5], [5])]),
        ((2, 3, 7), (6, 7), [([2, 3], [6]), ([7], [7])]),
        ((6, 1, 7), (1, 2, 3, 7, 1), [([6], [2, 3]), ([7], [7])]),
        ((6,), (4,), []),
        ((4,), (6,), []),
        ((5, 6), (5, 4), [([5], [5])]),
        ((), (), []),
    ]
    for one, other, expected in cases:
        assert [*groups(one, other)] == expected


def test_chosen_sizes_are_small_distinct_and_in_order_if_possible() -> None:
    assert choose([(100, 50)], [], 100) == {50: 2, 100: 3}
    assert choose([(3, 2)], [], 100) == {2: 2, 3: 3}
    assert choose([(100, 50)], [], 4) == {50: 2, 100: 2}
    assert choose([(100, 4)], [fixed(4)], 1) == {4: 4, 100: 2}  # eight times as many at last
    with pytest.raises(ShrinkError):
        choose([(100, 5)], [fixed(5)], 1)
    assert choose([(0, 1, 9)], [], 100) == {9: 2}
    assert choose([(100, 50)], [fixed(50)], 10_000) == {50: 50, 100: 51}
    assert choose([(100, 50)], [fixed(50)], 1000) == {50: 50, 100: 2}
    assert choose([(100, 50)], [total((50, 50), 100)], 100) == {50: 2, 100: 4}
    assert choose([(9, 5)], [at_most(5, 9)], 100) == {5: 2, 9: 3}
    assert choose([(9, 5)], [at_most(9, 5)], 100) == {5: 2, 9: 2}
