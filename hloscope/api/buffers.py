"""Queries about the memory of a program: its peak, the buffers at the peak, and savings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hloscope.api.finding import find
from hloscope.api.moments import TOP, Moment
from hloscope.cost import Group
from hloscope.cost.buffers import (
    Buffer,
    Donation,
    DonationOffer,
    Donations,
    ForcedCopy,
    LiveBuffer,
    NoMomentsError,
    ProgramMemory,
    Recomputation,
    Transient,
    Uses,
    forced_copies,
    recomputations,
    transients,
)
from hloscope.display import (
    MEMORY_DIFF_SCHEMA,
    MEMORY_SCHEMA,
    Columns,
    MemoryChange,
    MemoryDifference,
    PaddedType,
    Picture,
    RecomputedLine,
    Shown,
    Tabular,
    assigned_text,
    compared_memory,
    compiler_lines,
    copy_lines,
    copy_step,
    donation_lines,
    donation_step,
    first_step,
    fit_text,
    memory_difference_json,
    memory_difference_lines,
    memory_json,
    memory_plot,
    memory_svg,
    moment_json,
    padded_types,
    padding_lines,
    padding_step,
    page,
    peak_lines,
    preformatted,
    recompute_lines,
    recompute_step,
    recomputed_lines,
    remat_text,
    styled,
    transient_lines,
    unscheduled_lines,
)
from hloscope.errors import UnknownNameError
from hloscope.hlo_parser import print_type
from hloscope.support.devices import DEFAULT, Device, device_of
from hloscope.support.lazy import lazy
from hloscope.support.source import visible

if TYPE_CHECKING:
    import hloscope.display as display
    from hloscope.api.program import Program
else:
    display = lazy("hloscope.display")


class MemoryAnswer(Tabular):
    """The memory of a program: bounds, the peak with its buffers, and changes that lower it.

    Bytes are those of the device's default memory space; `model.spaces` has the others.  `len`,
    iteration and `memory[k]` go over the buffers in the order of their first values.

    >>> import hloscope
    >>> program = hloscope.read('''HloModule m, is_scheduled=true
    ... ENTRY e { p = f32[1024] parameter(0)
    ...           n = f32[1024] negate(p)
    ...           ROOT m = f32[1024] exponential(n) }''')
    >>> memory = program.memory()
    >>> memory.lower, memory.estimate, memory.peak.number
    (8192, 8192, 1)
    >>> [(group.total, group.first.value.name) for group in memory.at("m").by("buffer")]
    [(4096, 'p'), (4096, 'n')]

    Attributes:
        program: The program.
        model: Its buffers and the bytes in use at every moment.
    """

    def __init__(self, program: Program) -> None:
        """Store a program; its buffers are computed at the first access."""
        self.program: Final = program
        self.model: Final = ProgramMemory(program.module)

    def __len__(self) -> int:
        return len(self.buffers)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self.buffers)

    def __getitem__(self, number: int) -> Buffer:
        return self.buffers[number]

    @property
    def has_moments(self) -> bool:
        """Are live ranges of values known? They are known for scheduled programs."""
        return not self.model.reason

    @property
    def reason(self) -> str:
        """Return why live ranges are unknown; empty if they are known."""
        return self.model.reason

    @property
    def lower(self) -> int:
        """Return L: the largest number of bytes that are live at one moment.

        Every buffer assignment needs at least L bytes.

        Raises:
            NoMomentsError: The program has no schedule.
        """
        return self.model.lower

    @property
    def estimate(self) -> int:
        """Return E: the estimate of the bytes that XLA allocates.

        E is the sum of parameters, outputs and the peak of temporaries.

        Raises:
            NoMomentsError: The program has no schedule.
        """
        return self.model.estimate

    @property
    def peak(self) -> Moment:
        """Return the first moment with the most live bytes.

        Raises:
            NoMomentsError: The program has no schedule.
        """
        return Moment(self.model, self.model.peak)

    @property
    def moments(self) -> int:
        """Return the number of instructions in the schedule.

        The moment after the last instruction has this number.

        Raises:
            NoMomentsError: The program has no schedule.
        """
        return self.model.schedule.end

    @property
    def buffers(self) -> list[Buffer]:
        """Return all buffers, in the order of their first values.

        Raises:
            NoMomentsError: The program has no schedule.
        """
        return self.model.buffers.buffers

    @property
    def assigned(self) -> int | None:
        """Return the bytes that XLA assigned in the default memory space, as its dump states them.

        Values inside reducers and comparators, which take no memory, are left out. `None` if the
        program was read neither from a dump folder with a buffer assignment nor from an `HloProto`
        (`.hlo.pb`) with one.

        Raises:
            ParseError: The file of the buffer assignment is damaged.
        """
        found = None if self.program.dump is None else self.program.dump.buffers
        if found is None:
            return self.program.allocated
        return sum([a.size for a in found.allocations if not (a.is_thread_local or a.color)])

    def at(self, moment: int | str) -> Moment:
        """Return the buffers at one moment.

        Args:
            moment: Position of an instruction in the schedule, from 0; or the instruction's name.

        Raises:
            NoMomentsError: The program has no schedule.
            UnknownNameError: The moment does not exist, or the named instruction has none because
                it runs as part of a fusion or of another instruction.
        """
        schedule = self.model.schedule
        if isinstance(moment, str):
            _, ins = find(self.model.module, moment)
            first = self.model.buffers.positions.first
            if ins not in first:
                raise UnknownNameError(
                    f"`{moment}` has no moment: it runs as a part of another instruction"
                )
            moment = self.model.buffers.positions.moment[first[ins]]
        if not 0 <= moment <= schedule.end:
            raise UnknownNameError(f"no moment {moment}; there are 0 to {schedule.end}")
        return Moment(self.model, moment)

    def by(self, grouping: str = "group") -> list[Group[LiveBuffer]]:
        """Return the buffers at the peak in groups; see `Moment.by`.

        Raises:
            NoMomentsError: The program has no schedule.
            UnknownNameError: No grouping has that name.
        """
        return self.peak.by(grouping)

    def difference(self, after: MemoryAnswer) -> MemoryDifferenceAnswer:
        """Compare the buffers that XLA holds for this program with those of another one.

        Args:
            after: The memory of the other program.

        Raises:
            NoMomentsError: One of the programs has no schedule.
        """
        return MemoryDifferenceAnswer(self, after)

    # -------------------------------------------------------------------------------- answers

    # `first_step` and `answers` both read most of the lists below; each needs all uses.
    @cached_property
    def _uses(self) -> Uses:
        return Uses(self.model.buffers)

    @cached_property
    def donations(self) -> list[Donation]:
        """Return every array argument, with the status of its donation.

        A donated argument's memory is reused for a result.
        """
        return Donations(self.model, self._uses).parameters()

    @cached_property
    def offers(self) -> list[DonationOffer]:
        """Return the parameters whose donation would save memory."""
        return Donations(self.model, self._uses).offers()

    @property
    def copies(self) -> list[ForcedCopy]:
        """Return the copies that loops and in-place updates force, the largest first."""
        return forced_copies(self.model.buffers, self._uses)

    @property
    def padding(self) -> list[PaddedType]:
        """Return the types of padded buffers at the peak, the one with the most padding first."""
        return padded_types(self.model, self.peak.live)

    @cached_property
    def recomputations(self) -> list[Recomputation]:
        """Return temporaries that are live at the peak but not used around it.

        The order is by bytes × moments without use, largest first.
        """
        return recomputations(self.model, self._uses, self.model.peak)

    @property
    def recomputed_lines(self) -> list[RecomputedLine]:
        """Return `recomputations` grouped by source line.

        Each group states the peak after all values of the line are recomputed.
        """
        return recomputed_lines(self.model, self.recomputations)

    @property
    def transients(self) -> list[Transient]:
        """Return arrays that are live at the peak only for a short time.

        They are copies, converted arrays, gathered shards and scratch memory.
        """
        return transients(self.model, self.model.peak)

    @property
    def first_step(self) -> str:
        """Return a sentence about the change that saves most bytes."""
        steps = [
            donation_step(self.model, self.offers),
            padding_step(self.padding),
            copy_step(self.model, self.copies),
            recompute_step(self.model, self.recomputed_lines),
        ]
        return first_step(steps, self.model)

    def fits(self, device: str | Device) -> str:
        """Return a sentence that states whether the program fits into a device's memory.

        Args:
            device: A device, its name, or the path of its TOML file.

        Raises:
            DeviceError: The file does not describe a device.
            NoMomentsError: The program has no schedule.
            UnknownNameError: No device has that name.
        """
        return fit_text(self.model, device_of(device) if isinstance(device, str) else device)

    def device(self, name: str | None) -> str | None:
        """Return the name of the device whose memory the program is compared with.

        Without `name` it is an H100 for a program compiled for a GPU, and `None` for others.
        """
        return DEFAULT if name is None and self.model.target.kind == "gpu" else name

    def first_lines(self, device: str | None = None) -> list[str]:
        """Return lines of text: the bounds, the peak with its source line, and one change to make.

        The last lines state whether the program fits into a device, and what was rematerialised.

        Args:
            device: Name of a device, or the path of its TOML file. The default is an H100 for
                programs compiled for a GPU.
        """
        if not self.has_moments:
            return [*unscheduled_lines(self.model)]
        lines = peak_lines(self.model)
        if self.assigned is not None:
            lines.append(assigned_text(self.model, self.assigned))
        lines.append(self.first_step)
        if (holds := self.device(device)) is not None:
            lines.append(self.fits(holds))
        if text := remat_text(self.peak.live):
            lines.append(text)
        return lines

    def answers(self) -> Iterator[str]:
        """Yield lines of text about changes that lower the memory.

        Their subjects are recomputation, transient arrays, donation, copies and padding.
        """
        if not self.has_moments:
            return
        yield from recompute_lines(self.model, self.recomputed_lines)
        yield from transient_lines(self.model, self.transients)
        yield from donation_lines(self.model, self.donations, self.offers)
        yield from copy_lines(self.model, self.copies)
        yield from padding_lines(self.model, self.padding)
        yield from compiler_lines(self.model)

    @property
    def about(self) -> str:
        """Return a line with the compiler's target, and the numbers of instructions and buffers."""
        target = self.model.target
        compiled = "not compiled" if not target.is_compiled else f"compiled for {target.kind}"
        if not self.has_moments:
            return f"{compiled} ({target.evidence})"
        return (
            f"{compiled} ({target.evidence}); {self.moments:,} instructions in order, "
            f"{len(self.buffers):,} buffers"
        )

    @property
    def notes(self) -> list[str]:
        """Return the assumptions of the bounds and estimates, and what they leave out."""
        return self.model.notes if self.has_moments else []

    def to_json(self, by: str = "group", *, at: int | str | None = None) -> dict[str, Any]:
        """Return an object of schema `hloscope.memory/1`.

        Args:
            by: Grouping of the buffers at the moment; see `Moment.by`.
            at: A moment or the name of an instruction; by default the peak.

        Raises:
            UnknownNameError: There is no such moment or grouping.
        """
        model, sums = self.model, self.model.sums
        found: dict[str, Any] = {
            "schema": MEMORY_SCHEMA,
            "file": self.program.file,
            "module": model.module.name,
            "compiled_for": model.target.kind,
            "evidence": model.target.evidence,
            "reason": self.reason,
            "sums": {
                "parameter_bytes": sums.parameters,
                "output_bytes": sums.outputs,
                "largest": [
                    {"name": ins.name, "computation": computation.name, "bytes": count}
                    for computation, ins, count in sums.largest
                ],
            },
        }
        if not self.has_moments:
            return found
        moment = self.peak if at is None else self.at(at)
        found |= {"by": by, **memory_json(model)}
        found |= {"at": moment_json(model, moment.number), "groups": moment.groups_json(by)}
        found |= {"assigned_bytes": self.assigned}
        found |= {"answers": [self.first_step, *self.answers()], "notes": self.notes}
        found["donations"] = [
            {
                "name": one.parameter.name,
                "type": print_type(one.parameter.type),
                "bytes": one.buffer.bytes,
                "status": one.status,
                "output": None if one.output is None else list(one.output),
            }
            for one in self.donations
        ]
        return found

    @property
    def name(self) -> str:
        """Return the title of pictures: the file name, or the module's name without a file."""
        return self.program.file.rpartition("/")[2] or self.model.module.name

    def picture(self, device: str | Device | None = None) -> Picture:
        """Return the areas and the legend of `to_svg` as data, for a page that draws them itself.

        Args:
            device: A device, its name, or the path of its TOML file. The picture has a line at its
                memory size.

        Raises:
            NoMomentsError: The program has no schedule.
        """
        return memory_plot(self.name, self.model, _known(device))

    def to_svg(self, device: str | Device | None = None) -> str:
        """Return a picture of live bytes over the schedule, by kind and source line.

        Args:
            device: A device, its name, or the path of its TOML file. The picture has a line at its
                memory size.

        Raises:
            DeviceError: The file does not describe a device.
            NoMomentsError: The program has no schedule.
            UnknownNameError: No device has that name.

        >>> import hloscope
        >>> program = hloscope.read('''HloModule m, is_scheduled=true
        ... ENTRY e { p = f32[1024] parameter(0)
        ...           ROOT n = f32[1024] negate(p) }''')
        >>> "peak 8 KiB at 1" in program.memory().to_svg()
        True
        """
        return memory_svg([(self.name, self.model)], _known(device))

    def to_html(self, device: str | Device | None = None) -> str:
        """Return one HTML file with the picture and the text; it loads no other file.

        Args:
            device: A device, its name, or the path of its TOML file. The picture has a line at its
                memory size.

        Raises:
            NoMomentsError: The program has no schedule.
        """
        return page(self.name, styled(self.to_svg(device) + preformatted(str(self))))

    columns: Final[Columns] = {
        "name": "string", "computation": "string", "type": "string", "kind": "string",
        "memory_space": "int64", "bytes": "int64", "first": "int64", "last": "int64",
    }  # fmt: skip
    """Columns of the table of buffers; `first` and `last` are moments of the schedule."""

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each buffer, named after the buffer's first value.

        Raises:
            NoMomentsError: The program has no schedule.
        """
        for buffer in self.buffers:
            value = buffer.values[0]
            yield {
                "name": value.name,
                "computation": value.computation.name,
                "type": print_type(value.type),
                "kind": buffer.kind,
                "memory_space": buffer.space,
                "bytes": buffer.bytes,
                "first": buffer.first,
                "last": buffer.last,
            }

    def plot(self, ax: Any = None, *, device: str | Device | None = None) -> Any:
        """Draw live bytes over the schedule, by kind of buffer, with the peak.

        Args:
            ax: Matplotlib axes to draw into; by default those of a new figure.
            device: A device, its name, or the path of its TOML file. The picture has a line at its
                memory size.

        Returns:
            The axes.

        Raises:
            DeviceError: The file does not describe a device.
            InputError: matplotlib is not installed.
            NoMomentsError: The program has no schedule.
            UnknownNameError: No device has that name.
        """
        return display.plot_memory(self.name, self.model, ax, _known(device))

    def __str__(self) -> str:
        if not self.has_moments:
            return visible("\n".join(self.first_lines()))
        return visible("\n".join([*self.first_lines(), "", str(self.peak), "", *self.answers()]))

    def _repr_html_(self) -> str:
        drawn = self.to_svg(self.device(None)) if self.has_moments else ""
        return styled(drawn + preformatted(str(self)))


class MemoryDifferenceAnswer(Shown):
    """The memory of two programs compared; prints the rows that differ most.

    Attributes:
        before: The memory of the first program.
        after: The memory of the second program.
        found: The buffers for which XLA allocates more in one program than in the other.
    """

    def __init__(self, before: MemoryAnswer, after: MemoryAnswer) -> None:
        """Compare two programs that have schedules.

        Raises:
            NoMomentsError: One of the programs has no schedule.
        """
        self.before: Final = before
        self.after: Final = after
        for one in (before, after):
            if not one.has_moments:
                file = one.program.file
                raise NoMomentsError(f"{file}: no moments to compare: {one.reason}")
        self.found: Final[MemoryDifference] = compared_memory(before.model, after.model)

    @property
    def bytes(self) -> int:
        """Return the estimated bytes of the second program minus those of the first."""
        return self.found.bytes

    @property
    def changes(self) -> tuple[MemoryChange, ...]:
        """Return the buffers that differ.

        First come those that change the total in the direction in which it changed.
        """
        return self.found.changes

    def lines(self, top: int = TOP) -> list[str]:
        """Return lines of text: the bounds of both programs, and one line for each change.

        `top` is the maximum number of changes.
        """
        return memory_difference_lines(self.found, top)

    def to_json(self) -> dict[str, Any]:
        """Return an object of schema `hloscope.memory_diff/1`."""
        files = [self.before.program.file, self.after.program.file]
        return {
            "schema": MEMORY_DIFF_SCHEMA,
            "files": files,
            **memory_difference_json(self.found),
        }

    def to_svg(self, device: str | Device | None = None) -> str:
        """Return the pictures of both programs, one above the other, with equal scales and colours.

        Args:
            device: A device, its name, or the path of its TOML file. The picture has a line at its
                memory size.

        Raises:
            DeviceError: The file does not describe a device.
            UnknownNameError: No device has that name.
        """
        programs = [(one.name, one.model) for one in (self.before, self.after)]
        return memory_svg(programs, _known(device))

    def to_html(self, device: str | Device | None = None) -> str:
        """Return one HTML file with both programs' pictures and the text; it loads no other file.

        Args:
            device: A device, its name, or the path of its TOML file. The picture has a line at its
                memory size.
        """
        title = f"{self.before.name} and {self.after.name}"
        return page(title, styled(self.to_svg(device) + preformatted(str(self))))

    def __str__(self) -> str:
        return visible("\n".join(self.lines()))

    def _repr_html_(self) -> str:
        return styled(self.to_svg() + preformatted(str(self)))


def _known(device: str | Device | None) -> Device | None:
    """Return a device, which may be given by its name; `None` for none."""
    return device_of(device) if isinstance(device, str) else device
