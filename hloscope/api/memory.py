"""Answers about what kernels move: coalescing and footprints, of one kernel or of a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from html import escape
from typing import Any, Final, Protocol

from hloscope.api.explaining import check_part
from hloscope.cost import Footprint as FootprintAnswer, Footprints, Run, running
from hloscope.devices import (
    DEFAULT,
    DEVICES as KNOWN_DEVICES,
    LIMITS as KNOWN_LIMITS,
    Device,
    gpu_of,
)
from hloscope.display import (
    COALESCE_SCHEMA,
    FOOTPRINT_SCHEMA,
    KernelPlace,
    Table,
    accesses_table,
    coalescing_json,
    coalescing_text,
    footprint_json,
    footprint_svg,
    footprint_text,
    page,
    provenance_of,
    run_json,
    runs_svg,
    runs_table,
    warps_html,
    warps_svg,
    wasteful_accesses,
)
from hloscope.errors import HloscopeError, UnsupportedError, VerifyError
from hloscope.fusion import Analysis
from hloscope.indexing import IndexingMap
from hloscope.ir import Computation, Instruction, Module
from hloscope.lazy import dataclass
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
from hloscope.ops import Fusion

DEVICES: Final = tuple(KNOWN_DEVICES)
LIMITS: Final = tuple(KNOWN_LIMITS)
"""Names of the GPUs that are known."""


def thread_map_of(text: str, tile: tuple[int, ...] | None = None) -> IndexingMap | ThreadLayout:
    """The thread map that a text stands for: a map, or a layout of Triton or CuTe of a tile.

    Raises:
        ParseError: It stands for none.
    """
    return parse_thread_map(text, tile)


class Asked(Protocol):
    """A program: what these answers need of one."""

    @property
    def module(self) -> Module: ...
    @property
    def file(self) -> str: ...
    @property
    def analysis(self) -> Analysis: ...


@dataclass(frozen=True, slots=True)
class Model:
    """Under which model lanes are counted; what is not given, XLA's rules decide.

    Attributes:
        device: Name of the device.
        threads: Threads of a block of a loop.
        blocks: Blocks of the grid of a loop.
        vector: Elements of a thread of a loop.
        thread_map: From threads to elements of the output, instead of an emitter: a map, or a
            layout of a tile.
        tile: Tile sizes of a block-level fusion, instead of those of its backend config.
        verdicts_only: Only XLA's own verdicts.
    """

    device: str = DEFAULT
    threads: int | None = None
    blocks: int | None = None
    vector: int | None = None
    thread_map: IndexingMap | ThreadLayout | None = None
    tile: tuple[int, ...] | None = None
    verdicts_only: bool = False

    def memory(self, analysis: Analysis) -> Memory:
        """Answers under this model.

        Raises:
            UnknownNameError: There is no such device.
            ValueError: A number is not positive.
        """
        for name, value in (
            ("threads", self.threads), ("blocks", self.blocks), ("vector", self.vector),
        ):  # fmt: skip
            if value is not None and not 0 < value < 1 << 31:
                raise ValueError(f"{name} is {value}; it needs to be from 1 to 2^31 - 1")
        if self.threads is not None and self.threads > 1024:
            raise ValueError(f"{self.threads} threads are more than the 1024 of a block")
        return Memory(
            analysis,
            gpu_of(self.device),
            threads=self.threads,
            blocks=self.blocks,
            vector=self.vector,
            thread_map=self.thread_map,
            tile=self.tile,
            verdicts_only=self.verdicts_only,
        )


class Coalescing:
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

    def __init__(self, answer: Answer, instruction: Instruction, module: Module) -> None:
        self.answer: Final = answer
        self.instruction: Final = instruction
        self.asked_module: Final = module
        self.while_asked: Final[AbstractContextManager[Any]] = nullcontext()

    @property
    def kernel(self) -> Kernel:
        """The emitter, launch dimensions and thread maps."""
        return self.answer.kernel

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.answer.device

    @property
    def model(self) -> str:
        """The model that the answer was computed under."""
        return self.answer.model

    @property
    def operands(self) -> tuple[ArrayUse, ...]:
        """What is read."""
        return self.answer.operands

    @property
    def outputs(self) -> tuple[ArrayUse, ...]:
        """What is written."""
        return self.answer.outputs

    @property
    def arrays(self) -> tuple[ArrayUse, ...]:
        """What is read, then what is written."""
        return self.answer.arrays

    @property
    def utilisation(self) -> float:
        """Share of the bytes moved that was asked for."""
        return self.answer.utilisation

    @property
    def efficiency(self) -> float:
        """Sectors needed over sectors moved, of the array that is worst."""
        return self.answer.lowest

    def to_json(self) -> dict[str, Any]:
        """The kernel as in schema `hloscope.coalesce/1`."""
        return coalescing_json(self.answer)

    def to_svg(self) -> str:
        """A picture: 32 lanes and the sectors they touch, the worst warp beside the typical."""
        return warps_svg(self.answer)

    def to_html(self) -> str:
        """A page with the table and the picture; needs nothing from elsewhere."""
        return warps_html([self.answer], [str(self)])

    def __str__(self) -> str:
        return coalescing_text(self.answer)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return warps_svg(self.answer)


class Footprint:
    """The bytes that a kernel reads and writes at least; prints itself.

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
        """Bytes read."""
        return self.answer.read

    @property
    def written(self) -> int:
        """Bytes written."""
        return self.answer.written

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return self.answer.flops

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte."""
        return self.answer.intensity

    @property
    def reuse(self) -> float:
        """How often an element that is read is needed."""
        return self.answer.reuse

    def to_json(self) -> dict[str, Any]:
        """The kernel as in schema `hloscope.footprint/1`."""
        return footprint_json(self.answer)

    def to_svg(self) -> str:
        """A picture: of each array the part that is touched."""
        return footprint_svg(self.answer)

    def to_html(self) -> str:
        """A page with the picture and the text; needs nothing from elsewhere.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
        >>> "32 bytes" in program.root.footprint().to_html()
        True
        """
        return page(self.answer.name, f"{self.to_svg()}<pre>{escape(str(self))}</pre>")

    def __str__(self) -> str:
        return footprint_text(self.answer)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_svg()


# ------------------------------------------------------------------------------ whole programs


@dataclass(frozen=True, slots=True)
class Refused:
    """A kernel that nothing is said about.

    Attributes:
        name: Of the fusion.
        reason: Why.
    """

    name: str
    reason: str


class ProgramCoalescing:
    """The kernels of a program.

    Attributes:
        kernels: In order, one for each fusion.
        refused: Those that nothing is said about.
    """

    def __init__(
        self,
        program: Asked,
        kernels: Sequence[tuple[Computation, Instruction, Answer]],
        refused: Sequence[Refused],
    ) -> None:
        self._program: Final = program
        self._places: Final = {id(answer): (c, ins) for c, ins, answer in kernels}
        self.kernels: Final = tuple([answer for _, _, answer in kernels])
        self.refused: Final = tuple(refused)

    @property
    def lowest(self) -> float:
        """The lowest efficiency of any access."""
        return min([answer.lowest for answer in self.kernels], default=1.0)

    @property
    def wasted(self) -> int:
        """Bytes moved in vain by all kernels, each run once."""
        return sum([answer.wasted for answer in self.kernels])

    def worst(self, top: int | None = None) -> list[tuple[Answer, ArrayUse]]:
        """The accesses that move anything in vain, the worst first."""
        return wasteful_accesses(self.kernels)[:top]

    def table(self, top: int | None = None) -> Table:
        """The accesses that move most in vain."""
        worst = self.worst()
        return accesses_table(worst, [self._place(answer) for answer, _ in worst], top)

    def to_json(self) -> dict[str, Any]:
        """An object of schema `hloscope.coalesce/1`."""
        return {
            "schema": COALESCE_SCHEMA,
            "file": self._program.file,
            "module": self._program.module.name,
            "wasted_bytes": self.wasted,
            "efficiency": self.lowest,
            "kernels": [coalescing_json(a, self._place(a)) for a in self.kernels],
            "refused": [{"name": r.name, "reason": r.reason} for r in self.refused],
        }

    def to_text(self) -> str:
        """Every kernel, one after another."""
        return "\n\n".join(map(coalescing_text, self.kernels))

    def to_svg(self) -> str:
        """A picture of the kernel that wastes most."""
        if not self.kernels:
            raise UnsupportedError("there is no kernel to draw")
        return warps_svg(max(self.kernels, key=lambda answer: answer.wasted))

    def to_html(self, top: int = 10) -> str:
        """A page with the kernels that waste most."""
        chosen = sorted(self.kernels, key=lambda answer: -answer.wasted)[:top]
        if not chosen:
            raise UnsupportedError("there is no kernel to draw")
        return warps_html(chosen, [coalescing_text(answer) for answer in chosen])

    def _place(self, answer: Answer) -> KernelPlace:
        computation, ins = self._places[id(answer)]
        return KernelPlace(computation.name, provenance_of(ins, self._program.module))


class ProgramFootprint:
    """Where the bytes of a program go.

    Attributes:
        runs: Kernels with how often they run, the one with most bytes first.
    """

    def __init__(self, program: Asked, runs: Sequence[Run]) -> None:
        self._program: Final = program
        self.runs: Final = tuple(sorted(runs, key=lambda run: -run.bytes))

    @property
    def total(self) -> int:
        """Bytes of all runs."""
        return sum([run.bytes for run in self.runs])

    @property
    def notes(self) -> list[str]:
        """What was assumed about how often kernels run."""
        return list(dict.fromkeys([note for run in self.runs for note in run.notes]))

    def table(self, top: int | None = None) -> Table:
        """The kernels that move most."""
        return runs_table(self.runs, self.total, list(map(self._place, self.runs)), top)

    def to_svg(self, top: int = 20) -> str:
        """A picture of the kernels that move most."""
        name = self._program.file or self._program.module.name
        return runs_svg(self.runs, self.total, list(map(self._place, self.runs)), name, top)

    def _repr_html_(self) -> str:
        return self.to_svg()

    def to_json(self) -> dict[str, Any]:
        """An object of schema `hloscope.footprint/1`."""
        return {
            "schema": FOOTPRINT_SCHEMA,
            "file": self._program.file,
            "module": self._program.module.name,
            "bytes": self.total,
            "assumed": self.notes,
            "kernels": [run_json(run, self._place(run)) for run in self.runs],
        }

    def _place(self, run: Run) -> KernelPlace:
        origin = provenance_of(run.instruction, self._program.module)
        return KernelPlace(run.computation.name, origin)


def kernels_of(module: Module) -> list[tuple[Computation, Instruction]]:
    """The fusions of a program; of one without any, every instruction that moves something.

    What fusions call is part of them; of calls, loops and branches, what they call is told.
    """
    fusions = [(c, i) for c in module for i in c if isinstance(i.op, Fusion)]
    if fusions:
        inside = {called for _, i in fusions for called in i.calls}
        return [(c, i) for c, i in fusions if c not in inside]
    return [(place.computation, i) for place in running(module) for i in place.kernels]


def coalescing_of_all(
    program: Asked,
    memory: Memory,
    places: Iterable[tuple[Computation, Instruction]],
) -> ProgramCoalescing:
    """The answers for many kernels; what has none is listed with the reason.

    Raises:
        VerifyError: A kernel is wrong.
    """
    found: list[tuple[Computation, Instruction, Answer]] = []
    refused: list[Refused] = []
    for computation, ins in places:
        try:
            found.append((computation, ins, memory.of_instruction(ins)))
        except VerifyError:
            raise
        except HloscopeError as error:
            refused.append(Refused(ins.name, error.message))
    return ProgramCoalescing(program, found, refused)


def footprint_of(program: Asked, ins: Instruction, device: str = DEFAULT) -> FootprintAnswer:
    """The footprint of one kernel."""
    return Footprints(program.analysis, gpu_of(device)).of_instruction(ins)


def footprints_of(
    program: Asked, places: Iterable[tuple[Computation, Instruction]], device: str = DEFAULT
) -> list[Footprint]:
    """The footprints of some kernels.

    Raises:
        VerifyError: A kernel is wrong.
    """
    places = list(places)
    inside = [i for _, ins in places for called in ins.calls for i in called]
    check_part(program.module, [*(ins for _, ins in places), *inside])
    footprints = Footprints(program.analysis, gpu_of(device))
    return [Footprint(footprints.of_instruction(ins)) for _, ins in places]


def footprint_of_program(program: Asked, device: str = DEFAULT) -> ProgramFootprint:
    """Where the bytes of a program go."""
    footprints = Footprints(program.analysis, gpu_of(device))
    return ProgramFootprint(program, footprints.of_module(program.module))


def bank_conflicts(
    map: IndexingMap | str, shape: Sequence[int], *, bits: int = 32, device: str = DEFAULT
) -> BankUse:
    """Conflicts in the banks of shared memory of one access to a tile.

    Args:
        map: From threads to an index in the tile; see `hloscope coalesce --thread-map`.
        shape: Sizes of the tile, padding included.
        bits: Of an element.
        device: Whose banks.

    Raises:
        UnsupportedError: The map is not one from threads to this tile.

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
