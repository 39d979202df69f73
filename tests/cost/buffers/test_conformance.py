"""Order, live ranges, sizes and bounds of programs of which XLA's own figures are recorded."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import pytest

from hloscope.cost.buffers import ProgramMemory, Value, value_bytes
from hloscope.display import compared_memory
from hloscope.display.buffers_stack import stacks
from hloscope.hlo_parser import index_text, parse_hlo
from tests.conftest import SHARED, needs_shared

FOLDER: Final = SHARED / "conformance" / "memory"
NAMES: Final = sorted(path.stem for path in FOLDER.glob("*.json"))
SMALL: Final = 100_000
"""Alignment and small constants dominate programs of fewer bytes."""
MOST: Final = {"cpu": 1.04, "gpu": 1.001}
"""How much more than the estimate XLA holds at most, by backend."""

pytestmark = needs_shared
programs = pytest.mark.parametrize("name", NAMES)


@cache
def facts_of(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return facts


@cache
def memory_of(name: str) -> ProgramMemory:
    return ProgramMemory(parse_hlo((FOLDER / f"{name}.hlo.txt").read_text()))


def called(value: Value) -> str:
    """A value as XLA's files call it."""
    return f"{value.instruction.name}{index_text(value.index).replace(' ', '')}"


def values_of(memory: ProgramMemory) -> dict[str, Value]:
    return {called(v): v for buffer in memory.buffers.buffers for v in buffer.values}


def test_there_are_as_many_programs_as_the_data_say() -> None:
    assert len(NAMES) == len(list(FOLDER.glob("*.hlo.txt"))) >= 118


@programs
def test_the_order_is_that_of_xla(name: str) -> None:
    found = [ins.name for ins in memory_of(name).schedule.instructions]
    assert found == facts_of(name)["sequence"]


@programs
def test_values_and_their_moments_are_those_of_xla(name: str) -> None:
    expected = {k.replace(" ", ""): v for k, v in facts_of(name)["live_ranges"].items()}
    found = {k: [v.start, v.end] for k, v in values_of(memory_of(name)).items()}
    assert found == expected


@programs
def test_sizes_and_kinds_are_those_of_xla(name: str) -> None:
    memory, checked = memory_of(name), 0
    buffers = {called(v): (v, b) for b in memory.buffers.buffers for v in b.values}
    for allocation in facts_of(name)["allocations"]:
        flags = allocation["flags"]
        is_given = any(flag.startswith("parameter") for flag in flags)
        for text, size, _ in allocation["values"]:
            if text.replace(" ", "") not in buffers:  # a value inside another instruction
                assert {"thread-local", "constant"} & {*flags}
                continue
            value, buffer = buffers[text.replace(" ", "")]
            checked += 1
            assert bytes_of(value) == size, text
            if buffer.kind == "parameter":
                assert is_given, text
            if buffer.kind == "constant":
                assert "constant" in flags, text
            if buffer.kind == "output":
                assert "maybe-live-out" in flags, text
            if "constant" in flags:
                assert buffer.kind == "constant", text
    assert checked == len(facts_of(name)["live_ranges"])


def bytes_of(value: Value) -> int:
    size = value_bytes(value.type)
    assert size is not None
    return size.padded + size.metadata


@programs
def test_parameters_and_outputs_take_the_bytes_that_the_api_states(name: str) -> None:
    line, stated = memory_of(name).device, facts_of(name)["memory_analysis"]
    assert line.sums["parameter"] == stated["argument_size_in_bytes"]
    own = stated["output_size_in_bytes"] - stated["alias_size_in_bytes"]
    assert line.sums["output"] == own


@programs
def test_what_is_live_at_least_is_not_more_than_xla_holds(name: str) -> None:
    assert memory_of(name).lower <= facts_of(name)["total_without_thread_local"]


@programs
def test_the_estimate_of_what_xla_holds_is_close(name: str) -> None:
    memory, total = memory_of(name), facts_of(name)["total_without_thread_local"]
    assert memory.lower <= memory.estimate <= total
    if total >= SMALL:
        assert total <= MOST[memory.target.kind] * memory.estimate


@programs
def test_temporaries_stand_in_the_allocations_in_which_xla_places_them(name: str) -> None:
    memory, allocations = memory_of(name), facts_of(name)["allocations"]
    where = {text.replace(" ", ""): one for one in allocations for text, *_ in one["values"]}
    reused = memory.device.reused
    for buffer in memory.buffers.buffers:
        if buffer.kind == "temporary" and buffer.bytes:
            stated, first = where[called(buffer.values[0])], reused.get(buffer, buffer).values[0]
            assert ("preallocated-temp" in stated["flags"]) == (buffer not in reused)
            assert where[called(first)] is stated


@programs
def test_the_sum_of_all_live_buffers_is_that_of_xlas_values(name: str) -> None:
    assert max(memory_of(name).device.live) == facts_of(name)["bounds"]["upper_live"]


@pytest.mark.slow(keep=20)
@programs
def test_the_buffers_at_the_peak_and_those_held_add_up_to_the_bounds(name: str) -> None:
    memory = memory_of(name)
    assert sum(row.buffer.bytes for row in memory.live(memory.peak)) == memory.lower
    assert sum(row.buffer.bytes for row in memory.held()) == memory.estimate


PAIRS: Final = (
    ("gpu_x_train_keep", "gpu_x_train_donate"),
    ("gpu_x_dus_no_donate", "gpu_x_dus_donate"),
    ("cpu_x_scan_grad", "gpu_x_scan_grad_remat"),
)
"""Programs that differ in donation or rematerialisation."""


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_difference_has_the_sign_of_xlas_totals(before: str, after: str) -> None:
    totals = [facts_of(name)["total_without_thread_local"] for name in (before, after)]
    found = compared_memory(memory_of(before), memory_of(after))
    assert found.bytes * (totals[1] - totals[0]) > 0
    assert found.changes[0].bytes * found.bytes > 0
    assert sum(change.bytes for change in found.changes) == found.bytes


@programs
def test_the_picture_adds_up_at_every_moment_shown(name: str) -> None:
    memory = memory_of(name)
    ((found,), _) = stacks([memory])
    sums = [0] * len(found.moments)
    for area in found.areas:
        assert min(area.heights) >= 0
        sums = [low + height for low, height in zip(sums, area.heights, strict=True)]
    assert sums == [memory.device.least[moment] for moment in found.moments]
    assert sums[found.peak_column] == memory.lower
