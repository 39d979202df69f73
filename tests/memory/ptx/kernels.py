"""Small kernels written for tests."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from hloscope.api import run_ptx
from hloscope.memory.ptx import PtxRun
from hloscope.support.arrays import Array

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
REGISTERS = """
  .reg .pred %p<9>;
  .reg .b16 %h<9>;
  .reg .b32 %r<20>;
  .reg .b64 %d<20>;
"""


def kernel_text(body: str, pointers: int = 1, more: str = "", name: str = "k") -> str:
    """A kernel with parameters `p0`, `p1` …; `%r19` is the thread, `%d10` … the addresses."""
    params = ", ".join(f".param .u64 .ptr p{i}" for i in range(pointers))
    loads = "".join(f"  ld.param.u64 %d{10 + i}, [p{i}];\n" for i in range(pointers))
    return (
        f"{HEAD}{more}\n.visible .entry {name}({params}) {{\n{REGISTERS}{loads}"
        f"  mov.u32 %r19, %tid.x;\n{body}\n}}\n"
    )


def run_body(
    body: str, *arrays: Array, grid: Any = 1, block: Any = 32, more: str = "", **options: Any
) -> PtxRun:
    """Run a kernel of this body; array `i` is called `p<i>`."""
    named = {f"p{i}": array for i, array in enumerate(arrays)}
    return run_ptx(kernel_text(body, len(arrays), more), named, grid=grid, block=block, **options)


_REGISTER = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}


def compute(name: str, sources: Sequence[Array], result: np.dtype[Any], operand: str = "") -> Array:
    """Values of an instruction, one lane for each element of the sources.

    Args:
        name: `add.s32`; with `@p` the result is a predicate, given as 0 or 1.
        sources: Arrays of one length; bool arrays become predicates.
        result: Type of the result.
        operand: Further operands, as text.
    """
    count = len(sources[0])
    lines, operands, arrays = ["  mov.u32 %r18, %r19;"], [], []
    for i, source in enumerate(sources):
        is_pred = source.dtype == bool
        stored = source.astype(np.uint32) if is_pred else source
        size = stored.dtype.itemsize
        register = f"{_REGISTER[size]}{i + 1}"
        lines += [
            f"  mul.wide.u32 %d9, %r18, {size};",
            f"  add.s64 %d9, %d9, %d{10 + i};",
            f"  ld.global.b{8 * size} {register}, [%d9];",
        ]
        if is_pred:
            lines.append(f"  setp.ne.b32 %p{i + 1}, {register}, 0;")
            register = f"%p{i + 1}"
        operands.append(register)
        arrays.append(stored)
    size = result.itemsize
    target = "%p8" if name.endswith("@p") else f"{_REGISTER[size]}8"
    tail = f", {operand}" if operand else ""
    lines.append(f"  {name.removesuffix('@p')} {target}, {', '.join(operands)}{tail};")
    if target == "%p8":
        target = "%r8"
        lines.append("  selp.b32 %r8, 1, 0, %p8;")
    lines += [
        f"  mul.wide.u32 %d9, %r18, {size};",
        f"  add.s64 %d9, %d9, %d{10 + len(sources)};",
        f"  st.global.b{8 * size} [%d9], {target};",
        "  ret;",
    ]
    run = run_body("\n".join(lines), *arrays, np.zeros(count, result), block=count)
    return run.outputs[f"p{len(sources)}"]


def nearest(exact: Fraction, digits: int, least: int) -> float:
    """A number rounded to `digits` binary digits, ties to even, no finer than `2**least`."""
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    return float(round(exact / unit) * unit)
