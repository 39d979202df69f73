"""Threads diverge, meet again, wait, exchange values and update memory as PTX says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hloscope.api import run_ptx
from hloscope.errors import HloscopeError
from hloscope.memory.ptx import Accesses, KernelError
from hloscope.support.arrays import Array
from tests.memory.ptx.kernels import HEAD, kernel_text, run_body

STORE = """
  mul.wide.u32 %d9, %r19, 4;
  add.s64 %d9, %d9, %d10;
  st.global.b32 [%d9], %r1;
  ret;"""


def stored(body: str, count: int = 32, **options: object) -> list[int]:
    """What each thread leaves in `%r1`."""
    run = run_body(body + STORE, np.zeros(count, np.int32), block=count, **options)
    found: list[int] = run.outputs["p0"].tolist()
    return found


def test_threads_that_diverge_meet_again() -> None:
    body = """
  and.b32 %r2, %r19, 3;
  mov.b32 %r1, 0;
  setp.eq.s32 %p1, %r2, 0;
  @%p1 bra $done;
$loop:
  add.s32 %r1, %r1, %r19;
  sub.s32 %r2, %r2, 1;
  setp.gt.s32 %p1, %r2, 0;
  @%p1 bra $loop;
$done:
  activemask.b32 %r3;
  add.s32 %r1, %r1, %r3;"""
    assert stored(body) == [(t % 4) * t - 1 for t in range(32)]


def test_a_request_has_the_lanes_that_are_active() -> None:
    body = """
  and.b32 %r2, %r19, 1;
  setp.eq.s32 %p1, %r2, 0;
  mul.wide.u32 %d9, %r19, 4;
  add.s64 %d9, %d9, %d10;
  @%p1 st.global.b32 [%d9], %r19;
  @!%p1 bra $end;
  st.global.b32 [%d9], %r19;
$end:
  ret;"""
    run = run_body(body, np.zeros(64, np.int32), block=64)
    assert [(i.counts.requests, i.counts.bytes) for i in run.instructions] == [(2, 128), (2, 128)]
    assert run.arrays[0].touched.bytes == 128


def test_branches_through_a_table() -> None:
    body = """
  and.b32 %r2, %r19, 3;
$table: .branchtargets $zero, $one, $two, $one;
  brx.idx %r2, $table;
$zero: mov.b32 %r1, 10; bra $end;
$one: mov.b32 %r1, 11; bra $end;
$two: mov.b32 %r1, 12;
$end:"""
    assert stored(body) == [[10, 11, 12, 11][t % 4] for t in range(32)]


def test_barriers_wait_for_all_threads_of_a_block() -> None:
    body = """
  .shared .align 4 .b8 tile[512];
  mov.u32 %r2, %ntid.x;
  sub.s32 %r3, %r2, %r19;
  sub.s32 %r3, %r3, 1;
  mov.b32 %r5, tile;
  shl.b32 %r4, %r19, 2;
  add.s32 %r6, %r5, %r4;
  mov.u32 %r7, %ctaid.x;
  mad.lo.s32 %r8, %r7, 1000, %r19;
  setp.lt.u32 %p1, %r19, 40;
  @%p1 bra $late;
  st.shared.b32 [%r6], %r8;
  bra $wait;
$late:
  st.shared.b32 [%r6], %r8;
$wait:
  bar.sync 0;
  shl.b32 %r4, %r3, 2;
  add.s32 %r6, %r5, %r4;
  ld.shared.b32 %r1, [%r6];
  mad.lo.s32 %r19, %r7, %r2, %r19;"""
    run = run_body(body + STORE, np.zeros(300, np.int32), block=100, grid=3)
    right = [1000 * block + 99 - t for block in range(3) for t in range(100)]
    assert run.outputs["p0"].tolist() == right
    assert run.shared_bytes == 512


SHUFFLES: dict[str, Callable[[int, int], int]] = {
    "down": lambda lane, b: lane + b,
    "up": lambda lane, b: lane - b,
    "bfly": lambda lane, b: lane ^ b,
    "idx": lambda lane, b: lane & 24 | b,
}


@pytest.mark.parametrize("mode", SHUFFLES)
def test_shuffles_within_segments_of_eight_lanes(mode: str) -> None:
    for b in (1, 3, 5):
        clamp = (24 << 8) | (0 if mode == "up" else 7)  # segments of 8 lanes
        body = f"""
  mul.lo.s32 %r2, %r19, 7;
  shfl.sync.{mode}.b32 %r1|%p1, %r2, {b}, {clamp}, -1;
  selp.b32 %r3, 1000, 0, %p1;
  add.s32 %r1, %r1, %r3;"""
        right = []
        for lane in range(32):
            other = SHUFFLES[mode](lane, b)
            is_inside = lane & 24 <= other <= lane | 7
            right.append(7 * (other if is_inside else lane) + 1000 * is_inside)
        assert stored(body) == right


def test_votes_reductions_and_matches() -> None:
    body = """
  and.b32 %r2, %r19, 4;
  setp.ne.s32 %p1, %r2, 0;
  vote.sync.ballot.b32 %r1, %p1, -1;
  redux.sync.max.s32 %r3, %r19, -1;
  add.s32 %r1, %r1, %r3;
  match.any.sync.b32 %r4, %r2, -1;
  xor.b32 %r1, %r1, %r4;
  vote.sync.any.pred %p2, %p1, -1;
  vote.sync.all.pred %p3, %p1, -1;
  elect.sync %r5|%p4, -1;
  selp.b32 %r6, 1, 0, %p2; add.s32 %r1, %r1, %r6;
  selp.b32 %r6, 1, 0, %p3; add.s32 %r1, %r1, %r6;
  selp.b32 %r6, 4, 0, %p4; add.s32 %r1, %r1, %r6;"""
    found = stored(body, 40)
    for warp in (range(32), range(32, 40)):
        ballot = sum(1 << t % 32 for t in warp if t & 4)
        for t in warp:
            same = sum(1 << u % 32 for u in warp if u & 4 == t & 4)
            right = ((ballot + max(warp)) ^ same) + 1 + (4 if t == warp[0] else 0)
            assert found[t] & 0xFFFF_FFFF == right & 0xFFFF_FFFF


def test_atomic_operations_follow_each_other() -> None:
    body = """
  and.b32 %r2, %r19, 3;
  mul.wide.u32 %d8, %r2, 4;
  add.s64 %d8, %d8, %d10;
  atom.global.add.u32 %r3, [%d8], 5;
  mul.wide.u32 %d9, %r19, 4;
  add.s64 %d9, %d9, %d11;
  st.global.b32 [%d9], %r3;
  red.global.max.s32 [%d10+16], %r19;
  atom.global.inc.u32 %r4, [%d10+20], 9;
  atom.global.exch.b32 %r4, [%d10+24], %r19;
  ret;"""
    run = run_body(body, np.zeros(7, np.uint32), np.zeros(40, np.uint32), block=40)
    assert run.outputs["p0"].tolist() == [50, 50, 50, 50, 39, 0, 39]
    assert run.outputs["p1"].tolist() == [5 * (t // 4) for t in range(40)]
    kinds = {a.kind: a.counts.requests for a in run.arrays}
    assert kinds == {"atomic": 8, "written": 2}


def test_a_loop_of_compare_and_swap_adds_every_lane() -> None:
    body = """
  cvt.rn.f32.u32 %r2, %r19;
  ld.global.b32 %r3, [%d10];
$again:
  add.rn.f32 %r4, %r3, %r2;
  atom.global.cas.b32 %r5, [%d10], %r3, %r4;
  setp.ne.b32 %p1, %r5, %r3;
  mov.b32 %r3, %r5;
  @%p1 bra $again;
  ret;"""
    run = run_body(body, np.zeros(1, np.float32), block=64)
    assert run.outputs["p0"].tolist() == [64 * 63 / 2]


def test_local_constant_generic_and_vector_memory() -> None:
    body = """
  .local .align 16 .b8 mine[16];
  mov.b64 %d1, mine;
  cvta.local.u64 %d2, %d1;
  st.v2.b32 [%d2], {%r19, 5};
  ld.local.b32 %r2, [%d1];
  ld.const.b16 %h1, [table+2];
  cvt.u32.u16 %r3, %h1;
  mov.b64 %d3, {%r2, %r3};
  mov.b64 {%r4, %r5}, %d3;
  add.s32 %r1, %r4, %r5;"""
    assert stored(body, more=".const .align 2 .u16 table[4] = {7, 300};\n") == [
        t + 300 for t in range(32)
    ]


def test_scalars_dynamic_shared_memory_and_several_dimensions() -> None:
    text = f"""{HEAD}
.extern .shared .align 16 .b8 pool[];
.visible .entry one(.param .u64 .ptr p) {{ ret; }}
.visible .entry two(.param .u64 .ptr p, .param .f32 a, .param .u32 n, .param .f64 c)
.maxntid 64, 1, 1
{{
  .reg .b32 %r<9>; .reg .b64 %d<9>;
  ld.param.u64 %d1, [p];
  ld.param.f32 %r1, [a];
  ld.param.u32 %r2, [n];
  ld.param.f64 %d2, [c];
  mov.u32 %r3, %tid.y;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r3, %r3, %r4, %r5;
  mul.wide.u32 %d3, %r3, 4;
  add.s64 %d1, %d1, %d3;
  st.shared.b32 [pool+28], %r2;
  cvt.rn.f32.u32 %r6, %r3;
  ld.shared.b32 %r2, [pool+28];
  cvt.rn.f32.u32 %r7, %r2;
  cvt.rn.f32.f64 %r8, %d2;
  fma.rn.f32 %r6, %r6, %r1, %r7;
  add.rn.f32 %r6, %r6, %r8;
  st.global.b32 [%d1], %r6;
  ret;
}}"""
    arguments = [np.zeros(12, np.float32), 0.5, 3, 0.25]
    options = {"grid": 1, "block": (4, 3), "kernel": "two"}
    run = run_ptx(text, arguments, shared_bytes=32, **options)  # type: ignore[arg-type]
    assert run.outputs["p"].tolist() == [0.5 * t + 3.25 for t in range(12)]
    with pytest.raises(KernelError, match="byte 28 of 16 bytes of shared memory"):
        run_ptx(text, arguments, shared_bytes=16, **options)  # type: ignore[arg-type]


def test_accesses_may_have_a_cache_policy_and_no_further_operand() -> None:
    body = """  mov.b64 %d1, 0;
  ld.global.L2::cache_hint.b32 %r1, [%d10], %d1;
  add.s32 %r1, %r1, 1;
  st.global.L2::cache_hint.b32 [%d10+4], %r1, %d1;
  atom.global.add.L2::cache_hint.s32 %r2, [%d10+8], 5, %d1;
  atom.global.cas.L2::cache_hint.b32 %r3, [%d10+12], 9, 3, %d1;
  red.global.max.L2::cache_hint.s32 [%d10+16], 8, %d1;
  ret;"""
    run = run_body(body, np.array([3, 0, 2, 9, 7], np.int32), block=1)
    assert run.outputs["p0"].tolist() == [3, 4, 7, 3, 8]
    wrong = {
        "ld.global.b32 %r1;": "expected 2 operands, found 1",
        "ld.global.b32 %r1, [%d10], %d1, %d1;": "expected 2 operands, found 4",
        "st.global.b32 [%d10];": "expected 2 operands, found 1",
        "st.global.b32 [%d10], %r1, %d1, %d1;": "expected 2 operands, found 4",
        "st.const.b32 [%d10], %r1;": "nothing can be stored in .const memory",
        "st.param.b32 [%d10], %r1;": "nothing can be stored in .param memory",
        "atom.global.add.s32 %r2, [%d10];": "expected an address and 1 operands",
        "atom.global.add.s32 %r2, [%d10], 1, %d1, %d1;": "expected an address and 1 operands",
        "atom.global.cas.b32 %r2, [%d10], 1;": "expected an address and 2 operands",
        "atom.global.cas.b32 %r2, [%d10], 1, 2, %d1, %d1;": "expected an address and 2 operands",
        "red.global.add.s32 [%d10];": "expected an address and 1 operands",
        "red.global.add.s32 [%d10], 1, %d1, %d1;": "expected an address and 1 operands",
        "red.global.s32 [%d10], 1;": "expected one operation, such as .add",
        "red.global.add.min.s32 [%d10], 1;": "expected one operation, such as .add",
        "ld.global.b128 %r1, [%d10];": "elements of 128 bits are not supported",
        "ld.global.b32 %r1, %d10;": "expected an address in brackets",
        "ld.global.b32 %r1, [%h1];": "register `%h1` does not hold an address",
    }
    for line, message in wrong.items():
        with pytest.raises(HloscopeError) as caught:
            run_body(f"  {line}\n  ret;", np.zeros(4, np.int32), block=1)
        assert message in str(caught.value), line


WRONG = [
    ("ld.global.b32 %r1, [%d10+256];", "reads byte 256 of `p0`, which has 16 bytes"),
    ("st.global.b32 [%d10+16], %r1;", "writes byte 16 of `p0`, which has 16 bytes"),
    ("atom.global.add.u32 %r1, [%d10+16], 1;", "updates byte 16 of `p0`"),
    ("ld.global.b32 %r1, [%d10+2];", "not a multiple of 4"),
    ("ld.global.b32 %r1, [%d1];", "is in no array"),
    ("st.global.b32 [%d10+-4], %r1;", "in no array"),
    ("trap;", "executes `trap`"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_wrong_accesses_name_thread_instruction_and_array(line: str, message: str) -> None:
    body = f"  setp.eq.u32 %p1, %r19, 5;\n  @%p1 {line}\n  ret;"
    with pytest.raises(KernelError) as caught:
        run_body(body, np.zeros(4, np.int32))
    text = str(caught.value)
    assert message in text
    assert "thread (5, 0, 0) of block (0, 0, 0)" in text
    assert line in text.splitlines()[-2]


def test_reads_up_to_the_end_of_the_allocation_are_zero() -> None:
    body = "  ld.global.b32 %r1, [%d10+16];\n  st.global.b32 [%d10], %r1;\n  ret;"
    assert run_body(body, np.ones(4, np.int32), block=1).outputs["p0"].tolist() == [0, 1, 1, 1]


ENDLESS = "$l: bra $l;"


@pytest.mark.parametrize(
    ("body", "options", "rule"),
    [
        (ENDLESS, {"max_steps": 1000}, "max_steps"),
        ("ret;", {"grid": 1 << 20, "block": 1024}, "max_threads"),
        ("ret;", {"max_bytes": 100}, "max_bytes"),
    ],
)
def test_limits_are_kept(body: str, options: dict[str, int], rule: str) -> None:
    with pytest.raises(KernelError) as caught:
        run_body(body, np.zeros(4, np.int32), **options)
    assert caught.value.rule == rule


def test_memory_is_refused_before_it_is_allocated() -> None:
    body = "  .local .align 16 .b8 big[1000000000];\n  ret;"
    with pytest.raises(KernelError, match="bytes of state of a block"):
        run_body(body, np.zeros(4, np.int32))
    text = f"{HEAD}.entry k(.param .align 4 .b8 x[1000000000]) {{ ret; }}"
    with pytest.raises(KernelError, match="bytes of parameters, more than"):
        run_ptx(text, [3], grid=1, block=1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ([], {}, "1 parameters, 0 arguments"),
        ([3], {}, "is an address"),
        ([np.zeros(3)], {"block": 2000}, "1 to 1024 threads"),
        ([np.zeros(3)], {"grid": 0}, "is empty"),
    ],
)
def test_wrong_launches_are_refused(
    arguments: list[Array], options: dict[str, int], message: str
) -> None:
    with pytest.raises(KernelError, match=message):
        run_ptx(kernel_text("ret;"), arguments, **({"grid": 1, "block": 1} | options))  # type: ignore[arg-type]


def test_each_access_is_reported() -> None:
    body = """
  mov.b32 %r2, 0;
$loop:
  ld.global.b32 %r1, [%d10];
  add.s32 %r2, %r2, 1;
  setp.lt.s32 %p1, %r2, 3;
  @%p1 bra $loop;
  ret;"""
    seen: list[Accesses] = []
    run_body(body, np.zeros(4, np.int32), block=33, grid=2, on_access=seen.append)
    assert [a.occurrence.tolist() for a in seen] == [[n] * 66 for n in range(3)]
    assert {(a.kind, a.width, a.array) for a in seen} == {("read", 4, 0)}
    assert seen[0].warps.tolist() == [0] * 32 + [1] + [2] * 32 + [3]
    assert seen[0].lanes.tolist() == [*range(32), 0] * 2


def test_batches_of_blocks_add_up() -> None:
    body = """
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r1, %r2, %r3, %r19;
  mul.wide.u32 %d9, %r1, 4;
  add.s64 %d9, %d9, %d10;
  st.global.b32 [%d9], %r1;
  ret;"""
    count = 1 << 17
    run = run_body(body, np.zeros(count, np.int32), grid=count // 128, block=128)
    assert (run.outputs["p0"] == np.arange(count)).all()
    (access,) = run.arrays
    assert (access.counts.requests, access.counts.sectors) == (count // 32, count // 8)


@pytest.mark.parametrize("aligns", [(16, 4), (4, 16)])
def test_all_names_of_dynamic_shared_memory_have_one_address(aligns: tuple[int, int]) -> None:
    first, second = aligns
    more = f".extern .shared .align {first} .b8 one[];\n"
    more += f".extern .shared .align {second} .b8 two[];\n.shared .align 4 .b8 own[4];\n"
    body = """
  mov.b32 %r2, 7;
  st.shared.b32 [own], 500;
  st.shared.b32 [one], %r2;
  bar.sync 0;
  ld.shared.b32 %r1, [two];
  ld.shared.b32 %r3, [own];
  add.s32 %r1, %r1, %r3;"""
    assert stored(body, more=more, shared_bytes=4) == [507] * 32
