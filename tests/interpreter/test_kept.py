"""Plans are made once and kept; arrays are written to only where nobody else holds them."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter import EvaluationError, World, call, evaluate
from hloscope.interpreter.plan import Plan
from hloscope.stablehlo import parse_stablehlo

LOOP = """
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = func.call @double(%s) : (tensor<4xf32>) -> tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %d : tensor<i32>, tensor<4xf32>
  }
  return %r#1, %r#0 : tensor<4xf32>, tensor<i32>
}
"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the computations of which plans are made."""
    names: list[str] = []
    make = Plan.__init__

    def counted(plan: Plan, computation: Any, *rest: Any) -> None:
        names.append(computation.name)
        make(plan, computation, *rest)

    monkeypatch.setattr(Plan, "__init__", counted)
    return names


def test_a_second_call_makes_no_plan(made: list[str]) -> None:
    module = parse_stablehlo(LOOP)
    for turns in (3, 5, 0):
        found, _ = evaluate(module, [X, np.int32(turns)])
        assert np.array_equal(np.asarray(found), X * 2**turns)
        assert len(made) == 4  # main, condition, body, function
    world = World(custom_calls={"own": lambda: None})
    evaluate(module, [X, np.int32(1)], world)
    assert len(made) == 8


def test_kernels_are_made_anew_for_other_limits_and_watchers(made: list[str]) -> None:
    module = parse_stablehlo(LOOP)
    seen: list[str] = []
    watched = World(watch=lambda ins, value: seen.append(ins.name))
    for world in [World(), watched, World(max_flops=100)] * 2:
        before = len(seen)
        found, _ = evaluate(module, [X, np.int32(2)], world)
        assert np.array_equal(np.asarray(found), X * 4)
        assert (len(seen) > before) == (world is watched)
    assert len(made) == 12
    for _ in range(2):
        with pytest.raises(EvaluationError, match="at most 8 are allowed"):
            evaluate(module, [X, np.int32(2)], World(max_bytes=8))


def test_steps_are_counted_alike_by_kept_plans_and_when_watched() -> None:
    module = parse_stablehlo(LOOP)
    counts = []
    for watch in (None, None, lambda *_: None):
        world = World(watch=watch)
        evaluate(module, [X, np.int32(7)], world)
        counts.append(world.steps)
    assert len(set(counts)) == 1
    for limit in range(counts[0] - 12, counts[0] + 1):
        world = World(max_steps=limit)
        if limit == counts[0]:
            evaluate(module, [X, np.int32(7)], world)
        else:
            with pytest.raises(EvaluationError, match=f"stopped after {limit} steps"):
                evaluate(module, [X, np.int32(7)], world)


@pytest.mark.slow
def test_what_a_run_was_given_is_not_kept() -> None:
    class Watch:
        def __call__(self, *_: object) -> None: ...

    module, watch = parse_stablehlo(LOOP), Watch()
    held = np.ones(4, np.float32)
    gone = [weakref.ref(watch), weakref.ref(held)]
    evaluate(module, [held, np.int32(2)], World(watch=watch))
    evaluate(module, [held, np.int32(2)], World(extra={"x": held}))
    del watch, held
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    entry = weakref.ref(module.entry.body.cached_plans[0][1].plan)  # type: ignore[attr-defined]
    del module
    gc.collect()
    assert entry() is None


def test_threads_evaluate_the_same_program_at_the_same_time() -> None:
    module = parse_stablehlo(LOOP)

    def run(turns: int) -> bool:
        found, _ = evaluate(module, [X, np.int32(turns)])
        return np.array_equal(np.asarray(found), X * np.float32(2.0**turns))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, [k % 50 for k in range(400)]))


def test_a_program_evaluates_itself_within_a_call_of_its_own() -> None:
    module = parse_stablehlo(
        """
        func.func @main(%n: tensor<i32>) -> tensor<i32> {
          %0 = stablehlo.custom_call @again(%n) : (tensor<i32>) -> tensor<i32>
          %1 = stablehlo.add %0, %n : tensor<i32>
          return %1 : tensor<i32>
        }
        """
    )

    def again(n: Any) -> Any:
        return np.int32(0) if n == 0 else evaluate(module, [n - np.int32(1)], world())[0]

    def world() -> World:
        return World(custom_calls={"again": again})

    assert evaluate(module, [np.int32(5)], world()) == (15,)


# ------------------------------------------------------------------ programs that share memory

SIZES = (4, 6)
VALUES = 4
"""Arrays that a loop carries, all of `SIZES`."""
TYPE = f"tensor<{SIZES[0]}x{SIZES[1]}xf32>"
PART = "tensor<2x3xf32>"
STARTS = "tensor<i32>, tensor<i32>"


class Body:
    """The text of a loop's body, or of what it calls, value by value."""

    def __init__(self, draw: st.DrawFn, names: list[str], indices: list[str], prefix: str) -> None:
        self.draw, self.names, self.indices, self.prefix = draw, names, indices, prefix
        self.lines: list[str] = []

    def any(self) -> str:
        """One of the arrays."""
        return self.draw(st.sampled_from(self.names))

    def add(self, text: str) -> str:
        """A new value."""
        name = f"%{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def starts(self) -> str:
        """Two numbers to start at."""
        chosen = [self.draw(st.sampled_from(self.indices)) for _ in range(2)]
        return ", ".join(chosen)

    def step(self) -> None:
        """One more array, made of those there are."""
        kinds = [kind for kind in sorted(STEPS) if kind != "call" or self.prefix != "h"]
        kind = self.draw(st.sampled_from(kinds))
        self.names.append(STEPS[kind](self))


def _update(body: Body) -> str:
    x = body.any()
    part = body.add(
        f"stablehlo.dynamic_slice {body.any()}, {body.starts()}, sizes = [2, 3]"
        f" : ({TYPE}, {STARTS}) -> {PART}"
    )
    return body.add(
        f"stablehlo.dynamic_update_slice {x}, {part}, {body.starts()}"
        f" : ({TYPE}, {PART}, {STARTS}) -> {TYPE}"
    )


def _view(body: Body) -> str:
    flat = body.add(f"stablehlo.reshape {body.any()} : ({TYPE}) -> tensor<24xf32>")
    return body.add(f"stablehlo.reshape {flat} : (tensor<24xf32>) -> {TYPE}")


def _spread(body: Body) -> str:
    row = body.add(f"stablehlo.slice {body.any()} [1:2, 0:6] : ({TYPE}) -> tensor<1x6xf32>")
    return body.add(
        f"stablehlo.broadcast_in_dim {row}, dims = [0, 1] : (tensor<1x6xf32>) -> {TYPE}"
    )


def _turned(body: Body) -> str:
    turned = body.add(
        f"stablehlo.transpose {body.any()}, dims = [1, 0] : ({TYPE}) -> tensor<6x4xf32>"
    )
    return body.add(f"stablehlo.reshape {turned} : (tensor<6x4xf32>) -> {TYPE}")


def _chosen(body: Body) -> str:
    """A branch that reads from outside and updates what it reads."""
    x, y, starts = body.any(), body.any(), body.starts()
    index = body.draw(st.sampled_from(body.indices))
    name = f"%{body.prefix}{len(body.lines)}"
    body.lines.append(
        f'{name} = "stablehlo.case"({index}) ({{\n'
        f"  %{body.prefix}p = stablehlo.slice {y} [0:2, 0:3] : ({TYPE}) -> {PART}\n"
        f"  %{body.prefix}q = stablehlo.dynamic_update_slice {x}, %{body.prefix}p, {starts}"
        f" : ({TYPE}, {PART}, {STARTS}) -> {TYPE}\n"
        f"  stablehlo.return %{body.prefix}q : {TYPE}\n}}, {{\n"
        f"  stablehlo.return {y} : {TYPE}\n}}) : (tensor<i32>) -> {TYPE}"
    )
    return name


def _binary(body: Body) -> str:
    op = body.draw(st.sampled_from(["add", "subtract", "multiply", "maximum"]))
    return body.add(f"stablehlo.{op} {body.any()}, {body.any()} : {TYPE}")


STEPS = {
    "barrier": lambda b: b.add(f"stablehlo.optimization_barrier {b.any()} : {TYPE}"),
    "binary": _binary,
    "call": lambda b: b.add(
        f"func.call @helper({b.any()}, {b.any()}) : ({TYPE}, {TYPE}) -> {TYPE}"
    ),
    "case": _chosen,
    "spread": _spread,
    "turned": _turned,
    "unary": lambda b: b.add(f"stablehlo.negate {b.any()} : {TYPE}"),
    "update": _update,
    "view": _view,
}


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A loop over several arrays, which its body updates, looks at in other shapes and swaps."""
    helper = Body(draw, ["%a", "%b"], ["%z", "%o"], "h")
    for _ in range(draw(st.integers(1, 3))):
        helper.step()
    body = Body(draw, [f"%s{k}" for k in range(VALUES)] + ["%x", "%k"], ["%i", "%z", "%o"], "v")
    for _ in range(draw(st.integers(1, 8))):
        body.step()
    state = [body.any() for _ in range(VALUES)]
    first = [draw(st.sampled_from(["%x", "%y", "%k", "%k2"])) for _ in range(VALUES)]
    carried = ", ".join(f"%s{k} = {v}" for k, v in enumerate(first))
    types, named = ", ".join([TYPE] * VALUES), ", ".join(state)
    return f"""
    func.func private @helper(%a: {TYPE}, %b: {TYPE}) -> {TYPE} {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      %o = stablehlo.constant dense<1> : tensor<i32>
      {_joined(helper.lines)}
      return {helper.any()} : {TYPE}
    }}
    func.func @main(%x: {TYPE}, %y: {TYPE}) -> ({types}) {{
      %k = stablehlo.constant dense<2.0> : {TYPE}
      %k2 = stablehlo.add %k, %k : {TYPE}
      %z = stablehlo.constant dense<0> : tensor<i32>
      %o = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<4> : tensor<i32>
      %r:{VALUES + 1} = stablehlo.while(%i = %z, {carried}) : tensor<i32>, {types}
      cond {{
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        {_joined(body.lines)}
        %j = stablehlo.add %i, %o : tensor<i32>
        stablehlo.return %j, {named} : tensor<i32>, {types}
      }}
      return {", ".join(f"%r#{k + 1}" for k in range(VALUES))} : {types}
    }}
    """


def _joined(lines: list[str]) -> str:
    return "\n".join(lines)


@settings(deadline=None)
@given(programs(), st.booleans())
def test_in_place_is_as_copied_and_nothing_of_others_is_written_to(text: str, same: bool) -> None:
    module = parse_stablehlo(text)
    x = np.arange(24, dtype=np.float32).reshape(SIZES)
    y = x if same else x.T.reshape(SIZES)
    before = x.copy()
    copied = evaluate(module, [x, y], World(watch=lambda *_: None))
    for _ in range(2):  # the second time with the constants of the first
        found = evaluate(module, [x, y])
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, copied, strict=True))
        assert np.array_equal(x, before)
    kept = [np.array(a) for a in found]
    evaluate(module, [y, x])
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, kept, strict=True))


def test_changing_a_result_does_not_change_the_program() -> None:
    module = parse_stablehlo(
        """
        func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xi32>) {
          %0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
          %1 = stablehlo.add %0, %0 : tensor<3xf32>
          %2 = stablehlo.iota dim = 0 : tensor<3xi32>
          return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<3xi32>
        }
        """
    )
    x = np.zeros(3, np.float32)
    for _ in range(3):
        found = call(module, [x])
        assert [list(a) for a in found] == [[1, 2, 3], [2, 4, 6], [0, 1, 2]]
        for array in found:
            array[:] = 9
        for value in evaluate(module, [x]):
            array = np.asarray(value)
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 9


TUPLES = """HloModule m
cond { p = (s32[], f32[64,8], (f32[64,8], s32[])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  t = (f32[64,8], s32[]) get-tuple-element(p), index=2
  n = s32[] get-tuple-element(t), index=1
  ROOT c = pred[] compare(i, n), direction=LT }
fused { a = f32[64,8] parameter(0)
  b = s32[] parameter(1)
  z = s32[] constant(0)
  f = f32[] convert(b)
  u = f32[1,8] broadcast(f), dimensions={}
  ROOT t = f32[64,8] dynamic-update-slice(a, u, b, z) }
body { p = (s32[], f32[64,8], (f32[64,8], s32[])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  s = f32[64,8] get-tuple-element(p), index=1
  new = f32[64,8] fusion(s, i), kind=kLoop, calls=fused
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = (f32[64,8], s32[]) get-tuple-element(p), index=2
  ROOT r = (s32[], f32[64,8], (f32[64,8], s32[])) tuple(j, new, t) }
ENTRY e { x = f32[64,8] parameter(0)
  n = s32[] parameter(1)
  z = s32[] constant(0)
  inner = (f32[64,8], s32[]) tuple(x, n)
  t = (s32[], f32[64,8], (f32[64,8], s32[])) tuple(z, x, inner)
  w = (s32[], f32[64,8], (f32[64,8], s32[])) while(t), condition=cond, body=body
  u = (f32[64,8], s32[]) get-tuple-element(w), index=2
  a = f32[64,8] get-tuple-element(u), index=0
  b = f32[64,8] get-tuple-element(w), index=1
  ROOT r = (f32[64,8], f32[64,8]) tuple(a, b) }
"""


def test_parts_of_tuples_that_hold_the_same_array_are_apart() -> None:
    module = parse_hlo(TUPLES)
    x = np.zeros((64, 8), np.float32)
    (found,) = evaluate(module, [x, np.int32(64)])
    assert isinstance(found, tuple)
    first, second = (np.asarray(part) for part in found)
    assert not first.any()
    assert not x.any()
    assert np.array_equal(second, np.repeat(np.arange(64, dtype=np.float32), 8).reshape(64, 8))
