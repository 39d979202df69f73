"""Where maps and their proofs once disagreed: mixed sizes, tiles, asynchronous pairs."""

from __future__ import annotations

import numpy as np
import pytest

import hloscope
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing.physical import address_map
from hloscope.ir.types import TensorType

BOUNDED = "tensor<?x3xf32, #stablehlo.bounds<4, ?>>"
STATIC = "tensor<3x3xf32>"
MIXED = {
    "abs": ("stablehlo.abs", "%a", "", f"({STATIC}) -> {BOUNDED}"),
    "add": ("stablehlo.add", "%a, %b", "", f"({STATIC}, {BOUNDED}) -> {BOUNDED}"),
    "chlo_add": ("chlo.broadcast_add", "%a, %c", "", f"({STATIC}, tensor<3xf32>) -> {BOUNDED}"),
    "slice": (
        "stablehlo.slice",
        "%a",
        "{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 3, 2>,"
        " strides = array<i64: 1, 1>}",
        f"({STATIC}) -> tensor<?x2xf32, #stablehlo.bounds<4, ?>>",
    ),
    "transpose": (
        "stablehlo.transpose",
        "%a",
        "{permutation = array<i64: 1, 0>}",
        f"({STATIC}) -> tensor<3x?xf32, #stablehlo.bounds<?, 4>>",
    ),
    "to_static": ("stablehlo.abs", "%b", "", f"({BOUNDED}) -> {STATIC}"),
}
ASYNC_UPDATE = """
c { a = u8[64] parameter(0) b = u8[16] parameter(1) i = u8[] parameter(2)
  ROOT d = u8[64] dynamic-update-slice(a, b, i) }
ENTRY e { a = u8[64] parameter(0) b = u8[16] parameter(1) i = u8[] parameter(2)
  s = ((u8[64], u8[16], u8[]), u8[64], u32[]) async-start(a, b, i), calls=c
  ROOT t = u8[64] async-done(s), calls=c }
"""
NO_RESULT = """
c { p = f32[4,4] parameter(0) ROOT r = f32[4,4] copy(p) }
ENTRY e { p = f32[4,4] parameter(0)
  s = ((f32[4,4]), (), s32[]) async-start(p), calls=c
  ROOT d = f32[4,4] async-done(s) }
"""


def mixed(name: str) -> hloscope.Program:
    """A program of one op whose operand and result say different things of a size."""
    op, operands, attributes, type = MIXED[name]
    result = type.split("-> ")[1]
    return hloscope.read(
        f"func.func @main(%a: {STATIC}, %b: {BOUNDED}, %c: tensor<3xf32>) -> {result} {{\n"
        f'  %r = "{op}"({operands}) {attributes} : {type}\n  return %r : {result}\n}}'
    )


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("name", MIXED)
def test_elements_behind_the_size_of_one_side_are_in_no_map(name: str) -> None:
    view = next(v for v in mixed(name) if v.ir.operands)
    found = [view.indexing(), view.indexing_from(0), mixed(name).root.to_parameters()]
    for answer in found:
        for check in answer.prove(by_execution=True).checks:
            assert not check.is_refuted, str(check)


def test_an_operand_of_another_bound_does_not_expand() -> None:
    view = next(v for v in mixed("chlo_add") if v.ir.operands)
    assert str(view.indexing().maps[0][0]) == (
        "(d0, d1) -> (d0, d1), domain: d0 in [0, 2], d1 in [0, 2]"
    )


def test_indices_of_an_asynchronous_computation_are_the_callers() -> None:
    start = next(v for v in hloscope.read(ASYNC_UPDATE) if v.name == "s")
    checks = start.indexing().prove(by_execution=True).checks
    assert not [str(check) for check in checks if check.is_refuted]


def test_a_start_without_result_leaves_what_is_done_unknown() -> None:
    done = hloscope.read(NO_RESULT).root
    for found in (done.indexing(), done.indexing_from(0)):
        reasons = {a.reason for operand in found.operands for a in operand.accesses}
        assert reasons == {"its operand has no such result"}
        assert not any(found.maps)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize(
    "text",
    ["f64[]{:T(256)}", "f32[5]{0:T(2,4)}", "f32[7]{0:T(3)(2)}", "f32[5,7]{0,1:T(2,4)(2,1)}"],
)
def test_positions_in_the_padding_of_tiles_hold_no_element(text: str) -> None:
    type = parse_type(text)
    assert isinstance(type, TensorType)
    program = hloscope.read(f"ENTRY e {{ a = {text} parameter(0) ROOT r = {text} negate(a) }}")
    m = program.root.indexing(linear=True).map
    index = [i.ravel() for i in np.indices(type.shape)]
    places = {int(p) for p in np.atleast_1d(address_map(type).evaluate_array(index)[0])}
    last = m.dims[0].interval.hi
    assert {p for p in range(last + 1) if m.satisfies((p,))} == places
    checks = program.root.indexing(linear=True).prove().checks
    assert not [str(check) for check in checks if check.is_refuted]


def test_pairs_of_elements_past_memory_are_not_kept() -> None:
    text = """
    ENTRY e {
      a = f32[16,8] parameter(0)
      unread = f32[2048,2048,2048] parameter(1)
      ROOT r = f32[16,8] multiply(a, a)
    }"""
    found = hloscope.read(text).root.to_parameters().prove(by_execution=True)
    assert any("it is computed from are large" in str(check) for check in found.checks)


def answers(program: hloscope.Program) -> list[str]:
    """What checking both directions of every instruction refutes."""
    found = []
    for view in program:
        asked = [view.indexing(), view.to_parameters()]
        asked += [view.indexing_from(k) for k in range(len(view.operands))]
        for answer in asked:
            checks = answer.prove(by_execution=True).checks
            found += [str(check) for check in checks if check.is_refuted]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["", "channel_id=7, ", "channel_id=0, ", "channel_id=-3, "])
def test_a_channel_that_is_no_positive_number_is_none(channel: str) -> None:
    text = f"""ENTRY e {{ p = f32[4,2] parameter(0)
      s = (f32[4,2], f32[4,2]) collective-permute-start(p), {channel}source_target_pairs={{{{0,1}}}}
      ROOT d = f32[4,2] collective-permute-done(s) }}"""
    assert answers(hloscope.read(text)) == []


@pytest.mark.slow
def test_integers_cut_from_more_than_memory_holds_are_drawn_of_small_ones() -> None:
    text = """ENTRY e { a = f32[2,1] parameter(0) p = s32[4294967296] parameter(1)
      s = s32[1] slice(p), slice={[2:3]} k = s32[] reshape(s) z = s32[] constant(0)
      ROOT r = f32[1,1] dynamic-slice(a, k, z), dynamic_slice_sizes={1,1} }"""
    program = hloscope.read(text)
    assert answers(program) == []
    checks = program.root.indexing().prove(by_execution=True).checks
    assert all(check.executed and check.executed.runs for check in checks[:1])


def test_broadcasts_to_dimensions_that_are_not_there_are_unknown() -> None:
    text = """func.func @main(%a: tensor<1x4xi32>, %b: tensor<4xi32>) -> tensor<1x4xi32> {
      %0 = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 2>}
        : (tensor<1x4xi32>, tensor<4xi32>) -> tensor<1x4xi32>
      return %0 : tensor<1x4xi32> }"""
    root = hloscope.read(text).root
    (reason,) = {a.reason for a in root.to_parameters().operands[1].accesses}
    assert "broadcast_dimensions" in reason


@pytest.mark.slow
def test_initial_values_of_several_elements_are_read_whole() -> None:
    text = """func.func @main(%a: tensor<4x2xf32>, %i: tensor<4xf32>) -> tensor<2x1xf32> {
      %0 = "stablehlo.reduce_window"(%a, %i) ({
        ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
          %2 = stablehlo.add %x, %y : tensor<4xf32>
          "stablehlo.return"(%2) : (tensor<4xf32>) -> () })
        {padding = dense<[[2, 2], [0, 0]]> : tensor<2x2xi64>,
         window_dimensions = array<i64: 4, 2>, window_strides = array<i64: 3, 1>}
        : (tensor<4x2xf32>, tensor<4xf32>) -> tensor<2x1xf32>
      return %0 : tensor<2x1xf32> }"""
    program = hloscope.read(text)
    assert answers(program) == []
    window = next(view for view in program if view.ir.calls)
    assert window.indexing(physical=True).maps[1][0].results
