"""Execution of kernels from PTX texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hloscope.api.sources import read_source
from hloscope.arrays import Array
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.limits import MOST_MEMORY, MOST_STEPS, MOST_THREADS
from hloscope.ptx import (
    Accesses,
    Argument,
    Given,
    Kernel,
    Launch,
    Limits,
    PtxModule,
    PtxRun,
    answer_of,
    execute,
    parse_ptx,
)

Size3: TypeAlias = "int | Sequence[int]"
"""Sizes in x, y and z; those that are not given are 1."""


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
        arguments: One for each parameter, in order: arrays, of which the kernel gets the address of
            a copy, and numbers.  In a mapping their keys name the arrays in the answer.
        grid: Blocks in x, y and z.
        block: Threads of a block in x, y and z.
        kernel: Name of the kernel, if the text has several.
        shared_bytes: Dynamic shared memory of a block.
        max_steps: Most instructions to execute; each is executed by some 30,000 threads at once.
        max_threads: Most threads of the launch.
        max_bytes: Most bytes of memory: all arrays and the record of what is touched.
        on_access: Called for each instruction that accesses global memory, each time.

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
        UnknownNameError: No kernel has that name, or there are several and no name.
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
