"""Join the events of a profile with the instructions of a program.

Methods, from the most trusted: the event names its instruction; a range around its launch does; the
event has exactly the name of the kernel that XLA emits for one instruction; or several equal
instructions share the kernel, and the order of launches distinguishes them. All other events stay
in `not_joined`: nothing is guessed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from hloscope.cost import known_trip_count, running
from hloscope.cost.profiles.events import KernelEvent, Profile
from hloscope.cost.profiles.reading import Structures, programs_in
from hloscope.errors import HloscopeError, InputError, UnknownNameError
from hloscope.ir import Computation, Instruction, Module, callees_first
from hloscope.memory.dumps import kernel_name
from hloscope.ops import AsyncStart, Call, Case, Composite, While

Trust: TypeAlias = Literal["hlo_op", "annotation", "name", "order"]
"""Method by which an event was joined, from the most to the least trusted."""

_AROUND: Final = (While, Case, Call, Composite, AsyncStart)
"""Ops whose events contain the events of what they call."""
_NO_INSTRUCTION: Final = "the program has no instruction of that name"
_SEVERAL: Final = "several instructions have that name"
_NO_KERNEL: Final = "no annotation, and no instruction emits a kernel of that name"
_LIBRARY: Final = "no annotation: a library's kernel does not name its instruction"
_COPY: Final = "no annotation: a copy or set does not name its instruction"
_GRAPH: Final = "a CUDA graph recorded as one event"
_COUNT: Final = "equal instructions share the kernel, and the number of launches does not fit"
_LIBRARIES: Final = (
    "nccl",
    "sm7",
    "sm8",
    "sm9",
    "sm1",
    "cutlass",
    "ampere_",
    "cudnn",
    "cijk_",
    "void ",
    "cublas",
    "rccl",
)


class Measured(Struct, frozen=True):
    """Measured time of one instruction, in picoseconds, without contained events.

    Attributes:
        total: Sum over all events.
        events: Number of events.
        executions: Number of executions; several events may belong to one.
        least: Shortest time of an execution.
        most: Longest time of an execution.
        trust: The least trusted of the methods by which its events were joined.
    """

    total: int
    events: int
    executions: int
    least: int
    most: int
    trust: Trust

    @property
    def mean(self) -> float:
        """Return the mean time of an execution, in picoseconds."""
        return self.total / self.executions


class NotJoined(Struct, frozen=True):
    """Events of one name that could not be joined with an instruction.

    Attributes:
        name: Name of the events.
        time: Total time in picoseconds.
        count: Number of events.
        share: Part of all device time, from 0 to 1.
        module: The module that the events name; empty if they name none.
        reason: Why they are not joined.
    """

    name: str
    time: int
    count: int
    share: float
    module: str
    reason: str


class Joined(Struct, frozen=True):
    """A profile joined with a program; times are picoseconds.

    Attributes:
        profile: The profile.
        module: The program.
        program_id: Number of the program in the profile; `None` if not recorded.
        by_instruction: Time of each instruction with events.
        turns: Measured iterations of each loop per entry, in complete program runs; a fraction if
            they vary. The loop's condition ran once more.
        executions: Number of runs of each computation whose events show it.
        not_joined: The events without an instruction, longest first.
        runs: Executions of the program, summed over devices; 0 if the profile does not record them.
        total: Time of all events; the time of an event inside another one counts once.
        by_trust: Time by method of joining.
        notes: Sentences about limits of the result.
    """

    profile: Profile
    module: Module
    program_id: int | None
    by_instruction: Mapping[Instruction, Measured]
    turns: Mapping[Instruction, float | int]
    executions: Mapping[Computation, int]
    not_joined: tuple[NotJoined, ...]
    runs: int
    total: int
    by_trust: Mapping[Trust, int]
    notes: tuple[str, ...] = ()

    @property
    def joined_time(self) -> int:
        """Return the time of all joined events, in picoseconds."""
        return sum([measured.total for measured in self.by_instruction.values()])

    @property
    def share_not_joined(self) -> float:
        """Return the share of device time that is not joined, from 0 to 1."""
        return sum([row.time for row in self.not_joined]) / self.total if self.total else 0.0


def join(profile: Profile, module: Module, *, program_id: int | None = None) -> Joined:
    """Return the events of a profile joined with the instructions of a program.

    Args:
        profile: The profile.
        module: The program as compiled for the device.
        program_id: Number of the program in the profile. It is needed only if several programs have
            the module's name and instructions.

    Raises:
        InputError: No event belongs to the program; the message names the programs with events.
        UnknownNameError: Several programs of the profile may be this one, or none has the number.
    """
    number = _program(profile, module, program_id)
    return _Joining(profile, module, number).joined()


def _labels(events: Iterable[KernelEvent]) -> str:
    """Return a text with the programs that events name, and their numbers of events."""
    found = Counter((e.hlo_module, e.program_id) for e in events if e.hlo_module)
    shown = [
        f"`{name}`{'' if number is None else f' (program_id {number})'} with {count:,} events"
        for (name, number), count in found.most_common(8)
    ]
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    return f"{', '.join(shown)}{more}" if shown else "events without names of programs"


def _program(profile: Profile, module: Module, program_id: int | None) -> int | None:
    """Return the number of a module's program in a profile.

    `None` if the profile records no numbers.

    Raises:
        InputError: The profile has no events of the program.
        UnknownNameError: The number is unknown, or several programs may be the module.
    """
    events = profile.events
    if not events:
        raise InputError(f"{profile.source}: the profile has no events of devices")
    named = [event for event in events if event.hlo_module]
    if program_id is not None:
        if any(event.program_id == program_id for event in events):
            return program_id
        raise UnknownNameError(
            f"{profile.source} has no events of program_id {program_id}: it has {_labels(events)}"
        )
    own = [event for event in named if event.hlo_module == module.name]
    if named and not own:
        what = f"{profile.source}: no event is of module `{module.name}`"
        raise InputError(f"{what}: it has {_labels(events)}")
    ids = sorted({event.program_id for event in own if event.program_id is not None})
    if len(ids) < 2:
        return ids[0] if ids else None
    likely = _likely(profile, module, own, ids)
    if len(likely) == 1:
        return likely[0]
    numbers = ", ".join(map(str, likely or ids))
    what = f"{profile.source}: several programs are called `{module.name}`"
    raise UnknownNameError(f"{what}: choose one of program_id {numbers}")


def _likely(profile: Profile, module: Module, own: list[KernelEvent], ids: list[int]) -> list[int]:
    """Return the numbers of the programs that may be the module.

    These are the programs whose text in the profile has the same instructions. Without texts they
    are those whose events name only instructions of the module.

    Args:
        profile: The profile.
        module: The module.
        own: Events with the module's name.
        ids: Numbers of the programs that these events name.
    """
    try:
        inside = programs_in(profile)
    except HloscopeError:
        inside = {}
    looks = _signature(module)
    same = [number for number in ids if number in inside and _signature(inside[number]) == looks]
    if same:
        return same
    names = {name for name, _ in looks}
    ops = {number: {e.hlo_op for e in own if e.program_id == number} for number in ids}
    return [number for number in ids if number not in inside and ops[number] <= names]


def _signature(module: Module) -> set[tuple[str, str]]:
    """Return the (name, type) pairs of the instructions that run outside of kernels."""
    return {
        (ins.name, str(ins.type))
        for place in running(module)
        for ins in place.computation.instructions
    }


class _Joining:
    """One join of a profile's events with the instructions of a program, method by method."""

    def __init__(self, profile: Profile, module: Module, program_id: int | None) -> None:
        self._profile, self._module, self._program_id = profile, module, program_id
        self._places = list(running(module))
        self._home = {
            ins: place.computation
            for place in self._places
            for ins in place.computation.instructions
        }
        self._kernels = [ins for place in self._places for ins in place.kernels]
        self._by_name = self._names()
        self._of: dict[int, Instruction] = {}
        """For each joined event, by its position in the profile, the instruction."""
        self._trust: dict[int, Trust] = {}
        self._reason: dict[int, str] = {}
        self._notes: list[str] = []

    def _names(self) -> dict[str, Instruction | None]:
        """Return the instructions by name; `None` for a name that several have."""
        found: dict[str, Instruction | None] = {}
        for ins in self._home:
            found[ins.name] = None if ins.name in found else ins
        for computation in self._module:  # names of running instructions take precedence
            for ins in computation.instructions:
                if ins not in self._home and ins.name not in found:
                    found[ins.name] = ins
        return found

    def joined(self) -> Joined:
        events, module = self._profile.events, self._module
        unnamed: dict[str, list[int]] = defaultdict(list)
        for at, event in enumerate(events):
            if self._program_id is not None and event.program_id is not None:
                is_foreign = event.program_id != self._program_id
            else:
                is_foreign = bool(event.hlo_module) and event.hlo_module != module.name
            if is_foreign:
                self._reason[at] = "of another program"
            elif event.hlo_op:
                self._by_op(at, event)
            elif event.kind == "kernel":
                unnamed[event.name].append(at)
            else:
                self._reason[at] = _GRAPH if event.kind == "graph" else _COPY
        if unnamed:
            self._by_kernel(unnamed)
        if not self._of:
            some = ", ".join([f"`{name}`" for name in [*dict.fromkeys(e.name for e in events)][:5]])
            what = f"{self._profile.source}: no event is of module `{module.name}`"
            raise InputError(f"{what}: it has {_labels(events)} ({some})")
        own = self._own_times()
        runs, whole = self._runs()
        counts = Counter(self._of.values())
        executions = self._executions(counts, runs)
        if not runs:
            runs = executions.get(module.entry, 0)
        places: dict[Instruction, list[int]] = defaultdict(list)
        for at in sorted(self._of):
            places[self._of[at]].append(at)
        measured = {ins: self._measure(ins, some, own, executions) for ins, some in places.items()}
        total = sum(own)
        by_trust: Counter[Trust] = Counter()
        for at, trust in self._trust.items():
            by_trust[trust] += own[at]
        return Joined(
            self._profile,
            module,
            self._program_id,
            measured,
            self._turns(whole, executions),
            executions,
            self._rest(own, total),
            runs,
            total,
            dict(by_trust),
            tuple([*self._profile.problems, *self._notes]),
        )

    def _by_op(self, at: int, event: KernelEvent) -> None:
        name = event.hlo_op.removeprefix("%")
        found = self._by_name.get(name)
        if found is None:
            self._reason[at] = _SEVERAL if name in self._by_name else _NO_INSTRUCTION
        else:
            self._of[at] = found
            self._trust[at] = "annotation" if event.is_annotated else "hlo_op"

    def _by_kernel(self, unnamed: Mapping[str, list[int]]) -> None:
        """Join events by kernel names, then the events of shared kernels by their order.

        `unnamed` has the positions of the events without an instruction, by kernel name.
        """
        owners: dict[str, list[Instruction]] = defaultdict(list)
        for ins in self._kernels:
            owners[kernel_name(ins.name)].append(ins)
        joined = set(self._of.values())
        structures = Structures()
        silent: dict[object, list[Instruction]] = defaultdict(list)
        """Instructions for whose own kernel name there is no event, by structure."""
        for ins in self._kernels:
            if ins.calls and kernel_name(ins.name) not in unnamed and ins not in joined:
                silent[structures.key(ins)].append(ins)
        shared: list[tuple[list[Instruction], list[int]]] = []
        for name, places in unnamed.items():
            own = owners.get(name, [])
            keys = dict.fromkeys([structures.key(ins) for ins in own if ins.calls])
            group = [*own, *[ins for key in keys for ins in silent.get(key, ())]]
            if not own:
                is_library = name.lower().startswith(_LIBRARIES) or "<" in name or "(" in name
                self._reason |= dict.fromkeys(places, _LIBRARY if is_library else _NO_KERNEL)
            elif len(group) == 1:
                self._of |= dict.fromkeys(places, own[0])
                self._trust |= dict.fromkeys(places, "name")
            else:
                shared.append((group, places))
        events = self._profile.events
        counts: dict[str, Counter[Instruction]] = defaultdict(Counter)
        for at, ins in self._of.items():
            counts[events[at].device][ins] += 1
        for group, places in shared:
            by_device: dict[str, list[int]] = defaultdict(list)
            for at in places:
                by_device[events[at].device].append(at)
            for device, some in by_device.items():
                self._join_by_order(group, some, counts[device])

    def _join_by_order(
        self, group: list[Instruction], places: list[int], counts: Counter[Instruction]
    ) -> None:
        """Join the events of a shared kernel on one device by the order of launches.

        A run launches the instructions in the order of the schedule, each loop as often as other
        kernels of its body show. If runs times that order has as many launches as there are events,
        the events are those instructions. Otherwise the profile is cut or the order differs, and
        nothing is joined.

        Args:
            group: The instructions that share the kernel.
            places: Positions of the events.
            counts: Number of joined events of other instructions on this device.
        """
        for last in _CONDITIONS:
            runs, order = self._order(group, counts, len(places), last)
            if runs and len(order) * runs == len(places):
                # Each of several runs on a device starts after the one before.
                for index, at in enumerate(places):
                    self._of[at] = order[index % len(order)]
                    self._trust[at] = "order"
                return
        self._reason |= dict.fromkeys(places, _COUNT)

    def _order(
        self, group: list[Instruction], counts: Counter[Instruction], most: int, last: int | None
    ) -> tuple[int, list[Instruction]]:
        """Return the number of runs, and the launches of a group in one run, in order.

        The number is 0 if it is unknown.

        Args:
            group: The instructions that share a kernel.
            counts: Number of events of the other instructions.
            most: Number of launches above which the order is not computed.
            last: Runs of a loop's condition after the last iteration; `None` if conditions do not
                run.
        """
        times = self._executions(counts, 0)
        wanted = set(group)
        entry = self._module.entry
        runs = times.get(entry, 0)
        orders: dict[Computation, list[Instruction]] = {}
        for computation in callees_first(entry, {}):
            order: list[Instruction] = []
            for ins in computation.instructions:
                if ins in wanted:
                    order.append(ins)
                if not (isinstance(ins.op, _AROUND) and ins.calls):
                    continue
                inner = [orders.get(callee, []) for callee in ins.calls]
                if not any(inner):
                    continue
                ratios = [
                    self._runs_per_execution(times, callee, computation) for callee in ins.calls
                ]
                if isinstance(ins.op, While):
                    condition, body, turns = inner[0], inner[-1], ratios[-1]
                    if last is None:
                        condition = []
                    if turns is None or turns * (len(condition) + len(body)) > most:
                        return 0, []
                    order += (condition + body) * turns + condition * (last or 0)
                else:
                    for part, ratio in zip(inner, ratios, strict=True):
                        if part and ratio not in (0, 1):
                            return 0, []
                        order += part * (ratio or 0)
                if len(order) > most:
                    return 0, []
            orders[computation] = order
        return runs, orders.get(entry, [])

    @staticmethod
    def _runs_per_execution(
        times: Mapping[Computation, int], callee: Computation, caller: Computation
    ) -> int | None:
        """Return how often a callee ran per execution of its caller.

        `None` if that is unknown or not an integer.

        Args:
            times: Number of runs of each computation.
            callee: The called computation.
            caller: The calling computation.
        """
        outer, inner = times.get(caller, 0), times.get(callee)
        if not outer or inner is None or inner % outer:
            return None
        return inner // outer

    def _own_times(self) -> list[int]:
        """Return each event's duration without the events that run inside it on the same stream."""
        events = self._profile.events
        own = [event.duration for event in events]
        open_now: dict[tuple[str, str], list[int]] = defaultdict(list)
        for at, event in enumerate(events):
            around = open_now[event.device, event.stream]
            while around and events[around[-1]].end <= event.start:
                around.pop()
            if around and event.end <= events[around[-1]].end:
                # The time of a contained event belongs to its own instruction; only the innermost
                # open event loses it, since outer ones lost that event's whole time already.
                own[around[-1]] -= event.duration
            ins = self._of.get(at)
            if ins is not None and ins.calls and isinstance(ins.op, _AROUND):
                around.append(at)
        return [max(time, 0) for time in own]

    def _runs(self) -> tuple[int, list[int]]:
        """Return the number of runs (0 if not recorded), and the joined events of complete runs.

        Events are given by their positions. A run is complete if every instruction of ENTRY that
        has an event in some run has one in it.
        """
        events, entry = self._profile.events, self._module.entry
        seen: dict[tuple[str, int], set[Instruction]] = defaultdict(set)
        for at, ins in self._of.items():
            run = events[at].run
            if run is None:
                return 0, list(self._of)
            found = seen[events[at].device, run]
            if self._home.get(ins) is entry:
                found.add(ins)
        every = set().union(*seen.values())
        # Instructions of one branch are missing in some runs, so a run also counts as whole if
        # another run has the same instructions.
        looks = Counter(frozenset(found) for found in seen.values())
        usual = max(looks.values())
        whole = {
            run
            for run, found in seen.items()
            if found == every or looks[frozenset(found)] == usual > 1
        }
        if len(whole) < len(seen):
            cut = len(seen) - len(whole)
            self._notes.append(f"{cut} of {len(seen)} runs are cut: turns of loops leave them out")
        if not whole:
            return len(seen), list(self._of)
        kept = [at for at in self._of if (events[at].device, events[at].run) in whole]
        return len(seen), kept

    def _executions(self, counts: Mapping[Instruction, int], runs: int) -> dict[Computation, int]:
        """Return the runs of each computation: the most common number of events of its kernels.

        An instruction may have several events per execution (a sort), but most have one. A loop
        without events has the trip count that the backend's annotation states.

        Args:
            counts: Number of events of each instruction.
            runs: Number of runs of the program; 0 if unknown.
        """
        found: dict[Computation, int] = {}
        for place in self._places:
            numbers = Counter(
                [counts[ins] for ins in place.computation.instructions if counts.get(ins)]
            )
            if numbers:
                usual = max(numbers.values())
                found[place.computation] = min(k for k, n in numbers.items() if n == usual)
        if runs:
            found[self._module.entry] = runs
        for place in self._places:
            for ins in place.computation.instructions:
                if isinstance(ins.op, While) and place.computation in found and ins.calls:
                    trips = known_trip_count(ins)
                    if trips is not None:
                        found.setdefault(_body_of(ins), trips * found[place.computation])
        return found

    def _turns(
        self, complete: list[int], executions: Mapping[Computation, int]
    ) -> dict[Instruction, float | int]:
        """Return the measured iterations of each loop per run of the computation that contains it.

        The number is a fraction if it varies between these runs. Loops are left out whose events do
        not show it, or whose body has other callers.

        Args:
            complete: Positions in the profile of the events of complete program runs.
            executions: Number of runs of each computation.
        """
        events = self._profile.events
        counts = Counter([self._of[at] for at in complete])
        runs = {(events[at].device, events[at].run) for at in complete}
        number = len(runs) if all(run is not None for _, run in runs) else 0
        times = self._executions(counts, number or executions.get(self._module.entry, 0))
        shown = {self._home[ins] for ins in counts if ins in self._home}
        callers = Counter(callee for ins in self._home for callee in dict.fromkeys(ins.calls))
        turns: dict[Instruction, float | int] = {}
        for ins, home in self._home.items():
            if not isinstance(ins.op, While) or len(ins.calls) < 2 or not times.get(home):
                continue
            body = _body_of(ins)
            condition = next((c for c in ins.calls if c is not body), body)
            if callers[body] > 1:
                continue
            if body in shown:
                count = times[body]
            elif condition in shown and callers[condition] == 1:
                count = times[condition] - times[home]
            else:
                continue
            whole_turns, rest = divmod(count, times[home])
            turns[ins] = count / times[home] if rest else whole_turns
        return turns

    def _measure(
        self,
        ins: Instruction,
        places: list[int],
        own: list[int],
        executions: Mapping[Computation, int],
    ) -> Measured:
        times = [own[at] for at in places]
        count = len(times)
        expected = executions.get(self._home[ins], count) if ins in self._home else count
        parts = times
        if expected and count > expected:
            each, rest = divmod(count, expected)
            if not rest:
                parts = [sum(times[at : at + each]) for at in range(0, count, each)]
            else:
                sums: dict[tuple[str, int | None], int] = defaultdict(int)
                for at, time in zip(places, times, strict=True):
                    event = self._profile.events[at]
                    sums[event.device, event.run] += time
                parts = list(sums.values()) if len(sums) == expected else times
        trust = max([self._trust[at] for at in places], key=_TRUSTED.index)
        return Measured(sum(times), count, len(parts), min(parts), max(parts), trust)

    def _rest(self, own: list[int], total: int) -> tuple[NotJoined, ...]:
        events = self._profile.events
        times: Counter[tuple[str, str, str]] = Counter()
        counts: Counter[tuple[str, str, str]] = Counter()
        for at, reason in self._reason.items():
            event = events[at]
            key = event.name, event.hlo_module, reason
            times[key] += own[at]
            counts[key] += 1
        rows = [
            NotJoined(key[0], time, counts[key], time / total if total else 0.0, key[1], key[2])
            for key, time in times.items()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.time, row.name)))


_TRUSTED: Final[tuple[Trust, ...]] = ("hlo_op", "annotation", "name", "order")


_CONDITIONS: Final = (1, 0, None)
"""Possible numbers of runs of a loop's condition after the last iteration.

A loop of known count may not run its condition at all, or not after the last iteration. At most one
of these fits the number of launches.
"""


def _body_of(loop: Instruction) -> Computation:
    return loop.calls[-1]  # after the condition
