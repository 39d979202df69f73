"""Grids of replicas × partitions, simulated in one Python process.

Each simulated process has a thread, and one thread runs at a time, until it has to wait for other
processes. Then the scheduler resumes the next thread that can run.  So results do not depend on
timing, and a deadlock is reported instead of waited for.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import product
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from hloscope.interpreter.evaluation import (
    Result,
    as_value,
    check_count,
    check_results,
    given_back,
    with_entry,
)
from hloscope.interpreter.plan import Plans, run
from hloscope.interpreter.values import (
    PROCESS,
    EvaluationError,
    Trail,
    UserFunction,
    Value,
    World,
    limited,
)
from hloscope.ir import Computation, Instruction, Module
from hloscope.support.limits import MAX_BYTES

INFEED: Final = "infeed"
"""Key of `World.extra` for the queue of the values of `infeed`, each a tuple of arrays."""
OUTFEED: Final = "outfeed"
"""Key of `World.extra` for the list to which `outfeed` appends its values."""

MOST_PROCESSES: Final = 1 << 12
"""Maximum number of processes of a grid; each one is a thread."""
_MOST_NAMED: Final = 8
"""Maximum number of processes that a message names; further processes are omitted."""

Id = tuple[int, int]
"""Identity of a process: the numbers of its replica and its partition, from 0."""
Group = tuple[Id, ...]
Watch = Callable[[Instruction, Value], None]


class _Abandoned(BaseException):
    """Raised in the thread of a process to end it when the grid has failed."""


class Wait(NamedTuple):
    """The condition for which a process waits.

    Attributes:
        ins: The instruction at which the process waits.
        what: The group whose members it waits for, or a text for a message.
        is_over: Function that returns whether the process can continue.
    """

    ins: Instruction
    what: str | Group
    is_over: Callable[[], bool]


class _Rendezvous(Struct, eq=False):
    """A collective operation that some members of a group have reached, and for which they wait.

    Attributes:
        ins: Instruction of the first member that reached it.
        values: Operands by member.
        result: Result for all members, once all have reached it.
        is_over: Whether all members have reached it.
    """

    ins: Instruction
    values: dict[Id, tuple[Value, ...]]
    result: Any = None
    is_over: bool = False


class Process:
    """One process of a grid.

    Attributes:
        grid: The grid.
        id: Numbers of its replica and its partition.
        resume: Lock that the scheduler releases to let the process run.
        wait: What the process waits for; `None` if it can run.
        is_done: Whether the process has ended.
        results: Its results, once it has ended.
        error: The exception that ended it, if any.
    """

    def __init__(self, grid: Grid, id: Id) -> None:
        self.grid: Final = grid
        self.id: Final = id
        self.resume: Final = _locked()
        self.wait: Wait | None = None
        self.is_done = False
        self.results: tuple[Value, ...] = ()
        self.error: BaseException | None = None

    def rendezvous(
        self,
        group: Group,
        channel: int,
        ins: Instruction,
        values: tuple[Value, ...],
        combine: Callable[[list[tuple[Value, ...]]], Any],
    ) -> Any:
        """Give values to a collective, wait for all other members, and return the result.

        Args:
            group: The processes that take part.
            channel: Number that, with the group, identifies the collective.
            ins: The instruction.
            values: Operands of this process.
            combine: Called once, with the values of all members in the order of the group. All
                members get its result.

        Raises:
            EvaluationError: Members bring different ops, or values of different shapes.
        """
        meetings = self.grid.meetings
        group = self.grid.known_group(group)
        # Equal groups are one object (`known_group`), so the identity is a cheap key: a group may
        # have thousands of members.
        key = id(group), channel
        meeting = meetings.get(key)
        if meeting is None:
            meeting = meetings[key] = _Rendezvous(ins, {})
        if meeting.ins.op.name != ins.op.name:
            raise EvaluationError(
                f"process {self.id} is at {_where(ins)}, others of its group at"
                f" {_where(meeting.ins)}"
            )
        meeting.values[self.id] = values
        if len(meeting.values) == len(group):
            # The last member computes the result.  The key is free again before members go on, as a
            # loop reaches the same collective many times.
            del meetings[key]
            brought = [meeting.values[member] for member in group]
            _check_equal_shapes(brought)
            meeting.result, meeting.is_over = combine(brought), True
        else:
            self._pause(Wait(ins, group, lambda: meeting.is_over))
        return meeting.result

    def post(self, key: Hashable, ins: Instruction, value: tuple[Value, ...]) -> None:
        """Append values to the queue `key`, from which `take` removes them; do not wait.

        `ins` is the instruction that sends them.
        """
        self.grid.mail.setdefault(key, deque()).append((ins, value))

    def take(self, key: Hashable, ins: Instruction, what: str) -> tuple[Value, ...]:
        """Remove and return the oldest values in the queue `key`; it waits until there are some.

        Args:
            key: Key of the queue.
            ins: The instruction that receives.
            what: What is received, for a message about a deadlock.
        """
        mail = self.grid.mail.setdefault(key, deque())
        if not mail:
            self._pause(Wait(ins, what, lambda: bool(mail)))
        return mail.popleft()[1]

    def _pause(self, wait: Wait) -> None:
        """Let other processes run until the condition `wait` is true.

        Raises:
            EvaluationError: The grid has only this process.
        """
        self.wait = wait
        if not self.grid.has_threads:
            raise self.grid.stuck()
        # Exactly one thread runs at a time: the scheduler wakes up before this thread stops.
        _release(self.grid.scheduler)
        self.resume.acquire()
        if self.grid.is_abandoned:
            raise _Abandoned
        self.wait = None


def check_grid(replicas: int, partitions: int) -> None:
    """Check the number of processes of a grid before any process is made.

    Raises:
        EvaluationError: There are more than `MOST_PROCESSES`.

    >>> check_grid(4096, 4096)
    Traceback (most recent call last):
    hloscope.interpreter.values.EvaluationError: error: a grid of 4,096 × 4,096 processes, at most \
4,096 in all can run
    """
    if replicas * partitions > MOST_PROCESSES:
        raise EvaluationError(
            f"a grid of {replicas:,} × {partitions:,} processes, at most {MOST_PROCESSES:,} in all"
            " can run"
        )


class Grid:
    """The processes of a grid, and the values that are sent but not yet received."""

    def __init__(self, replicas: int, partitions: int) -> None:
        check_grid(replicas, partitions)
        self.replicas: Final = replicas
        self.partitions: Final = partitions
        self.processes: Final = {
            id: Process(self, id) for id in product(range(replicas), range(partitions))
        }
        self.meetings: Final[dict[tuple[int, int], _Rendezvous]] = {}
        self.groups: Final[dict[object, dict[Id, tuple[Group, Id | None]]]] = {}
        """For each op and process: the group of the process, and a missing member or `None`."""
        self.mail: Final[dict[Hashable, deque[tuple[Instruction, tuple[Value, ...]]]]] = {}
        self.scheduler: Final = _locked()
        self.has_threads = False
        self.is_abandoned = False
        self._groups: Final[dict[Group, Group]] = {}
        self._by_id: Final[dict[int, tuple[Group, Group]]] = {}

    def known_group(self, group: Group) -> Group:
        """Return one object for all equal groups, so that identity replaces comparison."""
        # Cached, as every collective of every process looks up its group, and hashing a group takes
        # time linear in its size.  The entry refers to the group, so its identity is not reused.
        known = self._by_id.get(id(group))
        if known is None:
            known = self._by_id[id(group)] = self._groups.setdefault(group, group), group
        return known[0]

    def run(self, jobs: Sequence[Callable[[], tuple[Value, ...]]], worlds: Sequence[World]) -> None:
        """Run job number i in process number i, until all processes have ended.

        `worlds` has the context of each process; they share one count of steps.

        Raises:
            EvaluationError: A deadlock, or values that were sent and never received.
        """
        # Round-robin: each process runs until it waits or ends.  If a whole round resumes no
        # process, none can ever continue, since only a running process can end the wait of another
        # one.
        processes = list(self.processes.values())
        self.has_threads, steps = True, worlds[0].steps
        try:
            self._start(processes, jobs)
            while not all(process.is_done for process in processes):
                resumed = False
                for process, world in zip(processes, worlds, strict=True):
                    if process.is_done or not (process.wait is None or process.wait.is_over()):
                        continue
                    # The step limit holds for all processes together, so the count moves from world
                    # to world.
                    resumed, world.steps = True, steps
                    _release(process.resume)
                    self.scheduler.acquire()
                    steps = world.steps
                    if process.error is not None:
                        raise process.error
                if not resumed:
                    raise self.stuck()
        finally:
            # Threads that still wait wake up, see the flag and end.
            self.is_abandoned = True
            for process in processes:
                _release(process.resume)
        worlds[0].steps = steps
        self._check_mail()

    def _start(
        self, processes: Sequence[Process], jobs: Sequence[Callable[[], tuple[Value, ...]]]
    ) -> None:
        # `Thread.start` would wait until the thread runs, which costs a switch for each process.
        try:
            for process, job in zip(processes, jobs, strict=True):
                start_new_thread(self._work, (process, job))
        except RuntimeError as error:
            raise EvaluationError(f"cannot run {len(jobs):,} processes: {error}") from None

    def _work(self, process: Process, job: Callable[[], tuple[Value, ...]]) -> None:
        """Run a job in the thread of a process; store its results or its error in the process."""
        process.resume.acquire()
        if self.is_abandoned:
            return
        try:
            with np.errstate(all="ignore"):
                process.results = job()
        except _Abandoned:
            return
        except BaseException as error:
            process.error = error
        process.is_done = True
        _release(self.scheduler)

    def stuck(self) -> EvaluationError:
        """Return the error for a deadlock, which names the processes and what each waits for."""
        waits = [(p.id, p.wait) for p in self.processes.values() if p.wait is not None]
        lines = [
            f"process {id} waits at {_where(wait.ins)} for {_names(wait.what, id)}"
            for id, wait in waits[:_MOST_NAMED]
        ]
        if len(waits) > _MOST_NAMED:
            others = len(waits) - _MOST_NAMED
            lines.append(f"{others:,} others wait" if others > 1 else "1 other waits")
        ended = [str(p.id) for p in self.processes.values() if p.is_done]
        if ended:
            lines.append(f"{', '.join(ended)} {'have' if len(ended) > 1 else 'has'} ended")
        return EvaluationError(
            f"no process can go on: {'; '.join(lines)}", span=waits[0][1].ins.span
        )

    def _check_mail(self) -> None:
        """Raise an error if values were sent that no process has received."""
        left = [ins for mail in self.mail.values() for ins, _ in mail]
        if left:
            names = ", ".join(dict.fromkeys(map(_where, left)))
            raise EvaluationError(f"no process receives what is sent by {names}", span=left[0].span)


def _locked() -> Lock:
    """Return a locked lock, used as a signal: one thread acquires it, another releases it."""
    lock = Lock()
    lock.acquire()
    return lock


def _release(signal: Lock) -> None:
    """Release the lock `signal`, which wakes the thread that waits for it.

    It may be released already: after an interrupt, no thread has waited for it.
    """
    if signal.locked():
        signal.release()


def _where(ins: Instruction) -> str:
    """Return a text that names an instruction and its line in the program's text."""
    line = f" (line {ins.span.line})" if ins.span is not None else ""
    return f"`{ins.op.name}`{line}"


def _names(what: str | Group, me: Id) -> str:
    """Return a text for what process `me` waits for: `what` itself, or the others of a group."""
    if isinstance(what, str):
        return what
    others = [str(member) for member in what if member != me]
    more = f" and {len(others) - _MOST_NAMED:,} more" if len(others) > _MOST_NAMED else ""
    return ", ".join(others[:_MOST_NAMED]) + more


def _check_equal_shapes(brought: list[tuple[Value, ...]]) -> None:
    """Check that all members contribute equally many values, of equal shapes.

    `brought` has the values of each member.

    Raises:
        EvaluationError: They do not.
    """
    shapes = [[getattr(v, "shape", ()) for v in values] for values in brought]
    if any(other != shapes[0] for other in shapes):
        raise EvaluationError("members of a group bring different numbers or shapes of values")


def process_of(world: World) -> Process:
    """Return the process of a world; a world without one gets a new process in a new grid."""
    found = world.extra.get(PROCESS)
    if found is None:
        grid = Grid(world.replica + 1, world.partition + 1)
        found = world.extra[PROCESS] = grid.processes[world.replica, world.partition]
    assert isinstance(found, Process)
    return found


def run_grid(
    programs: Sequence[Sequence[Computation]],
    arguments: Sequence[Sequence[Value]],
    world: World,
    outer: Sequence[Value] = (),
    watches: Sequence[Watch | None] = (),
    trails: Sequence[Trail | None] = (),
) -> list[tuple[Value, ...]]:
    """Run computations side by side, one in each process, and return the results of each.

    Args:
        programs: The computation of each process: one sequence for each replica, one entry for each
            partition.
        arguments: The arguments of each process, all partitions of replica 0 first.
        world: The world that all processes share; its callbacks are called for the first process
            only.
        outer: Values of enclosing computations that the computations read.
        watches: Callbacks `watch` by process, in place of the world's.
        trails: Callbacks `trail` by process, in place of the world's.

    Raises:
        EvaluationError: A process fails, a deadlock, or results that are not of the declared types.
    """
    watches, trails = watches or (world.watch,), trails or (world.trail,)
    grid = Grid(len(programs), len(programs[0]))
    jobs: list[Callable[[], tuple[Value, ...]]] = []
    worlds: list[World] = []
    for process, computation, given in zip(
        grid.processes.values(), [c for row in programs for c in row], arguments, strict=True
    ):
        (replica, partition), number = process.id, len(worlds)
        # Each process has a world of its own, as kernels read the replica and partition numbers
        # from it.
        own = replace(
            world,
            replica=replica,
            partition=partition,
            watch=watches[number] if number < len(watches) else None,
            trail=trails[number] if number < len(trails) else None,
            extra={**world.extra, PROCESS: process},
        )
        worlds.append(own)
        jobs.append(partial(_run, computation, given, own, outer))
    grid.run(jobs, worlds)
    world.steps = worlds[0].steps
    return [process.results for process in grid.processes.values()]


def _run(
    computation: Computation, given: Sequence[Value], world: World, outer: Sequence[Value]
) -> tuple[Value, ...]:
    """Run a computation in the thread of its process, and return its checked results.

    `given` and `outer` are its arguments and outer values.
    """
    with limited(world.max_bytes):  # of this thread
        results = run(Plans(world).of(computation), given, outer)
    check_results(results, computation)
    return results


def evaluate_grid(
    module: Module,
    arguments: Sequence[Sequence[Any]],
    replicas: int,
    partitions: int,
    world: World | None = None,
) -> list[tuple[Value, ...]]:
    """Run the entry of a module in every process of a grid, and return the results of each.

    Args:
        module: The program.
        arguments: The arguments of each process, all partitions of replica 0 first; a single list
            is for all processes.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        world: Limits, user functions and callbacks; defaults if omitted.

    Raises:
        EvaluationError: As `evaluate` does, or a deadlock.
    """
    check_grid(replicas, partitions)
    world = World() if world is None else world
    world.functions, world.attributes = module.computations, module.extras
    world.spell = module.spell
    entry, count = module.entry, replicas * partitions
    taken = entry.arguments
    # A single list of arguments is for all processes.
    given = list(arguments) * count if len(arguments) == 1 else list(arguments)
    if len(given) != count:
        raise EvaluationError(f"{len(given)} lists of arguments for {count} processes")
    values = []
    for some in given:
        check_count(entry, some)
        pairs = enumerate(zip(some, taken, strict=True))
        values.append([as_value(v, t, f"argument {i}") for i, (v, t) in pairs])
    return run_grid([[entry] * partitions] * replicas, values, world)


def call_grid(
    module: Module,
    arguments: Sequence[Sequence[Any]],
    *,
    replicas: int,
    partitions: int,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, UserFunction] | None = None,
) -> list[Result]:
    """Run a program in a grid of replicas × partitions, and return the result of each process.

    Args:
        module: The program that all processes run.
        arguments: The arguments of each process, all partitions of replica 0 first; a single list
            is for all processes.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        entry: Name of the function or computation to run; the module's entry by default.
        max_steps: Maximum number of evaluated instructions in all processes together.
        max_bytes: Maximum size of one value in bytes.
        custom_calls: Python functions by the target of the custom calls that they implement.

    Raises:
        EvaluationError: As `call` does, or a deadlock.
    """
    world = World(custom_calls=custom_calls or {}, max_steps=max_steps, max_bytes=max_bytes)
    module = with_entry(module, entry)
    found = evaluate_grid(module, arguments, replicas, partitions, world)
    return [given_back(results, arguments) for results in found]
