"""What patterns read of operations: sizes, bounds, device meshes and their groups."""

from __future__ import annotations

import pytest

from hloscope.mlir import parse_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.ops import AxisRef, Mesh
from hloscope.passes import reading, simplifying
from hloscope.passes.patterns import Limits, limited
from hloscope.passes.reading import (
    constant_integers,
    integer_of,
    integers_of,
    mesh_named,
    rows_of,
    static_result,
)
from tests.passes.folded import ops_after


@pytest.mark.parametrize(
    ("type", "is_plain"),
    [
        ("tensor<?x?xf32>", True),
        ("tensor<?x2xf32>", True),
        ("tensor<?x?xf32, #stablehlo.bounds<8, 4>>", False),
        ("tensor<?x?xf32, #stablehlo.bounds<8, ?>>", False),
        ('tensor<?x?xf32, "other">', False),
    ],
)
def test_types_with_bounds_or_another_encoding_stay(type: str, is_plain: bool) -> None:
    """Neither a broadcast nor an iota is computed by ops whose types lack the bounds."""
    broadcast = f"""func.func @main(%x: tensor<1x1xf32>) -> {type} {{
      %s = stablehlo.constant dense<[3, 2]> : tensor<2xi32>
      %r = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1] :
        (tensor<1x1xf32>, tensor<2xi32>) -> {type}
      return %r : {type}
    }}"""
    iota = f"""func.func @main(%s: tensor<2xi32>) -> {type} {{
      %r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> {type}
      return %r : {type}
    }}"""
    dynamic = limited(simplifying.DYNAMIC, Limits())
    assert ("dynamic_broadcast_in_dim" in ops_after(dynamic, broadcast)) is not is_plain
    assert ("dynamic_broadcast_in_dim" in ops_after(dynamic, iota)) is is_plain


def test_attributes_types_and_constants_of_ops() -> None:
    module = parse_mlir(
        """func.func @f(%x: tensor<?xf32>) {
          %0 = "test.op"() {a = array<i64: 3, 4>, b = dense<[5, 6]> : tensor<2xi64>,
            c = dense<1.5> : tensor<2xf32>, d = 7 : i64} : () -> tensor<2xi64>
          %1:2 = "test.op"() : () -> (tensor<2xi64>, tensor<2xi64>)
          %2 = "test.op"() : () -> tensor<?xi64>
          %3 = "test.op"() : () -> index
          %4 = stablehlo.constant dense<[8, 9]> : tensor<2xi64>
          %5 = shape.const_shape [2, 3] : tensor<2xindex>
        }""",
        dialects=DIALECTS,
        allow_unregistered=True,
    )
    (function,) = module.regions[0].blocks[0]
    one, two, dynamic, scalar, constant, shape = function.regions[0].blocks[0].operations[:6]
    assert [integers_of(one, name) for name in "abcde"] == [(3, 4), (5, 6), None, None, None]
    assert [integer_of(one, name) for name in "ade"] == [None, 7, None]
    assert static_result(one) == one.result.type
    assert [static_result(op) for op in (two, dynamic, scalar)] == [None] * 3
    assert [constant_integers(op.result) for op in (one, constant, shape)] == [
        None,
        (8, 9),
        (2, 3),
    ]


MESHES = """module {
  sdy.mesh @sdy = <["a"=2, "b"=3]>
  func.func private @structure() attributes {stablehlo.mesh = #stablehlo.mesh<axes = [
    #stablehlo.mesh_axis<name = "a", size = 2>]>}
  func.func private @listed() attributes {stablehlo.mesh = {
    axes = [{name = "a", size = 2 : i64}], device_ids = dense<[1, 0]> : tensor<2xi64>}}
  func.func private @counted() attributes {stablehlo.mesh = {
    axes = [{name = "a", size = 2 : i64}, {name = "b", size = 3 : i64}]}}
  func.func private @no_axes() attributes {stablehlo.mesh = {}}
  func.func private @no_size() attributes {stablehlo.mesh = {axes = [{name = "a"}]}}
  func.func private @no_name() attributes {stablehlo.mesh = {axes = [{size = 2 : i64}]}}
  func.func private @no_axis() attributes {stablehlo.mesh = {axes = [2 : i64]}}
  func.func private @no_mesh()
  func.func private @number() attributes {stablehlo.mesh = 2 : i64}
}"""


def test_meshes_are_read_in_each_form() -> None:
    module = parse_mlir(MESHES, dialects=DIALECTS, allow_unregistered=True)
    found = {name: mesh_named(module, name) for name in (
        "sdy", "listed", "counted", "no_axes", "no_size", "no_name", "no_axis", "no_mesh",
        "number", "absent",
    )}  # fmt: skip
    assert found == {
        "sdy": Mesh((("a", 2), ("b", 3)), None),
        "listed": Mesh((("a", 2),), (1, 0)),
        "counted": Mesh((("a", 2), ("b", 3)), None),
        "no_axes": Mesh((), None),
        **dict.fromkeys(["no_size", "no_name", "no_axis", "no_mesh", "number", "absent"]),
    }
    assert mesh_named(module, "structure") == Mesh((("a", 2),), None)


GRID = Mesh((("a", 2), ("b", 4)), None)


@pytest.mark.parametrize(
    ("mesh", "axes", "rows"),
    [
        (GRID, [AxisRef("a")], ((0, 4), (1, 5), (2, 6), (3, 7))),
        (GRID, [AxisRef("b")], ((0, 1, 2, 3), (4, 5, 6, 7))),
        (GRID, [AxisRef("b", 1, 2)], ((0, 2), (1, 3), (4, 6), (5, 7))),
        (GRID, [AxisRef("b", 2, 2)], ((0, 1), (2, 3), (4, 5), (6, 7))),
        (Mesh((("a", 2),), (1, 0)), [AxisRef("a")], ((1, 0),)),
        (Mesh((("a", 1),), None), [AxisRef("a")], ((0,),)),
    ],
)  # fmt: skip
def test_groups_along_axes(mesh: Mesh, axes: list[AxisRef], rows: object) -> None:
    assert rows_of(mesh, axes) == rows


def test_meshes_of_too_many_devices_have_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_DEVICES", 8)
    assert len(rows_of(GRID, [AxisRef("a")]) or ()) == 4
    assert rows_of(Mesh((("a", 9),), None), [AxisRef("a")]) is None


def test_axes_that_a_mesh_lacks_have_no_groups() -> None:
    for mesh, axes in [
        (GRID, [AxisRef("c")]),
        (GRID, [AxisRef("a"), AxisRef("c")]),
        (GRID, [AxisRef("b", 1, 3)]),
        (GRID, [AxisRef("b", 2, 3)]),
        (GRID, [AxisRef("b", 4, 2)]),
        (GRID, [AxisRef("a"), AxisRef("a")]),
        (Mesh((("a", 0),), None), [AxisRef("a")]),
        (Mesh((("a", -1), ("b", -2)), None), [AxisRef("a")]),
        (Mesh((("a", 2),), (0, 1, 2)), [AxisRef("a")]),
    ]:
        assert rows_of(mesh, axes) is None, (mesh, axes)
