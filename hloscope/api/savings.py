"""Changes of a program that are proved to save bytes, and its chains of data movement."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from hloscope.api.invalid import Invalid, check_part
from hloscope.checks import Subject, padded_arrays
from hloscope.cost import Advice, AdviceKind, Level, ProgramCost, TritonUse, running
from hloscope.cost.buffers import Donations, ProgramMemory, Uses, cheapest_order
from hloscope.display import (
    Shown,
    chain_html,
    chain_json,
    chain_svg,
    chain_text,
    preformatted,
    provenance_of,
    styled,
)
from hloscope.errors import UnknownNameError
from hloscope.fusion import StructureIds
from hloscope.hlo_parser import print_type
from hloscope.ir import Computation, Instruction, Module, array_bytes, size_text
from hloscope.movement import (
    BEFORE,
    ONCE,
    SAME,
    Chain,
    Figures,
    Flow,
    Kind,
    Rewriting,
    Savings,
    chain_to,
    chains_of,
    rewrite,
)
from hloscope.ops import Fusion
from hloscope.support.devices import DEFAULT
from hloscope.support.source import visible

if TYPE_CHECKING:
    from hloscope.api.program import Program

# --------------------------------------------------------------------------------------------------
# Chains of data movement, each with its verdict, proof and rewriting.


class Cancellation(Shown):
    """A chain of data movement, and its verdict.

    >>> import hloscope
    >>> program = hloscope.read('''
    ... ENTRY e {
    ...   p = f32[4,8] parameter(0)
    ...   t = f32[8,4] transpose(p), dimensions={1,0}
    ...   ROOT u = f32[4,8] transpose(t), dimensions={1,0}
    ... }''')
    >>> found = program.root.cancellation()
    >>> found.kind, found.bytes_moved, found.bytes_saved
    (<Kind.NO_OP: 'no-op'>, 512, 256)
    >>> print(found.rewriting.text.strip())
    HloModule rewritten
    <BLANKLINE>
    ENTRY main {
      ROOT p = f32[4,8] parameter(0)
    }
    """

    def __init__(self, chain: Chain, module: Module, movement: Callable[[], Movement]) -> None:
        """Store a chain of a module, and a function that finds all data movement of the module."""
        self.chain: Final = chain
        self.module: Final = module
        self._movement: Final = movement

    def __reduce__(self) -> NoReturn:
        raise TypeError("a chain of a program does not cross processes: send `to_json()` instead")

    @property
    def figures(self) -> Figures:
        """Return the bytes that the chain moves, and those that can be saved.

        Chains may share instructions, so all chains of the program are searched.
        """
        return self._movement().by_sink[self.chain.sink]

    @property
    def name(self) -> str:
        """Return the name of the last op of the chain."""
        return self.chain.sink.name

    @property
    def kind(self) -> Kind:
        """Return the verdict: the kind of movement."""
        return self.chain.kind

    @property
    def bytes_moved(self) -> int:
        """Return the bytes that the chain's kernels read and write to move data, in all runs."""
        return self.figures.moved

    @property
    def bytes_saved(self) -> int:
        """Return the bytes of `bytes_moved` that a proved rewriting removes, in all runs."""
        return self.figures.saved

    @property
    def runs(self) -> int:
        """Return how often the chain runs in one run of the program."""
        return self.figures.runs

    @property
    def blocking(self) -> str | None:
        """Return the name of the first op after which the bytes lie in another order.

        `None` if the chain keeps their order.
        """
        blocking = self.chain.blocking
        return None if blocking is None else blocking.name

    @cached_property  # it is parsed and run; text, page and JSON read it
    def rewriting(self) -> Rewriting:
        """Return a shorter program with the same result.

        It is parsed, and executed together with the original chain.
        """
        return rewrite(self.chain)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON, with its rewriting."""
        return chain_json(self.figures, self.rewriting)

    def to_svg(self) -> str:
        """Return a picture of what each step does to the dimensions."""
        return chain_svg(self.chain, self.figures)

    def to_html(self) -> str:
        """Return an HTML page with the picture and the rewriting."""
        return chain_html(self.chain, self.rewriting, self.figures)

    def _repr_html_(self) -> str:
        return styled(self.to_svg() + preformatted(str(self)))

    def __str__(self) -> str:
        return visible(chain_text(self.chain, self.rewriting, self.figures))


class Movement:
    """All data movement of a program.

    Attributes:
        module: The program.
        places: Computations with how often they run.
        savings: Bytes that are moved, and bytes that can be saved, for each chain.
        notes: Assumptions about how often computations run.
    """

    def __init__(
        self,
        module: Module,
        invalid: Invalid | None = None,
        structure_ids: StructureIds | None = None,
    ) -> None:
        """Find the data movement of a module. Chains begin and end at invalid instructions.

        Args:
            module: The program.
            invalid: Findings about the program; `None` for a valid program.
            structure_ids: Numbers of the structures of its computations, if they are known.
        """
        # The chains end at invalid instructions, whose maps mean nothing.
        without = {} if invalid is None else invalid.reasons
        flow, places = Flow(module, structure_ids, without), list(running(module))
        notes = [note for place in places for note in place.notes]
        if invalid is not None and without:
            places = [place for place in places if place.computation not in invalid.hidden]
            notes.append(invalid.note)
        # Savings count all runs, so the computations whose run count is unknown must be gone by
        # now.
        runs = {place.computation: place.times for place in places}
        self.module: Final = module
        self.places: Final = tuple(places)
        self.savings: Final = Savings(flow, list(chains_of(flow)), runs, without)
        self.notes: Final = tuple(dict.fromkeys(notes))

    @property
    def chains(self) -> list[Chain]:
        """Return the chains, in the order of the text."""
        return [found.chain for found in self.savings.figures if found.chain is not None]

    @cached_property  # each chain of the program looks itself up
    def by_sink(self) -> dict[Instruction, Figures]:
        """Return the bytes of each chain, moved and saved, by the chain's last op."""
        return {found.value: found for found in self.savings.figures if found.chain is not None}


def cancellations(module: Module) -> list[Cancellation]:
    """Return all chains of a module: largest saving first, then largest movement."""
    movement = Movement(module)
    found = [Cancellation(chain, module, lambda: movement) for chain in movement.chains]
    found.sort(key=lambda c: (-c.bytes_saved, -c.bytes_moved, not c.kind.is_free))
    return found


def cancellation_of(module: Module, instructions: Sequence[Instruction]) -> list[Cancellation]:
    """Return the chains that end at the given instructions.

    For an instruction where no chain ends, they are the chains that pass it.

    Raises:
        UnknownNameError: No chain of data movement leads through any of them.
        VerifyError: An instruction of a chain is invalid.
    """
    flow = Flow(module)
    values = [flow.source(ins) for ins in instructions]
    ending = {value: chain for value in values if (chain := chain_to(flow, value)) is not None}
    others = [value for value in values if value not in ending]
    passing = list(chains_of(flow, others)) if others else []
    found: dict[Instruction, Chain] = {}
    for value in values:
        chains = [ending[value]] if value in ending else [c for c in passing if value in c.steps]
        found |= {chain.sink: chain for chain in chains}
    if not found:
        names = ", ".join(f"`{ins.name}`" for ins in instructions[:3])
        raise UnknownNameError(f"no chain of data movement leads through {names}")
    for chain in found.values():
        check_part(module, [*[leaf.value for leaf in chain.leaves], *chain.steps])
    # Only the byte figures need the whole program: it is searched once for all chains, and only
    # if a caller asks for bytes.
    movement = cache(lambda: Movement(module))
    return [Cancellation(chain, module, movement) for chain in found.values()]


# --------------------------------------------------------------------------------------------------
# Advice about a program: movement, tiles, layouts and donations that are proved to save bytes.
#
# What is not proved is left out, so there is no advice about most programs:
#
# - movement: rewritings that are proved equal, with the bytes that all of them together save;
# - tiles: a tiling that XLA accepts and that the device can run, by bytes of transactions;
# - padding: the cheapest order of dimensions under the same tiles;
# - donations: an argument that is read for the last time when a result of its type is written.


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
    says: str,
    less: str,
    command: str,
) -> Advice:
    """Return one piece of advice about several instructions.

    Its text names the instruction with the largest saving, and states the sum of all savings.

    Args:
        changes: The changes of the instructions.
        kind: Kind of the advice.
        level: Level of memory at which the bytes count.
        whole: All bytes of the program at this level.
        says: The words of the text before the saved bytes.
        less: The words after them.
        command: The command that shows the proof.
    """
    ordered = sorted(changes, key=lambda change: -change.saved)
    first, saved = ordered[0], sum([change.saved for change in ordered])
    name, others = first.instruction.name, len(ordered) - 1
    what = f"{name} and {others:,} like it" if others else name
    return Advice(
        kind, f"{what}: {says} {size_text(saved)} {less}", saved, whole, level,
        first.instruction, first.computation, tuple([change.instruction for change in ordered]),
        sum([change.runs for change in ordered]), command,
    )  # fmt: skip


def by_worth(advice: Iterable[Advice]) -> list[Advice]:
    """Sort advice: first savings of bytes moved, then of memory; largest share first."""
    return sorted(advice, key=lambda one: (one.level.is_memory, -one.share, -one.bytes_saved))


def _file(file: str) -> str:
    return "-" if file == "<stdin>" else shlex.quote(file)


# ------------------------------------------------------------------------------------- movement


def movement_advice(program: Program, model: ProgramCost) -> list[Advice]:
    """Return advice on data movement that proved rewritings remove.

    All of it can be applied together. `model` has the costs of the program's kernels.
    """
    module, whole = program.module, sum([kernel.bytes for kernel in model.kernels])
    figures = [found for found in Movement(module).savings.figures if found.saved > 0]
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
        figures: The bytes of the movement.
        kernel: The kernel that moves the data.
        computation: The computation of the kernel.
        inner: The computation of the moving instructions: that of the kernel, or the fusion's.
    """

    figures: Figures
    kernel: Instruction
    computation: Computation
    inner: Computation


def _movement(places: list[_RemovableMovement], program: Program, whole: int) -> Advice:
    """Return one piece of advice about data movement that a rewriting removes.

    Args:
        places: The movement in equal copies of one chain or kernel.
        program: The program.
        whole: Bytes that all kernels of the program move.
    """
    first = max(places, key=lambda place: place.figures.saved)
    how, like = first.figures.how, first.figures.like
    kinds = {SAME: AdviceKind.DUPLICATE, ONCE: AdviceKind.DUPLICATE, BEFORE: AdviceKind.INVARIANT}
    says = {
        SAME: f"`{like}` is the same array already;",
        ONCE: f"one kernel with `{like}` reads the array once;",
        BEFORE: "the loop does not change the array; move it once before the loop;",
    }.get(how, f"the movement that ends here cancels ({how});")
    changes = [Change(p.kernel, p.computation, p.figures.runs, p.figures.saved) for p in places]
    command = f"hloscope cancel {_file(program.file)}"
    if first.figures.chain is not None:
        inside = f"{first.inner.name}/" if first.inner is not first.computation else ""
        command += f" {shlex.quote(inside + first.figures.value.name)}"
    kind = kinds.get(how, AdviceKind.CANCELS)
    return _advice(changes, kind, Level.MOVED, whole, says, "less to read and write", command)


# ---------------------------------------------------------------------------------------- tiles


def tile_advice(
    program: Program, model: ProgramCost, ratings: dict[Instruction, TritonUse]
) -> list[Advice]:
    """Return advice on Triton fusions for which another tiling transfers fewer bytes.

    Args:
        program: The program.
        model: Costs of its kernels.
        ratings: Rating of each Triton fusion.
    """
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
    on = model.device.name
    device = "" if on == DEFAULT else f" --device {shlex.quote(on)}"

    found = []
    for key, changes in groups.items():
        use = uses[key]
        assert use.best is not None
        assert use.compiled is not None
        own, other = (" x ".join(map(str, sizes)) for sizes in (use.sizes, use.best.sizes))
        runs = sum([change.runs for change in changes])
        says = (
            f"tile {other} instead of {own} (rank {use.rank:,} of {use.among:,}); "
            f"{size_text(use.compiled * runs)} of transactions, at least"
        )
        name = shlex.quote(max(changes, key=lambda change: change.saved).instruction.name)
        command = f"hloscope tile {_file(program.file)} {name} --search{device}"
        found.append(
            _advice(changes, AdviceKind.TILE, Level.TRANSFERRED, whole, says, "fewer", command)
        )
    return found


# -------------------------------------------------------------------------------------- padding


def padding_advice(program: Program) -> list[Advice]:
    """Return advice on arrays for which another order of dimensions needs less padding.

    The tiles of the layout stay the same.
    """
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
        says = f"{print_type(best)} instead of {print_type(type)};"
        command = f"hloscope check {_file(program.file)} --rule padding"
        found.append(
            _advice(
                changes, AdviceKind.PADDING, Level.ARRAYS, total, says, "less of padding", command
            )
        )
    return found


# ------------------------------------------------------------------------------------- donation


def donation_advice(program: Program) -> list[Advice]:
    """Return advice on arguments that can be donated to a result of the same type and layout.

    The list is empty if the program is not scheduled; see `Donations.offers`.
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
    results, them = ("results", "them") if len(offers) > 1 else ("a result", "it")
    says = f"{results} of the same type can take the memory if the caller donates {them};"
    command = f"hloscope memory {_file(program.file)}"
    kind, level = AdviceKind.DONATION, Level.BOUNDARY
    return [_advice(changes, kind, level, whole, says, "less to hold", command)]
