"""Values of equal structure have equal numbers, no matter what stands beside a part of a tuple."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.proof import compare
from hloscope.proof.equality import Numbering

PROGRAM = """\
inner {{ i = s32[4] parameter(0)
  ROOT n = s32[4] {inner}(i) }}
two {{ x = f32[8] parameter(0)
  i = s32[4] parameter(1)
  y = f32[8] {beside}(x)
  j = s32[4] call(i), to_apply=inner
  ROOT t = (f32[8], s32[4]) tuple(y, j) }}
pick {{ x = f32[8] parameter(0)
  i = s32[4] parameter(1)
  j = s32[4] negate(i)
  s = s32[4,1] reshape(j)
  ROOT g = f32[4] gather(x, s), offset_dims={{}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}} }}
ENTRY e {{ p = f32[8] parameter(0)
  q = s32[4] parameter(1)
  o = s32[4] parameter(2)
  a = f32[8] {before}(p)
  c = (f32[8], s32[4]) {kind}(a, {index}), {calls}=two
  k = s32[4] get-tuple-element(c), index=1
  y = f32[8] get-tuple-element(c), index={part}
  ROOT r = f32[4] {call}(a, k), {to}=pick }}
"""
SAME = {
    "inner": "negate", "beside": "negate", "before": "sine", "kind": "call", "calls": "to_apply",
    "index": "q", "part": "0", "call": "call", "to": "to_apply",
}  # fmt: skip
FUSED = {"kind": "fusion", "calls": "kind=kLoop, calls"}
FUSED_CALL = {"call": "fusion", "to": "kind=kLoop, calls"}


def text(**changed: str) -> str:
    return PROGRAM.format(**SAME | changed)


@pytest.mark.parametrize(
    ("changed", "alike"),
    [
        ({}, True),
        ({"before": "cosine"}, True),  # the part is not made of it
        ({"before": "cosine", **FUSED}, False),  # another op calls
        ({"index": "o"}, False),
        ({"inner": "abs"}, False),
        ({"beside": "sine"}, False),  # the computations differ: only those alike are looked into
    ],
)
def test_a_part_has_the_number_of_what_it_is_made_of(changed: dict[str, str], alike: bool) -> None:
    numbering = Numbering()
    one, other = (hloscope.read(t) for t in (text(), text(**changed)))
    mine, theirs = (numbering.of(program.entry.ir) for program in (one, other))
    assert (mine[one["k"].ir] == theirs[other["k"].ir]) is alike
    assert mine[one["k"].ir] != mine[one["y"].ir]


def test_parts_made_of_the_same_differ() -> None:
    program = hloscope.read("""
f { a = f32[4] parameter(0)
  n = f32[4] negate(a)
  s = f32[4] sine(a)
  ROOT t = (f32[4], f32[4], f32[4]) tuple(n, s, a) }
ENTRY e { p = f32[4] parameter(0)
  c = (f32[4], f32[4], f32[4]) call(p), to_apply=f
  x = f32[4] get-tuple-element(c), index=0
  y = f32[4] get-tuple-element(c), index=1
  again = f32[4] get-tuple-element(c), index=0
  t = (f32[4], f32[4]) tuple(x, p)
  z = f32[4] get-tuple-element(t), index=0
  ROOT r = (f32[4], f32[4], f32[4]) tuple(x, y, z) }""")
    found = Numbering().of(program.entry.ir)
    x, y, again, z = (found[program[name].ir] for name in ("x", "y", "again", "z"))
    assert x == again == z != y


@pytest.mark.parametrize("calls", [{}, FUSED | FUSED_CALL], ids=["calls", "fusions"])
@pytest.mark.parametrize(
    ("changed", "alike"),
    [
        ({"before": "cosine"}, True),
        ({"before": "cosine", "index": "o"}, False),  # other indices: other elements
        ({"before": "cosine", "inner": "abs"}, False),
    ],
)
def test_indices_computed_inside_calls_are_the_same_where_what_they_are_made_of_is(
    calls: dict[str, str], changed: dict[str, str], alike: bool
) -> None:
    one, other = (hloscope.read(t).entry.ir for t in (text(**calls), text(**calls | changed)))
    assert all(found.proof.is_proved for found in compare(one, other)) is alike
