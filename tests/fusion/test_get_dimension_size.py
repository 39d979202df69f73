"""The size that `get-dimension-size` gives is read from where it was set, through everything."""

from __future__ import annotations

from typing import Any

import pytest

from hloscope.fusion import Analysis, Region, grouped
from hloscope.indexing import Precision
from hloscope.ir.graph import Module
from tests.interpreter.helpers import read

HLO = """HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
lt {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }}
neg {{ a = f32[3,<=5] parameter(0) ROOT r = f32[3,<=5] negate(a) }}
abs {{ a = f32[3,<=5] parameter(0) ROOT r = f32[3,<=5] abs(a) }}
nested {{ a = f32[3,<=5] parameter(0) ROOT r = f32[3,<=5] fusion(a), kind=kLoop, calls=neg }}
size {{ a = f32[3,<=5] parameter(0) ROOT r = s32[] get-dimension-size(a), dimensions={{1}} }}
set {{ a = f32[3,5] parameter(0) b = s32[] parameter(1)
  ROOT r = f32[3,<=5] set-dimension-size(a, b), dimensions={{1}} }}
pair {{ a = f32[3,<=5] parameter(0) ROOT r = (f32[3,<=5], f32[3,<=5]) tuple(a, a) }}
more {{ a = (s32[], f32[3,<=5]) parameter(0) i = s32[] get-tuple-element(a), index=0
  five = s32[] constant(5) ROOT r = pred[] compare(i, five), direction=LT }}
next {{ a = (s32[], f32[3,<=5]) parameter(0) i = s32[] get-tuple-element(a), index=0
  x = f32[3,<=5] get-tuple-element(a), index=1 y = f32[3,<=5] negate(x)
  one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], f32[3,<=5]) tuple(j, y) }}
same {{ a = (s32[], f32[3,<=5]) parameter(0) i = s32[] get-tuple-element(a), index=0
  x = f32[3,<=5] get-tuple-element(a), index=1
  one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], f32[3,<=5]) tuple(j, x) }}
ENTRY e {{ p = f32[3,5] parameter(0) n = s32[] parameter(1) k = s32[] parameter(2)
  c = pred[] parameter(3) zero = f32[] constant(0) no = s32[] constant(0)
  q = f32[3,<=5] set-dimension-size(p, n), dimensions={{1}}
  {lines} }}"""
CHAINS = {
    "at once": "ROOT r = s32[] get-dimension-size(q), dimensions={1}",
    "set again": "v = f32[3,<=5] set-dimension-size(q, k), dimensions={1}",
    "element-wise": "v = f32[3,<=5] negate(q)",
    "of two operands": "w = f32[3,<=5] negate(q) v = f32[3,<=5] add(w, q)",
    "compare and select": "b = pred[3,<=5] compare(q, q), direction=LT "
    "v = f32[3,<=5] select(b, q, q)",
    "64 times": "v0 = f32[3,<=5] negate(q) "
    + " ".join(f"v{i + 1} = f32[3,<=5] add(v{i}, q)" for i in range(63))
    + " v = f32[3,<=5] copy(v63)",
    "transpose": "w = f32[<=5,3] transpose(q), dimensions={1,0} "
    "v = f32[3,<=5] transpose(w), dimensions={1,0}",
    "broadcast": "w = f32[<=5] reduce(q, zero), dimensions={0}, to_apply=add "
    "v = f32[3,<=5] broadcast(w), dimensions={1}",
    "slice of others": "w = f32[1,<=5] slice(q), slice={[1:2],[0:5]} "
    "v = f32[3,<=5] concatenate(w, w, w), dimensions={0}",
    "dynamic slice of others": "w = f32[1,<=5] dynamic-slice(q, k, no), dynamic_slice_sizes={1,5} "
    "v = f32[3,<=5] pad(w, zero), padding=1_1x0_0",
    "reshape": "w = f32[3,1,<=5] reshape(q) v = f32[3,<=5] reshape(w)",
    "reverse": "v = f32[3,<=5] reverse(q), dimensions={0,1}",
    "pad": "w = f32[3,<=7] pad(q, zero), padding=0_0x1_1 "
    "ROOT r = s32[] get-dimension-size(w), dimensions={1}",
    "concatenate": "w = f32[3,<=10] concatenate(p, q), dimensions={1} "
    "ROOT r = s32[] get-dimension-size(w), dimensions={1}",
    "sort": "v = f32[3,<=5] sort(q), dimensions={1}, to_apply=lt",
    "update": "v = f32[3,<=5] dynamic-update-slice(q, p, no, no)",
    "dot": "w = f32[3,3] broadcast(zero), dimensions={} "
    "v = f32[3,<=5] dot(w, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "fusion": "v = f32[3,<=5] fusion(q), kind=kLoop, calls=neg",
    "nested": "v = f32[3,<=5] call(q), to_apply=nested",
    "asked in a fusion": "ROOT r = s32[] fusion(q), kind=kLoop, calls=size",
    "set in a fusion": "v = f32[3,<=5] fusion(p, n), kind=kLoop, calls=set",
    "tuple": "t = (f32[3,<=5], s32[]) tuple(q, k) u = ((f32[3,<=5], s32[]), f32[3,5]) tuple(t, p) "
    "w = (f32[3,<=5], s32[]) get-tuple-element(u), index=0 "
    "v = f32[3,<=5] get-tuple-element(w), index=0",
    "fusion of several outputs": "t = (f32[3,<=5], f32[3,<=5]) fusion(q), kind=kLoop, calls=pair "
    "v = f32[3,<=5] get-tuple-element(t), index=1",
    "barrier": "t = (s32[], f32[3,<=5]) tuple(k, q) u = (s32[], f32[3,<=5]) opt-barrier(t) "
    "v = f32[3,<=5] get-tuple-element(u), index=1",
    "copy in two halves": "t = (f32[3,<=5], f32[3,<=5], u32[]) copy-start(q) "
    "v = f32[3,<=5] copy-done(t)",
    "loop that hands it on": "t = (s32[], f32[3,<=5]) tuple(no, q) "
    "u = (s32[], f32[3,<=5]) while(t), condition=more, body=same "
    "v = f32[3,<=5] get-tuple-element(u), index=1",
}
OTHERS = {
    "loop": "t = (s32[], f32[3,<=5]) tuple(no, q) "
    "u = (s32[], f32[3,<=5]) while(t), condition=more, body=next "
    "v = f32[3,<=5] get-tuple-element(u), index=1",
    "conditional": "v = f32[3,<=5] conditional(c, q, q), "
    "true_computation=neg, false_computation=abs",
    "slice": "w = f32[3,<=2] slice(q), slice={[0:3],[1:3]} "
    "ROOT r = s32[] get-dimension-size(w), dimensions={1}",
    "window": "w = f32[3,<=4] reduce-window(q, zero), window={size=1x2}, to_apply=add "
    "ROOT r = s32[] get-dimension-size(w), dimensions={1}",
    "call out": 'v = f32[3,<=5] custom-call(q), custom_call_target="f"',
}


def text_of(lines: str) -> str:
    if "ROOT" not in lines:
        lines += " ROOT r = s32[] get-dimension-size(v), dimensions={1}"
    return HLO.format(lines=lines)


def parameters_read(module: Module) -> dict[str, list[Any]]:
    """The accesses of each parameter that the result reads."""
    entry = module.entry
    root = entry.root.operands[0] if entry.root.op.name == "return" else entry.root
    found = grouped(Analysis(), Region.of_computation(entry), root, 0, opened=False)
    return {p.name: list(found[p].get(0, ())) for p in entry.parameters if found.get(p, {}).get(0)}


@pytest.mark.parametrize("name", CHAINS)
def test_the_size_is_read_and_nothing_else(name: str) -> None:
    read_of = parameters_read(read(text_of(CHAINS[name])))
    assert set(read_of) == ({"k"} if name == "set again" else {"n"})
    for access in next(iter(read_of.values())):
        assert access.precision is Precision.EXACT
        assert access.map.points(()) == {()}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_followed_exactly_is_said_to_be_so(name: str) -> None:
    read_of = parameters_read(read(text_of(OTHERS[name])))
    claims = {access.precision for access in read_of["n"]}
    assert name in ("loop", "conditional") or Precision.EXACT not in claims
    assert name == "call out" or "p" not in read_of
    assert ("c" in read_of) == (name == "conditional")


@pytest.mark.slow(keep=14)
@pytest.mark.parametrize("name", [*CHAINS, *OTHERS])
def test_the_size_reaches_what_reads_it(name: str) -> None:
    """The whole as a call: the other direction, through all of it."""
    text = text_of((CHAINS | OTHERS)[name]).replace("ENTRY e", "whole")
    text += """
ENTRY e { p = f32[3,5] parameter(0) n = s32[] parameter(1) k = s32[] parameter(2)
  c = pred[] parameter(3) ROOT r = s32[] call(p, n, k, c), to_apply=whole }"""
    root, analysis = read(text).entry.root, Analysis()
    back = analysis.output_to_input(root)
    for k in range(4):
        forth = analysis.input_to_output(root, k)
        assert {a.precision for a in forth.get(0, ())} == {
            a.precision for a in back.get((k, 0), ())
        }


STABLEHLO = """func.func @main(%p: tensor<3x5xf32>, %n: tensor<i32>, %c: tensor<i1>)
    -> tensor<i32> {{
  %q = stablehlo.set_dimension_size %p, %n, dim = 1
      : (tensor<3x5xf32>, tensor<i32>) -> tensor<3x?xf32, #stablehlo.bounds<?, 5>>
  {lines}
  %r = stablehlo.get_dimension_size %v, dim = 1
      : (tensor<3x?xf32, #stablehlo.bounds<?, 5>>) -> tensor<i32>
  return %r : tensor<i32>
}}
func.func private @twice(%x: tensor<3x?xf32, #stablehlo.bounds<?, 5>>)
    -> tensor<3x?xf32, #stablehlo.bounds<?, 5>> {{
  %y = stablehlo.add %x, %x : tensor<3x?xf32, #stablehlo.bounds<?, 5>>
  return %y : tensor<3x?xf32, #stablehlo.bounds<?, 5>>
}}"""
TYPE = "tensor<3x?xf32, #stablehlo.bounds<?, 5>>"
IN_STABLEHLO = {
    "element-wise": f"%v = stablehlo.negate %q : {TYPE}",
    "call": f"%v = func.call @twice(%q) : ({TYPE}) -> {TYPE}",
    "transpose": f"""%w = stablehlo.transpose %q, dims = [1, 0]
      : ({TYPE}) -> tensor<?x3xf32, #stablehlo.bounds<5, ?>>
      %v = stablehlo.transpose %w, dims = [1, 0]
      : (tensor<?x3xf32, #stablehlo.bounds<5, ?>>) -> {TYPE}""",
    "if": f"""%v = "stablehlo.if"(%c) ({{
        %a = stablehlo.negate %q : {TYPE}
        stablehlo.return %a : {TYPE}
      }}, {{
        stablehlo.return %q : {TYPE}
      }}) : (tensor<i1>) -> {TYPE}""",
    "loop": f"""%v = stablehlo.while(%a = %q) : {TYPE} cond {{
        stablehlo.return %c : tensor<i1>
      }} do {{
        stablehlo.return %a : {TYPE}
      }}""",
    "barrier": f"%v, %w = stablehlo.optimization_barrier %q, %n : {TYPE}, tensor<i32>",
}


@pytest.mark.parametrize("name", IN_STABLEHLO)
def test_bounded_sizes_of_stablehlo_are_the_same(name: str) -> None:
    read_of = parameters_read(read(STABLEHLO.format(lines=IN_STABLEHLO[name])))
    assert set(read_of) == ({"n", "c"} if name == "if" else {"n"})
    assert all(access.precision is Precision.EXACT for access in read_of["n"])


def test_a_size_that_a_type_of_the_way_declares_is_not_followed() -> None:
    lines = """%v = "stablehlo.if"(%c) ({
        %a = stablehlo.abs %p : tensor<3x5xf32>
        stablehlo.return %a : tensor<3x5xf32>
      }, {
        stablehlo.return %q : TYPE
      }) : (tensor<i1>) -> TYPE""".replace("TYPE", TYPE)
    read_of = parameters_read(read(STABLEHLO.format(lines=lines)))
    assert {a.precision for accesses in read_of.values() for a in accesses} == {Precision.UNKNOWN}


def test_the_size_of_a_parameter_is_its_own() -> None:
    text = "HloModule m ENTRY e { p = f32[<=5] parameter(0) "
    text += "ROOT r = s32[] get-dimension-size(p), dimensions={0} }"
    assert parameters_read(read(text)) == {}
