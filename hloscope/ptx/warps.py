"""Instructions that exchange values between the lanes of a warp.

Lanes with equal positions execute them together. The lowest position always runs first, so these
are all lanes of the warp that will execute the instruction.

Source: PTX ISA 8.8, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask",
"elect.sync".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.arrays import Array, Ints, np
from hloscope.ptx.machine import WARP, Batch, Lanes
from hloscope.ptx.operands import Operands, fail
from hloscope.ptx.syntax import Instruction, Pair
from hloscope.ptx.transfers import Run
from hloscope.ptx.types import TYPES

_U32: Final = TYPES["u32"]
_PRED: Final = TYPES["pred"]


def _shuffle(ins: Instruction, operands: Operands) -> Run:
    """Return the step of `shfl`.

    A lane reads another lane's register, or its own outside its segment.
    """
    mode = next((m for m in ins.modifiers if m in ("up", "down", "bfly", "idx")), None)
    if mode is None or ins.modifiers[-1] != "b32" or len(ins.operands) not in (4, 5):
        fail(ins, "expected .up, .down, .bfly or .idx, .b32 and 5 operands")
    target = ins.operands[0]
    pair = target if isinstance(target, Pair) else None
    write = operands.writes(ins, pair.first if pair else target, _U32)
    write_valid = operands.writes(ins, pair.second, _PRED) if pair else None
    source, offset, clamp = (operands.reads(ins, operand, _U32) for operand in ins.operands[1:4])

    def run(batch: Batch, lanes: Lanes) -> None:
        lane = batch.lane_of[lanes.at]
        b, c = (read(batch, lanes).astype(np.int64) for read in (offset, clamp))
        b, limit, segment = b & 31, c & 31, c >> 8 & 31
        # PTX packs the segment mask (bits 8 to 12) and the clamp (bits 0 to 4) into the third
        # operand.
        last = lane & segment | limit & ~segment
        if mode == "up":
            other = lane - b
            valid = other >= last
        else:
            first = lane & segment
            other = {"down": lane + b, "bfly": lane ^ b, "idx": first | b & ~segment}[mode]
            valid = other <= last
        other = np.where(valid, other, lane)
        everyone = np.broadcast_to(source(batch, batch.every_lane), batch.count)
        # A lane beyond the block's last thread is never active; a lane that reads it gets its own.
        at = np.where(
            batch.thread_of[lanes.at] - lane + other < batch.threads_per_block, other, lane
        )
        write(batch, lanes, everyone[lanes.index - lane + at])
        if write_valid is not None:
            write_valid(batch, lanes, valid)

    return run


def _requests(batch: Batch, lanes: Lanes) -> tuple[Ints, Ints]:
    """Return the first lane of each warp, and the rank of each lane's warp."""
    warps = batch.warp_of[lanes.at]
    starts = np.ones(len(warps), bool)
    starts[1:] = warps[1:] != warps[:-1]
    return np.flatnonzero(starts), np.cumsum(starts) - 1


def _ballot(batch: Batch, lanes: Lanes, chosen: Array) -> Array:
    """Return, for each lane, the mask of the lanes of its warp for which `chosen` is true."""
    first, rank = _requests(batch, lanes)
    bits = np.where(chosen, np.int64(1) << batch.lane_of[lanes.at], 0)
    return np.bitwise_or.reduceat(bits, first)[rank].astype(np.uint32)


def _vote(ins: Instruction, operands: Operands) -> Run:
    mode = next((m for m in ins.modifiers if m in ("all", "any", "uni", "ballot")), None)
    if mode is None or len(ins.operands) not in (2, 3):
        fail(ins, "expected .all, .any, .uni or .ballot and 3 operands")
    read = operands.reads(ins, ins.operands[1], _PRED)
    write = operands.writes(ins, ins.operands[0], _U32 if mode == "ballot" else _PRED)

    def run(batch: Batch, lanes: Lanes) -> None:
        mask = _ballot(batch, lanes, np.broadcast_to(read(batch, lanes), len(lanes)))
        everyone = _ballot(batch, lanes, np.ones(len(lanes), bool))
        results = {"ballot": mask, "all": mask == everyone, "any": mask != 0}
        results["uni"] = (mask == everyone) | (mask == 0)
        write(batch, lanes, results[mode])

    return run


def _reduce(ins: Instruction, operands: Operands) -> Run:
    """Return the step of `redux`: every lane gets the result over the active lanes of its warp."""
    ufuncs = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    name = next((m for m in ins.modifiers if m in ufuncs), None)
    if name is None or ins.modifiers[-1] not in ("u32", "s32", "b32") or len(ins.operands) != 3:
        fail(ins, "expected .add, .min, .max, .and, .or or .xor, a 32-bit type and 3 operands")
    type_ = TYPES[ins.modifiers[-1]]
    read = operands.reads(ins, ins.operands[1], type_)
    write = operands.writes(ins, ins.operands[0], type_)

    def run(batch: Batch, lanes: Lanes) -> None:
        first, rank = _requests(batch, lanes)
        values = np.broadcast_to(read(batch, lanes), len(lanes))
        write(batch, lanes, ufuncs[name].reduceat(values, first, dtype=values.dtype)[rank])

    return run


def _active(ins: Instruction, operands: Operands) -> Run:
    write = operands.writes(ins, ins.operands[0], _U32)
    return lambda batch, at: write(batch, at, _ballot(batch, at, np.ones(len(at), bool)))


def _elect(ins: Instruction, operands: Operands) -> Run:
    """Return the step of `elect`: the first active lane of each warp is elected."""
    target = ins.operands[0]
    if not isinstance(target, Pair):
        fail(ins, "expected two results")
    write = operands.writes(ins, target.first, _U32)
    write_elected = operands.writes(ins, target.second, _PRED)

    def run(batch: Batch, lanes: Lanes) -> None:
        first, rank = _requests(batch, lanes)
        leader = batch.lane_of[lanes.at][first][rank]
        write(batch, lanes, leader.astype(np.uint32))
        write_elected(batch, lanes, batch.lane_of[lanes.at] == leader)

    return run


def _match(ins: Instruction, operands: Operands) -> Run:
    """Return the step of `match`: each lane gets the mask of the lanes with the same value."""
    if "any" not in ins.modifiers or len(ins.operands) != 3:
        fail(ins, "only match.any.sync is executed")
    type_ = TYPES.get(ins.modifiers[-1], _U32)
    read = operands.reads(ins, ins.operands[1], type_)
    write = operands.writes(ins, ins.operands[0], _U32)

    def run(batch: Batch, lanes: Lanes) -> None:
        values = np.broadcast_to(read(batch, lanes), len(lanes))
        _, rank = _requests(batch, lanes)
        table = np.zeros((int(rank[-1]) + 1, WARP), values.dtype)
        present = np.zeros(table.shape, bool)
        lane = batch.lane_of[lanes.at]
        table[rank, lane], present[rank, lane] = values, True
        same = (table[rank] == values[:, None]) & present[rank]
        write(batch, lanes, (same << np.arange(WARP)).sum(axis=1).astype(np.uint32))

    return run


WARP_INSTRUCTIONS: Final[dict[str, Callable[[Instruction, Operands], Run]]] = {
    "shfl": _shuffle,
    "vote": _vote,
    "redux": _reduce,
    "activemask": _active,
    "elect": _elect,
    "match": _match,
}
"""Functions by opcode that return a step."""
