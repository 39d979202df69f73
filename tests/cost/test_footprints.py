"""Footprints: what is touched, against sets of elements; where a program's bytes go."""

from __future__ import annotations

import random

import pytest

import hloscope
from hloscope.affine import Dim, Expr, Interval, Range, floordiv, mod
from hloscope.api import footprint_of_program
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import IndexingMap
from hloscope.ir import TensorType
from hloscope.memory.touched import touched_by


@pytest.mark.slow
def test_touched_sectors_equal_those_of_the_elements(full: bool) -> None:
    draw = random.Random(3)
    exact = 0
    for _ in range(1000 if full else 100):
        rows, columns = draw.randint(1, 12), draw.randint(1, 40)
        element = draw.choice(["s8", "bf16", "f32", "f64"])
        layout = draw.choice(["{1,0}", "{0,1}"])
        type = parse_type(f"{element}[{rows},{columns}]{layout}")
        assert isinstance(type, TensorType)
        maps = [_random_map(draw, rows, columns) for _ in range(draw.choice([1, 1, 2]))]
        found = touched_by(maps, type)
        points = {p for m in maps for p in _points(m)}
        row_step, column_step = (columns, 1) if layout == "{1,0}" else (1, rows)
        places = {r * row_step + c * column_step for r, c in points}
        size = type.element.bits // 8
        sectors = {(p * size + b) // 32 for p in places for b in range(size)}
        if found.is_exact:
            exact += 1
            assert (found.elements, found.sectors) == (len(places), len(sectors)), maps
        else:
            assert found.elements >= len(places)
            assert found.sectors >= len(sectors)
    assert exact > 90


def _random_map(draw: random.Random, rows: int, columns: int) -> IndexingMap:
    sizes = draw.randint(1, 6), draw.randint(1, 9), draw.randint(1, 4)
    choices: list[Expr] = [Dim(0), Dim(1), Range(0), Dim(0) * 3 + Dim(1), floordiv(Dim(1), 2)]
    choices += [mod(Dim(1), 3), Dim(1) * 2 + Range(0), Dim(0) * 0 + 2]
    found = IndexingMap.of_sizes(
        sizes[:2], sizes[2:], [draw.choice(choices), draw.choice(choices) * draw.choice([1, 1, 2])]
    )
    found = found.add_constraint(found.results[0], Interval(0, rows - 1))
    return found.add_constraint(found.results[1], Interval(0, columns - 1))


def _points(map: IndexingMap) -> set[tuple[int, ...]]:
    if map.is_known_empty:
        return set()
    d0, d1 = (range(v.interval.lo, v.interval.hi + 1) for v in map.dims)
    return {p for a in d0 for b in d1 for p in map.points((a, b))}


def test_reuse_and_intensity_of_a_product() -> None:
    program = hloscope.read(
        "ENTRY e { a = f32[32,64] parameter(0) b = f32[64,16] parameter(1) ROOT d = f32[32,16] "
        "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    )
    found = program.root.footprint()
    assert [a.touched.reuse for a in found.answer.reads] == [16, 32]
    assert (found.read, found.written) == ((32 * 64 + 64 * 16) * 4, 32 * 16 * 4)
    assert found.flops == 2 * 32 * 64 * 16


def test_loops_count_as_often_as_they_run_and_say_where_that_is_not_known() -> None:
    loop = """
    c {{ t = (s32[], f32[256]) parameter(0) x = f32[256] get-tuple-element(t), index=1
        s = f32[1] slice(x), slice={{[0:1]}} r = f32[] reshape(s)
        n = f32[] constant(12) ROOT l = pred[] compare(r, n), direction=LT }}
    b {{ t = (s32[], f32[256]) parameter(0) i = s32[] get-tuple-element(t), index=0
        x = f32[256] get-tuple-element(t), index=1 o = s32[] constant(1) j = s32[] add(i, o)
        y = f32[256] negate(x) ROOT r = (s32[], f32[256]) tuple(j, y) }}
    ENTRY e {{ p = (s32[], f32[256]) parameter(0)
        ROOT w = (s32[], f32[256]) while(p), condition=c, body=b{known} }}
    """
    known = ', backend_config={"known_trip_count":{"n":"12"}}'
    for annotation, times in ((known, 12), ("", 1)):
        found = footprint_of_program(hloscope.read(loop.format(known=annotation)))
        [run] = [kernel for kernel in found.kernels if kernel.instruction.name == "y"]
        assert (run.runs, run.bytes) == (times, times * 2048)
        assert bool(found.notes) == (times == 1)


def test_large_arrays_are_measured_by_their_parts() -> None:
    type = parse_type("f32[3000,3000]")
    assert isinstance(type, TensorType)
    corner = IndexingMap.of_sizes((2999, 2998), (), [Dim(0), Dim(1)])
    other = IndexingMap.of_sizes((2999, 2998), (), [Dim(0) + 1, Dim(1) + 2])
    for maps, elements in (([corner], 2999 * 2998), ([corner, other], 2999 * 2998 + 2998 + 2999)):
        found = touched_by(maps, type)
        assert found.elements == elements if found.is_exact else found.elements >= elements
        assert found.sectors >= elements // 8


@pytest.mark.parametrize(
    ("text", "sizes", "sectors"),
    [
        ("f32[1152921504606846976]", (2, 2**59), 2),
        ("u8[1152921504606846976]", (2, 2**59), 2),
        ("f64[576460752303423488]", (4, 2), 2),
        ("s4[1152921504606846976]", (2, 31), 1),
    ],
)
def test_sectors_lie_apart_whatever_the_bits(
    text: str, sizes: tuple[int, int], sectors: int
) -> None:
    """The place of an element in bits may be no 64-bit integer."""
    count, step = sizes
    reads = IndexingMap.parse(f"(d0) -> (d0 * {step}), domain: d0 in [0, {count - 1}]")
    type_ = parse_type(text)
    assert isinstance(type_, TensorType)
    found = touched_by([reads], type_)
    assert (found.elements, found.sectors, found.is_exact) == (count, sectors, True)


def test_addresses_of_more_than_64_bits_are_not_counted() -> None:
    """Tiles make the array 256 times as large in memory."""
    type_ = parse_type("s8[4611686018427387904,1]{1,0:T(2,128)}")
    assert isinstance(type_, TensorType)
    reads = IndexingMap.parse("(d0) -> (d0 * 1048576, 0), domain: d0 in [0, 999]")
    found = touched_by([reads], type_)
    assert not found.is_exact
    assert found.elements >= 1000


def test_padding_of_tiles_is_not_touched() -> None:
    type = parse_type("f32[20,100]{1,0:T(8,128)}")
    assert isinstance(type, TensorType)
    found = touched_by([IndexingMap.identity(type.shape)], type)
    assert (found.elements, found.bytes, found.is_exact) == (2000, 8000, True)
    assert found.sectors == 20 * 13  # a row of 100 takes thirteen sectors, each row its own
    column = touched_by([IndexingMap.of_sizes((20,), (), [Dim(0), Dim(0) * 0 + 7])], type)
    assert (column.elements, column.sectors, column.is_exact) == (20, 20, True)


def test_a_scatter_reads_at_most_one_old_element_for_each_update() -> None:
    program = hloscope.read(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } "
        "ENTRY e { p = f32[64] parameter(0) i = s32[16,1] parameter(1) u = f32[16] parameter(2) "
        "ROOT s = f32[64] scatter(p, i, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }"
    )
    old = program.root.footprint("h100").answer.reads[0]
    assert (old.number, old.touched.elements, old.touched.is_exact) == (0, 16, False)
