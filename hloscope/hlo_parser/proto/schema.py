"""Messages and fields of HLO protos that are read, as a table.

A line of the table: `message source number field kind`. A kind is a scalar of protobuf or the name
of a message, with `*` for a repeated field; an `enum` is read as its number. Sources: `hlo` is
XLA's `xla/service/hlo.proto`, `data` its `xla/xla_data.proto`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

_ROWS: Final = """
    HloSnapshot                   hlo   1 hlo HloProto
    HloSnapshot                   hlo   2 arguments LiteralProto*
    HloProto                      hlo   1 hlo_module HloModuleProto
    HloProto                      hlo   3 buffer_assignment BufferAssignmentProto
    BufferAssignmentProto         hlo   3 buffer_allocations BufferAllocationProto*
    BufferAllocationProto         hlo   2 size int64
    BufferAllocationProto         hlo   3 is_thread_local bool
    BufferAllocationProto         hlo   8 color int64
    HloModuleProto                hlo   1 name string
    HloModuleProto                hlo   2 entry_computation_name string
    HloModuleProto                hlo   6 entry_computation_id int64
    HloModuleProto                hlo   3 computations HloComputationProto*
    HloModuleProto                hlo   4 host_program_shape ProgramShapeProto
    HloModuleProto                hlo   7 schedule HloScheduleProto
    HloModuleProto                hlo   8 input_output_alias HloInputOutputAliasProto
    HloModuleProto                hlo  18 buffer_donor HloBufferDonorProto
    HloModuleProto                hlo  17 stack_frame_index StackFrameIndexProto
    HloModuleProto                hlo  19 frontend_attributes FrontendAttributes
    HloComputationProto           hlo   1 name string
    HloComputationProto           hlo   2 instructions HloInstructionProto*
    HloComputationProto           hlo   5 id int64
    HloComputationProto           hlo   6 root_id int64
    HloComputationProto           hlo   8 execution_thread string
    HloInstructionProto           hlo   1 name string
    HloInstructionProto           hlo   2 opcode string
    HloInstructionProto           hlo   3 shape ShapeProto
    HloInstructionProto           hlo   7 metadata OpMetadata
    HloInstructionProto           hlo   8 literal LiteralProto
    HloInstructionProto           hlo   9 parameter_number int64
    HloInstructionProto           hlo  11 fusion_kind string
    HloInstructionProto           hlo  13 tuple_index int64
    HloInstructionProto           hlo  14 dimensions int64*
    HloInstructionProto           hlo  15 window Window
    HloInstructionProto           hlo  16 convolution_dimension_numbers ConvolutionDimensionNumbers
    HloInstructionProto           hlo  50 feature_group_count int64
    HloInstructionProto           hlo  58 batch_group_count int64
    HloInstructionProto           hlo  17 slice_dimensions SliceDimensions*
    HloInstructionProto           hlo  18 exponent_bits int32
    HloInstructionProto           hlo  19 mantissa_bits int32
    HloInstructionProto           hlo  20 dynamic_slice_sizes int64*
    HloInstructionProto           hlo  21 padding_config PaddingConfig
    HloInstructionProto           hlo  22 outfeed_config bytes
    HloInstructionProto           hlo  23 distribution enum
    HloInstructionProto           hlo  24 epsilon float
    HloInstructionProto           hlo  25 feature_index int64
    HloInstructionProto           hlo  26 channel_id int64
    HloInstructionProto           hlo  27 infeed_config bytes
    HloInstructionProto           hlo  28 custom_call_target string
    HloInstructionProto           hlo  29 outfeed_shape ShapeProto
    HloInstructionProto           hlo  30 dot_dimension_numbers DotDimensionNumbers
    HloInstructionProto           hlo  90 ragged_dot_dimension_numbers RaggedDotDimensionNumbers
    HloInstructionProto           hlo  31 fft_type enum
    HloInstructionProto           hlo  32 fft_length int64*
    HloInstructionProto           hlo  63 comparison_direction string
    HloInstructionProto           hlo  33 gather_dimension_numbers GatherDimensionNumbers
    HloInstructionProto           hlo  34 gather_slice_sizes int64*
    HloInstructionProto           hlo  35 id int64
    HloInstructionProto           hlo  36 operand_ids int64*
    HloInstructionProto           hlo  37 control_predecessor_ids int64*
    HloInstructionProto           hlo  38 called_computation_ids int64*
    HloInstructionProto           hlo  40 sharding OpSharding
    HloInstructionProto           hlo  43 backend_config bytes
    HloInstructionProto           hlo  99 backend_config_payload Payload
    HloInstructionProto           hlo  49 replica_groups ReplicaGroup*
    HloInstructionProto           hlo  45 all_reduce_id int64
    HloInstructionProto           hlo  71 use_global_device_ids bool
    HloInstructionProto           hlo  47 is_host_transfer bool
    HloInstructionProto           hlo  60 is_stable bool
    HloInstructionProto           hlo  48 scatter_dimension_numbers ScatterDimensionNumbers
    HloInstructionProto           hlo  51 precision_config PrecisionConfig
    HloInstructionProto           hlo  52 source_target_pairs SourceTarget*
    HloInstructionProto           hlo  54 domain_entry_sharding OpSharding
    HloInstructionProto           hlo  55 domain_exit_sharding OpSharding
    HloInstructionProto           hlo  56 constrain_layout bool
    HloInstructionProto           hlo  57 operand_shapes_with_layout ShapeProto*
    HloInstructionProto           hlo  59 triangular_solve_options TriangularSolveOptions
    HloInstructionProto           hlo  62 cholesky_options CholeskyOptions
    HloInstructionProto           hlo  61 parameter_replication ParameterReplication
    HloInstructionProto           hlo  65 custom_call_has_side_effect bool
    HloInstructionProto           hlo  74 output_operand_aliasing OutputOperandAliasing*
    HloInstructionProto           hlo  76 custom_call_schedule enum
    HloInstructionProto           hlo  66 delta int64
    HloInstructionProto           hlo  67 indices_are_sorted bool
    HloInstructionProto           hlo  68 frontend_attributes FrontendAttributes
    HloInstructionProto           hlo  69 unique_indices bool
    HloInstructionProto           hlo  70 rng_algorithm enum
    HloInstructionProto           hlo  72 comparison_type string
    HloInstructionProto           hlo  73 is_cross_program_prefetch bool
    HloInstructionProto           hlo  80 cross_program_prefetch_index int32
    HloInstructionProto           hlo  75 padding_type enum
    HloInstructionProto           hlo  77 custom_call_api_version enum
    HloInstructionProto           hlo  79 async_execution_thread string
    HloInstructionProto           hlo  81 k int64
    HloInstructionProto           hlo  85 largest bool
    HloInstructionProto           hlo  82 statistics_viz StatisticsViz
    HloInstructionProto           hlo  87 collective_device_list CollectiveDeviceListProto
    HloInstructionProto           hlo  92 iota_collective_device_list IotaReplicaGroupListProto
    HloInstructionProto           hlo  93 mesh_axes_replica_group_list MeshAxesReplicaGroupListProto
    HloInstructionProto           hlo  88 original_value OriginalValueProto
    HloInstructionProto           hlo  89 is_composite bool
    HloInstructionProto           hlo  91 result_accuracy ResultAccuracy
    HloInstructionProto           hlo  94 is_reverse bool
    HloInstructionProto           hlo  95 num_carries int64
    HloInstructionProto           hlo  96 is_associative enum
    HloInstructionProto           hlo  97 conv_kind enum
    HloInstructionProto           hlo  98 sparsity_config SparsityConfig
    SliceDimensions               hlo   1 start int64
    SliceDimensions               hlo   2 limit int64
    SliceDimensions               hlo   3 stride int64
    HloScheduleProto              hlo   1 sequences SequencesEntry*
    SequencesEntry                hlo   1 key int64
    SequencesEntry                hlo   2 value InstructionSequence
    InstructionSequence           hlo   1 instruction_ids int64*
    HloInputOutputAliasProto      hlo   1 entries AliasEntryProto*
    AliasEntryProto               hlo   1 output_shape_index int64*
    AliasEntryProto               hlo   2 parameter_number int64
    AliasEntryProto               hlo   3 parameter_shape_index int64*
    AliasEntryProto               hlo   4 kind enum
    HloBufferDonorProto           hlo   1 entries BufferDonorEntryProto*
    BufferDonorEntryProto         hlo   1 parameter_number int64
    BufferDonorEntryProto         hlo   2 parameter_shape_index int64*
    StackFrameIndexProto          hlo   1 file_names string*
    StackFrameIndexProto          hlo   2 function_names string*
    StackFrameIndexProto          hlo   3 file_locations FileLocation*
    StackFrameIndexProto          hlo   4 stack_frames StackFrame*
    FileLocation                  hlo   1 file_name_id int32
    FileLocation                  hlo   2 function_name_id int32
    FileLocation                  hlo   3 line int32
    FileLocation                  hlo   5 end_line int32
    FileLocation                  hlo   4 column int32
    FileLocation                  hlo   6 end_column int32
    StackFrame                    hlo   1 file_location_id int32
    StackFrame                    hlo   2 parent_frame_id int32
    ShapeProto                    data  2 element_type enum
    ShapeProto                    data  3 dimensions int64*
    ShapeProto                    data  6 is_dynamic_dimension bool*
    ShapeProto                    data  4 tuple_shapes ShapeProto*
    ShapeProto                    data  5 layout LayoutProto
    LayoutProto                   data  1 minor_to_major int64*
    LayoutProto                   data  9 dim_level_types enum*
    LayoutProto                   data 13 dim_unique bool*
    LayoutProto                   data 14 dim_ordered bool*
    LayoutProto                   data  6 tiles TileProto*
    LayoutProto                   data 16 tail_padding_alignment_in_elements int64
    LayoutProto                   data  7 element_size_in_bits int64
    LayoutProto                   data  8 memory_space int64
    LayoutProto                   data 11 index_primitive_type enum
    LayoutProto                   data 12 pointer_primitive_type enum
    LayoutProto                   data 10 physical_shape ShapeProto
    LayoutProto                   data 15 dynamic_shape_metadata_prefix_bytes int64
    LayoutProto                   data 17 split_configs SplitConfigProto*
    TileProto                     data  1 dimensions int64*
    SplitConfigProto              data  1 dimension int64
    SplitConfigProto              data  2 split_indices int64*
    ProgramShapeProto             data  1 parameters ShapeProto*
    ProgramShapeProto             data  2 result ShapeProto
    ProgramShapeProto             data  3 parameter_names string*
    OpMetadata                    data  1 op_type string
    OpMetadata                    data  2 op_name string
    OpMetadata                    data  3 source_file string
    OpMetadata                    data  4 source_line int32
    OpMetadata                    data 17 source_end_line int32
    OpMetadata                    data 18 source_column int32
    OpMetadata                    data 19 source_end_column int32
    OpMetadata                    data  5 profile_type enum*
    OpMetadata                    data  8 size_of_generated_code_in_bytes int64
    OpMetadata                    data  9 size_of_memory_working_set_in_bytes int64
    OpMetadata                    data 10 profile_info ProfileInfo
    OpMetadata                    data 12 deduplicated_name string
    OpMetadata                    data 15 stack_frame_id int32
    OpMetadata                    data 16 scheduling_name string
    OpMetadata                    data 20 metadata_payload Payload
    LiteralProto                  data  1 shape ShapeProto
    LiteralProto                  data  2 preds bool*
    LiteralProto                  data 30 s1s bytes
    LiteralProto                  data 26 s2s bytes
    LiteralProto                  data 21 s4s bytes
    LiteralProto                  data 15 s8s bytes
    LiteralProto                  data 31 u1s bytes
    LiteralProto                  data 27 u2s bytes
    LiteralProto                  data 22 u4s bytes
    LiteralProto                  data  3 u8s bytes
    LiteralProto                  data  4 s32s int32*
    LiteralProto                  data  5 s64s int64*
    LiteralProto                  data  6 u32s uint32*
    LiteralProto                  data  7 u64s uint64*
    LiteralProto                  data  8 f32s float*
    LiteralProto                  data  9 f64s double*
    LiteralProto                  data 12 c64s float*
    LiteralProto                  data 18 c128s double*
    LiteralProto                  data 10 tuple_literals LiteralProto*
    LiteralProto                  data 11 f16s bytes
    LiteralProto                  data 13 bf16s bytes
    LiteralProto                  data 16 u16s bytes
    LiteralProto                  data 17 s16s bytes
    LiteralProto                  data 32 f4e2m1fns bytes
    LiteralProto                  data 29 f8e3m4s bytes
    LiteralProto                  data 23 f8e4m3b11fnuzs bytes
    LiteralProto                  data 20 f8e4m3fns bytes
    LiteralProto                  data 25 f8e4m3fnuzs bytes
    LiteralProto                  data 28 f8e4m3s bytes
    LiteralProto                  data 24 f8e5m2fnuzs bytes
    LiteralProto                  data 19 f8e5m2s bytes
    LiteralProto                  data 33 f8e8m0fnus bytes
    LiteralProto                  data 35 f6e3m2fns bytes
    LiteralProto                  data 36 f6e2m3fns bytes
    LiteralProto                  data 14 sparse_indices int64*
    LiteralProto                  data 34 dynamic_sizes int32*
    WindowDimension               data  1 size int64
    WindowDimension               data  2 stride int64
    WindowDimension               data  3 padding_low int64
    WindowDimension               data  4 padding_high int64
    WindowDimension               data  5 window_dilation int64
    WindowDimension               data  6 base_dilation int64
    WindowDimension               data  7 window_reversal bool
    Window                        data  1 dimensions WindowDimension*
    GatherDimensionNumbers        data  1 offset_dims int64*
    GatherDimensionNumbers        data  2 collapsed_slice_dims int64*
    GatherDimensionNumbers        data  3 start_index_map int64*
    GatherDimensionNumbers        data  4 index_vector_dim int64
    GatherDimensionNumbers        data  5 operand_batching_dims int64*
    GatherDimensionNumbers        data  6 start_indices_batching_dims int64*
    ScatterDimensionNumbers       data  1 update_window_dims int64*
    ScatterDimensionNumbers       data  2 inserted_window_dims int64*
    ScatterDimensionNumbers       data  3 scatter_dims_to_operand_dims int64*
    ScatterDimensionNumbers       data  4 index_vector_dim int64
    ScatterDimensionNumbers       data  5 input_batching_dims int64*
    ScatterDimensionNumbers       data  6 scatter_indices_batching_dims int64*
    ConvolutionDimensionNumbers   data  7 input_batch_dimension int64
    ConvolutionDimensionNumbers   data  8 input_feature_dimension int64
    ConvolutionDimensionNumbers   data 11 input_spatial_dimensions int64*
    ConvolutionDimensionNumbers   data  3 kernel_input_feature_dimension int64
    ConvolutionDimensionNumbers   data  4 kernel_output_feature_dimension int64
    ConvolutionDimensionNumbers   data  6 kernel_spatial_dimensions int64*
    ConvolutionDimensionNumbers   data  9 output_batch_dimension int64
    ConvolutionDimensionNumbers   data 10 output_feature_dimension int64
    ConvolutionDimensionNumbers   data 12 output_spatial_dimensions int64*
    DotDimensionNumbers           data  1 lhs_contracting_dimensions int64*
    DotDimensionNumbers           data  2 rhs_contracting_dimensions int64*
    DotDimensionNumbers           data  3 lhs_batch_dimensions int64*
    DotDimensionNumbers           data  4 rhs_batch_dimensions int64*
    RaggedDotDimensionNumbers     data  1 dot_dimension_numbers DotDimensionNumbers
    RaggedDotDimensionNumbers     data  2 lhs_ragged_dimensions int64*
    RaggedDotDimensionNumbers     data  3 rhs_group_dimensions int64*
    TriangularSolveOptions        data  1 left_side bool
    TriangularSolveOptions        data  2 lower bool
    TriangularSolveOptions        data  3 unit_diagonal bool
    TriangularSolveOptions        data  4 transpose_a enum
    CholeskyOptions               data  1 lower bool
    FrontendAttributes            data  1 map MapEntry*
    MapEntry                      data  1 key string
    MapEntry                      data  2 value string
    Statistic                     data  1 stat_name string
    Statistic                     data  2 stat_val double
    StatisticsViz                 data  1 stat_index_to_visualize int64
    StatisticsViz                 data  2 statistics Statistic*
    MeshProto                     data  1 axes MeshAxis*
    MeshProto                     data  2 device_ids int64*
    MeshProto                     data  3 iota_transform IotaTransform
    MeshAxis                      data  1 name string
    MeshAxis                      data  2 size int64
    IotaTransform                 data  1 reshape_dims int64*
    IotaTransform                 data  2 transpose_perm int64*
    AxisRefProto                  data  1 mesh_axis_index int64
    AxisRefProto                  data  2 sub_axis_info SubAxis
    SubAxis                       data  1 pre_size int64
    SubAxis                       data  2 size int64
    NamedShardingProto            data  2 mesh MeshProto
    NamedShardingProto            data  3 dim_shardings DimensionSharding*
    NamedShardingProto            data  4 replicated_axes AxisRefProto*
    NamedShardingProto            data  5 unreduced_axes AxisRefProto*
    NamedShardingProto            data  7 manual_axes AxisRefProto*
    NamedShardingProto            data  6 metadata OpMetadata*
    DimensionSharding             data  1 axes AxisRefProto*
    DimensionSharding             data  2 is_closed bool
    OpSharding                    data  1 type enum
    OpSharding                    data  2 tile_shape ShapeProto
    OpSharding                    data  3 tile_assignment_dimensions int64*
    OpSharding                    data  4 tile_assignment_devices int64*
    OpSharding                    data  5 tuple_shardings OpSharding*
    OpSharding                    data  6 replicate_on_last_tile_dim bool
    OpSharding                    data  7 metadata OpMetadata*
    OpSharding                    data  8 last_tile_dims enum*
    OpSharding                    data  9 iota_reshape_dims int64*
    OpSharding                    data 10 iota_transpose_perm int32*
    OpSharding                    data 11 is_shard_group bool
    OpSharding                    data 12 shard_group_id int64
    OpSharding                    data 13 shard_group_type enum
    OpSharding                    data 14 named_sharding NamedShardingProto
    ReplicaGroup                  data  1 replica_ids int64*
    IotaReplicaGroupListProto     data  1 num_replica_groups int64
    IotaReplicaGroupListProto     data  2 num_devices_per_group int64
    IotaReplicaGroupListProto     data  3 iota_reshape_dims int64*
    IotaReplicaGroupListProto     data  4 iota_transpose_perm int32*
    CollectiveDeviceListProto     data  1 replica_groups ReplicaGroup*
    CollectiveDeviceListProto     data  2 iota_replica_group_list IotaReplicaGroupListProto
    MeshAxesReplicaGroupListProto data  1 mesh MeshProto
    MeshAxesReplicaGroupListProto data  2 axes AxisRefProto*
    SourceTarget                  data  1 source int64
    SourceTarget                  data  2 target int64
    ResultAccuracy                data  1 mode enum
    ResultAccuracy                data  2 tolerance Tolerance
    Tolerance                     data  1 atol double
    Tolerance                     data  2 rtol double
    Tolerance                     data  3 ulps int64
    PrecisionConfig               data  1 operand_precision enum*
    PrecisionConfig               data  2 algorithm enum
    ParameterReplication          data  1 replicated_at_leaf_buffers bool*
    OutputOperandAliasing         data  1 output_shape_index int64*
    OutputOperandAliasing         data  2 operand_index int64
    OutputOperandAliasing         data  3 operand_shape_index int64*
    OriginalArrayProto            data  1 instruction_name string
    OriginalArrayProto            data  2 shape_index int64*
    OriginalValueElementProto     data  1 shape_index int64*
    OriginalValueElementProto     data  2 original_array OriginalArrayProto
    OriginalValueProto            data  1 elements OriginalValueElementProto*
    OriginalValueProto            data  2 is_synthetic_call bool
    PaddingConfig                 data  1 dimensions PaddingConfigDimension*
    PaddingConfigDimension        data  1 edge_padding_low int64
    PaddingConfigDimension        data  2 edge_padding_high int64
    PaddingConfigDimension        data  3 interior_padding int64
    SparsityConfig                data  1 lhs TensorSparsityConfig
    SparsityConfig                data  2 rhs TensorSparsityConfig
    TensorSparsityConfig          data  1 num_non_zero int64
    TensorSparsityConfig          data  2 block_size int64
    TensorSparsityConfig          data  3 dimension int64
    TensorSparsityConfig          data  4 stride int64
"""

IGNORED: Final = {
    "HloSnapshot": None,
    "HloProto": None,
    "BufferAssignmentProto": None,
    "BufferAllocationProto": None,
    "HloModuleProto": None,
    "HloComputationProto": (3, 4, 7),
    "HloInstructionProto": (4, 5, 6, 10, 12, 41, 42, 44, 46, 53, 64, 78, 83, 84),
    "StackFrameIndexProto": None,
    "FileLocation": None,
    "StackFrame": None,
    "OpMetadata": None,
    "ShapeProto": (1,),
    "LiteralProto": (14,),
}
"""Fields that are skipped, by message; `None` skips every field that the table lacks.

They are reserved, repeat other fields, or do not describe the program. A field that is neither here
nor in the table is an error, since its effect is unknown.
"""


class Field(Struct, frozen=True):
    """One field of a message, with its number and its kind."""

    name: str
    number: int
    kind: str
    repeated: bool
    is_text: bool
    """Whether the field is a single string."""


def _messages() -> dict[str, dict[int, Field]]:
    messages: dict[str, dict[int, Field]] = {}
    for row in _ROWS.splitlines():
        if row.strip():
            message, _, number, name, kind = row.split()
            field = Field(name, int(number), kind.rstrip("*"), kind.endswith("*"), kind == "string")
            messages.setdefault(message, {})[field.number] = field
    return messages


MESSAGES: Final[dict[str, dict[int, Field]]] = _messages()
"""Fields of each message by the field's number."""

FIELDS: Final = {
    message: {field.name: field for field in fields.values()}
    for message, fields in MESSAGES.items()
}
"""Fields of each message by the field's name."""
