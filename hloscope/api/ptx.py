"""Execution of kernels from PTX texts: their arguments, and arrays in memory order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from hloscope.api.running import drawn
from hloscope.api.sources import read_source
from hloscope.errors import InputError, ParseError, UnknownNameError, UnsupportedError, did_you_mean
from hloscope.hlo_parser import parse_type
from hloscope.indexing import major_to_minor
from hloscope.interpreter import byte_size, check_evaluable, dtype_of
from hloscope.ir import TensorType
from hloscope.memory.ptx import (
    Accesses,
    Argument,
    Given,
    Kernel,
    KernelError,
    Launch,
    Limits,
    PtxModule,
    PtxRun,
    answer_of,
    execute,
    parse_ptx,
)
from hloscope.proof import load, save
from hloscope.support.arrays import Array
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_MEMORY, MOST_STEPS, MOST_THREADS

# --------------------------------------------------------------------------------------------------
# Execution of kernels from PTX texts.


Size3: TypeAlias = "int | Sequence[int]"
"""Sizes in x, y and z; missing ones are 1."""


def run_ptx(
    ptx: str | bytes | os.PathLike[str] | PtxModule,
    arguments: Sequence[Any] | Mapping[str, Any],
    *,
    grid: Size3,
    block: Size3,
    kernel: str | None = None,
    shared_bytes: int = 0,
    max_steps: int = MOST_STEPS,
    max_threads: int = MOST_THREADS,
    max_bytes: int = MOST_MEMORY,
    on_access: Callable[[Accesses], None] | None = None,
) -> PtxRun:
    """Execute a kernel, and count the requests, sectors and bank conflicts of its accesses.

    Args:
        ptx: Path of a PTX file; its text or bytes; or what `read_ptx` returned.
        arguments: One for each parameter, in order: an array, of which the kernel gets the address
            of a copy, or a number. In a mapping, keys name the arrays in the result.
        grid: Blocks in x, y and z.
        block: Threads of a block in x, y and z.
        kernel: Name of the kernel, if the text has several.
        shared_bytes: Bytes of dynamic shared memory of a block.
        max_steps: Maximum number of instructions to execute; up to some 30,000 threads execute each
            at once.
        max_threads: Maximum number of threads of the launch.
        max_bytes: Maximum bytes of memory: all arrays and the record of accessed bytes.
        on_access: Called each time that an instruction accesses global memory.

    Returns:
        The counts, and in `outputs` every array afterwards.

    Raises:
        InputError: The file cannot be read.
        ParseError: The text is not PTX, or has an unknown instruction.
        UnsupportedError: The kernel has an instruction that is not executed: matrix instructions,
            TMA, `cp.async`, calls.
        KernelError: The arguments are wrong, an address is outside every array, a limit is
            reached, the kernel executes `trap`.

    >>> text = '''.version 8.8
    ... .target sm_90
    ... .address_size 64
    ... .visible .entry twice(.param .u64 .ptr p) {
    ...   .reg .b32 %r<2>; .reg .b64 %rd<3>;
    ...   ld.param.u64 %rd1, [p];
    ...   mov.u32 %r1, %tid.x;
    ...   mul.wide.u32 %rd2, %r1, 8;
    ...   add.s64 %rd1, %rd1, %rd2;
    ...   ld.global.b32 %r1, [%rd1];
    ...   add.s32 %r1, %r1, %r1;
    ...   st.global.b32 [%rd1], %r1;
    ...   ret;
    ... }'''
    >>> run = run_ptx(text, {"x": np.arange(64, dtype=np.int32)}, grid=1, block=32)
    >>> run.outputs["x"][:5].tolist()
    [0, 1, 4, 3, 8]
    >>> [(a.kind, a.counts.requests, a.counts.sectors) for a in run.arrays]
    [('read', 1, 8), ('written', 1, 8)]
    """
    module = ptx if isinstance(ptx, PtxModule) else read_ptx(ptx)
    chosen = kernel_of_ptx(module, kernel)
    given, originals = _arguments(chosen, arguments)
    launch = Launch(_three(grid), _three(block), shared_bytes)
    limits = Limits(max_steps, max_threads, max_bytes)
    done = execute(module, chosen, launch, given, limits=limits, on_access=on_access)
    return answer_of(done, originals)


def read_ptx(ptx: str | bytes | os.PathLike[str], *, name: str | None = None) -> PtxModule:
    """Read PTX from a path, a text of several lines, or bytes.

    `name` is the name of the source in messages; by default the path.

    Raises:
        InputError: The file cannot be read, or is empty.
        ParseError: The text is not PTX.
    """
    if isinstance(ptx, str) and "\n" in ptx:
        return parse_ptx(ptx, name or "<string>")
    source = read_source(Path(ptx) if isinstance(ptx, str) else ptx, name=name)
    return parse_ptx(source.text, source.name)


def kernel_of_ptx(module: PtxModule, name: str | None) -> Kernel:
    """Return the kernel with the given name, or the only kernel.

    Raises:
        UnknownNameError: No kernel has that name; or `name` is `None` and there is not exactly one
            kernel.
    """
    kernels = module.kernels
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name is None or name not in kernels:
        listed = ", ".join(f"`{k}`" for k in list(kernels)[:8]) or "none"
        near = did_you_mean(name or "", kernels)
        asked = f"no kernel `{name}`{near}" if name else f"{len(kernels)} kernels: name one"
        raise UnknownNameError(f"{asked}; {module.source.name} has {listed}")
    return kernels[name]


def _arguments(
    kernel: Kernel, arguments: Sequence[Any] | Mapping[str, Any]
) -> tuple[list[Given], list[Array]]:
    values = list(arguments.values()) if isinstance(arguments, Mapping) else list(arguments)
    names = list(arguments) if isinstance(arguments, Mapping) else [p.name for p in kernel.params]
    given: list[Given] = []
    originals: list[Array] = []
    for i, value in enumerate(values):
        if isinstance(value, bool | int | float | np.integer | np.floating):
            given.append(value.item() if isinstance(value, np.generic) else value)
            continue
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError(f"argument {i} is an array of Python objects")
        originals.append(array)
        given.append(Argument(str(names[i]) if i < len(names) else f"argument {i}", array))
    return given, originals


def _three(sizes: Size3) -> tuple[int, int, int]:
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not 1 <= len(given) <= 3:
        raise ValueError(f"{given} are not 1 to 3 sizes")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


# --------------------------------------------------------------------------------------------------
# Arguments of kernels in the syntax of the command, and random arrays for HLO types.


MOST_INDEX: Final = 100
"""Exclusive upper bound of random integers, so that they fit into 8 bits."""
_WORD: Final = pattern(r"([A-Za-z_]\w*)=(\S+)")
_ARRAY: Final = pattern(r"([a-z]\w*\[[\d,]*\])(?::(\S+))?")
_INTEGER: Final = pattern(r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)")


def ptx_arguments(
    words: Iterable[str], *, seed: int = 0, max_bytes: int = 1 << 30
) -> dict[str, Array | int | float]:
    """Parse the arguments of a kernel; return them by name.

    Args:
        words: `x=f32[4,8]`, an array of random numbers; `x=f32[4,8]:0`, an array with the number 0
            in every element; `x=FILE.npy`; `n=3` or `a=2.5`, a number.
        seed: Seed of the random numbers.
        max_bytes: Maximum bytes of an array.

    Raises:
        ValueError: A word has none of these forms; the message names it.
        InputError: A file cannot be read.
        KernelError: An array is too large.

    >>> found = ptx_arguments(["x=s32[2]:7", "n=3", "a=0.5"])
    >>> found["x"].tolist(), found["n"], found["a"]
    ([7, 7], 3, 0.5)
    """
    found: dict[str, Array | int | float] = {}
    for number, word in enumerate(words):
        parts = _WORD.fullmatch(word)
        if parts is None:
            raise ValueError(f"`{word}` is not NAME=VALUE")
        name, value = parts[1], parts[2]
        if name in found:
            raise ValueError(f"argument `{name}` is given twice")
        found[name] = _value(name, value, seed + number, max_bytes)
    return found


def _value(name: str, text: str, seed: int, max_bytes: int) -> Array | int | float:
    """Return the argument that a text states: an array from a file, a filled array, or a number.

    Args:
        name: Name of the argument, which also names an array in a `.npz` file.
        text: The text after `=`.
        seed: Seed of random arrays.
        max_bytes: Maximum bytes of an array.
    """
    if text.endswith((".npy", ".npz")):
        arrays = load(text, most_bytes=max_bytes)
        if len(arrays) != 1 and name not in arrays:
            raise InputError(f"{text} has {len(arrays)} arrays, none of them `{name}`")
        return arrays[name] if name in arrays else next(iter(arrays.values()))
    array = _ARRAY.fullmatch(text)
    try:
        if array is not None:
            fill = None if array[2] is None else float(array[2])
            return _array(name, array[1], fill, seed, max_bytes)
        return int(text, 0) if _INTEGER.fullmatch(text) else float(text)
    except ParseError as error:
        raise ValueError(f"`{name}={text}`: {error.message}") from None
    except ValueError:
        what = "an array f32[4,8] or f32[4,8]:0, a file FILE.npy or a number"
        raise ValueError(f"`{name}={text}` is not {what}") from None


def _array(name: str, text: str, fill: float | None, seed: int, max_bytes: int) -> Array:
    """Return an array of the type `text`.

    Args:
        name: Name of the argument, for errors.
        text: The type.
        fill: Value of all elements; `None` for random ones.
        seed: Seed of the random elements.
        max_bytes: Maximum bytes of the array.

    Raises:
        KernelError: The array is too large.
    """
    type_ = parse_type(text)
    assert isinstance(type_, TensorType)  # an element type and sizes, as `_ARRAY` has them
    check_evaluable(type_)
    if byte_size(type_) > max_bytes:
        message = f"argument `{name}` has {byte_size(type_):,} bytes, more than {max_bytes:,}"
        raise KernelError(message, rule="max_bytes")
    if fill is None:
        return drawn(type_, np.random.default_rng(seed), MOST_INDEX)
    return np.full(type_.shape, fill).astype(dtype_of(type_.element))


def save_outputs(path: str, run: PtxRun) -> None:
    """Write the arrays of an executed kernel to a `.npz` file, or its only array to a `.npy` file.

    `path` is the file; the ending of its name decides which of the two is written.

    Raises:
        InputError: The file cannot be written, or a `.npy` file is to hold several arrays.
    """
    save(path, run.outputs)


# --------------------------------------------------------------------------------------------------
# Arrays in the order of GPU memory: elements in the layout's order, 4-bit elements packed.


def to_memory(value: Array, type_: TensorType) -> Array:
    """Return the bytes of an array in memory order, as its type's layout states.

    Two elements of 4 bits share a byte, the first in the low half.

    Raises:
        UnsupportedError: The layout has tiles, or elements have an unsupported size.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> to_memory(np.array([[1, 2], [3, 4]], np.int8), parse_type("s8[2,2]{0,1}")).tolist()
    [1, 3, 2, 4]
    """
    flat = np.ascontiguousarray(np.transpose(value, _order(type_))).reshape(-1)
    if type_.element.bits != 4:
        return flat.view(np.uint8)
    nibbles = flat.view(np.uint8) & 0xF
    padded = np.zeros(len(nibbles) + len(nibbles) % 2, np.uint8)
    padded[: len(nibbles)] = nibbles
    packed: Array = padded[::2] | padded[1::2] << 4
    return packed


def from_memory(content: Array, type_: TensorType) -> Array:
    """Return the array of type `type_` that the given bytes hold: the inverse of `to_memory`.

    Raises:
        UnsupportedError: The layout has tiles, or elements have an unsupported size.
    """
    order, dtype = _order(type_), dtype_of(type_.element)
    sizes = [type_.shape[d] for d in order]
    if type_.element.bits == 4:
        nibbles = np.stack([content & 0xF, content >> 4], axis=1).reshape(-1)[: prod(sizes)]
        # A nibble above 7 is a negative number in two's complement.
        signed = type_.element.kind == "signed"
        nibbles = nibbles.astype(np.int8) - 16 * ((nibbles > 7) & signed).astype(np.int8)
        flat = nibbles.astype(dtype)
    else:
        flat = content.view(dtype)
    found: Array = np.transpose(flat.reshape(sizes), np.argsort(order))
    return found


def _order(type_: TensorType) -> tuple[int, ...]:
    """Return the dimensions of an array, from the slowest to the fastest-varying one in memory.

    Raises:
        UnsupportedError: The layout has tiles, or elements have an unsupported size.
    """
    if type_.is_tiled:
        raise UnsupportedError(f"the layout of {type_} has tiles")
    if type_.element.bits not in (4, 8, 16, 32, 64, 128):
        raise UnsupportedError(f"elements of {type_.element.bits} bits are not laid out")
    return tuple(major_to_minor(type_))
