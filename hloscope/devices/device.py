"""Figures of a device, and constants that all NVIDIA GPUs share."""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias

from msgspec import Struct

from hloscope.errors import HloscopeError

AS_OF: Final = "2026-08"
"""Date of the device table and of the emitters' rules."""
SECTOR: Final = 32
"""Bytes of a sector, the unit of memory transfers.  Source: CUDA C++ Programming Guide."""
LINE: Final = 128
"""Bytes of a cache line: four sectors.  Source: CUDA C++ Programming Guide."""
VECTORS: Final = (2, 4, 8, 16)
"""Bytes that one vector instruction loads or stores for a lane."""
LARGEST_GRID: Final = (1 << 31) - 1
"""Blocks that fit into the x dimension of a grid."""

Peaks: TypeAlias = tuple[tuple[str, float], ...]
"""Element type and TFLOP/s (integers: 10^12 operations a second), a multiply-add counted as 2."""


class DeviceError(HloscopeError):
    """An invalid device file, or a device without a figure that a query needs."""

    exit_code: ClassVar[int] = 2


class Device(Struct, frozen=True):
    """A GPU, TPU or CPU. Unknown figures are 0, or missing in the peaks.

    Attributes:
        name: Name for `--device`.
        title: Name of the product.
        kind: `gpu`, `tpu` or `cpu`.
        sms: Cores: multiprocessors (NVIDIA), compute units (AMD), TensorCores of a TPU chip.
        threads_per_sm: Threads that one core holds.  A device without threads has 0.
        warp: Threads of a warp.  A device without threads has 0.
        shared_kib: Shared memory that XLA lets a block use, in KiB.
        block_shared: Shared memory of a block that asks for the most, in bytes.
        registers: Registers of 4 bytes that the threads of one block may use together.
        l2_bytes: Bytes of the last cache before memory that all cores share.
        bandwidth: Memory bandwidth in GB/s (10^9 bytes per second).
        memory_bytes: Size of the memory.
        transaction: Bytes of a transaction between memory and L2.
        vector_bits: Bits of the widest load of a lane.
        is_amd: Do the ROCm variants of the emitters apply?
        clock_ghz: The highest clock in GHz.
        matrix: Dense peaks of the matrix units by element type, in TFLOP/s.
        vector: Peaks of the vector units by element type, in TFLOP/s.
        special: Transcendental results of f32, in 10^12 per second.
        fast_f32: Element type in which matrix units may compute products of f32 by default.
        sources: Where the figures are from.
        doubts: Figures that are doubtful, each with the reason.
        banks: Banks of the shared memory.
        bank_bytes: Bytes of a word of a bank.
    """

    name: str
    title: str = ""
    kind: str = "gpu"
    sms: int = 0
    threads_per_sm: int = 0
    warp: int = 0
    shared_kib: int = 0
    block_shared: int = 0
    registers: int = 0
    l2_bytes: int = 0
    bandwidth: float = 0.0
    memory_bytes: int = 0
    transaction: int = 64
    vector_bits: int = 128
    is_amd: bool = False
    clock_ghz: float = 0.0
    matrix: Peaks = ()
    vector: Peaks = ()
    special: float = 0.0
    fast_f32: str = ""
    sources: str = ""
    doubts: tuple[str, ...] = ()
    banks: int = 32
    bank_bytes: int = 4

    @property
    def threads(self) -> int:
        """Return the threads that all multiprocessors hold together."""
        return self.threads_per_sm * self.sms

    @property
    def shared_bytes(self) -> int:
        """Return the shared memory that XLA lets a block use, in bytes."""
        return self.shared_kib << 10

    @property
    def is_wide(self) -> bool:
        """Are there loads of more than 128 bits?"""
        return self.vector_bits > 128

    @property
    def has_warps(self) -> bool:
        """Does the device run threads in warps, so that thread maps apply to it?"""
        return self.kind == "gpu" and self.warp > 0

    def peak(self, unit: str, element: str) -> float | None:
        """Return the peak TFLOP/s of a unit for an element type; `None` if unknown.

        The unit is `matrix` or `vector`.

        >>> from hloscope.devices import device_of
        >>> device_of("a100").peak("matrix", "bf16")
        312.0
        """
        return dict(self.matrix if unit == "matrix" else self.vector).get(element)


class Limits(Struct, frozen=True):
    """Resource limits of one block on a device.

    Attributes:
        device: Name of the device.
        shared: Largest shared memory of a block, in bytes.
        registers: Registers of 4 bytes, for all threads of a block together.
    """

    device: str
    shared: int
    registers: int
