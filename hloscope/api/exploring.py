"""The explorer: an HTML page with a program, its maps and results about its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from hloscope import cost, display, memory, movement, tiling
from hloscope.api.invalid import Invalid
from hloscope.api.memory import Model
from hloscope.api.overview import about, cost_sheet, memory_sheet
from hloscope.api.program_kernels import kernels_of
from hloscope.api.savings import Movement
from hloscope.api.views import placed
from hloscope.checks import scan
from hloscope.display.explorer import (
    Answers,
    Contents,
    Kernels,
    Numbering,
    Read,
    chain_facts,
    chain_places,
    chain_sources,
    coalescing_facts,
    details,
    footprint_facts,
    frame,
    page_of,
    readable,
    rows,
    tile_facts,
)
from hloscope.errors import HloscopeError
from hloscope.fusion import Analysis, has_runtime
from hloscope.indexing import Accesses
from hloscope.ir import Computation, Instruction, Type
from hloscope.proof import compared_extras, differences_of_programs
from hloscope.support import devices
from hloscope.support.lazy import once_for_each
from hloscope.support.source import visible
from hloscope.support.system import CAN_FORK

if TYPE_CHECKING:
    from hloscope.api.program import Program

T = TypeVar("T")
Shown: TypeAlias = Callable[[Sequence[Any], str], Iterable[Any]]
"""Function that iterates over items and may show progress; its second argument is a title."""

TOGETHER: Final = ("coalesce", "footprint"), ("cancel", "tiles")
"""Page parts about kernels. One process computes the parts of one tuple, in order."""
EXPLORER_PARTS: Final = ("cost", "memory", "maps", *TOGETHER[0], *TOGETHER[1])
"""All optional parts of a page; the program itself is always there."""
DEVICE: Final = "h100"
MANY: Final = 8192
"""Minimum number of instructions for which parts may be computed by several processes."""
MOST_OUTPUTS: Final = 4096
"""Maximum number of outputs of an instruction that the explorer shows."""
MOST_ASKED_FROM: Final = 64
"""Maximum number of operands, and of tensors of one operand, with input-to-output maps."""


def _silently(items: Sequence[T], _: str) -> Iterable[T]:
    return items


class Explorer:
    """An HTML page about a program; shows itself in notebooks.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
    ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
    >>> html = program.explore().to_html()
    >>> html.startswith("<!doctype html>"), "default-src 'none'" in html
    (True, True)
    """

    def __init__(self, contents: Contents) -> None:
        self.contents: Final = contents

    def to_html(self) -> str:
        """Return the page as one HTML file that loads no other file."""
        return page_of(self.contents)

    def _repr_html_(self) -> str:
        return frame(self.to_html())


def explore(
    program: Program,
    *,
    parts: Sequence[str] = EXPLORER_PARTS,
    device: str = DEVICE,
    before: Program | None = None,
    shown: Shown = _silently,
    jobs: int = 1,
    invalid: Invalid | None = None,
) -> Explorer:
    """Return a page with a program, its maps and results about its kernels.

    Args:
        program: The program.
        parts: The parts of the page, from `EXPLORER_PARTS`.
        device: Name of the GPU for coalescing and footprints.
        before: An older program; the page states the differences from it.
        shown: Iterates over items; it may show progress.
        jobs: Maximum number of processes for a large program, where processes can be forked.
        invalid: Findings about the program. The page lists them, and has results for the other
            instructions. `None` for a valid program.

    Raises:
        ValueError: A part does not exist.
        UnknownNameError: The device is unknown.
    """
    unknown = sorted(set(parts) - set(EXPLORER_PARTS))
    if unknown:
        raise ValueError(f"no part `{unknown[0]}`; there are {', '.join(EXPLORER_PARTS)}")
    devices.gpu_of(device)
    with program.lock:
        gathering = _PageBuilder(program, device, shown, jobs, invalid)
        return Explorer(gathering.contents(parts, before))


class _PageBuilder:
    """The contents of a page, computed part by part."""

    def __init__(
        self,
        program: Program,
        device: str,
        shown: Shown,
        jobs: int = 1,
        invalid: Invalid | None = None,
    ) -> None:
        self.program, self.device, self.shown = program, device, shown
        self.invalid = invalid if invalid is not None and invalid.reasons else None
        self.numbering = Numbering(program.module, program.analysis.structure_ids)
        self.beside = jobs - 1 if len(self.numbering) >= MANY and CAN_FORK else 0
        """Number of child processes that may still be started."""
        self.kernels = Kernels(len(self.numbering))
        self._told = Answers(len(self.numbering))
        self._told_first: dict[tuple[object, ...], int] = {}
        """For each structure the number of an instruction whose result names no other instruction.

        Its result holds for every instruction of that structure.
        """
        self._placed = cache(placed)  # many instructions have equal accesses and types
        self._rows: dict[tuple[int, int, tuple[int, ...], int, int], tuple[Any, int, bool]] = {}
        self._names_others = False

    def contents(self, parts: Sequence[str], before: Program | None) -> Contents:
        groups = [[name for name in group if name in parts] for group in TOGETHER]
        with ExitStack() as stack:
            # The slow parts run in child processes while this one computes the others.
            begun = [self._start_child(group, stack) for group in groups]
            chunks: dict[str, Any] = {
                "rows": rows(self.numbering),
                "details": details(self.numbering),
            }
            numbers, device = self.numbering.numbers, self.device
            chunks["about"] = about(self.program)
            if "cost" in parts:
                chunks["cost"] = cost_sheet(self.program, device, numbers, self.invalid)
            if "memory" in parts:
                chunks["memory"] = memory_sheet(self.program, device, numbers)
            if "maps" in parts:
                chunks["answers"] = self.answers().to_json()
            for group, work in zip(groups, begun, strict=True):
                told = None if work is None else work.result()[0]
                if told is None:  # no child process was started, or it was killed
                    self._compute_parts(group)
                else:
                    self.kernels.add_computed(told)
        chunks["kernels"] = self.kernels.to_json()
        if self.invalid is not None:
            chunks["invalid"] = self.invalid_instructions(self.invalid)
        if before is not None:
            chunks["diff"] = self.differences(before)
        return Contents(
            title=self.program.module.name,
            file=self.program.file,
            language="StableHLO" if self.program.module.has_tree else "HLO",
            instructions=len(self.numbering),
            computations=len(self.numbering.computations),
            device=self.device,
            parts=tuple(part for part in EXPLORER_PARTS if part in parts),
            chunks=chunks,
        )

    def _start_child(self, parts: Sequence[str], stack: ExitStack) -> scan.ChildProcess | None:
        """Start a child process that computes parts about kernels; return its handle.

        `None` if `parts` is empty, or if no process can be started. At the end of `stack` the
        process is killed.
        """
        if not parts or not self.beside:
            return None
        try:
            work = stack.enter_context(scan.ChildProcess(partial(self._compute_in_child, parts)))
        except OSError:  # there are too many processes, or there is no memory
            return None
        self.beside -= 1
        return work

    def _compute_parts(self, parts: Sequence[str]) -> None:
        """Compute the named parts about kernels, and add them to the page."""
        tell = {
            "coalesce": self.coalescing,
            "footprint": self.footprints,
            "cancel": self.cancellations,
            "tiles": self.tiles,
        }
        for part in parts:
            tell[part]()

    def _compute_in_child(self, parts: Sequence[str]) -> list[Any]:
        """Compute parts about kernels in a child process; return them as a list for JSON."""
        self.shown = _silently
        self._compute_parts(parts)
        return self.kernels.to_list()

    def invalid_instructions(self, invalid: Invalid) -> list[dict[str, Any]]:
        """Return the number, text and finding of each instruction without results."""
        return [
            {"k": self.numbering.numbers[ins], "text": visible(f"{ins.name}: {reason}")}
            for ins, reason in invalid.reasons.items()
        ]

    # ---------------------------------------------------------------------------------- maps

    def answers(self) -> Answers:
        """Return the maps of all instructions, in both directions.

        Structurally equal computations repeat the results of the first one.
        """
        first, computations = self.numbering.first, self.numbering.computations
        # Does every result of this computation name no instruction?  Only then do structurally
        # equal computations have it in common.
        of_all_alike = [True] * len(computations)
        asked: list[tuple[int, Instruction | None]] = [
            (place, ins)
            for place, computation in enumerate(computations)
            for ins in (computation if first[place] == place else (None,))
        ]
        for place, ins in self.shown(asked, "maps"):
            if ins is not None:
                of_all_alike[place] &= self._answer(ins)
            elif of_all_alike[first[place]]:
                start, there = self.numbering.starts[place], self.numbering.starts[first[place]]
                self._told.repeat(start, there, len(computations[place]))
            else:
                for each in computations[place]:
                    self._answer(each)
        return self._told

    def _answer(self, ins: Instruction) -> bool:
        """Add the maps of an instruction; return whether they hold for all equal instructions."""
        if self.invalid is not None and ins in self.invalid.reasons:
            self._told.refuse(self.numbering.numbers[ins], self.invalid.reasons[ins])
            return False
        # Nothing is read, so there are no maps, which is true of every equal instruction.
        if not ins.operands and not ins.calls:
            return True
        answers, analysis = self._told, self.program.analysis
        number = self.numbering.numbers[ins]
        alike = analysis.key_of_maps(ins)
        if alike and alike in self._told_first:
            answers.repeat(number, self._told_first[alike])
            return True
        self._names_others = False
        try:
            reads = list(self._reads(ins))
            reaches, left_out = self._reaches(ins)
        except HloscopeError as error:
            answers.refuse(number, error.message)
            return False
        if len(analysis.tensors(ins.type)) > MOST_OUTPUTS:
            left_out += f"only {MOST_OUTPUTS:,} outputs are shown"
        answers.add(number, reads, reaches, left_out)
        # `_row` sets `_names_others` when a map has runtime variables: they name the instruction
        # that computes them, which differs between equal computations.
        if not alike or self._names_others:
            return False
        self._told_first[alike] = number
        return True

    def _reads(self, ins: Instruction) -> Iterator[tuple[int, list[int]]]:
        """Yield each output's number, with the numbers of the page's rows that have its maps.

        The maps lead to the operands, then to captured values.
        """
        analysis = self.program.analysis
        captured = analysis.captured(ins)
        for output, here in enumerate(analysis.tensors(ins.type)[:MOST_OUTPUTS]):
            found = []
            for (source, leaf), some in analysis.output_to_input(ins, output).items():
                if isinstance(source, int):
                    number, value = source, ins.operands[source]
                else:
                    number, value = len(ins.operands) + captured.index(source), source
                there = analysis.tensors(value.type)[leaf]
                found.append((number, leaf, self._row(number, leaf, some, here, there)))
            yield output, [row for _, _, row in sorted(found)]

    def _reaches(self, ins: Instruction) -> tuple[list[tuple[int, int, list[int]]], str]:
        """Return the maps from operands to outputs, and a note on omissions (empty without any).

        An entry has the number of the operand, the number of its tensor, and the numbers of the
        rows of the page that have the maps.
        """
        analysis = self.program.analysis
        every = [*ins.operands, *analysis.captured(ins)]
        if len(every) > MOST_ASKED_FROM:
            return [], f"input-to-output maps of {len(every):,} operands are left out; "
        outputs = analysis.tensors(ins.type)
        found: list[tuple[int, int, list[int]]] = []
        left_out = ""
        for operand, value in enumerate(every):
            tensors = analysis.tensors(value.type)
            if len(tensors) > MOST_ASKED_FROM:
                left_out = f"input-to-output maps of {len(tensors):,} tensors are left out; "
                continue
            asked = operand if operand < len(ins.operands) else value
            for leaf, here in enumerate(tensors):
                reached = analysis.input_to_output(ins, asked, leaf)
                told = [
                    self._row(output, 0, some, here, outputs[output])
                    for output, some in sorted(reached.items())
                ]
                found.append((operand, leaf, told))
        return found, left_out

    def _row(self, number: int, leaf: int, some: Accesses, here: Type, there: Type) -> int:
        """Return the number of the page's row that has the accesses of one tensor.

        Rows are found by the identity of the accesses, which equal instructions share; comparing
        their maps would cost more than the row.

        Args:
            number: Number of the operand.
            leaf: Number of the tensor in it.
            some: The accesses, between logical indices.
            here: Type of the tensor that the maps start from.
            there: Type of the tensor that the maps lead to.
        """
        key = number, leaf, tuple(map(id, some)), id(here), id(there)
        known = self._rows.get(key)
        if known is None:
            in_order = self._placed(some, here, there, "physical")
            in_line = self._placed(some, here, there, "linear")
            row = self._told.row(Read(number, leaf, some, in_order, in_line))
            names = any([has_runtime((a,)) or (a.replica and a.replica.runtime) for a in some])
            known = self._rows[key] = (some, here, there), row, names  # which keeps them alive
        self._names_others |= known[2]
        return known[1]

    # ------------------------------------------------------------------------------- verdicts

    def _kernels(self) -> list[tuple[Computation, Instruction]]:
        if not self.numbering.computations:
            return []
        kernels = kernels_of(self.program.module)
        return [place for place in kernels if self._is_answered(*place)]

    def _is_answered(self, computation: Computation, ins: Instruction) -> bool:
        return self.invalid is None or self.invalid.is_answered(computation, ins)

    @cached_property  # coalescing and footprints share its analysis of kernels
    def _memory(self) -> memory.Memory:
        return Model(self.device).memory(self.program.analysis, self.program.dump)

    def coalescing(self) -> None:
        """Add to the page how the warps of each kernel access memory, or why that is unknown.

        These data contain no names, so kernels of equal structure share one entry.
        """
        asked = self._memory
        target = cost.target_of(self.program.module)
        if target.kind in ("cpu", "tpu"):  # its kernels have no threads of a GPU
            reason = f"compiled for {target.kind}: {target.evidence}"
            number = self.kernels.number({"refused": visible(reason)})
            for _, ins in self._kernels():
                self.kernels.add("coalesce", self.numbering.numbers[ins], number)
            return
        # Equal kernels share their answer.
        facts: Callable[[memory.Coalescing], int] = once_for_each(
            lambda answer: self.kernels.number(coalescing_facts(answer))
        )
        for _, ins in self.shown(self._kernels(), "coalescing"):
            try:
                number = facts(asked.of_equal(ins))
            except HloscopeError as error:
                number = self.kernels.number({"refused": visible(error.message)})
            self.kernels.add("coalesce", self.numbering.numbers[ins], number)

    def footprints(self) -> None:
        """Add to the page the bytes that each kernel moves at least, and how often it runs."""
        device = devices.gpu_of(self.device)
        asked = cost.Footprints(self.program.analysis, device, self._memory.kernels)
        known: dict[tuple[int, int | None], tuple[Any, int]] = {}
        for place in cost.running(self.program.module):
            times = None if place.notes else place.times
            for ins in place.kernels:
                if not self._is_answered(place.computation, ins):
                    continue
                answer = asked.of_equal(ins)
                key = id(answer), times
                if key not in known:
                    told = answer, self.kernels.number(footprint_facts(answer, times))
                    known[key] = told  # which keeps it alive
                self.kernels.add("footprint", self.numbering.numbers[ins], known[key][1])

    def cancellations(self) -> None:
        """Add to the page each chain of data movement, at every instruction of the chain.

        The data of a chain are its bytes moved and saved, its steps and its sources.
        """
        known: dict[Any, int] = {}
        sources: dict[movement.Chain, list[str]] = {}
        by_pattern: dict[object, tuple[int, tuple[int | None, ...]]] = {}
        structure_ids = self.program.analysis.structure_ids
        found = Movement(self.program.module, self.invalid, structure_ids)
        for figures in found.savings.figures:
            chain = figures.chain
            if chain is None:
                continue
            alike = None if chain.pattern is None else (chain.pattern, figures.moved, figures.saved)
            told = None if alike is None else by_pattern.get(alike)
            if told is None:
                places = chain_places(chain, self.numbering)
                model = chain.model
                key = model, figures.moved, figures.saved, places
                number = known.get(key)
                if number is None:
                    if model not in sources:
                        sources[model] = chain_sources(chain)
                    facts = chain_facts(figures, places, sources[model])
                    number = known[key] = self.kernels.number(facts)
                told = number, places.steps
                # Chains of one pattern have the same steps, at the same distances from the sink.
                if alike is not None:
                    by_pattern[alike] = told
            number, steps = told
            sink = self.numbering.numbers[chain.sink]
            for back in steps:
                if back is not None:
                    self.kernels.add("cancel", sink - back, number, sink)

    def tiles(self) -> None:
        """Add to the page how each kernel can be tiled.

        Structurally equal kernels are analysed once.
        """
        structure_ids = self.program.analysis.structure_ids
        number, type_number = structure_ids.number, structure_ids.type_number
        known: dict[Any, int] = {}
        for _, ins in self.shown(self._kernels(), "tiles"):
            key = (
                structure_ids.op_number(ins.op),
                type_number(ins.type),
                tuple(map(number, ins.calls)),
                tuple([type_number(operand.type) for operand in ins.operands]),
                compared_extras(ins),
            )
            if key not in known:
                known[key] = self.kernels.number(self._tiles_of(ins))
            self.kernels.add("tiles", self.numbering.numbers[ins], known[key])

    @cached_property  # an analysis for all kernels, with its own caches
    def _by_convention(self) -> Analysis:
        return self.program.by_convention("xla").analysis

    def _tiles_of(self, ins: Instruction) -> dict[str, Any]:
        try:
            asked = self.program.analysis, self._by_convention
            return tile_facts(tiling.tile_report(ins, *asked).symbolic)
        except HloscopeError as error:
            return {"refused": visible(error.message)}

    def differences(self, before: Program) -> dict[str, Any]:
        """Return the structural differences from an older program, as JSON."""
        found = differences_of_programs(before.module, self.program.module)
        return dict(readable({"file": before.file, **display.differences_json(found)}))
