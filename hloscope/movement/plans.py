"""Plans that reduce the bytes moved: they replace the values in which chains end.

A plan replaces a value by a shorter program for its chain, by an equal value that exists already,
or, for a value that a loop does not change, by one that is moved before the loop. All plans
together form one program. An instruction is removed from it if its value is not returned and all
its users are removed or replaced (`_removed`). A plan saves the traffic of the removed kernels,
minus the traffic that it adds. A plan that costs more than it saves is dropped, and the others are
counted again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.indexing import IndexingMap
from hloscope.ir import Computation, Instruction, TensorType
from hloscope.movement.chains import Chain
from hloscope.movement.drafts import rewritten
from hloscope.movement.flow import Flow, computes, moves
from hloscope.movement.traffic import Traffic, bytes_moved_by, bytes_of, is_view, memory_space
from hloscope.movement.verdicts import Kind
from hloscope.movement.walking import (
    MOST_VALUES,
    Arrival,
    Neighbourhoods,
    Walk,
    operands_of,
)
from hloscope.ops import (
    Constant,
    DynamicUpdateSlice,
    GetTupleElement,
    Parameter,
    Scatter,
    Tuple,
    While,
    returned_values,
)
from hloscope.support.walks import reached

SAME: Final = "the same as"
"""How a plan replaces a value: by an equal value that exists already."""
ONCE: Final = "one kernel with"
"""How bytes are saved: one kernel suffices, because another one reads the same array in that
order.
"""
BEFORE: Final = "once before the loop"
"""How a plan replaces a value that a loop moves in each iteration: it is moved once before the
loop.
"""
Runs = Mapping[Computation, int]
"""Number of runs of each computation that is not fused."""


class Plan(Struct, frozen=True):
    """A replacement of the value in which a chain ends.

    Attributes:
        chain: The chain to which the saved bytes are attributed.
        steps: Instructions that the replacement makes unnecessary; the last one is replaced.
        needs: Values that the replacement reads.
        added: Bytes that the replacement moves, in all runs.
        how: Kind of the replacement, as text.
        like: Name of the equal value, if `how` is `SAME`.
        program: The chain whose shorter program is the replacement: the whole chain, or its end
            after an op whose value other users need too.
    """

    chain: Chain
    steps: tuple[Instruction, ...]
    needs: tuple[Instruction, ...]
    added: int
    how: str
    like: str = ""
    program: Chain | None = None


class _Movement(NamedTuple):
    """Ops that only move elements, from computed values to one moved value.

    Attributes:
        steps: The ops, producers first; the last one computes the moved value.
        leaves: The computed values, each with maps from an index of the moved value.
    """

    steps: tuple[Instruction, ...]
    leaves: tuple[tuple[Instruction, tuple[IndexingMap, ...]], ...]


class Planner:
    """Finds plans for the chains of one module."""

    def __init__(self, flow: Flow) -> None:
        self.flow: Final = flow
        self.traffic: Final = Traffic(flow)
        self._around: Final = Neighbourhoods(flow)
        # A cost needs a rewritten program; equal chains share that of their model.
        self._costs: Final[dict[Chain, int | None]] = {}

    def runs_of(self, value: Instruction, runs: Runs | None) -> int:
        """Return how often the kernel of a value runs; 1 if `runs` is `None`."""
        if runs is None:
            return 1
        home = self.flow.home(self.traffic.kernel_of(value))
        return 0 if home is None else runs.get(home, 0)

    def moving_kernels(self, steps: Iterable[Instruction]) -> list[Instruction]:
        """Return the kernels of the given ops that only move data."""
        kernels = dict.fromkeys(map(self.traffic.kernel_of, steps))
        return [kernel for kernel in kernels if self.traffic.only_moves(kernel)]

    def saved_alone(self, chain: Chain) -> int:
        """Return the bytes that are saved in one run if only this chain is rewritten."""
        plan = self.shorter(chain)
        return 0 if plan is None else self.settled([plan], None).get(plan, 0)

    # ------------------------------------------------------------------------------- rewritings

    def shorter(
        self, chain: Chain, runs: Runs | None = None, taken: set[Instruction] | None = None
    ) -> Plan | None:
        """Return the plan that saves more: a shorter program for the chain, or for its end only.

        `None` if there is neither. The end is the part after the last element-wise op.

        Args:
            chain: The chain.
            runs: Number of runs of each computation; `None` counts one run.
            taken: Values whose buffers are already results of the program, because other chains
                without copies return them. The sources of this chain are added if it returns their
                buffers; `None` for none.
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
        """Return the part of a chain after its last element-wise op, as a chain.

        `None` if no value that the chain computes has users outside of the chain.
        """
        if all(
            [self.flow.is_used_only_in(s, chain.steps) for s in chain.steps[:-1] if computes(s)]
        ):
            return None
        walk = Walk(self.flow, chain.sink, self._around, through_nary=False, through_ops=False)
        return Chain(self.flow, chain.sink, walk)

    def _shorter(
        self, chain: Chain, whole: Chain, runs: Runs | None, taken: set[Instruction] | None
    ) -> Plan | None:
        """Return the plan that replaces a chain by an equal program that moves fewer bytes.

        `None` if there is no such program.

        Args:
            chain: The chain to replace: `whole`, or the part of it after its last element-wise op.
            whole: The chain to which the plan attributes the saved bytes.
            runs: Number of runs of each computation; `None` counts one run.
            taken: Values whose buffers are already results of the program, because other chains
                without copies return them. The sources of this chain are added if it returns their
                buffers; `None` for none.
        """
        kernels = self.moving_kernels(chain.steps)
        if not kernels or chain.sink in [leaf.value for leaf in chain.leaves]:
            return None
        model = chain.model
        if model not in self._costs:
            self._costs[model] = _cost_of_rewriting(model)
        added = self._costs[model]
        if added is None or not all([self._is_available(leaf.value) for leaf in chain.main]):
            return None
        if _changes_memory(chain):
            return None
        # A kernel that computes writes its result in any order, so the transpose costs no kernel
        # of its own.
        if added and self._absorbs_transpose(chain):
            added = 0
        if (
            # A free chain of movement alone becomes an alias of its source. Where that is not
            # possible, it is one copy: a read and a write.
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

    def _is_available(self, value: Instruction) -> bool:
        """Can a kernel read the value without running a kernel that only moves data?

        It can if the value is written to memory, is a constant, or is computed by another kernel.
        """
        if self.flow.is_written(value) or isinstance(value.op, Constant):
            return True
        return not self.traffic.only_moves(self.traffic.kernel_of(value))

    def _absorbs_transpose(self, chain: Chain) -> bool:
        """Can a kernel that computes also do the chain's transpose?

        Element-wise ops compute the same at every index, so the transpose can be at any position.
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
        """Does a chain of free movement need a buffer of its own, so that it is a copy?

        Otherwise its result is an alias of its source.

        Args:
            chain: The chain.
            taken: Values whose buffers other chains return. If this chain returns its sources'
                buffers, the sources are added.
        """
        sink = chain.sink
        returned, overwritten = self.is_returned(sink), self.is_overwritten(sink)
        # The values whose buffers contain the sources.
        sources = [self._behind(source, is_view) for source in chain.sources]
        for source in sources:
            given = isinstance(source.op, Constant) or self._number_of_argument(source) is not None
            # The loop overwrites the buffer of this source in every iteration.
            if given and self._is_overwritten_state(source):
                return True
            is_taken = given or source in taken or self.is_returned(source)
            # One buffer cannot be two results, or a result and a parameter, unless a loop passes
            # it on in place.
            if returned and is_taken and not self._replaces_state(sink, source):
                return True
            alone = [self.flow.is_used_only_in(v, chain.steps) for v in self._views_of(source)]
            if overwritten and (given or not all(alone)):
                return True
        if returned:
            taken.update(sources)
        return False

    def _is_overwritten_state(self, value: Instruction) -> bool:
        """Is the value an element of a loop's state that each iteration overwrites?"""
        home, number = self.flow.home(value), self._number_of_argument(value)
        if home is None or number is None or self.flow.loop_of(home) is None:
            return False
        return not self._is_invariant(value, home)

    def _behind(self, value: Instruction, passes: Callable[[Instruction], bool]) -> Instruction:
        """Return the value at the end of the path over operand 0 of ops that `passes` accepts."""
        for _ in range(MOST_VALUES):
            if not passes(value):
                break
            value = self.flow.source(value.operands[0])
        return value

    def _views_of(self, value: Instruction) -> Iterable[Instruction]:
        """Return the value, and the values that are views of its buffer."""
        return reached([value], lambda at: filter(is_view, self.flow.users(at)))

    def is_overwritten(self, value: Instruction) -> bool:
        """May a user of a value, or of a view of it, write to its buffer?"""
        return any(map(self._is_written_to, self._views_of(value)))

    def _is_written_to(self, value: Instruction) -> bool:
        """May a direct user of the value write to its buffer?"""
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
        """Does the program or a loop return the value, or a view of it?"""
        return any(map(self.flow.is_returned, self._views_of(value)))

    def needs_own_buffer(self, value: Instruction) -> bool:
        """Is a value returned, or may its buffer be written to?"""
        return self.is_returned(value) or self.is_overwritten(value)

    def _number_of_argument(self, value: Instruction) -> int | None:
        """Return the number of an argument: of a parameter, or of an element of a tuple parameter.

        `None` for other values.
        """
        if isinstance(value.op, Parameter):
            return value.op.number
        if isinstance(value.op, GetTupleElement) and value.operands:
            whole = self.flow.source(value.operands[0])
            return value.op.index if isinstance(whole.op, Parameter) else None
        return None

    def _replaces_state(self, sink: Instruction, source: Instruction) -> bool:
        """Does a loop pass an array on in place: are `source` and `sink` one element of its state?

        The body reads `source` from this element of the state, and returns `sink` as the same
        element.
        """
        home = self.flow.home(self.traffic.kernel_of(sink))
        if home is None or self.flow.loop_of(home) is None:
            return False
        places = [k for k, o in enumerate(returned_values(home)) if self.flow.source(o) is sink]
        return places == [self._number_of_argument(source)]

    # --------------------------------------------------------------------------------- hoisting

    def hoisted(self, chain: Chain, runs: Runs) -> Plan | None:
        """Return the plan that moves an array once before a loop instead of in each iteration.

        `None` if that is impossible or saves nothing.
        """
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
        """Is a value equal in every iteration of a loop?

        It is a constant, a value from outside, or a state element that the body returns unchanged.
        """
        if isinstance(value.op, Constant):
            return True
        if self.flow.home(value) is not body:
            return self.flow.has_regions and not self.flow.is_inside(value, body)
        number, returned = self._number_of_argument(value), returned_values(body)
        if number is None or not 0 <= number < len(returned):
            return False
        # The body must return the parameter, or the element of its tuple parameter, unchanged.
        after = self.flow.source(returned[number])
        return self.flow.home(after) is body and self._number_of_argument(after) == number

    # ------------------------------------------------------------------------------- duplicates

    def duplicates(self, chains: Sequence[Chain]) -> Iterator[tuple[Chain, _Movement, Instruction]]:
        """Yield chains that compute a value which exists already.

        Each entry has the chain, its movement, and the equal value that stays. Values are equal if
        they have the same elements of the same values at the same indices, in the same layout. Maps
        are compared in normal form.
        """
        alike: dict[object, list[tuple[Chain, Instruction]]] = defaultdict(list)
        for chain in chains:
            for value in self._written_by_movement(chain.sink):
                home = self.flow.home(self.traffic.kernel_of(value))
                sharding = value.extra("sharding")
                if not memory_space(value):
                    key = self._behind(value, moves), value.type, home, sharding
                    alike[key].append((chain, value))
        # Composition is costly, so values are first grouped by a cheap key: first source, type,
        # computation and sharding.
        for group in alike.values():
            if len({value for _, value in group}) == 1:
                continue
            equal: dict[object, dict[Instruction, tuple[Chain, _Movement]]] = defaultdict(dict)
            for chain, value in group:
                movement = self._movement_to(value)
                equal[movement.leaves].setdefault(value, (chain, movement))
            for same in equal.values():
                yield from self._with_remaining(same)

    def _written_by_movement(self, value: Instruction) -> list[Instruction]:
        """Return a value and the values of which it is a view, up to a moving kernel's result.

        The list is empty if no kernel that only moves data writes one of them.
        """
        found = [value]
        for _ in range(MOST_VALUES):
            if self.traffic.only_moves(self.traffic.kernel_of(found[-1])):
                return found
            if not is_view(found[-1]):
                break
            found.append(self.flow.source(found[-1].operands[0]))
        return []

    def _with_remaining(
        self, same: dict[Instruction, tuple[Chain, _Movement]]
    ) -> Iterator[tuple[Chain, _Movement, Instruction]]:
        """Choose which of several equal values stays; yield the chain of each other value with it.

        A value that is returned and moved by one op stays, or else the first in the text. So there
        is no cycle: everything that a plan needs comes before the value it replaces, or is read
        from such a value.

        Args:
            same: The equal values, each with the chain that ends in it and its movement.
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

    def _movement_to(self, sink: Instruction) -> _Movement:
        """Return the movement that ends in a value, from the nearest values that are not moved."""
        assert isinstance(sink.type, TensorType)
        todo = [Arrival(sink, IndexingMap.identity(sink.type.shape))]
        steps: dict[Instruction, None] = {}
        leaves: dict[Instruction, dict[IndexingMap, None]] = {}
        for at in todo:
            is_inner = moves(at.value) and len(todo) < MOST_VALUES
            found = operands_of(self.flow, at) if is_inner else None
            if found is None:
                leaves.setdefault(at.value, {})[at.map] = None
            else:
                steps[at.value] = None
                todo += [arrival for arrival in found if arrival not in todo]
        inner = tuple([step for step in reversed(steps) if step not in leaves])
        return _Movement(inner, tuple([(value, tuple(maps)) for value, maps in leaves.items()]))

    # ----------------------------------------------------------------------------------- totals

    def settled(self, plans: Sequence[Plan], runs: Runs | None) -> dict[Plan, int]:
        """Return the plans that together save bytes, with the bytes that each of them saves.

        Args:
            plans: The plans.
            runs: Number of runs of each computation; `None` counts one run.
        """
        # Dropping a plan can reduce what others save, so the rest is counted again. It ends, since
        # every round drops a plan.
        while True:
            gains = self._gains(plans, runs)
            good = [plan for plan, gain in zip(plans, gains, strict=True) if gain >= 0]
            if len(good) == len(plans):
                return dict(zip(plans, gains, strict=True))
            plans = good

    def _gains(self, plans: Sequence[Plan], runs: Runs | None) -> list[int]:
        """Return the bytes that each plan saves if all plans are carried out together.

        Bytes that several plans save count for the first of them.

        Args:
            plans: The plans.
            runs: Number of runs of each computation; `None` counts one run.
        """
        replaced = {plan.steps[-1] for plan in plans}
        gone = self._removed(plans, replaced) | replaced
        met: set[Instruction] = set()
        return [self._gain(plan, gone, met, runs) - plan.added for plan in plans]

    def _gain(
        self, plan: Plan, removed: set[Instruction], counted: set[Instruction], runs: Runs | None
    ) -> int:
        """Return the bytes that a plan saves, minus those of kernels that must run once more.

        The saved bytes are those of removed kernels that only move data.

        Args:
            plan: The plan.
            removed: Instructions that are removed or replaced.
            counted: Kernels and values counted for earlier plans; those of this plan are added.
            runs: Number of runs of each computation; `None` counts one run.
        """
        traffic, total = self.traffic, 0
        kernels: dict[Instruction, list[Instruction]] = defaultdict(list)
        for step in plan.steps:
            kernels[traffic.kernel_of(step)].append(step)
        for kernel, steps in kernels.items():
            outputs, times = traffic.outputs(kernel), self.runs_of(kernel, runs)
            own = [step for step in steps if step in outputs]
            if traffic.only_moves(kernel):
                if kernel in counted:
                    continue
                if all([value in removed for value in outputs]):
                    counted.add(kernel)
                    total += times * traffic.moved(kernel)
                    continue
                for value in own:
                    if value in removed and value not in counted:
                        counted.add(value)
                        total += times * bytes_of(value)
            elif own and not (moves(kernel) and is_view(kernel)):
                # A kernel that computes stays, with other operands. If its old result is needed
                # too, it runs twice.
                if kernel in counted or not all([value in removed for value in own]):
                    total -= times * traffic.all_bytes(kernel)
                counted.add(kernel)
        return total

    def _removed(self, plans: Sequence[Plan], replaced: set[Instruction]) -> set[Instruction]:
        """Return the instructions that are not needed after the plans are carried out.

        Args:
            plans: The plans.
            replaced: The values that the plans replace.
        """
        needed = {value for plan in plans for value in plan.needs}
        gone = {step for plan in plans for step in plan.steps} - replaced
        inside = gone | replaced
        todo = [s for s in gone if s in needed or not self.flow.is_used_only_in(s, inside)]
        gone.difference_update(todo)
        # A step that stays needs its operands: they stay too, and theirs.
        for step in todo:
            for source in map(self.flow.source, step.operands):
                if source in gone:
                    gone.remove(source)
                    todo.append(source)
        return gone


def _changes_memory(chain: Chain) -> bool:
    """Does a chain move an array to another memory space or to other devices?"""
    values = [*chain.sources, *chain.steps]
    shardings = {value.extra("sharding") for value in values} - {None}
    given = {source.extra("sharding") for source in chain.sources}
    return len(set(map(memory_space, values))) > 1 or not shardings <= given


def _cost_of_rewriting(chain: Chain) -> int | None:
    """Return the bytes that the moving ops of a chain's shorter program read and write.

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
