"""Answers about what kernels move: coalescing and footprints, of one kernel or of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from html import escape
from typing import TYPE_CHECKING, Any, Final, Protocol

from hloscope.api.costs import Cost, cost_of
from hloscope.api.explaining import check, check_part
from hloscope.api.invalid import Invalid
from hloscope.cost import (
    AccessCost,
    Footprint as FootprintAnswer,
    Footprints,
    KernelCost,
    is_judged_by_threads,
    running,
    target_of,
)
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
    Grouping,
    KernelPlace,
    Table,
    coalescing_json,
    coalescing_text,
    footprint_json,
    footprint_svg,
    footprint_text,
    groups_svg,
    page,
    provenance_of,
    run_json,
    warps_html,
    warps_svg,
)
from hloscope.errors import UnsupportedError
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
from hloscope.visible import visible

if TYPE_CHECKING:
    from hloscope.dumps import DumpedModule

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
    @property
    def dump(self) -> DumpedModule | None: ...


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

    def memory(self, analysis: Analysis, dump: DumpedModule | None = None) -> Memory:
        """Answers under this model.

        Args:
            analysis: What values of the program read of others.
            dump: The dump folder's module that the program was read from, if it was.

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
            dump=dump,
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
        """The kernel as in schema `hloscope.coalesce/2`."""
        return coalescing_json(self.answer)

    def to_svg(self) -> str:
        """A picture: 32 lanes and the sectors they touch, the worst warp beside the typical."""
        return warps_svg(self.answer)

    def to_html(self) -> str:
        """A page with the table and the picture; needs nothing from elsewhere."""
        return warps_html([self.answer], [str(self)])

    def __str__(self) -> str:
        return visible(coalescing_text(self.answer))

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
        return visible(footprint_text(self.answer))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_svg()


# ------------------------------------------------------------------------------ whole programs


INVALID: Final = "invalid"
"""In place of the maker of an invalid kernel."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A kernel that nothing is said about.

    Attributes:
        name: Of the fusion or instruction.
        reason: Why.
        maker: Who makes the kernel, as `hloscope.memory.kind_of` has it.
    """

    name: str
    reason: str
    maker: str = ""


class ProgramCoalescing:
    """What the kernels of a program transfer.

    Attributes:
        cost: The kernels, with how often they run.
        kernels: The answers, in order.
        refused: Kernels without a thread map, with the reason.
    """

    def __init__(self, program: Asked, cost: Cost, refused: Iterable[Refused] = ()) -> None:
        """Take the kernels of a program, and those that are invalid."""
        self._program: Final = program
        self.cost: Final = cost
        self._known: Final = [
            (kernel, kernel.coalescing) for kernel in cost.kernels if kernel.coalescing is not None
        ]
        self.kernels: Final = tuple([answer for _, answer in self._known])
        self.refused: Final = tuple(
            [
                Refused(k.instruction.name, k.reason, k.maker)
                for k in cost.kernels
                if k.coalescing is None
            ]
            + list(refused)
        )

    def check_refused(self) -> None:
        """Refuse invalid kernels among those without a thread map.

        Raises:
            VerifyError: One of them is invalid.
        """
        without = [k.instruction for k in self.cost.kernels if k.coalescing is None]
        if without:
            check_part(self._program.module, without)

    @property
    def lowest(self) -> float:
        """The lowest efficiency of any access."""
        return min([answer.lowest for answer in self.kernels], default=1.0)

    @property
    def wasted(self) -> int:
        """Bytes transferred that no lane asked for, by all kernels as often as they run."""
        return sum([answer.wasted * kernel.runs for kernel, answer in self._known])

    @property
    def refused_by_maker(self) -> dict[str, int]:
        """How many kernels each maker made of which nothing is said, most first."""
        return dict(Counter([one.maker for one in self.refused]).most_common())

    def worst(self, top: int | None = None) -> list[AccessCost]:
        """The accesses that transfer bytes nobody asked for, that with the largest total first."""
        wasteful = [access for access in self.cost.model.accesses if access.wasted]
        return sorted(wasteful, key=lambda access: -access.wasted)[:top]

    def table(self, top: int | None = None, by: str = "group") -> Table:
        """The groups of accesses that transfer most bytes nobody asked for, and their sum."""
        return self.cost.access_table(by, top)

    def to_json(self, by: str = "group") -> dict[str, Any]:
        """An object of schema `hloscope.coalesce/2`."""
        return {
            "schema": COALESCE_SCHEMA,
            "file": self._program.file,
            "module": self._program.module.name,
            "wasted_bytes": self.wasted,
            "efficiency": self.lowest,
            "by": by,
            "groups": self.cost.access_groups_json(by),
            "kernels": [
                coalescing_json(answer, self._place(kernel), kernel.runs)
                for kernel, answer in self._known
            ],
            "refused": [
                {"name": r.name, "reason": r.reason, "maker": r.maker} for r in self.refused
            ],
        }

    def to_text(self) -> str:
        """Every kernel, one after another."""
        return "\n\n".join(map(coalescing_text, self.kernels))

    def to_svg(self) -> str:
        """A picture of the kernel that wastes most."""
        if not self.kernels:
            raise UnsupportedError("there is no kernel to draw")
        return warps_svg(self._most_wasteful(1)[0])

    def to_html(self, top: int = 10) -> str:
        """A page with the kernels that waste most."""
        chosen = self._most_wasteful(top)
        if not chosen:
            raise UnsupportedError("there is no kernel to draw")
        return warps_html(chosen, [coalescing_text(answer) for answer in chosen])

    def _most_wasteful(self, top: int) -> list[Answer]:
        by_waste = sorted(self._known, key=lambda known: -known[1].wasted * known[0].runs)
        return [answer for _, answer in by_waste[:top]]

    def _place(self, kernel: KernelCost) -> KernelPlace:
        origin = provenance_of(kernel.instruction, self._program.module)
        return KernelPlace(kernel.computation.name, origin)


class ProgramFootprint:
    """Where the bytes of a program go.

    Attributes:
        cost: The kernels, with how often they run.
    """

    def __init__(self, program: Asked, cost: Cost) -> None:
        self._program: Final = program
        self.cost: Final = cost

    @property
    def kernels(self) -> list[KernelCost]:
        """The kernels that run, that with most bytes first."""
        return sorted(self.cost.kernels, key=lambda kernel: -kernel.bytes)

    @property
    def total(self) -> int:
        """Bytes of all runs."""
        return sum([kernel.bytes for kernel in self.cost.kernels])

    @property
    def notes(self) -> list[str]:
        """What was assumed about how often kernels run."""
        return self.cost.assumed

    def table(self, top: int | None = None, by: str = "group") -> Table:
        """The groups of kernels that read and write most, and the sum of everything."""
        return self.cost.footprint_table(by, top)

    def to_svg(self, top: int = 20, by: str = "group") -> str:
        """A picture of the groups of kernels that read and write most."""
        name = self._program.file or self._program.module.name
        grouping = Grouping(by, self._program.module)
        return groups_svg(self.cost.groups(by, sort="bytes"), grouping, name, top)

    def _repr_html_(self) -> str:
        return self.to_svg()

    def to_json(self, by: str = "group") -> dict[str, Any]:
        """An object of schema `hloscope.footprint/1`."""
        module = self._program.module
        return {
            "schema": FOOTPRINT_SCHEMA,
            "file": self._program.file,
            "module": module.name,
            "bytes": self.total,
            "assumed": self.notes,
            "by": by,
            "groups": self.cost.groups_json(by, sort="bytes"),
            "kernels": [
                run_json(kernel, provenance_of(kernel.instruction, module))
                for kernel in self.kernels
            ],
        }


def kernels_of(module: Module) -> list[tuple[Computation, Instruction]]:
    """Every kernel of a program: fusions, and what runs by itself outside of them.

    What fusions and reducers hold is part of them; loops and branches are what they call.
    """
    return [(place.computation, i) for place in running(module) for i in place.kernels]


def refuse_other_targets(program: Asked, device: str, *, is_named: bool) -> None:
    """Refuse to judge a program by a GPU's threads that was compiled for something else.

    Args:
        program: The program.
        device: Name of the GPU.
        is_named: Is the question about kernels by name?  Then a program that was not compiled is
            judged as if each of them were compiled alone.

    Raises:
        UnsupportedError: The program was compiled for a CPU or TPU, or not compiled.
    """
    target = target_of(program.module)
    if is_judged_by_threads(program.module, target, gpu_of(device)):
        return
    if is_named and not target.is_compiled:
        return
    check(program.module)  # a program that is invalid is told so first
    compiled = f"compiled for {target.kind}" if target.is_compiled else "not compiled"
    raise UnsupportedError(
        f"the program is {compiled} ({target.evidence}), so threads of {device} do not judge it:"
        f" --as-if {device} judges it as if they did"
    )


def coalescing_of_all(
    program: Asked,
    memory: Memory,
    places: Iterable[tuple[Computation, Instruction]],
    invalid: Invalid | None = None,
) -> ProgramCoalescing:
    """The answers for many kernels; what has none is listed with the reason.

    Args:
        program: The program.
        memory: The model of what threads transfer.
        places: The kernels.
        invalid: What is wrong with the program: its invalid kernels are only listed.

    Raises:
        VerifyError: A kernel is invalid.
    """
    refused: list[Refused] = []
    if invalid is not None and invalid.reasons:
        refused = [Refused(ins.name, reason, INVALID) for ins, reason in invalid.reasons.items()]
        places = [place for place in places if invalid.is_answered(*place)]
    return ProgramCoalescing(program, cost_of(program, memory, places, transfers=True), refused)


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


def footprint_of_program(
    program: Asked, device: str = DEFAULT, invalid: Invalid | None = None
) -> ProgramFootprint:
    """Where the bytes of a program go.

    Args:
        program: The program.
        device: The GPU, which decides what is updated in place.
        invalid: What is wrong with the program: its invalid kernels are left out.

    Raises:
        VerifyError: A kernel is invalid.
    """
    memory = Model(device).memory(program.analysis)
    return ProgramFootprint(program, cost_of(program, memory, transfers=False, invalid=invalid))


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
