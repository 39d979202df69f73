"""State of a batch of blocks: registers, shared and local memory, thread positions.

Every thread of the batch is one row of each array. Blocks share only global memory, so running
batch after batch gives the result of all blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.arrays import Array, Bools, Ints, np
from hloscope.ptx.counting import Recorder
from hloscope.ptx.errors import KernelError
from hloscope.ptx.memory import GlobalMemory
from hloscope.ptx.syntax import Kernel, Variable
from hloscope.ptx.types import TYPES

WARP: Final = 32
"""Threads of a warp."""
SHARED_WINDOW: Final = 1 << 40
"""Generic address of the first byte of shared memory."""
LOCAL_WINDOW: Final = 1 << 41
"""Generic address of the first byte of local memory."""
PARAM_WINDOW: Final = 1 << 42
"""Generic address of the first byte of the parameters."""
Dim3: TypeAlias = tuple[int, int, int]
"""Sizes in x, y and z."""


class Lanes:
    """Threads of a batch that execute an instruction together, in ascending order.

    Attributes:
        index: Numbers of the threads, ascending.
        at: These numbers as an index of numpy arrays: a slice for all threads.
    """

    __slots__ = ("at", "index")

    def __init__(self, index: Ints, count: int) -> None:
        self.index = index
        self.at: Ints | slice = slice(None) if len(index) == count else index

    def __len__(self) -> int:
        return len(self.index)


class Layout(Struct, frozen=True):
    """Positions of a kernel's variables and parameters in memory.

    Attributes:
        offsets: Offset of each shared, local or parameter variable in its memory.
        spaces: Space of each variable.
        shared: Bytes of shared memory of a block.
        local: Bytes of local memory of a thread.
        params: Bytes of the parameters.
        globals: Number in global memory of each module variable.
    """

    offsets: dict[str, int]
    spaces: dict[str, str]
    shared: int
    local: int
    params: int
    globals: dict[str, int]


def layout_of(
    kernel: Kernel, module_variables: tuple[Variable, ...], dynamic: int, first_global: int
) -> Layout:
    """Return the positions of variables: aligned, in order, `.extern .shared` arrays last.

    Args:
        kernel: The kernel.
        module_variables: Variables declared outside functions.
        dynamic: Bytes of dynamic shared memory.
        first_global: Number in global memory of the first module variable.
    """
    offsets, spaces, sizes = (
        dict[str, int](),
        dict[str, str](),
        {"shared": 0, "local": 0, "param": 0},
    )
    numbers = dict[str, int]()
    variables = [*kernel.params, *kernel.variables, *module_variables]
    variables.sort(key=lambda v: v.space == "shared" and v.size == 0)  # stable: dynamic ones last
    largest = 0
    for variable in variables:
        space = spaces[variable.name] = variable.space
        if space in ("global", "const"):
            numbers[variable.name] = first_global + len(numbers)
            continue
        at = -(-sizes[space] // variable.align) * variable.align
        offsets[variable.name] = at
        is_dynamic = space == "shared" and variable.size == 0
        if is_dynamic:
            largest = max(largest, at + dynamic)  # several names of one memory
        else:
            sizes[space] = at + variable.size
    shared = max(sizes["shared"], largest, sizes["shared"] + dynamic if not largest else 0)
    return Layout(offsets, spaces, shared, sizes["local"], sizes["param"], numbers)


class Batch:
    """All threads of the blocks `blocks` of a launch."""

    def __init__(
        self,
        kernel: Kernel,
        layout: Layout,
        memory: GlobalMemory,
        params: bytes,
        recorder: Recorder,
        grid: Dim3,
        block: Dim3,
        blocks: range,
    ) -> None:
        self.kernel, self.layout, self.memory = kernel, layout, memory
        self.params, self.recorder = np.frombuffer(params, np.uint8), recorder
        self.grid, self.block, self.blocks = grid, block, blocks
        self.threads_per_block = prod(block)
        self.count = len(blocks) * self.threads_per_block
        index = np.arange(self.count, dtype=np.int64)
        self.block_of = index // self.threads_per_block
        self.thread_of = index % self.threads_per_block
        self.lane_of = self.thread_of % WARP
        warps = -(-self.threads_per_block // WARP)
        self.warp_of = self.block_of * warps + self.thread_of // WARP
        self.first_warp = blocks.start * warps
        self.shared = np.zeros(len(blocks) * max(16, -(-layout.shared // 16) * 16), np.uint8)
        self.local = np.zeros(self.count * max(16, -(-layout.local // 16) * 16), np.uint8)
        self.registers: dict[str, Array] = {}
        self.every_lane = Lanes(index, self.count)
        self._special: dict[str, Array] = {}

    def register(self, name: str) -> Array:
        """Return the bits of a register, [threads]; zero before it is first written."""
        found = self.registers.get(name)
        if found is None:
            raw = TYPES[self.kernel.registers[name]].raw
            found = self.registers[name] = np.zeros(self.count, raw)
        return found

    def carry(self) -> Array:
        """Return the carry flag of each thread: [threads]."""
        if "cc" not in self.registers:
            self.registers["cc"] = np.zeros(self.count, bool)
        return self.registers["cc"]

    def chosen(self, lanes: Lanes, mask: Bools) -> Lanes:
        """Return the lanes for which `mask` is true."""
        return lanes if mask.all() else Lanes(lanes.index[mask], self.count)

    def special(self, name: str) -> Array:
        """Return a special register as u32: [threads]."""
        if name not in self._special:
            self._special[name] = np.broadcast_to(SPECIAL[name](self), self.count).astype(np.uint32)
        return self._special[name]

    def thread_name(self, thread: int) -> str:
        """Return the name of a thread for messages: its position in the launch."""
        x, y, _ = self.block
        number = int(self.thread_of[thread])
        at = (number % x, number // x % y, number // (x * y))
        block = self.blocks.start + int(self.block_of[thread])
        gx, gy, _ = self.grid
        place = (block % gx, block // gx % gy, block // (gx * gy))
        return f"thread {at} of block {place}"


def _special_registers() -> dict[str, Callable[[Batch], Array | int]]:
    found: dict[str, Callable[[Batch], Array | int]] = {
        "%laneid": lambda b: b.lane_of,
        "%warpid": lambda b: b.thread_of // WARP,
        "%nwarpid": lambda b: -(-b.threads_per_block // WARP),
        "%lanemask_eq": lambda b: 1 << b.lane_of,
        "%lanemask_lt": lambda b: (1 << b.lane_of) - 1,
        "%lanemask_le": lambda b: (2 << b.lane_of) - 1,
        "%lanemask_gt": lambda b: 0xFFFF_FFFF & ~((2 << b.lane_of) - 1),
        "%lanemask_ge": lambda b: 0xFFFF_FFFF & ~((1 << b.lane_of) - 1),
        "%gridid": lambda b: 0,
        "%dynamic_smem_size": lambda b: b.layout.shared,
        "%total_smem_size": lambda b: b.layout.shared,
        "%cluster_ctarank": lambda b: 0,
        "%cluster_nctarank": lambda b: 1,
    }
    for i, axis in enumerate("xyz"):
        found |= {
            f"%tid.{axis}": partial(_thread_index, axis=i),
            f"%ntid.{axis}": partial(_size, axis=i, of_grid=False),
            f"%ctaid.{axis}": partial(_block_index, axis=i),
            f"%nctaid.{axis}": partial(_size, axis=i, of_grid=True),
            f"%cluster_ctaid.{axis}": lambda b: 0,
            f"%cluster_nctaid.{axis}": lambda b: 1,
        }
    return found


def _thread_index(batch: Batch, axis: int) -> Array:
    return _digit(batch.thread_of, batch.block, axis)


def _block_index(batch: Batch, axis: int) -> Array:
    return _digit(batch.blocks.start + batch.block_of, batch.grid, axis)


def _digit(numbers: Ints, sizes: Dim3, axis: int) -> Array:
    found: Ints = numbers // prod(sizes[:axis]) % sizes[axis]
    return found


def _size(batch: Batch, axis: int, *, of_grid: bool) -> int:
    return (batch.grid if of_grid else batch.block)[axis]


SPECIAL: Final = _special_registers()
"""Function that returns each special register's value.  Clusters have one block."""


def refuse_large(count: int, most: int, what: str, rule: str) -> None:
    """Raise an error for a count above a limit.

    Raises:
        KernelError: `count` is larger than `most`.
    """
    if count > most:
        raise KernelError(f"{count:,} {what}, more than {most:,}", rule=rule)
