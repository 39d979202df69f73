"""Folding keeps what programs mean, and leaves nothing to compute that need not be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hloscope as hs
from hloscope.errors import HloscopeError
from hloscope.ir.graph import Module
from hloscope.ops.shape import Constant
from tests.interpreter import chunks, models

BRANCH = """
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<2xi32>) {
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<3xf32>
  %2 = stablehlo.add %1, %x : tensor<3xf32>
  %i = stablehlo.iota dim = 0 : tensor<2xi32>
  %p = stablehlo.constant dense<true> : tensor<i1>
  %k = "stablehlo.if"(%p) ({
    %s = stablehlo.add %0, %0 : tensor<3xf32>
    stablehlo.return %s : tensor<3xf32>
  }, {
    stablehlo.return %0 : tensor<3xf32>
  }) : (tensor<i1>) -> tensor<3xf32>
  %l = stablehlo.add %2, %k : tensor<3xf32>
  return %l, %i : tensor<3xf32>, tensor<2xi32>
}
"""
FOLDED_BRANCH = """\
module {
  func.func @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>, tensor<2xi32>) {
    %cst = stablehlo.constant dense<[1.000000e+00, 4.000000e+00, 9.000000e+00]> : tensor<3xf32>
    %0 = stablehlo.add %cst, %arg0 : tensor<3xf32>
    %c = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
    %cst_0 = stablehlo.constant dense<[2.000000e+00, 4.000000e+00, 6.000000e+00]> : tensor<3xf32>
    %1 = stablehlo.add %0, %cst_0 : tensor<3xf32>
    return %1, %c : tensor<3xf32>, tensor<2xi32>
  }
}
"""
LOOP = """
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%n = %zero, %sum = %zero) : tensor<i32>, tensor<i32>
  cond {
    %c = stablehlo.compare LT, %n, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %n, %one : tensor<i32>
    %more = stablehlo.add %sum, %n : tensor<i32>
    stablehlo.return %next, %more : tensor<i32>, tensor<i32>
  }
  %1:2 = stablehlo.while(%n = %zero, %sum = %x) : tensor<i32>, tensor<i32>
  cond {
    %two = stablehlo.add %one, %one : tensor<i32>
    %c = stablehlo.compare LT, %n, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %n, %one : tensor<i32>
    %five = stablehlo.divide %0#1, %ten : tensor<i32>
    %more = stablehlo.add %sum, %five : tensor<i32>
    stablehlo.return %next, %more : tensor<i32>, tensor<i32>
  }
  return %1#1 : tensor<i32>
}
"""
HLO = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
unused_later { a = f32[] parameter(0) ROOT c = f32[] negate(a) }
ENTRY e {
  p = f32[4] parameter(0)
  c = f32[] constant(2)
  z = f32[] constant(0)
  b = f32[4] broadcast(c), dimensions={}
  m = f32[4] multiply(b, b)
  r = f32[] reduce(m, z), dimensions={0}, to_apply=add
  rb = f32[4] broadcast(r), dimensions={}
  i = s32[4] iota(), iota_dimension=0
  j = s32[4] add(i, i)
  k = f32[] call(c), to_apply=unused_later
  kb = f32[4] broadcast(k), dimensions={}
  f = f32[4] convert(j)
  s0 = f32[4] add(rb, p)
  s1 = f32[4] add(s0, m)
  s2 = f32[4] add(s1, kb)
  ROOT s3 = (f32[4], f32[4]) tuple(s2, f)
}
"""
FOLDED_HLO = """\
HloModule m

ENTRY e {
  p = f32[4] parameter(0)
  m.element = f32[] constant(4)
  m = f32[4] broadcast(m.element), dimensions={}
  r = f32[] constant(16)
  rb = f32[4] broadcast(r), dimensions={}
  k = f32[] constant(-2)
  kb = f32[4] broadcast(k), dimensions={}
  f = f32[4] constant({0, 2, 4, 6})
  s0 = f32[4] add(rb, p)
  s1 = f32[4] add(s0, m)
  s2 = f32[4] add(s1, kb)
  ROOT s3 = (f32[4], f32[4]) tuple(s2, f)
}
"""


def ops(module: Module) -> list[str]:
    return [ins.op.name for computation in module for ins in computation]


def test_a_branch_is_taken_and_dead_code_left_out() -> None:
    program = hs.read(BRANCH)
    folded = program.fold()
    assert folded.text() == FOLDED_BRANCH
    assert hs.verify(folded) == []
    x = np.array([1, 2, 3], np.float32)
    for before, after in zip(program.evaluate(x), folded.evaluate(x), strict=True):
        assert (before == after).all()


def test_loops_end_in_constants_and_their_regions_are_folded() -> None:
    program = hs.read(LOOP)
    folded = program.fold()
    assert ops(folded.module).count("while") == 1
    assert "divide" not in ops(folded.module)
    assert hs.verify(folded) == []
    assert program.evaluate(5) == folded.evaluate(5) == 13


def test_folding_hlo_keeps_broadcasts_short_and_drops_computations() -> None:
    program = hs.read(HLO)
    folded = program.fold()
    printed = hs.print_hlo(folded.module, style="short")
    assert printed.strip() == FOLDED_HLO.strip()
    assert hs.verify(folded) == []
    assert [r.tolist() for r in program.evaluate([1, 2, 3, 4])] == [
        r.tolist() for r in folded.evaluate([1, 2, 3, 4])
    ]


@pytest.mark.parametrize(
    "text",
    [
        "ENTRY e { ROOT c = (f32[], s32[]) tuple(a, b), control-predecessors={} }".replace(
            "{ ROOT", "{ a = f32[] constant(1) b = s32[] constant(2) ROOT"
        ),
        'ENTRY e { c = f32[] constant(1) ROOT k = f32[] custom-call(c), custom_call_target="f" }',
        """ENTRY e { a = f32[] constant(0) b = f32[] constant(1)
           ROOT r = f32[3] rng(a, b), distribution=rng_uniform }""",
        "ENTRY e { ROOT r = u32[] replica-id() }",
        "ENTRY e { ROOT i = f32[100000] iota(), iota_dimension=0 }",
        "ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] negate(p) }",
    ],
)
def test_what_must_stay_stays(text: str) -> None:
    module = hs.parse_hlo(text)
    assert ops(hs.fold(module)) == ops(module)


def test_limits_keep_what_would_be_large_or_long() -> None:
    program = hs.read(LOOP).module
    assert ops(hs.fold(program, max_steps=10)).count("while") == 2
    assert ops(hs.fold(hs.parse_stablehlo(BRANCH), max_elements=2)).count("multiply") == 1
    assert ops(hs.fold(hs.parse_stablehlo(BRANCH), max_bytes=8)).count("multiply") == 1


def test_a_tuple_of_a_loop_gives_its_parts() -> None:
    text = """
    body { s = (s32[], s32[]) parameter(0) n = s32[] get-tuple-element(s), index=0
      m = s32[] get-tuple-element(s), index=1 one = s32[] constant(1) k = s32[] add(n, one)
      l = s32[] add(m, n) ROOT r = (s32[], s32[]) tuple(k, l) }
    cond { s = (s32[], s32[]) parameter(0) n = s32[] get-tuple-element(s), index=0
      ten = s32[] constant(10) ROOT r = pred[] compare(n, ten), direction=LT }
    ENTRY e { z = s32[] constant(0) t = (s32[], s32[]) tuple(z, z)
      w = (s32[], s32[]) while(t), condition=cond, body=body
      ROOT g = s32[] get-tuple-element(w), index=1 }"""
    folded = hs.fold(hs.parse_hlo(text))
    assert ops(folded) == ["constant"]
    assert hs.evaluate(folded) == 45
    whole = hs.parse_hlo(text.replace("ROOT g", "g").replace("w = (s32", "ROOT w = (s32"))
    assert [int(v) for v in hs.evaluate(hs.fold(whole))] == [10, 45]


@pytest.mark.slow
def test_every_chunk_of_the_interpreter_s_tests_means_the_same(shared: Path, full: bool) -> None:
    """Their operands are constants: hardly anything but the assertions is left."""
    every = [c for d in ("interpret", "chlo") for c in chunks.chunks(d) if not c.is_disabled]
    left = before = 0
    for chunk in every if full else every[::12]:
        if chunks.run(chunk).status != chunks.PASS:
            continue
        try:
            module = hs.parse_stablehlo(chunk.text)
        except HloscopeError:
            continue
        folded = hs.fold(module)
        assert hs.verify(folded) == [], chunk.id
        again = chunks.Chunk(
            chunk.file, chunk.number, chunk.line, hs.print_stablehlo(folded), chunk.record
        )
        outcome = chunks.run(again)
        assert outcome.status == chunks.PASS, f"{chunk.id}: {outcome.detail}"
        before += sum(not isinstance(i.op, Constant) for c in module for i in c)
        left += sum(not isinstance(i.op, Constant) for c in folded for i in c)
    assert left < 0.8 * before


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("kind", ["stablehlo", "hlo", "opt"])
def test_real_programs_mean_the_same(
    shared: Path, full: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [n for n in models.programs() if models.path_of(n, kind).stat().st_size < 60_000]
    load = models.load
    for name in small if full else small[::9]:
        monkeypatch.setattr(models, "load", load)
        if models.run(name, kind).status != chunks.PASS:
            continue
        folded = hs.fold(load(name, kind))
        assert hs.verify(folded) == [], name
        monkeypatch.setattr(models, "load", lambda *_, folded=folded: folded)
        outcome = models.run(name, kind)
        assert outcome.status == chunks.PASS, f"{name}: {outcome.detail}"
