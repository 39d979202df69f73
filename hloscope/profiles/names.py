"""Names of emitted kernels, and keys of fusions that share a kernel.

Source: XLA `llvm_util.cc` SanitizeFunctionName, `kernel_reuse_cache.cc`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from hloscope.fusion import StructureIds
from hloscope.ir import Computation, Instruction, inside_out
from hloscope.lazy import pattern
from hloscope.ops import Constant

_OUTSIDE: Final = pattern(r"[^A-Za-z0-9_$]")


def kernel_name(instruction: str) -> str:
    """Return the name of the kernel that XLA emits for an instruction.

    >>> kernel_name("loop_add_fusion.3"), kernel_name("2d-fusion")
    ('loop_add_fusion_3', '_2d_fusion')
    """
    name = _OUTSIDE.sub("_", instruction)
    return f"_{name}" if name[:1].isdecimal() else name


class Structures:
    """Keys that are equal for instructions of equal structure, as in XLA's kernel cache.

    The structure is op, types with layouts, called computations and constants. Names and metadata
    do not count. Aliasing of arguments, which XLA also compares, cannot be known from the text.
    """

    def __init__(self) -> None:
        self._structure_ids = StructureIds()
        self._constants: dict[Computation, tuple[str, ...]] = {}

    def key(self, ins: Instruction) -> Hashable:
        """Return the key of an instruction."""
        return (
            type(ins.op),
            str(ins.type),
            tuple([str(operand.type) for operand in ins.operands]),
            tuple([self._structure_ids.number(callee) for callee in ins.calls]),
            tuple([self._constants_in(callee) for callee in ins.calls]),
        )

    def _constants_in(self, computation: Computation) -> tuple[str, ...]:
        # Instructions with one callee share it, and `Structures.key` asks for each of them.
        known = self._constants.get(computation)
        if known is None:
            found: Iterable[Computation] = inside_out(computation, {})
            known = self._constants[computation] = tuple(
                [
                    repr(ins.op)
                    for inner in found
                    for ins in inner.instructions
                    if type(ins.op) is Constant
                ]
            )
        return known
