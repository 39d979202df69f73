"""Bytes of movement that proved rewritings of a program save, each instruction counted once.

A plan replaces the value in which a chain ends: by a shorter program for the chain, by an equal
value that is moved already, or, of a value that a loop does not change, by one that is moved before
the loop.  All plans together are one program.  In it an instruction is gone if its value is not
returned, and only instructions read it that are gone or replaced (`_gone`).  What a plan saves is
the traffic of the kernels that are gone, less the traffic of what it adds.  A plan that costs more
than it saves is dropped, and the rest is counted again.

Kernels that are left and transpose the same array in the same way may be one kernel with several
results, which reads the array once (`_read_once`).  Kernels are joined only if no path leads from
one to another, through kernels that are joined already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hloscope.indexing import IndexingMap
from hloscope.ir import Computation, Instruction, TensorType, captured
from hloscope.lazy import dataclass
from hloscope.movement.chains import Chain
from hloscope.movement.drafts import rewritten
from hloscope.movement.flow import Flow, computes, moves, step_maps
from hloscope.movement.traffic import (
    Traffic,
    bytes_moved_by,
    bytes_of,
    is_view,
    memory_space,
)
from hloscope.movement.verdicts import Kind
from hloscope.movement.walking import MOST_VALUES, Surroundings, Walk, composed
from hloscope.ops import (
    Constant,
    DynamicUpdateSlice,
    Fusion,
    GetTupleElement,
    Parameter,
    Reduce,
    Return,
    Scatter,
    Tuple,
    While,
)

_JOINED_KINDS: Final = ("kLoop", "kInput")
"""Kinds of fusions that may get one more result; the others have code of their own."""
SAME: Final = "the same as"
"""A value is there already."""
ONCE: Final = "one kernel with"
"""Another kernel reads the same array in the same order."""
BEFORE: Final = "once before the loop"
"""The loop moves an array in each turn that it does not change."""
Runs = Mapping[Computation, int]
"""How often the instructions of each computation run; not those of fused computations."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A replacement of the value in which a chain ends.

    Attributes:
        chain: The chain that the bytes count for.
        steps: Instructions that the replacement does without; the last one is replaced.
        needs: Values that the replacement reads.
        added: Bytes that the replacement moves, in all runs.
        how: What is done.
        like: Name of the value that is there already, if that is how.
        program: The chain whose shorter program the replacement is, if that is how: the chain, or
            its end from an op on that computes what others read as well.
    """

    chain: Chain
    steps: tuple[Instruction, ...]
    needs: tuple[Instruction, ...]
    added: int
    how: str
    like: str = ""
    program: Chain | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Bytes of one chain, or of a kernel of movement that no chain leads through.

    Attributes:
        value: The last op of the chain, or the kernel.
        chain: The chain; `None` for a kernel without one.
        runs: How often it runs.
        moved: Bytes that its kernels read and write to move data, in all runs.  A kernel of
            several chains counts for the first of them.
        saved: Bytes that need not be read and written, in all runs.
        how: How they are saved; empty if none is.
        like: Name of the equal value, or of the kernel that reads the same array.
    """

    value: Instruction
    chain: Chain | None
    runs: int
    moved: int
    saved: int = 0
    how: str = ""
    like: str = ""


class _Movement(NamedTuple):
    """Ops that only move elements, from values that are made otherwise to one that is moved.

    Attributes:
        steps: The ops, those that are read first; the last one makes the value.
        leaves: The values, with maps from an index of the moved value.
    """

    steps: tuple[Instruction, ...]
    leaves: tuple[tuple[Instruction, tuple[IndexingMap, ...]], ...]


class Planner:
    """Plans for chains of one module."""

    def __init__(self, flow: Flow) -> None:
        self.flow: Final = flow
        self.traffic: Final = Traffic(flow)
        self._around: Final = Surroundings(flow)
        self._costs: Final[dict[Chain, int | None]] = {}

    def runs_of(self, value: Instruction, runs: Runs | None) -> int:
        """How often the kernel of a value runs; once where that is not given."""
        if runs is None:
            return 1
        home = self.flow.home(self.traffic.kernel_of(value))
        return 0 if home is None else runs.get(home, 0)

    def moving_kernels(self, steps: Iterable[Instruction]) -> list[Instruction]:
        """The kernels of some steps that only move data."""
        kernels = dict.fromkeys(map(self.traffic.kernel_of, steps))
        return [kernel for kernel in kernels if self.traffic.only_moves(kernel)]

    def saved_alone(self, chain: Chain) -> int:
        """Bytes that one run of the program needs not move if this chain alone is rewritten."""
        plan = self.shorter(chain)
        return 0 if plan is None else self.settled([plan], None).get(plan, 0)

    # ------------------------------------------------------------------------------- rewritings

    def shorter(
        self, chain: Chain, runs: Runs | None = None, taken: set[Instruction] | None = None
    ) -> Plan | None:
        """The better plan of two: a shorter program for a chain, or for its end.

        `None` if neither saves anything.

        Args:
            chain: The chain.
            runs: How often computations run.
            taken: Values whose buffers other chains return; what this one returns is added.
        """
        if not self.moving_kernels(chain.steps):
            return None
        whole = self._shorter(chain, chain, runs, taken)
        end = self._end_of(chain)
        last = None if end is None else self._shorter(end, chain, runs, taken)
        if whole is None or last is None:
            return whole or last
        gains = [self._gains([plan], runs)[0] for plan in (whole, last)]
        return last if gains[1] > gains[0] else whole

    def _end_of(self, chain: Chain) -> Chain | None:
        """The chain behind its last op that computes, if others read what its ops compute."""
        if all([self.flow.is_only_for(s, chain.steps) for s in chain.steps[:-1] if computes(s)]):
            return None
        walk = Walk(self.flow, chain.sink, self._around, through_sums=False, through_ops=False)
        return Chain(self.flow, chain.sink, walk)

    def _shorter(
        self, chain: Chain, whole: Chain, runs: Runs | None, taken: set[Instruction] | None
    ) -> Plan | None:
        """The plan to replace a chain, perhaps the end of a whole one, by a shorter program."""
        kernels = self.moving_kernels(chain.steps)
        if not kernels or chain.sink in [leaf.value for leaf in chain.leaves]:
            return None
        model = chain.model
        if model not in self._costs:
            self._costs[model] = _cost_of_rewriting(model)
        added = self._costs[model]
        if added is None or not all([self._is_at_hand(leaf.value) for leaf in chain.main]):
            return None
        if _changes_memory(chain):
            return None
        if added and self._takes_transpose(chain):
            added = 0
        if (
            not added
            and not any(map(computes, chain.steps))
            and self._must_copy(chain, set() if taken is None else taken)
        ):
            added = 2 * bytes_of(chain.sink)
        if added >= sum(map(self.traffic.moved, kernels)):
            return None
        how = "cancels" if chain.kind.is_free else "shorter"
        if chain.kind is Kind.TRANSPOSE:
            how = "one transpose does"
        needs = tuple([leaf.value for leaf in chain.leaves])
        added *= self.runs_of(chain.sink, runs)
        return Plan(whole, chain.steps, needs, added, how, program=chain)

    def _is_at_hand(self, value: Instruction) -> bool:
        """Is a value in memory, or in a kernel that stays?"""
        if self.flow.is_written(value) or isinstance(value.op, Constant):
            return True
        return not self.traffic.only_moves(self.traffic.kernel_of(value))

    def _takes_transpose(self, chain: Chain) -> bool:
        """Does a kernel that computes move the chain's elements on the way, and so can transpose?

        Element-wise ops compute the same at every index.  So the one transpose that the chain is
        can stand in that kernel, wherever the movement stood before.
        """
        if chain.kind is not Kind.TRANSPOSE or not chain.is_linear:
            return False
        traffic = self.traffic
        return any(
            [
                moves(step)
                and not is_view(step)
                and not traffic.only_moves(traffic.kernel_of(step))
                for step in chain.steps
            ]
        )

    def _must_copy(self, chain: Chain, taken: set[Instruction]) -> bool:
        """Does the result need a buffer of its own, which its source may not be?"""
        sink = chain.sink
        returned, overwritten = self.is_returned(sink), self.is_overwritten(sink)
        sources = [self._viewed(source) for source in chain.sources]
        for source in sources:
            given = isinstance(source.op, Constant) or self._number_of_argument(source) is not None
            if given and self._is_renewed(source):
                return True
            is_taken = given or source in taken or self.is_returned(source)
            if returned and is_taken and not self._is_handed_on(sink, source):
                return True
            alone = [self.flow.is_only_for(v, chain.steps) for v in self._views_of(source)]
            if overwritten and (given or not all(alone)):
                return True
        if returned:
            taken.update(sources)
        return False

    def _is_renewed(self, value: Instruction) -> bool:
        """Is a value an element of a loop's state that each turn writes anew, to its buffer?"""
        home, number = self.flow.home(value), self._number_of_argument(value)
        if home is None or number is None or self.flow.loop_of(home) is None:
            return False
        return not self._is_invariant(value, home)

    def _viewed(self, value: Instruction) -> Instruction:
        """The value in whose buffer a value is."""
        for _ in range(MOST_VALUES):
            if not is_view(value):
                break
            value = self.flow.source(value.operands[0])
        return value

    def _views_of(self, value: Instruction) -> list[Instruction]:
        """The value, and the values that are views of its buffer."""
        found = {value: None}
        for at in (todo := [value]):
            for reader in self.flow.users(at):
                if reader not in found and is_view(reader):
                    found[reader] = None
                    todo.append(reader)
        return todo

    def is_overwritten(self, value: Instruction) -> bool:
        """May a reader of a value, or of a view of it, write to its buffer?"""
        return any(map(self._is_written_to, self._views_of(value)))

    def _is_written_to(self, value: Instruction) -> bool:
        for reader in self.flow.users(value):
            if isinstance(reader.op, DynamicUpdateSlice):
                if self.flow.source(reader.operands[0]) is value:
                    return True
            elif isinstance(reader.op, Scatter | While):
                return True
            elif isinstance(reader.op, Tuple):
                home = self.flow.home(reader)
                if home is None or home.root is not reader:
                    return True  # a loop or a branch takes it
        return False

    def is_returned(self, value: Instruction) -> bool:
        """Is a value, or a view of it, returned?"""
        return any(map(self.flow.is_returned, self._views_of(value)))

    def needs_own_buffer(self, value: Instruction) -> bool:
        """Is a value returned, or may its buffer be written to?"""
        return self.is_returned(value) or self.is_overwritten(value)

    def _number_of_argument(self, value: Instruction) -> int | None:
        """Of a value that is an argument of its computation, or an element of it: the number."""
        if isinstance(value.op, Parameter):
            return value.op.number
        if isinstance(value.op, GetTupleElement) and value.operands:
            whole = self.flow.source(value.operands[0])
            return value.op.index if isinstance(whole.op, Parameter) else None
        return None

    def _is_handed_on(self, sink: Instruction, source: Instruction) -> bool:
        """Does a loop's body return an element of its state in the same place?"""
        home = self.flow.home(self.traffic.kernel_of(sink))
        if home is None or self.flow.loop_of(home) is None:
            return False
        places = [k for k, o in enumerate(_returned(home)) if self.flow.source(o) is sink]
        return places == [self._number_of_argument(source)]

    # --------------------------------------------------------------------------------- hoisting

    def hoisted(self, chain: Chain, runs: Runs) -> Plan | None:
        """The plan to move an array before a loop that moves it in each turn."""
        body = self.flow.home(self.traffic.kernel_of(chain.sink))
        loop = None if body is None else self.flow.loop_of(body)
        if body is None or loop is None or any(map(computes, chain.steps)):
            return None
        before = self.runs_of(loop, runs)
        if before >= runs.get(body, 0) or self.needs_own_buffer(chain.sink):
            return None
        if any(map(memory_space, chain.steps)):
            return None  # other memories are small, and filled when they are needed
        if not all([self._is_invariant(leaf.value, body) for leaf in chain.leaves]):
            return None
        added = sum(map(self.traffic.moved, self.moving_kernels(chain.steps)))
        return Plan(chain, chain.steps, (), added * before, BEFORE)

    def _is_invariant(self, value: Instruction, body: Computation) -> bool:
        """Is a value the same in every turn: a constant, from outside, or handed on unchanged?"""
        if isinstance(value.op, Constant):
            return True
        if self.flow.home(value) is not body:
            return self.flow.has_regions and not self.flow.is_inside(value, body)
        number, returned = self._number_of_argument(value), _returned(body)
        if number is None or not 0 <= number < len(returned):
            return False
        return self._is_argument(self.flow.source(returned[number]), number, body)

    def _is_argument(self, value: Instruction, number: int, body: Computation) -> bool:
        return self.flow.home(value) is body and self._number_of_argument(value) == number

    # ------------------------------------------------------------------------------- duplicates

    def duplicates(self, chains: Sequence[Chain]) -> Iterator[tuple[Chain, _Movement, Instruction]]:
        """Chains whose value another chain makes as well: with their movement, and that chain.

        Values are equal if the same elements of the same values are at the same indices, in the
        same layout.  The maps are simplified to normal forms, which are compared.
        """
        alike: dict[object, list[tuple[Chain, Instruction]]] = defaultdict(list)
        for chain in chains:
            for value in self._written_by_movement(chain.sink):
                home = self.flow.home(self.traffic.kernel_of(value))
                sharding = value.extra("sharding")
                if not memory_space(value):
                    key = self._first_source(value), value.type, home, sharding
                    alike[key].append((chain, value))
        for group in alike.values():
            if len({value for _, value in group}) == 1:
                continue
            equal: dict[object, dict[Instruction, tuple[Chain, _Movement]]] = defaultdict(dict)
            for chain, value in group:
                movement = self._movement_to(value)
                equal[movement.leaves].setdefault(value, (chain, movement))
            for same in equal.values():
                yield from self._with_keeper(same)

    def _written_by_movement(self, value: Instruction) -> list[Instruction]:
        """A value, and those that it is a view of, up to one that a kernel of movement writes."""
        found = [value]
        for _ in range(MOST_VALUES):
            if self.traffic.only_moves(self.traffic.kernel_of(found[-1])):
                return found
            if not is_view(found[-1]):
                break
            found.append(self.flow.source(found[-1].operands[0]))
        return []

    def _with_keeper(
        self, same: dict[Instruction, tuple[Chain, _Movement]]
    ) -> Iterator[tuple[Chain, _Movement, Instruction]]:
        """The duplicates of the value that stays.

        That is one that is returned and moved at once, or else the first in the text: so no value
        waits for itself, as all that a plan needs stands before what it replaces, or is read from
        what stands there.
        """
        kernels = {self.traffic.kernel_of(value): value for value in same}
        values = [kernels[kernel] for kernel in self.flow.in_order(kernels)]
        fit = [value for value in values if not self.is_overwritten(value)]
        at_once = [v for v in fit if len(same[v][1].steps) == 1 and self.is_returned(v)]
        if not fit:
            return
        keeper = [*at_once, *fit][0]
        after = values if at_once else values[values.index(keeper) :]
        for value in after:
            if value is not keeper and not self.needs_own_buffer(value):
                yield *same[value], keeper

    def _first_source(self, value: Instruction) -> Instruction:
        """The value that the first operands of moving ops lead back to."""
        for _ in range(MOST_VALUES):
            if not moves(value):
                break
            value = self.flow.source(value.operands[0])
        return value

    def _movement_to(self, sink: Instruction) -> _Movement:
        """The movement that ends in a value, back to the first values that are not moved."""
        assert isinstance(sink.type, TensorType)
        todo = [(sink, IndexingMap.identity(sink.type.shape))]
        steps: dict[Instruction, None] = {}
        leaves: dict[Instruction, dict[IndexingMap, None]] = {}
        for value, here in todo:
            found = self._onward(value, here) if moves(value) and len(todo) < MOST_VALUES else None
            if found is None:
                leaves.setdefault(value, {})[here] = None
            else:
                steps[value] = None
                todo += [pair for pair in found if pair not in todo]
        inner = tuple([step for step in reversed(steps) if step not in leaves])
        return _Movement(inner, tuple([(value, tuple(maps)) for value, maps in leaves.items()]))

    def _onward(
        self, value: Instruction, here: IndexingMap
    ) -> list[tuple[Instruction, IndexingMap]] | None:
        found = []
        for operand, maps in zip(value.operands, step_maps(value), strict=True):
            both = [None] if maps is None else [composed(here, m) for m in maps]
            for m in both:
                if m is None:
                    return None
                if not m.is_known_empty:
                    found.append((self.flow.source(operand), m))
        return found

    # ----------------------------------------------------------------------------------- totals

    def settled(self, plans: Sequence[Plan], runs: Runs | None) -> dict[Plan, int]:
        """The plans that are worth it together, and the bytes that each of them saves."""
        while True:
            gains = self._gains(plans, runs)
            good = [plan for plan, gain in zip(plans, gains, strict=True) if gain >= 0]
            if len(good) == len(plans):
                return dict(zip(plans, gains, strict=True))
            plans = good

    def _gains(self, plans: Sequence[Plan], runs: Runs | None) -> list[int]:
        """Bytes that each plan saves if all are carried out; what several save is the first's."""
        replaced = {plan.steps[-1] for plan in plans}
        gone = self._gone(plans, replaced) | replaced
        met: set[Instruction] = set()
        return [self._gain(plan, gone, met, runs) - plan.added for plan in plans]

    def _gain(
        self, plan: Plan, gone: set[Instruction], met: set[Instruction], runs: Runs | None
    ) -> int:
        """Traffic of kernels that are gone, less that of kernels that have to run again.

        Args:
            plan: The plan.
            gone: Instructions that are gone or replaced.
            met: Kernels and results that are counted already; the new ones are added.
            runs: How often computations run.
        """
        traffic, total = self.traffic, 0
        kernels: dict[Instruction, list[Instruction]] = defaultdict(list)
        for step in plan.steps:
            kernels[traffic.kernel_of(step)].append(step)
        for kernel, steps in kernels.items():
            outputs, times = traffic.outputs(kernel), self.runs_of(kernel, runs)
            own = [step for step in steps if step in outputs]
            if traffic.only_moves(kernel):
                if kernel in met:
                    continue
                if all([value in gone for value in outputs]):
                    met.add(kernel)
                    total += times * traffic.moved(kernel)
                    continue
                for value in own:
                    if value in gone and value not in met:
                        met.add(value)
                        total += times * bytes_of(value)
            elif own and not (moves(kernel) and is_view(kernel)):
                # It computes: it goes on with other operands, if it is not needed as it is as well.
                if kernel in met or not all([value in gone for value in own]):
                    total -= times * traffic.all_bytes(kernel)
                met.add(kernel)
        return total

    def _gone(self, plans: Sequence[Plan], replaced: set[Instruction]) -> set[Instruction]:
        """The steps that nothing needs once the plans are carried out."""
        needed = {value for plan in plans for value in plan.needs}
        gone = {step for plan in plans for step in plan.steps} - replaced
        inside = gone | replaced
        todo = [s for s in gone if s in needed or not self.flow.is_only_for(s, inside)]
        gone.difference_update(todo)
        for step in todo:
            for source in map(self.flow.source, step.operands):
                if source in gone:
                    gone.remove(source)
                    todo.append(source)
        return gone


def _returned(computation: Computation) -> Sequence[Instruction]:
    """The values that a computation returns, in order."""
    root = computation.root
    return root.operands if isinstance(root.op, Tuple | Return) else (root,)


def _changes_memory(chain: Chain) -> bool:
    """Does a chain bring an array to another memory, or to other devices?"""
    values = [*chain.sources, *chain.steps]
    shardings = {value.extra("sharding") for value in values} - {None}
    given = {source.extra("sharding") for source in chain.sources}
    return len(set(map(memory_space, values))) > 1 or not shardings <= given


def _cost_of_rewriting(chain: Chain) -> int | None:
    """Bytes that the movement of a chain's shorter program reads and writes.

    `None` if there is no such program, or if it computes on more elements than the chain does.
    """
    if chain.is_cut and chain.kind is Kind.UNDECIDED:
        return None
    found = rewritten(chain)
    if found is None:
        return None
    fewest = min([chain.type.num_elements, *[leaf.type.num_elements for leaf in chain.main]])
    for step in chain.steps:
        if computes(step):
            assert isinstance(step.type, TensorType)
            if step.type.num_elements < fewest:
                return None
    return sum([bytes_moved_by(ins) for ins in found.entry if moves(ins)])


class Savings:
    """What a program's movement costs, and what of it can be saved.

    Attributes:
        figures: Of each chain in the given order, then of kernels that no chain leads through.
        plans: The plans that are carried out together, with the bytes that each saves.
    """

    def __init__(self, flow: Flow, chains: Sequence[Chain], runs: Runs) -> None:
        """Take a module's values, chains, and how often its computations run."""
        self._planner: Final = Planner(flow)
        self._flow: Final = flow
        self._runs: Final = runs
        self._chains: Final = chains
        self.plans: Final = self._planner.settled([*self._plans()], runs)
        self._once: Final = self._read_once()
        met = set[object]()
        self.figures: Final = [*self._of_chains(met), *self._of_others(met)]

    @property
    def has_fusions(self) -> bool:
        """Is any kernel of the program a fusion?"""
        return any(
            [isinstance(ins.op, Fusion) for computation in self._runs for ins in computation]
        )

    @property
    def moved(self) -> int:
        """Bytes that the program reads and writes to move data."""
        return sum([found.moved for found in self.figures])

    @property
    def saved(self) -> int:
        """Bytes of these that need not be moved."""
        return sum([found.saved for found in self.figures])

    def _plans(self) -> Iterator[Plan]:
        """The best plan of each chain that has one."""
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
        """The one kernel that transposes a whole array in a chain, and the array."""
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
        """Is each element of a value in a kernel needed for its results?"""
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
        """Chains whose kernel may be joined with one that transposes the same array alike."""
        groups: dict[object, list[tuple[Chain, Instruction]]] = defaultdict(list)
        changed = {plan.chain for plan in self.plans}
        for chain in self._chains:
            found = None if chain in changed else self._transposing(chain)
            if found is not None:
                kernel, source = found
                home = self._flow.home(kernel)
                order = chain.type.layout and chain.type.layout.minor_to_major
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
        """The figures of the chains; the kernels that they lead through are met."""
        planner = self._planner
        gains = {plan.chain: (gain, plan.how, plan.like) for plan, gain in self.plans.items()}
        moved: dict[Chain, int] = {}
        # Kernels count for a chain that reads them once or does without them, before others that
        # they are part of: so no row saves more than it moves.
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
        """Bytes that the kernels of a chain move which no chain was counted for."""
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
        """Kernels of movement without a chain: fusions that share what they call with others."""
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
    """Kernels that are made one kernel, so that no kernel waits for itself."""

    def __init__(self, flow: Flow) -> None:
        self._flow: Final = flow
        self._members: Final[dict[Instruction, list[Instruction]]] = {}

    def _all(self, kernel: Instruction) -> list[Instruction]:
        return self._members.get(kernel, [kernel])

    def join(self, one: Instruction, other: Instruction) -> bool:
        """Make two kernels one, if neither reads what the other leads to."""
        if other in self._all(one):
            return True
        if self._reads(one, other) or self._reads(other, one):
            return False
        both = self._all(one) + self._all(other)
        self._members.update(dict.fromkeys(both, both))
        return True

    def _reads(self, kernel: Instruction, other: Instruction) -> bool:
        """Does a path lead back from a kernel, and those joined with it, to another?"""
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
