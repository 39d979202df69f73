"""Answers about coalescing: verdicts and figures for each array of a kernel."""

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
    """One way in which the threads touch an array.

    Attributes:
        maps: From threads to addresses, in elements; several where a thread touches an element on
            this condition or on that.
        traffic: What its requests move; `None` if only XLA's verdicts were asked for.
        spoiler: What spoils its worst request.
    """

    maps: tuple[IndexingMap, ...]
    traffic: Traffic | None
    spoiler: Spoiler | None


class ArrayUse(Struct, frozen=True):
    """How an array is read or written.

    Attributes:
        number: Of the operand or output.
        leaf: Which array of an operand that is a tuple.
        name: The operand's name; of an output the root's.
        type: Of the array.
        touches: The ways in which it is touched; none if it is not.
        traffic: What is moved as LLVM compiles the kernel; `None` if it is not known, or was not
            asked for.
        touched: The part that is touched at all.
        by_map: XLA's map verdict; `None` of outputs, which it does not judge.
        reason: Why it is not exact, or not known.
        tile: How a tile of it is read, by a block-level kernel.
        is_output: Is it written?
        emitted: The ways in which it is touched as XLA emits the kernel; `None` where these move
            the same.
        change: Why the two differ.
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
        """The ways in which it is touched as XLA emits the kernel."""
        return self.touches if self.emitted is None else self.emitted

    @property
    def emitted_traffic(self) -> Traffic | None:
        """What is moved as XLA emits the kernel; `None` where that is the same, or not known."""
        if self.emitted is None:
            return None
        return together([t.traffic for t in self.emitted if t.traffic is not None])

    @property
    def spoiler(self) -> Spoiler | None:
        """What spoils the worst of it."""
        found = [t for t in self.touches if t.spoiler and t.traffic]
        return max(found, key=_wasted).spoiler if found else None

    @property
    def precision(self) -> str:
        """`exact`, `sampled`, `bounds` or `unknown`."""
        return self.traffic.precision if self.traffic is not None else UNKNOWN

    @property
    def asked(self) -> int | None:
        """Bytes asked for, by lanes or by tiles; `None` if they are not known."""
        moving = self._moving
        return None if moving is None else moving.asked

    @property
    def moved(self) -> int | None:
        """Bytes moved, in sectors by lanes or in transactions by tiles; `None` if not known."""
        moving = self._moving
        return None if moving is None else moving.moved

    @property
    def wasted(self) -> int:
        """Bytes moved beyond those that as many bytes side by side take; 0 if not known."""
        moving = self._moving
        return 0 if moving is None else moving.wasted

    @property
    def _moving(self) -> Traffic | TileUse | None:
        if self.traffic is not None:
            return self.traffic
        return self.tile if self.tile is not None and self.tile.moved else None

    @property
    def is_unknown(self) -> bool:
        """Is what is moved not known, though it was asked for?"""
        return self.traffic is None and self.tile is None and not self.touches

    @property
    def efficiency(self) -> float | None:
        """Sectors needed over sectors moved; of a tile its utilisation; `None`: not known."""
        if self.tile is not None:
            return self.tile.utilisation
        if self.traffic is None or not self.traffic.requests:
            return None
        return self.traffic.efficiency


def _wasted(touch: Touch) -> int:
    return touch.traffic.wasted if touch.traffic else 0


class Coalescing(Struct, frozen=True):
    """The answer for one kernel.

    Attributes:
        name: Of the fusion.
        kernel: How it is made.
        device: Where.
        by_heuristic: XLA's heuristic, one verdict for all that is read.
        operands: What is read.
        outputs: What is written.
        banks: Conflicts in shared memory.
        notes: What was assumed, or is stated by the dump folder.
        findings: Where the dump folder states something else than the model; empty if the program
            was not read from one.
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
        """Operands and outputs."""
        return self.operands + self.outputs

    @property
    def model(self) -> str:
        """The model that the answer was computed under."""
        launch = f", {self.kernel.launch}" if self.kernel.launch else ""
        unroll = f", {self.kernel.unroll} elements a thread" if self.kernel.unroll > 1 else ""
        return f"{self.device.name}: {self.kernel.emitter}{launch}{unroll} (rules of {AS_OF})"

    @property
    def wasted(self) -> int:
        """Bytes moved that nobody asked for."""
        return sum([a.wasted for a in self.arrays])

    @property
    def utilisation(self) -> float:
        """Share of the bytes moved that was asked for, over all arrays."""
        moved = sum([a.moved or 0 for a in self.arrays])
        return sum([a.asked or 0 for a in self.arrays]) / moved if moved else 1.0

    @property
    def lowest(self) -> float:
        """The lowest efficiency of an array that moves something."""
        return min([a.efficiency for a in self.arrays if a.efficiency is not None], default=1.0)
