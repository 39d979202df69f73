"""Steps of instructions: functions that change the state of a batch of blocks.

Opcode, modifiers and types determine an instruction's meaning. An unknown instruction is refused
before the kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from hloscope.errors import did_you_mean
from hloscope.memory.ptx import floats, integers  # noqa: F401  (importing them fills the table)
from hloscope.memory.ptx.floats import (
    COMPARED,
    COMPARISONS,
    MODIFIERS as CONVERSION_MODIFIERS,
    comparison_of,
    conversion,
    packing,
)
from hloscope.memory.ptx.integers import TABLE, with_carry
from hloscope.memory.ptx.machine import Batch, KernelError, Lanes, Operands, Read, fail, refuse
from hloscope.memory.ptx.syntax import (
    TYPES,
    Instruction,
    Kernel,
    Pair,
    PtxType,
    Register,
    Symbol,
    Vector,
)
from hloscope.memory.ptx.transfers import TRANSFERS
from hloscope.memory.ptx.warps import MATRIX_TRANSFERS, WARP_INSTRUCTIONS
from hloscope.support.arrays import Array, np

Run = Callable[[Batch, Lanes], None]


class Step(Struct, frozen=True):
    """An instruction that is ready to run: a function with its guard and its branch targets.

    Attributes:
        kind: `value` (continues with the next instruction), `branch`, `table` (branch through a
            table), `exit` or `barrier`.
        run: Function that changes the state for the lanes; for kinds other than `value` it changes
            nothing.
        guard: Name of the guard's predicate register; empty without a guard.
        negated: Whether the lanes run whose predicate is false.
        target: Index of the target instruction of a branch.
        targets: Indices of the target instructions in a branch table; `index` selects one for each
            lane.
        instruction: The instruction as written.
    """

    kind: str
    run: Run
    guard: str
    negated: bool
    instruction: Instruction
    target: int = -1
    targets: tuple[int, ...] = ()
    index: Read | None = None


_TRANSFERS: Final = TRANSFERS | MATRIX_TRANSFERS
_REFUSED: Final = {
    "mma": "matrix instructions are not executed",
    "wmma": "matrix instructions are not executed",
    "wgmma": "matrix instructions are not executed",
    "tcgen05": "matrix instructions are not executed",
    "cp": "asynchronous copies (cp.async, TMA) are not executed",
    "mbarrier": "memory barrier objects are not executed",
    "call": "calls of device functions are not executed: inline them",
    "tex": "textures are not executed",
    "suld": "surfaces are not executed",
    "sust": "surfaces are not executed",
    "alloca": "run-time stack allocation is not executed",
}
"""Reasons why valid instructions are not executed, by opcode."""
_NOTHING: Final = {
    "griddepcontrol",
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "applypriority",
    "discard",
    "nanosleep",
    "pmevent",
    "setmaxnreg",
    "createpolicy",
}
"""Opcodes without effect in this model: lanes run in order, and caches are not simulated."""


def decode(kernel: Kernel, operands: Operands) -> list[Step]:
    """Return the steps of a kernel.

    After the last instruction every thread ends.

    Raises:
        ParseError: An instruction is unknown, or its operands are invalid.
        UnsupportedError: An instruction is valid but is not executed, such as matrix instructions.
    """
    return [_step(kernel, number, ins, operands) for number, ins in enumerate(kernel.code)]


def _step(kernel: Kernel, number: int, ins: Instruction, operands: Operands) -> Step:
    guard, negated = "", False
    if ins.guard is not None:
        guard, negated = ins.guard.predicate.name, ins.guard.negated
        if operands.register_type(ins, ins.guard.predicate).name != "pred":
            fail(ins, f"`{guard}` is not a predicate")
    match ins.opcode:
        case "bra":
            target = _label(kernel, ins, ins.operands[0] if ins.operands else None)
            return Step("branch", _nothing, guard, negated, ins, target)
        case "brx":
            return _table_branch(kernel, ins, operands, guard, negated)
        case "ret" | "exit":
            return Step("exit", _nothing, guard, negated, ins)
        case "bar" | "barrier":
            return Step(_barrier(ins), _nothing, guard, negated, ins)
    return Step("value", _run_of(ins, number, operands), guard, negated, ins)


def _nothing(batch: Batch, lanes: Lanes) -> None:
    """Change nothing: the function of instructions without effect."""


def _label(kernel: Kernel, ins: Instruction, operand: object) -> int:
    if not isinstance(operand, Symbol) or operand.name not in kernel.labels:
        name = operand.name if isinstance(operand, Symbol) else ""
        fail(ins, f"unknown label `{name}`{did_you_mean(name, kernel.labels)}")
    return kernel.labels[operand.name]


def _table_branch(
    kernel: Kernel, ins: Instruction, operands: Operands, guard: str, negated: bool
) -> Step:
    if len(ins.operands) != 2 or not isinstance(ins.operands[1], Symbol):
        fail(ins, "expected an index and a list of labels")
    names = kernel.targets.get(ins.operands[1].name)
    if names is None:
        fail(ins, f"unknown list of labels `{ins.operands[1].name}`")
    targets = tuple(_label(kernel, ins, Symbol(name)) for name in names)
    index = operands.reads(ins, ins.operands[0], TYPES["u32"])
    return Step("table", _nothing, guard, negated, ins, targets=targets, index=index)


def _barrier(ins: Instruction) -> str:
    """Return the kind of the step of a barrier instruction: `barrier` or `value`.

    A barrier waits for every thread that can still run. An arrival does not wait.
    """
    modifiers = set(ins.modifiers)
    if "red" in modifiers:
        refuse(ins, "barriers that reduce a predicate are not executed")
    if "warp" in modifiers or "arrive" in modifiers:
        return "value"  # all lanes of the warp that will reach it wait here: the lowest runs first
    if "cluster" in modifiers:
        return "value"  # a cluster has one block
    return "barrier"


def _run_of(ins: Instruction, number: int, operands: Operands) -> Run:
    opcode, modifiers = ins.opcode, ins.modifiers
    if opcode in _NOTHING:
        return _nothing
    if opcode == "trap":
        return lambda batch, lanes: _trap(ins, batch, lanes)
    if opcode in _TRANSFERS:
        return _TRANSFERS[opcode](ins, number, operands)
    if opcode in WARP_INSTRUCTIONS:
        return WARP_INSTRUCTIONS[opcode](ins, operands)
    if opcode == "cvta":
        return _address_conversion(ins, operands)
    if opcode == "cvt":
        return _conversion(ins, operands)
    if opcode in ("setp", "set"):
        return _comparison(ins, operands)
    if opcode == "mov" and any(isinstance(o, Vector) for o in ins.operands):
        return _packed_move(ins, operands)
    if "cc" in modifiers or opcode in ("addc", "subc", "madc"):
        return with_carry(ins, operands)
    if opcode in TABLE:
        return _from_row(ins, operands)
    if opcode in _REFUSED:
        refuse(ins, _REFUSED[opcode])
    known = {
        *TABLE,
        *_TRANSFERS,
        *WARP_INSTRUCTIONS,
        *_NOTHING,
        "cvt",
        "cvta",
        "setp",
        "bra",
        "ret",
    }
    fail(ins, f"unknown instruction{did_you_mean(opcode, known)}")


def _trap(ins: Instruction, batch: Batch, lanes: Lanes) -> None:
    raise KernelError(f"{batch.thread_name(int(lanes.index[0]))} executes `trap`", span=ins.span)


def _type_of(ins: Instruction, modifiers: tuple[str, ...]) -> PtxType:
    if not modifiers or modifiers[-1] not in TYPES:
        fail(ins, "the type is missing or unknown")
    return TYPES[modifiers[-1]]


def _from_row(ins: Instruction, operands: Operands) -> Run:
    """Return the function that executes an instruction whose opcode is in `TABLE`.

    The function reads the sources, computes, and writes the result.
    """
    type_ = _type_of(ins, ins.modifiers)
    modifiers = frozenset(ins.modifiers[:-1])
    rows = [r for r in TABLE[ins.opcode] if type_.name in r.types]
    if not rows:
        fail(ins, f"type .{type_.name} is not one of this instruction")
    row = rows[0]
    unknown = modifiers - row.modifiers
    if unknown:
        fail(ins, f"unknown modifier `.{min(unknown)}`{did_you_mean(min(unknown), row.modifiers)}")
    if len(ins.operands) != row.sources + 1:
        fail(ins, f"expected {row.sources + 1} operands, found {len(ins.operands)}")
    compute = row.make(modifiers, type_)
    wide = TYPES[f"{type_.name[0]}{2 * type_.bits}"] if "wide" in modifiers else type_
    types = TYPES | {"same": type_, "wide": wide}
    reads = [
        operands.reads(ins, operand, types[row.source_types.get(i, "same")])
        for i, operand in enumerate(ins.operands[1:])
    ]
    write = operands.writes(ins, ins.operands[0], types[row.result])
    return lambda batch, at: write(batch, at, compute(*[read(batch, at) for read in reads]))


def _address_conversion(ins: Instruction, operands: Operands) -> Run:
    """Return the function that executes `cvta`, which converts addresses.

    `cvta.to.shared` subtracts the start of the space's window, `cvta.shared` adds it.
    """
    modifiers = [m.partition("::")[0] for m in ins.modifiers]
    if len(ins.operands) != 2 or modifiers[-1] not in ("u32", "u64"):
        fail(ins, "expected `cvta{.to}.space.u64` with two operands")
    type_, to = TYPES[modifiers[-1]], "to" in modifiers
    space = next((m for m in modifiers if m in operands.windows), None)
    if space is None:
        fail(ins, "the state space is missing or unknown")
    shift = np.array([operands.windows[space]], np.uint64).astype(type_.raw)
    read = operands.reads(ins, ins.operands[1], type_)
    write = operands.writes(ins, ins.operands[0], type_)
    return lambda b, at: write(b, at, read(b, at) - shift if to else read(b, at) + shift)


def _conversion(ins: Instruction, operands: Operands) -> Run:
    *modifiers, to_name, of_name = ins.modifiers if len(ins.modifiers) > 1 else ("", "")
    if to_name not in TYPES or of_name not in TYPES:
        fail(ins, "two types are needed, those of the result and of the source")
    unknown = set(modifiers) - CONVERSION_MODIFIERS
    if unknown:
        fail(ins, f"unknown modifier `.{min(unknown)}`")
    to, of, given = TYPES[to_name], TYPES[of_name], frozenset(modifiers)
    count = len(ins.operands) - 1
    compute = {1: conversion, 2: packing}[count](given, to, of) if count in (1, 2) else None
    if compute is None:
        fail(ins, f"no conversion of {count} operands of .{of_name} to .{to_name}")
    reads = [operands.reads(ins, operand, of) for operand in ins.operands[1:]]
    write = operands.writes(ins, ins.operands[0], to)
    return lambda batch, at: write(batch, at, compute(*[read(batch, at) for read in reads]))


_COMBINE: Final = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def _comparison(ins: Instruction, operands: Operands) -> Run:
    """Return the function that executes `setp` or `set`.

    `setp` writes the comparison and, after `|`, its opposite, each combined with a predicate.
    """
    is_set = ins.opcode == "set"
    *modifiers, of_name = ins.modifiers or ("",)
    result_name = modifiers.pop() if is_set and modifiers else "pred"
    combine = next((m for m in modifiers if m in ("and", "or", "xor")), None)
    given = frozenset(modifiers)
    if of_name not in COMPARED or result_name not in ("pred", "u32", "s32", "f32"):
        fail(ins, "the type is missing or cannot be compared")
    if len(given & COMPARISONS.keys()) != 1 or given - COMPARISONS.keys() - {"ftz", combine}:
        fail(ins, "expected one comparison")
    if len(ins.operands) != 3 + (combine is not None):
        fail(ins, f"expected {3 + (combine is not None)} operands, found {len(ins.operands)}")
    compare, of = comparison_of(given), TYPES[of_name]
    first, second = (operands.reads(ins, operand, of) for operand in ins.operands[1:3])
    other = operands.reads(ins, ins.operands[3], TYPES["pred"]) if combine else None
    target = ins.operands[0]
    pair = target if isinstance(target, Pair) else None
    kind = TYPES[result_name]
    write = operands.writes(ins, pair.first if pair else target, kind)
    write_opposite = operands.writes(ins, pair.second, kind) if pair else None
    true: Array | float | int = 1 if result_name == "f32" else -1

    def run(batch: Batch, at: Lanes) -> None:
        found = compare(first(batch, at), second(batch, at))
        results = [found] if write_opposite is None else [found, ~found]
        if combine is not None and other is not None:
            results = [_COMBINE[combine](result, other(batch, at)) for result in results]
        if is_set:
            results = [np.where(r, true, 0).astype(np.int64).astype(kind.dtype) for r in results]
        write(batch, at, results[0])
        if write_opposite is not None:
            write_opposite(batch, at, results[1])

    return run


def _packed_move(ins: Instruction, operands: Operands) -> Run:
    """Return the function of a `mov` between a register and a vector.

    `mov.b64 %rd1, {%r1, %r2}` joins parts, the first lowest; the opposite direction splits.
    """
    type_ = _type_of(ins, ins.modifiers)
    target, source = ins.operands if len(ins.operands) == 2 else (None, None)
    vector = source if isinstance(source, Vector) else target
    if not isinstance(vector, Vector) or len(vector.parts) not in (2, 4):
        fail(ins, "expected a register and a vector of 2 or 4 registers")
    part = TYPES.get(f"b{type_.bits // len(vector.parts)}")
    if part is None or type_.name == "b128":
        refuse(ins, "vectors of this size are not supported")
    if isinstance(source, Vector):
        reads = [operands.reads(ins, operand, part) for operand in source.parts]
        if target is None:
            fail(ins, "expected two operands")
        write = operands.writes(ins, target, type_)

        def join(batch: Batch, at: Lanes) -> None:
            parts = np.broadcast_arrays(*[read(batch, at) for read in reads])
            write(batch, at, np.stack(parts, axis=1).view(type_.raw).reshape(-1))

        return join
    if source is None:
        fail(ins, "expected two operands")
    read = operands.reads(ins, source, type_)
    writes = [operands.writes(ins, operand, part) for operand in vector.parts]

    def split(batch: Batch, at: Lanes) -> None:
        whole = np.ascontiguousarray(read(batch, at))
        parts = whole.view(part.raw).reshape(-1, len(writes))
        for i, write_part in enumerate(writes):
            write_part(batch, at, parts[:, i])

    return split


def used_registers(kernel: Kernel) -> int:
    """Return the number of bytes of all registers that one thread of a kernel uses."""
    names = {o.name for ins in kernel.code for o in _registers(ins)}
    return sum(TYPES[kernel.registers[n]].bytes for n in names if n in kernel.registers)


def _registers(ins: Instruction) -> list[Register]:
    found: list[Register] = [ins.guard.predicate] if ins.guard else []
    for operand in ins.operands:
        parts = operand.parts if isinstance(operand, Vector) else (operand,)
        found += [part for part in parts if isinstance(part, Register)]
        found += [operand.first, operand.second] if isinstance(operand, Pair) else []
    return found
