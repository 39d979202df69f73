"""Definitions of the ops of StableHLO's dialects, as tables: `stablehlo`, `chlo`, test dialects."""

from typing import Final

# --------------------------------------------------------------------------------------------------
# Definitions of the elementwise ops.


ELEMENTWISE: Final = """
    abs | operand:SFCQ | | result:SFQ | infer elementwise ~unary
    add | lhs:FBICQA rhs:FBICQA | | result:FBICQA | same_shape infer elementwise commutative
        same_element_unless_quantized ~binary
    and | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative ~binary
    atan2 | lhs:FCQ rhs:FCQ | | result:FCQ | compatible same_shape elementwise ~binary
    cbrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    ceil | operand:FQ | | result:FQ | compatible elementwise ~unary
    clamp | min:FBICQ operand:FBICQ max:FBICQ | | result:FBICQ | compatible_element@c3 infer
        ~ %min, %operand, %max<attrs> : <same>
    compare | lhs:FBICQ rhs:FBICQ | comparison_direction:comparison_direction
        compare_type?:comparison_type | result:B | elementwise@c2 compatible_operands_element infer
        ~ <enum comparison_direction>, %lhs, %rhs(?, <enum comparison_type compare_type>?)<attrs> :
        <function>
    complex | lhs:D rhs:D | | result:C | same_operands_element same_shape infer elementwise
        ~ %lhs, %rhs<attrs> : <complex>
    convert | operand:FBIC | | result:FBIC | same_shape elementwise ~unary
    cosine | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    count_leading_zeros | operand:I | | result:I | compatible elementwise ~unary
    divide | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise ~binary
    exponential | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
        ~unary
    exponential_minus_one | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible
        elementwise ~unary
    floor | operand:FQ | | result:FQ | compatible elementwise ~unary
    imag | operand:FC | | result:F | infer elementwise ~unary
    is_finite | x:FQ | | y:B | infer elementwise ~unary_function
    log | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    log_plus_one | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
        ~unary
    logistic | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    maximum | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
        ~binary
    minimum | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
        ~binary
    multiply | lhs:FBICQ rhs:FBICQ | | result:FBICQ | compatible same_shape elementwise commutative
        ~binary
    negate | operand:IFCQ | | result:IFCQ | compatible elementwise ~unary
    not | operand:BI | | result:BI | compatible elementwise ~unary
    or | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative ~binary
    popcnt | operand:I | | result:I | compatible elementwise ~unary
    power | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise ~binary
    real | operand:FC | | result:F | infer elementwise ~unary
    reduce_precision | operand:FQ | exponent_bits:i32>0 mantissa_bits:i32>=0 | output:FQ |
        elementwise compatible
        ~ %operand, format = <format><attrs> : <same>
    remainder | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise ~binary
    round_nearest_afz | operand:FQ | | result:FQ | compatible elementwise ~unary
    round_nearest_even | operand:FQ | | result:FQ | compatible elementwise ~unary
    rsqrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    select | pred:B on_true:FBICQ on_false:FBICQ | | result:FBICQ | infer
        ~ %pred, %on_true, %on_false<attrs> : <select>
    shift_left | lhs:I rhs:I | | result:I | compatible same_shape elementwise ~binary
    shift_right_arithmetic | lhs:I rhs:I | | result:I | compatible same_shape elementwise ~binary
    shift_right_logical | lhs:I rhs:I | | result:I | compatible same_shape elementwise ~binary
    sign | operand:SFCQ | | result:SFCQ | compatible elementwise ~unary
    sine | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    sqrt | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    subtract | lhs:IFCQ rhs:IFCQ | | result:IFCQ | compatible same_shape elementwise ~binary
    tan since=1.4.0 | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise
        ~unary
    tanh | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible elementwise ~unary
    xor | lhs:BI rhs:BI | | result:FBICQ | compatible same_shape elementwise commutative ~binary
"""
"""Elementwise ops, one per line; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops between real and quantized numbers.


QUANTIZATION: Final = """
    uniform_dequantize | operand:QA | | result:F | infer elementwise ~unary
    uniform_quantize | operand:FQA | | result:QA | elementwise ~unary
"""
"""Ops between real and quantized numbers; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops that rearrange elements or create tensors.


SHAPE: Final = """
    bitcast_convert | operand:FBICQA | | result:FBICQA | ~unary_function
    broadcast | operand:FBICQ | broadcast_sizes:dims | result:FBICQA | same_element infer
        ~ %operand, sizes = <dims broadcast_sizes><attrs> : <function>
    broadcast_in_dim | operand:FBICQA | broadcast_dimensions:dims | result:bounded.FBICQA |
        compatible_element
        ~ %operand, dims = <dims broadcast_dimensions><attrs> : <function>
    concatenate | inputs*:FBICQ | dimension:i64>=0 | result:FBICQ | same_element infer
        ~ %inputs*, dim = <i64 dimension><attrs> : <function>
    constant | | value>literal:elements | output:static.FBICQA | infer ~constant
    iota | | iota_dimension:i64>=0 | output:static.IFCQ |
        ~ dim = <i64 iota_dimension><attrs> : <out>
    pad | operand:FBICQ padding_value:0d.FBICQ | edge_padding_low:dims edge_padding_high:dims
        interior_padding:dims | result:FBICQ | same_element infer
        sizes@c2=edge_padding_low,edge_padding_high,interior_padding
        ~ %operand, %padding_value, low = <dims edge_padding_low>, high = <dims edge_padding_high>,
        interior = <dims interior_padding><attrs> : <function>
    reshape | operand:FBICQA | | result:bounded.FBICQA | compatible_element ~unary_function
    reverse | operand:FBICQ | dimensions:dims | result:FBICQ | same_element infer
        ~ %operand, dims = <dims dimensions><attrs> : <same>
    transpose | operand:FBICQA | permutation:dims | result:FBICQA | compatible_element infer
        ~ %operand, dims = <dims permutation><attrs> : <function>
"""
"""Ops that rearrange elements or create tensors; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops that cut out or replace a part of a tensor.


SLICING: Final = """
    dynamic_slice | operand:FBICQ start_indices*:0d.I | slice_sizes:dims | result:FBICQ | infer
        elements=operand,result
        ~ %operand, %start_indices*, sizes = <dims slice_sizes><attrs> : <function>
    dynamic_update_slice | operand:FBICQ update:FBICQ start_indices*:0d.I | | result:FBICQ | infer
        elements@c2=operand,update,result ~variadic_function
    real_dynamic_slice | operand:FBICQ start_indices:1d.XI limit_indices:1d.XI strides:1d.XI | |
        result:FBICQ | elements=operand,result types=start_indices,limit_indices,strides
        ~variadic_function
    slice | operand:FBICQ | start_indices:dims limit_indices:dims strides:dims | result:FBICQ |
        same_element infer sizes@c2=start_indices,limit_indices,strides
        ~ %operand <ranges><attrs> : <function>
"""
"""Ops that cut out or replace a part of a tensor; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops with sizes that are known only at run time.


DYNAMIC: Final = """
    dynamic_broadcast_in_dim | operand:FBICQA output_dimensions:shape.XI | broadcast_dimensions:dims
        known_expanding_dimensions?:dims known_nonexpanding_dimensions?:dims | result:FBICQA |
        ~ %operand, %output_dimensions, dims = <dims broadcast_dimensions><attrs> : <function>
    dynamic_iota | output_shape:shape.XI | iota_dimension:i64>=0 | result:FBICQ |
        ~ %output_shape, dim = <i64 iota_dimension><attrs> : <function>
    dynamic_pad | operand:FBICQ padding_value:0d.FBICQ edge_padding_low:shape.XI
        edge_padding_high:shape.XI interior_padding:shape.XI | | result:FBICQ |
        elements=operand,padding_value,result
        types@c2=edge_padding_low,edge_padding_high,interior_padding ranks@c2=operand,result
        ~variadic_function
    dynamic_reshape | operand:FBICQA output_shape:shape.XI | | result:FBICQA | ~variadic_function
    get_dimension_size | operand:FBICQA | dimension:i64>=0 | result:i | infer
        ~ %operand, dim = <i64 dimension><attrs> : <function>
    set_dimension_size | operand:FBICQ size:i | dimension:i64>=0 | result:FBICQ | infer
        ~ %operand, %size, dim = <i64 dimension><attrs> : <function>
"""
"""Ops whose result sizes are operands; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops that slide a window over a tensor.


WINDOWS: Final = """
    convolution | lhs:FBICQ rhs:FBICQA | window_strides?:dims padding?:pairs lhs_dilation?:dims
        rhs_dilation?:dims window_reversal?:bools dimension_numbers:conv feature_group_count:i64>0
        batch_group_count:i64>0 precision_config?:precision | result:FBICQA |
        ~(%lhs, %rhs) dim_numbers = <conv>, window = {<window>}<attrs> : <function>
    dynamic_conv | lhs:FBICQ rhs:FBICQ padding:pairs.I | window_strides?:dims lhs_dilation?:dims
        rhs_dilation?:dims window_reversal?:bools dimension_numbers:conv feature_group_count:i64>0
        batch_group_count:i64>0 precision_config?:precision | result:FBICQ |
    reduce_window | inputs*:FBICQ init_values*:FBICQ | window_dimensions:dims window_strides?:dims
        base_dilations?:dims window_dilations?:dims padding?:pairs | result*:FBICQ | ^body
        same_operand_sizes single_block infer
    select_and_scatter | operand:FBICQ source:FBICQ init_value:FBICQ | window_dimensions?:dims
        window_strides?:dims padding?:pairs | result:FBICQ | ^select ^scatter infer
"""
"""Ops that slide a window over a tensor; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops that contract two tensors.


CONTRACTION: Final = """
    dot | lhs:FBICQ rhs:FBICQA | precision_config?:precision | result:FBICQA |
        ~ %lhs, %rhs<precision><attrs> : <function>
    dot_general | lhs:FBICQ rhs:FBICQA | dot_dimension_numbers:dot precision_config?:precision
        algorithm?:algorithm | result:FBICQA |
        ~ %lhs, %rhs, <dot><precision algorithm><attrs> : <function>
    einsum | lhs:FBICQ rhs:FBICQ | einsum_config:string | result:FBICQ |
        ~ %lhs, %rhs, config = <string einsum_config><attrs> : <function>
    unary_einsum | operand:FBICQ | einsum_config:string | result:FBICQ |
        ~ %operand, config = <string einsum_config><attrs> : <function>
"""
"""Ops that contract two tensors; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops that read or write at indices in a tensor.


GATHER_SCATTER: Final = """
    dynamic_gather | operand:FBICQ start_indices:I slice_sizes:list.I | dimension_numbers:gather
        indices_are_sorted?:bool | result:FBICQ | infer
    gather | operand:FBICQ start_indices:I | dimension_numbers:gather slice_sizes:dims
        indices_are_sorted?:bool | result:FBICQ | infer elements@c23=operand,result
    scatter | inputs*:FBICQ scatter_indices:NX updates*:FBICQ | scatter_dimension_numbers:scatter
        indices_are_sorted?:bool unique_indices?:bool | result*:FBICQ | ^update_computation
        same_operand_sizes infer
    torch_index_select | operand:FBICQ index:FBICQ | dim:i64 batch_dims:i64 | result:FBICQ |
"""
"""Ops that read or write at indices in a tensor; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops that combine elements: reductions, normalisation, sorting.


REDUCTION: Final = """
    batch_norm_grad | operand:FQ scale:1d.FQ mean:1d.FQ variance:1d.FQ grad_output:FQ | epsilon:f32
        feature_index:i64>=0 | grad_operand:FQ grad_scale:1d.FQ grad_offset:1d.FQ |
        compatible_element@c2 infer
    batch_norm_inference | operand:FQ scale:1d.FQ offset:1d.FQ mean:1d.FQ variance:1d.FQ |
        epsilon:f32 feature_index:i64>=0 | result:FQ | compatible_element@c2 infer
    batch_norm_training | operand:FQ scale:1d.FQ offset:1d.FQ | epsilon:f32 feature_index:i64>=0 |
        output:FQ batch_mean:1d.FQ batch_var:1d.FQ | compatible_element@c2 infer
    map | inputs*:FBICQ | dimensions:dims | result:FBICQ | ^computation same_shape single_block
        infer
    reduce | inputs*:FBICQ init_values*:FBICQ | dimensions:dims | result*:FBICQ | ^body
        same_operand_sizes single_block infer ~reduce
    sort | inputs*:FBICQ | dimension?:i64 is_stable?:bool | result*:FBICQ | ^comparator
        same_shape@c3 infer
"""
"""Reductions, normalisation, sorting; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops of linear algebra.


LINALG: Final = """
    cholesky | a:FCQ | lower?:bool=false | result:FCQ | compatible_element infer
        ~ %a(?, lower = <bool lower>?)<attrs> : <same>
    fft | operand:FC | fft_type:fft_type fft_length:dims | result:FC | infer
        ~ %operand, type = <enum fft_type>, length = <dims fft_length><attrs> : <function>
    triangular_solve | a:FC b:FC | left_side:bool lower:bool unit_diagonal:bool
        transpose_a:transpose | result:FC | compatible_element infer
"""
"""Ops of linear algebra; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops that generate random numbers.


RANDOM: Final = """
    rng effect | a:0d.BIF b:0d.BIF shape:shape.XI | rng_distribution:rng_distribution | result:BIF
        | infer
        elements=a,b,result
        ~ %a, %b, %shape, distribution = <enum rng_distribution><attrs> : <function>
    rng_bit_generator | initial_state:IF | rng_algorithm:rng_algorithm | output_state:IF
        output:static.IF |
        ~ %initial_state, algorithm = <enum rng_algorithm><attrs> : <function>
"""
"""Ops that generate random numbers; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops of control flow, calls, tokens and tuples.


CONTROL: Final = """
    after_all effect | inputs*:token | | result:token | infer
        ~ %inputs*<attrs> : <same>
    async_done effect since=1.15.0 | operand:future | | result:FBICQ | infer
    async_start effect since=1.15.0 | operands*:FBICQ | | result:future | ^body isolated
        single_block infer
    case effect | index:i | | result*:FBICQ/A/token | ^branches* single_block infer
    composite effect since=0.19.0 | inputs*:FBICQ/A/token/tuple | name>composite_name:string
        composite_attributes?:dict={} decomposition:callee version?:i32=0 |
        result*:FBICQ/A/token/tuple | ^composite_regions*+
        ~ <string name> %inputs*<regions><attrs> : <function>
    create_token effect | | | output:token | infer ~nullary
    custom_call effect | inputs*:any.FBICQA/memref.FBICQ/token/anytuple/future |
        call_target_name:string
        has_side_effect?:bool=false backend_config?:config api_version?:api_version=1
        called_computations?:callees=[] operand_layouts?:layouts result_layouts?:layouts
        output_operand_aliases?:aliases=[] | result*:any.FBICQA/memref.FBICQ/token/anytuple/future |
        ~ <symbol call_target_name>(%inputs*)<attrs> : <function>
    get_tuple_element | operand:tuple | index:i32>=0 | result:FBICQ/A/token/tuple/memref.FBICQ |
        infer
        ~ %operand[<i32 index>]<attrs> : <function>
    if effect class=case | pred:B | | result*:FBICQ/A/token | ^true_branch ^false_branch
        single_block infer
    optimization_barrier | operand*:FBICQ/token | | result*:FBICQ/token | pairwise infer
        ~<attrs><barrier>
    return effect | results*:FBICQ/A/token/memref.FBICQ | | | terminator
        ~ %results*<attrs><any>
    tuple | val*:FBICQ/A/token/tuple/memref.FBICQ | | result:tuple | infer
        ~ %val*<attrs> : <tuple>
    while effect | operand*:FBICQ/A/token/memref.FBICQ | | result*:FBICQ/A/token/memref.FBICQ |
        ^cond ^body
        single_block infer ~while
"""
"""Ops of control flow, calls, tokens and tuples; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops between devices and with the host.


COLLECTIVES: Final = """
    all_gather effect | operands*:FBICQ | all_gather_dim:i64>=0 replica_groups:groups
        channel_handle?:channel use_global_device_ids?:unit | result*:FBICQ | pairwise_element@c6
    all_reduce effect | operands*:FBICQ | replica_groups:groups channel_handle?:channel
        use_global_device_ids?:unit | result*:FBICQ | ^computation single_block infer
    all_to_all effect | operands*:FBICQ | split_dimension:i64>=0 concat_dimension:i64>=0
        split_count:i64>0
        replica_groups:groups channel_handle?:channel | result*:FBICQ | pairwise_element@c9 infer
    collective_broadcast effect since=0.16.0 | operands*:FBICQ | replica_groups:groups
        channel_handle?:channel has_dynamic_root?:unit | result*:FBICQ | infer
    collective_permute effect | operand:FBICQ | source_target_pairs:table channel_handle?:channel |
        result:FBICQ | same_element@c5 infer
    collective_reduce effect since=1.19.0 | operands*:FBICQ | replica_groups:groups
        channel_handle?:channel
        use_global_device_ids?:unit has_dynamic_root?:unit | result*:FBICQ | ^computation
        single_block infer
    cross-replica-sum effect | operand:FBICQ | replica_groups:table | result:FBICQ | compatible
    infeed effect | token:token | infeed_config:string="" layout?:array |
        result*:static.FBICQ/static.FBICQA/token |
    outfeed effect | inputs*:FBICQA token:token | outfeed_config:string="" | result:token | infer
    partition_id effect | | | result:u | infer ~nullary
    recv effect | token:token | channel_handle:channel is_host_transfer?:bool
        source_target_pairs?:ints |
        result*:static.FBICQ/static.FBICQA/token |
    reduce_scatter effect | operand:FBICQ | scatter_dimension:i64>=0 replica_groups:groups
        channel_handle?:channel use_global_device_ids?:unit | result:FBICQ | ^computation
    replica_id effect | | | result:u | infer ~nullary
    send effect | inputs*:FBICQA token:token | channel_handle:channel is_host_transfer?:bool
        source_target_pairs?:ints | result:token | infer
"""
"""Ops between devices and with the host; `rows` explains the notation.

Source: `StablehloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# All ops of StableHLO: the tables of all families.


STABLEHLO: Final = (
    ELEMENTWISE,
    QUANTIZATION,
    SHAPE,
    SLICING,
    DYNAMIC,
    WINDOWS,
    CONTRACTION,
    GATHER_SCATTER,
    REDUCTION,
    LINALG,
    RANDOM,
    CONTROL,
    COLLECTIVES,
)


# --------------------------------------------------------------------------------------------------
# Definitions of the elementwise ops of CHLO.


CHLO_ELEMENTWISE: Final = """
    _asin_acos_kernel | operand:any.C | | result:any.C | compatible elementwise ~unary_arrow
    acos | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    acosh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    asin | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    asinh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    atan | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    atanh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    bessel_i1e | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    conj | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    cosh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    digamma | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    erf | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    erf_inv | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    erfc | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    is_inf | operand:any.F | | result:any.B | infer elementwise ~unary_arrow
    is_neg_inf | operand:any.F | | result:any.B | infer elementwise ~unary_arrow
    is_pos_inf | operand:any.F | | result:any.B | infer elementwise ~unary_arrow
    lgamma | operand:any.F | | result:any.F | compatible elementwise ~unary_arrow
    sinh | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    square | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    tan | operand:any.FC | | result:any.FC | compatible elementwise ~unary_arrow
    mulhi | lhs:I rhs:I | | result:I | compatible ~binary_arrow
    next_after | x:any.F y:any.F | | result:any.F | compatible ~binary_arrow
    polygamma | n:any.F x:any.F | | result:any.F | compatible ~binary_arrow
    zeta | x:any.F q:any.F | | result:any.F | compatible ~binary_arrow
    broadcast_add | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims | result:any.FBICQA |
        compatible_element infer ~broadcasting
    broadcast_and | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
        ~broadcasting
    broadcast_atan2 | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims | result:any.FBICQA
        | same_element infer ~broadcasting
    broadcast_compare | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims
        comparison_direction:comparison_direction compare_type?:comparison_type | result:any.B |
        infer ~broadcasting
    broadcast_complex | lhs:any.F rhs:any.F | broadcast_dimensions?:dims | result:any.C | infer
        ~broadcasting
    broadcast_divide | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_maximum | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | compatible_element infer ~broadcasting
    broadcast_minimum | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | compatible_element infer ~broadcasting
    broadcast_multiply | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_next_after | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_or | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
        ~broadcasting
    broadcast_polygamma | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_power | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims | result:any.FBICQA
        | same_element infer ~broadcasting
    broadcast_remainder | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_select | pred:B on_true:any.FBICQA on_false:any.FBICQA | | result:any.FBICQA | infer
        ~ %pred, %on_true, %on_false<attrs> : (<in>, <in>, <in>) -> <out>
    broadcast_shift_left | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_shift_right_arithmetic | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_shift_right_logical | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_subtract | lhs:any.FBICQA rhs:any.FBICQA | broadcast_dimensions?:dims |
        result:any.FBICQA | same_element infer ~broadcasting
    broadcast_xor | lhs:any.BI rhs:any.BI | broadcast_dimensions?:dims | result:any.FBICQA | infer
        ~broadcasting
    broadcast_zeta | lhs:any.F rhs:any.F | broadcast_dimensions?:dims | result:any.F | same_element
        infer ~broadcasting
    constant_like | operand:any.FBICQA | value:typed | result:any.FBICQA | same_shape infer
"""
"""Elementwise ops of CHLO; `rows` explains the notation.

Source: `ChloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the CHLO ops that rearrange elements or create tensors.


CHLO_SHAPE: Final = """
    constant | | value>literal:elements | output:static.FBICQ | infer ~value
"""
"""CHLO ops that rearrange elements or create tensors; `rows` explains the notation.

Source: `ChloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the CHLO ops that contract two tensors.


CHLO_CONTRACTION: Final = """
    ragged_dot | lhs:any.FBICQA rhs:any.FBICQA group_sizes:I |
        ragged_dot_dimension_numbers:ragged_dot precision_config?:precision | result:any.FBICQA |
"""
"""CHLO ops that contract two tensors; `rows` explains the notation.

Source: `ChloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the CHLO ops that combine elements: reductions, sorting.


CHLO_REDUCTION: Final = """
    scan | inputs*:any.FBICQA inits*:any.FBICQA | dimension>scan_dimension:i64>=0
        scan_dim_size?:i64>=0 is_reverse?:bool is_associative?:bool | outputs*:any.FBICQA
        carries*:any.FBICQA | ^body isolated segments infer infer ~scan
    top_k | operand:any.FBICQA | k:i64 | values:any.FBICQA indices:any.FBICQA | infer
        ~(%operand, k = <i64 k>)<attrs> : <in> -> (<out>, <out>)
"""
"""CHLO ops that combine elements; `rows` explains the notation.

Source: `ChloOps.td`.
"""


# --------------------------------------------------------------------------------------------------
# All ops of CHLO: the tables of all families.


CHLO: Final = (
    CHLO_ELEMENTWISE,
    CHLO_SHAPE,
    CHLO_CONTRACTION,
    CHLO_REDUCTION,
)


# --------------------------------------------------------------------------------------------------
# Definitions of the ops of the dialect `check`.


CHECK: Final = """
    expect_eq | lhs:FBICQ rhs:FBICQ | | | same_operands_element same_operands_shape
        ~ %lhs, %rhs<attrs> : <every type>
    expect_eq_const | lhs:FBICQ | value:elements | |
        ~ %lhs, <value value operand><attrs>
    expect_almost_eq | lhs:any.fc rhs:any.fc | tolerance?:f64 | | same_operands_element
        same_operands_shape
        ~ %lhs, %rhs(?, tolerance = <float tolerance>?)<attrs> : <every type>
    expect_almost_eq_const | lhs:any.fc | value:elements tolerance?:f64 | |
        ~ %lhs, <value value operand>(?, tolerance = <float tolerance>?)<attrs>
    expect_close | actual:any.fc expected:any.fc | max_ulp_difference?:any min_ulp_difference?:any |
        | same_operands_element same_operands_shape
        ~ %actual, %expected(?, max_ulp_difference = <i64 max_ulp_difference>?)(?,
        min_ulp_difference = <i64 min_ulp_difference>?)<attrs> : <in>, <in>
    expect_serialized_eq | expected:FBICQ | probe_id:string iteration?:any | |
        ~ %expected, probe_id = <string probe_id>(?, iter = <i32 iteration>?)<attrs> : <every type>
"""
"""Ops of the dialect `check`; `rows` explains the notation.

Source: `CheckOps.td` of StableHLO's tests.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the ops of the dialect `interpreter`.


INTERPRETER: Final = """
    print | operand:FBICQ | | |
        ~ %operand<attrs> : <every type>
    probe | operand:FBICQ | probe_id:string | result:FBICQ | same_type
        ~ %operand, probe_id = <string probe_id><attrs> : <each>
    run_parallel | inputs*:FBICQ/token | infeed?:symbols programs:programs | results*:FBICQ/token |
"""
"""Ops of the dialect `interpreter`; `rows` explains the notation.

Source: `InterpreterOps.td`.
"""
