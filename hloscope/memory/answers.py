"""Results of the coalescing analysis: verdicts and figures for each array of a kernel."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hloscope.devices import AS_OF, Device
from hloscope.indexing import IndexingMap
from hloscope.ir import TensorType
from hloscope.memory.banks import BankUse
from hloscope.memory.kernel import Kernel
from hloscope.memory.spoil import Spoiler
from hloscope.memory.tile_use import TileUse
from hloscope.memory.touched import Touched
from hloscope.memory.traffic import Traffic, together

UNKNOWN: Final = "unknown"


class Touch(Struct, frozen=True):
    """One set of accesses of an array by the threads of a kernel.

    Attributes:
        maps: Maps from threads to addresses, in elements; several if a thread accesses an element
            under either of several conditions.
        traffic: Sectors and bytes of the requests; `None` if only XLA's verdicts were requested.
        spoiler: The cause of unused sectors in its worst request.
    """

    maps: tuple[IndexingMap, ...]
    traffic: Traffic | None
    spoiler: Spoiler | None


class ArrayUse(Struct, frozen=True):
    """Accesses, traffic and verdicts of one array that a kernel reads or writes.

    Attributes:
        number: Number of the operand or output.
        leaf: Number of the array in an operand that is a tuple.
        name: Name of the operand; for an output, name of the root.
        type: Type of the array.
        touches: The accesses as LLVM compiles the kernel; empty if the array is not accessed.
        traffic: Their traffic; `None` if it is unknown or was not requested.
        touched: Distinct elements, bytes and sectors that are accessed.
        by_map: XLA's map verdict; `None` for outputs, which XLA does not judge.
        reason: Why the figures are not exact, or unknown.
        tile: Use of transactions by a tile, in a block-level kernel.
        is_output: Is the array written?
        emitted: The accesses as XLA emits the kernel; `None` if their traffic is the same.
        change: Why the compiled and the emitted accesses differ.
    """

    number: int
    leaf: int
    name: str
    type: TensorType
    touches: tuple[Touch, ...]
    traffic: Traffic | None
    touched: Touched
    by_map: bool | None
    reason: str = ""
    tile: TileUse | None = None
    is_output: bool = False
    emitted: tuple[Touch, ...] | None = None
    change: str = ""

    @property
    def as_emitted(self) -> tuple[Touch, ...]:
        """Return the accesses of the array as XLA emits the kernel."""
        return self.touches if self.emitted is None else self.emitted

    @property
    def emitted_traffic(self) -> Traffic | None:
        """Return the traffic as XLA emits the kernel.

        `None` if it is unknown or equals `traffic`.
        """
        if self.emitted is None:
            return None
        return together([t.traffic for t in self.emitted if t.traffic is not None])

    @property
    def spoiler(self) -> Spoiler | None:
        """Return the cause of unused sectors of the most wasteful access; `None` without one."""
        found = [t for t in self.touches if t.spoiler and t.traffic]
        return max(found, key=_wasted).spoiler if found else None

    @property
    def precision(self) -> str:
        """Return `exact`, `sampled`, `bounds` or `unknown`."""
        return self.traffic.precision if self.traffic is not None else UNKNOWN

    @property
    def asked(self) -> int | None:
        """Return the bytes that lanes or tiles request; `None` if they are unknown."""
        moving = self._moving
        return None if moving is None else moving.asked

    @property
    def moved(self) -> int | None:
        """Return the bytes transferred: sectors of requests or transactions of tiles.

        `None` if they are unknown.
        """
        moving = self._moving
        return None if moving is None else moving.moved

    @property
    def wasted(self) -> int:
        """Return the bytes transferred beyond what contiguous accesses need; 0 if unknown."""
        moving = self._moving
        return 0 if moving is None else moving.wasted

    @property
    def _moving(self) -> Traffic | TileUse | None:
        if self.traffic is not None:
            return self.traffic
        return self.tile if self.tile is not None and self.tile.moved else None

    @property
    def is_unknown(self) -> bool:
        """Is the traffic unknown, although it was requested?"""
        return self.traffic is None and self.tile is None and not self.touches

    @property
    def efficiency(self) -> float | None:
        """Return needed over transferred sectors, or a tile's utilisation; `None` if unknown."""
        if self.tile is not None:
            return self.tile.utilisation
        if self.traffic is None or not self.traffic.requests:
            return None
        return self.traffic.efficiency


def _wasted(touch: Touch) -> int:
    return touch.traffic.wasted if touch.traffic else 0


class Coalescing(Struct, frozen=True):
    """The coalescing result of one kernel.

    Attributes:
        name: Name of the fusion.
        kernel: Emitter, launch and thread maps.
        device: The device that it runs on.
        by_heuristic: XLA's heuristic: one verdict for all arrays that are read.
        operands: The arrays that are read.
        outputs: The arrays that are written.
        banks: Bank conflicts of accesses to shared memory.
        notes: Assumptions, and facts that the dump folder states.
        findings: Differences between the dump folder and the model; empty if the program was not
            read from a dump folder.
    """

    name: str
    kernel: Kernel
    device: Device
    by_heuristic: bool
    operands: tuple[ArrayUse, ...]
    outputs: tuple[ArrayUse, ...]
    banks: tuple[BankUse, ...] = ()
    notes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def arrays(self) -> tuple[ArrayUse, ...]:
        """Return the operands followed by the outputs."""
        return self.operands + self.outputs

    @property
    def model(self) -> str:
        """Return a line with the device, the emitter, the launch and the rules' version."""
        launch = f", {self.kernel.launch}" if self.kernel.launch else ""
        unroll = f", {self.kernel.unroll} elements a thread" if self.kernel.unroll > 1 else ""
        return f"{self.device.name}: {self.kernel.emitter}{launch}{unroll} (rules of {AS_OF})"

    @property
    def wasted(self) -> int:
        """Return the wasted bytes of all arrays: see `ArrayUse.wasted`."""
        return sum([a.wasted for a in self.arrays])

    @property
    def utilisation(self) -> float:
        """Return requested over transferred bytes of all arrays; 1 if nothing is transferred."""
        moved = sum([a.moved or 0 for a in self.arrays])
        return sum([a.asked or 0 for a in self.arrays]) / moved if moved else 1.0

    @property
    def lowest(self) -> float:
        """Return the lowest efficiency of the arrays; 1 if none has a known efficiency."""
        return min([a.efficiency for a in self.arrays if a.efficiency is not None], default=1.0)
