"""Kernels of every kind: who makes each, and the bytes that it costs at least."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

import hloscope
from hloscope.api import Model, coalescing_of_all, footprint_of_program, kernels_of
from hloscope.cost import Footprints, kernels_in, running
from hloscope.errors import UnsupportedError
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.opcodes import SPELLINGS
from hloscope.ir import Instruction, Module
from hloscope.memory import Memory, kind_of
from hloscope.ops import Elementwise
from hloscope.support.devices import device_of

COMPUTATIONS = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
ge { x = f32[] parameter(0) y = f32[] parameter(1) ROOT c = pred[] compare(x, y), direction=GE }
one { x = f32[] parameter(0) ROOT s = f32[] negate(x) }
carried { x = f32[4] parameter(0) c = f32[] parameter(1) ROOT t = (f32[], f32[4]) tuple(c, x) }
scanned { x = f32[4] parameter(0) y = f32[4] parameter(1)
  s = f32[4] add(x, y) ROOT t = (f32[4], f32[4]) tuple(s, s) }
fused { p = f32[8,8] parameter(0) ROOT n = f32[8,8] negate(p) }
body { p = f32[8,8] parameter(0) ROOT n = f32[8,8] copy(p) }
cond { p = f32[8,8] parameter(0) ROOT c = pred[] constant(false) }
"""
VALUES = """
  a = f32[8,8] parameter(0)
  i = s32[] parameter(1)
  s = f32[] parameter(2)
  v = f32[8] parameter(3)
  n = s32[8,1] parameter(4)
  c = c64[8,8] parameter(5)
  img = f32[2,8,8,4] parameter(6)
  ker = f32[3,3,4,4] parameter(7)
  u = u64[2] parameter(8)
  p = pred[] parameter(9)
  t = (f32[8,8], f32[8]) parameter(10)
  token = token[] after-all()
  u32 = u32[8,8] parameter(11)
  sizes = s64[2] parameter(12)
  f8 = f8e4m3fn[64,64] parameter(13)
  scale = f8e8m0fnu[64,2] parameter(14)
  row = f32[4] parameter(15)
  sent = (f32[8,8], u32[], token[]) send(a, token), channel_id=1
  got = (f32[8,8], u32[], token[]) recv(token), channel_id=2
  begun = (f32[8,8], f32[8,8], u32[]) copy-start(a)
  started = ((f32[8,8]), f32[8,8], u32[]) async-start(a), calls=fused
"""
NONE, XLA = "none", "xla emitter"
WINDOW = "window={size=2x2 stride=2x2}"
GROUPS = "replica_groups={{0,1}}"
ROWS: list[tuple[str, str]] = [
    (NONE, "f32[8,8] parameter(20)"),
    (NONE, "f32[] constant(1)"),
    (NONE, "(f32[8,8], f32[8]) tuple(a, v)"),
    (NONE, "f32[8] get-tuple-element(t), index=1"),
    (NONE, "f32[64] bitcast(a)"),
    (NONE, "token[] after-all(token)"),
    (NONE, "f32[8,8] add-dependency(a, token)"),
    (NONE, "f32[8,8] opt-barrier(a)"),
    (NONE, "f32[8,8] domain(a), domain={kind=\"sharding\", entry={replicated}, exit={replicated}}"),
    (NONE, "f32[8,8] copy-done(begun)"),
    (NONE, "f32[8,8] async-done(started)"),
    (NONE, "((f32[8,8]), f32[8,8], u32[]) async-update(started)"),
    (NONE, "token[] send-done(sent), channel_id=1"),
    (NONE, "(f32[8,8], token[]) recv-done(got), channel_id=2"),
    (NONE, "s32[] get-dimension-size(a), dimensions={0}"),
    ("calls", "f32[8,8] call(a), to_apply=fused"),
    ("calls", "f32[8,8] while(a), condition=cond, body=body"),
    ("calls", "f32[8,8] conditional(p, a, a), true_computation=fused, false_computation=body"),
    ("calls", "((f32[8,8]), f32[8,8], u32[]) async-start(a), calls=fused"),
    (XLA, "f32[8,8] fusion(a), kind=kLoop, calls=fused"),
    ("custom call f", 'f32[8,8] custom-call(a), custom_call_target="f"'),
    ("copy", "(f32[8,8], f32[8,8], u32[]) copy-start(a)"),
    ("copy", "f32[8,8] copy(a)"),
    ("library cuBLAS or Triton",
     "f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    ("library cuBLAS or Triton",
     "f32[64,64] scaled-dot(f8, f8, scale, scale), lhs_contracting_dims={1},"
     " rhs_contracting_dims={1}"),
    ("library cuBLAS or Triton",
     "f32[8,8] ragged-dot(a, img3, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1},"
     " lhs_ragged_dims={0}, rhs_group_dims={0}"),
    ("library cuDNN",
     "f32[2,8,8,4] convolution(img, ker), window={size=3x3 pad=1_1x1_1},"
     " dim_labels=b01f_01io->b01f"),
    ("library CUB or XLA's sort", "f32[8,8] sort(a), dimensions={1}, to_apply=ge"),
    ("library XLA's TopK kernel", "(f32[8,2], s32[8,2]) topk(a), k=2, largest=true"),
    ("library cuFFT", "c64[8,8] fft(c), fft_type=FFT, fft_length={8}"),
    ("library cuSOLVER", "f32[8,8] cholesky(a), lower=true"),
    ("library cuBLAS",
     "f32[8,8] triangular-solve(a, a), left_side=true, lower=true, transpose_a=NO_TRANSPOSE"),
    ("library XLA's random state kernel", "u64[2] rng-get-and-update-state(), delta=4"),
    ("collective NCCL", f"f32[16,8] all-gather(a), {GROUPS}, dimensions={{0}}"),
    ("collective NCCL", f"f32[8,8] all-reduce(a), {GROUPS}, to_apply=add"),
    ("collective NCCL", f"f32[4,8] reduce-scatter(a), {GROUPS}, dimensions={{0}}, to_apply=add"),
    ("collective NCCL", f"f32[8,8] all-to-all(a), {GROUPS}, dimensions={{0}}"),
    ("collective NCCL", f"f32[8,8] collective-broadcast(a), {GROUPS}"),
    ("collective NCCL", "f32[8,8] collective-permute(a), source_target_pairs={{0,1}}"),
    ("collective NCCL",
     f"f32[8,8] ragged-all-to-all(a, a, sizes, sizes, sizes, sizes), {GROUPS}"),
    ("transfer infeed", "((f32[8,8]), token[]) infeed(token)"),
    ("transfer outfeed", "token[] outfeed(a, token), outfeed_shape=f32[8,8]"),
    ("transfer send", "(f32[8,8], u32[], token[]) send(a, token), channel_id=3"),
    ("transfer recv", "(f32[8,8], u32[], token[]) recv(token), channel_id=4"),
    ("device number", "u32[] partition-id()"),
    ("device number", "u32[] replica-id()"),
    ("replaced rng", "f32[8,8] rng(s, s), distribution=rng_uniform"),
    ("replaced rng_bit_generator",
     "(u64[2], u32[8]) rng-bit-generator(u), algorithm=rng_philox"),
    ("replaced stochastic_convert", "f16[8,8] stochastic-convert(a, u32)"),
    ("replaced batch_norm_training",
     "(f32[8,8], f32[8], f32[8]) batch-norm-training(a, v, v), epsilon=0.1, feature_index=1"),
    ("replaced batch_norm_inference",
     "f32[8,8] batch-norm-inference(a, v, v, v, v), epsilon=0.1, feature_index=1"),
    ("replaced batch_norm_grad",
     "(f32[8,8], f32[8], f32[8]) batch-norm-grad(a, v, v, v, a), epsilon=0.1, feature_index=1"),
    ("replaced select_and_scatter",
     f"f32[8,8] select-and-scatter(a, quarter, s), {WINDOW}, select=ge, scatter=add"),
    ("replaced scan",
     "(f32[4], f32[8,4]) scan(rows, row), dimensions={0}, num_carries=1, to_apply=scanned"),
    (XLA, "f32[8] iota(), iota_dimension=0"),
    (XLA, "f32[8,8] broadcast(v), dimensions={0}"),
    (XLA, "f32[64] reshape(a)"),
    (XLA, "f32[<=8,8] dynamic-reshape(a, i, i)"),
    (XLA, "f32[8,8] transpose(a), dimensions={1,0}"),
    (XLA, "f32[8,8] reverse(a), dimensions={1}"),
    (XLA, "s32[8,8] bitcast-convert(a)"),
    (XLA, "f32[16,8] concatenate(a, a), dimensions={0}"),
    (XLA, "f32[10,8] pad(a, s), padding=1_1x0_0"),
    (XLA, "f32[4,8] slice(a), slice={[0:4], [0:8]}"),
    (XLA, "f32[4,8] dynamic-slice(a, i, i), dynamic_slice_sizes={4,8}"),
    (XLA, "f32[8,8] dynamic-update-slice(a, quarter, i, i)"),
    (XLA, "f32[<=8,8] set-dimension-size(a, i), dimensions={0}"),
    (XLA, "f32[8,8] gather(a, n), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},"
     " index_vector_dim=1, slice_sizes={1,8}"),
    (XLA, "f32[8,8] scatter(a, n, a), update_window_dims={1}, inserted_window_dims={0},"
     " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"),
    (XLA, "f32[8,8] map(a), dimensions={0,1}, to_apply=one"),
    (XLA, "f32[8] reduce(a, s), dimensions={1}, to_apply=add"),
    (XLA, f"f32[4,4] reduce-window(a, s), {WINDOW}, to_apply=add"),
    (XLA, "pred[8,8] compare(a, a), direction=LT"),
    (XLA, "f32[8,8] reduce-precision(a), exponent_bits=5, mantissa_bits=10"),
    (XLA, "s32[8,8] convert(a)"),
]  # fmt: skip
MORE = """
  wide = f32[8,8] parameter(16)
  quarter = f32[4,4] parameter(17)
  img3 = f32[2,8,8] parameter(18)
  rows = f32[8,4] parameter(19)
"""


def _one(text: str) -> tuple[Module, Instruction]:
    """A program and the instruction of it that is written here."""
    module = parse_hlo(f"{COMPUTATIONS}\nENTRY e {{{VALUES}{MORE}  ROOT asked = {text}\n}}")
    return module, module.entry.root


def _opcode(text: str) -> str:
    found = re.search(r" ([a-z][a-z0-9-]*)\(", text)
    assert found is not None, text
    return found[1]


def _elementwise() -> list[tuple[str, str]]:
    """A row for each element-wise opcode without attributes of its own."""
    known = {_opcode(text) for _, text in ROWS}
    return [
        (XLA, f"f32[8,8] {opcode}({', '.join(['a'] * row.op.arity)})")
        for opcode, row in SPELLINGS.items()
        if issubclass(row.op, Elementwise) and opcode not in known
    ]


def test_every_opcode_is_in_the_sweep() -> None:
    assert {_opcode(text) for _, text in ROWS + _elementwise()} == set(SPELLINGS)


@pytest.mark.parametrize(("kind", "text"), ROWS + _elementwise(), ids=lambda text: text[:40])
def test_every_opcode_ends_in_a_thread_map_a_maker_or_a_reason(kind: str, text: str) -> None:
    _, asked = _one(text)
    found = kind_of(asked)
    assert str(found) == kind
    analysis = Analysis()
    device = device_of("h100")
    memory = Memory(analysis, device)
    if found.has_threads:
        assert memory.of_instruction(asked).kernel.launch is not None
    else:
        with pytest.raises(UnsupportedError, match=r"`asked` (is|has|runs|writes) "):
            memory.of_instruction(asked)
    footprint = Footprints(analysis, device).of_instruction(asked)
    assert footprint.kind == found
    if kind == NONE:
        assert footprint.bytes == 0
    else:
        assert footprint.bytes > 0
    if found.maker in ("custom call", "calls"):
        assert not footprint.is_exact
        assert footprint.notes


# ------------------------------------------------------------------------------ regression files

RIGHT: list[tuple[str, int, int, bool | None]] = [
    ("e02_ars", 4096, 4096, True),
    ("e02b_ar", 4096, 4096, True),
    ("i03_ar_variadic", 12288, 12288, True),
    ("e03_copystart", 4096, 4096, True),
    ("o03_dus_ds_same", 32768 + 4, 32768, True),
    ("workspace", 7680, 9216, True),
    ("dynamic_slice_fusion", 4100, 4096, True),
    ("dynamic_slice_fusion_loop", 4100, 4096, True),
    ("same_dynamic_slice_twice", 4100, 4100, True),
    ("scatter", 660, 320, False),
]


@pytest.mark.parametrize(("name", "read", "written", "exact"), RIGHT, ids=[r[0] for r in RIGHT])
def test_least_bytes_of_the_regression_files(
    shared: Path, name: str, read: int, written: int, exact: bool
) -> None:
    program = hloscope.read(str(shared / f"regressions/round3/decisions/{name}.hlo"))
    (run,) = footprint_of_program(program).kernels
    found = run.footprint
    assert (found.read, found.written, found.is_exact) == (read, written, exact)


def test_an_update_from_a_slice_elsewhere_writes_everything(shared: Path) -> None:
    program = hloscope.read(str(shared / "regressions/round3/decisions/o01_dus_slice.hlo"))
    answer = program.root.coalescing()
    assert answer.kernel.emitter == "loop"
    assert program.root.footprint().written == 16 << 20


# ------------------------------------------------------------------------------------ own cases


class KernelBytes(NamedTuple):
    read: int
    written: int
    exact: bool


def bytes_of(text: str) -> KernelBytes:
    root = parse_hlo(text).entry.root
    found = Footprints(Analysis(), device_of("h100")).of_equal(root)
    return KernelBytes(found.read, found.written, found.is_exact)


def test_starts_count_as_what_they_start_and_their_done_as_nothing() -> None:
    text = """
    add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
    wrapped { p = f32[64] parameter(0)
      ROOT r = f32[32] reduce-scatter(p), replica_groups={{0,1}}, dimensions={0}, to_apply=add }
    ENTRY e {
      p = f32[64] parameter(0)
      g = (f32[64], f32[128]) all-gather-start(p), replica_groups={{0,1}}, dimensions={0}
      gd = f32[128] all-gather-done(g)
      c = (f32[64], f32[64], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,1}}
      cd = f32[64] collective-permute-done(c)
      s = ((f32[64]), f32[32], u32[]) async-start(p), calls=wrapped
      sd = f32[32] async-done(s)
      ROOT t = (f32[128], f32[64], f32[32]) tuple(gd, cd, sd)
    }"""
    module = parse_hlo(text)
    footprints = Footprints(Analysis(), device_of("h100"))
    runs = {
        ins.name: footprints.of_instruction(ins)
        for place in running(module)
        for ins in place.kernels
    }
    assert {name: (f.read, f.written) for name, f in runs.items()} == {
        "g": (256, 512), "c": (256, 256), "r": (256, 128),
    }  # fmt: skip
    assert [runs[name].is_exact for name in "gcr"] == [True, False, True]


def test_bodies_of_reducers_hold_no_kernels_and_those_of_loops_do() -> None:
    module, asked = _one("f32[8,8] while(a), condition=cond, body=body")
    computations = [place.computation.name for place in running(module)]
    assert {"cond", "body"} <= {*computations}
    for text in (
        "f32[8] reduce(a, s), dimensions={1}, to_apply=add",
        f"f32[8,8] all-reduce-start(a), {GROUPS}, to_apply=add",
        "f32[8,8] sort(a), dimensions={1}, to_apply=ge",
    ):
        module, asked = _one(text)
        computations = [place.computation.name for place in running(module)]
        assert "add" not in computations
        assert "ge" not in computations
    assert asked in kernels_in(module.entry)


def test_only_scratch_of_known_libraries_is_left_out() -> None:
    call = 'ENTRY e { p = f32[8] parameter(0) ROOT c = (f32[8], %s) custom-call(p), ' \
        'custom_call_target="%s" }'  # fmt: skip
    assert bytes_of(call % ("u8[640]", "__cudnn$convForward")).written == 32
    assert bytes_of(call % ("s8[640]", "__cub$DeviceRadixSort")).written == 32
    assert bytes_of(call % ("f32[160]", "__cublas$gemm")).written == 32 + 640
    assert bytes_of(call % ("u8[640]", "mine")) == (32, 32 + 640, False)


@pytest.mark.parametrize(
    ("inside", "is_in_place"),
    [
        ("s = f32[8] dynamic-slice(p, i), dynamic_slice_sizes={8} u = f32[8] negate(s)", True),
        ("s = f32[8] dynamic-slice(p, j), dynamic_slice_sizes={8} u = f32[8] negate(s)", False),
        ("s = f32[8] slice(p), slice={[0:8]} u = f32[8] negate(s)", False),
        ("r = f32[4096] reverse(p), dimensions={0} "
         "u = f32[8] dynamic-slice(r, i), dynamic_slice_sizes={8}", False),
        ("n = f32[4096] negate(p) u = f32[8] dynamic-slice(n, i), dynamic_slice_sizes={8}", False),
        ("u = f32[8] broadcast(z), dimensions={}", True),
    ],
)  # fmt: skip
def test_updates_are_in_place_where_every_reader_reads_the_same_place(
    inside: str, is_in_place: bool
) -> None:
    found = bytes_of(f"""f {{ p = f32[4096] parameter(0) i = s32[] parameter(1)
      j = s32[] parameter(2) z = f32[] constant(0) {inside}
      ROOT d = f32[4096] dynamic-update-slice(p, u, i) }}
    ENTRY e {{ p = f32[4096] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
      ROOT f = f32[4096] fusion(p, i, j), kind=kLoop, calls=f }}""")
    assert found.written == (32 if is_in_place else 16384)


def test_one_element_may_be_updated_from_any_index() -> None:
    found = bytes_of("""f { p = f32[4096] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
      s = f32[1] dynamic-slice(p, j), dynamic_slice_sizes={1}
      ROOT d = f32[4096] dynamic-update-slice(p, s, i) }
    ENTRY e { p = f32[4096] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
      ROOT f = f32[4096] fusion(p, i, j), kind=kLoop, calls=f }""")
    assert (found.read, found.written) == (4 + 8, 4)


def test_a_library_call_on_slices_reads_and_writes_slices() -> None:
    config = (
        'backend_config={"fusion_backend_config":{"kind":"__custom_fusion",'
        '"custom_fusion_config":{"name":"dynamic_address_computation"}}}'
    )
    found = bytes_of(f"""f {{ a = f32[16,64,64] parameter(0) w = f32[64,64] parameter(1)
      out = f32[16,64,64] parameter(2) i = s32[] parameter(3) z = s32[] constant(0)
      s = f32[1,64,64] dynamic-slice(a, i, z, z), dynamic_slice_sizes={{1,64,64}}
      b = f32[64,64] bitcast(s)
      g = (f32[64,64], s8[4096]) custom-call(b, w), custom_call_target="__cublas$gemm"
      x = f32[64,64] get-tuple-element(g), index=0
      k = s8[4096] get-tuple-element(g), index=1
      y = f32[1,64,64] bitcast(x)
      d = f32[16,64,64] dynamic-update-slice(out, y, i, z, z)
      ROOT t = (f32[16,64,64], s8[4096]) tuple(d, k) }}
    ENTRY e {{ a = f32[16,64,64] parameter(0) w = f32[64,64] parameter(1)
      out = f32[16,64,64] parameter(2) i = s32[] parameter(3)
      ROOT f = (f32[16,64,64], s8[4096]) fusion(a, w, out, i), kind=kCustom, calls=f, {config}
    }}""")
    assert found == (2 * 16384 + 4, 16384, True)


def test_a_scatter_that_assigns_reads_no_old_values() -> None:
    text = """combine { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] %s }
    ENTRY e { x = f32[1000,16] parameter(0) i = s32[5,1] parameter(1) u = f32[5,16] parameter(2)
      ROOT r = f32[1000,16] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=combine }"""
    assert bytes_of(text % "add(x, y)") == (660, 320, False)
    assert bytes_of(text % "copy(y)").read == 660
    assert bytes_of(text.replace("ROOT s = f32[] %s", "").replace(
        "y = f32[] parameter(1)", "ROOT y = f32[] parameter(1)")).read == 340  # fmt: skip


def test_two_slices_at_different_indices_are_bounded_by_their_sum() -> None:
    found = bytes_of("""f { p = f32[64,1024] parameter(0) i = s32[] parameter(1)
      j = s32[] parameter(2) z = s32[] constant(0)
      a = f32[1,1024] dynamic-slice(p, i, z), dynamic_slice_sizes={1,1024}
      b = f32[1,1024] dynamic-slice(p, j, z), dynamic_slice_sizes={1,1024}
      n = f32[1,1024] negate(a) s = f32[1,1024] add(a, b)
      ROOT t = (f32[1,1024], f32[1,1024]) tuple(n, s) }
    ENTRY e { p = f32[64,1024] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
      ROOT f = (f32[1,1024], f32[1,1024]) fusion(p, i, j), kind=kLoop, calls=f }""")
    assert found == (2 * 4096 + 8, 2 * 4096, False)


def test_a_start_is_judged_as_the_kernel_that_it_starts() -> None:
    text = """fc { p = f32[64] parameter(0) ROOT n = f32[64] negate(p) }
    ENTRY e { p = f32[64] parameter(0)
      ROOT s = ((f32[64]), f32[64], u32[]) fusion-start(p), kind=kLoop, calls=fc }"""
    answer = Memory(Analysis(), device_of("h100")).of_instruction(parse_hlo(text).entry.root)
    assert [(array.is_output, array.touched.bytes) for array in answer.arrays] == [
        (False, 256), (True, 256),
    ]  # fmt: skip


def test_what_a_call_on_the_host_or_of_an_unknown_kernel_reads_is_a_bound() -> None:
    call = 'ENTRY e { p = f32[64] parameter(0) ROOT c = f32[64] custom-call(p), ' \
        'custom_call_target="xla_ffi_python_gpu_callback" }'  # fmt: skip
    assert bytes_of(call) == (256, 256, False)
    fusion = (
        "f { p = f32[64] parameter(0) s = f32[8] slice(p), slice={[0:8]} ROOT n = f32[8] negate(s)"
        "} ENTRY e { p = f32[64] parameter(0) ROOT f = f32[8] fusion(p), kind=kCustom, calls=f }"
    )
    assert bytes_of(fusion) == (32, 32, False)


def test_the_workspace_of_a_fusion_of_cudnn_is_no_result() -> None:
    config = 'backend_config={"fusion_backend_config":{"kind":"__cudnn$fusion"}}'
    found = bytes_of(f"""f {{ p = f32[64] parameter(0) n = f32[64] negate(p)
      w = u8[4096] custom-call(), custom_call_target="__nop"
      ROOT t = (f32[64], u8[4096]) tuple(n, w) }}
    ENTRY e {{ p = f32[64] parameter(0)
      ROOT f = (f32[64], u8[4096]) fusion(p), kind=kCustom, calls=f, {config} }}""")
    assert found == (256, 256, True)


def test_kernels_outside_of_fusions_are_judged_and_others_are_counted_by_maker(
    shared: Path,
) -> None:
    folder = shared / "regressions/round3/decisions"
    program = hloscope.read(str(folder / "while_trips.hlo"))
    memory = Model().memory(program.analysis)
    found = coalescing_of_all(program, memory, kernels_of(program.module))
    wasted = {answer.name: answer.wasted for answer in found.kernels}
    assert wasted["back"] == wasted["small"] == 7 << 18
    header, *rows = str(found).splitlines()
    assert header.split() == [word for title in found.table().header for word in title.split()]
    assert len(rows) == len(found.table().rows)
    program = hloscope.read(str(folder / "lib_calls.hlo"))
    memory = Model().memory(program.analysis)
    found = coalescing_of_all(program, memory, kernels_of(program.module))
    assert not found.kernels
    assert found.refused_by_maker == {
        "library cuBLAS": 1, "library cuDNN": 1, "library cuSOLVER": 1, "library cuFFT": 1,
    }  # fmt: skip
