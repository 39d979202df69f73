"""Bytes of movement that a program's plans save, each kernel counted once.

Remaining kernels that transpose the same array in the same way may become one kernel with several
results, which reads the array once (`_read_once`).  Kernels are merged only if no path leads from
one to the other, also through kernels that are merged already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from hloscope.ir import Instruction, captured
from hloscope.movement.chains import Chain
from hloscope.movement.flow import Flow, computes, moves
from hloscope.movement.plans import ONCE, SAME, Plan, Planner, Runs
from hloscope.movement.traffic import (
    bytes_of,
    is_view,
)
from hloscope.movement.verdicts import Kind
from hloscope.ops import (
    Fusion,
    Reduce,
)

_JOINED_KINDS: Final = ("kLoop", "kInput")
"""Fusion kinds that may get one more result; other kinds have special emitters."""


class Figures(Struct, frozen=True):
    """Bytes of one chain, or of a kernel of movement that is in no chain.

    Attributes:
        value: The last op of the chain, or the kernel.
        chain: The chain; `None` for a kernel without one.
        runs: Number of runs.
        moved: Bytes that its kernels read and write to move data, in all runs.  A kernel of several
            chains counts for the first of them.
        saved: Bytes that need not be read and written, in all runs.
        how: How they are saved; empty if none are.
        like: Name of the equal value, or of the kernel that reads the same array.
    """

    value: Instruction
    chain: Chain | None
    runs: int
    moved: int
    saved: int = 0
    how: str = ""
    like: str = ""


class Savings:
    """Cost of a program's movement, and the part that can be saved.

    Attributes:
        figures: Figures of each chain in the given order, then of kernels in no chain.
        plans: The plans that are carried out together, with the bytes that each saves.
    """

    def __init__(
        self,
        flow: Flow,
        chains: Sequence[Chain],
        runs: Runs,
        without: Iterable[Instruction] = (),
    ) -> None:
        """Count the movement of a module.

        Args:
            flow: The values of a module.
            chains: The chains that are counted.
            runs: Number of runs of each computation.
            without: Kernels that are not counted, such as invalid ones.
        """
        self._planner: Final = Planner(flow)
        self._flow: Final = flow
        self._runs: Final = runs
        self._chains: Final = chains
        self.plans: Final = self._planner.settled([*self._plans()], runs)
        self._once: Final = self._read_once()
        met = set[object](without)
        self.figures: Final = [*self._of_chains(met), *self._of_others(met)]

    @property
    def has_fusions(self) -> bool:
        """Has the program a fusion?"""
        return any(
            [isinstance(ins.op, Fusion) for computation in self._runs for ins in computation]
        )

    @property
    def moved(self) -> int:
        """Bytes that the program reads and writes to move data."""
        return sum([found.moved for found in self.figures])

    @property
    def saved(self) -> int:
        """Bytes of `moved` that can be saved."""
        return sum([found.saved for found in self.figures])

    def _plans(self) -> Iterator[Plan]:
        """Yield the best plan of each chain that has one."""
        planner = self._planner
        equal = {
            chain: (movement, keeper)
            for chain, movement, keeper in planner.duplicates(self._chains)
        }
        taken: set[Instruction] = set()
        for chain in self._chains:
            if not planner.moving_kernels(chain.steps):
                continue
            shorter = planner.shorter(chain, self._runs, taken)
            # A replacement without own traffic is the best; an equal value comes next; hoisting
            # and shorter programs add bytes.
            if shorter is not None and not shorter.added:
                yield shorter
            elif chain in equal:
                movement, keeper = equal[chain]
                yield Plan(chain, movement.steps, (keeper,), 0, SAME, keeper.name)
            else:
                plan = planner.hoisted(chain, self._runs) or shorter
                if plan is not None:
                    yield plan

    # ------------------------------------------------------------------------ kernels read once

    def _transposing(self, chain: Chain) -> tuple[Instruction, Instruction] | None:
        """Return the one kernel that transposes a whole array in a chain, and the array.

        `None` if the chain is another kind of movement.
        """
        if chain.kind is not Kind.TRANSPOSE or len(chain.main) != 1:
            return None
        traffic, source = self._planner.traffic, chain.sources[0]
        kernels = {traffic.kernel_of(s) for s in chain.steps if not is_view(s) or s is chain.sink}
        if len(kernels) != 1:
            return None
        (kernel,) = kernels
        operands = [self._flow.source(operand) for operand in kernel.operands]
        if not isinstance(kernel.op, Fusion):
            operands = [source] if moves(kernel) else []
        fits = not isinstance(kernel.op, Fusion) or kernel.op.kind in _JOINED_KINDS
        if not fits or source not in operands or not self._is_read_whole(chain.sink, kernel):
            return None
        return kernel, source

    def _is_read_whole(self, value: Instruction, kernel: Instruction) -> bool:
        """Are all elements of a value in a kernel needed for its results?"""
        outputs = self._planner.traffic.outputs(kernel)
        todo = {value: None}
        for at in (order := [value]):
            if at in outputs or isinstance(at.op, Reduce):
                return True
            for reader in self._flow.users(at):
                is_plain = computes(reader) or isinstance(reader.op, Reduce)
                is_here = self._planner.traffic.kernel_of(reader) is kernel
                if is_plain and is_here and reader not in todo:
                    todo[reader] = None
                    order.append(reader)
        return False

    def _read_once(self) -> dict[Chain, str]:
        """Return chains whose kernel may be merged with one that transposes the same array equally.

        The value is the name of that kernel.
        """
        groups: dict[object, list[tuple[Chain, Instruction]]] = defaultdict(list)
        changed = {plan.chain for plan in self.plans}
        for chain in self._chains:
            found = None if chain in changed else self._transposing(chain)
            if found is not None:
                kernel, source = found
                home = self._flow.home(kernel)
                order = chain.type.layout and chain.type.layout.minor_to_major
                # Equal maps and layouts of one array, in one computation: the kernels read it in
                # the same order.
                groups[home, source, chain.main[0].maps, order].append((chain, kernel))
        joined: dict[Chain, str] = {}
        joints = _Joints(self._flow)
        for members in groups.values():
            kernels = {kernel: chain for chain, kernel in reversed(members)}
            first, *others = [k for k in dict.fromkeys([kernel for _, kernel in members])]
            for kernel in others:
                if joints.join(first, kernel):
                    joined[kernels[kernel]] = self._planner.traffic.kernel_of(
                        kernels[first].sink
                    ).name
        return joined

    # ---------------------------------------------------------------------------------- figures

    def _of_chains(self, met: set[object]) -> Iterator[Figures]:
        """Yield the figures of the chains, and record their kernels as counted."""
        planner = self._planner
        gains = {plan.chain: (gain, plan.how, plan.like) for plan, gain in self.plans.items()}
        moved: dict[Chain, int] = {}
        # A kernel counts first for a chain that merges or removes it, then for other chains that
        # contain it. So no row saves more than it moves.
        saving = {plan.chain for plan, gain in self.plans.items() if gain}
        order = sorted(self._chains, key=lambda c: 0 if c in self._once else 1 + (c not in saving))
        for chain in order:
            moved[chain] = self._moved_in(chain, met)
        for chain in self._chains:
            runs = planner.runs_of(chain.sink, self._runs)
            saved, how, like = gains.get(chain, (0, "", ""))
            if chain in self._once:
                saved, how, like = bytes_of(chain.sources[0]) * runs, ONCE, self._once[chain]
            if not saved:
                how, like = "", ""
            yield Figures(chain.sink, chain, runs, moved[chain], saved, how, like)

    def _moved_in(self, chain: Chain, met: set[object]) -> int:
        """Return the bytes that the kernels of a chain move and that are not counted yet."""
        planner, moved = self._planner, 0
        for kernel in planner.moving_kernels(chain.steps):
            if kernel not in met:
                met.add(kernel)
                moved += planner.traffic.moved(kernel) * planner.runs_of(kernel, self._runs)
        found = None if moved else self._transposing(chain)
        if found is not None and found not in met and found[0] not in met:
            met.add(found)
            moved = bytes_of(found[1]) * planner.runs_of(chain.sink, self._runs)
        return moved

    def _of_others(self, met: set[object]) -> Iterator[Figures]:
        """Yield figures of kernels of movement in no chain: fusions with a shared computation."""
        planner, kept = self._planner, dict[object, Instruction]()
        for computation, times in self._runs.items():
            for kernel in planner.traffic.movement_in(computation):
                if kernel in met:
                    continue
                moved = planner.traffic.moved(kernel) * times
                saved, how, like = 0, "", ""
                key = kernel.calls, kernel.op, *map(self._flow.source, kernel.operands)
                if kernel.calls:
                    first = kept.setdefault((computation, key), kernel)
                    if first is not kernel and not planner.needs_own_buffer(kernel):
                        saved, how, like = moved, SAME, first.name
                yield Figures(kernel, None, times, moved, saved, how, like)


class _Joints:
    """Merged kernels, without cycles between them."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        self._members: Final[dict[Instruction, list[Instruction]]] = {}

    def _all(self, kernel: Instruction) -> list[Instruction]:
        """Return the kernels that are merged with a kernel."""
        return self._members.get(kernel, [kernel])

    def join(self, one: Instruction, other: Instruction) -> bool:
        """Merge two kernels unless one depends on the other; return whether they are merged."""
        if other in self._all(one):
            return True
        if self._reads(one, other) or self._reads(other, one):
            return False
        both = self._all(one) + self._all(other)
        self._members.update(dict.fromkeys(both, both))
        return True

    def _reads(self, kernel: Instruction, other: Instruction) -> bool:
        """Does a kernel, or one merged with it, depend on `other`?"""
        ends = self._all(other)
        met = dict.fromkeys(self._all(kernel))
        for at in (todo := [*met]):
            outside = captured(at) if self._flow.has_regions and at.calls else ()
            for operand in (*at.operands, *outside):
                for value in self._all(operand):
                    if value in ends:
                        return True
                    if value not in met:
                        met[value] = None
                        todo.append(value)
        return False
