"""Codes of attributes and types of the other dialects, as `hloscope.vhlo.codes` has VHLO's.

The version of a row is 0.0.0, since only VHLO's rows have a first version.
"""

from __future__ import annotations

from typing import Final

from hloscope.vhlo import CodeRow, code_row

_BUILTIN_ATTRIBUTES: Final = """
    0  Array            0.0.0 | value:attrs | array
    1  Dictionary       0.0.0 | value:pairs | dict
    2  String           0.0.0 | value:string | string
    3  StringWithType   0.0.0 | value:string type:type | typed_string
    4  FlatSymbolRef    0.0.0 | root:attr | symbol
    5  SymbolRef        0.0.0 | root:attr nested:attrs | nested_symbol
    6  Type             0.0.0 | value:type | type
    7  Unit             0.0.0 | | unit
    8  Integer          0.0.0 | type:type value:bits | integer
    9  Float            0.0.0 | type:type value:bits | float
    10 CallSiteLoc      0.0.0 | callee:loc caller:loc | call_site
    11 FileLineColLoc   0.0.0 | file:attr line:varint column:varint | file
    12 FusedLoc         0.0.0 | locations:locs | fused
    13 FusedLocMetadata 0.0.0 | locations:locs metadata:attr | fused_metadata
    14 NameLoc          0.0.0 | name:attr child:loc | name
    15 UnknownLoc       0.0.0 | | unknown
    16 DenseResource    0.0.0 | type:type name:resource | resource
    17 DenseArray       0.0.0 | element:type size:varint data:blob | dense_array
    18 DenseElements    0.0.0 | type:type data:blob | dense_builtin
    22 FileLineColRange 0.0.0 | file:attr numbers:varints | file_range
"""
"""Source: MLIR's `BuiltinDialectBytecode.td`."""

_BUILTIN_TYPES: Final = """
    0  Integer          0.0.0 | width:varint | integer_type
    1  Index            0.0.0 | | index
    2  Function         0.0.0 | inputs:types results:types | function
    3  BFloat16         0.0.0 | | bf16
    4  Float16          0.0.0 | | f16
    5  Float32          0.0.0 | | f32
    6  Float64          0.0.0 | | f64
    7  Float80          0.0.0 | | f80
    8  Float128         0.0.0 | | f128
    9  Complex          0.0.0 | element:type | complex
    10 MemRef           0.0.0 | shape:svarints element:type layout:attr | memref
    11 MemRefInSpace    0.0.0 | space:attr shape:svarints element:type layout:attr | memref_in_space
    12 None             0.0.0 | | none
    13 RankedTensor     0.0.0 | shape:svarints element:type | tensor
    14 RankedTensorWith 0.0.0 | encoding:attr shape:svarints element:type | encoded
    15 Tuple            0.0.0 | types:types | tuple
    16 UnrankedMemRef   0.0.0 | element:type | unranked_memref
    17 UnrankedInSpace  0.0.0 | space:attr element:type | unranked_memref_in_space
    18 UnrankedTensor   0.0.0 | element:type | unranked
    19 Vector           0.0.0 | shape:svarints element:type | vector
    20 VectorScalable   0.0.0 | scalable:bytes shape:svarints element:type | scalable
"""
"""Source: MLIR's `BuiltinDialectBytecode.td`."""

_QUANT_TYPES: Final = """
    4 UniformQuantized        0.0.0 | flags:varint storage:type expressed:type scale:f64 \
zero_point:svarint least:svarint most:svarint | quantized
    5 UniformQuantizedPerAxis 0.0.0 | flags:varint storage:type expressed:type axis:varint \
least:svarint most:svarint scales:f64s zero_points:svarints | quantized_axis
"""
"""Source: MLIR's `QuantDialectBytecode.td`."""

_STABLEHLO_ATTRIBUTES: Final = """
    1  channel_handle          0.0.0 | handle:svarint type:svarint | struct channel_handle
    2  comparison_direction    0.0.0 | value:varint | enum comparison_direction
    3  comparison_type         0.0.0 | value:varint | enum comparison_type
    4  conv                    0.0.0 | input_batch_dimension:svarint \
input_feature_dimension:svarint input_spatial_dimensions:svarints \
kernel_input_feature_dimension:svarint kernel_output_feature_dimension:svarint \
kernel_spatial_dimensions:svarints output_batch_dimension:svarint \
output_feature_dimension:svarint output_spatial_dimensions:svarints | struct conv
    5  dot                     0.0.0 | lhs_batching_dimensions:svarints \
rhs_batching_dimensions:svarints lhs_contracting_dimensions:svarints \
rhs_contracting_dimensions:svarints | free dot
    6  fft_type                0.0.0 | value:varint | enum fft_type
    7  gather                  0.0.0 | offset_dims:svarints collapsed_slice_dims:svarints \
operand_batching_dims:svarints start_indices_batching_dims:svarints start_index_map:svarints \
index_vector_dim:svarint | free gather
    8  precision               0.0.0 | value:varint | enum precision
    9  rng_algorithm           0.0.0 | value:varint | enum rng_algorithm
    10 rng_distribution        0.0.0 | value:varint | enum rng_distribution
    11 scatter                 0.0.0 | update_window_dims:svarints inserted_window_dims:svarints \
input_batching_dims:svarints scatter_indices_batching_dims:svarints \
scatter_dims_to_operand_dims:svarints index_vector_dim:svarint | free scatter
    12 transpose               0.0.0 | value:varint | enum transpose
    13 type_extensions         0.0.0 | bounds:svarints | struct bounds
    14 output_operand_alias    0.0.0 | output_tuple_indices:svarints operand_index:svarint \
operand_tuple_indices:svarints | struct output_operand_alias
    15 dot_algorithm           0.0.0 | lhs_precision_type:type rhs_precision_type:type \
accumulation_type:type lhs_component_count:svarint rhs_component_count:svarint \
num_primitive_operations:svarint allow_imprecise_accumulation:byte | algorithm
    16 result_accuracy_mode    0.0.0 | value:varint | enum result_accuracy_mode
    17 result_accuracy         0.0.0 | atol:f64 rtol:f64 ulps:svarint mode:attr | accuracy
    19 sub_axis_info           0.0.0 | pre_size:svarint size:svarint | struct sub_axis_info
    20 axis_ref                0.0.0 | name:string sub_axis_info:flagged_byte | named_axis_ref
    21 mesh_axis               0.0.0 | name:string size:svarint | named_axis
    22 mesh                    0.0.0 | axes:attr device_ids:flagged_byte | mesh
    18 replica_group_mesh_axes 0.0.0 | mesh:attr axes:attrs | mesh_axes_list
"""
"""Source: `StablehloBytecode.cpp`."""

_STABLEHLO_TYPES: Final = """
    0 token  0.0.0 | | token
    1 future 0.0.0 | types:types | future
"""
"""Source: `StablehloBytecode.cpp`."""

_CHLO_ATTRIBUTES: Final = """
    0 comparison_direction 0.0.0 | value:varint | chlo_enum comparison_direction
    1 comparison_type      0.0.0 | value:varint | chlo_enum comparison_type
"""
"""Source: `ChloBytecode.cpp`; its other attributes are written as text."""

_SDY_ATTRIBUTES: Final = """
    0  manual_axes            0.0.0 | axes:attrs | sdy
    1  mesh_axis              0.0.0 | name:string size:svarint | sdy
    2  mesh                   0.0.0 | axes:attrs device_ids:svarints | sdy
    3  sub_axis_info          0.0.0 | pre_size:svarint size:svarint | sdy
    4  axis_ref               0.0.0 | name:string sub_axis_info:attr? | sdy
    5  dimension_sharding     0.0.0 | axes:attrs is_closed:byte priority:varint | sdy
    6  sharding               0.0.0 | mesh:attr dimensions:attrs replicated:attrs | sdy
    7  sharding_per_value     0.0.0 | shardings:attrs | sdy
    8  dim_mapping            0.0.0 | factors:svarints | sdy
    9  tensor_mapping         0.0.0 | dimensions:attrs | sdy
    10 op_sharding_rule       0.0.0 | sizes:svarints operands:attrs results:attrs \
reduction:svarints need_replication:svarints permutation:svarints blocked_propagation:svarints \
is_custom:byte | sdy
    11 axis_ref_list          0.0.0 | axes:attrs | sdy
    12 list_of_axis_ref_lists 0.0.0 | lists:attrs | sdy
    13 all_to_all_param       0.0.0 | axes:attrs source:svarint target:svarint | sdy
    14 all_to_all_param_list  0.0.0 | params:attrs | sdy
    15 sharding_unreduced     0.0.0 | mesh:attr dimensions:attrs replicated:attrs \
unreduced:attrs | sdy
    16 sharding_per_value_2   0.0.0 | shardings:attrs | sdy
    17 sharding_reduction     0.0.0 | mesh:attr dimensions:attrs replicated:attrs \
unreduced:attrs reduction:svarint | sdy
"""
"""Source: Shardy's `bytecode.td`."""


def _rows(text: str) -> tuple[CodeRow, ...]:
    return tuple(map(code_row, text.strip().splitlines()))


ATTRIBUTES: Final = {
    "builtin": _rows(_BUILTIN_ATTRIBUTES),
    "stablehlo": _rows(_STABLEHLO_ATTRIBUTES),
    "chlo": _rows(_CHLO_ATTRIBUTES),
    "sdy": _rows(_SDY_ATTRIBUTES),
}
"""Attributes by dialect."""

TYPES: Final = {
    "builtin": _rows(_BUILTIN_TYPES),
    "quant": _rows(_QUANT_TYPES),
    "stablehlo": _rows(_STABLEHLO_TYPES),
}
"""Types by dialect."""
