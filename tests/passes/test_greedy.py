"""The driver: order, dead code, constants; and that what it is given stays as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.mlir import I64, DenseArrayAttr, Operation, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.ops import Transpose
from hloscope.passes import Option, Pass, PassError, Patterns, Rewriter, Run
from hloscope.stablehlo import parse_stablehlo, run_inference_tests, to_graph
from hloscope.stablehlo.vhlo import to_stablehlo, to_vhlo
from hloscope.verifier import verify_mlir

CHAIN = """
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %a : tensor<2xf32>
  %1 = stablehlo.negate %0 : tensor<2xf32>
  %2 = stablehlo.negate %1 : tensor<2xf32>
  %3 = stablehlo.negate %2 : tensor<2xf32>
  %4 = stablehlo.abs %3 : tensor<2xf32>
  %5 = stablehlo.exponential %4 : tensor<2xf32>
  return %4 : tensor<2xf32>
}
"""

negations = Patterns()


@negations.on("stablehlo.negate")
def negate_twice(rewriter: Rewriter, op: Operation) -> bool:
    inner = op.operands[0].owner
    if not isinstance(inner, Operation) or inner.name != "stablehlo.negate":
        return False
    rewriter.replace(op, inner.operands)
    return True


def rewrite(run: Run) -> None:
    for function in run.functions():
        if not run.greedy(function, negations, top_down=run.options["top-down"]):
            run.error(function, "has no end")


NEGATIONS = Pass(
    "negations",
    rewrite,
    "-(-x) is x.",
    {"top-down": Option(default=True, help="From the first op.", read=bool)},
)


def tree_of(text: str) -> Operation:
    return parse_stablehlo(text).tree


def text_of(module: Operation) -> str:
    return print_mlir(module, dialects=DIALECTS)


def names(module: Operation) -> list[str]:
    return [op.name.partition(".")[2] for op in Rewriter(module).walk()]


@pytest.mark.parametrize("top_down", [True, False])
def test_patterns_apply_until_none_fits_and_dead_code_goes(top_down: bool) -> None:
    module = tree_of(CHAIN)
    before = text_of(module)
    after, run = NEGATIONS.apply(module, **{"top-down": top_down})
    assert names(after) == ["module", "func", "abs", "return"]
    assert run.fired["negate_twice"] == 2
    assert text_of(module) == before


def test_constants_are_merged_and_stand_first_in_reverse_order() -> None:
    module = tree_of(
        """
        func.func @main(%a: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {
          %0 = stablehlo.negate %a : tensor<f32>
          %c1 = stablehlo.constant dense<1.0> : tensor<f32>
          %1 = "stablehlo.if"(%p) ({
            %c2 = stablehlo.constant dense<2.0> : tensor<f32>
            stablehlo.return %c2 : tensor<f32>
          }, {
            %c3 = stablehlo.constant dense<1.0> : tensor<f32>
            stablehlo.return %c3 : tensor<f32>
          }) : (tensor<i1>) -> tensor<f32>
          %2 = stablehlo.add %0, %c1 : tensor<f32>
          %3 = stablehlo.add %2, %1 : tensor<f32>
          return %3 : tensor<f32>
        }"""
    )
    after, _ = NEGATIONS.apply(module)
    lines = [line.strip() for line in text_of(after).splitlines() if "constant" in line]
    assert [line.partition("dense")[2][:14] for line in lines] == [
        "<2.000000e+00>",
        "<1.000000e+00>",
    ]
    assert names(after)[2:5] == ["constant", "constant", "negate"]


@pytest.mark.slow
def test_a_loop_of_patterns_ends_and_is_told() -> None:
    forever = Patterns()

    @forever.on("stablehlo.negate", "stablehlo.abs")
    def turn(rewriter: Rewriter, op: Operation) -> bool:
        other = "abs" if op.name.endswith("negate") else "negate"
        new = rewriter.create(f"stablehlo.{other}", op.operands, before=op)
        rewriter.replace(op, new.results)
        return True

    def run_forever(run: Run) -> None:
        for function in run.functions():
            if not run.greedy(function, forever, max_iterations=3):
                run.error(function, "has no end")

    with pytest.raises(PassError, match="has no end"):
        Pass("forever", run_forever, "No end.").apply(tree_of(CHAIN))


def test_constants_stay_in_regions_that_see_nothing_from_outside() -> None:
    text = """
func.func @main(%x: tensor<3xf32>, %i: tensor<f32>) -> (tensor<3xf32>, tensor<f32>) {
  %0:2 = chlo.scan(%x) inits (%i) dimension=0 attributes {is_reverse = false} {
  ^bb0(%input: tensor<f32>, %carry: tensor<f32>):
    %1 = stablehlo.add %carry, %input : tensor<f32>
    %2 = stablehlo.constant dense<2.0> : tensor<f32>
    %3 = stablehlo.add %1, %2 : tensor<f32>
    %p = stablehlo.compare GT, %3, %1 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = "stablehlo.if"(%p) ({
      %5 = stablehlo.constant dense<2.0> : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }, {
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    stablehlo.return %3, %4 : tensor<f32>, tensor<f32>
  } : (tensor<3xf32>, tensor<f32>) -> (tensor<3xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<f32>
}"""
    module, _ = NEGATIONS.apply(tree_of(text))
    printed = text_of(module)
    assert printed.count("stablehlo.constant") == 1
    assert printed.index("^bb0") < printed.index("stablehlo.constant")


def test_what_starts_asynchronously_stays_the_only_op_of_its_region() -> None:
    text = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.async_start"(%x) ({
  ^bb0(%a: tensor<2xf32>):
    %1 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
    ^bb0(%b: tensor<f32>, %c: tensor<f32>):
      %2 = stablehlo.constant dense<2.0> : tensor<f32>
      %3 = stablehlo.add %b, %c : tensor<f32>
      %4 = stablehlo.negate %3 : tensor<f32>
      %5 = stablehlo.negate %4 : tensor<f32>
      %6 = stablehlo.add %5, %2 : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    stablehlo.return %1 : tensor<2xf32>
  }) : (tensor<2xf32>) -> !stablehlo.future<tensor<2xf32>>
  %7 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<2xf32>>) -> tensor<2xf32>
  return %7 : tensor<2xf32>
}"""
    module, run = NEGATIONS.apply(tree_of(text))
    assert run.fired["negate_twice"] == 1
    assert not verify_mlir(module)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=30))
@settings(max_examples=30, deadline=None)
def test_operands_of_an_op_with_many_are_replaced_where_they_stand(
    steps: list[tuple[int, int]],
) -> None:
    """However often, and whether they stand there once or several times."""
    slices = "\n".join(
        f"%{k} = stablehlo.slice %a [{k}:{k + 1}] : (tensor<200xf32>) -> tensor<1xf32>"
        for k in range(100)
    )
    names, types = (
        ", ".join([f"%{k % 100}" for k in range(150)]),
        ", ".join(150 * ["tensor<1xf32>"]),
    )
    text = f"""func.func @main(%a: tensor<200xf32>) -> tensor<150xf32> {{
    {slices}
    %r = stablehlo.concatenate {names}, dim = 0 : ({types}) -> tensor<150xf32>
    return %r : tensor<150xf32>
    }}"""
    rewriter = Rewriter(parse_stablehlo(text).tree)
    joined = next(op for op in rewriter.walk() if op.name == "stablehlo.concatenate")
    parts = list(joined.operands[:100])
    expected = list(joined.operands)
    for old, new in steps:
        rewriter.replace_uses(parts[old], parts[new])
        expected = [parts[new] if value is parts[old] else value for value in expected]
        assert list(joined.operands) == expected
        assert sum(map(rewriter.uses, parts)) == 150


ALIKE = """
func.func @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
"""


@pytest.mark.parametrize(("permutation", "is_right"), [((0, 1), True), ((0, 0), False)])
def test_of_ops_that_were_read_alike_one_is_changed_alone(
    permutation: tuple[int, ...], is_right: bool
) -> None:
    """What is found of the others is not taken for what it is now."""
    rewriter = Rewriter(tree_of(ALIKE))
    _, second = (op for op in rewriter.walk() if op.name == "stablehlo.transpose")
    rewriter.set_properties(second, {"permutation": DenseArrayAttr(I64, permutation)})
    changed = rewriter.finish()
    assert bool(verify_mlir(changed)) is not is_right
    _, one, other, *_ = to_graph(changed).entry.instructions
    assert one.op == Transpose((1, 0))
    assert other.op == Transpose(permutation)


@pytest.mark.parametrize(
    "copy",
    [
        lambda tree: Rewriter(tree).module,
        run_inference_tests,
        to_vhlo,
        lambda tree: to_stablehlo(to_vhlo(tree)),
    ],
)
def test_what_may_be_changed_shares_nothing_with_what_was_read(
    copy: Callable[[Operation], Operation],
) -> None:
    tree = tree_of(ALIKE)
    assert [op.shared_key for op in tree.walk() if op.shared_key is not None]
    assert not [op for op in copy(tree).walk() if op.shared_key is not None]
