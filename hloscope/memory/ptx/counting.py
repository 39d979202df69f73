"""Counts of requests, sectors and lines of global accesses, and of shared bank conflicts.

A *request* is an instruction that a warp executes with at least one active lane. Its sectors are
the distinct 32-byte blocks that its lanes access, its lines the distinct 128-byte blocks, and its
bytes the distinct bytes. Accesses are aligned to their width, so two accesses of one request are
equal or disjoint, and none crosses a sector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from hloscope.support.arrays import Array, Bools, Ints, np
from hloscope.support.devices import LINE, SECTOR

BANKS: Final = 32
"""Number of banks of shared memory.

Source: CUDA C++ Programming Guide, "Shared Memory".
"""
WORD: Final = 4
"""Bytes of one word of a bank."""


class Accesses(Struct, frozen=True):
    """Accesses of several lanes to one array, by one execution of an instruction.

    Attributes:
        instruction: Index of the instruction in the kernel.
        kind: `read`, `written` or `atomic`.
        array: Index of the array in global memory.
        occurrence: For each lane, number of earlier executions of the instruction by its warp.
        warps: Number of each lane's warp, counted over all blocks.
        lanes: Number of each lane in its warp.
        offsets: Offset in the array, in bytes, of each lane's first byte.
        width: Bytes that one lane accesses.
    """

    instruction: int
    kind: str
    array: int
    occurrence: Ints
    warps: Ints
    lanes: Ints
    offsets: Ints
    width: int


class Counts(Struct):
    """Totals of the requests that are counted.

    Attributes:
        requests: Number of requests.
        sectors: 32-byte blocks, summed over requests.
        lines: 128-byte blocks, summed over requests.
        bytes: Distinct bytes of each request, summed.
        sectors_per_request: Number of requests by their number of sectors.
        lane_bytes: Number of requests by the bytes that one lane accesses.
    """

    requests: int = 0
    sectors: int = 0
    lines: int = 0
    bytes: int = 0
    sectors_per_request: dict[int, int] = field(default_factory=dict)
    lane_bytes: dict[int, int] = field(default_factory=dict)

    def add(self, other: Counts) -> None:
        """Add the totals of `other` to this object's totals."""
        self.requests += other.requests
        self.sectors += other.sectors
        self.lines += other.lines
        self.bytes += other.bytes
        for own, more in (
            (self.sectors_per_request, other.sectors_per_request),
            (self.lane_bytes, other.lane_bytes),
        ):
            for key, count in more.items():
                own[key] = own.get(key, 0) + count


def count_requests(warps: Ints, offsets: Ints, width: int) -> Counts:
    """Return the counts of one execution of an instruction by several warps.

    Args:
        warps: Warp of each lane, ascending.
        offsets: Offset in bytes of each lane's first byte, a multiple of `width`.
        width: Bytes that one lane accesses.
    """
    starts_warp = changes(warps)
    offsets = _sorted_within(warps, offsets, starts_warp)
    # In sorted offsets of a warp, each change is a new element, sector or line.
    is_new = changes(warps, offsets)
    sectors, lines = [changes(warps, offsets // size) for size in (SECTOR, LINE)]
    first = np.flatnonzero(starts_warp)
    of_request = np.add.reduceat(sectors, first, dtype=np.int64)
    amounts = np.bincount(of_request)
    requests = len(first)
    return Counts(
        requests,
        int(sectors.sum()),
        int(lines.sum()),
        int(is_new.sum()) * width,
        {int(n): int(amounts[n]) for n in np.flatnonzero(amounts)},
        {width: requests},
    )


def _sorted_within(warps: Ints, offsets: Ints, starts_warp: Bools) -> Ints:
    """Return the offsets sorted within each warp; `warps` is ascending."""
    if bool(((offsets[1:] >= offsets[:-1]) | starts_warp[1:]).all()):
        return offsets
    low = offsets.min()
    span = int(offsets.max() - low) + 1
    # One sort for all warps: the warp is the high part of the key, so each warp's offsets stay
    # together.
    keys = (warps - warps[0]) * span + (offsets - low)
    found: Ints = np.sort(keys) % span + low
    return found


def changes(*columns: Ints) -> Bools:
    """Return, for each position, whether a column has another value than at the position before.

    The first position counts as a change.
    """
    found = np.zeros(len(columns[0]), bool)
    found[:1] = True
    for values in columns:
        found[1:] |= values[1:] != values[:-1]
    return found


def bank_words(
    warps: Ints,
    lanes: Ints,
    offsets: Ints,
    width: int,
    *,
    warp: int = BANKS,
    banks: int = BANKS,
    word: int = WORD,
) -> tuple[Ints, Ints]:
    """Return the phases of a shared-memory access, and the words of the busiest bank of each.

    Lanes of 8 bytes are served in two phases of half a warp, lanes of 16 bytes in four phases of a
    quarter. A word that several lanes of a phase access counts once. Phases are numbered over all
    warps; phases without a lane are left out.

    Args:
        warps: Warp of each lane.
        lanes: Number of each lane in its warp.
        offsets: Offset in bytes of each lane's first byte in the block's shared memory.
        width: Bytes that one lane accesses.
        warp: Lanes of a warp.
        banks: Number of banks.
        word: Bytes of one word of a bank.

    Source: CUDA C++ Programming Guide, "Shared Memory".
    """
    count = max(width // word, 1)
    phases = np.repeat(warps * count + lanes // (warp // count), count)
    # Each lane of a wide access needs consecutive words, all in one phase.
    words = (offsets[:, None] // word + np.arange(count)).reshape(-1)
    order = np.lexsort((words, phases))
    phases, words = phases[order], words[order]
    is_new = changes(phases, words)
    phases, words = phases[is_new], words[is_new]
    starts = changes(phases)
    rank = np.cumsum(starts) - 1
    per_bank = np.bincount(rank * banks + words % banks, minlength=int(starts.sum()) * banks)
    return phases[starts], per_bank.reshape(-1, banks).max(axis=1)


class SharedCounts(Struct):
    """Accesses of one instruction to shared memory.

    Attributes:
        requests: Number of phases of all warps; the lanes of a phase access up to 128 bytes.
        words: Distinct words that the busiest bank of each phase serves, summed over phases.
        most: Largest number of distinct words that one bank serves in a phase.
    """

    requests: int = 0
    words: int = 0
    most: int = 0

    @property
    def mean(self) -> float:
        """Return the mean, over phases, of the words that the busiest bank serves.

        A mean of 1 means that there are no bank conflicts.
        """
        return self.words / self.requests if self.requests else 0.0


class Recorder:
    """Counts of the accesses of a launch, added up batch by batch.

    Attributes:
        requests: Counts of global accesses by (instruction index, array index, kind).
        shared: Counts of accesses to shared memory by instruction index.
    """

    def __init__(self, size: int, on_access: Callable[[Accesses], None] | None = None) -> None:
        """Create a recorder whose counts are all zero.

        Args:
            size: Bytes of global memory.
            on_access: Called for each counted access to global memory.
        """
        self.requests: dict[tuple[int, int, str], Counts] = {}
        self.shared: dict[int, SharedCounts] = {}
        self.touched: dict[str, Array] = {}
        self._size, self._on_access = size, on_access
        self._occurrences: dict[int, dict[int, int]] = {}

    def note(
        self,
        instruction: int,
        kind: str,
        numbers: int | Ints,
        warps: Ints,
        lanes: Ints,
        offsets: Ints,
        width: int,
        starts: list[int],
    ) -> None:
        """Count an access to global memory by lanes of several warps.

        Args:
            instruction: Index of the instruction.
            kind: `read`, `written` or `atomic`.
            numbers: Index of the array, one for all lanes or one for each lane.
            warps: Warp of each lane, ascending.
            lanes: Number of each lane in its warp.
            offsets: Offset in bytes of each lane's first byte from the start of global memory.
            width: Bytes that one lane accesses.
            starts: Offset of each array from the start of global memory.
        """
        self._touch(kind, offsets, width)
        several = [numbers] if isinstance(numbers, int) else np.unique(numbers).tolist()
        for number in several:
            own = slice(None) if isinstance(numbers, int) else numbers == number
            found = count_requests(warps[own], offsets[own], width)
            self.requests.setdefault((instruction, number, kind), Counts()).add(found)
        if self._on_access is not None:
            occurrence = self._occurrence(instruction, warps)
            for number in several:
                own = slice(None) if isinstance(numbers, int) else numbers == number
                parts = occurrence[own], warps[own], lanes[own], offsets[own] - starts[number]
                self._on_access(Accesses(instruction, kind, number, *parts, width))

    def _occurrence(self, instruction: int, warps: Ints) -> Ints:
        """Return how often each lane's warp has executed the instruction; add 1 to that count."""
        seen = self._occurrences.setdefault(instruction, {})
        each, where = np.unique(warps, return_inverse=True)
        before = [seen.get(warp, 0) for warp in each.tolist()]
        seen.update(zip(each.tolist(), [n + 1 for n in before], strict=True))
        found: Ints = np.array(before, np.int64)[where]
        return found

    def _touch(self, kind: str, offsets: Ints, width: int) -> None:
        bytes_ = self.touched.get(kind)
        if bytes_ is None:
            bytes_ = self.touched[kind] = np.zeros(self._size // 16 * 16, np.uint8)
        unit = min(width, 8)
        view = bytes_.view(f"u{unit}")
        ones = int.from_bytes(b"\x01" * unit, "little")
        for part in range(width // unit):
            view[offsets // unit + part] = ones

    def note_shared(
        self, instruction: int, warps: Ints, lanes: Ints, offsets: Ints, width: int
    ) -> None:
        """Count the bank conflicts of one access to shared memory by lanes of several warps.

        Args:
            instruction: Index of the instruction.
            warps: Warp of each lane, ascending.
            lanes: Number of each lane in its warp.
            offsets: Offset in bytes of each lane's first byte from the start of the block's shared
                memory.
            width: Bytes that one lane accesses.
        """
        _, busiest = bank_words(warps, lanes, offsets, width)
        counts = self.shared.setdefault(instruction, SharedCounts())
        counts.requests += len(busiest)
        counts.words += int(busiest.sum())
        counts.most = max(counts.most, int(busiest.max()))
