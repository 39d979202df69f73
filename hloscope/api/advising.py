"""Advice about a program: movement, tiles, layouts and donations that are proved to save bytes.

What is not proved is left out, so there is no advice about most programs:

- movement: rewritings that are proved equal, with the bytes that all of them together save;
- tiles: a tiling that XLA accepts and that the device can run, by bytes of transactions;
- padding: the cheapest order of dimensions under the same tiles;
- donations: an argument that is read for the last time when a result of its type is written.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, Protocol

from hloscope.api.cancelling import movement_of
from hloscope.buffers import Donations, ProgramMemory, Uses, cheapest_order
from hloscope.checks import Subject, padded_arrays
from hloscope.cost import (
    Advice,
    AdviceKind,
    Level,
    ProgramCost,
    TritonUse,
    is_triton,
)
from hloscope.devices import DEFAULT
from hloscope.display import provenance_of
from hloscope.hlo_parser import print_type
from hloscope.ir import Computation, Instruction, Module, TensorType, array_bytes, size_text
from hloscope.movement import BEFORE, ONCE, SAME, Figures
from hloscope.ops import Fusion


class Advised(Protocol):
    """The properties of a program that advice about it needs."""

    @property
    def module(self) -> Module: ...
    @property
    def file(self) -> str: ...


class Change(NamedTuple):
    """A change of one instruction.

    Attributes:
        instruction: The instruction.
        computation: The computation that it belongs to.
        runs: How often it runs.
        saved: Bytes that the change saves in all runs.
    """

    instruction: Instruction
    computation: Computation
    runs: int
    saved: int


def _advice(
    changes: Iterable[Change],
    kind: AdviceKind,
    level: Level,
    whole: int,
    text: Callable[[list[Change], int], str],
    command: Callable[[Instruction], str],
) -> Advice:
    """Advice about some instructions; text gets the changes and the sum that they save."""
    ordered = sorted(changes, key=lambda change: -change.saved)
    first, saved = ordered[0], sum([change.saved for change in ordered])
    return Advice(
        kind, text(ordered, saved), saved, whole, level, first.instruction, first.computation,
        tuple([change.instruction for change in ordered]),
        sum([change.runs for change in ordered]), command(first.instruction),
    )  # fmt: skip


def by_worth(found: Iterable[Advice]) -> list[Advice]:
    """Sort advice: first what saves bytes moved, then bytes held; largest share first."""
    return sorted(found, key=lambda one: (one.level is Level.HELD, -one.share, -one.bytes_saved))


def _file(file: str) -> str:
    return "-" if file == "<stdin>" else shlex.quote(file)


def _and_more(ordered: list[Change]) -> str:
    """The name of the first instruction, and the number of the others."""
    name, others = ordered[0].instruction.name, len(ordered) - 1
    return f"{name} and {others:,} like it" if others else name


# ------------------------------------------------------------------------------------- movement


def movement_advice(program: Advised, model: ProgramCost) -> list[Advice]:
    """Advice on data movement that proved rewritings remove; all of it can be applied together."""
    module, whole = program.module, sum([kernel.bytes for kernel in model.kernels])
    figures = [found for found in movement_of(module).savings.figures if found.saved > 0]
    if not figures:
        return []
    homes = {ins: computation for computation in module for ins in computation}
    fusions = {i.calls[0]: i for i in homes if isinstance(i.op, Fusion) and i.calls}
    # A computation with no runs costs nothing, so a rewriting inside it saves nothing.
    idle = {k.computation for k in model.kernels} - {k.computation for k in model.kernels if k.runs}
    groups: dict[Hashable, list[_RemovableMovement]] = defaultdict(list)
    for found in figures:
        kernel = fusions.get(homes[found.value], found.value)
        if homes[kernel] in idle:
            continue
        # Unrolled or inlined copies share their source position: one row for one cause. Without a
        # position, a value that repeats another is grouped under that one.
        origin = provenance_of(found.value, module).place or provenance_of(kernel, module).place
        groups[found.how, origin or found.like or found.value].append(
            _RemovableMovement(found, kernel, homes[kernel], homes[found.value])
        )
    return [_movement(some, program, whole) for some in groups.values()]


class _RemovableMovement(NamedTuple):
    """Data movement that can be removed.

    Attributes:
        figures: Its bytes.
        kernel: The kernel that moves.
        computation: The computation of the kernel.
        inner: The computation of the movement: that of the kernel, or what a fusion calls.
    """

    figures: Figures
    kernel: Instruction
    computation: Computation
    inner: Computation


def _movement(places: list[_RemovableMovement], program: Advised, whole: int) -> Advice:
    first = max(places, key=lambda place: place.figures.saved)
    how, like = first.figures.how, first.figures.like
    kinds = {SAME: AdviceKind.DUPLICATE, ONCE: AdviceKind.DUPLICATE, BEFORE: AdviceKind.INVARIANT}

    def text(ordered: list[Change], saved: int) -> str:
        what = _and_more(ordered)
        if how == SAME:
            says = f"{what}: `{like}` is the same array already"
        elif how == ONCE:
            says = f"{what}: one kernel with `{like}` reads the array once"
        elif how == BEFORE:
            says = f"{what}: the loop does not change the array; move it once before the loop"
        else:
            says = f"{what}: the movement that ends here cancels ({how})"
        return f"{says}; {size_text(saved)} less to read and write"

    changes = [Change(p.kernel, p.computation, p.figures.runs, p.figures.saved) for p in places]
    command = f"hloscope cancel {_file(program.file)}"
    if first.figures.chain is not None:
        inside = f"{first.inner.name}/" if first.inner is not first.computation else ""
        command += f" {shlex.quote(inside + first.figures.value.name)}"
    kind = kinds.get(how, AdviceKind.CANCELS)
    return _advice(changes, kind, Level.MOVED, whole, text, lambda _: command)


# ---------------------------------------------------------------------------------------- tiles


def tile_advice(
    program: Advised, model: ProgramCost, ratings: dict[Instruction, TritonUse]
) -> list[Advice]:
    """Tilings of Triton fusions that transfer fewer bytes than those of the dump."""
    whole = 0
    groups: dict[int, list[Change]] = defaultdict(list)
    uses: dict[int, TritonUse] = {}
    for kernel in model.kernels:
        arrays = kernel.coalescing.arrays if kernel.coalescing is not None else ()
        # Where the transactions of an array are unknown, the footprint is a lower bound of what the
        # kernel transfers, so the share that the advice states is not too small.
        known = bool(arrays) and all(a.moved is not None or not a.touches for a in arrays)
        each = sum([a.moved or 0 for a in arrays]) if known else kernel.footprint.bytes
        whole += each * kernel.runs
        use = ratings.get(kernel.instruction)
        if use is not None and use.saved and kernel.runs:
            uses[id(use)] = use
            change = Change(
                kernel.instruction, kernel.computation, kernel.runs, use.saved * kernel.runs
            )
            # Equal kernels share one rating object, whose identity is the group; `uses` keeps it
            # alive.
            groups[id(use)].append(change)
    name = model.device.name
    device = "" if name == DEFAULT else f" --device {shlex.quote(name)}"

    def one(use: TritonUse, changes: list[Change]) -> Advice:
        best = use.best
        assert best is not None
        compiled = use.compiled
        assert compiled is not None
        own, other = (" x ".join(map(str, sizes)) for sizes in (use.sizes, best.sizes))
        runs = sum([change.runs for change in changes])

        def text(ordered: list[Change], saved: int) -> str:
            return (
                f"{_and_more(ordered)}: tile {other} instead of {own} (rank {use.rank:,} of "
                f"{use.among:,}); {size_text(compiled * runs)} of transactions, "
                f"at least {size_text(saved)} fewer"
            )

        def command(ins: Instruction) -> str:
            path = _file(program.file)
            return f"hloscope tile {path} {shlex.quote(ins.name)} --search{device}"

        return _advice(changes, AdviceKind.TILE, Level.TRANSFERRED, whole, text, command)

    return [one(uses[key], changes) for key, changes in groups.items()]


def is_tiled_by_triton(model: ProgramCost) -> bool:
    """Is any kernel a Triton fusion?"""
    return any(is_triton(kernel.instruction) for kernel in model.kernels)


# -------------------------------------------------------------------------------------- padding


def padding_advice(program: Advised) -> list[Advice]:
    """Orders of dimensions with less padding than the program's under the same tiles."""
    subject = Subject(program.module, program.file)
    groups, sizes, total = padded_arrays(program.module, subject.places())
    found = []
    for type, places in groups.items():
        best = cheapest_order(type)
        least = None if best is None else array_bytes(best)
        if best is None or least is None:
            continue
        each = sizes[type].padded - least.padded
        changes = [Change(ins, computation, 1, each) for computation, ins in places]

        def text(
            ordered: list[Change], saved: int, own: TensorType = type, best: TensorType = best
        ) -> str:
            return (
                f"{_and_more(ordered)}: {print_type(best)} instead of {print_type(own)}; "
                f"{size_text(saved)} less of padding"
            )

        def command(ins: Instruction) -> str:
            return f"hloscope check {_file(program.file)} --rule padding"

        found.append(_advice(changes, AdviceKind.PADDING, Level.HELD, total, text, command))
    return found


# ------------------------------------------------------------------------------------- donation


def donation_advice(program: Advised) -> list[Advice]:
    """Arguments whose memory a result of the same type and layout can take: `Donations.offers`.

    The list is empty if the text is not in the order of a schedule.
    """
    module = program.module
    memory = ProgramMemory(module)
    if memory.reason:
        return []
    offers = Donations(memory, Uses(memory.buffers)).offers()
    if not offers:
        return []
    entry = module.entry
    changes = [Change(one.parameter.instruction, entry, 1, one.bytes) for one in offers]
    sums = memory.sums
    whole = sums.parameters + sums.outputs

    def text(ordered: list[Change], saved: int) -> str:
        count = len(ordered)
        return (
            f"{_and_more(ordered)}: {'results' if count > 1 else 'a result'} of the same type can "
            f"take the memory if the caller donates {'them' if count > 1 else 'it'}; "
            f"{size_text(saved)} less to hold"
        )

    def command(ins: Instruction) -> str:
        return f"hloscope memory {_file(program.file)}"

    return [_advice(changes, AdviceKind.DONATION, Level.HELD, whole, text, command)]
