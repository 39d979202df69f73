"""Loops with random conditions and bodies, and what regions read of values around them."""

from __future__ import annotations

import numpy as np
import pytest

import hloscope as hs
from hloscope.indexing import Precision
from tests.agreement.generated import Said
from tests.fusion.bodies import FIRST, Expr, Hlo, Mlir, expression


def loop(seed: int, language: str) -> tuple[str, list[frozenset[int]], list[bool]]:
    """A program, which parameters each part of its loop reads, and which parts stay as they are."""
    rng = np.random.default_rng(seed)
    parts, around = int(rng.integers(1, 5)), int(rng.integers(0, 3)) if language == "mlir" else 0
    values = [*range(parts), *range(-around, 0)]

    def part(k: int) -> Expr:
        kept = Expr("value", number=k)
        if rng.random() < 0.3:  # as it is, also through a call
            return Expr("first", (kept, expression(rng, values))) if rng.random() < 0.3 else kept
        return expression(rng, values)

    body = [part(k) for k in range(parts)]
    test = [expression(rng, values, 1), expression(rng, values, 1)]

    def used(e: Expr) -> frozenset[int]:
        numbers = e.used(lambda n: frozenset([n if n >= 0 else parts - 1 - n]))
        return frozenset(n for n in numbers if isinstance(n, int))

    is_kept = [e.source == k for k, e in enumerate(body)]
    reads = []
    for k in range(parts):
        found = frozenset([k])
        if not is_kept[k]:
            found |= used(test[0]) | used(test[1])
            while (more := found.union(*[used(body[n]) for n in found if n < parts])) != found:
                found = more
        reads.append(found)
    return _text(language, body, test, around), reads, is_kept


def _text(language: str, body: list[Expr], test: list[Expr], around: int) -> str:
    parts = len(body)
    if language == "hlo":
        hlo = Hlo()
        type_ = f"({', '.join(['s32[]'] * parts)})"
        condition = hlo.computation(test, parts, handed=type_, test=True)
        step = hlo.computation(body, parts, handed=type_, packed=True)
        start = hlo.emit(f"{type_} tuple({', '.join(f'p{k}' for k in range(parts))})")
        calls = f"condition={condition}, body={step}"
        return hlo.module(["s32[]"] * parts, f"{type_} while({start}), {calls}")
    mlir = Mlir()
    regions = f"{mlir.body(test, parts, test=True)}, {mlir.body(body, parts)}"
    names = [*[f"%p{k}" for k in range(parts)], *[f"%c{k}" for k in range(around)]]
    head, types = ", ".join(f"{n}: tensor<i32>" for n in names), ", ".join(["tensor<i32>"] * parts)
    made, back = (f"%r:{parts}", [f"%r#{k}" for k in range(parts)]) if parts > 1 else ("%r", ["%r"])
    return f"""{FIRST}
func.func public @main({head}) -> ({types}) {{
  {made} = "stablehlo.while"({", ".join(names[:parts])}) ({regions}) : ({types}) -> ({types})
  return {", ".join(back)} : {types}
}}"""


@pytest.mark.slow
@pytest.mark.parametrize("language", ["hlo", "mlir"])
def test_parts_of_loops_read_what_decides_how_often_they_run(language: str, full: bool) -> None:
    kept = 0
    for seed in range(2000 if full else 200):
        text, reads, is_kept = loop(seed, language)
        said = Said(hs.read(text))
        for o, numbers in enumerate(reads):
            for i in range(len(said.inputs)):
                back, forth = said.back[o, i], said.forth.get((o, i), ())
                assert bool(back) == bool(forth) == (i in numbers), f"{o} <- {i}\n{text}"
                if is_kept[o] and back:
                    assert [a.precision for a in (*back, *forth)] == [Precision.EXACT] * 2
                    kept += 1
    assert kept > 50


AROUND = """func.func public @main({head}) -> tensor<3xf32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce"(%x, %z) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    {body}
    %u = stablehlo.add %a, %v : tensor<f32>
    stablehlo.return %u : tensor<f32>
  }}) {{dimensions = array<i64: 1>}} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}}"""
HEAD = "%x: tensor<3x4xf32>, %c: tensor<5xf32>, %i: tensor<i32>, %p: tensor<i1>"
ONE = """%s = {slice} -> tensor<1xf32>
    %v = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>"""
STATIC = ONE.format(slice="stablehlo.slice %c [2:3] : (tensor<5xf32>)")
AT_RUN_TIME = ONE.format(
    slice="stablehlo.dynamic_slice %c, {at}, sizes = [1] : (tensor<5xf32>, tensor<i32>)"
)
NESTED = """%v = "stablehlo.if"(%p) ({{
    {inner}
      stablehlo.return %v : tensor<f32>
    }}, {{
      stablehlo.return %b : tensor<f32>
    }}) : (tensor<i1>) -> tensor<f32>"""
VARYING = "%at = stablehlo.convert %b : (tensor<f32>) -> tensor<i32>\n"
COMPUTED = "%at = stablehlo.add %i, %i : tensor<i32>\n"
CAPTURES = {
    "one element": (STATIC, ["(d0) -> (2)"], Precision.EXACT),
    "in a branch": (NESTED.format(inner=STATIC), ["(d0) -> (2)"], Precision.EXACT),
    "two levels down": (
        NESTED.format(inner=NESTED.format(inner=STATIC)).replace("%s", "%t"),
        ["(d0) -> (2)"],
        Precision.EXACT,
    ),
    "at run time": (AT_RUN_TIME.format(at="%i"), ["(d0){rt0} -> (rt0)"], Precision.EXACT),
    "at run time in a branch": (
        NESTED.format(inner=AT_RUN_TIME.format(at="%i")),
        ["(d0){rt0} -> (rt0)"],
        Precision.EXACT,
    ),
    "computed inside": (
        COMPUTED + AT_RUN_TIME.format(at="%at"),
        ["(d0){rt0} -> (rt0)"],
        Precision.EXACT,
    ),
    "at an element": (
        VARYING + AT_RUN_TIME.format(at="%at"),
        ["(d0)[s0] -> (s0)"],
        Precision.OVER,
    ),
    "not at all": (STATIC.replace("%v", "%unused") + "\n%v = stablehlo.add %b, %b : tensor<f32>",
                   [], Precision.EXACT),
}  # fmt: skip


def test_of_what_the_body_of_a_scan_captures_any_element_may_be_read() -> None:
    program = hs.read(
        """
func.func @main(%x: tensor<2x3xf32>, %i: tensor<3xf32>, %k: tensor<3xf32>) -> tensor<2x3xf32> {
  %r:2 = chlo.scan (%x) inits (%i) dimension=0 {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %s = stablehlo.add %a, %b : tensor<3xf32>
    %t = stablehlo.multiply %s, %k : tensor<3xf32>
    stablehlo.return %t, %s : tensor<3xf32>, tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>)
  return %r#0 : tensor<2x3xf32>
}"""
    )
    answer = program.root.to_parameters(parameter=2)
    assert [str(m).partition(", domain")[0] for m in answer.maps[0]] == ["(d0, d1)[s0] -> (s0)"]
    (operand,) = answer.operands
    assert [access.precision for access in operand] == [Precision.OVER]


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("name", CAPTURES)
def test_of_a_captured_value_is_read_what_one_application_reads(name: str) -> None:
    body, maps, precision = CAPTURES[name]
    program = hs.read(AROUND.format(head=HEAD, body=body))
    answer = program.root.to_parameters(parameter=1)
    assert [str(m).partition(", domain")[0] for m in answer.maps[0]] == maps
    (operand,) = answer.operands
    assert all(access.precision is precision for access in operand)
    forth = program.analysis.spread(program.module.entry, 1, 0)
    assert bool(forth) == bool(maps)
    assert not [check for check in answer.prove().checks if check.is_refuted]
