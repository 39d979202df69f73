"""Execution of a dump folder's kernels from their PTX, compared with their HLO.

A kernel of XLA gets one pointer for each array of its operands, then of its outputs. Operands and
outputs that share a buffer are one array in memory; its reads count for the operand, its writes for
the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from hloscope.api.finding import find
from hloscope.api.memory import Model
from hloscope.api.program import read
from hloscope.api.ptx import MOST_INDEX, from_memory, kernel_of_ptx, read_ptx, to_memory
from hloscope.api.running import drawn
from hloscope.display import ExecutedKernel, KernelArray
from hloscope.errors import HloscopeError, InputError, UnsupportedError
from hloscope.fusion import leaf_types
from hloscope.interpreter import World, check_evaluable, dtype_of, evaluate, within
from hloscope.ir import Instruction, TensorType, TupleType, Type
from hloscope.memory import Coalescing
from hloscope.memory.dumps import DumpedModule, DumpFolder
from hloscope.memory.ptx import (
    Argument,
    Given,
    Kernel,
    Launch,
    Limits,
    PtxModule,
    PtxRun,
    Same,
    answer_of,
    execute,
)
from hloscope.ops import Fusion, Sort
from hloscope.proof import leaves, load
from hloscope.support.arrays import Array
from hloscope.support.limits import MAX_BYTES, MOST_FLOPS, MOST_STEPS

_TOLERANCE: Final = {"f32": 1e-3, "f64": 1e-6, "f16": 2e-2, "bf16": 1e-1}
"""Largest allowed difference of outputs, by element type; relative to values above 1.

Kernels may add in another order than the interpreter.
"""
_COARSE: Final = 0.3
"""Largest allowed relative difference for floats of 8 bits or fewer."""


class _KernelTensor(Struct, frozen=True):
    """An array of an operand or output of a kernel.

    `role` is `operand` or `output`. `leaf` is the index in a tuple. `value` is the name of the
    instruction that computes it.
    """

    role: str
    number: int
    leaf: tuple[int, ...]
    type: TensorType
    value: str

    @property
    def name(self) -> str:
        return KernelArray(self.role, self.number, self.leaf, self.type).name


def execute_kernel(
    folder: str | Path,
    name: str,
    *,
    module: str = "",
    inputs: Sequence[Array] | None = None,
    seed: int = 0,
    device: str = "h100",
    limits: Limits | None = None,
) -> ExecutedKernel:
    """Execute the PTX of an instruction in a dump folder.

    Args:
        folder: Folder that `--xla_dump_to` wrote.
        name: Name of the instruction, such as `loop_add_fusion.1`.
        module: Name of the module, if the folder holds several.
        inputs: Arrays of the operands in order; those of tuples one by one. By default floats are
            random values around 0, and integers are random and small enough to be indices.
        seed: Seed of the random inputs.
        device: Name of the GPU of the model that the execution is compared with.
        limits: Limits of the execution.

    Raises:
        InputError: The folder lacks the kernel's PTX or launch dimensions.
        UnknownNameError: No module or instruction has that name.
        UnsupportedError: The kernel cannot be executed; the message states why.
        KernelError: The kernel accesses memory outside its arrays, or a limit is reached.
    """
    dumped = DumpFolder(folder).module(module)
    program = read(dumped.program)
    _, instruction = find(program.module, name)
    ptx, kernel, launch = _code_of(dumped, instruction.name)
    given = _leaves(instruction)
    if len(kernel.params) != len(given):
        found = f"kernel `{kernel.name}` has {len(kernel.params)} parameters"
        raise UnsupportedError(
            f"{found}, `{instruction.name}` {len(given)} arrays: which is which is not known"
        )
    values = _inputs(given, inputs, seed)
    arguments, places = _arguments(given, values, _slices(dumped, given), _sorted(instruction))
    done = execute(ptx, kernel, launch, arguments, limits=limits)
    # The memory model is independent of the execution: if it refuses the kernel, the run still
    # counts.
    originals = [a.array for a in arguments if isinstance(a, Argument)]
    run = answer_of(done, originals, _names(given, places))
    contents = [run.outputs[done.memory.arrays[place].name] for place in places]
    coalescing: Coalescing | None = None
    reason = ""
    try:
        coalescing = Model(device).memory(program.analysis, dumped).of_instruction(instruction)
    except HloscopeError as error:
        reason = error.message
    return ExecutedKernel(
        instruction.name,
        dumped.label,
        run,
        _arrays(given, places, run, coalescing),
        _compared(instruction, given, values, contents),
        coalescing,
        reason,
    )


def execute_named(
    place: str,
    name: str,
    *,
    inputs: str | None = None,
    device: str = "h100",
) -> ExecutedKernel:
    """Execute a kernel named on the command line; see `execute_kernel`.

    Args:
        place: The folder, with the module after `#` if it holds several: `dump#module_0001.jit_f`.
        name: Name of the instruction.
        inputs: A `.npz` or `.npy` file with the arrays of the operands, in order.
        device: Name of the GPU of the model that the execution is compared with.
    """
    folder, _, module = place.partition("#")
    arrays = None if inputs is None else list(load(inputs).values())
    try:
        return execute_kernel(folder, name, module=module, inputs=arrays, device=device)
    except ValueError as error:
        raise InputError(f"{inputs}: {error}") from None


def _code_of(dumped: DumpedModule, name: str) -> tuple[PtxModule, Kernel, Launch]:
    """Return the PTX module, the kernel and the launch dimensions of an instruction.

    Raises:
        UnsupportedError: The instruction launches no kernel of its own, several, or has no PTX.
    """
    launch = dumped.launch(name)
    if launch is None:
        several = dumped.launches(name)
        if several:
            raise UnsupportedError(f"`{name}` launches {len(several)} different kernels")
        raise UnsupportedError(f"`{name}` launches no kernel of its own{_why(dumped)}")
    path = dumped.ptx(name)
    if path is None:
        raise UnsupportedError(f"`{dumped.folder}` holds no PTX of `{name}`{_why(dumped)}")
    ptx = read_ptx(path)
    assert launch.blocks is not None  # as of every launch of a kernel
    assert launch.threads is not None
    sizes = Launch(launch.blocks, launch.threads, launch.shared_bytes)
    return ptx, kernel_of_ptx(ptx, launch.kernel), sizes


def _why(dumped: DumpedModule) -> str:
    if dumped.thunks is None:
        return ": the folder has no *.thunk_sequence.txt, which states the launches"
    kernels = sorted({t.kernel for t in dumped.thunks if t.is_kernel})
    listed = ", ".join(f"`{k}`" for k in kernels[:6])
    return f"; kernels of `{dumped.label}`: {listed or 'none'}"


def _leaves(instruction: Instruction) -> list[_KernelTensor]:
    """Return the arrays of an instruction's operands, then those of its outputs."""
    found = []
    values = [("operand", i, o.type, o.name) for i, o in enumerate(instruction.operands)]
    values.append(("output", 0, instruction.type, instruction.name))
    for role, number, type_, value in values:
        indices = _indices(type_)
        for at, leaf in zip(indices, leaf_types(type_), strict=True):
            if not isinstance(leaf, TensorType):
                raise UnsupportedError(f"{role} {number} has type {leaf}, which is not an array")
            # Outputs of a tuple are numbered one by one, as the model does.
            is_output = role == "output"
            place = (indices.index(at), ()) if is_output and len(indices) > 1 else (number, at)
            found.append(_KernelTensor(role, *place, leaf, value))
    return found


def _indices(type_: Type) -> list[tuple[int, ...]]:
    """Return the index of each array within a tuple type, in order; `()` for an array type."""
    if not isinstance(type_, TupleType):
        return [()]
    return [(i, *rest) for i, part in enumerate(type_.elements) for rest in _indices(part)]


def _slices(dumped: DumpedModule, given: list[_KernelTensor]) -> list[tuple[int, int] | None]:
    """Return allocation number and byte offset of each array of a kernel.

    `None` stands for an array that the folder's buffer assignment lacks.

    Args:
        dumped: The module of the dump folder.
        given: The arrays of operands and outputs.
    """
    slices = {} if dumped.buffers is None else dumped.buffers.slices
    several = sum(leaf.role == "output" for leaf in given) > 1
    found = []
    for leaf in given:
        index = (leaf.number,) if leaf.role == "output" and several else leaf.leaf
        place = slices.get((leaf.value, index))
        found.append(None if place is None else (place.allocation, place.offset))
    return found


def _inputs(given: list[_KernelTensor], inputs: Sequence[Array] | None, seed: int) -> list[Array]:
    """Return the arrays of the operands, with their logical shape.

    Args:
        given: The arrays of operands and outputs, with their types.
        inputs: Values of the operands; `None` for random values.
        seed: Seed of the random values.
    """
    operands = [leaf for leaf in given if leaf.role == "operand"]
    for leaf in given:
        check_evaluable(leaf.type)
        if leaf.type.num_elements * 8 > MAX_BYTES:
            raise UnsupportedError(f"{leaf.name} is too large to execute its kernel")
    if inputs is None:
        sizes = [n for leaf in given for n in leaf.type.shape if n > 1]
        # An integer operand may be an index into any dimension, so it must be below the smallest
        # size.
        below = min([MOST_INDEX, *sizes])
        generator = np.random.default_rng(seed)
        return [drawn(leaf.type, generator, below) for leaf in operands]
    if len(inputs) != len(operands):
        raise ValueError(f"{len(inputs)} inputs are given, the kernel has {len(operands)}")
    found = []
    for leaf, value in zip(operands, inputs, strict=True):
        array = np.asarray(value)
        if array.shape != leaf.type.shape:
            raise ValueError(f"{leaf.name} is {leaf.type}, the input has shape {array.shape}")
        found.append(array.astype(dtype_of(leaf.type.element)))
    return found


def _sorted(instruction: Instruction) -> dict[int, int]:
    """Return, for each output of a sort, the number of the operand that it starts as a copy of.

    XLA copies the operands into the outputs, which its kernel then sorts in place. The result is
    empty if the instruction (or the root of its fusion) is no sort.
    """
    root = instruction.calls[0].root if instruction.calls else instruction
    if not isinstance(root.op, Sort):
        return {}
    body = instruction.calls[0].parameters if root is not instruction else instruction.operands
    numbers = {operand: i for i, operand in enumerate(body)}
    return {i: numbers[o] for i, o in enumerate(root.operands) if o in numbers}


def _arguments(
    given: list[_KernelTensor],
    values: list[Array],
    slices: list[tuple[int, int] | None],
    copies: Mapping[int, int],
) -> tuple[list[Given], list[int]]:
    """Return the kernel's arguments, and for each array the number of its memory array.

    Arrays at the same place of an allocation share one memory array.

    Args:
        given: The arrays of operands and outputs.
        values: Values of the operands.
        slices: Allocation and byte offset of each array, if known.
        copies: For outputs that start as copies: the number of the operand.
    """
    arguments: list[Given] = []
    places: list[int] = []
    first: dict[tuple[int, int], int] = {}
    count = 0
    for i, leaf in enumerate(given):
        at = slices[i]
        # Arrays at the same place of one allocation are one array in memory: an output in place of
        # its operand must start with the operand's content.
        if at is not None and at in first:
            arguments.append(Same(first[at]))
            places.append(places[first[at]])
            continue
        if leaf.role == "operand":
            content = to_memory(values[i], leaf.type)
        elif leaf.number in copies:
            content = to_memory(values[copies[leaf.number]], leaf.type)
        else:
            size = -(-leaf.type.num_elements * leaf.type.element.bits // 8)
            content = np.zeros(size, np.uint8)
        if at is not None:
            first[at] = i
        arguments.append(Argument(leaf.name, content))
        places.append(count)
        count += 1
    return arguments, places


def _names(given: list[_KernelTensor], places: list[int]) -> dict[tuple[int, str], str]:
    """Return names of memory arrays, by the array's number and `read`, `written` or `atomic`.

    Arrays of the kernel can share a memory array. Its reads have the name of the first of them, its
    other accesses that of the last. Operands come before outputs.

    Args:
        given: The arrays of operands and outputs.
        places: Number of the memory array of each.
    """
    names = dict[tuple[int, str], str]()
    for leaf, place in zip(given, places, strict=True):
        names.setdefault((place, "read"), leaf.name)
        names[place, "written"] = names[place, "atomic"] = leaf.name
    return names


def _arrays(
    given: list[_KernelTensor], places: list[int], run: PtxRun, model: Coalescing | None
) -> tuple[KernelArray, ...]:
    """Return the arrays of an executed kernel, with their accesses and the model's figures.

    Args:
        given: The arrays of operands and outputs.
        places: Number of the memory array of each.
        run: The execution.
        model: The model's coalescing of the kernel; `None` without a model.
    """
    found = []
    for leaf, place in zip(given, places, strict=True):
        accesses = {a.kind: a for a in run.arrays if a.array == leaf.name}
        uses = () if model is None else model.operands if leaf.role == "operand" else model.outputs
        siblings = [g for g in given if (g.role, g.number) == (leaf.role, leaf.number)]
        number = siblings.index(leaf)
        # Outputs are numbered one by one, arrays of operands that are tuples by their leaf.
        use = next(
            (u for u in uses if u.number == leaf.number and (u.is_output or u.leaf == number)), None
        )
        shared = places.count(place) > 1
        array = KernelArray(leaf.role, leaf.number, leaf.leaf, leaf.type, shared, accesses, use)
        found.append(array)
    return tuple(found)


def _compared(
    instruction: Instruction, given: list[_KernelTensor], values: list[Array], found: list[Array]
) -> str:
    """Compare the arrays that a kernel wrote with those that the interpreter computes; return text.

    The text states the result, or why nothing was compared.

    Args:
        instruction: The kernel.
        given: The arrays of operands and outputs.
        values: Values of the operands.
        found: Bytes of each array of `given` after the execution.
    """
    if len(instruction.calls) != 1 or not isinstance(instruction.op, Fusion):
        return f"not compared: `{instruction.name}` is not a fusion"
    operands = list[Any](values)
    if any(isinstance(o.type, TupleType) for o in instruction.operands):
        return "not compared: an operand is a tuple"
    try:
        world = World(max_steps=MOST_STEPS, max_flops=MOST_FLOPS)
        (result,) = evaluate(instruction.calls[0], operands, world)
    except HloscopeError as error:
        return f"not compared: {error.message}"
    expected = [array for array, _ in leaves(result, instruction.type)]
    outputs = [(leaf, f) for leaf, f in zip(given, found, strict=True) if leaf.role == "output"]
    for (leaf, content), right in zip(outputs, expected, strict=True):
        size = -(-leaf.type.num_elements * leaf.type.element.bits // 8)
        written = from_memory(content[:size], leaf.type)
        tolerance = _TOLERANCE.get(leaf.type.element.name, _COARSE)
        difference = within(written, np.asarray(right), tolerance, relative=True)
        if difference is not None:
            return f"{leaf.name} differs: {difference}"
    return "equal"
