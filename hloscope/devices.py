"""Devices and what emitters and tiles take for granted about them: one dated table.

Multiprocessors, caches and bandwidth are those of XLA's device descriptions, which its cost model
uses, not those that a driver reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

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


@dataclass(frozen=True, slots=True)
class Limits:
    """What the tiles of one block may use.

    Attributes:
        device: As the command takes it.
        shared: Bytes of shared memory of a block that asks for the most.
        registers: Of 4 bytes, for all threads of a block together.
    """

    device: str
    shared: int
    registers: int


_ROWS: Final = """
    a6000 | 101376 |  65536 | 1536 |  84 | 32 |  48 |   6 |  768 |  64 | 128 |
    a100  | 166912 |  65536 | 2048 | 108 | 32 |  48 |  40 | 2039 |  64 | 128 |
    h100  | 232448 |  65536 | 2048 | 132 | 32 |  48 |  50 | 3352 |  64 | 128 |
    b200  | 232448 |  65536 | 2048 | 148 | 32 | 128 | 126 | 8796 |  64 | 256 |
    mi210 |  65536 | 131072 | 2048 | 104 | 64 |  64 |   8 | 1638 |  64 | 128 | amd
    mi350 | 163840 | 131072 | 2048 | 256 | 64 | 160 |   4 | 6810 | 128 | 128 | amd
    r9700 |  65536 |  98304
"""
"""Name, what `Limits` has, what `Device` has; XLA's descriptions have no R9700.

Source: CUDA C++ Programming Guide, "Technical Specifications"; AMD's ISA (LDS, VGPRs); the device
descriptions of XLA's tests (`xla/service/gpu/model`).
"""


def _device(name: str, cells: list[str]) -> Device:
    *numbers, amd = cells
    per_sm, sms, warp, shared, l2, bandwidth, transaction, vector = map(int, numbers)
    return Device(
        name, per_sm, sms, warp, shared, l2, bandwidth, transaction, vector, is_amd=amd == "amd"
    )


_TABLE: Final = [[cell.strip() for cell in row.split("|")] for row in _ROWS.strip().splitlines()]
DEVICES: Final = {name: _device(name, rest) for name, _, _, *rest in _TABLE if rest}
LIMITS: Final = {row[0]: Limits(row[0], int(row[1]), int(row[2])) for row in _TABLE}
DEFAULT: Final = "h100"
_ALIASES: Final = {"rtxa6000": "a6000"}

_Row = TypeVar("_Row")


def device_of(name: str) -> Device:
    """The device of that name, in any case, with or without spaces and dashes.

    Raises:
        UnknownNameError: No device has that name.

    >>> device_of("H100").sms
    132
    """
    return _named(name, DEVICES)


def limits_of(device: str) -> Limits:
    """The limits of a device, in any case, with or without spaces and dashes.

    Raises:
        UnknownNameError: There is none of that name.

    >>> limits_of("MI210").shared
    65536
    """
    return _named(device, LIMITS)


def _named(name: str, table: Mapping[str, _Row]) -> _Row:
    plain = name.lower().replace("-", "").replace(" ", "").replace("_", "")
    plain = _ALIASES.get(plain, plain)
    if plain not in table:
        near = did_you_mean(plain, table)
        raise UnknownNameError(f"no device `{name}`{near}; known: {', '.join(table)}")
    return table[plain]
