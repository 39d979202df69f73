"""Memory traffic of one kernel: coalescing, footprint, bank conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from hloscope.api.invalid import check_part
from hloscope.cost import Footprint as FootprintAnswer, Footprints
from hloscope.display import (
    Columns,
    Shown,
    Tabular,
    coalescing_json,
    coalescing_text,
    footprint_json,
    footprint_svg,
    footprint_text,
    page,
    preformatted,
    styled,
    warps_html,
    warps_svg,
)
from hloscope.errors import UnsupportedError
from hloscope.fusion import Analysis
from hloscope.hlo_parser import brief_type
from hloscope.indexing import IndexingMap
from hloscope.ir import Computation, Instruction
from hloscope.memory import (
    ArrayUse,
    BankUse,
    Coalescing as Answer,
    Kernel,
    Launch,
    Memory,
    SharedAccess,
    ThreadLayout,
    bank_use,
    on_grid,
    parse_thread_map,
)
from hloscope.support.devices import (
    DEFAULT,
    DEVICES as KNOWN_DEVICES,
    LIMITS as KNOWN_LIMITS,
    Device,
    gpu_of,
)
from hloscope.support.lazy import lazy
from hloscope.support.source import visible

if TYPE_CHECKING:
    import hloscope.display as display
    from hloscope.api.program import Program
    from hloscope.memory.dumps import DumpedModule
else:
    display = lazy("hloscope.display")

DEVICES: Final = tuple(KNOWN_DEVICES)
LIMITS: Final = tuple(KNOWN_LIMITS)
"""Names of the GPUs with known limits."""


class Model(Struct, frozen=True):
    """Settings for the model of a kernel's launch. XLA's rules decide what is `None`.

    Attributes:
        device: Name of the device.
        threads: Threads of a block of a loop kernel.
        blocks: Blocks of the grid of a loop kernel.
        vector: Elements that a thread of a loop kernel computes.
        thread_map: Map from threads to output elements that replaces the emitter's, a layout of
            Triton or CuTe for a tile, or the text of one of these.
        tile: Tile sizes of a block-level fusion, instead of those of its backend config.
        verdicts_only: Compute only XLA's own verdicts.
    """

    device: str = DEFAULT
    threads: int | None = None
    blocks: int | None = None
    vector: int | None = None
    thread_map: IndexingMap | ThreadLayout | str | None = None
    tile: tuple[int, ...] | None = None
    verdicts_only: bool = False

    def memory(self, analysis: Analysis, dump: DumpedModule | None = None) -> Memory:
        """Create the analysis of a program's kernels under this model.

        Args:
            analysis: The indexing analysis of the program.
            dump: The module of the dump folder that the program was read from; `None` without one.

        Raises:
            ParseError: The text of the thread map is neither a map nor a layout.
            UnknownNameError: The device is unknown.
            ValueError: A number is not positive, or there are too many threads.
        """
        for name, value in (
            ("threads", self.threads), ("blocks", self.blocks), ("vector", self.vector),
        ):  # fmt: skip
            if value is not None and not 0 < value < 1 << 31:
                raise ValueError(f"{name} is {value}; it needs to be from 1 to 2^31 - 1")
        if self.threads is not None and self.threads > 1024:
            raise ValueError(f"{self.threads} threads are more than the 1024 of a block")
        given = self.thread_map
        return Memory(
            analysis,
            gpu_of(self.device),
            threads=self.threads,
            blocks=self.blocks,
            vector=self.vector,
            thread_map=parse_thread_map(given, self.tile) if isinstance(given, str) else given,
            tile=self.tile,
            verdicts_only=self.verdicts_only,
            dump=dump,
        )


class Coalescing(Tabular):
    """How a kernel reads and writes memory; prints itself, also in notebooks.

    >>> import hloscope
    >>> program = hloscope.read('''ENTRY e {
    ...   p = f32[64,4096]{0,1} parameter(0)
    ...   ROOT n = f32[64,4096]{1,0} negate(p) }''')
    >>> answer = program.root.coalescing(device="h100")
    >>> [f"{array.traffic.utilisation:.3f}" for array in answer.arrays]
    ['0.125', '1.000']
    >>> print(answer.operands[0].spoiler)
    `th_x * 64`: neighbouring lanes are 256 bytes apart
    """

    def __init__(self, answer: Answer, instruction: Instruction) -> None:
        self.answer: Final = answer
        self.instruction: Final = instruction

    @property
    def kernel(self) -> Kernel:
        """Return the model of the kernel: emitter, launch dimensions and thread maps."""
        return self.answer.kernel

    @property
    def device(self) -> Device:
        """Return the device of the model."""
        return self.answer.device

    @property
    def model(self) -> str:
        """Return one line with the device, the emitter and the launch of the model."""
        return self.answer.model

    @property
    def operands(self) -> tuple[ArrayUse, ...]:
        """Return the arrays that the kernel reads, with their accesses."""
        return self.answer.operands

    @property
    def outputs(self) -> tuple[ArrayUse, ...]:
        """Return the arrays that the kernel writes, with their accesses."""
        return self.answer.outputs

    @property
    def arrays(self) -> tuple[ArrayUse, ...]:
        """Return the arrays that the kernel reads, then those that it writes."""
        return self.answer.arrays

    @property
    def utilisation(self) -> float:
        """Return the requested bytes over the transferred bytes, from 0 to 1."""
        return self.answer.utilisation

    @property
    def efficiency(self) -> float:
        """Return the lowest efficiency of the arrays: needed over transferred sectors."""
        return self.answer.lowest

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as in schema `hloscope.coalesce/2`."""
        return coalescing_json(self.answer)

    def to_svg(self) -> str:
        """Return a picture of 32 lanes and their sectors: the worst warp beside a typical one."""
        return warps_svg(self.answer)

    def to_html(self) -> str:
        """Return one HTML file with the table and the picture; it loads no other file."""
        return warps_html([self.answer], [str(self)])

    def __str__(self) -> str:
        return visible(coalescing_text(self.answer))

    def _repr_html_(self) -> str:
        return styled(self.to_svg() + preformatted(str(self)))

    columns: Final[Columns] = {
        "role": "string", "number": "int64", "name": "string", "type": "string",
        "precision": "string", "requests": "int64", "sectors": "int64", "asked_bytes": "int64",
        "moved_bytes": "int64", "wasted_bytes": "int64", "touched_bytes": "int64",
        "utilisation": "double", "efficiency": "double", "spoiler": "string",
    }  # fmt: skip
    """Columns of the table of arrays."""

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each operand and output; unknown amounts are left out."""
        return [_array_record(array) for array in self.arrays]

    def plot(self, ax: Any = None, *, array: int | None = None) -> Any:
        """Draw the sectors that the lanes of a warp access.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.
            array: Number of the array in `arrays`; by default the one with the most unused bytes.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed.
            UnsupportedError: The requests of the array are not known.
        """
        known = [k for k, one in enumerate(self.arrays) if one.traffic and one.traffic.worst]
        if array is None and not known:
            raise UnsupportedError(f"no requests of `{self.answer.name}` are known to draw")
        worst = array if array is not None else max(known, key=lambda k: self.arrays[k].wasted)
        return display.plot_warp(self.answer.name, self.arrays[worst], ax)


def _array_record(array: ArrayUse) -> dict[str, Any]:
    """Return one row of the table of arrays; unknown amounts are left out."""
    traffic = array.traffic
    found: dict[str, Any] = {
        "role": "output" if array.is_output else "operand",
        "number": array.number,
        "name": array.name,
        "type": brief_type(array.type),
        "precision": array.precision,
        "touched_bytes": array.touched.bytes,
        "spoiler": None if array.spoiler is None else str(array.spoiler),
    }
    if traffic is not None:
        found |= {"requests": traffic.requests, "sectors": traffic.sectors}
        found |= {"asked_bytes": traffic.asked, "moved_bytes": traffic.moved}
        found |= {"wasted_bytes": traffic.wasted, "utilisation": traffic.utilisation}
        found |= {"efficiency": traffic.efficiency}
    return found


class Footprint(Shown):
    """The bytes that a kernel must read and write at least; prints itself.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { p = f32[1024,1024] parameter(0) "
    ...     "ROOT s = f32[1024,8] slice(p), slice={[0:1024], [0:8]} }")
    >>> found = program.root.footprint()
    >>> found.read, found.written, found.answer.reads[0].touched.sectors
    (32768, 32768, 1024)
    """

    def __init__(self, answer: FootprintAnswer) -> None:
        self.answer: Final = answer

    @property
    def read(self) -> int:
        """Return the distinct bytes that the kernel reads."""
        return self.answer.read

    @property
    def written(self) -> int:
        """Return the distinct bytes that the kernel writes."""
        return self.answer.written

    @property
    def flops(self) -> int:
        """Return the floating-point operations of one run."""
        return self.answer.flops

    @property
    def intensity(self) -> float:
        """Return the floating-point operations per byte read or written."""
        return self.answer.intensity

    @property
    def reuse(self) -> float:
        """Return how often an element that is read is used on average."""
        return self.answer.reuse

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as in schema `hloscope.footprint/1`."""
        return footprint_json(self.answer)

    def to_svg(self) -> str:
        """Return a picture of the part of each array that is accessed."""
        return footprint_svg(self.answer)

    def to_html(self) -> str:
        """Return one HTML file with the picture and the text; it loads no other file.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
        >>> "32 bytes" in program.root.footprint().to_html()
        True
        """
        return page(self.answer.name, self._repr_html_())

    def __str__(self) -> str:
        return visible(footprint_text(self.answer))

    def _repr_html_(self) -> str:
        return styled(self.to_svg() + preformatted(str(self)))


def footprint_of(program: Program, ins: Instruction, device: str = DEFAULT) -> Footprint:
    """Return the bytes that one kernel must read and write at least.

    `device` is the name of the GPU, which decides which updates are in place.
    """
    return Footprint(Footprints(program.analysis, gpu_of(device)).of_instruction(ins))


def footprints_of(
    program: Program, places: Iterable[tuple[Computation, Instruction]], device: str = DEFAULT
) -> list[Footprint]:
    """Return the footprints of kernels, in the order of `places`.

    Args:
        program: The program.
        places: The kernels, each with its computation.
        device: Name of the GPU, which decides which updates are in place.

    Raises:
        VerifyError: A kernel is invalid.
    """
    places = list(places)
    # A fusion is invalid if an instruction inside it is.
    inside = [i for _, ins in places for called in ins.calls for i in called]
    check_part(program.module, [*(ins for _, ins in places), *inside])
    footprints = Footprints(program.analysis, gpu_of(device))
    return [Footprint(footprints.of_instruction(ins)) for _, ins in places]


def bank_conflicts(
    map: IndexingMap | str, shape: Sequence[int], *, bits: int = 32, device: str = DEFAULT
) -> BankUse:
    """Count the bank conflicts of one access to a tile in shared memory.

    Args:
        map: Map from threads to an index in the tile; see `hloscope coalesce --thread-map`.
        shape: Sizes of the tile, padding included.
        bits: Bits of an element.
        device: Name of the GPU.

    Raises:
        UnsupportedError: The map does not lead from threads to this tile.

    >>> column = "(th_x) -> (th_x, 0), domain: th_x in [0, 31]"
    >>> bank_conflicts(column, (32, 32)).most, bank_conflicts(column, (32, 33)).most
    (32, 1)
    """
    given = IndexingMap.parse(map) if isinstance(map, str) else map
    if len(given.results) != len(shape):
        raise UnsupportedError(
            f"the map leads to {len(given.results)} dimensions, the tile has {len(shape)}"
        )
    if any(size <= 0 for size in shape) or not 0 < bits <= 1024:
        raise UnsupportedError(f"a tile of sizes {list(shape)} with elements of {bits} bits")
    where = gpu_of(device)
    by_thread, launch = on_grid(given, where.warp)
    one = Launch(launch.threads, (1, 1, 1))
    return bank_use(SharedAccess("access", by_thread, tuple(shape), bits), one, where)
