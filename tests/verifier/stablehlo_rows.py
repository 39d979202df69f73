"""Right StableHLO programs, one op a row, and their regions; types for changed ones."""

from __future__ import annotations

from typing import Final


def _region(takes: str, line: str, gives: str) -> str:
    names = ", ".join(f"%x{i}: tensor<{t}>" for i, t in enumerate(takes.split()))
    block = f"^bb0({names}):\n" if names else ""
    used = ", ".join(f"%y{i}" if line else f"%x{i}" for i in range(len(gives.split())))
    types = ", ".join(f"tensor<{t}>" for t in gives.split())
    return f'{{\n{block}{line}\n"stablehlo.return"({used}) : ({types}) -> ()\n}}'


def _two(op: str, type_: str, gives: str = "", attributes: str = "") -> str:
    gives = gives or type_
    line = (
        f'%y0 = "stablehlo.{op}"(%x0, %x1) {attributes} : (tensor<{type_}>, tensor<{type_}>)'
        f" -> tensor<{gives}>"
    )
    return _region(f"{type_} {type_}", line, gives)


_LESS: Final = "<{comparison_direction = #stablehlo<comparison_direction LT>}>"
REGIONS: Final = {
    "sum": _two("add", "f32"),
    "sum_i32": _two("add", "i32"),
    "less": _two("compare", "f32", "i1", _LESS),
    "first": _region("f32 i32 f32 i32", "", "f32 i32"),
    "less2": _region(
        "f32 f32 i32 i32",
        f'%y0 = "stablehlo.compare"(%x0, %x1) {_LESS} : (tensor<f32>, tensor<f32>) -> tensor<i1>',
        "i1",
    ),
    "nothing": _region("", "", ""),
    "same": _region("4x3xf32", "", "4x3xf32"),
    "turned": _region(
        "",
        '%y0 = "stablehlo.transpose"(%a1) <{permutation = array<i64: 1, 0>}> :'
        " (tensor<4x3xf32>) -> tensor<3x4xf32>",
        "3x4xf32",
    ),
    "never": _region(
        "4x3xf32",
        '%y0 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>',
        "i1",
    ),
    "never2": _region(
        "4x3xf32 i32",
        '%y0 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>',
        "i1",
    ),
    "sent": _region(
        "4x3xf32",
        '%y0 = "stablehlo.collective_permute"(%x0) <{source_target_pairs = dense<[[0, 1]]> :'
        " tensor<1x2xi64>}> : (tensor<4x3xf32>) -> tensor<4x3xf32>",
        "4x3xf32",
    ),
    "same2": _region("4x3xf32 i32", "", "4x3xf32 i32"),
    "scanned": _region(
        "3xf32 3xf32",
        '%y0 = "stablehlo.add"(%x0, %x1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>\n'
        '%y1 = "stablehlo.negate"(%y0) : (tensor<3xf32>) -> tensor<3xf32>',
        "3xf32 3xf32",
    ),
    "square": _region(
        "f32",
        '%y0 = "stablehlo.multiply"(%x0, %x0) : (tensor<f32>, tensor<f32>) -> tensor<f32>',
        "f32",
    ),
}
"""Regions by name."""

DECOMPOSITION: Final = """
func.func private @twice(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %r = stablehlo.add %x, %x : tensor<4x3xf32>
  return %r : tensor<4x3xf32>
}
"""
"""What a `composite` stands for."""

UNARY: Final = """
    abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate
    round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh
"""
TWO: Final = "add atan2 divide maximum minimum multiply power remainder subtract"
BITS: Final = "and or xor shift_left shift_right_arithmetic shift_right_logical"
CHLO: Final = """
    acos acosh asin asinh atan atanh cosh sinh erf erfc erf_inv lgamma digamma square bessel_i1e
    conj tan
"""
BINARY_CHLO: Final = "next_after polygamma zeta"
IMPLICIT: Final = """
    add subtract multiply divide maximum minimum power atan2 next_after polygamma remainder zeta
"""
IMPLICIT_BITS: Final = "and or xor shift_left shift_right_arithmetic shift_right_logical"

_GROUPS: Final = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
_WINDOW: Final = "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>"
_SCATTER: Final = (
    "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims"
    " = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
)
_GATHER: Final = (
    "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],"
    " start_index_map = [0], index_vector_dim = 1>"
)
_CONV: Final = (
    "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,"
    " feature_group_count = 1, batch_group_count = 1"
)
ROWS: Final = f"""
convert(4x3xf32) -> 4x3xi32
not(4xi1) -> 4xi1
popcnt(4xi32) -> 4xi32
count_leading_zeros(4xi32) -> 4xi32
is_finite(4x3xf32) -> 4x3xi1
real(4xcomplex<f32>) -> 4xf32
imag(4xcomplex<f32>) -> 4xf32
complex(4xf32 4xf32) -> 4xcomplex<f32>
compare(4x3xf32 4x3xf32) {{comparison_direction = #stablehlo<comparison_direction LT>}} -> 4x3xi1
reduce_precision(4x3xf32) {{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}} -> 4x3xf32
select(4x3xi1 4x3xf32 4x3xf32) -> 4x3xf32
select(i1 4x3xf32 4x3xf32) -> 4x3xf32
clamp(f32 4x3xf32 f32) -> 4x3xf32
map(4x3xf32) {{dimensions = array<i64: 0, 1>}} square -> 4x3xf32
optimization_barrier(4x3xf32 i32) -> 4x3xf32 i32
after_all(token token) -> token
create_token() -> token
iota() {{iota_dimension = 1 : i64}} -> 4x3xf32
constant() {{value = dense<[1, 2, 3]> : tensor<3xi32>}} -> 3xi32
broadcast_in_dim(4x1xf32) {{broadcast_dimensions = array<i64: 1, 2>}} -> 2x4x3xf32
broadcast(4x3xf32) {{broadcast_sizes = array<i64: 2>}} -> 2x4x3xf32
reshape(4x3xf32) -> 2x6xf32
transpose(4x3xf32) {{permutation = array<i64: 1, 0>}} -> 3x4xf32
reverse(4x3xf32) {{dimensions = array<i64: 0>}} -> 4x3xf32
bitcast_convert(4x3xf32) -> 4x3xi32
bitcast_convert(4x3xf32) -> 4x3x4xi8
concatenate(4x3xf32 2x3xf32) {{dimension = 0 : i64}} -> 6x3xf32
pad(4x3xf32 f32) {{edge_padding_low = array<i64: 1, 0>, edge_padding_high = array<i64: 2, -1>, interior_padding = array<i64: 0, 1>}} -> 7x4xf32
slice(4x3xf32) {{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 4, 3>, strides = array<i64: 2, 1>}} -> 2x3xf32
dynamic_slice(4x3xf32 i32 i32) {{slice_sizes = array<i64: 2, 2>}} -> 2x2xf32
dynamic_update_slice(4x3xf32 2x2xf32 i32 i32) -> 4x3xf32
real_dynamic_slice(4x3xf32 2xi32 2xi32 2xi32) -> ?x?xf32
dynamic_pad(4x3xf32 f32 2xi32 2xi32 2xi32) -> ?x?xf32
dynamic_reshape(4x3xf32 2xi32) -> ?x?xf32
dynamic_iota(2xi32) {{iota_dimension = 1 : i64}} -> ?x?xf32
dynamic_broadcast_in_dim(4x3xf32 3xi32) {{broadcast_dimensions = array<i64: 1, 2>}} -> ?x4x3xf32
dynamic_gather(4x3xf32 5x1xi32 2xi32) {{{_GATHER}}} -> 5x?xf32
dynamic_conv(1x6x6x2xf32 3x3x2x4xf32 2x2xi32) {{{_CONV}}} -> 1x?x?x4xf32
get_dimension_size(4x?xf32) {{dimension = 1 : i64}} -> i32
set_dimension_size(4x3xf32 i32) {{dimension = 0 : i64}} -> ?x3xf32
gather(4x3xf32 5x1xi32) {{{_GATHER}, slice_sizes = array<i64: 1, 3>}} -> 5x3xf32
scatter(4x3xf32 5x1xi32 5x3xf32) {{{_SCATTER}}} sum -> 4x3xf32
reduce(4x3xf32 f32) {{dimensions = array<i64: 1>}} sum -> 4xf32
reduce(4x3xf32 4x3xi32 f32 i32) {{dimensions = array<i64: 0>}} first -> 3xf32 3xi32
sort(4x3xf32) {{dimension = 1 : i64}} less -> 4x3xf32
sort(4x3xf32 4x3xi32) {{dimension = 0 : i64, is_stable = true}} less2 -> 4x3xf32 4x3xi32
reduce_window(4x6xf32 f32) {{{_WINDOW}}} sum -> 4x3xf32
reduce_window(4x6xf32 4x6xi32 f32 i32) {{{_WINDOW}}} first -> 4x3xf32 4x3xi32
select_and_scatter(4x6xf32 4x3xf32 f32) {{{_WINDOW}}} less sum -> 4x6xf32
convolution(1x6x6x2xf32 3x3x2x4xf32) {{{_CONV}, padding = dense<1> : tensor<2x2xi64>}} -> 1x6x6x4xf32
convolution(1x6x6x2xf32 3x3x2x4xf32) {{{_CONV}, window_strides = array<i64: 2, 1>}} -> 1x2x4x4xf32
dot(4x3xf32 3x5xf32) -> 4x5xf32
dot_general(2x4x3xf32 2x3x5xf32) {{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>}} -> 2x4x5xf32
einsum(4x3xf32 3x5xf32) {{einsum_config = "ab,bc->ac"}} -> 4x5xf32
unary_einsum(4x3xf32) {{einsum_config = "ab->a"}} -> 4xf32
torch_index_select(4x3xf32 2xi32) {{dim = 0 : i64, batch_dims = 0 : i64}} -> 2x3xf32
batch_norm_training(4x3xf32 3xf32 3xf32) {{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}} -> 4x3xf32 3xf32 3xf32
batch_norm_inference(4x3xf32 3xf32 3xf32 3xf32 3xf32) {{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}} -> 4x3xf32
batch_norm_grad(4x3xf32 3xf32 3xf32 3xf32 4x3xf32) {{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}} -> 4x3xf32 3xf32 3xf32
cholesky(2x3x3xf32) {{lower = true}} -> 2x3x3xf32
triangular_solve(3x3xf32 3x2xf32) {{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}} -> 3x2xf32
fft(2x8xf32) {{fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 8>}} -> 2x5xcomplex<f32>
fft(2x5xcomplex<f32>) {{fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 8>}} -> 2x8xf32
rng(f32 f32 2xi64) {{rng_distribution = #stablehlo<rng_distribution UNIFORM>}} -> ?x?xf32
rng_bit_generator(2xui64) {{rng_algorithm = #stablehlo<rng_algorithm DEFAULT>}} -> 2xui64 4xui32
while(4x3xf32) never same -> 4x3xf32
composite(4x3xf32) {{name = "mine.twice", decomposition = @twice, version = 1 : i32}} -> 4x3xf32
if(i1 4x3xf32) turned turned -> 3x4xf32
case(i32 4x3xf32) turned turned turned -> 3x4xf32
all_gather(4x3xf32) {{all_gather_dim = 0 : i64, {_GROUPS}}} -> 8x3xf32
all_reduce(4x3xf32) {{{_GROUPS}}} sum -> 4x3xf32
reduce_scatter(4x3xf32) {{scatter_dimension = 0 : i64, {_GROUPS}}} sum -> 2x3xf32
all_to_all(4x3xf32) {{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, {_GROUPS}}} -> 2x6xf32
collective_broadcast(4x3xf32) {{{_GROUPS}}} -> 4x3xf32
collective_permute(4x3xf32) {{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}} -> 4x3xf32
partition_id() -> ui32
replica_id() -> ui32
send(4x3xf32 token) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}} -> token
recv(token) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}} -> 4x3xf32 token
infeed(token) {{infeed_config = ""}} -> 4x3xf32 token
outfeed(4x3xf32 token) {{outfeed_config = ""}} -> token
custom_call(4x3xf32) {{call_target_name = "mine"}} -> 3x4xf32
chlo.top_k(4x3xf32) {{k = 2 : i64}} -> 4x2xf32 4x2xi32
chlo.constant_like(4x3xf32) {{value = 2.0 : f32}} -> 4x3xf32
chlo.broadcast_select(4x3xi1 4x3xf32 3xf32) -> 4x3xf32
chlo.broadcast_compare(4x3xf32 3xf32) {{comparison_direction = #chlo<comparison_direction LT>}} -> 4x3xi1
uniform_quantize(4x3xf32) -> 4x3x!quant.uniform<i8:f32,0.5:1>
uniform_dequantize(4x3x!quant.uniform<i8:f32,0.5:1>) -> 4x3xf32
convert(4x3xf32) -> 4x3xf8E5M2
convert(8xi4) -> 8xi8
constant() {{value = dense<[(1.0, 2.0), (3.0, -1.0)]> : tensor<2xcomplex<f32>>}} -> 2xcomplex<f32>
constant() {{value = dense<[1.0, -2.0]> : tensor<2xf8E4M3FN>}} -> 2xf8E4M3FN
constant() {{value = dense<[-8, 7]> : tensor<2xi4>}} -> 2xi4
constant() {{value = dense<> : tensor<0x3xf32>}} -> 0x3xf32
iota() {{iota_dimension = 0 : i64}} -> 2x3xcomplex<f32>
transpose(1x2x1x3x1x2x1x2xf32) {{permutation = array<i64: 7, 6, 5, 4, 3, 2, 1, 0>}} -> 2x1x2x1x3x1x2x1xf32
reshape(1x2x1x3x1x2x1x2xf32) -> 12x2xf32
reduce(2x1x2x1x3xf32 f32) {{dimensions = array<i64: 1, 2>}} sum -> 2x1x3xf32
broadcast_in_dim(2xf32) {{broadcast_dimensions = array<i64: 5>}} -> 1x2x1x3x1x2x1x2xf32
slice(2x1x2x1x3xf32) {{start_indices = array<i64: 1, 0, 0, 0, 1>, limit_indices = array<i64: 2, 1, 2, 1, 3>, strides = array<i64: 1, 1, 3, 1, 1>}} -> 1x1x1x1x2xf32
pad(0x3xf32 f32) {{edge_padding_low = array<i64: 1, 0>, edge_padding_high = array<i64: 1, 0>, interior_padding = array<i64: 0, 0>}} -> 2x3xf32
reduce(0x3xf32 f32) {{dimensions = array<i64: 0>}} sum -> 3xf32
reduce(?x3xf32,#stablehlo.bounds<4,?> f32) {{dimensions = array<i64: 0>}} sum -> 3xf32
transpose(?x3xf32,#stablehlo.bounds<4,?>) {{permutation = array<i64: 1, 0>}} -> 3x?xf32,#stablehlo.bounds<?,4>
concatenate(?x3xf32 2x3xf32) {{dimension = 0 : i64}} -> ?x3xf32
tuple(4x3xf32 i32) -> tuple<tensor<4x3xf32>,tensor<i32>>
get_tuple_element(tuple<tensor<4x3xf32>,tensor<i32>>) {{index = 1 : i32}} -> i32
get_tuple_element(tuple<tensor<f32>,tuple<tensor<i32>>>) {{index = 1 : i32}} -> tuple<tensor<i32>>
optimization_barrier(4x3xf32 token) -> 4x3xf32 token
custom_call(tuple<tensor<4x3xf32>,tensor<i32>>) {{call_target_name = "mine"}} -> tuple<tensor<4x3xf32>>
async_start(4x3xf32) sent -> !stablehlo.future<tensor<4x3xf32>>
async_done(!stablehlo.future<tensor<4x3xf32>>) -> 4x3xf32
cross-replica-sum(4x3xf32) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} -> 4x3xf32
collective_reduce(4x3xf32) {{{_GROUPS}}} sum -> 4x3xf32
while(4x3xf32 i32) never2 same2 -> 4x3xf32 i32
rng(i32 i32 2xi64) {{rng_distribution = #stablehlo<rng_distribution UNIFORM>}} -> 4x3xi32
rng(f32 f32 2xi64) {{rng_distribution = #stablehlo<rng_distribution NORMAL>}} -> 4x3xf32
rng_bit_generator(3xui64) {{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}} -> 3xui64 4x3xui8
chlo._asin_acos_kernel(4xcomplex<f32>) -> 4xcomplex<f32>
chlo.is_inf(4x3xf32) -> 4x3xi1
chlo.is_pos_inf(4x3xf32) -> 4x3xi1
chlo.is_neg_inf(4x3xf32) -> 4x3xi1
chlo.mulhi(4xi32 4xi32) -> 4xi32
chlo.constant() {{value = dense<[1, 2, 3]> : tensor<3xi32>}} -> 3xi32
chlo.broadcast_complex(4x3xf32 3xf32) -> 4x3xcomplex<f32>
chlo.ragged_dot(6x3xf32 2x3x5xf32 2xi32) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}} -> 6x5xf32
chlo.scan(4x3xf32 3xf32) {{dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}} scanned -> 4x3xf32 3xf32
add(4x3x!quant.uniform<i8:f32,0.5:1> 4x3x!quant.uniform<i8:f32,0.5:1>) -> 4x3x!quant.uniform<i8:f32,0.5:1>
"""  # noqa: E501  (a table reads best with one row a line)

TYPES: Final = tuple(
    "f32 4xf32 3xf32 4x3xf32 3x4xf32 0x3xf32 1xf32 2x4x3xf32 3x3xf32 i32 2xi32 4xi32 i64 ui32 4xi8"
    " i1 4x3xi1 4xcomplex<f32> 4x3xbf16 f64 token ?xf32 ?x3xf32 ?x?xf32 *xf32 index 2xindex"
    " 4x3x!quant.uniform<i8:f32,0.5:1> 4x3x!quant.uniform<i8:f32:1,{0.5,0.25,1.0}> 4xi4"
    " ?x3xf32,#stablehlo.bounds<4,?> 4xf8E4M3FN 1x2x1x3x1x2x1x2xf32 2x1x2x1x3xf32 8xi2 4xui4"
    " 4xcomplex<f64> 4xf4E2M1FN 4xf8E8M0FNU 0xf32 4x0x3xf32 ?x?xf32,#stablehlo.bounds<4,3> ui64"
    " tuple<tensor<4x3xf32>,tensor<i32>> !stablehlo.future<tensor<4x3xf32>> 4x?xi32".split()
)
ELEMENTS: Final = tuple(
    "i1 i2 i4 i8 i16 i32 i64 ui2 ui4 ui8 ui16 ui32 ui64 f4E2M1FN f6E2M3FN f6E3M2FN f8E3M4 f8E4M3"
    " f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU bf16 f16 tf32 f32 f64 index"
    " complex<f32> complex<f64> !quant.uniform<i8:f32,0.5:1> !quant.uniform<u8:f32,0.25:128>"
    " !quant.uniform<i8:f32:0,{0.5,0.25,1.0,2.0}>".split()
)
