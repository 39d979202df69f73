"""Advice that is proved to save bytes, and ratings of Triton fusions."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.cost.footprints import Footprints
from hloscope.errors import HloscopeError
from hloscope.fusion import Analysis
from hloscope.ir import Computation, Instruction
from hloscope.memory import XlaKernels, made_once
from hloscope.support.devices import DEFAULT, LIMITS, Device
from hloscope.tiling import (
    MOST_CUT,
    Choice,
    ChosenTiles,
    Refusal,
    TileTraffic,
    chosen_sizes,
    chosen_tiles,
    fusion_kind,
    search,
    tile_traffics,
    tiles_of,
)

# --------------------------------------------------------------------------------------------------
# Advice: changes of a program that are proved to save bytes.


class AdviceKind(StrEnum):
    """Kinds of advised changes."""

    CANCELS = "movement that cancels"
    DUPLICATE = "duplicate movement"
    INVARIANT = "loop-invariant movement"
    TILE = "tile"
    PADDING = "padding"
    DONATION = "donation"


class Level(StrEnum):
    """Levels of memory at which the bytes of an advice count."""

    MOVED = "read and written"
    """Bytes that kernels must read and write at least."""
    TRANSFERRED = "transferred by L2"
    """Bytes of the transactions of all threads and tiles."""
    ARRAYS = "of all arrays"
    """Bytes of memory of all arrays, padding included."""
    BOUNDARY = "of arguments and results"
    """Bytes of memory of the program's arguments and results."""

    @property
    def is_memory(self) -> bool:
        """Does the level count memory that arrays occupy, instead of bytes moved?"""
        return self in (Level.ARRAYS, Level.BOUNDARY)


class Advice(Struct, frozen=True):
    """A change of a program that is proved to save bytes.

    Attributes:
        kind: Kind of the change.
        text: The change and its savings, in words.
        bytes_saved: Minimum bytes saved in one run of the program.
        whole: Bytes of the whole program at this level, in one run.
        level: Level of memory at which the bytes count.
        instruction: The instruction to change; the one that saves most if there are several.
        computation: The computation of the instruction.
        members: All instructions to change, the one that saves most first.
        runs: Total number of runs of the members.
        command: The command that shows the proof.
    """

    kind: AdviceKind
    text: str
    bytes_saved: int
    whole: int
    level: Level
    instruction: Instruction
    computation: Computation
    members: tuple[Instruction, ...]
    runs: int
    command: str

    @property
    def share(self) -> float:
        """Return the saved bytes over all bytes of the program at the advice's memory level.

        The result is 0 if the program has none.
        """
        return self.bytes_saved / self.whole if self.whole else 0.0


# --------------------------------------------------------------------------------------------------
# Rating of Triton fusions: fewest bytes, bytes as compiled, and those of the best tiling.


EXACT: Final = "exact"
ESTIMATED: Final = "estimated"
UNKNOWN: Final = "unknown"
TRITON: Final = "__triton"
SEARCHED: Final = 1 << 12
"""Maximum number of tilings searched for one kernel; beyond it sizes are left out evenly."""


class TritonUse(Struct, frozen=True):
    """Bytes that a Triton fusion transfers in one run, compared with other tilings.

    The bytes as compiled are those that tiles request of L2: whole transactions of each tile, and a
    tile that many programs read counts for each of them. The figure does not include how much of
    them L2 serves.

    Attributes:
        name: Name of the fusion, or of an equal one.
        chosen: The tiling in the dump; `None` if it has none.
        sizes: Sizes of the chosen tiling, one for each tile parameter; empty if unknown.
        least: Fewest bytes read and written, each byte counted once.
        least_precision: `exact`, or `estimated` if `least` is only an upper bound of these bytes.
        compiled: Bytes of the transactions of all tiles of `sizes`; `None` if unknown.
        asked: Bytes of the elements of these tiles; `None` if unknown.
        arrays: Traffic of each array, operands before outputs.
        precision: Precision of `compiled`: `exact`, `estimated` or `unknown`.
        best: The tiling with the fewest bytes that was found; `None` if none was found.
        best_arrays: Traffic of each array by the best tiling.
        rank: One more than the number of tilings with fewer bytes; `None` if unknown.
        among: Number of tilings compared: those that XLA accepts and the device can run.
        searched: Number of candidates searched: powers of two and whole dimensions.
        is_thinned: Were some candidates left out?
        reason: Why a figure is unknown or not exact; empty if all figures are exact.
    """

    name: str
    chosen: ChosenTiles | None
    sizes: tuple[int, ...]
    least: int
    least_precision: str
    compiled: int | None = None
    asked: int | None = None
    arrays: tuple[TileTraffic, ...] = ()
    precision: str = UNKNOWN
    best: Choice | None = None
    best_arrays: tuple[TileTraffic, ...] = ()
    rank: int | None = None
    among: int = 0
    searched: int = 0
    is_thinned: bool = False
    reason: str = ""

    @property
    def utilisation(self) -> float | None:
        """Return the tile elements' bytes over their transactions' bytes; `None` if unknown."""
        return None if not self.compiled or self.asked is None else self.asked / self.compiled

    @property
    def is_rated(self) -> bool:
        """Are the compiled tiling's bytes and its rank among all tilings known?"""
        return self.compiled is not None and self.rank is not None

    @property
    def saved(self) -> int:
        """Return a lower bound of the bytes that the best tiling saves in one run; 0 if unproved.

        Tiles of an array may begin anywhere within a transaction. The compiled tiling therefore
        counts its fewest possible transactions, the best one its most.
        """
        if self.compiled is None or self.best is None or len(self.sizes) > MOST_CUT:
            return 0
        fewest = [array.at_least for array in self.arrays]
        most = [array.at_most for array in self.best_arrays]
        known = [n for n in (*fewest, *most) if n is not None]
        if not most or len(known) < len(fewest) + len(most):
            return 0
        return max(sum(known[: len(fewest)]) - sum(known[len(fewest) :]), 0)


class TritonRatings:
    """Ratings of the Triton fusions of one program. Equal kernels are rated once."""

    def __init__(
        self, analysis: Analysis, device: Device, kernels: XlaKernels | None = None
    ) -> None:
        """Create the ratings for a program on a device.

        Args:
            analysis: Indexing analysis of the program.
            device: The device.
            kernels: Models of the program's kernels, if they exist already.
        """
        self._device: Final = device
        self._kernels: Final = kernels or XlaKernels(analysis, device)
        self._footprints: Final = Footprints(analysis, device, self._kernels)
        self._known: Final[dict[object, TritonUse]] = {}

    def of(self, ins: Instruction) -> TritonUse:
        """Return the rating of a Triton fusion.

        Equal kernels share one rating, whose name may be that of an equal fusion.
        """
        # A rating searches thousands of tilings.
        return made_once(self._known, self._kernels.key(ins), lambda: self._of(ins))

    def _of(self, ins: Instruction) -> TritonUse:
        footprint = self._footprints.of_equal(ins)
        chosen = chosen_tiles(ins)
        precision = EXACT if footprint.is_exact else ESTIMATED
        least = TritonUse(ins.name, chosen, (), footprint.bytes, precision)
        try:
            return self._rated(ins, chosen, least)
        except HloscopeError as error:
            return replace(least, reason=error.message)

    def _rated(self, ins: Instruction, chosen: ChosenTiles | None, least: TritonUse) -> TritonUse:
        """Return the rating with the best tiling of all and the rank of the fusion's own."""
        symbolic = tiles_of(ins)
        if isinstance(symbolic, Refusal):
            return replace(least, reason=f"XLA's tiling refuses it: {symbolic.reason}")
        use, sizes, reason = least, None, "the dump holds no tile sizes"
        if chosen is not None:
            own = chosen_sizes(symbolic, chosen)
            sizes, reason = (None, own) if isinstance(own, str) else (own, "")
        if sizes is not None:
            arrays = tile_traffics(symbolic, sizes, self._device.transaction)
            reasons = dict.fromkeys([a.reason for a in arrays if a.reason])
            reason = "; ".join(reasons)
            use = replace(
                least,
                sizes=sizes,
                compiled=sum([a.moved for a in arrays]),
                asked=sum([a.asked for a in arrays]),
                arrays=tuple(arrays),
                precision=ESTIMATED if reasons else EXACT,
            )
        limits = LIMITS.get(self._device.name, LIMITS[DEFAULT])
        stages = max(chosen.stages, 1) if chosen is not None else 1
        found = search(symbolic, limits, top=1, budget=SEARCHED, stages=stages, own=sizes)
        standing = found.standing
        best = found.best[0] if found.best else None
        moving = tile_traffics(symbolic, best.sizes, self._device.transaction) if best else ()
        return replace(
            use,
            best=best,
            best_arrays=tuple(moving),
            rank=None if standing is None else standing.rank,
            among=found.fitting if standing is None else standing.among,
            searched=found.looked_at,
            is_thinned=found.is_thinned,
            reason=reason,
        )


def is_triton(ins: Instruction) -> bool:
    """Is the instruction a fusion that Triton compiles, by its backend config?"""
    return fusion_kind(ins).startswith(TRITON)


def triton_rating(analysis: Analysis, ins: Instruction, device: Device) -> TritonUse:
    """Return the rating of one Triton fusion; for many of a program, use `TritonRatings`.

    Args:
        analysis: The indexing analysis of the program.
        ins: The fusion.
        device: The device, for the size of a transaction and the limits of a block.
    """
    return TritonRatings(analysis, device).of(ins)
