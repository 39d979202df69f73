"""Tilings of an instruction: XLA's analysis, the elements that tiles read, and the best sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from hloscope.api.explaining import explains_invalid_program
from hloscope.devices import Limits, limits_of
from hloscope.display import Shown, tiles_html, tiles_json, tiles_svg, tiles_text
from hloscope.errors import UnsupportedError
from hloscope.ir import Module
from hloscope.lazy import lazy
from hloscope.tiling import (
    OperandTiles,
    Ranking,
    Refusal,
    ScheduleName,
    SymbolicTiles,
    TiledComputation,
    TileReport,
    search,
    tile_report,
)
from hloscope.visible import visible

if TYPE_CHECKING:
    import hloscope.api.tile_costs as tile_costs
    import hloscope.display as display
    from hloscope.api.tile_costs import TileCosts
    from hloscope.api.views import InstructionView
else:
    display = lazy("hloscope.display")
    tile_costs = lazy("hloscope.api.tile_costs")


def asked_tiles(
    view: InstructionView, sizes: Sequence[int] | None, schedule: ScheduleName
) -> Tiles:
    """The tilings of an instruction."""
    program = view.program
    with program.lock:
        by_convention = program.by_convention("xla").analysis
        report = tile_report(view.ir, program.analysis, by_convention, sizes, schedule=schedule)
    return Tiles(view, report)


def _names(symbolic: SymbolicTiles) -> set[str]:
    """Names of the tile sizes in constraints: `d0`, `d1` and so on."""
    return set(re.findall(r"\bd\d+\b", str(symbolic.constraints)))


class Tiles(Shown):
    """The tilings of an instruction; prints itself, also in notebooks.

    >>> import hloscope
    >>> program = hloscope.read("f { p = f32[8,6] parameter(0) ROOT r = f32[48] reshape(p) } "
    ...                         "ENTRY e { a = f32[8,6] parameter(0) "
    ...                         "ROOT x = f32[48] fusion(a), kind=kLoop, calls=f }")
    >>> print(program.root.tiles([12]).operands[0].exact.shape.sizes)
    (2, 6)
    >>> print(program.root.tiles([8]).refusal)
    INVALID_ARGUMENT: tile sizes (8,) do not fulfil 6 mod d0 in [0, 0] || d0 mod 6 in [0, 0]
    """

    def __init__(self, view: InstructionView, report: TileReport) -> None:
        self.view: Final = view
        self.report: Final = report

    @property
    def asked_module(self) -> Module:
        """The module that the queries are about."""
        return self.view.program.module

    @property
    def while_asked(self) -> AbstractContextManager[Any]:
        """The program's lock: held while a query uses the caches of its analysis."""
        return self.view.program.lock

    @property
    def symbolic(self) -> SymbolicTiles | Refusal:
        """XLA's symbolic tiles, or the reason why XLA has none."""
        return self.report.symbolic

    @property
    def tiled(self) -> TiledComputation | Refusal | None:
        """The tiles of the given sizes, or the reason why XLA has none.

        `None` if no sizes were given.
        """
        return self.report.tiled

    @property
    def refusal(self) -> Refusal | None:
        """The reason why XLA does not tile the instruction with these sizes; `None` if it does."""
        return self.report.refusal

    @property
    def operands(self) -> tuple[OperandTiles, ...]:
        """The elements that the tiles read of each operand, exactly."""
        return self.report.operands

    @explains_invalid_program
    def search(
        self,
        *,
        device: str = "h100",
        budget: Limits | None = None,
        top: int = 10,
        stages: int = 1,
    ) -> Tiles:
        """Add the best tilings that a device can run, ordered by the bytes that they move.

        Args:
            device: The GPU whose shared memory and registers are the limits.
            budget: Limits to use instead of the device's.
            top: Most tilings in the result.
            stages: Pipeline stages of loops.

        Raises:
            UnknownNameError: There is no such device.
        """
        limits = budget or limits_of(device)
        if isinstance(self.symbolic, Refusal):
            return self
        own = self.report.own_sizes
        found: Ranking = search(self.symbolic, limits, top=top, stages=stages, own=own)
        return Tiles(self.view, replace(self.report, ranking=found))

    @explains_invalid_program
    def costs(self, *, device: str = "h100", stages: int = 1) -> TileCosts:
        """The costs of every candidate tiling.

        Candidate sizes are powers of two and whole dimensions.

        Args:
            device: The GPU whose shared memory and registers decide which tilings fit.
            stages: Pipeline stages of loops.

        Raises:
            UnknownNameError: There is no such device.
            UnsupportedError: XLA has no symbolic tiles; or a size does not fit into 64 bits.
        """
        return tile_costs.TileCosts(self._needed_symbolic(), device, stages)

    @explains_invalid_program
    def plot(self, ax: Any = None, *, x: int | None = None, y: int | None = None) -> Any:
        """A plot of the tile sizes that XLA's constraints allow, over two of the sizes.

        Args:
            ax: Axes of matplotlib to draw into; a new figure if not given.
            x: Number of the parameter across.  By default `x` and `y` are sizes that occur in
                constraints, or else the last two.
            y: Number of the parameter upwards.

        Returns:
            The axes.  Other parameters have the given tile sizes, or else 1.

        Raises:
            InputError: matplotlib is not installed.
            UnsupportedError: XLA has no symbolic tiles, or there are fewer than two sizes.
            UnknownNameError: There is no such parameter.
        """
        symbolic = self._needed_symbolic()
        named = [k for k in range(len(symbolic.parameters)) if f"d{k}" in _names(symbolic)]
        chosen = tile_costs.two_parameters(symbolic, x, y, named)
        others = self.report.sizes or (1,) * len(symbolic.parameters)
        return display.plot_allowed_sizes(symbolic, chosen, others, ax)

    def _needed_symbolic(self) -> SymbolicTiles:
        if isinstance(self.symbolic, Refusal):
            raise UnsupportedError(f"no symbolic tiles: {self.symbolic}")
        return self.symbolic

    @explains_invalid_program
    def to_json(self) -> dict[str, Any]:
        """The answer as an object of schema `hloscope.tile/1`."""
        return tiles_json(self.report, self.view.program.file)

    @explains_invalid_program
    def to_svg(self) -> str:
        """A picture of an output tile and the elements that it reads: holes, overlaps, the edge."""
        return tiles_svg(self.report)

    @explains_invalid_program
    def to_html(self) -> str:
        """A page with the picture and the text; needs nothing from elsewhere."""
        return tiles_html(self.report)

    @explains_invalid_program
    def __str__(self) -> str:
        return visible(tiles_text(self.report))

    __repr__ = __str__

    @explains_invalid_program
    def _repr_html_(self) -> str:
        return tiles_html(self.report, whole=False)
