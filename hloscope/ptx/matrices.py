"""`ldmatrix` and `stmatrix`: 8 × 8 matrices between shared memory and the lanes of a warp.

Source: PTX ISA 8.8, "ldmatrix", "stmatrix".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.arrays import Array, Ints, np
from hloscope.ptx.errors import KernelError
from hloscope.ptx.machine import WARP, Batch, Lanes
from hloscope.ptx.operands import Operands, fail, refuse
from hloscope.ptx.syntax import Instruction, Vector
from hloscope.ptx.transfers import Place, Run, locate, place_of
from hloscope.ptx.types import TYPES


def _matrix_form(ins: Instruction) -> tuple[int, bool]:
    """Return the number of 8 × 8 matrices of 16-bit elements, and whether they are transposed."""
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
    """Return shared memory as 16-bit numbers, and the index of each row, `[warps, count, 8]`.

    Lane `8 m + r` holds the address of row `r` of matrix `m`; a row has 16 bytes.
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
    """Return row and column of the two elements of each lane in a matrix: [lanes, 2]."""
    lane, part = np.arange(WARP)[:, None], np.arange(2)
    row, column = lane // 4 + 0 * part, lane % 4 * 2 + part
    return (column, row) if transposed else (row, column)


def _load_matrices(ins: Instruction, number: int, operands: Operands) -> Run:
    """Return the step of `ldmatrix`. Each lane gets two consecutive elements of every matrix."""
    count, transposed = _matrix_form(ins)
    place = place_of(ins, ins.operands[1], operands, "shared")
    target = ins.operands[0]
    parts = target.parts if isinstance(target, Vector) else (target,)
    if len(parts) != count:
        fail(ins, f"expected {count} registers, found {len(parts)}")
    writes = [operands.writes(ins, o, TYPES["b32"]) for o in parts]
    row, column = _fragment(transposed)

    def run(batch: Batch, lanes: Lanes) -> None:
        given = ins, number, "read", count, place, batch, lanes
        memory, rows = _rows_of_matrices(*given)
        for i, write in enumerate(writes):
            pairs = memory[rows[:, i, :][:, row] + column]
            write(batch, lanes, np.ascontiguousarray(pairs).view(np.uint32).reshape(-1))

    return run


def _store_matrices(ins: Instruction, number: int, operands: Operands) -> Run:
    """Return the step of `stmatrix`. Each lane stores two consecutive elements of every matrix."""
    count, transposed = _matrix_form(ins)
    place = place_of(ins, ins.operands[0], operands, "shared")
    source = ins.operands[1]
    parts = source.parts if isinstance(source, Vector) else (source,)
    if len(parts) != count:
        fail(ins, f"expected {count} registers, found {len(parts)}")
    reads = [operands.reads(ins, o, TYPES["b32"]) for o in parts]
    row, column = _fragment(transposed)

    def run(batch: Batch, lanes: Lanes) -> None:
        given = ins, number, "written", count, place, batch, lanes
        memory, rows = _rows_of_matrices(*given)
        for i, read in enumerate(reads):
            pairs = np.ascontiguousarray(np.broadcast_to(read(batch, lanes), len(lanes)))
            memory[rows[:, i, :][:, row] + column] = pairs.view(np.uint16).reshape(-1, WARP, 2)

    return run


MATRIX_TRANSFERS: Final[dict[str, Callable[[Instruction, int, Operands], Run]]] = {
    "ldmatrix": _load_matrices,
    "stmatrix": _store_matrices,
}
"""Functions by opcode that return a step; the second argument is the instruction's number."""
