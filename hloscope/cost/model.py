"""One model of a program's cost: every kernel with its bytes, flops, waste and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.cost.bounds import Bound, bound_of, program_bound
from hloscope.cost.footprints import Footprint, Footprints
from hloscope.cost.runs import Place, running
from hloscope.cost.target import Target, target_of
from hloscope.cost.work import Work, total
from hloscope.devices import Device
from hloscope.errors import HloscopeError, VerifyError
from hloscope.fusion import size_in_bytes
from hloscope.ir import Computation, Instruction, Module
from hloscope.memory import ArrayUse, Coalescing, Memory, kind_of
from hloscope.ops import Bitcast, Fusion, GetTupleElement, Parameter, Return, Tuple

NOT_JUDGED: Final = "not compiled for a GPU: its threads are not known"


class KernelCost(Struct, frozen=True):
    """The cost of one kernel of a program.

    Attributes:
        instruction: The fusion or instruction that the kernel computes.
        computation: The computation that the instruction belongs to.
        footprint: Bytes read and written at least, and flops, of one run.
        coalescing: What its warps transfer; `None` where no thread map is known.
        reason: Why no thread map is known.
        time: The lower bound of one run that finds nothing in a cache.
        runs: How often it counts as run in one run of the program; of a conditional's branches
            only the one that moves most bytes counts.
        fewest_runs: How often it runs at least.
        most_runs: How often it runs at most; `None` if that is not known.
        notes: What was assumed about that.
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
        """Bytes read and written at least, over all runs."""
        return self.footprint.bytes * self.runs

    @property
    def flops(self) -> int:
        """Floating-point operations of all runs."""
        return self.footprint.flops * self.runs

    @property
    def bound(self) -> int:
        """Least time of one run that finds nothing in a cache, in picoseconds."""
        return int(self.time.seconds * 10**12)

    @property
    def maker(self) -> str:
        """Who makes the kernel: an emitter of XLA's, Triton or a library."""
        if self.coalescing is not None:
            return self.coalescing.kernel.emitter
        return str(kind_of(self.instruction))

    @property
    def limited_by(self) -> str:
        """The unit that bounds the time: `memory`, `matrix TYPE`, `vector TYPE` or `unknown`."""
        return self.time.limited_by

    @property
    def wasted(self) -> int | None:
        """Bytes transferred that no lane and no tile asked for, over all runs.

        `None` if they are not known of every array.
        """
        if self.coalescing is None or any(_is_not_counted(a) for a in self.coalescing.arrays):
            return None
        return self.coalescing.wasted * self.runs


def _is_not_counted(array: ArrayUse) -> bool:
    """Is it not known what an array's accesses transfer, though it is accessed?"""
    return array.is_unknown or (array.tile is not None and array.moved is None)


class AccessCost(Struct, frozen=True):
    """The cost of one array of a kernel: what its accesses transfer.

    Attributes:
        kernel: The kernel.
        array: How its threads or tiles access the array.
    """

    kernel: KernelCost
    array: ArrayUse

    @property
    def instruction(self) -> Instruction:
        """The instruction of the kernel."""
        return self.kernel.instruction

    @property
    def computation(self) -> Computation:
        """The computation of the kernel."""
        return self.kernel.computation

    @property
    def runs(self) -> int:
        """How often the kernel runs."""
        return self.kernel.runs

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed about how often the kernel runs."""
        return self.kernel.notes

    @property
    def moved(self) -> int:
        """Bytes of the sectors or of the tiles' transactions, over all runs; 0 if not known."""
        return (self.array.moved or 0) * self.runs

    @property
    def wasted(self) -> int:
        """Bytes transferred that no lane and no tile asked for, over all runs."""
        return self.array.wasted * self.runs


class ProgramCost:
    """The cost of kernels of a program on a device.

    Attributes:
        module: The program.
        device: The device that bounds are for.
        target: The backend that the program was compiled for.
        kernels: The kernels, in program order, callers first.
        is_judged: Was it counted what threads transfer?
    """

    def __init__(
        self,
        module: Module,
        device: Device,
        target: Target,
        kernels: Iterable[KernelCost],
        *,
        is_judged: bool,
    ) -> None:
        self.module: Final = module
        self.device: Final = device
        self.target: Final = target
        self.kernels: Final = tuple(kernels)
        self.is_judged: Final = is_judged

    @property
    def accesses(self) -> list[AccessCost]:
        """Every access of which the transfers are known."""
        return [
            AccessCost(kernel, array)
            for kernel in self.kernels
            if kernel.coalescing is not None
            for array in kernel.coalescing.arrays
            if array.moved is not None
        ]

    @property
    def step(self) -> Bound:
        """The lower bound of one run of the program, whatever caches hold between its kernels."""
        read, written = compulsory_bytes(self.module, self.kernels)
        work = total([(kernel.footprint.work, kernel.runs) for kernel in self.kernels])
        return program_bound(read, written, units_of(work), self.device, exact_f32=is_exact(work))


def compulsory_bytes(module: Module, kernels: Iterable[KernelCost]) -> tuple[int, int]:
    """The bytes of arguments that kernels need, and of results that they compute, each once.

    An argument counts the largest part of it that one kernel needs; a part that is not exactly
    known counts nothing.  A result that is an argument counts nothing.
    """
    needed: dict[tuple[Instruction, int], int] = {}
    for kernel in kernels:
        for array in kernel.footprint.reads:
            source = _argument(kernel.instruction.operands[array.number], array.leaf)
            if source is not None and array.touched.is_exact and kernel.fewest_runs:
                needed[source] = max(needed.get(source, 0), array.touched.bytes or 0)
    root = module.entry.root
    values = root.operands if isinstance(root.op, Tuple | Return) else (root,)
    written = sum([size_in_bytes(v.type) for v in values if not isinstance(v.op, Parameter)])
    of_entry = {*module.entry.parameters}
    return sum([n for (value, _), n in needed.items() if value in of_entry]), written


def _argument(value: Instruction, leaf: int) -> tuple[Instruction, int] | None:
    """The parameter that a value is, and which of its arrays."""
    while isinstance(value.op, Bitcast):
        value = value.operands[0]
    if isinstance(value.op, GetTupleElement) and isinstance(value.operands[0].op, Parameter):
        return value.operands[0], value.op.index
    return (value, leaf) if isinstance(value.op, Parameter) else None


def units_of(work: Work) -> dict[tuple[str, str], float]:
    """Operations by unit and element type, as bounds take them.

    A product counts for the type of its first operand.
    """
    found: dict[tuple[str, str], float] = {}
    for product, count in work.matrix:
        found["matrix", product.lhs] = found.get(("matrix", product.lhs), 0) + count
    for element, count in work.vector:
        found["vector", element] = found.get(("vector", element), 0) + count
    return found


def is_exact(work: Work) -> bool:
    """Do all products of f32 forbid tf32?  Else the bound takes the faster unit for all."""
    return not any(product.allows_tf32 for product, _ in work.matrix)


def is_judged_by_threads(module: Module, target: Target, device: Device) -> bool:
    """May XLA:GPU's thread maps judge the program's kernels?

    They may if it was compiled for a GPU, or has fusions and shows no other backend: fusions are
    made by XLA only, but text cut from a dump may have lost the marks of its backend.
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
    """The cost of every kernel that runs when a program runs, or of some instructions.

    Args:
        module: The program.
        memory: The model of what threads transfer, on a GPU.
        device: The device that bounds are for.
        only: The instructions with their computations; one in a computation that does not run
            by itself counts as run once.
        transfers: Count what threads transfer, too, or only bytes and flops.  If not given, it
            depends on what the program was compiled for.
        shown: Yields the kernels; it may show progress.

    Raises:
        VerifyError: An instruction is invalid.
    """
    target = target_of(module)
    is_judged = transfers
    if is_judged is None:
        is_judged = is_judged_by_threads(module, target, device)
    places = {place.computation: place for place in running(module)}
    chosen = only
    if chosen is None:
        chosen = [(place.computation, ins) for place in places.values() for ins in place.kernels]
    costs = KernelCosts(memory, device, is_judged=is_judged)
    kernels = [
        costs.of(ins, places.get(computation) or Place(computation, 1, (), 1, 1))
        for computation, ins in shown([*chosen])
    ]
    return ProgramCost(
        module, device, target, _with_one_branch(kernels, places), is_judged=is_judged
    )


class KernelCosts:
    """Costs of kernels, one by one."""

    def __init__(self, memory: Memory, device: Device, *, is_judged: bool) -> None:
        """Take a model of transfers, the device of the bounds, and whether transfers count."""
        self._memory: Final = memory
        self._device: Final = device
        self._is_judged: Final = is_judged
        self._footprints: Final = Footprints(memory.analysis, memory.device, memory.kernels)

    def of(self, ins: Instruction, place: Place) -> KernelCost:
        """The cost of one kernel of a computation.

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
            unknown=work.unknown,
        )
        return KernelCost(
            ins, place.computation, footprint, coalescing, reason, bound,
            place.times, place.low, place.high, place.notes,
        )  # fmt: skip


def _with_one_branch(
    kernels: list[KernelCost], places: Mapping[Computation, Place]
) -> list[KernelCost]:
    """The kernels; of each conditional only those of the branch that moves most bytes have runs."""
    each: dict[Computation, int] = {}
    for kernel in kernels:
        each[kernel.computation] = each.get(kernel.computation, 0) + kernel.footprint.bytes
    runs = counted_runs(each, places)
    return [
        kernel
        if kernel.runs == runs[kernel.computation]
        else replace(kernel, runs=runs[kernel.computation])
        for kernel in kernels
    ]


def counted_runs(
    each: Mapping[Computation, int], places: Mapping[Computation, Place]
) -> dict[Computation, int]:
    """How often computations count as run: of a conditional, only the largest branch does.

    One branch runs, so the sum over all of them is more than any run of the program needs.

    Args:
        each: Bytes of one run of each computation.
        places: How often computations run; one that is not there runs once.
    """
    runs = {c: places[c].times if c in places else 1 for c in each}
    around = {c: places[c].branches for c in runs if c in places and places[c].branches}
    # Conditionals inside of branches are decided first: the outer ones count what they chose.
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
