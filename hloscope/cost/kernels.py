"""Kernels: which instructions run by themselves, and who makes each of them.

>>> from hloscope.hlo_parser import parse_hlo
>>> module = parse_hlo("ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) "
...     "ROOT t = (f32[8], f32[8]) tuple(n, p) }")
>>> [(ins.name, str(kind_of(ins))) for ins in kernels_in(module.entry)]
[('n', 'xla emitter')]
"""

from __future__ import annotations

from hloscope.ir import Computation, Instruction
from hloscope.memory import kind_of


def kernels_in(computation: Computation) -> list[Instruction]:
    """Return the instructions of a computation that are kernels, in order.

    Instructions that transfer nothing, such as tuples and dones, are left out. So are loops,
    branches and calls: their kernels are those of the computations that they call.
    """
    return [ins for ins in computation.instructions if kind_of(ins).is_kernel]
