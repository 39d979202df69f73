"""Equality of types in HLO: layouts, precision, bounds, buffers."""

from __future__ import annotations

import pytest

from hloscope.hlo_parser import parse_hlo, parse_type, print_type
from hloscope.verifier.hlo import verify_hlo
from hloscope.verifier.hlo.rules import (
    bounds_as_sizes,
    bounds_of,
    equal_lists,
    equal_up_to_precision,
    same,
)

TYPES = [
    # two types; are they the same, up to the precision of floats, up to the element type?
    ("f32[2]{0}", "f32[2]", True, True, True),
    ("f32[2,3]{1,0}", "f32[2,3]{0,1}", True, True, True),
    ("f32[2]", "bf16[2]", False, True, True),
    ("f32[2]", "s32[2]", False, False, True),
    ("s32[2]", "s64[2]", False, False, True),
    ("s32[2]", "f32[2]", False, False, True),
    ("f32[2]", "f32[3]", False, False, False),
    ("f32[2]", "f32[2,1]", False, False, False),
    ("(f32[2], s32[])", "(f32[2], s32[])", True, True, True),
    ("(f32[2], s32[])", "(bf16[2], s32[])", False, True, True),
    ("(f32[2], (s32[], f32[]))", "(f32[2], (s32[], f32[1]))", False, False, False),
    ("(f32[2])", "(f32[2], s32[])", False, False, False),
    ("()", "()", True, True, True),
    ("(f32[2])", "f32[2]", False, False, False),
    ("b(f32[2])", "f32[2]", True, True, True),
    ("b(f32[2])", "b(f32[2]{0})", True, True, True),
    ("b(f32[2])", "bf16[2]", False, True, True),
    ("b(f32[2])", "f32[3]", False, False, False),
    ("token[]", "token[]", True, True, True),
    ("token[]", "f32[]", False, False, False),
]


def test_types_are_equal_except_for_layouts() -> None:
    for a, b, are_same, up_to_precision, up_to_element in TYPES:
        one, other, whole = parse_type(a), parse_type(b), parse_type("s8[9]")
        for x, y in ((one, other), (other, one)):
            assert same(x, y) == are_same, (a, b)
            assert equal_up_to_precision(x, y) == up_to_precision, (a, b)
            for wider, expected in ((False, up_to_precision), (True, up_to_element)):
                assert equal_lists((x,), (y,), wider=wider) == expected, (a, b)
                assert equal_lists((whole, x), (whole, y), wider=wider) == expected, (a, b)
            assert not equal_lists((x,), (y, y), wider=True)


@pytest.mark.parametrize(
    ("text", "bounded"),
    [
        ("f32[2]", False),
        ("f32[<=2]", True),
        ("f32[]", False),
        ("token[]", False),
        ("()", False),
        ("(f32[2], token[])", False),
        ("(f32[2], (token[], f32[<=2]))", True),
        ("(f32[<=2], f32[2])", True),
    ],
)
def test_bounds_are_found_in_every_array_of_a_type(text: str, bounded: bool) -> None:
    assert any(bounds_of(parse_type(text))) == bounded


RETURNED = [
    ("f32[<=4,3]", "f32[<=4,3]", True),
    ("f32[<=4,3]", "f32[4,3]", False),
    ("f32[4,3]", "f32[<=4,3]", False),
    ("f32[<=4,3]", "f32[4,<=3]", False),
    ("(f32[<=4], token[])", "(f32[<=4], token[])", True),
    ("(f32[<=4], token[])", "(f32[4], token[])", False),
    ("(f32[4], (f32[<=2], s32[<=4]))", "(f32[4], (f32[<=2], s32[4]))", False),
]


@pytest.mark.parametrize("op", ["copy(a)", "opt-barrier(a)", "add-dependency(a, k)"])
def test_what_returns_its_operand_returns_its_bounds(op: str) -> None:
    for operand, result, is_valid in RETURNED:
        line = f"k = token[] after-all() a = {operand} parameter(0) ROOT b = {result} {op}"
        found = [d.message for d in verify_hlo(parse_hlo(f"ENTRY e {{ {line} }}"))]
        expected = f"is declared {result}, but its operands make it {operand}"
        assert len(found) == (not is_valid), line
        assert all(expected in message for message in found)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("f32[<=4,3]{1,0}", "f32[4,3]{1,0}"),
        ("f32[<=4,?]", "f32[4,?]"),
        ("f32[4,3]", "f32[4,3]"),
        ("(f32[<=2,<=5], (s32[<=4], token[]))", "(f32[2,5], (s32[4], token[]))"),
    ],
)
def test_bounds_become_sizes(text: str, whole: str) -> None:
    found = bounds_as_sizes(parse_type(text))
    assert print_type(found) == print_type(parse_type(whole))
    assert any(bounds_of(found)) == ("?" in text)


def test_a_sum_may_drop_the_bounds_of_its_operands() -> None:
    text = "ENTRY e { a = f32[<=4] parameter(0) ROOT b = f32[4] add(a, a) }"
    assert verify_hlo(parse_hlo(text)) == []
