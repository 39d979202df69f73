"""Folds of ops with regions: reductions whose result is known, loops without iterations."""

from __future__ import annotations

import pytest

from hloscope.passes import find_pass
from hloscope.passes.folding.folder import REDUCTION
from hloscope.passes.patterns import Limits, limited
from hloscope.stablehlo import parse_stablehlo, print_stablehlo
from tests.passes.folded import applied

OUTER, SPLATS = "fold_reduce_to_outer_values", "lower_splats_into_reduce"
NOTHING, CONSTANTS = "fold_reduce_of_no_dimensions", "fold_reduce_to_constants"


def reduction(
    operands: str = "%x, %z",
    types: str = "(tensor<4xi32>, tensor<i32>) -> tensor<i32>",
    *,
    dimensions: str = "{dimensions = array<i64: 0>}",
    body: str = '"stablehlo.return"(%z) : (tensor<i32>) -> ()',
) -> str:
    """A function of one `reduce` in the generic form, which need not be valid."""
    of_x = types[1:].partition(",")[0].partition(")")[0] or "tensor<4xi32>"
    result = "%r = " if types.endswith("tensor<i32>") or types.endswith(of_x) else ""
    use = f'"test.use"(%r) : ({types.rpartition("-> ")[2]}) -> ()' if result else ""
    return f"""func.func @main(%x: {of_x}, %z: tensor<i32>) {{
      %c = stablehlo.constant dense<6> : tensor<4xi32>
      %k = stablehlo.constant dense<5> : tensor<i32>
      %f = stablehlo.constant dense<5.0> : tensor<f32>
      %v = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
      {result}"stablehlo.reduce"({operands}) ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        {body}
      }}) {dimensions} : {types}
      {use}
      return
    }}"""


def fired(text: str) -> dict[str, int]:
    return dict(applied(limited(REDUCTION, Limits()), text)[1].fired)


def returned(value: str, type: str = "tensor<i32>") -> str:
    return f'"stablehlo.return"({value}) : ({type}) -> ()'


def test_a_reduction_of_elements_has_the_value_that_its_body_returns() -> None:
    assert fired(reduction()) == {OUTER: 1}
    assert fired(reduction(types="(tensor<1xi32>, tensor<i32>) -> tensor<i32>")) == {OUTER: 1}
    for inside, rule in ("dense<5> : tensor<i32>", CONSTANTS), ("dense<5.0> : tensor<f32>", ""):
        type = inside.rpartition(" ")[2]
        body = f"%s = stablehlo.constant {inside}\n{returned('%s', type)}"
        assert fired(reduction(body=body)) == ({rule: 1} if rule else {})
    assert fired(reduction(body=returned("%a"))) == {}
    computed = f"%s = stablehlo.add %a, %b : tensor<i32>\n{returned('%s')}"
    assert fired(reduction(body=computed)) == {}
    assert fired(reduction(body=returned("%f", "tensor<f32>"))) == {}


@pytest.mark.parametrize(
    "text",
    [
        reduction(types="(tensor<0xi32>, tensor<i32>) -> tensor<i32>"),
        reduction(types="(tensor<?xi32>, tensor<i32>) -> tensor<i32>"),
        reduction(types="(tensor<*xi32>, tensor<i32>) -> tensor<i32>"),
        reduction(dimensions=""),
        reduction(dimensions="{dimensions = array<i64: 1>}"),
        reduction(dimensions="{dimensions = array<i64: -1>}"),
        reduction("%x, %z, %z", "(tensor<4xi32>, tensor<i32>, tensor<i32>) -> tensor<i32>"),
        reduction("", "() -> ()", body='"stablehlo.return"() : () -> ()'),
    ],
    ids=["empty", "dynamic", "unranked", "no dimensions", "too large", "negative", "3 operands",
         "no operands"],
)  # fmt: skip
def test_a_reduction_that_may_combine_nothing_stays(text: str) -> None:
    assert fired(text) == {}


def test_a_reduction_over_no_dimensions_is_its_operand() -> None:
    none = "{dimensions = array<i64>}"
    same = "(tensor<4xi32>, tensor<i32>) -> tensor<4xi32>"
    computed = f"%s = stablehlo.add %a, %b : tensor<i32>\n{returned('%s')}"
    assert fired(reduction(types=same, dimensions=none, body=computed)) == {NOTHING: 1}
    other = "(tensor<4xi32>, tensor<i32>) -> tensor<i32>"
    assert fired(reduction(types=other, dimensions=none, body=computed)) == {}


def test_only_and_and_or_of_splats_take_the_splats() -> None:
    for op, given, folds in [
        ("and", "%c, %k", True),
        ("or", "%c, %k", True),
        ("add", "%c, %k", False),
        ("and", "%c, %z", False),
        ("and", "%v, %k", False),
        ("and", "%x, %k", False),
    ]:
        body = f"%s = stablehlo.{op} %a, %b : tensor<i32>\n{returned('%s')}"
        assert fired(reduction(given, body=body)) == ({SPLATS: 1} if folds else {}), (op, given)
    twice = "%s = stablehlo.and %a, %b : tensor<i32>\n%t = stablehlo.and %s, %b : tensor<i32>\n"
    assert fired(reduction("%c, %k", body=twice + returned("%t"))) == {}
    unused = f"%s = stablehlo.and %a, %b : tensor<i32>\n{returned('%a')}"
    assert fired(reduction("%c, %k", body=unused)) == {}


INSIDE = {
    "arithmetic": "stablehlo.add %a, %a : tensor<i32>",
    "a call": "func.call @f(%a) : (tensor<i32>) -> tensor<i32>",
    "an unknown op": '"test.f"(%a) : (tensor<i32>) -> tensor<i32>',
    "a declared effect": '"stablehlo.custom_call"(%a) {call_target_name = "g",'
    " has_side_effect = true} : (tensor<i32>) -> tensor<i32>",
    "a transfer": '"stablehlo.outfeed"(%a, %t) {outfeed_config = ""} :'
    " (tensor<i32>, !stablehlo.token) -> !stablehlo.token",
}
"""Ops in the body of a loop that never runs."""


@pytest.mark.parametrize(
    ("inside", "left", "left_if_assumed"),
    [
        ("arithmetic", 0, 0),
        ("a call", 1, 0),
        ("an unknown op", 1, 0),
        ("a declared effect", 1, 1),
        ("a transfer", 1, 1),
    ],
)
@pytest.mark.parametrize("runs", ["false", "true"])
def test_a_loop_that_never_runs_goes_if_it_declares_no_effects(
    inside: str, left: int, left_if_assumed: int, runs: str
) -> None:
    """Its results are not used; a loop that never ends stays in any case."""
    text = f"""func.func @main(%x: tensor<i32>, %t: !stablehlo.token) -> tensor<i32> {{
      %c = stablehlo.constant dense<{runs}> : tensor<i1>
      %w = "stablehlo.while"(%x) ({{
      ^bb0(%a: tensor<i32>):
        "stablehlo.return"(%c) : (tensor<i1>) -> ()
      }}, {{
      ^bb0(%a: tensor<i32>):
        %b = {INSIDE[inside]}
        "stablehlo.return"(%a) : (tensor<i32>) -> ()
      }}) : (tensor<i32>) -> tensor<i32>
      return %x : tensor<i32>
    }}
    func.func private @f(tensor<i32>) -> tensor<i32>
    """
    folder = find_pass("stablehlo-aggressive-folder")
    for assumed, wanted in ((False, left), (True, left_if_assumed)):
        options = {"assume-no-undeclared-side-effects": assumed}
        after, run = folder.apply(parse_stablehlo(text).tree, **options)
        erased = run.fired["erase_while_that_never_runs"]
        if runs == "false":
            assert print_stablehlo(after).count("while") == wanted
            assert erased == left - wanted
        else:
            assert erased == 0
