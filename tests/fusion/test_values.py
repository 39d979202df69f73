"""Runtime variables whose values are known before the program runs."""

from __future__ import annotations

import pytest

from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo

PICK = """ENTRY e {{
  x = f32[10] parameter(0)
  n = s32[4] parameter(1)
  u = s8[4] parameter(2)
  {start}
  ROOT g = f32[4,1] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
}}"""
"""Takes an element of `x` for each of four rows of `i`."""

KNOWN = {
    "an iota": ("i = s32[4,1] iota(), iota_dimension=0", "d0"),
    "an iota of one value": ("i = s32[4,1] iota(), iota_dimension=1", "0"),
    "all equal": ("c = s32[] constant(3) i = s32[4,1] broadcast(c), dimensions={}", "3"),
    "evenly growing": ("i = s32[4,1] constant({{1},{3},{5},{7}})", "d0 * 2 + 1"),
    "too large: clamped": ("c = s32[] constant(30) i = s32[4,1] broadcast(c), dimensions={}", "9"),
    "negative: clamped": ("c = s32[] constant(-3) i = s32[4,1] broadcast(c), dimensions={}", "0"),
    "partly too large": ("i = s32[4,1] constant({{7},{8},{9},{10}})", "min(d0 + 7, 9)"),
    "reversed": (
        "a = s32[4,1] iota(), iota_dimension=0 i = s32[4,1] reverse(a), dimensions={0}",
        "-d0 + 3",
    ),
    "sliced, reshaped, transposed": (
        "a = s32[8] iota(), iota_dimension=0 b = s32[4] slice(a), slice={[1:8:2]} "
        "c = s32[1,4] reshape(b) i = s32[4,1] transpose(c), dimensions={1,0}",
        "d0 * 2 + 1",
    ),
    "arithmetic": (
        "a = s32[4,1] iota(), iota_dimension=0 c = s32[] constant(2) "
        "b = s32[4,1] broadcast(c), dimensions={} d = s32[4,1] multiply(a, b) "
        "e = s32[4,1] add(d, b) f = s32[4,1] subtract(e, a) i = s32[4,1] divide(f, b)",
        "d0 / 2 + 1",
    ),
    "the remainder": (
        "a = s32[4,1] iota(), iota_dimension=0 c = s32[] constant(2) "
        "b = s32[4,1] broadcast(c), dimensions={} i = s32[4,1] remainder(a, b)",
        "d0 mod 2",
    ),
    "the absolute value": ("a = s32[4,1] iota(), iota_dimension=0 i = s32[4,1] abs(a)", "d0"),
    "the absolute value of what is negative": (
        "a = s32[4,1] iota(), iota_dimension=0 b = s32[4,1] negate(a) i = s32[4,1] abs(b)",
        "d0",
    ),
    "converted": (
        "a = s64[4,1] iota(), iota_dimension=0 i = s32[4,1] convert(a)",
        "d0",
    ),
    "numpy's negative indices": (
        "a = s32[4,1] iota(), iota_dimension=0 z = s32[] constant(0) t = s32[] constant(10) "
        "zs = s32[4,1] broadcast(z), dimensions={} ts = s32[4,1] broadcast(t), dimensions={} "
        "neg = pred[4,1] compare(a, zs), direction=LT up = s32[4,1] add(a, ts) "
        "i = s32[4,1] select(neg, up, a)",
        "d0",
    ),
    "clamped by hand": (
        "a = s32[4,1] iota(), iota_dimension=0 l = s32[] constant(1) h = s32[] constant(2) "
        "i = s32[4,1] clamp(l, a, h)",
        "min(max(d0, 1), 2)",
    ),
    "the second of two": (
        "a = s32[4,1] iota(), iota_dimension=0 c = s32[4,1] constant({{9},{9},{9},{9}}) "
        "b = s32[4,2] concatenate(c, a), dimensions={1} i = s32[4,1] slice(b), slice={[0:4],[1:2]}",
        "d0",
    ),
}
UNKNOWN = {
    "read from a parameter": "i = s32[4,1] reshape(n)",
    "no even growth": "i = s32[4,1] constant({{1},{2},{4},{8}})",
    "may wrap around": (
        "a = u8[4,1] iota(), iota_dimension=0 c = u8[] constant(254) "
        "b = u8[4,1] broadcast(c), dimensions={} i = u8[4,1] add(a, b)"
    ),
    "half one, half another": (
        "a = s32[2,1] constant({{5},{5}}) b = s32[2,1] constant({{1},{1}}) "
        "i = s32[4,1] concatenate(a, b), dimensions={0}"
    ),
    "not written out": "i = s32[4,1] constant({...})",
    "from a float": "a = f32[4,1] iota(), iota_dimension=0 i = s32[4,1] convert(a)",
    "unequal choice": (
        "a = s32[4,1] iota(), iota_dimension=0 b = s32[4,1] reverse(a), dimensions={0} "
        "p = pred[4,1] compare(a, b), direction=LT i = s32[4,1] select(p, a, b)"
    ),
}


def result(start: str) -> str:
    entry = parse_hlo(PICK.format(start=start)).entry
    (access,) = Analysis().output_to_input(entry.root)[0, 0]
    assert access.map is not None
    kind = "runtime" if access.map.runtime else "known"
    return f"{kind}: {access.map.results[0]}"


@pytest.mark.parametrize(("start", "expected"), KNOWN.values(), ids=list(KNOWN))
def test_a_known_index_is_folded(start: str, expected: str) -> None:
    found = result(start)
    assert found == f"known: {expected}"


@pytest.mark.parametrize("start", UNKNOWN.values(), ids=list(UNKNOWN))
def test_an_unknown_index_stays_a_variable(start: str) -> None:
    assert result(start).startswith("runtime: ")
