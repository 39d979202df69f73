"""Values divided among the devices of a mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.ops.partition import Division, divided, meshes
from hloscope.interpreter.parallel import evaluate_grid
from hloscope.interpreter.values import EvaluationError
from hloscope.mlir.dialects import shardy_value
from hloscope.ops import Mesh
from hloscope.stablehlo import parse_stablehlo, print_stablehlo
from tests.interpreter.helpers import grid, values

OPS = """sdy.mesh @m = <["x"=2, "y"=4]>
sdy.mesh @other = <["x"=4], device_ids=[3, 1, 2, 0]>
func.func @main() { return }
"""
FRONTEND = [
    """HloModule m, frontend_attributes={xla.sdy.meshes={hlo = #sdy.mesh<["z"=8]>}}
ENTRY e { ROOT c = s32[] constant(0) }""",
    r"""HloModule m, frontend_attributes={xla.sdy.meshes="{hlo = #sdy.mesh<[\"z\"=8]>}"}
ENTRY e { ROOT c = s32[] constant(0) }""",
    r"""module attributes {mhlo.frontend_attributes = {
      xla.sdy.meshes = "{hlo = #sdy.mesh<[\22z\22=8]>}"}} {
  func.func @main() { return } }""",
]
MESHES = meshes(parse_stablehlo(OPS).extras)


def division(text: str) -> Division:
    return divided(shardy_value(f"#sdy.sharding{text}"), MESHES)


def test_meshes() -> None:
    assert {name: dict(mesh.axes) for name, mesh in MESHES.items()} == {
        "m": {"x": 2, "y": 4},
        "other": {"x": 4},
    }
    assert MESHES["other"].devices == (3, 1, 2, 0)


@pytest.mark.parametrize("text", FRONTEND)
def test_meshes_of_frontend_attributes(text: str) -> None:
    read = parse_hlo if text.startswith("HloModule") else parse_stablehlo
    assert meshes(read(text).extras) == {"hlo": Mesh((("z", 8),))}


@pytest.mark.parametrize(
    ("text", "shape", "firsts"),
    [
        ('<@m, [{"x"}]>', (8,), [0, 0, 0, 0, 4, 4, 4, 4]),
        ('<@m, [{"y"}]>', (8,), [0, 2, 4, 6, 0, 2, 4, 6]),
        ('<@m, [{"y", "x"}]>', (8,), [0, 2, 4, 6, 1, 3, 5, 7]),
        ('<@m, [{"y":(1)2}]>', (8,), [0, 0, 4, 4, 0, 0, 4, 4]),
        ('<@m, [{"y":(2)2, ?}p1]>', (8,), [0, 4, 0, 4, 0, 4, 0, 4]),
        ('<@m, [{}], replicated={"x"}>', (8,), [0] * 8),
        ('<mesh<["a"=8]>, [{"a"}]>', (8,), [*range(8)]),
        ('<mesh<["a"=8, "b"=1]>, [{"a", "b"}]>', (8,), [*range(8)]),
        ('<@m, [{"x"}, {"y"}]>', (2, 4), [*range(8)]),
    ],
)
def test_parts(text: str, shape: tuple[int, ...], firsts: list[int]) -> None:
    sharding = division(text)
    whole = np.arange(8).reshape(shape)
    parts = {d: sharding.part(whole, d) for d in range(8)}
    assert [part.flat[0] for part in parts.values()] == firsts
    assert (sharding.joined(parts) == whole).all()


def test_devices_in_another_order() -> None:
    sharding = division('<@other, [{"x"}]>')
    assert [int(sharding.part(np.arange(4), d)[0]) for d in range(4)] == [3, 1, 2, 0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('<@none, [{"x"}]>', "there is no mesh @none"),
        ('<@m, [{"z"}]>', "the mesh has no axis `z`; its axes are x, y"),
        ('<@m, [{"y":(2)4}]>', r"axis `y` of size 4 has no part \(2\)4"),
        ('<@m, [{"y":(0)2}]>', r"axis `y` of size 4 has no part \(0\)2"),
        ('<mesh<["a"=0]>, [{"a"}]>', "a mesh of 0 devices cannot be right"),
        ('<mesh<["a"=9999999, "b"=9999999]>, []>', "a mesh of 99999980000001 devices"),
        ('<mesh<["a"=2], device_ids=[0, 0]>, []>', "a mesh of 2 devices cannot be right"),
    ],
)
def test_what_no_mesh_can_do_is_refused(text: str, why: str) -> None:
    with pytest.raises(EvaluationError, match=why):
        division(text)


MANUAL = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<4x2xi32>, %b: tensor<i32>) -> (tensor<4x2xi32>, tensor<2x2xi32>) {
  %0:2 = sdy.manual_computation(%a, %b) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, []>]
      out_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{}, {}]>] manual_axes=AXES
      (%p: tensor<2x2xi32>, %q: tensor<i32>) {
    %i = stablehlo.partition_id : tensor<ui32>
    %j = stablehlo.convert %i : (tensor<ui32>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %row = stablehlo.divide %j, %two : tensor<i32>
    %more = stablehlo.add %row, %q : tensor<i32>
    %wide = stablehlo.broadcast_in_dim %more, dims = [] : (tensor<i32>) -> tensor<2x2xi32>
    %s = stablehlo.add %p, %wide : tensor<2x2xi32>
    %t = "stablehlo.all_reduce"(%p) ({ ^bb0(%c: tensor<i32>, %d: tensor<i32>):
        %e = stablehlo.add %c, %d : tensor<i32>
        stablehlo.return %e : tensor<i32>
      }) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}
      : (tensor<2x2xi32>) -> tensor<2x2xi32>
    sdy.return %s, %t : tensor<2x2xi32>, tensor<2x2xi32>
  } : (tensor<4x2xi32>, tensor<i32>) -> (tensor<4x2xi32>, tensor<2x2xi32>)
  return %0#0, %0#1 : tensor<4x2xi32>, tensor<2x2xi32>
}"""
X = np.arange(8, dtype=np.int32).reshape(4, 2)
EXPECTED = ([[10, 11], [12, 13], [15, 16], [17, 18]], [[4, 6], [8, 10]])


@pytest.mark.parametrize("axes", ['{"x", "y"}', '{"x"}'])
def test_a_manual_computation_has_a_process_for_each_device(axes: str) -> None:
    text = MANUAL.replace("AXES", axes)
    assert values(text, X, np.int32(10)) == EXPECTED
    assert grid(text, [[X, np.int32(10)]], 1, 4) == [EXPECTED] * 4


HLO = r"""HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2]>}}
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
ENTRY e { p = s32[4] parameter(0)
  own = s32[2] custom-call(p), custom_call_target="xla.sdy.GlobalToLocalShape",
    frontend_attributes={
      xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>",
      xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>"}
  sum = s32[2] all-reduce(own), replica_groups={{0,1}}, channel_id=1, to_apply=add,
    use_global_device_ids=true
  back = s32[2] subtract(sum, own)
  ROOT all = s32[4] custom-call(back), custom_call_target="xla.sdy.LocalToGlobalShape",
    frontend_attributes={
      xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>",
      xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>"}
}"""


def test_manual_computations_of_hlo_run_on_as_many_partitions() -> None:
    given: Any = [[np.int32([1, 2, 3, 4])]]
    found = evaluate_grid(parse_hlo(HLO), given, 1, 2)
    assert [results[0].tolist() for results in found] == [[3, 4, 1, 2]] * 2  # type: ignore[union-attr]


IN_MLIR = r"""module attributes {mhlo.frontend_attributes = {
      xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2]>}"}} {
  func.func @main(%p: tensor<4xi32>) -> tensor<4xi32> {
    %own = stablehlo.custom_call @xla.sdy.GlobalToLocalShape(%p) {mhlo.frontend_attributes = {
        xla.sdy.in_shardings = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}]>]>",
        xla.sdy.manual_axes = "#sdy<manual_axes{\22x\22}>"}} : (tensor<4xi32>) -> tensor<2xi32>
    %two = stablehlo.add %own, %own : tensor<2xi32>
    %all = stablehlo.custom_call @xla.sdy.LocalToGlobalShape(%two) {mhlo.frontend_attributes = {
        xla.sdy.out_shardings = "#sdy.sharding_per_value<[<@mesh, [{\22x\22}]>]>",
        xla.sdy.manual_axes = "#sdy<manual_axes{\22x\22}>"}} : (tensor<2xi32>) -> tensor<4xi32>
    return %all : tensor<4xi32>
  }
}"""


def test_frontend_attributes_of_stablehlo_say_the_same() -> None:
    found = evaluate_grid(parse_stablehlo(IN_MLIR), [[np.int32([1, 2, 3, 4])]], 1, 2)
    assert [results[0].tolist() for results in found] == [[2, 4, 6, 8]] * 2  # type: ignore[union-attr]


def test_shardings_that_nobody_reads_are_refused_and_printed_as_written() -> None:
    text = MANUAL.replace("AXES", '{"x"}').replace('[<@mesh, [{"x"}, {}]>, <@mesh, []>]', "[<?>]")
    module = parse_stablehlo(text)
    assert "in_shardings=[<?>]" in print_stablehlo(module)
    with pytest.raises(UnsupportedError, match="no sharding of every operand"):
        values(text, X, np.int32(10))


def test_they_do_not_run_on_one_device() -> None:
    with pytest.raises(UnsupportedError, match="needs 2 partitions"):
        values(HLO, np.int32([1, 2, 3, 4]))


def test_a_dimension_that_cannot_be_divided() -> None:
    sharding = division('<@m, [{"y"}]>')
    with pytest.raises(EvaluationError, match="of size 6 cannot be divided by 4 devices"):
        sharding.part(np.arange(6), 0)


def test_sharding_constraints_leave_the_value() -> None:
    text = """sdy.mesh @mesh = <["x"=2]>
    func.func @main(%a: tensor<2xi32>) -> tensor<2xi32> {
      %0 = sdy.sharding_constraint %a <@mesh, [{"x"}]> : tensor<2xi32>
      return %0 : tensor<2xi32>
    }"""
    assert values(text, np.int32([1, 2])) == [1, 2]
