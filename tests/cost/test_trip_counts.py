"""Trip counts: against true counts, against the interpreter, and before and after XLA's passes."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hloscope as hs
from hloscope.cost import LoopUse, TripCount, loop_trip_count, loops_of, trip_count
from hloscope.cost.trip_counts import first_iteration
from tests.conftest import SHARED
from tests.cost.loops import Loop, program, random_loop

CASES = SHARED / "conformance" / "cost"
MODELS = SHARED / "real" / "models"
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="the conformance data is not there")
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="the models are not there")
BOTH = pytest.mark.parametrize("is_hlo", [True, False], ids=["hlo", "stablehlo"])


def only(text: str) -> LoopUse:
    (loop,) = loops_of(hs.read(text).module)
    return loop


def plain(condition: str, *, update: str = "add(i, k)", start: str = "0", step: str = "1",
          type_: str = "s32", extra: str = "") -> str:  # fmt: skip
    """A loop of HLO over (counter, argument of the program)."""
    state = f"({type_}[], {type_}[])"
    return f"""HloModule m
body {{
  p = {state} parameter(0)
  i = {type_}[] get-tuple-element(p), index=0
  n = {type_}[] get-tuple-element(p), index=1
  k = {type_}[] constant({step})
  j = {type_}[] {update}
  ROOT t = {state} tuple(j, n)
}}
cond {{
  p = {state} parameter(0)
  i = {type_}[] get-tuple-element(p), index=0
  n = {type_}[] get-tuple-element(p), index=1
  ten = {type_}[] constant(10)
  {condition}
}}
ENTRY e {{
  n = {type_}[] parameter(0)
  z = {type_}[] constant({start})
  t = {state} tuple(z, n)
  ROOT w = {state} while(t), condition=cond, body=body{extra}
}}
"""


def annotated(count: int) -> str:
    return f', backend_config={{"known_trip_count":{{"n":"{count}"}}}}'


UP_TO_TEN = "ROOT c = pred[] compare(i, ten), direction=LT"
UP_TO_ARGUMENT = "ROOT c = pred[] compare(i, n), direction=LT"

# ------------------------------------------------------------------------------------ conformance


def simulated(about: dict[str, Any]) -> int:
    """Turns of `i op limit` with a constant added, by the number of values up to the wrap."""
    low, high = -(1 << 31), (1 << 31) - 1
    assert about["type"] == "s32"
    assert (about["op"], about["dir"], about["flip"]) == ("add", "LT", True)
    assert about["step"] == 1
    assert low <= about["limit"] < about["init"] <= high
    return high - int(about["init"]) + 1


@needs_cases
def test_the_counts_of_one_loop_are_true() -> None:
    cases = json.loads((CASES / "loops.json").read_text())["cases"]
    assert len(cases) >= 100
    for case in cases:
        trip = only(case["text"]).trip_count
        if case["turns"] is not None:
            assert (trip.count, trip.origin) == (case["turns"], "program"), case["name"]
        elif trip.count is not None:
            # More turns than the data simulates, up to where the type wraps around.
            assert trip.count == simulated(case["about"]) > 1 << 20, case["name"]


@needs_cases
@pytest.mark.parametrize("language", ["hlo", "stablehlo"])
def test_the_counts_of_loops_that_jax_writes_are_true(language: str) -> None:
    cases = json.loads((CASES / "loops_jax.json").read_text())["cases"]
    assert len(cases) >= 20
    for case in cases:
        loops = loops_of(hs.read(case[language]).module)
        found = Counter((loop.trip_count.count, exact(loop)) for loop in loops)
        wanted = Counter((loop["turns"], loop["total"]) for loop in case["loops"])
        assert found == wanted, case["name"]


def exact(loop: LoopUse) -> int | None:
    turns = loop.turns
    return turns.times if turns.low == turns.times == turns.high else None


@needs_cases
def test_what_xla_annotates_falsely_is_found() -> None:
    cases = json.loads((CASES / "loops.json").read_text())["cases"]
    false = 0
    for case in cases:
        if case["xla_says"] is None or case["turns"] is None:
            continue
        head, comma, rest = case["text"].partition(", body=body")
        rest = rest[rest.index("\n") :]  # without the annotation that a few have
        trip = only(head + comma + annotated(case["xla_says"]) + rest).trip_count
        assert trip.differs == (case["xla_says"] != case["turns"]), case["name"]
        assert trip.count == case["turns"]
        false += trip.differs
    assert false


# ------------------------------------------------------------------------ against the interpreter

MOST_STEPS = 6_000
"""Instructions that the interpreter evaluates for one program."""


def drawn(seed: int) -> Loop:
    random = Random(seed)
    inner = random_loop(random) if seed % 3 == 0 else None
    same = inner is not None and random.random() < 0.7
    return random_loop(random, inner=inner, type_=inner.type if inner and same else "")


@pytest.mark.slow(keep=1)
@BOTH
@pytest.mark.parametrize("start", range(0, 600, 50))
def test_random_loops_turn_as_often_as_the_interpreter_says(start: int, is_hlo: bool) -> None:
    counted = 0
    for seed in range(start, start + 50):
        text = program(drawn(seed), is_hlo=is_hlo)
        read = hs.read(text)
        loops = loops_of(read.module)
        try:
            found = read.evaluate(np.zeros(4, np.float32), max_steps=MOST_STEPS)
        except hs.HloscopeError as error:
            stopped = str(error)
        else:
            stopped = ""
        if stopped:  # it runs for long, or for ever
            assert "stopped after" in stopped, text
            assert any(loop.turns.high is None or loop.turns.high > 100 for loop in loops), text
            continue
        counts = [int(count) for count in (found if isinstance(found, tuple) else (found,))]
        assert [exact(loop) for loop in loops] == counts, text
        counted += 1
    assert counted > 25


# -------------------------------------------------------------------------------------- one by one


@given(st.integers(1, 300), st.data())
def test_the_first_turn_in_a_range_is_that_of_a_search(size: int, data: Any) -> None:
    slope = data.draw(st.integers(0, size - 1))
    low = data.draw(st.integers(0, size - 1))
    high = data.draw(st.integers(low, size - 1))
    found = next((t for t in range(size) if low <= slope * t % size <= high), None)
    assert first_iteration(slope, size, low, high) == found


def test_a_loop_of_very_many_turns_is_not_evaluated() -> None:
    loop = only(plain(UP_TO_TEN.replace("ten", "big").replace(
        "ROOT", "big = u64[] constant(18446744073709551615)\n ROOT"), type_="u64"))  # fmt: skip
    assert loop.trip_count.count == 2**64 - 1


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        (UP_TO_ARGUMENT, 0, None),
        ("m = s32[] minimum(n, ten)\n ROOT c = pred[] compare(i, m), direction=LT", 0, 10),
        ("m = s32[] maximum(n, ten)\n ROOT c = pred[] compare(i, m), direction=LT", 10, None),
        ("a = pred[] compare(i, ten), direction=LT\n b = pred[] compare(n, ten), direction=EQ\n"
         " ROOT c = pred[] and(a, b)", 0, 10),
        ("a = pred[] compare(i, ten), direction=LT\n b = pred[] compare(n, ten), direction=EQ\n"
         " ROOT c = pred[] or(b, a)", 10, None),
        ("a = s32[] constant(5)\n m = s32[] clamp(a, n, ten)\n"
         " ROOT c = pred[] compare(m, i), direction=GT", 5, 10),
    ],
)  # fmt: skip
def test_what_depends_on_an_argument_has_bounds(condition: str, low: int, high: int | None) -> None:
    trip = only(plain(condition)).trip_count
    assert (trip.count, trip.low, trip.high, trip.origin) == (None, low, high, "unknown")
    assert trip.reason == "it depends on argument `n`"


@pytest.mark.parametrize(
    ("condition", "note", "wanted"),
    [
        (UP_TO_TEN, 10, TripCount(10, 10, 10, 10, "program")),
        (UP_TO_TEN, -2, TripCount(10, 10, 10, -2, "program")),
        (UP_TO_ARGUMENT, 4,
         TripCount(4, 4, 4, 4, "annotation", "it depends on argument `n`")),
        (UP_TO_ARGUMENT, -4,
         TripCount(None, 0, None, -4, "unknown", "it depends on argument `n`")),
        ("ROOT c = pred[] constant(true)", 3,
         TripCount(None, 1, None, 3, "program", "the loop does not end")),
        ("ROOT c = pred[] constant(false)", 0, TripCount(0, 0, 0, 0, "program")),
    ],
)  # fmt: skip
def test_an_annotation_counts_where_the_program_says_nothing(
    condition: str, note: int, wanted: TripCount
) -> None:
    trip = only(plain(condition, extra=annotated(note))).trip_count
    assert trip == wanted
    assert trip.differs == (wanted.count != note)
    assert trip.times >= 0


@pytest.mark.parametrize(
    "config", ['{"known_trip_count":{"n":"x"}}', '{"known_trip_count":[]}', "{", '"7"', "7"]
)
def test_an_annotation_that_is_not_a_number_is_none(config: str) -> None:
    extra = f", backend_config={config}"
    try:
        loop = only(plain(UP_TO_ARGUMENT, extra=extra))
    except hs.HloscopeError:
        return  # it is not HLO either
    assert loop.trip_count.annotated is None


def test_a_loop_that_never_ends_is_found_without_running_it() -> None:
    by_zero = only(plain(UP_TO_TEN, step="0")).trip_count
    past_it = only(plain("ROOT c = pred[] compare(i, ten), direction=NE", start="1", step="2"))
    by_turns = only(plain(UP_TO_TEN, update="and(i, k)")).trip_count
    for trip in (by_zero, past_it.trip_count, by_turns):
        assert (trip.count, trip.high, trip.reason) == (None, None, "the loop does not end")


def test_a_count_that_takes_too_long_is_not_known() -> None:
    # 0, 1, 3, 7 … as i * 5 + 1 passes through 32-bit values for a long time.
    far = "far = s32[] constant(123456789)\n ROOT c = pred[] compare(i, far), direction=NE"
    text = plain(far, update="xor(m, k)").replace(
        "  j =", "  five = s32[] constant(1664525)\n  m = s32[] multiply(i, five)\n  j ="
    )
    trip = only(text).trip_count
    assert trip.count is None
    assert trip.high is None


def test_a_loop_alone_is_counted_as_far_as_its_operands_say() -> None:
    known, unknown = (
        hs.read(plain(condition)).module.entry.root for condition in (UP_TO_TEN, UP_TO_ARGUMENT)
    )
    assert loop_trip_count(known).count == trip_count(known) == 10
    assert loop_trip_count(unknown).count is None
    assert trip_count(unknown) == 1


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("i, big), direction=LT", 1_000_000),
        ("big, i), direction=GT", 1_000_000),
        ("i, huge), direction=LT", None),
        ("i, huge), direction=NE", None),
        ("i, huge), direction=GE", 0),
        ("i, huge), direction=EQ", 0),
        ("huge, i), direction=LE", 0),
    ],
)
def test_a_counter_may_be_compared_in_a_wider_type(condition: str, count: int | None) -> None:
    wide = "w = s64[] convert(i)\n big = s64[] constant(1000000)\n"
    wide += f" huge = s64[] constant({1 << 40})\n ROOT c = pred[] compare("
    trip = only(plain(wide + condition.replace("i", "w", 1) if condition[0] == "i" else
                      wide + condition.replace(", i", ", w"))).trip_count  # fmt: skip
    assert trip.count == count
    assert trip.origin == "program"


def test_a_counter_of_floats_is_evaluated() -> None:
    tenth = plain(UP_TO_TEN, type_="f32", step="0.1")
    count, x = 0, np.float32(0)
    while x < 10:
        count, x = count + 1, x + np.float32(0.1)
    assert only(tenth).trip_count.count == count


def test_a_value_that_a_loop_hands_on_is_the_first_one() -> None:
    text = plain(UP_TO_TEN).replace("ROOT w =", "w1 =")
    again = "\n  i1 = s32[] get-tuple-element(w1), index=0\n  n1 = s32[] get-tuple-element(w1), "
    again += "index=1\n  two = s32[] constant(2)\n  i2 = s32[] subtract(i1, two)\n"
    again += "  t2 = (s32[], s32[]) tuple(i2, n1)\n"
    again += "  ROOT w2 = (s32[], s32[]) while(t2), condition=cond, body=body\n}\n"
    loops = loops_of(hs.read(text.rstrip().removesuffix("}") + again).module)
    assert [loop.trip_count.count for loop in loops] == [10, 2]  # from where the first one ended


STATE = "{ p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 "
UP_TO_THREE = STATE + "k = s32[] constant(3) ROOT t = pred[] compare(i, k), direction=LT }\n"
START = "z = s32[] constant(0) t = (s32[]) tuple(z)"


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize(
    "parts",
    [
        "b " + STATE + "ROOT t = s32[] copy(i) }\nc " + UP_TO_THREE,
        "b { p = (s32[]) parameter(0) q = (s32[]) parameter(1) "
        "i = s32[] get-tuple-element(q), index=0 ROOT t = (s32[]) tuple(i) }\nc " + UP_TO_THREE,
        "f { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }\n"
        "b " + STATE + "j = s32[] call(i), to_apply=f ROOT t = (s32[]) tuple(j) }\nc "
        + UP_TO_THREE,
        "b " + STATE + "ROOT t = (s32[]) tuple(i) }\n"
        "c { p = (s32[]) parameter(0) q = (s32[]) parameter(1) "
        "i = s32[] get-tuple-element(q), index=0 k = s32[] constant(3) "
        "ROOT t = pred[] compare(i, k), direction=LT }\n",
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_have_no_count(parts: str) -> None:
    entry = f"ENTRY e {{ {START} ROOT w = (s32[]) while(t), condition=c, body=b }}"
    trip = only("HloModule m\n" + parts + entry).trip_count
    assert trip.count is None
    assert trip.reason


# ------------------------------------------------------------------------------- before and after


@cache
def counts(name: str, form: str) -> Counter[int | None]:
    path = MODELS / f"{name}{form}"
    text = path.read_text() if path.is_file() else ""
    if "while" not in text:
        return Counter()
    return Counter(loop.trip_count.count for loop in loops_of(hs.read(text).module))


FORMS = (".stablehlo.mlir", ".hlo.txt", ".opt.hlo.txt", ".gpu.opt.hlo.txt")
NAMES = sorted(p.name.removesuffix(FORMS[0]) for p in MODELS.glob(f"*{FORMS[0]}"))


@needs_models
@pytest.mark.parametrize("name", NAMES)
def test_a_model_has_the_same_counts_as_stablehlo_and_as_hlo(name: str) -> None:
    assert counts(name, FORMS[0]) == counts(name, FORMS[1])


@needs_models
@pytest.mark.parametrize("form", FORMS[2:])
@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_model_has_no_count_that_the_source_has_not(name: str, form: str) -> None:
    # XLA inlines functions, so one loop may stand there several times; it unrolls short loops
    # and those of random bits on the GPU, so one may be gone.
    assert {*counts(name, form)} <= {*counts(name, FORMS[0])}


@pytest.mark.slow(keep=1)
@needs_models
@pytest.mark.parametrize("form", FORMS)
def test_what_is_annotated_in_models_is_what_is_computed(form: str) -> None:
    seen = 0
    for name in NAMES:
        path = MODELS / f"{name}{form}"
        text = path.read_text() if path.is_file() else ""
        for loop in loops_of(hs.read(text).module) if "while" in text else ():
            trip = loop.trip_count
            assert not trip.differs
            if trip.annotated is not None:
                assert (trip.count, trip.origin) == (trip.annotated, "program")
                seen += 1
    assert seen or "opt" not in form


@needs_models
def test_what_is_not_known_in_models_waits_for_data() -> None:
    unknown = {name for name in NAMES if None in counts(name, FORMS[0])}
    assert unknown == {"conjugate_gradient_f64", "rng_gamma_rejection"}


@pytest.mark.parametrize("operands", ["m, k", "k, m"])
@pytest.mark.parametrize("direction", ["EQ", "NE"])
def test_what_may_be_equal_and_may_differ_is_not_decided(operands: str, direction: str) -> None:
    """The step is 1 or 2, by a number from 1 to 3 that is compared with 1."""
    text = plain(UP_TO_TEN, update="add(i, w)").replace(
        "  k = s32[] constant(1)",
        "  k = s32[] constant(1)\n  two = s32[] constant(2)\n  three = s32[] constant(3)\n"
        "  m = s32[] clamp(k, n, three)\n"
        f"  q = pred[] compare({operands}), direction={direction}\n"
        "  w = s32[] select(q, k, two)",
    )
    found = only(text).trip_count
    assert (found.count, found.low, found.high) == (None, 5, 10)
