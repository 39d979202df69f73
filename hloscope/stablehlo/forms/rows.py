"""The forms of ops, one row for ops that share one: the form, and their names.

`language` explains the rows; `special` has the forms that no row says.

Source: `StablehloOps.td`, `ChloOps.td`, `CheckOps.td`, `InterpreterOps.td`, and MLIR's definitions
of the dialects `arith`, `tensor`, `shape`, `bufferization` and `memref`.
"""

from __future__ import annotations

from typing import Final

STABLEHLO: Final = (
    (
        " %operand<attrs> : <same>",
        "abs cbrt ceil convert count_leading_zeros cosine exponential exponential_minus_one floor"
        " imag log log_plus_one logistic negate not popcnt real round_nearest_afz"
        " round_nearest_even rsqrt sign sine sqrt tan tanh uniform_dequantize uniform_quantize",
    ),
    (
        " %lhs, %rhs<attrs> : <same>",
        "add and atan2 divide maximum minimum multiply or power remainder shift_left"
        " shift_right_arithmetic shift_right_logical subtract xor",
    ),
    (" %lhs, %rhs<attrs> : <complex>", "complex"),
    (" %min, %operand, %max<attrs> : <same>", "clamp"),
    (" %pred, %on_true, %on_false<attrs> : <select>", "select"),
    (
        " <enum comparison_direction>, %lhs, %rhs(?, <enum comparison_type compare_type>?)"
        "<attrs> : <function>",
        "compare",
    ),
    ("<attrs> : <out>", "create_token partition_id replica_id"),
    (" %inputs*<attrs> : <same>", "after_all"),
    (" dim = <i64 iota_dimension><attrs> : <out>", "iota"),
    (" %output_shape, dim = <i64 iota_dimension><attrs> : <function>", "dynamic_iota"),
    (" %operand<attrs> : <function>", "bitcast_convert is_finite reshape"),
    (
        " %operands*<attrs> : <function>",
        "dynamic_pad dynamic_reshape dynamic_update_slice real_dynamic_slice",
    ),
    (" %operand, sizes = <dims broadcast_sizes><attrs> : <function>", "broadcast"),
    (" %operand, dims = <dims broadcast_dimensions><attrs> : <function>", "broadcast_in_dim"),
    (
        " %operand, %output_dimensions, dims = <dims broadcast_dimensions><attrs> : <function>",
        "dynamic_broadcast_in_dim",
    ),
    (" %operand, dims = <dims permutation><attrs> : <function>", "transpose"),
    (" %operand, dims = <dims dimensions><attrs> : <same>", "reverse"),
    (
        " %operand, %padding_value, low = <dims edge_padding_low>,"
        " high = <dims edge_padding_high>, interior = <dims interior_padding><attrs> : <function>",
        "pad",
    ),
    (" %operand <ranges><attrs> : <function>", "slice"),
    (
        " %operand, %start_indices*, sizes = <dims slice_sizes><attrs> : <function>",
        "dynamic_slice",
    ),
    (" %inputs*, dim = <i64 dimension><attrs> : <function>", "concatenate"),
    (" %operand, dim = <i64 dimension><attrs> : <function>", "get_dimension_size"),
    (" %operand, %size, dim = <i64 dimension><attrs> : <function>", "set_dimension_size"),
    (" %a(?, lower = <bool lower>?)<attrs> : <same>", "cholesky"),
    (" %lhs, %rhs<precision><attrs> : <function>", "dot"),
    (" %lhs, %rhs, <dot><precision algorithm><attrs> : <function>", "dot_general"),
    (
        "(%lhs, %rhs) dim_numbers = <conv>, window = {<window>}<attrs> : <function>",
        "convolution",
    ),
    (" %lhs, %rhs, config = <string einsum_config><attrs> : <function>", "einsum"),
    (" %operand, config = <string einsum_config><attrs> : <function>", "unary_einsum"),
    (
        " %operand, type = <enum fft_type>, length = <dims fft_length><attrs> : <function>",
        "fft",
    ),
    (" %operand, format = <format><attrs> : <same>", "reduce_precision"),
    (
        " %a, %b, %shape, distribution = <enum rng_distribution><attrs> : <function>",
        "rng",
    ),
    (
        " %initial_state, algorithm = <enum rng_algorithm><attrs> : <function>",
        "rng_bit_generator",
    ),
    (" %operand[<i32 index>]<attrs> : <function>", "get_tuple_element"),
    (" %val*<attrs> : <tuple>", "tuple"),
    (" <symbol call_target_name>(%inputs*)<attrs> : <function>", "custom_call"),
    (" <string name> %inputs*<regions><attrs> : <function>", "composite"),
    ("<attrs><barrier>", "optimization_barrier"),
    (" %results*<attrs><any>", "return"),
)
"""Ops of `stablehlo`.  Those in neither table are always written in the generic form."""

CHLO: Final = (
    (
        " %operand<attrs> : <in> -> <out>",
        "_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf"
        " erf_inv erfc is_inf is_neg_inf is_pos_inf lgamma sinh square tan",
    ),
    (
        " %lhs, %rhs<attrs> : <in>, <in> -> <out>",
        "mulhi next_after polygamma zeta",
    ),
    (
        " %lhs, %rhs<attrs> : (<in>, <in>) -> <out>",
        "broadcast_add broadcast_and broadcast_atan2 broadcast_compare broadcast_complex"
        " broadcast_divide broadcast_maximum broadcast_minimum broadcast_multiply"
        " broadcast_next_after broadcast_or broadcast_polygamma broadcast_power"
        " broadcast_remainder broadcast_shift_left broadcast_shift_right_arithmetic"
        " broadcast_shift_right_logical broadcast_subtract broadcast_xor broadcast_zeta",
    ),
    (
        " %pred, %on_true, %on_false<attrs> : (<in>, <in>, <in>) -> <out>",
        "broadcast_select",
    ),
    ("<attrs> <value value result>", "constant"),
    ("(%operand, k = <i64 k>)<attrs> : <in> -> (<out>, <out>)", "top_k"),
)
"""Ops of `chlo`."""

CHECK: Final = (
    (" %lhs, %rhs<attrs> : <every type>", "expect_eq"),
    (" %lhs, <value value operand><attrs>", "expect_eq_const"),
    (
        " %lhs, %rhs(?, tolerance = <float tolerance>?)<attrs> : <every type>",
        "expect_almost_eq",
    ),
    (
        " %lhs, <value value operand>(?, tolerance = <float tolerance>?)<attrs>",
        "expect_almost_eq_const",
    ),
    (
        " %actual, %expected(?, max_ulp_difference = <i64 max_ulp_difference>?)"
        "(?, min_ulp_difference = <i64 min_ulp_difference>?)<attrs> : <in>, <in>",
        "expect_close",
    ),
    (
        " %expected, probe_id = <string probe_id>(?, iter = <i32 iteration>?)<attrs>"
        " : <every type>",
        "expect_serialized_eq",
    ),
)
"""Ops of `check`."""

INTERPRETER: Final = (
    (" %operand<attrs> : <every type>", "print"),
    (" %operand, probe_id = <string probe_id><attrs> : <each>", "probe"),
)
"""Ops of `interpreter`."""

ARITH: Final = (
    ("<attrs> <value value result>", "constant"),
    (
        " %lhs, %rhs<attrs> : <each>",
        "andi ceildivsi ceildivui floordivsi maxsi maxui minsi minui ori remsi remui xori",
    ),
    (
        " %lhs, %rhs<flags overflow overflowFlags><attrs> : <each>",
        "addi muli shli subi",
    ),
    (" %lhs, %rhs(? exact<unit isExact>?)<attrs> : <each>", "divsi divui shrsi shrui"),
    (
        " %lhs, %rhs<flags fastmath fastmath><attrs> : <each>",
        "addf divf maximumf maxnumf minimumf minnumf mulf remf subf",
    ),
    (" %operand<flags fastmath fastmath><attrs> : <each>", "negf"),
    (
        " <numbered integer predicate>, %lhs, %rhs<attrs> : <every type><implied_boolean>",
        "cmpi",
    ),
    (
        " <numbered float predicate>, %lhs, %rhs<flags fastmath fastmath><attrs> : <every type>"
        "<implied_boolean>",
        "cmpf",
    ),
    (
        " %in<attrs> : <in> to <out>",
        "bitcast extsi fptosi fptoui index_cast sitofp",
    ),
    (" %in(? nneg<unit nonNeg>?)<attrs> : <in> to <out>", "extui index_castui uitofp"),
    (" %in<flags overflow overflowFlags><attrs> : <in> to <out>", "trunci"),
    (" %in<flags fastmath fastmath><attrs> : <in> to <out>", "extf truncf"),
    (" %condition, %true, %false<attrs> : <choice>", "select"),
)
"""Ops of `arith`."""

TENSOR: Final = (
    (" %source<attrs> : <in> to <out>", "bitcast cast"),
    ("<attrs> %source, %index : <in><implied inputs index><implied output index>", "dim"),
    (" %tensor[%indices*]<attrs> : <in><implied inputs index><implied output element>", "extract"),
    (" %elements*<attrs> : <out><implied inputs element>", "from_elements"),
    (" %tensor<attrs> : <in><implied output index>", "rank"),
    (" %input<attrs> : <out><implied inputs element>", "splat"),
    (" %source(%shape)<attrs> : <function>", "reshape"),
    ("(%sizes*)<attrs> : <out><implied inputs index>", "empty"),
    (" %value<attrs> : <in>", "yield"),
    (" %scalar into %dest[%indices*]<attrs> : <insertion>", "insert"),
    (" %src <array reassociation><attrs> : <in> into <out>", "collapse_shape"),
    (
        " %src <array reassociation> output_shape <sizes static_output_shape><attrs>"
        " : <in> into <out><implied inputs index>",
        "expand_shape",
    ),
    (" dim(<i64 dim>) %inputs*<attrs> : <function>", "concat"),
)
"""Ops of `tensor`."""

SHAPE: Final = (
    (
        " %arg<attrs> : <in> -> <out>",
        "num_elements rank shape_of to_extent_tensor value_as_shape value_of",
    ),
    (
        " %lhs, %rhs<attrs> : <in>, <in> -> <out>",
        "add concat dim div get_extent max min mul",
    ),
    (" %inputs*<attrs> : <in *> -> <out>", "any broadcast"),
    (" %shapes*<attrs> : <in *><implied output !shape.witness>", "cstr_broadcastable cstr_eq"),
    (" %shapes*<attrs> : <in *><implied output i1>", "is_broadcastable shape_eq"),
    (" %extents*<attrs> : <in *><implied output !shape.shape>", "from_extents"),
    (" %input<attrs> : <in><implied output !shape.shape>", "from_extent_tensor"),
    (" %arg<attrs> : <in><implied output index>", "size_to_index"),
    (
        " %arg<attrs><implied inputs index><implied output !shape.size>",
        "index_to_size",
    ),
    (
        " %inputs*<attrs><implied inputs !shape.witness><implied output !shape.witness>",
        "assuming_all",
    ),
    (
        " %pred, <string msg><attrs><implied inputs i1><implied output !shape.witness>",
        "cstr_require",
    ),
    (" <index value><attrs><implied output !shape.size>", "const_size"),
    (" <bool passing><attrs><implied output !shape.witness>", "const_witness"),
    ("<attrs> <shape shape> : <out>", "const_shape"),
    ("<attrs><list>", "assuming_yield yield"),
)
"""Ops of `shape`."""

SDY: Final = (
    (" <symbol sym_name> = <bare sdy.mesh mesh><attrs>", "mesh"),
    (" %input <bare sdy.sharding sharding><attrs> : <each>", "reshard sharding_constraint"),
    (
        " <inside list_of_axis_ref_lists gathering_axes> %tensor"
        " out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>",
        "all_gather",
    ),
    (
        " <inside list_of_axis_ref_lists slicing_axes> %tensor"
        " out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>",
        "all_slice",
    ),
    (
        " <inside all_to_all_param_list params> %tensor"
        " out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>",
        "all_to_all",
    ),
    (
        " <inside axis_ref_list reduction_axes> %tensor"
        " out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>",
        "all_reduce",
    ),
    (
        " <inside list_of_axis_ref_lists reduce_scatter_axes> %tensor"
        " out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>",
        "reduce_scatter",
    ),
    (
        " <inside list_of_axis_ref_lists axes> %tensor"
        " out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>",
        "sharded_to_unreduced",
    ),
    (
        " <inside axis_ref_list axes> %tensor"
        " out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>",
        "replicated_to_unreduced",
    ),
    (
        " %tensor out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>",
        "collective_permute",
    ),
    (
        " %input allowed_direction=<numbered direction allowed_direction><attrs> : <each>",
        "propagation_barrier",
    ),
    (" %input(? sharding=<bare sdy.sharding sharding>?)<attrs> : <each>", "data_flow_edge"),
    (" %input group_id=<i64 group_id><attrs> : <every type>", "sharding_group"),
    ("<attrs> <value value result>", "constant"),
    ("<attrs><list>", "return"),
)
"""Ops of `sdy`."""

OTHERS: Final = {
    "bufferization": ((" %in<attrs> : <in> to <out>", "to_buffer to_tensor"),),
    "memref": ((" %source<attrs> : <in> to <out>", "cast"),),
    "scf": (("<attrs><list>", "yield"),),
    "cf": ((" %arg, <string msg><attrs><implied inputs i1>", "assert"),),
}
"""Ops of other dialects."""
