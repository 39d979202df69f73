"""Computations that run outside of kernels, with their numbers of runs; loops and kernels.

>>> from hloscope.hlo_parser import parse_hlo
>>> module = parse_hlo("ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) "
...     "ROOT t = (f32[8], f32[8]) tuple(n, p) }")
>>> [(ins.name, str(kind_of(ins))) for ins in kernels_in(module.entry)]
[('n', 'xla emitter')]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from hloscope.cost.scalars import Value, any_value, hull
from hloscope.cost.slices import (
    Frame,
    Key,
    Machine,
    Node,
    Tape,
    arguments,
    branch_of,
    missing_operand,
)
from hloscope.cost.trip_counts import (
    MOST_TURNS_LISTED,
    NOT_A_LOOP,
    LoopRun,
    Loops,
    TripCount,
    joined,
    known_trip_count,
    with_annotation,
)
from hloscope.ir import Computation, Instruction, Module, callees_first
from hloscope.memory import called_for_kernels, kind_of
from hloscope.ops import Case, While
from hloscope.support.walks import reached

# --------------------------------------------------------------------------------------------------
# Computations that run outside of kernels, with their numbers of runs; loops with trip counts.
#
# A computation may run with several states: a loop's body with another counter in every iteration,
# a function from several calls. If trip counts, or the branches taken, depend on such values, the
# states are distinguished, so that the runs of an inner loop whose limit is the outer counter are a
# sum over iterations. Callers are handled before their callees, and each state once.


UNKNOWN_TRIPS: Final = "how often it runs is not known"
ONE_BRANCH: Final = "one of several branches runs: the one that moves most bytes is counted"
RECURSIVE: Final = "calls itself: counted without that call"
MOST_RUNS: Final = (1 << 63) - 1
"""Maximum number of runs; larger numbers are replaced by it."""
TOO_MANY: Final = f"runs more than {MOST_RUNS:,} times: counted as so many"

Branch: TypeAlias = tuple[Instruction, int]
"""A conditional, and the index of one of its branches."""


class Runs(NamedTuple):
    """How often a computation or loop runs in one run of the program.

    Attributes:
        times: The number that totals use; the notes state how an unknown number is replaced.
        low: Lower bound.
        high: Upper bound; `None` if there is none.
    """

    times: int
    low: int
    high: int | None

    def __add__(self, other: object) -> Runs:
        """Return the sum of two numbers of runs."""
        assert isinstance(other, Runs)
        high = None if self.high is None or other.high is None else self.high + other.high
        return _capped(self.times + other.times, self.low + other.low, high)

    def __mul__(self, other: object) -> Runs:
        """Return the runs of a computation that runs `self` times in each of `other` runs."""
        assert isinstance(other, Runs)
        # Nothing times an unknown number of runs is nothing.
        if 0 in (self.high, other.high):
            return NEVER
        high = None if self.high is None or other.high is None else self.high * other.high
        return _capped(self.times * other.times, self.low * other.low, high)


def _capped(times: int, low: int, high: int | None) -> Runs:
    return Runs(
        min(times, MOST_RUNS), min(low, MOST_RUNS), None if high is None else min(high, MOST_RUNS)
    )


NEVER: Final = Runs(0, 0, 0)
ONCE: Final = Runs(1, 1, 1)


class Place(NamedTuple):
    """A computation that runs outside of kernels, with its number of runs in one program run.

    Attributes:
        computation: The computation.
        times: Number of runs that totals use.
        notes: Assumptions about that number.
        low: Lower bound of the runs.
        high: Upper bound of the runs; `None` if there is none.
        branches: The conditionals around the computation whose taken branch is unknown, outermost
            first, each with the index of the branch. `times` counts every branch as taken.
        is_branch: Is the computation itself the branch of the last entry of `branches`?
    """

    computation: Computation
    times: int
    notes: tuple[str, ...]
    low: int
    high: int | None
    branches: tuple[Branch, ...] = ()
    is_branch: bool = False

    @property
    def branch(self) -> Branch | None:
        """Return the conditional and branch index of a computation that is itself a branch.

        `None` for other computations, and for branches that are known to be taken.
        """
        return self.branches[-1] if self.is_branch else None

    @property
    def kernels(self) -> list[Instruction]:
        """Return the instructions that are kernels; calls, loops and branches are not."""
        return kernels_in(self.computation)


class LoopUse(NamedTuple):
    """A loop of a program, with how often it runs.

    Attributes:
        instruction: The `while`.
        computation: The computation that contains it.
        trip_count: Number of iterations each time that it is entered.
        entered: Number of entries in one run of the program.
        turns: Number of iterations of all entries together.
    """

    instruction: Instruction
    computation: Computation
    trip_count: TripCount
    entered: Runs
    turns: Runs


def running(module: Module) -> Iterator[Place]:
    """Yield the computations that run outside of kernels; callers come first."""
    return iter(_RunTraversal(module).places)


def loops_of(module: Module) -> list[LoopUse]:
    """Return the loops that run; outer loops come first."""
    return _RunTraversal(module).loops


class _State:
    """Number of runs of one computation, for each combination of values of its inputs.

    The inputs are the scalars that decide trip counts and branches in the computation.
    """

    def __init__(self) -> None:
        self.runs: dict[tuple[Value, ...], Runs] = {}
        self.notes: dict[str, None] = {}
        self.branches: tuple[Branch, ...] | None = None
        self.is_branch = False

    def add(self, values: tuple[Value, ...], runs: Runs, elements: Sequence[Node]) -> None:
        """Add runs of the computation in which its inputs have these values.

        Beyond `MOST_TURNS_LISTED` distinct combinations, all are merged into one, whose values are
        bounds.

        Args:
            values: Value of each input.
            runs: The number of runs.
            elements: Node of each input, in the same order, which states its element type.
        """
        known = self.runs.get(values)
        if known is not None:
            self.runs[values] = known + runs
            return
        if len(self.runs) >= MOST_TURNS_LISTED:
            total = runs
            every = [values, *self.runs]
            for other in self.runs.values():
                total += other
            columns = zip(*every, strict=True)
            merged = [
                hull(column, node.element, "it has many values")
                for column, node in zip(columns, elements, strict=True)
            ]
            self.runs, values, runs = {}, tuple(merged), total
        self.runs[values] = runs

    def within(self, branches: tuple[Branch, ...], *, is_branch: bool) -> None:
        """Record one more caller, which runs inside the conditionals `branches`, outermost first.

        The state keeps the outermost conditionals that all callers have in common.

        Args:
            branches: The conditionals, each with the index of the branch.
            is_branch: Is the computation itself the last of these branches?
        """
        if self.branches is None:
            self.branches, self.is_branch = branches, is_branch
            return
        common = 0
        for ours, new in zip(self.branches, branches, strict=False):
            if ours != new:
                break
            common += 1
        self.is_branch = self.is_branch and is_branch and common == len(self.branches)
        self.branches = self.branches[:common]


class _CalleeInputs:
    """The scalars in a computation that decide how often its callees run.

    A node is a scalar as arithmetic on inputs of the computation.

    Attributes:
        inputs: Inputs of the computation that these scalars depend on, as nodes.
        tape: Nodes in order of evaluation; it computes the inputs of the callees from `inputs`.
        calls: For each instruction and index of a callee, positions of the callee's inputs on the
            tape.
        indices: For each conditional, the position of its branch index on the tape.
        machines: For each loop, the part that decides its trip count, the positions of its initial
            values, and those of outer values that its regions read.
    """

    def __init__(self) -> None:
        self.roots: list[Node] = []
        self.calls: dict[Branch, list[int]] = {}
        self.indices: dict[Instruction, int] = {}
        self.machines: dict[Instruction, tuple[Machine, list[int], dict[Key, int]]] = {}
        self.inputs: list[Node] = []
        self.tape = Tape([])

    def ask(self, nodes: Sequence[Node]) -> list[int]:
        """Request the values of nodes; return their positions among all requests."""
        first = len(self.roots)
        self.roots += nodes
        return [*range(first, len(self.roots))]

    def close(self) -> None:
        """Put the requested nodes in order of evaluation; afterwards nothing can be requested."""
        self.tape = Tape(self.roots)
        by_key = {node.key: node for node in self.tape.nodes if node.key is not None}
        self.inputs = [*by_key.values()]


class _RunTraversal:
    """One traversal of a program, from the entry to the callees."""

    def __init__(self, module: Module) -> None:
        self._loops: Final = Loops()
        self._inside: dict[Computation, _CalleeInputs] = {}
        self._states: dict[Computation, _State] = {}
        self._done: set[Computation] = set()
        self._again: dict[Computation, None] = {}
        self.places: Final[list[Place]] = []
        self.loops: Final[list[LoopUse]] = []
        self._annotated: dict[Instruction, int | None] = {}
        order = list(callees_first(module.entry, {}))
        # Computations that run outside of kernels; the others are parts of kernels.
        alone = {module.entry}
        for computation in reversed(order):
            if computation in alone:
                alone.update(c for i in computation if called_for_kernels(i) for c in i.calls)
        for computation in order:
            if computation in alone:
                self._inside[computation] = self._callee_inputs(computation)
        entry = self._states[module.entry] = _State()
        entry.runs[self._unknown(module.entry)] = ONCE
        entry.within((), is_branch=False)
        for computation in reversed(order):
            if computation in self._states:
                self._visit(computation)
        # The depth of a recursion is unknown, so everything that it calls may run more often.
        again = reached(self._again, lambda computation: computation.callees)
        self.places[:] = [
            place._replace(high=None) if place.computation in again else place
            for place in self.places
        ]

    def _callee_inputs(self, computation: Computation) -> _CalleeInputs:
        """Return the scalars that decide how often a computation's callees run.

        Callees must have been visited before.
        """
        inside, slices = _CalleeInputs(), self._loops.slices
        frame = slices.root(computation)
        for ins in computation:
            if not called_for_kernels(ins):
                continue
            if isinstance(ins.op, Case) and len(ins.calls) > 1:
                (inside.indices[ins],) = inside.ask([slices.node(frame, ins.operands[0])])
            if isinstance(ins.op, While):
                self._add_loop_inputs(ins, frame, inside)
                continue
            for number, callee in enumerate(ins.calls):
                known = self._inside.get(callee)
                operands, nodes = arguments(ins, number), []
                # Only the inputs on which the callee's own loops and branches depend are followed.
                for node in known.inputs if known is not None else ():
                    assert node.key is not None
                    what, path = node.key
                    if isinstance(what, Instruction):
                        nodes.append(slices.node(frame, what, path))
                    elif what < len(operands):
                        nodes.append(slices.node(frame, operands[what], path))
                    else:
                        nodes.append(missing_operand(ins))
                inside.calls[ins, number] = inside.ask(nodes)
        inside.close()
        return inside

    def _add_loop_inputs(self, ins: Instruction, frame: Frame, inside: _CalleeInputs) -> None:
        slices = self._loops.slices
        needed = dict.fromkeys(
            [
                node.key
                for callee in ins.calls
                if callee in self._inside
                for node in self._inside[callee].inputs
                if node.key is not None
            ]
        )
        state = [key for key in needed if not isinstance(key[0], Instruction)]
        machine = slices.machine(ins, state)
        if machine is None:
            return
        positions = inside.ask(slices.given(machine, frame))
        outer: dict[Key, int] = {}
        for key in needed:
            what, path = key
            if isinstance(what, Instruction):
                (outer[key],) = inside.ask([slices.node(frame, what, path)])
        inside.machines[ins] = machine, positions, outer

    def _visit(self, computation: Computation) -> None:
        """Distribute the runs of a computation to the computations that it calls.

        All callers of the computation must have been visited before.
        """
        state, inside = self._states[computation], self._inside[computation]
        self._done.add(computation)
        calling = [i for i in computation if called_for_kernels(i)]
        self.places.append(self._place(computation, state, calling))
        entries: dict[Instruction, list[tuple[TripCount, Runs]]] = {}
        unsure: set[Instruction] = set()
        keys = [node.key for node in inside.inputs if node.key is not None]
        states = state.runs or {self._unknown(computation): NEVER}
        for given, runs in states.items() if calling else ():
            every = inside.tape.run(dict(zip(keys, given, strict=True)))
            values = [every[n] for n in inside.tape.outputs]
            for ins in calling:
                if isinstance(ins.op, While):
                    entries.setdefault(ins, []).append(self._enter(ins, inside, values, runs))
                elif not self._call(ins, inside, values, runs):
                    unsure.add(ins)
        for ins in calling:
            if isinstance(ins.op, While):
                self._finish(computation, ins, entries[ins], state)
                continue
            around, notes = state.branches or (), dict(state.notes)
            if ins in unsure:
                notes[f"`{ins.name}`: {ONE_BRANCH}"] = None
            for number, callee in enumerate(ins.calls):
                if ins in unsure:
                    self._note(callee, notes, (*around, (ins, number)), is_branch=True)
                else:
                    self._note(callee, notes, around)

    def _place(
        self, computation: Computation, state: _State, calling: Sequence[Instruction]
    ) -> Place:
        times, low, high = total = sum(state.runs.values(), NEVER)
        notes = dict(state.notes)
        for callee in dict.fromkeys(c for ins in calling for c in ins.calls if c in self._done):
            notes[f"`{callee.name}` {RECURSIVE}"] = None
            self._again[callee] = None
        if MOST_RUNS in total:
            notes[TOO_MANY] = None
        return Place(
            computation, times, tuple(notes), low, high, state.branches or (), state.is_branch
        )

    def _call(
        self, ins: Instruction, inside: _CalleeInputs, values: Sequence[Value], runs: Runs
    ) -> bool:
        """Distribute runs to the callees of an instruction.

        Return `False` if exactly one callee runs, and it is unknown which.

        Args:
            ins: The instruction.
            inside: The scalars that decide its calls.
            values: Their values.
            runs: Runs of the instruction.
        """
        index = inside.indices.get(ins)
        taken = None if index is None else branch_of(ins, values[index])
        if index is None or taken is not None:
            for number, callee in enumerate(ins.calls):
                here = runs if index is None or number == taken else NEVER
                self._add(callee, [values[n] for n in inside.calls[ins, number]], here)
            return True
        maybe = Runs(runs.times, 0, runs.high)
        for callee in dict.fromkeys(ins.calls):  # several branches may be one computation
            given = [
                [values[n] for n in inside.calls[ins, number]]
                for number, other in enumerate(ins.calls)
                if other is callee
            ]
            reason = f"`{ins.name}` chooses it by data"
            merged = [
                hull(column, node.element, reason)
                for column, node in zip(
                    zip(*given, strict=True), self._inside[callee].inputs, strict=True
                )
            ]
            self._add(callee, merged, runs if len(given) == len(ins.calls) else maybe)
        return len({*ins.calls}) == 1

    def _unknown(self, computation: Computation) -> tuple[Value, ...]:
        """Return unknown values for the inputs of a computation."""
        inside = self._inside[computation]
        found = inside.tape.unknown(computation.parameters)
        return tuple([found[node.key] for node in inside.inputs if node.key is not None])

    def _add(self, callee: Computation, values: Sequence[Value], runs: Runs) -> None:
        """Add runs of a callee in which its inputs have the given values.

        Args:
            callee: The called computation.
            values: Value of each input, in the order of its inputs.
            runs: Number of runs.
        """
        if runs.high != 0 and callee not in self._done:
            state = self._states.setdefault(callee, _State())
            state.add(tuple(values), runs, self._inside[callee].inputs)

    def _note(
        self,
        callee: Computation,
        notes: Mapping[str, None],
        branches: tuple[Branch, ...],
        *,
        is_branch: bool = False,
    ) -> None:
        """Record the assumptions and the conditionals of one call of a computation.

        Args:
            callee: The computation.
            notes: The assumptions.
            branches: The conditionals around the call, each with the index of the branch.
            is_branch: Is the computation itself the last of these branches?
        """
        state = self._states.setdefault(callee, _State())
        state.notes.update(notes)
        state.within(branches, is_branch=is_branch)

    def _enter(
        self, ins: Instruction, inside: _CalleeInputs, values: Sequence[Value], runs: Runs
    ) -> tuple[TripCount, Runs]:
        """Distribute a loop's iterations to condition and body, for one combination of inputs.

        Return the loop's trip count for these inputs, and the number of entries, `runs`.

        Args:
            ins: The loop.
            inside: The scalars of the surrounding computation that decide the loop's trip count.
            values: Values of these scalars, by position on `inside.tape`.
            runs: Number of entries.
        """
        if ins not in self._annotated:
            self._annotated[ins] = known_trip_count(ins)
        annotated = self._annotated[ins]
        if ins not in inside.machines:
            trip = with_annotation(LoopRun(0, None, NOT_A_LOOP), annotated)
            for callee in ins.calls:
                self._add(callee, self._unknown(callee), runs * _iterations(trip))
            return trip, runs
        machine, positions, outer = inside.machines[ins]
        given = [values[n] for n in positions]
        condition, body = ins.calls
        changing = {*machine.changing}
        wanted = any([node.key in changing for node in self._inside[body].inputs])
        found = self._loops.run(machine, given, listed=wanted)
        trip = with_annotation(found, annotated)
        turns = _iterations(trip)
        now = {key: values[n] for key, n in outer.items()}
        now.update(zip(machine.keys, given, strict=False))  # `given` goes on with outer values
        states = found.states
        if not wanted:
            self._add(body, self._of(body, now), runs * turns)
        # Every iteration is one state of the body, as long as the budget lasts; otherwise the
        # changing values become a range over all iterations, and inner counts become bounds.
        elif states and self._loops.spend(len(states) * len(self._inside[body].tape)):
            for state in states:
                now.update(zip(machine.keys, state, strict=True))
                self._add(body, self._of(body, now), runs)
        else:
            reason = f"the loop `{ins.name}` changes it"
            for number, (key, element) in enumerate(
                zip(machine.keys, machine.elements, strict=True)
            ):
                if key in changing:
                    column = [state[number] for state in states or ()]
                    many = hull(column, element, reason) if column else any_value(element, reason)
                    now[key] = many
            self._add(body, self._of(body, now), runs * turns)
        for key, element in zip(machine.keys, machine.elements, strict=True):
            if key in changing:
                now[key] = any_value(element, f"the loop `{ins.name}` changes it")
        # The condition is evaluated once more than the body: when it ends the loop.
        once_more = Runs(
            turns.times + 1, turns.low + 1, None if turns.high is None else turns.high + 1
        )
        self._add(condition, self._of(condition, now), runs * once_more)
        return trip, runs

    def _of(self, callee: Computation, values: Mapping[Key, Value]) -> tuple[Value, ...]:
        """Return the values of a computation's inputs, in their order.

        `values` has the value of each input by key, and may have more entries.
        """
        inputs = self._inside[callee].inputs
        return tuple([values[node.key] for node in inputs if node.key is not None])

    def _finish(
        self,
        computation: Computation,
        ins: Instruction,
        entries: Sequence[tuple[TripCount, Runs]],
        state: _State,
    ) -> None:
        """Merge a loop's trip counts for all combinations of inputs, and record the loop.

        Args:
            computation: Computation that contains the loop.
            ins: The loop.
            entries: Trip count and number of entries for each combination of the computation's
                inputs.
            state: The runs of the computation, with notes and conditionals around it.
        """
        trip = joined([trip for trip, _ in entries])
        entered = turns = NEVER
        notes = dict(state.notes)
        for each, runs in entries:
            entered += runs
            turns += runs * _iterations(each)
            if each.count is None:
                notes[f"`{ins.name}`: {UNKNOWN_TRIPS}, {each.reason}: {_counted(each)}"] = None
        self.loops.append(LoopUse(ins, computation, trip, entered, turns))
        for callee in ins.calls:
            self._note(callee, notes, state.branches or ())


def _iterations(trip: TripCount) -> Runs:
    """Return how often a loop's body runs each time that the loop is entered."""
    if trip.count is not None:
        return Runs(trip.count, trip.count, trip.count)
    return Runs(trip.times, trip.low, trip.high)


def _counted(trip: TripCount) -> str:
    times = "once" if trip.times == 1 else f"{trip.times:,} times"
    return f"counted {times}" + (", as annotated" if trip.times == trip.annotated else "")


# --------------------------------------------------------------------------------------------------
# Kernels: which instructions run by themselves, and who makes each of them.


def kernels_in(computation: Computation) -> list[Instruction]:
    """Return the instructions of a computation that are kernels, in order.

    Instructions that transfer nothing, such as tuples and dones, are left out. So are loops,
    branches and calls: their kernels are those of the computations that they call.
    """
    return [ins for ins in computation.instructions if kind_of(ins).is_kernel]
