"""Bytes of arrays with and without padding, and their figures as text."""

from __future__ import annotations

import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser.types import parse_type
from hloscope.ir import TensorType
from hloscope.ir.arrays import (
    Bytes,
    array_bytes,
    four_digits,
    padded_elements,
    size_text,
    storage_bits,
    tiled_sizes,
)

FIGURES = [
    (0, "0"),
    (0.00012345678, "0.0001235"),
    (999.94, "999.9"),
    (999.96, "1000"),
    (9999, "9999"),
    (9999.4, "9999"),
    (9999.5, "10,000"),
    (10000, "10,000"),
    (1234567.6, "1,234,568"),
]


def test_figures_have_four_digits_or_all_before_the_point() -> None:
    for value, text in FIGURES:
        assert four_digits(value) == text


SIZES = [
    (0, "0 bytes"),
    (1, "1 byte"),
    (2, "2 bytes"),
    (-1, "-1 byte"),
    (1023, "1023 bytes"),
    (1024, "1 KiB"),
    (-1536, "-1.5 KiB"),
    ((1 << 20) - 1, "1024 KiB"),
    (1 << 20, "1 MiB"),
    (1 << 30, "1 GiB"),
    (1 << 40, "1 TiB"),
    (1 << 50, "1 PiB"),
    (1 << 60, "1 EiB"),
    (20_000 << 60, "20,000 EiB"),
]


def test_bytes_are_written_in_the_largest_unit_that_gives_one() -> None:
    for count, text in SIZES:
        assert size_text(count) == text


BYTES = [
    ("f32[3,5]", 60, 60, 60, 0),
    ("f32[]", 4, 4, 4, 0),
    ("pred[8]{0:E(32)}", 32, 32, 8, 0),
    ("s4[9]{0:E(4)}", 5, 5, 5, 0),
    ("s4[9]", 9, 9, 9, 0),
    ("f32[3,5]{1,0:T(2,4)}", 60, 4 * 8 * 4, 60, 0),
    ("f32[3,5]{0,1:T(2,4)}", 60, 6 * 4 * 4, 60, 0),
    ("f32[0,5]{1,0:T(2,4)}", 0, 0, 0, 0),
    ("f32[5]{0:L(4)}", 20, 32, 20, 0),
    ("f32[8]{0:L(4)}", 32, 32, 32, 0),
    ("f32[5]{0:T(4)L(12)}", 20, 48, 20, 0),
    ("f32[5]{0:T(4)S(1)}", 20, 32, 20, 0),
    ("f32[5]{0:S(5)}", 20, 20, 20, 0),
    ("f32[5]{0:#(u8)}", 20, 20, 20, 0),
    ("f32[5]{0:L(0)}", 20, 20, 20, 0),
    ("f32[<=3,5]", 60, 60, 60, 8),
    ("(f32[3], (s8[2], token[]), pred[<=1])", 15, 15, 15, 4),
    ("token[]", 0, 0, 0, 0),
    ("()", 0, 0, 0, 0),
    ("b(f32[3])", 12, 12, 12, 0),
]


def test_bytes_of_types() -> None:
    for text, data, padded, unpadded, metadata in BYTES:
        found = array_bytes(parse_type(text))
        assert found == Bytes(data, padded, unpadded, metadata)
        assert found.wasted == padded - unpadded
        assert found.ratio == (padded / unpadded if unpadded else 1)


@pytest.mark.parametrize("text", ["f32[?,3]", "(f32[2], f32[?])"])
def test_a_size_without_a_bound_has_no_bytes(text: str) -> None:
    assert array_bytes(parse_type(text)) is None


def test_elements_of_unknown_sizes_are_not_counted() -> None:
    for text in ("f32[?,3]", "f32[?,3]{1,0:T(2,2)}"):
        type = parse_type(text)
        assert isinstance(type, TensorType)
        with pytest.raises(UnsupportedError):
            padded_elements(type)


@pytest.mark.parametrize(
    ("text", "bits"),
    [("pred[2]", 8), ("s2[2]", 8), ("s32[2]{0}", 32), ("s32[2]{0:E(64)}", 64), ("c128[]", 128)],
)
def test_elements_are_stored_in_whole_bytes_or_as_the_layout_says(text: str, bits: int) -> None:
    type = parse_type(text)
    assert isinstance(type, TensorType)
    assert storage_bits(type) == bits


TILED = [
    ([3, 5], [], [3, 5]),
    ([3, 5], [(2, 4)], [2, 2, 2, 4]),
    ([4, 8], [(2, 4)], [2, 2, 2, 4]),
    ([7, 3, 5], [(2, 4)], [7, 2, 2, 2, 4]),
    ([5], [(2, 4)], [1, 2, 2, 4]),
    ([5], [(1, 4)], [1, 2, 1, 4]),
    ([3, 5], [(1, 4)], [3, 2, 1, 4]),
    ([3, 5], [(0, 4)], [4, 4]),
    ([3, 2], [(4, -1)], [1, 2, 4]),
    ([3, 1], [(4, -1)], [1, 4]),
    ([3, 5], [(-1, 4)], [4, 4]),
    ([3, 5], [(-1, -1)], [15]),
    ([3, 5, 7], [(2, -1, 4)], [2, 9, 2, 4]),
    ([20, 100], [(8, 128), (4,)], [3, 1, 8, 32, 4]),
]


def test_each_tile_cuts_the_last_dimensions() -> None:
    for sizes, tiles, physical in TILED:
        assert tiled_sizes(sizes, tiles) == physical
