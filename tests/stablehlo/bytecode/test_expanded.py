"""What a version lacks, said in older ops: the values are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hloscope as hs
from hloscope.cli.app import app
from hloscope.errors import HloscopeError

TAN = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tan %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
COMPLEX = TAN.replace("f32", "complex<f64>")
GATHER = """func.func @main(%x: tensor<3x2x4x5xf32>, %i: tensor<4x3x2xi32>) -> tensor<4x3x5xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
    collapsed_slice_dims = [1], operand_batching_dims = [0, 2],
    start_indices_batching_dims = [1, 0], start_index_map = [1, 3], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 1, 1, 5>}> : (tensor<3x2x4x5xf32>, tensor<4x3x2xi32>)
    -> tensor<4x3x5xf32>
  return %0 : tensor<4x3x5xf32>
}"""
AT_THE_END = """func.func @main(%x: tensor<3x4xf32>, %i: tensor<3xi8>) -> tensor<3xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<
    collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
    start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}>
    : (tensor<3x4xf32>, tensor<3xi8>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
SCATTER = """func.func @main(%x: tensor<3x2x4xf32>, %i: tensor<3x2x1xi32>, %u: tensor<3x2x4xf32>)
    -> tensor<3x2x4xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0],
    scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1],
    index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<3x2x4xf32>, tensor<3x2x1xi32>, tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  return %0 : tensor<3x2x4xf32>
}"""
GROUPS = """func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64,
    replica_groups = #stablehlo.replica_group_mesh_axes<mesh = MESH,
    axes = [#stablehlo.axis_ref<name = "x">]>}> : (tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
INLINE = GROUPS.replace(
    "MESH",
    '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>,'
    ' #stablehlo.mesh_axis<name = "y", size = 2>]>',
)


def drawn(text: str) -> list[np.ndarray]:
    chance = np.random.default_rng(1)
    found = []
    for parameter in hs.read(text).entry.parameters:
        sizes, name = parameter.ir.type.sizes, parameter.ir.type.element.name
        if name in ("s32", "s8"):
            found.append(chance.integers(0, 2, sizes).astype(name.replace("s", "int")))
        else:
            found.append(chance.normal(size=sizes).astype({"f32": "f4"}.get(name, "c16")))
    return found


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (TAN, "1.3.0"),
        (COMPLEX, "1.0.0"),
        (GATHER, "1.0.0"),
        (AT_THE_END, "0.9.0"),
        (SCATTER, "1.0.0"),
    ],
)
def test_older_versions_get_the_same_values(text: str, target: str) -> None:
    with pytest.raises(HloscopeError, match="failed to convert VHLO"):
        hs.serialize(text, target)
    expanded = hs.deserialize(hs.serialize(text, target, expand=True))
    values = drawn(text)
    for mine, theirs in zip(
        hs.evaluate(hs.read(text).module, *values), hs.evaluate(expanded, *values), strict=True
    ):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-5)


@pytest.mark.parametrize("text", [TAN, GATHER, SCATTER, INLINE])
def test_versions_that_lack_nothing_get_what_they_always_got(text: str) -> None:
    assert hs.serialize(text, expand=True) == hs.serialize(text)


def test_replica_groups_by_axes_become_a_table(tmp_path: Path) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(INLINE)
    run = CliRunner().invoke(
        app, ["serialize", str(path), "--target", "1.15.0", "--expand", "--text"]
    )
    assert "dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>" in run.output, run.output


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ("@nowhere", "Failed to find mesh symbol"),
        ("@main", "Failed to find mesh attribute on symbol"),
        (
            '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "y", size = 2>]>',
            "axes of the replica groups are none of the mesh",
        ),
        (
            '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 46116860184273879>]>',
            "axes of the replica groups are none of the mesh",
        ),
        (
            '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>],'
            " device_ids = dense<[1, 2, 3]> : tensor<3xi64>>",
            "axes of the replica groups are none of the mesh",
        ),
    ],
)
def test_meshes_that_are_wrong_are_said(mesh: str, message: str) -> None:
    with pytest.raises(HloscopeError, match=message):
        hs.serialize(GROUPS.replace("MESH", mesh), "1.15.0", expand=True)


def test_ranges_of_places_begin_where_they_began() -> None:
    text = TAN.replace("return %0 : tensor<4xf32>", 'return %0 : tensor<4xf32> loc("a":1:2 to :9)')
    expanded = hs.deserialize(hs.serialize(text, "1.8.0", expand=True))
    (block,) = expanded.tree.regions[0].blocks[0].operations[0].regions[0].blocks
    assert "line=1, column=2, end_line=-1" in str(block.operations[-1].location)
