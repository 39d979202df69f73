"""Answers of programs that repeat one step many times: the same elements, in fewer maps."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import hloscope
from hloscope.fusion.overapproximate import with_runs
from hloscope.indexing import Access, IndexingMap, Precision


def shifted_sums(n: int) -> str:
    """`x[:-1] + x[1:]`, n times over, in a fusion."""
    lines, value, size = [f"q = f32[{n + 4}] parameter(0)"], "q", n + 4
    for k in range(n):
        size -= 1
        lines += [
            f"a{k} = f32[{size}] slice({value}), slice={{[0:{size}]}}",
            f"b{k} = f32[{size}] slice({value}), slice={{[1:{size + 1}]}}",
            f"x{k} = f32[{size}] add(a{k}, b{k})",
        ]
        value = f"x{k}"
    body = "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}"
    return (
        f"HloModule m\nf {{\n{body}\n}}\nENTRY e {{ p = f32[{n + 4}] parameter(0)\n"
        "ROOT r = f32[4] fusion(p), kind=kLoop, calls=f\n}"
    )


def gathers(n: int) -> str:
    """A fusion of n gathers of rows, each of what the one before gathered."""
    lines, value = ["q = f32[8,4] parameter(0)", "i = s32[8,1] parameter(1)"], "q"
    for k in range(n):
        lines.append(
            f"x{k} = f32[8,4] gather({value}, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"
        )
        value = f"x{k}"
    body = "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}"
    return (
        f"HloModule m\nf {{\n{body}\n}}\nENTRY e {{ p = f32[8,4] parameter(0)\n"
        "j = s32[8,1] parameter(1)\nROOT r = f32[8,4] fusion(p, j), kind=kLoop, calls=f\n}"
    )


@pytest.mark.slow
def test_many_shifts_are_one_map_that_reads_the_same_exactly() -> None:
    """Of 300 shifts each element reads 301 elements in a row."""
    accesses = hloscope.read(shifted_sums(300)).root.indexing().answer.outputs[0].operands[0]
    elements = {
        point
        for access in accesses.accesses
        if access.map is not None
        for point in access.map.points((2,))
    }
    assert elements == {(k,) for k in range(2, 303)}
    assert {access.precision for access in accesses.accesses} == {Precision.EXACT}
    assert len(accesses.accesses) < 64


def test_few_shifts_keep_their_maps() -> None:
    """Of 9 shifts there is a map for each."""
    (operand,) = hloscope.read(shifted_sums(9)).root.indexing().answer.outputs[0].operands
    assert len(operand.accesses) == 10


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12),
    st.integers(0, 3),
)
def test_runs_touch_what_the_maps_touched(shifts: list[tuple[int, int]], at: int) -> None:
    """In two dimensions too, and no more maps than before."""
    maps = [
        IndexingMap.parse(f"(d0)[s0] -> (d0 + {a}, s0 + {b}), domain: d0 in [0, 3], s0 in [0, 1]")
        for a, b in shifts
    ]
    accesses = [Access(m.simplify()) for m in maps]
    fewer = with_runs(accesses)

    def touched(some: list[Access]) -> set[tuple[int, ...]]:
        return {p for a in some if a.map is not None for p in a.map.points((at,))}

    assert touched(fewer) == touched(accesses)
    assert len(fewer) <= len(accesses)


@pytest.mark.slow
def test_a_long_chain_of_gathers_has_no_tile_and_says_why() -> None:
    """The bound is stated, and shorter chains are tiled."""
    assert "more than 256 run-time values" in str(hloscope.read(gathers(257)).root.tiles())
    assert "run-time values" not in str(hloscope.read(gathers(20)).root.tiles())
