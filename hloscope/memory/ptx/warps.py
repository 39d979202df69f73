"""Instructions that exchange values and matrices between the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.memory.ptx.counting import changes
from hloscope.memory.ptx.machine import WARP, Batch, KernelError, Lanes, Operands, fail, refuse
from hloscope.memory.ptx.syntax import TYPES, Instruction, Pair
from hloscope.memory.ptx.transfers import Place, Run, locate, parts_of, place_of
from hloscope.support.arrays import Array, Ints, np

# --------------------------------------------------------------------------------------------------
# Instructions that exchange values between the lanes of a warp.
#
# Lanes with equal positions execute an instruction together. The lowest position always runs first,
# so these are all lanes of the warp that will execute the instruction.
#
# Source: PTX ISA 8.8, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask",
# "elect.sync".


_U32: Final = TYPES["u32"]
_PRED: Final = TYPES["pred"]


def _shuffle(ins: Instruction, operands: Operands) -> Run:
    """Return the function that executes `shfl`.

    A lane reads another lane's register, or its own if the other lane is outside of its segment.
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
    """Return the index in `lanes` of each warp's first lane, and the rank of each lane's warp."""
    starts = changes(batch.warp_of[lanes.at])
    return np.flatnonzero(starts), np.cumsum(starts) - 1


def _ballot(batch: Batch, lanes: Lanes, chosen: Array) -> Array:
    """Return, for each lane, a mask of the active lanes of its warp for which `chosen` is true.

    Bit k of the mask stands for lane k.
    """
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
    """Return the function that executes `redux`.

    Every lane gets the reduction over the active lanes of its warp.
    """
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
    """Return the function that executes `elect`: elects the first active lane of each warp."""
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
    """Return the function that executes `match`.

    Each lane gets the mask of the lanes that have the same value.
    """
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
"""For each opcode, a function that decodes an instruction into the function that executes it."""


# --------------------------------------------------------------------------------------------------
# `ldmatrix` and `stmatrix`: 8 × 8 matrices between shared memory and the lanes of a warp.
#
# Source: PTX ISA 8.8, "ldmatrix", "stmatrix".


def _matrix_form(ins: Instruction) -> tuple[int, bool]:
    """Return the number of 8 × 8 matrices that `ins` transfers, and whether it transposes them.

    The elements have 16 bits.
    """
    counts = [int(m[1]) for m in ins.modifiers if m in ("x1", "x2", "x4")]
    known = {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "b16"}
    spaces = [m for m in ins.modifiers if m.partition("::")[0] == "shared"]
    if len(counts) != 1 or len(spaces) != 1 or set(ins.modifiers) - known - set(spaces):
        refuse(ins, "only 8 × 8 matrices of .b16 in shared memory are moved")
    return counts[0], "trans" in ins.modifiers


def _rows_of_matrices(
    ins: Instruction,
    number: int,
    kind: str,
    count: int,
    place: Place,
    batch: Batch,
    lanes: Lanes,
) -> tuple[Array, Ints]:
    """Return shared memory as 16-bit numbers, and the index of each row: [warps, count, 8].

    Lane `8 m + r` holds the address of row `r` of matrix `m`; a row has 16 bytes. The access is
    counted.

    Args:
        ins: The instruction.
        number: Index of the instruction in the kernel.
        kind: `read` or `written`.
        count: Number of matrices.
        place: The address operand.
        batch: State of the threads.
        lanes: The active lanes, which must be all lanes of their warps.
    """
    if len(lanes) % WARP or bool(
        (batch.lane_of[lanes.at].reshape(-1, WARP) != np.arange(WARP)).any()
    ):
        raise KernelError(f"`{ins.name}` needs all lanes of a warp", span=ins.span)
    at = place.addresses(batch, lanes)
    gives_row = batch.lane_of[lanes.at] < 8 * count
    givers = batch.chosen(lanes, gives_row)
    memory, offsets = locate(ins, number, kind, 16, "shared", batch, givers, at[gives_row])
    return memory.view(np.uint16), offsets.reshape(-1, count, 8) // 2


def _fragment(transposed: bool) -> tuple[Ints, Ints]:
    """Return row and column of the two elements of an 8 × 8 matrix that each lane has.

    Both arrays are [lanes, 2]. With `transposed`, rows and columns are exchanged.
    """
    lane, part = np.arange(WARP)[:, None], np.arange(2)
    row, column = lane // 4 + 0 * part, lane % 4 * 2 + part
    return (column, row) if transposed else (row, column)


def _load_matrices(ins: Instruction, number: int, operands: Operands) -> Run:
    """Return the function that executes `ldmatrix`.

    Each lane gets two consecutive elements of every matrix.
    """
    count, transposed = _matrix_form(ins)
    place = place_of(ins, ins.operands[1], operands, "shared")
    parts = parts_of(ins, ins.operands[0], count)
    writes = [operands.writes(ins, o, TYPES["b32"]) for o in parts]
    row, column = _fragment(transposed)

    def run(batch: Batch, lanes: Lanes) -> None:
        memory, rows = _rows_of_matrices(ins, number, "read", count, place, batch, lanes)
        for i, write in enumerate(writes):
            pairs = memory[rows[:, i, :][:, row] + column]
            write(batch, lanes, np.ascontiguousarray(pairs).view(np.uint32).reshape(-1))

    return run


def _store_matrices(ins: Instruction, number: int, operands: Operands) -> Run:
    """Return the function that executes `stmatrix`.

    Each lane stores two consecutive elements of every matrix.
    """
    count, transposed = _matrix_form(ins)
    place = place_of(ins, ins.operands[0], operands, "shared")
    parts = parts_of(ins, ins.operands[1], count)
    reads = [operands.reads(ins, o, TYPES["b32"]) for o in parts]
    row, column = _fragment(transposed)

    def run(batch: Batch, lanes: Lanes) -> None:
        memory, rows = _rows_of_matrices(ins, number, "written", count, place, batch, lanes)
        for i, read in enumerate(reads):
            pairs = np.ascontiguousarray(np.broadcast_to(read(batch, lanes), len(lanes)))
            memory[rows[:, i, :][:, row] + column] = pairs.view(np.uint16).reshape(-1, WARP, 2)

    return run


MATRIX_TRANSFERS: Final[dict[str, Callable[[Instruction, int, Operands], Run]]] = {
    "ldmatrix": _load_matrices,
    "stmatrix": _store_matrices,
}
"""For each opcode, a function that decodes an instruction into the function that executes it.

Its second argument is the index of the instruction in the kernel.
"""
