"""Attributes of the StableHLO dialects: read, written, refused."""

from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.mlir.dialects.attributes import DYNAMIC
from hloscope.mlir.dialects.attributes.notations import conv_attribute, conv_text
from hloscope.mlir.dialects.attributes.structs import ENUMS
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.ir import Attribute, EnumAttr, Operation, StructAttr
from hloscope.mlir.text.parser import parse_attribute
from hloscope.mlir.text.printer import print_mlir

# as written | as printed, if it is another text
TEXTS = """
    #stablehlo.gather<offset_dims = [1, 2], collapsed_slice_dims = [0], operand_batching_dims = [3], start_indices_batching_dims = [1], start_index_map = [0], index_vector_dim = 2>
    #stablehlo.gather<index_vector_dim=1, offset_dims=[0],> | #stablehlo.gather<offset_dims = [0], index_vector_dim = 1>
    #stablehlo.gather<offset_dims = [], index_vector_dim = 0> | #stablehlo.gather<>
    #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], input_batching_dims = [2], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
    #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>
    #stablehlo<dot<lhs_contracting_dimensions = [1]>> | #stablehlo.dot<lhs_contracting_dimensions = [1]>
    #chlo.ragged_dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>
    #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>
    #stablehlo.conv<[f, 1, 0, b]x[o, 1, 0, i]->[b, f, 1, 0]>
    #stablehlo.conv<[b,f]x[i,o]->[f,b]> | #stablehlo.conv<[b, f]x[i, o]->[f, b]>
    #stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 2, input_spatial_dimensions = [1], kernel_input_feature_dimension = 0, kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [1], output_batch_dimension = 0, output_feature_dimension = 2, output_spatial_dimensions = [1]> | #stablehlo.conv<[b, 0, f]x[i, 0, o]->[b, 0, f]>
    #stablehlo.channel_handle<handle = 1, type = 2>
    #stablehlo.channel_handle<type = 2, handle = 1> | #stablehlo.channel_handle<handle = 1, type = 2>
    #stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = [1, 2]>
    #stablehlo.dot_algorithm<lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 6, allow_imprecise_accumulation = false>
    #stablehlo.bounds<3, ?>
    #stablehlo.bounds<>
    #stablehlo.type_extensions<bounds = [3, ?]> | #stablehlo.bounds<3, ?>
    #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>
    #stablehlo.result_accuracy<atol = 1.000000e+00, rtol = 5.000000e-01, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>
    #stablehlo.result_accuracy<atol = 0.0, rtol = 1.0, ulps = 0, mode = #stablehlo.result_accuracy_mode<TOLERANCE>> | #stablehlo.result_accuracy<rtol = 1.000000e+00, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>
    #stablehlo.axis_ref<name = "x">
    #stablehlo.axis_ref<sub_axis_info = (2)4, name = "x"> | #stablehlo.axis_ref<name = "x", sub_axis_info = (2)4>
    #stablehlo.mesh<axes=[<name = "x", size = 3>, <name = "y", size = 2>], device_ids=dense<[1, 0]> : tensor<2xi64>>
    #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 3>]> | #stablehlo.mesh<axes=[<name = "x", size = 3>]>
    #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>
    #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes=[<name = "x", size = 2>]>, axes = []>
"""  # noqa: E501

ERRORS = """
    #stablehlo.foo<1> | unknown StableHLO attribute
    #stablehlo<foo 1> | unknown StableHLO attribute
    #chlo.foo<1> | unknown chlo attribute
    #stablehlo<precision FOO> | expected ::mlir::stablehlo::Precision to be one of: DEFAULT, HIGH, HIGHEST | failed to parse StableHLO_PrecisionAttr parameter 'value' which is to be a `::mlir::stablehlo::Precision`
    #chlo<precision> | expected valid keyword or string | failed to parse CHLO_PrecisionAttr parameter 'value' which is to be a `::mlir::chlo::Precision`
    #stablehlo.result_accuracy_mode<FOO> | expected ::mlir::stablehlo::ResultAccuracyMode to be one of: DEFAULT, HIGHEST, TOLERANCE | failed to parse StableHLO_ResultAccuracyModeAttr parameter 'value' which is to be a `::mlir::stablehlo::ResultAccuracyMode`
    #stablehlo.gather<offset_dims = 3> | expected '[' | failed parsing gather dimension numbers attribute
    #stablehlo.gather<index_vector_dim = 1, index_vector_dim = 1> | duplicated `index_vector_dim` entry | failed parsing gather dimension numbers attribute
    #stablehlo.scatter<x = 1> | expected one of: `update_window_dims`, `inserted_window_dims`, `input_batching_dims`, `scatter_indices_batching_dims`, `scatter_dims_to_operand_dims`, `index_vector_dim` | failed parsing scatter dimension numbers attribute
    #stablehlo.dot<lhs_batching_dimensions [1]> | expected '=' | failed parsing dot dimension numbers attribute
    #stablehlo.dot<lhs_batching_dimensions = [1] rhs_batching_dimensions = [1]> | expected '>' | failed parsing dot dimension numbers attribute
    #chlo.ragged_dot<x = 1> | expected one of: `lhs_batching_dimensions`, `rhs_batching_dimensions`, `lhs_contracting_dimensions`, `rhs_contracting_dimensions`, `lhs_ragged_dimensions`, `rhs_group_dimensions` | failed parsing ragged dot dimension numbers attribute
    #stablehlo.conv<raw x = 1> | expected one of: `input_batch_dimension`, `input_feature_dimension`, `input_spatial_dimensions`, `kernel_input_feature_dimension`, `kernel_output_feature_dimension`, `kernel_spatial_dimensions`, `output_batch_dimension`, `output_feature_dimension`, `output_spatial_dimensions` | failed parsing dot dimension numbers attribute
    #stablehlo.conv<[b, f]x[i, o]> | expected '->'
    #stablehlo.conv<[b, 0, 2, f]x[i, o]->[b, f]> | Expected spatial dimensions 1 not specified
    #stablehlo.conv<[b, 999999999999, f]x[i, o]->[b, f]> | Expected spatial dimensions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 not specified
    #stablehlo.conv<[b, bb, f]x[i, o]->[b, f]> | Unexpected keyword bb
    #stablehlo.conv<[b, 0, 0, f]x[i, o]->[b, f]> | Duplicate entries for spatial dimension 0
    #stablehlo.conv<[b, -1, f]x[i, o]->[b, f]> | Unexpected dimension -1
    #stablehlo.conv<[c, f]x[i, o]->[b, f]> | Unexpected dimension c, expecting b, f
    #stablehlo.conv<[b]x[i, o]->[b, f]> | Expected dimensions f not specified
    #stablehlo.channel_handle<handle = x, type = 1> | expected integer value | failed to parse StableHLO_ChannelHandle parameter 'handle' which is to be a `int64_t`
    #stablehlo.channel_handle<handle = 1> | expected ','
    #stablehlo.channel_handle<handle = 1, handle = 2> | duplicate or unknown struct parameter name: handle
    #stablehlo.channel_handle<> | expected valid keyword | expected a parameter name in struct
    #stablehlo.output_operand_alias<operand_index = 0> | expected 'output_tuple_indices'
    #stablehlo.output_operand_alias<output_tuple_indices = [x], operand_index = 0, operand_tuple_indices = []> | expected integer value | failed to parse StableHLO_OutputOperandAlias parameter 'outputTupleIndices' which is to be a `::llvm::ArrayRef<int64_t>`
    #stablehlo.dot_algorithm<lhs_precision_type = f32, rhs_precision_type = f32> | expected ','
    #stablehlo.dot_algorithm<lhs_precision_type = 4> | expected non-function type | failed to parse StableHLO_DotAlgorithm parameter 'lhsPrecisionType' which is to be a `Type`
    #stablehlo.dot_algorithm<lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 0, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> | lhs component count must be positive
    #stablehlo.bounds<x> | expected integer value
    #stablehlo.result_accuracy<atol = 1.0> | expected ','
    #stablehlo.result_accuracy<> | expected 'mode'
    #stablehlo.result_accuracy<atol = 1, mode = #stablehlo.result_accuracy_mode<TOLERANCE>> | unexpected decimal integer literal for a floating point value
    #stablehlo.result_accuracy<ulps = -2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>> | Negative tolerance
    #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<HIGHEST>> | Invalid tolerances for ResultAccuracyAttr with mode HIGHEST, must be all zero.
    #stablehlo.axis_ref<name = x> | expected string | failed to parse StableHLO_AxisRef parameter 'name' which is to be a `::llvm::StringRef`
    #stablehlo.axis_ref<name = "x", sub_axis_info = 2> | expected '(' | failed to parse StableHLO_AxisRef parameter 'sub_axis_info' which is to be a `SubAxisInfoAttr`
    #stablehlo.mesh<> | expected 'axes'
    #stablehlo.replica_group_mesh_axes<mesh = 3, axes = []> | mesh must be a FlatSymbolRefAttr or MeshAttr
    #stablehlo.replica_group_mesh_axes<mesh = @m, axes = 3> | invalid kind of attribute specified | failed to parse StableHLO_ReplicaGroupMeshAxes parameter 'axes' which is to be a `ArrayAttr`
"""  # noqa: E501


def text_of(attribute: Attribute) -> str:
    text = print_mlir(Operation("test.op", attributes={"x": attribute}), dialects=DIALECTS)
    return text.removeprefix('"test.op"() {x = ').removesuffix("} : () -> ()\n")


def _rows(text: str) -> list[list[str]]:
    return [row.strip().split(" | ") for row in text.strip().splitlines()]


REFUSED = _rows(ERRORS)
"""What is wrong, and the messages."""


@pytest.mark.parametrize("row", _rows(TEXTS), ids=lambda row: row[0][:60])
def test_attributes_print_as_the_original_prints_them(row: list[str]) -> None:
    written, printed = row[0], row[-1]
    attribute = parse_attribute(written, dialects=DIALECTS)
    assert isinstance(attribute, StructAttr)
    assert text_of(attribute) == printed
    assert parse_attribute(printed, dialects=DIALECTS) == attribute


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[0][:60])
def test_errors_are_said_as_the_original_says_them(row: list[str]) -> None:
    with pytest.raises(ParseError) as raised:
        parse_attribute(row[0], dialects=DIALECTS)
    assert [x.message for x in raised.value.diagnostics] == row[1:]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("dialect", "mnemonic"), list(ENUMS))
def test_every_value_of_every_enum_is_read_and_written(dialect: str, mnemonic: str) -> None:
    enum = ENUMS[dialect, mnemonic]
    for value in enum.values:
        text = f"#{dialect}<{mnemonic} {value}>"
        if enum.bracketed:
            text = f"#{dialect}.{mnemonic}<{value}>"
        attribute = parse_attribute(text, dialects=DIALECTS)
        assert attribute == EnumAttr(dialect, mnemonic, value)
        assert text_of(attribute) == text


def test_bounds_of_no_known_size() -> None:
    attribute = parse_attribute("#stablehlo.bounds<?, 2>", dialects=DIALECTS)
    assert attribute == StructAttr("stablehlo", "bounds", (("bounds", (DYNAMIC, 2)),))


def test_dimensions_of_convolutions_that_no_letters_say_are_written_raw() -> None:
    odd = conv_attribute([0, 0, (5,), 0, 1, (), 0, 1, ()])
    assert conv_text(odd) is None
    text = text_of(odd)
    assert text.startswith("#stablehlo.conv<raw input_batch_dimension = 0, ")
    assert parse_attribute(text, dialects=DIALECTS) == odd
