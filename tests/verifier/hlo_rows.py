"""Right HLO programs, one a row, and what they call; types for changed ones."""

from __future__ import annotations

from typing import Final

COMPUTATIONS: Final = """
sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }
sum_s32 { x = s32[] parameter(0) y = s32[] parameter(1) ROOT r = s32[] add(x, y) }
ge { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = pred[] compare(x, y), direction=GE }
both { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3)
 s = f32[] add(a, c) t = s32[] add(b, d) ROOT r = (f32[], s32[]) tuple(s, t) }
less2 { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
 ROOT r = pred[] compare(a, b), direction=LT }
square { x = f32[] parameter(0) ROOT r = f32[] multiply(x, x) }
turn { x = f32[4,3] parameter(0) ROOT r = f32[3,4] transpose(x), dimensions={1,0} }
twice { x = f32[4,3] parameter(0) ROOT r = f32[4,3] add(x, x) }
three { x = f32[4,3] parameter(0) y = f32[4,3] parameter(1) ROOT r = f32[4,3] subtract(x, y) }
pair { x = f32[4,3] parameter(0) y = s32[] parameter(1)
 ROOT r = (f32[4,3], s32[]) tuple(x, y) }
few { x = (f32[4,3], s32[]) parameter(0) i = s32[] get-tuple-element(x), index=1
 n = s32[] constant(2) ROOT r = pred[] compare(i, n), direction=LT }
step { x = (f32[4,3], s32[]) parameter(0) v = f32[4,3] get-tuple-element(x), index=0
 i = s32[] get-tuple-element(x), index=1 n = s32[] constant(1) j = s32[] add(i, n)
 w = f32[4,3] negate(v) ROOT r = (f32[4,3], s32[]) tuple(w, j) }
scanned { x = f32[3] parameter(0) c = f32[3] parameter(1) s = f32[3] add(x, c)
 ROOT r = (f32[3], f32[3]) tuple(s, s) }
nothing { ROOT r = () tuple() }
token_of { x = f32[4,3] parameter(0) ROOT r = token[] after-all() }
"""
"""What the programs call."""

UNARY: Final = """
    abs ceil cosine cbrt erf exponential exponential-minus-one floor log log-plus-one logistic
    negate round-nearest-afz round-nearest-even rsqrt sign sine sqrt tan tanh acos acosh asin asinh
    atanh cosh sinh copy
"""
BINARY: Final = "add subtract multiply divide maximum minimum power remainder atan2"
BITS: Final = "and or xor shift-left shift-right-arithmetic shift-right-logical"

ROWS: Final = """
f32[4,3] | f32[4,3] convert(a)
s32[4,3] | u8[4,3] convert(a)
f32[4,3] u32[4,3] | s8[4,3] stochastic-convert(a, b)
pred[4] | pred[4] not(a)
s32[4] | s32[4] popcnt(a)
s32[4] | s32[4] count-leading-zeros(a)
f32[4,3] | pred[4,3] is-finite(a)
c64[4] | f32[4] real(a)
c64[4] | f32[4] imag(a)
f32[4] f32[4] | c64[4] complex(a, b)
f32[4,3] f32[4,3] | pred[4,3] compare(a, b), direction=LT
f32[4,3] | f32[4,3] reduce-precision(a), exponent_bits=5, mantissa_bits=10
pred[4,3] f32[4,3] f32[4,3] | f32[4,3] select(a, b, c)
f32[] f32[4,3] f32[] | f32[4,3] clamp(a, b, c)
f32[4,3] f32[4,3] | f32[4,3] map(a, b), dimensions={0,1}, to_apply=sum
f32[4,3] s32[] | (f32[4,3], s32[]) tuple(a, b)
(f32[4,3],s32[]) | s32[] get-tuple-element(a), index=1
(f32[4],(s32[2],pred[]),s32[]) | (s32[2], pred[]) get-tuple-element(a), index=1
f32[4,3] | f32[3,4] call(a), to_apply=turn
f32[4,3] f32[4,3] | f32[4,3] fusion(a, b), kind=kLoop, calls=three
f32[4,3] s32[] | (f32[4,3], s32[]) fusion(a, b), kind=kLoop, calls=pair
(f32[4,3],s32[]) | (f32[4,3], s32[]) while(a), condition=few, body=step
pred[] f32[4,3] | f32[3,4] conditional(a, b, b), true_computation=turn, false_computation=turn
s32[] f32[4,3] | f32[4,3] conditional(a, b, b), branch_computations={twice, twice}
f32[4,3] | token[] after-all()
f32[4,3] token[] | f32[4,3] add-dependency(a, b)
(f32[4,3],s32[]) | (f32[4,3], s32[]) opt-barrier(a)
f32[4,3] | f32[4,3] opt-barrier(a)
f32[4,3] | f32[4,3] domain(a), domain={kind="sharding", entry={}, exit={}}
f32[4,3] | f32[3,4] custom-call(a), custom_call_target="mine"
f32[4,3] | f32[4,3] custom-call(a), custom_call_target="Sharding"
f32[4,3] | (f32[4,2], s32[4,2]) custom-call(a), custom_call_target="TopK", called_computations={ge}
 | f32[4,3] iota(), iota_dimension=1
 | f32[2,2] constant({{1, 2}, {3, 4}})
 | s32[] constant(3)
f32[4,3] | f32[2,4,3] broadcast(a), dimensions={1,2}
f32[] | f32[4,3] broadcast(a), dimensions={}
f32[4,3] | f32[2,6] reshape(a)
f32[4,3] s32[] s32[] | f32[<=4,<=3] dynamic-reshape(a, b, c)
f32[4,3] | f32[3,4] transpose(a), dimensions={1,0}
f32[4,3] | f32[4,3] reverse(a), dimensions={0}
f32[4,3]{1,0} | f32[3,4]{0,1} bitcast(a)
f32[4,3] | s32[4,3] bitcast-convert(a)
f32[4,3] | u8[4,3,4] bitcast-convert(a)
f32[4,3] f32[2,3] | f32[6,3] concatenate(a, b), dimensions={0}
f32[4,3] f32[] | f32[7,4] pad(a, b), padding=1_2x0_-1_1
f32[4,3] | f32[2,3] slice(a), slice={[1:4:2],[0:3]}
f32[4,3] s32[] s32[] | f32[2,2] dynamic-slice(a, b, c), dynamic_slice_sizes={2,2}
f32[4,3] f32[2,2] s32[] s32[] | f32[4,3] dynamic-update-slice(a, b, c, d)
f32[4,3] | s32[] get-dimension-size(a), dimensions={0}
f32[4,3] s32[] | f32[<=4,3] set-dimension-size(a, b), dimensions={0}
f32[4,3] s32[5,1] | f32[5,3] gather(a, b), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
f32[4,3] s32[4,5] | f32[4,5] gather(a, b), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}
f32[4,3] s32[5,1] f32[5,3] | f32[4,3] scatter(a, b, c), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
f32[4,3] f32[] | f32[4] reduce(a, b), dimensions={1}, to_apply=sum
f32[4,3] s32[4,3] f32[] s32[] | (f32[3], s32[3]) reduce(a, b, c, d), dimensions={0}, to_apply=both
f32[4,3] f32[3] | (f32[4,3], f32[3]) scan(a, b), dimensions={0}, num_carries=1, to_apply=scanned
f32[4,3] | f32[4,3] sort(a), dimensions={1}, to_apply=ge
f32[4,3] s32[4,3] | (f32[4,3], s32[4,3]) sort(a, b), dimensions={0}, is_stable=true, to_apply=less2
f32[4,3] | (f32[4,2], s32[4,2]) topk(a), k=2, largest=true
f32[4,6] f32[] | f32[4,3] reduce-window(a, b), window={size=1x2 stride=1x2}, to_apply=sum
f32[4,6] s32[4,6] f32[] s32[] | (f32[4,5], s32[4,5]) reduce-window(a, b, c, d), window={size=1x2}, to_apply=both
f32[4,6] f32[4,3] f32[] | f32[4,6] select-and-scatter(a, b, c), window={size=1x2 stride=1x2}, select=ge, scatter=sum
f32[1,6,6,2] f32[3,3,2,4] | f32[1,6,6,4] convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
f32[2,5,4] f32[3,2,4] | f32[2,3,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2
f32[4,3] f32[3,5] | f32[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
f32[2,4,3] f32[2,3,5] | f32[2,4,5] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
f32[6,3] f32[2,3,5] s32[2] | f32[6,5] ragged-dot(a, b, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
f8e4m3fn[4,32] f8e4m3fn[5,32] f8e8m0fnu[4,1] f8e8m0fnu[5,1] | f32[4,5] scaled-dot(a, b, c, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}
f32[4,3] f32[3] f32[3] | (f32[4,3], f32[3], f32[3]) batch-norm-training(a, b, c), epsilon=0.001, feature_index=1
f32[4,3] f32[3] f32[3] f32[3] f32[3] | f32[4,3] batch-norm-inference(a, b, c, d, e), epsilon=0.001, feature_index=1
f32[4,3] f32[3] f32[3] f32[3] f32[4,3] | (f32[4,3], f32[3], f32[3]) batch-norm-grad(a, b, c, d, e), epsilon=0.001, feature_index=1
f32[2,3,3] | f32[2,3,3] cholesky(a), lower=true
f32[3,3] f32[3,2] | f32[3,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
f32[2,8] | c64[2,5] fft(a), fft_type=RFFT, fft_length={8}
c64[2,5] | f32[2,8] fft(a), fft_type=IRFFT, fft_length={8}
c64[4,8] | c64[4,8] fft(a), fft_type=FFT, fft_length={4,8}
f32[] f32[] | f32[4,3] rng(a, b), distribution=rng_uniform
u64[2] | (u64[2], u32[4]) rng-bit-generator(a), algorithm=rng_default
 | u64[2] rng-get-and-update-state(), delta=4
f32[4,3] | f32[8,3] all-gather(a), replica_groups={{0,1}}, dimensions={0}
f32[4,3] f32[2,3] | (f32[8,3], f32[4,3]) all-gather(a, b), replica_groups={{0,1}}, dimensions={0}
f32[4,3] | f32[4,3] all-reduce(a), replica_groups={{0,1}}, to_apply=sum
f32[4,3] | f32[2,3] reduce-scatter(a), replica_groups={{0,1}}, dimensions={0}, to_apply=sum
f32[4,3] | f32[4,3] all-to-all(a), replica_groups={{0,1}}, dimensions={0}
f32[4,3] f32[4,3] | (f32[4,3], f32[4,3]) all-to-all(a, b), replica_groups={{0,1}}
f32[4,3] f32[4,3] s32[2] s32[2] s32[2] s32[2] | f32[4,3] ragged-all-to-all(a, b, c, d, e, f), replica_groups={{0,1}}
f32[4,3] | f32[4,3] collective-broadcast(a), replica_groups={{0,1}}
f32[4,3] | f32[4,3] collective-permute(a), source_target_pairs={{0,1},{1,0}}
 | u32[] partition-id()
 | u32[] replica-id()
token[] | ((f32[4,3]), token[]) infeed(a)
f32[4,3] token[] | token[] outfeed(a, b), outfeed_shape=f32[4,3]
f32[4,3] token[] | s = (f32[4,3], u32[], token[]) send(a, b), channel_id=1 | token[] send-done(s), channel_id=1
token[] | s = (f32[4,3], u32[], token[]) recv(a), channel_id=1 | (f32[4,3], token[]) recv-done(s), channel_id=1
f32[4,3] | s = (f32[4,3], f32[4,3], u32[]) copy-start(a) | f32[4,3] copy-done(s)
f32[4,3] | s = (f32[4,3], f32[8,3]) all-gather-start(a), replica_groups={{0,1}}, dimensions={0} | f32[8,3] all-gather-done(s)
f32[4,3] f32[2,3] | s = ((f32[4,3], f32[2,3]), (f32[8,3], f32[4,3])) all-gather-start(a, b), replica_groups={{0,1}}, dimensions={0} | (f32[8,3], f32[4,3]) all-gather-done(s)
f32[4,3] | s = f32[4,3] all-reduce-start(a), replica_groups={{0,1}}, to_apply=sum | f32[4,3] all-reduce-done(s)
f32[4,3] | s = (f32[4,3], f32[4,3], u32[], u32[]) collective-permute-start(a), source_target_pairs={{0,1},{1,0}} | f32[4,3] collective-permute-done(s)
f32[4,3] | s = ((f32[4,3]), f32[2,3]) reduce-scatter-start(a), replica_groups={{0,1}}, dimensions={0}, to_apply=sum | f32[2,3] reduce-scatter-done(s)
f32[4,3] | s = ((f32[4,3]), f32[2,3], s32[]) slice-start(a), slice={[1:3],[0:3]} | u = ((f32[4,3]), f32[2,3], s32[]) slice-update(s) | f32[2,3] slice-done(u)
f32[4,3] f32[3,5] | s = ((f32[4,3], f32[3,5]), f32[4,5], u32[]) dot-start(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} | u = ((f32[4,3], f32[3,5]), f32[4,5], u32[]) dot-update(s) | f32[4,5] dot-done(u)
f32[4,3] | s = ((f32[4,3]), f32[3,4], s32[]) custom-call-start(a), custom_call_target="mine" | f32[3,4] custom-call-done(s)
f32[4,3] | s = ((f32[4,3]), f32[3,4], s32[]) async-start(a), calls=turn | u = ((f32[4,3]), f32[3,4], s32[]) async-update(s) | f32[3,4] async-done(u)
f32[4,3] | s = ((f32[4,3]), f32[3,4], s32[]) call-start(a), to_apply=turn | f32[3,4] call-done(s)
f32[1,2,1,3,1,2,1,2] | f32[2,1,2,1,3,1,2,1] transpose(a), dimensions={7,6,5,4,3,2,1,0}
f32[1,2,1,3,1,2,1,2] | f32[12,2] reshape(a)
f32[2,1,2,1,3] f32[] | f32[2,1,3] reduce(a, b), dimensions={1,2}, to_apply=sum
f32[2] | f32[1,2,1,3,1,2,1,2] broadcast(a), dimensions={5}
f32[2,1,2,1,3] | f32[1,1,1,1,2] slice(a), slice={[1:2],[0:1],[0:2:3],[0:1],[1:3]}
f32[0,3] f32[] | f32[2,3] pad(a, b), padding=1_1x0_0
f32[0,3] f32[] | f32[3] reduce(a, b), dimensions={0}, to_apply=sum
f32[<=4,3] f32[<=4,3] | f32[<=4,3] add(a, b)
f32[<=4,3] f32[] | f32[3] reduce(a, b), dimensions={0}, to_apply=sum
f32[?,3] | f32[?,3] negate(a)
f32[?,3] | f32[3,?] transpose(a), dimensions={1,0}
s4[4,3]{1,0:E(4)} | s4[4,3]{1,0:E(4)} add(a, a)
f32[4,3] | f8e5m2[4,3] convert(a)
s4[8] | s8[8] convert(a)
 | c64[2] constant({(1, 2), (3, -1)})
 | f8e4m3fn[3] constant({1, nan, -2})
 | s4[2] constant({-8, 7})
 | pred[2] constant({true, false})
 | (f32[2], s32[]) constant(({1, 2}, 3))
 | c64[2,3] iota(), iota_dimension=0
s32[] s32[] | s32[4,3] rng(a, b), distribution=rng_uniform
f32[] f32[] | f32[2,1,2,1,3] rng(a, b), distribution=rng_normal
u64[3] | (u64[3], u8[4,3]) rng-bit-generator(a), algorithm=rng_philox
(f32[4,3],s32[]) token[] | s = ((f32[4,3], s32[]), u32[], token[]) send(a, b), channel_id=1, is_host_transfer=true | token[] send-done(s), channel_id=1, is_host_transfer=true
token[] | s = ((f32[4,3], s32[]), u32[], token[]) recv(a), channel_id=1 | ((f32[4,3], s32[]), token[]) recv-done(s), channel_id=1
f32[4,3] f32[4,3] | s = ((f32[4,3], f32[4,3]), f32[4,3], s32[]) fusion-start(a, b), kind=kLoop, calls=three | f32[4,3] fusion-done(s)
"""  # noqa: E501  (a table reads best with one row a line)

TYPES: Final = tuple(
    "f32[] f32[4] f32[3] f32[4,3] f32[3,4] f32[0,3] f32[1] f32[2,4,3] f32[3,3] s32[] s32[2] s32[4]"
    " s64[] u32[] u8[4] pred[] pred[4,3] c64[4] bf16[4,3] f64[] token[] () (f32[4,3],s32[])"
    " (f32[4],(s32[],pred[])) f32[<=4,3] s32[<=4] f32[4,3]{0,1} s4[4,3] f8e4m3fn[4] opaque[]"
    " ((f32[4,3]),f32[3,4],s32[]) (f32[4,3],f32[4,3],u32[]) f32[1,6,6,2] (token[],f32[])"
    " f32[1,2,1,3,1,2,1,2] f32[2,1,2,1,3] s2[8] u4[4] u2[4,3] f16[4] c128[4,3] f4e2m1fn[4]"
    " f8e8m0fnu[4] f32[?,3] f32[?] f32[<=4,<=3] f32[0] f32[4,3]{1,0:T(2,128)} s4[4,3]{1,0:E(4)}"
    " u64[2] s16[4] f32[4,0,3] (f32[<=4],s32[])".split()
)
ELEMENTS: Final = tuple(
    "pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64 f4e2m1fn f6e2m3fn f6e3m2fn f8e3m4 f8e4m3"
    " f8e4m3b11fnuz f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0fnu bf16 f16 f32 f64 c64"
    " c128".split()
)
