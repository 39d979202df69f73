"""Extended-precision arithmetic: `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`.

The carry flag is one bit of each thread.

Source: PTX ISA 8.8, "Extended-Precision Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

from hloscope.arrays import Array, Bools, np
from hloscope.ptx.integers import high_product
from hloscope.ptx.machine import Batch, Lanes
from hloscope.ptx.operands import Operands, fail
from hloscope.ptx.syntax import Instruction
from hloscope.ptx.types import TYPES, PtxType


def with_carry(ins: Instruction, operands: Operands) -> Callable[[Batch, Lanes], None]:
    """Return the step of an instruction that reads or writes the carry flag."""
    *modifiers, name = ins.modifiers
    type_ = TYPES.get(name)
    base, takes = ins.opcode.removesuffix("c"), ins.opcode.endswith("c")
    count = 4 if base == "mad" else 3
    if type_ is None or type_.bits not in (32, 64) or type_.is_float or base not in _OPERATIONS:
        fail(ins, "not an instruction with carry")
    if set(modifiers) - {"cc", "lo", "hi"} or len(ins.operands) != count:
        fail(ins, f"expected {count} operands and the modifiers .cc, .lo or .hi")
    # Unsigned arithmetic wraps in numpy, and a carry shows as a result below an operand.
    unsigned = TYPES[f"u{type_.bits}"]
    reads = [operands.reads(ins, operand, unsigned) for operand in ins.operands[1:]]
    write = operands.writes(ins, ins.operands[0], unsigned)
    gives, is_high = "cc" in modifiers, "hi" in modifiers

    def run(batch: Batch, lanes: Lanes) -> None:
        flag = batch.carry()
        sources = [read(batch, lanes) for read in reads]
        if base == "mad":
            sources = [_product(sources[0], sources[1], type_, is_high=is_high), sources[2]]
        carry = flag[lanes.at] if takes else np.zeros(1, bool)
        value, out = _OPERATIONS[base](sources[0], sources[1], carry)
        write(batch, lanes, value)
        if gives:
            flag[lanes.at] = out

    return run


def _product(a: Array, b: Array, type_: PtxType, *, is_high: bool) -> Array:
    if not is_high:
        return a * b
    high = high_product(a.view(type_.dtype), b.view(type_.dtype))
    return high.view(type_.raw)


def _sum(a: Array, b: Array, carry: Bools) -> tuple[Array, Bools]:
    partial = a + b
    total = partial + carry.astype(a.dtype)
    return total, (partial < a) | (total < partial)


def _difference(a: Array, b: Array, borrow: Bools) -> tuple[Array, Bools]:
    partial = a - b
    total = partial - borrow.astype(a.dtype)
    return total, (a < b) | (total > partial)


_OPERATIONS: dict[str, Callable[[Array, Array, Bools], tuple[Array, Bools]]] = {
    "add": _sum,
    "mad": _sum,
    "sub": _difference,
}
