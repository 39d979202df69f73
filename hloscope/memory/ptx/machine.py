"""State of a batch of blocks: registers, memory and thread positions, and access to them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import prod
from typing import Any, Final, NoReturn, TypeAlias

from msgspec import Struct

from hloscope.errors import HloscopeError, ParseError, UnsupportedError, did_you_mean
from hloscope.memory.ptx.counting import Recorder
from hloscope.memory.ptx.syntax import (
    TYPES,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    PtxType,
    Register,
    Symbol,
    Variable,
    from_bits,
    to_bits,
)
from hloscope.support.arrays import Array, Bools, Ints, np

# --------------------------------------------------------------------------------------------------
# State of a batch of blocks: registers, shared and local memory, thread positions.
#
# Every thread of the batch has one entry in each array. Blocks share only global memory, so running
# batch after batch gives the result of all blocks.


WARP: Final = 32
"""Number of threads of a warp."""
SHARED_WINDOW: Final = 1 << 40
"""Generic address of the first byte of shared memory."""
LOCAL_WINDOW: Final = 1 << 41
"""Generic address of the first byte of local memory."""
PARAM_WINDOW: Final = 1 << 42
"""Generic address of the first byte of the parameters."""
Dim3: TypeAlias = tuple[int, int, int]
"""Three sizes, in x, y and z."""


class Lanes:
    """Threads of a batch that execute an instruction together.

    Attributes:
        index: Indices of the threads in the batch, ascending.
        at: The same indices for indexing numpy arrays; a slice if these are all threads.
    """

    __slots__ = ("at", "index")

    def __init__(self, index: Ints, count: int) -> None:
        self.index = index
        self.at: Ints | slice = slice(None) if len(index) == count else index

    def __len__(self) -> int:
        return len(self.index)


class Layout(Struct, frozen=True):
    """Offsets of a kernel's variables and parameters in memory.

    Attributes:
        offsets: Offset in bytes of each shared, local or parameter variable in its memory, by name.
        spaces: State space of each variable, by name.
        shared: Bytes of a block's shared memory.
        local: Bytes of a thread's local memory.
        params: Bytes of the parameters.
        globals: Index of each module variable among the arrays in global memory, by name.
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
    """Return the offsets of all variables: aligned, in order, `.extern .shared` arrays last.

    All `.extern .shared` arrays name one memory, so all begin at one offset.

    Args:
        kernel: The kernel.
        module_variables: Variables declared outside functions.
        dynamic: Bytes of dynamic shared memory.
        first_global: Index of the first module variable among the arrays in global memory.
    """
    offsets, spaces, sizes = (
        dict[str, int](),
        dict[str, str](),
        {"shared": 0, "local": 0, "param": 0},
    )
    numbers = dict[str, int]()
    variables = [*kernel.params, *kernel.variables, *module_variables]
    variables.sort(key=_is_dynamic)  # stable: dynamic ones last
    most_aligned = max([v.align for v in variables if _is_dynamic(v)], default=1)
    for variable in variables:
        space = spaces[variable.name] = variable.space
        if space in ("global", "const"):
            numbers[variable.name] = first_global + len(numbers)
            continue
        align = most_aligned if _is_dynamic(variable) else variable.align
        at = -(-sizes[space] // align) * align
        offsets[variable.name] = at
        sizes[space] = at + variable.size
    shared = sizes["shared"] + dynamic
    return Layout(offsets, spaces, shared, sizes["local"], sizes["param"], numbers)


def _is_dynamic(variable: Variable) -> bool:
    return variable.space == "shared" and variable.size == 0


class Batch:
    """State of the threads of a launch's blocks in one range of block numbers, `blocks`."""

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
        """Return the bits of a register, [threads]; zeros before it is first written."""
        found = self.registers.get(name)
        if found is None:
            raw = TYPES[self.kernel.registers[name]].raw
            found = self.registers[name] = np.zeros(self.count, raw)
        return found

    def carry(self) -> Array:
        """Return the carry flag of each thread, [threads]."""
        if "cc" not in self.registers:
            self.registers["cc"] = np.zeros(self.count, bool)
        return self.registers["cc"]

    def chosen(self, lanes: Lanes, mask: Bools) -> Lanes:
        """Return the lanes for which `mask` is true."""
        return lanes if mask.all() else Lanes(lanes.index[mask], self.count)

    def special(self, name: str) -> Array:
        """Return the values of a special register as u32, [threads]."""
        if name not in self._special:
            self._special[name] = np.broadcast_to(SPECIAL[name](self), self.count).astype(np.uint32)
        return self._special[name]

    def thread_name(self, thread: int) -> str:
        """Return the position of a thread in the launch as text, for messages.

        `thread` is its index in the batch.
        """
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
    for i in range(3):
        found |= _registers_of_axis(i)
    return found


def _registers_of_axis(i: int) -> dict[str, Callable[[Batch], Array | int]]:
    axis = "xyz"[i]
    return {
        f"%tid.{axis}": lambda b: _digit(b.thread_of, b.block, i),
        f"%ntid.{axis}": lambda b: b.block[i],
        f"%ctaid.{axis}": lambda b: _digit(b.blocks.start + b.block_of, b.grid, i),
        f"%nctaid.{axis}": lambda b: b.grid[i],
        f"%cluster_ctaid.{axis}": lambda b: 0,
        f"%cluster_nctaid.{axis}": lambda b: 1,
    }


def _digit(numbers: Ints, sizes: Dim3, axis: int) -> Array:
    found: Ints = numbers // prod(sizes[:axis]) % sizes[axis]
    return found


SPECIAL: Final = _special_registers()
"""Function that returns a special register's value for each thread, by the register's name.

Clusters have one block.
"""


def refuse_large(count: int, most: int, what: str, rule: str) -> None:
    """Raise an error if a count is above its limit.

    `what` is the counted thing, for the message; `rule` is the name of the parameter that changes
    the limit.

    Raises:
        KernelError: `count` is larger than `most`.
    """
    if count > most:
        raise KernelError(f"{count:,} {what}, more than {most:,}", rule=rule)


# --------------------------------------------------------------------------------------------------
# Global memory: arrays at multiples of 256 bytes; an access finds its array by the address.
#
# Source: CUDA C++ Programming Guide, "Device Memory Accesses": memory that the runtime allocates is
# aligned to 256 bytes or more.


BASE: Final = 1 << 44
"""Address of the first byte of global memory; smaller addresses are in other state spaces."""
ALIGN: Final = 256
"""Alignment of arrays in global memory, in bytes."""
WIDEST: Final = 64
"""Number of bytes after the last array; a wide access at its end stays inside the buffer."""
Numbers: TypeAlias = "int | Ints"
"""Index of the array that is accessed: one for all lanes, or one for each lane."""


class GlobalArray(Struct, frozen=True):
    """An array in global memory.

    Attributes:
        name: Name in results and messages.
        start: Offset in bytes of its first byte from the address `BASE`.
        size: Number of bytes.
    """

    name: str
    start: int
    size: int

    @property
    def end(self) -> int:
        """Return the offset from `BASE` of the first byte after the array."""
        return self.start + self.size

    @property
    def block_end(self) -> int:
        """Return the offset from `BASE` of the end of the array's allocation, a multiple of 256."""
        return -(-self.end // ALIGN) * ALIGN


class BadAddressError(Exception):
    """An access that is outside of all arrays or not aligned.

    Attributes:
        lane: Index of the first such access among the addresses.
        reason: Text that names the array and the byte.
    """

    def __init__(self, lane: int, reason: str) -> None:
        super().__init__(reason)
        self.lane, self.reason = lane, reason


class GlobalMemory:
    """Global memory: arrays one after another, with at least 256 free bytes between two.

    A read may extend to the end of the 256-byte multiple that an array fills: XLA's kernels load
    indices past the end of short arrays. An atomic operation must begin inside the array: XLA
    updates elements of 4 bits in the word around them, which may end later. A store may not leave
    the array.
    """

    def __init__(self, arrays: list[tuple[str, int]], *, max_bytes: int) -> None:
        """Lay out arrays, each given as name and number of bytes.

        Raises:
            KernelError: The arrays and the marks of accessed bytes take more than `max_bytes`.
        """
        self.arrays: list[GlobalArray] = []
        at = 0
        for name, size in arrays:
            self.arrays.append(GlobalArray(name, at, size))
            at = self.arrays[-1].block_end + ALIGN
        if at > max_bytes:
            message = f"the arrays have {at:,} bytes, more than {max_bytes:,}"
            raise KernelError(message, rule="max_bytes")
        self.bytes = np.zeros(at + WIDEST + (-at % 16), np.uint8)
        self.starts = [array.start for array in self.arrays]

    def address(self, number: int) -> int:
        """Return the address of the array with index `number`."""
        return BASE + self.arrays[number].start

    def content(self, number: int) -> Array:
        """Return a view of the bytes of the array with index `number`."""
        array = self.arrays[number]
        return self.bytes[array.start : array.end]

    def locate(self, addresses: Array, width: int, kind: str) -> tuple[Ints, Numbers]:
        """Return the offset of each address from `BASE`, and the index of its array.

        Args:
            addresses: Address of the first byte of each access.
            width: Bytes of one access.
            kind: `read`, `written` or `atomic`.

        Raises:
            BadAddressError: An access of `width` bytes is in no array or not aligned.
        """
        offsets = (addresses - np.uint64(BASE)).view(np.int64)
        low, high = int(offsets.min()), int(offsets.max())
        if width > 1 and bool((offsets & (width - 1)).any()):
            lane = int(np.flatnonzero(offsets & (width - 1))[0])
            raise BadAddressError(
                lane, f"{self._place(int(offsets[lane]))}: not a multiple of {width}"
            )
        # Usually all lanes access one array: then one check of the lowest and highest address is
        # enough.
        number = bisect_right(self.starts, low) - 1
        if number >= 0 and high + width <= self._limit(number, kind, width):
            return offsets, number
        starts = np.array(self.starts, np.int64)
        limits = np.array([self._limit(i, kind, width) for i in range(len(starts))], np.int64)
        numbers = np.searchsorted(starts, offsets, side="right") - 1
        is_wrong = (
            (numbers < 0) | (offsets + width > limits[numbers])
            if len(starts)
            else offsets == offsets
        )
        if bool(is_wrong.any()):
            lane = int(np.flatnonzero(is_wrong)[0])
            raise BadAddressError(lane, self._place(int(offsets[lane])))
        return offsets, numbers

    def _limit(self, number: int, kind: str, width: int) -> int:
        """Return the largest offset from `BASE` at which an access to an array may end.

        Args:
            number: Index of the array.
            kind: `read`, `written` or `atomic`.
            width: Bytes of the access.
        """
        array = self.arrays[number]
        match kind:
            case "read":
                return array.block_end
            case "atomic":
                return -(-array.end // width) * width
        return array.end

    def _place(self, offset: int) -> str:
        """Return the array and the byte at an offset from `BASE` as text, for messages."""
        number = bisect_right(self.starts, offset) - 1
        if number < 0 or offset >= len(self.bytes):
            near = f"; the arrays are from {BASE:#x} on" if self.arrays else "; there are no arrays"
            return f"address {(BASE + offset) % (1 << 64):#x} is in no array{near}"
        array = self.arrays[number]
        return f"byte {offset - array.start:,} of `{array.name}`, which has {array.size:,} bytes"


# --------------------------------------------------------------------------------------------------
# Operands as functions that read or write the state of a batch of blocks.


Read: TypeAlias = Callable[[Batch, Lanes], Array]
"""Function that returns the values of an operand: one for each lane, or one for all."""
Write: TypeAlias = Callable[[Batch, Lanes, Array], None]
"""Function that writes one value for each lane to an operand."""


def fail(instruction: Instruction, message: str) -> NoReturn:
    """Raise an error about an instruction.

    Raises:
        ParseError: Always, with the position of the instruction.
    """
    raise ParseError(f"`{instruction.name}`: {message}", span=instruction.span)


def refuse(instruction: Instruction, message: str) -> NoReturn:
    """Raise an error about an instruction that is valid PTX but is not executed.

    Raises:
        UnsupportedError: Always, with the position of the instruction.
    """
    raise UnsupportedError(f"`{instruction.name}`: {message}", span=instruction.span)


class Operands:
    """Makes functions that read or write the operands of a kernel's instructions.

    Args:
        kernel: The kernel.
        symbols: Address of each variable in its own state space; for global variables, the generic
            address.
        windows: Generic address of the first byte of each state space; 0 for global memory.
    """

    def __init__(self, kernel: Kernel, symbols: dict[str, int], windows: dict[str, int]) -> None:
        self.kernel, self.symbols, self.windows = kernel, symbols, windows

    def register_type(self, instruction: Instruction, register: Register) -> PtxType:
        """Return the declared type of a register.

        Raises:
            ParseError: The register is not declared.
        """
        kind = self.kernel.registers.get(register.name)
        if kind is None:
            near = did_you_mean(register.name, self.kernel.registers)
            fail(instruction, f"register `{register.name}` is not declared{near}")
        return TYPES[kind]

    def reads(self, instruction: Instruction, operand: Operand, type_: PtxType) -> Read:
        """Return a function that reads an operand as values of type `type_`.

        Raises:
            ParseError: The operand cannot be read as that type.
        """
        match operand:
            case Register(name) if name in SPECIAL:
                return lambda b, at: from_bits(b.special(name)[at.at], type_)
            case Register(name):
                self._check_width(instruction, operand, type_)
                return lambda b, at: from_bits(b.register(name)[at.at], type_)
            case Negated(register):
                read = self.reads(instruction, register, type_)
                return lambda b, at: ~read(b, at)
            case Immediate():
                constant = from_bits(_bits_of(operand, type_), type_)
                return lambda b, at: constant
            case Symbol(name) if name in self.symbols:
                address = np.array([self.symbols[name]], np.uint64).astype(type_.raw)
                return lambda b, at: address
            case Symbol(name):
                fail(instruction, f"unknown name `{name}`{did_you_mean(name, self.symbols)}")
            case _:
                fail(instruction, "expected a register, a constant or a variable")

    def writes(self, instruction: Instruction, operand: Operand, type_: PtxType) -> Write:
        """Return a function that writes values of type `type_` to a register.

        Raises:
            ParseError: The operand is not a register that is wide enough.
        """
        if not isinstance(operand, Register):
            fail(instruction, "the result must be a register")
        name = operand.name
        if name == "_":
            return lambda b, at, value: None
        kind = self._check_width(instruction, operand, type_)
        raw: np.dtype[Any] = kind.raw

        def write(batch: Batch, lanes: Lanes, value: Array) -> None:
            batch.register(name)[lanes.at] = to_bits(value, type_, raw)

        return write

    def _check_width(self, instruction: Instruction, register: Register, type_: PtxType) -> PtxType:
        kind = self.register_type(instruction, register)
        if kind.bits < type_.bits or (kind.name == "pred") != (type_.name == "pred"):
            found = f"register `{register.name}` is of type .{kind.name}"
            fail(instruction, f"{found}, which does not hold .{type_.name}")
        return kind


def _bits_of(immediate: Immediate, type_: PtxType) -> Array:
    """Return the bits of a constant converted to a type, shape [1]."""
    if type_.name == "pred":
        return np.array([immediate.value != 0])
    mask = (1 << type_.bits) - 1
    if immediate.kind == "int" or not type_.is_float or type_.parts > 1:
        return np.array([immediate.value & mask], type_.raw)
    kind = TYPES[immediate.kind]
    value = np.array([immediate.value], kind.raw).view(kind.dtype)
    if kind.bits != type_.bits:
        value = value.astype(type_.dtype)
    return value.view(type_.raw)


# --------------------------------------------------------------------------------------------------
# The error that ends a kernel's execution.


class KernelError(HloscopeError):
    """A kernel cannot continue: wrong arguments, an invalid address, an exceeded limit, or a trap.

    For an exceeded limit, `rule` is the name of the parameter that changes the limit.
    """

    exit_code = 1
