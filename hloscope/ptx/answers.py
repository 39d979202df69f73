"""Results of a kernel's execution: outputs, and accesses by array and instruction."""

from __future__ import annotations

from msgspec import Struct

from hloscope.arrays import Array, np
from hloscope.devices import SECTOR
from hloscope.ptx.counting import Counts
from hloscope.ptx.running import Executed, Launch

KINDS = ("read", "written", "atomic")
"""Kinds of accesses: loads, stores and atomic operations."""


class Touched(Struct, frozen=True):
    """The part of an array that is accessed.

    Attributes:
        bytes: Distinct bytes, over all requests.
        sectors: Distinct 32-byte blocks.
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
        name: Opcode and modifiers.
        line: Line of the text.
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
        name: Opcode and modifiers.
        line: Line of the text.
        requests: Phases of 128 bytes, of all warps.
        mean: Mean number of words of the busiest bank in a phase; 1 means no conflicts.
        most: Largest number of words of a bank in a phase.
    """

    name: str
    line: int
    requests: int
    mean: float
    most: int


class PtxRun(Struct, frozen=True):
    """A kernel that ran.

    Attributes:
        kernel: Name of the kernel.
        file: Name of the PTX text.
        launch: Its launch dimensions.
        shared_bytes: Shared memory of a block, static and dynamic.
        arrays: Accesses of arrays, all reads first.
        instructions: Accesses of instructions, in the order of the text.
        shared: Accesses to shared memory, in the order of the text.
        steps: Instructions executed; one step executes an instruction for all threads at it.
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
        done: The run.
        originals: The arrays that were given, whose types and shapes the outputs have.
        names: Names by array number and kind of access, if they differ from the argument's name.
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
    source = done.kernel.span.source.name
    return PtxRun(
        done.kernel.name,
        source,
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
