"""Shardy's verification: own small programs, and the cases with jaxlib's verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hloscope
from hloscope.verifier.text import first_errors, verify_text

MESHES = """sdy.mesh @m = <["x"=2, "y"=4]>
sdy.mesh @m8 = <["x"=8, "y"=2]>
sdy.mesh @reversed = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
sdy.mesh @ordered = <["x"=2, "y"=4], device_ids=[0, 1, 2, 3, 4, 5, 6, 7]>
sdy.mesh @empty = <[]>
sdy.mesh @one = <[], device_ids=[3]>
"""
T = "tensor<16x16xf32>"


def function(sharding: str, line: str = "", type_: str = T) -> str:
    """A function of one argument with a sharding, if one is given."""
    line = line or f"%0 = stablehlo.abs %a : {type_}"
    attribute = f" {{sdy.sharding = #sdy.sharding<{sharding}>}}" if sharding else ""
    return (
        f"{MESHES}func.func @main(%a: {type_}{attribute}) -> {type_} {{\n"
        f"  {line}\n  return %0 : {type_}\n}}\n"
    )


def collective(sharding: str, op: str, result: str) -> str:
    return function(sharding, f"%0 = sdy.{op} %a out_sharding=<{result}> : {T}")


def attributed(attribute: str) -> str:
    return function("", f"%0 = stablehlo.abs %a {{{attribute}}} : {T}")


def rule(text: str) -> str:
    return attributed(f"sdy.sharding_rule = #sdy.op_sharding_rule<{text}>")


def manual(
    shardings: str, results: str, axes: str, local: str, body: str = "", type_: str = T
) -> str:
    body = body or f"sdy.return %x : {local}"
    return (
        f"{MESHES}func.func @main(%a: {type_}) -> {type_} {{\n"
        f"  %0 = sdy.manual_computation(%a) in_shardings=[{shardings}]"
        f" out_shardings=[{results}] manual_axes={axes} (%x: {local}) {{\n"
        f"    {body}\n  }} : ({type_}) -> {type_}\n  return %0 : {type_}\n}}\n"
    )


X, ROWS = '@m, [{"x"}, {}]', '<@m, [{"x"}, {}]>'
HALF = "tensor<8x16xf32>"

WRONG = [
    # meshes
    ('sdy.mesh @m = <["x"=0]>', "axis size must be at least 1, got: 0"),
    ('sdy.mesh @m = <["x"=2, "x"=2]>', 'duplicate axis name: "x"'),
    ('sdy.mesh @m = <["x"=2], device_ids=[1, 1]>', "iota(product(axes)), got: 1, 1"),
    ('sdy.mesh @m = <["x"=4], device_ids=[2, 1, 0]>', "device ids, got: 4 != 3"),
    ('sdy.mesh @m = <["x"=2], device_ids=[0, -1]>', "must be non-negative, got: -1"),
    ("sdy.mesh @m = <[], device_ids=[1, 0]>", "axes is empty and device_ids has more"),
    # shardings
    (function("@none, [{}, {}]"), "'func.func' op arg 0 - unknown mesh: @none"),
    (function('@main, [{"x"}, {}]'), "unknown mesh: @main"),
    (function('@m, [{"z"}, {}]'), 'unknown axis name: "z"'),
    (function('@m, [{"x"}, {"x"}]'), 'duplicate axis ref: "x"'),
    (function('@m, [{"x"}]'), "sharding doesn't match tensor rank: 1 != 2"),
    (function('@m, [{}, {}], replicated={"y", "x"}'), "replicated axes are not ordered"),
    (function('@m, [{"y":(1)2, "y":(2)2}, {}]'), "two consecutive sub-axes can be merged"),
    (function('@m, [{"y"}, {"y":(1)2}]'), "both sub-axis and full-axis are used"),
    (function('@m, [{"y":(1)3}, {}]'), "sub-axis next pre-size 3 doesn't divide"),
    (function('@m, [{"y":(2)1}, {}]'), "sub-axis sizes must be greater than 1"),
    (function('@m, [{"y":(1)4}, {}]'), "sub-axis size is equal to the full axis size"),
    (function('@m8, [{"x":(1)4}, {"x":(2)4}]'), "overlapping sub-axes"),
    (function("@m, [{}p1, {}]"), "dim 0 is empty and closed but has a priority"),
    (function("@one, [{}, {}]"), "a maximal sharding can only have"),
    (function("@m, [{}, {}], replicated={}"), "not in the grammar of Shardy"),
    (function('@m, [{"x"}p01, {}]'), "not in the grammar of Shardy"),
    (
        MESHES + "func.func private @f(tensor<*xf32> {sdy.sharding = #sdy.sharding<@m, []>})",
        "only ranked tensors can have a sharding",
    ),
    (attributed("sdy.sharding = 3 : i32"), "of type TensorShardingPerValueAttr"),
    (attributed('sdy.sharding_rule = "x"'), "of type OpShardingRuleAttr"),
    (attributed("sdy.sharding = #sdy.sharding_per_value<[]>"), "0 shardings vs 1 values"),
    (rule("([i, i])->([i, j]) {i=16, j=16}"), "cannot reuse factors"),
    (rule("([i, j])->([i, j]) {i=16, j=16, k=4}"), "has factor k=4 that isn't used"),
    (rule("([i])->([i, j]) {i=16, j=16}"), "operand - mapping rank must match: 1 != 2"),
    (rule("([i, j])->([i, j]) {i=16, j=16} permutation={j, i}"), "must be sorted"),
    # manual computations
    (manual(ROWS, ROWS, '{"x"}', "tensor<4x16xf32>"), f"Expected local shape '{HALF}', actual"),
    (manual(ROWS, ROWS, '{"x"}', HALF, type_="tensor<17x16xf32>"), "size 17 is not divisible"),
    (manual(ROWS, '<@m8, [{"x"}, {}]>', '{"x"}', HALF), "Expected local shape"),
    (manual(ROWS, ROWS, '{"q"}', T), 'unknown manual axis: "q"'),
    (manual("", ROWS, '{"x"}', HALF), "operand shardings don't match number of values: 0"),
    (manual(ROWS, ROWS, '{"x"}', HALF, f"stablehlo.return %x : {HALF}"), "'sdy.return', found"),
    (
        manual(
            ROWS, ROWS, '{"x"}', HALF,
            f'%b = sdy.sharding_constraint %x <@m, [{{"x"}}, {{}}]> : {HALF}\n'
            f"sdy.return %b : {HALF}",
        ),
        'operates on axis "x" which is already bound',
    ),
    # collectives
    (collective("", 'all_gather [{"x"}, {}]', "@m, [{}, {}]"), "operand without sharding"),
    (collective(X, 'all_gather [{"y"}, {}]', "@m, [{}, {}]"), 'gathering axis "y"'),
    (collective(X, 'all_gather [{"x"}, {}]', "@m8, [{}, {}]"), "does not match operand mesh"),
    (collective(X, 'all_gather [{"x"}]', "@m, [{}, {}]"), "rank 2 but collective axes has rank 1"),
    (collective(X, 'all_slice [{"y"}, {}]', X), 'expected sharding ["x", "y"] on dimension 0'),
    (collective(X, 'all_reduce {"x"}', X), "overlaps with operand dimension sharding"),
    (collective(X, 'all_to_all [{"x"}: 0->2]', X), "target dimension 2 is out of range [0, 2)"),
    (collective(X, "all_to_all []", X), "parameter list is empty"),
    (collective(X, "collective_permute", '@m, [{"y"}, {}]'), "on dimension 0: 4 != 2"),
    (collective(X, "collective_permute", '@m8, [{"x"}, {}]'), "different axes than operand mesh"),
    (collective(X, "replicated_to_unreduced {}", X), "r2u axes must not be empty"),
    (collective(X, 'replicated_to_unreduced {"y"}', X), "in_unreduced_axes + r2u_axes"),
]  # fmt: skip
RIGHT = [
    "sdy.mesh @m = <[], device_ids=[3]>",
    function('@"m", [{"y", "x"}, {}]'),
    function('@m, [{ "x" , ?}p0 , {}]'),
    function('mesh<["q"=2]>, [{"q"}, {}]'),
    function('@m, [{"y":(2)2, "y":(1)2}, {}]'),
    function('@m, [{"x"}, {}], replicated={"y":(1)2}, unreduced={"y":(2)2}'),
    function("@one, []"),
    function('@m, [{"x"}, {}]', type_="tensor<?x3xf32>"),
    rule("([ij, k])->([ij, k]) {i=4, j=4, k=16}, custom"),
    manual(ROWS, ROWS, '{"x"}', HALF),
    manual(ROWS, ROWS, '{"x"}', "tensor<8x?xf32>", type_="tensor<16x?xf32>"),
    manual(
        ROWS, ROWS, '{"x"}', HALF,
        f'%b = sdy.all_slice [{{"y"}}, {{}}] %x out_sharding=<@m, [{{"y"}}, {{}}]> : {HALF}\n'
        f"sdy.return %b : {HALF}",
    ),
    collective('@m, [{"y"}, {}]', 'all_gather [{"y":(2)2}, {}]', '@m, [{"y":(1)2}, {}]'),
    collective('@m, [{"y":(1)2}, {}]', 'all_slice [{"y":(2)2}, {}]', '@m, [{"y"}, {}]'),
    collective(X, 'all_gather [{"x"}, {}]', "@ordered, [{}, {}]"),
    collective(X, 'all_to_all [{"x"}: 0 -> 1]', '@m, [{}, {"x"}]'),
    collective(X, "collective_permute", '@reversed, [{"x"}, {}]'),
    collective(X, 'sharded_to_unreduced [{"x"}, {}]', '@m, [{}, {}], unreduced={"x"}'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_program_that_breaks_a_rule_of_shardy_is_refused(text: str, message: str) -> None:
    found = verify_text(text)
    assert len(found) == 1
    assert message in found[0].message
    assert found[0].span is not None


@pytest.mark.parametrize("text", RIGHT)
def test_a_program_that_fulfils_the_rules_of_shardy_is_accepted(text: str) -> None:
    assert verify_text(text) == []


@pytest.mark.parametrize("what", ["argument", "result"])
def test_arguments_and_results_have_attributes_of_dialects_only(what: str) -> None:
    argument, result = (" {x}", "") if what == "argument" else ("", " {x}")
    text = f"func.func private @f(tensor<f32>{argument}) -> (tensor<f32>{result})"
    [found] = verify_text(text)
    assert found.message == f"'func.func' op {what}s may only have dialect attributes"


def test_every_wrong_op_is_reported() -> None:
    line = f"%b = sdy.reshard %a <@zz, [{{}}, {{}}]> : {T}\n"
    text = function("@yy, [{}, {}]", line + f"%0 = sdy.reshard %b <@m, [{{}}]> : {T}")
    assert [d.span.line for d in verify_text(text) if d.span] == [7, 8, 9]


NEWER = {
    "unreduced_min": "names the reduction of unreduced axes, which later versions of Shardy read",
    "all_reduce_sum_word": "names the reduction of the op, which later versions of Shardy read",
    "reduce_scatter_max": "names the reduction of the op, which later versions of Shardy read",
}
"""Cases in which hloscope and jaxlib 0.10.2 differ, with the reason."""


def test_the_verdicts_of_jaxlib_on_shardy_are_met(shared: Path) -> None:
    cases = json.loads((shared / "conformance/sharding/shardy/cases.json").read_text())
    other = {
        case["name"]: case["message"]
        for case in cases
        if bool(first_errors(case["text"])) != (case["verdict"] == "invalid")
    }
    assert other.keys() == NEWER.keys()
    assert len(cases) > 100


@pytest.mark.parametrize("name", ["sdy_no_mesh", "sdy_manual_shape", "a2a_empty_groups"])
def test_reported_programs_are_refused(shared: Path, name: str) -> None:
    assert hloscope.verify((shared / f"regressions/round3/verify/{name}.mlir").read_text())


def test_programs_of_jax_with_shardings_are_accepted(shared: Path) -> None:
    checked = 0
    for path in sorted((shared / "conformance/sharding/programs").glob("*/program.mlir")):
        assert verify_text(path.read_text(), path.parent.name) == []
        checked += 1
    assert checked > 20
