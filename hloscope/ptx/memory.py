"""Global memory: arrays at 256-byte multiples, found by address.

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
"""Bytes behind the last array that an access may name while its address is being checked."""
Numbers: TypeAlias = "int | Ints"
"""The array of an access: one for all lanes, or one for each lane."""


class GlobalArray(Struct, frozen=True):
    """An array in global memory.

    Attributes:
        name: Shown in answers and messages.
        start: Offset of its first byte from `BASE`.
        size: Bytes.
    """

    name: str
    start: int
    size: int

    @property
    def end(self) -> int:
        """Offset of the first byte after it."""
        return self.start + self.size

    @property
    def block_end(self) -> int:
        """Offset of the end of its allocation, a multiple of 256 bytes."""
        return -(-self.end // ALIGN) * ALIGN


class BadAddressError(Exception):
    """An access that no array allows.

    Attributes:
        lane: Position of the first such access in the addresses that were given.
        reason: The array and the byte.
    """

    def __init__(self, lane: int, reason: str) -> None:
        super().__init__(reason)
        self.lane, self.reason = lane, reason


class GlobalMemory:
    """Arrays laid out one after another, with at least 256 free bytes between two.

    A read may go up to the end of the 256-byte multiple that an array fills: XLA's kernels load
    indices past the end of short arrays.  An atomic operation has to begin inside the array: XLA
    updates elements of 4 bits in the word around them, which may end later.  A store may not leave
    the array.
    """

    def __init__(self, arrays: list[tuple[str, int]], *, max_bytes: int) -> None:
        """Lay out arrays, given as name and bytes.

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
        """Address of an array."""
        return BASE + self.arrays[number].start

    def content(self, number: int) -> Array:
        """The bytes of an array, a view."""
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
        """Offset that an access of an array ends at, at most."""
        array = self.arrays[number]
        match kind:
            case "read":
                return array.block_end
            case "atomic":
                return -(-array.end // width) * width
        return array.end

    def _place(self, offset: int) -> str:
        """Where an offset is, for messages."""
        number = bisect_right(self.starts, offset) - 1
        if number < 0 or offset >= len(self.bytes):
            near = f"; the arrays are from {BASE:#x} on" if self.arrays else "; there are no arrays"
            return f"address {(BASE + offset) % (1 << 64):#x} is in no array{near}"
        array = self.arrays[number]
        return f"byte {offset - array.start:,} of `{array.name}`, which has {array.size:,} bytes"
