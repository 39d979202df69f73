"""Loads and stores of Triton kernels are read with their addresses, masks and layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from hloscope.affine import Dim, Range, evaluate
from hloscope.errors import ParseError, UnsupportedError
from hloscope.memory.dumps import layout_of, parse_tiles, parse_triton
from hloscope.support.source import Source

DUMP: Final = Path(__file__).parents[3] / "examples" / "dump"
SOFTMAX: Final = (DUMP / "jit_softmax.triton_softmax_2.triton-to-llvm.txt").read_text()
GEMM: Final = (Path(__file__).parent / "data" / "gemm_fusion_dot_1.triton-to-llvm.txt").read_text()
TILES: Final = (DUMP / "module_0001.jit_softmax.triton_softmax.2.ttir.txt").read_text()


def test_rows_of_a_softmax_are_loaded_and_stored_under_a_mask() -> None:
    kernel = parse_triton(Source("t", SOFTMAX))
    assert (kernel.name, kernel.arguments) == ("triton_softmax_2", 2)
    load, store = kernel.accesses
    assert [(a.argument, a.is_store, a.element, a.tile) for a in (load, store)] == [
        (0, False, "f32", (2, 1024)),
        (1, True, "f32", (2, 1024)),
    ]
    assert load.address is store.address is Dim(0) * 2000 + Dim(3) * 1000 + Dim(4)
    ((masked, interval),) = load.mask
    assert [interval.lo <= evaluate(masked, {Dim(4): k}) <= interval.hi for k in (999, 1000)] == [
        True,
        False,
    ]
    assert load.layout is not None
    assert load.layout(lane=1, warp=2, register=1) == (0, 261)


def test_accesses_in_a_loop_move_with_its_counter() -> None:
    first, second, store = parse_triton(Source("t", GEMM)).accesses
    assert (first.loops, second.loops, store.loops) == ((32,), (32,), ())
    d, k = [Dim(n) for n in range(5)], Range(0)
    batch, row = d[0] // 256 * 262144, d[0] // 8 % 32 * 8192
    assert first.address is batch + row + d[3] * 512 + k * 16 + d[4]
    assert (first.tile, second.tile, store.tile) == ((16, 16), (16, 8), (16, 8))
    assert not any(access.reason for access in (first, second, store))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"arith.muli"(%8, %3)', '"math.ctpop"(%8)', "its address is not an affine expression"),
        ('"arith.cmpi"(%16, %1) <{predicate = 2', '"arith.cmpi"(%16, %1) <{predicate = 1',
         "its mask is not a conjunction of affine bounds"),
        ("#ttg.blocked<{sizePerThread", "#ttg.nvidia_mma<{sizePerThread",
         "its layout is `#ttg.nvidia_mma`, which is not read"),
    ],
)  # fmt: skip
def test_what_is_not_known_of_an_access_is_its_reason(old: str, new: str, reason: str) -> None:
    assert old in SOFTMAX
    accesses = parse_triton(Source("t", SOFTMAX.replace(old, new))).accesses
    assert len(accesses) == 2
    assert all(reason in access.reason for access in accesses)


def test_unknown_operations_do_not_break_the_reading_of_others() -> None:
    odd = (
        '    %99 = "later.op"(%6) <{x = 1}> ({\n    ^bb0(%y: i32):\n    }) : (i32) -> i32 "div.3"\n'
    )
    at = SOFTMAX.index('    %7 = "arith.index_cast"')
    changed = parse_triton(Source("t", SOFTMAX[:at] + odd + "????\n" + SOFTMAX[at:]))
    known = parse_triton(Source("t", SOFTMAX))
    assert [a.address for a in changed.accesses] == [a.address for a in known.accesses]


def test_accesses_under_a_condition_are_not_known() -> None:
    at = SOFTMAX.index('    "tt.store"')
    inside = '    "scf.if"(%6) ({\n' + SOFTMAX[at:].replace(
        '    "tt.return"', '    }, {\n    }) : (i1) -> () "div.3"\n    "tt.return"', 1
    )
    load, store = parse_triton(Source("t", SOFTMAX[:at] + inside)).accesses
    assert not load.reason
    assert "it stands in `scf.if`" in store.reason


def test_accesses_of_the_tensor_memory_accelerator_are_named() -> None:
    changed = SOFTMAX.replace('%25 = "tt.load"(%24, %19, %5)', '%25 = "tt.descriptor_load"(%24)')
    assert changed != SOFTMAX
    load, _ = parse_triton(Source("t", changed)).accesses
    assert "tensor memory accelerator" in load.reason


def test_damaged_lines_give_accesses_that_are_not_known() -> None:
    for old, new in (
        ('"scf.for"(%3, %2, %1, %0)', '"scf.for"(%3)'),
        ('"scf.for"(%3, %2, %1, %0)', '"scf.for"(%3, %2, %0, %0)'),
        ("operandSegmentSizes = array<i32: 1, 0, 0>", "operandSegmentSizes = array<i32: 7, 1, 0>"),
    ):
        assert old in GEMM
        first, second, _ = parse_triton(Source("t", GEMM.replace(old, new))).accesses
        assert first.reason
        assert second.reason


def test_a_cut_kernel_is_refused_at_its_end() -> None:
    for text in (SOFTMAX[: len(SOFTMAX) // 2], "", "// -----// IR Dump Before A\n"):
        with pytest.raises(ParseError, match="no print of a kernel with layouts"):
            parse_triton(Source("t", text))


def test_earlier_prints_are_read_where_the_last_ones_have_no_structured_loops() -> None:
    later = SOFTMAX.replace("IR Dump Before", "IR Dump After").replace('"arith.muli"', '"cf.br"')
    assert parse_triton(Source("t", SOFTMAX + later)) == parse_triton(Source("t", SOFTMAX))


def test_linear_layouts_are_read_and_others_refused() -> None:
    text = "#ttg.linear<{register = [[1]], lane = [[2], [4]], warp = [[0]], block = []}>"
    layout = layout_of("#linear", (8,), {"#linear": text})
    assert layout(register=1, lane=3, warp=1) == (7,)
    with pytest.raises(UnsupportedError, match=r"`#ttg\.dot_op`, which is not read"):
        layout_of("#ttg.dot_op<{opIdx = 0}>", (8,), {})
    with pytest.raises(UnsupportedError, match="not powers of two"):
        layout_of("#linear", (12,), {"#linear": text})
    with pytest.raises(UnsupportedError, match="dimension 3 of the layout"):
        layout_of("#ttg.slice<{dim = 3, parent = #b}>", (8,), {})


def test_accumulators_of_a_product_lie_as_the_instruction_set_says() -> None:
    text = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], "
    layout = layout_of(f"{text}instrShape = [16, 8]}}>", (32, 16), {})
    for lane in range(32):
        for register in range(4):  # c0 to c3 of the PTX manual: two of a row, two 8 rows below
            row, column = lane // 4 + register // 2 * 8, lane % 4 * 2 + register % 2
            assert layout(register=register, lane=lane) == (row, column)
    assert (layout(warp=1), layout(warp=2)) == ((0, 8), (16, 0))
    sliced = layout_of(
        "#ttg.slice<{dim = 0, parent = #m}>", (8,), {"#m": f"{text}instrShape = [16, 8]}}>"}
    )
    assert (sliced(lane=5, register=1), sliced(warp=3)) == ((3,), (0,))


def test_tiles_of_a_tile_program_are_read_or_refused_at_the_place() -> None:
    read, written = parse_tiles(Source("t", TILES))
    assert (read.argument, read.is_store, read.sizes, read.strides) == (0, False, (2, 1024), (1, 1))
    assert (written.argument, written.is_store, written.sizes) == (1, True, (2, 1024))
    with pytest.raises(ParseError, match="the tile program is cut"):
        parse_tiles(Source("t", TILES[: TILES.index("xtile.insert")]))
    with pytest.raises(ParseError, match=r"t:8:\d+: error: expected `\[SIZES\] \[STRIDES\]`"):
        parse_tiles(Source("t", TILES.replace("[2, 1024] [1, 1] : memref", ": memref")))
