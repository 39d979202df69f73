"""Which element types may stand for another: of its kind, and no narrower."""

from __future__ import annotations

from itertools import product

import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_type
from hloscope.ir import ELEMENT_TYPES
from hloscope.ops import RngGetAndUpdateState, TorchIndexSelect
from hloscope.ops.inference import promotable, wider

INTEGERS = {"pred": 1, "s8": 8, "u8": 8, "s32": 32, "u32": 32, "s64": 64}
OTHERS = {"f16": 16, "f32": 32, "f64": 64}
COMPLEX = {"c64": 64, "c128": 128}


def test_types_are_promoted_to_wider_ones_of_their_kind_only() -> None:
    kinds = (INTEGERS, OTHERS, COMPLEX)
    for (i, first), (j, second) in product(enumerate(kinds), repeat=2):
        for (a, narrow), (b, wide) in product(first.items(), second.items()):
            found = promotable(ELEMENT_TYPES[a], ELEMENT_TYPES[b])
            assert found == (i == j and narrow <= wide), (a, b)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [("bf16", "f32"), ("s8", "s32"), ("s32", "f16"), ("f64", "c64"), ("c64", "c128")],
)
def test_of_two_types_the_wider_holds_more(narrow: str, wide: str) -> None:
    a, b = ELEMENT_TYPES[narrow], ELEMENT_TYPES[wide]
    assert wider(a, b) == wider(b, a) == b


@pytest.mark.parametrize(
    ("dim", "batch", "whole", "indices"),
    [(1, 1, (2, 4), (3, 5)), (2, 0, (2, 4), (3,)), (0, 1, (2, 4), (2,)), (1, 2, (2, 4), (2, 4))],
)
def test_selected_sizes_need_dimensions_that_are_there_and_agree(
    dim: int, batch: int, whole: tuple[int, ...], indices: tuple[int, ...]
) -> None:
    with pytest.raises(UnsupportedError):
        TorchIndexSelect(dim, batch).selected_sizes(whole, indices)


def test_selected_sizes() -> None:
    assert TorchIndexSelect(1, 1).selected_sizes((2, 4, 7), (2, 5)) == (2, 5, 7)


def test_the_global_state_of_random_numbers_is_two_words() -> None:
    assert RngGetAndUpdateState(1).infer(()) == parse_type("u64[2]")
