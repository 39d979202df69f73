"""Proofs about maps: verdicts, counter-examples, what stays undecided."""

from __future__ import annotations

import pytest

from hloscope.affine import POS_INF, Dim, Interval, Range, Runtime, parse_expr
from hloscope.errors import UnsupportedError
from hloscope.indexing import (
    IndexingMap,
    RuntimeVariable,
    Variable,
    prove_injective,
    prove_single_valued,
)
from hloscope.indexing.proofs import (
    prove_composed,
    prove_empty,
    prove_equal,
    prove_implies,
    prove_inverse,
    prove_within,
    system_of,
    tight_bounds,
)
from hloscope.indexing.variables import below
from hloscope.ir.graph import Instruction
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.ops.control import Parameter
from hloscope.simplifier import UndecidedError, Verdict
from hloscope.simplifier.isl_relations import System, to_isl
from hloscope.simplifier.isl_sets import count_results


def parse(text: str) -> IndexingMap:
    return IndexingMap.parse(text)


EQUAL = [
    ("(d0) -> (d0 / 2 * 2 + d0 mod 2), domain: d0 in [0, 9]", "(d0) -> (d0), domain: d0 in [0, 9]"),
    ("(d0) -> (d0 ceildiv 4), domain: d0 in [-9, 9]",
     "(d0) -> ((d0 + 3) / 4), domain: d0 in [-9, 9]"),
    ("(d0) -> (d0 / -3), domain: d0 in [-9, 9]", "(d0) -> (-d0 / 3), domain: d0 in [-9, 9]"),
    ("(d0) -> (min(d0, 4)), domain: d0 in [0, 9]",
     "(d0) -> (4 - max(4 - d0, 0)), domain: d0 in [0, 9]"),
    ("()[s0, s1] -> (s0, s1), domain: s0 in [0, 3], s1 in [0, 4]",
     "()[s0, s1] -> (s1, s0), domain: s0 in [0, 4], s1 in [0, 3]"),
    ("(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 9], s0 - d0 * 2 in [0, 1]",
     "(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 3], s0 in [0, 1]"),
    ("(d0) -> (d0), domain: d0 in [0, 9], d0 mod 8 in [9, 9]", "KNOWN EMPTY"),
    ("(d0){rt0} -> (d0 * rt0), domain: d0 in [0, 9], rt0 in [0, 2]",
     "(d0){rt0} -> (rt0 * d0 * 2 - d0 * rt0), domain: d0 in [0, 9], rt0 in [0, 2]"),
    ("(d0)[s0] -> (d0 / s0), domain: d0 in [0, 9], s0 in [2, 2]",
     "(d0) -> (d0 / 2), domain: d0 in [0, 9]"),
    ("(d0) -> (d0)", "(d0) -> (d0 + 0)"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_equal_maps_are_equal_by_meaning(first: str, second: str) -> None:
    assert parse(first).equals(parse(second))
    assert parse(second).equals(parse(first))


DIFFERENT = [
    ("(d0) -> (d0), domain: d0 in [0, 9]", "(d0) -> (d0), domain: d0 in [0, 8]", (9,), (9,), 0),
    ("(d0) -> (d0 / 2), domain: d0 in [0, 1]",
     "(d0)[s0] -> (s0), domain: d0 in [0, 1], s0 in [0, 1]",
     None, (1,), 1),
    ("(d0) -> (), domain: d0 in [3, 4]", "(d0) -> (), domain: d0 in [3, 3]", (4,), (), 0),
    ("() -> (1)", "() -> (2)", (), (1,), 0),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "dims", "results", "only_in"), DIFFERENT)
def test_a_counter_example_is_in_one_of_them_only(
    first: str, second: str, dims: tuple[int, ...] | None, results: tuple[int, ...], only_in: int
) -> None:
    maps = parse(first), parse(second)
    proof = prove_equal(maps[:1], maps[1:])
    assert proof.is_refuted
    example = proof.counter_example
    assert example is not None
    assert dims in (None, example.dims)
    assert (example.results, example.only_in) == (results, only_in)
    assert example.results in maps[only_in].points(example.dims)
    assert example.results not in maps[1 - only_in].points(example.dims)
    assert not maps[0].equals(maps[1])


def test_numbers_of_dimensions_are_compared_first() -> None:
    proof = prove_equal([parse("(d0) -> (d0)")], [parse("(d0, d1) -> (d0)")])
    assert proof.is_refuted
    assert proof.reason == "numbers of variables and results differ: 1 -> 1, 2 -> 1"


def test_unions_are_compared_as_sets() -> None:
    low = parse("(d0) -> (d0), domain: d0 in [0, 4]")
    high = parse("(d0) -> (d0), domain: d0 in [5, 9]")
    assert prove_equal([high, low], [IndexingMap.identity((10,))]).is_proved
    assert prove_equal([low, low, parse("KNOWN EMPTY")], [low]).is_proved
    assert prove_equal([], []).is_proved
    assert prove_equal([low], []).counter_example is not None


def test_products_of_wide_variables_are_undecided() -> None:
    m = parse("(d0)[s0] -> (d0 * s0), domain: d0 in [0, 999], s0 in [0, 999]")
    other = parse("(d0)[s0] -> (d0 * s0 + 0 * d0 + 1), domain: d0 in [0, 999], s0 in [0, 999]")
    proof = prove_equal([m], [other])
    assert proof.verdict is Verdict.UNDECIDED
    assert "is not affine" in proof.reason
    with pytest.raises(UnsupportedError, match="equality is undecided: a product by"):
        m.equals(other)


@pytest.mark.parametrize(("factor", "steps"), [(2, 4_000), (10**30, 500)])
def test_the_budget_ends_a_long_proof(factor: int, steps: int) -> None:
    """Each step takes longer with integers that no size has, so there are fewer of them."""
    e = "+".join(f"(d{i} * {factor * i + 3} / 7) mod 5" for i in range(5))
    dims = ", ".join(f"d{i}" for i in range(5))
    box = ", ".join(f"d{i} in [0, 99]" for i in range(5))
    first = parse(f"({dims}) -> ({e}), domain: {box}")
    second = parse(f"({dims}) -> ({e} + (d0 + d1 + d2) mod 2), domain: {box}")
    proof = prove_equal([first], [second], budget=4_000)
    assert proof.verdict is Verdict.UNDECIDED
    assert proof.reason == f"not decided within {steps} steps of isl"


def test_a_question_after_a_failed_one_is_answered() -> None:
    assert prove_equal([parse("(d0) -> (d0 * d0), domain: d0 in [0, 999]")], []).reason
    assert parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]").equals(
        parse("(d0) -> ((d0 * 2) / 4), domain: d0 in [0, 9]")
    )


def test_an_undefined_map_equals_only_itself() -> None:
    undefined = IndexingMap.undefined()
    assert undefined.equals(undefined)
    with pytest.raises(UnsupportedError, match="says nothing"):
        undefined.equals(IndexingMap.identity((2,)))


def instruction(name: str) -> Instruction:
    return Instruction(name, TensorType(ELEMENT_TYPES["s32"], (4,)), Parameter(0))


ORIGIN, OTHER = instruction("p"), instruction("q")


def reading(
    *origins: Instruction, result: str, clamp: int = 9, condition: int | None = None
) -> IndexingMap:
    runtime = [RuntimeVariable(Interval(0, clamp), "", o, (Dim(0),)) for o in origins]
    m = IndexingMap([below(4)], [], runtime, [parse_expr(result)])
    return m if condition is None else m.add_constraint(Runtime(0), Interval(0, condition))


def test_runtime_variables_are_known_by_what_they_read() -> None:
    assert reading(ORIGIN, OTHER, result="rt0 + rt1 * 2").equals(
        reading(OTHER, ORIGIN, result="rt1 + rt0 * 2")
    )
    assert not reading(ORIGIN, result="rt0").equals(reading(OTHER, result="rt0"))
    assert not reading(ORIGIN, result="rt0").equals(reading(ORIGIN, result="rt0", clamp=5))


def test_an_unused_runtime_variable_makes_no_difference_but_a_condition_does() -> None:
    plain = reading(ORIGIN, result="d0")
    assert plain.equals(IndexingMap.identity((4,)))
    assert plain.remove_unused_symbols() == IndexingMap.identity((4,))
    conditional = reading(ORIGIN, result="d0", condition=3)
    assert not conditional.equals(plain)
    assert conditional.remove_unused_symbols() == conditional


def test_equal_runtime_variables_become_one_in_a_composition() -> None:
    m = reading(ORIGIN, result="d0 + rt0").bounded([4], [], [Interval(0, 9)])
    shifted = IndexingMap(
        [below(20)],
        [],
        [RuntimeVariable(Interval(0, 9), "", ORIGIN, (Dim(0),))],
        [Dim(0) - Runtime(0)],
    )
    composed = m.compose(shifted)
    assert len(composed.runtime) == 2  # read at d0 + rt0 and at d0
    same = IndexingMap(
        [below(20)], [], [RuntimeVariable(Interval(0, 9), "", ORIGIN, (Dim(0) % 1,))], [Runtime(0)]
    )
    here = IndexingMap(
        [below(4)], [], [RuntimeVariable(Interval(0, 9), "", ORIGIN, (Dim(0) * 0,))], [Runtime(0)]
    )
    merged = here.compose(same)
    assert len(merged.runtime) == 1
    assert merged.results == (Runtime(0),)


def test_a_value_read_at_a_running_index_is_another_one_for_each_index() -> None:
    runtime = [RuntimeVariable(Interval(0, 9), "", ORIGIN, (Range(0),))]
    swapped = [RuntimeVariable(Interval(0, 9), "", ORIGIN, (Range(1),))]
    a = IndexingMap([], [below(4), below(4)], runtime, [Runtime(0), Range(0)])
    b = IndexingMap([], [below(4), below(4)], swapped, [Runtime(0), Range(1)])
    assert a.equals(b)  # the same element of the origin is read for the same pair
    other = IndexingMap([], [below(4), below(4)], swapped, [Runtime(0), Range(0)])
    assert not a.equals(other)


def test_emptiness_is_exact() -> None:
    empty = parse("(d0, d1) -> (d0), domain: d0 in [0, 9], d1 in [0, 9], d0 * 4 + d1 * 6 in [7, 7]")
    assert not empty.simplify().is_known_empty  # intervals and residues of bare variables only
    assert prove_empty([empty]).is_proved
    proof = prove_empty([empty.bounded([10, 12]).with_(constraints=[])])
    assert proof.counter_example is not None


def test_bounds_are_tight() -> None:
    m = parse("(d0, d1) -> (), domain: d0 in [0, 9], d1 in [0, 9], d0 + d1 in [15, 99]")
    assert tight_bounds(m, parse_expr("d0 - d1")) == Interval(-3, 3)
    assert tight_bounds(m, parse_expr("d0 mod 4")) == Interval(0, 3)
    assert tight_bounds(parse("(d0) -> ()"), Dim(0)) == Interval.EVERYTHING
    assert tight_bounds(parse("KNOWN EMPTY"), Dim(0) * 0).is_empty
    wide = parse("(d0, d1) -> (), domain: d0 in [0, 99], d1 in [0, 99]")
    assert tight_bounds(wide, Dim(0) * Dim(1)) is None


def test_implied_constraints_are_proved() -> None:
    m = parse("(d0) -> (), domain: d0 in [0, 99], d0 mod 6 in [3, 3]")
    assert prove_within(m, Dim(0) % 3, Interval(0, 0)).is_proved
    refuted = prove_within(m, Dim(0), Interval(0, 90))
    assert refuted.counter_example is not None
    assert refuted.counter_example.dims in {(93,), (99,)}


def test_compositions_and_inverses_are_checked() -> None:
    first = parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]")
    second = parse("(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 4], s0 in [0, 1]")
    assert prove_composed([first], [second], [first.compose(second)]).is_proved
    assert prove_composed([first], [second], [IndexingMap.identity((10,))]).is_refuted
    assert prove_composed([first], [], []).is_proved
    assert prove_inverse([first], [second]).is_proved
    assert prove_inverse([first], [parse("(d0) -> (d0 * 2), domain: d0 in [0, 4]")]).is_refuted
    assert prove_inverse([first], []).is_refuted


def test_injective_and_single_valued() -> None:
    first = parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]")
    assert prove_single_valued([first]).is_proved
    assert prove_injective([first]).is_refuted
    assert prove_injective([IndexingMap.identity((4, 4))]).is_proved
    wide = parse("(d0)[s0] -> (d0 + s0), domain: d0 in [0, 9], s0 in [0, 1]")
    assert prove_single_valued([wide]).is_refuted


def test_relations_come_out_as_isl_maps() -> None:
    m = parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [0, 6]")
    assert str(to_isl(system_of(m))) == (
        "[p0] -> { [i0] -> [p0 + i0] : 0 <= p0 <= 6 and 0 <= i0 <= 3 }"
    )
    with pytest.raises(ValueError, match="is not affine"):
        to_isl(system_of(parse("(d0, d1) -> (d0 * d1)")))


def test_subsets() -> None:
    small, large = (IndexingMap.identity((n,)) for n in (3, 5))
    assert prove_implies([small], [large]).is_proved
    assert prove_implies([large], [small]).is_refuted


def test_variables_are_interned() -> None:
    assert Variable(Interval(0, 3), "pid") is Variable(Interval(0, 3), "pid")
    assert Variable(Interval(0, 3)) != Variable(Interval(0, 3), "pid")


def test_results_without_end_are_not_counted() -> None:
    with pytest.raises(UndecidedError):
        count_results([System(1, 0, {Dim(0): Interval(0, POS_INF)}, (), [Dim(0)])])


def test_nothing_is_decided_beside_an_undefined_map() -> None:
    maps = [IndexingMap.identity((2,)), IndexingMap.undefined()]
    for prove in (prove_injective, prove_single_valued):
        assert prove(maps).verdict is Verdict.UNDECIDED


def test_results_are_counted_unless_what_is_read_decides() -> None:
    domain = "domain: d0 in [0, 9], rt0 in [-9223372036854775808, 9223372036854775807]"
    plain, moved = (
        system_of(IndexingMap.parse(f"(d0){{rt0}} -> ({result}), {domain}"))
        for result in ("d0 / 2", "d0 + rt0")
    )
    assert count_results([plain]) == 5
    with pytest.raises(UndecidedError, match="depends on the values of runtime variables"):
        count_results([moved])


@pytest.mark.parametrize(
    ("first", "second", "is_equal"),
    [
        ("d0 in [0, 9], d0 / 2 in [0, 2]", "d0 in [0, 9], d0 / 3 in [0, 1]", True),
        ("d0 in [0, 9], d0 / 2 in [0, 2]", "d0 in [0, 9], d0 / 3 in [0, 2]", False),
        ("d0 in [0, 9], d0 mod 4 in [0, 3]", "d0 in [0, 9]", True),
        ("d0 in [0, 9], d0 mod 4 in [0, 2]", "d0 in [0, 9]", False),
    ],
)
def test_constraints_are_compared_by_what_they_leave(
    first: str, second: str, is_equal: bool
) -> None:
    one, other = (parse(f"(d0) -> (d0 * 3), domain: {where}") for where in (first, second))
    for a, b in ((one, other), (other, one)):
        assert prove_equal([a], [b]).is_proved is is_equal
    kept = [{at for at in range(10) if m.points((at,))} for m in (one, other)]
    assert (kept[0] == kept[1]) is is_equal


def test_other_places_may_have_the_same_results() -> None:
    low, all_ = [
        parse(f"(d0)[s0] -> (s0 mod 2), domain: d0 in [0, 1], s0 in [0, 3]{where}")
        for where in (", s0 / 2 in [0, 0]", "")
    ]
    assert prove_equal([low], [all_]).is_proved
