"""Cost model of a program: every kernel with bytes, flops, unused bytes and runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.cost.bounds import STEP, Bound, Work, bound_of, total
from hloscope.cost.footprints import Footprint, Footprints
from hloscope.cost.runs import Place, running
from hloscope.cost.target import Target, target_of
from hloscope.errors import HloscopeError, VerifyError
from hloscope.fusion import size_in_bytes
from hloscope.ir import Computation, Instruction, Module
from hloscope.memory import ArrayUse, Coalescing, Memory, kind_of
from hloscope.ops import Bitcast, Fusion, GetTupleElement, Parameter, Return, Tuple
from hloscope.support.devices import Device

# --------------------------------------------------------------------------------------------------
# Cost model of a program: every kernel with its bytes, flops, wasted bytes and runs.


NOT_JUDGED: Final = "not compiled for a GPU: its threads are not known"


class KernelCost(Struct, frozen=True):
    """The cost of one kernel of a program.

    Attributes:
        instruction: The fusion or instruction that the kernel computes.
        computation: The computation that the instruction belongs to.
        footprint: The bytes read and written at least, and flops, of one run.
        coalescing: Coalescing of the kernel; `None` if its thread map is unknown.
        reason: Why the thread map is unknown.
        time: Lower bound of the time of one run with cold caches.
        runs: Number of runs in one run of the program. If a conditional has several branches, only
            the branch with the most bytes counts.
        fewest_runs: Lower bound of the runs.
        most_runs: Upper bound of the runs; `None` if there is none.
        notes: Assumptions about the runs.
    """

    instruction: Instruction
    computation: Computation
    footprint: Footprint
    coalescing: Coalescing | None
    reason: str
    time: Bound
    runs: int
    fewest_runs: int
    most_runs: int | None
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Return the bytes that all runs read and write at least."""
        return self.footprint.bytes * self.runs

    @property
    def flops(self) -> int:
        """Return the floating-point operations of all runs."""
        return self.footprint.flops * self.runs

    @property
    def bound(self) -> int:
        """Return the lower bound of the time of one run with cold caches, in picoseconds."""
        return int(self.time.seconds * 10**12)

    @property
    def maker(self) -> str:
        """Return the maker of the kernel: an emitter of XLA, Triton or a library."""
        if self.coalescing is not None:
            return self.coalescing.kernel.emitter
        return str(kind_of(self.instruction))

    @property
    def limited_by(self) -> str:
        """Return the limiting unit: `memory`, `matrix TYPE`, `vector TYPE` or `unknown`."""
        return self.time.limited_by

    @property
    def wasted(self) -> int | None:
        """Return the transferred bytes that no lane or tile requested, over all runs.

        `None` if the traffic of an array is unknown.
        """
        arrays = () if self.coalescing is None else self.coalescing.arrays
        unknown = [a.is_unknown or (a.tile is not None and a.moved is None) for a in arrays]
        if self.coalescing is None or any(unknown):
            return None
        return self.coalescing.wasted * self.runs


class AccessCost(Struct, frozen=True):
    """The traffic of one array of a kernel, over all runs.

    Attributes:
        kernel: The kernel.
        array: The accesses of the array by threads or tiles.
    """

    kernel: KernelCost
    array: ArrayUse

    @property
    def instruction(self) -> Instruction:
        """Return the instruction of the kernel."""
        return self.kernel.instruction

    @property
    def computation(self) -> Computation:
        """Return the computation of the kernel."""
        return self.kernel.computation

    @property
    def runs(self) -> int:
        """Return the number of runs of the kernel."""
        return self.kernel.runs

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the assumptions about the runs of the kernel."""
        return self.kernel.notes

    @property
    def moved(self) -> int:
        """Return the bytes of transferred sectors or transactions, over all runs; 0 if unknown."""
        return (self.array.moved or 0) * self.runs

    @property
    def wasted(self) -> int:
        """Return the transferred bytes that no lane or tile requested, over all runs."""
        return self.array.wasted * self.runs


class ProgramCost(Struct, frozen=True, eq=False):
    """The cost of the kernels of a program on a device.

    Attributes:
        module: The program.
        device: The device for the time bounds.
        target: The backend that the program was compiled for.
        kernels: The kernels, in program order; those of callers come first.
        is_judged: Were the transfers of threads counted?
    """

    module: Module
    device: Device
    target: Target
    kernels: tuple[KernelCost, ...]
    is_judged: bool

    @property
    def accesses(self) -> list[AccessCost]:
        """Return the traffic of each array of each kernel, where it is known."""
        return [
            AccessCost(kernel, array)
            for kernel in self.kernels
            if kernel.coalescing is not None
            for array in kernel.coalescing.arrays
            if array.moved is not None
        ]

    @property
    def step(self) -> Bound:
        """Return the lower bound of the time of one program run, for any contents of caches."""
        read, written = compulsory_bytes(self.module, self.kernels)
        work = total([(kernel.footprint.work, kernel.runs) for kernel in self.kernels])
        exact_f32 = is_exact(work)
        return bound_of(
            read, written, units_of(work), self.device, exact_f32=exact_f32, notes=(STEP,)
        )


def compulsory_bytes(module: Module, kernels: Iterable[KernelCost]) -> tuple[int, int]:
    """Return the bytes of arguments that kernels must read, and of results that they compute.

    Each byte counts once. An argument counts as the largest part of it that one kernel reads, if
    that part is exact. A result that is an argument counts nothing.
    """
    needed: dict[tuple[Instruction, int], int] = {}
    for kernel in kernels:
        for array in kernel.footprint.reads:
            source = _argument(kernel.instruction.operands[array.number], array.leaf)
            # Parts that several kernels need may overlap, so only the largest is certainly read. A
            # kernel that may not run, and a part that is an upper bound, prove nothing.
            if source is not None and array.touched.is_exact and kernel.fewest_runs:
                needed[source] = max(needed.get(source, 0), array.touched.bytes or 0)
    root = module.entry.root
    values = root.operands if isinstance(root.op, Tuple | Return) else (root,)
    written = sum([size_in_bytes(v.type) for v in values if not isinstance(v.op, Parameter)])
    of_entry = {*module.entry.parameters}
    return sum([n for (value, _), n in needed.items() if value in of_entry]), written


def _argument(value: Instruction, leaf: int) -> tuple[Instruction, int] | None:
    """Return the parameter that a value forwards, and the number of its array.

    `None` for other values.
    """
    while isinstance(value.op, Bitcast):
        value = value.operands[0]
    if isinstance(value.op, GetTupleElement) and isinstance(value.operands[0].op, Parameter):
        return value.operands[0], value.op.index
    return (value, leaf) if isinstance(value.op, Parameter) else None


def units_of(work: Work) -> dict[tuple[str, str], float]:
    """Return the operations by (unit, element type), in the form that `bound_of` takes.

    A product counts for the type of its first operand.
    """
    found: dict[tuple[str, str], float] = {}
    for product, count in work.matrix:
        found["matrix", product.lhs] = found.get(("matrix", product.lhs), 0) + count
    for element, count in work.vector:
        found["vector", element] = found.get(("vector", element), 0) + count
    return found


def is_exact(work: Work) -> bool:
    """Do all products of f32 forbid tf32? Otherwise the bound assumes the faster unit for all."""
    return not any(product.allows_tf32 for product, _ in work.matrix)


def is_judged_by_threads(module: Module, target: Target, device: Device) -> bool:
    """Do XLA:GPU's thread maps apply to the program's kernels on this device?

    They do if the device has warps and the program was compiled for a GPU, or has fusions and no
    text that only another backend leaves. Only XLA makes fusions, but a part of a dump may lack the
    text that shows its backend.
    """
    if not device.has_warps or target.kind in ("cpu", "tpu"):
        return False
    return target.kind == "gpu" or any(isinstance(i.op, Fusion) for c in module for i in c)


def program_cost(
    module: Module,
    memory: Memory,
    device: Device,
    only: Iterable[tuple[Computation, Instruction]] | None = None,
    *,
    transfers: bool | None = None,
    shown: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> ProgramCost:
    """Return the cost of every kernel that runs when a program runs, or of some instructions.

    Args:
        module: The program.
        memory: The model of transfers by the threads of a GPU.
        device: The device for the time bounds.
        only: The instructions with their computations; `None` for all kernels. An instruction in a
            computation that is part of a kernel counts as run once.
        transfers: Also count the transfers of threads? `None` lets the program's backend decide.
        shown: Iterates over the kernels; it may show progress.

    Raises:
        VerifyError: An instruction is invalid.
    """
    target = target_of(module)
    is_judged = is_judged_by_threads(module, target, device) if transfers is None else transfers
    places = {place.computation: place for place in running(module)}
    every = [(place.computation, ins) for place in places.values() for ins in place.kernels]
    chosen = every if only is None else only
    costs = KernelCosts(memory, device, is_judged=is_judged)
    kernels = [
        costs.of(ins, places.get(computation) or Place(computation, 1, (), 1, 1))
        for computation, ins in shown([*chosen])
    ]
    counted = tuple(_with_one_branch(kernels, places))
    return ProgramCost(module, device, target, counted, is_judged)


class KernelCosts:
    """Computes the costs of single kernels."""

    def __init__(self, memory: Memory, device: Device, *, is_judged: bool) -> None:
        """Create an object that computes the costs of single kernels.

        Args:
            memory: The model of transfers by threads.
            device: The device for the time bounds.
            is_judged: Count the transfers of threads?
        """
        self._memory: Final = memory
        self._device: Final = device
        self._is_judged: Final = is_judged
        self._footprints: Final = Footprints(memory.analysis, memory.device, memory.kernels)

    def of(self, ins: Instruction, place: Place) -> KernelCost:
        """Return the cost of one kernel.

        `place` is the computation that contains the instruction, with its numbers of runs.

        Raises:
            VerifyError: The instruction is invalid.
        """
        coalescing, reason = None, "" if self._is_judged else NOT_JUDGED
        try:
            coalescing = self._memory.of_instruction(ins) if self._is_judged else None
        except VerifyError:
            raise
        except HloscopeError as error:
            reason = error.message
        footprint = self._footprints.of_instruction(ins)
        work = footprint.work
        bound = bound_of(
            footprint.read,
            footprint.written,
            units_of(work),
            self._device,
            transcendentals=work.transcendental_count,
            exact_f32=is_exact(work),
            notes=work.unknown,
        )
        return KernelCost(
            ins, place.computation, footprint, coalescing, reason, bound,
            place.times, place.low, place.high, place.notes,
        )  # fmt: skip


def _with_one_branch(
    kernels: list[KernelCost], places: Mapping[Computation, Place]
) -> list[KernelCost]:
    """Return the kernels with 0 runs for all but the largest branch of each conditional.

    Args:
        kernels: The kernels.
        places: Runs of the computations.
    """
    each: dict[Computation, int] = {}
    for kernel in kernels:
        each[kernel.computation] = each.get(kernel.computation, 0) + kernel.footprint.bytes
    runs = counted_runs(each, places)
    return [replace(kernel, runs=runs[kernel.computation]) for kernel in kernels]


def counted_runs(
    each: Mapping[Computation, int], places: Mapping[Computation, Place]
) -> dict[Computation, int]:
    """Return the number of runs of computations, if conditionals run their largest branch only.

    Computations of other branches get 0 runs.

    Args:
        each: Bytes of one run of each computation.
        places: Runs of the computations; a missing one runs once.
    """
    runs = {c: places[c].times if c in places else 1 for c in each}
    around = {c: places[c].branches for c in runs if c in places and places[c].branches}
    # Inner conditionals are decided first: outer branches count the inner choices.
    for depth in reversed(range(max(map(len, around.values()), default=0))):
        totals: dict[Instruction, dict[int, int]] = {}
        for computation, branches in around.items():
            if depth < len(branches):
                conditional, number = branches[depth]
                by_number = totals.setdefault(conditional, {})
                bytes_ = each[computation] * runs[computation]
                by_number[number] = by_number.get(number, 0) + bytes_
        largest = {case: max(found, key=found.__getitem__) for case, found in totals.items()}
        for computation, branches in around.items():
            if depth < len(branches) and largest[branches[depth][0]] != branches[depth][1]:
                runs[computation] = 0
    return runs


# --------------------------------------------------------------------------------------------------
# The measured time of an instruction, with its modelled cost.


class MeasuredCost(Struct, frozen=True):
    """The measured time of an instruction, and its cost if it is a kernel.

    Attributes:
        instruction: The instruction that the profile's events belong to.
        computation: The computation of the instruction.
        runs: Number of recorded runs.
        time: Picoseconds of all runs, without the time of other instructions that run inside.
        events: Number of events of it in the profile.
        kernel: Its modelled cost; `None` if the model has no kernel for it, as for a loop.
    """

    instruction: Instruction
    computation: Computation
    runs: int
    time: int
    events: int
    kernel: KernelCost | None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return no notes: runs are counted, not assumed."""
        return ()

    @property
    def bound(self) -> int:
        """Return the lower bound of the time of all recorded runs, in picoseconds; 0 if unknown."""
        return 0 if self.kernel is None else self.kernel.bound * self.runs

    @property
    def lost(self) -> int:
        """Return the measured time above the bound, in picoseconds.

        It is 0 if caches made the kernel faster than the bound.
        """
        return max(self.time - self.bound, 0)

    @property
    def bytes(self) -> int:
        """Return the bytes that all runs must read and write."""
        return 0 if self.kernel is None else self.kernel.footprint.bytes * self.runs

    @property
    def flops(self) -> int:
        """Return the operations of all runs."""
        return 0 if self.kernel is None else self.kernel.footprint.flops * self.runs


# --------------------------------------------------------------------------------------------------
# Groups of rows: rows with equal keys, the group with the largest total first.


GROUPINGS: Final[tuple[str, ...]] = ("group", "kernel", "source", "scope", "opcode", "computation")
"""Names of the groupings; `group` joins equal kernels of one source line."""


class CostRow(Protocol):
    """A table row about an instruction, with the number of its runs."""

    @property
    def instruction(self) -> Instruction: ...
    @property
    def computation(self) -> Computation: ...
    @property
    def runs(self) -> int: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=CostRow)


class Group(Struct, Generic[R], frozen=True):
    """Table rows that have the same key, and their total.

    Attributes:
        key: The key.
        members: The rows, the one with the largest total first.
        total: The sum over all members and all their runs.
    """

    key: Hashable
    members: tuple[R, ...]
    total: int

    @property
    def first(self) -> R:
        """Return the member with the largest total, which represents the group."""
        return self.members[0]


def grouped(
    rows: Iterable[R], key: Callable[[R], Hashable], total: Callable[[R], int]
) -> list[Group[R]]:
    """Return the rows in groups, the largest total first. Equal totals keep the order of the rows.

    The totals of the groups add up to the sum over all rows, as each row is in one group.

    Args:
        rows: The rows.
        key: Returns the key that the rows of a group share.
        total: Returns the amount of a row, over all its runs.
    """
    members: dict[Hashable, list[tuple[int, R]]] = {}
    for row in rows:
        members.setdefault(key(row), []).append((total(row), row))
    groups = [
        Group(
            name,
            tuple([row for _, row in sorted(some, key=lambda one: -one[0])]),
            sum([amount for amount, _ in some]),
        )
        for name, some in members.items()
    ]
    return sorted(groups, key=lambda group: -group.total)


def kernels_and_runs(groups: Iterable[Group[R]]) -> tuple[int, int]:
    """Return the number of distinct instructions in all groups, and the sum of their runs."""
    runs = {row.instruction: row.runs for group in groups for row in group.members}
    return len(runs), sum(runs.values())


def shares(totals: Sequence[int]) -> Iterator[tuple[float, float]]:
    """Yield, for each total, its share of the sum and the cumulative share so far.

    >>> list(shares([3, 1]))
    [(0.75, 0.75), (0.25, 1.0)]
    """
    whole, before = sum(totals), 0
    for part in totals:
        before += part
        yield (part / whole, before / whole) if whole else (0.0, 0.0)
