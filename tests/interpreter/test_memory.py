"""What is made on the way counts towards the limits: windows, products, texts, processes, steps."""

from __future__ import annotations

import resource

import numpy as np
import pytest
from click.testing import CliRunner

import hloscope as hs
from hloscope.cli.app import app
from hloscope.cli.run import run
from hloscope.interpreter.shown import value_text
from hloscope.interpreter.values import EvaluationError, claim, limited
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.support.limits import MOST_STEPS

ADD = "a { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
GE = ADD.replace("a {", "g {").replace("f32[] add(x, y)", "pred[] compare(x, y), direction=GE")
WINDOW = "window={size=1000000000 pad=500000000_500000000}"
LARGE = {
    "reduce-window": ADD
    + "ENTRY e { p = f32[4] constant({1,2,3,4}) z = f32[] constant(0)"
    f" ROOT q = f32[5] reduce-window(p, z), {WINDOW}, to_apply=a }}",
    "select-and-scatter": ADD + GE
    + "ENTRY e { p = f32[4] constant({1,2,3,4}) s = f32[5] constant({1,2,3,4,5})"
    " z = f32[] constant(0) ROOT q = f32[4] select-and-scatter(p, s, z),"
    f" {WINDOW}, select=g, scatter=a }}",
    "convolution": "ENTRY e { p = f32[1,4,1] constant({{{1},{2},{3},{4}}})"
    " k = f32[1,1,1] constant({{{1}}}) ROOT q = f32[1,5,1] convolution(p, k),"
    " window={size=1 pad=500000000_499999997 stride=250000000}, dim_labels=b0f_0io->b0f }",
    "dilation": ADD
    + "ENTRY e { p = f32[4] constant({1,2,3,4}) z = f32[] constant(0)"
    " ROOT q = f32[1] reduce-window(p, z), window={size=1200000001 lhs_dilate=400000000},"
    " to_apply=a }",
}  # fmt: skip


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_what_is_made_on_the_way_counts(text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(EvaluationError, match="bytes, at most 1,073,741,824 are allowed"):
        hs.evaluate(text)
    hs.fold(hs.parse_hlo(text))  # leaves it as it is
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_the_taps_of_a_window_are_not_made_before_they_are_needed() -> None:
    window = "window={size=999983 stride=2 pad=1_1}"
    text = (
        f"{ADD}{GE}ENTRY e {{ p = f32[999983] parameter(0) s = f32[2] parameter(1) "
        f"z = f32[] constant(0) ROOT r = f32[999983] select-and-scatter(p, s, z), {window}, "
        "select=g, scatter=a }"
    )
    arguments = np.zeros(999_983, "f4"), np.zeros(2, "f4")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(EvaluationError, match="stopped after 100 steps"):
        hs.evaluate(text, *arguments, max_steps=100)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_a_claim_ends_with_its_limit() -> None:
    raises = pytest.raises(EvaluationError, match="an array needs 11 bytes, at most 10")
    with limited(100):
        with limited(10):
            claim(10, "an array")
            with raises:
                claim(11, "an array")
        claim(100, "an array")
        with pytest.raises(EvaluationError, match="an array needs 101 bytes, at most 100"):
            claim(101, "an array")
    claim(101, "an array")


@pytest.mark.parametrize("shape", [(1 << 40, 0), (1 << 40, 1, 0, 4)])
def test_rows_without_elements_count_as_text(shape: tuple[int, ...]) -> None:
    rows = np.zeros(shape, "int32")
    with pytest.raises(EvaluationError, match="the text of a value needs"):
        value_text(rows, TensorType(ELEMENT_TYPES["s32"], rows.shape))


def test_folding_has_one_budget_of_steps() -> None:
    loops = "\n".join(
        f" k{i} = s32[] constant(-{i}) w{i} = s32[] while(k{i}), condition=c, body=b"
        for i in range(40)
    )
    text = f"""
b {{ p = s32[] parameter(0) o = s32[] constant(1) ROOT r = s32[] add(p, o) }}
c {{ p = s32[] parameter(0) o = s32[] constant(100) ROOT r = pred[] compare(p, o), direction=LT }}
ENTRY e {{
{loops}
 ROOT t = (s32[], s32[]) tuple(w0, w39)
}}"""

    def folded(max_steps: int) -> int:
        made = hs.fold(hs.parse_hlo(text), max_steps=max_steps)
        return sum(ins.op.name == "while" for ins in made.entry)

    assert folded(100_000) == 0
    assert folded(3_000) == 1  # the last that is read comes too late


def test_a_loop_without_end_leaves_steps_for_the_others() -> None:
    text = """
b { p = s32[] parameter(0) ROOT r = s32[] copy(p) }
c { p = s32[] parameter(0) ROOT r = pred[] constant(true) }
ENTRY e {
 k = s32[] constant(1) w = s32[] while(k), condition=c, body=b
 x = s32[] add(k, k) y = s32[] multiply(x, x)
 ROOT t = (s32[], s32[]) tuple(w, y)
}"""
    names = [ins.op.name for ins in hs.fold(hs.parse_hlo(text)).entry]
    assert "multiply" not in names
    assert "while" in names


@pytest.mark.parametrize(("replicas", "partitions"), [(4096, 4096), (1 << 40, 1), (4097, 1)])
def test_too_many_processes_are_refused_before_any_is_made(replicas: int, partitions: int) -> None:
    text = "ENTRY e { ROOT p = f32[] parameter(0) }"
    with pytest.raises(EvaluationError, match=r"at most 4,096 in all can run"):
        hs.evaluate_grid(text, [[np.float32(1)]], replicas=replicas, partitions=partitions)


PRODUCT = """ENTRY e { a = f32[64,64] parameter(0)
 b = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
 ROOT c = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
FLOPS = 2 * 64**3
LOOP = """w { p = (s32[]) parameter(0) ROOT c = pred[] constant(true) }
b { p = (s32[]) parameter(0) ROOT q = (s32[]) copy(p) }
ENTRY e { z = s32[] constant(0) t = (s32[]) tuple(z)
  ROOT r = (s32[]) while(t), condition=w, body=b }
"""


@pytest.mark.parametrize(("flops", "is_enough"), [(2 * FLOPS, True), (2 * FLOPS - 1, False)])
def test_products_of_a_whole_run_are_counted(flops: int, is_enough: bool) -> None:
    done = CliRunner().invoke(
        app, ["run", "-", "--random", "1", "--max-flops", str(flops)], input=PRODUCT
    )
    assert done.exit_code == (0 if is_enough else 1), done.output
    assert is_enough or "operations on elements, at most" in done.output


WALK = """w { p = (s32[], f32[1000000], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0 n = s32[] constant(200)
  ROOT c = pred[] compare(i, n), direction=LT }
b { p = (s32[], f32[1000000], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1) j = s32[] add(i, one)
  x = f32[1000000] get-tuple-element(p), index=1 s = f32[4] get-tuple-element(p), index=2
  r = f32[1000,1000] reshape(x) t = f32[1000,1000] transpose(r), dimensions={1,0}
  d = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4} a = f32[4] add(s, d) OWN
  ROOT q = (s32[], f32[1000000], f32[4]) tuple(j, NEXT, a) }
ENTRY e { z = s32[] constant(0) x = f32[1000000] parameter(0) s = f32[4] parameter(1)
  t = (s32[], f32[1000000], f32[4]) tuple(z, x, s)
  ROOT r = (s32[], f32[1000000], f32[4]) while(t), condition=w, body=b }
"""


def test_what_a_loop_hands_on_is_not_counted_but_what_it_computes() -> None:
    words = ["run", "-", "--random", "1", "--max-flops", "1000000"]
    walk = WALK.replace("OWN", "").replace("NEXT", "x")
    assert CliRunner().invoke(app, words, input=walk).exit_code == 0
    own = WALK.replace("OWN", "m = f32[1000000] negate(x)").replace("NEXT", "m")
    done = CliRunner().invoke(app, words, input=own)
    assert "`m` would make it 2,000,000 operations on elements" in done.output


@pytest.mark.slow
def test_what_would_take_hours_is_refused_unless_more_is_allowed() -> None:
    text = """ENTRY e { p = f32[3,3,160,160] parameter(0) k = f32[128,32,32,160] parameter(1)
      ROOT c = f32[128,32,32,160] convolution(p, k), window={size=32x32 pad=30_30x30_30},
      dim_labels=01bf_o01i->f01b }"""
    done = CliRunner().invoke(
        app, ["run", "-", "--random", "1", "--max-flops", "1000000"], input=text
    )
    assert done.exit_code == 1
    assert "operations on elements, at most 1,000,000" in done.output
    assert "; --max-flops allows more\n" in done.output
    folded = text.replace("parameter(0)", "broadcast(z), dimensions={}")
    folded = folded.replace("parameter(1)", "broadcast(z), dimensions={}")
    folded = folded.replace("ENTRY e {", "ENTRY e { z = f32[] constant(1)")
    hs.fold(hs.parse_hlo(folded), max_elements=1 << 30, max_bytes=1 << 30)  # leaves it as it is


def test_a_loop_without_end_is_stopped_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    (steps,) = [option for option in run.params if option.name == "max_steps"]
    assert steps.default == MOST_STEPS
    monkeypatch.setattr(steps, "default", 1000)
    done = CliRunner().invoke(app, ["run", "-"], input=LOOP)
    assert done.exit_code == 1
    assert "stopped after 1,000 steps" in done.output
