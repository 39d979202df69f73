"""Arrays are overwritten only where the plan knows that nothing reads them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter import World, call, evaluate, registry
from hloscope.interpreter.ops import slicing
from hloscope.interpreter.plan import Plan, Plans
from hloscope.interpreter.registry import FRESH, Kernel, Moving, Refusal, Writing
from hloscope.interpreter.reuse import is_fresh
from hloscope.ir import Instruction, Module
from hloscope.ops import ELEMENTWISE
from hloscope.stablehlo import parse_stablehlo
from hloscope.support.walks import nested
from tests.agreement.execution import KINDS, Runner, drawn
from tests.generator import generate, hlo_text, options_of, stablehlo_text
from tests.interpreter.ops import COMPLEX, FLOATS, INTEGERS, apply, array

TYPE = "tensor<8x4xf32>"
ROW = "tensor<1x4xf32>"
INDEX = "tensor<i32>, tensor<i32>"
X = np.arange(32, dtype=np.float32).reshape(8, 4)
TURNS = 5
ATTRIBUTES = {
    "chlo.constant_like": "value = 1.0 : f32",
    "compare": "comparison_direction = #stablehlo<comparison_direction EQ>",
}
"""Attributes without which an op is not evaluated."""
ONLY_HLO = {"stochastic_convert"}


registry.load_families()  # they say which ops are `FRESH`


def arrays(values: Any) -> list[Any]:
    """The arrays in nested tuples of values."""
    parts = nested([values], lambda v: v if isinstance(v, tuple) else ())
    return [part for part in parts if isinstance(part, np.ndarray)]


def without_reuse(module: Module, arguments: list[Any]) -> list[Any]:
    """The arrays that a program returns if every value is watched, which allows no reuse."""
    kept: list[Any] = []
    world = World(watch=lambda _, value: kept.extend(arrays(value)))
    return arrays(evaluate(module, arguments, world))


def same(found: list[Any], expected: list[Any]) -> bool:
    return [x.tobytes() for x in found] == [x.tobytes() for x in expected]


@pytest.fixture(autouse=True)
def small_arrays_are_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_LARGE", 0)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Numbers of updated arrays that are copied, and of those that are overwritten in place."""
    counts: Counter[str] = Counter()

    def counting(plain: Kernel, into: Kernel) -> Writing:
        def plainly(*values: Any) -> Any:
            counts["copied"] += 1
            return plain(*values)

        def inside(*values: Any) -> Any:
            counts["in place"] += 1
            return into(*values)

        return Writing(plainly, inside)

    monkeypatch.setattr(slicing, "Writing", counting)
    return counts


def update(name: str, of: str, row: str = "%row", at: str = "%ir") -> str:
    """One row of an array is replaced."""
    return (
        f"%{name} = stablehlo.dynamic_update_slice {of}, {row}, {at}, %z"
        f" : ({TYPE}, {ROW}, {INDEX}) -> {TYPE}"
    )


def look(name: str, of: str, at: str = "%ir") -> str:
    """One row of an array, which is a view of it."""
    return (
        f"%{name} = stablehlo.dynamic_slice {of}, {at}, %z, sizes = [1, 4]"
        f" : ({TYPE}, {INDEX}) -> {ROW}"
    )


def loop(name: str, state: dict[str, str], body: list[str], gives: list[str]) -> str:
    """A loop of `TURNS` iterations over arrays `state`, by name with the value it begins with."""
    types = ", ".join(["tensor<i32>", *[TYPE] * len(state)])
    carried = ", ".join([f"%i{name} = %z", *[f"{k} = {v}" for k, v in state.items()]])
    lines = "\n".join(body)
    return f"""
      %{name}:{len(state) + 1} = stablehlo.while({carried}) : {types}
      cond {{
        %c{name} = stablehlo.compare LT, %i{name}, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c{name} : tensor<i1>
      }} do {{
        {lines}
        %next{name} = stablehlo.add %i{name}, %o : tensor<i32>
        stablehlo.return %next{name}, {", ".join(gives)} : {types}
      }}"""


def program(lines: list[str], gives: list[str]) -> str:
    """A function of two arrays that returns arrays."""
    text = "\n".join(lines)
    return f"""
    func.func private @set(%a: {TYPE}, %row: {ROW}, %ir: tensor<i32>) -> {TYPE} {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      {update("b", "%a")}
      return %b : {TYPE}
    }}
    func.func @main(%x: {TYPE}, %y: {TYPE}) -> ({", ".join([TYPE] * len(gives))}) {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      %o = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<{TURNS}> : tensor<i32>
      %k = stablehlo.constant dense<3.0> : {TYPE}
      %row = stablehlo.constant dense<7.0> : {ROW}
      {text}
      return {", ".join(gives)} : {", ".join([TYPE] * len(gives))}
    }}"""


CALL = f"func.call @set(%s, %row, %ir) : ({TYPE}, {ROW}, tensor<i32>) -> {TYPE}"
CHOOSE = f"""
  %choice = stablehlo.remainder %ir, %o : tensor<i32>
  %new = "stablehlo.case"(%choice) ({{
    {update("u", "%s")}
    stablehlo.return %u : {TYPE}
  }}, {{
    stablehlo.return %s : {TYPE}
  }}) : (tensor<i32>) -> {TYPE}"""
ADD_ROW = [look("v", "%s"), f"%w = stablehlo.add %v, %row : {ROW}", update("new", "%s", "%w")]

LOOPS = {
    "an argument": ([loop("r", {"%s": "%x"}, [update("new", "%s")], ["%new"])], ["%r#1"], 0, 5),
    "a constant": ([loop("r", {"%s": "%k"}, [update("new", "%s")], ["%new"])], ["%r#1"], 0, 5),
    "a call": ([loop("r", {"%s": "%x"}, [f"%new = {CALL}"], ["%new"])], ["%r#1"], 0, 5),
    "a row that is read before": (
        [loop("r", {"%s": "%x"}, ADD_ROW, ["%new"])], ["%r#1"], 0, 5,
    ),
    "arrays that change places": (
        [loop("r", {"%s": "%x", "%t": "%x"}, [update("new", "%s")], ["%t", "%new"])],
        ["%r#1", "%r#2"], 0, 5,
    ),
    "a loop in a loop": (
        [loop("r", {"%s": "%x"}, [
            loop("q", {"%t": "%s"}, [update("new", "%t", at="%iq")], ["%new"]),
            update("last", "%q#1"),
        ], ["%last"])],
        ["%r#1"], 0, 30,
    ),
    "a loop after one that only reads": (
        [loop("r", {"%s": "%x"}, [
            loop("q", {"%t": "%s", "%m": "%y"}, [f"%m2 = stablehlo.add %m, %t : {TYPE}"],
                 ["%t", "%m2"]),
            update("new", "%q#1"),
        ], ["%new"])],
        ["%r#1"], 0, 5,
    ),
    "a view that is read later": (
        [loop("r", {"%s": "%x", "%t": "%y"}, [
            look("v", "%s"), update("new", "%s"), update("other", "%t", "%v"),
        ], ["%new", "%other"])],
        ["%r#1", "%r#2"], 5, 5,
    ),
    "an array that stays in the state": (
        [loop("r", {"%s": "%x", "%t": "%x"}, [update("new", "%s")], ["%new", "%s"])],
        ["%r#1", "%r#2"], 5, 0,
    ),
    "an outer value": (
        [loop("r", {"%s": "%x"}, [update("new", "%y")], ["%new"])], ["%r#1"], 5, 0,
    ),
    "the same state each time": (
        [loop("r", {"%s": "%x", "%t": "%y"},
              [update("new", "%s"), f"%d = stablehlo.add %new, %t : {TYPE}"], ["%y", "%d"])],
        ["%r#1", "%r#2"], 5, 0,
    ),
    "a leaf of the state that becomes an outer value": (
        [loop("r", {"%s": "%x", "%t": "%y", "%u": "%x"},
              [update("new", "%s"), f"%d = stablehlo.add %new, %u : {TYPE}"], ["%t", "%y", "%d"])],
        ["%r#1", "%r#3"], 5, 0,
    ),
    "a new array that is in the state twice": (
        [loop("r", {"%s": "%x", "%t": "%y", "%u": "%x"},
              [update("new", "%s"), f"%d = stablehlo.add %u, %t : {TYPE}"],
              ["%new", "%new", "%d"])],
        ["%r#1", "%r#3"], 5, 0,
    ),
}  # fmt: skip
"""Programs with the numbers of updates that copy the array and that write in place."""


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_updates_in_place_what_it_owns(name: str, counted: Counter[str]) -> None:
    lines, gives, copied, in_place = LOOPS[name]
    module = parse_stablehlo(program(lines, gives))
    x, y = X.copy(), X[::-1].copy()
    found = arrays(evaluate(module, [x, y]))
    assert (counted["copied"], counted["in place"]) == (copied, in_place)
    assert np.array_equal(x, X)
    assert np.array_equal(y, X[::-1])
    assert same(found, without_reuse(module, [X, X[::-1].copy()]))


def test_without_large_arrays_nothing_is_overwritten_and_memory_is_not_analysed(
    counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, gives, *_ = LOOPS["a loop in a loop"]
    analysed: list[Plan] = []
    monkeypatch.setattr(Plans, "reuse", lambda _, plan: analysed.append(plan))
    for least, expected in ((X.nbytes + 1, (0, 0)), (X.nbytes, (30, 3))):
        counted.clear()
        monkeypatch.setattr(registry, "_LARGE", least)
        found = arrays(evaluate(parse_stablehlo(program(lines, gives)), [X, X]))
        assert (counted["copied"], len(analysed)) == expected
        assert np.array_equal(found[0][:TURNS], np.full((TURNS, 4), 7))


def test_a_branch_updates_in_place_what_the_loop_owns(counted: Counter[str]) -> None:
    """The branch of HLO gets the array as its operand."""
    text = """HloModule m
    set { p = (f32[8,4], s32[]) parameter(0)
      a = f32[8,4] get-tuple-element(p), index=0
      i = s32[] get-tuple-element(p), index=1
      z = s32[] constant(0)
      row = f32[1,4] constant({{7,7,7,7}})
      ROOT u = f32[8,4] dynamic-update-slice(a, row, i, z) }
    keep { p = (f32[8,4], s32[]) parameter(0)
      ROOT a = f32[8,4] get-tuple-element(p), index=0 }
    body { p = (s32[], f32[8,4]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      a = f32[8,4] get-tuple-element(p), index=1
      one = s32[] constant(1)
      t = (f32[8,4], s32[]) tuple(a, i)
      c = s32[] and(i, one)
      b = f32[8,4] conditional(c, t, t), branch_computations={set, keep}
      j = s32[] add(i, one)
      ROOT r = (s32[], f32[8,4]) tuple(j, b) }
    cond { p = (s32[], f32[8,4]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(6)
      ROOT c = pred[] compare(i, n), direction=LT }
    ENTRY e { x = f32[8,4] parameter(0)
      z = s32[] constant(0)
      s = (s32[], f32[8,4]) tuple(z, x)
      w = (s32[], f32[8,4]) while(s), condition=cond, body=body
      ROOT a = f32[8,4] get-tuple-element(w), index=1 }"""
    x = X.copy()
    module = parse_hlo(text)
    (found,) = arrays(evaluate(module, [x]))
    assert counted == {"in place": 3}
    assert np.array_equal(x, X)
    assert same([found], without_reuse(module, [X]))


NESTED = """HloModule m
cond { p = (s32[], (f32[8,4], f32[8,4]), f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], (f32[8,4], f32[8,4]), f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  both = (f32[8,4], f32[8,4]) get-tuple-element(p), index=1
  a = f32[8,4] get-tuple-element(both), index=0
  b = f32[8,4] get-tuple-element(both), index=1
  c = f32[8,4] get-tuple-element(p), index=2
  z = s32[] constant(0)
  one = s32[] constant(1)
  row = f32[1,4] constant({{7,7,7,7}})
  u = f32[8,4] dynamic-update-slice(b, row, i, z)
  d = f32[8,4] add(KEPT, a)
  j = s32[] add(i, one)
  new = (f32[8,4], f32[8,4]) tuple(a, u)
  ROOT r = (s32[], (f32[8,4], f32[8,4]), f32[8,4]) tuple(j, new, d) }
ENTRY e { x = f32[8,4] parameter(0)
  y = f32[8,4] parameter(1)
  z = s32[] constant(0)
  both = (f32[8,4], f32[8,4]) tuple(y, x)
  s = (s32[], (f32[8,4], f32[8,4]), f32[8,4]) tuple(z, both, y)
  ROOT w = (s32[], (f32[8,4], f32[8,4]), f32[8,4]) while(s), condition=cond, body=body }"""


@pytest.mark.parametrize(("kept", "in_place"), [("c", 5), ("b", 0)])
def test_arrays_in_nested_tuples_are_overwritten_if_nothing_reads_them_later(
    kept: str, in_place: int, counted: Counter[str]
) -> None:
    """The sum reads the array that is updated, or another one, after the update."""
    module = parse_hlo(NESTED.replace("KEPT", kept))
    x, y = X.copy(), X + 1
    found = arrays(evaluate(module, [x, y]))
    assert counted["in place"] == in_place
    assert same(found, without_reuse(module, [X, X + 1]))
    assert np.array_equal(x, X)
    assert np.array_equal(y, X + 1)


def test_a_captured_array_is_copied_by_a_branch(counted: Counter[str]) -> None:
    module = parse_stablehlo(program([loop("r", {"%s": "%x"}, [CHOOSE], ["%new"])], ["%r#1"]))
    found = arrays(evaluate(module, [X.copy(), X]))
    assert counted == {"copied": TURNS}
    assert same(found, without_reuse(module, [X, X]))


MIXED = """HloModule m
cond { p = (s32[], f32[8,4], bf16[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[8,4], bf16[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[8,4] get-tuple-element(p), index=1
  b = bf16[8] get-tuple-element(p), index=2
  z = s32[] constant(0)
  one = s32[] constant(1)
  row = f32[1,4] constant({{7,7,7,7}})
  u = f32[8,4] dynamic-update-slice(a, row, i, z)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8,4], bf16[8]) tuple(j, u, b) }
ENTRY e { x = f32[8,4] parameter(0)
  y = bf16[8] constant({1,2,3,4,5,6,7,8})
  z = s32[] constant(0)
  s = (s32[], f32[8,4], bf16[8]) tuple(z, x, y)
  w = (s32[], f32[8,4], bf16[8]) while(s), condition=cond, body=body
  ROOT a = f32[8,4] get-tuple-element(w), index=1 }"""


@pytest.mark.parametrize("limit", [None, 30])
def test_loops_of_several_types_and_near_the_limit_update_in_place(
    limit: int | None, counted: Counter[str]
) -> None:
    """Near the limit of steps the steps are counted one by one, and nothing is overwritten."""
    x = X.copy()
    world = World(max_steps=10_000)
    evaluate(parse_hlo(MIXED), [x], world)
    counted.clear()
    world = World(max_steps=world.steps if limit else None)
    (found,) = arrays(evaluate(parse_hlo(MIXED), [x], world))
    assert counted["in place"] >= 4
    assert counted.total() == 5
    assert np.array_equal(x, X)
    assert np.array_equal(found, np.concatenate([np.full((5, 4), 7), X[5:]]))


def test_a_loop_without_iterations_returns_what_the_caller_has() -> None:
    text = program([loop("r", {"%s": "%x"}, [update("new", "%s")], ["%new"])], ["%r#1", "%x"])
    module = parse_stablehlo(text.replace(f"dense<{TURNS}>", "dense<0>"))
    x = X.copy()
    assert all(np.array_equal(a, X) for a in arrays(evaluate(module, [x, x])))
    assert np.array_equal(x, X)
    first, second = call(module, [x, x])
    first[:] = 0
    assert np.array_equal(second, X)
    assert np.array_equal(x, X)


ALIASES = {
    "a view of an operand is read later": (
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         f"%v = stablehlo.transpose %a, dims = [1, 0] : ({TYPE}) -> tensor<4x8xf32>",
         update("b", "%a", at="%o"),
         f"%w = stablehlo.transpose %v, dims = [1, 0] : (tensor<4x8xf32>) -> {TYPE}"],
        ["%b", "%w"],
    ),
    "a view of a view is read later": (
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         f"%v = stablehlo.reshape %a : ({TYPE}) -> tensor<32xf32>",
         "%s = stablehlo.slice %v [0:4] : (tensor<32xf32>) -> tensor<4xf32>",
         update("b", "%a", at="%z"),
         f"%w = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<4xf32>) -> {TYPE}"],
        ["%b", "%w"],
    ),
    "an update is a view of its operand": (
        [f"%a = stablehlo.add %x, %y : {TYPE}", look("v", "%a", "%o"),
         update("b", "%a", "%v", "%z")],
        ["%b"],
    ),
    "an argument is returned twice": ([update("a", "%x", at="%z")], ["%x", "%a", "%x"]),
    "an array is in a state twice": (
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         loop("r", {"%s": "%a", "%t": "%a"}, [update("new", "%s")], ["%new", "%t"])],
        ["%r#1", "%r#2"],
    ),
    "the initial state is read after the loop": (
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         loop("r", {"%s": "%a"}, [update("new", "%s")], ["%new"]),
         f"%b = stablehlo.add %a, %r#1 : {TYPE}"],
        ["%b"],
    ),
    "the initial state is read by the condition and the body": (
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         loop("r", {"%s": "%a", "%t": "%y"},
              [update("new", "%s"), f"%b = stablehlo.add %t, %a : {TYPE}"], ["%new", "%b"])],
        ["%r#1", "%r#2"],
    ),
    "leaves of a state change places": (
        [f"%a = stablehlo.add %x, %y : {TYPE}", f"%b = stablehlo.add %y, %y : {TYPE}",
         loop("r", {"%s": "%a", "%t": "%b"}, [], ["%t", "%s"]), update("c", "%b", at="%z")],
        ["%c", "%r#1"],
    ),
    "the condition reads the initial state": (
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         loop("r", {"%s": "%a"}, [update("new", "%s")], ["%new"]).replace(
             "stablehlo.return %cr", """
               %p = stablehlo.slice %a [0:1, 0:1] : (tensor<8x4xf32>) -> tensor<1x1xf32>
               %q = stablehlo.reshape %p : (tensor<1x1xf32>) -> tensor<f32>
               %t = stablehlo.constant dense<3.0> : tensor<f32>
               %l = stablehlo.compare LT, %q, %t : (tensor<f32>, tensor<f32>) -> tensor<i1>
               %m = stablehlo.and %cr, %l : tensor<i1>
               stablehlo.return %m""")],
        ["%r#1"],
    ),
    "a scalar of the array is read later": (
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         "%p = stablehlo.slice %a [0:1, 1:2] : (" + TYPE + ") -> tensor<1x1xf32>",
         "%q = stablehlo.reshape %p : (tensor<1x1xf32>) -> tensor<f32>",
         update("b", "%a", at="%z"),
         f"%w = stablehlo.broadcast_in_dim %q, dims = [] : (tensor<f32>) -> {TYPE}"],
        ["%b", "%w"],
    ),
    "a result of a reduction is an operand": (
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         "%f = stablehlo.constant dense<0.0> : tensor<f32>",
         f"""%m = "stablehlo.reduce"(%a, %f) ({{ ^bb0(%l: tensor<f32>, %r: tensor<f32>):
               stablehlo.return %r : tensor<f32> }}) {{dimensions = array<i64>}}
               : ({TYPE}, tensor<f32>) -> {TYPE}""",
         update("b", "%a", at="%z")],
        ["%b", "%m"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIASES)
def test_an_array_that_is_read_later_is_not_overwritten(name: str) -> None:
    lines, gives = ALIASES[name]
    module = parse_stablehlo(program(lines, gives))
    x, y = X.copy(), X + 1
    for _ in range(2):
        found = arrays(evaluate(module, [x, y]))
        assert same(found, without_reuse(module, [X, X + 1]))
    assert np.array_equal(x, X)
    assert np.array_equal(y, X + 1)


def test_the_result_of_a_loop_without_iterations_is_its_initial_state() -> None:
    text = program(
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         loop("r", {"%s": "%a"}, [update("new", "%s")], ["%new"]), update("b", "%r#1", at="%o")],
        ["%b", "%a"],
    )  # fmt: skip
    module = parse_stablehlo(text.replace(f"dense<{TURNS}>", "dense<0>"))
    found = arrays(evaluate(module, [X, X]))
    assert np.array_equal(found[1], X + X)
    assert np.array_equal(found[0][2:], (X + X)[2:])


KEEPERS = {
    "a custom call": [f"%c = stablehlo.custom_call @keep(%a) : ({TYPE}) -> {TYPE}"],
    "a composite op": [
        f'%c = stablehlo.composite "a.b" %a {{decomposition = @kept}} : ({TYPE}) -> {TYPE}'
    ],
    "the body of a loop": [
        loop("q", {"%s": "%a"},
             [f"%c = stablehlo.custom_call @keep(%s) : ({TYPE}) -> {TYPE}"], ["%s"]),
    ],
    "a loop that reads an outer value": [
        loop("q", {"%s": "%y"},
             [f"%c = stablehlo.custom_call @keep(%a) : ({TYPE}) -> {TYPE}"], ["%c"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", KEEPERS)
def test_arrays_that_are_kept_elsewhere_are_not_overwritten(name: str) -> None:
    lines = [f"%a = stablehlo.add %x, %y : {TYPE}", *KEEPERS[name], update("b", "%a", at="%z")]
    kept: list[tuple[Any, Any]] = []

    def keep(x: Any) -> Any:
        kept.append((x, x.copy()))
        return x + 1

    text = f"""
    func.func private @kept(%a: {TYPE}) -> {TYPE} {{
      %0 = stablehlo.custom_call @keep(%a) : ({TYPE}) -> {TYPE}
      return %0 : {TYPE}
    }}{program(lines, ["%b"])}"""
    call(parse_stablehlo(text), [X, X], custom_calls={"keep": keep})
    assert kept
    assert all(np.array_equal(now, then) for now, then in kept)


def test_an_array_that_a_branch_keeps_and_returns_is_not_overwritten() -> None:
    text = program(
        [f"""%a = "stablehlo.case"(%z) ({{
               %f = stablehlo.add %x, %y : {TYPE}
               %g = stablehlo.custom_call @keep(%f) : ({TYPE}) -> {TYPE}
               stablehlo.return %f : {TYPE}
             }}) : (tensor<i32>) -> {TYPE}""", update("b", "%a", at="%z")],
        ["%b"],
    )  # fmt: skip
    kept: list[tuple[Any, Any]] = []

    def keep(x: Any) -> Any:
        kept.append((x, x.copy()))
        return x + 1

    call(parse_stablehlo(text), [X, X], custom_calls={"keep": keep})
    assert len(kept) == 1
    assert all(np.array_equal(now, then) for now, then in kept)


def test_arrays_that_a_callback_gets_are_not_overwritten() -> None:
    """Neither those that it keeps, nor those that it returns, nor what was made of these."""
    text = program(
        [f"%a = stablehlo.add %x, %y : {TYPE}",
         f"%c = stablehlo.custom_call @keep(%a) : ({TYPE}) -> {TYPE}",
         update("b", "%a", at="%z"), update("d", "%c", at="%o"),
         loop("r", {"%s": "%d", "%t": "%b"}, [
             f"%u = stablehlo.custom_call @keep(%s) : ({TYPE}) -> {TYPE}",
             update("new", "%s"), update("other", "%t"),
             f"%e = stablehlo.custom_call @keep(%other) : ({TYPE}) -> {TYPE}",
         ], ["%new", "%other"])],
        ["%r#1", "%r#2"],
    )  # fmt: skip
    kept: list[tuple[Any, Any]] = []

    def keep(x: Any) -> Any:
        kept.append((x, x.copy()))
        return x + 1

    module = parse_stablehlo(text)
    call(module, [X, X], custom_calls={"keep": keep})
    assert len(kept) == 1 + 2 * TURNS
    assert all(np.array_equal(now, then) for now, then in kept)


def test_arrays_that_a_condition_hands_out_are_not_overwritten() -> None:
    text = """
    func.func @main(%x: tensor<8x4xf32>, %row: tensor<1x4xf32>) -> tensor<8x4xf32> {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %o = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = stablehlo.while(%i = %z, %s = %x) : tensor<i32>, tensor<8x4xf32>
      cond {
        %c = stablehlo.custom_call @goes_on(%s, %i) : (tensor<8x4xf32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %new = stablehlo.dynamic_update_slice %s, %row, %i, %z
          : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
        %j = stablehlo.add %i, %o : tensor<i32>
        stablehlo.return %j, %new : tensor<i32>, tensor<8x4xf32>
      }
      return %r#1 : tensor<8x4xf32>
    }"""
    kept: list[tuple[Any, Any]] = []

    def goes_on(x: Any, number: Any) -> Any:
        kept.append((x, x.copy()))
        return np.bool_(number < TURNS)

    call(parse_stablehlo(text), [X, X[:1]], custom_calls={"goes_on": goes_on})
    assert len(kept) == 1 + TURNS
    assert all(np.array_equal(now, then) for now, then in kept)


def test_results_stay_when_the_program_runs_again_in_several_threads() -> None:
    lines, gives, *_ = LOOPS["a loop in a loop"]
    module = parse_stablehlo(program(lines, gives))
    expected = {k: without_reuse(module, [X + k, X]) for k in range(4)}

    def run(number: int) -> tuple[int, list[Any]]:
        return number % 4, arrays(evaluate(module, [X + number % 4, X]))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(40)))
    assert all(same(values, expected[k]) for k, values in found)


# ------------------------------------------------------------------------------ random programs


LANGUAGES: Any = {"hlo": (hlo_text, parse_hlo), "mlir": (stablehlo_text, parse_stablehlo)}


def drawn_programs(language: str, number: int) -> Iterator[tuple[int, Runner, list[Any]]]:
    """Random programs of one process, each with its seed and random arrays to run it with."""
    spell, parse = LANGUAGES[language]
    for seed in range(number):
        options = options_of(seed, language)
        if options.replicas == 1:
            runner, rng = Runner(parse(spell(generate(seed, options)))), np.random.default_rng(seed)
            yield seed, runner, [drawn(rng, t, KINDS[seed % 4]) for t in runner.inputs]


@pytest.mark.parametrize("language", LANGUAGES)
def test_random_programs_compute_the_same_with_and_without_reuse(language: str, full: bool) -> None:
    for seed, runner, leaves in drawn_programs(language, 2000 if full else 150):
        before = [x.tobytes() for x in leaves]
        (found,) = runner.run([leaves])
        values = [x.tobytes() for x in found]
        (expected,) = runner.run([leaves], lambda *_: None)
        assert values == [x.tobytes() for x in expected], f"seed {seed}"
        assert before == [x.tobytes() for x in leaves], f"seed {seed}"
        runner.run([[x + x for x in leaves]])
        assert values == [x.tobytes() for x in found], f"seed {seed}"


def checked(made: Kernel, ins: Instruction) -> Kernel:
    """The kernel, which fails if its value shares memory that it was said not to share."""

    def run(*values: Any) -> Any:
        regions, operands = (values[0], values[1:]) if ins.calls else ((), values)
        given = arrays((operands, *[region.outer for region in regions]))
        result = made(*values)
        for value in arrays(result):
            others = [x for x in given if x.ndim and np.may_share_memory(x, value)]
            assert not others or (value.ndim and not is_fresh(ins)), ins
        return result

    return run


@pytest.fixture
def checks_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is checked."""
    make = Plan._kernel

    def kernel(plan: Plan, ins: Instruction) -> Kernel | None:
        made = make(plan, ins)
        if made is None or isinstance(made, Moving | Refusal):
            return made
        if isinstance(made, Writing):
            return Writing(checked(made.plain, ins), made.into)
        return checked(made, ins)

    monkeypatch.setattr(Plan, "_kernel", kernel)


@pytest.mark.usefixtures("checks_kernels")
@pytest.mark.parametrize("language", LANGUAGES)
def test_values_in_new_memory_share_none(language: str, full: bool) -> None:
    for _, runner, leaves in drawn_programs(language, 1000 if full else 100):
        runner.run([leaves])


@pytest.mark.usefixtures("checks_kernels")
@pytest.mark.parametrize(
    "name", sorted({name for name, cls in ELEMENTWISE.items() if cls in FRESH} - ONLY_HLO)
)
def test_elementwise_values_share_no_memory(name: str) -> None:
    """For each type of elements, and as many operands as the op takes."""
    cls, runs = ELEMENTWISE[name], 0
    for spelling in (*FLOATS, *INTEGERS, *COMPLEX, "i1"):
        operands = [array([1, 0, 1], spelling) for _ in range(cls.arity)]
        result = {"pred": "i1", "complex": f"complex<{spelling}>"}
        with suppress(HloscopeError, KeyError):
            apply(
                "chlo.erf" if name == "erf" else name,
                *operands,
                result=result.get(cls.result, ""),
                attributes=ATTRIBUTES.get(name, ""),
            )
            runs += 1
    assert runs


@pytest.mark.usefixtures("checks_kernels")
@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, *COMPLEX, "i1"])
def test_conversions_to_other_types_share_no_memory(target: str) -> None:
    for source in (*FLOATS, *INTEGERS, *COMPLEX, "i1"):
        apply("convert", array([1, 0, 1], source), result=target)


@pytest.mark.usefixtures("checks_kernels")
def test_a_stochastic_conversion_shares_no_memory() -> None:
    text = """HloModule m
    ENTRY e { x = f32[3] parameter(0)
      r = u32[3] parameter(1)
      ROOT s = f32[3] stochastic-convert(x, r) }"""
    evaluate(parse_hlo(text), [np.ones(3, np.float32), np.ones(3, np.uint32)])
