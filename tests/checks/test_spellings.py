"""Each rule finds the same in every spelling: HLO, asynchronous HLO, all groups, StableHLO."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import hloscope
from hloscope.api import check_one
from hloscope.checks import RULES

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
META = ', metadata={op_name="jit(step)/softmax/exp" source_file="/a/train.py" source_line=12}'
GROUPS = {
    "groups v1": "{{0,1}}",
    "groups v2": "[1,2]<=[2]",
    "groups v3": "mesh['a'=2] {'a'}",
}
HLO_SPELLINGS = ("sync", "async", *GROUPS)
NO_FUSION = "StableHLO has no fusions, which the rule is about: it finds nothing there"


class Case(NamedTuple):
    """Instructions that break a rule and others that do not; the last one is `y`, of `type`."""

    broken: str
    kept: str
    stablehlo: tuple[str, str] | str
    values: dict[str, Any] = {}  # noqa: RUF012 (nobody writes to it)
    types: tuple[str, str, str] = ("f32[8,4]", "f32[8,4]", "f32[8,4]")
    before: str = ""
    heads: tuple[str, str] = ("", "")
    kept_values: dict[str, Any] | None = None


def fusing(body: str, operand: str = "f32[8,4]", result: str = "f32[8,4]") -> str:
    return f"f {{ x = {operand} parameter(0)\n{body}\n}}\n" + ADD + f"// {result}\n"


def function(body: str, argument: str = "tensor<8x4xf32>", result: str = "tensor<8x4xf32>") -> str:
    return f"func.func @main(%p: {argument}) -> {result} {{\n{body}\n  return %y : {result}\n}}\n"


def negated(argument: str = "tensor<8x4xf32>") -> str:
    plain = argument.partition(">")[0] + ">"
    return function(f"  %y = stablehlo.negate %p : {plain}", argument, plain)


BODY = """^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32>"""
REDUCED = function(
    f'%y = "stablehlo.all_reduce"(%p) ({{\n{BODY}\n}}) '
    "{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8x4xf32>) -> tensor<8x4xf32>"
)
NEGATE = "y = f32[8,4] negate(p)"
FUSION = "y = f32[8,4] fusion(p), kind=kLoop, calls=f"
NEGATED = "f { x = f32[8,4] parameter(0) ROOT n = f32[8,4] negate(x) }\n"
NEVER = (
    "y = f32[8,4] while(p), condition=never, body=turn, "
    'backend_config={"known_trip_count":{"n":"%d"}}'
)
CASES: dict[str, Case] = {
    "copies": Case(
        "y = f32[4,8] transpose(p), dimensions={1,0}",
        NEGATE,
        (
            function(
                "%y = stablehlo.transpose %p, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>",
                result="tensor<4x8xf32>",
            ),
            negated(),
        ),
        types=("f32[8,4]", "f32[4,8]", "f32[8,4]"),
    ),
    "collectives": Case(
        "y = f32[8,4] all-reduce(p), replica_groups=GROUPS, to_apply=add",
        "y = f32[8,4] all-reduce(p), replica_groups=GROUPS, to_apply=add",
        (REDUCED, REDUCED),
        kept_values={"all-reduce": 1},
    ),
    "utilisation": Case(
        "y = f32[1024,128] fusion(p), kind=kLoop, calls=f",
        "y = f32[1024,1024] fusion(p), kind=kLoop, calls=g",
        NO_FUSION,
        types=("f32[1024,1024]", "f32[1024,128]", "f32[1024,1024]"),
        before="f { x = f32[1024,1024] parameter(0)\n"
        "t = f32[1024,128] slice(x), slice={[0:1024], [0:1024:8]}\n"
        "ROOT n = f32[1024,128] negate(t) }\n"
        "g { x = f32[1024,1024] parameter(0) ROOT n = f32[1024,1024] negate(x) }\n",
    ),
    "precision": Case(
        FUSION,
        FUSION.replace("calls=f", "calls=g"),
        NO_FUSION,
        before="f { x = f32[8,4] parameter(0) "
        'ROOT c = f32[8,4] custom-call(x), custom_call_target="who" }\n'
        + NEGATED.replace("f {", "g {"),
    ),
    "fused": Case(
        f"y = f32[8,4] exponential(p){META}",
        f"{FUSION}{META}",
        (
            function(
                "%y = stablehlo.exponential %p : tensor<8x4xf32>"
                ' loc("jit(step)/softmax/exp"("/a/train.py":12:0))'
            ),
            negated(),
        ),
        values={"op-name": "softmax"},
        before=NEGATED,
    ),
    "types": Case(
        "y = f64[8,4] convert(p)",
        NEGATE,
        (negated("tensor<8x4xf64>"), negated()),
        types=("f32[8,4]", "f64[8,4]", "f32[8,4]"),
    ),
    "donation": Case(
        NEGATE,
        NEGATE,
        (
            negated("tensor<8x4xf32> {jax.buffer_donor = true}"),
            negated("tensor<8x4xf32> {jax.buffer_donor = true, tf.aliasing_output = 0 : i32}"),
        ),
        heads=(
            ", buffer_donor={ (0, {}) }",
            ", buffer_donor={ (0, {}) }, input_output_alias={ {}: (0, {}, may-alias) }",
        ),
    ),
    "dynamic-sizes": Case(
        "n = s32[] constant(3)\ny = f32[<=8,4] set-dimension-size(p, n), dimensions={0}",
        NEGATE,
        (negated("tensor<?x4xf32>"), negated()),
        types=("f32[8,4]", "f32[<=8,4]", "f32[8,4]"),
    ),
    "constants": Case(
        "c = f32[4] constant({1, 2, 3, 4})\ny = f32[8,4] broadcast(c), dimensions={1}",
        "c = f32[] constant(1)\ny = f32[8,4] broadcast(c), dimensions={}",
        (
            function("%y = stablehlo.constant dense<1.0> : tensor<8x4xf32>"),
            negated(),
        ),
        values={"max-bytes": 15},
    ),
    "padding": Case(
        "y = f32[8,4]{1,0:T(8,128)} negate(p)",
        NEGATE,
        "StableHLO has no tiles, which the rule is about: it finds nothing there",
        values={"min-wasted": 1},
        types=("f32[8,4]", "f32[8,4]{1,0:T(8,128)}", "f32[8,4]"),
    ),
    "trip-counts": Case(
        broken=NEVER % 3,
        kept=NEVER % 0,
        stablehlo="StableHLO has no annotation of trip counts: the rule finds nothing there",
        before="never { x = f32[8,4] parameter(0) ROOT c = pred[] constant(false) }\n"
        "turn { x = f32[8,4] parameter(0) ROOT n = f32[8,4] negate(x) }\n",
    ),
    "memory": Case(
        "y = f32[8,16,4] broadcast(p), dimensions={0,2}",
        "y = f32[8,2,4] broadcast(p), dimensions={0,2}",
        (
            function(
                "%y = stablehlo.broadcast_in_dim %p, dims = [0, 2] : (tensor<8x4xf32>) -> "
                "tensor<8x16x4xf32>"
            )
            .replace("return %y : tensor<8x4xf32>", "return %y : tensor<8x16x4xf32>")
            .replace("-> tensor<8x4xf32> {", "-> tensor<8x16x4xf32> {"),
            negated(),
        ),
        values={"max-bytes": 1500},
        types=("f32[8,4]", "f32[8,16,4]", "f32[8,2,4]"),
        heads=(", is_scheduled=true", ", is_scheduled=true"),
    ),
}


def spelled(case: Case, spelling: str, is_broken: bool) -> str:
    """The program in HLO; the groups of collectives as the spelling has them."""
    body = case.broken if is_broken else case.kept
    operand, broken_type, kept_type = case.types
    result = broken_type if is_broken else kept_type
    head = f"HloModule m{case.heads[not is_broken]}\n"
    groups = GROUPS.get(spelling, GROUPS["groups v1"])
    body, before = body.replace("GROUPS", groups), case.before + ADD
    if spelling == "async":
        inner = body.replace("(p", "(x").replace("y = ", "ROOT y = ")
        return (
            f"{head}{before}w {{ x = {operand} parameter(0)\n{inner} }}\n"
            f"ENTRY e {{\n  p = {operand} parameter(0)\n"
            f"  s = (({operand}), {result}) async-start(p), calls=w\n"
            f"  ROOT d = {result} async-done(s)\n}}"
        )
    if spelling == "sync" or "all-reduce" in body:
        return (
            f"{head}{before}ENTRY e {{\n  p = {operand} parameter(0)\n"
            f"  {body.replace('y = ', 'ROOT y = ')}\n}}"
        )
    element = result.partition("[")[0]
    adder = ADD.replace("f32", element).replace("add {", "plus {")
    return (
        f"{head}{before}{adder}ENTRY e {{\n  p = {operand} parameter(0)\n  {body}\n"
        f"  ROOT r = {result} all-reduce(y), replica_groups={groups}, to_apply=plus\n}}"
    )


def found_in(rule: str, text: str, values: dict[str, Any]) -> list[str]:
    return [one.message for one in check_one(hloscope.read(text), rule, **values).report.findings]


def test_every_rule_has_its_row() -> None:
    assert list(CASES) == list(RULES)


@pytest.mark.parametrize("spelling", HLO_SPELLINGS)
@pytest.mark.parametrize("rule", CASES)
def test_a_rule_means_the_same_in_every_spelling_of_hlo(rule: str, spelling: str) -> None:
    case = CASES[rule]
    broken, kept = spelled(case, spelling, True), spelled(case, spelling, False)
    hloscope.verify(broken)
    hloscope.verify(kept)
    assert len(found_in(rule, broken, case.values)) == 1
    assert not found_in(rule, kept, case.values if case.kept_values is None else case.kept_values)


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_means_the_same_in_stablehlo(rule: str) -> None:
    case = CASES[rule]
    if isinstance(case.stablehlo, str):
        assert not found_in(rule, negated(), case.values)
        return
    broken, kept = case.stablehlo
    assert len(found_in(rule, broken, case.values)) == 1
    assert not found_in(rule, kept, case.values if case.kept_values is None else case.kept_values)
