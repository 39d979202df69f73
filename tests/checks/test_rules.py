"""Each rule: programs that break it and programs that do not, in all spellings there are."""

from __future__ import annotations

from typing import Any

import pytest

import hloscope
from hloscope.api import check_one
from hloscope.checks import RULES, Subject, collectives_of

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
META = ', metadata={op_name="jit(step)/softmax/exp" source_file="/a/train.py" source_line=12}'


def hlo(body: str, *, before: str = "", head: str = "HloModule m") -> str:
    return f"{head}\n{before}ENTRY e {{\n{body}\n}}"


def function(body: str, arguments: str = "%p: tensor<8x4xf32>", result: str = "") -> str:
    returned = f" -> {result}" if result else ""
    return f"func.func @main({arguments}){returned} {{\n{body}\n}}"


SYNC = hlo(
    "p = f32[8,4] parameter(0)\n"
    "ROOT r = f32[8,4] all-reduce(p), replica_groups={{0,1}}, to_apply=add",
    before=ADD,
)
STARTED = hlo(
    "p = f32[8,4] parameter(0)\n"
    "s = f32[8,4] all-reduce-start(p), replica_groups={{0,1}}, to_apply=add\n"
    "ROOT r = f32[8,4] all-reduce-done(s)",
    before=ADD,
)
WRAPPED = hlo(
    "p = f32[8,4] parameter(0)\n"
    "s = ((f32[8,4]), f32[8,4]) async-start(p), calls=w\n"
    "u = ((f32[8,4]), f32[8,4]) async-update(s)\n"
    "ROOT r = f32[8,4] async-done(u)",
    before=ADD + "w { x = f32[8,4] parameter(0) ROOT y = f32[8,4] all-reduce(x), "
    "replica_groups={{0,1}}, to_apply=add }\n",
)
BODY = """^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32>"""
REDUCED = (
    f'"stablehlo.all_reduce"(%p) ({{\n{BODY}\n}}) '
    "{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8x4xf32>) -> tensor<8x4xf32>"
)
STABLEHLO = function(f"%r = {REDUCED}\nreturn %r : tensor<8x4xf32>", result="tensor<8x4xf32>")
ASYNC_REGION = function(
    '%f = "stablehlo.async_start"(%p) ({\n^bb0(%q: tensor<8x4xf32>):\n'
    f"%r = {REDUCED.replace('%p', '%q')}\nstablehlo.return %r : tensor<8x4xf32>\n"
    "}) : (tensor<8x4xf32>) -> !stablehlo.future<tensor<8x4xf32>>\n"
    '%d = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<8x4xf32>>) -> tensor<8x4xf32>\n'
    "return %d : tensor<8x4xf32>",
    result="tensor<8x4xf32>",
)
SPELLINGS = {
    "sync": SYNC,
    "start": STARTED,
    "wrapped": WRAPPED,
    "stablehlo": STABLEHLO,
    "region": ASYNC_REGION,
}

PLAIN = hlo("p = f32[8,4] parameter(0)\nROOT n = f32[8,4] negate(p)")
PLAIN_STABLEHLO = function(
    "%n = stablehlo.negate %p : tensor<8x4xf32>\nreturn %n : tensor<8x4xf32>",
    result="tensor<8x4xf32>",
)

LOOP = """body {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4] get-tuple-element(p), index=1
  k = s32[] constant(2)
  j = s32[] add(i, k)
  y = f32[4] sine(x)
  ROOT t = (s32[], f32[4]) tuple(j, y)
}
cond {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(0)
  ROOT c = pred[] compare(i, n), direction=LT
}
"""
TURNING = (
    "x = f32[4] parameter(0)\n i = s32[] constant(-5)\n t = (s32[], f32[4]) tuple(i, x)\n"
    "ROOT w = (s32[], f32[4]) while(t), condition=cond, body=body"
)
TRITON_PRODUCT = hlo(
    "a = bf16[64,256] parameter(0)\nb = bf16[256,128] parameter(1)\n"
    "ROOT g = bf16[64,128] fusion(a, b), kind=kCustom, calls=c, backend_config="
    '{"fusion_backend_config":{"kind":"__triton_nested_gemm_fusion","block_level_fusion_config":'
    '{"num_warps":"2","output_tiles":[{"sizes":["16","128"]}],"num_ctas":1,"num_stages":1}}}',
    before="c { p0 = bf16[64,256] parameter(0) p1 = bf16[256,128] parameter(1)\n"
    "ROOT d = bf16[64,128] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    'backend_config={"sizes":["8"]} }\n',
)
SCHEDULED = "HloModule m, is_scheduled=true"
HELD = hlo(
    "p = f32[8,4] parameter(0)\nt = f32[4,8] transpose(p), dimensions={1,0}\n"
    "z = f32[] constant(0)\nROOT r = f32[] reduce(t, z), dimensions={0,1}, to_apply=add",
    before=ADD,
    head=SCHEDULED,
)

BROKEN: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "copies",
        {},
        hlo("p = f32[8,4] parameter(0)\nROOT c = f32[8,4] copy(p)"),
        "copy of 128 bytes",
    ),
    (
        "copies",
        {},
        hlo("p = f32[8,4] parameter(0)\nROOT t = f32[4,8] transpose(p), dimensions={1,0}"),
        "transpose of 128 bytes",
    ),
    (
        "copies",
        {},
        hlo(
            "p = f32[8,4] parameter(0)\nROOT w = f32[4,8] fusion(p), kind=kLoop, calls=f",
            before="f { x = f32[8,4] parameter(0) t = f32[4,8] transpose(x), dimensions={1,0} "
            "ROOT b = f32[4,8] bitcast(t) }\n",
        ),
        "transpose of 128 bytes that the fusion returns",
    ),
    (
        "copies",
        {},
        hlo(
            "p = f32[8,4] parameter(0)\n"
            "s = (f32[8,4], f32[8,4], u32[]) copy-start(p)\nROOT c = f32[8,4] copy-done(s)"
        ),
        "copy of 128 bytes",
    ),
    (
        "copies",
        {},
        function(
            "%t = stablehlo.transpose %p, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>\n"
            "return %t : tensor<4x8xf32>",
            result="tensor<4x8xf32>",
        ),
        "transpose of 128 bytes",
    ),
    *[
        ("collectives", {}, text, "all-reduce number 1, expected none")
        for text in SPELLINGS.values()
    ],
    ("collectives", {"all-reduce": 2}, SYNC, "1 all-reduce, expected 2"),
    ("collectives", {"all-reduce": 1, "max-bytes": 64}, STARTED, "all-reduce of 128 bytes"),
    ("collectives", {"all-reduce": 1, "max-total-bytes": 64}, WRAPPED, "collectives of 128 bytes"),
    ("types", {}, PLAIN.replace("f32", "f64"), "f64 begins here"),
    ("types", {"absent": ["f32"]}, PLAIN_STABLEHLO, "f32 begins here"),
    (
        "dynamic-sizes",
        {},
        hlo("p = f32[<=8,4] parameter(0)\nROOT n = f32[<=8,4] negate(p)"),
        "known at run time",
    ),
    (
        "dynamic-sizes",
        {},
        PLAIN_STABLEHLO.replace("8x4", "?x4"),
        "known at run time",
    ),
    (
        "constants",
        {"max-bytes": 15},
        hlo("ROOT c = f32[4] constant({1, 2, 3, 4})"),
        "constant of 16 bytes, at most 15 bytes",
    ),
    (
        "constants",
        {"max-bytes": 15},
        function(
            "%c = stablehlo.constant dense<1.0> : tensor<4xf32>\nreturn %c : tensor<4xf32>",
            "",
            "tensor<4xf32>",
        ),
        "constant of 16 bytes",
    ),
    (
        "padding",
        {"min-wasted": 1},
        hlo("ROOT p = f32[8,4]{1,0:T(8,128)} parameter(0)"),
        "takes 4 KiB for 128 bytes (32x): dimension 1 of size 4 takes 128",
    ),
    (
        "donation",
        {},
        PLAIN.replace("HloModule m", "HloModule m, buffer_donor={ (0, {}) }"),
        "argument 0 of 128 bytes is donated",
    ),
    (
        "donation",
        {},
        PLAIN_STABLEHLO.replace("xf32>)", "xf32> {jax.buffer_donor = true})", 1),
        "argument 0 of 128 bytes is donated",
    ),
    (
        "fused",
        {"op-name": "softmax"},
        hlo(f"p = f32[8,4] parameter(0)\nROOT n = f32[8,4] exponential(p){META}"),
        "exponential is outside fusions, expected in one",
    ),
    (
        "precision",
        {},
        hlo(
            "p = f32[8,4] parameter(0)\nROOT w = f32[8,4] fusion(p), kind=kLoop, calls=f",
            before="f { x = f32[8,4] parameter(0) "
            'ROOT c = f32[8,4] custom-call(x), custom_call_target="who" }\n',
        ),
        "what it reads is unknown",
    ),
    (
        "utilisation",
        {},
        hlo(
            "p = f32[1024,1024]{1,0} parameter(0)\nq = f32[1024,1024]{0,1} parameter(1)\n"
            "ROOT w = f32[1024,1024]{1,0} fusion(p, q), kind=kLoop, calls=f",
            before="f { x = f32[1024,1024]{1,0} parameter(0) "
            "y = f32[1024,1024]{0,1} parameter(1) ROOT a = f32[1024,1024]{1,0} add(x, y) }\n",
        ),
        "of the sectors it transfers",
    ),
    (
        "utilisation",
        {},
        TRITON_PRODUCT,
        "operand 0 uses 25 % of the transactions it transfers",
    ),
    (
        "trip-counts",
        {},
        hlo(TURNING + ', backend_config={"known_trip_count":{"n":"2"}}', before=LOOP),
        "annotated to run 2 times, but runs 3 times",
    ),
    (
        "memory",
        {"max-bytes": 200},
        HELD,
        "XLA holds about 264 bytes, at most 200 bytes",
    ),
    (
        "memory",
        {"max-bytes": 200, "of": "live"},
        HELD,
        "at least 264 bytes are live at once, at most 200 bytes",
    ),
    (
        "memory",
        {"baseline-bytes": 200, "max-growth": 0.1},
        HELD,
        "XLA holds about 264 bytes, at most 220 bytes (200 bytes before)",
    ),
    (
        "memory",
        {"max-transient": 0.3},
        HELD,
        "copies and scratch of one instruction take 128 bytes of the peak of 264 bytes (48.5 %), "
        "at most 30.0 %",
    ),
    (
        "memory",
        {"max-padding": 0.5},
        hlo("ROOT p = f32[8,4]{1,0:T(8,128)} parameter(0)", head=SCHEDULED),
        "padding takes 3.875 KiB of the peak of 4 KiB (96.9 %), at most 50.0 %",
    ),
    ("memory", {"max-bytes": 200}, PLAIN, "parameters and outputs alone take 256 bytes"),
    ("memory", {"max-bytes": 300}, PLAIN, "the peak is not known, the program has no schedule"),
]

KEPT: list[tuple[str, dict[str, Any], str]] = [
    *[(rule, {}, text) for rule in RULES if rule != "fused" for text in (PLAIN, PLAIN_STABLEHLO)],
    ("copies", {"max-bytes": "128 B"}, BROKEN[0][2]),
    ("copies", {"opcodes": ["transpose"]}, BROKEN[0][2]),
    *[("collectives", {"all-reduce": 1}, text) for text in SPELLINGS.values()],
    *[("collectives", {"unnamed": "allowed"}, text) for text in SPELLINGS.values()],
    (
        "donation",
        {},
        PLAIN.replace("HloModule m", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }"),
    ),
    (
        "donation",
        {},
        PLAIN_STABLEHLO.replace(
            "xf32>)", "xf32> {jax.buffer_donor = true, tf.aliasing_output = 0 : i32})", 1
        ),
    ),
    (
        "fused",
        {"op-name": "softmax"},
        hlo(
            f"p = f32[8,4] parameter(0)\nROOT w = f32[8,4] fusion(p), kind=kLoop, calls=f{META}",
            before=f"f {{ x = f32[8,4] parameter(0)\nROOT n = f32[8,4] exponential(x){META} }}\n",
        ),
    ),
    ("fused", {"op-name": "attention"}, BROKEN[-4][2]),
    # A reducer's body is no instruction that runs by itself.
    (
        "fused",
        {"op-name": "*"},
        hlo(
            "p = f32[8,4] parameter(0)\nROOT w = f32[8] fusion(p), kind=kInput, calls=f",
            before=ADD + "f { x = f32[8,4] parameter(0) z = f32[] constant(0) "
            "ROOT r = f32[8] reduce(x, z), dimensions={1}, to_apply=add }\n",
        ),
    ),
]


@pytest.mark.parametrize(("rule", "values", "text", "said"), BROKEN)
def test_what_breaks_a_rule_is_found(
    rule: str, values: dict[str, Any], text: str, said: str
) -> None:
    found = check_one(hloscope.read(text), rule, **values)
    assert not found
    (finding,) = found.report.findings
    assert said in finding.message
    assert finding.value > 0
    if finding.instruction and "%" not in text:
        lines = enumerate(text.splitlines(), 1)
        assert finding.line == next(k for k, one in lines if f"{finding.instruction} = " in one)


@pytest.mark.parametrize(("rule", "values", "text"), KEPT)
def test_what_keeps_a_rule_is_not(rule: str, values: dict[str, Any], text: str) -> None:
    assert not check_one(hloscope.read(text), rule, **values).report.findings


def test_every_rule_is_tried_both_ways() -> None:
    assert {row[0] for row in BROKEN} == {row[0] for row in KEPT} == {*RULES}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_collective_is_one_however_it_is_spelled(name: str) -> None:
    (use,) = collectives_of(Subject(hloscope.read(SPELLINGS[name]).module, "m"))
    assert (use.kind, use.bytes) == ("all-reduce", 128)
    assert use.is_async == (name in ("start", "wrapped", "region"))


def test_a_finding_knows_where_it_comes_from() -> None:
    text = next(text for rule, _, text, _ in BROKEN if rule == "fused")
    (finding,) = check_one(hloscope.read(text), "fused", op_name="softmax").report.findings
    assert (finding.source, finding.op_name) == ("/a/train.py:12", "jit(step)/softmax/exp")
    assert (finding.instruction, finding.computation, finding.line) == ("n", "e", 4)


@pytest.mark.parametrize(
    ("count", "message", "value"),
    [
        ("3", "", 0),
        ("2", "annotated to run 2 times, but runs 3 times", 1),
        ("1", "annotated to run once, but runs 3 times", 2),
        ("-2", "annotated to run -2 times, but runs 3 times", 5),
        ("10", "annotated to run 10 times, but runs 3 times", 7),
        ("many", "", 0),
    ],
)
def test_trip_counts_are_those_of_the_program(count: str, message: str, value: int) -> None:
    config = f', backend_config={{"known_trip_count":{{"n":"{count}"}}}}'
    found = check_one(
        hloscope.read(hlo(TURNING + config, before=LOOP)), "trip-counts"
    ).report.findings
    assert [(f.message, f.value, f.instruction) for f in found] == (
        [(message, value, "w")] if message else []
    )


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("ROOT c = pred[] constant(true)", "the loop does not end"),
        ("x = f32[4] get-tuple-element(p), index=1\n  y = f32[1] slice(x), slice={[0:1]}\n"
         "  z = f32[] reshape(y)\n  h = f32[] constant(1)\n  a = pred[] compare(z, h), "
         "direction=LT\n  n = s32[] constant(0)\n  b = pred[] compare(i, n), direction=LT\n"
         "  ROOT c = pred[] and(a, b)",
         "runs 0 to 3 times: `y` (slice) is computed from data"),
    ],
)  # fmt: skip
def test_a_trip_count_out_of_bounds_is_found(condition: str, message: str) -> None:
    start = LOOP.index("  n = s32[] constant(0)")
    before = LOOP[:start] + f"  {condition}\n}}\n"
    config = ', backend_config={"known_trip_count":{"n":"4"}}'
    (found,) = check_one(
        hloscope.read(hlo(TURNING + config, before=before)), "trip-counts"
    ).report.findings
    assert found.message == f"annotated to run 4 times, but {message}"
