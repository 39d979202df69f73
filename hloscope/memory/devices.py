"""Devices and what XLA's emitters take for granted about them: one dated table.

Sizes of devices are those of XLA's device descriptions, which its cost model uses, not those that a
driver reports.
"""

from __future__ import annotations

from typing import Final

from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.lazy import dataclass

AS_OF: Final = "2026-08"
"""When the table and the rules of the emitters were read."""
SECTOR: Final = 32
"""Bytes of a sector, the unit in which memory is moved.  Source: CUDA C++ Programming Guide."""
LINE: Final = 128
"""Bytes of a cache line: four sectors.  Source: CUDA C++ Programming Guide."""
VECTORS: Final = (2, 4, 8, 16)
"""Bytes of a lane that one instruction loads or stores, besides single elements."""
LARGEST_GRID: Final = (1 << 31) - 1
"""Blocks that fit into the x dimension of a grid."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as XLA describes it.

    Attributes:
        name: As `--device` takes it.
        threads_per_sm: Threads that one multiprocessor holds.
        sms: Multiprocessors.
        warp: Threads of a warp.
        shared_kib: Shared memory of a block, in KiB.
        l2_mib: L2 cache, in MiB.
        bandwidth: Of the memory, in GB/s.
        transaction: Bytes of a transaction between memory and L2.
        vector_bits: The widest load of a lane.
        is_amd: Do the ROCm variants of the emitters apply?
        banks: Banks of the shared memory.
        bank_bytes: Bytes of a word of a bank.
    """

    name: str
    threads_per_sm: int
    sms: int
    warp: int
    shared_kib: int
    l2_mib: int
    bandwidth: int
    transaction: int
    vector_bits: int = 128
    is_amd: bool = False
    banks: int = 32
    bank_bytes: int = 4

    @property
    def threads(self) -> int:
        """Threads that all multiprocessors hold together."""
        return self.threads_per_sm * self.sms

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, in bytes."""
        return self.shared_kib << 10

    @property
    def is_wide(self) -> bool:
        """Are there loads of more than 128 bits?"""
        return self.vector_bits > 128


_ROWS: Final = """
    a6000  | 1536 |  84 | 32 |  48 |   6 |  768 |  64 | 128 |
    a100   | 2048 | 108 | 32 |  48 |  40 | 2039 |  64 | 128 |
    h100   | 2048 | 132 | 32 |  48 |  50 | 3352 |  64 | 128 |
    b200   | 2048 | 148 | 32 | 128 | 126 | 8796 |  64 | 256 |
    mi210  | 2048 | 104 | 64 |  64 |   8 | 1638 |  64 | 128 | amd
    mi350  | 2048 | 256 | 64 | 160 |   4 | 6810 | 128 | 128 | amd
"""


def _device(row: str) -> Device:
    name, *numbers, amd = [cell.strip() for cell in row.split("|")]
    per_sm, sms, warp, shared, l2, bandwidth, transaction, vector = map(int, numbers)
    return Device(
        name, per_sm, sms, warp, shared, l2, bandwidth, transaction, vector, is_amd=amd == "amd"
    )


DEVICES: Final[dict[str, Device]] = {
    device.name: device for device in map(_device, _ROWS.strip().splitlines())
}
"""Source: XLA, the device descriptions of its tests (`xla/service/gpu/model`)."""
ALIASES: Final = {"rtxa6000": "a6000"}
DEFAULT: Final = "h100"


def device_of(name: str) -> Device:
    """The device of that name, in any case, with or without spaces and dashes.

    Raises:
        UnknownNameError: There is none.

    >>> device_of("H100").sms
    132
    """
    plain = name.lower().replace("-", "").replace(" ", "").replace("_", "")
    plain = ALIASES.get(plain, plain)
    if plain not in DEVICES:
        near = did_you_mean(plain, DEVICES)
        raise UnknownNameError(f"no device `{name}`{near}; known: {', '.join(DEVICES)}")
    return DEVICES[plain]
