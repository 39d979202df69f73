"""Figures of devices, each with its source, and constants of all NVIDIA GPUs."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeAlias

from msgspec import Struct

from hloscope.errors import HloscopeError

# --------------------------------------------------------------------------------------------------
# Figures of a device, and constants that all NVIDIA GPUs share.


AS_OF: Final = "2026-08"
"""Date of the device table and of the modelled emitter rules, as year and month."""
SECTOR: Final = 32
"""Bytes of a sector, the unit of memory transfers.  Source: CUDA C++ Programming Guide."""
LINE: Final = 128
"""Bytes of a cache line: four sectors.  Source: CUDA C++ Programming Guide."""
VECTORS: Final = (2, 4, 8, 16)
"""Possible sizes in bytes of one lane's vector load or store."""
LARGEST_GRID: Final = (1 << 31) - 1
"""Maximum number of blocks in the x dimension of a grid."""

Peaks: TypeAlias = tuple[tuple[str, float], ...]
"""Pairs of element type and TFLOP/s (integers: 10^12 operations per second).

A multiply-add counts as 2 operations.
"""


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
        threads_per_sm: Maximum number of resident threads of one core; 0 for a device without
            threads.
        warp: Threads of a warp; 0 for a device without threads.
        shared_kib: Shared memory that XLA lets a block use, in KiB.
        block_shared: Maximum shared memory that a block can request, in bytes.
        registers: Maximum number of 4-byte registers that the threads of one block use together.
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
        sources: Sources of the figures.
        doubts: Figures that are uncertain, each with the reason.
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
        """Return the maximum number of resident threads of the whole device."""
        return self.threads_per_sm * self.sms

    @property
    def shared_bytes(self) -> int:
        """Return the shared memory that XLA lets a block use, in bytes."""
        return self.shared_kib << 10

    @property
    def is_wide(self) -> bool:
        """Does the device have loads of more than 128 bits?"""
        return self.vector_bits > 128

    @property
    def has_warps(self) -> bool:
        """Does the device run threads in warps, so that thread maps apply to it?"""
        return self.kind == "gpu" and self.warp > 0

    def peak(self, unit: str, element: str) -> float | None:
        """Return the peak TFLOP/s of a unit for an element type; `None` if unknown.

        The unit is `matrix` or `vector`.

        >>> from hloscope.support.devices import device_of
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


# --------------------------------------------------------------------------------------------------
# The known devices: one row each, with the source of every figure.
#
# A bound of time must not be too high.  So each bandwidth and peak is the larger of the credible
# figures: the vendor's, and that of XLA's device description unless `doubts` says why not.  Figures
# "with sparsity", and what somebody measured, are not peaks.
#
# Sources, by the marks that rows use:
#
# * `X`: XLA, `xla/backends/gpu/target_config/specs/*.txtpb`, `gpu_device_info_for_tests.cc` and
#   `stream_executor/cuda/cuda_core_info_table.cc`: cores, threads, shared memory, registers, L2,
#   memory, clock, bandwidth; peaks = cores x units x operations per clock x 2 x clock.
# * `V`: the vendor's data sheet, dense figures.  `V?`: the same from memory, not read again.
# * `P`: rates per core of xprof's `rocm_type_utils.cc` x cores x clock.
# * `T`: TraceLens' descriptions of architectures (bandwidth only).
# * `G`: Google Cloud's pages on TPU versions.  `J`: jax, `_src/tpu_info.py`, figures per core.
# * `C`: CUDA C++ Programming Guide: technical specifications; 16 transcendental results of f32 per
#   clock and multiprocessor.
# * `A`: AMD's ISA documents: LDS, VGPRs; a quarter of 64 lanes computes a transcendental per clock.


_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_SPECIAL: Final = 16
"""Transcendental results of f32 per clock and core.  Source: `C` and `A` above."""


def _peaks(text: str) -> Peaks:
    """Parse peaks from a text such as `f64 67 | f16 989.4`, in TFLOP/s."""
    rows = [part.split() for part in text.split("|") if part.strip()]
    return tuple([(element, float(peak)) for element, peak in rows])


def _gpu(
    name: str,
    title: str,
    sms: int,
    clock: float,
    l2: float,
    bandwidth: float,
    memory: int,
    *,
    vector: str,
    matrix: str = "",
    threads: int = 2048,
    special: int = _SPECIAL,
    **others: Any,
) -> Device:
    """Return a GPU, from its L2 size in MiB, its peaks as text, and other fields of `Device`."""
    rates = _peaks(matrix)
    return Device(
        name,
        title,
        sms=sms,
        threads_per_sm=threads,
        l2_bytes=int(l2 * _MIB),
        bandwidth=bandwidth,
        memory_bytes=memory,
        clock_ghz=clock,
        matrix=rates,
        vector=_peaks(vector),
        special=special * sms * clock / 1000,
        fast_f32="tf32" if "tf32" in dict(rates) else "",
        **others,
    )


def _nvidia(
    *figures: Any, block_shared: int = 232448, shared_kib: int = 48, **others: Any
) -> Device:
    more = {"shared_kib": shared_kib, "block_shared": block_shared, **others}
    return _gpu(*figures, warp=32, registers=65536, **more)


def _amd(
    *figures: Any, warp: int = 64, shared: int = 65536, registers: int = 131072, **others: Any
) -> Device:
    more = {"shared_kib": shared >> 10, "block_shared": shared, **others}
    return _gpu(*figures, warp=warp, registers=registers, is_amd=True, **more)


def _tpu(
    name: str,
    title: str,
    cores: int,
    bandwidth: float,
    memory: int,
    *,
    matrix: str,
    sources: str,
    doubts: tuple[str, ...] = (),
) -> Device:
    return Device(
        name,
        title,
        "tpu",
        cores,
        bandwidth=bandwidth,
        memory_bytes=memory,
        matrix=_peaks(matrix),
        fast_f32="bf16",
        sources=sources,
        doubts=doubts,
    )


_AMPERE_VECTOR: Final = "f64 9.7 | f32 19.5 | f16 78 | bf16 39 | s32 19.5"
_AMPERE_MATRIX: Final = "f64 19.5 | tf32 156 | f16 312 | bf16 312 | s8 624 | s4 1248"
_HOPPER_VECTOR: Final = "f64 33.5 | f32 66.9 | f16 133.8 | bf16 133.8 | s32 33.5"
_HOPPER_MATRIX: Final = "f64 66.9 | tf32 494.7 | f16 989.4 | bf16 989.4 | f8 1978.9 | s8 1978.9"
_MI300_VECTOR: Final = "f64 81.7 | f32 163.4"
_MI300_MATRIX: Final = (
    "f64 163.4 | f32 163.4 | tf32 653.7 | f16 1307.4 | bf16 1307.4 | f8 2614.9 | s8 2614.9"
)
_BLACKWELL_VECTORS: Final = "f16 and bf16 vector: twice f32, as on Hopper; not in a source"

_ROWS: Final = (
    # --- NVIDIA, by age
    _nvidia(
        "p100", "NVIDIA Tesla P100 16 GB", 56, 1.4805, 4, 732.16, 16 * _GIB,
        vector="f64 5.3 | f32 10.6 | f16 21.2", block_shared=49152,
        sources="X; f64, f16: half and twice of f32 (C)",
    ),
    _nvidia(
        "v100", "NVIDIA V100 SXM2 16 GB", 80, 1.53, 6, 900, 16935682048,
        vector="f64 7.8 | f32 15.7 | f16 31.4 | s32 15.7", matrix="f16 125", block_shared=98304,
        sources="X; bandwidth (X: 898), peaks: V as Lightning's table has them",
    ),
    _nvidia(
        "a6000", "NVIDIA RTX A6000 48 GB", 84, 1.8, 6, 768.096, 48 * _GIB,
        vector="f64 0.6 | f32 38.7 | f16 38.7 | bf16 38.7 | s32 19.4",
        matrix="tf32 77.4 | f16 154.8 | bf16 154.8 | s8 309.7 | s4 619.3",
        threads=1536, block_shared=101376, sources="X; matrix, f64: V?",
        doubts=("matrix and f64 peaks: the vendor's, from memory",),
    ),
    _nvidia(
        "a100_40", "NVIDIA A100 SXM4 40 GB", 108, 1.41, 40, 1555.2, 40 * _GIB,
        vector=_AMPERE_VECTOR, matrix=_AMPERE_MATRIX, block_shared=166912, sources="X; peaks: V",
    ),
    _nvidia(
        "a100", "NVIDIA A100 SXM4 80 GB", 108, 1.41, 40, 2039.04, 80 * _GIB,
        vector=_AMPERE_VECTOR, matrix=_AMPERE_MATRIX, block_shared=166912, sources="X; peaks: V",
    ),
    _nvidia(
        "a100_pcie", "NVIDIA A100 PCIe 80 GB", 108, 1.41, 40, 2039.0, 80 * _GIB,
        vector=_AMPERE_VECTOR, matrix=_AMPERE_MATRIX, block_shared=166912, sources="X; peaks: V",
        doubts=("bandwidth: XLA has 2039, the vendor 1935 (from memory); the larger is taken",
                "clock: XLA has 1.11 GHz; the vendor's peaks are those of 1.41 GHz"),
    ),
    _nvidia(
        "l4", "NVIDIA L4 24 GB", 58, 2.04, 48, 300, 24 * _GIB,
        vector="f64 0.47 | f32 30.3 | f16 30.3 | bf16 30.3 | s32 15.1",
        matrix="tf32 60 | f16 121 | bf16 121 | f8 242 | s8 242 | s4 484",
        threads=1536, block_shared=101376, sources="C; bandwidth, peaks: V as Lightning has them",
        doubts=("clock: from memory",),
    ),
    _nvidia(
        "l40s", "NVIDIA L40S 48 GB", 142, 2.52, 96, 864, 48 * _GIB,
        vector="f64 1.4 | f32 91.6 | f16 91.6 | bf16 91.6 | s32 45.8",
        matrix="tf32 183 | f16 362 | bf16 362 | f8 733 | s8 733 | s4 733",
        threads=1536, block_shared=101376, sources="C; V?",
        doubts=("all figures: the vendor's, from memory",),
    ),
    _nvidia(
        "h100", "NVIDIA H100 SXM5 80 GB", 132, 1.98, 50, 3352.32, 80 * _GIB,
        vector=_HOPPER_VECTOR, matrix=_HOPPER_MATRIX, sources="X; peaks: V, within 0.1 % of X",
    ),
    _nvidia(
        "h100_pcie", "NVIDIA H100 PCIe 80 GB", 114, 1.755, 50, 2039.04, 80 * _GIB,
        vector="f64 25.6 | f32 51.2 | f16 102.4 | bf16 102.4 | s32 25.6",
        matrix="f64 51.2 | tf32 378.6 | f16 757.2 | bf16 757.2 | f8 1514.4 | s8 1514.4",
        sources="X",
    ),
    _nvidia(
        "h200", "NVIDIA H200 SXM 141 GB", 132, 1.98, 50, 4800, 141 * _GIB,
        vector=_HOPPER_VECTOR, matrix=_HOPPER_MATRIX, sources="X; peaks: V",
    ),
    _nvidia(
        "b200", "NVIDIA B200 192 GB", 148, 1.965, 126.5, 8000, 191514411008,
        vector="f64 37.2 | f32 75 | f16 150 | bf16 150 | s32 75",
        matrix="f64 37.2 | tf32 1125 | f16 2250 | bf16 2250 | f8 4500 | s8 4500 | f4 9000",
        shared_kib=128, vector_bits=256, sources="X; bandwidth, peaks: V? (X: 1 % lower)",
        doubts=("bandwidth: XLA's description has 7672, its tests 8796 (above the vendor's 8000)",
                _BLACKWELL_VECTORS),
    ),
    _nvidia(
        "gb200", "NVIDIA GB200 (one GPU)", 152, 2.062, 129.25, 8000, 192 * _GIB,
        vector="f64 40.1 | f32 80.2 | f16 160.4 | bf16 160.4 | s32 80.2",
        matrix="f64 40.1 | tf32 1250 | f16 2500 | bf16 2500 | f8 5000 | s8 5000 | f4 10000",
        vector_bits=256, sources="X; bandwidth, matrix: V?",
        doubts=("bandwidth and matrix peaks: the vendor's, from memory, up to 4 % above XLA's",
                _BLACKWELL_VECTORS),
    ),
    _nvidia(
        "b300", "NVIDIA B300", 158, 1.965, 129.25, 8000, 297021865984,
        vector="f64 39.7 | f32 79.5 | f16 159 | bf16 159 | s32 79.5",
        matrix="f64 39.7 | tf32 1187.8 | f16 2375.5 | bf16 2375.5 | f8 4751 | s8 4751 | f4 15000",
        vector_bits=256, special=32, sources="X; bandwidth, f4: V?",
        doubts=("f4: XLA has 9502, the vendor 15000 (from memory); the larger is taken",
                "s8 and f64 on matrix units: XLA's; the vendor's are far lower (from memory)",
                _BLACKWELL_VECTORS),
    ),
    _nvidia(
        "gb300", "NVIDIA GB300 (one GPU)", 152, 2.07, 129.25, 8000, 288 * _GIB,
        vector="f64 40.3 | f32 80.5 | f16 161 | bf16 161 | s32 80.5",
        matrix="f64 40.3 | tf32 1250 | f16 2500 | bf16 2500 | f8 5000 | s8 5000 | f4 15000",
        vector_bits=256, special=32, sources="X; bandwidth, matrix: V?",
        doubts=("bandwidth and matrix peaks: the vendor's, from memory",
                "s8 and f64 on matrix units: XLA's; the vendor's are far lower (from memory)",
                _BLACKWELL_VECTORS),
    ),
    _nvidia(
        "rtx6000pro", "NVIDIA RTX PRO 6000 Blackwell 96 GB", 188, 2.6, 128, 1792, 103079215104,
        vector="f32 125.1 | f16 125.1 | bf16 125.1 | s32 125.1", threads=1536, block_shared=101376,
        vector_bits=256, sources="X",
        doubts=("no source for the matrix units: their work is left out of bounds",),
    ),
    # --- AMD, by age
    _amd(
        "mi210", "AMD Instinct MI210 64 GB", 104, 1.7, 8, 1638.4, 64 * _GIB,
        vector="f64 22.6 | f32 22.6", matrix="f64 45.3 | f32 45.3 | f16 181 | bf16 181 | s8 181",
        sources="X; peaks: V?", doubts=("peaks: the vendor's, from memory",),
    ),
    _amd(
        "mi250x", "AMD Instinct MI250X (one of two dies)", 110, 1.7, 8, 1638.4, 64 * _GIB,
        vector="f64 23.95 | f32 23.95",
        matrix="f64 47.9 | f32 47.9 | f16 191.5 | bf16 191.5 | s8 191.5",
        sources="X; peaks: P, half of those of the product",
    ),
    _amd(
        "mi300x", "AMD Instinct MI300X 192 GB", 304, 2.1, 256, 5325, 192 * _GIB,
        vector=_MI300_VECTOR, matrix=_MI300_MATRIX, transaction=128,
        sources="X; bandwidth: V; peaks: P, V; l2: V, shared by all dies (4 MiB a die before it)",
        doubts=("bandwidth: XLA's 6810 is above the vendor's 5325 and is not taken",),
    ),
    _amd(
        "mi325x", "AMD Instinct MI325X 256 GB", 304, 2.1, 256, 6000, 256 * _GIB,
        vector=_MI300_VECTOR, matrix=_MI300_MATRIX, transaction=128,
        sources="as MI300X; bandwidth: T",
    ),
    _amd(
        "mi350", "AMD Instinct MI350X 288 GB", 256, 2.2, 256, 8000, 288 * _GIB,
        vector="f64 72.1 | f32 144.2",
        matrix="f64 72.1 | f16 2306.9 | bf16 2306.9 | f8 4613.7 | s8 4613.7 | f4 9227.4",
        shared=163840, transaction=128, sources="X; bandwidth: V (X: 7782); peaks: P",
        doubts=("f4: twice f8, from memory",),
    ),
    _amd(
        "r9700", "AMD Radeon AI PRO R9700 32 GB", 64, 2.92, 64, 640, 32 * _GIB,
        vector="f32 47.8 | f16 95.7",
        matrix="f16 191.4 | bf16 191.4 | f8 382.7 | s8 382.7 | s4 765.5",
        warp=32, threads=1024, registers=98304, sources="A; V?",
        doubts=("all figures but LDS and registers: the vendor's, from memory",
                "XLA has no description of it"),
    ),
    # --- TPU, a chip each
    _tpu(
        "tpu_v4", "Google TPU v4 (a chip)", 2, 1230, 32 * _GIB, matrix="bf16 275 | s8 275",
        sources="bandwidth: J (G: 1228); peaks: G",
    ),
    _tpu(
        "tpu_v5e", "Google TPU v5e (a chip)", 1, 819, 16 * _GIB, matrix="bf16 197 | s8 393",
        sources="G",
    ),
    _tpu(
        "tpu_v5p", "Google TPU v5p (a chip)", 2, 2765, 95 * _GIB, matrix="bf16 459 | s8 918",
        sources="G", doubts=("bandwidth: jax has 2460; the larger is taken",),
    ),
    _tpu(
        "tpu_v6e", "Google TPU v6e (a chip)", 1, 1638, 32 * _GIB, matrix="bf16 918 | s8 1836",
        sources="G",
    ),
    _tpu(
        "tpu_7x", "Google TPU7x (a chip)", 2, 7400, 192 * _GIB, matrix="bf16 2307 | f8 4614",
        sources="bandwidth: J (G: 7380); peaks: G",
    ),
    Device(
        "cpu", "A CPU: no figures", "cpu",
        sources="none: no table of CPUs can be right; describe yours in a file",
    ),
)  # fmt: skip

ALL_DEVICES: Final = {row.name: row for row in _ROWS}
"""Every device by name, including those without warps."""
