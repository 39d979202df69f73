"""Kernels as LLVM compiles them: the rules, each on a small kernel of its own.

Figures are what the PTX that XLA compiled for an H100 has: instructions of a thread, their widths.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

import hloscope
from hloscope.affine import Dim, Range
from hloscope.api import Coalescing
from hloscope.memory import ArrayUse, Launch
from hloscope.memory.compiled import compiled
from hloscope.memory.requests import requests_of

ADD = "add { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] add(a, b) }\n"
SET = "set { a = T[] parameter(0) ROOT b = T[] parameter(1) }\n"
MAX = "max { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] maximum(a, b) }\n"
MUL = "mul { a = T[] parameter(0) b = T[] parameter(1) ROOT c = T[] multiply(a, b) }\n"


def fused(body: str, kind: str = "kLoop") -> Coalescing:
    """The answer about the fusion whose instructions are `body`, `T name` first for parameters."""
    before, inside = body.rsplit("\n", 1) if "\n" in body else ("", body)
    instructions = [part.strip() for part in inside.split(";")]
    given = [i for i in instructions if "parameter(" in i]
    names = [i.split(" = ")[0] for i in given]
    result = instructions[-1].split(" = ")[1].rsplit(" ", 1)
    type = instructions[-1].split(" = ", 1)[1]
    shape = type[: type.index(") ") + 1] if type.startswith("(") else type.split(" ")[0]
    assert result
    return hloscope.read(
        f"{before}\nf {{ {' '.join(instructions[:-1])} ROOT {instructions[-1]} }}\n"
        f"ENTRY e {{ {' '.join(given)} "
        f"ROOT r = {shape} fusion({', '.join(names)}), kind={kind}, calls=f }}"
    ).root.coalescing("h100")


def widths(use: ArrayUse) -> list[int]:
    """Bytes of each access of a thread, widest first, those of a loop once."""
    every = [t.traffic for t in use.touches if t.traffic is not None and t.traffic.requests]
    bits = use.type.element.bits
    return sorted([t.vector * bits // 8 for t in every], reverse=True)


def requests(use: ArrayUse) -> int:
    assert use.traffic is not None
    assert use.traffic.best is None
    return use.traffic.requests


REDUCED = (
    ADD + "p = T[500,N] parameter(0); z = T[] constant(0); "
    "r = T[500] reduce(p, z), dimensions={1}, to_apply=add"
)


@pytest.mark.parametrize(
    ("type", "size", "wide", "count"),
    [
        ("f32", 12, [16], 3),
        ("f32", 6, [8], 3),
        ("f32", 3, [4], 3),  # rows of 12 bytes are not aligned
        ("bf16", 24, [16], 3),
        ("f64", 6, [16], 3),
    ],
)
def test_loads_of_an_inner_loop_are_merged(
    type: str, size: int, wide: list[int], count: int
) -> None:
    answer = fused(REDUCED.replace("T[", f"{type}[").replace("N", str(size)))
    assert answer.answer.kernel.emitter == "loop"
    use = answer.operands[0]
    warps = 16
    assert (widths(use), requests(use)) == (wide, count * warps)
    if count < size:
        emitted = use.emitted_traffic
        assert emitted is not None
        assert emitted.requests == size * warps
        assert "16 bytes" in use.change


def columns(*which: int) -> str:
    """The sum of some columns of eight."""
    parts = "; ".join(
        f"s{k} = f32[500,1] slice(p), slice={{[0:500], [{k}:{k + 1}]}}; "
        f"b{k} = f32[500] bitcast(s{k})"
        for k in which
    )
    first, *others = which
    sums, last = "", f"b{first}"
    for k in others:
        sums += f"; a{k} = f32[500] add({last}, b{k})"
        last = f"a{k}"
    return f"p = f32[500,8] parameter(0); {parts}{sums}"


@pytest.mark.parametrize(
    ("which", "wide"),
    [
        ((0, 1), [8]),
        ((0, 2, 3), [16]),
        ((0, 3), [16]),  # so does one whose two middle elements nobody needs
        ((0, 2), [16]),
        ((1, 2, 3), [8, 4]),  # the first one begins no vector
        ((4, 5, 6), [16]),
        ((0, 1, 2, 3, 4), [16, 4]),
        ((0, 1, 2, 3, 4, 5, 6), [16, 16]),
    ],
)
def test_a_vector_of_loads_may_hold_elements_that_nobody_needs(
    which: tuple[int, ...], wide: list[int]
) -> None:
    use = fused(columns(*which)).operands[0]
    assert set(widths(use)) == set(wide)
    assert requests(use) == 16 * len(wide)  # of 16 warps


def test_stores_of_stacked_results_are_merged_and_hold_no_gaps() -> None:
    for type, wide in (("f32", [16]), ("bf16", [8])):
        arrays = "; ".join(f"p{k} = {type}[4000] parameter({k})" for k in range(4))
        parts = "; ".join(f"b{k} = {type}[4000,1] bitcast(p{k})" for k in range(4))
        answer = fused(
            f"{arrays}; {parts}; c = {type}[4000,4] concatenate(b0, b1, b2, b3), dimensions={{1}}",
            "kInput",
        )
        assert widths(answer.outputs[0]) == wide
        assert answer.outputs[0].emitted_traffic is not None
    three = fused(
        "p = f32[500] parameter(0); q = f32[500] parameter(1); s = f32[500] parameter(2); "
        "a = f32[500,1] bitcast(p); b = f32[500,1] bitcast(q); c = f32[500,1] bitcast(s); "
        "d = f32[500,3] concatenate(a, b, c), dimensions={1}",
        "kInput",
    )
    assert widths(three.outputs[0]) == [4, 4, 4]


def test_what_a_covering_condition_loaded_is_not_loaded_again() -> None:
    answer = fused(
        "p = f32[7,3] parameter(0); s = f32[2,3] slice(p), slice={[0:2], [0:3]}; "
        "c = f32[9,3] concatenate(p, s), dimensions={0}",
        "kInput",
    )
    assert requests(answer.operands[0]) == 1


# -------------------------------------------------------------------------------------- selects

PICKED = (
    "x = f32[256,300] parameter(0); y = f32[256,300] parameter(1); i = s32[256] iota(), "
    "iota_dimension=0; k = s32[] constant(100); b = s32[256] broadcast(k), dimensions={}; "
    "l = pred[256] compare(i, b), direction=LT; c = pred[256,300] broadcast(l), dimensions={0}; "
)


def test_of_two_loads_that_a_select_chooses_between_each_lane_makes_one() -> None:
    answer = fused(PICKED + "s = f32[256,300] select(c, x, y)")
    assert [requests(use) for use in answer.operands] == [938, 1463]


def test_values_that_choose_give_bounds() -> None:
    answer = fused(
        "c = pred[256,300] parameter(0); x = f32[256,300] parameter(1); "
        "y = f32[256,300] parameter(2); s = f32[256,300] select(c, x, y)"
    )
    for use in answer.operands[1:]:
        assert use.traffic is not None
        assert use.traffic.best is not None
        assert (use.traffic.best.requests, use.traffic.requests) == (0, 2400)


@pytest.mark.parametrize(
    "last",
    ["d = f32[256,300] add(x, x); s = f32[256,300] select(c, d, y)",
     "t = f32[256,300] select(c, x, y); s = f32[256,300] add(t, x)"],
    ids=["something is done with a load first", "a load has another user"],
)  # fmt: skip
def test_other_selects_load_both_arrays_in_all_lanes(last: str) -> None:
    answer = fused(PICKED + last)
    assert [requests(use) for use in answer.operands] == [2400, 2400]


def test_steps_that_a_mask_of_indices_leaves_nothing_of_load_nothing() -> None:
    text = (
        MAX.replace("T[", "f32[") + "p = f32[256,300] parameter(0); i = s32[300] iota(), "
        "iota_dimension=0; k = s32[] constant(100); b = s32[300] broadcast(k), dimensions={}; "
        "l = pred[300] compare(i, b), direction=LT; c = pred[256,300] broadcast(l), "
        "dimensions={1}; n = f32[] constant(-inf); m = f32[256,300] broadcast(n), dimensions={}; "
        "s = f32[256,300] select(c, p, m); "
        "r = f32[256] reduce(s, n), dimensions={1}, to_apply=max"
    )
    use = fused(text, "kInput").operands[0]
    assert use.traffic is not None
    assert (requests(use), use.traffic.asked) == (512, 131072)  # two steps of five, all lanes
    assert use.touched.elements == 256 * 300  # what may be read by what the ops say


@pytest.mark.parametrize(
    ("first", "condition", "wide"),
    [
        ("", "c", [2, 1]),
        ("n = pred[2560,300] not(c); ", "n", [2, 1]),
        ("l = pred[2560,300] compare(x, y), direction=GT; a = pred[2560,300] and(c, l); ", "a",
         [1]),
    ],
    ids=["handed in", "negated", "joined with what is computed"],
)  # fmt: skip
def test_four_predicates_that_a_select_chooses_by_are_loaded_in_parts(
    first: str, condition: str, wide: list[int]
) -> None:
    answer = fused(
        "c = pred[2560,300] parameter(0); x = f32[2560,300] parameter(1); "
        f"y = f32[2560,300] parameter(2); {first}z = f32[2560,300] add(x, y); "
        f"s = f32[2560,300] select({condition}, z, x)"
    )
    use = answer.operands[0]
    assert sorted({*widths(use)}, reverse=True) == wide
    assert requests(use) == 6000 * (3 if len(wide) == 2 else 4)


# ------------------------------------------------------------------------------------- scatters


def scattered(type: str, body: str, extra: str = "", slices: int = 96, size: int = 128) -> Any:
    text = (
        f"{body}p = T[1000,E] parameter(0); i = s32[N,1] parameter(1); "
        "u = T[N,1,E] parameter(2); s = T[1000,E] scatter(p, i, u), update_window_dims={1,2}, "
        "inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        f"to_apply={body.split(maxsplit=1)[0]}{extra}"
    )
    numbers = text.replace("T[", f"{type}[").replace("N,", f"{slices},").replace("E]", f"{size}]")
    return fused(numbers, "kInput")


UNIQUE, SORTED = ", unique_indices=true", ", indices_are_sorted=true"


@pytest.mark.parametrize(
    ("type", "body", "extra", "reads", "tries"),
    [
        ("f32", ADD, "", 384, 96),
        ("f32", SET, "", 0, 1),
        ("f32", ADD, UNIQUE, 384, 1),
        ("f32", SET, UNIQUE, 0, 1),
        ("bf16", ADD, "", 0, 1),
        ("f64", ADD, "", 0, 1),
        ("s32", ADD, "", 0, 1),
        ("s32", MAX, "", 0, 1),
        ("s8", ADD, "", 384, 96),
        ("bf16", MUL, "", 384, 96),
    ],
)
def test_how_an_update_gets_into_its_element(
    type: str, body: str, extra: str, reads: int, tries: int
) -> None:
    answer = scattered(type, body, extra)
    old, written = answer.operands[0].traffic, answer.outputs[0].traffic
    assert (old.requests, written.requests, written.tries) == (reads, 384, tries)
    if type in ("s8", "bf16") and reads:
        assert answer.answer.kernel.stores[0].word == 32


def test_a_maximum_of_floats_takes_one_of_two_atomics_or_none() -> None:
    written = scattered("f32", MAX).outputs[0].traffic
    assert (written.best.requests, written.requests) == (0, 768)


def test_indices_of_the_last_warp_are_loaded_behind_their_end() -> None:
    answer = scattered("s32", ADD, slices=4, size=5)
    assert str(answer.answer.kernel.launch) == "32 threads × 1 blocks"
    assert answer.operands[1].traffic.asked == 7 * 4  # 32 lanes, five a slice
    one_by_one = scattered("s32", ADD, slices=4, size=1)
    assert one_by_one.operands[1].traffic.asked == 4 * 4


@pytest.mark.parametrize(
    ("slices", "rows", "launch", "index"),
    [(3000, 1000, 250, 3000), (30000, 100, 125, 7500)],
    ids=["three slices a warp", "sixty, indices four at once"],
)
def test_sorted_slices_are_taken_in_runs(slices: int, rows: int, launch: int, index: int) -> None:
    text = (
        ADD.replace("T[", "f32[") + f"p = f32[{rows},128] parameter(0); "
        f"i = s32[{slices},1] parameter(1); u = f32[{slices},1,128] parameter(2); "
        f"s = f32[{rows},128] scatter(p, i, u), update_window_dims={{1,2}}, "
        "inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=add, indices_are_sorted=true"
    )
    answer = fused(text, "kInput")
    written = answer.outputs[0].traffic
    assert str(answer.answer.kernel.launch) == f"128 threads × {launch} blocks"
    assert [requests(use) for use in answer.operands[1:]] == [index, slices]
    assert written is not None
    assert written.best is not None
    assert (written.best.requests, written.requests) == (launch * 4, slices)


# ---------------------------------------------------------------------------------- alignments


@pytest.mark.parametrize(
    ("type", "shape", "read", "written"),
    [
        ("bf16", (48, 448), [4], [4]),  # one block across: three terms
        ("bf16", (512, 384), [4], [4, 2]),  # four: of what is written, the first step only
        ("s8", (512, 384), [4], [1]),
        ("s8", (192, 160), [1], [1]),
    ],
)
def test_vectors_whose_alignment_llvm_does_not_prove_become_elements(
    type: str, shape: tuple[int, int], read: list[int], written: list[int]
) -> None:
    rows, across = shape
    answer = fused(
        f"p = {type}[{rows},{across}] parameter(0); "
        f"t = {type}[{across},{rows}] transpose(p), dimensions={{1,0}}",
        "kInput",
    )
    use = answer.operands[0]
    assert answer.answer.kernel.emitter == "packed transpose"
    assert sorted({*widths(use)}, reverse=True) == read
    assert sorted({*widths(answer.outputs[0])}, reverse=True) == written
    if written == [1]:
        assert answer.outputs[0].emitted_traffic is not None
        assert "4 × 1 byte: the alignment of `" in answer.outputs[0].change


def test_a_row_whose_vectors_lie_in_two_rows_of_the_array_is_read_by_element() -> None:
    text = (
        MAX.replace("T[", "bf16[") + "p = bf16[2,127,24,7] parameter(0); "
        "b = bf16[168,254] bitcast(p); z = bf16[] constant(0); "
        "r = bf16[168] reduce(b, z), dimensions={1}, to_apply=max"
    )
    assert widths(fused(text, "kInput").operands[0]) == [2]


def test_reducing_roots_load_for_themselves_where_their_loops_stay() -> None:
    def two(size: int) -> int:
        answer = fused(
            ADD.replace("T[", "f32[") + f"x = f32[300,{size},7] parameter(0); "
            f"y = f32[300,{size},7] parameter(1); m = f32[300,{size},7] multiply(x, y); "
            "z = f32[] constant(0); r = f32[300,7] reduce(m, z), dimensions={1}, to_apply=add; "
            f"d = f32[300,{size},7] subtract(x, y); "
            "s = f32[300,7] reduce(d, z), dimensions={1}, to_apply=add; "
            "t = (f32[300,7], f32[300,7]) tuple(r, s)"
        )
        return requests(answer.operands[0]) // size

    assert [two(size) for size in (6, 16, 32, 60)] == [66, 66, 66, 132]


# ------------------------------------------------------------------- what is merged in general


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=9, unique=True),
    st.sampled_from([1, 2, 3, 4, 6, 8]),
    st.sampled_from([8, 16, 32, 64]),
    st.booleans(),
)
def test_vectors_are_aligned_hold_what_is_needed_and_stores_nothing_else(
    offsets: list[int], step: int, bits: int, are_loads: bool
) -> None:
    launch = Launch.of(32, 2)
    lane = Dim(0) + Dim(3) * 32
    found = [
        requests_of(launch.map((), [lane * step + offset]), bits, launch, 32) for offset in offsets
    ]
    merged = compiled(found, 16, are_loads=are_loads)
    held: list[int] = []
    for one in merged:
        for count in range(one.map.ranges[0].interval.hi + 1 if one.map.ranges else 1):
            [at] = one.map.evaluate((0, 0, 0, 0, 0), (count,) * len(one.map.ranges))
            assert one.vector == 1 or (at % one.vector == 0 and step % one.vector == 0)
            assert one.vector * bits <= 128 or one.vector == 1
            held += range(at, at + one.vector)
    assert len(set(held)) == len(held)
    assert set(offsets) <= set(held)
    if not are_loads:
        assert set(held) == set(offsets)


def test_what_cannot_be_merged_stays_the_same_object() -> None:
    launch = Launch.of(32, 2)
    far = [requests_of(launch.map((4,), [Dim(0) + Range(0) * 1000]), 32, launch, 32)]
    assert compiled(far, 16) == far
    assert compiled(far, 16)[0] is far[0]
