"""Bits as elements of other types, memory in other shapes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import hloscope
from hloscope.interpreter.evaluation import evaluate
from tests.interpreter.helpers import read, values
from tests.interpreter.small_programs import array, hlo, one


@pytest.mark.parametrize(
    ("before", "given", "after", "found"),
    [
        ("f32", [0x3F800000], "i32", [0x3F800000]),
        ("2xi16", [0x0102, -1], "2xui16", [0x0102, 0xFFFF]),
        ("ui64", [0x0123456789ABCDEF], "4xui16", [0xCDEF, 0x89AB, 0x4567, 0x0123]),
        ("4xui16", [0xCDEF, 0x89AB, 0x4567, 0x0123], "ui64", [0x0123456789ABCDEF]),
        ("2xui8", [0x12, 0xF4], "2x2xi4", [2, 1, 4, -1]),
        ("2x2xi4", [2, 1, 4, -1], "2xui8", [0x12, 0xF4]),
        ("i4", [-8], "ui4", [8]),
        ("4xi4", [1, 2, 3, 4], "ui16", [0x4321]),
        ("ui16", [0x4321], "4xui4", [1, 2, 3, 4]),
        ("ui4", [0b0110], "2xui2", [2, 1]),
        ("2xui2", [2, 1], "ui4", [0b0110]),
        ("ui8", [0b10000110], "8xi1", [0, 1, 1, 0, 0, 0, 0, 1]),
        ("8xi1", [0, 1, 1, 0, 0, 0, 0, 1], "ui8", [0b10000110]),
        ("16xi1", [1] + [0] * 14 + [1], "ui16", [0x8001]),
        ("ui4", [0b0101], "4xi1", [1, 0, 1, 0]),
        ("3xi1", [1, 0, 1], "3xi1", [1, 0, 1]),
        ("0xui16", [], "0x2xui8", []),
    ],
)
def test_bitcast_convert(before: str, given: list[int], after: str, found: list[int]) -> None:
    op = f"bitcast_convert %a : (tensor<{before}>) -> tensor<{after}>"
    x = array(before, *given)
    if before == "f32":
        x = np.array(given, "u4").view("f4").reshape(())
    value = values(one(op, after, before), x)
    assert (
        np.ravel(np.array(value, "i8" if given and max(given) < 1 << 62 else "u8")).tolist()
        == found
    )


def test_bitcast_convert_of_the_specification() -> None:
    op = "bitcast_convert %a : (tensor<f64>) -> tensor<4xf16>"
    x = np.array(0x0123456789ABCDEF, "u8").view("f8")
    (found,) = evaluate(read(one(op, "4xf16", "f64")), [x])
    assert found.view("u2").tolist() == [0xCDEF, 0x89AB, 0x4567, 0x0123]  # type: ignore[union-attr]


def test_bitcast_convert_of_complex_numbers() -> None:
    op = "bitcast_convert %a : (tensor<1xcomplex<f64>>) -> tensor<1x2xcomplex<f32>>"
    x = np.array([1, 2, 3, 4], "f4").view("c16")
    assert values(one(op, "1x2xcomplex<f32>", "1xcomplex<f64>"), x) == [[1 + 2j, 3 + 4j]]


def test_bitcast_convert_of_turned_arrays() -> None:
    op = "bitcast_convert %a : (tensor<2x3xui32>) -> tensor<2x3x2xui16>"
    x = np.arange(6, dtype="u4").reshape(3, 2).T
    wanted = [[[v, 0] for v in row] for row in x.tolist()]
    assert values(one(op, "2x3x2xui16", "2x3xui32"), x) == wanted


def test_booleans_of_hlo_are_bytes() -> None:
    text = hlo("x = pred[3] parameter(0)", "ROOT r = u8[3] bitcast-convert(x)")
    assert values(text, [True, False, True]) == [1, 0, 1]
    text = hlo("x = u8[3] parameter(0)", "ROOT r = pred[3] bitcast-convert(x)")
    assert values(text, [1, 0, 1]) == [True, False, True]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("s32[2,3]{1,0}", "s32[3,2]{1,0}", [[0, 1], [2, 3], [4, 5]]),
        ("s32[2,3]{0,1}", "s32[3,2]{1,0}", [[0, 3], [1, 4], [2, 5]]),
        ("s32[2,3]{1,0}", "s32[3,2]{0,1}", [[0, 3], [1, 4], [2, 5]]),
        ("s32[2,3]{0,1}", "s32[6]{0}", [0, 3, 1, 4, 2, 5]),
        ("s32[2,3]{1,0}", "u32[2,3]{1,0}", [[0, 1, 2], [3, 4, 5]]),
        ("s32[2,3]{1,0}", "s32[1,2,1,3]{3,1,2,0}", [[[[0, 1, 2]], [[3, 4, 5]]]]),
    ],
)
def test_bitcast_keeps_the_order_in_memory(before: str, after: str, found: Any) -> None:
    text = hlo(f"x = {before} parameter(0)", f"ROOT r = {after} bitcast(x)")
    assert values(text, np.arange(6, dtype="i4").reshape(2, 3)) == found


def test_bitcast_to_other_widths() -> None:
    text = hlo("x = s32[2]{0} parameter(0)", "ROOT r = u8[8]{0} bitcast(x)")
    assert values(text, [1, 256]) == [1, 0, 0, 0, 0, 1, 0, 0]
    text = hlo("x = f32[] parameter(0)", "ROOT r = s32[1]{0} bitcast(x)")
    assert values(text, 1.0) == [0x3F800000]


def test_bitcast_to_other_widths_follows_the_order_in_memory() -> None:
    text = hlo("x = s32[2,2]{0,1} parameter(0)", "ROOT r = u8[2,2,4]{2,0,1} bitcast(x)")
    given = np.array([[1, 2], [3, 4]], "i4")
    assert values(text, given) == [[[1, 0, 0, 0], [2, 0, 0, 0]], [[3, 0, 0, 0], [4, 0, 0, 0]]]
    text = hlo("x = u8[4,2]{0,1} parameter(0)", "ROOT r = u16[2,2]{1,0} bitcast(x)")
    given = np.arange(8, dtype="u1").reshape(4, 2)
    assert values(text, given) == [[0x0200, 0x0604], [0x0301, 0x0705]]
    text = hlo("x = pred[8]{0} parameter(0)", "ROOT r = u16[4]{0} bitcast(x)")
    assert values(text, np.array([1, 0, 0, 1, 1, 1, 0, 0], bool)) == [1, 0x0100, 0x0101, 0]


TILES = ["", "T(4,2)", "T(2,4)", "T(4,4)(2,1)", "T(4,4)(2,2)", "T(8)", "T(2,1)"]


@pytest.mark.parametrize("seed", range(40))
def test_bitcast_between_tiles_moves_what_the_maps_say(seed: int) -> None:
    """Maps are computed from layouts in another way; what was padding is read of nothing."""
    rng = Random(seed)
    rows, columns = rng.randint(1, 9), rng.randint(1, 9)
    ends = []
    for shape in rng.sample(
        [(rows, columns), (1, rows, columns), (columns, rows), (rows, columns)], 2
    ):
        order = list(range(len(shape)))
        rng.shuffle(order)
        tiles = rng.choice(TILES)
        text = ",".join(map(str, order))
        ends.append(f"s32[{','.join(map(str, shape))}]{{{text}{':' if tiles else ''}{tiles}}}")
    before, after = ends
    program = hloscope.read(f"ENTRY e {{ x = {before} parameter(0) ROOT r = {after} bitcast(x) }}")
    (access,) = program.root.indexing()[0].accesses
    if access.map is None:  # of different size in memory
        return
    shape, wanted = [t.sizes for t in (program.root.ir.operands[0].type, program.root.ir.type)]
    x = np.arange(1, 1 + rows * columns, dtype="i4").reshape(shape)
    found = np.asarray(hloscope.evaluate(program, x))
    for index in np.ndindex(*wanted):
        read = access.map.points(index)
        assert found[index] == (x[read.pop()] if read else 0)
