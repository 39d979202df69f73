"""Claims about sizes, starts and values that are known only at run time."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.affine import Const, Dim, Expr, Interval, Runtime, evaluate
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import IndexingMap, Precision, TileVerdict, exact_tiles, output_to_input
from hloscope.indexing.access import _entry_expression
from hloscope.indexing.counts import card_bounds
from hloscope.indexing.proofs import prove_composed, prove_inverse, tight_bounds
from hloscope.indexing.rules.run_time_sizes import element_reads, keeps_indices, size_reads
from hloscope.ir import Instruction


def root(text: str) -> Instruction:
    return parse_hlo(f"HloModule m\nENTRY e {{ {text} }}").entry.root


BOUNDS = "#stablehlo.bounds<?, 4>"


def first(text: str) -> Instruction:
    """The value that a function of StableHLO returns."""
    (value,) = hs.parse_stablehlo(f"func.func @main{text}").entry.root.operands
    return value


@pytest.mark.parametrize(
    ("ins", "dimension", "operand", "read"),
    [
        (root("p = f32[3,<=4] parameter(0) ROOT r = f32[<=4,3] transpose(p), dimensions={1,0}"),
         0, 0, 1),
        (root("p = f32[<=4,3] parameter(0) q = f32[3,<=5] parameter(1) ROOT r = f32[<=4,<=5]"
              " dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}"), 0, 0, 0),
        (root("p = f32[<=4,3] parameter(0) q = f32[3,<=5] parameter(1) ROOT r = f32[<=4,<=5]"
              " dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}"), 1, 1, 1),
        (first(f"""(%p: tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<2x?xf32, {BOUNDS}> {{
            %0 = "stablehlo.broadcast"(%p) {{broadcast_sizes = array<i64: 2>}}
              : (tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<2x?xf32, {BOUNDS}>
            return %0 : tensor<2x?xf32, {BOUNDS}> }}"""), 1, 0, 0),
    ],
    ids=["transpose", "left side of a dot", "right side of a dot", "broadcast"],
)  # fmt: skip
def test_a_size_is_that_of_the_dimension_it_comes_from(
    ins: Instruction, dimension: int, operand: int, read: int
) -> None:
    found = [(r.operand, r.dimension, r.reason) for r in size_reads(ins, 0, dimension) or ()]
    assert found == [(operand, read, "")]


def test_a_size_is_told_by_starts_limits_and_strides() -> None:
    ins = first("""(%p: tensor<8xf32>, %a: tensor<1xi32>, %b: tensor<1xi32>, %c: tensor<1xi32>)
        -> tensor<?xf32> {
      %0 = stablehlo.real_dynamic_slice %p, %a, %b, %c
        : (tensor<8xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
      return %0 : tensor<?xf32> }""")
    assert [(r.operand, r.element) for r in size_reads(ins, 0, 0) or ()] == [
        (operand, (0,)) for operand in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("slice", "result", "is_whole"),
    [
        ("[0:4], [0:2]", "<=4,2", True),
        ("[0:4], [1:3]", "<=4,2", True),
        ("[1:4], [0:3]", "<=3,3", False),
        ("[0:3], [0:3]", "<=3,3", False),
        ("[0:4:2], [0:3]", "<=2,3", False),
    ],
)
def test_a_slice_of_a_whole_dimension_hands_its_size_on(
    slice: str, result: str, is_whole: bool
) -> None:
    ins = root(f"p = f32[<=4,3] parameter(0) ROOT r = f32[{result}] slice(p), slice={{{slice}}}")
    check_hands_size_on(ins, is_whole)


@pytest.mark.parametrize(
    ("sizes", "result", "is_whole"), [("4,2", "<=4,2", True), ("3,3", "<=3,3", False)]
)
def test_a_dynamic_slice_of_a_whole_dimension_hands_its_size_on(
    sizes: str, result: str, is_whole: bool
) -> None:
    given = "p = f32[<=4,3] parameter(0) i = s32[] parameter(1)"
    slice = f"dynamic-slice(p, i, i), dynamic_slice_sizes={{{sizes}}}"
    check_hands_size_on(root(f"{given} ROOT r = f32[{result}] {slice}"), is_whole)


def test_a_slice_of_a_dimension_without_bound_does_not_hand_its_size_on() -> None:
    ins = first("""(%p: tensor<?x3xf32>) -> tensor<4x3xf32> {
      %0 = stablehlo.slice %p [0:4, 0:3] : (tensor<?x3xf32>) -> tensor<4x3xf32>
      return %0 : tensor<4x3xf32> }""")
    check_hands_size_on(ins, False)


def check_hands_size_on(ins: Instruction, is_whole: bool) -> None:
    """Is size 0 of the operand that of the result, and are indices those of the operand?"""
    assert keeps_indices(ins) is is_whole
    (read,) = size_reads(ins, 0, 0) or ()
    assert (read.operand, read.dimension, bool(read.reason)) == (0, 0, not is_whole)


def test_a_padded_array_and_its_sizes_depend_on_the_unknown_ones() -> None:
    ins = root(
        "p = f32[<=4,3] parameter(0) ROOT r = (f32[4,3], s32[], s32[])"
        ' custom-call(p), custom_call_target="PadToStatic"'
    )
    found = [
        [(r.operand, r.dimension, bool(r.reason)) for r in element_reads(ins, output, [True])]
        for output in range(3)
    ]
    assert found == [[(0, 0, True)], [(0, 0, False)], []]


def test_operands_of_one_size_give_the_reason_why_one_is_enough() -> None:
    two = root("p = f32[<=4] parameter(0) q = f32[<=4] parameter(1) ROOT r = f32[<=4] add(p, q)")
    found = size_reads(two, 0, 0) or ()
    assert [read.operand for read in found] == [0, 1]
    assert all(read.reason for read in found)
    same = root("p = f32[<=4] parameter(0) ROOT r = f32[<=4] add(p, p)")
    assert [(read.operand, read.reason) for read in size_reads(same, 0, 0) or ()] == [(0, "")]


@pytest.mark.parametrize("first", range(4))
def test_operands_behind_a_size_known_at_run_time_may_begin_anywhere(first: int) -> None:
    ins = root(
        "a = f32[<=3] parameter(0) b = f32[2] parameter(1) c = f32[4] parameter(2)"
        " ROOT r = f32[<=9] concatenate(a, b, c), dimensions={0}"
    )
    for operand, (begin, size) in {1: (first, 2), 2: (first + 2, 4)}.items():
        maps = [access.map for access in output_to_input(ins)[operand]]
        for element in range(size):
            assert any(m and (element,) in m.points((begin + element,)) for m in maps)


@pytest.mark.parametrize("result", ["f32[<=3]", "f32[3]"])
def test_a_size_set_again_is_no_exact_claim(result: str) -> None:
    ins = root(
        "p = f32[<=3] parameter(0) n = s32[] parameter(1)"
        f" ROOT r = {result} set-dimension-size(p, n), dimensions={{0}}"
    )
    assert output_to_input(ins)[0][0].precision is Precision.OVER


def test_updates_may_reach_the_last_element() -> None:
    program = hs.read("""
    func.func @main(%o: tensor<4xi32>, %i: tensor<1x1xi32>, %u: tensor<1x2xi32>) -> tensor<4xi32> {
      %0 = "stablehlo.scatter"(%o, %i, %u) ({ ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        stablehlo.return %b : tensor<i32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
        : (tensor<4xi32>, tensor<1x1xi32>, tensor<1x2xi32>) -> tensor<4xi32>
      return %0 : tensor<4xi32>
    }""")
    assert "d1 + rt0 in [0, 3]" in str(program["0"].indexing_from(2))


def test_a_number_of_elements_that_is_not_counted_is_bounded_by_every_bound() -> None:
    wide = "domain: d0 in [0, 3000], d1 in [0, 3000], s0 in [0, 300]"
    m = IndexingMap.parse(f"(d0, d1)[s0] -> (d0 * 7 + d1 * 3 + s0 * 11, d0 * d1 mod 7), {wide}")
    least, most = card_bounds([m], budget=1)
    hull = (3000 * 7 + 3000 * 3 + 300 * 11 + 1) * 7
    assert least == 0
    assert most <= hull


@pytest.mark.parametrize("expr", [Dim(0) // 2, Dim(0) % 2, Dim(0) * 3 + 1, Dim(0) // 3], ids=str)
def test_positions_in_a_group_are_recognised(expr: Expr) -> None:
    column = tuple(evaluate(expr, {Dim(0): i}) for i in range(12))
    assert _entry_expression((column, column[:6]), Dim(0)) is expr


def test_nothing_is_said_of_unknown_accesses_of_unknown_sizes() -> None:
    text = 'p = f32[<=4] parameter(0) ROOT r = f32[<=4] custom-call(p), custom_call_target="what"'
    ((access,),) = Analysis().output_to_input(root(text)).values()
    assert access.map is None
    assert "may read anything" in access.reason


def test_counter_examples_have_the_arity_of_the_maps() -> None:
    first = IndexingMap.parse("(d0, d1) -> (d0 + d1), domain: d0 in [0, 3], d1 in [0, 2]")
    back = IndexingMap.parse("(d0) -> (d0, 0), domain: d0 in [0, 3]")
    shifted = IndexingMap.parse("(d0, d1) -> (d0 + d1 + 1), domain: d0 in [0, 3], d1 in [0, 2]")
    same = IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 5]")
    for proof in (prove_inverse([first], [back]), prove_composed([first], [same], [shifted])):
        example = proof.counter_example
        assert proof.is_refuted
        assert example is not None
        assert (len(example.dims), len(example.results)) == (2, 1)


def test_a_map_reads_what_its_computation_captures() -> None:
    program = hs.read("""func.func @main(%p: tensor<4xf32>, %k: tensor<f32>) -> tensor<4xf32> {
      %0 = "stablehlo.map"(%p) ({ ^bb0(%a: tensor<f32>):
        %c = stablehlo.add %a, %k : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }""")
    entry = program.asked_module.entry
    found, captured = Analysis().output_to_input(entry["0"]), entry["k"]
    assert {place: [str(a.map) for a in accesses] for place, accesses in found.items()} == {
        (0, 0): ["(d0) -> (d0), domain: d0 in [0, 3]"],
        (captured, 0): ["(d0) -> (), domain: d0 in [0, 3]"],
    }


def test_constraints_alone_are_a_domain() -> None:
    free = IndexingMap.parse("(d0, d1) -> (d0)")
    assert not free.has_domain
    bounded = free.with_(constraints=((Dim(0) + Dim(1), Interval(0, 3)),))
    assert bounded.has_domain
    assert str(bounded).endswith("d0 + d1 in [0, 3]")


def test_elements_of_large_sets_are_told_without_enumeration() -> None:
    sides = "s0 in [0, 100000], s1 in [0, 100000]"
    m = IndexingMap.parse(
        f"(d0)[s0, s1] -> (s0 * 2 + s1 * 3), domain: d0 in [0, 0], {sides}, s0 - s1 in [5, 99999]"
    )
    found = m.image((Interval(0, 0),))
    assert [point in found for point in ((9,), (10,), (11,), (12,), (499_987,), (499_985,))] == [
        False, True, False, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("apart", range(1, 4))
def test_tiles_of_two_maps_are_the_union_of_both(apart: int) -> None:
    maps = [
        IndexingMap.parse(f"(d0) -> (d0 + {shift}), domain: d0 in [0, 7]") for shift in (0, apart)
    ]
    found = exact_tiles(maps, (4,))
    assert found.verdict is not TileVerdict.UNDECIDED
    assert found.union == 8 + apart


def test_in_a_group_of_one_there_is_one_position() -> None:
    assert _entry_expression(((3,), (3,)), Dim(0)) is Const(3)


def test_what_reads_its_place_is_no_inverse_of_nothing() -> None:
    there = IndexingMap.parse("(d0){rt0} -> (d0 + rt0, 0), domain: d0 in [0, 4], rt0 in [0, 2]")
    back = IndexingMap.parse("(d0, d1){rt0} -> (d0 - rt0), domain: d0 in [0, 6], d1 in [0, 0],"
                             " rt0 in [0, 2], d0 - rt0 in [0, 4]")  # fmt: skip
    for first, second in ([], [there]), ([], [back]), ([there], []):
        assert not prove_inverse(first, second).is_proved


def test_bounds_of_what_is_read_are_those_of_all_values() -> None:
    m = IndexingMap.parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 4], rt0 in [-1, 2]")
    assert tight_bounds(m, Dim(0) + Runtime(0)) == Interval(-1, 6)
    assert tight_bounds(m, (Dim(0) * 3 + Runtime(0)) % 3) == Interval(0, 2)


@pytest.mark.parametrize("operand", [0, 1])
def test_an_operand_may_have_one_element_where_its_size_is_not_known(operand: int) -> None:
    ins = root("p = f32[<=5] parameter(0) q = f32[<=5] parameter(1) ROOT r = f32[<=5] add(p, q)")
    maps = [str(access.map) for access in output_to_input(ins)[operand]]
    assert maps == [f"(d0) -> ({read}), domain: d0 in [0, 4]" for read in ("d0", "0")]
