"""The chains of a module, and the bytes that plans save; each kernel counts once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from hloscope.ir import Instruction, captured
from hloscope.movement.chains import Chain, Patterns
from hloscope.movement.flow import Flow, computes, moves
from hloscope.movement.plans import ONCE, SAME, Plan, Planner, Runs
from hloscope.movement.traffic import bytes_of, is_view
from hloscope.movement.verdicts import Kind
from hloscope.movement.walking import Neighbourhoods, Role, Walk
from hloscope.ops import Fusion, Reduce
from hloscope.support.walks import reached

# --------------------------------------------------------------------------------------------------
# Bytes of movement that a program's plans save, each kernel counted once.
#
# Remaining kernels that transpose the same array in the same way may become one kernel with several
# results, which reads the array once (`_mergeable`).  Kernels are merged only if no path leads from
# one to the other, also through kernels that are merged already.


_JOINED_KINDS: Final = ("kLoop", "kInput")
"""Fusion kinds that may get one more result; other kinds have special emitters."""


class Figures(Struct, frozen=True):
    """Bytes of one chain, or of a moving kernel that is in no chain.

    Attributes:
        value: The last op of the chain, or the kernel.
        chain: The chain; `None` for a kernel without one.
        runs: Number of runs.
        moved: Bytes that its kernels read and write to move data, in all runs. A kernel of several
            chains counts for the first of them.
        saved: Bytes that a plan saves, in all runs.
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
    """Bytes that a program moves, and how many of them plans save.

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
        """Count the bytes that a module moves, and those that plans save.

        Args:
            flow: The values of a module.
            chains: The chains to count.
            runs: Number of runs of each computation.
            without: Kernels that are not counted, for example because they are invalid.
        """
        self._planner: Final = Planner(flow)
        self._flow: Final = flow
        self._runs: Final = runs
        self._chains: Final = chains
        self.plans: Final = self._planner.settled([*self._plans()], runs)
        self._once: Final = self._mergeable()
        met = set[object](without)
        self.figures: Final = [*self._of_chains(met), *self._of_others(met)]

    @property
    def has_fusions(self) -> bool:
        """Does the program have a fusion?"""
        return any(
            [isinstance(ins.op, Fusion) for computation in self._runs for ins in computation]
        )

    @property
    def moved(self) -> int:
        """Return the bytes that the program reads and writes to move data, in all runs."""
        return sum([found.moved for found in self.figures])

    @property
    def saved(self) -> int:
        """Return the bytes of `moved` that plans save."""
        return sum([found.saved for found in self.figures])

    def _plans(self) -> Iterator[Plan]:
        """Yield one plan for each chain that has a plan.

        A replacement without traffic of its own is preferred, then an equal value that exists
        already, then movement before a loop, then a shorter program.
        """
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
        """Return the only kernel of a chain that transposes a whole array, and the array.

        `None` for other kinds of chains.
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
        if not fits or source not in operands or not self._reads_all_elements(chain.sink, kernel):
            return None
        return kernel, source

    def _reads_all_elements(self, value: Instruction, kernel: Instruction) -> bool:
        """Does a kernel need all elements of a value that it reads?"""
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

    def _mergeable(self) -> dict[Chain, str]:
        """Return chains whose kernel can merge with another that transposes the same array.

        Each entry has the chain, and the name of that other kernel.
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
        joints = _MergedKernels(self._flow)
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

    def _of_chains(self, counted: set[object]) -> Iterator[Figures]:
        """Yield the figures of each chain.

        `counted` are the kernels that are already counted; the kernels of the chains are added.
        """
        planner = self._planner
        gains = {plan.chain: (gain, plan.how, plan.like) for plan, gain in self.plans.items()}
        moved: dict[Chain, int] = {}
        # A kernel counts first for a chain that merges or removes it, then for other chains that
        # contain it. So no row saves more than it moves.
        saving = {plan.chain for plan, gain in self.plans.items() if gain}
        order = sorted(self._chains, key=lambda c: 0 if c in self._once else 1 + (c not in saving))
        for chain in order:
            moved[chain] = self._moved_in(chain, counted)
        for chain in self._chains:
            runs = planner.runs_of(chain.sink, self._runs)
            saved, how, like = gains.get(chain, (0, "", ""))
            if chain in self._once:
                saved, how, like = bytes_of(chain.sources[0]) * runs, ONCE, self._once[chain]
            if not saved:
                how, like = "", ""
            yield Figures(chain.sink, chain, runs, moved[chain], saved, how, like)

    def _moved_in(self, chain: Chain, counted: set[object]) -> int:
        """Return the bytes that the kernels of a chain move in all their runs.

        Kernels in `counted` are left out; all other kernels of the chain are added to it. If the
        sum is 0, the bytes of the array that `_transposing` finds are counted, once for each pair
        of kernel and array.
        """
        planner, moved = self._planner, 0
        for kernel in planner.moving_kernels(chain.steps):
            if kernel not in counted:
                counted.add(kernel)
                moved += planner.traffic.moved(kernel) * planner.runs_of(kernel, self._runs)
        found = None if moved else self._transposing(chain)
        if found is not None and found not in counted and found[0] not in counted:
            counted.add(found)
            moved = bytes_of(found[1]) * planner.runs_of(chain.sink, self._runs)
        return moved

    def _of_others(self, counted: set[object]) -> Iterator[Figures]:
        """Yield the figures of moving kernels in no chain: fusions that share a computation.

        `counted` are the kernels that are counted already.
        """
        planner, kept = self._planner, dict[object, Instruction]()
        for computation, times in self._runs.items():
            for kernel in planner.traffic.movement_in(computation):
                if kernel in counted:
                    continue
                moved = planner.traffic.moved(kernel) * times
                saved, how, like = 0, "", ""
                key = kernel.calls, kernel.op, *map(self._flow.source, kernel.operands)
                if kernel.calls:
                    first = kept.setdefault((computation, key), kernel)
                    if first is not kernel and not planner.needs_own_buffer(kernel):
                        saved, how, like = moved, SAME, first.name
                yield Figures(kernel, None, times, moved, saved, how, like)


class _MergedKernels:
    """Kernels that are merged into groups. Merging never creates a cycle of dependences."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        self._members: Final[dict[Instruction, list[Instruction]]] = {}

    def _all(self, kernel: Instruction) -> list[Instruction]:
        """Return the kernels of the group that contains a kernel."""
        return self._members.get(kernel, [kernel])

    def join(self, one: Instruction, other: Instruction) -> bool:
        """Merge the groups of two kernels, unless one group depends on the other.

        Return whether both kernels are in one group.
        """
        if other in self._all(one):
            return True
        if self._reads(one, other) or self._reads(other, one):
            return False
        both = self._all(one) + self._all(other)
        self._members.update(dict.fromkeys(both, both))
        return True

    def _reads(self, kernel: Instruction, other: Instruction) -> bool:
        """Does a kernel of the group of `kernel` depend on one of the group of `other`?"""
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


# --------------------------------------------------------------------------------------------------
# Search for the chains of a module: one for every value that is moved for the last time.


def chains_of(flow: Flow, through: Iterable[Instruction] | None = None) -> Iterator[Chain]:
    """Yield the chain of every value that is moved, unless all its users move the value further.

    The chains are in the order of the text.

    Args:
        flow: The values of a module.
        through: If given, only chains that may pass through one of these values.
    """
    chains = _Chains(flow)
    if through is None:
        yield from chains.every()
        return

    def onward(value: Instruction) -> list[Instruction]:
        return [user for user in flow.users(value) if moves(user) or computes(user)]

    for ins in flow.in_order(reached(through, onward)):
        if chains.ends_in(ins):
            yield chains.best_chain(ins)


def chain_to(flow: Flow, value: Instruction) -> Chain | None:
    """Return the chain of data movement whose last op is `value`.

    `None` if that op does not move elements, or if all users of the value move it further.
    """
    chains = _Chains(flow)
    return chains.best_chain(value) if chains.ends_in(value) else None


class _Chains:
    """Finds the chains of a module. Only one of several equal chains is traversed."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        self._around: Final = Neighbourhoods(flow)
        self._planner: Final = Planner(flow)
        # Cached, since every value of the module is queried, and the result depends on all direct
        # and indirect users.
        self._is_moved_further: Final[dict[Instruction, bool]] = {}
        self._models: Final[dict[tuple[int, ...], Chain]] = {}
        self._patterns: Final = Patterns(flow, self._around, self.ends_in, self._chain_inside)

    def every(self) -> Iterator[Chain]:
        """Yield all chains of the module, in the order of the text."""
        for computation in self._flow.computations():
            known = self._patterns.of(computation)
            if known is None:
                for ins in computation:
                    if self.ends_in(ins):
                        yield self.best_chain(ins)
                continue
            here = computation.instructions
            for place, ends, pattern in known:
                if pattern is not None:
                    around, model = [here[k] for k in pattern.places], pattern.model
                    yield Chain(self._flow, here[place], model.walk, around, model, pattern)
                elif ends or (ends is None and self.ends_in(here[place])):
                    yield self.best_chain(here[place])

    def _chain_inside(
        self, sink: Instruction, is_inside: Callable[[Instruction], bool]
    ) -> tuple[Chain, list[Instruction]] | None:
        """Return the analysed model of the chain that ends in `sink`, and the values around `sink`.

        `None` if one of these values does not satisfy `is_inside`.
        """
        # No step inside is written to memory, so a chain through ops on several arrays cannot save
        # more than the one that stops at them.
        plain = self._chain(sink, through_nary=False)
        around = self._around.of(sink, through_nary=False)
        values = [*around.values]
        if plain.ends_in_nary:
            values += self._around.of(sink, through_nary=True).values
        model = self._models.get(around.key)
        if model is None or not all(map(is_inside, values)):
            return None
        return model, around.values

    def ends_in(self, value: Instruction) -> bool:
        """Does the op of the value move elements, while not all its users move them further?"""
        return self._around.moves(value) and not self.is_moved_further(value)

    def is_moved_further(self, value: Instruction) -> bool:
        """Do all users move the value further, directly or after element-wise ops on it alone?

        False for a value whose users form a cycle.
        """
        known = self._is_moved_further
        if value in known:
            return known[value]
        # Depth-first on an explicit stack, as chains of users are long. A user in a cycle is
        # queried while its own result is not known yet, and counts as false.
        opened = {value: self._readers(value)}
        stack = [value]
        while stack:
            top = stack[-1]
            readers = opened[top] or ()
            waiting = [r for r in readers if r not in known and r not in opened]
            if waiting:
                opened.update([(reader, self._readers(reader)) for reader in waiting])
                stack += waiting
                continue
            if top not in known:
                found = opened[top]
                known[top] = found is not None and all([known.get(r, False) for r in found])
            stack.pop()
        return known[value]

    def _readers(self, value: Instruction) -> Sequence[Instruction] | None:
        """Return the users that are element-wise on the value alone.

        `None` if there is no user, or a user that is neither such an op nor one that moves the
        value.
        """

        def role(reader: Instruction) -> Role:
            return self._around.facts_of(reader).role

        readers = self._flow.users_if(value, lambda r: role(r) in (Role.ALONE, Role.MOVED))
        return [reader for reader in readers if role(reader) is Role.ALONE] if readers else None

    def best_chain(self, sink: Instruction) -> Chain:
        """Return the better of two chains that end in the op `sink`.

        The first stops at element-wise ops on several arrays, the second continues through them.
        The second is returned if it saves more bytes.
        """
        plain = self._chain(sink, through_nary=False)
        if not plain.ends_in_nary:
            return plain
        through = self._chain(sink, through_nary=True)
        saved = self._planner.saved_alone
        return through if saved(through) > saved(plain) else plain

    def _chain(self, sink: Instruction, *, through_nary: bool) -> Chain:
        """Return the chain that ends in the op `sink`.

        Ops with equal neighbourhoods share one traversal.

        Args:
            sink: The last op.
            through_nary: Continue through element-wise ops on several arrays?
        """
        around = self._around.of(sink, through_nary)
        known = self._models.get(around.key)
        if known is not None:
            return Chain(self._flow, sink, known.walk, around.values, known)
        walk = Walk(self._flow, sink, self._around, through_nary)
        found = Chain(self._flow, sink, walk, around.values)
        inside = {at.value for at in walk.read}
        if inside.issubset(around.opened):  # otherwise more was read than the key has
            self._models[around.key] = found
        return found
