"""Costs of the tilings of one fusion: a table, and a heat map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from hloscope.devices import limits_of
from hloscope.display import Columns, Table, Tabular, columns
from hloscope.errors import UnknownNameError, UnsupportedError
from hloscope.ir import size_text
from hloscope.lazy import lazy
from hloscope.tiling import Choice, SymbolicTiles, sweep_candidates, transaction_of
from hloscope.visible import visible

if TYPE_CHECKING:
    import hloscope.display as display
else:
    display = lazy("hloscope.display")

TOP: Final = 10
"""Tilings that the text lists."""


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
        """Compute the figures of all candidates.

        Raises:
            UnknownNameError: There is no such device.
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
        """Name and type of each column; `d0`, `d1`, … are tile sizes as constraints name them."""
        sizes: Columns = {f"d{k}": "int64" for k in range(len(self.symbolic.parameters))}
        return {**sizes, **COLUMNS}

    def records(self) -> Iterator[dict[str, Any]]:
        """A row for each tiling."""
        for choice, fits in zip(self, self._fits.tolist(), strict=True):
            found: dict[str, Any] = {f"d{k}": size for k, size in enumerate(choice.sizes)}
            found |= {name: getattr(choice, name) for name in choice._fields if name in COLUMNS}
            yield found | {"fits": fits}

    def best(self, top: int = TOP) -> list[Choice]:
        """The tilings that fit, fewest bytes moved first."""
        rows = [row for row in self.sweep.bytes_moved.argsort(kind="stable") if self._fits[row]]
        return [self[int(row)] for row in rows[:top]]

    def plot(self, ax: Any = None, *, x: int | None = None, y: int | None = None) -> Any:
        """A heat map of the fewest bytes moved over two tile sizes, for tilings that fit.

        Args:
            ax: Axes of matplotlib to draw into; a new figure if not given.
            x: Number of the parameter across; by default `x` and `y` are the last two.
            y: Number of the parameter upwards.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed.
            UnknownNameError: There is no such parameter.
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
        rows = columns([table.header, *table.rows], right=table.right)
        return visible(f"{self.symbolic.root.name}: {fitting}{thinned}\n\n{rows}")

    __repr__ = __str__


COLUMNS: Final[Columns] = {
    "programs": "int64", "bytes_moved": "int64", "shared": "int64", "registers": "int64",
    "elements": "int64", "excess": "string", "fits": "bool",
}  # fmt: skip
"""Columns of the table of tilings after their sizes: attributes of `Choice`."""


def two_parameters(
    symbolic: SymbolicTiles, x: int | None, y: int | None, first: Sequence[int] = ()
) -> tuple[int, int]:
    """Numbers of two different tile sizes, for the axes of a plot.

    Args:
        symbolic: The fusion.
        x: The one across, if it is given.
        y: The one upwards, if it is given.
        first: Sizes to prefer if `x` or `y` is not given; then the last sizes, the last one across.

    Raises:
        UnknownNameError: There is no such size.
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
