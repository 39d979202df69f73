"""Ragged products against execution: group sizes that do not add up, below zero, for each batch."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.indexing.rules.contraction import MAX_GROUPS
from hloscope.proof import Execution

FREE = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, "
CASES = {
    "rows": f"f32[5,2] f32[3,2,2] s32[3] -> f32[5,2], {FREE}",
    "one group": f"f32[3,2] f32[1,2,2] s64[1] -> f32[3,2], {FREE}",
    "bytes": f"f32[5,2] f32[3,2,2] s8[3] -> f32[5,2], {FREE}",
    "unsigned": f"f32[5,2] f32[3,2,2] u64[3] -> f32[5,2], {FREE}",
    "many groups": f"f32[3,2] f32[{MAX_GROUPS + 1},2,1] s32[{MAX_GROUPS + 1}] -> f32[3,1], {FREE}",
    "rows of each batch": "f32[2,4,2] f32[2,3,2,2] s32[2,3] -> f32[2,4,2], " + BATCHED
    + "lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, "
    "rhs_group_dims={1}",
    "second free dimension": "f32[2,3,2] f32[2,2,2] s32[2,2] -> f32[2,3,2], "
    "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={0}",
    "summed": "f32[3,4] f32[4,2] s32[3] -> f32[3,3,2], lhs_contracting_dims={1}"
    ", rhs_contracting_dims={0}, lhs_ragged_dims={1}",
    "summed for each batch": "f32[2,3,4] f32[2,4,2] s32[2,3] -> f32[3,2,3,2], " + BATCHED
    + "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={2}",
    "second summed dimension": "f32[3,2,4] f32[4,2,2] s32[2,3] -> f32[3,3,2], "
    "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}, lhs_ragged_dims={2}",
    "batches": "f32[4,3,2] f32[4,2,2] s32[3] -> f32[4,3,2], " + BATCHED
    + "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={0}",
}  # fmt: skip


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_moves_is_in_the_maps(case: str, full: bool) -> None:
    types, settings = case.split(", ", 1)
    left, right, groups, _, result = types.split(" ")
    program = hloscope.read(
        f"ENTRY e {{ a = {left} parameter(0) b = {right} parameter(1) g = {groups} parameter(2) "
        f"ROOT r = {result} ragged-dot(a, b, g), {settings} }}"
    )
    for seed in range(20 if full else 2):
        execution = Execution(program.root.ir, seed=seed)
        for operand in range(3):
            for inverse in (False, True):
                shown = execution.check(0, operand, 0, inverse=inverse)
                assert (shown.reason, shown.violation) == ("", None)
