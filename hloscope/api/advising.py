"""Advice about a program: movement, tiles, layouts and donations that are proved to save bytes.

What is not proved is left out, so there is no advice about most programs:

- movement: rewritings that are proved equal, with the bytes that all of them together save;
- tiles: a tiling that XLA accepts and that the device can run, by bytes of transactions;
- padding: the cheapest order of dimensions under the same tiles;
- donations: an argument that is read for the last time when a result of its type is written.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from hloscope.api.cancelling import movement_of
from hloscope.buffers import cheapest_order
from hloscope.checks import (
    Subject,
    arguments_taken,
    padded_arrays,
    results_placed,
)
from hloscope.cost import (
    Advice,
    AdviceKind,
    Level,
    ProgramCost,
    TritonUse,
    is_scheduled,
    is_triton,
)
from hloscope.devices import DEFAULT
from hloscope.display import provenance_of
from hloscope.fusion import ALIASES, Analysis, size_in_bytes
from hloscope.hlo_parser import print_type
from hloscope.indexing import Precision
from hloscope.ir import Computation, Instruction, Module, TensorType, array_bytes, size_text
from hloscope.movement import BEFORE, ONCE, SAME, Figures
from hloscope.ops import (
    AsyncStart,
    Call,
    Case,
    Composite,
    CopyStart,
    CustomCall,
    DynamicUpdateSlice,
    Fusion,
    GetTupleElement,
    Parameter,
    Return,
    Scatter,
    Send,
    Tuple,
    While,
)

_KEEPS_ALIVE: Final = (AsyncStart, Call, Case, Composite, CopyStart, Send, While)
"""Ops that read an operand for longer than they stand in the schedule, or return its memory."""
_IN_PLACE: Final = (DynamicUpdateSlice, Scatter)


class Advised(Protocol):
    """A program, as far as advice about it needs it."""

    @property
    def module(self) -> Module: ...
    @property
    def file(self) -> str: ...
    @property
    def analysis(self) -> Analysis: ...


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
    """Advice in order: bytes that are moved before those that are held, the largest share first."""
    return sorted(found, key=lambda one: (one.level is Level.HELD, -one.share, -one.bytes_saved))


def _file(file: str) -> str:
    return "-" if file == "<stdin>" else shlex.quote(file)


def _and_more(ordered: list[Change]) -> str:
    """The name of the first instruction, and how many there are beside it."""
    name, others = ordered[0].instruction.name, len(ordered) - 1
    return f"{name} and {others:,} like it" if others else name


# ------------------------------------------------------------------------------------- movement


def movement_advice(program: Advised, model: ProgramCost) -> list[Advice]:
    """Movement that need not be done, by proved rewritings: all of them can be done together."""
    module, whole = program.module, sum([kernel.bytes for kernel in model.kernels])
    figures = [found for found in movement_of(module).savings.figures if found.saved > 0]
    if not figures:
        return []
    homes = {ins: computation for computation in module for ins in computation}
    fusions = {i.calls[0]: i for i in homes if isinstance(i.op, Fusion) and i.calls}
    idle = {k.computation for k in model.kernels} - {k.computation for k in model.kernels if k.runs}
    groups: dict[Hashable, list[_Place]] = defaultdict(list)
    for found in figures:
        kernel = fusions.get(homes[found.value], found.value)
        if homes[kernel] in idle:
            continue
        origin = provenance_of(found.value, module).place or provenance_of(kernel, module).place
        groups[found.how, origin or found.like or found.value].append(
            _Place(found, kernel, homes[kernel], homes[found.value])
        )
    return [_movement(some, program, whole) for some in groups.values()]


class _Place(NamedTuple):
    """Movement that need not be done.

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


def _movement(places: list[_Place], program: Advised, whole: int) -> Advice:
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
        known = bool(arrays) and all(a.moved is not None or not a.touches for a in arrays)
        each = sum([a.moved or 0 for a in arrays]) if known else kernel.footprint.bytes
        whole += each * kernel.runs
        use = ratings.get(kernel.instruction)
        if use is not None and use.saved and kernel.runs:
            uses[id(use)] = use
            change = Change(
                kernel.instruction, kernel.computation, kernel.runs, use.saved * kernel.runs
            )
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
    """Orders of dimensions of which the same tiles leave less memory empty."""
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
    """Arguments whose memory a result of the same type and layout can take.

    The text must be in the order of the schedule.  The argument is read for the last time before
    the kernel that writes the result, or by this kernel: a loop fusion that for each index of each
    of its results reads the argument at this index only.
    """
    module = program.module
    if not is_scheduled(module):
        return []
    entry = module.entry
    root = entry.root
    results = root.operands if isinstance(root.op, Tuple | Return) else (root,)
    placed, taken = results_placed(module), arguments_taken(module)
    lives = _Lives(entry)
    times = Counter(results)
    writers: dict[TensorType, list[Instruction]] = defaultdict(list)
    for number, result in enumerate(results):
        is_free = number not in placed and times[result] == 1
        if is_free and isinstance(result.type, TensorType) and lives.writer(result) is not None:
            writers[result.type].append(result)
    changes = []
    for parameter in entry.parameters:
        type, op = parameter.type, parameter.op
        if not isinstance(type, TensorType) or not isinstance(op, Parameter) or op.number in taken:
            continue
        candidates = writers.get(type, [])
        last = lives.last_reads(parameter) if candidates else None
        if last is None:
            continue
        for result in candidates:
            writer = lives.writer(result)
            assert writer is not None
            if lives.order[last] < lives.order[writer] or (
                last is writer and _reads_in_place(program.analysis, writer, parameter)
            ):
                candidates.remove(result)
                changes.append(Change(parameter, entry, 1, size_in_bytes(type)))
                break
    if not changes:
        return []
    whole = sum([size_in_bytes(value.type) for value in (*entry.parameters, *results)])

    def text(ordered: list[Change], saved: int) -> str:
        count = len(ordered)
        return (
            f"{_and_more(ordered)}: {'results' if count > 1 else 'a result'} of the same type can "
            f"take the memory if the caller donates {'them' if count > 1 else 'it'}; "
            f"{size_text(saved)} less to hold"
        )

    def command(ins: Instruction) -> str:
        return f"hloscope show {_file(program.file)} {shlex.quote(ins.name)}"

    return [_advice(changes, AdviceKind.DONATION, Level.HELD, whole, text, command)]


class _Lives:
    """How long values of a scheduled computation are read."""

    def __init__(self, computation: Computation) -> None:
        self.order: Final = {ins: at for at, ins in enumerate(computation.instructions)}
        self._root: Final = computation.root
        self._users: Final[dict[Instruction, list[Instruction]]] = defaultdict(list)
        for ins in computation.instructions:
            for operand in dict.fromkeys(ins.operands):
                self._users[operand].append(ins)

    def _readers(self, value: Instruction) -> Iterator[Instruction | None]:
        """What reads a value or a view of it, and `None` where such a view is returned."""
        waiting, seen = [value], {value}
        while waiting:
            at = waiting.pop()
            if at is self._root:
                yield None
            for user in self._users[at]:
                if isinstance(user.op, ALIASES):
                    if user not in seen:
                        seen.add(user)
                        waiting.append(user)
                else:
                    yield user

    def last_reads(self, value: Instruction) -> Instruction | None:
        """The last instruction that reads a value.

        `None` if nothing does, if it is returned, or if an instruction may read it later.
        """
        readers = list[Instruction]()
        for reader in self._readers(value):
            if reader is None or _may_hold(reader):
                return None
            readers.append(reader)
        if not readers:
            return None
        return max(readers, key=self.order.__getitem__)

    def writer(self, result: Instruction) -> Instruction | None:
        """The fusion that writes a result to memory of its own; `None` if it is not known."""
        if isinstance(result.op, GetTupleElement):
            result = result.operands[0]
        return result if isinstance(result.op, Fusion) and not _may_hold(result) else None


def _may_hold(ins: Instruction) -> bool:
    """May an instruction read its operands after its turn, or write to their memory?"""
    if isinstance(ins.op, _KEEPS_ALIVE + _IN_PLACE) or _is_aliased(ins):
        return True
    if isinstance(ins.op, Fusion):
        return any(isinstance(inner.op, _IN_PLACE) for callee in ins.calls for inner in callee)
    return False


def _is_aliased(ins: Instruction) -> bool:
    """Does the value of an instruction take the memory of an operand, as its text says?"""
    op = ins.op
    return isinstance(op, Fusion | CustomCall) and any(["alias" in name for name, _ in op.settings])


def _views(value: Instruction, argument: Instruction) -> bool:
    """Is a value a view of an argument, or a tuple that holds one?"""
    waiting, seen = [value], {value}
    while waiting:
        at = waiting.pop()
        if at is argument:
            return True
        if isinstance(at.op, ALIASES):
            new = [operand for operand in at.operands if operand not in seen]
            seen.update(new)
            waiting += new
    return False


def _reads_in_place(analysis: Analysis, kernel: Instruction, argument: Instruction) -> bool:
    """Does a loop fusion read an argument, for each index of each result, at this index only?"""
    if not isinstance(kernel.op, Fusion) or kernel.op.kind != "kLoop":
        return False
    places = [k for k, operand in enumerate(kernel.operands) if operand is argument]
    others = [operand for operand in kernel.operands if operand is not argument]
    if not places or any([_views(operand, argument) for operand in others]):
        return False  # a view of the argument may be read at any index
    for output in range(len(analysis.tensors(kernel.type))):
        for (operand, _), accesses in analysis.output_to_input(kernel, output).items():
            if operand in places and not all(
                access.map is not None
                and access.precision is Precision.EXACT
                and access.map.is_identity
                for access in accesses
            ):
                return False
    return True
