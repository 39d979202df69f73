"""Made by `python -m hloscope.stablehlo.nodes`; not edited by hand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from hloscope.mlir.ir import Attribute, Value
from hloscope.stablehlo.making import TypeLike

_Values = Value | Sequence[Value]
_Types = TypeLike | Sequence[TypeLike]
_Region = Callable[..., Any]
_ComparisonDirection = Literal["EQ", "NE", "GE", "GT", "LE", "LT"]
_ComparisonType = Literal["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]
_FftType = Literal["FFT", "IFFT", "RFFT", "IRFFT"]
_Precision = Literal["DEFAULT", "HIGH", "HIGHEST"]
_ResultAccuracyMode = Literal["DEFAULT", "HIGHEST", "TOLERANCE"]
_RngAlgorithm = Literal["DEFAULT", "THREE_FRY", "PHILOX"]
_RngDistribution = Literal["UNIFORM", "NORMAL"]
_Transpose = Literal["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]

class StablehloMethods:
    def abs(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def add(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def after_all(
        self,
        *operands: _Values,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def all_gather(
        self,
        *operands: _Values,
        all_gather_dim: int | Attribute,
        replica_groups: Sequence[Sequence[int]] | str | Attribute,
        channel_handle: int | tuple[int, int] | Attribute | None = ...,
        use_global_device_ids: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def all_reduce(
        self,
        *operands: _Values,
        computation: _Region,
        replica_groups: Sequence[Sequence[int]] | str | Attribute,
        channel_handle: int | tuple[int, int] | Attribute | None = ...,
        use_global_device_ids: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def all_to_all(
        self,
        *operands: _Values,
        split_dimension: int | Attribute,
        concat_dimension: int | Attribute,
        split_count: int | Attribute,
        replica_groups: Sequence[Sequence[int]] | str | Attribute,
        channel_handle: int | tuple[int, int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def and_(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def async_done(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def async_start(
        self,
        *operands: _Values,
        body: _Region,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def atan2(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def batch_norm_grad(
        self,
        operand: Value,
        scale: Value,
        mean: Value,
        variance: Value,
        grad_output: Value,
        /,
        *,
        epsilon: float | Attribute,
        feature_index: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> tuple[Value, Value, Value]: ...
    def batch_norm_inference(
        self,
        operand: Value,
        scale: Value,
        offset: Value,
        mean: Value,
        variance: Value,
        /,
        *,
        epsilon: float | Attribute,
        feature_index: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def batch_norm_training(
        self,
        operand: Value,
        scale: Value,
        offset: Value,
        /,
        *,
        epsilon: float | Attribute,
        feature_index: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> tuple[Value, Value, Value]: ...
    def bitcast_convert(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast(
        self,
        operand: Value,
        /,
        *,
        broadcast_sizes: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_in_dim(
        self,
        operand: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def case(
        self,
        index: Value,
        /,
        *,
        branches: Sequence[_Region] = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def cbrt(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def ceil(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def cholesky(
        self,
        a: Value,
        /,
        *,
        lower: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def clamp(
        self,
        min: Value,
        operand: Value,
        max: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def collective_broadcast(
        self,
        *operands: _Values,
        replica_groups: Sequence[Sequence[int]] | str | Attribute,
        channel_handle: int | tuple[int, int] | Attribute | None = ...,
        has_dynamic_root: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def collective_permute(
        self,
        operand: Value,
        /,
        *,
        source_target_pairs: Sequence[Sequence[int]] | str | Attribute,
        channel_handle: int | tuple[int, int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def collective_reduce(
        self,
        *operands: _Values,
        computation: _Region,
        replica_groups: Sequence[Sequence[int]] | str | Attribute,
        channel_handle: int | tuple[int, int] | Attribute | None = ...,
        use_global_device_ids: bool | Attribute | None = ...,
        has_dynamic_root: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def compare(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        comparison_direction: _ComparisonDirection | Attribute,
        compare_type: _ComparisonType | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def complex(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def composite(
        self,
        *operands: _Values,
        composite_regions: Sequence[_Region] = ...,
        name: str | Attribute,
        composite_attributes: Any | None = ...,
        decomposition: str | Attribute,
        version: int | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def concatenate(
        self,
        *operands: _Values,
        dimension: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def convert(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def convolution(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        window_strides: Sequence[int] | Attribute | None = ...,
        padding: Sequence[Sequence[int]] | Attribute | None = ...,
        lhs_dilation: Sequence[int] | Attribute | None = ...,
        rhs_dilation: Sequence[int] | Attribute | None = ...,
        window_reversal: Sequence[bool] | Attribute | None = ...,
        dimension_numbers: Any,
        feature_group_count: int | Attribute,
        batch_group_count: int | Attribute,
        precision_config: _Precision | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def cosine(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def count_leading_zeros(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def create_token(
        self,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def cross_replica_sum(
        self,
        operand: Value,
        /,
        *,
        replica_groups: Sequence[Sequence[int]] | str | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def custom_call(
        self,
        *operands: _Values,
        call_target_name: str | Attribute,
        has_side_effect: bool | Attribute | None = ...,
        backend_config: Any | None = ...,
        api_version: int | Attribute | None = ...,
        called_computations: Sequence[str] | Attribute | None = ...,
        operand_layouts: Any | None = ...,
        result_layouts: Any | None = ...,
        output_operand_aliases: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def divide(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dot(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        precision_config: _Precision | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dot_general(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        dot_dimension_numbers: Mapping[str, Any] | Attribute | None = ...,
        lhs_batching_dimensions: Sequence[int] = ...,
        rhs_batching_dimensions: Sequence[int] = ...,
        lhs_contracting_dimensions: Sequence[int] = ...,
        rhs_contracting_dimensions: Sequence[int] = ...,
        precision_config: _Precision | Attribute | None = ...,
        algorithm: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dynamic_broadcast_in_dim(
        self,
        operand: Value,
        output_dimensions: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute,
        known_expanding_dimensions: Sequence[int] | Attribute | None = ...,
        known_nonexpanding_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dynamic_conv(
        self,
        lhs: Value,
        rhs: Value,
        padding: Value,
        /,
        *,
        window_strides: Sequence[int] | Attribute | None = ...,
        lhs_dilation: Sequence[int] | Attribute | None = ...,
        rhs_dilation: Sequence[int] | Attribute | None = ...,
        window_reversal: Sequence[bool] | Attribute | None = ...,
        dimension_numbers: Any,
        feature_group_count: int | Attribute,
        batch_group_count: int | Attribute,
        precision_config: _Precision | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dynamic_gather(
        self,
        operand: Value,
        start_indices: Value,
        slice_sizes: Value,
        /,
        *,
        dimension_numbers: Mapping[str, Any] | Attribute | None = ...,
        offset_dims: Sequence[int] = ...,
        collapsed_slice_dims: Sequence[int] = ...,
        operand_batching_dims: Sequence[int] = ...,
        start_indices_batching_dims: Sequence[int] = ...,
        start_index_map: Sequence[int] = ...,
        index_vector_dim: int = ...,
        indices_are_sorted: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dynamic_iota(
        self,
        output_shape: Value,
        /,
        *,
        iota_dimension: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dynamic_pad(
        self,
        operand: Value,
        padding_value: Value,
        edge_padding_low: Value,
        edge_padding_high: Value,
        interior_padding: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dynamic_reshape(
        self,
        operand: Value,
        output_shape: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dynamic_slice(
        self,
        *operands: _Values,
        slice_sizes: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def dynamic_update_slice(
        self,
        *operands: _Values,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def einsum(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        einsum_config: str | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def exponential(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def exponential_minus_one(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def fft(
        self,
        operand: Value,
        /,
        *,
        fft_type: _FftType | Attribute,
        fft_length: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def floor(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def gather(
        self,
        operand: Value,
        start_indices: Value,
        /,
        *,
        dimension_numbers: Mapping[str, Any] | Attribute | None = ...,
        offset_dims: Sequence[int] = ...,
        collapsed_slice_dims: Sequence[int] = ...,
        operand_batching_dims: Sequence[int] = ...,
        start_indices_batching_dims: Sequence[int] = ...,
        start_index_map: Sequence[int] = ...,
        index_vector_dim: int = ...,
        slice_sizes: Sequence[int] | Attribute,
        indices_are_sorted: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def get_dimension_size(
        self,
        operand: Value,
        /,
        *,
        dimension: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def get_tuple_element(
        self,
        operand: Value,
        /,
        *,
        index: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def if_(
        self,
        pred: Value,
        /,
        *,
        true_branch: _Region,
        false_branch: _Region,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def imag(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def infeed(
        self,
        token: Value,
        /,
        *,
        infeed_config: str | Attribute | None = ...,
        layout: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def iota(
        self,
        *,
        iota_dimension: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def is_finite(
        self,
        x: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def log(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def log_plus_one(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def logistic(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def map(
        self,
        *operands: _Values,
        computation: _Region,
        dimensions: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def maximum(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def minimum(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def multiply(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def negate(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def not_(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def optimization_barrier(
        self,
        *operands: _Values,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def or_(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def outfeed(
        self,
        *operands: _Values,
        outfeed_config: str | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def pad(
        self,
        operand: Value,
        padding_value: Value,
        /,
        *,
        edge_padding_low: Sequence[int] | Attribute,
        edge_padding_high: Sequence[int] | Attribute,
        interior_padding: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def partition_id(
        self,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def popcnt(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def power(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def real(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def real_dynamic_slice(
        self,
        operand: Value,
        start_indices: Value,
        limit_indices: Value,
        strides: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def recv(
        self,
        token: Value,
        /,
        *,
        channel_handle: int | tuple[int, int] | Attribute,
        is_host_transfer: bool | Attribute | None = ...,
        source_target_pairs: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def reduce(
        self,
        *operands: _Values,
        body: _Region,
        dimensions: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def reduce_precision(
        self,
        operand: Value,
        /,
        *,
        exponent_bits: int | Attribute,
        mantissa_bits: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def reduce_scatter(
        self,
        operand: Value,
        /,
        *,
        computation: _Region,
        scatter_dimension: int | Attribute,
        replica_groups: Sequence[Sequence[int]] | str | Attribute,
        channel_handle: int | tuple[int, int] | Attribute | None = ...,
        use_global_device_ids: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def reduce_window(
        self,
        *operands: _Values,
        body: _Region,
        window_dimensions: Sequence[int] | Attribute,
        window_strides: Sequence[int] | Attribute | None = ...,
        base_dilations: Sequence[int] | Attribute | None = ...,
        window_dilations: Sequence[int] | Attribute | None = ...,
        padding: Sequence[Sequence[int]] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def remainder(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def replica_id(
        self,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def reshape(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def reverse(
        self,
        operand: Value,
        /,
        *,
        dimensions: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def rng(
        self,
        a: Value,
        b: Value,
        shape: Value,
        /,
        *,
        rng_distribution: _RngDistribution | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def rng_bit_generator(
        self,
        initial_state: Value,
        /,
        *,
        rng_algorithm: _RngAlgorithm | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> tuple[Value, Value]: ...
    def round_nearest_afz(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def round_nearest_even(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def rsqrt(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def scatter(
        self,
        *operands: _Values,
        update_computation: _Region,
        scatter_dimension_numbers: Mapping[str, Any] | Attribute | None = ...,
        update_window_dims: Sequence[int] = ...,
        inserted_window_dims: Sequence[int] = ...,
        input_batching_dims: Sequence[int] = ...,
        scatter_indices_batching_dims: Sequence[int] = ...,
        scatter_dims_to_operand_dims: Sequence[int] = ...,
        index_vector_dim: int = ...,
        indices_are_sorted: bool | Attribute | None = ...,
        unique_indices: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def select(
        self,
        pred: Value,
        on_true: Value,
        on_false: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def select_and_scatter(
        self,
        operand: Value,
        source: Value,
        init_value: Value,
        /,
        *,
        select: _Region,
        scatter: _Region,
        window_dimensions: Sequence[int] | Attribute | None = ...,
        window_strides: Sequence[int] | Attribute | None = ...,
        padding: Sequence[Sequence[int]] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def send(
        self,
        *operands: _Values,
        channel_handle: int | tuple[int, int] | Attribute,
        is_host_transfer: bool | Attribute | None = ...,
        source_target_pairs: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def set_dimension_size(
        self,
        operand: Value,
        size: Value,
        /,
        *,
        dimension: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def shift_left(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def shift_right_arithmetic(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def shift_right_logical(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def sign(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def sine(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def slice(
        self,
        operand: Value,
        /,
        *,
        start_indices: Sequence[int] | Attribute,
        limit_indices: Sequence[int] | Attribute,
        strides: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def sort(
        self,
        *operands: _Values,
        comparator: _Region,
        dimension: int | Attribute | None = ...,
        is_stable: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def sqrt(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def subtract(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def tan(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def tanh(
        self,
        operand: Value,
        /,
        *,
        result_accuracy: Any | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def torch_index_select(
        self,
        operand: Value,
        index: Value,
        /,
        *,
        dim: int | Attribute,
        batch_dims: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def transpose(
        self,
        operand: Value,
        /,
        *,
        permutation: Sequence[int] | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def triangular_solve(
        self,
        a: Value,
        b: Value,
        /,
        *,
        left_side: bool | Attribute,
        lower: bool | Attribute,
        unit_diagonal: bool | Attribute,
        transpose_a: _Transpose | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def tuple(
        self,
        *operands: _Values,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def unary_einsum(
        self,
        operand: Value,
        /,
        *,
        einsum_config: str | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def uniform_dequantize(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def uniform_quantize(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def while_(
        self,
        *operands: _Values,
        cond: _Region,
        body: _Region,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def xor(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...

class ChloMethods:
    def _asin_acos_kernel(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def acos(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def acosh(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def asin(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def asinh(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def atan(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def atanh(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def bessel_i1e(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_add(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_and(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_atan2(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_compare(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        comparison_direction: _ComparisonDirection | Attribute,
        compare_type: _ComparisonType | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_complex(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_divide(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_maximum(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_minimum(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_multiply(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_next_after(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_or(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_polygamma(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_power(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_remainder(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_select(
        self,
        pred: Value,
        on_true: Value,
        on_false: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_shift_left(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_shift_right_arithmetic(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_shift_right_logical(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_subtract(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_xor(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def broadcast_zeta(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        broadcast_dimensions: Sequence[int] | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def conj(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def constant_like(
        self,
        operand: Value,
        /,
        *,
        value: Any,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def cosh(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def digamma(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def erf(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def erf_inv(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def erfc(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def is_inf(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def is_neg_inf(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def is_pos_inf(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def lgamma(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def mulhi(
        self,
        lhs: Value,
        rhs: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def next_after(
        self,
        x: Value,
        y: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def polygamma(
        self,
        n: Value,
        x: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def ragged_dot(
        self,
        lhs: Value,
        rhs: Value,
        group_sizes: Value,
        /,
        *,
        ragged_dot_dimension_numbers: Mapping[str, Any] | Attribute | None = ...,
        lhs_batching_dimensions: Sequence[int] = ...,
        rhs_batching_dimensions: Sequence[int] = ...,
        lhs_contracting_dimensions: Sequence[int] = ...,
        rhs_contracting_dimensions: Sequence[int] = ...,
        lhs_ragged_dimensions: Sequence[int] = ...,
        rhs_group_dimensions: Sequence[int] = ...,
        precision_config: _Precision | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def scan(
        self,
        *operands: _Values,
        body: _Region,
        dimension: int | Attribute,
        scan_dim_size: int | Attribute | None = ...,
        is_reverse: bool | Attribute | None = ...,
        is_associative: bool | Attribute | None = ...,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Any: ...
    def sinh(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def square(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def tan(
        self,
        operand: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
    def top_k(
        self,
        operand: Value,
        /,
        *,
        k: int | Attribute,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> tuple[Value, Value]: ...
    def zeta(
        self,
        x: Value,
        q: Value,
        /,
        *,
        type: _Types | None = ...,
        attributes: Mapping[str, Any] = ...,
    ) -> Value: ...
