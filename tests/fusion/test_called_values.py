"""Each call of a function computes values of its own: what they decide is told apart."""

from __future__ import annotations

import re
from random import Random

import pytest

import hloscope
from hloscope.indexing import Accesses, Precision

BODIES = {
    # What is read is decided by values that the function computes of its arguments.
    "take": [
        "%k = stablehlo.negate %n : tensor<i32>",
        "%z = stablehlo.constant dense<0.0> : tensor<f32>",
        "%y = stablehlo.pad %x, %z, low = [0], high = [4], interior = [0]"
        " : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>",
        "%r = stablehlo.dynamic_slice %y, %k, sizes = [8]"
        " : (tensor<12xf32>, tensor<i32>) -> tensor<8xf32>",
    ],
    "turn": [
        "%k = stablehlo.abs %n : tensor<i32>",
        "%z = stablehlo.constant dense<0.0> : tensor<f32>",
        "%u = stablehlo.slice %x [1:4] : (tensor<8xf32>) -> tensor<3xf32>",
        "%y = stablehlo.reverse %x, dims = [0] : tensor<8xf32>",
        "%r = stablehlo.dynamic_update_slice %y, %u, %k"
        " : (tensor<8xf32>, tensor<3xf32>, tensor<i32>) -> tensor<8xf32>",
    ],
}
HEAD = "(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32>"
TYPES = "(tensor<8xf32>, tensor<i32>) -> tensor<8xf32>"


def function(name: str, lines: list[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"func.func private @{name}{HEAD} {{\n{body}\n  return %r : tensor<8xf32>\n}}\n"


class Program:
    """Calls of functions, in any order and of each other's results; and the same without calls."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.calls: list[str] = []
        self.inlined: list[str] = []
        values = ["%p", "%q"]
        for number in range(rng.randint(2, 4)):
            name, x, n = rng.choice([*BODIES]), rng.choice(values[-2:]), rng.choice(["%i", "%j"])
            self.calls.append(f"%c{number} = func.call @{name}({x}, {n}) : {TYPES}")
            self.inlined += _inlined(BODIES[name], number, x, n)
            values.append(f"%c{number}")
            if rng.random() < 0.5:
                other = rng.choice(values)
                line = f"%s{number} = stablehlo.add %c{number}, {other} : tensor<8xf32>"
                self.calls.append(line)
                self.inlined.append(line)
                values.append(f"%s{number}")
        self.root = values[-1]

    def text(self, lines: list[str]) -> str:
        arguments = "%p: tensor<8xf32>, %q: tensor<8xf32>, %i: tensor<i32>, %j: tensor<i32>"
        body = "\n".join(f"  {line}" for line in lines)
        functions = "".join(function(name, lines) for name, lines in BODIES.items())
        return (
            f"{functions}func.func @main({arguments}) -> tensor<8xf32> {{\n{body}\n"
            f"  return {self.root} : tensor<8xf32>\n}}\n"
        )


def _inlined(lines: list[str], number: int, x: str, n: str) -> list[str]:
    """The lines of a function with values named by the call: `%k` is `%k_c0`, the result `%c0`."""
    given = {"%x": x, "%n": n, "%r": f"%c{number}"}
    return [re.sub(r"%\w+", lambda m: given.get(m[0], f"{m[0]}_c{number}"), line) for line in lines]


Read = set[tuple[int, tuple[int, ...]]]


def read(accesses: Accesses, values: dict[str, int]) -> Read:
    """Which elements each output reads, if functions compute these values: `k in c0` is `k_c0`."""
    found: Read = set()
    for access in accesses:
        m = access.map
        assert m is not None
        assert access.precision is Precision.EXACT
        names = [v.origin.name.replace(" in ", "_") for v in m.runtime if v.origin is not None]
        given = [
            min(max(values.setdefault(name, sum(map(ord, name)) * 7 % 6), v.values.lo), v.values.hi)
            for name, v in zip(names, m.runtime, strict=True)
        ]
        found |= {(at, point) for at in range(8) for point in m.points((at,), given)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_a_program_of_calls_reads_what_it_reads_without_them(first: int, full: bool) -> None:
    runtime = 0
    for seed in range(first * (40 if full else 1), (first + 10) * (40 if full else 1)):
        program = Program(seed)
        answers = [
            hloscope.read(program.text(lines)).root.to_parameters()
            for lines in (program.calls, program.inlined)
        ]
        rng, values = Random(seed), dict[str, int]()
        for _ in range(4):
            called, inlined = ([read(o.accesses, values) for o in answer] for answer in answers)
            assert called == inlined, program.text(program.calls)
            values = {name: rng.randint(-1, 9) for name in values}
        runtime += len(values)
        for check in answers[0].prove().checks:
            assert not check.is_refuted, program.text(program.calls)
    assert runtime > 10


def test_functions_that_call_functions_compute_values_for_each_way() -> None:
    text = f"""{function("take", BODIES["take"])}
    func.func private @both{HEAD} {{
      %a = func.call @take(%x, %n) : {TYPES}
      %b = func.call @take(%a, %n) : {TYPES}
      return %b : tensor<8xf32>
    }}
    func.func @main(%p: tensor<8xf32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<8xf32> {{
      %c = func.call @both(%p, %i) : {TYPES}
      %d = func.call @both(%c, %j) : {TYPES}
      return %d : tensor<8xf32>
    }}"""
    (access,) = hloscope.read(text).root.to_parameters()[0].accesses
    assert access.map is not None
    origins = [v.origin for v in access.map.runtime]
    assert len({*origins}) == 4
    assert str(access.map.results[0]) == "d0 + rt0 + rt1 + rt2 + rt3"


def test_one_computation_for_both_branches_computes_other_values_in_each() -> None:
    text = """HloModule m
    branch { x = (f32[8], s32[]) parameter(0) v = f32[8] get-tuple-element(x), index=0
      n = s32[] get-tuple-element(x), index=1 k = s32[] negate(n)
      ROOT r = f32[4] dynamic-slice(v, k), dynamic_slice_sizes={4} }
    ENTRY e { p = f32[8] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
      c = pred[] parameter(3) s = (f32[8], s32[]) tuple(p, i) t = (f32[8], s32[]) tuple(p, j)
      ROOT r = f32[4] conditional(c, s, t), true_computation=branch, false_computation=branch }"""
    accesses = hloscope.read(text).root.to_parameters()[0].accesses
    assert len({v.origin for a in accesses if a.map is not None for v in a.map.runtime}) == 2


def tree(depth: int) -> str:
    """Each function calls the one below twice."""
    levels = [
        f"func.func private @f{k}{HEAD} {{\n  %a = func.call @f{k - 1}(%x, %n) : {TYPES}\n"
        f"  %r = func.call @f{k - 1}(%a, %n) : {TYPES}\n  return %r : tensor<8xf32>\n}}\n"
        for k in range(1, depth)
    ]
    return (
        function("f0", BODIES["take"])
        + "".join(levels)
        + "func.func @main(%p: tensor<8xf32>, %i: tensor<i32>) -> tensor<8xf32> {\n"
        f"  %r = func.call @f{depth - 1}(%p, %i) : {TYPES}\n  return %r : tensor<8xf32>\n}}\n"
    )


def test_values_that_double_with_each_call_have_an_answer() -> None:
    (access,) = hloscope.read(tree(4)).root.to_parameters()[0].accesses
    assert access.map is not None
    assert len({v.origin for v in access.map.runtime}) == 8
    (access,) = hloscope.read(tree(30)).root.to_parameters()[0].accesses
    assert access.precision is not Precision.EXACT
