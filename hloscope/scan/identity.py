"""Identity of kernels by structure, the same in every process and on every machine."""

from __future__ import annotations

from hashlib import blake2b

from hloscope.compare import Structure
from hloscope.ir import Instruction
from hloscope.ops import Constant


class Digests(Structure):
    """Digests of instructions and computations: equal ones mean equal structure.

    As in comparisons of programs, names, the order of instructions, metadata and places do not
    count; types with their layouts, attributes, configurations and constants do.
    """

    def number(self, key: object) -> int:
        """The digest of something, of 128 bits."""
        text = repr(key).encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(text, digest_size=16).digest())

    def of_kernel(self, ins: Instruction) -> str:
        """The digest of an instruction, what it calls, and of the types and constants it reads.

        >>> from hloscope.hlo_parser import parse_hlo
        >>> texts = ["ENTRY e { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }",
        ...          "ENTRY f { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }"]
        >>> len({Digests().of_kernel(parse_hlo(text).entry.root) for text in texts})
        1
        """
        for callee in ins.calls:
            self.of(callee)
        operands = [
            (self._once(value.type), self.label(value) if isinstance(value.op, Constant) else 0)
            for value in ins.operands
        ]
        same = [ins.operands.index(value) for value in ins.operands]
        key = ("kernel", self.label(ins), self.called(ins), tuple(operands), tuple(same))
        return f"{self.number(key):032x}"
