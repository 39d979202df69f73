"""Sizes of buffers: tiles, packed elements, tables of tuples, run-time sizes, spaces, bounds."""

from __future__ import annotations

from typing import Final

import pytest

from hloscope.cost.buffers import value_bytes
from hloscope.hlo_parser import parse_type
from tests.cost.buffers.programs import buffer_with, memory_of, scheduled

K, M, G = 1 << 10, 1 << 20, 1 << 30
STATED: Final = (
    ("s32[8388608,8,4]{2,1,0:T(8,128)}", 32 * G, G),
    ("s32[8388608,8,4]{0,2,1:T(4,128)}", G, G),
    ("u32[12582912,1]{1,0:T(8,128)}", 6 * G, 48 * M),
    ("s32[2048,1,128,128,4]{4,3,2,0,1:T(8,128)}", 16 * G, 512 * M),
    ("bf16[2048,1,2048,128]{0,1,3,2:T(4,128)(2,1)}", 4 * G, G),
    ("bf16[128,4096,352]{2,1,0:T(16,128)(2,1)}", 384 * M, 352 * M),
    ("f32[29184,1,2560]{2,1,0:T(2,128)}", 570 * M, 285 * M),
    ("f32[29184,2,2560]{2,1,0:T(2,128)}", 570 * M, 570 * M),
    ("f32[1024,245,64]{1,2,0:T(8,128)}", 64 * M, 1024 * 245 * 64 * 4),
    ("pred[64,512,2048]{2,1,0:T(8,128)E(32)}", 256 * M, 64 * M),
    ("u8[327680,327680]{1,0:T(8,128)(4,1)}", 107374182400, 107374182400),
    ("bf16[512,16,3072]{2,1,0:T(8,128)(2,1)}", 48 * M, 48 * M),
    ("f32[256,512,128,2]{3,2,1,0:T(8,128)}", 8 * G, 128 * M),
    ("f32[32,128,32,64]{3,0,2,1:T(8,128)}", 64 * M, 32 * M),
    ("f32[128,3]{1,0:T(8,128)}", 64 * K, 1536),
    ("f32[128,6]{1,0:T(8,128)}", 64 * K, 3072),
    ("bf16[256,2048,4096]{2,1,0:T(8,128)(2,1)}", 4 * G, 4 * G),
    ("u8[4096]{0:T(1024)(128)(4,1)}", 4 * K, 4 * K),
)
"""Types with the bytes that public reports of TPU programs state, padded and unpadded."""


@pytest.mark.parametrize(("text", "padded", "unpadded"), STATED, ids=[row[0] for row in STATED])
def test_tiled_arrays_take_the_bytes_that_reports_state(
    text: str, padded: int, unpadded: int
) -> None:
    size = value_bytes(parse_type(text))
    assert size is not None
    assert (size.padded, size.unpadded) == (padded, unpadded)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("s4[7,5]{1,0}", 35),
        ("s4[7,5]{1,0:E(4)}", 18),
        ("u2[7]{0:E(2)}", 2),
        ("pred[]", 1),
        ("(f32[8], f32[], token[])", 24),
        ("token[]", 0),
        ("f32[<=10,5]", 208),
        ("f32[0,5]", 0),
    ],
)
def test_bytes_of_a_value(text: str, count: int) -> None:
    size = value_bytes(parse_type(text))
    assert size is not None
    assert size.padded + size.metadata == count


def test_memory_spaces_are_counted_apart() -> None:
    body = (
        "p = f32[8]{0} parameter(0)\n"
        "s = (f32[8]{0:S(1)}, f32[8]{0}, u32[]) copy-start(p)\n"
        "d = f32[8]{0:S(1)} copy-done(s)\n"
        "n = f32[8]{0:S(7)} negate(d)\n"
        "ROOT r = f32[8]{0} copy(n)"
    )
    memory = memory_of(scheduled(body))
    assert {space: line.lower for space, line in memory.spaces.items()} == {0: 64, 1: 32, 7: 32}
    assert buffer_with(memory, "s{0}").space == 1
    assert any("memory space 7 is counted apart; what it is" in note for note in memory.notes)


def test_a_result_of_another_space_does_not_take_the_place_of_an_operand() -> None:
    body = "p = f32[8]{0} parameter(0)\nn = f32[8]{0} negate(p)\nROOT r = f32[8]{0:S(5)} sine(n)"
    memory = memory_of(scheduled(body))
    assert memory.device.placed == {}
    assert memory.device.lower == 64


def test_sizes_past_64_bits_are_exact_and_noted() -> None:
    body = f"p = f32[{1 << 40},{1 << 40}]{{1,0}} parameter(0)\n"
    body += f"ROOT n = f32[{1 << 40},{1 << 40}]{{1,0}} negate(p)"
    memory = memory_of(scheduled(body))
    assert memory.lower == 8 << 80
    assert any("more than 2^63 bytes" in note for note in memory.notes)


def test_a_size_without_a_bound_counts_nothing_and_is_noted() -> None:
    body = "p = f32[?,8]{1,0} parameter(0)\nROOT n = f32[?,8]{1,0} negate(p)"
    memory = memory_of(scheduled(body))
    assert memory.lower == 0
    assert any("2 buffers have a size without a bound" in note for note in memory.notes)


def test_buffers_hold_the_run_time_sizes_behind_the_elements() -> None:
    body = "p = f32[<=10,5]{1,0} parameter(0)\nROOT n = f32[<=10,5]{1,0} negate(p)"
    memory = memory_of(scheduled(body))
    assert buffer_with(memory, "n").bytes == 10 * 5 * 4 + 2 * 4
    assert memory.lower == 2 * 208


def test_outputs_count_in_the_estimate_before_they_are_written() -> None:
    body = (
        "p = f32[8]{0} parameter(0)\ns = f32[] constant(0)\n"
        "t = f32[64]{0} pad(p, s), padding=0_56\n"
        "n = f32[] reduce(t, s), dimensions={0}, to_apply=add\n"
        "ROOT r = f32[32]{0} broadcast(n), dimensions={}"
    )
    before = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
    memory = memory_of(scheduled(body, before=before))
    assert (memory.lower, memory.estimate) == (32 + 256 + 4 + 4, 32 + 128 + 256 + 4 + 4)
    assert memory.schedule.instructions[memory.peak].name == "n"
