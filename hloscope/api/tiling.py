"""Tilings of an instruction or kernel: tiles, tiling spaces, and the best sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from hloscope.api.invalid import explains_invalid_program
from hloscope.display import (
    Columns,
    Shown,
    Table,
    Tabular,
    kernel_json,
    kernel_text,
    table_text,
    tiles_html,
    tiles_json,
    tiles_svg,
    tiles_text,
)
from hloscope.errors import UnknownNameError, UnsupportedError
from hloscope.ir import Instruction, Module, size_text
from hloscope.support.devices import Limits, limits_of
from hloscope.support.lazy import lazy
from hloscope.support.source import visible
from hloscope.tiling import (
    Choice,
    Fused,
    OperandTiles,
    Ranking,
    Refusal,
    Roots,
    ScheduleName,
    SymbolicTiles,
    TiledComputation,
    TiledKernel,
    TileReport,
    TilingSpace,
    search,
    sweep_candidates,
    tile_report,
    tiled_kernel,
    transaction_of,
)

if TYPE_CHECKING:
    import hloscope.display as display
    from hloscope.api.views import InstructionView
else:
    display = lazy("hloscope.display")


# --------------------------------------------------------------------------------------------------
# Tilings of an instruction: XLA's analysis, the elements that tiles read, and the best sizes.


def tiles_of_view(
    view: InstructionView, sizes: Sequence[int] | None, schedule: ScheduleName
) -> Tiles:
    """Return the tilings of an instruction.

    Args:
        view: The instruction.
        sizes: Tile sizes; `None` for XLA's symbolic tiles only.
        schedule: The order in which Triton programs take the tiles.
    """
    program = view.program
    with program.lock:
        by_convention = program.by_convention("xla").analysis
        report = tile_report(view.ir, program.analysis, by_convention, sizes, schedule=schedule)
    return Tiles(view, report)


def _names(symbolic: SymbolicTiles) -> set[str]:
    """Return the names of the tile sizes that occur in constraints: `d0`, `d1` and so on."""
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
        """Return the module to verify if a query fails; see `explains_invalid_program`."""
        return self.view.program.module

    @property
    def while_asked(self) -> AbstractContextManager[Any]:
        """Return the program's lock, which a query holds while it uses the analysis."""
        return self.view.program.lock

    @property
    def symbolic(self) -> SymbolicTiles | Refusal:
        """Return XLA's symbolic tiles, or the reason why XLA does not tile the instruction."""
        return self.report.symbolic

    @property
    def tiled(self) -> TiledComputation | Refusal | None:
        """Return the tiles for the given sizes, or the reason why XLA does not tile with them.

        `None` if no sizes were given.
        """
        return self.report.tiled

    @property
    def refusal(self) -> Refusal | None:
        """Return why XLA does not tile the instruction with these sizes; `None` if it does."""
        return self.report.refusal

    @property
    def operands(self) -> tuple[OperandTiles, ...]:
        """Return, for each operand, exactly which elements the tiles read."""
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
        """Return this result with the best tilings that a device can run, fewest bytes moved first.

        Args:
            device: Name of the GPU whose shared memory and registers are the limits.
            budget: Limits that replace the device's.
            top: Maximum number of tilings in the result.
            stages: Number of pipeline stages of loops.

        Raises:
            UnknownNameError: The device is unknown.
        """
        limits = budget or limits_of(device)
        if isinstance(self.symbolic, Refusal):
            return self
        own = self.report.own_sizes
        found: Ranking = search(self.symbolic, limits, top=top, stages=stages, own=own)
        return Tiles(self.view, replace(self.report, ranking=found))

    @explains_invalid_program
    def costs(self, *, device: str = "h100", stages: int = 1) -> TileCosts:
        """Return the costs of every candidate tiling.

        Candidate sizes are powers of two and whole dimensions.

        Args:
            device: Name of the GPU whose shared memory and registers decide which tilings fit.
            stages: Number of pipeline stages of loops.

        Raises:
            UnknownNameError: The device is unknown.
            UnsupportedError: XLA has no symbolic tiles, or a size does not fit into 64 bits.
        """
        return TileCosts(self._needed_symbolic(), device, stages)

    @explains_invalid_program
    def plot(self, ax: Any = None, *, x: int | None = None, y: int | None = None) -> Any:
        """Draw the tile sizes that XLA's constraints allow, over two of the sizes.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.
            x: Number of the tile size on the horizontal axis. By default `x` and `y` are sizes that
                occur in constraints, or else the last two.
            y: Number of the tile size on the vertical axis.

        Returns:
            The axes.  Other parameters have the given tile sizes, or else 1.

        Raises:
            InputError: matplotlib is not installed.
            UnsupportedError: XLA has no symbolic tiles, or there are fewer than two sizes.
            UnknownNameError: The tile size does not exist.
        """
        symbolic = self._needed_symbolic()
        named = [k for k in range(len(symbolic.parameters)) if f"d{k}" in _names(symbolic)]
        chosen = two_parameters(symbolic, x, y, named)
        others = self.report.sizes or (1,) * len(symbolic.parameters)
        return display.plot_allowed_sizes(symbolic, chosen, others, ax)

    def _needed_symbolic(self) -> SymbolicTiles:
        if isinstance(self.symbolic, Refusal):
            raise UnsupportedError(f"no symbolic tiles: {self.symbolic}")
        return self.symbolic

    @explains_invalid_program
    def to_json(self) -> dict[str, Any]:
        """Return the result as an object of schema `hloscope.tile/1`."""
        return tiles_json(self.report, self.view.program.file)

    @explains_invalid_program
    def to_svg(self) -> str:
        """Return a picture of an output tile and the elements that it reads.

        It shows holes, overlaps and the edge.
        """
        return tiles_svg(self.report)

    @explains_invalid_program
    def to_html(self) -> str:
        """Return one HTML file with the picture and the text; it loads no other file."""
        return tiles_html(self.report)

    @explains_invalid_program
    def __str__(self) -> str:
        return visible(tiles_text(self.report))

    @explains_invalid_program
    def _repr_html_(self) -> str:
        return tiles_html(self.report, whole=False)


# --------------------------------------------------------------------------------------------------
# Tiling of a kernel: its space, the tiles of its instructions, and the ops without tiles.


SCHEMA: Final = "hloscope.tile_space/1"
_SEVERAL_ROOTS: Final = (
    (Roots.SHARED, "its roots share their dimensions"),
    (Roots.OWN, "each root has dimensions of its own"),
)


class SpaceTiling(Shown):
    """The tiling space of an instruction or fusion, and its tiles; prints itself.

    Attributes:
        space: The tiling space.
        kernel: Every instruction with its tiles.
        xla_refuses: Why XLA has no such space, and which space is used instead; empty if XLA has
            it.
    """

    def __init__(self, space: TilingSpace, kernel: TiledKernel, xla_refuses: str = "") -> None:
        self.space: Final = space
        self.kernel: Final = kernel
        self.xla_refuses: Final = xla_refuses

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Return the ops through which tiles cannot be propagated, with the reasons."""
        return self.kernel.refusals

    def text(self) -> str:
        """Return dimensions, root tiles and tiled instructions in XLA's format, then the notes."""
        said = f"{self.xla_refuses}\n\n" if self.xla_refuses else ""
        return said + kernel_text(self.kernel)

    def to_json(self) -> dict[str, Any]:
        """Return the result as an object of schema `hloscope.tile_space/1`."""
        said = {"xla_refuses": self.xla_refuses} if self.xla_refuses else {}
        return {"schema": SCHEMA, **said, **kernel_json(self.kernel)}

    def __repr__(self) -> str:
        return visible(self.text())


def tiling_space(
    ins: Instruction, sizes: Sequence[int] | None = None, *, beyond_xla: bool = False
) -> SpaceTiling:
    """Return the tiling space of an instruction or fusion, and its tiles.

    XLA refuses several roots. Here they share the dimensions that have equal sizes.

    Args:
        ins: The instruction.
        sizes: Tile size of each dimension; `None` for variables.
        beyond_xla: Also propagate tiles through ops that XLA refuses, if tiles exist.

    Raises:
        UnsupportedError: The instruction has no tiling space.
        ValueError: The number or a value of the sizes does not fit the dimensions.
    """
    fused = Fused.of(ins)
    found = TilingSpace.of(fused)
    said = ""
    if isinstance(found, Refusal) and len(fused.roots) > 1:
        refused = str(found)
        # Shared dimensions come first: they need fewer variables, and tiles of the roots coincide.
        for roots, done in _SEVERAL_ROOTS:
            found = TilingSpace.of(fused, roots)
            if not isinstance(found, Refusal):
                said = f"XLA refuses: {refused}; here {done}."
                break
    if isinstance(found, Refusal):
        raise UnsupportedError(f"no tiling space: {found}")
    space = found if sizes is None else found.with_sizes(sizes)
    return SpaceTiling(space, tiled_kernel(space, beyond_xla=beyond_xla), said)


# --------------------------------------------------------------------------------------------------
# Costs of the tilings of one fusion: a table, and a heat map.


TOP: Final = 10
"""Maximum number of tilings that the text lists."""


class TileCosts(Tabular):
    """Bytes moved and memory needed by the tilings of a fusion; prints the cheapest that fit.

    `len`, iteration and `costs[k]` go over the tilings.

    >>> import hloscope
    >>> text = "ENTRY e { p = f32[8,64] parameter(0) ROOT n = f32[8,64] negate(p) }"
    >>> costs = hloscope.read(text).root.tiles().costs()
    >>> len(costs), costs[0].sizes, costs[0].bytes_moved
    (28, (1, 1), 65536)

    Attributes:
        symbolic: The symbolic tiles of the fusion.
        limits: What the tiles of one block of the device may use.
        sweep: The figures, an array for each; one number for each tiling.
        is_thinned: Were there so many candidates that some sizes were left out?
    """

    def __init__(self, symbolic: SymbolicTiles, device: str, stages: int = 1) -> None:
        """Compute the figures of all candidate tilings.

        Args:
            symbolic: Symbolic tiles of the fusion.
            device: Name of the GPU.
            stages: Number of pipeline stages of loops.

        Raises:
            UnknownNameError: The device is unknown.
            UnsupportedError: A size does not fit into 64 bits.
        """
        self.symbolic: Final = symbolic
        self.limits: Final = limits_of(device)
        self.sweep, self.is_thinned = sweep_candidates(
            symbolic, stages=stages, transaction=transaction_of(self.limits)
        )
        self._fits: Final = self.sweep.fits(self.limits)

    def __len__(self) -> int:
        return len(self.sweep)

    def __iter__(self) -> Iterator[Choice]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, row: int) -> Choice:
        return self.sweep.choice(row, self.limits)

    @property
    def columns(self) -> Columns:
        """Return the name and type of each column; `d0`, `d1`, … are the tile sizes."""
        sizes: Columns = {f"d{k}": "int64" for k in range(len(self.symbolic.parameters))}
        return {**sizes, **COLUMNS}

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each tiling."""
        for choice, fits in zip(self, self._fits.tolist(), strict=True):
            found: dict[str, Any] = {f"d{k}": size for k, size in enumerate(choice.sizes)}
            found |= {name: getattr(choice, name) for name in choice._fields if name in COLUMNS}
            yield found | {"fits": fits}

    def best(self, top: int = TOP) -> list[Choice]:
        """Return the `top` tilings that the device can run, fewest bytes moved first."""
        rows = [row for row in self.sweep.bytes_moved.argsort(kind="stable") if self._fits[row]]
        return [self[int(row)] for row in rows[:top]]

    def plot(self, ax: Any = None, *, x: int | None = None, y: int | None = None) -> Any:
        """Draw a heat map of the fewest bytes moved over two tile sizes, for tilings that fit.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.
            x: Number of the tile size on the horizontal axis; by default `x` and `y` are the last
                two.
            y: Number of the tile size on the vertical axis.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed.
            UnknownNameError: The tile size does not exist.
            UnsupportedError: No tiling fits, or there are fewer than two sizes.
        """
        chosen = two_parameters(self.symbolic, x, y)
        return display.plot_tile_costs(self.symbolic, self.sweep, self._fits, chosen, ax)

    def _table(self) -> Table:
        rows = [
            [" x ".join(map(str, one.sizes)), f"{one.programs:,}", size_text(one.bytes_moved),
             size_text(one.shared), f"{one.registers:,}"]
            for one in self.best()
        ]  # fmt: skip
        header = ["tile sizes", "programs", "moved", "shared memory", "registers"]
        return Table(header, rows, right=[1, 2, 3, 4])

    def __str__(self) -> str:
        table = self._table()
        fitting = f"{int(self._fits.sum()):,} of {len(self):,} tilings fit {self.limits.device}"
        thinned = "; some sizes are left out" if self.is_thinned else ""
        rows = table_text(table)
        return visible(f"{self.symbolic.root.name}: {fitting}{thinned}\n\n{rows}")


COLUMNS: Final[Columns] = {
    "programs": "int64", "bytes_moved": "int64", "shared": "int64", "registers": "int64",
    "elements": "int64", "excess": "string", "fits": "bool",
}  # fmt: skip
"""Columns of the table of tilings after the tile sizes: attributes of `Choice`."""


def two_parameters(
    symbolic: SymbolicTiles, x: int | None, y: int | None, first: Sequence[int] = ()
) -> tuple[int, int]:
    """Return the numbers of two different tile sizes, for the axes of a plot.

    Args:
        symbolic: Symbolic tiles of the fusion.
        x: Number for the horizontal axis; `None` to choose it.
        y: Number for the vertical axis; `None` to choose it.
        first: Numbers to prefer where `x` or `y` is `None`; then the last sizes are taken.

    Raises:
        UnknownNameError: A tile size does not exist.
        UnsupportedError: There are fewer than two sizes.
    """
    count = len(symbolic.parameters)
    if count < 2:
        raise UnsupportedError(
            f"a plot needs two tile sizes, there {'is' if count else 'are'} {count}"
        )
    for given in (x, y):
        if given is not None and not 0 <= given < count:
            raise UnknownNameError(f"no tile size d{given}; there are d0 to d{count - 1}")
    if x is not None and x == y:
        raise UnknownNameError(f"d{x} cannot be on both axes")
    # Preferred sizes come first, then all from the last to the first.
    free = [k for k in [*reversed(first), *reversed(range(count))] if k not in (x, y)]
    across = free[0] if x is None else x
    return across, next(k for k in free if k != across) if y is None else y
