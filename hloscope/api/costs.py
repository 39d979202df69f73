"""Queries about the cost of a program: its kernels in groups, with totals that add up."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hloscope.api.invalid import Invalid
from hloscope.api.savings import (
    by_worth,
    donation_advice,
    movement_advice,
    padding_advice,
    tile_advice,
)
from hloscope.cost import (
    NOT_JUDGED,
    AccessCost,
    Advice,
    Group,
    KernelCost,
    ProgramCost,
    Transfer,
    TritonRatings,
    TritonUse,
    grouped,
    is_scheduled,
    is_triton,
    program_cost,
    target_of,
    transfers_of,
)
from hloscope.display import (
    COST_SCHEMA,
    ROWS_SHOWN,
    Columns,
    Grouping,
    Table,
    Tabular,
    access_cause,
    access_table,
    accesses_json,
    advice_json,
    advice_lines,
    collectives_json,
    collectives_text,
    cost_of_group_json,
    cost_of_kernel_json,
    cost_table,
    cost_totals_json,
    count_text,
    footprint_table,
    groups_json,
    page,
    preformatted,
    provenance_of,
    styled,
    table_html,
    table_text,
    time_text,
)
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.ir import Computation, Instruction, size_text
from hloscope.memory import Memory
from hloscope.support.devices import DEFAULT, Device, device_of, gpu_of, gpu_with
from hloscope.support.lazy import lazy
from hloscope.support.source import visible

if TYPE_CHECKING:
    import hloscope.api.measuring as measuring
    import hloscope.display as display
    from hloscope.api.program import Program
    from hloscope.memory.dumps import DumpedModule
else:
    display = lazy("hloscope.display")
    measuring = lazy("hloscope.api.measuring")

MOST_NAMES: Final = 8
"""Maximum number of names that a note lists."""
MOST_FIRST: Final = 3
"""Maximum number of pieces of advice below a table of costs."""
LEAST_SHARE: Final = 0.001
"""Minimum share of the program's total that advice below a table must save."""
MOST_SEARCHED: Final = 5000
"""Maximum number of instructions for which a table searches data movement that cancels.

For a train step of 15,000 instructions the search takes 1.2 s, and the table 2.9 s.
"""
COST_SORTS: Final = ("bound", "bytes", "flops", "waste")
"""Amounts by which the groups of a program's kernels can be sorted."""
_AMOUNTS: Final[dict[str, Callable[[KernelCost], int]]] = {
    "bound": lambda kernel: kernel.bound * kernel.runs,
    "bytes": lambda kernel: kernel.bytes,
    "flops": lambda kernel: kernel.flops,
    "waste": lambda kernel: kernel.wasted or 0,
}


class Cost(Tabular):
    """The cost of a program; prints itself, also in notebooks.

    `len`, iteration and `cost[k]` go over the kernels in program order; `cost["fusion.12"]` is the
    kernel of that name.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { p = f32[1024] parameter(0) "
    ...                         "n = f32[1024] negate(p) ROOT m = f32[1024] negate(n) }")
    >>> cost = program.cost()
    >>> [(group.total, len(group.members)) for group in cost.groups(sort="bytes")]
    [(16384, 2)]
    >>> cost["m"].bytes, cost.bytes, [kernel.flops for kernel in cost]
    (8192, 16384, [1024, 1024])

    Attributes:
        program: The program.
        model: Every kernel with its figures.
    """

    def __init__(
        self,
        program: Program,
        model: ProgramCost,
        memory: Memory,
        *,
        is_whole: bool = True,
        invalid: Invalid | None = None,
    ) -> None:
        """Store the costs of a program's kernels, and the model of their transfers.

        Args:
            program: The program.
            model: The kernels with their figures.
            memory: The model of the transfers of threads and tiles.
            is_whole: Are these all kernels of the program?
            invalid: Findings about the program; kernels with findings are missing. `None` for a
                valid program.
        """
        self.program: Final = program
        self.model: Final = model
        self.is_whole: Final = is_whole
        self._memory: Final = memory
        self._invalid: Final = invalid

    @property
    def kernels(self) -> tuple[KernelCost, ...]:
        """Return every kernel that runs, in program order; kernels of callers come first."""
        return self.model.kernels

    def __len__(self) -> int:
        return len(self.kernels)

    def __iter__(self) -> Iterator[KernelCost]:
        return iter(self.kernels)

    def __getitem__(self, kernel: int | str) -> KernelCost:
        if isinstance(kernel, int):
            return self.kernels[kernel]
        names = {one.instruction.name: one for one in reversed(self.kernels)}
        if kernel not in names:
            raise UnknownNameError(f"no kernel `{kernel}`{did_you_mean(kernel, names)}")
        return names[kernel]

    @property
    def bytes(self) -> int:
        """Return the bytes that all kernels read and write at least, in all runs."""
        return sum([kernel.bytes for kernel in self.kernels])

    @property
    def flops(self) -> int:
        """Return the floating-point operations of all kernels, in all runs."""
        return sum([kernel.flops for kernel in self.kernels])

    @property
    def bound(self) -> int:
        """Return the sum of the time bounds of all kernels' runs, in picoseconds.

        It is 0 if no bandwidth is known.
        """
        return sum([kernel.bound * kernel.runs for kernel in self.kernels])

    @cached_property  # a search for each fusion; advice and JSON read it
    def ratings(self) -> dict[Instruction, TritonUse]:
        """Return, for each Triton fusion, the bytes that it transfers compared with other tilings.

        The result is empty if the program's transfers are not modelled on a GPU.
        """
        if not self.model.is_judged:
            return {}
        memory = self._memory
        ratings = TritonRatings(self.program.analysis, memory.device, memory.kernels)
        triton = [k.instruction for k in self.kernels if is_triton(k.instruction)]
        return {ins: ratings.of(ins) for ins in triton}

    @property
    def transfers(self) -> list[Transfer]:
        """Return the collectives of the program; those of callers come first."""
        every = [one for one in transfers_of(self.program.module) if one.link is not None]
        invalid = self._invalid
        if invalid is None:
            return every
        return [t for t in every if invalid.is_answered(t.computation, t.overlap.start)]

    def advice(self, *, with_movement: bool = True) -> list[Advice]:
        """Return changes that are proved to save bytes, largest share first; see `Advice`.

        Savings of bytes moved come before savings of memory. If this cost covers only some kernels
        of the program, the only advice is about tile sizes of Triton fusions.

        Args:
            with_movement: Also search for data movement that cancels. This takes the longest.
        """
        found = tile_advice(self.program, self.model, self.ratings)
        if self.is_whole:
            if with_movement:
                found += movement_advice(self.program, self.model)
            found += padding_advice(self.program) + donation_advice(self.program)
        return by_worth(found)

    @cached_property  # notebooks ask for text and HTML, and the search takes seconds
    def first_advice(self) -> list[Advice]:
        """Return at most three pieces of advice, each saving 0.1 % or more; the largest first.

        Programs of more than 5,000 instructions are not searched for data movement.
        """
        count = sum([len(computation.instructions) for computation in self.program.module])
        found = self.advice(with_movement=count <= MOST_SEARCHED)
        return [one for one in found if one.share >= LEAST_SHARE][:MOST_FIRST]

    def groups(self, by: str = "group", *, sort: str = "bound") -> list[Group[KernelCost]]:
        """Return the kernels in groups, the group with the largest total first.

        Args:
            by: `group`, `kernel`, `source`, `scope`, `scope:N`, `opcode` or `computation`.
            sort: The amount that totals state: `bound` (picoseconds), `bytes`, `flops` or
                `waste` (bytes).

        Raises:
            UnknownNameError: No grouping or amount has that name.
        """
        if sort not in _AMOUNTS:
            near = did_you_mean(sort, COST_SORTS)
            raise UnknownNameError(f"no amount `{sort}`{near}; known: {', '.join(COST_SORTS)}")
        grouping = Grouping(by, self.program.module)
        return grouped(self.kernels, lambda k: grouping.key(k, lambda: _equal(k)), _AMOUNTS[sort])

    def table(self, by: str = "group", *, sort: str = "bound", top: int | None = None) -> Table:
        """Return the groups as rows of text, with rows for the rest and the sum.

        `by` and `sort` are as in `groups`; `top` is the maximum number of groups.
        """
        grouping = Grouping(by, self.program.module)
        return cost_table(self.groups(by, sort=sort), grouping, sort, top)

    def footprint_table(self, by: str = "group", top: int | None = None) -> Table:
        """Return the groups with the largest footprints as rows of text.

        `by` is as in `groups`; `top` is the maximum number of groups.
        """
        return footprint_table(
            self.groups(by, sort="bytes"), Grouping(by, self.program.module), top
        )

    def accesses(self, by: str = "group") -> list[Group[AccessCost]]:
        """Return the accesses that transfer unused bytes in groups, most unused bytes first.

        `by` is as in `groups`.
        """
        grouping = Grouping(by, self.program.module)
        wasteful = [access for access in self.model.accesses if access.wasted]
        return grouped(
            wasteful,
            lambda access: grouping.key(access, lambda: _equal_access(access)),
            lambda access: access.wasted,
        )

    def access_table(self, by: str = "group", top: int | None = None) -> Table:
        """Return the groups of accesses with the most unused bytes as rows of text.

        `by` is as in `groups`; `top` is the maximum number of groups.
        """
        return access_table(self.accesses(by), Grouping(by, self.program.module), top)

    def groups_json(self, by: str = "group", *, sort: str = "bound") -> list[dict[str, Any]]:
        """Return the groups of kernels as in schema `hloscope.cost/1`.

        See `groups` for the arguments.
        """
        grouping = Grouping(by, self.program.module)
        return groups_json(
            self.groups(by, sort=sort), lambda group: cost_of_group_json(group, grouping)
        )

    def access_groups_json(self, by: str = "group") -> list[dict[str, Any]]:
        """Return the groups of accesses as in schema `hloscope.coalesce/2`.

        `by` is as in `groups`.
        """
        grouping = Grouping(by, self.program.module)
        return groups_json(self.accesses(by), lambda group: accesses_json(group, grouping))

    def measured(self, profile: str | os.PathLike[str]) -> measuring.Measured:
        """Join the costs with a profile of the program.

        Args:
            profile: File of `jax.profiler`, Nsight Systems or rocprof, or a profile directory.

        Raises:
            InputError: The file does not exist, or it profiles another program.
            ParseError: The file is not a profile, or is damaged.
        """
        return measuring.Measured.of(self, os.fspath(profile))

    def to_json(self, by: str = "group", *, sort: str = "bound") -> dict[str, Any]:
        """Return an object of schema `hloscope.cost/1`; see `groups` for the arguments."""
        module = self.program.module
        groups = self.groups_json(by, sort=sort)
        return {
            "schema": COST_SCHEMA,
            "file": self.program.file,
            "module": module.name,
            "device": self.model.device.name,
            "compiled_for": self.model.target.kind,
            "evidence": self.model.target.evidence,
            "by": by,
            "sort": sort,
            "total": sum([group["total"] for group in groups]),
            "totals": self.totals,
            "step": {
                "bound_ps": int(self.model.step.seconds * 10**12),
                "limited_by": self.model.step.limited_by,
            },
            "assumed": self.notes,
            "findings": self.findings,
            "groups": groups,
            "kernels": [
                cost_of_kernel_json(
                    kernel,
                    provenance_of(kernel.instruction, module),
                    self.ratings.get(kernel.instruction),
                )
                for kernel in self.kernels
            ],
            "collectives": collectives_json(self.transfers, is_scheduled=self._is_scheduled),
            "advice": [advice_json(one, module) for one in self.advice()],
        }

    @property
    def totals(self) -> dict[str, Any]:
        """Return sums over all kernels, by name, as in schema `hloscope.cost/1`."""
        return cost_totals_json(self.kernels)

    @property
    def about(self) -> str:
        """Return a line with the compiler's target, the number of kernels, and the device."""
        totals, target = self.totals, self.model.target
        compiled = "not compiled" if not target.is_compiled else f"compiled for {target.kind}"
        device = self.model.device
        bounds = f"bounds for {device.name}" if device.bandwidth else "no bounds: no device"
        kernels, runs = totals["kernels"], totals["runs"]
        return (
            f"{compiled} ({target.evidence}); {kernels:,} kernel{'s' * (kernels != 1)}, "
            f"{runs:,} run{'s' * (runs != 1)}; {bounds}"
        )

    @property
    def figures(self) -> list[tuple[str, str]]:
        """Return pairs of the name and the text of each total of the program."""
        totals, step = self.totals, self.model.step
        text = collectives_text(self.transfers, is_scheduled=self._is_scheduled)
        judged, unused = self.model.is_judged, totals["unused_bytes"]
        return [
            ("sum of kernel bounds", time_text(totals["bound_ps"])),
            (f"bound of the step, by {step.limited_by}", time_text(int(step.seconds * 10**12))),
            ("bytes at least", size_text(totals["bytes"])),
            ("flops", count_text(totals["flops"])),
            *([("unused bytes fetched from L2", size_text(unused))] if judged else []),
            *([("collectives", text)] if text else []),
        ]

    @property
    def _is_scheduled(self) -> bool:
        return is_scheduled(self.program.module)

    @property
    def assumed(self) -> list[str]:
        """Return assumptions about how often kernels run, each once.

        A note on left-out kernels comes first.
        """
        invalid = self._invalid
        notes = [] if invalid is None else [invalid.note]
        return list(dict.fromkeys([*notes, *[n for kernel in self.kernels for n in kernel.notes]]))

    @property
    def findings(self) -> list[str]:
        """Return differences between the dump folder's statements on a kernel and the model.

        Each text begins with the name of the kernel's instruction.
        """
        return [
            f"`{kernel.instruction.name}`: {finding}"
            for kernel in self.kernels
            if kernel.coalescing is not None
            for finding in kernel.coalescing.findings
        ]

    @property
    def notes(self) -> list[str]:
        """Return assumptions of the figures, and what the figures leave out, each once."""
        found = dict.fromkeys(self.assumed)
        unknown = {name for kernel in self.kernels for name in kernel.footprint.work.unknown}
        if unknown:
            names = ", ".join(sorted(unknown)[:MOST_NAMES])
            more = ", …" if len(unknown) > MOST_NAMES else ""
            found[f"flops of these are not known and not counted: {names}{more}"] = None
        if self._memory.stated is not None and self._memory.stated.other_target:
            found[self._memory.stated.other_target] = None
        if not self.model.is_judged:
            found[f"transfers are not counted: {NOT_JUDGED} (--as-if h100 takes an H100's)"] = None
        return list(found)

    columns: Final[Columns] = {
        "name": "string", "computation": "string", "op_name": "string", "source": "string",
        "maker": "string", "runs": "int64", "fewest_runs": "int64", "most_runs": "int64",
        "read_bytes": "int64", "written_bytes": "int64", "bytes_exact": "bool", "flops": "int64",
        "bound_ps": "int64", "limited_by": "string", "unused_bytes": "int64",
    }  # fmt: skip
    """Columns of the table of kernels: keys of a kernel of schema `hloscope.cost/1`."""

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each kernel, as in schema `hloscope.cost/1`.

        Amounts are those of one run.
        """
        module = self.program.module
        return [cost_of_kernel_json(k, provenance_of(k.instruction, module)) for k in self.kernels]

    def plot(self, ax: Any = None) -> Any:
        """Draw a roofline: groups of kernels by arithmetic intensity, below the device's peaks.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed.
            UnsupportedError: The bandwidth of the device is not known, or no kernel computes.
        """
        return display.plot_roofline(self.model, self.groups(), ax)

    def to_html(self) -> str:
        """Return one HTML file with the table of kernels and the totals; it loads no other file."""
        return page(self.program.module.name, self._repr_html_())

    def _shown_table(self) -> Table:
        has_bounds = any([kernel.bound for kernel in self.kernels])
        return self.table(sort="bound" if has_bounds else "bytes", top=ROWS_SHOWN)

    def _lines_below(self) -> list[str]:
        """Return lines of text: the figures, the first advice, findings and notes."""
        lines = [f"{title}: {figure}" for title, figure in self.figures]
        lines += advice_lines(self.first_advice, self.program.module)
        return [*lines, *self.findings, *[f"note: {note}" for note in self.notes]]

    def __str__(self) -> str:
        table = self._shown_table()
        rows = table_text(table)
        return visible("\n".join([self.about, "", rows, "", *self._lines_below()]))

    def _repr_html_(self) -> str:
        below = preformatted("\n".join(self._lines_below()))
        return styled(preformatted(self.about) + table_html(self._shown_table()) + below)


def _equal(kernel: KernelCost) -> Hashable:
    """Return the key by which equal kernels share a group.

    It has the maker (XLA's emitter, Triton or a library), and the bytes read and written in one
    run.
    """
    return kernel.maker, kernel.footprint.bytes


def _equal_access(access: AccessCost) -> Hashable:
    """Return the key by which equal accesses share a group.

    It has the key of the access's kernel, whether the array is an output, the unused bytes of one
    run and their cause.
    """
    array = access.array
    each = access.wasted // access.runs if access.runs else 0
    return _equal(access.kernel), array.is_output, each, access_cause(array)


def cost_of(
    program: Program,
    memory: Memory,
    only: Iterable[tuple[Computation, Instruction]] | None = None,
    *,
    device: Device | None = None,
    transfers: bool | None = None,
    invalid: Invalid | None = None,
    shown: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> Cost:
    """Return the cost of a program, or of some of its instructions.

    Args:
        program: The program.
        memory: The model of a GPU's threads and tiles, which decides the transfers.
        only: The instructions to count, with their computations; by default all kernels.
        device: The device for time bounds; by default the memory model's.
        transfers: Also count what threads transfer? By default the program's target decides.
        invalid: Findings about the program; kernels with findings are left out. `None` for a valid
            program.
        shown: Iterates over the kernels; it may show progress.

    Raises:
        VerifyError: An instruction is invalid.
    """
    if invalid is not None and not invalid.reasons:
        invalid = None
    if only is None and invalid is not None:
        # The costs of an invalid instruction, or of what calls it, would be a guess.
        only = invalid.kernels()
    model = program_cost(
        program.module, memory, device or memory.device, only, transfers=transfers, shown=shown
    )
    return Cost(program, model, memory, is_whole=only is None, invalid=invalid)


def device_of_dump(dump: DumpedModule | None) -> str:
    """Return the name of the GPU that a dump folder was compiled for; `h100` if it is unknown."""
    target = None if dump is None else dump.target
    if target is None:
        return DEFAULT
    return gpu_with(target.cores, target.warp, target.bandwidth) or DEFAULT


def cost_on(
    program: Program,
    device: str | None = None,
    *,
    as_if: str | None = None,
    only: Iterable[tuple[Computation, Instruction]] | None = None,
    invalid: Invalid | None = None,
    shown: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> Cost:
    """Return the cost of a program on a device.

    Args:
        program: The program.
        device: Name of the device, or the path of its TOML file. The default is the GPU that a dump
            folder was compiled for; for other programs an H100 if they were compiled for a GPU or
            not at all, else no device, so that no bounds are known.
        as_if: Name of a GPU. Transfers are counted for its threads, whatever the program was
            compiled for.
        only: The instructions to count, with their computations; by default all kernels.
        invalid: Findings about the program; kernels with findings are left out. `None` for a valid
            program.
        shown: Iterates over the kernels; it may show progress.

    Raises:
        DeviceError: The file does not describe a device, or `as_if` is not a GPU.
        UnknownNameError: No device has that name.
        VerifyError: An instruction is invalid.
    """
    if as_if is not None:
        gpu = gpu_of(as_if)
        where = device_of(device) if device is not None else gpu
        memory = Memory(program.analysis, gpu, dump=program.dump)
        return cost_of(
            program, memory, only, device=where, transfers=True, invalid=invalid, shown=shown
        )
    if device is None:
        # Bounds of a GPU say nothing of a program that was compiled for a CPU or TPU.
        kind = target_of(program.module).kind
        device = device_of_dump(program.dump) if kind in ("gpu", "uncompiled") else "cpu"
    where = device_of(device)
    # The memory model needs a GPU with warps. With another device it is a stand-in: `cost_of`
    # decides by the program's target whether its transfers count.
    gpu = where if where.has_warps else gpu_of(DEFAULT)
    memory = Memory(program.analysis, gpu, dump=program.dump)
    return cost_of(program, memory, only, device=where, invalid=invalid, shown=shown)
