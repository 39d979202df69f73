"""Execution of a kernel: all threads of a batch of blocks at once, and its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.memory.ptx.counting import Accesses, Counts, Recorder
from hloscope.memory.ptx.decoding import Step, decode, used_registers
from hloscope.memory.ptx.machine import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    Batch,
    Dim3,
    GlobalMemory,
    KernelError,
    Lanes,
    Layout,
    Operands,
    layout_of,
    refuse_large,
)
from hloscope.memory.ptx.syntax import TYPES, Kernel, PtxModule
from hloscope.support.arrays import Array, np
from hloscope.support.devices import SECTOR
from hloscope.support.limits import MOST_MEMORY, MOST_STEPS, MOST_THREADS

# --------------------------------------------------------------------------------------------------
# Execution of a kernel: all threads of a batch of blocks at once, lowest position first.
#
# A position is the index of an instruction. The threads with the lowest position execute it
# together. Compilers put a loop or branch above the instruction where its threads reconverge, so a
# warp reconverges as on a GPU. A thread at a barrier waits until no other thread can run.


MOST_BLOCK: Final = 1024
"""Maximum number of threads of a block.

Source: CUDA C++ Programming Guide, "Technical Specifications".
"""
_MOST_PARAMETERS: Final = 32764
"""Maximum bytes of a kernel's parameters.

Source: PTX ISA 8.8, "Kernel Function Parameters".
"""
_BATCH: Final = 1 << 15
"""Number of threads of a batch: fewer take more time per thread, more exceed the L2 cache."""
_BATCH_BYTES: Final = 1 << 28
"""Maximum bytes of the state of a batch of several blocks: registers, shared and local memory."""


class Argument(Struct, frozen=True):
    """An array argument of a kernel, which is passed by its address.

    Attributes:
        name: Name in results and messages.
        array: Its elements, in C order; the run does not change this array.
    """

    name: str
    array: Array


class Same(Struct, frozen=True):
    """An argument with the address of the earlier argument with index `number`."""

    number: int


Given: TypeAlias = "Argument | Same | int | float"
"""An argument of a kernel: an array, an earlier array, or a number."""


class Launch(Struct, frozen=True):
    """Launch dimensions of a kernel.

    Attributes:
        grid: Number of blocks in x, y and z.
        block: Number of threads of a block in x, y and z.
        shared: Bytes of dynamic shared memory.
    """

    grid: Dim3
    block: Dim3
    shared: int = 0

    @property
    def threads(self) -> int:
        """Return the number of threads of all blocks together."""
        return prod(self.grid) * prod(self.block)


class Limits(Struct, frozen=True):
    """Limits of a launch; exceeding one raises a `KernelError`.

    Attributes:
        max_steps: Maximum number of steps; one step executes an instruction for all threads at its
            position.
        max_threads: Maximum number of threads of the launch.
        max_bytes: Maximum bytes of the arrays with their access marks, and maximum bytes of a
            batch's state.
    """

    max_steps: int = MOST_STEPS
    max_threads: int = MOST_THREADS
    max_bytes: int = MOST_MEMORY


class Executed(Struct):
    """A finished run of a kernel.

    Attributes:
        kernel: The kernel.
        launch: Its launch dimensions.
        memory: Global memory after the run.
        numbers: Index of each argument in `memory.arrays`; -1 for an argument that is a number.
        recorder: The counted accesses.
        shared: Bytes of shared memory of a block, static and dynamic.
        steps: Number of steps of all batches.
    """

    kernel: Kernel
    launch: Launch
    memory: GlobalMemory
    numbers: tuple[int, ...]
    recorder: Recorder
    shared: int
    steps: int = 0


def execute(
    module: PtxModule,
    kernel: Kernel,
    launch: Launch,
    arguments: Sequence[Given],
    *,
    limits: Limits | None = None,
    on_access: Callable[[Accesses], None] | None = None,
) -> Executed:
    """Run a kernel, and return its state at the end with the counted accesses.

    Args:
        module: The PTX module of the kernel.
        kernel: The kernel.
        launch: Numbers of blocks and threads.
        arguments: One for each parameter.
        limits: Limits of the run; the defaults if `None`.
        on_access: Called for each access to global memory.

    Raises:
        KernelError: The arguments are wrong, an address is in no array, a limit is reached.
        ParseError: The kernel has an unknown instruction.
        UnsupportedError: The kernel has an instruction that is not executed.
    """
    limits = limits or Limits()
    _check_launch(kernel, launch, limits)
    if len(arguments) != len(kernel.params):
        message = f"kernel `{kernel.name}` has {len(kernel.params)} parameters"
        raise KernelError(f"{message}, {len(arguments)} arguments are given", span=kernel.span)
    arrays = [a for a in arguments if isinstance(a, Argument)]
    of_module = [v for v in module.variables if v.space in ("global", "const")]
    sizes = [(a.name, a.array.nbytes) for a in arrays] + [(v.name, v.size) for v in of_module]
    memory = GlobalMemory(sizes, max_bytes=limits.max_bytes // 4)  # includes three marks per byte
    contents = [np.ascontiguousarray(a.array).reshape(-1).view(np.uint8) for a in arrays]
    contents += [np.frombuffer(v.data, np.uint8) for v in of_module]
    for number, content in enumerate(contents):
        memory.content(number)[: len(content)] = content
    layout = layout_of(kernel, module.variables, launch.shared, len(arrays))
    symbols = {name: memory.address(number) for name, number in layout.globals.items()}
    steps = decode(kernel, Operands(kernel, symbols | layout.offsets, _WINDOWS))
    numbers = _numbers_of(arguments)
    params = _parameters(kernel, layout, memory, arguments, numbers)
    recorder = Recorder(len(memory.bytes), on_access)
    done = Executed(kernel, launch, memory, numbers, recorder, layout.shared)
    with np.errstate(all="ignore"):
        for blocks in _batches(kernel, layout, launch, limits):
            batch = Batch(
                kernel, layout, memory, params, recorder, launch.grid, launch.block, blocks
            )
            done.steps += _Running(batch, steps, limits.max_steps - done.steps).run()
    return done


_WINDOWS: Final = {
    "global": 0,
    "const": 0,
    "shared": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
}


def _check_launch(kernel: Kernel, launch: Launch, limits: Limits) -> None:
    sizes = (*launch.grid, *launch.block)
    if min(sizes) < 1 or launch.shared < 0:
        raise KernelError(f"a launch of {launch.grid} blocks of {launch.block} threads is empty")
    per_block = prod(launch.block)
    if per_block > MOST_BLOCK:
        raise KernelError(f"a block has 1 to {MOST_BLOCK} threads, not {per_block:,}")
    refuse_large(launch.threads, limits.max_threads, "threads", "max_threads")
    required = (*kernel.threads, 1, 1)[:3]
    if kernel.threads and required != launch.block:
        message = f"kernel `{kernel.name}` requires blocks of {required} threads"
        raise KernelError(f"{message}, not {launch.block}", span=kernel.span)
    if kernel.most_threads and per_block > prod(kernel.most_threads):
        message = f"kernel `{kernel.name}` allows {prod(kernel.most_threads)} threads a block"
        raise KernelError(f"{message}, not {per_block}", span=kernel.span)


def _numbers_of(arguments: Sequence[Given]) -> tuple[int, ...]:
    """Return the index in global memory of each argument; -1 for an argument that is a number."""
    numbers, count = list[int](), 0
    for argument in arguments:
        if isinstance(argument, Argument):
            numbers.append(count)
            count += 1
        elif isinstance(argument, Same):
            if not 0 <= argument.number < len(numbers) or numbers[argument.number] < 0:
                raise KernelError(f"argument {argument.number} is not an earlier array")
            numbers.append(numbers[argument.number])
        else:
            numbers.append(-1)
    return tuple(numbers)


def _parameters(
    kernel: Kernel,
    layout: Layout,
    memory: GlobalMemory,
    arguments: Sequence[Given],
    numbers: tuple[int, ...],
) -> bytes:
    """Return the contents of the kernel's parameter memory: addresses of arrays, and numbers.

    Args:
        kernel: The kernel.
        layout: Offsets of the parameters.
        memory: Global memory with the arrays.
        arguments: One argument for each parameter.
        numbers: Index in global memory of each argument; -1 for a number.

    Raises:
        KernelError: An argument does not fit its parameter, or there are too many bytes.
    """
    refuse_large(layout.params, _MOST_PARAMETERS, "bytes of parameters", "")
    data = bytearray(layout.params + 16)
    for variable, argument, number in zip(kernel.params, arguments, numbers, strict=True):
        at, type_ = layout.offsets[variable.name], TYPES[variable.type]
        if isinstance(argument, Argument | Same):
            if variable.size != 8:
                raise KernelError(f"parameter `{variable.name}` is not an address: give a number")
            data[at : at + 8] = memory.address(number).to_bytes(8, "little")
            continue
        if variable.is_pointer:
            raise KernelError(f"parameter `{variable.name}` is an address: give an array")
        if variable.size != type_.bytes:
            raise KernelError(f"parameter `{variable.name}` is a structure, not a number")
        if isinstance(argument, float) and not type_.is_float:
            # `.b32` parameters can also be floats; the size determines the float type.
            type_ = TYPES[f"f{type_.bits}"] if type_.bits in (16, 32, 64) else type_
        value = argument if type_.is_float else int(argument) & ((1 << type_.bits) - 1)
        dtype = type_.dtype if type_.is_float else type_.raw
        data[at : at + type_.bytes] = np.array([value]).astype(dtype).tobytes()
    return bytes(data)


def _batches(kernel: Kernel, layout: Layout, launch: Launch, limits: Limits) -> list[range]:
    """Return the range of blocks of each batch, so that the state of a batch stays small."""
    blocks, per_block = prod(launch.grid), prod(launch.block)
    of_block = per_block * (used_registers(kernel) + layout.local + 128) + layout.shared
    refuse_large(of_block, limits.max_bytes // 4, "bytes of state of a block", "max_bytes")
    count = max(1, min(_BATCH // per_block, _BATCH_BYTES // of_block))
    return [range(i, min(i + count, blocks)) for i in range(0, blocks, count)]


class _Running:
    """Scheduler of the threads of a batch: the threads at the lowest instruction index run first.

    Attributes:
        waiting: The lanes that wait, by the index of their next instruction; these indices are
            above the current one.
    """

    def __init__(self, batch: Batch, steps: list[Step], budget: int) -> None:
        self.batch, self.steps, self.budget = batch, steps, budget
        self.waiting: dict[int, Lanes] = {}
        self.barred: dict[int, Lanes] = {}
        self.lowest = len(steps)
        self.count = 0

    def run(self) -> int:
        """Run every thread to its end, and return the number of executed steps."""
        batch, steps, end = self.batch, self.steps, len(self.steps)
        at, lanes = 0, batch.every_lane
        while True:
            if at >= end or not len(lanes):
                found = self._next()
                if found is None:
                    return self.count
                at, lanes = found
                continue
            step = steps[at]
            self.count += 1
            if self.count > self.budget:
                message = "the kernel executes more instructions than the limit allows"
                raise KernelError(message, span=step.instruction.span, rule="max_steps")
            active = lanes
            if step.guard:
                mask = batch.register(step.guard)[lanes.at]
                active = batch.chosen(lanes, ~mask if step.negated else mask)
            if step.kind == "value":
                if len(active):
                    step.run(batch, active)
                rest = lanes
            else:
                rest = self._without(lanes, active)
                self._control(step, at, active)
            at += 1
            if self.lowest <= at:  # other threads are at this position, too
                self._put(self.waiting, at, rest)
                at, lanes = self._next() or (end, rest)
            else:
                lanes = rest

    def _without(self, lanes: Lanes, gone: Lanes) -> Lanes:
        if len(gone) == len(lanes):
            return Lanes(lanes.index[:0], self.batch.count)
        if not len(gone):
            return lanes
        keep = np.ones(self.batch.count, bool)
        keep[gone.index] = False
        return Lanes(lanes.index[keep[lanes.index]], self.batch.count)

    def _control(self, step: Step, at: int, active: Lanes) -> None:
        if not len(active):
            return
        if step.kind == "branch":
            self._put(self.waiting, step.target, active)
        elif step.kind == "barrier":
            self._put(self.barred, at + 1, active)
        elif step.kind == "table" and step.index is not None:
            index = np.broadcast_to(step.index(self.batch, active), len(active))
            for i, target in enumerate(step.targets):
                chosen = Lanes(active.index[index == i], self.batch.count)
                self._put(self.waiting, target, chosen)

    def _put(self, places: dict[int, Lanes], at: int, lanes: Lanes) -> None:
        if not len(lanes):
            return
        there = places.get(at)
        if there is not None:
            index = np.concatenate([there.index, lanes.index])
            index.sort()
            lanes = Lanes(index, self.batch.count)
        places[at] = lanes
        if places is self.waiting:
            self.lowest = min(self.lowest, at)

    def _next(self) -> tuple[int, Lanes] | None:
        """Return the lowest instruction index at which threads wait, and these threads.

        They no longer count as waiting. If all remaining threads are at barriers, the barriers
        open. `None` if all threads have ended.
        """
        if not self.waiting:
            self.waiting, self.barred = self.barred, {}
        if not self.waiting:
            return None
        at = min(self.waiting)
        lanes = self.waiting.pop(at)
        self.lowest = min(self.waiting, default=len(self.steps))
        return at, lanes


# --------------------------------------------------------------------------------------------------
# Results of a kernel's execution: outputs, and accesses by array and instruction.


KINDS = ("read", "written", "atomic")
"""Kinds of accesses: loads, stores and atomic operations."""


class Touched(Struct, frozen=True):
    """The part of an array that is accessed, over all requests.

    Attributes:
        bytes: Number of distinct bytes.
        sectors: Number of distinct 32-byte blocks.
    """

    bytes: int
    sectors: int


class ArrayAccess(Struct, frozen=True):
    """Accesses of one kind to one array, by all instructions.

    Attributes:
        array: Name of the array.
        kind: `read`, `written` or `atomic`.
        counts: Requests, with their sectors and bytes.
        touched: The part of the array that is accessed.
    """

    array: str
    kind: str
    counts: Counts
    touched: Touched


class InstructionAccess(Struct, frozen=True):
    """Accesses of one instruction to one array.

    Attributes:
        name: Opcode and modifiers of the instruction.
        line: Line of the PTX text, from 1.
        array: Name of the array.
        kind: `read`, `written` or `atomic`.
        counts: Requests, with their sectors and bytes.
    """

    name: str
    line: int
    array: str
    kind: str
    counts: Counts


class SharedAccess(Struct, frozen=True):
    """Accesses of one instruction to shared memory.

    Attributes:
        name: Opcode and modifiers of the instruction.
        line: Line of the PTX text, from 1.
        requests: Number of phases of all warps; a phase accesses up to 128 bytes.
        mean: Mean number of words of the busiest bank in a phase; 1 means no conflicts.
        most: Largest number of words of a bank in a phase.
    """

    name: str
    line: int
    requests: int
    mean: float
    most: int


class PtxRun(Struct, frozen=True):
    """Result of a kernel that ran: access counts and output arrays.

    Attributes:
        kernel: Name of the kernel.
        file: Name of the PTX text.
        launch: Its launch dimensions.
        shared_bytes: Bytes of shared memory of a block, static and dynamic.
        arrays: Accesses of arrays, all reads first.
        instructions: Accesses of instructions, in the order of the text.
        shared: Accesses to shared memory, in the order of the text.
        steps: Number of steps; one step executes an instruction for all threads at its position.
        outputs: Every array argument after the run, by name.
    """

    kernel: str
    file: str
    launch: Launch
    shared_bytes: int
    arrays: tuple[ArrayAccess, ...]
    instructions: tuple[InstructionAccess, ...]
    shared: tuple[SharedAccess, ...]
    steps: int
    outputs: dict[str, Array]

    def __repr__(self) -> str:
        return f"<PtxRun {self.kernel} of {self.file}: {self.steps} steps>"


def answer_of(
    done: Executed, originals: list[Array], names: dict[tuple[int, str], str] | None = None
) -> PtxRun:
    """Return the result of a kernel that has run.

    Args:
        done: The finished run.
        originals: The array arguments before the run; the outputs have their types and shapes.
        names: Names of arrays by array index and kind of access, if they differ from the argument's
            name.
    """
    memory, recorder, code = done.memory, done.recorder, done.kernel.code

    def name(number: int, kind: str) -> str:
        return (names or {}).get((number, kind), memory.arrays[number].name)

    totals: dict[tuple[str, int], Counts] = {}
    instructions = []
    for (at, number, kind), counts in sorted(recorder.requests.items()):
        totals.setdefault((kind, number), Counts()).add(counts)
        ins = code[at]
        access = InstructionAccess(ins.name, ins.span.line, name(number, kind), kind, counts)
        instructions.append(access)
    arrays = tuple(
        [
            ArrayAccess(
                name(number, kind), kind, totals[kind, number], _touched(done, number, kind)
            )
            for kind, number in sorted(totals, key=lambda key: (KINDS.index(key[0]), key[1]))
        ]
    )
    shared = tuple(
        [
            SharedAccess(code[at].name, code[at].span.line, c.requests, c.mean, c.most)
            for at, c in sorted(recorder.shared.items())
        ]
    )
    outputs = {}
    for number, original in enumerate(originals):
        content = memory.content(number).copy()
        outputs[memory.arrays[number].name] = content.view(original.dtype).reshape(original.shape)
    return PtxRun(
        done.kernel.name,
        done.kernel.span.source.name,
        done.launch,
        done.shared,
        arrays,
        tuple(instructions),
        shared,
        done.steps,
        outputs,
    )


def _touched(done: Executed, number: int, kind: str) -> Touched:
    array = done.memory.arrays[number]
    marks = done.recorder.touched[kind][array.start : array.end]
    whole = np.zeros(-(-len(marks) // SECTOR) * SECTOR, np.uint8)
    whole[: len(marks)] = marks
    sectors = whole.reshape(-1, SECTOR).any(axis=1)
    return Touched(int(marks.sum()), int(sectors.sum()))
