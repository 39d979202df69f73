"""Global memory: arrays at multiples of 256 bytes, found by address.

Source: CUDA C++ Programming Guide, "Device Memory Accesses": memory that the runtime allocates is
aligned to 256 bytes or more.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.arrays import Array, Ints, np
from hloscope.ptx.errors import KernelError

BASE: Final = 1 << 44
"""Address of the first byte; smaller addresses are shared, local or parameter memory."""
ALIGN: Final = 256
"""Arrays begin at multiples of this many bytes."""
WIDEST: Final = 64
"""Bytes after the last array, so that a wide access to its end stays inside of the buffer."""
Numbers: TypeAlias = "int | Ints"
"""Array number of an access: one for all lanes, or one for each lane."""


class GlobalArray(Struct, frozen=True):
    """An array in global memory.

    Attributes:
        name: Name in results and messages.
        start: Offset of its first byte from `BASE`.
        size: Bytes.
    """

    name: str
    start: int
    size: int

    @property
    def end(self) -> int:
        """Return the offset of the first byte after the array."""
        return self.start + self.size

    @property
    def block_end(self) -> int:
        """Return the offset of the end of its allocation, a multiple of 256 bytes."""
        return -(-self.end // ALIGN) * ALIGN


class BadAddressError(Exception):
    """An access outside of all arrays.

    Attributes:
        lane: Position of the first such access among the addresses.
        reason: The array and the byte.
    """

    def __init__(self, lane: int, reason: str) -> None:
        super().__init__(reason)
        self.lane, self.reason = lane, reason


class GlobalMemory:
    """Arrays laid out one after another, with at least 256 free bytes in between.

    A read may extend to the end of the 256-byte multiple that an array fills: XLA's kernels load
    indices past the end of short arrays. An atomic operation must begin inside the array: XLA
    updates elements of 4 bits in the word around them, which may end later. A store may not leave
    the array.
    """

    def __init__(self, arrays: list[tuple[str, int]], *, max_bytes: int) -> None:
        """Lay out arrays, given as names and bytes.

        Raises:
            KernelError: They take more than `max_bytes`, together with the record of touched bytes.
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
        """Return the address of an array."""
        return BASE + self.arrays[number].start

    def content(self, number: int) -> Array:
        """Return a view of the bytes of an array."""
        array = self.arrays[number]
        return self.bytes[array.start : array.end]

    def locate(self, addresses: Array, width: int, kind: str) -> tuple[Ints, Numbers]:
        """Return the offset of each address from `BASE`, and its array.

        Args:
            addresses: First byte of each access.
            width: Bytes of an access.
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
        """Return the largest offset at which an access of an array may end."""
        array = self.arrays[number]
        match kind:
            case "read":
                return array.block_end
            case "atomic":
                return -(-array.end // width) * width
        return array.end

    def _place(self, offset: int) -> str:
        """Return a description of an offset, for messages."""
        number = bisect_right(self.starts, offset) - 1
        if number < 0 or offset >= len(self.bytes):
            near = f"; the arrays are from {BASE:#x} on" if self.arrays else "; there are no arrays"
            return f"address {(BASE + offset) % (1 << 64):#x} is in no array{near}"
        array = self.arrays[number]
        return f"byte {offset - array.start:,} of `{array.name}`, which has {array.size:,} bytes"
