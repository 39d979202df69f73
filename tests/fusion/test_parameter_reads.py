"""What values read of the parameters: shared work, the same answer as a walk from each value."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import hloscope as hs
from hloscope.fusion.overapproximate import without_contained
from hloscope.fusion.parameter_reads import ParameterReads
from hloscope.fusion.region import Region, grouped
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import Access, Accesses, IndexingMap
from hloscope.ir.types import TensorType

ROOT = Path(__file__).parents[2]
LOOP = """\
cond { s = (s32[], f32[4,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,3] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4,3] reverse(x), dimensions={0}
  ROOT t = (s32[], f32[4,3]) tuple(j, y) }
ENTRY e { p = (s32[], (f32[4,3], f32[3])) parameter(0)
  inner = (f32[4,3], f32[3]) get-tuple-element(p), index=1
  a = f32[4,3] get-tuple-element(inner), index=0
  b = f32[3] get-tuple-element(inner), index=1
  i = s32[] get-tuple-element(p), index=0
  q = f32[4,3] parameter(1)
  start = (s32[], f32[4,3]) tuple(i, a)
  w = (s32[], f32[4,3]) while(start), condition=cond, body=body
  last = f32[4,3] get-tuple-element(w), index=1
  rows = f32[4,3] broadcast(b), dimensions={1}
  sum = f32[4,3] add(last, rows)
  both = f32[4,3] add(sum, q)
  pair = (f32[3], f32[4,3]) tuple(b, sum)
  ROOT t = (f32[4,3], (f32[3], f32[4,3])) tuple(both, pair) }
"""
PROGRAMS = {
    **{
        p.name: p.read_text()
        for p in sorted((ROOT / "examples").glob("*.hlo"))
        if p.name != "layers.hlo"  # 16 dots of 1024 x 4096: enumerating the points takes minutes
    },
    "loop of tuples": LOOP,
}


def touched(accesses: Accesses, at: tuple[int, ...]) -> set[tuple[int, ...]] | None:
    """The elements of some accesses from one element, run-time values at their least."""
    found: set[tuple[int, ...]] = set()
    for access in accesses:
        if access.map is None:
            return None
        if not access.map.is_known_empty:
            lowest = [v.interval.lo for v in access.map.runtime]
            found |= access.map.points(at, lowest)
    return found


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_value_reads_what_a_walk_from_it_finds(name: str) -> None:
    program = hs.read(PROGRAMS[name])
    for computation in program.module:
        reads = ParameterReads(program.analysis, computation)
        region = Region.of_computation(computation)
        for ins in computation:
            if not ins.operands:
                continue
            for leaf, type in enumerate(program.analysis.leaves(ins.type)):
                walked = grouped(program.analysis, region, ins, leaf)
                shared = reads.of(ins, leaf)
                for parameter in computation.parameters:
                    for k in range(len(program.analysis.leaves(parameter.type))):
                        one = walked.get(parameter, {}).get(k, ())
                        other = shared.get((parameter, k), ())
                        assert isinstance(type, TensorType)
                        corners = product(*({0, n // 2, n - 1} for n in type.shape))
                        for at in corners:
                            assert touched(one, at) == touched(other, at), (ins, parameter)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_proofs_find_nothing_wrong(name: str) -> None:
    program = hs.read(PROGRAMS[name])
    for ins in program.entry:
        if ins.ir.operands:
            checks = ins.to_parameters(None).prove().checks
            assert not any(check.is_refuted for check in checks)


def test_a_parameter_reads_itself() -> None:
    program = hs.read("ENTRY e { p = f32[3] parameter(0) ROOT n = f32[3] negate(p) }")
    assert program["p"].to_parameters().map.is_identity


def test_what_a_long_program_has_in_common_is_computed_once() -> None:
    def compositions(length: int) -> int:
        lines = [f"  p{k} = f32[8,8] parameter({k})" for k in range(10)]
        for k in range(10, length):
            lines.append(f"  p{k} = f32[8,8] add(p{k - 1}, p{k - 7})")
        program = hs.read("ENTRY e {\n" + "\n".join(lines) + "\n}")
        for ins in program:
            if ins.ir.operands:
                ins.to_parameters()
        return program.analysis.interner.number_of_compositions

    assert compositions(1200) == compositions(300)


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 4]",
          "(d0)[s0, s1] -> (s1, s0), domain: d0 in [0, 3], s0 in [0, 4], s1 in [0, 3]"], [1]),
        (["(d0)[s0] -> (s0, s0), domain: d0 in [0, 3], s0 in [0, 3]",
          "(d0) -> (d0, d0), domain: d0 in [0, 3]"], [0, 1]),
        (["(d0)[s0] -> (d0, s0), domain: d0 in [1, 3], s0 in [0, 4]",
          "(d0) -> (d0, 2), domain: d0 in [0, 3]"], [0, 1]),
        (["(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 3]",
          "(d0) -> (d0, 2), domain: d0 in [0, 3]"], [0, 1]),
        (["(d0) -> (d0, 2), domain: d0 in [0, 3]",
          "(d0)[s0] -> (d0, s0 / 2), domain: d0 in [0, 3], s0 in [0, 9]",
          "(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 4]"], [2]),
    ],
)  # fmt: skip
def test_only_what_others_contain_is_left_out(texts: list[str], kept: list[int]) -> None:
    accesses = [Access(IndexingMap.parse(text)) for text in texts]
    found = without_contained(accesses, parse_type("f32[4,5]"))
    assert [accesses.index(access) for access in found] == kept
    for at in range(4):
        assert touched(tuple(found), (at,)) == touched(tuple(accesses), (at,))


def test_what_is_read_anyway_is_not_said_again_under_conditions() -> None:
    program = hs.read("""
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  p = f32[8] parameter(0)
  zero = f32[] constant(0)
  near = f32[8] reduce-window(p, zero), window={size=3 pad=1_1}, to_apply=sum
  total = f32[] reduce(p, zero), dimensions={0}, to_apply=sum
  all = f32[8] broadcast(total), dimensions={}
  ROOT both = f32[8] add(near, all)
}""")
    near, both = program["near"].to_parameters(), program["both"].to_parameters()
    assert [str(access.map) for access in near[0]] == [
        "(d0)[s0] -> (d0 + s0 - 1), domain: d0 in [0, 7], s0 in [0, 2], d0 + s0 in [1, 8]"
    ]
    assert [str(access.map) for access in both[0]] == [
        "(d0)[s0] -> (s0), domain: d0 in [0, 7], s0 in [0, 7]"
    ]
