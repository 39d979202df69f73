"""Tables of VHLO: every op, attribute and type, with the versions that have it."""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.ops import API_VERSIONS
from hloscope.stablehlo.vhlo.versions import FOREVER, Version, version_of

# --------------------------------------------------------------------------------------------------
# Every op of VHLO, with the first and the last version that has it.
#
# A row: name | first version, and the last one if the op was removed | operands | attributes in the
# order of the definition | results | regions. `*` marks a variadic one. Rows are only added.


_ROWS: Final = """
    abs_v1 | 0.9.0 | operand | | result |
    add_v1 | 0.9.0 | lhs rhs | | result |
    after_all_v1 | 0.9.0 | inputs* | | result |
    all_gather_v1 | 0.9.0 1.4.0 | operand | all_gather_dim replica_groups channel_id
        use_global_device_ids | result |
    all_gather_v2 | 1.5.0 | operands* | all_gather_dim replica_groups channel_id
        use_global_device_ids | results* |
    all_reduce_v1 | 0.9.0 1.4.0 | operand | replica_groups channel_id use_global_device_ids |
        result | computation
    all_reduce_v2 | 1.5.0 | operands* | replica_groups channel_id use_global_device_ids |
        results* | computation
    all_to_all_v1 | 0.9.0 1.4.0 | operand | split_dimension concat_dimension split_count
        replica_groups channel_id | result |
    all_to_all_v2 | 1.5.0 | operands* | split_dimension concat_dimension split_count
        replica_groups channel_id | results* |
    and_v1 | 0.9.0 | lhs rhs | | result |
    async_done_v1 | 1.15.0 | operand | | result |
    async_start_v1 | 1.15.0 | operands* | | result | collective
    atan2_v1 | 0.9.0 | lhs rhs | | result |
    batch_norm_grad_v1 | 0.9.0 | operand scale mean variance grad_output | epsilon
        feature_index | grad_operand grad_scale grad_offset |
    batch_norm_inference_v1 | 0.9.0 | operand scale offset mean variance | epsilon
        feature_index | result |
    batch_norm_training_v1 | 0.9.0 | operand scale offset | epsilon feature_index | output
        batch_mean batch_var |
    bitcast_convert_v1 | 0.9.0 | operand | | result |
    broadcast_in_dim_v1 | 0.9.0 | operand | broadcast_dimensions | result |
    broadcast_v1 | 0.9.0 | operand | broadcast_sizes | result |
    call_v1 | 0.9.0 | operands* | callee | results* |
    case_v1 | 0.9.0 | index | | results* | branches*
    cbrt_v1 | 0.9.0 1.9.0 | operand | | result |
    cbrt_v2 | 1.10.0 | operand | result_accuracy | result |
    ceil_v1 | 0.9.0 | operand | | result |
    cholesky_v1 | 0.9.0 | a | lower | result |
    clamp_v1 | 0.9.0 | min operand max | | result |
    collective_broadcast_v1 | 0.16.0 1.19.0 | operand | replica_groups channel_id | result |
    collective_broadcast_v2 | 1.20.0 | operands* | replica_groups channel_id has_dynamic_root
        | results* |
    collective_permute_v1 | 0.9.0 | operand | source_target_pairs channel_id | result |
    collective_reduce_v1 | 1.19.0 | operands* | replica_groups channel_id
        use_global_device_ids has_dynamic_root | results* | computation
    compare_v1 | 0.9.0 | lhs rhs | comparison_direction compare_type | result |
    complex_v1 | 0.9.0 | lhs rhs | | result |
    composite_v1 | 0.19.0 1.13.0 | inputs* | name composite_attributes decomposition version |
        results* |
    composite_v2 | 1.14.0 | inputs* | name composite_attributes decomposition version |
        results* | composite_regions*
    concatenate_v1 | 0.9.0 | inputs* | dimension | result |
    constant_v1 | 0.9.0 | | value | output |
    convert_v1 | 0.9.0 | operand | | result |
    convolution_v1 | 0.9.0 | lhs rhs | window_strides padding lhs_dilation rhs_dilation
        window_reversal input_batch_dimension input_feature_dimension input_spatial_dimensions
        kernel_input_feature_dimension kernel_output_feature_dimension
        kernel_spatial_dimensions output_batch_dimension output_feature_dimension
        output_spatial_dimensions feature_group_count batch_group_count precision_config |
        result |
    cosine_v1 | 0.9.0 1.9.0 | operand | | result |
    cosine_v2 | 1.10.0 | operand | result_accuracy | result |
    count_leading_zeros_v1 | 0.9.0 | operand | | result |
    create_token_v1 | 0.9.0 | | | output |
    cross-replica-sum_v1 | 0.9.0 | operand | replica_groups | result |
    custom_call_v1 | 0.9.0 1.17.0 | inputs* | call_target_name has_side_effect backend_config
        api_version called_computations operand_layouts result_layouts output_operand_aliases
        | results* |
    custom_call_v2 | 1.18.0 | inputs* | call_target_name has_side_effect backend_config
        api_version called_computations operand_layouts result_layouts output_operand_aliases
        result_tilings | results* |
    divide_v1 | 0.9.0 | lhs rhs | | result |
    dot_general_v1 | 0.9.0 1.5.0 | lhs rhs | lhs_batching_dimensions rhs_batching_dimensions
        lhs_contracting_dimensions rhs_contracting_dimensions precision_config | result |
    dot_general_v2 | 1.6.0 | lhs rhs | lhs_batching_dimensions rhs_batching_dimensions
        lhs_contracting_dimensions rhs_contracting_dimensions precision_config
        lhs_precision_type rhs_precision_type accumulation_type lhs_component_count
        rhs_component_count num_primitive_operations allow_imprecise_accumulation | result |
    dot_v1 | 0.9.0 | lhs rhs | precision_config | result |
    dynamic_broadcast_in_dim_v1 | 0.9.0 | operand output_dimensions | broadcast_dimensions
        known_expanding_dimensions known_nonexpanding_dimensions | result |
    dynamic_conv_v1 | 0.9.0 0.19.0 | lhs rhs d_padding | window_strides padding lhs_dilation
        rhs_dilation window_reversal input_batch_dimension input_feature_dimension
        input_spatial_dimensions kernel_input_feature_dimension
        kernel_output_feature_dimension kernel_spatial_dimensions output_batch_dimension
        output_feature_dimension output_spatial_dimensions feature_group_count
        batch_group_count precision_config | result |
    dynamic_conv_v2 | 0.20.0 | lhs rhs padding | window_strides lhs_dilation rhs_dilation
        window_reversal input_batch_dimension input_feature_dimension input_spatial_dimensions
        kernel_input_feature_dimension kernel_output_feature_dimension
        kernel_spatial_dimensions output_batch_dimension output_feature_dimension
        output_spatial_dimensions feature_group_count batch_group_count precision_config |
        result |
    dynamic_gather_v1 | 0.9.0 1.0.0 | operand start_indices slice_sizes | offset_dims
        collapsed_slice_dims start_index_map index_vector_dim indices_are_sorted | result |
    dynamic_gather_v2 | 1.1.0 | operand start_indices slice_sizes | offset_dims
        collapsed_slice_dims operand_batching_dims start_indices_batching_dims start_index_map
        index_vector_dim indices_are_sorted | result |
    dynamic_iota_v1 | 0.9.0 | output_shape | iota_dimension | result |
    dynamic_pad_v1 | 0.9.0 | operand padding_value edge_padding_low edge_padding_high
        interior_padding | | result |
    dynamic_reshape_v1 | 0.9.0 | operand output_shape | | result |
    dynamic_slice_v1 | 0.9.0 | operand start_indices* | slice_sizes | result |
    dynamic_update_slice_v1 | 0.9.0 | operand update start_indices* | | result |
    einsum_v1 | 0.9.0 | lhs rhs | einsum_config | result |
    exponential_minus_one_v1 | 0.9.0 1.9.0 | operand | | result |
    exponential_minus_one_v2 | 1.10.0 | operand | result_accuracy | result |
    exponential_v1 | 0.9.0 1.8.0 | operand | | result |
    exponential_v2 | 1.9.0 | operand | result_accuracy | result |
    fft_v1 | 0.9.0 | operand | fft_type fft_length | result |
    floor_v1 | 0.9.0 | operand | | result |
    func_v1 | 0.9.0 | | sym_name function_type sym_visibility arg_attrs res_attrs | | body
    gather_v1 | 0.9.0 1.0.0 | operand start_indices | offset_dims collapsed_slice_dims
        start_index_map index_vector_dim slice_sizes indices_are_sorted | result |
    gather_v2 | 1.1.0 | operand start_indices | offset_dims collapsed_slice_dims
        operand_batching_dims start_indices_batching_dims start_index_map index_vector_dim
        slice_sizes indices_are_sorted | result |
    get_dimension_size_v1 | 0.9.0 | operand | dimension | result |
    get_tuple_element_v1 | 0.9.0 | operand | index | result |
    if_v1 | 0.9.0 | pred | | results* | true_branch false_branch
    imag_v1 | 0.9.0 | operand | | result |
    infeed_v1 | 0.9.0 | token | infeed_config layout | results* |
    iota_v1 | 0.9.0 | | iota_dimension | output |
    is_finite_v1 | 0.9.0 | x | | y |
    log_plus_one_v1 | 0.9.0 1.9.0 | operand | | result |
    log_plus_one_v2 | 1.10.0 | operand | result_accuracy | result |
    log_v1 | 0.9.0 1.9.0 | operand | | result |
    log_v2 | 1.10.0 | operand | result_accuracy | result |
    logistic_v1 | 0.9.0 1.9.0 | operand | | result |
    logistic_v2 | 1.10.0 | operand | result_accuracy | result |
    map_v1 | 0.9.0 | inputs* | dimensions | result | computation
    maximum_v1 | 0.9.0 | lhs rhs | | result |
    minimum_v1 | 0.9.0 | lhs rhs | | result |
    multiply_v1 | 0.9.0 | lhs rhs | | result |
    negate_v1 | 0.9.0 | operand | | result |
    not_v1 | 0.9.0 | operand | | result |
    optimization_barrier_v1 | 0.9.0 | operand* | | result* |
    or_v1 | 0.9.0 | lhs rhs | | result |
    outfeed_v1 | 0.9.0 | inputs* token | outfeed_config | result |
    pad_v1 | 0.9.0 | operand padding_value | edge_padding_low edge_padding_high
        interior_padding | result |
    partition_id_v1 | 0.9.0 | | | result |
    popcnt_v1 | 0.9.0 | operand | | result |
    power_v1 | 0.9.0 | lhs rhs | | result |
    real_dynamic_slice_v1 | 0.9.0 | operand start_indices limit_indices strides | | result |
    real_v1 | 0.9.0 | operand | | result |
    recv_v1 | 0.9.0 1.11.0 | token | channel_id channel_type is_host_transfer | results* |
    recv_v2 | 1.12.0 | token | channel_id channel_type is_host_transfer source_target_pairs |
        results* |
    reduce_precision_v1 | 0.9.0 | operand | exponent_bits mantissa_bits | output |
    reduce_scatter_v1 | 0.9.0 | operand | scatter_dimension replica_groups channel_id
        use_global_device_ids | result | computation
    reduce_v1 | 0.9.0 | inputs* init_values* | dimensions | results* | body
    reduce_window_v1 | 0.9.0 | inputs* init_values* | window_dimensions window_strides
        base_dilations window_dilations padding | results* | body
    remainder_v1 | 0.9.0 | lhs rhs | | result |
    replica_id_v1 | 0.9.0 | | | result |
    reshape_v1 | 0.9.0 | operand | | result |
    return_v1 | 0.9.0 | results* | | |
    reverse_v1 | 0.9.0 | operand | dimensions | result |
    rng_bit_generator_v1 | 0.9.0 | initial_state | rng_algorithm | output_state output |
    rng_v1 | 0.9.0 | a b shape | rng_distribution | result |
    round_nearest_afz_v1 | 0.9.0 | operand | | result |
    round_nearest_even_v1 | 0.9.0 | operand | | result |
    rsqrt_v1 | 0.9.0 1.9.0 | operand | | result |
    rsqrt_v2 | 1.10.0 | operand | result_accuracy | result |
    scatter_v1 | 0.9.0 1.0.0 | inputs* scatter_indices updates* | update_window_dims
        inserted_window_dims scatter_dims_to_operand_dims index_vector_dim indices_are_sorted
        unique_indices | results* | update_computation
    scatter_v2 | 1.1.0 | inputs* scatter_indices updates* | update_window_dims
        inserted_window_dims input_batching_dims scatter_indices_batching_dims
        scatter_dims_to_operand_dims index_vector_dim indices_are_sorted unique_indices |
        results* | update_computation
    select_and_scatter_v1 | 0.9.0 | operand source init_value | window_dimensions
        window_strides padding | result | select scatter
    select_v1 | 0.9.0 | pred on_true on_false | | result |
    send_v1 | 0.9.0 1.11.0 | inputs* token | channel_id channel_type is_host_transfer | result
        |
    send_v2 | 1.12.0 | inputs* token | channel_id channel_type is_host_transfer
        source_target_pairs | result |
    set_dimension_size_v1 | 0.9.0 | operand size | dimension | result |
    shift_left_v1 | 0.9.0 | lhs rhs | | result |
    shift_right_arithmetic_v1 | 0.9.0 | lhs rhs | | result |
    shift_right_logical_v1 | 0.9.0 | lhs rhs | | result |
    sign_v1 | 0.9.0 | operand | | result |
    sine_v1 | 0.9.0 1.9.0 | operand | | result |
    sine_v2 | 1.10.0 | operand | result_accuracy | result |
    slice_v1 | 0.9.0 | operand | start_indices limit_indices strides | result |
    sort_v1 | 0.9.0 | inputs* | dimension is_stable | results* | comparator
    sqrt_v1 | 0.9.0 1.9.0 | operand | | result |
    sqrt_v2 | 1.10.0 | operand | result_accuracy | result |
    subtract_v1 | 0.9.0 | lhs rhs | | result |
    tan_v1 | 1.4.0 1.9.0 | operand | | result |
    tan_v2 | 1.10.0 | operand | result_accuracy | result |
    tanh_v1 | 0.9.0 1.9.0 | operand | | result |
    tanh_v2 | 1.10.0 | operand | result_accuracy | result |
    torch_index_select_v1 | 0.9.0 | operand index | dim batch_dims | result |
    transpose_v1 | 0.9.0 | operand | permutation | result |
    triangular_solve_v1 | 0.9.0 | a b | left_side lower unit_diagonal transpose_a | result |
    tuple_v1 | 0.9.0 | val* | | result |
    unary_einsum_v1 | 0.9.0 | operand | einsum_config | result |
    uniform_dequantize_v1 | 0.9.0 | operand | | result |
    uniform_quantize_v1 | 0.9.0 | operand | | result |
    while_v1 | 0.9.0 | operand* | | results* | cond body
    xor_v1 | 0.9.0 | lhs rhs | | result |
"""
"""The forms of all ops, one per row `name | versions | operands | attributes | results | regions`.

Source: `VhloOps.td`.
"""


class OpRow(NamedTuple):
    """One form of an op, with the versions of VHLO that have it.

    Attributes:
        name: Name without the dialect: `add_v1`.
        first: The first version that has this form.
        last: The last version that has this form; `FOREVER` if the current version has it.
        operands: Names of the operands; a variadic one ends in `*`.
        attributes: Names of the attributes in byte order, in which properties are written.
        results: Names of the results, as for operands.
        regions: Names of the regions, as for operands.
    """

    name: str
    first: Version
    last: Version
    operands: tuple[str, ...]
    attributes: tuple[str, ...]
    results: tuple[str, ...]
    regions: tuple[str, ...]


def _row(text: str) -> OpRow:
    name, versions, operands, attributes, results, regions = map(str.strip, text.split("|"))
    first, *last = map(version_of, versions.split())
    return OpRow(
        name,
        first,
        last[0] if last else FOREVER,
        tuple(operands.split()),
        tuple(sorted(attributes.split())),
        tuple(results.split()),
        tuple(regions.split()),
    )


OPS: Final = {
    row.name: row for row in map(_row, _ROWS.replace("\n        ", " ").strip().splitlines())
}
"""All forms of all ops, by name without the dialect, such as `add_v1`."""


def attributes_of(op: str) -> tuple[str, ...] | None:
    """Return the names of an op's inherent attributes, in byte order; `None` if it is no VHLO op.

    >>> attributes_of("vhlo.compare_v1")
    ('compare_type', 'comparison_direction')
    """
    row = OPS.get(op.removeprefix("vhlo."))
    return None if row is None else row.attributes


def current(base: str, library: Version = FOREVER) -> str | None:
    """Return the form of op `base` that StableHLO version `library` uses, such as `add_v1`.

    The result is `None` if the version does not have the op.

    >>> current("exponential"), current("exponential", (1, 8, 0)), current("sclie")
    ('exponential_v2', 'exponential_v1', None)
    """
    for number in (2, 1):
        row = OPS.get(f"{base}_v{number}")
        if row is not None and row.first <= library:
            return row.name
    return None


# --------------------------------------------------------------------------------------------------
# Every attribute and type of VHLO: its code in bytecode, first version and fields.
#
# A row: code name version | fields, each `name:kind` | value in memory. The values are those of
# `hloscope.mlir` and `hloscope.ir`, as in StableHLO: `i32_v1` is `i32`, `array_v1` an `ArrayAttr`.
# So only ops need a conversion, and a row is all that is known about an attribute. The kinds of
# fields are explained in `hloscope.stablehlo.bytecode.fields`, the values in
# `hloscope.stablehlo.bytecode.encodings`. Rows are only added; no attribute or type has been
# removed yet.


_ATTRIBUTES: Final = """
    1  array_v1                   0.9.0  | value:attrs | array
    2  bool_v1                    0.9.0  | value:varint | bool
    3  comparison_direction_v1    0.9.0  | value:varint | enum comparison_direction
    4  comparison_type_v1         0.9.0  | value:varint | enum comparison_type
    5  api_version_v1             0.9.0  | value:varint | enum api_version
    6  dict_v1                    0.9.0  | value:pairs | dict
    7  fft_type_v1                0.9.0  | value:varint | enum fft_type
    8  float_v1                   0.9.0  | type:type value:bits | float
    9  integer_v1                 0.9.0  | type:type value:bits | integer
    10 output_operand_alias_v1    0.9.0  | output_tuple_indices:svarints operand_index:svarint \
operand_tuple_indices:svarints | struct output_operand_alias
    11 precision_v1               0.9.0  | value:varint | enum precision
    12 rng_algorithm_v1           0.9.0  | value:varint | enum rng_algorithm
    13 rng_distribution_v1        0.9.0  | value:varint | enum rng_distribution
    14 string_v1                  0.9.0  | value:string | string
    15 tensor_v1                  0.9.0  | type:type data:blob | dense
    16 transpose_v1               0.9.0  | value:varint | enum transpose
    17 type_v1                    0.9.0  | value:type | type
    18 type_extensions_v1         0.9.0  | bounds:svarints | struct bounds
    19 result_accuracy_mode_v1    1.9.0  | value:varint | enum result_accuracy_mode
    20 result_accuracy_v1         1.9.0  | atol:f64 rtol:f64 ulps:svarint mode:attr | accuracy
    21 sub_axis_info_v1           1.16.0 | pre_size:svarint size:svarint | struct sub_axis_info
    22 axis_ref_v1                1.16.0 | name:attr sub_axis_info:flagged | axis_ref
    23 replica_group_mesh_axes_v1 1.16.0 | mesh:attr axes:attr | mesh_axes
    24 mesh_axis_v1               1.16.0 | name:attr size:svarint | struct mesh_axis
    25 mesh_v1                    1.16.0 | axes:attr device_ids:attr? | mesh
"""
"""Attributes of VHLO, in rows `code name version | fields | encoding`.

Source: `VhloBytecode.cpp`, `VhloAttrs.td`.
"""

_TYPES: Final = """
    0  bool_v1            0.9.0  | | i1
    1  complex_v1         0.9.0  | element_type:type | complex
    2  bf16_v1            0.9.0  | | bf16
    3  f16_v1             0.9.0  | | f16
    4  f32_v1             0.9.0  | | f32
    5  f64_v1             0.9.0  | | f64
    6  f8E4M3FN_v1        0.9.0  | | f8E4M3FN
    7  f8E5M2_v1          0.9.0  | | f8E5M2
    8  func_v1            0.9.0  | inputs:types outputs:types | function
    9  index_v1           0.9.0  | | index
    10 i4_v1              0.9.0  | | i4
    11 i8_v1              0.9.0  | | i8
    12 i16_v1             0.9.0  | | i16
    13 i32_v1             0.9.0  | | i32
    14 i64_v1             0.9.0  | | i64
    15 ui4_v1             0.9.0  | | ui4
    16 ui8_v1             0.9.0  | | ui8
    17 ui16_v1            0.9.0  | | ui16
    18 ui32_v1            0.9.0  | | ui32
    19 ui64_v1            0.9.0  | | ui64
    20 tensor_v1          0.9.0  | shape:svarints element_type:type | tensor
    21 tensor_v1          0.9.0  | encoding:attr shape:svarints element_type:type | encoded
    22 token_v1           0.9.0  | | token
    23 tuple_v1           0.9.0  | types:types | tuple
    24 quant_v1           0.9.0  | flags:varint storage_type:type expressed_type:type scale:f64 \
zero_point:svarint storage_type_min:svarint storage_type_max:svarint | quantized
    25 unranked_tensor_v1 0.9.0  | element_type:type | unranked
    26 witness_v1         0.9.0  | | witness
    27 f8E4M3FNUZ_v1      0.10.0 | | f8E4M3FNUZ
    28 f8E5M2FNUZ_v1      0.10.0 | | f8E5M2FNUZ
    29 f8E4M3B11FNUZ_v1   0.11.0 | | f8E4M3B11FNUZ
    30 quant_per_axis_v1  0.18.0 | flags:varint storage_type:type expressed_type:type \
quantized_dimension:varint storage_type_min:svarint storage_type_max:svarint scales:f64s \
zero_points:svarints | quantized_axis
    31 i2_v1              1.2.0  | | i2
    32 ui2_v1             1.2.0  | | ui2
    33 none_v1            1.6.0  | | none
    34 tf31_v1            1.6.0  | | tf32
    35 f8E4M3_v1          1.7.0  | | f8E4M3
    36 f8E3M4_v1          1.7.0  | | f8E3M4
    37 f4E2M1FN_v1        1.8.0  | | f4E2M1FN
    38 f6E2M3FN_v1        1.8.0  | | f6E2M3FN
    39 f6E3M2FN_v1        1.8.0  | | f6E3M2FN
    40 f8E8M0FNU_v1       1.8.0  | | f8E8M0FNU
    41 buffer_v1          1.13.0 | shape:svarints element_type:type | buffer
    42 future_v1          1.15.0 | types:types | future
"""
"""Types of VHLO, in rows `code name version | fields | encoding`.

Source: `VhloBytecode.cpp`, `VhloTypes.td`.
"""

ENUMS: Final = {"api_version": list(API_VERSIONS)}
"""Values of the enums of VHLO that StableHLO does not have, by name."""


class CodeRow(NamedTuple):
    """One attribute or type of VHLO, or of another dialect with codes in bytecode.

    Attributes:
        code: Number of the attribute or type in bytecode.
        name: Name without the dialect.
        since: The first version that has the attribute or type.
        fields: Name and kind of each field, in the order of bytecode.
        value: Name of the encoding of the value, for some encodings followed by the value's name.
    """

    code: int
    name: str
    since: Version
    fields: tuple[tuple[str, str], ...]
    value: tuple[str, ...]

    @property
    def argument(self) -> str:
        """The word that the encoding takes: the value's name, or the name of the row."""
        return self.value[1] if len(self.value) > 1 else self.name


def code_row(row: str) -> CodeRow:
    """Parse a row `code name version | fields | encoding` of a table.

    >>> code_row("17 type_v1 0.9.0 | value:type | type").fields
    (('value', 'type'),)
    """
    head, fields, value = row.split("|")
    code, name, since = head.split()
    pairs = tuple((name, kind) for name, _, kind in (f.partition(":") for f in fields.split()))
    return CodeRow(int(code), name, version_of(since), pairs, tuple(value.split()))


ATTRIBUTES: Final = tuple(map(code_row, _ATTRIBUTES.strip().splitlines()))
"""All attributes of VHLO, in the order of their codes."""
TYPES: Final = tuple(map(code_row, _TYPES.strip().splitlines()))
"""All types of VHLO, in the order of their codes."""
