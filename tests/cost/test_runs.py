"""How often computations run: products, sums over turns, branches, what is not known."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.cost import Place, loops_of, running
from hloscope.cost.runs import MOST_RUNS
from hloscope.ir import Module

BODY = "p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0 "
BODY += "x = f32[4] get-tuple-element(p), index=1 k = s32[] constant(1) j = s32[] add(i, k) "
STATE = "(s32[], f32[4])"


def body(name: str, inside: str = "y = f32[4] sine(x)") -> str:
    return f"{name} {{ {BODY} {inside} ROOT t = {STATE} tuple(j, y) }}\n"


def condition(name: str, limit: int) -> str:
    return (
        f"{name} {{ p = {STATE} parameter(0) i = s32[] get-tuple-element(p), index=0 "
        f"n = s32[] constant({limit}) ROOT c = pred[] compare(i, n), direction=LT }}\n"
    )


def loop(inner: str, x: str = "x", out: str = "y") -> str:
    """Instructions that run the loop of `b<inner>` and `c<inner>`."""
    return (
        f"z{out} = s32[] constant(0) t{out} = {STATE} tuple(z{out}, {x}) "
        f"w{out} = {STATE} while(t{out}), condition=c{inner}, body=b{inner} "
        f"{out} = f32[4] get-tuple-element(w{out}), index=1"
    )


def entry(inside: str) -> str:
    return f"ENTRY e {{ x = f32[4] parameter(0) {inside} ROOT r = f32[4] copy(y) }}\n"


def module(*parts: str) -> Module:
    return hs.read("HloModule m\n" + "".join(parts)).module


def places(*parts: str) -> dict[str, Place]:
    return {place.computation.name: place for place in running(module(*parts))}


def test_runs_multiply_through_loops_and_a_condition_runs_once_more() -> None:
    found = places(body("b0"), condition("c0", 3), body("b1", loop("0")), condition("c1", 5),
                   entry(loop("1")))  # fmt: skip
    times = {name: (p.times, p.low, p.high) for name, p in found.items()}
    assert times == {"e": (1, 1, 1), "b1": (5, 5, 5), "c1": (6, 6, 6), "b0": (15, 15, 15),
                     "c0": (20, 20, 20)}  # fmt: skip
    assert not any(place.notes for place in found.values())


def test_callers_come_first() -> None:
    order = [*places(body("b0"), condition("c0", 3), body("b1", loop("0")), condition("c1", 5),
                     entry(loop("1")))]  # fmt: skip
    assert order[0] == "e"
    assert order.index("b1") < order.index("b0")


def test_calls_from_several_places_add_up() -> None:
    function = "f { x = f32[4] parameter(0) ROOT s = f32[4] sine(x) }\n"
    call = "a = f32[4] call(x), to_apply=f y = f32[4] call(a), to_apply=f"
    found = places(function, body("b0", call), condition("c0", 3),
                   entry("x1 = f32[4] call(x), to_apply=f " + loop("0", x="x1")))  # fmt: skip
    assert found["f"].times == found["f"].low == found["f"].high == 1 + 2 * 3


def test_a_triangle_is_a_sum_over_turns() -> None:
    # The inner loop starts at the outer counter and ends at 5: 5 + 4 + 3 + 2 + 1.
    inner = loop("0").replace("tuple(zy,", "tuple(i,")
    parts = (body("b0"), condition("c0", 5), body("b1", inner), condition("c1", 5),
             entry(loop("1")))  # fmt: skip
    found = places(*parts)
    assert (found["b0"].times, found["b0"].low, found["b0"].high) == (15, 15, 15)
    assert found["c0"].times == 15 + 5
    assert not found["b0"].notes
    inner_loop = loops_of(module(*parts))[1]
    trip = inner_loop.trip_count
    assert (trip.count, trip.low, trip.high, trip.origin) == (None, 1, 5, "program")
    assert (inner_loop.entered.times, inner_loop.turns.times) == (5, 15)


def test_a_function_that_is_called_with_several_limits_turns_as_often_as_their_sum() -> None:
    text = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = stablehlo.constant dense<3> : tensor<i32>
  %b = stablehlo.constant dense<7> : tensor<i32>
  %0 = func.call @f(%x, %a) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  %1 = func.call @f(%0, %b) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %w:2 = stablehlo.while(%i = %z, %y = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %k : tensor<i32>
    %s = stablehlo.sine %y : tensor<4xf32>
    stablehlo.return %j, %s : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}"""
    (only,) = loops_of(hs.read(text).module)
    assert (only.trip_count.count, only.trip_count.low, only.trip_count.high) == (None, 3, 7)
    assert (only.turns.times, only.turns.low, only.turns.high) == (10, 10, 10)


SINE = "s { x = f32[4] parameter(0) ROOT r = f32[4] sine(x) }\n"
COSINE = "c { x = f32[4] parameter(0) ROOT r = f32[4] cosine(x) }\n"
CHOICE = "y = f32[4] conditional({}, x, x), true_computation=s, false_computation=c"


def test_one_of_several_branches_runs() -> None:
    text = entry("q = pred[] parameter(1) " + CHOICE.format("q"))
    found = places(SINE, COSINE, text)
    for name, index in (("s", 0), ("c", 1)):
        place = found[name]
        assert (place.times, place.low, place.high) == (1, 0, 1)
        assert place.branch is not None
        assert (place.branch[0].name, place.branch[1]) == ("y", index)
        assert place.notes == (
            "`y`: one of several branches runs: the one that moves most bytes is counted",
        )
    assert found["e"].branch is None


def test_a_branch_that_the_counter_chooses_runs_as_often_as_it_is_chosen() -> None:
    chosen = "last = s32[] constant(4) q = pred[] compare(i, last), direction=EQ "
    found = places(SINE, COSINE, body("b0", chosen + CHOICE.format("q")), condition("c0", 5),
                   entry(loop("0")))  # fmt: skip
    for name, times in (("s", 1), ("c", 4)):
        place = found[name]
        assert (place.times, place.low, place.high) == (times, times, times)
        assert (place.branch, place.notes) == (None, ())


def test_a_loop_in_a_branch_is_known_by_the_branch_around_it() -> None:
    branch = f"s {{ x = f32[4] parameter(0) {loop('0')} ROOT r = f32[4] copy(y) }}\n"
    text = entry("q = pred[] parameter(1) " + CHOICE.format("q"))
    found = places(body("b0"), condition("c0", 3), branch, COSINE, text)["b0"]
    assert (found.times, found.low, found.high) == (3, 0, 3)
    assert found.branch is None
    assert [(ins.name, index) for ins, index in found.branches] == [("y", 0)]


def test_a_computation_that_is_every_branch_runs_for_certain() -> None:
    text = entry("q = pred[] parameter(1) y = f32[4] conditional(q, x, x), "
                 "true_computation=s, false_computation=s")  # fmt: skip
    place = places(SINE, text)["s"]
    assert (place.times, place.low, place.high, place.branch) == (1, 1, 1, None)


DATA = "c0 { p = (s32[], f32[4]) parameter(0) x = f32[4] get-tuple-element(p), index=1 "
DATA += "o = f32[1] slice(x), slice={[0:1]} s = f32[] reshape(o) h = f32[] constant(0.5) "
DATA += "ROOT c = pred[] compare(s, h), direction=GT }\n"


def test_a_loop_that_waits_for_data_is_counted_once_and_named() -> None:
    found = places(body("b0"), DATA, body("b1", loop("0")), condition("c1", 5), entry(loop("1")))
    place = found["b0"]
    assert (place.times, place.low, place.high) == (5, 0, None)
    (note,) = place.notes
    assert note.startswith("`wy`: how often it runs is not known, ")
    assert note.endswith(": counted once")
    assert (found["c0"].times, found["c0"].low, found["c0"].high) == (10, 5, None)


@pytest.mark.parametrize(
    ("annotation", "times", "low", "high"),
    [("", 1, 0, None), (', backend_config={"known_trip_count":{"n":"5"}}', 5, 5, 5)],
)
def test_a_loop_that_cannot_be_followed_runs_as_annotated(
    annotation: str, times: int, low: int, high: int | None
) -> None:
    """The limit is a parameter of both regions for which the loop has no operand."""
    head = "p = (s32[]) parameter(0) n = s32[] parameter(1) i = s32[] get-tuple-element(p), index=0"
    found = module(
        f"b {{ {head} j = s32[] add(i, n) ROOT t = (s32[]) tuple(j) }}\n",
        f"c {{ {head} ROOT r = pred[] compare(i, n), direction=LT }}\n",
        "ENTRY e { z = s32[] constant(0) t = (s32[]) tuple(z) "
        f"ROOT w = (s32[]) while(t), condition=c, body=b{annotation} }}",
    )
    reason = "it has no condition and body that can be followed"
    for place in running(found):
        if place.computation.name != "e":
            assert (place.times, place.low, place.high) == (times, low, high)
            assert (reason in "".join(place.notes)) is (not annotation)
    [use] = loops_of(found)
    assert use.trip_count.reason == reason
    assert use.turns == (times, low, high)


@pytest.mark.parametrize("outer", [0, 2])
def test_a_loop_without_operands_runs_any_number_of_times(outer: int) -> None:
    """Each call enters the loop once; a call that never runs does not enter it."""
    text = """func.func @main(%p: tensor<i1>) {
      CALLS
      return
    }
    func.func @f(%p: tensor<i1>) {
      "stablehlo.while"() ({ "stablehlo.return"(%p) : (tensor<i1>) -> () },
        { "stablehlo.return"() : () -> () }) : () -> ()
      return
    }""".replace("CALLS", "func.call @f(%p) : (tensor<i1>) -> ()\n" * outer)
    for place in running(hs.read(text).module):
        if "while" in place.computation.name:
            assert (place.times, place.low, place.high) == (outer, 0, None)


def test_what_is_never_reached_is_there_with_no_runs() -> None:
    found = places(body("b0"), condition("c0", 3), body("b1", loop("0")), condition("c1", 0),
                   entry(loop("1")))  # fmt: skip
    assert [(found[n].times, found[n].high) for n in ("b1", "b0", "c0")] == [(0, 0)] * 3
    assert found["c1"].times == 1


def test_what_calls_itself_ends_with_a_note() -> None:
    text = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}"""
    outer, inner = running(hs.read(text).module)
    assert (outer.times, outer.high, outer.notes) == (1, 1, ())
    assert (inner.times, inner.low, inner.high) == (1, 1, None)
    assert inner.notes == ("`f` calls itself: counted without that call",)


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("depth", [70, 500])
def test_loops_may_be_nested_deep(depth: int) -> None:
    parts = [body("b0"), condition("c0", 2)]
    for k in range(1, depth):
        parts += [body(f"b{k}", loop(str(k - 1))), condition(f"c{k}", 2)]
    found = places(*parts, entry(loop(str(depth - 1))))
    assert found["b10"].times == min(2 ** (depth - 10), MOST_RUNS)
    assert found["b0"].times == found["b0"].low == found["b0"].high == MOST_RUNS
    assert any("more than" in note for note in found["b0"].notes)


@pytest.mark.slow
def test_a_thousand_loops_are_counted_each() -> None:
    count = 1000
    parts = []
    for k in range(count):
        parts += [body(f"b{k}"), condition(f"c{k}", k)]
    chain = [loop(str(k), x=f"x{k}", out=f"x{k + 1}") for k in range(count)]
    text = (
        f"ENTRY e {{ x0 = f32[4] parameter(0) {' '.join(chain)} ROOT r = f32[4] copy(x{count}) }}"
    )
    loops = loops_of(module(*parts, text))
    assert [found.turns.times for found in loops] == [*range(count)]


def test_states_past_a_limit_become_bounds() -> None:
    # 5,000 turns, each with another start of the inner loop: more than are told apart.
    inner = loop("0").replace("tuple(zy,", "tuple(i,")
    found = places(body("b0"), condition("c0", 5000), body("b1", inner), condition("c1", 5000),
                   entry(loop("1")))  # fmt: skip
    place = found["b0"]
    assert place.low <= 5000 * 5001 // 2
    assert place.high is None or place.high >= 5000 * 5001 // 2
    assert place.notes


def test_very_many_values_of_an_input_are_merged_into_their_bounds() -> None:
    """The limit of the inner loop has 4900 values, more than are listed."""
    (*_, inner) = loops_of(
        hs.read("""
      less { s = (s32[], s32[]) parameter(0) k = s32[] get-tuple-element(s), index=0
        n = s32[] get-tuple-element(s), index=1 ROOT c = pred[] compare(k, n), direction=LT }
      count { s = (s32[], s32[]) parameter(0) k = s32[] get-tuple-element(s), index=0
        n = s32[] get-tuple-element(s), index=1 one = s32[] constant(1) next = s32[] add(k, one)
        ROOT t = (s32[], s32[]) tuple(next, n) }
      below { s = (s32[], s32[]) parameter(0) j = s32[] get-tuple-element(s), index=0
        n = s32[] constant(70) ROOT c = pred[] compare(j, n), direction=LT }
      middle { s = (s32[], s32[]) parameter(0) j = s32[] get-tuple-element(s), index=0
        i = s32[] get-tuple-element(s), index=1 n = s32[] constant(70) r = s32[] multiply(i, n)
        limit = s32[] add(r, j) zero = s32[] constant(0) a = (s32[], s32[]) tuple(zero, limit)
        w = (s32[], s32[]) while(a), condition=less, body=count
        one = s32[] constant(1) next = s32[] add(j, one) ROOT t = (s32[], s32[]) tuple(next, i) }
      outer { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
        x = s32[] get-tuple-element(s), index=1 zero = s32[] constant(0)
        a = (s32[], s32[]) tuple(zero, i)
        w = (s32[], s32[]) while(a), condition=below, body=middle
        one = s32[] constant(1) next = s32[] add(i, one) ROOT t = (s32[], s32[]) tuple(next, x) }
      ENTRY e { zero = s32[] constant(0) a = (s32[], s32[]) tuple(zero, zero)
        ROOT w = (s32[], s32[]) while(a), condition=below, body=outer }""").module
    )
    assert (inner.trip_count.low, inner.trip_count.high) == (0, 4899)
    assert inner.turns.high is not None
    assert inner.turns.low <= sum(range(4900)) <= inner.turns.high
